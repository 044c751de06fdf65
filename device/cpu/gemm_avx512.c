/* gemm_vec.h with AVX-512 FMA: 6 rows × 64 columns in 24 of the 32 registers. */
#include "device/cpu/gemm_vec.h"

LF_GEMM_KERNEL(lf_gemm_avx512_f32, CELLS_F32)
LF_GEMM_KERNEL(lf_gemm_avx512_f16, CELLS_F16)
LF_GEMM_KERNEL(lf_gemm_avx512_bf16, CELLS_BF16)
