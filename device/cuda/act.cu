/* Elementwise ops: SiLU times up, and rounding floats to activations.
 *
 * Work split: a thread computes eight neighbouring elements of a row, 16 bytes a load; rows side by side in the grid's
 * y. No shared memory. Bound by memory: 6 bytes an element. The vector kernel needs dim divisible by 8, the other takes
 * any. CPU twin: device/cpu/row_cpu.c. */
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/silu.cuh"

enum { THREADS = 128, VEC = 8 };

template <class T> LF_GPU_FN uint32_t gate_mul_pair(uint32_t gate, uint32_t up)
{
    float2 g = unpack<T>(gate), u = unpack<T>(up);
    return pack<T>(gate_mul(g.x, u.x), gate_mul(g.y, u.y));
}

template <class T> __global__ void __launch_bounds__(THREADS) gate_mul_vec(const lf_gate_mul_params p)
{
    int vec = blockIdx.x * THREADS + threadIdx.x, n_vecs = p.dim / VEC;
    start_successor();
    wait_predecessor();
    if (vec >= n_vecs) return;
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        const uint4 *in = (const uint4 *)p.gate_up + (size_t)row * 2 * n_vecs;
        uint4 gate = in[vec], up = in[n_vecs + vec];
        ((uint4 *)p.out)[(size_t)row * n_vecs + vec] =
            make_uint4(gate_mul_pair<T>(gate.x, up.x), gate_mul_pair<T>(gate.y, up.y), gate_mul_pair<T>(gate.z, up.z),
                       gate_mul_pair<T>(gate.w, up.w));
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) gate_mul_any(const lf_gate_mul_params p)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i >= p.dim) return;
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        const T *in = (const T *)p.gate_up + (size_t)row * 2 * p.dim;
        ((T *)p.out)[(size_t)row * p.dim + i] = from_float<T>(gate_mul(to_float(in[i]), to_float(in[p.dim + i])));
    }
}

struct round_args {
    void *out;
    const float *x;
    int n;
};

template <class T> __global__ void __launch_bounds__(THREADS) round_floats(const round_args p)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i < p.n) ((T *)p.out)[i] = from_float<T>(p.x[i]);
}

int lf_cuda_act_setup(void)
{
    return load_kernels(gate_mul_vec<bf16>, gate_mul_vec<fp16>, gate_mul_any<bf16>, gate_mul_any<fp16>,
                        round_floats<bf16>, round_floats<fp16>);
}

int lf_cuda_gate_mul(const struct lf_gate_mul_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    unsigned rows = (unsigned)min(p->n_tokens, (int)MOST_GRID_Y);
    if (p->dim % VEC == 0)
        return queue_kernel(how.fp16 ? gate_mul_vec<fp16> : gate_mul_vec<bf16>,
                            {dim3(blocks_for(p->dim / VEC, THREADS), rows), THREADS}, how, *p);
    return queue_kernel(how.fp16 ? gate_mul_any<fp16> : gate_mul_any<bf16>,
                        {dim3(blocks_for(p->dim, THREADS), rows), THREADS}, how, *p);
}

int lf_cuda_round(void *out, const float *x, int n, struct lf_cuda_launch how)
{
    if (n == 0) return 0;
    round_args args = {out, x, n};
    return queue_kernel(how.fp16 ? round_floats<fp16> : round_floats<bf16>, {blocks_for(n, THREADS), THREADS}, how,
                        args);
}
