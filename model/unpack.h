/* Rows of a matrix, out of what a file has in their place: its columns. By a device's threads, whose owner calls;
 * nothing is allocated. */
#ifndef LF_MODEL_UNPACK_H
#define LF_MODEL_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "device/cpu/threads.h"

/* Rows [row, row + n) of a matrix [n_rows, n_in] whose columns are the rows of sheet [n_in, n_rows]: out [n, n_in].
 * elem_bytes: 2 or 4. */
void lf_unpack_columns(struct lf_threads *threads, void *out, const void *sheet, size_t elem_bytes, int n_rows,
                       int n_in, int row, int n);

#endif
