#include "model/batch_message.h"

#include <string.h>

#include "core/check.h"

enum {
    HEAD_WORDS = 4,
    SEQ_WORDS = 3,
    STATE_WORDS = sizeof(struct lf_state_seq) / sizeof(int32_t),
    MARK_WORDS = sizeof(struct lf_state_mark) / sizeof(int32_t)
};

static int n_blocks_of(const struct lf_step_limits *limits, int kv_len)
{
    int n = lf_kv_block_tokens(limits->n_cp);
    return (kv_len + n - 1) / n;
}

size_t lf_batch_message_words(const struct lf_step_limits *limits, const struct lf_kv_layout *layout)
{
    size_t of_seq = SEQ_WORDS + (size_t)layout->n_groups * (size_t)n_blocks_of(limits, limits->ctx);
    size_t n_marks = layout->states.n_layers > 0 ? (size_t)lf_batch_n_marks(limits->max_seqs) : 0;
    if (layout->states.n_layers > 0) of_seq += STATE_WORDS;
    return HEAD_WORDS + (size_t)limits->chunk + (size_t)limits->max_out + n_marks * MARK_WORDS +
           (size_t)limits->max_seqs * of_seq;
}

/* n words behind those that are there. */
static void put(int32_t *words, size_t *at, const void *from, int n)
{
    if (n > 0) memcpy(words + *at, from, (size_t)n * sizeof(*words));
    *at += (size_t)n;
}

size_t lf_batch_pack(int32_t *words, const struct lf_batch *b, const struct lf_step_limits *limits,
                     const struct lf_kv_layout *layout)
{
    LF_ASSERT(b->n_tokens <= limits->chunk && b->n_seqs <= limits->max_seqs && b->n_out <= limits->max_out);
    LF_ASSERT(b->n_marks <= lf_batch_n_marks(limits->max_seqs));
    const int32_t head[HEAD_WORDS] = {b->n_tokens, b->n_seqs, b->n_out, b->n_marks};
    size_t at = 0;
    put(words, &at, head, HEAD_WORDS);
    put(words, &at, b->ids, b->n_tokens);
    put(words, &at, b->logits_idx, b->n_out);
    if (layout->states.n_layers > 0) {
        put(words, &at, b->states, b->n_seqs * STATE_WORDS);
        put(words, &at, b->marks, b->n_marks * MARK_WORDS);
    }
    for (int i = 0; i < b->n_seqs; i++) {
        const struct lf_kv_seq *seq = &b->seqs[i];
        LF_ASSERT(seq->kv_len <= limits->ctx);
        const int32_t of_seq[SEQ_WORDS] = {seq->n_tokens, seq->kv_len, seq->is_decode};
        put(words, &at, of_seq, SEQ_WORDS);
        for (int g = 0; g < layout->n_groups; g++)
            put(words, &at, seq->blocks + (size_t)g * (size_t)seq->table_stride, n_blocks_of(limits, seq->kv_len));
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

/* A sequence's tables, of all groups: blocks of the cache. */
static const int32_t *take_blocks(const int32_t *words, size_t n_words, size_t *at, int64_t n, int n_blocks)
{
    const int32_t *blocks = take(words, n_words, at, n);
    for (int64_t i = 0; i < n; i++) LF_ASSERT(blocks[i] >= 0 && blocks[i] < n_blocks);
    return blocks;
}

void lf_batch_unpack(struct lf_batch *out, struct lf_kv_seq *seqs, const int32_t *words, size_t n_words,
                     const struct lf_step_limits *limits, const struct lf_kv_layout *layout, int n_blocks)
{
    size_t at = 0;
    int first_token = 0;
    const int32_t *head = take(words, n_words, &at, HEAD_WORDS);
    struct lf_batch b = {.n_tokens = head[0], .n_seqs = head[1], .n_out = head[2], .seqs = seqs};
    LF_ASSERT(b.n_seqs >= 0 && b.n_seqs <= limits->max_seqs);
    b.ids = take(words, n_words, &at, b.n_tokens);
    b.logits_idx = take(words, n_words, &at, b.n_out);
    if (layout->states.n_layers > 0) {
        b.n_marks = head[3];
        b.states = (const void *)take(words, n_words, &at, (int64_t)b.n_seqs * STATE_WORDS);
        b.marks = (const void *)take(words, n_words, &at, (int64_t)b.n_marks * MARK_WORDS);
    }
    for (int i = 0; i < b.n_seqs; i++) {
        const int32_t *of_seq = take(words, n_words, &at, SEQ_WORDS);
        LF_ASSERT(of_seq[1] >= 1 && of_seq[1] <= limits->ctx);
        LF_ASSERT(of_seq[0] >= 0 && of_seq[0] <= b.n_tokens - first_token);
        int stride = n_blocks_of(limits, of_seq[1]);
        int64_t n_entries = (int64_t)layout->n_groups * stride;
        seqs[i] = (struct lf_kv_seq){.blocks = take_blocks(words, n_words, &at, n_entries, n_blocks),
                                     .table_stride = stride,
                                     .first_token = first_token,
                                     .n_tokens = of_seq[0],
                                     .kv_len = of_seq[1],
                                     .is_decode = of_seq[2] != 0};
        first_token += of_seq[0];
    }
    LF_ASSERT(at == n_words);
    *out = b;
}
