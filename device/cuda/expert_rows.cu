/* Expert ops that no matrix unit is needed for: the weighted sum of a token's expert rows, and a grouped GEMM of any
 * shape, slowly, which the others are compared with.
 *
 * Work split of the sum: a thread has four neighbouring channels of a token and adds its rows in the order of the
 * choices, eight at a time in flight. Bound by memory: 4 k + 4 (8 with a residual) bytes a channel. The vector kernel
 * needs dim divisible by 4 and 16-byte alignment, the other takes any. CPU twin: expert_sum of device/cpu. */
#include "core/limits.h"
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/warp.cuh"

enum { THREADS = 128, IN_FLIGHT = 8, GEMM_WARPS = 8 };

LF_GPU_FN float4 multiply_add(float w, float4 x, float4 sum)
{
    return make_float4(fmaf(w, x.x, sum.x), fmaf(w, x.y, sum.y), fmaf(w, x.z, sum.z), fmaf(w, x.w, sum.w));
}

LF_GPU_FN float multiply_add(float w, float x, float sum)
{
    return fmaf(w, x, sum);
}

LF_GPU_FN float4 add(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

LF_GPU_FN float add(float a, float b)
{
    return a + b;
}

/* V: float4 or float. */
template <class V> __global__ void __launch_bounds__(THREADS) expert_sum(const lf_expert_sum_params p)
{
    int at = blockIdx.x * THREADS + threadIdx.x, n = p.dim * (int)sizeof(float) / (int)sizeof(V);
    start_successor();
    wait_predecessor();
    if (at >= n) return;
    for (int token = blockIdx.y; token < p.n_tokens; token += gridDim.y) {
        const int32_t *places = p.places + (size_t)token * p.k;
        const float *weights = p.weights + (size_t)token * p.k;
        V sum = {};
        for (int first = 0; first < p.k; first += IN_FLIGHT) {
            V x[IN_FLIGHT];
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; i++)
                if (first + i < p.k) x[i] = ((const V *)p.x)[(size_t)places[first + i] * n + at];
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; i++)
                if (first + i < p.k) sum = multiply_add(weights[first + i], x[i], sum);
        }
        size_t out = (size_t)token * n + at;
        if (p.residual) sum = add(((const V *)p.residual)[out], sum);
        ((V *)p.y)[out] = sum;
    }
}

/* ---- any grouped GEMM: a warp an output ---- */

struct any_args {
    lf_expert_gemm_params p;
    const char *w;
    size_t expert_bytes;
    int n_in, n_out, n_experts;
};

/* The expert of a sorted row: the last whose first row is not behind it. */
LF_GPU_FN int expert_of(const int32_t *first, int n_experts, int row)
{
    int low = 0, high = n_experts - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (first[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

template <class T>
__global__ void __launch_bounds__(GEMM_WARPS *WARP) expert_gemm_any(const __grid_constant__ any_args a)
{
    const lf_expert_gemm_params &p = a.p;
    int lane = threadIdx.x % WARP, col = blockIdx.x * GEMM_WARPS + threadIdx.x / WARP;
    wait_predecessor();
    start_successor(); /* in this order: expert_gemv.cu says why */
    if (col >= a.n_out) return;
    for (int row = blockIdx.y; row < p.n_tokens * p.k; row += gridDim.y) {
        int expert = expert_of(p.first, a.n_experts, row), from = p.x_by_token ? p.rows[row] / p.k : row;
        const T *w = (const T *)(a.w + expert * a.expert_bytes) + (size_t)col * a.n_in;
        const T *x = (const T *)p.x + (size_t)from * a.n_in;
        float sum = 0.0f;
        for (int i = lane; i < a.n_in; i += WARP) sum += to_float(w[i]) * to_float(x[i]);
        sum = warp_sum(sum);
        if (p.bias) sum += p.bias[(size_t)expert * a.n_out + col];
        if (lane != 0) continue;
        size_t at = (size_t)row * a.n_out + col;
        if (p.y_float)
            ((float *)p.y)[at] = sum;
        else
            ((T *)p.y)[at] = from_float<T>(sum);
    }
}

/* ---- host ---- */

int lf_cuda_expert_rows_setup(void)
{
    return load_kernels(expert_sum<float4>, expert_sum<float>, expert_gemm_any<bf16>, expert_gemm_any<fp16>);
}

int lf_cuda_expert_sum(const struct lf_expert_sum_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    bool vec = p->dim % 4 == 0 && ((size_t)p->y | (size_t)p->residual | (size_t)p->x) % 16 == 0;
    unsigned rows = (unsigned)min(p->n_tokens, (int)MOST_GRID_Y);
    return queue_kernel(vec ? expert_sum<float4> : expert_sum<float>,
                        {dim3(blocks_for(vec ? p->dim / 4 : p->dim, THREADS), rows), THREADS}, how, *p);
}

int lf_cuda_expert_gemm_any(const struct lf_expert_gemm_params *p, size_t expert_bytes, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    any_args a = {*p, (const char *)p->w->data, expert_bytes, p->w->n_in, p->w->n_out, p->w->n_experts};
    dim3 grid(blocks_for(p->w->n_out, GEMM_WARPS), (unsigned)min(p->n_tokens * p->k, (int)MOST_GRID_Y));
    return queue_kernel(how.fp16 ? expert_gemm_any<fp16> : expert_gemm_any<bf16>, {grid, GEMM_WARPS * WARP}, how, a);
}
