/* Attention cases for the tests: a paged cache with poisoned slots, its queries, and answers in double.
 *
 * The reference reads the cache through the index functions of kv_view.h and computes each row by itself, straight from
 * the definition in attention.h: it shares nothing with the kernels. */
#ifndef LF_TESTS_PARITY_ATTENTION_ATTN_CASE_H
#define LF_TESTS_PARITY_ATTENTION_ATTN_CASE_H

#include <stdbool.h>

#include "attention/attention.h"

enum { CASE_SEQS = 24 };

struct attn_case {
    int head_dim, n_heads, n_kv_heads;
    enum lf_dtype dtype;
    int n_seqs;
    int n_rows[CASE_SEQS], kv_len[CASE_SEQS];
    int window;
    float softcap;
    bool sinks;
    bool outliers;              /* N(0, 10) with probability 0.001 among N(0, 1) */
    struct lf_kv_stripe stripe; /* the cache has these tokens, attention and the reference see no others */
    int shared_blocks; /* leading blocks that all sequences have in common; no longer than the shortest kv_len */
    int n_layers;      /* 0: two. The last one is used */
    int unused_pages;  /* of a block, behind the layers' */
    int nan_key;       /* position of sequence 0 whose key is NaN, as are the rows that see it; 0: none */
    int nan_value;     /* the same of a value's channel 0 */
    int first_block;   /* blocks below it are not used: for addresses past 2³¹ */
    uint64_t seed;     /* of keys, values, queries: a case of the same seed and kv_len has the same ones */
};

struct attn_data {
    struct attn_case c;
    struct lf_device *dev;
    struct lf_kv_view kv;
    size_t kv_bytes;
    char *kv_map; /* the cache, and a page behind it that is no memory */
    int32_t *tables[CASE_SEQS];
    struct lf_kv_seq seqs[CASE_SEQS];
    int n_rows;
    float *q;             /* [n_rows, n_heads, head_dim] */
    float *sinks;         /* [n_heads] */
    float *out_map, *out; /* out lies between canaries */
    float *lse_map, *lse;
    struct attn_dense *dense; /* one sequence's head in plain order, made on demand */
};

/* Queries and keys of a sequence depend on (seed, sequence, position) only, not on how the rows are cut into steps:
 * with n_rows changed, the same position has the same query. */
void attn_data_init(struct attn_data *data, struct lf_device *dev, const struct attn_case *c);
void attn_data_deinit(struct attn_data *data);

/* Runs attention; out and lse are filled, canaries and completeness checked. */
void attn_data_run(struct attn_data *data, enum lf_isa isa);

/* The row of token `row` (of the sequence's new ones) and query head, in double. */
void attn_ref_row(struct attn_data *data, int seq_idx, int row, int head, double *out, double *lse);
/* The same, unfused in float; with bf16, queries and weights are rounded to it as the kernels of that type do. */
void attn_naive_row(struct attn_data *data, int seq_idx, int row, int head, bool bf16, float *out);

/* Runs and compares about n_samples rows with the reference: max error within 2 · naive's + a few ulp, relative
 * Frobenius norm, cosine, lse. Fails the test with the case in the message. */
void attn_check(struct lf_device *dev, const struct attn_case *c, enum lf_isa isa, int n_samples);

/* The same of the whole case, whose cache is divided into n stripes: each is run by itself, the first with the sinks,
 * and what they give is combined by log-sum-exp. */
void attn_check_stripes(struct lf_device *dev, const struct attn_case *c, enum lf_isa isa, int n, int n_samples);

/* One output row after a run. */
const float *attn_out_row(const struct attn_data *data, int seq_idx, int row, int head);

/* The best instruction set of this machine, and the device of n threads. */
struct lf_device *attn_test_device(int n_threads);

#endif
