/* What the scheduler promises to tenants who share a machine: promises 2, 3 and 6 of scheduler.h, and its bound on the
 * wait for admission. The machine is that of test_policy.c. */
#include "tests/support/test.h"

#include <math.h>

#include "core/check.h"
#include "core/clock.h"
#include "tests/sim/world.h"

enum { STEP_MS = 50, N_BLOCKS = 4096, MAX_SEQS = 16, FLOOD = 1, GUEST = 2, SEEDS_N = 12 };

static const struct sim_machine machine = {
    .w = {[LF_COST_STEP] = 1e6,
          [LF_COST_ROW] = 2e5,
          [LF_COST_PREFILL_KEY] = 15,
          [LF_COST_OUT_ROW] = 5e4,
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

__attribute__((unused)) static void run_for(struct sim_world *w, double s)
{
    int64_t until = w->now_ns + (int64_t)(s * 1e9);
    while (w->now_ns < until)
        if (!sim_step(w)) w->now_ns += LF_NS_PER_MS;
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
    w->check = true;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_at_the_highest_priority_doubles_anothers_time_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
