/* A run of tokens as rope.c passes them to the body of an instruction set. Inside attention/ only. */
#ifndef LF_ATTENTION_CPU_ROPE_RUN_H
#define LF_ATTENTION_CPU_ROPE_RUN_H

#include "attention/rope.h"

enum { LF_ROPE_RUN = 16 }; /* tokens at most */

/* Consecutive tokens of one sequence inside one page: rows row .. row + n - 1 of the step are positions
 * pos .. pos + n - 1 of the sequence, in block `block` of the cache. */
struct lf_rope_run {
    int row, n;
    int pos;
    int block;
    bool is_kept; /* their K and V, in this cache */
};

typedef void lf_rope_rows_fn(const struct lf_rope_append_params *p, const struct lf_rope_run *run);

/* lf_rope_append on a CPU, of the tokens of seqs. */
void lf_rope_append_cpu(struct lf_device *dev, const struct lf_rope_append_params *p, const struct lf_kv_seq *seqs,
                        int n_seqs);

lf_rope_rows_fn lf_rope_rows_c;
#if defined(__x86_64__)
lf_rope_rows_fn lf_rope_rows_avx2;
lf_rope_rows_fn lf_rope_rows_avx512;
#endif

#endif
