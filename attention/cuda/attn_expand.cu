/* Pages of FP8 become pages of bf16 for the prefill kernels: of one layer, those that a few sequences see.
 *
 * A thread block has a page of a head, K or V; a thread sixteen codes of a token at a time, which become two stores of
 * sixteen bytes. Slots that hold no token become anything. Bound by memory, three bytes an element: beside the
 * attention of 8,192 tokens over 131,072 keys some hundredth. Needs head_dim divisible by 16. CPU reference:
 * kv_fp8.h. */
#include "attention/cuda/attn_cuda.h"
#include "attention/cuda/kv_fp8.cuh"
#include "device/cuda/launch.cuh"

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) attn_expand(const __grid_constant__ lf_attn_expand_args p)
{
    int heads = 2 * p.n_kv_heads, page = blockIdx.x / heads, head = blockIdx.x % heads; /* those of K, of V */
    int units = p.head_dim / LF_ATTN_FP8_UNIT, n_units = LF_KV_BLOCK_TOKENS * units;
    start_successor();
    wait_predecessor();
    int64_t from = (int64_t)p.tables[page] * p.block_pages + (int64_t)p.layer * heads + head;
    const uint8_t *codes = (const uint8_t *)p.kv + from * p.fp8_page_bytes, *scales = kv_scales(codes, p.head_dim);
    uint4 *out = (uint4 *)p.out + (size_t)blockIdx.x * n_units * 2;
#pragma unroll 2
    for (int i = threadIdx.x; i < n_units; i += THREADS) {
        kv_elements x = kv_expand(((const uint4 *)codes)[i], scales[i / units]);
        out[2 * i] = x.low;
        out[2 * i + 1] = x.high;
    }
}

int lf_attn_expand_setup(void)
{
    return load_kernels(attn_expand);
}

int lf_attn_expand(const struct lf_attn_expand_args *args, void *stream)
{
    if (args->n_pages == 0) return 0;
    unsigned n_blocks = (unsigned)(args->n_pages * 2 * args->n_kv_heads);
    return queue_kernel(attn_expand, {n_blocks, THREADS}, launch_of(args, stream), *args);
}
