/* Which block makes room: the order of the queues beside its definition, by a look at all of them. */
#include "kv/tiers/eviction.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/mix.h"
#include "tests/support/test.h"

enum { N = 200, TENANTS = 5 };

struct fixture {
    struct lf_eviction e;
    struct lf_eviction_item items[N];
    bool listed[N];
    uint64_t used;
};

static struct fixture *make(void)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    lf_eviction_init(&f->e, N);
    return f;
}

static void add(struct fixture *f, int i, uint64_t tenant, uint32_t depth)
{
    f->items[i] = (struct lf_eviction_item){.tenant = tenant, .depth = depth};
    f->listed[i] = true;
    lf_eviction_add(&f->e, &f->items[i], ++f->used);
}

static void use(struct fixture *f, int i)
{
    lf_eviction_remove(&f->e, &f->items[i]);
    lf_eviction_count_use(&f->items[i]);
    lf_eviction_add(&f->e, &f->items[i], f->used);
}

static int evict(struct fixture *f)
{
    struct lf_eviction_item *item = lf_eviction_next(&f->e);
    if (!item) return -1;
    lf_eviction_remove(&f->e, item);
    f->listed[item - f->items] = false;
    return (int)(item - f->items);
}

static void of_the_same_value_the_least_recently_used_goes(void **state)
{
    (void)state;
    struct fixture *f = make();
    assert_int_equal(evict(f), -1);
    for (int i = 0; i < 6; i++) add(f, i, 7, 100);
    for (int i = 0; i < 6; i++) use(f, (5 * i + 2) % 6); /* 2 1 0 5 4 3 */
    static const int order[] = {2, 1, 0, 5, 4, 3};
    for (int i = 0; i < 6; i++) assert_int_equal(evict(f), order[i]);
    assert_null(lf_eviction_next(&f->e));
    assert_true(f->e.n == 0 && f->e.value_sum == 0);
    free(f);
}

static void a_class_costs_what_its_middle_does(void **state)
{
    (void)state;
    uint32_t from = 0;
    for (int k = 0; k < LF_EVICTION_CLASSES_N; k++) {
        uint32_t width = (uint32_t)LF_EVICTION_CLASS_TOKENS << k;
        double middle = 16 * (1 + (from + width / 2.0) / LF_EVICTION_TWICE_TOKENS);
        assert_true(lf_eviction_cost(from) == middle && lf_eviction_cost(from + width - 1) == middle);
        from += width;
    }
    assert_int_equal(lf_eviction_cost(UINT32_MAX), lf_eviction_cost(from - 1));
}

/* Half of the place is worth one turn: after as many writes as that the dear one is as old as the cheap ones. */
static void what_is_dear_or_asked_for_stays_longer(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct fixture *f = make();
        add(f, 0, 0, asked ? 0 : 3 * LF_EVICTION_TWICE_TOKENS);
        add(f, 1, 0, 0);
        if (asked) use(f, 0);
        int n_writes = 0;
        for (int i = 2; i < N; i++) add(f, i, 0, 0);
        assert_int_equal(evict(f), 1);
        for (int at = 1, gone; (gone = evict(f)) != 0; at = gone) {
            assert_int_equal(gone, at == N - 1 ? 1 : at + 1); /* the others by age */
            add(f, at, 0, 0);
            n_writes++;
        }
        double turns = asked ? 1 : (lf_eviction_cost(3 * LF_EVICTION_TWICE_TOKENS) / 17.0 - 1);
        assert_true(n_writes > 0.9 * turns * N - 2 && n_writes < 1.1 * turns * N + 2);
        free(f);
    }
}

static void uses_are_counted_up_to_four(void **state)
{
    (void)state;
    struct fixture *f = make();
    add(f, 0, 0, 0);
    for (int i = 2; i < 400; i++) {
        use(f, 0);
        assert_int_equal(f->items[0].uses, LF_MIN(i, LF_EVICTION_USES_N));
    }
    free(f);
}

static double score(const struct fixture *f, const struct lf_eviction_item *item)
{
    double value = (double)lf_eviction_cost(item->depth) * item->uses;
    return (double)item->used + (double)f->e.n_places * (double)f->e.n / (double)f->e.value_sum * value;
}

/* Nobody has more than the tenant of what goes, and nothing of that tenant's is worth less. */
static void check_next(const struct fixture *f, const struct lf_eviction_item *next)
{
    int n_of[TENANTS] = {0};
    for (int i = 0; i < N; i++) {
        if (!f->listed[i]) continue;
        n_of[f->items[i].tenant]++;
        if (f->items[i].tenant == next->tenant) assert_true(score(f, next) <= score(f, &f->items[i]) * (1 + 1e-12));
    }
    for (int t = 0; t < TENANTS; t++) assert_true(n_of[t] <= n_of[next->tenant]);
}

static void the_order_is_that_of_its_definition(void **state)
{
    (void)state;
    struct fixture *f = make();
    uint64_t seed = 5;
    for (int step = 0; step < 20000; step++) {
        int i = (int)(lf_random64(seed, (uint64_t)step * 4) % N);
        uint64_t dice = lf_random64(seed, (uint64_t)step * 4 + 1);
        if (!f->listed[i]) {
            uint32_t depth = (uint32_t)(lf_random64(seed, (uint64_t)step * 4 + 2) % (1u << (dice % 24)));
            add(f, i, dice / 32 % TENANTS * (dice / 512 % 2), depth);
        } else if (dice % 3 == 0) {
            const struct lf_eviction_item *next = lf_eviction_next(&f->e);
            check_next(f, next);
            assert_int_equal(evict(f), next - f->items);
        } else {
            use(f, i);
        }
    }
    free(f);
}

static void a_flood_takes_nothing_from_who_has_his_part(void **state)
{
    (void)state;
    struct fixture *f = make();
    for (int i = 0; i < N / 2; i++) add(f, i, 1, 0);
    for (int i = N / 2; i < N; i++) add(f, i, 2, 0);
    for (int round = 0; round < 10 * N;
         round++) { /* dear, and each asked for again: worth more than what tenant 1 has */
        int gone = evict(f);
        if (round == 0 && gone < N / 2) continue; /* equal parts: either may give the first */
        assert_in_range(gone, N / 2, N - 1);
        add(f, gone, 2, 1 << 20);
        use(f, gone);
    }
    free(f);
}

static void more_tenants_than_are_counted_apart_share_entries(void **state)
{
    (void)state;
    struct fixture *f = make();
    for (int i = 0; i < N; i++) add(f, i, 1000 + (uint64_t)i, 0);
    for (int i = 0; i < N; i++) assert_true(evict(f) >= 0);
    assert_true(f->e.n == 0 && f->e.value_sum == 0);
    for (int t = 0; t < LF_EVICTION_TENANTS_N; t++) assert_int_equal(f->e.tenants[t].n, 0);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_same_value_the_least_recently_used_goes),
        cmocka_unit_test(a_class_costs_what_its_middle_does),
        cmocka_unit_test(what_is_dear_or_asked_for_stays_longer),
        cmocka_unit_test(uses_are_counted_up_to_four),
        cmocka_unit_test(the_order_is_that_of_its_definition),
        cmocka_unit_test(a_flood_takes_nothing_from_who_has_his_part),
        cmocka_unit_test(more_tenants_than_are_counted_apart_share_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
