/* What the scheduler promises to tenants who share a machine: promises 2, 3 and 6 of scheduler.h, and its bound on the
 * wait for admission. The machine is that of test_policy.c. */
#include "tests/support/test.h"

#include <math.h>

#include "core/check.h"
#include "core/clock.h"
#include "tests/sim/world.h"

enum { STEP_MS = 50, N_BLOCKS = 4096, MAX_SEQS = 16, FLOOD = 1, GUEST = 2, SEEDS_N = 8 };

static const struct sim_machine machine = {
    .w = {[LF_COST_STEP] = 1e6,
          [LF_COST_TOKEN] = 2e5,
          [LF_COST_PREFILL_KEY] = 15,
          [LF_COST_LOGITS] = 5e4,
          [LF_COST_DECODE_KEY] = 30},
    .noise = 0.1,
};

static struct sim_opts defaults(uint64_t seed)
{
    return (struct sim_opts){.n_blocks = N_BLOCKS,
                             .chunk = 2048,
                             .max_seqs = MAX_SEQS,
                             .max_out = MAX_SEQS,
                             .step_ns = (int64_t)STEP_MS * LF_NS_PER_MS,
                             .prefix = true,
                             .machine = machine,
                             .seed = seed};
}

static double seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

static struct sim_request *submit(struct sim_world *w, uint64_t tenant, int priority, int n_prompt, int max_tokens)
{
    struct sim_request *r = sim_make(w, 0, 0, n_prompt, max_tokens, max_tokens);
    r->seq.tenant_id = tenant;
    r->seq.priority = priority;
    sim_enter(w, r);
    return r;
}

/* What the flood consists of. */
struct flood {
    const char *name;
    int n_prompt, max_tokens;
    uint64_t n_tenants; /* that send it: FLOOD, and others beyond GUEST */
};

/* The flood's queue is always full: 192 requests, as urgent as they get. */
static void flood(struct sim_world *w, const struct flood *f)
{
    for (uint64_t i = 0; w->sched.n_waiting < 192; i++) {
        int n_prompt = sim_between(w, 1, 2 * f->n_prompt), max_tokens = sim_between(w, 1, 2 * f->max_tokens);
        uint64_t tenant = i % f->n_tenants;
        (void)submit(w, tenant == 0 ? FLOOD : GUEST + tenant, -1000000, n_prompt, max_tokens);
    }
}

static void collect(struct sim_world *w)
{
    for (struct sim_request *r = w->requests, *next; r; r = next) {
        next = r->next;
        if (r->seq.phase == LF_SCHED_ENDED && r->seq.tenant_id != GUEST) sim_collect(w, r);
    }
}

/* Until the guest's request has its first token; the longest step meanwhile. */
static double first_token_s(struct sim_world *w, const struct flood *f, struct sim_request *r, double *longest_step_s)
{
    while (r->first_token_ns == 0) {
        int64_t before_ns = w->now_ns;
        if (f) flood(w, f);
        LF_ASSERT(sim_step(w));
        *longest_step_s = fmax(*longest_step_s, seconds(w->now_ns - before_ns));
        if (w->n_steps % 64 == 0) collect(w);
    }
    return seconds(r->first_token_ns - r->submitted_ns);
}

static void open_used(struct sim_world *w, const struct sim_opts *o)
{
    sim_open(w, o);
    w->check = o->seed == 0;
    (void)submit(w, GUEST, 0, 3000, 30); /* the fit has settled, and the guest has been seen */
    while (sim_step(w)) continue;
}

static double alone_s(const struct sim_opts *o, int n_prompt)
{
    struct sim_world w;
    double step = 0;
    open_used(&w, o);
    double s = first_token_s(&w, NULL, submit(&w, GUEST, 0, n_prompt, 10), &step);
    sim_close(&w);
    return s;
}

static void a_flood_at_the_highest_priority_doubles_anothers_time_at_most(void **state)
{
    (void)state;
    static const struct flood floods[] = {{"short", 200, 5, 1},
                                          {"prompts", 2000, 1, 1},
                                          {"documents", 10000, 50, 1},
                                          {"answers", 30, 2000, 1},
                                          {"long answers about documents", 5000, 1500, 1}};
    static const int prompts[] = {100, 1000, 8192, 32768};
    for (size_t k = 0; k < LF_N_ELEMS(floods) * LF_N_ELEMS(prompts); k++) {
        const struct flood *f = &floods[k / LF_N_ELEMS(prompts)];
        int n_prompt = prompts[k % LF_N_ELEMS(prompts)];
        double worst = 0, worst_alone = 0;
        for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
            struct sim_world w;
            struct sim_opts o = defaults(seed);
            double alone = alone_s(&o, n_prompt), step = 0;
            open_used(&w, &o);
            for (int i = 0; i < 50 + 30 * (int)seed; i++) {
                flood(&w, f);
                (void)sim_step(&w);
            }
            double s = first_token_s(&w, f, submit(&w, GUEST, 0, n_prompt, 10), &step);
            if (s > 2 * alone + step)
                print_message("seed %d: %.3f s, alone %.3f s, step %.3f s\n", (int)seed, s, alone, step);
            assert_true(s <= 2 * alone + step);
            if (s > worst) worst_alone = alone;
            worst = fmax(worst, s);
            sim_close(&w);
        }
        print_message("a prompt of %d under a flood of %s: %.2f s, alone %.2f s\n", n_prompt, f->name, worst,
                      worst_alone);
    }
}

/* The demo model on one core: least squares over the processor time of 1,500 steps, decodes, prompts and both. */
static const struct sim_machine measured = {
    .w = {[LF_COST_STEP] = 3e5,
          [LF_COST_TOKEN] = 6e4,
          [LF_COST_PREFILL_KEY] = 33,
          [LF_COST_LOGITS] = 3.7e5,
          [LF_COST_DECODE_KEY] = 234},
    .chunk = 6.6e5,
    .noise = 0.1,
};

/* Each of forty clients asks the next thing as soon as it has its answer. */
static void forty_clients(struct sim_world *w)
{
    const struct lf_sched_tenant *t = lf_sched_tenant_of(&w->sched, FLOOD);
    while (t->n_waiting + t->n_running < 40) (void)submit(w, FLOOD, -1000000, 3000, 64);
}

/* Until the end of a guest's request; its time to the first token, and the longest step before that. */
static double ask_s(struct sim_world *w, int n_prompt, bool flooded, double *longest_step_s)
{
    struct sim_request *r = submit(w, GUEST, 0, n_prompt, 8);
    *longest_step_s = 0;
    while (r->ended_ns == 0) {
        int64_t before_ns = w->now_ns;
        if (flooded) forty_clients(w);
        LF_ASSERT(sim_step(w));
        if (r->first_token_ns == 0) *longest_step_s = fmax(*longest_step_s, seconds(w->now_ns - before_ns));
        if (w->n_steps % 64 == 0) collect(w);
    }
    return seconds(r->first_token_ns - r->submitted_ns);
}

/* One thing after the other, so that no pause has put the guest ahead; and while what the flood sends and is refused
 * takes a fourteenth of the processor, as measured, which no step knows of. */
static void forty_clients_double_anothers_time_at_most_whatever_else_they_cost(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
        struct sim_world w;
        struct sim_opts o = defaults(seed);
        double alone = 0, step = 0, worst = 0;
        o.machine = measured;
        o.chunk = 512;
        o.max_seqs = o.max_out = 64;
        o.n_blocks = 1024;
        o.step_ns = 2 * (int64_t)STEP_MS * LF_NS_PER_MS;
        open_used(&w, &o);
        for (int i = 0; i < 3; i++) alone = ask_s(&w, 16000, false, &step);
        for (int i = 0; i < LF_COST_N; i++) w.machine.w[i] *= 14.0 / 13;
        for (int i = 0; i < 200; i++) {
            forty_clients(&w);
            (void)sim_step(&w);
        }
        for (int i = 0; i < 3; i++) {
            double s = ask_s(&w, 16000, true, &step);
            worst = fmax(worst, s);
            if (s > 2 * alone + step) print_message("seed %d: %.2f s, alone %.2f s\n", (int)seed, s, alone);
            assert_true(s <= 2 * alone + step);
        }
        if (seed == 0) print_message("16,000 tokens beside forty clients: %.2f s, alone %.2f s\n", worst, alone);
        sim_close(&w);
    }
}

/* Where a step costs much by itself, as where weights are read from memory, decodes leave little of it. */
static void decodes_of_others_leave_a_tenant_its_half(void **state)
{
    (void)state;
    static const struct flood f = {"answers", 30, 2000, 1};
    for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
        struct sim_world w;
        struct sim_opts o = defaults(seed);
        o.machine.w[LF_COST_STEP] = 3e7;
        o.alone_ns = 4 * o.step_ns;
        double alone = alone_s(&o, 8192), step = 0;
        open_used(&w, &o);
        for (int i = 0; i < 50; i++) {
            flood(&w, &f);
            (void)sim_step(&w);
        }
        double s = first_token_s(&w, &f, submit(&w, GUEST, 0, 8192, 10), &step);
        if (seed == 0)
            print_message("8K beside long answers where a step costs 30 ms: %.1f s, alone %.1f s\n", s, alone);
        assert_true(s <= 2 * alone + step);
        assert_true(step < 2.2 * STEP_MS * 1e-3);
        sim_close(&w);
    }
}

/* The flood was alone and holds every slot and block with answers that have just begun. */
static void who_comes_when_everything_is_held_waits_for_what_runs_and_no_longer(void **state)
{
    (void)state;
    static const struct flood floods[] = {{"answers", 2000, 1000, 1}, {"documents", 15000, 300, 1}};
    for (size_t k = 0; k < 2 * SEEDS_N; k++) {
        const struct flood *f = &floods[k % 2];
        struct sim_world w;
        struct sim_opts o = defaults(k);
        o.n_blocks = 1024;
        sim_open(&w, &o);
        double step = 0;
        for (int i = 0; i < 20 + 50 * (int)k; i++) {
            flood(&w, f);
            (void)sim_step(&w);
        }
        int n_free = lf_block_pool_n_available(&w.pool);
        struct sim_request *r = submit(&w, GUEST, 0, 600 * SIM_BLOCK, 10); /* more than a quarter: it has to wait */
        int64_t longest = 0, n_tokens = 0;
        for (struct sim_request *a = w.requests; a; a = a->next) {
            if (a->seq.phase != LF_SCHED_RUNNING) continue;
            longest = LF_MAX(longest, a->seq.max_tokens);
            n_tokens += a->seq.n_prompt - a->seq.n_done;
        }
        while (r->started_ns == 0) {
            int64_t before_ns = w.now_ns;
            flood(&w, f);
            LF_ASSERT(sim_step(&w));
            step = fmax(step, seconds(w.now_ns - before_ns));
            if (w.n_steps % 64 == 0) collect(&w);
        }
        double prefill = (double)n_tokens * (machine.w[LF_COST_TOKEN] + 16384 * machine.w[LF_COST_PREFILL_KEY]) * 1e-9;
        double bound = seconds(LF_SCHED_BYPASS_NS) + 4 * prefill + (double)longest * step;
        double waited = seconds(r->started_ns - r->submitted_ns);
        if (k < 4)
            print_message("38,400 tokens behind %s (%d of 1024 blocks free): admitted after %.1f s, bound %.1f s\n",
                          f->name, n_free, waited, bound);
        assert_true(waited <= bound);
        sim_close(&w);
    }
}

/* One of two tenants is never given the last quarter, of blocks or of slots, so the other starts at once. */
static void a_quarter_is_left_for_who_was_here_within_a_minute(void **state)
{
    (void)state;
    static const struct flood f = {"answers", 3000, 4000, 1};
    for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
        struct sim_world w;
        struct sim_opts o = defaults(seed);
        o.max_seqs = seed % 2 ? 256 : MAX_SEQS; /* blocks are scarce, slots are */
        o.n_blocks = seed % 2 ? 600 : N_BLOCKS;
        open_used(&w, &o);
        for (int i = 0; i < 600; i++) {
            flood(&w, &f);
            (void)sim_step(&w);
            assert_true(w.sched.n_running <= o.max_seqs * 3 / 4);
            assert_true(lf_block_pool_n_available(&w.pool) >= o.n_blocks / 4);
        }
        struct sim_request *r = submit(&w, GUEST, 8, o.n_blocks / 4 * SIM_BLOCK - 10, 10);
        (void)sim_step(&w);
        assert_true(r->started_ns == r->submitted_ns);
        sim_close(&w);
    }
}

static void alone_a_tenant_has_everything_after_a_minute(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults(1);
    open_used(&w, &o);
    w.now_ns += LF_SCHED_ALONE_NS;
    for (int i = 0; i < MAX_SEQS + 1; i++) (void)submit(&w, FLOOD, 0, 100, 1000);
    (void)sim_step(&w);
    assert_int_equal(w.sched.n_running, MAX_SEQS);
    (void)submit(&w, GUEST, 0, 100, 10); /* from now on they share */
    while (w.sched.n_running >= MAX_SEQS * 3 / 4) {
        (void)sim_step(&w);
        (void)submit(&w, FLOOD, -8, 100, 50);
    }
    for (int i = 0; i < 300; i++) {
        struct sim_request *r = submit(&w, GUEST, 0, 100, 10);
        (void)sim_step(&w);
        assert_true(r->started_ns > 0);
        while (r->ended_ns == 0) (void)sim_step(&w);
    }
    sim_close(&w);
}

/* The flood was alone and has every slot, with answers that end in an hour. */
static void who_comes_while_every_slot_is_taken_waits_for_no_answer_to_end(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
        struct sim_world w;
        struct sim_opts o = defaults(seed);
        double alone = alone_s(&o, 1000), step = 0;
        struct sim_request *answers[2 * MAX_SEQS], *guests[MAX_SEQS / 8];
        sim_open(&w, &o);
        w.check = true;
        for (int i = 0; i < 2 * MAX_SEQS; i++) answers[i] = submit(&w, FLOOD, -8, 100, 10000);
        for (int i = 0; i < 100; i++) (void)sim_step(&w);
        assert_int_equal(w.sched.n_running, MAX_SEQS);
        for (int k = 0; k < 20; k++) { /* one after the other, from as many tenants as there are slots kept */
            for (int i = 0; i < MAX_SEQS / 8; i++) guests[i] = submit(&w, GUEST + (uint64_t)i, 8, 1000, 30);
            double s = first_token_s(&w, NULL, guests[0], &step);
            assert_true(s <= 2 * MAX_SEQS / 8 * alone + step);
            for (int i = 0; i < MAX_SEQS / 8; i++) {
                while (guests[i]->ended_ns == 0) (void)sim_step(&w);
                assert_true(guests[i]->started_ns == guests[i]->submitted_ns);
            }
        }
        for (int i = 0; i < 2 * MAX_SEQS; i++) {
            assert_true((answers[i]->started_ns != 0) == (i < MAX_SEQS));
            if (i < MAX_SEQS) assert_true(seconds(answers[i]->max_gap_ns) <= 3 * step);
        }
        sim_close(&w);
    }
}

/* Larger than a share by itself, while another asks one thing after the other. */
static void a_request_beyond_its_share_starts_all_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
        struct sim_world w;
        struct sim_opts o = defaults(seed);
        o.n_blocks = 200;
        open_used(&w, &o);
        struct sim_request *small = submit(&w, GUEST, 0, 300, 50);
        (void)sim_step(&w);
        struct sim_request *large = submit(&w, FLOOD, 0, (160 + 5 * (int)seed) * SIM_BLOCK - 100, 100);
        while (large->started_ns == 0) {
            if (small->ended_ns != 0) small = submit(&w, GUEST, 0, 300, 50);
            (void)sim_step(&w);
            assert_true(w.now_ns - large->submitted_ns <
                        LF_SCHED_ALONE_NS + LF_SCHED_BYPASS_NS + 10 * (int64_t)LF_NS_PER_S);
        }
        assert_true(large->started_ns - large->submitted_ns >= LF_SCHED_ALONE_NS);
        while (large->ended_ns == 0) (void)sim_step(&w);
        large = submit(&w, FLOOD, 0, 190 * SIM_BLOCK, 1); /* alone: at once */
        while (small->ended_ns == 0) (void)sim_step(&w);
        (void)sim_step(&w);
        assert_true(large->started_ns > 0);
        sim_close(&w);
    }
}

/* Each of them comes once, asks for one thing and is never seen again. */
static void an_endless_stream_of_new_tenants_delays_one_for_a_bounded_time(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults(3);
    o.max_seqs = 4;
    o.n_tenants = 64;
    sim_open(&w, &o);
    uint64_t next = 1000;
    struct sim_request *r = NULL;
    double worst = 0;
    for (int i = 0; i < 20; i++) { /* the tenant has used up what it is ahead by, and more */
        r = submit(&w, FLOOD, 0, 2000, 100);
        while (r->started_ns == 0) {
            while (w.sched.n_waiting < 40) (void)submit(&w, next++, -8, 500, 30);
            (void)sim_step(&w);
            if (w.n_steps % 64 == 0) collect(&w);
        }
        worst = fmax(worst, seconds(r->started_ns - r->submitted_ns));
    }
    print_message("among %d new tenants: admitted after %.1f s at worst\n", (int)next - 1000, worst);
    assert_true(worst < seconds(LF_SCHED_TURN_NS) + seconds(LF_SCHED_BYPASS_NS) + 10);
    sim_close(&w);
}

/* True seconds of the prefills of the step planned last, to each of three tenants from 1 on. */
static void add_served(const struct sim_world *w, double *served)
{
    for (int i = 0; i < w->step.n_items; i++) {
        const struct lf_sched_item *item = &w->step.items[i];
        struct lf_load load = {{0}};
        lf_load_add_prefill(&load, item->first, item->n_tokens, item->n_out);
        load.x[LF_COST_STEP] = 0;
        for (int c = 0; c < LF_COST_N; c++) served[item->seq->tenant_id - 1] += machine.w[c] * load.x[c] * 1e-9;
    }
}

/* Three of them flood with what costs the same in quite different pieces, one at the lowest priority. */
static void tenants_who_flood_get_equal_parts(void **state)
{
    (void)state;
    static const struct {
        int n_prompt, max_tokens, priority;
    } kinds[3] = {{300, 1, -1000000}, {12000, 1, 8}, {3000, 1, 0}};
    for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
        struct sim_world w;
        struct sim_opts o = defaults(seed);
        double served[3] = {0};
        sim_open(&w, &o);
        for (int i = 0; i < 4000; i++) {
            for (int k = 0; k < 3; k++) {
                const struct lf_sched_tenant *t = lf_sched_tenant_of(&w.sched, (uint64_t)k + 1);
                for (int n = t->n_waiting; n < 20; n++)
                    (void)submit(&w, (uint64_t)k + 1, kinds[k].priority, kinds[k].n_prompt, kinds[k].max_tokens);
            }
            (void)sim_step(&w);
            if (i >= 1000) add_served(&w, served);
            if (i % 64 == 0) collect(&w);
        }
        double all = served[0] + served[1] + served[2];
        if (seed == 0)
            print_message("short %.0f%%, long %.0f%%, middling %.0f%% of the time\n", 100 * served[0] / all,
                          100 * served[1] / all, 100 * served[2] / all);
        for (int k = 0; k < 3; k++) assert_true(served[k] > 0.3 * all && served[k] < 0.37 * all);
        sim_close(&w);
    }
}

/* What a tenant used while nobody else wanted it is not held against it for long, and a pause saves nothing up. */
static void the_past_counts_for_a_moment_only(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults(5);
    open_used(&w, &o);
    for (int i = 0; i < 20; i++) (void)submit(&w, FLOOD, 0, 8192, 20);
    while (sim_step(&w)) continue; /* a minute of the machine */
    double step = 0;
    struct sim_request *b = submit(&w, GUEST, 0, 32768, 1), *a = submit(&w, FLOOD, 0, 8192, 1);
    double s = first_token_s(&w, NULL, a, &step);
    assert_true(s < 2 * alone_s(&o, 8192) + 2 && b->first_token_ns == 0);
    sim_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_at_the_highest_priority_doubles_anothers_time_at_most),
        cmocka_unit_test(forty_clients_double_anothers_time_at_most_whatever_else_they_cost),
        cmocka_unit_test(decodes_of_others_leave_a_tenant_its_half),
        cmocka_unit_test(who_comes_when_everything_is_held_waits_for_what_runs_and_no_longer),
        cmocka_unit_test(a_quarter_is_left_for_who_was_here_within_a_minute),
        cmocka_unit_test(alone_a_tenant_has_everything_after_a_minute),
        cmocka_unit_test(who_comes_while_every_slot_is_taken_waits_for_no_answer_to_end),
        cmocka_unit_test(a_request_beyond_its_share_starts_all_the_same),
        cmocka_unit_test(an_endless_stream_of_new_tenants_delays_one_for_a_bounded_time),
        cmocka_unit_test(tenants_who_flood_get_equal_parts),
        cmocka_unit_test(the_past_counts_for_a_moment_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
