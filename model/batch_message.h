/* A step as rank 0 tells it to the others: what of struct lf_batch their program depends on, as 32-bit words.
 *
 *     n_tokens, n_seqs, n_out │ ids │ logits_idx │ of each sequence: n_tokens, kv_len, is_decode, its tables
 *
 * Tables are those of all cache groups, of each as many entries as kv_len has blocks. What is sampled, and how, stays
 * with rank 0. States are not there: models that have them are not divided (passes/shard.c). */
#ifndef LF_MODEL_BATCH_MESSAGE_H
#define LF_MODEL_BATCH_MESSAGE_H

#include "model/batch.h"
#include "model/workspace.h"

/* Words of the longest one. */
size_t lf_batch_message_words(const struct lf_step_limits *limits, int n_groups);
/* Writes it; returns how many words it has. */
size_t lf_batch_pack(int32_t *words, const struct lf_batch *batch, int n_groups);
/* Reads it. *out points into words and seqs [max_seqs], which the caller keeps for as long. */
void lf_batch_unpack(struct lf_batch *out, struct lf_kv_seq *seqs, const int32_t *words, size_t n_words, int n_groups);

#endif
