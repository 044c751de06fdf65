/* attn_float.h in AVX-512: 6 rows × 64 keys, or up to 64 channels, in 24 of the 32 registers. All 8 groups of a block
 * use a page before the next comes, so it is read from the first-level cache. */
#define LF_ATTN_KERNEL lf_attn_kernel_avx512
#define LF_ATTN_NAME   "avx512"
#include "attention/cpu/attn_float.h"
