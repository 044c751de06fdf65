/* The same on a GPU, for RoPE's kernel: ../../kv/kv_fp8.h says what. */
#ifndef LF_TESTS_ACCURACY_SCALE_ONE_KV_FP8_CUH
#define LF_TESTS_ACCURACY_SCALE_ONE_KV_FP8_CUH

#include "../../../../../attention/cuda/kv_fp8.cuh"

LF_GPU_FN int exponent_of_scale_one(uint32_t)
{
    return 0;
}

LF_GPU_FN uint32_t code_with_scale_one(float x)
{
    return kv_code(fminf(fmaxf(x, -448.0f), 448.0f));
}
#define kv_exponent exponent_of_scale_one
#define kv_code     code_with_scale_one

#endif
