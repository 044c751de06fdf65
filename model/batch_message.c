#include "model/batch_message.h"

#include <string.h>

#include "core/check.h"

enum { HEAD_WORDS = 3, SEQ_WORDS = 3 };

static int n_blocks_of(int kv_len)
{
    return (kv_len + LF_KV_BLOCK_TOKENS - 1) / LF_KV_BLOCK_TOKENS;
}

size_t lf_batch_message_words(const struct lf_step_limits *limits, int n_groups)
{
    size_t of_seq = SEQ_WORDS + (size_t)n_groups * (size_t)n_blocks_of(limits->ctx);
    return HEAD_WORDS + (size_t)limits->chunk + (size_t)limits->max_out + (size_t)limits->max_seqs * of_seq;
}

/* n words behind those that are there. */
static void put(int32_t *words, size_t *at, const int32_t *from, int n)
{
    if (n > 0) memcpy(words + *at, from, (size_t)n * sizeof(*words));
    *at += (size_t)n;
}

size_t lf_batch_pack(int32_t *words, const struct lf_batch *b, int n_groups)
{
    const int32_t head[HEAD_WORDS] = {b->n_tokens, b->n_seqs, b->n_out};
    size_t at = 0;
    put(words, &at, head, HEAD_WORDS);
    put(words, &at, b->ids, b->n_tokens);
    put(words, &at, b->logits_idx, b->n_out);
    for (int i = 0; i < b->n_seqs; i++) {
        const struct lf_kv_seq *seq = &b->seqs[i];
        const int32_t of_seq[SEQ_WORDS] = {seq->n_tokens, seq->kv_len, seq->is_decode};
        put(words, &at, of_seq, SEQ_WORDS);
        for (int g = 0; g < n_groups; g++)
            put(words, &at, seq->blocks + (size_t)g * (size_t)seq->table_stride, n_blocks_of(seq->kv_len));
    }
    return at;
}

/* The next n words. */
static const int32_t *take(const int32_t *words, size_t n_words, size_t *at, int64_t n)
{
    LF_ASSERT(n >= 0 && (uint64_t)n <= n_words - *at);
    *at += (size_t)n;
    return words + *at - n;
}

void lf_batch_unpack(struct lf_batch *out, struct lf_kv_seq *seqs, const int32_t *words, size_t n_words, int n_groups)
{
    size_t at = 0;
    int first_token = 0;
    const int32_t *head = take(words, n_words, &at, HEAD_WORDS);
    struct lf_batch b = {.n_tokens = head[0], .n_seqs = head[1], .n_out = head[2], .seqs = seqs};
    b.ids = take(words, n_words, &at, b.n_tokens);
    b.logits_idx = take(words, n_words, &at, b.n_out);
    for (int i = 0; i < b.n_seqs; i++) {
        const int32_t *of_seq = take(words, n_words, &at, SEQ_WORDS);
        int n_blocks = n_blocks_of(of_seq[1]);
        seqs[i] = (struct lf_kv_seq){.blocks = take(words, n_words, &at, (int64_t)n_groups * n_blocks),
                                     .table_stride = n_blocks,
                                     .first_token = first_token,
                                     .n_tokens = of_seq[0],
                                     .kv_len = of_seq[1],
                                     .is_decode = of_seq[2] != 0};
        first_token += of_seq[0];
    }
    LF_ASSERT(at == n_words);
    *out = b;
}
