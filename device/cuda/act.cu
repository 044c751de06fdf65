/* Elementwise ops: gated activations, softcap, and floats scaled and rounded.
 *
 * Work split: a thread computes eight neighbouring elements of a row, 16 bytes a load; rows side by side in the grid's
 * y; the others take one element a thread. No shared memory. Bound by memory: 6 bytes an element. The vector kernel
 * needs dim divisible by 8, the others take any. CPU twin: device/cpu/row_cpu.c. */
#include "device/cuda/elem.cuh"
#include "device/cuda/gate.cuh"
#include "device/cuda/launch.cuh"

enum { THREADS = 128, VEC = 8 };

template <class T, lf_act ACT> __global__ void __launch_bounds__(THREADS) gate_mul_vec(const lf_gate_mul_params p)
{
    int vec = blockIdx.x * THREADS + threadIdx.x, n_vecs = p.dim / VEC;
    start_successor();
    wait_predecessor();
    if (vec >= n_vecs) return;
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        const uint4 *in = (const uint4 *)p.gate_up + (size_t)row * 2 * n_vecs;
        uint4 gate = in[vec], up = in[n_vecs + vec];
        ((uint4 *)p.out)[(size_t)row * n_vecs + vec] =
            make_uint4(gate_mul_pair<T, ACT>(gate.x, up.x, p.limit), gate_mul_pair<T, ACT>(gate.y, up.y, p.limit),
                       gate_mul_pair<T, ACT>(gate.z, up.z, p.limit), gate_mul_pair<T, ACT>(gate.w, up.w, p.limit));
    }
}

template <class T, lf_act ACT> __global__ void __launch_bounds__(THREADS) gate_mul_any(const lf_gate_mul_params p)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i >= p.dim) return;
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        const T *in = (const T *)p.gate_up + (size_t)row * 2 * p.dim;
        ((T *)p.out)[(size_t)row * p.dim + i] =
            from_float<T>(gate_mul<ACT>(to_float(in[i]), to_float(in[p.dim + i]), p.limit));
    }
}

/* up: floats of their own. */
template <class T, lf_act ACT> __global__ void __launch_bounds__(THREADS) gate_mul_floats(const lf_gate_mul_params p)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i >= p.dim) return;
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        size_t at = (size_t)row * p.dim + i;
        ((T *)p.out)[at] = from_float<T>(gate_mul<ACT>(to_float(((const T *)p.gate_up)[at]), p.up[at], p.limit));
    }
}

__global__ void __launch_bounds__(THREADS) cap_floats(const lf_softcap_params p)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i < p.n) p.x[i] = p.cap * tanhf(p.x[i] / p.cap);
}

struct scale_args {
    void *out;
    const float *x;
    float scale;
    int64_t n;
};

template <class T> __global__ void __launch_bounds__(THREADS) scale_floats(const scale_args p)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i < p.n) ((T *)p.out)[i] = from_float<T>(p.x[i] * p.scale);
}

/* ---- host ---- */

typedef void gate_kernel(const lf_gate_mul_params);
enum gate_kind { GATE_VEC, GATE_ANY, GATE_FLOATS, GATE_KINDS_N };

template <class T, lf_act ACT> static gate_kernel *gate_kernel_of(gate_kind kind)
{
    if (kind == GATE_FLOATS) return gate_mul_floats<T, ACT>;
    return kind == GATE_ANY ? gate_mul_any<T, ACT> : gate_mul_vec<T, ACT>;
}

template <class T> static gate_kernel *find_gate_kernel(lf_act act, gate_kind kind)
{
    switch (act) {
    case LF_ACT_GELU_TANH:
        return gate_kernel_of<T, LF_ACT_GELU_TANH>(kind);
    case LF_ACT_GELU:
        return gate_kernel_of<T, LF_ACT_GELU>(kind);
    case LF_ACT_SWIGLU_OAI:
        return gate_kernel_of<T, LF_ACT_SWIGLU_OAI>(kind);
    default:
        return gate_kernel_of<T, LF_ACT_SILU>(kind);
    }
}

int lf_cuda_act_setup(void)
{
    int rc = load_kernels(cap_floats, scale_floats<bf16>, scale_floats<fp16>, scale_floats<float>);
    for (int act = 0; act < LF_ACTS_N; act++)
        for (int kind = 0; kind < GATE_KINDS_N && rc == 0; kind++)
            rc = load_kernels(find_gate_kernel<bf16>((lf_act)act, (gate_kind)kind),
                              find_gate_kernel<fp16>((lf_act)act, (gate_kind)kind));
    return rc;
}

int lf_cuda_gate_mul(const struct lf_gate_mul_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    gate_kind kind = p->up ? GATE_FLOATS : p->dim % VEC != 0 ? GATE_ANY : GATE_VEC;
    int per_row = kind == GATE_VEC ? p->dim / VEC : p->dim;
    dim3 grid(blocks_for(per_row, THREADS), (unsigned)min(p->n_tokens, (int)MOST_GRID_Y));
    auto kernel = how.fp16 ? find_gate_kernel<fp16>(p->act, kind) : find_gate_kernel<bf16>(p->act, kind);
    return queue_kernel(kernel, {grid, THREADS}, how, *p);
}

int lf_cuda_softcap(const struct lf_softcap_params *p, struct lf_cuda_launch how)
{
    if (p->n == 0) return 0;
    return queue_kernel(cap_floats, {blocks_for(p->n, THREADS), THREADS}, how, *p);
}

int lf_cuda_scale(void *out, bool out_float, const float *x, float scale, int64_t n, struct lf_cuda_launch how)
{
    if (n == 0) return 0;
    scale_args args = {out, x, scale, n};
    auto kernel = out_float ? scale_floats<float> : how.fp16 ? scale_floats<fp16> : scale_floats<bf16>;
    return queue_kernel(kernel, {blocks_for(n, THREADS), THREADS}, how, args);
}
