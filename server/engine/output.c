/* What becomes of a step's logits: tokens, log-probabilities of the prompt, and ends.
 *
 * The logits of the plan's items lie one behind the other in the batch's order. A row's token is a pure function of
 * (logits, the request's parameters and history, position), so it is the same in any batch. */
#include "server/engine/engine_internal.h"

#include <string.h>

#include "core/check.h"

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
    if (now->started_ns != 0) lf_histogram_observe(&m->generation_tokens_per_request, now->n_tokens);
    if (now->first_token_ns != 0) lf_histogram_observe(&m->decode_s, seconds(now->first_token_ns, now->finished_ns));
}

/* Debug builds show that nothing reads a block that nobody owns. */
static void poison_blocks(struct lf_engine *e, const struct lf_sched_seq *seq)
{
#ifdef LF_DEBUG
    for (int i = 0; i < seq->n_blocks; i++) {
        const struct lf_block *block = &e->kv->pool.blocks[seq->blocks[i]];
        if (block->n_refs == 1 && !block->cached) lf_kv_cache_poison(e->kv, seq->blocks[i]);
    }
#else
    (void)e;
    (void)seq;
#endif
}

void lf_engine_finish(struct lf_engine *e, struct lf_request *req, enum lf_finish finish, enum lf_status status,
                      const char *message, int64_t now_ns)
{
    LF_ASSERT(req->now.finish == LF_FINISH_NONE && finish != LF_FINISH_NONE);
    poison_blocks(e, &req->seq);
    lf_sched_end(&e->sched, &req->seq);
    if (req->now.started_ns == 0) lf_mailbox_leave_queue(&e->mailbox, req, 0);
    req->now.finish = finish;
    req->now.status = status;
    req->now.message = message;
    req->now.finished_ns = now_ns;
    req->now.eta_ns = 0;
    count_finish(e, req);
    lf_engine_touch(e, req);
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
    } else {
        lf_histogram_observe(&e->metrics.itl_s, seconds(req->last_token_ns, now_ns));
    }
    req->last_token_ns = now_ns;
}

static void sample(struct lf_engine *e, struct lf_request *req, float *logits, int64_t now_ns)
{
    struct lf_sched_seq *seq = &req->seq;
    int n_output = seq->n_ids - seq->n_prompt;
    const struct lf_sample_input in = {.logits = logits,
                                       .n_vocab = e->backend.n_vocab,
                                       .prompt = seq->ids,
                                       .n_prompt = seq->n_prompt,
                                       .output = seq->ids + seq->n_prompt,
                                       .n_output = n_output,
                                       .banned = req->stop_ids,
                                       .n_banned = n_output < req->params.min_tokens ? req->n_stop_ids : 0,
                                       .position = (uint64_t)seq->n_ids};
    struct lf_sampled sampled;
    lf_sample(&sampled, &req->params.sampling, &in, e->scratch);
    LF_ASSERT(sampled.id >= 0 && sampled.id < e->backend.n_vocab);
    note_time(e, req, now_ns);
    if (is_stop(req, sampled.id) && n_output >= req->params.min_tokens) {
        req->now.stop_token = sampled.id;
        lf_engine_finish(e, req, LF_FINISH_STOP, LF_OK, "", now_ns);
        return;
    }
    seq->ids[seq->n_ids++] = sampled.id;
    lf_request_set_token(req, n_output, &sampled);
    req->now.n_tokens = n_output + 1;
    lf_counter_add(&e->metrics.generation_tokens, 1);
    if (n_output + 1 == seq->max_tokens) lf_engine_finish(e, req, LF_FINISH_LENGTH, LF_OK, "", now_ns);
}

/* Row p of the prompt says how likely token p + 1 was. first: position of the chunk's first row. */
static void read_prompt_logprobs(struct lf_engine *e, struct lf_request *req, int first, int n, const float *logits)
{
    int n_vocab = e->backend.n_vocab;
    for (int i = 0; i < n; i++) {
        struct lf_sampled entry;
        int at = first + i + 1;
        lf_logprobs(&entry, logits + (size_t)i * (size_t)n_vocab, n_vocab, req->seq.ids[at],
                    req->params.n_prompt_logprobs, e->scratch);
        lf_request_set_prompt_logprob(req, at, &entry);
    }
    req->now.n_prompt_logprobs = LF_MIN(first + n + 1, req->seq.n_prompt);
}

static void note_progress(struct lf_engine *e, struct lf_request *req)
{
    const struct lf_sched_seq *seq = &req->seq;
    int n_new = seq->n_cached - req->now.n_cached; /* at admission, and what was taken over on the way */
    lf_counter_add(&e->metrics.prompt_tokens_cached, (uint64_t)n_new);
    req->now.n_cached = seq->n_cached;
    req->now.n_processed = LF_MIN(seq->n_done, seq->n_prompt);
    req->now.eta_ns = lf_sched_eta_ns(&e->sched, seq);
    lf_engine_touch(e, req);
}

static void read_item(struct lf_engine *e, const struct lf_sched_item *item, int first, float *logits, int64_t now_ns)
{
    struct lf_request *req = request_of(item->seq);
    note_progress(e, req);
    bool complete = item->seq->n_done == item->seq->n_ids; /* all that is known is computed: the next one is due */
    int n_echo = item->n_out;
    if (complete && item->seq->max_tokens > 0) n_echo--;
    if (item->seq->all_logits && first < item->seq->n_prompt) read_prompt_logprobs(e, req, first, n_echo, logits);
    if (!complete) return;
    if (item->seq->max_tokens == 0)
        lf_engine_finish(e, req, LF_FINISH_LENGTH, LF_OK, "", now_ns);
    else
        sample(e, req, logits + (size_t)(item->n_out - 1) * (size_t)e->backend.n_vocab, now_ns);
}

void lf_engine_read_step(struct lf_engine *e, int64_t now_ns)
{
    lf_sched_done(&e->sched, &e->plan);
    float *logits = e->logits;
    for (int i = 0; i < e->plan.n_items; i++) {
        const struct lf_sched_item *item = &e->plan.items[i];
        read_item(e, item, item->seq->n_done - item->n_rows, logits, now_ns);
        logits += (size_t)item->n_out * (size_t)e->backend.n_vocab;
    }
}
