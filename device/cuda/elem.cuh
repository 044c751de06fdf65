/* Elements of activations and weights, bf16 or fp16, two in a 32-bit word (the lower address in the lower half). */
#ifndef LF_DEVICE_CUDA_ELEM_CUH
#define LF_DEVICE_CUDA_ELEM_CUH

#include <stdint.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/cuda/ptx.cuh"

using bf16 = __nv_bfloat16;
using fp16 = __half;

LF_GPU_FN float to_float(bf16 x)
{
    return __bfloat162float(x);
}

LF_GPU_FN float to_float(fp16 x)
{
    return __half2float(x);
}

template <class T> LF_GPU_FN T from_float(float x);

template <> LF_GPU_MEMBER bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <> LF_GPU_MEMBER fp16 from_float<fp16>(float x)
{
    return __float2half_rn(x);
}

/* Of kernels whose output may be float. */
template <> LF_GPU_MEMBER float from_float<float>(float x)
{
    return x;
}

template <class T> LF_GPU_FN float2 unpack(uint32_t word);

template <> LF_GPU_MEMBER float2 unpack<bf16>(uint32_t word)
{
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

template <> LF_GPU_MEMBER float2 unpack<fp16>(uint32_t word)
{
    __half2_raw raw;
    raw.x = (unsigned short)(word & 0xffffu);
    raw.y = (unsigned short)(word >> 16);
    return __half22float2(__half2(raw));
}

template <class T> LF_GPU_FN uint32_t pack(float low, float high);

template <> LF_GPU_MEMBER uint32_t pack<bf16>(float low, float high)
{
    __nv_bfloat162_raw raw = __nv_bfloat162_raw(__floats2bfloat162_rn(low, high));
    return (uint32_t)raw.x | (uint32_t)raw.y << 16;
}

template <> LF_GPU_MEMBER uint32_t pack<fp16>(float low, float high)
{
    __half2_raw raw = __half2_raw(__floats2half2_rn(low, high));
    return (uint32_t)raw.x | (uint32_t)raw.y << 16;
}

/* a + b, element by element, each sum rounded. */
template <class T> LF_GPU_FN uint32_t add_pairs(uint32_t a, uint32_t b);

template <> LF_GPU_MEMBER uint32_t add_pairs<bf16>(uint32_t a, uint32_t b)
{
    __nv_bfloat162 sum = __hadd2_rn(*(__nv_bfloat162 *)&a, *(__nv_bfloat162 *)&b);
    return *(uint32_t *)&sum;
}

template <> LF_GPU_MEMBER uint32_t add_pairs<fp16>(uint32_t a, uint32_t b)
{
    __half2 sum = __hadd2_rn(*(__half2 *)&a, *(__half2 *)&b);
    return *(uint32_t *)&sum;
}

#endif
