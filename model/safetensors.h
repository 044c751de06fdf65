/* Weights on disk: the tensors of a model directory, by name, from the headers of its safetensors files.
 *
 * A strict reader. Opening reads headers only and checks them completely, so that whoever reads a tensor afterwards
 * needs no check but the one for I/O; nothing is mapped, and no file stays open. A directory holds model.safetensors,
 * or model.safetensors.index.json and the shards it names.
 *
 * Read-only after open: any thread. */
#ifndef LF_MODEL_SAFETENSORS_H
#define LF_MODEL_SAFETENSORS_H

#include <stdint.h>

#include "core/arena.h"
#include "core/dtype.h"
#include "core/hash.h"
#include "core/status.h"
#include "core/str.h"

enum { LF_TENSOR_RANK = 8 };

struct lf_tensor {
    struct lf_str name;     /* owned by the set */
    const char *dtype_name; /* as the file spells it: "BF16", "I64" … */
    int rank;
    uint64_t shape[LF_TENSOR_RANK];
    int file_idx;
    uint64_t offset; /* of the first byte, from the start of the file */
    uint64_t n_bytes;
};

struct lf_tensor_file {
    char *path; /* owned by the set */
    uint64_t size;
    uint8_t header_sha[LF_SHA256_BYTES];
};

struct lf_tensor_set {
    struct lf_tensor *tensors; /* [n_tensors], sorted by name */
    int n_tensors;
    struct lf_tensor_file *files; /* [n_files] */
    int n_files;
    struct lf_arena arena; /* holds all of the above */
};

/* One file. LF_CORRUPT where it contradicts the format, LF_UNSUPPORTED for an element type that is none of the
 * format's, LF_LIMIT, LF_NOT_FOUND, LF_IO, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_tensor_set_open_file(struct lf_tensor_set *out, const char *path, struct lf_err *err);
/* A model directory. */
LF_MUST_CHECK enum lf_status lf_tensor_set_open(struct lf_tensor_set *out, const char *dir, struct lf_err *err);
void lf_tensor_set_close(struct lf_tensor_set *set); /* accepts a zeroed one */

/* The tensor of that name, or NULL. */
const struct lf_tensor *lf_tensor_find(const struct lf_tensor_set *set, struct lf_str name);
/* Whether the model can compute with this element type (BF16, F16, F32), and which it is. */
bool lf_tensor_dtype(const struct lf_tensor *tensor, enum lf_dtype *out);
/* "[4096, 256]" into out, cut short where it does not fit. */
void lf_tensor_shape_text(const struct lf_tensor *tensor, char *out, size_t out_bytes);

#endif
