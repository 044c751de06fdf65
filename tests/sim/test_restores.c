/* Blocks that come back from a disk below the cache, in simulated worlds: nothing that is used is garbage, a restore is
 * as fast as the rates allow, nobody else waits for it, and who shares a disk has his part of it. */
#include "tests/support/test.h"

#include <math.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "tests/sim/world.h"

/* ---- random worlds ---- */

struct tally {
    long n_requests, n_cancelled, n_restored, n_loaded, n_failed, n_evicted, n_orphans;
};

static struct sim_opts draw(uint64_t seed)
{
    struct sim_world dice = {.seed = seed ^ 0xb10c};
    struct sim_world *d = &dice;
    struct sim_opts o = {.seed = seed, .prefix = true, .n_tenants = 4};
    double speed = 1 << sim_between(d, 0, 6);
    o.n_blocks = sim_between(d, 4, 24);
    o.chunk = sim_between(d, 16, 400);
    o.max_seqs = sim_between(d, 2, 8);
    o.max_out = sim_between(d, 1, 8);
    o.token_tile = sim_chance(d, 0.5) ? 1 : 1 << sim_between(d, 1, 7);
    o.step_ns = (int64_t)sim_between(d, 1, 50) * LF_NS_PER_MS;
    o.alone_ns = o.step_ns * sim_between(d, 1, 4);
    o.ahead = seed % 2 == 1;
    o.machine = (struct sim_machine){.w = {[LF_COST_STEP] = 1e5 * speed,
                                           [LF_COST_TOKEN] = 3e3 * speed,
                                           [LF_COST_PREFILL_KEY] = 10 * speed,
                                           [LF_COST_LOGITS] = 3e3 * speed,
                                           [LF_COST_DECODE_KEY] = 10 * speed},
                                     .noise = 0.3};
    double block_ns = 64 * 3e3 * speed * exp(sim_between(d, -35, 20) * 0.1); /* of what computing a block takes */
    o.disk = (struct sim_disk_opts){.n_blocks = sim_between(d, 10, 200),
                                    .n_loads = sim_between(d, 1, 64),
                                    .block_ns = block_ns,
                                    .latency_ns = block_ns * sim_between(d, 0, 5),
                                    .save_ns = block_ns * sim_between(d, 0, 20),
                                    .jitter = 3,
                                    .p_fail = sim_chance(d, 0.5) ? 0.1 : 0,
                                    .guess_ns = block_ns * exp(sim_between(d, -20, 20) * 0.1),
                                    .may_meet = seed / 2 % 2 == 0};
    return o;
}

static void submit_random(struct sim_world *w)
{
    int max_tokens = sim_between(w, 0, 40), most = w->pool.n_blocks * SIM_BLOCK - max_tokens;
    int n_prompt = sim_between(w, 1, LF_MIN(most, 700));
    int n_shared = sim_chance(w, 0.8) ? sim_between(w, 0, n_prompt) : n_prompt;
    struct sim_request *newest = w->requests;
    struct sim_request *r = sim_make(w, sim_between(w, 1, 4), n_shared, n_prompt, max_tokens, sim_between(w, 1, 40));
    r->seq.all_logits = sim_chance(w, 0.05);
    r->seq.tenant_id = sim_random(w) % 3;
    if (newest && newest->seq.phase != LF_SCHED_ENDED && sim_chance(w, 0.1)) r->seq.leader = &newest->seq;
    sim_enter(w, r);
}

/* Loads whose owners have ended: their blocks are nobody's until they are back. */
static int n_orphans(const struct sim_world *w)
{
    int n = w->disk.n_loads;
    for (int i = 0; i < w->disk.n_loads; i++) LF_LIST_EACH(it, &w->sched.running)
        {
            n -= LF_LIST_ENTRY(it, struct lf_sched_seq, node)->admitted_no == w->disk.loads[i].owner;
        }
    return n;
}

static void cancel_some(struct sim_world *w, struct tally *t)
{
    for (struct sim_request *r = w->requests; r; r = r->next) {
        if (r->seq.phase == LF_SCHED_ENDED || !sim_chance(w, 0.004)) continue;
        sim_end(w, r);
        t->n_cancelled++;
    }
}

static void run_world(uint64_t seed, struct tally *t)
{
    struct sim_world w;
    struct sim_opts o = draw(seed);
    sim_open(&w, &o);
    w.check = true;
    for (int i = 0; i < 500; i++) {
        if (sim_chance(&w, 0.15) && w.sched.n_running + w.sched.n_waiting < 16) submit_random(&w);
        cancel_some(&w, t);
        t->n_orphans += n_orphans(&w);
        if (sim_chance(&w, 0.02)) lf_prefix_cache_clear(w.prefix);
        if (!sim_step(&w)) w.now_ns += LF_NS_PER_MS;
    }
    for (long left = 200000; sim_step(&w); left--) assert_true(left > 0);
    assert_int_equal(w.sched.n_running + w.sched.n_waiting + w.disk.n_loads, 0);
    sim_check(&w);
    for (struct sim_request *r = w.requests; r; r = r->next) {
        assert_int_equal(r->n_ended, 1);
        t->n_restored += r->seq.n_restored;
        t->n_requests++;
    }
    t->n_loaded += w.disk.n_loaded;
    t->n_failed += w.disk.n_failed;
    t->n_evicted += w.disk.n_evicted;
    sim_close(&w);
}

/* world.c checks that what a step looks at is what it should be, and that what is computed and what is cached or
 * restored make up the prompt. */
static void whatever_happens_nothing_that_is_used_is_garbage(void **state)
{
    (void)state;
    struct tally t = {0};
    for (uint64_t seed = 0; seed < 300; seed++) run_world(seed, &t);
    print_message(
        "%ld requests (%ld cancelled), %ld blocks loaded, %ld loads failed, %ld evicted, %ld tokens restored; "
        "%ld times a load had no owner\n",
        t.n_requests, t.n_cancelled, t.n_loaded, t.n_failed, t.n_evicted, t.n_restored, t.n_orphans);
    assert_true(t.n_restored > 0 && t.n_failed > 0 && t.n_evicted > 0 && t.n_cancelled > 0 && t.n_orphans > 0);
    assert_true(t.n_loaded * SIM_BLOCK >= t.n_restored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_nothing_that_is_used_is_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
