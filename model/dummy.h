/* Seeded random weights, for load tests of any shape without its files. A value depends on (tensor name, seed, row,
 * column) only, so a model is the same however it is loaded. */
#ifndef LF_MODEL_DUMMY_H
#define LF_MODEL_DUMMY_H

#include <stdint.h>

#include "model/formats/packing.h"

/* Rows [row_first, row_first + n_rows) of a [*, n_in] tensor of this name into out, n_rows · n_in elements of dtype. */
void lf_dummy_fill(void *out, enum lf_dtype dtype, const char *name, uint64_t seed, int n_in, int row_first,
                   int n_rows);
/* The same as coded rows: into rows [from, from + n_rows) of `out`, whose row 0 is the tensor's row row_first. */
void lf_dummy_codes(const struct lf_quant_room *out, const struct lf_format *f, const char *name, uint64_t seed,
                    int n_in, int row_first, int from, int n_rows);

#endif
