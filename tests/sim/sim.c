/* The simulator: the scheduler, the block pool and the prefix cache under seeded arrivals and faults, with every
 * invariant checked after every step.
 *
 *     sim                  10,000 seeds of 1,000 steps (1,000 seeds in debug and sanitizer builds)
 *     sim --seeds A..B     those
 *     sim --seed N         one, with a line a step on standard output
 *     sim --steps N        other than 1,000
 *
 * A failing invariant stops the program and names its seed, which replays exactly. */
#include <stdio.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "server/engine/shared_blocks.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

enum { MAX_LIVE = 24, DOCS_N = 3 };

/* What a seed draws before it starts. */
struct scenario {
    struct sim_opts world;
    double p_arrive, p_burst, p_cancel, p_clear, p_echo, p_follow, p_jump, p_fail;
    int max_prompt, max_tokens;
    int n_tenants;
    bool pins;
};

struct tally {
    long n_steps, n_requests, n_cancelled, n_cached, n_waits, n_failed, n_pinned, n_refused, n_accepted;
    int64_t most_head_steps;
};

static struct scenario draw(uint64_t seed)
{
    struct sim_world dice = {.seed = seed ^ 0x5eed, .n_draws = 0};
    struct sim_world *d = &dice;
    struct scenario s = {.world = {.seed = seed}};
    s.world.n_blocks = sim_chance(d, 0.1) ? 1 : sim_between(d, 2, 24);
    s.world.chunk = sim_chance(d, 0.5) ? 1 << sim_between(d, 0, 8) : sim_between(d, 1, 300);
    s.world.max_seqs = sim_between(d, 1, 8);
    s.world.max_out = sim_between(d, 1, 8);
    s.world.token_tile = sim_chance(d, 0.3)   ? 1
                         : sim_chance(d, 0.5) ? 1 << sim_between(d, 1, 7)
                                              : sim_between(d, 1, 400);
    s.world.step_ns = (int64_t)sim_between(d, 1, 50) * 1000000;
    s.world.alone_ns = s.world.step_ns * sim_between(d, 1, 4);
    s.world.prefix = sim_chance(d, 0.9);
    struct sim_machine *m = &s.world.machine;
    double speed = 1 << sim_between(d, 0, 10); /* from a fast machine to a very slow one */
    m->w[LF_COST_STEP] = 1e5 * speed * sim_between(d, 0, 10);
    m->w[LF_COST_TOKEN] = 1e3 * speed * sim_between(d, 1, 10);
    m->w[LF_COST_PREFILL_KEY] = 3 * speed * sim_between(d, 0, 10);
    m->w[LF_COST_LOGITS] = 1e3 * speed * sim_between(d, 0, 10);
    m->w[LF_COST_DECODE_KEY] = 10 * speed * sim_between(d, 0, 10);
    m->noise = sim_chance(d, 0.5) ? 0.3 : 0;
    m->hiccup = sim_chance(d, 0.2) ? 0.01 : 0;
    int block = s.world.windows.block_tokens = sim_block_of(seed);
    s.max_tokens = sim_between(d, 0, LF_MIN(s.world.n_blocks * block - 1, 200));
    s.max_prompt = sim_between(d, 1, 600);
    s.max_prompt = LF_MIN(s.max_prompt, s.world.n_blocks * block - s.max_tokens);
    s.p_arrive = 0.01 * sim_between(d, 1, 10);
    s.p_burst = sim_chance(d, 0.3) ? 0.01 : 0;
    s.p_cancel = sim_chance(d, 0.5) ? 0.002 * sim_between(d, 0, 10) : 0;
    s.p_clear = sim_chance(d, 0.1) ? 0.01 : 0;
    s.p_echo = sim_chance(d, 0.3) ? 0.2 : 0;
    s.p_follow = sim_chance(d, 0.3) ? 0.5 : 0;
    s.p_jump = sim_chance(d, 0.1) ? 0.01 : 0;
    s.p_fail = sim_chance(d, 0.05) ? 0.002 : 0;
    s.world.ahead = sim_chance(d, 0.5) ? 1 : 0;
    s.world.proposes = seed % 3 > 0;
    s.n_tenants = seed % 2 == 0 ? 1 : sim_between(d, 2, 6);
    s.world.n_tenants = sim_between(d, 1, 30);                  /* fewer than there may be, too */
    s.pins = seed % 5 == 3 && s.world.prefix && s.p_clear == 0; /* what is pinned is not forgotten */
    return s;
}

static int n_live(const struct sim_world *w)
{
    return w->sched.n_running + w->sched.n_waiting;
}

/* What mailbox.c looks at: pins have half of the pool at most, and whatever else comes fits beside them. */
static bool fits_beside_pins(const struct sim_world *w, const struct lf_sched_seq *seq)
{
    int64_t n = lf_sched_n_blocks(&w->sched.opts.windows, seq->n_prompt, seq->max_tokens), n_pinned = 0;
    int n_shared = 0, most = lf_sched_max_cached_blocks(seq);
    for (const struct sim_request *r = w->requests; r; r = r->next) {
        if (&r->seq == seq || r->seq.phase == LF_SCHED_ENDED || r->seq.pin == LF_PIN_NONE) continue;
        n_pinned += r->seq.n_keys - 1;
        if (most > 0) n_shared = LF_MAX(n_shared, LF_MIN(lf_sched_common_blocks(seq, &r->seq), most));
    }
    if (seq->pin != LF_PIN_NONE) return n_pinned + seq->n_keys - 1 <= w->pool.n_blocks / 2;
    return n - n_shared <= w->pool.n_blocks - n_pinned;
}

/* Those that hold blocks let go of them some time, or now. */
static void end_pins(struct sim_world *w, double p)
{
    for (struct sim_request *r = w->requests; r; r = r->next)
        if (r->seq.phase == LF_SCHED_HOLDING && (p >= 1 || sim_chance(w, p))) sim_end(w, r);
}

static void arrive(struct sim_world *w, const struct scenario *s, struct tally *t)
{
    int n_prompt = sim_chance(w, 0.5) ? sim_between(w, 1, LF_MIN(80, s->max_prompt)) : sim_between(w, 1, s->max_prompt);
    if (n_prompt > w->block && sim_chance(w, 0.3)) n_prompt -= n_prompt % w->block; /* ends with a block */
    int n_shared = sim_chance(w, 0.2) ? n_prompt : sim_chance(w, 0.6) ? sim_between(w, 0, n_prompt) : 0;
    bool is_pin = s->pins && sim_chance(w, 0.2);
    int max_tokens = is_pin ? 0 : sim_between(w, 0, s->max_tokens);
    struct sim_request *newest = w->requests;
    struct sim_request *r = sim_make(w, sim_between(w, 1, DOCS_N), n_shared, n_prompt, max_tokens,
                                     sim_between(w, 1, LF_MAX(max_tokens, 1)));
    r->seq.priority = sim_chance(w, 0.2) ? sim_between(w, -20, 20) : 0;
    r->seq.all_logits = !is_pin && sim_chance(w, s->p_echo);
    r->seq.pin = is_pin ? LF_PIN_DEVICE : LF_PIN_NONE;
    r->seq.tenant_id = lf_mix64(w->n_draws) % (uint64_t)s->n_tenants; /* draws nothing: seeds of one tenant stay */
    bool may_lead = newest && newest->seq.phase != LF_SCHED_ENDED && newest->seq.pin == LF_PIN_NONE;
    if (may_lead && sim_chance(w, s->p_follow)) r->seq.leader = &newest->seq;
    if (s->pins && !fits_beside_pins(w, &r->seq)) {
        t->n_refused++;
        r->n_ended = 1;
        sim_collect(w, r);
        return;
    }
    t->n_pinned += is_pin;
    sim_enter(w, r);
}

/* Ended requests are freed when no follower looks at them any more. */
static void collect(struct sim_world *w, struct tally *t)
{
    struct sim_request *next;
    for (struct sim_request *r = w->requests; r; r = next) {
        next = r->next;
        if (r->seq.phase != LF_SCHED_ENDED) continue;
        bool followed = false;
        LF_LIST_EACH(it, &w->sched.waiting)
        {
            followed = followed || LF_LIST_ENTRY(it, struct lf_sched_seq, node)->leader == &r->seq;
        }
        if (followed) continue;
        t->n_cached += r->seq.n_cached;
        t->most_head_steps = LF_MAX(t->most_head_steps, r->head_steps);
        sim_collect(w, r);
    }
}

static void faults(struct sim_world *w, const struct scenario *s, struct tally *t)
{
    bool failed = sim_chance(w, s->p_fail);
    for (struct sim_request *r = w->requests; r && (failed || s->p_cancel > 0); r = r->next) {
        if (r->seq.phase == LF_SCHED_ENDED || !(failed || sim_chance(w, s->p_cancel))) continue;
        sim_end(w, r);
        t->n_cancelled++;
    }
    if (failed) LF_ASSERT(n_live(w) == 0 && w->pool.n_free + w->pool.n_cached == w->pool.n_blocks);
    if (w->prefix && sim_chance(w, s->p_clear)) lf_prefix_cache_clear(w->prefix);
    if (sim_chance(w, s->p_jump)) w->now_ns += (int64_t)sim_between(w, 1, 100) * LF_NS_PER_S;
}

/* The most steps that the requests running at one moment can need together: a prefill token a step at the very least
 * (16 where the chunk has room for them) while decodes leave room, and one decode token each a step of those that fit.
 */
static int64_t longest_drain(const struct scenario *s)
{
    int64_t n = s->world.max_seqs, per_step = LF_MIN(LF_MIN(s->world.chunk, s->world.max_out), n);
    int64_t steps = n * s->max_prompt + n * s->max_tokens / LF_MAX(per_step, 1) + n * s->max_tokens + 10;
    return steps * (1 + s->world.ahead); /* where nothing can be launched, one is read first */
}

static void print_step(const struct sim_world *w)
{
    printf("step %lld  t %.6f s  waiting %d  running %d  free %d  cached %d  tokens %d (%d prefill)  out %d  "
           "predicted %.3f ms\n",
           (long long)w->n_steps, (double)w->now_ns * 1e-9, w->sched.n_waiting, w->sched.n_running, w->pool.n_free,
           w->pool.n_cached, w->step.n_tokens, w->step.n_prefill_tokens, w->step.n_out, w->step.predicted_ns * 1e-6);
}

static void run_seed(uint64_t seed, int n_steps, bool verbose, void *ctx)
{
    struct tally *t = ctx;
    struct scenario s = draw(seed);
    struct sim_world w;
    t->most_head_steps = 0;
    sim_open(&w, &s.world);
    w.check = true;
    for (int i = 0; i < n_steps; i++) {
        int n = sim_chance(&w, s.p_burst) ? 8 : sim_chance(&w, s.p_arrive) ? 1 : 0;
        for (; n > 0 && n_live(&w) < MAX_LIVE; n--, t->n_requests++) arrive(&w, &s, t);
        if (s.pins) end_pins(&w, 0.01);
        faults(&w, &s, t);
        if (!sim_step(&w)) w.now_ns += 1000000;
        if (verbose) print_step(&w);
        if (i % 8 == 0) collect(&w, t);
    }
    /* No more arrivals: what is there ends, and nothing stays behind. */
    int64_t bound = longest_drain(&s), left = bound * (n_live(&w) + 1);
    while (sim_step(&w)) LF_ASSERT(left-- > 0);
    LF_ASSERT(n_live(&w) == 0);
    sim_check(&w);
    end_pins(&w, 1);
    LF_ASSERT(w.pool.n_pinned == 0);
    sim_check(&w);
    collect(&w, t);
    LF_ASSERT(w.requests == NULL && t->most_head_steps <= bound * s.n_tenants);
    t->n_steps += (long)w.n_steps;
    t->n_accepted += (long)w.n_accepted;
    sim_close(&w);
}

int main(int argc, char **argv)
{
    struct sim_seeds seeds;
    struct tally t = {0};
    if (!sim_seeds_run(&seeds, argc, argv, "sim", 10000, run_seed, &t)) return 2;
    printf("%ld steps, %ld requests (%ld cancelled), %ld tokens from the cache, %ld pins, %ld refused beside them, "
           "%ld proposed tokens accepted\n",
           t.n_steps, t.n_requests, t.n_cancelled, t.n_cached, t.n_pinned, t.n_refused, t.n_accepted);
    bool all = t.n_pinned > 0 && t.n_refused > 0 && t.n_accepted > 0;
    return t.n_requests > 0 && (seeds.last - seeds.first < 1000 || all) ? 0 : 1;
}
