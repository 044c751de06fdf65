/* Thousands of operations in random order, on a disk that fails at random, against a model of what must be there; and a
 * failure of each single operation of the disk in turn. */
#include "tests/unit/kv/tiers/tier_rig.h"

enum { ROUNDS_N = 60, OPS_N = 150, N_JOBS = 12 };

enum state { ABSENT, THERE, BROKEN };

struct model {
    struct rig rig;
    bool forgets; /* fewer slots than blocks: what is there may have made room for others */
    bool trouble; /* the disk may have failed since the last calm */
    uint64_t seed, n_drawn;
    enum state states[RIG_BLOCKS_N];
    bool is_busy[RIG_BLOCKS_N]; /* a job of it is under way: one at a time */
    enum lf_tier_way ways[RIG_BLOCKS_N];
    bool place_is_busy[RIG_CACHE_N];
    int n_ok, n_absent, n_corrupt, n_failed;
};

static struct model model;

static uint64_t draw(struct model *m, uint64_t n)
{
    return lf_random64(m->seed, m->n_drawn++) % n;
}

static int free_place(const struct model *m)
{
    int at = 0;
    while (m->place_is_busy[at]) at++;
    return at;
}

static void begin_one(struct model *m)
{
    int b = (int)draw(m, RIG_BLOCKS_N), at = free_place(m);
    if (m->is_busy[b] || lf_tier_n_under_way(m->rig.tier) == N_JOBS) return;
    m->is_busy[b] = m->place_is_busy[at] = true;
    m->ways[b] = draw(m, 3) == 0 ? LF_TIER_SAVE : LF_TIER_LOAD;
    rig_submit(&m->rig, m->ways[b], b, at);
}

static void after_save(struct model *m, int b, enum lf_status status)
{
    if (status == LF_OK && m->states[b] == ABSENT) m->states[b] = THERE;
    if (status != LF_OK && !m->trouble) fail_msg("block %d is not saved: %s", b, lf_status_name(status));
    m->n_failed += status != LF_OK ? 1 : 0;
}

static void after_load(struct model *m, int b, enum lf_status status)
{
    static const enum lf_status expected[] = {[ABSENT] = LF_INVALID, [THERE] = LF_OK, [BROKEN] = LF_CORRUPT};
    bool forgotten = m->forgets && status == LF_INVALID, failed = m->trouble && status == LF_IO;
    if (status != expected[m->states[b]] && !forgotten && !failed)
        fail_msg("block %d, state %d: %s", b, (int)m->states[b], lf_status_name(status));
    if (!failed && status != LF_OK) m->states[b] = ABSENT;
    m->n_ok += status == LF_OK ? 1 : 0;
    m->n_absent += status == LF_INVALID ? 1 : 0;
    m->n_corrupt += status == LF_CORRUPT ? 1 : 0;
    m->n_failed += failed ? 1 : 0;
}

/* Takes one that is back, and asks whether it is as the model says; rig_next has looked at its bytes. */
static void end_one(struct model *m)
{
    struct lf_tier_job *job = rig_await(&m->rig);
    enum lf_status status = job->status;
    int b = job->idx;
    if (status == LF_OK) assert_memory_equal(m->rig.cache[job->block], m->rig.blocks[b].bytes, BLOCK_BYTES);
    m->is_busy[b] = m->place_is_busy[job->block] = false;
    lf_tier_done(m->rig.tier, job);
    if (m->ways[b] == LF_TIER_SAVE)
        after_save(m, b, status);
    else
        after_load(m, b, status);
}

static void end_all(struct model *m)
{
    while (lf_tier_n_under_way(m->rig.tier) > 0) end_one(m);
}

/* Turns a bit of a block on disk that nobody uses. */
static void break_one(struct model *m)
{
    int b = (int)draw(m, RIG_BLOCKS_N);
    if (m->forgets || m->is_busy[b] || m->states[b] != THERE) return;
    int32_t slot = lf_disk_table_get(m->rig.table, &m->rig.blocks[b].key);
    assert_true(slot >= 0);
    pthread_mutex_lock(&m->rig.gated.lock);
    m->rig.gated.disk.files[1].now[slot * SLOT_BYTES + (int)draw(m, BLOCK_BYTES)] ^= (uint8_t)(1 << draw(m, 8));
    pthread_mutex_unlock(&m->rig.gated.lock);
    lf_disk_table_release(m->rig.table, slot);
    m->states[b] = BROKEN;
}

/* Whether a block is listed is known while no job of it is under way. */
static void look_at_one(struct model *m)
{
    int b = (int)draw(m, RIG_BLOCKS_N);
    if (m->is_busy[b] || m->trouble) return;
    bool has = rig_has(&m->rig, b);
    if (m->forgets)
        assert_true(!has || m->states[b] == THERE);
    else
        assert_int_equal(has, m->states[b] != ABSENT);
}

static void make_trouble(struct model *m)
{
    struct gated_disk *g = &m->rig.gated;
    m->trouble = true;
    switch (draw(m, 4)) {
    case 0:
        gated_disk_fail(g, GATED_READ, LF_IO);
        break;
    case 1:
        gated_disk_fail(g, GATED_WRITE, LF_FULL);
        break;
    case 2:
        gated_disk_fail_at(g, (long)draw(m, 20), 1 + (long)draw(m, 5), LF_IO);
        break;
    default:
        now_ns += (int64_t)draw(m, 3) * LF_NS_PER_S; /* a rest may end while the disk still fails */
    }
}

/* All is back, the disk is well and has rested. */
static void calm(struct model *m)
{
    end_all(m);
    gated_disk_fail(&m->rig.gated, GATED_READ, LF_OK);
    gated_disk_fail(&m->rig.gated, GATED_WRITE, LF_OK);
    m->rig.gated.disk.fails_at = -1;
    now_ns += 65 * LF_NS_PER_S;
    m->trouble = false;
}

static void one_round(struct model *m, bool may_fail)
{
    for (int i = 0; i < OPS_N; i++) {
        uint64_t what = draw(m, 20);
        if (what < 10) begin_one(m);
        if (what >= 10 && what < 18 && lf_tier_n_under_way(m->rig.tier) > 0) end_one(m);
        if (what == 18) break_one(m);
        if (what == 19) look_at_one(m);
        if (may_fail && draw(m, 30) == 0) make_trouble(m);
    }
    calm(m);
    lf_disk_table_check(m->rig.table);
}

static void run(uint32_t n_slots, int n_loaders, uint64_t seed)
{
    struct model *m = &model;
    memset(m, 0, sizeof(*m));
    rig_open(&m->rig, n_slots, N_JOBS, n_loaders, 4);
    m->forgets = n_slots < RIG_BLOCKS_N;
    m->seed = seed;
    for (int i = 0; i < ROUNDS_N; i++) one_round(m, i % 2 == 1);
    for (int b = 0; b < RIG_BLOCKS_N; b++) {
        m->ways[b] = LF_TIER_LOAD;
        m->is_busy[b] = m->place_is_busy[0] = true;
        rig_submit(&m->rig, LF_TIER_LOAD, b, 0);
        end_one(m);
    }
    print_message("%d loaded, %d not there, %d broken, %d failed, %llu rests\n", m->n_ok, m->n_absent, m->n_corrupt,
                  m->n_failed, (unsigned long long)rig_stats(&m->rig).n_rests);
    assert_true(m->n_ok > 300 && m->n_absent > 50 && m->n_failed > 20 && rig_stats(&m->rig).n_rests > 5);
    assert_true(m->forgets ? m->n_corrupt == 0 : m->n_corrupt > 20);
    rig_close(&m->rig);
}

static void what_is_there_is_what_was_saved(void **state)
{
    (void)state;
    run(RIG_BLOCKS_N, 3, 1);
    run(RIG_BLOCKS_N, 1, 2);
}

static void with_fewer_slots_than_blocks(void **state)
{
    (void)state;
    run(16, 3, 3);
    run(16, 2, 4);
}

/* ---- each operation ---- */

enum { SWEEP_SLOTS = 8, SWEEP_BLOCKS = 14 };

/* Blocks first … first + n - 1 on their way to disk in one batch; which of them are saved, as a set of bits. */
static uint32_t save_some(struct rig *r, int first, int n)
{
    uint32_t saved = 0;
    int b;
    for (int i = first; i < first + n; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    for (int i = 0; i < n; i++) {
        enum lf_status status = rig_next(r, &b);
        saved |= status == LF_OK ? 1u << b : 0;
    }
    return saved;
}

/* What is listed loads whole, and what is not is not there. Which are listed. */
static uint32_t check_all(struct rig *r)
{
    uint32_t listed = 0;
    for (int b = 0; b < SWEEP_BLOCKS; b++) {
        listed |= rig_has(r, b) ? 1u << b : 0;
        assert_int_equal(rig_run(r, LF_TIER_LOAD, b), listed & 1u << b ? LF_OK : LF_INVALID);
    }
    return listed;
}

static void reopen_after_power_loss(struct rig *r, uint64_t seed)
{
    rig_stop(r);
    lf_disk_table_close(r->table);
    fake_disk_power_loss(&r->gated.disk, FAKE_DISK_LOSES_SOME, seed);
    assert_int_equal(lf_disk_table_open(&r->table, gated_disk_file(&r->gated, 0), gated_disk_file(&r->gated, 1),
                                        SWEEP_SLOTS, BLOCK_BYTES, NULL),
                     LF_OK);
    r->opts.table = r->table;
    assert_int_equal(lf_disk_tier_create(&r->tier, &r->opts, NULL), LF_OK);
}

/* Six blocks are there, eight are saved, of which six take the place of others; n operations fail from the k-th on.
 * Whether the disk failed at all. */
static bool fail_at(long k, long n, enum lf_status failure)
{
    struct rig *r = &model.rig;
    rig_open(r, SWEEP_SLOTS, 8, 2, 8);
    assert_int_equal(save_some(r, 0, 6), 0x3f);
    gated_disk_fail_at(&r->gated, k, n, failure);
    uint32_t saved = save_some(r, 6, 8);
    bool failed = rig_stats(r).n_rests > 0;
    assert_int_equal(failed, saved != 0x3fc0);
    assert_int_equal(failed, !lf_tier_works(r->tier));
    uint32_t listed = check_all(r);
    assert_int_equal(listed & saved, saved);
    reopen_after_power_loss(r, (uint64_t)k);
    assert_int_equal(check_all(r) & listed, listed);
    now_ns += 65 * LF_NS_PER_S;
    assert_int_equal(save_some(r, 6, 8), 0x3fc0);
    assert_int_equal(check_all(r), 0x3fc0);
    rig_close(r);
    return failed;
}

static void each_operation_fails_in_turn(void **state)
{
    (void)state;
    const enum lf_status failures[] = {LF_IO, LF_FULL};
    int n_failures = 0;
    for (size_t f = 0; f < LF_N_ELEMS(failures); f++)
        for (long n = -1; n <= 1; n += 2)
            for (long k = 0; fail_at(k, n, failures[f]); k++) n_failures++;
    print_message("%d failures\n", n_failures);
    assert_true(n_failures >= 4 * (6 + 8 + 8 + 3)); /* records cleared, blocks, records, syncs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_what_was_saved),
        cmocka_unit_test(with_fewer_slots_than_blocks),
        cmocka_unit_test(each_operation_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
