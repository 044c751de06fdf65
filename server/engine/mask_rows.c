/* What a step may draw under the grammars of its requests.
 *
 * The mask of a row is the grammar's, without the tokens that are banned: those that end the answer, below min_tokens,
 * and those of the model's end where it is to be ignored, since nothing follows an end. Where that leaves none, the
 * answer ends instead of going on: it is whole where the grammar says so, and else the vocabulary lacks a byte. */
#include "server/engine/engine_internal.h"

#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "grammar/grammar.h"

static bool draws_under_grammar(const struct lf_sched_item *item)
{
    if (!item->seq || !item->complete || item->seq->max_tokens == 0) return false;
    return LF_LIST_ENTRY(item->seq, struct lf_request, seq)->matcher != NULL;
}

bool lf_engine_has_grammars(const struct lf_sched_step *step)
{
    for (int i = 0; i < step->n_items; i++)
        if (draws_under_grammar(&step->items[i])) return true;
    return false;
}

static void forbid(uint32_t *mask, int n_vocab, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < n_vocab) mask[ids[i] / 32] &= ~(1u << ids[i] % 32);
}

static bool is_empty(const uint32_t *mask, int n_words)
{
    for (int i = 0; i < n_words; i++)
        if (mask[i] != 0) return false;
    return true;
}

/* What is left of a mask when all that must not be drawn is out; false where that is nothing. */
static bool trim(const struct lf_engine *e, const struct lf_request *req, uint32_t *mask)
{
    const struct lf_gen_params *p = &req->params;
    size_t n_words = (size_t)e->n_mask_words, n_known = lf_vocabulary_mask_words(p->vocabulary);
    memset(mask + n_known, 0, (n_words - n_known) * sizeof *mask);
    if (e->backend.n_vocab % 32 != 0) mask[n_words - 1] &= (1u << e->backend.n_vocab % 32) - 1;
    if (req->seq.n_ids - req->seq.n_placeholders - req->seq.n_prompt < p->min_tokens)
        forbid(mask, e->backend.n_vocab, req->stop_ids, req->n_stop_ids);
    if (p->ignore_eos) forbid(mask, e->backend.n_vocab, e->backend.eos_ids, e->backend.n_eos);
    return !is_empty(mask, e->n_mask_words);
}

/* A row without a token that may come is not drawn from. */
static void end_without_choice(struct lf_engine *e, struct lf_request *req, enum lf_status status, int64_t now_ns)
{
    if (status != LF_OK)
        lf_engine_end_grammar(e, req, status, now_ns);
    else if (lf_matcher_is_complete(req->matcher))
        lf_engine_finish(e, req, LF_FINISH_STOP, LF_OK, "", now_ns);
    else
        lf_engine_end_grammar(e, req, LF_UNSUPPORTED, now_ns);
}

void lf_engine_fill_masks(struct lf_engine *e, const struct lf_sched_step *step, int64_t now_ns)
{
    int n = 0, k = 0;
    for (int i = 0; i < step->n_items; i++) {
        if (!draws_under_grammar(&step->items[i])) continue;
        e->mask_jobs[n] =
            (struct lf_mask_job){.matcher = LF_LIST_ENTRY(step->items[i].seq, struct lf_request, seq)->matcher,
                                 .mask = e->mask_rows + (size_t)n * (size_t)e->n_mask_words};
        n++;
    }
    lf_masks_run(&e->masks, e->mask_jobs, n);
    lf_counter_add(&e->metrics.masks, (uint64_t)n);
    lf_counter_add(&e->metrics.masks_ns, (uint64_t)(lf_clock_ns() - now_ns));

    struct lf_batch_out *out = e->arrays.outs;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        out += item->n_out;
        if (!draws_under_grammar(item)) continue;
        struct lf_request *req = LF_LIST_ENTRY(item->seq, struct lf_request, seq);
        const struct lf_mask_job *job = &e->mask_jobs[k++];
        if (job->status == LF_OK && trim(e, req, job->mask))
            out[-1].mask = job->mask;
        else
            end_without_choice(e, req, job->status, now_ns);
    }
    LF_ASSERT(k == n);
}
