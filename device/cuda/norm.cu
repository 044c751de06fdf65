/* RMSNorm of the float residual stream into activations.
 *
 * Work split: a thread block a row. A row of up to MAX_VECS · 4 floats a thread stays in registers between the sum of
 * squares and the scaling, so it is read once; the block's size depends on dim alone, and with it the order of the sum.
 * Shared memory: one float a warp. Bound by memory for many rows (6 bytes an element), by latency for one, which is why
 * the weights are fetched while the predecessor still runs. Needs dim divisible by 4 for the fast kernel; the other
 * takes any. CPU twin: device/cpu/row_cpu.c. */
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/warp.cuh"

enum { MAX_VECS = 4, MAX_THREADS = 1024, ELEMS_PER_THREAD = 4 * MAX_VECS };

template <class T> __global__ void __launch_bounds__(MAX_THREADS) rmsnorm_vec(const lf_rmsnorm_params p)
{
    int n_vecs = p.dim / 4;
    float4 x[MAX_VECS], weight[MAX_VECS];
    const float4 *in = (const float4 *)(p.x + (size_t)blockIdx.x * p.dim);
    start_successor();
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = threadIdx.x + i * blockDim.x;
        if (at < n_vecs) weight[i] = __ldg((const float4 *)p.weight + at);
    }
    wait_predecessor();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = threadIdx.x + i * blockDim.x;
        x[i] = at < n_vecs ? in[at] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
    }
    float scale = 1.0f / sqrtf(block_sum(sum) / (float)p.dim + p.eps);
    uint2 *out = (uint2 *)((T *)p.out + (size_t)blockIdx.x * p.dim);
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = threadIdx.x + i * blockDim.x;
        if (at >= n_vecs) continue;
        float4 w = weight[i];
        out[at] = make_uint2(pack<T>(x[i].x * scale * w.x, x[i].y * scale * w.y),
                             pack<T>(x[i].z * scale * w.z, x[i].w * scale * w.w));
    }
}

template <class T> __global__ void __launch_bounds__(MAX_THREADS) rmsnorm_any(const lf_rmsnorm_params p)
{
    const float *in = p.x + (size_t)blockIdx.x * p.dim;
    T *out = (T *)p.out + (size_t)blockIdx.x * p.dim;
    start_successor();
    wait_predecessor();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < p.dim; i += blockDim.x) sum += in[i] * in[i];
    float scale = 1.0f / sqrtf(block_sum(sum) / (float)p.dim + p.eps);
    for (int i = threadIdx.x; i < p.dim; i += blockDim.x) out[i] = from_float<T>(in[i] * scale * p.weight[i]);
}

int lf_cuda_norm_setup(void)
{
    return load_kernels(rmsnorm_vec<bf16>, rmsnorm_vec<fp16>, rmsnorm_any<bf16>, rmsnorm_any<fp16>);
}

int lf_cuda_rmsnorm(const struct lf_rmsnorm_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    int threads = (p->dim / ELEMS_PER_THREAD + WARP - 1) / WARP * WARP;
    threads = max((int)WARP, min(threads, (int)MAX_THREADS));
    launch_shape shape = {(unsigned)p->n_tokens, (unsigned)threads};
    if (p->dim % 4 == 0 && p->dim <= threads * 4 * MAX_VECS)
        return queue_kernel(how.fp16 ? rmsnorm_vec<fp16> : rmsnorm_vec<bf16>, shape, how, *p);
    return queue_kernel(how.fp16 ? rmsnorm_any<fp16> : rmsnorm_any<bf16>, shape, how, *p);
}
