/* One mebibyte of one thing, for every kind of tokenizer: under a second of processor time, and the right number of
 * bytes back. The kinds of the test material take part where it is there. */
#include "tests/unit/tokenizer/support.h"

static const char *const units[] = {"a",
                                    "ab",
                                    " ",
                                    "\n",
                                    "\t",
                                    "\r\n",
                                    "0",
                                    "-",
                                    ".",
                                    "'",
                                    "<",
                                    "<|",
                                    "A",
                                    "\xc3\xa9",
                                    "\xe4\xb8\xad",
                                    "\xcc\x81",
                                    "e\xcc\x81\xcc\xa3",
                                    "\xf0\x9f\x98\x80",
                                    "\xf0\x9f\x91\xa8\xe2\x80\x8d",
                                    "\xe2\x96\x81",
                                    "a ",
                                    " a",
                                    "\n ",
                                    " \n",
                                    "\xe3\x80\x80",
                                    "\xc2\xa0",
                                    "\xef\xac\x81",
                                    "\xe1\x84\x80\xe1\x85\xa1",
                                    "'s",
                                    "1a",
                                    "\xcd\x8f"};

static void repeat(struct lf_buf *out, const char *unit)
{
    lf_buf_clear(out);
    while (out->len < 1 << 20) lf_buf_cstr(out, unit);
}

static double encode_seconds(const struct lf_tokenizer *tok, struct lf_str text, size_t *n_ids)
{
    struct lf_ids ids = {0};
    double start = cpu_seconds();
    assert_int_equal(lf_tokenizer_encode(tok, &ids, text, NULL, 0, LF_ENCODE_SPECIALS, 0, NULL, NULL), LF_OK);
    double took = cpu_seconds() - start;
    *n_ids = ids.n;
    lf_ids_deinit(&ids);
    return took;
}

static void run_kind(const char *path)
{
    struct lf_tokenizer *tok = open_or_fail(path);
    struct lf_buf text;
    double slowest = 0;
    size_t which = 0;
    lf_buf_init(&text, 2 << 20);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n;
        repeat(&text, units[i]);
        double took = encode_seconds(tok, lf_buf_view(&text), &n);
        if (took > slowest) {
            slowest = took;
            which = i;
        }
        if (took >= 1.0 * SLOWNESS) fail_msg("%s: 1 MiB of \"%s\" took %.2f s", path, units[i], took);
    }
    print_message("%-40s slowest %.3f s (\"%s\")\n", path, slowest, units[which]);
    lf_buf_deinit(&text);
    lf_tokenizer_close(tok);
}

static void test_fixtures_take_a_mebibyte_of_one_thing(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sp-bpe",        "sp-unigram",  "sp-suffix",      "like-llama2",
                                        "like-llama3",   "like-gpt2",   "like-qwen",      "like-tekken",
                                        "like-deepseek", "like-falcon", "like-metaspace", "like-words"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        run_kind(path);
    }
}

static void test_material_takes_a_mebibyte_of_one_thing(void **state)
{
    (void)state;
    static const char *const kinds[] = {"mistral-v3", "phi-3", "falcon", "qwen3"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/tokenizers/%s", test_assets(), kinds[k]);
        if (access(path, R_OK) != 0) {
            print_message("%s is not there: skipped\n", path);
            skip();
        }
        run_kind(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures_take_a_mebibyte_of_one_thing),
        cmocka_unit_test(test_material_takes_a_mebibyte_of_one_thing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
