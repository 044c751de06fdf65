/* Submitting: everything that can be wrong with a request is said here, on the caller's thread, before anything of it
 * is kept. */
#include "core/check.h"
#include "core/text_memory.h"
#include "grammar/grammar.h"
#include "kv/tiers/disk_table.h"
#include "server/engine/block_tables.h"
#include "server/engine/engine_internal.h"
#include "server/engine/states.h"

static enum lf_status check_ids(const int32_t *ids, int n, int n_vocab, const char *what, struct lf_err *err)
{
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_vocab)
            return lf_fail(err, LF_INVALID, "%s: id %d at position %d is not below the vocabulary's %d", what, ids[i],
                           i, n_vocab);
    return LF_OK;
}

static enum lf_status check_words(const struct lf_gen_params *p, int n_vocab, struct lf_err *err)
{
    if (p->n_bad_words < 0) return lf_fail(err, LF_INVALID, "%d bad words", p->n_bad_words);
    for (int at = 0, n; at < p->n_bad_words; at += 1 + n) {
        n = p->bad_words[at];
        if (n < 1 || n > p->n_bad_words - at - 1)
            return lf_fail(err, LF_INVALID, "a bad word of %d ids: 1 to %d", n, p->n_bad_words - at - 1);
        LF_TRY(check_ids(p->bad_words + at + 1, n, n_vocab, "bad_words", err));
    }
    return LF_OK;
}

static enum lf_status check_marks(const struct lf_gen_params *p, struct lf_err *err)
{
    if (p->n_marks < 0 || p->n_marks > LF_ASK_DOCUMENTS_N)
        return lf_fail(err, LF_INVALID, "%d marks: at most %d", p->n_marks, LF_ASK_DOCUMENTS_N);
    for (int i = 0; i < p->n_marks; i++)
        if (p->marks[i] < 1 || p->marks[i] > p->n_prompt)
            return lf_fail(err, LF_INVALID, "a mark behind token %d of %d", p->marks[i], p->n_prompt);
    return LF_OK;
}

static enum lf_status check_params(const struct lf_gen_params *p, int n_vocab, struct lf_err *err)
{
    if (p->n_prompt < 1) return lf_fail(err, LF_INVALID, "a prompt has at least 1 token");
    if (p->max_tokens < 0 || p->min_tokens < 0)
        return lf_fail(err, LF_INVALID, "max_tokens %d and min_tokens %d: at least 0", p->max_tokens, p->min_tokens);
    if (p->n_stop_token_ids < 0 || p->n_stop_token_ids > LF_STOP_TOKENS_N)
        return lf_fail(err, LF_INVALID, "%d stop token ids: at most %d", p->n_stop_token_ids, LF_STOP_TOKENS_N);
    if (p->sampling.n_bias < 0 || p->sampling.n_bias > LF_LOGIT_BIAS_N)
        return lf_fail(err, LF_INVALID, "%d logit biases: at most %d", p->sampling.n_bias, LF_LOGIT_BIAS_N);
    if (p->sampling.n_logprobs > LF_TOP_LOGPROBS_N || p->n_prompt_logprobs > LF_TOP_LOGPROBS_N)
        return lf_fail(err, LF_INVALID, "log-probabilities of %d and %d tokens: at most %d", p->sampling.n_logprobs,
                       p->n_prompt_logprobs, LF_TOP_LOGPROBS_N);
    if (p->speculate < LF_SPECULATION_AUTO || p->speculate > LF_SPECULATION_N)
        return lf_fail(err, LF_INVALID, "speculate %d: -1 for as many tokens as pay, or 0 to %d", p->speculate,
                       LF_SPECULATION_N);
    if (p->n_prediction < 0) return lf_fail(err, LF_INVALID, "a prediction of %d tokens: at least 0", p->n_prediction);
    if (p->pin < LF_PIN_NONE || p->pin >= LF_PIN_N || (p->pin && (p->max_tokens != 0 || p->n_prompt_logprobs >= 0)))
        return lf_fail(err, LF_INVALID, "only a prompt alone can be pinned");
    if (p->salt_bytes < 0) return lf_fail(err, LF_INVALID, "a salt of %d bytes", p->salt_bytes);
    if (p->grammar &&
        (!p->vocabulary || lf_vocabulary_mask_words(p->vocabulary) > (size_t)lf_batch_mask_words(n_vocab)))
        return lf_fail(err, LF_INVALID, "a grammar needs a vocabulary of at most %d tokens", n_vocab);
    if (p->n_allowed_ids < 0 || (p->n_allowed_ids > 0 && p->grammar))
        return lf_fail(err, LF_INVALID, "%d allowed ids: none beside a grammar", p->n_allowed_ids);
    LF_TRY(check_marks(p, err));
    LF_TRY(check_ids(p->allowed_ids, p->n_allowed_ids, n_vocab, "allowed_token_ids", err));
    LF_TRY(check_words(p, n_vocab, err));
    LF_TRY(check_ids(p->prompt, p->n_prompt, n_vocab, "prompt", err));
    LF_TRY(check_ids(p->prediction, p->n_prediction, n_vocab, "prediction", err));
    LF_TRY(check_ids(p->stop_token_ids, p->n_stop_token_ids, n_vocab, "stop_token_ids", err));
    for (int i = 0; i < p->sampling.n_bias; i++)
        LF_TRY(check_ids(&p->sampling.bias[i].id, 1, n_vocab, "logit_bias", err));
    return LF_OK;
}

static enum lf_status check_size(struct lf_engine *e, const struct lf_gen_params *p, struct lf_err *err)
{
    int64_t n_tokens = (int64_t)p->n_prompt + p->max_tokens,
            n_blocks = lf_sched_need(&e->sched, p->n_prompt, p->max_tokens);
    enum lf_status status = LF_OK;
    if (p->n_prediction > e->opts.ctx)
        return lf_fail(err, LF_INVALID, "a prediction of %d tokens passes the context of %d", p->n_prediction,
                       e->opts.ctx);
    if (n_tokens > e->opts.ctx)
        status = lf_fail(err, LF_LIMIT, "%d prompt and %d output tokens pass the context of %d", p->n_prompt,
                         p->max_tokens, e->opts.ctx);
    else if (n_blocks > e->mailbox.limits.n_blocks)
        status = lf_fail(err, LF_LIMIT, "%d prompt and %d output tokens need %lld KV blocks, there are %d", p->n_prompt,
                         p->max_tokens, (long long)n_blocks, e->mailbox.limits.n_blocks);
    if (status != LF_OK) lf_counter_add(&e->metrics.rejected_too_long, 1);
    return status;
}

static int n_full_blocks(const struct lf_engine *e, const struct lf_gen_params *p)
{
    return p->n_prompt / e->kv->block_tokens;
}

/* The key of a prompt's block i. */
static void block_key(const struct lf_engine *e, const struct lf_gen_params *p, int i, const struct lf_prefix_key *prev,
                      struct lf_prefix_key *key)
{
    int n = e->kv->block_tokens;
    lf_prefix_key_next(prev, p->prompt + (ptrdiff_t)i * n, n, key);
}

_Static_assert(sizeof(struct lf_prefix_key) == LF_SHA256_BYTES, "others see keys as bytes");

bool lf_engine_keys(struct lf_engine *e, const struct lf_gen_params *p, uint8_t *bytes)
{
    struct lf_prefix_key *keys = (struct lf_prefix_key *)bytes, key;
    if (!e->kv->prefix) return false;
    lf_prefix_cache_root(e->kv->prefix, p->salt, (size_t)p->salt_bytes, &key);
    for (int i = 0; i < n_full_blocks(e, p); i++) {
        block_key(e, p, i, &key, &keys[i]);
        key = keys[i];
    }
    return true;
}

/* How many of these blocks a tier has in one group; tier -1: the cache. */
static int count_there(struct lf_engine *e, int tier, int group, const struct lf_prefix_key *keys, int n)
{
    int n_there = 0;
    if (tier < 0) return lf_prefix_cache_count_in(e->kv->prefix, group, keys, n);
    for (int i = 0; i < n; i++) {
        struct lf_prefix_key key = lf_prefix_group_key(&keys[i], group);
        n_there += lf_tier_has(e->tiers.below[tier].tier, &key);
    }
    return n_there;
}

/* Whether a tier has the snapshot with this key, whole; tier -1: the cache. True where there are no states. */
static bool has_snapshot(struct lf_engine *e, int tier, const struct lf_prefix_key *chain)
{
    int n_parts = e->kv->states.slot_blocks, n_there = 0;
    if (n_parts > 0 && tier < 0) return lf_prefix_cache_count(e->kv->snapshots, chain, 1) == 1;
    for (int i = 0; i < n_parts; i++) n_there += count_there(e, tier, LF_STATES_PART_GROUP + i, chain, 1);
    return n_there == n_parts;
}

/* In all groups: those that see all have them. Where windows lack something that is seen from behind the last, or there
 * is no snapshot, that one is not there. */
static int count_place(struct lf_engine *e, int tier, const struct lf_prefix_key *keys, int n)
{
    const struct lf_kv_windows *w = &e->sched.opts.windows;
    int n_there = n, n_seen = n;
    for (int g = 0; g < lf_kv_windows_n(w); g++) {
        int first = lf_kv_windows_first(w, g, n);
        bool slides = lf_kv_windows_slides(w, g);
        int n_in = count_there(e, tier, g, keys + first, n - first);
        if (!slides) n_there = LF_MIN(n_there, n_in);
        if (slides && n_in < n - first) n_seen = LF_MAX(n - 1, 0);
    }
    if (n_seen < n && lf_kv_windows_n_full(w) == 0) n_there = count_there(e, tier, 0, keys, n);
    if (n > 0 && !has_snapshot(e, tier, &keys[n - 1])) n_seen = LF_MIN(n_seen, n - 1);
    return LF_MIN(n_there, n_seen);
}

void lf_engine_places(struct lf_engine *e, const uint8_t *bytes, int n, int n_there[LF_PIN_N])
{
    const struct lf_prefix_key *keys = (const struct lf_prefix_key *)bytes;
    for (int pin = 0; pin < LF_PIN_N; pin++) n_there[pin] = 0;
    if (!e->kv->prefix) return;
    n_there[LF_PIN_DEVICE] = count_place(e, -1, keys, n);
    for (int t = 0; t < e->tiers.n; t++)
        n_there[t == e->tiers.disk ? LF_PIN_DISK : LF_PIN_MEMORY] += count_place(e, t, keys, n);
}

void lf_engine_guard(struct lf_engine *e, bool guarded)
{
    if (e->opts.disk) lf_disk_table_guard(e->opts.disk, guarded);
}

int64_t lf_engine_most(struct lf_engine *e, const struct lf_gen_params *p)
{
    int64_t n = e->mailbox.limits.n_blocks;
    int n_most = p->n_prompt_logprobs >= 0 ? 0 : (p->n_prompt - 1) / e->kv->block_tokens;
    if (lf_mailbox_n_pinned(&e->mailbox) > 0) {
        size_t bytes = ((size_t)n_full_blocks(e, p) + 1) * sizeof(struct lf_prefix_key);
        struct lf_prefix_key *keys = e->kv->prefix ? lf_text_alloc(p->memory, bytes) : NULL;
        if (keys && !lf_engine_keys(e, p, keys[1].bytes)) n_most = 0;
        n = lf_mailbox_most(&e->mailbox, keys, n_full_blocks(e, p) + 1, keys ? n_most : 0);
        lf_text_free(p->memory, keys);
    }
    return lf_engine_fit(e, n);
}

int64_t lf_engine_pin_blocks(const struct lf_engine *e, enum lf_pin pin, int64_t n)
{
    return lf_mailbox_pin_blocks(&e->mailbox, pin, n);
}

/* Notes in n_run which of the groups have block i on disk, as the number of such in a row that end with it. Whether
 * those that see all have it. */
static bool note_kept(struct lf_engine *e, const struct lf_prefix_key *chain, int n_run[LF_KV_WINDOWS_N])
{
    const struct lf_kv_windows *w = &e->sched.opts.windows;
    bool whole = true;
    for (int g = 0; g < lf_kv_windows_n(w); g++) {
        struct lf_prefix_key key = lf_prefix_group_key(chain, g);
        n_run[g] = lf_disk_table_has(e->opts.disk, &key) ? n_run[g] + 1 : 0;
        whole = whole && (n_run[g] > 0 || lf_kv_windows_slides(w, g));
    }
    return whole;
}

/* Whether all that is seen from behind the first n blocks is among those, and the snapshot there is on disk. */
static bool has_seen(struct lf_engine *e, const struct lf_prefix_key *chain, const int n_run[LF_KV_WINDOWS_N], int n)
{
    const struct lf_kv_windows *w = &e->sched.opts.windows;
    for (int g = 0; g < lf_kv_windows_n(w); g++)
        if (n_run[g] < n - lf_kv_windows_first(w, g, n)) return false;
    for (int i = 0; i < e->kv->states.slot_blocks; i++) {
        struct lf_prefix_key key = lf_prefix_group_key(chain, LF_STATES_PART_GROUP + i);
        if (!lf_disk_table_has(e->opts.disk, &key)) return false;
    }
    return true;
}

int lf_engine_n_kept(struct lf_engine *e, const struct lf_gen_params *p)
{
    struct lf_prefix_key key;
    int n_run[LF_KV_WINDOWS_N] = {0}, n_kept = 0;
    if (!e->opts.disk || !e->kv->prefix) return 0;
    lf_prefix_cache_root(e->kv->prefix, p->salt, (size_t)p->salt_bytes, &key);
    for (int i = 0; i < n_full_blocks(e, p); i++) {
        struct lf_prefix_key prev = key;
        block_key(e, p, i, &prev, &key);
        if (!note_kept(e, &key, n_run)) break;
        if (has_seen(e, &key, n_run, i + 1)) n_kept = i + 1;
    }
    return n_kept * e->kv->block_tokens;
}

enum lf_status lf_engine_submit(struct lf_engine *engine, const struct lf_gen_params *params, struct lf_request **out,
                                int *retry_after_s, struct lf_err *err)
{
    struct lf_engine *e = engine;
    struct lf_request *req;
    LF_TRY(check_params(params, e->backend.n_vocab, err));
    LF_TRY(check_size(e, params, err));
    if (params->pin && !e->kv->prefix) return lf_fail(err, LF_INVALID, "there is no prefix cache to pin anything in");
    LF_TRY(lf_mailbox_check_room(&e->mailbox, params, retry_after_s, err));
    LF_TRY(lf_request_create(&req, params, &e->backend, e->kv->prefix, &e->mailbox, err));
    enum lf_status status = lf_mailbox_submit(&e->mailbox, req, params->leader, retry_after_s, err);
    if (status != LF_OK) {
        lf_request_free(req);
        return status;
    }
    *out = req;
    return LF_OK;
}
