/* rope_rows.h at the width of AVX2. */
#define LF_ROPE_ROWS_FN lf_rope_rows_avx2
#include "attention/cpu/rope_rows.h"
