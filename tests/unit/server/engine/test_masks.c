/* A list of matchers is asked as each of them would be, by whichever thread. */
#include "server/engine/masks.h"

#include "core/check.h"
#include "device/cpu/threads.h"
#include "grammar/grammar.h"
#include "tests/support/test.h"

enum { N_TOKENS = 300, N_WORDS = (N_TOKENS + 31) / 32, N = 64 };

static struct lf_vocabulary *vocabulary;

/* All bytes, an end, and some of two bytes. */
static void make_vocabulary(void)
{
    static char bytes[N_TOKENS][2];
    struct lf_str tokens[N_TOKENS];
    int32_t end = 256;
    for (int i = 0; i < N_TOKENS; i++) {
        bytes[i][0] = (char)(i < 256 ? i : 'a' + i % 10);
        bytes[i][1] = (char)('a' + i % 3);
        tokens[i] = lf_str_from(bytes[i], i < 256 ? 1 : (i == 256 ? 0 : 2));
    }
    assert_int_equal(lf_vocabulary_create(&vocabulary, tokens, N_TOKENS, &end, 1, 1 << 16, NULL), LF_OK);
}

/* A device with workers of its own, or NULL. */
struct pool {
    struct lf_threads *threads;
    int n_tasks;
};

static void run_tasks(void *ctx, int n_tasks, lf_engine_task_fn *fn, void *tasks)
{
    struct pool *pool = ctx;
    pool->n_tasks += n_tasks;
    lf_threads_run(pool->threads, n_tasks, fn, tasks);
}

/* A mask and a token by turns, for many answers at once; texts of others and lists of any length between. */
static void lists_give_what_single_matchers_do(int n_threads, int n_jobs, struct pool *pool)
{
    struct lf_masks masks;
    struct lf_grammar *g = NULL;
    struct lf_matcher *alone[N], *listed[N];
    struct lf_mask_job jobs[N];
    static uint32_t rows[N][3 * N_WORDS], want[3 * N_WORDS];
    int32_t ahead[2];
    int n_allowed;
    const char *text = "{\"a\":[{\"a\":[],\"b\":\"x\"},{\"a\":[{\"a\":[]}]}],\"b\":\"abcabc\"}";
    struct lf_json doc = {0};
    const char *schema = "{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":"
                         "{\"$ref\":\"#/$defs/t\"}},\"b\":{\"type\":\"string\"}},\"required\":[\"a\"],"
                         "\"additionalProperties\":false}},\"$ref\":\"#/$defs/t\"}";
    assert_int_equal(lf_json_parse(&doc, lf_str_c(schema), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_grammar_of_schema(&g, lf_json_root(&doc), NULL, NULL, NULL), LF_OK);
    lf_json_deinit(&doc);
    assert_int_equal(lf_masks_init(&masks, n_threads, NULL), LF_OK);
    masks.run_tasks = pool ? run_tasks : NULL;
    masks.run_ctx = pool;
    for (int i = 0; i < n_jobs; i++) {
        assert_int_equal(lf_matcher_create(&alone[i], g, vocabulary, NULL), LF_OK);
        assert_int_equal(lf_matcher_create(&listed[i], g, vocabulary, NULL), LF_OK);
    }
    for (const char *at = text; *at; at++) {
        for (int i = 0; i < 2; i++) ahead[i] = at[0] && at[1] && i > 0 ? (uint8_t)at[1] : (uint8_t)at[0];
        for (int i = 0; i < n_jobs; i++) { /* of every third only how many of them may come */
            jobs[i] = (struct lf_mask_job){.matcher = listed[i],
                                           .mask = i % 3 == 2 ? NULL : rows[i],
                                           .stride = N_WORDS,
                                           .ahead = ahead,
                                           .n_ahead = i % 3 == 0 ? 0 : 2};
        }
        lf_masks_run(&masks, jobs, n_jobs);
        for (int i = 0; i < n_jobs; i++) {
            int n = i % 3 == 0 ? 0 : 2;
            assert_int_equal(lf_matcher_look_ahead(alone[i], ahead, n, want, N_WORDS, &n_allowed), LF_OK);
            assert_int_equal(jobs[i].status, LF_OK);
            assert_int_equal(jobs[i].n_allowed, n_allowed);
            if (i % 3 != 2) assert_memory_equal(rows[i], want, (size_t)(n_allowed + 1) * N_WORDS * sizeof *want);
        }
        for (int i = 0; i < n_jobs; i++) { /* every fifth is given what cannot come, and stays where it is */
            int32_t token = i % 5 == 4 ? '\n' : (uint8_t)*at;
            jobs[i] = (struct lf_mask_job){.matcher = listed[i], .token = token};
        }
        lf_masks_run(&masks, jobs, n_jobs);
        for (int i = 0; i < n_jobs; i++) {
            assert_int_equal(jobs[i].status, i % 5 == 4 ? LF_INVALID : LF_OK);
            assert_int_equal(lf_matcher_accept(alone[i], jobs[i].token), jobs[i].status);
        }
    }
    for (int i = 0; i < n_jobs; i++) {
        assert_int_equal(lf_matcher_is_finished(listed[i]), i % 5 != 4);
        lf_matcher_destroy(alone[i]);
        lf_matcher_destroy(listed[i]);
    }
    lf_masks_deinit(&masks);
    lf_grammar_unref(g);
}

static void any_number_of_threads_and_jobs(void **state)
{
    (void)state;
    const int n_jobs[] = {1, 2, 17, N};
    for (int n_threads = 1; n_threads <= LF_MASK_THREADS_N; n_threads += LF_MASK_THREADS_N - 1)
        for (size_t i = 0; i < LF_N_ELEMS(n_jobs); i++) lists_give_what_single_matchers_do(n_threads, n_jobs[i], NULL);
}

/* On a host that computes, the device's workers do it; a list of one is not worth their while. */
static void workers_of_the_device_give_the_same(void **state)
{
    (void)state;
    for (int n_threads = 2; n_threads <= 5; n_threads += 3) {
        struct pool pool = {0};
        assert_int_equal(lf_threads_create(&pool.threads, n_threads, NULL), LF_OK);
        lists_give_what_single_matchers_do(1, 1, &pool);
        assert_int_equal(pool.n_tasks, 0);
        lists_give_what_single_matchers_do(2, N, &pool);
        assert_true(pool.n_tasks > 0 && pool.n_tasks % N == 0);
        lf_threads_destroy(pool.threads);
    }
}

static void an_empty_list_is_done(void **state)
{
    (void)state;
    struct lf_masks masks;
    assert_int_equal(lf_masks_init(&masks, 1, NULL), LF_OK);
    lf_masks_run(&masks, NULL, 0);
    lf_masks_deinit(&masks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_number_of_threads_and_jobs),
                                       cmocka_unit_test(workers_of_the_device_give_the_same),
                                       cmocka_unit_test(an_empty_list_is_done)};
    make_vocabulary();
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    lf_vocabulary_destroy(vocabulary);
    return n_failed;
}
