/* A step as rank 0 tells it to the others: what of struct lf_batch their program depends on, as 32-bit words.
 *
 *     n_tokens, n_seqs, n_out, n_marks │ ids │ logits_idx │ states │ marks │ of each sequence:
 *         n_tokens, kv_len, is_decode, its tables
 *
 * Tables are those of all cache groups, of each as many entries as kv_len has blocks (lf_kv_block_tokens); states are
 * of models that have such. What is sampled, and how, stays with rank 0. layout: that of the cache. */
#ifndef LF_MODEL_BATCH_MESSAGE_H
#define LF_MODEL_BATCH_MESSAGE_H

#include "kv/kv_layout.h"
#include "model/batch.h"
#include "model/workspace.h"

/* Words of the longest one. */
size_t lf_batch_message_words(const struct lf_step_limits *limits, const struct lf_kv_layout *layout);
/* Writes that of a step within the limits; returns how many words it has. */
size_t lf_batch_pack(int32_t *words, const struct lf_batch *batch, const struct lf_step_limits *limits,
                     const struct lf_kv_layout *layout);
/* Reads it. *out points into words and seqs [max_seqs], which the caller keeps for as long. What is no step within the
 * limits, of a cache of n_blocks, ends the process: rank 0 does not say it. (Of counts of tokens and rows and of
 * slots of states the executor does that.) */
void lf_batch_unpack(struct lf_batch *out, struct lf_kv_seq *seqs, const int32_t *words, size_t n_words,
                     const struct lf_step_limits *limits, const struct lf_kv_layout *layout, int n_blocks);

#endif
