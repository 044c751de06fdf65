/* delta_vec.h with AVX-512. */
#define LF_DELTA_USE lf_delta_use_avx512
#include "device/cpu/delta_vec.h"
