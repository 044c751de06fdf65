/* delta_vec.h with AVX2 and FMA. */
#define LF_DELTA_USE lf_delta_use_avx2
#include "device/cpu/delta_vec.h"
