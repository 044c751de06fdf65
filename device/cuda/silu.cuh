/* The gated activation of a SwiGLU layer. */
#ifndef LF_DEVICE_CUDA_SILU_CUH
#define LF_DEVICE_CUDA_SILU_CUH

/* a / (1 + e^-a) · up, a = gate. Where e^-a is infinite the result is -0; NaN stays. */
__device__ inline float silu_mul(float gate, float up)
{
    return gate / (1.0f + __expf(-gate)) * up;
}

#endif
