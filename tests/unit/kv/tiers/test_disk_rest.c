/* A disk that fails is left alone for a while, comes back, and what can still be done with it goes on. */
#include "tests/unit/kv/tiers/tier_rig.h"

static struct rig rig;

static void advance_s(int64_t s)
{
    now_ns += s * LF_NS_PER_S;
}

static void open_with(struct rig *r, int n_blocks)
{
    rig_open(r, 16, 16, 2, 8);
    for (int i = 0; i < n_blocks; i++) assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
}

/* Rests of 1, 2, 4 … 64 and 64 s; then the disk is well, and the next failure means 1 s again. */
static void a_disk_that_does_not_read_rests_and_comes_again(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int64_t rests_s[] = {1, 2, 4, 8, 16, 32, 64, 64};
    open_with(r, 2);
    for (size_t i = 0; i < LF_N_ELEMS(rests_s); i++) {
        gated_disk_fail(&r->gated, GATED_READ, LF_IO);
        assert_true(rig_has(r, 0) && lf_tier_works(r->tier) && rig_stats(r).works);
        assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_IO);
        gated_disk_fail(&r->gated, GATED_READ, LF_OK);
        for (int half = 0; half < 2; half++) {
            assert_false(rig_has(r, 0) || lf_tier_works(r->tier) || rig_stats(r).works);
            long n_begun = gated_disk_n_begun(&r->gated, GATED_READ);
            uint64_t n_wakes = rig_n_wakes(r);
            assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_IO);
            assert_true(rig_n_wakes(r) > n_wakes);
            assert_int_equal(gated_disk_n_begun(&r->gated, GATED_READ), n_begun);
            now_ns += half == 0 ? rests_s[i] * LF_NS_PER_S - 1 : 1;
        }
    }
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 1), LF_OK);
    gated_disk_fail(&r->gated, GATED_READ, LF_TIMEOUT);
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 1), LF_TIMEOUT);
    gated_disk_fail(&r->gated, GATED_READ, LF_OK);
    assert_false(lf_tier_works(r->tier));
    advance_s(1);
    assert_true(lf_tier_works(r->tier));
    const struct lf_tier_stats s = rig_stats(r);
    assert_true(s.n_rests == 9 && s.n_load_failed == 9 && s.n_loaded == 1);
    rig_stop(r);
    assert_int_equal(rig_n_logged(r, "loads from disk rest for 1 s: the disk does not read"), 2);
    assert_int_equal(rig_n_logged(r, "loads from disk rest for 64 s"), 2);
    assert_int_equal(rig_n_logged(r, "loads from disk rest"), 9);
    assert_int_equal(rig_n_logged(r, "loads from disk work again"), 1);
    assert_int_equal(rig_n_logged(r, "saves"), 0);
    rig_close(r);
}

/* Two loaders see the disk fail and others wait: that is one rest, and nobody waits for its end. */
static void what_waits_comes_back_when_a_rest_begins(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    open_with(r, 1);
    gated_disk_hold(&r->gated, GATED_READ, 2);
    gated_disk_fail(&r->gated, GATED_READ, LF_IO);
    for (int i = 0; i < 8; i++) rig_submit(r, LF_TIER_LOAD, 0, i);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 2));
    gated_disk_release(&r->gated, GATED_READ);
    for (int i = 0; i < 8; i++) assert_int_equal(rig_next(r, &number), LF_IO);
    assert_int_equal(lf_tier_n_under_way(r->tier), 0);
    assert_int_equal(gated_disk_n_begun(&r->gated, GATED_READ), 2);
    assert_int_equal(rig_stats(r).n_rests, 1);
    assert_int_equal(rig_stats(r).n_load_failed, 2);
    rig_stop(r);
    assert_int_equal(rig_n_logged(r, "rest for"), 1);
    rig_close(r);
}

/* A read that began before the rest and ends after it says nothing about the disk now, well or not. */
static void an_old_answer_changes_nothing(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    for (int well = 0; well < 2; well++) {
        open_with(r, 2);
        gated_disk_hold(&r->gated, GATED_READ, 1);
        rig_submit(r, LF_TIER_LOAD, 1, 1);
        assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
        gated_disk_fail(&r->gated, GATED_READ, LF_IO);
        assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_IO);
        advance_s(1);
        if (well) gated_disk_fail(&r->gated, GATED_READ, LF_OK);
        gated_disk_release(&r->gated, GATED_READ);
        assert_int_equal(rig_next(r, &number), well ? LF_OK : LF_IO);
        assert_true(lf_tier_works(r->tier));
        assert_int_equal(rig_stats(r).n_rests, 1);
        gated_disk_fail(&r->gated, GATED_READ, LF_IO);
        assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_IO);
        advance_s(1);
        assert_false(lf_tier_works(r->tier)); /* the second rest: 2 s */
        advance_s(1);
        assert_true(lf_tier_works(r->tier));
        rig_close(r);
    }
}

/* A block that is not there, or one that is broken, is no failure of the disk; neither does asking for one that is not
 * there show that the disk is well. */
static void what_is_no_failure(void **state)
{
    (void)state;
    struct rig *r = &rig;
    open_with(r, 2);
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 9), LF_INVALID);
    r->gated.disk.files[1].now[5] ^= 1;
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_CORRUPT);
    assert_int_equal(rig_stats(r).n_rests, 0);
    gated_disk_fail(&r->gated, GATED_READ, LF_IO);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rig_run(r, LF_TIER_LOAD, 1), LF_IO);
        advance_s(i + 1);
        assert_true(lf_tier_works(r->tier));
        assert_int_equal(rig_run(r, LF_TIER_LOAD, 9), LF_INVALID);
    }
    rig_stop(r);
    assert_int_equal(rig_n_logged(r, "rest for 2 s"), 1);
    assert_int_equal(rig_n_logged(r, "work again"), 0);
    rig_close(r);
}

/* Full, or read-only: saves rest, what is there is still loaded, and when there is room saves go on. */
static void a_disk_that_does_not_write_still_reads(void **state)
{
    (void)state;
    struct rig *r = &rig;
    const enum lf_status failures[] = {LF_FULL, LF_IO};
    for (size_t i = 0; i < LF_N_ELEMS(failures); i++) {
        open_with(r, 3);
        gated_disk_fail(&r->gated, GATED_WRITE, failures[i]);
        assert_int_equal(rig_run(r, LF_TIER_SAVE, 3), failures[i]);
        for (int64_t rest_s = 1; rest_s <= 4; rest_s *= 2) {
            long n_begun = gated_disk_n_begun(&r->gated, GATED_WRITE);
            assert_false(lf_tier_works(r->tier) || rig_stats(r).works);
            assert_int_equal(rig_run(r, LF_TIER_SAVE, 3), LF_IO);
            assert_int_equal(gated_disk_n_begun(&r->gated, GATED_WRITE), n_begun);
            for (int b = 0; b < 3; b++) {
                assert_true(rig_has(r, b));
                assert_int_equal(rig_run(r, LF_TIER_LOAD, b), LF_OK);
            }
            advance_s(rest_s);
            assert_true(lf_tier_works(r->tier));
            if (rest_s < 4) assert_int_equal(rig_run(r, LF_TIER_SAVE, 3), failures[i]);
        }
        gated_disk_fail(&r->gated, GATED_WRITE, LF_OK);
        assert_int_equal(rig_run(r, LF_TIER_SAVE, 3), LF_OK);
        assert_int_equal(rig_run(r, LF_TIER_LOAD, 3), LF_OK);
        assert_int_equal(rig_stats(r).n_save_failed, 3);
        assert_int_equal(rig_stats(r).n_rests, 3);
        rig_stop(r);
        assert_int_equal(rig_n_logged(r, "saves to disk rest for 1 s: the disk does not write"), 1);
        assert_int_equal(rig_n_logged(r, "rest for"), 3);
        assert_int_equal(rig_n_logged(r, "saves to disk work again"), 1);
        assert_int_equal(rig_n_logged(r, "loads"), 0);
        rig_close(r);
    }
}

/* Some of a batch that fails were there before: those are saved. */
static void a_batch_that_fails_in_part(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    open_with(r, 2);
    gated_disk_hold(&r->gated, GATED_READ, 1);
    rig_submit(r, LF_TIER_LOAD, 0, 31);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    for (int i = 0; i < 4; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    gated_disk_fail(&r->gated, GATED_WRITE, LF_FULL);
    gated_disk_release(&r->gated, GATED_READ);
    for (int i = 0; i < 5; i++) {
        enum lf_status status = rig_next(r, &number);
        assert_int_equal(status, number < 2 ? LF_OK : LF_FULL);
    }
    assert_int_equal(rig_stats(r).n_save_failed, 2);
    rig_close(r);
}

/* Saves that wait for loads are let go when these are refused. */
static void a_rest_of_loads_lets_saves_go(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number, n_saved = 0;
    open_with(r, 1);
    gated_disk_hold(&r->gated, GATED_READ, 1);
    rig_submit(r, LF_TIER_LOAD, 0, 0);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    rig_submit(r, LF_TIER_SAVE, 1, 1);
    gated_disk_fail(&r->gated, GATED_READ, LF_IO);
    gated_disk_release(&r->gated, GATED_READ);
    for (int i = 0; i < 2; i++) n_saved += rig_next(r, &number) == LF_OK ? 1 : 0;
    assert_int_equal(n_saved, 1);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_that_does_not_read_rests_and_comes_again),
        cmocka_unit_test(what_waits_comes_back_when_a_rest_begins),
        cmocka_unit_test(an_old_answer_changes_nothing),
        cmocka_unit_test(what_is_no_failure),
        cmocka_unit_test(a_disk_that_does_not_write_still_reads),
        cmocka_unit_test(a_batch_that_fails_in_part),
        cmocka_unit_test(a_rest_of_loads_lets_saves_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
