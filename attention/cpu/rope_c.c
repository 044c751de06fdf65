/* rope_rows.h for every machine: the reference. */
#define LF_ROPE_ROWS_FN lf_rope_rows_c
#include "attention/cpu/rope_rows.h"
