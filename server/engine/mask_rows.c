/* What a step may draw where that depends on the tokens before it: under the grammars of its requests, and beside their
 * bad words.
 *
 * Proposed tokens (speculation.h) have a row each, whose mask is what may come behind those before it. What the grammar
 * refuses is not even proposed (lf_engine_n_allowed), so a step's rows have masks; where one cannot be made after all,
 * for its cost or because nothing is left to draw, the item is read up to there, and the next step meets the same place
 * as its first row, where it is decided what becomes of the answer.
 *
 * The mask of a row is the grammar's, or all that is allowed, without the tokens that are banned: those that end the
 * answer, below min_tokens, the last ones of bad words, and under a grammar those of the model's end where it is to be
 * ignored, since nothing follows an end. Where that leaves none, the answer ends instead of going on: it is whole where
 * its grammar says so, and else the vocabulary lacks a byte, or bad words forbid it. */
#include "server/engine/engine_internal.h"

#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "grammar/grammar.h"

static struct lf_request *request_of(const struct lf_sched_item *item)
{
    return LF_LIST_ENTRY(item->seq, struct lf_request, seq);
}

static bool draws_under_mask(const struct lf_sched_item *item)
{
    if (!item->seq || !item->complete || item->seq->max_tokens == 0) return false;
    return request_of(item)->matcher || request_of(item)->params.n_bad_words > 0;
}

bool lf_engine_has_masks(const struct lf_sched_step *step)
{
    for (int i = 0; i < step->n_items; i++)
        if (draws_under_mask(&step->items[i])) return true;
    return false;
}

static void forbid(uint32_t *mask, int n_vocab, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < n_vocab) mask[ids[i] / 32] &= ~(1u << ids[i] % 32);
}

/* Tokens that are known, and the first n_ahead of those proposed, which stand behind them. */
static int n_output_of(const struct lf_request *req, int n_ahead)
{
    return req->seq.n_ids - req->seq.n_placeholders - req->seq.n_prompt + n_ahead;
}

/* The last token of each bad word with whose others the answer ends, of n_output tokens. */
static void forbid_words(uint32_t *mask, int n_vocab, const struct lf_request *req, int n_output)
{
    const struct lf_gen_params *p = &req->params;
    const int32_t *end = req->seq.ids + req->seq.n_prompt + n_output;
    for (int at = 0; at < p->n_bad_words; at += 1 + p->bad_words[at]) {
        const int32_t *word = p->bad_words + at + 1;
        int n_before = p->bad_words[at] - 1;
        if (n_before > n_output) continue;
        if (memcmp(end - n_before, word, (size_t)n_before * sizeof *word) == 0)
            forbid(mask, n_vocab, word + n_before, 1);
    }
}

static bool is_empty(const uint32_t *mask, int n_words)
{
    for (int i = 0; i < n_words; i++)
        if (mask[i] != 0) return false;
    return true;
}

/* All that a row without a grammar may draw. */
static void allow(const struct lf_engine *e, const struct lf_request *req, uint32_t *mask)
{
    size_t bytes = (size_t)e->n_mask_words * sizeof *mask;
    if (req->allowed)
        memcpy(mask, req->allowed, bytes);
    else
        memset(mask, 0xff, bytes);
}

/* What is left of a mask when all that must not be drawn behind n_output tokens is out; false where that is nothing. */
static bool trim(const struct lf_engine *e, const struct lf_request *req, uint32_t *mask, int n_output)
{
    const struct lf_gen_params *p = &req->params;
    size_t n_words = (size_t)e->n_mask_words, n_known = p->grammar ? lf_vocabulary_mask_words(p->vocabulary) : n_words;
    memset(mask + n_known, 0, (n_words - n_known) * sizeof *mask);
    if (e->backend.n_vocab % 32 != 0) mask[n_words - 1] &= (1u << e->backend.n_vocab % 32) - 1;
    if (n_output < p->min_tokens) forbid(mask, e->backend.n_vocab, req->stop_ids, req->n_stop_ids);
    if (p->grammar && p->ignore_eos) forbid(mask, e->backend.n_vocab, e->backend.eos_ids, e->backend.n_eos);
    forbid_words(mask, e->backend.n_vocab, req, n_output);
    return !is_empty(mask, e->n_mask_words);
}

/* A row without a token that may come is not drawn from. */
static void end_without_choice(struct lf_engine *e, struct lf_request *req, enum lf_status status, int64_t now_ns)
{
    if (status != LF_OK)
        lf_engine_end_grammar(e, req, status, now_ns);
    else if (req->matcher && lf_matcher_is_complete(req->matcher))
        lf_engine_finish(e, req, LF_FINISH_STOP, LF_OK, "", now_ns);
    else if (req->params.n_bad_words > 0)
        lf_engine_finish(e, req, LF_FINISH_ERROR, LF_UNSUPPORTED, LF_BAD_WORDS_NO_TOKEN, now_ns);
    else
        lf_engine_end_grammar(e, req, LF_UNSUPPORTED, now_ns);
}

static uint32_t *row_at(const struct lf_engine *e, int i)
{
    return e->mask_rows + (size_t)i * (size_t)e->n_mask_words;
}

/* The grammars' masks. Each item that draws under one has its rows in e->mask_rows, behind those of the items before.
 */
static void run_matchers(struct lf_engine *e, const struct lf_sched_step *step, int64_t now_ns)
{
    int n = 0, n_rows = 0;
    uint64_t n_masks = 0;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        if (!draws_under_mask(item)) continue;
        if (request_of(item)->matcher) {
            e->mask_jobs[n++] = (struct lf_mask_job){.matcher = request_of(item)->matcher,
                                                     .mask = row_at(e, n_rows),
                                                     .stride = (size_t)e->n_mask_words,
                                                     .ahead = item->seq->ids + item->seq->n_ids,
                                                     .n_ahead = item->n_proposed};
        }
        n_rows += 1 + item->n_proposed;
    }
    if (n == 0) return;
    lf_masks_run(&e->masks, e->mask_jobs, n);
    for (int i = 0; i < n; i++)
        if (e->mask_jobs[i].status == LF_OK) n_masks += 1 + (uint64_t)e->mask_jobs[i].n_allowed;
    lf_counter_add(&e->metrics.masks, n_masks);
    lf_counter_add(&e->metrics.masks_ns, (uint64_t)(lf_clock_ns() - now_ns));
}

/* The masks of an item's rows, which are in `rows` already where they are a grammar's (job; else NULL). */
static void fill_item(struct lf_engine *e, struct lf_sched_item *item, const struct lf_mask_job *job, uint32_t *rows,
                      struct lf_batch_out *outs, int64_t now_ns)
{
    struct lf_request *req = request_of(item);
    enum lf_status status = job ? job->status : LF_OK;
    int n_most = job ? job->n_allowed : item->n_proposed, n = 0;
    for (; status == LF_OK && n <= n_most; n++) {
        uint32_t *mask = rows + (size_t)n * (size_t)e->n_mask_words;
        if (!job) allow(e, req, mask);
        if (!trim(e, req, mask, n_output_of(req, n))) break;
        outs[n].mask = mask;
    }
    item->n_tried = LF_MAX(n - 1, 0);
    if (n == 0) end_without_choice(e, req, status, now_ns);
}

void lf_engine_fill_masks(struct lf_engine *e, struct lf_sched_step *step, int64_t now_ns)
{
    const struct lf_mask_job *job = e->mask_jobs;
    struct lf_batch_out *out = e->arrays.outs;
    int n_rows = 0;
    run_matchers(e, step, now_ns);
    for (int i = 0; i < step->n_items; i++) {
        struct lf_sched_item *item = &step->items[i];
        out += item->n_out;
        if (!draws_under_mask(item)) continue;
        int n = 1 + item->n_proposed;
        fill_item(e, item, request_of(item)->matcher ? job++ : NULL, row_at(e, n_rows), out - n, now_ns);
        n_rows += n;
    }
}

int lf_engine_n_allowed(void *engine, const struct lf_sched_seq *seq, const int32_t *ids, int n)
{
    struct lf_engine *e = engine;
    struct lf_mask_job job = {
        .matcher = LF_LIST_ENTRY(seq, struct lf_request, seq)->matcher, .ahead = ids, .n_ahead = n};
    if (!job.matcher || n == 0) return n;
    lf_masks_run(&e->masks, &job, 1);
    return job.n_allowed;
}
