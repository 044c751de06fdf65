/* RMSNorm of the float residual stream into activations, or into floats, without a weight, onto a residual.
 *
 * Work split: a thread block a row. A row of up to MAX_VECS · 4 floats a thread stays in registers between the sum of
 * squares and the scaling, so it is read once; the block's size depends on dim alone, and with it the order of the sum.
 * Shared memory: one float a warp. Bound by memory for many rows (6 bytes an element), by latency for one, which is why
 * the weights are fetched while the predecessor still runs. Needs dim divisible by 4 for the fast kernel; the other
 * takes any. CPU twin: device/cpu/row_cpu.c.
 *
 * Codes instead of elements (x_codes.h): a thread rounds its outputs to elements, which stay in registers; then the
 * largest of the block, which has the row, or of a warp, which has 128 neighbouring columns at a time, gives the scale.
 */
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/quant.cuh"

enum { MAX_VECS = 4, MAX_THREADS = 1024, ELEMS_PER_THREAD = 4 * MAX_VECS };
static_assert((int)LF_NORM_CODES_DIM == MAX_THREADS * ELEMS_PER_THREAD, "a row of codes is in registers");
static_assert((int)LF_FP8_BLOCK == WARP * 4, "a warp's vectors are a block of columns");

/* Four channels of the output. */
template <class T> LF_GPU_FN void store_four(T *out, int at, float4 y)
{
    ((uint2 *)out)[at] = make_uint2(pack<T>(y.x, y.y), pack<T>(y.z, y.w));
}

template <> LF_GPU_MEMBER void store_four<float>(float *out, int at, float4 y)
{
    ((float4 *)out)[at] = y;
}

/* A thread's vectors of a row: vector i is column 4 · (thread + i · threads). */
struct norm_row {
    float4 x[MAX_VECS], weight[MAX_VECS];

    LF_GPU_MEMBER static int at(int i)
    {
        return threadIdx.x + i * blockDim.x;
    }

    /* Ones where there are none. */
    LF_GPU_MEMBER void load_weights(const float *from, int n_vecs)
    {
#pragma unroll
        for (int i = 0; i < MAX_VECS; i++) {
            weight[i] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
            if (at(i) < n_vecs && from) weight[i] = __ldg((const float4 *)from + at(i));
        }
    }

    /* Also the row's scale. */
    LF_GPU_MEMBER float load(const float *from, int dim, float eps)
    {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < MAX_VECS; i++) {
            x[i] = at(i) < dim / 4 ? ((const float4 *)from)[at(i)] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            sum += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
        }
        return 1.0f / sqrtf(block_sum(sum) / (float)dim + eps);
    }

    LF_GPU_MEMBER float4 scaled(int i, float scale) const
    {
        float4 w = weight[i];
        return make_float4(x[i].x * scale * w.x, x[i].y * scale * w.y, x[i].z * scale * w.z, x[i].w * scale * w.w);
    }
};

/* IS_PLAIN: there is a weight, and neither a residual nor a scale. T may be float. */
template <class T, bool IS_PLAIN> __global__ void __launch_bounds__(MAX_THREADS) rmsnorm_vec(const lf_rmsnorm_params p)
{
    norm_row row;
    const float4 *residual = (const float4 *)(p.residual + (size_t)blockIdx.x * p.dim);
    start_successor();
    row.load_weights(p.weight, p.dim / 4);
    wait_predecessor();
    float scale = row.load(p.x + (size_t)blockIdx.x * p.dim, p.dim, p.eps), by = !IS_PLAIN && p.scale ? *p.scale : 1.0f;
    T *out = (T *)p.out + (size_t)blockIdx.x * p.dim;
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = row.at(i);
        if (at >= p.dim / 4) continue;
        float4 y = row.scaled(i, scale);
        if (!IS_PLAIN && p.residual) {
            float4 r = residual[at];
            y = make_float4(y.x + r.x, y.y + r.y, y.z + r.z, y.w + r.w);
        }
        if (!IS_PLAIN) y = make_float4(y.x * by, y.y * by, y.z * by, y.w * by);
        store_four<T>(out, at, y);
    }
}

template <class T, lf_fp8_scales BY>
__global__ void __launch_bounds__(MAX_THREADS) rmsnorm_codes(const lf_rmsnorm_params p)
{
    norm_row row;
    quant_unit<T, 4> y[MAX_VECS];
    row.load_weights(p.weight, p.dim / 4);
    wait_predecessor();
    float norm = row.load(p.x + (size_t)blockIdx.x * p.dim, p.dim, p.eps), most = 0.0f, scale = 0.0f;
    start_successor(); /* a GEMM, and what its weights ask of memory would hold up the row */
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        float4 v = row.scaled(i, norm);
        y[i].take({pack<T>(v.x, v.y), pack<T>(v.z, v.w)});
        if (row.at(i) < p.dim / 4) most = larger(most, y[i].largest());
    }
    if (BY == LF_FP8_ROWS) {
        scale = scale_of(block_largest(most));
        if (threadIdx.x == 0) p.codes.scales[blockIdx.x] = scale;
    }
    uint32_t *codes = (uint32_t *)(p.codes.codes + (size_t)blockIdx.x * p.dim);
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = row.at(i);
        bool is_there = at < p.dim / 4;
        if (BY == LF_FP8_BLOCKS) {
            scale = scale_of(lanes_reduce<WARP>(is_there ? y[i].largest() : 0.0f, larger));
            if (is_there && at % WARP == 0)
                p.codes.scales[(size_t)(at / WARP) * p.codes.scale_stride + blockIdx.x] = scale;
        }
        if (is_there) codes[at] = y[i].codes(0, __frcp_rn(scale));
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
    if (rc == 0) rc = load_type<float>();
    if (rc == 0) rc = load_kernels(rmsnorm_codes<bf16, LF_FP8_BLOCKS>, rmsnorm_codes<bf16, LF_FP8_ROWS>);
    return rc == 0 ? load_kernels(rmsnorm_codes<fp16, LF_FP8_BLOCKS>, rmsnorm_codes<fp16, LF_FP8_ROWS>) : rc;
}

typedef void norm_kernel(const lf_rmsnorm_params);

template <class T> static norm_kernel *find_kernel(bool is_plain, bool is_vec)
{
    if (is_plain) return is_vec ? rmsnorm_vec<T, true> : rmsnorm_any<T, true>;
    return is_vec ? rmsnorm_vec<T, false> : rmsnorm_any<T, false>;
}

template <class T> static norm_kernel *find_codes_kernel(lf_fp8_scales by)
{
    return by == LF_FP8_BLOCKS ? rmsnorm_codes<T, LF_FP8_BLOCKS> : rmsnorm_codes<T, LF_FP8_ROWS>;
}

int lf_cuda_rmsnorm(const struct lf_rmsnorm_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    int threads = (p->dim / ELEMS_PER_THREAD + WARP - 1) / WARP * WARP;
    threads = max((int)WARP, min(threads, (int)MAX_THREADS));
    bool is_vec = p->dim % 4 == 0 && p->dim <= threads * 4 * MAX_VECS,
         is_plain = p->weight && !p->residual && !p->scale;
    if (p->codes.codes)
        return queue_kernel(how.fp16 ? find_codes_kernel<fp16>(p->codes.by) : find_codes_kernel<bf16>(p->codes.by),
                            {(unsigned)p->n_tokens, (unsigned)threads}, how, *p);
    auto kernel = p->out_float ? find_kernel<float>(is_plain, is_vec)
                  : how.fp16   ? find_kernel<fp16>(is_plain, is_vec)
                               : find_kernel<bf16>(is_plain, is_vec);
    return queue_kernel(kernel, {(unsigned)p->n_tokens, (unsigned)threads}, how, *p);
}
