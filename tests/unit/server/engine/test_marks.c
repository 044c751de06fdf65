#include "tests/support/test.h"

#include "server/engine/marks.h"
#include "server/engine/scheduler.h"

enum { B = LF_KV_BLOCK_TOKENS, WINDOW = 256 };

/* The blocks kept of a mark are [first, end). */
static void expect(const struct lf_sched_seq *seq, int from, int to, int first, int end)
{
    for (int i = from; i < to; i++) assert_int_equal(lf_marks_keep(seq, WINDOW, i), i >= first && i < end);
}

static void the_prompts_end_is_kept_with_its_tail(void **state)
{
    (void)state;
    const struct lf_sched_seq seq = {.block_tokens = B, .n_prompt = 100 * B + 5};
    /* from block 99 on, and from 1,024 tokens before: positions from 99 · 64 - 1024 - 255, of block 79 */
    expect(&seq, 0, 110, 79, 101);
}

static void what_is_seen_from_a_mark_and_a_block_before_it_is_kept(void **state)
{
    (void)state;
    const int32_t marks[] = {30 * B, 50 * B + 1};
    const struct lf_sched_seq seq = {.block_tokens = B, .n_prompt = 120 * B, .marks = marks, .n_marks = 2};
    expect(&seq, 0, 35, 25, 30); /* from 29 · 64 - 255, of block 25 */
    expect(&seq, 35, 60, 45, 51);
    expect(&seq, 60, 90, 0, 0);
}

/* With one token more a window begins where a block does, and what ends there is not seen. */
static void a_block_that_ends_where_a_window_begins_is_not_kept(void **state)
{
    (void)state;
    const int32_t mark = 30 * B; /* from 29 · 64 - 256 = 25 · 64 */
    const struct lf_sched_seq seq = {.block_tokens = B, .n_prompt = 120 * B, .marks = &mark, .n_marks = 1};
    for (int i = 0; i < 35; i++) assert_int_equal(lf_marks_keep(&seq, WINDOW + 1, i), i >= 25 && i < 30);
}

static void every_so_many_tokens_there_is_a_mark(void **state)
{
    (void)state;
    const struct lf_sched_seq seq = {.block_tokens = B, .n_prompt = 1000 * B};
    expect(&seq, 0, 200, 123, 128);
    expect(&seq, 200, 300, 251, 256);
}

/* A hit of one prompt upon what another has left at a mark needs exactly what is kept. */
static void check_hits(int window, int block)
{
    const struct lf_kv_windows w = {.n = 1, .tokens = {window}, .block_tokens = block};
    for (int32_t mark = 1; mark < 20 * block; mark += 17) {
        const struct lf_sched_seq seq = {.block_tokens = block, .n_prompt = 90 * block, .marks = &mark, .n_marks = 1};
        for (int n = mark / block; n >= 0 && n >= mark / block - 1; n--)
            for (int i = lf_kv_windows_first(&w, 0, n); i < n; i++) assert_true(lf_marks_keep(&seq, window, i));
    }
}

static void a_hit_at_a_mark_finds_all_that_it_sees(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int window = 1; window < 500; window += 13) check_hits(window, n * B);
}

/* Of large blocks as many whole ones as there are in so many tokens. */
static void a_multiple_is_the_end_of_a_block(void **state)
{
    (void)state;
    for (int n = 1; n <= 16; n++) {
        int every = lf_marks_every(n * B);
        assert_int_equal(every % (n * B), 0);
        assert_in_range(every, LF_MARK_EVERY - n * B + 1, LF_MARK_EVERY);
        const struct lf_sched_seq seq = {.block_tokens = n * B, .n_prompt = 1000 * n * B};
        assert_true(lf_marks_keep(&seq, 1, every / (n * B) - 1));
        assert_false(lf_marks_keep(&seq, 1, every / (n * B)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prompts_end_is_kept_with_its_tail),
        cmocka_unit_test(what_is_seen_from_a_mark_and_a_block_before_it_is_kept),
        cmocka_unit_test(a_block_that_ends_where_a_window_begins_is_not_kept),
        cmocka_unit_test(every_so_many_tokens_there_is_a_mark),
        cmocka_unit_test(a_hit_at_a_mark_finds_all_that_it_sees),
        cmocka_unit_test(a_multiple_is_the_end_of_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
