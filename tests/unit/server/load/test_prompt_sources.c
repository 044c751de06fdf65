#include "tests/support/test.h"

#include "server/load/prompt_sources.h"

#define SAMPLE(source, value)                                                                                          \
    "longflash:prompt_tokens_by_source_total{model_name=\"m\",source=\"" source "\"} " value "\n"
#define HEAD "# HELP longflash:prompt_tokens_by_source_total Prompt tokens.\n"

static void a_page_has_a_count_for_each_source(void **state)
{
    (void)state;
    static const char *const pages[] = {
        HEAD "longflash:prompt_tokens_total{model_name=\"m\"} 99\n" SAMPLE("local_compute", "12")
            SAMPLE("local_cache_hit", "1.5e3") SAMPLE("external_kv_transfer", "0") "x 1\n",
        "vllm:prompt_tokens_by_source_total{source=\"external_kv_transfer\"} 0\n"
        "vllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} 1500\n"
        "vllm:prompt_tokens_by_source_total{source=\"local_compute\"} 12",
    };
    for (int i = 0; i < 2; i++) {
        struct lf_prompt_sources s;
        assert_true(lf_prompt_sources_read(&s, lf_str_c(pages[i])));
        assert_int_equal(s.n_computed, 12);
        assert_int_equal(s.n_memory, 1500);
        assert_int_equal(s.n_disk, 0);
    }
}

static void a_page_that_does_not_say_it_is_none(void **state)
{
    (void)state;
    static const char *const pages[] = {
        "",
        "\n\n",
        SAMPLE("local_compute", "12") SAMPLE("local_cache_hit", "3"),
        SAMPLE("local_compute", "12") SAMPLE("local_cache_hit", "3") SAMPLE("external_kv_transfer", "NaN"),
        SAMPLE("local_compute", "12") SAMPLE("local_cache_hit", "3") SAMPLE("external_kv_transfer", "-1"),
        SAMPLE("local_compute", "12") SAMPLE("local_cache_hit", "3") SAMPLE("external_kv_transfer", ""),
        SAMPLE("local_compute", "12") SAMPLE("local_cache_hit", "3") SAMPLE("external_kv_transfer", "1 2"),
        SAMPLE("local_compute", "12") SAMPLE("local_cache_hit", "3") "#" SAMPLE("external_kv_transfer", "1"),
    };
    for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
        struct lf_prompt_sources s;
        if (lf_prompt_sources_read(&s, lf_str_c(pages[i]))) fail_msg("page %zu", i);
    }
}

static void two_pages_have_a_difference(void **state)
{
    (void)state;
    const struct lf_prompt_sources a = {1, 2, 3}, b = {11, 22, 33};
    struct lf_prompt_sources d = lf_prompt_sources_between(&a, &b);
    assert_int_equal(d.n_computed, 10);
    assert_int_equal(d.n_memory, 20);
    assert_int_equal(d.n_disk, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_has_a_count_for_each_source),
        cmocka_unit_test(a_page_that_does_not_say_it_is_none),
        cmocka_unit_test(two_pages_have_a_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
