/* What is to become of a step's logits, and what has: tokens, log-probabilities of the prompt, and ends.
 *
 * The results of the step's items lie one behind the other in the batch's order. A row's token is a pure function of
 * (logits, the request's parameters and history, position), so it is the same in any batch. */
#include "server/engine/block_tables.h"
#include "server/engine/engine_internal.h"
#include "server/engine/holding.h"

#include "core/check.h"
#include "grammar/grammar.h"

static double seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

static struct lf_request *request_of(struct lf_sched_seq *seq)
{
    return LF_LIST_ENTRY(seq, struct lf_request, seq);
}

void lf_engine_touch(struct lf_engine *e, struct lf_request *req)
{
    if (req->touched) return;
    req->touched = true;
    req->next_touched = e->touched;
    e->touched = req;
}

static void count_finish(struct lf_engine *e, const struct lf_request *req)
{
    struct lf_engine_metrics *m = &e->metrics;
    const struct lf_request_state *now = &req->now;
    struct lf_counter *counters[] = {[LF_FINISH_STOP] = &m->finished_stop,
                                     [LF_FINISH_LENGTH] = &m->finished_length,
                                     [LF_FINISH_CANCELLED] = &m->finished_cancelled,
                                     [LF_FINISH_ERROR] = &m->finished_error};
    lf_counter_add(counters[now->finish], 1);
    lf_histogram_observe(&m->e2e_s, seconds(now->submitted_ns, now->finished_ns));
    lf_histogram_observe(&m->max_tokens, req->params.max_tokens);
    if (now->started_ns != 0) {
        lf_histogram_observe(&m->generation_tokens_per_request, now->n_tokens);
        lf_histogram_observe(&m->inference_s, seconds(now->started_ns, now->finished_ns));
    }
    if (now->first_token_ns != 0) lf_histogram_observe(&m->decode_s, seconds(now->first_token_ns, now->finished_ns));
}

/* Debug builds show that nothing reads a block that nobody owns. Not on a GPU with something below: there it would be
 * done in the queue, some time, and a block that is loaded comes beside it. */
#ifdef LF_DEBUG
static bool may_poison(const struct lf_engine *e)
{
    return e->tiers.n == 0 || lf_device_info(e->kv->dev)->is_host;
}
#endif

static void poison_blocks(struct lf_engine *e, const struct lf_sched_seq *seq)
{
#ifdef LF_DEBUG
    if (!may_poison(e)) return;
    for (int g = 0; g < lf_kv_windows_n(&e->sched.opts.windows); g++)
        for (int i = seq->tables[g].first; i < seq->tables[g].end; i++) {
            int32_t idx = lf_sched_table(seq, g)[i];
            const struct lf_block *block = &e->kv->pool.blocks[idx];
            if (block->n_refs == 1 && !block->cached) lf_kv_cache_poison(e->kv, idx);
        }
#else
    (void)e;
    (void)seq;
#endif
}

/* What an item's step has passed is among the entries before the table's first; others there may be anybody's. A block
 * that is free is nobody's, so it does not matter which one it was. */
void lf_engine_poison_passed(struct lf_engine *e, const struct lf_sched_step *step)
{
#ifdef LF_DEBUG
    const struct lf_kv_windows *w = &e->sched.opts.windows;
    if (!may_poison(e)) return;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_seq *seq = step->items[i].seq;
        int n_most = step->items[i].n_tokens / seq->block_tokens + 2;
        for (int g = 0; g < lf_kv_windows_n(w); g++) {
            int end = lf_kv_windows_slides(w, g) ? seq->tables[g].first : 0;
            for (int k = LF_MAX(end - n_most, 0); k < end; k++) {
                int32_t idx = lf_sched_table(seq, g)[k];
                const struct lf_block *block = &e->kv->pool.blocks[idx];
                if (block->n_refs == 0 && !block->cached) lf_kv_cache_poison(e->kv, idx);
            }
        }
    }
#else
    (void)e;
    (void)step;
#endif
}

/* Takes a sequence out of the steps on their way. */
static void forget(struct lf_engine *e, const struct lf_sched_seq *seq)
{
    for (int f = 0; f < e->n_flights; f++) {
        struct lf_sched_step *step = &e->flights[(e->first_flight + f) % (LF_ENGINE_ASYNC_STEPS_N + 1)].step;
        for (int i = 0; i < step->n_items; i++)
            if (step->items[i].seq == seq) step->items[i].seq = NULL;
    }
}

void lf_engine_finish(struct lf_engine *e, struct lf_request *req, enum lf_finish finish, enum lf_status status,
                      const char *message, int64_t now_ns)
{
    LF_ASSERT(req->now.finish == LF_FINISH_NONE && finish != LF_FINISH_NONE);
    req->holds = finish == LF_FINISH_LENGTH && !req->now.timed_out && req->params.pin != LF_PIN_NONE;
    if (req->holds) {
        lf_sched_hold(&e->sched, &req->seq);
    } else {
        poison_blocks(e, &req->seq);
        lf_sched_end(&e->sched, &req->seq);
        lf_tiers_unpin(e, req);
        if (req->params.pin) lf_mailbox_unpin(&e->mailbox, req);
    }
    forget(e, &req->seq);
    if (req->now.started_ns == 0)
        lf_mailbox_leave_queue(&e->mailbox, req, 0);
    else
        e->slots[e->n_slots++] = req->slot;
    req->now.finish = finish;
    req->now.status = status;
    req->now.message = message;
    req->now.finished_ns = now_ns;
    req->now.eta_ns = 0;
    count_finish(e, req);
    lf_engine_touch(e, req);
}

void lf_engine_let_go(struct lf_engine *e, struct lf_request *req)
{
    req->holds = false;
    lf_sched_end(&e->sched, &req->seq);
    lf_tiers_unpin(e, req);
    lf_mailbox_let_go(&e->mailbox, req);
}

bool lf_engine_hold_at_once(struct lf_engine *e, struct lf_request *req, int64_t now_ns)
{
    if (req->params.pin == LF_PIN_NONE || req->params.pin == LF_PIN_DEVICE || !lf_tiers_have(e, req)) return false;
    req->now.n_processed = req->now.n_prompt;
    lf_engine_finish(e, req, LF_FINISH_LENGTH, LF_OK, "", now_ns);
    return true;
}

void lf_engine_time_out(struct lf_engine *e, struct lf_request *req, int64_t now_ns)
{
    req->now.timed_out = true;
    lf_engine_finish(e, req, LF_FINISH_LENGTH, LF_OK, "", now_ns);
}

void lf_engine_end_grammar(struct lf_engine *e, struct lf_request *req, enum lf_status status, int64_t now_ns)
{
    const char *message = LF_GRAMMAR_TOO_WIDE;
    if (status == LF_NO_MEMORY) message = LF_GRAMMAR_NO_MEMORY;
    if (status == LF_UNSUPPORTED) message = LF_GRAMMAR_NO_TOKEN;
    if (status == LF_INVALID) message = LF_GRAMMAR_NOT_FOLLOWED;
    lf_counter_add(&e->metrics.broken_grammars, 1);
    lf_engine_finish(e, req, LF_FINISH_ERROR, status, message, now_ns);
}

static bool is_stop(const struct lf_request *req, int32_t id)
{
    for (int i = 0; i < req->n_stop_ids; i++)
        if (req->stop_ids[i] == id) return true;
    return false;
}

static void note_time(struct lf_engine *e, struct lf_request *req, int64_t now_ns)
{
    struct lf_request_state *now = &req->now;
    if (now->first_token_ns == 0) {
        now->first_token_ns = now_ns;
        lf_histogram_observe(&e->metrics.ttft_s, seconds(now->submitted_ns, now_ns));
        lf_histogram_observe(&e->metrics.prefill_s, seconds(now->started_ns, now_ns));
    } else if (now_ns != req->last_token_ns) { /* what has come of a step comes at once: a reader sees one gap */
        lf_histogram_observe(&e->metrics.itl_s, seconds(req->last_token_ns, now_ns));
    }
    req->last_token_ns = now_ns;
}

/* Logits from which no token can be drawn: the model's weights or its arithmetic are broken, and whatever would be
 * answered is none of its text. */
static void end_without_token(struct lf_engine *e, struct lf_request *req, int64_t now_ns)
{
    lf_counter_add(&e->metrics.broken_logits, 1);
    lf_engine_finish(e, req, LF_FINISH_ERROR, LF_CORRUPT, LF_BROKEN_LOGITS, now_ns);
}

/* Whether the answer goes on: its grammar takes the token, and something can follow. */
static bool follow_grammar(struct lf_engine *e, struct lf_request *req, int32_t token, int64_t now_ns)
{
    struct lf_mask_job job = {.matcher = req->matcher, .token = token};
    if (!req->matcher) return true;
    lf_masks_run(&e->masks, &job, 1);
    if (job.status != LF_OK) {
        lf_engine_end_grammar(e, req, job.status, now_ns);
        return false;
    }
    if (!lf_matcher_is_finished(req->matcher)) return true;
    lf_engine_finish(e, req, LF_FINISH_STOP, LF_OK, "", now_ns);
    return false;
}

/* The token that a step has drawn for a request. */
static void take_token(struct lf_engine *e, struct lf_request *req, const struct lf_sampled *sampled, int64_t now_ns)
{
    struct lf_sched_seq *seq = &req->seq;
    int n_output = seq->n_ids - seq->n_placeholders - seq->n_prompt;
    if (sampled->id == LF_SAMPLED_NONE) {
        end_without_token(e, req, now_ns);
        return;
    }
    LF_ASSERT(sampled->id >= 0 && sampled->id < e->backend.n_vocab);
    note_time(e, req, now_ns);
    if (is_stop(req, sampled->id) && n_output >= req->params.min_tokens) {
        req->now.stop_token = sampled->id;
        lf_engine_finish(e, req, LF_FINISH_STOP, LF_OK, "", now_ns);
        return;
    }
    lf_sched_sampled(&e->sched, seq, sampled->id);
    lf_request_set_token(req, n_output, sampled);
    req->now.n_tokens = n_output + 1;
    lf_counter_add(&e->metrics.generation_tokens, 1);
    if (!follow_grammar(e, req, sampled->id, now_ns)) return;
    if (n_output + 1 == seq->max_tokens) lf_engine_finish(e, req, LF_FINISH_LENGTH, LF_OK, "", now_ns);
}

/* Row i was computed from the right tokens if the i before it drew what was proposed. The last one that is read brings
 * a token whatever was proposed in its place. */
static void take_proposed(struct lf_engine *e, struct lf_request *req, const struct lf_sched_item *item,
                          const struct lf_sampled *rows, int64_t now_ns)
{
    struct lf_sched_seq *seq = item->seq;
    int n = item->n_proposed, n_right = 0;
    bool is_right = true;
    for (int i = 0; i <= item->n_tried && is_right; i++) {
        int32_t proposed = i < item->n_tried ? seq->ids[seq->n_ids] : -1;
        take_token(e, req, &rows[i], now_ns);
        is_right = req->now.finish == LF_FINISH_NONE && rows[i].id == proposed;
        if (!is_right) continue;
        lf_sched_accepted(&e->sched, seq);
        n_right++;
    }
    lf_speculation_learn(seq->speculation, n, n_right);
    req->now.n_proposed += n;
    req->now.n_accepted += n_right;
    lf_counter_add(&e->metrics.proposed, (uint64_t)n);
    lf_counter_add(&e->metrics.accepted, (uint64_t)n_right);
}

/* Until all prompt tokens are in the cache: what the scheduler predicts for those that no step has been launched for,
 * and the steps on their way behind the one that is being read. */
static int64_t eta_ns(struct lf_engine *e, const struct lf_request *req)
{
    if (req->now.n_processed >= req->now.n_prompt) return 0;
    int64_t ns = lf_sched_eta_ns(&e->sched, &req->seq);
    for (int i = 1; i < e->n_flights; i++)
        ns += (int64_t)e->flights[(e->first_flight + i) % (LF_ENGINE_ASYNC_STEPS_N + 1)].step.predicted_ns;
    return LF_MAX(ns, 1);
}

static void note_progress(struct lf_engine *e, struct lf_request *req, const struct lf_sched_item *item)
{
    const struct lf_sched_seq *seq = &req->seq;
    int n_restored = seq->n_restored - req->now.n_restored;
    int n_new = seq->n_cached - req->now.n_cached; /* at admission, and what was taken over on the way */
    lf_counter_add(&e->metrics.prompt_tokens_restored, (uint64_t)n_restored);
    lf_counter_add(&e->metrics.prompt_tokens_cached, (uint64_t)(n_new - n_restored));
    req->now.n_cached = seq->n_cached;
    req->now.n_restored = seq->n_restored;
    req->now.n_processed = LF_MIN(item->first + item->n_tokens, seq->n_prompt);
    req->now.eta_ns = eta_ns(e, req);
    lf_engine_touch(e, req);
}

/* How many of an item's rows of logits tell how likely the prompt was; the last one may be the next token's. */
static int n_echo_of(const struct lf_sched_item *item)
{
    if (!item->seq->all_logits || item->first >= item->seq->n_prompt) return 0;
    return item->complete && item->seq->max_tokens > 0 ? item->n_out - 1 : item->n_out;
}

static void read_item(struct lf_engine *e, const struct lf_sched_item *item, const struct lf_sampled *results,
                      int64_t now_ns)
{
    struct lf_request *req = request_of(item->seq);
    note_progress(e, req, item);
    int n_echo = n_echo_of(item), at = item->first + 1; /* the logits of token p are about token p + 1 */
    for (int i = 0; i < n_echo; i++) {
        if (results[i].id == LF_SAMPLED_NONE) {
            end_without_token(e, req, now_ns);
            return;
        }
        lf_request_set_prompt_logprob(req, at + i, &results[i]);
    }
    if (item->seq->all_logits && item->first < item->seq->n_prompt)
        req->now.n_prompt_logprobs = LF_MIN(at + n_echo, req->seq.n_prompt);
    if (!item->complete) return;
    if (item->seq->max_tokens == 0)
        lf_engine_finish(e, req, LF_FINISH_LENGTH, LF_OK, "", now_ns);
    else if (item->n_proposed > 0)
        take_proposed(e, req, item, results, now_ns);
    else
        take_token(e, req, &results[item->n_out - 1], now_ns);
}

void lf_engine_read(struct lf_engine *e, const struct lf_sched_step *step, int64_t now_ns)
{
    const struct lf_sampled *results = e->results;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        if (item->seq) read_item(e, item, results, now_ns);
        results += item->n_out;
    }
}

/* ---- what a step is asked for ---- */

/* The token behind all that are known and the first n_ahead of those proposed. */
static struct lf_batch_out sample_of(const struct lf_request *req, int n_ahead)
{
    const struct lf_sched_seq *seq = &req->seq;
    int n_ids = seq->n_ids + n_ahead, n_output = n_ids - seq->n_prompt;
    return (struct lf_batch_out){.sampling = &req->params.sampling,
                                 .prompt = seq->ids,
                                 .n_prompt = seq->n_prompt,
                                 .output = seq->ids + seq->n_prompt,
                                 .n_output = n_output,
                                 .banned = req->stop_ids,
                                 .n_banned = n_output < req->params.min_tokens ? req->n_stop_ids : 0,
                                 .mask = req->allowed,
                                 .position = (uint64_t)n_ids,
                                 .slot = req->slot};
}

void lf_engine_fill_outs(struct lf_engine *e, const struct lf_sched_step *step)
{
    struct lf_batch_out *out = e->arrays.outs;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        const struct lf_request *req = request_of(item->seq);
        int n_echo = n_echo_of(item);
        for (int k = 0; k < n_echo; k++)
            *out++ = (struct lf_batch_out){.given = item->seq->ids[item->first + 1 + k],
                                           .n_given_top = req->params.n_prompt_logprobs};
        for (int k = n_echo; k < item->n_out; k++) *out++ = sample_of(req, k - n_echo);
    }
}
