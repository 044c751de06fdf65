/* gemm_vec.h with AVX-512 BF16: VDPBF16PS multiplies two neighbouring k at once, twice the work of an FMA.
 *
 * Only for bf16 weights: x is rounded to bf16 too (once for the whole GEMM, by the driver). The products are exact
 * in float; the instruction rounds each sum to nearest even and flushes denormals to zero, whatever MXCSR says. */
#include "device/cpu/gemm_vec.h"
#include "device/cpu/row_kernels.h"

LF_GEMM_KERNEL(lf_gemm_avx512bf16_bf16, CELLS_BF16_DOT)

/* n_padded is a multiple of VEC. */
static void to_bf16(uint16_t *dst, const float *src, int n, int n_padded)
{
    for (int i = 0; i < n_padded; i += VEC) vec_store_bf16(dst + i, vec_load_first(src + i, n - i));
}

void lf_rows_use_avx512bf16(struct lf_row_kernels *rows)
{
    rows->to_bf16 = to_bf16;
}
