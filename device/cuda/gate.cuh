/* The gated activations (enum lf_act of ops.h). */
#ifndef LF_DEVICE_CUDA_GATE_CUH
#define LF_DEVICE_CUDA_GATE_CUH

#include "device/cuda/elem.cuh"
#include "device/cuda/ptx.cuh"
#include "device/ops.h"

/* a / (1 + e^-by): a times the logistic function of by. Where e^-by is infinite the result is a zero; NaN stays. */
LF_GPU_FN float sigmoid_times(float a, float by)
{
    return a / (1.0f + __expf(-by));
}

/* What goes into an activation: its gate or up as it is, or within the limit; NaN stays. */
LF_GPU_FN float at_most(float x, float limit)
{
    return x > limit ? limit : x;
}

template <lf_act ACT> LF_GPU_FN float gate_mul(float gate, float up, float limit)
{
    if constexpr (ACT == LF_ACT_SILU) return sigmoid_times(gate, gate) * up;
    if constexpr (ACT == LF_ACT_GELU_TANH) {
        /* 2 · √(2/π), and that times 0.044715 */
        float slope = __fmaf_rn(gate * gate, 0.0713548163f, 1.59576912f);
        return sigmoid_times(gate, gate * slope) * up;
    }
    if constexpr (ACT == LF_ACT_GELU) return 0.5f * gate * erfcf(gate * -0.707106781f) * up; /* 1 + erf would cancel */
    if constexpr (ACT == LF_ACT_SWIGLU_OAI) {
        float g = at_most(gate, limit), u = -at_most(-at_most(up, limit), limit);
        return sigmoid_times(g, g * 1.702f) * (u + 1.0f);
    }
}

/* The same bits, of any. */
LF_GPU_FN float gate_mul_by(lf_act act, float gate, float up, float limit)
{
    switch (act) {
    case LF_ACT_SILU:
        return gate_mul<LF_ACT_SILU>(gate, up, limit);
    case LF_ACT_GELU_TANH:
        return gate_mul<LF_ACT_GELU_TANH>(gate, up, limit);
    case LF_ACT_GELU:
        return gate_mul<LF_ACT_GELU>(gate, up, limit);
    default:
        return gate_mul<LF_ACT_SWIGLU_OAI>(gate, up, limit);
    }
}

/* Two neighbours. */
template <class T, lf_act ACT> LF_GPU_FN uint32_t gate_mul_pair(uint32_t gate, uint32_t up, float limit)
{
    float2 g = unpack<T>(gate), u = unpack<T>(up);
    return pack<T>(gate_mul<ACT>(g.x, u.x, limit), gate_mul<ACT>(g.y, u.y, limit));
}

#endif
