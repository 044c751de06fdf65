/* gemm_vec.h with AVX2 and FMA: one row covers all 64 columns, two rows 32, three to six rows 16. */
#include "device/cpu/gemm_vec.h"

LF_GEMM_KERNEL(lf_gemm_avx2_f32, CELLS_F32)
LF_GEMM_KERNEL(lf_gemm_avx2_f16, CELLS_F16)
LF_GEMM_KERNEL(lf_gemm_avx2_bf16, CELLS_BF16)
