/* See proposals.h. */
#include "server/engine/proposals.h"

#include <math.h>

#include "core/check.h"
#include "server/engine/scheduler.h"
#include "server/engine/states.h"

static const double PROPOSAL_SHARE = 0.25; /* of a step beside it, at most, where more than one decodes */
static const double WAIT_OUTLIER = 4;      /* a wait that is so many times longer counts as no more */
static const double WAIT_SHARE = 0.1;      /* of the latest wait in what waits are taken to cost */

static struct lf_sched_seq *seq_of(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_seq, node);
}

void lf_proposals_begin(const struct lf_sched *s, struct lf_sched_seq *seq)
{
    if (seq->speculation) seq->speculation->n_declined = s->n_declined;
}

void lf_proposals_end(struct lf_sched *s, const struct lf_sched_seq *seq)
{
    if (seq->speculation) s->n_declined = seq->speculation->n_declined;
}

/* Tokens, and rows of logits, that a step may have beside what is planned of it: none where it has all it may. */
static int step_room(const struct lf_sched *s, int n_tokens, int n_out)
{
    int most = s->opts.proposal_tokens > 0 ? LF_MIN(s->opts.chunk, s->opts.proposal_tokens) : s->opts.chunk;
    return LF_MIN(most - n_tokens, s->opts.max_out - n_out);
}

/* Tokens that may be proposed beside seq's one. Of a window nothing is taken beyond the block that the one is in, so
 * that what is refused leaves no block behind; states cannot be taken back. */
static int proposal_room(const struct lf_sched *s, const struct lf_sched_seq *seq, int room)
{
    if (!seq->speculation || lf_states_on(s)) return 0;
    for (int g = 0; g < s->opts.windows.n; g++)
        if (lf_kv_windows_slides(&s->opts.windows, g))
            room = LF_MIN(room, seq->block_tokens - 1 - seq->n_done % seq->block_tokens);
    return LF_MIN(room, seq->n_prompt + seq->max_tokens - seq->n_ids - 1);
}

/* What a token beside the one at seq's position p is predicted to take. */
static double proposal_ns(const struct lf_sched *s, int p)
{
    return lf_cost_tried_ns(&s->cost, p + 1, 1);
}

/* What is proposed behind seq's tokens, up to the first that may not come. Where that is the first of all it was wrong:
 * what is often refused is asked for less. */
static int proposal(const struct lf_sched *s, struct lf_sched_seq *seq, int room, double price)
{
    int n = lf_speculation_propose(seq->speculation, seq->ids, seq->n_ids, room, price);
    if (n == 0 || !s->opts.n_allowed) return n;
    int n_allowed = s->opts.n_allowed(s->opts.n_allowed_ctx, seq, seq->ids + seq->n_ids, n);
    if (n_allowed == 0) lf_speculation_learn(seq->speculation, n, 0);
    return n_allowed;
}

/* Entries of tables need not be taken: those of windows are those of the item's own token (proposal_room). */
static void propose(const struct lf_sched *s, struct lf_sched_step *step, struct lf_sched_item *item, int room,
                    double price)
{
    int n = proposal(s, item->seq, room, price);
    lf_load_add_tried(&step->load, item->first + 1, n);
    item->n_proposed = item->n_tried = n;
    item->n_tokens += n;
    item->n_out += n;
    step->n_tokens += n;
    step->n_out += n;
    step->n_proposed += n;
}

/* A step of n decodes that takes ns: what a sequence of it is expected to gain by proposals, in ns, by the ids that are
 * known. */
static double gain_ns(const struct lf_sched *s, struct lf_sched_seq *seq, int n, double ns)
{
    if (!seq->speculation) return 0;
    double each_ns = proposal_ns(s, seq->n_done);
    int room = proposal_room(s, seq, step_room(s, n, n));
    if (n > 1) room = (int)LF_MIN(room, ns * PROPOSAL_SHARE / each_ns);
    return lf_speculation_gain(seq->speculation, seq->ids, seq->n_ids - seq->n_placeholders, room, each_ns * n / ns,
                               n > 1) *
           ns / n;
}

bool lf_proposals_wait(struct lf_sched *s)
{
    struct lf_load load = {{1}};
    int n = 0;
    double sum_ns = 0;
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *seq = seq_of(it);
        if (lf_sched_in_prefill(seq) && !seq->waits) return false; /* nothing is proposed beside it */
        if (lf_sched_in_prefill(seq) || lf_sched_has_all(seq)) continue;
        lf_load_add_decode(&load, seq->n_done);
        n++;
    }
    if (!s->opts.proposes || n == 0 || n > s->opts.max_seqs) return false;
    double ns = lf_cost_predict(&s->cost, &load);
    LF_LIST_EACH(it, &s->running)
    {
        struct lf_sched_seq *seq = seq_of(it);
        if (!lf_sched_in_prefill(seq) && !lf_sched_has_all(seq)) sum_ns += gain_ns(s, seq, n, ns);
    }
    return sum_ns > s->wait_ns;
}

void lf_proposals_waited(struct lf_sched *s, int64_t took_ns)
{
    double ns = (double)LF_MAX(took_ns, 0);
    if (s->wait_ns > 0) ns = LF_MIN(ns, WAIT_OUTLIER * s->wait_ns); /* the host may have been busy elsewhere */
    s->wait_ns += (ns - s->wait_ns) * (s->wait_ns > 0 ? WAIT_SHARE : 1);
}

/* Whether proposals are worth a wait for what becomes of them, where there is one. All ids are known then: where one is
 * on its way nobody has waited for it. */
static bool pays(const struct lf_sched *s, const struct lf_sched_step *step, double ns)
{
    double sum_ns = 0;
    for (int i = 0; i < step->n_items; i++) {
        struct lf_sched_seq *seq = step->items[i].seq;
        if (seq->n_placeholders > 0) return false;
        sum_ns += s->wait_ns > 0 ? gain_ns(s, seq, step->n_items, ns) : HUGE_VAL;
    }
    return sum_ns > s->wait_ns;
}

/* The step's decodes get what is likely to come behind them, each step another one first. While prompts wait for their
 * part of the step nothing is proposed: they fill it better. What all of it takes is paid by all that run, so beside
 * others it is at most PROPOSAL_SHARE of what the step takes without. */
void lf_proposals_plan(struct lf_sched *s, struct lf_sched_step *step)
{
    double ns = lf_cost_predict(&s->cost, &step->load), left_ns = ns * PROPOSAL_SHARE;
    bool pay = pays(s, step, ns);
    for (int i = 0; i < step->n_items; i++) {
        struct lf_sched_item *item = &step->items[(s->step_no + (uint64_t)i) % (uint64_t)step->n_items];
        double each_ns = proposal_ns(s, item->first);
        int room = proposal_room(s, item->seq, step_room(s, step->n_tokens, step->n_out));
        if (step->n_items > 1) room = (int)LF_MIN(room, left_ns / each_ns);
        if (!pay && item->seq->speculation) lf_speculation_pass(item->seq->speculation);
        if (!pay || room < 1) continue;
        propose(s, step, item, room, each_ns * step->n_items / ns);
        left_ns -= each_ns * item->n_proposed;
    }
}
