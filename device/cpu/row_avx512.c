/* row_vec.h with AVX-512. */
#define LF_ROWS_USE lf_rows_use_avx512
#include "device/cpu/row_vec.h"
