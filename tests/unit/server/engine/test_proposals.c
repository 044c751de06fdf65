/* What a step is given beside the next tokens (speculation.h), as the scheduler plans and books it: how many there is
 * room for, what they are taken to cost, who pays, and what counts as computed when. */
#include "tests/unit/server/engine/sched_rig.h"

#include <math.h>

enum { LOG2 = 10 };

static struct lf_speculation speculations[8];
static uint32_t grams[8][(1 << LOG2) + MAX_IDS];

static int32_t text(int position)
{
    return position % 10;
}

static int setup_proposes(void **state)
{
    if (setup(state) != 0) return -1;
    struct fixture *f = *state;
    f->sched.opts.max_out = 64;
    f->sched.opts.proposes = true;
    return 0;
}

static int setup_shared_proposes(void **state)
{
    if (setup_shared(state) != 0) return -1;
    struct fixture *f = *state;
    f->sched.opts.max_out = 64;
    f->sched.opts.proposes = true;
    return 0;
}

/* The next one submitted has a text that comes again every ten tokens, so there is always something to propose. */
static void speculate_next(struct fixture *f, int n_most)
{
    int i = f->n_seqs;
    struct lf_gram_index x;
    for (int k = 0; k < MAX_IDS; k++) f->ids[i][k] = text(k);
    lf_gram_index_init(&x, f->ids[i], grams[i], LOG2, grams[i] + (1 << LOG2));
    lf_speculation_init(&speculations[i], &x, 0, n_most);
    f->seqs[i].speculation = &speculations[i];
}

static struct lf_sched_seq *start(struct fixture *f, int n_prompt, int max_tokens, int n_most)
{
    if (n_most != LF_SPECULATION_OFF) speculate_next(f, n_most);
    struct lf_sched_seq *seq = submit(f, n_prompt, max_tokens, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), seq);
    return seq;
}

static void plan(struct fixture *f)
{
    lf_sched_plan_step(&f->sched, &f->step);
}

/* The step planned, of 1 ms: of what was proposed the first n_right come. */
static void take(struct fixture *f, int n_right)
{
    lf_sched_launched(&f->sched, &f->step);
    for (int i = 0; i < f->step.n_items; i++) {
        const struct lf_sched_item *item = &f->items[i];
        struct lf_sched_seq *seq = item->seq;
        for (int k = 0; k <= LF_MIN(n_right, item->n_proposed) && item->complete; k++) {
            if (k > 0) lf_sched_accepted(&f->sched, seq);
            lf_sched_sampled(&f->sched, seq, text(seq->n_ids - seq->n_placeholders));
        }
    }
    lf_sched_learn(&f->sched, &f->step, LF_NS_PER_MS);
}

static void read_prompts(struct fixture *f)
{
    bool prefills = true;
    for (int n = 0; prefills && n < 20; n++) {
        plan(f);
        take(f, 0);
        prefills = false;
        for (int i = 0; i < f->n_seqs; i++) prefills = prefills || lf_sched_in_prefill(&f->seqs[i]);
    }
    assert_false(prefills);
}

/* ---- how many ---- */

static void a_step_has_room_for_so_many(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int chunk, max_out, n_proposed;
    } rows[] = {{256, 64, 16}, {17, 64, 16},  {16, 64, 15}, {2, 64, 1}, {1, 64, 0},
                {256, 17, 16}, {256, 16, 15}, {256, 2, 1},  {256, 1, 0}};
    struct lf_sched_seq *seq = start(f, 20, 100, 16);
    read_prompts(f);
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        int n = rows[i].n_proposed;
        f->sched.opts.chunk = rows[i].chunk;
        f->sched.opts.max_out = rows[i].max_out;
        plan(f);
        assert_int_equal(f->step.n_items, 1);
        assert_int_equal(f->items[0].n_proposed, n);
        assert_true(f->items[0].n_tokens == 1 + n && f->items[0].out_first == 0 && f->items[0].n_out == 1 + n);
        assert_true(f->step.n_tokens == 1 + n && f->step.n_out == 1 + n && f->step.n_proposed == n);
        assert_int_equal(seq->n_ids, 21);
        for (int k = 21; k < 21 + n; k++) assert_int_equal(seq->ids[k], text(k));
    }
}

/* No sequence's own token makes room for what is proposed for another. */
static void what_others_have_is_not_given_away(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) (void)start(f, 20, 100, 16);
    read_prompts(f);
    set_cost(f, 1, 1e-6);
    f->sched.cost.w[LF_COST_STEP] = 1e6;
    f->sched.opts.max_out = 3 + 16 + 2;
    plan(f);
    int n_all = 0, n_some = 0; /* one has all it asks for, one what is left */
    for (int i = 0; i < 3; i++) {
        n_all += f->items[i].n_proposed == 16;
        n_some += f->items[i].n_proposed == 2;
    }
    assert_true(n_all == 1 && n_some == 1);
    assert_true(f->step.n_out == 21 && f->step.n_proposed == 18);
    f->sched.opts.max_out = 64;
    f->sched.opts.chunk = 3 + 5;
    plan(f);
    assert_int_equal(f->step.n_tokens, 8);
    assert_int_equal(f->step.n_proposed, 5);
}

/* Where rows are few each has them in turn, not whoever started first. */
static void what_room_there_is_goes_round(void **state)
{
    struct fixture *f = *state;
    int n_proposed[3] = {0};
    for (int i = 0; i < 3; i++) (void)start(f, 20, 200, 4);
    read_prompts(f);
    f->sched.opts.max_out = 3 + 5;
    for (int k = 0; k < 30; k++) {
        set_cost(f, 1, 1e-6);
        f->sched.cost.w[LF_COST_STEP] = 1e6;
        plan(f);
        for (int i = 0; i < 3; i++) n_proposed[f->items[i].seq - f->seqs] += f->items[i].n_proposed;
        take(f, 1);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(n_proposed[i], 50);
}

/* An answer's last token is drawn, never proposed. */
static void an_answer_ends_where_it_may(void **state)
{
    struct fixture *f = *state;
    for (int max_tokens = 2; max_tokens <= 8; max_tokens++) {
        struct lf_sched_seq *seq = start(f, 20, max_tokens, 16);
        read_prompts(f);
        plan(f);
        assert_int_equal(f->items[0].n_proposed, max_tokens - 2);
        take(f, 16);
        assert_int_equal(seq->n_ids, 20 + max_tokens);
        assert_int_equal(seq->n_done, 20 + max_tokens - 1);
        plan(f);
        assert_int_equal(f->step.n_items, 0);
        lf_sched_end(&f->sched, seq);
    }
}

/* What slides has no block beyond the one that the sequence's own token is in. */
static void of_a_window_no_block_is_begun(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.windows = (struct lf_kv_windows){.n = 1, .tokens = {B}};
    struct lf_sched_seq *seq = start(f, B - 6, 200, 16);
    read_prompts(f);
    static const int n_proposed[] = {5, 16, 16, 16, 12, 16};
    for (size_t i = 0; i < LF_N_ELEMS(n_proposed); i++) {
        plan(f);
        assert_int_equal(f->items[0].n_proposed, n_proposed[i]);
        assert_int_equal(seq->tables[0].end, seq->n_done / B + 1);
        take(f, 16);
    }
    struct lf_sched_seq *last = start(f, B - 1, 200, 16);
    f->seqs[0].speculation = NULL;
    read_prompts(f);
    plan(f);
    for (int i = 0; i < 2; i++) assert_int_equal(f->items[i].n_proposed, 0);
    assert_int_equal(last->n_done, B - 1);
}

static void nothing_is_proposed_where_prompts_wait_or_steps_overlap(void **state)
{
    struct fixture *f = *state;
    (void)start(f, 20, 100, 16);
    read_prompts(f);
    f->sched.opts.proposes = false;
    plan(f);
    assert_int_equal(f->step.n_proposed, 0);
    f->sched.opts.proposes = true;
    plan(f);
    assert_int_equal(f->step.n_proposed, 16);
    (void)start(f, 200, 1, LF_SPECULATION_OFF);
    plan(f);
    assert_int_equal(f->step.n_proposed, 0);
    assert_true(f->items[0].n_tokens == 1 && f->step.n_prefill_tokens > 0);
}

/* A step on its way, of a text in which something can always be proposed. */
static struct lf_sched_seq *start_ahead(struct fixture *f, int n_most)
{
    struct lf_sched_seq *seq = start(f, 20, 100, n_most);
    read_prompts(f);
    set_cost(f, 1e5, 1e-6);
    f->sched.cost.w[LF_COST_STEP] = 9.9e6;
    plan(f);
    lf_sched_launched(&f->sched, &f->step);
    return seq;
}

/* Where a step overlaps the one before it, proposals cost a wait: it is made where they are expected to bring more. */
static void what_is_on_its_way_is_waited_for_where_it_pays(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.proposes = false;
    struct lf_sched_seq *seq = start_ahead(f, LF_SPECULATION_AUTO);
    f->sched.opts.proposes = true;
    assert_int_equal(seq->n_placeholders, 1);
    assert_true(lf_proposals_wait(&f->sched));
    lf_proposals_waited(&f->sched, LF_NS_PER_MS); /* a tenth of the step; 0.7 + 0.7² + … are more than two steps */
    assert_true(lf_proposals_wait(&f->sched));
    f->sched.wait_ns = 0;
    lf_proposals_waited(&f->sched, 30 * LF_NS_PER_MS);
    assert_false(lf_proposals_wait(&f->sched));
    speculations[0].n_wrong = 1000; /* gains nothing that is worth anything */
    f->sched.wait_ns = 20000;
    assert_false(lf_proposals_wait(&f->sched));
    speculations[0].n_most = 2; /* always, whatever it costs */
    assert_true(lf_proposals_wait(&f->sched));
    f->ids[0][18] = 77; /* the last three known stand nowhere else */
    seq->ids[20] = 78;
    seq->n_ids++;
    assert_false(lf_proposals_wait(&f->sched));
    seq->n_ids--;
    lf_sched_sampled(&f->sched, seq, 79);
    plan(f);
    assert_int_equal(f->step.n_proposed, 0);
    (void)start(f, 200, 1, LF_SPECULATION_OFF); /* a prompt to be read */
    assert_false(lf_proposals_wait(&f->sched));
}

/* What nobody has waited for is never proposed behind, and counts as a place that was passed. */
static void behind_what_is_on_its_way_nothing_is_proposed(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.proposes = false;
    struct lf_sched_seq *seq = start_ahead(f, LF_SPECULATION_AUTO);
    f->sched.opts.proposes = true;
    f->sched.wait_ns = 1e12;
    for (int i = 0; i < 5; i++) {
        assert_false(lf_proposals_wait(&f->sched));
        assert_int_equal(speculations[0].n_declined, i);
        plan(f);
        assert_true(f->step.n_proposed == 0 && f->step.n_items == 1);
        lf_sched_launched(&f->sched, &f->step);
        lf_sched_sampled(&f->sched, seq, text(seq->n_ids - seq->n_placeholders));
    }
    for (int i = 5; i < 63; i++) lf_speculation_pass(&speculations[0]);
    assert_true(lf_proposals_wait(&f->sched)); /* asks again */
}

/* Answers of eight tokens, at a price that nobody pays: one of some sixty-four places is asked at all the same. */
static void short_answers_ask_too(void **state)
{
    struct fixture *f = *state;
    int n_proposed = 0, n_steps = 0;
    for (int i = 0; i < MAX_SEQS * 4; i++) {
        f->n_seqs = 0;
        memset(&f->seqs[0], 0, sizeof(f->seqs[0]));
        struct lf_sched_seq *seq = start(f, 20, 8, LF_SPECULATION_AUTO);
        read_prompts(f);
        for (;; n_steps++) {
            set_cost(f, 1e6, 1e-6);
            f->sched.cost.w[LF_COST_TRIED] = 1e9;
            plan(f);
            if (f->step.n_items == 0) break;
            n_proposed += f->step.n_proposed;
            take(f, 0);
        }
        lf_sched_end(&f->sched, seq);
    }
    assert_in_range(n_steps, MAX_SEQS * 4 * 6, MAX_SEQS * 4 * 8);
    assert_in_range(n_proposed, n_steps / 64 - 1, n_steps / 64 + 1);
}

/* All ids known, the wait for what becomes of proposals is weighed again. */
static void a_step_behind_proposals_weighs_them_again(void **state)
{
    struct fixture *f = *state;
    (void)start(f, 20, 100, LF_SPECULATION_AUTO);
    read_prompts(f);
    set_cost(f, 1e6, 1e-6);
    f->sched.cost.w[LF_COST_STEP] = 9e6;
    f->sched.wait_ns = 1e6;
    plan(f);
    assert_int_equal(f->step.n_proposed, 6);
    f->sched.wait_ns = 30e6;
    plan(f);
    assert_int_equal(f->step.n_proposed, 0);
    f->sched.wait_ns = 1e6;
    f->sched.opts.proposal_tokens = 4;
    plan(f);
    assert_int_equal(f->step.n_proposed, 3);
    f->sched.opts.proposal_tokens = 1;
    plan(f);
    assert_int_equal(f->step.n_proposed, 0);
}

/* What waits take is taken to be what they took of late. */
static void waits_are_measured(void **state)
{
    struct fixture *f = *state;
    lf_proposals_waited(&f->sched, 40000);
    assert_true(fabs(f->sched.wait_ns - 40000) < 1e-6);
    lf_proposals_waited(&f->sched, 50000);
    assert_true(fabs(f->sched.wait_ns - 41000) < 1e-6);
    for (int i = 0; i < 100; i++) lf_proposals_waited(&f->sched, 70000);
    assert_true(fabs(f->sched.wait_ns - 70000) < 10);
}

/* With states nothing that was refused could be taken back. */
static void nothing_is_proposed_where_there_are_states(void **state)
{
    struct fixture *f = *state;
    struct lf_block_pool slots;
    (void)start(f, 20, 100, 16);
    read_prompts(f);
    assert_int_equal(lf_block_pool_init(&slots, MAX_SEQS + 1, NULL), LF_OK);
    lf_sched_end(&f->sched, &f->seqs[0]);
    f->sched.opts.slots = &slots;
    f->sched.opts.slot_blocks = 1;
    struct lf_state_mark marks[2 * MAX_SEQS];
    f->step.marks = marks;
    struct lf_sched_seq *seq = start(f, 20, 100, 16);
    for (int i = 0; i < 3; i++) {
        plan(f);
        assert_int_equal(f->step.n_proposed, 0);
        take(f, 0);
    }
    lf_sched_end(&f->sched, seq);
    f->sched.opts.slots = NULL;
    f->step.marks = NULL;
    lf_block_pool_deinit(&slots);
}

/* Alone a token more costs a tenth of the step, which brings one; 0.7 is the guess. Beside another the step grows by a
 * quarter at most, whatever pays. */
static void as_many_as_pay_beside_the_step(void **state)
{
    struct fixture *f = *state;
    (void)start(f, 20, 100, LF_SPECULATION_AUTO);
    read_prompts(f);
    set_cost(f, 1e6, 1e-6);
    f->sched.cost.w[LF_COST_STEP] = 9e6;
    plan(f);
    assert_int_equal(f->items[0].n_proposed, 6); /* 0.7⁶ > 1 / 10 > 0.7⁷ */
    (void)start(f, 20, 100, LF_SPECULATION_AUTO);
    read_prompts(f);
    set_cost(f, 1e6, 1e-6);
    f->sched.cost.w[LF_COST_STEP] = 9e6;
    plan(f);
    assert_int_equal(f->step.n_proposed, 2); /* of 11 */
    assert_true(f->items[0].n_proposed == 2 || f->items[1].n_proposed == 2);
    f->sched.cost.w[LF_COST_STEP] = 8e6;
    for (int k = 0; k < 2; k++) {
        speculations[k].n_right = 0;
        speculations[k].n_wrong = 4; /* 1.4 of 6 pays at no price above 0.23; of two each brings half of the step */
    }
    plan(f);
    assert_int_equal(f->step.n_proposed, 2); /* 2 / 10 */
    f->sched.cost.w[LF_COST_STEP] = 6e6;
    plan(f);
    assert_int_equal(f->step.n_proposed, 0); /* 2 / 8 */
    f->sched.cost.w[LF_COST_STEP] = 9e6;
    f->sched.cost.w[LF_COST_LOGITS] = 5e6;
    f->sched.cost.w[LF_COST_TRIED] = 6e6;
    plan(f);
    assert_int_equal(f->step.n_proposed, 0); /* 6 of 21 */
}

/* ---- what it costs ---- */

/* Of one whose own token is at position p, from p + 1 on. */
static void what_is_proposed_is_paid_by_who_has_it(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        f->seqs[i].tenant_id = (uint64_t)i + 1;
        (void)start(f, 20 + 10 * i, 100, i == 0 ? 5 : LF_SPECULATION_OFF);
    }
    read_prompts(f);
    struct lf_cost *cost = &f->sched.cost;
    static const double w[LF_COST_N] = {
        [LF_COST_STEP] = 2e6,      [LF_COST_TOKEN] = 1000, [LF_COST_PREFILL_KEY] = 3, [LF_COST_LOGITS] = 500,
        [LF_COST_DECODE_KEY] = 10, [LF_COST_TRIED] = 900,  [LF_COST_TRIED_KEY] = 7};
    memcpy(cost->w, w, sizeof(w));
    double admitted[2], want[2], keys = 0, total = 0;
    for (int i = 0; i < 2; i++) {
        f->seqs[i].tenant->served_ns = 0;
        admitted[i] = f->seqs[i].tenant->admitted_ns;
        want[i] = 1e6 + 1500 + 10 * (f->seqs[i].n_done + 1.0);
    }
    for (int k = 1; k <= 5; k++) keys += f->seqs[0].n_done + k + 1;
    want[0] += 5 * 900 + 7 * keys;
    plan(f);
    assert_int_equal(f->step.n_proposed, 5);
    assert_true(f->step.load.x[LF_COST_TOKEN] == 2 && f->step.load.x[LF_COST_LOGITS] == 2);
    assert_true(f->step.load.x[LF_COST_TRIED] == 5 && f->step.load.x[LF_COST_TRIED_KEY] == keys);
    for (int i = 0; i < 2; i++) {
        const struct lf_sched_tenant *t = f->seqs[i].tenant;
        assert_true(fabs(t->decode_ns - want[i]) < 0.1 && fabs(t->served_ns - want[i]) < 0.1);
        assert_true(fabs(t->admitted_ns - admitted[i] - want[i]) < 0.1);
        total += want[i];
    }
    assert_true(fabs(f->step.predicted_ns - total) < 0.1);
}

static double speed_of(struct fixture *f, int n_right)
{
    f->sched.decode_tokens = f->sched.decode_ns = 0;
    plan(f);
    assert_int_equal(f->step.n_proposed, 3);
    take(f, n_right);
    return lf_sched_decode_speed(&f->sched);
}

/* Tokens that came, in steps of 1 ms; what was refused is none. */
static void speed_counts_what_came(void **state)
{
    struct fixture *f = *state;
    static const int n_right[] = {3, 0, 1, 2, 0};
    (void)start(f, 20, 100, 3);
    read_prompts(f);
    for (size_t i = 0; i < LF_N_ELEMS(n_right); i++)
        assert_true(fabs(speed_of(f, n_right[i]) - 1000.0 * (1 + n_right[i])) < 1e-6);
}

/* ---- what counts as computed ---- */

static void what_is_proposed_is_computed_once_it_came(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = start(f, 20, 100, 4);
    read_prompts(f);
    assert_true(seq->n_done == 20 && seq->n_ids == 21);
    plan(f);
    lf_sched_launched(&f->sched, &f->step);
    assert_true(seq->n_done == 21 && seq->n_ids == 21 && seq->n_placeholders == 0);
    for (int k = 0; k < 3; k++) {
        lf_sched_sampled(&f->sched, seq, text(21 + k));
        assert_true(seq->n_done == 21 + k && seq->n_ids == 22 + k && seq->ids[21 + k] == text(21 + k));
        lf_sched_accepted(&f->sched, seq);
        assert_int_equal(seq->n_done, 22 + k);
    }
    lf_sched_sampled(&f->sched, seq, 99); /* another than the fourth */
    assert_true(seq->n_done == 24 && seq->n_ids == 25 && seq->ids[24] == 99);
    lf_sched_learn(&f->sched, &f->step, LF_NS_PER_MS);
    plan(f);
    assert_int_equal(f->items[0].first, 24);
}

/* A block that what came has filled is others' at once: the answer may end with the next token, which is not its. */
static void what_came_enters_the_cache_at_once(void **state)
{
    struct fixture *f = *state;
    speculate_next(f, 8);
    f->seqs[0].keys = f->keys[0];
    lf_prefix_cache_root(f->prefix, NULL, 0, &f->keys[0][0]);
    f->seqs[0].n_keys = 1;
    struct lf_sched_seq *seq = submit(f, B - 4, 100, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), seq);
    read_prompts(f);
    plan(f);
    assert_int_equal(f->items[0].n_proposed, 8);
    lf_sched_launched(&f->sched, &f->step);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(seq->n_entered, 0);
        lf_sched_sampled(&f->sched, seq, text(seq->n_ids));
        lf_sched_accepted(&f->sched, seq);
    }
    assert_int_equal(seq->n_done, B);
    assert_int_equal(seq->n_entered, 1);
}

#define PROPOSES(fn) cmocka_unit_test_setup_teardown(fn, setup_proposes, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROPOSES(a_step_has_room_for_so_many),
        PROPOSES(what_others_have_is_not_given_away),
        PROPOSES(what_room_there_is_goes_round),
        PROPOSES(an_answer_ends_where_it_may),
        PROPOSES(of_a_window_no_block_is_begun),
        PROPOSES(nothing_is_proposed_where_prompts_wait_or_steps_overlap),
        PROPOSES(what_is_on_its_way_is_waited_for_where_it_pays),
        PROPOSES(behind_what_is_on_its_way_nothing_is_proposed),
        PROPOSES(short_answers_ask_too),
        PROPOSES(a_step_behind_proposals_weighs_them_again),
        PROPOSES(waits_are_measured),
        PROPOSES(nothing_is_proposed_where_there_are_states),
        PROPOSES(as_many_as_pay_beside_the_step),
        PROPOSES(what_is_proposed_is_paid_by_who_has_it),
        PROPOSES(speed_counts_what_came),
        PROPOSES(what_is_proposed_is_computed_once_it_came),
        cmocka_unit_test_setup_teardown(what_came_enters_the_cache_at_once, setup_shared_proposes, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
