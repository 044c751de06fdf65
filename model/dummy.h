/* Seeded random weights, for load tests of any shape without its files. A value depends on (tensor name, seed, row,
 * column) only, so a model is the same however it is loaded. */
#ifndef LF_MODEL_DUMMY_H
#define LF_MODEL_DUMMY_H

#include <stdint.h>

#include "core/dtype.h"

/* Rows [row_first, row_first + n_rows) of a [*, n_in] tensor of this name into out, n_rows · n_in elements of dtype. */
void lf_dummy_fill(void *out, enum lf_dtype dtype, const char *name, uint64_t seed, int n_in, int row_first,
                   int n_rows);

#endif
