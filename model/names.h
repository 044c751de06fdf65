/* Names of tensors: what slots call them, and what files have in that place.
 *
 * A slot's pattern has "#" for the layer and "@" for the expert. A checkpoint of the bare model (without its head) has
 * the same names without "model." before them, one of a model that also sees has more before it: a name is looked for
 * as its slot has it, then so. No state; any thread. */
#ifndef LF_MODEL_NAMES_H
#define LF_MODEL_NAMES_H

#include "model/safetensors.h"

enum { LF_NAME_BYTES = 128 };

/* A pattern with the indices of layer and expert in it, and a suffix. */
void lf_name_bind(char out[LF_NAME_BYTES], const char *pattern, const char *suffix, int layer, int expert);
/* Of an inner tensor the name without any of the prefixes. */
struct lf_str lf_name_bare(struct lf_str name);
/* The tensor of that name, whatever stands before it; NULL: there is none. */
const struct lf_tensor *lf_name_find(const struct lf_tensor_set *set, const char *name);

#endif
