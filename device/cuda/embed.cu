/* Copies of rows picked by index: embedding (widened to float) and gather (as it is).
 *
 * Work split: a thread block a row, its threads along it. No shared memory. Bound by memory for many rows, by latency
 * for one. CPU twins: embed and gather of device/cpu/ops_cpu.c. */
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"

enum { THREADS = 128 };

template <class T>
__global__ void __launch_bounds__(THREADS)
    embed_rows(float *out, const T *table, const int32_t *ids, const int32_t *sampled, int dim)
{
    start_successor();
    wait_predecessor();
    int id = ids[blockIdx.x];
    if (id < 0) id = sampled[-1 - id];
    const T *from = table + (size_t)id * dim;
    float *to = out + (size_t)blockIdx.x * dim;
    if (dim % 4 == 0) {
        for (int i = threadIdx.x; i < dim / 4; i += THREADS) {
            uint2 words = __ldg((const uint2 *)from + i);
            float2 low = unpack<T>(words.x), high = unpack<T>(words.y);
            ((float4 *)to)[i] = make_float4(low.x, low.y, high.x, high.y);
        }
        return;
    }
    for (int i = threadIdx.x; i < dim; i += THREADS) to[i] = to_float(from[i]);
}

/* n words of type W a row. */
template <class W>
__global__ void __launch_bounds__(THREADS) gather_rows(W *out, const W *x, const int32_t *rows, size_t n)
{
    start_successor();
    wait_predecessor();
    const W *from = x + (size_t)rows[blockIdx.x] * n;
    W *to = out + (size_t)blockIdx.x * n;
    for (size_t i = threadIdx.x; i < n; i += THREADS) to[i] = from[i];
}

int lf_cuda_embed_setup(void)
{
    int rc = load_kernel(embed_rows<bf16>);
    if (rc == 0) rc = load_kernel(embed_rows<fp16>);
    if (rc == 0) rc = load_kernel(gather_rows<uint4>);
    if (rc == 0) rc = load_kernel(gather_rows<uint16_t>);
    return rc;
}

int lf_cuda_embed(const struct lf_embed_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    dim3 grid((unsigned)p->n_tokens);
    const void *table = p->table->data;
    int dim = p->table->n_in;
    if (how.fp16)
        return queue_kernel(embed_rows<fp16>, grid, THREADS, how, p->out, (const fp16 *)table, p->ids, p->sampled, dim);
    return queue_kernel(embed_rows<bf16>, grid, THREADS, how, p->out, (const bf16 *)table, p->ids, p->sampled, dim);
}

int lf_cuda_gather(void *out, const void *x, const int32_t *rows, int n_rows, size_t row_bytes,
                   struct lf_cuda_launch how)
{
    if (n_rows == 0) return 0;
    dim3 grid((unsigned)n_rows);
    bool wide = ((size_t)out | (size_t)x | row_bytes) % sizeof(uint4) == 0;
    if (wide)
        return queue_kernel(gather_rows<uint4>, grid, THREADS, how, (uint4 *)out, (const uint4 *)x, rows,
                            row_bytes / sizeof(uint4));
    return queue_kernel(gather_rows<uint16_t>, grid, THREADS, how, (uint16_t *)out, (const uint16_t *)x, rows,
                        row_bytes / sizeof(uint16_t));
}
