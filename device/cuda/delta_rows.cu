/* Rows of a gated delta net's end, and gates of rows: out = norm(x) · weight · silu(gate) of each head, and out = x ·
 * σ(gate) (+ residual).
 *
 * Bound by memory: 6 bytes an element, 10 to 14 for floats. gated_norm: a warp has a head of a token; up to MAX_VECS ·
 * 4 elements a lane stay in registers between the sum of squares and the scaling; wider or unaligned rows are read
 * twice. gate_sigmoid: a thread has four neighbouring elements, or one where rows are not so divisible. CPU twin:
 * device/cpu.
 */
#include "device/cuda/delta.cuh"
#include "device/cuda/delta_cuda.h"
#include "device/cuda/elem.cuh"
#include "device/cuda/warp.cuh"

enum { WARPS = 8, THREADS = WARPS * WARP, MAX_VECS = 2 };

template <class T> LF_GPU_FN float4 load_four(const T *src)
{
    uint2 words = *(const uint2 *)src;
    float2 a = unpack<T>(words.x), b = unpack<T>(words.y);
    return make_float4(a.x, a.y, b.x, b.y);
}
template <> LF_GPU_MEMBER float4 load_four<float>(const float *src)
{
    return *(const float4 *)src;
}

template <class T> LF_GPU_FN void store_four(T *to, float4 y)
{
    *(uint2 *)to = make_uint2(pack<T>(y.x, y.y), pack<T>(y.z, y.w));
}
template <> LF_GPU_MEMBER void store_four<float>(float *to, float4 y)
{
    *(float4 *)to = y;
}

template <class X> LF_GPU_FN float widen(X x)
{
    return to_float(x);
}
template <> LF_GPU_MEMBER float widen<float>(float x)
{
    return x;
}

LF_GPU_FN float silu(float x)
{
    return x * sigmoid(x);
}

template <class T> LF_GPU_FN void norm_in_registers(const lf_gated_norm_params &p, const T *x, const T *gate, T *out)
{
    int lane = threadIdx.x % WARP, n_vecs = p.dim / 4;
    float4 in[MAX_VECS];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = lane + i * WARP;
        in[i] = at < n_vecs ? load_four(x + 4 * at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum += in[i].x * in[i].x + in[i].y * in[i].y + in[i].z * in[i].z + in[i].w * in[i].w;
    }
    float scale = 1.0f / sqrtf(warp_sum(sum) / (float)p.dim + p.eps);
#pragma unroll
    for (int i = 0; i < MAX_VECS; i++) {
        int at = lane + i * WARP;
        if (at >= n_vecs) continue;
        float4 w = __ldg((const float4 *)p.weight + at), g = load_four(gate + 4 * at);
        store_four(out + 4 * at, make_float4(in[i].x * scale * w.x * silu(g.x), in[i].y * scale * w.y * silu(g.y),
                                             in[i].z * scale * w.z * silu(g.z), in[i].w * scale * w.w * silu(g.w)));
    }
}

template <class T> LF_GPU_FN void norm_any(const lf_gated_norm_params &p, const T *x, const T *gate, T *out)
{
    float sum = 0.0f;
    for (int i = threadIdx.x % WARP; i < p.dim; i += WARP) sum += to_float(x[i]) * to_float(x[i]);
    float scale = 1.0f / sqrtf(warp_sum(sum) / (float)p.dim + p.eps);
    for (int i = threadIdx.x % WARP; i < p.dim; i += WARP)
        out[i] = from_float<T>(to_float(x[i]) * scale * p.weight[i] * silu(to_float(gate[i])));
}

template <class T, bool IS_VEC> __global__ void __launch_bounds__(THREADS) gated_norm(const lf_gated_norm_params p)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, token = row / p.n_heads;
    int head = (int)(row % p.n_heads);
    start_successor();
    wait_predecessor();
    if (token >= p.n_tokens) return;
    const T *x = (const T *)p.x + row * p.dim, *gate = (const T *)p.gate + token * p.gate_stride + head * p.dim;
    T *out = (T *)p.out + row * p.dim;
    if (IS_VEC)
        norm_in_registers(p, x, gate, out);
    else
        norm_any(p, x, gate, out);
}

/* X: of x and out. */
template <class T, class X, int VEC>
__global__ void __launch_bounds__(THREADS) gate_sigmoid(const lf_gate_sigmoid_params p)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VEC, row = at / p.dim;
    start_successor();
    wait_predecessor();
    if (row >= p.n_tokens) return;
    const X *x = (const X *)p.x + at;
    const T *gate = (const T *)p.gate + at;
    X *out = (X *)p.out + at;
    float of_row = p.of_token ? sigmoid(((const float *)p.gate)[row]) : 0.0f;
    if constexpr (VEC == 4) {
        float4 y = load_four(x), g = make_float4(of_row, of_row, of_row, of_row);
        if (!p.of_token) {
            g = load_four(gate);
            g = make_float4(sigmoid(g.x), sigmoid(g.y), sigmoid(g.z), sigmoid(g.w));
        }
        y = make_float4(y.x * g.x, y.y * g.y, y.z * g.z, y.w * g.w);
        if (p.residual) {
            float4 r = *(const float4 *)(p.residual + at);
            y = make_float4(y.x + r.x, y.y + r.y, y.z + r.z, y.w + r.w);
        }
        store_four(out, y);
    } else {
        float y = widen(*x) * (p.of_token ? of_row : sigmoid(to_float(*gate)));
        *out = from_float<X>(p.residual ? y + p.residual[at] : y);
    }
}

/* ---- host ---- */

typedef void gate_kernel(const lf_gate_sigmoid_params);

template <class T> static gate_kernel *find_gate(bool is_float, bool is_vec)
{
    if (is_float) return is_vec ? gate_sigmoid<T, float, 4> : gate_sigmoid<T, float, 1>;
    return is_vec ? gate_sigmoid<T, T, 4> : gate_sigmoid<T, T, 1>;
}

template <class T> static int load_type()
{
    return load_kernels(gated_norm<T, false>, gated_norm<T, true>, find_gate<T>(false, false),
                        find_gate<T>(false, true), find_gate<T>(true, false), find_gate<T>(true, true));
}

int lf_cuda_delta_rows_setup(void)
{
    int rc = load_type<bf16>();
    return rc == 0 ? load_type<fp16>() : rc;
}

static bool is_aligned(const void *ptr, unsigned bytes)
{
    return (uintptr_t)ptr % bytes == 0;
}

int lf_cuda_gated_norm(const struct lf_gated_norm_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    bool is_vec = p->dim % 4 == 0 && p->dim <= 4 * WARP * MAX_VECS && p->gate_stride % 4 == 0 && is_aligned(p->x, 8) &&
                  is_aligned(p->gate, 8) && is_aligned(p->out, 8) && is_aligned(p->weight, 16);
    auto kernel = how.fp16 ? is_vec ? gated_norm<fp16, true> : gated_norm<fp16, false>
                  : is_vec ? gated_norm<bf16, true>
                           : gated_norm<bf16, false>;
    return queue_kernel(kernel, {blocks_for((int64_t)p->n_tokens * p->n_heads, WARPS), THREADS}, how, *p);
}

int lf_cuda_gate_sigmoid(const struct lf_gate_sigmoid_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    unsigned bytes = p->is_float ? 16 : 8;
    bool is_vec = p->dim % 4 == 0 && is_aligned(p->x, bytes) && is_aligned(p->out, bytes) &&
                  is_aligned(p->residual, 16) && (p->of_token || is_aligned(p->gate, 8));
    int vec = is_vec ? 4 : 1;
    auto kernel = how.fp16 ? find_gate<fp16>(p->is_float, is_vec) : find_gate<bf16>(p->is_float, is_vec);
    unsigned blocks = blocks_for((int64_t)p->n_tokens * p->dim / vec, THREADS);
    return queue_kernel(kernel, {blocks, THREADS}, how, *p);
}
