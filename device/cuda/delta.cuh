/* What the kernels of gated delta nets share: the gates of a token, and where states lie. */
#ifndef LF_DEVICE_CUDA_DELTA_CUH
#define LF_DEVICE_CUDA_DELTA_CUH

#include "device/cuda/launch.cuh"

#define NORM_EPS 1e-6f /* below the root of q's and k's norms */

LF_GPU_FN int channels_of(const lf_delta_shape &d)
{
    return 2 * d.n_k_heads * d.k_dim + d.n_v_heads * d.v_dim;
}

LF_GPU_FN float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* log(1 + e^x) */
LF_GPU_FN float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

struct gates {
    float beta, g; /* β and the logarithm of the decay, of a token and a head */
};

LF_GPU_FN gates gates_of(const lf_delta_params &p, int64_t token, int head)
{
    const float *ba = p.ba + token * 2 * p.shape.n_v_heads + head;
    return {sigmoid(ba[0]), -expf(p.a_log[head]) * softplus(ba[p.shape.n_v_heads] + p.dt[head])};
}

LF_GPU_FN char *slot_at(const lf_state_view &state, int slot)
{
    return (char *)state.base + (uint64_t)slot * state.slot_bytes + state.offset;
}

LF_GPU_FN float *state_of_head(const lf_state_view &state, const lf_delta_shape &shape, int slot, int head)
{
    return (float *)slot_at(state, slot) + (size_t)head * shape.k_dim * shape.v_dim;
}

#endif
