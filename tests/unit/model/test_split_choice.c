/* Which split is chosen of several, and how they are told. */
#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "model/split_choice.h"
#include "tests/support/test.h"

static void all_splits_are_listed_by_devices(void **state)
{
    (void)state;
    static const char *const names[] = {"tp=1", "tp=2", "cp=2", "tp=3",      "cp=3",      "tp=4",      "tp=2,cp=2",
                                        "cp=4", "tp=5", "cp=5", "tp=6",      "tp=3,cp=2", "tp=2,cp=3", "cp=6",
                                        "tp=7", "cp=7", "tp=8", "tp=4,cp=2", "tp=2,cp=4", "cp=8"};
    struct lf_splits s;
    char name[LF_SPLIT_NAME_BYTES];
    lf_splits_list(&s, 8);
    assert_int_equal(s.n, LF_N_ELEMS(names));
    for (int i = 0; i < s.n; i++) assert_string_equal(lf_split_name(name, s.of[i].n_ranks, s.of[i].n_cp), names[i]);
    lf_splits_list(&s, 1);
    assert_true(s.n == 1 && s.n_devices == 1);
}

static void add_split(struct lf_splits *s, int n_ranks, int n_cp, bool fits, int ctx, double token_s, double first_s)
{
    int n = s->n++;
    s->n_devices = n_ranks * n_cp;
    s->of[n] = (struct lf_split_option){.n_ranks = n_ranks,
                                        .n_cp = n_cp,
                                        .fits = fits,
                                        .ctx = ctx,
                                        .needed_bytes = (uint64_t)3 << 30,
                                        .n_requests = 3,
                                        .token_s = token_s,
                                        .first_s = first_s};
}

static void add(struct lf_splits *s, bool fits, int ctx, double token_s)
{
    add_split(s, s->n + 1, 1, fits, ctx, token_s, token_s * 100);
}

static void add_impossible(struct lf_splits *s)
{
    add(s, false, 0, 0);
    snprintf(s->of[s->n - 1].why_not, sizeof(s->of[0].why_not), "32 heads by \"%d\"", s->n);
}
static void expect_choice(struct lf_splits *s, const char *reason)
{
    lf_splits_choose(s);
    assert_string_equal(s->reason, reason);
}

static void the_fastest_that_fits_is_chosen_but_for_little(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "some"};
    add(&s, true, 8000, 5e-3);
    expect_choice(&s, "tp=1: there is one device");
    add(&s, true, 8000, 3e-3);
    add_impossible(&s);
    add(&s, true, 8000, 2e-3);
    expect_choice(&s, "tp=4: of those that fit the fastest, but for 5%");
    s.of[3].token_s = 2.86e-3; /* not worth two more */
    s.of[3].first_s = 0.286;
    expect_choice(&s, "tp=2: of those that fit the fastest, but for 5%");
    s.of[3].token_s = 2.84e-3;
    s.of[3].first_s = 0.284;
    expect_choice(&s, "tp=4: of those that fit the fastest, but for 5%");
    s.of[3].fits = false;
    expect_choice(&s, "tp=2: of those that fit the fastest, but for 5%");
    s.of[1].fits = false;
    expect_choice(&s, "tp=1: no other one fits");
    s.of[0].fits = false;
    expect_choice(&s, "tp=4: none fits, and of those of the most devices this one lacks least");
}

static void the_longest_context_comes_before_time(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "some"};
    add(&s, true, 8000, 2e-3);
    add(&s, true, 16000, 3e-3);
    expect_choice(&s, "tp=2: it has the longest context");
}

static void without_times_the_fewest_devices_do(void **state)
{
    (void)state;
    struct lf_splits s = {0};
    add(&s, false, 8000, 0);
    add(&s, true, 8000, 0);
    add(&s, true, 8000, 0);
    expect_choice(&s, "tp=2: it is the smallest that fits, and times are not known for this device");
    s = (struct lf_splits){0};
    add(&s, true, 8000, 0);
    add_impossible(&s);
    expect_choice(&s, "tp=1: no other split can be");
}

/* The first token of cp, and the tokens behind it of tp, of as many devices. */
static void a_whole_request_is_what_takes_time(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "some"};
    add_split(&s, 1, 1, true, 8000, 10e-3, 10);
    add_split(&s, 2, 1, true, 8000, 5e-3, 6); /* 8.56 s */
    add_split(&s, 1, 2, true, 8000, 8e-3, 5); /* 9.10 s */
    expect_choice(&s, "tp=2: of those that fit the fastest, but for 5%");
    s.of[2].first_s = 4.4; /* 8.50 s: of as many devices the faster one is the better one */
    expect_choice(&s, "cp=2: of those that fit the fastest, but for 5%");
    add_split(&s, 2, 2, true, 8000, 5e-3, 5.6); /* 8.16 s, for twice as many */
    expect_choice(&s, "cp=2: of those that fit the fastest, but for 5%");
    s.of[3].first_s = 5.4;
    expect_choice(&s, "tp=2,cp=2: of those that fit the fastest, but for 5%");
}

static void where_none_fits_the_one_that_lacks_least_is_told(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "some"};
    add_split(&s, 1, 1, false, 8000, 10e-3, 10);
    add_split(&s, 2, 1, false, 8000, 5e-3, 6);
    add_split(&s, 1, 2, false, 8000, 5e-3, 6);
    s.of[0].needed_bytes = 1; /* of fewer devices */
    expect_choice(&s, "tp=2: none fits, and of those of the most devices this one lacks least");
    s.of[2].needed_bytes--;
    expect_choice(&s, "cp=2: none fits, and of those of the most devices this one lacks least");
}

static void an_axis_that_cannot_be_is_told_with_its_reason(void **state)
{
    (void)state;
    struct lf_splits s = {0};
    struct lf_buf out;
    add_split(&s, 1, 1, true, 8000, 0, 0);
    add_split(&s, 2, 1, true, 8000, 0, 0);
    add_split(&s, 1, 2, true, 8000, 0, 0);
    add_split(&s, 3, 1, true, 8000, 0, 0);
    add_split(&s, 1, 3, true, 8000, 0, 0);
    add_split(&s, 4, 1, true, 8000, 0, 0);
    add_split(&s, 2, 2, true, 8000, 0, 0);
    add_split(&s, 1, 4, true, 8000, 0, 0);
    for (int i = 1; i < s.n; i++)
        if (s.of[i].n_cp > 1) snprintf(s.of[i].why_not, sizeof(s.of[i].why_not), "no cp=%d", s.of[i].n_cp);
    lf_splits_choose(&s);
    lf_buf_init(&out, 1 << 16);
    lf_splits_print(&s, &out);
    assert_string_equal(lf_buf_view(&out).ptr,
                        "\n"
                        "  split       fits        needed    context  requests      a token  first token\n"
                        "  tp=1        yes       3.00 GiB       8000         3            -            -\n"
                        "  tp=2        yes       3.00 GiB       8000         3            -            -\n"
                        "  tp=4        yes       3.00 GiB       8000         3            -            -\n"
                        "  Not cp=2, 3, 4: no cp=2.\n"
                        "--parallel auto is tp=1: it is the smallest that fits, and times are not known for this "
                        "device.\n");
    lf_buf_deinit(&out);
}

static void a_table_has_a_line_for_each(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "GPUs"};
    struct lf_buf out;
    struct lf_json json = {0};
    struct lf_err err;
    add(&s, false, 8000, 5e-3);
    add_impossible(&s);
    add(&s, true, 8000, 2e-3); /* of a number that has a line since it is chosen */
    add_impossible(&s);
    lf_splits_choose(&s);
    lf_buf_init(&out, 1 << 16);
    lf_splits_print(&s, &out);
    assert_string_equal(lf_buf_view(&out).ptr,
                        "\n"
                        "  split       fits        needed    context  requests      a token  first token\n"
                        "  tp=1        no        3.00 GiB       8000         3      5.00 ms       0.50 s\n"
                        "  tp=3        yes       3.00 GiB       8000         3      2.00 ms       0.20 s\n"
                        "  Not tp=2, 4: 32 heads by \"2\".\n"
                        "  Times of one request behind its whole context, predicted for GPUs.\n"
                        "--parallel auto is tp=3: no other one fits.\n");
    lf_buf_clear(&out);
    lf_buf_char(&out, '{');
    lf_splits_print_json(&s, &out);
    lf_buf_char(&out, '}');
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&out), &lf_json_limits_file, &err), LF_OK);
    struct lf_json_value root = lf_json_root(&json), splits = lf_json_get(root, "splits");
    assert_int_equal(lf_json_len(splits), 4);
    assert_true(
        lf_json_string_is(lf_json_get(lf_json_next(splits, lf_json_first(splits)), "why_not"), "32 heads by \"2\""));
    assert_true(lf_json_string_is(lf_json_get(lf_json_get(root, "split"), "reason"), "tp=3: no other one fits"));
    lf_json_deinit(&json);
    lf_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_splits_are_listed_by_devices),
        cmocka_unit_test(the_fastest_that_fits_is_chosen_but_for_little),
        cmocka_unit_test(the_longest_context_comes_before_time),
        cmocka_unit_test(without_times_the_fewest_devices_do),
        cmocka_unit_test(a_whole_request_is_what_takes_time),
        cmocka_unit_test(where_none_fits_the_one_that_lacks_least_is_told),
        cmocka_unit_test(an_axis_that_cannot_be_is_told_with_its_reason),
        cmocka_unit_test(a_table_has_a_line_for_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
