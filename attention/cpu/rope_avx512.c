/* rope_rows.h at the width of AVX-512. */
#define LF_ROPE_ROWS_FN lf_rope_rows_avx512
#include "attention/cpu/rope_rows.h"
