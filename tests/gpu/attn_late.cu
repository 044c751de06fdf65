/* A predecessor that is late, for tests of what a kernel does before its predecessor is complete: it lets its successor
 * start, waits until that must have read all it dares to, and only then copies. */
#include "device/cuda/launch.cuh"

enum { CTAS = 8, THREADS = 256 };

struct copy {
    uint32_t *to;
    const uint32_t *from;
    int64_t n_words;
};

static __global__ void late_copies(const copy *copies, int n, int64_t n_cycles)
{
    start_successor();
    wait_predecessor();
    for (int64_t begin = clock64(); clock64() - begin < n_cycles;) {
    }
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        copy c = copies[i];
        for (int64_t word = threadIdx.x; word < c.n_words; word += blockDim.x) c.to[word] = c.from[word];
    }
}

/* Puts n copies, a list in device memory, into the stream; they wait for n_cycles of a multiprocessor. */
extern "C" int lf_attn_late_copies(const void *copies, int n, int64_t n_cycles, void *stream)
{
    int rc = load_kernel(late_copies);
    if (rc != 0) return rc;
    lf_cuda_launch how = {stream, false, false};
    return queue_kernel(late_copies, dim3(CTAS), THREADS, how, (const copy *)copies, n, n_cycles);
}
