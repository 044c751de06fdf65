/* See request.h and request_internal.h. One allocation a request, laid out once:
 *
 *     struct | keys | pins | ids (prompt, room for the answer) | grams | blocks | marks | stop ids | allowed |
 * bad words | tokens | prompt log-probabilities
 *
 * The answer's part is reserved, not touched: pages that no token is written to cost nothing. So LF_ANSWER_COUNTED_N
 * tokens of it are counted against the memory for texts; all that running requests can touch together, one entry a
 * token of the KV cache, is lf_engine_answer_bytes.
 *
 * An entry of the outputs is a struct lf_sampled as far as it is used: without alternatives (n_logprobs <= 0) a token's
 * ends before rank and one of the prompt's before top_ids, 12 and 16 bytes instead of 176. So readers go by n_top and
 * never copy a whole one. */
#include "server/engine/request_internal.h"

#include <string.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "grammar/grammar.h"
#include "model/batch.h"
#include "server/engine/engine.h"
#include "server/engine/mailbox.h"

struct layout {
    size_t bytes;
    bool overflow;
};

/* Offset of the next n × size bytes, aligned for anything in here. */
static size_t reserve(struct layout *l, size_t n, size_t size)
{
    size_t at = l->bytes, bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || __builtin_add_overflow(bytes, at + 15, &l->bytes))
        l->overflow = true;
    l->bytes &= ~(size_t)15;
    return at;
}

static size_t stride_for(int n_top, size_t bytes_without)
{
    return n_top > 0 ? sizeof(struct lf_sampled) : bytes_without;
}

static void copy_marks(struct lf_request *req, int32_t *marks, const struct lf_gen_params *p)
{
    for (int i = 0; i < p->n_marks; i++) marks[i] = p->marks[i];
    req->params.marks = req->seq.marks = marks;
    req->seq.n_marks = p->n_marks;
}

static void copy_stop_ids(struct lf_request *req, int32_t *stop, const struct lf_gen_params *p, const int32_t *eos_ids,
                          int n_eos)
{
    int n = 0;
    for (int i = 0; i < p->n_stop_token_ids; i++) stop[n++] = p->stop_token_ids[i];
    for (int i = 0; i < n_eos && !p->ignore_eos; i++) stop[n++] = eos_ids[i];
    req->stop_ids = stop;
    req->n_stop_ids = n;
}

static void allow(uint32_t *mask, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) mask[ids[i] / 32] |= 1u << ids[i] % 32;
}

/* The mask of all that may come. Below min_tokens nothing that ends the answer may, and something must be left. */
static enum lf_status make_allowed(struct lf_request *req, uint32_t *mask, int n_vocab, const struct lf_gen_params *p,
                                   struct lf_err *err)
{
    uint32_t any = 0;
    if (p->n_allowed_ids == 0) return LF_OK;
    memset(mask, 0, (size_t)lf_batch_mask_words(n_vocab) * sizeof *mask);
    allow(mask, p->allowed_ids, p->n_allowed_ids);
    for (int i = 0; i < req->n_stop_ids && p->min_tokens > 0; i++)
        if (req->stop_ids[i] < n_vocab) mask[req->stop_ids[i] / 32] &= ~(1u << req->stop_ids[i] % 32);
    for (int i = 0; i < lf_batch_mask_words(n_vocab); i++) any |= mask[i];
    if (any == 0)
        return lf_fail(err, LF_UNSUPPORTED, "each of them ends the answer, so none may come before min_tokens");
    allow(mask, p->allowed_ids, p->n_allowed_ids);
    req->allowed = mask;
    return LF_OK;
}

/* Whether anything is ever proposed for such a request. */
static bool may_speculate(const struct lf_gen_params *p, const struct lf_mailbox *mailbox)
{
    return p->speculate != LF_SPECULATION_OFF && p->max_tokens > 1 && !mailbox->limits.has_states;
}

/* Tokens in front of the prompt, for the index of grams: the prompt's last ones and the prediction (speculation.h). */
static int n_before_prompt(const struct lf_gen_params *p, bool speculates)
{
    return speculates && p->n_prediction > 0 ? LF_MIN(p->n_prompt, LF_GRAM_MATCH_N) + p->n_prediction : 0;
}

static void copy_prediction(int32_t *ids, int n_before, const struct lf_gen_params *p)
{
    int n_last = n_before - p->n_prediction;
    if (n_before == 0) return;
    memcpy(ids, p->prompt + p->n_prompt - n_last, (size_t)n_last * sizeof *ids);
    memcpy(ids + n_last, p->prediction, (size_t)p->n_prediction * sizeof *ids);
}

/* latest of the index of grams, then one entry a token. */
static void begin_speculation(struct lf_request *req, int n_before, uint32_t *grams, int log2_latest)
{
    struct lf_gram_index index;
    lf_gram_index_init(&index, req->seq.ids - n_before, grams, log2_latest, grams + ((size_t)1 << log2_latest));
    lf_gram_index_extend(&index, n_before + req->seq.n_prompt);
    lf_speculation_init(&req->speculation, &index, n_before, req->params.speculate);
    req->seq.speculation = &req->speculation;
}

static void make_keys(struct lf_request *req, const struct lf_gen_params *p, const struct lf_prefix_cache *prefix)
{
    struct lf_sched_seq *seq = &req->seq;
    lf_prefix_cache_root(prefix, p->salt, (size_t)p->salt_bytes, &seq->keys[0]);
    int block = seq->block_tokens, n_full = p->n_prompt / block;
    for (int i = 0; i < n_full; i++)
        lf_prefix_key_next(&seq->keys[i], seq->ids + (ptrdiff_t)i * block, block, &seq->keys[i + 1]);
    seq->n_keys = n_full + 1;
}

static void fill(struct lf_request *req, const struct lf_gen_params *p, struct lf_mailbox *mailbox)
{
    req->mailbox = mailbox;
    req->params = *p;
    req->params.prompt = req->seq.ids;
    req->params.salt = NULL;
    req->params.salt_bytes = 0;
    req->params.leader = NULL;
    req->n_refs = 1;
    lf_list_init(&req->inbox_node);
    lf_list_init(&req->flight_node);
    lf_list_init(&req->pin_node);
    lf_list_init(&req->seq.node);
    req->seq.block_tokens = lf_kv_windows_block_tokens(&mailbox->limits.windows);
    req->seq.n_prompt = p->n_prompt;
    req->seq.max_tokens = p->max_tokens;
    req->seq.priority = p->priority;
    req->seq.tenant_id = p->tenant;
    req->seq.pin = p->pin;
    req->seq.all_logits = p->n_prompt_logprobs >= 0;
    req->now.n_prompt = p->n_prompt;
    req->now.stop_token = -1;
    req->now.message = "";
    req->state = req->now;
}

/* The matcher of the request's grammar, at the beginning of the answer. */
static enum lf_status begin_grammar(struct lf_request *req, struct lf_err *err)
{
    struct lf_gen_params *p = &req->params;
    if (!p->grammar) return LF_OK;
    enum lf_status status = lf_matcher_create(&req->matcher, p->grammar, p->vocabulary, p->memory);
    if (status == LF_LIMIT) return lf_fail(err, status, "%s", LF_GRAMMAR_TOO_WIDE);
    if (status != LF_OK) return lf_fail(err, status, "no memory for the matcher of a grammar");
    (void)lf_grammar_ref(p->grammar);
    return LF_OK;
}

static enum lf_status create(struct lf_request **out, const struct lf_gen_params *p,
                             const struct lf_engine_backend *backend, const struct lf_prefix_cache *prefix,
                             struct lf_mailbox *mailbox, bool speculates, struct lf_err *err)
{
    int n_words = p->n_allowed_ids ? lf_batch_mask_words(backend->n_vocab) : 0;
    int n_before = n_before_prompt(p, speculates);
    size_t n_ids = (size_t)n_before + (size_t)p->n_prompt + (size_t)p->max_tokens;
    size_t n_blocks = (size_t)lf_sched_n_blocks(&mailbox->limits.windows, p->n_prompt, p->max_tokens);
    size_t n_entries = n_blocks * (size_t)lf_kv_windows_n(&mailbox->limits.windows); /* of a table for each group */
    size_t n_states = prefix ? n_entries + (size_t)mailbox->limits.slot_blocks : 0;
    size_t token_stride = stride_for(p->sampling.n_logprobs, offsetof(struct lf_sampled, rank));
    size_t prompt_stride = stride_for(p->n_prompt_logprobs, offsetof(struct lf_sampled, top_ids));
    int log2_grams = lf_gram_index_log2(n_before + p->n_prompt + LF_MIN(p->max_tokens, LF_ANSWER_COUNTED_N));
    struct layout l = {.bytes = 0};
    (void)reserve(&l, 1, sizeof(struct lf_request));
    size_t keys_at = reserve(&l, prefix ? n_blocks + 1 : 0, sizeof(struct lf_prefix_key));
    size_t pins_at = reserve(&l, p->pin ? n_blocks : 0, sizeof(struct lf_pin_node));
    size_t ids_at = reserve(&l, n_ids, sizeof(int32_t));
    size_t grams_at = reserve(&l, speculates ? ((size_t)1 << log2_grams) + n_ids : 0, sizeof(uint32_t));
    size_t blocks_at = reserve(&l, n_entries, sizeof(int32_t));
    size_t restore_at = reserve(&l, n_states, sizeof(uint8_t));
    size_t marks_at = reserve(&l, (size_t)p->n_marks, sizeof(int32_t));
    size_t stop_at = reserve(&l, (size_t)p->n_stop_token_ids + (size_t)backend->n_eos, sizeof(int32_t));
    size_t allowed_at = reserve(&l, (size_t)n_words, sizeof(uint32_t));
    size_t bad_at = reserve(&l, (size_t)p->n_bad_words, sizeof(int32_t));
    size_t prompt_at = reserve(&l, p->n_prompt_logprobs >= 0 ? (size_t)p->n_prompt : 0, prompt_stride);
    size_t tokens_at = reserve(&l, (size_t)p->max_tokens, token_stride);
    size_t n_uncounted = (size_t)LF_MAX(p->max_tokens - LF_ANSWER_COUNTED_N, 0);
    size_t uncounted = n_uncounted * (sizeof(int32_t) + (speculates ? sizeof(uint32_t) : 0) + token_stride);
    char *base = l.overflow ? NULL : lf_text_alloc_sparse(p->memory, l.bytes, l.bytes - uncounted);
    if (!base)
        return lf_fail(err, LF_NO_MEMORY, "no memory for a request of %d prompt and %d output tokens", p->n_prompt,
                       p->max_tokens);
    memset(base, 0, sizeof(struct lf_request));

    struct lf_request *req = (struct lf_request *)(void *)base;
    req->seq.ids = (int32_t *)(void *)(base + ids_at) + n_before;
    req->seq.blocks = (int32_t *)(void *)(base + blocks_at);
    req->seq.keys = prefix ? (struct lf_prefix_key *)(void *)(base + keys_at) : NULL;
    req->seq.restore.states = prefix ? (uint8_t *)(base + restore_at) : NULL;
    if (prefix) memset(base + restore_at, LF_RESTORE_NONE, n_states);
    req->pins = p->pin ? (struct lf_pin_node *)(void *)(base + pins_at) : NULL;
    req->tokens = base + tokens_at;
    req->prompt_logprobs = p->n_prompt_logprobs >= 0 ? base + prompt_at : NULL;
    req->token_stride = token_stride;
    req->prompt_stride = prompt_stride;
    fill(req, p, mailbox);
    memcpy(req->seq.ids, p->prompt, (size_t)p->n_prompt * sizeof(int32_t));
    copy_prediction(req->seq.ids - n_before, n_before, p);
    if (speculates) begin_speculation(req, n_before, (uint32_t *)(void *)(base + grams_at), log2_grams);
    copy_marks(req, (int32_t *)(void *)(base + marks_at), p);
    copy_stop_ids(req, (int32_t *)(void *)(base + stop_at), p, backend->eos_ids, backend->n_eos);
    req->params.stop_token_ids = req->stop_ids;
    req->params.allowed_ids = NULL;
    req->params.prediction = NULL;
    req->params.bad_words = (int32_t *)(void *)(base + bad_at);
    if (p->n_bad_words) memcpy(base + bad_at, p->bad_words, (size_t)p->n_bad_words * sizeof(int32_t));
    if (prefix) make_keys(req, p, prefix);
    if (req->prompt_logprobs) memset(req->prompt_logprobs, 0, prompt_stride); /* entry 0: nothing stands before it */
    enum lf_status status = make_allowed(req, (uint32_t *)(void *)(base + allowed_at), backend->n_vocab, p, err);
    if (status == LF_OK) status = begin_grammar(req, err);
    if (status != LF_OK)
        lf_text_free(p->memory, req);
    else
        *out = req;
    return status;
}

/* Without room for the index of grams it is answered without. */
enum lf_status lf_request_create(struct lf_request **out, const struct lf_gen_params *p,
                                 const struct lf_engine_backend *backend, const struct lf_prefix_cache *prefix,
                                 struct lf_mailbox *mailbox, struct lf_err *err)
{
    bool speculates = may_speculate(p, mailbox);
    enum lf_status status = create(out, p, backend, prefix, mailbox, speculates, err);
    return speculates && status == LF_NO_MEMORY ? create(out, p, backend, prefix, mailbox, false, err) : status;
}

void lf_request_free(struct lf_request *req)
{
    lf_matcher_destroy(req->matcher);
    lf_grammar_unref(req->params.grammar);
    lf_text_free(req->params.memory, req);
}

void lf_request_set_token(struct lf_request *req, int i, const struct lf_sampled *value)
{
    memcpy(req->tokens + (size_t)i * req->token_stride, value, req->token_stride);
}

void lf_request_set_prompt_logprob(struct lf_request *req, int i, const struct lf_sampled *value)
{
    memcpy(req->prompt_logprobs + (size_t)i * req->prompt_stride, value, req->prompt_stride);
}

const struct lf_sampled *lf_request_token(const struct lf_request *req, int i)
{
    LF_ASSERT(i >= 0 && i < req->params.max_tokens);
    return (const struct lf_sampled *)(const void *)(req->tokens + (size_t)i * req->token_stride);
}

const struct lf_sampled *lf_request_prompt_logprob(const struct lf_request *req, int i)
{
    LF_ASSERT(req->prompt_logprobs && i >= 0 && i < req->params.n_prompt);
    return (const struct lf_sampled *)(const void *)(req->prompt_logprobs + (size_t)i * req->prompt_stride);
}

void lf_request_cancel(struct lf_request *req)
{
    atomic_store_explicit(&req->cancelled, true, memory_order_release);
}
