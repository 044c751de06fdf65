/* Sequences over several groups of layers: one that sees all, one with a window of 256 tokens, unless a test says
 * otherwise. Random layouts are tests/sim/test_groups.c's. */
#include "tests/support/test.h"

#include "core/check.h"
#include "core/clock.h"
#include "server/engine/block_tables.h"
#include "server/engine/holding.h"
#include "server/engine/scheduler.h"

enum { B = LF_KV_BLOCK_TOKENS, N_BLOCKS = 200, CHUNK = 256, MAX_SEQS = 4, WINDOW = 256, GROUPS = 2 };

struct fixture {
    struct lf_block_pool pool;
    struct lf_prefix_cache *prefix;
    struct lf_sched sched;
    struct lf_sched_step step;
    struct lf_sched_item items[MAX_SEQS];
    struct lf_sched_tenant tenants[4];
    uint32_t held_epochs[N_BLOCKS];
    struct lf_sched_seq seqs[8];
    int n_seqs;
};

static void open_with(struct fixture *f, struct lf_kv_windows windows)
{
    memset(f, 0, sizeof(*f));
    LF_ASSERT(lf_block_pool_init(&f->pool, N_BLOCKS, NULL) == LF_OK);
    LF_ASSERT(lf_prefix_cache_create(&f->prefix, &f->pool, "test", 4, B, NULL) == LF_OK);
    const struct lf_sched_opts opts = {.chunk = CHUNK,
                                       .max_seqs = MAX_SEQS,
                                       .max_out = MAX_SEQS,
                                       .token_tile = 1,
                                       .step_ns = 50 * LF_NS_PER_MS,
                                       .alone_ns = 50 * LF_NS_PER_MS,
                                       .windows = windows,
                                       .pool = &f->pool,
                                       .prefix = f->prefix,
                                       .tenants = f->tenants,
                                       .n_tenants = 4,
                                       .held_epochs = f->held_epochs};
    lf_sched_init(&f->sched, &opts);
    f->step.items = f->items;
    for (int i = 0; i < LF_COST_N; i++) f->sched.cost.w[i] = 1e-6;
    f->sched.cost.n_seen = 100;
    f->sched.cost.most_tokens = 1000;
}

static int setup(void **state)
{
    static struct fixture f;
    open_with(&f, (struct lf_kv_windows){.n = GROUPS, .tokens = {0, WINDOW}});
    *state = &f;
    return 0;
}

static int setup_sliding(void **state)
{
    static struct fixture f;
    open_with(&f, (struct lf_kv_windows){.n = 1, .tokens = {WINDOW}});
    *state = &f;
    return 0;
}

static void check(const struct fixture *f)
{
    int32_t refs[N_BLOCKS];
    lf_sched_check(&f->sched, NULL, refs);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < f->n_seqs; i++) {
        struct lf_sched_seq *seq = &f->seqs[i];
        if (seq->phase != LF_SCHED_NEW && seq->phase != LF_SCHED_ENDED) lf_sched_end(&f->sched, seq);
        free(seq->ids);
        free(seq->blocks);
        free(seq->keys);
        free(seq->restore.states);
    }
    check(f);
    assert_int_equal(f->pool.n_free + f->pool.n_cached, N_BLOCKS);
    assert_int_equal(f->sched.n_reserved, 0);
    lf_prefix_cache_destroy(f->prefix);
    lf_block_pool_deinit(&f->pool);
    return 0;
}

/* n_same tokens of one text, then tokens of its own. */
static struct lf_sched_seq *make(struct fixture *f, int n_same, int n_prompt, int max_tokens)
{
    struct lf_sched_seq *seq = &f->seqs[f->n_seqs++];
    size_t n_blocks = (size_t)lf_sched_n_blocks(&f->sched.opts.windows, n_prompt, max_tokens);
    seq->ids = calloc((size_t)(n_prompt + max_tokens), sizeof(*seq->ids));
    seq->blocks = calloc(GROUPS * n_blocks, sizeof(*seq->blocks));
    seq->keys = calloc(n_blocks + 1, sizeof(*seq->keys));
    seq->restore.states = calloc(GROUPS * n_blocks, 1);
    LF_ASSERT(seq->ids && seq->blocks && seq->keys && seq->restore.states);
    for (int i = 0; i < n_prompt; i++) seq->ids[i] = i < n_same ? i : 100000 * f->n_seqs + i;
    lf_prefix_cache_root(f->prefix, NULL, 0, &seq->keys[0]);
    for (int i = 0; i < n_prompt / B; i++)
        lf_prefix_key_next(&seq->keys[i], seq->ids + (ptrdiff_t)i * B, B, &seq->keys[i + 1]);
    seq->n_keys = n_prompt / B + 1;
    seq->block_tokens = B;
    seq->n_prompt = n_prompt;
    seq->max_tokens = max_tokens;
    return seq;
}

static void submit(struct fixture *f, struct lf_sched_seq *seq)
{
    lf_sched_submit(&f->sched, seq, LF_NS_PER_MS);
}

static bool admit(struct fixture *f, const struct lf_sched_seq *seq)
{
    return lf_sched_admit(&f->sched, LF_NS_PER_MS) == seq;
}

static void step(struct fixture *f)
{
    lf_sched_plan_step(&f->sched, &f->step);
    lf_sched_launched(&f->sched, &f->step);
    for (int i = 0; i < f->step.n_items; i++)
        if (f->items[i].complete && f->items[i].seq->max_tokens > 0) lf_sched_sampled(&f->sched, f->items[i].seq, 1);
    lf_sched_learn(&f->sched, &f->step, LF_NS_PER_MS);
    check(f);
}

static void run_to(struct fixture *f, const struct lf_sched_seq *seq, int n_done)
{
    for (int i = 0; i < 10000 && seq->n_done < n_done; i++) step(f);
    assert_true(seq->n_done >= n_done);
}

/* ---- windows ---- */

static void a_window_holds_what_is_seen_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = make(f, 0, 60 * B, 200);
    submit(f, seq);
    assert_true(admit(f, seq));
    while (seq->n_done < seq->n_prompt + 150) {
        step(f);
        const struct lf_sched_table *t = &seq->tables[1];
        assert_true(t->first * B <= LF_MAX(seq->n_done - WINDOW + 1, 0));
        assert_true(t->end - t->first <= WINDOW / B + 2);
        assert_int_equal(seq->tables[0].first, 0);
        assert_int_equal(seq->tables[0].end, seq->table_stride);
    }
    assert_true(seq->tables[1].first > 50);
}

static void a_block_behind_the_window_is_free_again(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = make(f, 0, 60 * B, 0);
    submit(f, seq);
    assert_true(admit(f, seq));
    run_to(f, seq, 30 * B);
    /* its first group's, and the window's */
    assert_int_equal(N_BLOCKS - f->pool.n_free - f->pool.n_cached, 60 + seq->tables[1].end - seq->tables[1].first);
    assert_int_equal(f->pool.n_cached, 0); /* no mark there */
}

static void a_model_of_windows_alone_takes_prompts_longer_than_its_cache(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = make(f, 0, 3 * N_BLOCKS * B, 300);
    submit(f, seq);
    assert_true(admit(f, seq));
    run_to(f, seq, seq->n_prompt + 300 - 1);
    assert_int_equal(f->sched.n_reserved, WINDOW / B + 2);
}

static void as_many_run_as_can_be_promised_their_windows(void **state)
{
    struct fixture *f = *state; /* 200 blocks: 60 + 6 for each, and 4 that stay out */
    struct lf_sched_seq *seqs[3];
    for (int i = 0; i < 3; i++) submit(f, seqs[i] = make(f, 0, 60 * B, 0));
    assert_true(admit(f, seqs[0]));
    assert_true(admit(f, seqs[1]));
    assert_false(admit(f, seqs[2])); /* 68 are left, and 66 needed, but for what stays out */
    assert_int_equal(lf_sched_n_spare(&f->sched), N_BLOCKS - 4 - 2 * 66);
    run_to(f, seqs[0], 60 * B);
    lf_sched_end(&f->sched, seqs[0]);
    assert_true(admit(f, seqs[2]));
    run_to(f, seqs[2], 60 * B);
}

/* ---- hits ---- */

/* A document of 40 blocks and some tokens, a question of more than a mark's tail, an answer of 1,000 tokens; then
 * another question. */
static void a_documents_end_is_found_after_a_long_answer(void **state)
{
    struct fixture *f = *state;
    const int32_t doc = 40 * B + 10;
    struct lf_sched_seq *first = make(f, doc, doc + 2000, 1000), *second = make(f, doc, doc + 700, 0);
    first->marks = &doc;
    first->n_marks = 1;
    submit(f, first);
    assert_true(admit(f, first));
    run_to(f, first, doc + 2000 + 990);
    lf_sched_end(&f->sched, first);
    submit(f, second);
    assert_true(admit(f, second));
    assert_int_equal(second->n_cached, 40 * B);
    check(f);
}

static void between_marks_nothing_is_found(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = make(f, 20 * B, 60 * B, 0), *second = make(f, 20 * B, 21 * B, 0);
    submit(f, first);
    assert_true(admit(f, first));
    run_to(f, first, 60 * B);
    lf_sched_end(&f->sched, first);
    submit(f, second);
    assert_true(admit(f, second));
    assert_int_equal(second->n_cached, 0); /* the first 20 blocks are there, what is seen from behind them is not */
}

static void the_end_of_an_answer_is_found(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = make(f, 0, 10 * B, 30 * B);
    submit(f, first);
    assert_true(admit(f, first));
    run_to(f, first, 39 * B + 5);
    struct lf_sched_seq *second = make(f, 0, 39 * B + 1, 0);
    lf_sched_end(&f->sched, first);
    memcpy(second->ids, first->ids, (size_t)second->n_prompt * sizeof(int32_t));
    for (int i = 0; i < 39; i++)
        lf_prefix_key_next(&second->keys[i], second->ids + (ptrdiff_t)i * B, B, &second->keys[i + 1]);
    submit(f, second);
    assert_true(admit(f, second));
    assert_int_equal(second->n_cached, 39 * B);
}

static void a_sequence_goes_on_from_where_another_is(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = make(f, 60 * B, 60 * B, 0), *second = make(f, 60 * B, 60 * B, 0);
    second->tenant_id = 1; /* of its own it would wait for the first */
    submit(f, first);
    assert_true(admit(f, first));
    run_to(f, first, 30 * B);
    submit(f, second);
    assert_true(admit(f, second));
    assert_int_equal(second->n_cached, first->n_done / B * B);
    assert_int_equal(second->tables[1].end - second->tables[1].first, WINDOW / B);
    run_to(f, second, 60 * B);
    run_to(f, first, 60 * B);
    assert_true(second->n_cached > 30 * B); /* and has taken over what the first computed meanwhile */
}

/* The first has no mark where the second has one, and what is seen from there is the first's. */
static void a_mark_keeps_what_another_has_computed(void **state)
{
    struct fixture *f = *state;
    const int32_t mark = 32 * B;
    struct lf_sched_seq *first = make(f, 60 * B, 60 * B, 0), *second = make(f, 60 * B, 58 * B, 0),
                        *third = make(f, 32 * B, 33 * B, 0);
    second->tenant_id = 1;
    second->marks = &mark;
    second->n_marks = 1;
    submit(f, first);
    assert_true(admit(f, first));
    run_to(f, first, 32 * B);
    assert_int_equal(first->n_done, 32 * B);
    submit(f, second);
    assert_true(admit(f, second));
    assert_int_equal(second->n_cached, 32 * B);
    run_to(f, first, 60 * B);
    run_to(f, second, 58 * B);
    lf_sched_end(&f->sched, first);
    lf_sched_end(&f->sched, second);
    submit(f, third);
    assert_true(admit(f, third));
    assert_int_equal(third->n_cached, 32 * B);
}

/* What a sequence left at marks and what it held to its end are as recent as one another, the end the oldest: from an
 * eviction a document comes out shorter, and with what is seen from where it ends now. */
static void a_document_loses_its_end_first_in_all_groups(void **state)
{
    struct fixture *f = *state;
    const int32_t mark = 20 * B;
    struct lf_sched_seq *doc = make(f, 60 * B, 60 * B, 0), *other = make(f, 0, 140 * B, 0),
                        *again = make(f, 60 * B, 60 * B, 0);
    doc->marks = &mark;
    doc->n_marks = 1;
    submit(f, doc);
    assert_true(admit(f, doc));
    run_to(f, doc, 60 * B);
    lf_sched_end(&f->sched, doc);
    submit(f, other);
    assert_true(admit(f, other));
    run_to(f, other, 140 * B);
    lf_sched_end(&f->sched, other);
    submit(f, again);
    assert_true(admit(f, again));
    assert_int_equal(again->n_cached, mark);
}

/* ---- pins ---- */

static void a_pin_keeps_all_that_a_question_needs(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *doc = make(f, 40 * B, 40 * B, 0), *other = make(f, 0, 145 * B, 0);
    doc->pin = LF_PIN_DEVICE;
    submit(f, doc);
    assert_true(admit(f, doc));
    run_to(f, doc, 40 * B);
    lf_sched_hold(&f->sched, doc);
    check(f);
    assert_int_equal(f->pool.n_pinned, lf_kv_windows_pinned(&f->sched.opts.windows, 40));
    submit(f, other); /* takes everything else */
    assert_true(admit(f, other));
    run_to(f, other, 145 * B);
    lf_sched_end(&f->sched, other);
    struct lf_sched_seq *same = make(f, 40 * B, 40 * B, 0), *question = make(f, 40 * B, 41 * B, 0);
    submit(f, same);
    assert_true(admit(f, same));
    assert_int_equal(same->n_cached, 39 * B);
    lf_sched_end(&f->sched, same);
    submit(f, question);
    assert_true(admit(f, question));
    assert_int_equal(question->n_cached, 40 * B);
    lf_sched_let_go(&f->sched, doc);
    check(f);
    assert_int_equal(f->pool.n_pinned, 0);
}

/* ---- from below ---- */

static int on_disk(void *ctx, const struct lf_prefix_key *key)
{
    const struct lf_prefix_key *missing = ctx;
    return memcmp(missing->bytes, key->bytes, sizeof(key->bytes)) == 0 ? -1 : 0;
}

static bool may(void *ctx, const struct lf_sched_seq *seq)
{
    (void)ctx;
    return seq != NULL;
}

struct sent {
    struct lf_sched_seq *seq;
    int idx[200], n;
};

static void send(void *ctx, struct lf_sched_seq *seq, int i, int tier)
{
    struct sent *sent = ctx;
    assert_int_equal(tier, 0);
    sent->seq = seq;
    sent->idx[sent->n++] = i;
}

static void send_all(struct fixture *f, struct sent *sent)
{
    const struct lf_restore_sender sender = {.may = may, .send = send, .ctx = sent};
    const int n_ahead[LF_RESTORE_TIERS_N] = {0};
    sent->n = 0;
    lf_restore_send(&f->sched, &sender, n_ahead, 200);
}

/* All blocks are below but that of one key. Computing takes long. */
static struct lf_sched_seq *submit_below(struct fixture *f, struct lf_prefix_key *missing)
{
    struct lf_sched_seq *seq = make(f, 0, 30 * B + 1, 0);
    f->sched.cost.w[LF_COST_TOKEN] = 1e6;
    f->sched.opts.below = (struct lf_restore_source){.find = on_disk, .ctx = missing, .block_ns = {1, 1}};
    submit(f, seq);
    assert_true(admit(f, seq));
    return seq;
}

static void a_leap_needs_all_of_one_group_and_the_others_window(void **state)
{
    struct fixture *f = *state;
    struct lf_prefix_key none = {{0}};
    struct sent sent;
    struct lf_sched_seq *seq = submit_below(f, &none);
    send_all(f, &sent);
    assert_int_equal(sent.n, 30 + WINDOW / B);
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 0); /* it waits */
    check(f);
    for (int i = 0; i < sent.n; i++) lf_restore_back(seq, sent.idx[i], true);
    step(f);
    assert_int_equal(seq->n_restored, 30 * B);
    assert_int_equal(seq->n_done, seq->n_prompt);
    assert_int_equal(seq->tables[1].first, 30 - WINDOW / B);
}

static void where_a_windows_block_is_missing_it_leaps_to_before(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *like = make(f, 0, 30 * B + 1, 0);
    struct sent sent;
    struct lf_prefix_key missing;
    for (int i = 0; i < like->n_prompt; i++) like->ids[i] = 200000 + i; /* what the next one has */
    for (int i = 0; i < 30; i++)
        lf_prefix_key_next(&like->keys[i], like->ids + (ptrdiff_t)i * B, B, &like->keys[i + 1]);
    missing = lf_prefix_group_key(&like->keys[28 + 1], 1);
    struct lf_sched_seq *seq = submit_below(f, &missing);
    send_all(f, &sent);
    assert_int_equal(sent.n, 28 + WINDOW / B);
    assert_int_equal(seq->restore.end, 28);
    for (int i = 0; i < sent.n; i++) lf_restore_back(seq, sent.idx[i], true);
    step(f);
    assert_int_equal(seq->n_restored, 28 * B);
}

static void what_does_not_come_is_computed_and_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    struct lf_prefix_key none = {{0}};
    struct sent sent;
    struct lf_sched_seq *seq = submit_below(f, &none);
    send_all(f, &sent);
    for (int i = 0; i < sent.n; i++) lf_restore_back(seq, sent.idx[i], i != sent.n / 2);
    f->sched.cost.w[LF_COST_TOKEN] = 1e-6;
    step(f);
    assert_int_equal(seq->n_restored, 0);
    assert_true(seq->n_done > 0);
    run_to(f, seq, seq->n_prompt);
}

static void of_a_leap_that_has_failed_no_more_is_sent_for(void **state)
{
    struct fixture *f = *state;
    struct lf_prefix_key none = {{0}};
    struct lf_restore_traffic traffic = {.n_most = {9, 9}};
    struct lf_sched_seq *seq = submit_below(f, &none);
    int i = lf_restore_next(&f->sched, seq, &traffic);
    assert_true(i >= 0);
    lf_restore_back(seq, i, false);
    assert_int_equal(lf_restore_next(&f->sched, seq, &traffic), -1);
    step(f);
    assert_true(seq->n_done > 0);
}

/* What was too slow is tried again some time: the rate may have been wrong. */
static void a_leap_that_does_not_pay_is_forgiven_a_little(void **state)
{
    struct fixture *f = *state;
    struct lf_prefix_key none = {{0}};
    struct lf_sched_seq *seq = make(f, 0, 30 * B + 1, 0);
    f->sched.cost.w[LF_COST_TOKEN] = 1;
    f->sched.opts.below = (struct lf_restore_source){.find = on_disk, .ctx = &none, .block_ns = {1e9, 1e9}};
    submit(f, seq);
    assert_true(admit(f, seq));
    assert_int_equal(seq->restore.end, 0);
    assert_true(LF_MIN(f->sched.opts.below.block_ns[0], f->sched.opts.below.block_ns[1]) < 1e9);
}

static void one_that_ends_while_it_waits_gives_all_back(void **state)
{
    struct fixture *f = *state;
    struct lf_prefix_key none = {{0}};
    struct lf_sched_seq *seq = submit_below(f, &none);
    lf_sched_end(&f->sched, seq);
    check(f);
    assert_int_equal(f->pool.n_free, N_BLOCKS);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_window_holds_what_is_seen_and_no_more),
        CASE(a_block_behind_the_window_is_free_again),
        cmocka_unit_test_setup_teardown(a_model_of_windows_alone_takes_prompts_longer_than_its_cache, setup_sliding,
                                        teardown),
        CASE(as_many_run_as_can_be_promised_their_windows),
        CASE(a_documents_end_is_found_after_a_long_answer),
        CASE(between_marks_nothing_is_found),
        CASE(the_end_of_an_answer_is_found),
        CASE(a_sequence_goes_on_from_where_another_is),
        CASE(a_mark_keeps_what_another_has_computed),
        CASE(a_document_loses_its_end_first_in_all_groups),
        CASE(a_pin_keeps_all_that_a_question_needs),
        CASE(a_leap_needs_all_of_one_group_and_the_others_window),
        CASE(where_a_windows_block_is_missing_it_leaps_to_before),
        CASE(of_a_leap_that_has_failed_no_more_is_sent_for),
        CASE(a_leap_that_does_not_pay_is_forgiven_a_little),
        CASE(what_does_not_come_is_computed_and_nothing_is_lost),
        CASE(one_that_ends_while_it_waits_gives_all_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
