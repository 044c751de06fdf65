/* A checkpoint that says that its head is its embedding, and brings a head all the same. */
#ifndef LF_MODEL_TIED_H
#define LF_MODEL_TIED_H

#include <stdbool.h>

#include "model/safetensors.h"

/* Whether two tensors of a set are not the same bytes. Reads both up to the first difference. LF_IO, LF_CORRUPT where a
 * file has shrunk, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_tied_differs(bool *out, const struct lf_tensor_set *set, const struct lf_tensor *a,
                                             const struct lf_tensor *b, struct lf_err *err);

#endif
