/* See scheduler.h; admission is in admission.c. Planning a step, and booking what it did. */
#include "server/engine/scheduler.h"

#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/block_tables.h"
#include "server/engine/holding.h"
#include "server/engine/prefill_order.h"
#include "server/engine/proposals.h"
#include "server/engine/shared_blocks.h"
#include "server/engine/states.h"

enum { GROWTH = 4 };
static const double PREFILL_SHARE = 0.25; /* of the step's time, at least */
static const double ELDEST_SHARE = 0.25;  /* of the prefills' time, for the one admitted first */
static const double LONE_PRICE = 0.875;   /* see tenants.h */
static const double SPEED_DECAY = 0.98;   /* a step, for the measured speeds */

static struct lf_sched_seq *seq_of(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_seq, node);
}

static int block_tokens(const struct lf_sched *s)
{
    return lf_kv_windows_block_tokens(&s->opts.windows);
}

void lf_sched_init(struct lf_sched *s, const struct lf_sched_opts *opts)
{
    LF_ASSERT(opts->chunk >= 1 && opts->max_seqs >= 1 && opts->max_out >= 1 && opts->token_tile >= 1);
    LF_ASSERT(opts->n_kept >= 0 && opts->n_kept < opts->max_seqs);
    LF_ASSERT(opts->tenants && opts->n_tenants >= 1 && opts->held_epochs);
    LF_ASSERT(opts->step_ns >= 1 && opts->alone_ns >= opts->step_ns);
    LF_ASSERT(opts->windows.n >= 0 && opts->windows.n <= LF_KV_WINDOWS_N);
    LF_ASSERT(!opts->slots || opts->slots->n_blocks > opts->max_seqs + opts->n_kept);
    LF_ASSERT((opts->snapshots != NULL) == (opts->slots && opts->prefix));
    LF_ASSERT(!opts->whole_chunks || opts->chunk >= 2 * lf_kv_windows_block_tokens(&opts->windows));
    memset(s, 0, sizeof(*s));
    s->opts = *opts;
    lf_list_init(&s->waiting);
    lf_list_init(&s->running);
    lf_list_init(&s->holding);
    lf_list_init(&s->queues);
    lf_list_init(&s->prefilling);
    lf_cost_init(&s->cost);
}

static void add_item(struct lf_sched *s, struct lf_sched_step *step, struct lf_sched_seq *seq, int n_tokens,
                     int out_first, int n_out)
{
    lf_tables_cover(s, seq, seq->n_done + n_tokens);
    step->items[step->n_items++] = (struct lf_sched_item){.seq = seq,
                                                          .n_tokens = n_tokens,
                                                          .out_first = out_first,
                                                          .n_out = n_out,
                                                          .first = seq->n_done,
                                                          .complete = seq->n_done + n_tokens == seq->n_ids};
    lf_states_plan(s, step, step->n_tokens);
    step->n_tokens += n_tokens;
    step->n_out += n_out;
    seq->n_planned = n_tokens;
    if (lf_sched_in_prefill(seq)) {
        step->n_prefill_tokens += n_tokens;
        lf_load_add_prefill(&step->load, seq->n_done, n_tokens, n_out);
    } else {
        lf_load_add_decode(&step->load, seq->n_done);
    }
}

/* Each decoding sequence gets its token. Where they are more than fit beside the room kept for prefills, those served
 * move to the end of the list, so the next step begins with the others. */
static void plan_decodes(struct lf_sched *s, struct lf_sched_step *step, bool prefills)
{
    int room_tokens = prefills ? s->opts.chunk - LF_MIN(block_tokens(s), s->opts.chunk / 2) : s->opts.chunk;
    int room_out = prefills ? LF_MAX(s->opts.max_out - 1, 1) : s->opts.max_out;
    int room_items = prefills ? LF_MAX(s->opts.max_seqs - 1, 1) : s->opts.max_seqs;
    int room = LF_MIN(LF_MIN(room_tokens, room_out), room_items), n = s->n_running;
    struct lf_list *it = s->running.next;
    for (; n > 0 && step->n_items < room; n--) {
        struct lf_sched_seq *seq = seq_of(it);
        it = it->next;
        if (lf_sched_in_prefill(seq) || lf_sched_has_all(seq)) continue;
        add_item(s, step, seq, 1, 0, 1);
        lf_list_remove(&seq->node);
        lf_list_push_back(&s->running, &seq->node);
    }
}

static int64_t tokens_left(const struct lf_sched_seq *seq)
{
    return seq->n_prompt - seq->n_done;
}

/* A chunk that does not finish its prompt ends at a block's end, or, where not even one is affordable, at a multiple of
 * LF_SCHED_MIN_TOKENS; 0 if that is not affordable either and the step need not progress by this one. */
static int cut(const struct lf_sched_seq *seq, int n, int room, bool must)
{
    int64_t first = seq->n_done, end = first + LF_MIN(n, room);
    if (end >= seq->n_prompt) return (int)tokens_left(seq);
    if (end / seq->block_tokens * seq->block_tokens > first)
        return (int)(end / seq->block_tokens * seq->block_tokens - first);
    if (end / LF_SCHED_MIN_TOKENS * LF_SCHED_MIN_TOKENS > first)
        return (int)(end / LF_SCHED_MIN_TOKENS * LF_SCHED_MIN_TOKENS - first);
    if (!must) return 0;
    int64_t least = (first / LF_SCHED_MIN_TOKENS + 1) * LF_SCHED_MIN_TOKENS;
    return (int)LF_MIN(LF_MIN(least - first, tokens_left(seq)), room);
}

/* The same where all chunks end at a block's end: the next one if it has to be. */
static int cut_whole(const struct lf_sched_seq *seq, int n, int room, bool must)
{
    int64_t first = seq->n_done, end = first + LF_MIN(n, room),
            next = (first / seq->block_tokens + 1) * seq->block_tokens;
    if (end >= seq->n_prompt) return (int)tokens_left(seq);
    if (end >= next) return (int)(end / seq->block_tokens * seq->block_tokens - first);
    int64_t least = LF_MIN(next - first, tokens_left(seq));
    return must && least <= room ? (int)least : 0;
}

/* Of echoes a step may have fewer rows of logits than a block has tokens. */
static bool ends_whole(const struct lf_sched *s, const struct lf_sched_seq *seq)
{
    return s->opts.whole_chunks && !seq->all_logits;
}

/* The tokens of a chunk of seq, of n that are affordable. Where the step is larger than a tile of tokens it ends with a
 * whole one, since a token more would cost as much as a tile; then 0 if n does not fill a further one. A step's first
 * chunk goes on into the next tile rather than give up most of its tokens for that. */
static int chunk_tokens(const struct lf_sched *s, const struct lf_sched_step *step, const struct lf_sched_seq *seq,
                        int n, int room, bool must)
{
    if (ends_whole(s, seq)) return cut_whole(seq, n, room, must);
    int tile = s->opts.token_tile, n_most = LF_MIN(n, room), n_step = step->n_tokens + n_most;
    int whole = LF_MAX(n_step - n_step % tile - step->n_tokens, 0);
    int least = must ? LF_MAX(n_most / 2, LF_SCHED_MIN_TOKENS) : 0;
    bool fills = tile > 1 && n_step >= tile && n_most < tokens_left(seq);
    if (fills && whole >= least) return whole;
    int n_cut = cut(seq, n, room, must);
    if (must) n_cut = (int)LF_MAX(n_cut, LF_MIN(LF_SCHED_MIN_TOKENS, tokens_left(seq)));
    return LF_MIN(n_cut, room);
}

/* Plans a chunk of seq within budget_ns; returns what it is predicted to take, 0 if there is no room for one. */
static double plan_chunk(struct lf_sched *s, struct lf_sched_step *step, struct lf_sched_seq *seq, double budget_ns,
                         bool must)
{
    int room = s->opts.chunk - step->n_tokens, room_out = s->opts.max_out - step->n_out;
    /* Nothing is known yet about steps much larger than those measured. */
    int known = s->cost.n_seen == 0 ? block_tokens(s) : GROWTH * (int)s->cost.most_tokens;
    room = LF_MIN(room, LF_MAX(known, block_tokens(s)) - step->n_prefill_tokens);
    room = LF_MIN(room, lf_restore_room(seq));
    if (seq->all_logits) room = LF_MIN(room, room_out);
    if (room_out < 1) room = LF_MIN(room, (int)tokens_left(seq) - 1); /* the last token needs one */
    if (room < 1 || step->n_items == s->opts.max_seqs) return 0;

    int affordable = lf_cost_prefill_tokens(&s->cost, seq->n_done, budget_ns, seq->all_logits);
    int n = chunk_tokens(s, step, seq, affordable, room, must);
    if (n < 1) return 0;
    lf_restore_claim(seq, n);
    bool last = seq->n_done + n == seq->n_prompt;
    int n_sampled = last && seq->max_tokens > 0 ? 1 : 0;
    if (seq->all_logits) /* the logits of token i tell how likely token i + 1 was */
        add_item(s, step, seq, n, 0, last ? n - 1 + n_sampled : n);
    else
        add_item(s, step, seq, n, n - n_sampled, n_sampled);
    return lf_cost_prefill_ns(&s->cost, seq->n_done, n, step->items[step->n_items - 1].n_out);
}

static bool have_same_key(const struct lf_sched_seq *a, const struct lf_sched_seq *b, int i)
{
    return i < a->n_keys && i < b->n_keys && memcmp(&a->keys[i], &b->keys[i], sizeof(a->keys[i])) == 0;
}

/* With states: whether other, which is further, is to make a snapshot next that seq can go on from. It is never slower
 * to wait for that than to compute it, and what is furthest waits for nobody. */
static bool waits_for_mark_of(const struct lf_sched_seq *seq, const struct lf_sched_seq *other)
{
    if (other->n_done < seq->n_done || !lf_sched_in_prefill(other) || other->waits) return false;
    if (other->n_done == seq->n_done && other->admitted_no >= seq->admitted_no) return false;
    if (!have_same_key(seq, other, 1)) return false;
    int mark = lf_states_next_mark(other, other->n_done / other->block_tokens, lf_sched_max_cached_blocks(seq));
    return mark > 0 && have_same_key(seq, other, mark);
}

static bool waits_for_mark(const struct lf_sched *s, const struct lf_sched_seq *seq)
{
    if (!lf_states_on(s) || !seq->keys || seq->all_logits || lf_states_n_spare(s) <= 0) return false;
    LF_LIST_EACH(it, &s->running)
    {
        if (waits_for_mark_of(seq, seq_of(it))) return true;
    }
    return false;
}

/* Whether the block that seq needs next is the one that other computes next, and seq may take it over. */
static bool needs_what_computes(const struct lf_sched_seq *seq, const struct lf_sched_seq *other)
{
    int next = seq->n_done / seq->block_tokens + 1;
    if (!seq->keys || seq->all_logits || next * seq->block_tokens >= seq->n_prompt) return false;
    return lf_sched_in_prefill(other) && other->n_done < next * seq->block_tokens && have_same_key(seq, other, next);
}

/* A tenant's eldest prefill saves up its quarter until it buys the smallest chunk. Where it is the shortest too, or
 * takes over what that computes, it gets everything anyway. */
static double plan_eldest(struct lf_sched *s, struct lf_sched_step *step, struct lf_sched_tenant *t, double budget_ns)
{
    struct lf_sched_seq *eldest = lf_prefill_order_eldest(t), *shortest = lf_prefill_order_shortest(t);
    bool takes_over = lf_states_on(s) ? waits_for_mark(s, eldest) : needs_what_computes(eldest, shortest);
    if (eldest == shortest || takes_over) {
        t->eldest_credit_ns = 0;
        return 0;
    }
    int n = (int)LF_MIN(tokens_left(eldest), ends_whole(s, eldest) ? block_tokens(s) : LF_SCHED_MIN_TOKENS);
    double price_ns = lf_cost_prefill_ns(&s->cost, eldest->n_done, n, eldest->all_logits ? n : 0);
    double saved_ns = t->eldest_credit_ns + budget_ns * ELDEST_SHARE;
    t->eldest_credit_ns = LF_MIN(saved_ns, price_ns + budget_ns);
    if (t->eldest_credit_ns < price_ns) return 0;
    double ns = plan_chunk(s, step, eldest, t->eldest_credit_ns, true);
    t->eldest_credit_ns = LF_MAX(t->eldest_credit_ns - ns, 0);
    return ns;
}

/* Blocks that another sequence has finished meanwhile are taken over: the fresh ones go back to the pool, with the
 * tokens that one may already have. */
static void catch_up(struct lf_sched *s, struct lf_sched_seq *seq)
{
    int first = seq->n_done / seq->block_tokens;
    if (!seq->keys || seq->all_logits || seq->restore.leaps) return;
    int n = lf_sched_hit(s, seq, first, lf_sched_max_cached_blocks(seq), false);
    if (n <= first) return;
    lf_tables_take_over(s, seq, n);
    lf_states_take_over(s, seq, n);
    for (int i = first; i < n; i++) lf_restore_forget(seq, i);
}

/* What need not be computed any more: blocks that others have finished, and those that are back from below. */
static void take_what_is_there(struct lf_sched *s, struct lf_sched_seq *seq)
{
    int n_restored;
    do {
        catch_up(s, seq);
        n_restored = seq->restore.leaps ? lf_restore_leap(s, seq) : lf_restore_step_over(seq);
        seq->n_cached += n_restored;
        seq->n_restored += n_restored;
        lf_tables_enter(s, seq);
        lf_tables_slide(s, seq);
    } while (n_restored > 0);
}

/* Whether all that is left to compute of seq's prompt waits for what is coming; keeps it out of the order of prefills
 * meanwhile. */
static bool waits_for_blocks(struct lf_sched *s, struct lf_sched_seq *seq)
{
    bool waits = lf_restore_room(seq) == 0;
    if (waits && !seq->waits) lf_prefill_order_leave(seq);
    if (!waits && seq->waits) lf_prefill_order_join(s, seq);
    seq->waits = waits;
    return waits;
}

/* Whether this step already computes the block that seq needs next: then seq takes it over in the step after. With
 * states: whether another is on its way to where seq will take over. */
static bool computed_by_another(const struct lf_sched *s, const struct lf_sched_step *step,
                                const struct lf_sched_seq *seq)
{
    if (lf_states_on(s)) return waits_for_mark(s, seq);
    for (int i = 0; i < step->n_items; i++)
        if (needs_what_computes(seq, step->items[i].seq)) return true;
    return false;
}

/* What a tenant is charged for a ns of its prefill. */
static double price(const struct lf_sched *s, const struct lf_sched_tenant *t)
{
    return s->n_tenants_in_step > 1 && t->n_running == 1 ? LONE_PRICE : 1;
}

/* What prefills may take beside the step's decodes: what is left, at least a quarter, and at least what brings the
 * tenant that is next to its part of the step, though others decode. */
static double prefill_budget_ns(const struct lf_sched *s, const struct lf_sched_step *step)
{
    double step_ns = (double)(step->n_items > 0 ? s->opts.step_ns : s->opts.alone_ns);
    double decode_ns = lf_cost_predict(&s->cost, &step->load);
    double budget_ns = LF_MAX(step_ns - decode_ns, step_ns * PREFILL_SHARE);
    int n = s->n_tenants_in_step;
    if (n == 1 || step->n_items == 0) return budget_ns;
    const struct lf_sched_tenant *t = lf_prefill_order_next(s);
    double due_ns = (decode_ns - n * t->decode_ns) / (n - 1) / price(s, t);
    if (due_ns <= budget_ns) return budget_ns;
    return due_ns + lf_cost_prefill_ns(&s->cost, lf_prefill_order_shortest(t)->n_done, block_tokens(s) / 2,
                                       0); /* lost to rounding */
}

/* Within a tenant the eldest gets its quarter first, then the shortest goes first; between them whoever was served
 * least is next. */
static void plan_prefills(struct lf_sched *s, struct lf_sched_step *step)
{
    double budget_ns = prefill_budget_ns(s, step);
    int n_before = step->n_items;
    for (struct lf_sched_tenant *t; (t = lf_prefill_order_next(s)) != NULL;) {
        double ns = 0;
        if (t->eldest_no != s->step_no) {
            t->eldest_no = s->step_no;
            ns = plan_eldest(s, step, t, LF_MAX(budget_ns, 0));
        } else if (step->n_tokens >= s->opts.chunk) {
            break;
        } else {
            struct lf_sched_seq *seq = lf_prefill_order_shortest(t);
            if (!computed_by_another(s, step, seq)) ns = plan_chunk(s, step, seq, budget_ns, step->n_items == n_before);
            if (ns <= 0)
                seq->n_planned = -1; /* not this one: taken over in the next step, too deep for what is left,
                                      * or no logits row for its end */
        }
        budget_ns -= ns;
        t->served_ns += ns * price(s, t);
        lf_prefill_order_moved(s, t);
    }
}

/* Charges the decodes of a step, which are all that is planned so far, to their tenants. */
static void charge_decodes(struct lf_sched *s, const struct lf_sched_step *step)
{
    for (int i = 0; i < step->n_items; i++) {
        struct lf_sched_tenant *t = step->items[i].seq->tenant;
        const struct lf_sched_item *item = &step->items[i];
        double ns = s->cost.w[LF_COST_STEP] / step->n_items + s->cost.w[LF_COST_TOKEN] + s->cost.w[LF_COST_LOGITS] +
                    s->cost.w[LF_COST_DECODE_KEY] * (item->first + 1.0);
        ns += lf_cost_tried_ns(&s->cost, item->first + 1, item->n_proposed);
        t->decode_ns += ns;
        t->served_ns += ns;
        t->admitted_ns += ns;
    }
}

/* The least that a tenant with a prefill was served: it only rises. */
static void raise_served_level(struct lf_sched *s)
{
    s->served_level_ns = LF_MAX(s->served_level_ns, lf_prefill_order_least_served(s));
}

void lf_sched_plan_step(struct lf_sched *s, struct lf_sched_step *step)
{
    *step = (struct lf_sched_step){.items = step->items, .marks = step->marks};
    if (s->n_running == 0) return;
    step->load.x[LF_COST_STEP] = 1;
    s->step_no++;
    s->n_tenants_in_step = 0;
    bool prefills = false;
    LF_LIST_EACH(it, &s->running)
    {
        struct lf_sched_seq *seq = seq_of(it);
        seq->n_planned = 0;
        if (lf_sched_in_prefill(seq)) take_what_is_there(s, seq);
        bool prefill = lf_sched_in_prefill(seq) && !waits_for_blocks(s, seq);
        lf_sched_tenant_runs(s, seq->tenant, prefill);
        prefills = prefills || prefill;
    }
    plan_decodes(s, step, prefills);
    s->n_accepted = 0;
    if (s->opts.proposes && !prefills) lf_proposals_plan(s, step);
    charge_decodes(s, step);
    if (prefills) {
        lf_prefill_order_sort(s);
        plan_prefills(s, step);
    }
    raise_served_level(s);
    step->predicted_ns = lf_cost_predict(&s->cost, &step->load);
}

void lf_sched_launched(struct lf_sched *s, const struct lf_sched_step *step)
{
    int out = 0;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        struct lf_sched_seq *seq = item->seq;
        seq->n_done += item->n_tokens - item->n_proposed;
        out += item->n_out;
        LF_ASSERT(seq->n_done <= seq->n_ids);
        if (!lf_sched_in_prefill(seq)) lf_prefill_order_leave(seq);
        if (item->complete && item->n_proposed == 0 && seq->max_tokens > 0) {
            seq->ids[seq->n_ids++] = -out; /* the placeholder of the item's last logits row: out - 1 */
            seq->n_placeholders++;
        }
        lf_tables_enter(s, seq);
        lf_states_launched(s, step, item);
        lf_tables_slide(s, seq);
    }
}

void lf_sched_sampled(struct lf_sched *s, struct lf_sched_seq *seq, int32_t id)
{
    LF_ASSERT(id >= 0 && (seq->n_placeholders > 0 || seq->n_ids < seq->n_prompt + seq->max_tokens));
    if (seq->n_placeholders > 0)
        seq->ids[seq->n_ids - seq->n_placeholders--] = id;
    else
        seq->ids[seq->n_ids++] = id;
    lf_tables_enter(s, seq);
    lf_states_known(s, seq);
}

void lf_sched_accepted(struct lf_sched *s, struct lf_sched_seq *seq)
{
    LF_ASSERT(seq->n_placeholders == 0 && seq->n_done < seq->n_ids);
    seq->n_done++;
    s->n_accepted++;
    lf_tables_enter(s, seq);
}

/* A step's time belongs to prefill and decode in the proportion that was predicted for their parts. */
void lf_sched_learn(struct lf_sched *s, const struct lf_sched_step *step, int64_t took_ns)
{
    double prefill_ns = s->cost.w[LF_COST_TOKEN] * step->n_prefill_tokens +
                        s->cost.w[LF_COST_PREFILL_KEY] * step->load.x[LF_COST_PREFILL_KEY];
    int n_decode = step->n_tokens - step->n_prefill_tokens - step->n_proposed;
    double share = n_decode == 0 ? 1 : prefill_ns / step->predicted_ns;
    if (step->n_prefill_tokens > 0) {
        s->prefill_tokens = s->prefill_tokens * SPEED_DECAY + step->n_prefill_tokens;
        s->prefill_ns = s->prefill_ns * SPEED_DECAY + (double)took_ns * share;
    }
    if (n_decode > 0) {
        s->decode_tokens = s->decode_tokens * SPEED_DECAY + n_decode + s->n_accepted;
        s->decode_ns = s->decode_ns * SPEED_DECAY + (double)took_ns;
    }
    lf_cost_observe(&s->cost, &step->load, (double)took_ns);
}

void lf_sched_end(struct lf_sched *s, struct lf_sched_seq *seq)
{
    LF_ASSERT(seq->phase != LF_SCHED_NEW && seq->phase != LF_SCHED_ENDED);
    lf_list_remove(&seq->node);
    if (seq->phase == LF_SCHED_HOLDING) {
        lf_sched_let_go(s, seq);
        seq->phase = LF_SCHED_ENDED;
        return;
    }
    if (seq->phase == LF_SCHED_WAITING) {
        s->n_waiting--;
        s->waiting_tokens -= seq->n_prompt;
    } else {
        s->n_running--;
        lf_prefill_order_leave(seq);
        lf_proposals_end(s, seq);
        lf_tables_release(s, seq);
        lf_states_release(s, seq);
    }
    lf_sched_tenant_leaves(s, seq);
    seq->phase = LF_SCHED_ENDED;
}

int64_t lf_sched_eta_ns(const struct lf_sched *s, const struct lf_sched_seq *seq)
{
    if (!lf_sched_in_prefill(seq)) return 0;
    double own_ns = lf_prefill_left_ns(s, seq), ns = 0, others_ns = 0, step_ns = (double)s->opts.alone_ns;
    struct lf_load decodes = {{1}};
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *other = seq_of(it);
        if (!lf_sched_in_prefill(other)) {
            lf_load_add_decode(&decodes, other->n_done);
            step_ns = (double)s->opts.step_ns;
            continue;
        }
        double first_ns =
            LF_MIN(lf_prefill_left_ns(s, other), own_ns); /* what is longer goes behind, but for its quarter */
        if (other->tenant == seq->tenant)
            ns += first_ns;
        else
            others_ns += first_ns;
    }
    if (seq->phase == LF_SCHED_RUNNING) ns += LF_MIN(others_ns, ns * (s->n_here - 1)); /* each has its part */
    double left_ns = LF_MAX(step_ns - lf_cost_predict(&s->cost, &decodes), step_ns * PREFILL_SHARE);
    double eta = ns * LF_MAX(step_ns, lf_cost_predict(&s->cost, &decodes)) / left_ns;
    return eta < 1e18 ? (int64_t)ceil(eta) : (int64_t)1e18;
}

double lf_sched_prefill_speed(const struct lf_sched *s)
{
    return s->prefill_ns > 0 ? s->prefill_tokens * 1e9 / s->prefill_ns : 0;
}

double lf_sched_decode_speed(const struct lf_sched *s)
{
    return s->decode_ns > 0 ? s->decode_tokens * 1e9 / s->decode_ns : 0;
}

int lf_sched_retry_after_s(const struct lf_sched *s, int64_t waiting_tokens)
{
    double tokens = (double)waiting_tokens, speed = lf_sched_prefill_speed(s);
    LF_LIST_EACH(it, &s->running)
    {
        if (lf_sched_in_prefill(seq_of(it))) tokens += (double)tokens_left(seq_of(it));
    }
    double seconds = speed > 0 ? ceil(tokens / speed) : 1;
    return (int)LF_MIN(LF_MAX(seconds, 1.0), 60.0);
}

void lf_sched_check(const struct lf_sched *s, const int32_t *held, int32_t *refs)
{
    const struct lf_block_pool *pool = s->opts.pool;
    int n_waiting = 0, n_running = 0;
    int64_t waiting_tokens = 0, n_loose = 0, n_reserved = 0;
    memset(refs, 0, (size_t)pool->n_blocks * sizeof(*refs));
    LF_LIST_EACH(it, &s->waiting)
    {
        const struct lf_sched_seq *seq = seq_of(it);
        LF_ASSERT(seq->phase == LF_SCHED_WAITING && seq->n_blocks == 0);
        LF_ASSERT(it->next == &s->waiting || seq_of(it->next)->order_ns >= seq->order_ns);
        n_waiting++;
        waiting_tokens += seq->n_prompt;
    }
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *seq = seq_of(it);
        LF_ASSERT(seq->phase == LF_SCHED_RUNNING && seq->n_done <= seq->n_ids);
        LF_ASSERT(seq->n_ids <= seq->n_prompt + seq->max_tokens && seq->n_done <= seq->n_blocks * seq->block_tokens);
        LF_ASSERT(seq->n_placeholders >= 0 && seq->n_placeholders <= seq->n_ids - seq->n_prompt);
        n_reserved += lf_tables_check(s, seq, refs, &n_loose);
        n_running++;
    }
    LF_LIST_EACH(it, &s->holding)
    {
        const struct lf_sched_seq *seq = seq_of(it);
        LF_ASSERT(seq->phase == LF_SCHED_HOLDING && seq->n_blocks <= seq->n_keys - 1);
        n_reserved += lf_tables_check(s, seq, refs, &n_loose);
    }
    for (int i = 0; i < pool->n_blocks; i++) {
        LF_ASSERT(refs[i] + (held ? held[i] : 0) == pool->blocks[i].n_refs);
        n_loose -= pool->blocks[i].n_loose;
    }
    LF_ASSERT(n_loose == 0 && n_reserved == s->n_reserved && lf_sched_n_spare(s) >= 0);
    LF_LIST_EACH(it, &s->running)
    {
        lf_tables_check_writable(s, seq_of(it), refs);
    }
    LF_ASSERT(n_waiting == s->n_waiting && n_running == s->n_running && waiting_tokens == s->waiting_tokens);
    LF_ASSERT(n_running <= s->opts.max_seqs + s->opts.n_kept);
    lf_sched_check_tenants(s);
    lf_prefill_order_check(s);
    lf_states_check(s, held ? held + pool->n_blocks : NULL, refs + pool->n_blocks);
    lf_block_pool_check(pool);
    if (s->opts.prefix) lf_prefix_cache_check(s->opts.prefix);
}
