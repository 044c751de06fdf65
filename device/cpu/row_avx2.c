/* row_vec.h with AVX2, FMA and F16C. */
#define LF_ROWS_USE lf_rows_use_avx2
#include "device/cpu/row_vec.h"
