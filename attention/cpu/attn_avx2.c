/* attn_float.h in AVX2 with FMA: 6 rows × 16 keys or channels in 12 of the 16 registers. */
#define LF_ATTN_KERNEL lf_attn_kernel_avx2
#define LF_ATTN_NAME   "avx2"
#include "attention/cpu/attn_float.h"
