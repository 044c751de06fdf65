/* gemm_quant_vec.h with AVX-512 VNNI. */
#include "device/cpu/gemm_e4m3.h"
#include "device/cpu/gemm_quant_dot_avx512.h"
#include "device/cpu/gemm_quant_vec.h"

static const struct lf_gemm_kernel e4m3 = {.tile = tile_e4m3, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_FLOAT};
static const struct lf_gemm_kernel i8 = {.tile = tile_i8, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};
static const struct lf_gemm_kernel i4 = {.tile = tile_i4, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};
static const struct lf_gemm_kernel e2m1 = {.tile = tile_e2m1, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};

void lf_quant_use_avx512vnni(struct lf_quant_kernels *kernels)
{
    kernels->gemm[LF_CODE_E4M3] = &e4m3;
    kernels->gemm[LF_CODE_I8] = &i8;
    kernels->gemm[LF_CODE_I4] = &i4;
    kernels->gemm[LF_CODE_E2M1] = &e2m1;
}
