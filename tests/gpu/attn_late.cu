/* A predecessor that is late, for tests of what a kernel does before its predecessor is complete: it lets its successor
 * start, waits until that must have read all it dares to, and only then copies. */
#include "device/cuda/launch.cuh"

enum { CTAS = 8, THREADS = 256 };

struct copy {
    uint32_t *to;
    const uint32_t *from;
    int64_t n_words;
};

struct late_args {
    const copy *copies;
    int n;
    int64_t n_cycles;
};

static __global__ void late_copies(const __grid_constant__ late_args p)
{
    start_successor();
    wait_predecessor();
    for (int64_t begin = clock64(); clock64() - begin < p.n_cycles;) {
    }
    for (int i = blockIdx.x; i < p.n; i += gridDim.x) {
        copy c = p.copies[i];
        for (int64_t word = threadIdx.x; word < c.n_words; word += blockDim.x) c.to[word] = c.from[word];
    }
}

/* Puts n copies, a list in device memory, into the stream; they wait for n_cycles of a multiprocessor. */
extern "C" int lf_attn_late_copies(const void *copies, int n, int64_t n_cycles, void *stream)
{
    int rc = load_kernel(late_copies);
    if (rc != 0) return rc;
    lf_cuda_launch how = {stream, false, false};
    late_args args = {(const copy *)copies, n, n_cycles};
    return queue_kernel(late_copies, {CTAS, THREADS}, how, args);
}
