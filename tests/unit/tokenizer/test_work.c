/* Work on a text: its cost grows with the text and not with what a model's files say, it ends when nobody waits any
 * more, and its memory is that of a budget. For each kind of tokenizer, hostile ones among them, and for templates. */
#include "core/clock.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "tests/unit/tokenizer/support.h"
#include "template/chat_template.h"

static const char byte_vocab[] = "\"a\":0,\"b\":1,\"Z\":2,\"ab\":3,\"aa\":4,\"aaaa\":5";

/* tokenizer.json with BPE over a few letters, and what is given. */
static struct lf_tokenizer *open_json(const char *pre_tokenizer, const char *added)
{
    struct model_dir dir = model_dir_make();
    struct lf_buf json;
    lf_buf_init(&json, 4 << 20);
    lf_buf_printf(
        &json,
        "{\"added_tokens\":[%s],\"normalizer\":null,\"pre_tokenizer\":%s,\"decoder\":null,\"model\":{\"type\":"
        "\"BPE\",\"vocab\":{%s},\"merges\":[\"a b\",\"a a\",\"aa aa\"]}}",
        added, pre_tokenizer, byte_vocab);
    assert_int_equal(json.status, LF_OK);
    model_dir_write(&dir, "tokenizer.json", json.ptr, json.len);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    model_dir_free(&dir);
    lf_buf_deinit(&json);
    return tok;
}

/* An added token of n_a letters a and what follows them. */
static void put_added(struct lf_buf *out, int id, size_t n_a, const char *rest, const char *flags)
{
    lf_buf_printf(out, "%s{\"id\":%d,\"content\":\"", out->len ? "," : "", id);
    for (size_t i = 0; i < n_a; i++) lf_buf_char(out, 'a');
    lf_buf_printf(out, "%s\",\"normalized\":false%s}", rest, flags);
}

static struct lf_buf repeated(const char *unit, size_t n_bytes)
{
    struct lf_buf text;
    lf_buf_init(&text, n_bytes + 64);
    while (text.len < n_bytes) lf_buf_cstr(&text, unit);
    return text;
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The best of three, as others use the machine's caches meanwhile. */
static double seconds_for(const struct lf_tokenizer *tok, const char *unit, size_t n_bytes, enum lf_status want)
{
    struct lf_buf text = repeated(unit, n_bytes);
    struct lf_text_span first = {0, 1};
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        struct lf_ids ids = {0};
        struct lf_err err = {0};
        double start = thread_seconds();
        assert_int_equal(
            lf_tokenizer_encode(tok, &ids, lf_buf_view(&text), &first, 1, LF_ENCODE_SPECIALS, 0, NULL, &err), want);
        double took = thread_seconds() - start;
        best = took < best ? took : best;
        lf_ids_deinit(&ids);
    }
    lf_buf_deinit(&text);
    return best;
}

/* Four times the text must not take ten times as long, nor a mebibyte more than twice what LF_REGEX_STEPS_PER_BYTE take
 * on a slow processor: 64 steps a byte of 20 ns are 1.4 s. */
static void check_slope(const char *name, struct lf_tokenizer *tok, const char *unit, enum lf_status want)
{
    double small = seconds_for(tok, unit, 256 << 10, want), large = seconds_for(tok, unit, 1 << 20, want);
    print_message("%-28s %6.1f ms, %6.1f ms\n", name, small * 1e3, large * 1e3);
    if (large > 10 * small + 0.02) fail_msg("%s: 256 KiB take %.3f s, 1 MiB %.3f s", name, small, large);
    if (large > 3 * SLOWNESS) fail_msg("%s: 1 MiB takes %.3f s", name, large);
    lf_tokenizer_close(tok);
}

static void added_tokens_cost_the_same_whatever_they_are(void **state)
{
    (void)state;
    static const char *const flags[] = {"", ",\"special\":true", ",\"single_word\":true",
                                        ",\"special\":true,\"single_word\":true", ",\"lstrip\":true,\"rstrip\":true"};
    struct lf_buf added;
    lf_buf_init(&added, 4 << 20);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        lf_buf_clear(&added);
        put_added(&added, 10, 4000, "b", flags[i]);
        check_slope("one long token", open_json("null", added.ptr), "a", LF_OK);
        put_added(&added, 0, 1, "", flags[i]); /* a short one that matches while the long one might */
        check_slope("a long and a short one", open_json("null", added.ptr), "a", LF_OK);
        lf_buf_clear(&added);
        for (int n = 5; n <= 600; n++) put_added(&added, 10 + n, (size_t)n, n % 2 ? "" : " b", flags[i]);
        check_slope("tokens within one another", open_json("null", added.ptr), "a", LF_OK);
    }
    lf_buf_deinit(&added);
}

static const char *split_by(char out[256], const char *pattern)
{
    (void)snprintf(out, 256,
                   "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
                   "\"behavior\":\"Isolated\",\"invert\":false}]}",
                   pattern);
    return out;
}

static void patterns_cost_the_same_or_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *unit;
        enum lf_status want;
    } cases[] = {
        {"a(?=[^b]*Z)|a", "a", LF_UNSUPPORTED},
        {"a(?=[^b]*[ZY])|a", "a", LF_UNSUPPORTED},
        {"a[^b]*[ZY]", "a", LF_UNSUPPORTED},
        {"(?:a|aa)+[ZY]", "a", LF_UNSUPPORTED},
        {"(a|a)*(a|a)*(a|a)*Z|a", "a", LF_UNSUPPORTED},
        {"(?<=a{200})Z|[^b]", "a", LF_UNSUPPORTED},
        {"a{300}Z|a", "a", LF_UNSUPPORTED},
        {"a+", "a", LF_OK},
        {"a+(?!b)|a+", "a", LF_OK},
        {"[^b]*a|b", "a", LF_OK},
        {"[ab]*b+(?:Z)?|[ab]+", "a", LF_OK},
        {"Z", "a", LF_OK},
        {"a{1,3}", "a", LF_OK},
        {"(?:ab)+", "ab", LF_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char pre[256];
        check_slope(cases[i].pattern, open_json(split_by(pre, cases[i].pattern), ""), cases[i].unit, cases[i].want);
    }
}

static void a_refusal_names_the_pattern(void **state)
{
    (void)state;
    char pre[256];
    struct lf_tokenizer *tok = open_json(split_by(pre, "a(?=[^b]*Z)|a"), "");
    struct lf_buf text = repeated("a", 125 * 1000);
    struct lf_ids ids = {0};
    struct lf_err err = {0};
    double start = thread_seconds();
    assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_buf_view(&text), NULL, 0, 0, 0, NULL, &err), LF_UNSUPPORTED);
    print_message("125 KB of a: refused after %.1f ms\n", (thread_seconds() - start) * 1e3);
    assert_string_equal(err.message, "the pattern of pre_tokenizer.pretokenizers[0] needs more than 64 steps a byte on "
                                     "this text");
    assert_int_equal(ids.n, 0);
    lf_ids_deinit(&ids);
    lf_buf_deinit(&text);
    lf_tokenizer_close(tok);
}

static void merges_cost_the_same_in_one_long_word(void **state)
{
    (void)state;
    check_slope("BPE, one word", open_json("null", ""), "a", LF_OK);
    check_slope("sentencepiece BPE", open_or_fail(FIXTURES "sp-bpe"), "a", LF_OK);
    check_slope("unigram", open_or_fail(FIXTURES "sp-unigram"), "a", LF_OK);
}

/* ---- ending ---- */

struct patience {
    int n_checks, limit;
};

static bool is_over(void *ctx)
{
    struct patience *p = ctx;
    return ++p->n_checks > p->limit;
}

/* Encodes with somebody who looks so often and then has gone; the status, and the seconds it took after that. */
static enum lf_status encode_until(const struct lf_tokenizer *tok, struct lf_str text, int limit, int *n_checks)
{
    struct patience patience = {.limit = limit};
    struct lf_work work = {.is_over = is_over, .ctx = &patience};
    struct lf_ids ids = {0};
    struct lf_err err = {0};
    enum lf_status status = lf_tokenizer_encode(tok, &ids, text, NULL, 0, LF_ENCODE_SPECIALS, 0, &work, &err);
    if (status != LF_OK) {
        assert_int_equal(ids.n, 0);
        assert_true(err.message[0] != 0);
    }
    lf_ids_deinit(&ids);
    *n_checks = patience.n_checks;
    return status;
}

/* Asked about once a millisecond, and not once more after the answer that nobody waits. Each end costs the work before
 * it: under a sanitizer the gaps between them double. */
static void check_ends(const char *path, const char *unit)
{
    struct lf_tokenizer *tok = open_or_fail(path);
    struct lf_buf text = repeated(unit, 1 << 20);
    int n_checks, all;
    double start = cpu_seconds();
    assert_int_equal(encode_until(tok, lf_buf_view(&text), INT32_MAX, &all), LF_OK);
    double ms = (cpu_seconds() - start) * 1e3;
    if (all < 2 || all * 12 * SLOWNESS < ms) fail_msg("%s: only %d looks in %.0f ms of \"%s\"", path, all, ms, unit);
    for (int limit = 0; limit < all - 1 && limit < 40; limit += SLOWNESS == 1 ? 1 : limit + 1) {
        enum lf_status status = encode_until(tok, lf_buf_view(&text), limit, &n_checks);
        if (status == LF_OK) break; /* a faster run than the first: it was asked less often */
        assert_int_equal(status, LF_CANCELLED);
        assert_int_equal(n_checks, limit + 1);
    }
    lf_buf_deinit(&text);
    lf_tokenizer_close(tok);
}

static void encoding_ends_when_nobody_waits(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sp-bpe",      "sp-unigram", "like-llama2",   "like-llama3",
                                        "like-qwen",   "like-gpt2",  "like-deepseek", "like-falcon",
                                        "like-tekken", "like-words", "like-metaspace"};
    static const char *const units[] = {"a", "The owl. ", " ", "\xcc\x81"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) check_ends(path, units[u]);
    }
}

static void a_deadline_ends_it_too(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-llama3");
    struct lf_buf text = repeated("The owl. ", 4 << 20);
    struct lf_work work = {.deadline_ns = lf_clock_ns() + 5 * LF_NS_PER_MS};
    struct lf_ids ids = {0};
    struct lf_err err = {0};
    assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_buf_view(&text), NULL, 0, 0, 0, &work, &err), LF_TIMEOUT);
    assert_non_null(strstr(err.message, "no time"));
    lf_ids_deinit(&ids);
    lf_buf_deinit(&text);
    lf_tokenizer_close(tok);
}

static enum lf_status render(const char *source, struct lf_work *work, struct lf_str content)
{
    const struct lf_chat_message message = {.role = LF_STR("user"), .content = content, .has_content = true};
    struct lf_chat_render_params p = {.messages = &message, .n_messages = 1, .work = work};
    struct lf_chat_template *t = NULL;
    struct lf_chat_text text = {0};
    struct lf_err err = {0};
    assert_int_equal(lf_chat_template_create(&t, lf_str_c(source), &err), LF_OK);
    enum lf_status status = lf_chat_template_render(t, &text, &p, &err);
    lf_chat_text_deinit(&text);
    lf_chat_template_destroy(t);
    return status;
}

static void a_render_ends_when_nobody_waits(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{% for i in range(300000) %}{% endfor %}",
        "{% for i in range(100) %}{{ (messages[0].content * 100)|upper|length }}{% endfor %}",
        "{{ range(300000)|map('string')|join(',')|length }}",
        "{% for i in range(100) %}{{ (messages[0].content * 50)|tojson|length }}{% endfor %}",
        "{{ range(200000)|sort(reverse=true)|length }}",
    };
    struct lf_buf content = repeated("An owl\n", 4096);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct patience patience = {.limit = 2};
        struct lf_work work = {.is_over = is_over, .ctx = &patience};
        assert_int_equal(render(sources[i], &work, lf_buf_view(&content)), LF_CANCELLED);
        assert_int_equal(patience.n_checks, 3);
    }
    lf_buf_deinit(&content);
}

/* ---- memory ---- */

static void all_memory_is_of_the_budget(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sp-bpe", "sp-unigram", "like-llama3", "like-deepseek", "like-metaspace"};
    struct lf_buf text = repeated("The owl\xcc\x81 <s> ", 256 << 10);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        struct lf_tokenizer *tok = open_or_fail(path);
        for (uint64_t budget = 128 << 10; budget <= 64 << 20; budget *= 2) {
            struct lf_text_memory *memory;
            struct lf_text_memory_state look;
            assert_int_equal(lf_text_memory_create(&memory, budget, NULL), LF_OK);
            struct lf_work work = {.memory = memory};
            struct lf_ids ids = {.memory = memory};
            struct lf_err err = {0};
            enum lf_status status =
                lf_tokenizer_encode(tok, &ids, lf_buf_view(&text), NULL, 0, LF_ENCODE_SPECIALS, 0, &work, &err);
            lf_text_memory_snapshot(memory, &look);
            assert_true(status == LF_OK || status == LF_NO_MEMORY);
            assert_true(status == LF_OK || look.n_refused > 0);
            if (budget == 128 << 10) assert_int_equal(status, LF_NO_MEMORY);
            if (budget == 64 << 20) assert_int_equal(status, LF_OK);
            lf_ids_deinit(&ids);
            lf_text_memory_destroy(memory);
        }
        lf_tokenizer_close(tok);
    }
    lf_buf_deinit(&text);
}

static void a_render_is_of_the_budget(void **state)
{
    (void)state;
    struct lf_buf content = repeated("An owl\n", 64 << 10);
    for (uint64_t budget = 64 << 10; budget <= 16 << 20; budget *= 4) {
        struct lf_text_memory *memory;
        assert_int_equal(lf_text_memory_create(&memory, budget, NULL), LF_OK);
        struct lf_work work = {.memory = memory};
        enum lf_status status = render("{{ messages[0].content|upper * 8 }}", &work, lf_buf_view(&content));
        assert_int_equal(status, budget <= 256 << 10 ? LF_NO_MEMORY : status);
        if (budget >= 16 << 20) assert_int_equal(status, LF_OK);
        lf_text_memory_destroy(memory);
    }
    lf_buf_deinit(&content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_tokens_cost_the_same_whatever_they_are),
        cmocka_unit_test(patterns_cost_the_same_or_are_refused),
        cmocka_unit_test(a_refusal_names_the_pattern),
        cmocka_unit_test(merges_cost_the_same_in_one_long_word),
        cmocka_unit_test(encoding_ends_when_nobody_waits),
        cmocka_unit_test(a_deadline_ends_it_too),
        cmocka_unit_test(a_render_ends_when_nobody_waits),
        cmocka_unit_test(all_memory_is_of_the_budget),
        cmocka_unit_test(a_render_is_of_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
