/* What room.h says would be admitted at once is admitted at once, and a block more is not where nothing waits: asked
 * again and again in worlds of several tenants, who are then served as if nobody had asked. */
#include "tests/support/test.h"

#include "core/check.h"
#include "core/clock.h"
#include "tests/sim/world.h"

enum { TENANTS_N = 4, SEEDS_N = 60, STEPS_N = 400 };

struct found {
    int n_asked, n_nothing, n_exact, n_shares;
};

/* Whether a request of so many blocks starts at once; it ends as soon as that is known. */
static bool starts(struct sim_world *w, uint64_t tenant, int64_t n_blocks)
{
    struct sim_request *r = sim_make(w, 0, 0, (int)(n_blocks * SIM_BLOCK), 0, 0);
    r->seq.tenant_id = tenant;
    r->seq.priority = LF_SCHED_PRIORITY_N; /* behind whatever else its tenant asks */
    sim_enter(w, r);
    struct lf_sched_seq *seq = lf_sched_admit(&w->sched, w->now_ns);
    LF_ASSERT(!seq || seq == &r->seq);
    sim_end(w, r);
    sim_collect(w, r);
    return seq != NULL;
}

static void ask(struct sim_world *w, uint64_t tenant, struct found *found)
{
    const struct lf_sched_tenant *t = lf_sched_tenant_of(&w->sched, tenant);
    const struct lf_sched_holds holds = {t->n_waiting, t->n_running, t->n_blocks};
    const struct lf_sched_left left[2] = {w->sched.left[0], w->sched.left[1]};
    struct lf_sched_room room;
    lf_sched_snapshot_room(&w->sched, &room);
    int64_t n = lf_sched_room_blocks(&room, tenant, &holds, w->now_ns);
    bool waiting = w->sched.n_waiting > 0;
    found->n_asked++;
    found->n_nothing += n == 0;
    found->n_shares += n > 0 && n == room.share_blocks - holds.n_blocks;
    if (n > 0) assert_true(starts(w, tenant, n));
    memcpy(w->sched.left, left, sizeof(left)); /* the question leaves no trace of who was here */
    if (waiting || n >= w->pool.n_blocks) return;
    assert_false(starts(w, tenant, n + 1));
    memcpy(w->sched.left, left, sizeof(left));
    found->n_exact++;
}

static void collect(struct sim_world *w)
{
    for (struct sim_request *r = w->requests, *next; r; r = next) {
        next = r->next;
        if (r->seq.phase == LF_SCHED_ENDED) sim_collect(w, r);
    }
}

static void what_is_said_to_fit_starts_at_once_and_a_block_more_does_not(void **state)
{
    (void)state;
    struct found found = {0};
    for (uint64_t seed = 0; seed < SEEDS_N; seed++) {
        struct sim_world w;
        struct sim_opts o = {.n_blocks = 24 + (int)seed,
                             .chunk = 256,
                             .max_seqs = 2 + (int)seed % 15,
                             .max_out = 16,
                             .step_ns = 50 * (int64_t)LF_NS_PER_MS,
                             .prefix = false,
                             .machine = {.w = {1e6, 2e5, 15, 5e4, 30}},
                             .seed = seed};
        sim_open(&w, &o);
        int n_tenants = 1 + (int)seed % TENANTS_N;
        for (int i = 0; i < STEPS_N; i++) {
            if (w.sched.n_waiting < 3 && sim_chance(&w, 0.2)) {
                int n_prompt = sim_between(&w, 1, 8 * SIM_BLOCK), max_tokens = sim_between(&w, 1, 60);
                struct sim_request *r = sim_make(&w, 0, 0, n_prompt, max_tokens, max_tokens);
                r->seq.tenant_id = (uint64_t)sim_between(&w, 1, n_tenants);
                sim_enter(&w, r);
            }
            if (sim_chance(&w, 0.01)) w.now_ns += LF_SCHED_ALONE_NS;
            (void)sim_step(&w);
            while (lf_sched_admit(&w.sched, w.now_ns)) continue; /* as the engine, before it says how things stand */
            ask(&w, (uint64_t)sim_between(&w, 1, n_tenants + 1), &found);
            collect(&w);
        }
        sim_close(&w);
    }
    print_message("asked %d times: nothing %d, bounded by a share %d, exact %d\n", found.n_asked, found.n_nothing,
                  found.n_shares, found.n_exact);
    assert_true(found.n_nothing > 1000 && found.n_shares > 1000 && found.n_exact > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_to_fit_starts_at_once_and_a_block_more_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
