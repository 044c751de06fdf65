/* Activations as e4m3 codes and scales (x_codes.h), common to all kernels that write them: a code's bits do not
 * depend on which. */
#ifndef LF_DEVICE_CUDA_QUANT_CUH
#define LF_DEVICE_CUDA_QUANT_CUH

#include <cuda_fp8.h>

#include "device/cuda/elem.cuh"
#include "device/cuda/warp.cuh"
#include "device/x_codes.h"

/* Of a group whose largest magnitude this is. */
LF_GPU_FN float scale_of(float largest)
{
    const float most_e4m3 = 448.0f, least_scale = 0x1p-126f;
    return fmaxf(__fdiv_rn(largest, most_e4m3), least_scale);
}

/* NaN does not count. */
LF_GPU_FN float larger(float a, float b)
{
    return fmaxf(a, b);
}

/* The largest of a thread block's, the same on all threads; blockDim.x is a multiple of 32. Once a kernel. */
LF_GPU_FN float block_largest(float x)
{
    __shared__ float of_warps[MAX_WARPS];
    x = lanes_reduce<WARP>(x, larger);
    if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = x;
    __syncthreads();
    for (unsigned w = 0; w < blockDim.x / WARP; w++) x = fmaxf(x, of_warps[w]);
    return x;
}

/* N neighbouring columns, as elements of T have them. */
template <class T, int N> struct quant_unit {
    float x[N];

    /* From words of two elements. */
    LF_GPU_MEMBER void take(const uint32_t (&words)[N / 2])
    {
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            float2 pair = unpack<T>(words[i]);
            x[2 * i] = pair.x;
            x[2 * i + 1] = pair.y;
        }
    }

    LF_GPU_MEMBER float largest() const
    {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < N; i++) most = larger(most, fabsf(x[i]));
        return most;
    }

    /* Four columns from i on, times the inverse of their scale. */
    LF_GPU_MEMBER uint32_t codes(int i, float inverse) const
    {
        uint32_t low =
            __nv_cvt_float2_to_fp8x2(make_float2(x[i] * inverse, x[i + 1] * inverse), __NV_SATFINITE, __NV_E4M3);
        uint32_t high =
            __nv_cvt_float2_to_fp8x2(make_float2(x[i + 2] * inverse, x[i + 3] * inverse), __NV_SATFINITE, __NV_E4M3);
        return low | high << 16;
    }
};

#endif
