/* Reading bytes of a model directory's tensors: one open file at a time, checked to be as long as it was. One thread.
 */
#ifndef LF_MODEL_READER_H
#define LF_MODEL_READER_H

#include "model/safetensors.h"

struct lf_tensor_reader {
    const struct lf_tensor_set *set; /* borrowed; NULL: nothing is read */
    int fd, file_idx;                /* the open file, fd -1: none */
};

void lf_tensor_reader_init(struct lf_tensor_reader *r, const struct lf_tensor_set *set);
void lf_tensor_reader_deinit(struct lf_tensor_reader *r);
/* n bytes of a tensor from byte `at` on. LF_IO, LF_NOT_FOUND, LF_CORRUPT where the file is not what it was. */
LF_MUST_CHECK enum lf_status lf_tensor_read(struct lf_tensor_reader *r, const struct lf_tensor *t, uint64_t at,
                                            size_t n, void *to, struct lf_err *err);

#endif
