/* The gated activation of a SwiGLU layer. */
#ifndef LF_DEVICE_CUDA_SILU_CUH
#define LF_DEVICE_CUDA_SILU_CUH

#include "device/cuda/ptx.cuh"

/* a / (1 + e^-a) · up, a = gate. Where e^-a is infinite the result is -0; NaN stays. */
LF_GPU_FN float gate_mul(float gate, float up)
{
    return gate / (1.0f + __expf(-gate)) * up;
}

#endif
