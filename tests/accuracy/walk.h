/* One sequence at a time through a model of the server's runtime: tokens are appended behind any block boundary of what
 * is there, and the logits of some of them looked at. Engine and scheduler are left out, because they hand on
 * tokens and a few probabilities; what computes is what a server runs. */
#ifndef LF_TESTS_ACCURACY_WALK_H
#define LF_TESTS_ACCURACY_WALK_H

#include "server/runtime.h"

/* The state of a sequence (device/delta.h) is in one of two slots: that of a beginning which others share, or that of
 * what goes on behind it. Models without states do not look at it. */
enum walk_slot { WALK_SHARED, WALK_OWN };

struct walk {
    struct lf_runtime *rt; /* borrowed; loaded */
    int32_t *blocks;       /* [groups, table_stride] */
    int table_stride;
    float *logits; /* [max_out, n_vocab] */
};

/* The logits of the i-th of the tokens that were appended. */
typedef enum lf_status walk_row_fn(void *ctx, int i, const float *logits, struct lf_err *err);

/* Plans and loads rt, which is open, for sequences of n_tokens; config is what rt reads, with room for what is chosen
 * here. */
LF_MUST_CHECK enum lf_status walk_load(struct lf_runtime *rt, struct lf_config *config, int n_tokens,
                                       struct lf_err *err);
/* LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status walk_open(struct walk *walk, struct lf_runtime *rt, struct lf_err *err);
void walk_close(struct walk *walk); /* accepts a zeroed one */

/* Appends ids[0..n) behind kv_len tokens, of which the state is in slot `in`, and leaves that of all in `out`. row is
 * called for the tokens from first_row on, in order; what it returns ends the walk. */
LF_MUST_CHECK enum lf_status walk_append(struct walk *walk, const int32_t *ids, int n, int kv_len, enum walk_slot in,
                                         enum walk_slot out, int first_row, walk_row_fn *row, void *ctx,
                                         struct lf_err *err);
/* The same of the tokens from ids[kv_len] on, as an answer's: then the likeliest token again and again, up to
 * max_tokens or an end of text, which is one of them. Appended to answer. The sequence goes on from WALK_SHARED in
 * WALK_OWN. */
LF_MUST_CHECK enum lf_status walk_answer(struct walk *walk, const int32_t *ids, int n, int kv_len, int max_tokens,
                                         struct lf_ids *answer, struct lf_err *err);

#endif
