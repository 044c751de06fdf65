/* Elementwise ops: SiLU times up, and rounding floats to activations.
 *
 * Work split: a thread computes eight neighbouring elements of a row, 16 bytes a load; rows side by side in the grid's
 * y. No shared memory. Bound by memory: 6 bytes an element. The vector kernel needs dim divisible by 8, the other takes
 * any. CPU twin: device/cpu/row_cpu.c. */
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/silu.cuh"

enum { THREADS = 128, VEC = 8, MAX_GRID_Y = 65535 };

template <class T> __device__ inline uint32_t silu_mul_pair(uint32_t gate, uint32_t up)
{
    float2 g = unpack<T>(gate), u = unpack<T>(up);
    return pack<T>(silu_mul(g.x, u.x), silu_mul(g.y, u.y));
}

template <class T> __global__ void __launch_bounds__(THREADS) silu_mul_vec(lf_silu_mul_params p)
{
    int vec = blockIdx.x * THREADS + threadIdx.x, n_vecs = p.dim / VEC;
    start_successor();
    wait_predecessor();
    if (vec >= n_vecs) return;
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        const uint4 *in = (const uint4 *)p.gate_up + (size_t)row * 2 * n_vecs;
        uint4 gate = in[vec], up = in[n_vecs + vec];
        ((uint4 *)p.out)[(size_t)row * n_vecs + vec] =
            make_uint4(silu_mul_pair<T>(gate.x, up.x), silu_mul_pair<T>(gate.y, up.y), silu_mul_pair<T>(gate.z, up.z),
                       silu_mul_pair<T>(gate.w, up.w));
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) silu_mul_any(lf_silu_mul_params p)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i >= p.dim) return;
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        const T *in = (const T *)p.gate_up + (size_t)row * 2 * p.dim;
        ((T *)p.out)[(size_t)row * p.dim + i] = from_float<T>(silu_mul(to_float(in[i]), to_float(in[p.dim + i])));
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) round_floats(T *out, const float *x, int n)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i < n) out[i] = from_float<T>(x[i]);
}

static unsigned blocks(int n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

int lf_cuda_act_setup(void)
{
    int rc = load_kernel(silu_mul_vec<bf16>);
    if (rc == 0) rc = load_kernel(silu_mul_vec<fp16>);
    if (rc == 0) rc = load_kernel(silu_mul_any<bf16>);
    if (rc == 0) rc = load_kernel(silu_mul_any<fp16>);
    if (rc == 0) rc = load_kernel(round_floats<bf16>);
    if (rc == 0) rc = load_kernel(round_floats<fp16>);
    return rc;
}

int lf_cuda_silu_mul(const struct lf_silu_mul_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    unsigned rows = p->n_tokens < MAX_GRID_Y ? (unsigned)p->n_tokens : (unsigned)MAX_GRID_Y;
    if (p->dim % VEC == 0)
        return queue_kernel(how.fp16 ? silu_mul_vec<fp16> : silu_mul_vec<bf16>, dim3(blocks(p->dim / VEC), rows),
                            THREADS, how, *p);
    return queue_kernel(how.fp16 ? silu_mul_any<fp16> : silu_mul_any<bf16>, dim3(blocks(p->dim), rows), THREADS, how,
                        *p);
}

int lf_cuda_round(void *out, const float *x, int n, struct lf_cuda_launch how)
{
    if (n == 0) return 0;
    if (how.fp16) return queue_kernel(round_floats<fp16>, dim3(blocks(n)), THREADS, how, (fp16 *)out, x, n);
    return queue_kernel(round_floats<bf16>, dim3(blocks(n)), THREADS, how, (bf16 *)out, x, n);
}
