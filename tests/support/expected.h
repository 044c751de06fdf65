/* What a model of tests/golden/model/data is expected to compute: expected.bin, as make.py writes it. */
#ifndef LF_TESTS_SUPPORT_EXPECTED_H
#define LF_TESTS_SUPPORT_EXPECTED_H

#include <math.h>

#include "core/file.h"
#include "tests/support/test.h"

struct expected {
    struct lf_buf bytes;
    int n_ids, n_vocab;
    const int32_t *ids;
    const float *logits; /* [n_ids, n_vocab] */
};

static inline void read_expected(struct expected *e, const char *dir)
{
    char path[256];
    struct lf_err err;
    assert_int_equal(lf_path_join(path, sizeof(path), dir, "expected.bin"), LF_OK);
    lf_buf_init(&e->bytes, 1 << 24);
    assert_int_equal(lf_file_read(&e->bytes, path, 1 << 24, &err), LF_OK);
    int32_t head[2];
    memcpy(head, e->bytes.ptr, sizeof(head));
    e->n_ids = head[0];
    e->n_vocab = head[1];
    assert_true(e->n_ids > 64 && e->n_vocab > 1);
    size_t n_logits = (size_t)e->n_ids * (size_t)e->n_vocab;
    assert_int_equal(e->bytes.len, sizeof(head) + (size_t)e->n_ids * 4 + n_logits * 4);
    e->ids = (const int32_t *)(const void *)(e->bytes.ptr + sizeof(head));
    e->logits = (const float *)(const void *)(e->bytes.ptr + sizeof(head) + (size_t)e->n_ids * 4);
}

static inline double relative_error(const float *ours, const float *theirs, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)ours[i] - (double)theirs[i];
        difference += d * d;
        norm += (double)theirs[i] * (double)theirs[i];
    }
    return sqrt(difference / norm);
}

#endif
