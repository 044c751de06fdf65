/* server/http/conn/conn.c: who makes room for whom. */
#include "tests/unit/server/http/conn_rig.h"

enum { MANY = 1, FEW = 2, LATE = 3 }; /* addresses */

static void one_address_has_so_many(void **state)
{
    (void)state;
    struct rig r;
    bool full = true;
    open_rig(&r, 16, 2);
    (void)admit_busy(&r, 9);
    (void)admit_busy(&r, 9);
    assert_null(admit(&r, 9, &full));
    assert_false(full);
    assert_int_equal(lf_counter_get(&r.conns.metrics.refused_address), 1);
    assert_int_equal(lf_counter_get(&r.conns.metrics.refused_full), 0);
    (void)admit_busy(&r, 8);
    assert_int_equal(lf_conns_n_open(&r.conns), 3);
    close_rig(&r);
    open_rig(&r, 16, 0); /* no limit */
    for (int i = 0; i < 16; i++) (void)admit_busy(&r, 9);
    close_rig(&r);
}

/* Of the address the one that is silent the longest; those of others are older and stay. */
/* A proxy's connections count for the clients of the requests on them, and between two requests for nobody. */
static void a_proxys_connections_are_its_clients(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_conn *c[4];
    open_rig(&r, 16, 2);
    for (int i = 0; i < 4; i++) {
        c[i] = admit_busy(&r, LF_CONN_OF_PROXY);
        assert_true(c[i]->by_proxy);
    }
    assert_true(lf_conn_of_client(c[0], 9));
    assert_true(lf_conn_of_client(c[0], 9)); /* itself is no other one */
    assert_true(lf_conn_of_client(c[1], 9));
    assert_false(lf_conn_of_client(c[2], 9));
    assert_int_equal(lf_counter_get(&r.conns.metrics.refused_address), 1);
    assert_true(lf_conn_of_client(c[2], 8));
    assert_null(admit(&r, 9, &full)); /* nor by a connection of its own */
    assert_false(full);
    lf_conn_enter(&r.conns, c[0], LF_CONN_IDLE, NULL);
    assert_true(c[0]->address == LF_CONN_OF_PROXY);
    assert_true(lf_conn_of_client(c[3], 9));
    lf_conn_enter(&r.conns, c[1], LF_CONN_IDLE, NULL);
    assert_false(admit_busy(&r, 9)->by_proxy);
    close_rig(&r);
}

/* However many it has, they give way to no newer one before they are silent. */
static void a_proxy_is_no_address_that_has_many(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 16, 0);
    for (int i = 0; i < 16; i++) (void)admit(&r, LF_CONN_OF_PROXY, &full);
    struct lf_conn *late = admit(&r, LATE, &full);
    assert_non_null(late);
    assert_true(late->health_only);
    assert_int_equal(lf_counter_get(&r.conns.metrics.made_room), 0);
    close_rig(&r);
}

static void a_silent_one_of_the_address_makes_room(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 16, 3);
    struct lf_conn *other = admit(&r, 8, &full);
    lf_conn_enter(&r.conns, other, LF_CONN_IDLE, NULL);
    pass(1);
    struct lf_conn *a = admit(&r, 9, &full);
    pass(1);
    struct lf_conn *b = admit(&r, 9, &full);
    (void)admit_busy(&r, 9);
    now_ns = a->since_ns + ms(LF_CONN_SILENT_MS);
    assert_null(admit(&r, 9, &full)); /* a's head may still come */
    pass(2);                          /* both are silent */
    struct lf_conn *c = admit(&r, 9, &full);
    assert_non_null(c);
    assert_false(c->health_only);
    assert_int_equal(a->state, LF_CONN_CUT);
    assert_true(reads_end(a->fd));
    assert_int_equal(b->state, LF_CONN_HEAD);
    assert_int_equal(other->state, LF_CONN_IDLE);
    assert_int_equal(lf_counter_get(&r.conns.metrics.made_room), 1);
    lf_conn_enter(&r.conns, b, LF_CONN_IDLE, NULL); /* between two requests: silent at once, and now the only one */
    assert_non_null(admit(&r, 9, &full));
    assert_int_equal(b->state, LF_CONN_CUT);
    assert_int_equal(c->state, LF_CONN_HEAD);
    close_rig(&r);
}

static void a_full_table_lets_a_silent_one_go(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 3, 0);
    struct lf_conn *young = admit_busy(&r, 1), *old = admit_busy(&r, 2);
    (void)admit_busy(&r, 3);
    lf_conn_enter(&r.conns, old, LF_CONN_IDLE, NULL);
    pass(1);
    lf_conn_enter(&r.conns, young, LF_CONN_IDLE, NULL);
    struct lf_conn *c = admit(&r, 4, &full);
    assert_non_null(c);
    assert_false(c->health_only);
    assert_int_equal(old->state, LF_CONN_CUT);
    assert_int_equal(young->state, LF_CONN_IDLE);
    lf_conn_closed(&r.conns, young); /* a place is free: nobody has to go */
    lf_conn_enter(&r.conns, c, LF_CONN_IDLE, NULL);
    assert_non_null(admit(&r, 5, &full));
    assert_int_equal(c->state, LF_CONN_IDLE);
    assert_int_equal(lf_counter_get(&r.conns.metrics.made_room), 1);
    close_rig(&r);
}

static void where_nobody_is_silent_there_are_places_for_health(void **state)
{
    (void)state;
    struct rig r;
    struct lf_conn *health[LF_CONN_HEALTH_N];
    bool full = false;
    open_rig(&r, 2, 0);
    (void)admit_busy(&r, 1);
    struct lf_conn *busy = admit_busy(&r, 2);
    for (int i = 0; i < LF_CONN_HEALTH_N; i++) {
        health[i] = admit_busy(&r, 3 + (uint64_t)i);
        assert_true(health[i]->health_only);
    }
    assert_null(admit(&r, 20, &full));
    assert_true(full);
    assert_int_equal(lf_counter_get(&r.conns.metrics.refused_full), 1);
    lf_conn_enter(&r.conns, health[5], LF_CONN_IDLE, NULL);
    struct lf_conn *c = admit(&r, 20, &full); /* a silent one among them makes room among them */
    assert_true(c && c->health_only);
    assert_int_equal(health[5]->state, LF_CONN_CUT);
    lf_conn_enter(&r.conns, c, LF_CONN_WORK, NULL);
    lf_conn_closed(&r.conns, busy); /* they do not count for the table */
    c = admit(&r, 21, &full);
    assert_true(c && !c->health_only);
    close_rig(&r);
}

static void who_makes_room_among_health_leaves_a_place_for_health(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    open_rig(&r, 1, 1);
    (void)admit_busy(&r, 1);
    struct lf_conn *c = admit(&r, 2, &full);
    assert_true(c && c->health_only);
    lf_conn_enter(&r.conns, c, LF_CONN_IDLE, NULL);
    struct lf_conn *next = admit(&r, 2, &full);
    assert_true(next && next->health_only);
    assert_int_equal(c->state, LF_CONN_CUT);
    close_rig(&r);
}

/* Those that are being closed have places of their own, and so many; the last ones are for health. Who cannot be put
 * anywhere cuts nobody. */
static void connections_that_are_cut_hold_places_until_they_are_closed(void **state)
{
    (void)state;
    struct rig r;
    struct lf_conn *last = NULL, *first = NULL, *c;
    bool full = false;
    const int n = 1 + LF_CONN_HEALTH_N + LF_CONN_CUT_N, n_kept = LF_CONN_HEALTH_N;
    open_rig(&r, 1, 0);
    for (int i = 0; i < n; i++) {
        c = admit(&r, 1, &full);
        assert_non_null(c);
        assert_int_equal(c->health_only, i >= n - n_kept);
        if (last && !c->health_only) assert_int_equal(last->state, LF_CONN_CUT);
        lf_conn_enter(&r.conns, c, LF_CONN_IDLE, NULL);
        pass(1);
        last = c;
        if (!first) first = c;
    }
    full = false;
    assert_null(admit(&r, 1, &full));
    assert_true(full);
    assert_int_equal(last->state, LF_CONN_IDLE);
    assert_int_equal(lf_counter_get(&r.conns.metrics.made_room), n - 1 - LF_CONN_HEALTH_N);
    lf_conn_closed(&r.conns, first);
    assert_ptr_equal(admit(&r, 1, &full), first);
    close_rig(&r);
}

/* Many are cut at once: those who come before they are closed do not get the places for health. */
static void many_that_are_cut_at_once_leave_the_places_for_health(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    const int n = 130, n_spare = LF_CONN_CUT_N - LF_CONN_CUT_N / 4;
    open_rig(&r, n, 0);
    for (int i = 0; i < n; i++) assert_non_null(admit(&r, 1, &full));
    lf_conns_cut_all(&r.conns);
    for (int i = 0; i < n_spare; i++) assert_false(admit_busy(&r, MANY)->health_only);
    assert_true(admit_busy(&r, MANY)->health_only);
    int n_few = LF_CONN_CUT_N / 4 - 1; /* those of few get more, to the places for health */
    for (int i = 0; i < n_few; i++) assert_false(admit_busy(&r, FEW + (uint64_t)i / LF_CONN_MANY)->health_only);
    for (int i = 1; i < LF_CONN_HEALTH_N; i++) assert_true(admit_busy(&r, LATE + (uint64_t)i)->health_only);
    assert_null(admit(&r, LATE, &full));
    assert_true(full);
    close_rig(&r);
}

/* A deadline that many miss at once cuts a few in a tick, as long as those before them are not closed; not so where
 * memory is held. */
static void a_tick_cuts_a_few_that_hold_little(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    enum { N = 40, FEW_N = LF_CONN_CUT_N / 8 };
    struct lf_conn *c[N];
    open_rig(&r, N, 0);
    for (int i = 0; i < N; i++) c[i] = admit(&r, 1, &full);
    for (int i = N - 4; i < N; i++) lf_conn_enter(&r.conns, c[i], LF_CONN_BODY, NULL);
    pass(ms(BODY_MS) + 1);
    for (int turn = 0; turn < 2; turn++) {
        int n_cut = 0;
        lf_conns_tick(&r.conns, now_ns);
        for (int i = 0; i < N - 4; i++) n_cut += c[i]->state == LF_CONN_CUT;
        for (int i = N - 4; i < N; i++) assert_int_equal(c[i]->state, LF_CONN_CUT);
        assert_int_equal(n_cut, FEW_N - 4);
    }
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_head), FEW_N - 4);
    for (int i = 0; i < N; i++)
        if (c[i]->state == LF_CONN_CUT) lf_conn_closed(&r.conns, c[i]);
    lf_conns_tick(&r.conns, now_ns);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_head), 2 * FEW_N - 4);
    close_rig(&r);
}

/* A table with fewer places for closing keeps as few for them. */
static void places_for_closing_are_as_many_as_there_is_room_for(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    const int n = 10, n_cut = 8;
    open_rig_of(&r, n, n_cut, 0);
    assert_int_equal(r.conns.n_places, n + n_cut + LF_CONN_HEALTH_N);
    for (int i = 0; i < n; i++) assert_non_null(admit(&r, 1, &full));
    pass(ms(HEAD_MS) + 1);
    lf_conns_tick(&r.conns, now_ns);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_head), n_cut / 8);
    for (int i = 1; i < n_cut - n_cut / 4; i++) assert_false(admit_busy(&r, MANY)->health_only);
    close_rig(&r);
    open_rig_of(&r, n, 1, 0); /* one at a time all the same */
    for (int i = 0; i < n; i++) assert_non_null(admit(&r, 1, &full));
    pass(ms(HEAD_MS) + 1);
    lf_conns_tick(&r.conns, now_ns);
    assert_int_equal(lf_counter_get(&r.conns.metrics.cut_head), 1);
    close_rig(&r);
}

/* ---- where the system has no descriptors left ---- */

/* Some of the silent ones go, the longest silent first; not again as long as they have not been closed. */
static void silent_ones_go_where_there_are_no_descriptors(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    enum { N = 12, GO_N = 8 };
    struct lf_conn *c[N];
    open_rig(&r, N + 2, 0);
    assert_false(lf_conns_make_room(&r.conns));
    struct lf_conn *busy = admit_busy(&r, 1);
    for (int i = 0; i < N; i++) {
        c[i] = admit(&r, 1, &full);
        pass(1);
    }
    assert_false(lf_conns_make_room(&r.conns)); /* their heads may still come */
    pass(ms(LF_CONN_SILENT_MS));
    lf_conn_enter(&r.conns, c[0], LF_CONN_WORK, NULL);
    for (int turn = 0; turn < 2; turn++) {
        assert_true(lf_conns_make_room(&r.conns));
        for (int i = 0; i < N; i++) assert_int_equal(c[i]->state == LF_CONN_CUT, i > 0 && i <= GO_N);
        assert_int_equal(lf_counter_get(&r.conns.metrics.made_room), GO_N);
    }
    for (int i = 1; i <= GO_N; i++) lf_conn_closed(&r.conns, c[i]);
    assert_true(lf_conns_make_room(&r.conns));
    for (int i = GO_N + 1; i < N; i++) lf_conn_closed(&r.conns, c[i]);
    assert_false(lf_conns_make_room(&r.conns));
    assert_int_equal(busy->state, LF_CONN_WORK);
    close_rig(&r);
}

/* ---- those who have just come, and say nothing ---- */

static void admit_so_many(struct rig *r, struct lf_conn **out, int n, uint64_t address)
{
    bool full;
    for (int i = 0; i < n; i++) {
        out[i] = admit(r, address, &full);
        assert_non_null(out[i]);
        pass(1);
    }
}

/* An address of many gives up its oldest for one that has none yet, but not for one that has a quarter as many. */
static void an_address_of_many_gives_up_one_for_one_of_few(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_conn *many[2 * LF_CONN_MANY], *few[1], *late;
    for (int n_few = 0; n_few < 2; n_few++) {
        int n_many = LF_CONN_MANY * (n_few + 1);
        open_rig(&r, n_many + n_few, 0);
        admit_so_many(&r, few, n_few, FEW);
        if (n_few) lf_conn_enter(&r.conns, few[0], LF_CONN_WORK, NULL); /* so it could not be the one that goes */
        admit_so_many(&r, many, n_many, MANY);
        late = admit(&r, FEW, &full);
        assert_true(late && !late->health_only);
        assert_int_equal(many[0]->state, LF_CONN_CUT);
        assert_int_equal(many[1]->state, LF_CONN_HEAD);
        assert_int_equal(lf_counter_get(&r.conns.metrics.made_room), 1);
        close_rig(&r);
        open_rig(&r, n_many - 1 + n_few, 0); /* one fewer */
        admit_so_many(&r, few, n_few, FEW);
        if (n_few) lf_conn_enter(&r.conns, few[0], LF_CONN_WORK, NULL);
        admit_so_many(&r, many, n_many - 1, MANY);
        late = admit(&r, FEW, &full);
        assert_true(late && late->health_only);
        assert_int_equal(many[0]->state, LF_CONN_HEAD);
        close_rig(&r);
    }
}

/* All connections of that address count, whatever they do, but those that are gone. Only one that said nothing goes. */
static void whoever_said_something_stays(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_conn *c[LF_CONN_MANY], *late;
    open_rig(&r, LF_CONN_MANY, 0);
    admit_so_many(&r, c, LF_CONN_MANY, MANY);
    counters[c[0]->fd].bytes_received = 1; /* part of a head */
    lf_conn_enter(&r.conns, c[1], LF_CONN_WORK, NULL);
    lf_conn_enter(&r.conns, c[2], LF_CONN_BODY, NULL);
    late = admit(&r, LATE, &full);
    assert_true(late && !late->health_only);
    assert_int_equal(c[LF_CONN_MANY - 1]->state, LF_CONN_CUT);
    for (int i = 0; i < 3; i++) assert_true(c[i]->state != LF_CONN_CUT);
    lf_conn_enter(&r.conns, late, LF_CONN_WORK, NULL);
    late = admit(&r, LATE, &full); /* nobody is left who said nothing */
    assert_true(late && late->health_only);
    close_rig(&r);
    open_rig(&r, LF_CONN_MANY, 0); /* where the kernel does not say nobody is known to have said nothing */
    admit_so_many(&r, c, LF_CONN_MANY, MANY);
    no_counters = true;
    late = admit(&r, LATE, &full);
    assert_true(late && late->health_only);
    close_rig(&r);
}

static void one_that_is_being_closed_does_not_count(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_conn *c[LF_CONN_MANY], *late;
    open_rig(&r, LF_CONN_MANY, 0);
    admit_so_many(&r, c, LF_CONN_MANY, MANY);
    lf_conn_enter(&r.conns, c[0], LF_CONN_IDLE, NULL);
    late = admit(&r, LATE, &full); /* takes the idle one's place: one fewer of the address */
    assert_int_equal(c[0]->state, LF_CONN_CUT);
    assert_true(late && !late->health_only);
    lf_conn_enter(&r.conns, late, LF_CONN_WORK, NULL);
    late = admit(&r, LATE + 1, &full);
    assert_true(late && late->health_only);
    assert_int_equal(c[1]->state, LF_CONN_HEAD);
    close_rig(&r);
}

/* The places for health are not taken for it either. */
static void one_in_a_place_for_health_stays(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_conn *health[LF_CONN_MANY];
    open_rig(&r, 1, 0);
    (void)admit_busy(&r, FEW);
    admit_so_many(&r, health, LF_CONN_MANY, MANY);
    for (int i = 0; i < LF_CONN_MANY; i++) assert_true(health[i]->health_only);
    struct lf_conn *late = admit(&r, LATE, &full);
    assert_true(late && late->health_only);
    assert_int_equal(health[0]->state, LF_CONN_HEAD);
    close_rig(&r);
}

/* Where they are all taken, the longest one that said nothing makes room; not one that said something. */
static void one_that_says_nothing_gives_up_a_place_for_health(void **state)
{
    (void)state;
    struct rig r;
    bool full;
    struct lf_conn *health[LF_CONN_HEALTH_N], *busy;
    open_rig(&r, 1, 0);
    busy = admit_busy(&r, FEW);
    for (int i = 0; i < LF_CONN_HEALTH_N; i++) {
        health[i] = admit(&r, MANY + (uint64_t)i, &full);
        assert_true(health[i] && health[i]->health_only);
        pass(1);
    }
    counters[health[0]->fd].bytes_received = 1;
    struct lf_conn *late = admit(&r, LATE, &full);
    assert_true(late && late->health_only);
    assert_int_equal(health[0]->state, LF_CONN_HEAD);
    assert_int_equal(health[1]->state, LF_CONN_CUT);
    assert_int_equal(health[2]->state, LF_CONN_HEAD);
    assert_int_equal(busy->state, LF_CONN_WORK);
    counters[late->fd].bytes_received = 1;
    for (int i = 0; i < LF_CONN_HEALTH_N; i++) counters[health[i]->fd].bytes_received = 1;
    assert_null(admit(&r, LATE, &full)); /* all of them spoke */
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_address_has_so_many),
        cmocka_unit_test(a_proxys_connections_are_its_clients),
        cmocka_unit_test(a_proxy_is_no_address_that_has_many),
        cmocka_unit_test(a_silent_one_of_the_address_makes_room),
        cmocka_unit_test(a_full_table_lets_a_silent_one_go),
        cmocka_unit_test(where_nobody_is_silent_there_are_places_for_health),
        cmocka_unit_test(who_makes_room_among_health_leaves_a_place_for_health),
        cmocka_unit_test(connections_that_are_cut_hold_places_until_they_are_closed),
        cmocka_unit_test(a_tick_cuts_a_few_that_hold_little),
        cmocka_unit_test(places_for_closing_are_as_many_as_there_is_room_for),
        cmocka_unit_test(silent_ones_go_where_there_are_no_descriptors),
        cmocka_unit_test(many_that_are_cut_at_once_leave_the_places_for_health),
        cmocka_unit_test(an_address_of_many_gives_up_one_for_one_of_few),
        cmocka_unit_test(whoever_said_something_stays),
        cmocka_unit_test(one_that_is_being_closed_does_not_count),
        cmocka_unit_test(one_in_a_place_for_health_stays),
        cmocka_unit_test(one_that_says_nothing_gives_up_a_place_for_health),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
