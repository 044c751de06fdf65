/* The FP8 of a KV cache as kv/kv_fp8.h has it, but with a scale of 1 for every head: plain E4M3, whose largest number,
 * 448, stands for whatever is larger. Programs without scales of a checkpoint have their FP8 caches so, and the cost of
 * ours is measured beside it (../../needle_gate.py).
 *
 * Stands in for that header, whose name it has, where rotated keys are appended on a CPU; reading is as ever. */
#ifndef LF_TESTS_ACCURACY_SCALE_ONE_KV_FP8_H
#define LF_TESTS_ACCURACY_SCALE_ONE_KV_FP8_H

#include "../../../../kv/kv_fp8.h"

static inline uint8_t quantize_with_scale_one(uint8_t *codes, const float *x, int n)
{
    if (lf_kv_fp8_most(x, n) >= 0x7f800000u) return lf_kv_fp8_quantize(codes, x, n);
    for (int i = 0; i < n; i++) codes[i] = lf_e4m3_from_f32(x[i]);
    return LF_KV_FP8_BIAS;
}
#define lf_kv_fp8_quantize quantize_with_scale_one

#endif
