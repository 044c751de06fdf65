/* RMSNorm of the float residual stream into activations, or into floats, without a weight, onto a residual.
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

/* Four channels of the output. */
template <class T> LF_GPU_FN void store_four(T *out, int at, float4 y)
{
    ((uint2 *)out)[at] = make_uint2(pack<T>(y.x, y.y), pack<T>(y.z, y.w));
}

template <> LF_GPU_MEMBER void store_four<float>(float *out, int at, float4 y)
{
    ((float4 *)out)[at] = y;
}

/* IS_PLAIN: there is a weight, and neither a residual nor a scale. T may be float. */
template <class T, bool IS_PLAIN> __global__ void __launch_bounds__(MAX_THREADS) rmsnorm_vec(const lf_rmsnorm_params p)
{
    int n_vecs = p.dim / 4;
    float4 x[MAX_VECS], weight[MAX_VECS];
    const float4 *in = (const float4 *)(p.x + (size_t)blockIdx.x * p.dim);
    const float4 *residual = (const float4 *)(p.residual + (size_t)blockIdx.x * p.dim);
    start_successor();
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = threadIdx.x + i * blockDim.x;
        if (!IS_PLAIN) weight[i] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
        if (at < n_vecs && (IS_PLAIN || p.weight)) weight[i] = __ldg((const float4 *)p.weight + at);
    }
    wait_predecessor();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = threadIdx.x + i * blockDim.x;
        x[i] = at < n_vecs ? in[at] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
    }
    float scale = 1.0f / sqrtf(block_sum(sum) / (float)p.dim + p.eps), by = !IS_PLAIN && p.scale ? *p.scale : 1.0f;
    T *out = (T *)p.out + (size_t)blockIdx.x * p.dim;
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = threadIdx.x + i * blockDim.x;
        if (at >= n_vecs) continue;
        float4 w = weight[i],
               y = make_float4(x[i].x * scale * w.x, x[i].y * scale * w.y, x[i].z * scale * w.z, x[i].w * scale * w.w);
        if (!IS_PLAIN && p.residual) {
            float4 r = residual[at];
            y = make_float4(y.x + r.x, y.y + r.y, y.z + r.z, y.w + r.w);
        }
        if (!IS_PLAIN) y = make_float4(y.x * by, y.y * by, y.z * by, y.w * by);
        store_four<T>(out, at, y);
    }
}

template <class T, bool IS_PLAIN> __global__ void __launch_bounds__(MAX_THREADS) rmsnorm_any(const lf_rmsnorm_params p)
{
    const float *in = p.x + (size_t)blockIdx.x * p.dim, *residual = p.residual + (size_t)blockIdx.x * p.dim;
    T *out = (T *)p.out + (size_t)blockIdx.x * p.dim;
    start_successor();
    wait_predecessor();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < p.dim; i += blockDim.x) sum += in[i] * in[i];
    float scale = 1.0f / sqrtf(block_sum(sum) / (float)p.dim + p.eps), by = !IS_PLAIN && p.scale ? *p.scale : 1.0f;
    for (int i = threadIdx.x; i < p.dim; i += blockDim.x) {
        float y = in[i] * scale * (IS_PLAIN || p.weight ? p.weight[i] : 1.0f);
        if (!IS_PLAIN && p.residual) y += residual[i];
        if (!IS_PLAIN) y *= by;
        out[i] = from_float<T>(y);
    }
}

template <class T> static int load_type()
{
    return load_kernels(rmsnorm_vec<T, true>, rmsnorm_vec<T, false>, rmsnorm_any<T, true>, rmsnorm_any<T, false>);
}

int lf_cuda_norm_setup(void)
{
    int rc = load_type<bf16>();
    if (rc == 0) rc = load_type<fp16>();
    return rc == 0 ? load_type<float>() : rc;
}

typedef void norm_kernel(const lf_rmsnorm_params);

template <class T> static norm_kernel *find_kernel(bool is_plain, bool is_vec)
{
    if (is_plain) return is_vec ? rmsnorm_vec<T, true> : rmsnorm_any<T, true>;
    return is_vec ? rmsnorm_vec<T, false> : rmsnorm_any<T, false>;
}

int lf_cuda_rmsnorm(const struct lf_rmsnorm_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    int threads = (p->dim / ELEMS_PER_THREAD + WARP - 1) / WARP * WARP;
    threads = max((int)WARP, min(threads, (int)MAX_THREADS));
    bool is_vec = p->dim % 4 == 0 && p->dim <= threads * 4 * MAX_VECS,
         is_plain = p->weight && !p->residual && !p->scale;
    auto kernel = p->out_float ? find_kernel<float>(is_plain, is_vec)
                  : how.fp16   ? find_kernel<fp16>(is_plain, is_vec)
                               : find_kernel<bf16>(is_plain, is_vec);
    return queue_kernel(kernel, {(unsigned)p->n_tokens, (unsigned)threads}, how, *p);
}
