/* What the scheduler promises to the people who wait, shown on a modelled machine: a model that prefills 5,000 tokens a
 * second at the beginning of a document and 1,500 at the end of 32K, with steps of 50 ms. */
#include "tests/support/test.h"

#include <math.h>

#include "core/check.h"
#include "core/clock.h"
#include "tests/sim/world.h"

enum { DOC = 32768, STEP_MS = 50, GAPS_N = 200000 };

static const struct sim_machine machine = {
    .w = {[LF_COST_STEP] = 1e6,
          [LF_COST_TOKEN] = 2e5,
          [LF_COST_PREFILL_KEY] = 15,
          [LF_COST_LOGITS] = 5e4,
          [LF_COST_DECODE_KEY] = 30},
    .noise = 0.1,
};

static struct sim_opts defaults(void)
{
    return (struct sim_opts){.n_blocks = 4096,
                             .chunk = 2048,
                             .max_seqs = 64,
                             .max_out = 64,
                             .step_ns = (int64_t)STEP_MS * LF_NS_PER_MS,
                             .prefix = true,
                             .machine = machine,
                             .seed = 1};
}

static double ms(int64_t ns)
{
    return (double)ns * 1e-6;
}

static void run_until_idle(struct sim_world *w)
{
    while (sim_step(w)) continue;
}

static void run_for(struct sim_world *w, double seconds)
{
    int64_t until = w->now_ns + (int64_t)(seconds * 1e9);
    while (w->now_ns < until)
        if (!sim_step(w)) w->now_ns += LF_NS_PER_MS;
}

/* Own tokens only, nothing shared with others. */
static struct sim_request *submit(struct sim_world *w, int n_prompt, int max_tokens)
{
    return sim_submit(w, 0, 0, n_prompt, max_tokens, max_tokens);
}

struct gaps {
    int n;
    int64_t ns[GAPS_N];
};

static void note_gap(struct sim_world *w, struct sim_request *r, int64_t gap_ns)
{
    (void)r;
    struct gaps *g = w->ctx;
    if (g->n < GAPS_N) g->ns[g->n++] = gap_ns;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_ms(struct gaps *g, double p)
{
    assert_true(g->n > 0);
    qsort(g->ns, (size_t)g->n, sizeof(g->ns[0]), compare_ns);
    return ms(g->ns[(int)((double)(g->n - 1) * p)]);
}

static double seconds_alone(int n_prompt)
{
    struct sim_world w;
    struct sim_opts o = defaults();
    sim_open(&w, &o);
    struct sim_request *r = submit(&w, n_prompt, 1);
    run_until_idle(&w);
    double s = ms(r->ended_ns - r->submitted_ns) * 1e-3;
    sim_close(&w);
    return s;
}

static void a_short_request_starts_within_a_second_while_a_32k_prefill_runs(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sim_world w;
        struct sim_opts o = defaults();
        o.seed = seed;
        sim_open(&w, &o);
        struct sim_request *doc = submit(&w, DOC, 100);
        run_for(&w, 0.3 + 0.6 * (double)seed);
        struct sim_request *r = submit(&w, 200, 50);
        while (r->first_token_ns == 0) (void)sim_step(&w);
        assert_true(lf_sched_in_prefill(&doc->seq));
        worst = fmax(worst, ms(r->first_token_ns - r->submitted_ns));
        sim_close(&w);
    }
    print_message("short request during a 32K prefill: first token after %.0f ms at worst\n", worst);
    assert_true(worst < 1000);
}

static void running_decodes_keep_their_pace_during_a_32k_prefill(void **state)
{
    (void)state;
    static struct gaps gaps;
    for (int n_decodes = 1; n_decodes <= 32; n_decodes *= 2) {
        struct sim_world w;
        struct sim_opts o = defaults();
        sim_open(&w, &o);
        gaps.n = 0;
        w.ctx = &gaps;
        w.on_token = note_gap;
        for (int i = 0; i < n_decodes; i++) (void)submit(&w, 500, 3000);
        run_for(&w, 2);
        gaps.n = 0;
        struct sim_request *doc = submit(&w, DOC, 1);
        while (doc->first_token_ns == 0) (void)sim_step(&w);
        double p99 = percentile_ms(&gaps, 0.99), p50 = percentile_ms(&gaps, 0.5);
        print_message("%2d decodes beside a 32K prefill: ITL p50 %.0f ms, p99 %.0f ms; prefill %.1f s\n", n_decodes,
                      p50, p99, ms(doc->first_token_ns - doc->submitted_ns) * 1e-3);
        assert_true(p99 <= 2 * STEP_MS);
        sim_close(&w);
    }
}

/* Where nobody decodes a step may take alone_ns; from the moment somebody does, step_ns, on a device that is a step
 * ahead too. */
static void steps_are_longer_only_while_nobody_decodes(void **state)
{
    (void)state;
    for (int ahead = 0; ahead <= 1; ahead++) {
        static struct gaps gaps;
        struct sim_world w;
        struct sim_opts o = defaults();
        o.alone_ns = 4 * o.step_ns;
        o.ahead = ahead;
        sim_open(&w, &o);
        gaps.n = 0;
        w.ctx = &gaps;
        w.on_token = note_gap;
        (void)submit(&w, DOC, 1);
        double longest = 0;
        for (int i = 0; i < 20; i++) {
            (void)sim_step(&w);
            longest = fmax(longest, w.step.predicted_ns * 1e-6);
        }
        assert_true(longest > 3 * STEP_MS && longest < 4.5 * STEP_MS);
        struct sim_request *r = submit(&w, 200, 40);
        while (r->ended_ns == 0) (void)sim_step(&w);
        double p90 = percentile_ms(&gaps, 0.9);
        print_message("%d ahead: steps alone up to %.0f ms, then ITL p90 %.0f ms\n", ahead, longest, p90);
        assert_true(p90 <= 2 * STEP_MS);
        sim_close(&w);
    }
}

static void two_documents_at_once_take_no_longer_than_one_after_the_other(void **state)
{
    (void)state;
    for (int n = 512; n <= DOC; n *= 8) {
        struct sim_world w;
        struct sim_opts o = defaults();
        o.machine.noise = 0;
        sim_open(&w, &o);
        (void)submit(&w, 4096, 1); /* the fit has settled */
        run_until_idle(&w);
        int64_t before_ns = w.now_ns;
        (void)submit(&w, n, 1);
        run_until_idle(&w);
        (void)submit(&w, n, 1);
        run_until_idle(&w);
        int64_t in_turn_ns = w.now_ns - before_ns;
        before_ns = w.now_ns;
        (void)submit(&w, n, 1);
        (void)submit(&w, n, 1);
        run_until_idle(&w);
        int64_t at_once_ns = w.now_ns - before_ns;
        print_message("two documents of %d: at once %.0f ms, in turn %.0f ms\n", n, ms(at_once_ns), ms(in_turn_ns));
        assert_true((double)at_once_ns <= 1.01 * (double)in_turn_ns);
        sim_close(&w);
    }
}

/* Short requests enough for the whole machine: the document gets its quarter. */
static void a_stream_of_short_requests_does_not_starve_a_document(void **state)
{
    (void)state;
    double alone = seconds_alone(DOC);
    struct sim_world w;
    struct sim_opts o = defaults();
    sim_open(&w, &o);
    struct sim_request *doc = submit(&w, DOC, 1);
    while (doc->first_token_ns == 0) {
        while (w.sched.n_running + w.sched.n_waiting < 20) (void)submit(&w, 400, 1);
        (void)sim_step(&w);
        assert_true(w.now_ns < 1000 * (int64_t)LF_NS_PER_S);
    }
    double took = ms(doc->first_token_ns - doc->submitted_ns) * 1e-3;
    print_message("a 32K document under a flood of short ones: %.1f s, alone %.1f s\n", took, alone);
    assert_true(took < 4.5 * alone);
    sim_close(&w);
}

/* Small requests could keep the pool busy for ever; the large one is next after its time of grace. */
static void a_large_request_is_passed_for_a_bounded_time_only(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.n_blocks = 600;
    sim_open(&w, &o);
    for (int i = 0; i < 30; i++) {
        (void)submit(&w, 1000, 200);
        run_for(&w, 0.25);
    }
    struct sim_request *large = submit(&w, 512 * SIM_BLOCK, 64);
    int n_passed = 0, admitted_before = (int)w.sched.n_admitted;
    while (large->started_ns == 0) {
        (void)submit(&w, 1000, 200);
        run_for(&w, 0.25);
        assert_true(w.now_ns - large->submitted_ns < 60 * (int64_t)LF_NS_PER_S);
    }
    n_passed = (int)w.sched.n_admitted - admitted_before - 1;
    double waited = ms(large->started_ns - large->submitted_ns) * 1e-3;
    print_message("a request for 513 of 600 blocks: admitted after %.1f s, passed by %d\n", waited, n_passed);
    assert_true(n_passed >= 1); /* the pool is not left idle meanwhile */
    assert_true(n_passed * 19 <= 600);
    sim_close(&w);
}

static void urgent_requests_go_first_but_not_for_ever(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.max_seqs = 4;
    sim_open(&w, &o);
    for (int i = 0; i < 8; i++) (void)submit(&w, 1000, 50);
    (void)sim_step(&w);
    struct sim_request *plain = submit(&w, 1000, 50);
    struct sim_request *first = NULL;
    while (plain->started_ns == 0) {
        while (w.sched.n_waiting < 6) {
            struct sim_request *r = sim_make(&w, 0, 0, 1000, 50, 50);
            r->seq.priority = -1000000; /* as far as it goes */
            sim_enter(&w, r);
            if (!first) first = r;
        }
        (void)sim_step(&w);
        assert_true(w.now_ns - plain->submitted_ns < 60 * (int64_t)LF_NS_PER_S);
    }
    double waited = ms(plain->started_ns - plain->submitted_ns) * 1e-3;
    print_message("a plain request under a flood of urgent ones: waits %.1f s\n", waited);
    assert_true(first->started_ns < plain->started_ns);
    assert_true(waited < (double)LF_SCHED_PRIORITY_N * 5 + 5);
    sim_close(&w);
}

static void equal_requests_are_served_in_order_of_arrival(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.max_seqs = 5;
    sim_open(&w, &o);
    struct sim_request *r[20];
    for (int i = 0; i < 20; i++) {
        r[i] = submit(&w, 700, 20);
        (void)sim_step(&w);
    }
    run_until_idle(&w);
    for (int i = 1; i < 20; i++) {
        assert_true(r[i]->started_ns >= r[i - 1]->started_ns);
        assert_true(r[i]->first_token_ns >= r[i - 1]->first_token_ns);
    }
    sim_close(&w);
}

static void questions_about_one_document_compute_it_once(void **state)
{
    (void)state;
    double alone = seconds_alone(DOC);
    for (int follow = 0; follow < 2; follow++) {
        struct sim_world w;
        struct sim_opts o = defaults();
        o.n_blocks = follow ? 4096 : 600; /* with room for all of them, and for hardly more than one */
        sim_open(&w, &o);
        struct sim_request *leader = NULL;
        for (int i = 0; i < 8; i++) {
            struct sim_request *r = sim_make(&w, 5, DOC, DOC + 40, 20, 20);
            r->seq.leader = follow && leader ? &leader->seq : NULL;
            sim_enter(&w, r);
            if (!leader) leader = r;
        }
        int64_t before_ns = w.now_ns;
        while (sim_step(&w)) /* who waits for the document has not reserved a copy of it */
            assert_true(w.pool.n_blocks - lf_block_pool_n_available(&w.pool) < 550);
        double took = ms(w.now_ns - before_ns) * 1e-3;
        print_message("8 questions about one 32K document: %.1f s, one alone %.1f s\n", took, alone);
        assert_true(took < 1.1 * alone + 2);
        sim_close(&w);
    }
}

/* Equal beginnings that meet while running: each block is computed by one of them. */
static void prefills_side_by_side_take_over_finished_blocks(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    sim_open(&w, &o);
    w.check = true;
    struct sim_request *r[4];
    for (int i = 0; i < 4; i++) r[i] = sim_submit(&w, 9, 2048, 8192, 4, 4); /* a quarter is shared: nobody waits */
    (void)sim_step(&w);
    assert_int_equal(w.sched.n_running, 4);
    run_until_idle(&w);
    assert_int_equal(r[0]->seq.n_cached, 0);
    for (int i = 1; i < 4; i++) assert_int_equal(r[i]->seq.n_cached, 2048);
    sim_close(&w);
}

static double seconds_behind_a_longer_one(int n_shared)
{
    struct sim_world w;
    struct sim_opts o = defaults();
    o.machine.w[LF_COST_STEP] = 2e7;
    o.machine.noise = 0;
    sim_open(&w, &o);
    (void)submit(&w, 2048, 1); /* the fit has settled */
    run_until_idle(&w);
    (void)sim_submit(&w, 9, n_shared, 16384, 1, 1);
    (void)sim_step(&w);
    struct sim_request *r = sim_submit(&w, 9, n_shared, 10000, 1, 1);
    while (r->ended_ns == 0) (void)sim_step(&w);
    double s = ms(r->ended_ns - r->submitted_ns) * 1e-3;
    sim_close(&w);
    return s;
}

static void a_longer_document_with_the_same_beginning_does_not_hold_a_shorter_one_up(void **state)
{
    (void)state;
    double apart = seconds_behind_a_longer_one(0), shared = seconds_behind_a_longer_one(4096);
    print_message("10K behind 16K: %.1f s; 4K of them the same: %.1f s\n", apart, shared);
    assert_true(shared < apart);
}

/* A document that is being computed in chunks which end within blocks, and a shorter one with the same beginning that
 * overtakes it: the longer one takes over the block it is in the middle of. */
static void blocks_are_taken_over_in_their_middle(void **state)
{
    (void)state;
    int n_within = 0;
    for (int n_steps = 1; n_steps <= 10; n_steps++) {
        struct sim_world w;
        struct sim_opts o = defaults();
        o.token_tile = 48;
        sim_open(&w, &o);
        w.check = true;
        for (int i = 0; i < 5; i++) (void)submit(&w, 100, 2000);
        run_for(&w, 2);
        struct sim_request *slow = sim_submit(&w, 9, 4096, 16384, 1, 1);
        for (int i = 0; i < n_steps; i++) (void)sim_step(&w);
        assert_in_range(slow->seq.n_done, 1, 4096 - SIM_BLOCK);
        int at = slow->seq.n_done;
        struct sim_request *fast = sim_submit(&w, 9, 4096, 9000, 1, 1);
        while (fast->ended_ns == 0) {
            int before = slow->seq.n_done, cached = slow->seq.n_cached;
            (void)sim_step(&w);
            if (before % SIM_BLOCK > 0 && slow->seq.n_cached > cached) n_within++;
        }
        while (slow->ended_ns == 0) (void)sim_step(&w);
        assert_true(slow->seq.n_cached + fast->seq.n_cached >= 4096 - SIM_BLOCK);
        assert_true(fast->seq.n_cached >= at / SIM_BLOCK * SIM_BLOCK);
        sim_close(&w);
    }
    print_message("%d blocks were taken over in their middle\n", n_within);
    assert_true(n_within >= 5);
}

static void the_cost_model_finds_the_machine(void **state)
{
    (void)state;
    const double speeds[] = {0.001, 0.1, 1, 30, 1000};
    for (size_t k = 0; k < LF_N_ELEMS(speeds); k++) {
        struct sim_world w;
        struct sim_opts o = defaults();
        for (int i = 0; i < LF_COST_N; i++) o.machine.w[i] *= speeds[k];
        sim_open(&w, &o);
        for (int i = 0; i < 10; i++) (void)submit(&w, 300 + 400 * i, 200);
        int n = 0, n_near = 0;
        while (sim_step(&w)) {
            if (w.n_steps == 1) assert_true(w.step.n_tokens <= SIM_BLOCK); /* before anything is known */
            double truth = 0;
            for (int i = 0; i < LF_COST_N; i++) truth += w.machine.w[i] * w.step.load.x[i];
            if (w.n_steps <= 20) continue;
            n++;
            if (fabs(w.step.predicted_ns - truth) < 0.25 * truth) n_near++;
        }
        print_message("machine × %g: %d of %d predictions within 25%%\n", speeds[k], n_near, n);
        assert_true(n_near > n * 9 / 10);
        sim_close(&w);
    }
}

/* A step that takes 50 times as long, one in 200, must not make the scheduler timid. */
static void hiccups_do_not_spoil_the_pace(void **state)
{
    (void)state;
    double alone = seconds_alone(DOC);
    struct sim_world w;
    struct sim_opts o = defaults();
    o.machine.hiccup = 0.005;
    sim_open(&w, &o);
    struct sim_request *r = submit(&w, DOC, 1);
    int64_t hiccup_ns = 0, before_ns = w.now_ns;
    while (sim_step(&w)) {
        if (w.now_ns - before_ns > 20 * (int64_t)STEP_MS * LF_NS_PER_MS) hiccup_ns += w.now_ns - before_ns;
        before_ns = w.now_ns;
    }
    double took = ms(r->ended_ns - r->submitted_ns - hiccup_ns) * 1e-3;
    print_message("32K with hiccups of %.1f s: %.1f s beside them, without any %.1f s\n", ms(hiccup_ns) * 1e-3, took,
                  alone);
    assert_true(hiccup_ns > 0 && took < 1.25 * alone);
    sim_close(&w);
}

/* Decodes alone take longer than the step's budget: the prefill still moves, and so do they. */
static void prefill_and_decode_both_progress_under_overload(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.machine.w[LF_COST_STEP] = 1e8;
    sim_open(&w, &o);
    for (int i = 0; i < 8; i++) (void)submit(&w, 100, 400);
    while (w.sched.n_waiting > 0 || w.step.n_prefill_tokens > 0 || w.n_steps == 0) (void)sim_step(&w);
    struct sim_request *doc = submit(&w, 4096, 1);
    int64_t steps = w.n_steps;
    while (doc->first_token_ns == 0) {
        (void)sim_step(&w);
        if (doc->seq.phase != LF_SCHED_RUNNING) continue;
        assert_true(w.step.n_prefill_tokens >= LF_SCHED_MIN_TOKENS);
        if (w.sched.n_running > 1) assert_true(w.step.n_tokens > w.step.n_prefill_tokens);
    }
    assert_true(w.n_steps - steps <= 4096 / LF_SCHED_MIN_TOKENS + 1);
    sim_close(&w);
}

static double seconds_beside(int n_decodes, int token_tile)
{
    struct sim_world w;
    struct sim_opts o = defaults();
    o.machine = (struct sim_machine){.w = {[LF_COST_STEP] = 1e7,
                                           [LF_COST_TOKEN] = 2e5,
                                           [LF_COST_PREFILL_KEY] = 5,
                                           [LF_COST_LOGITS] = 5e3,
                                           [LF_COST_DECODE_KEY] = 10}};
    o.n_blocks = 32768;
    o.max_seqs = o.max_out = 256;
    o.token_tile = token_tile;
    sim_open(&w, &o);
    w.check = true;
    for (int i = 0; i < n_decodes; i++) (void)submit(&w, 100, 2000);
    while (w.sched.n_waiting > 0 || w.step.n_prefill_tokens > 0 || w.n_steps == 0) (void)sim_step(&w);
    struct sim_request *doc = submit(&w, 4096, 1);
    while (doc->first_token_ns == 0) (void)sim_step(&w);
    double s = ms(doc->first_token_ns - doc->submitted_ns) * 1e-3;
    sim_close(&w);
    return s;
}

/* Decodes that leave a few tokens of a tile free: the prefill does not make do with those. */
static void a_tile_that_is_nearly_full_does_not_hold_a_prefill_up(void **state)
{
    (void)state;
    static const int decodes[] = {60, 100, 120, 127, 128, 200};
    for (size_t i = 0; i < LF_N_ELEMS(decodes); i++) {
        double without = seconds_beside(decodes[i], 1), took = seconds_beside(decodes[i], 128);
        print_message("4K beside %d decodes: %.1f s, in tiles of 128 tokens %.1f s\n", decodes[i], without, took);
        assert_true(took < 1.5 * without);
    }
}

static void steps_of_long_documents_are_whole_tiles_of_rows(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.token_tile = 128;
    sim_open(&w, &o);
    for (int i = 0; i < 5; i++) (void)submit(&w, 100, 2000);
    run_for(&w, 2);
    struct sim_request *a = submit(&w, 8192, 1), *b = submit(&w, 8192, 1);
    int n = 0, n_whole = 0;
    while (a->ended_ns == 0 && b->ended_ns == 0) {
        (void)sim_step(&w);
        n++;
        if (w.step.n_tokens % 128 == 0) n_whole++;
    }
    print_message("%d of %d steps beside 5 decodes are whole tiles\n", n_whole, n);
    assert_true(n > 40 && n_whole > n * 9 / 10);
    sim_close(&w);
}

static void a_step_smaller_than_a_tile_is_filled_too(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.token_tile = 1024;
    o.chunk = 128;
    sim_open(&w, &o);
    (void)submit(&w, 500, 1);
    run_until_idle(&w);
    (void)submit(&w, 30, 1);
    (void)submit(&w, 5000, 1);
    (void)sim_step(&w);
    assert_int_equal(w.step.n_items, 2);
    assert_in_range(w.step.n_tokens, 30 + SIM_BLOCK, 128);
    sim_close(&w);
}

static void chunks_end_at_block_ends(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    sim_open(&w, &o);
    for (int i = 0; i < 5; i++) (void)submit(&w, 5000 + 77 * i, 300);
    int n = 0, n_even = 0;
    while (sim_step(&w)) {
        for (int i = 0; i < w.step.n_items; i++) {
            const struct lf_sched_seq *seq = w.step.items[i].seq;
            if (w.step.items[i].n_tokens == 1 || seq->n_done >= seq->n_prompt) continue;
            n++;
            if (seq->n_done % SIM_BLOCK == 0) n_even++;
            assert_int_equal(seq->n_done % LF_SCHED_MIN_TOKENS, 0);
        }
    }
    assert_true(n > 50 && n_even > n / 2);
    sim_close(&w);
}

static void the_eta_is_about_right(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    sim_open(&w, &o);
    for (int i = 0; i < 6; i++) (void)submit(&w, 300, 2000);
    run_for(&w, 1);
    struct sim_request *doc = submit(&w, DOC, 1);
    run_for(&w, 4);
    double eta = ms(lf_sched_eta_ns(&w.sched, &doc->seq)), at = ms(w.now_ns);
    while (doc->first_token_ns == 0) (void)sim_step(&w);
    double took = ms(doc->first_token_ns) - at;
    print_message("eta of a 32K prefill %.1f s, it took %.1f s\n", eta * 1e-3, took * 1e-3);
    assert_true(eta > 0.7 * took && eta < 1.4 * took);
    assert_true(lf_sched_prefill_speed(&w.sched) > 500 && lf_sched_prefill_speed(&w.sched) < 6000);
    sim_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_request_starts_within_a_second_while_a_32k_prefill_runs),
        cmocka_unit_test(running_decodes_keep_their_pace_during_a_32k_prefill),
        cmocka_unit_test(steps_are_longer_only_while_nobody_decodes),
        cmocka_unit_test(two_documents_at_once_take_no_longer_than_one_after_the_other),
        cmocka_unit_test(a_stream_of_short_requests_does_not_starve_a_document),
        cmocka_unit_test(a_large_request_is_passed_for_a_bounded_time_only),
        cmocka_unit_test(urgent_requests_go_first_but_not_for_ever),
        cmocka_unit_test(equal_requests_are_served_in_order_of_arrival),
        cmocka_unit_test(questions_about_one_document_compute_it_once),
        cmocka_unit_test(prefills_side_by_side_take_over_finished_blocks),
        cmocka_unit_test(a_longer_document_with_the_same_beginning_does_not_hold_a_shorter_one_up),
        cmocka_unit_test(blocks_are_taken_over_in_their_middle),
        cmocka_unit_test(the_cost_model_finds_the_machine),
        cmocka_unit_test(hiccups_do_not_spoil_the_pace),
        cmocka_unit_test(prefill_and_decode_both_progress_under_overload),
        cmocka_unit_test(a_tile_that_is_nearly_full_does_not_hold_a_prefill_up),
        cmocka_unit_test(steps_of_long_documents_are_whole_tiles_of_rows),
        cmocka_unit_test(a_step_smaller_than_a_tile_is_filled_too),
        cmocka_unit_test(chunks_end_at_block_ends),
        cmocka_unit_test(the_eta_is_about_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
