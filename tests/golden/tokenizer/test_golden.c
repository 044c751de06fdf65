/* Ids and texts as Hugging Face tokenizers and sentencepiece give them: the fixtures beside this file (make_fixtures.py
 * says what is in them), and the vectors of the test material where it is there. */
#include "core/json.h"
#include "tests/unit/tokenizer/support.h"

static const char *const kinds[] = {"like-llama2", "like-llama3",   "like-gpt2",   "like-qwen",      "like-tekken",
                                    "like-o200k",  "like-deepseek", "like-falcon", "like-metaspace", "like-words",
                                    "sp-bpe",      "sp-unigram",    "sp-suffix"};

static void read_ids(struct lf_ids *out, struct lf_json_value list)
{
    out->n = 0;
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        int64_t id;
        assert_true(lf_json_int64(it, &id));
        assert_int_equal(lf_ids_push(out, (int32_t)id), LF_OK);
    }
}

static void show(const char *name, const struct lf_ids *ids)
{
    fprintf(stderr, "%s", name);
    for (size_t i = 0; i < ids->n; i++) fprintf(stderr, " %d", ids->ids[i]);
    fprintf(stderr, "\n");
}

static void check_encode(const struct lf_tokenizer *tok, const char *kind, struct lf_str text, unsigned flags,
                         const struct lf_ids *want)
{
    struct lf_ids got = {0};
    assert_int_equal(lf_tokenizer_encode(tok, &got, text, NULL, 0, flags, 0, NULL, NULL), LF_OK);
    if (got.n != want->n || (got.n > 0 && memcmp(got.ids, want->ids, got.n * sizeof *got.ids) != 0)) {
        show("got   ", &got);
        show("wanted", want);
        fail_msg("%s: other ids for \"%.*s\" (flags %u)", kind, (int)text.len, text.ptr, flags);
    }
    lf_ids_deinit(&got);
}

/* Returns the number of comparisons. */
static int check_texts(const struct lf_tokenizer *tok, const char *kind, struct lf_json_value list)
{
    static const struct {
        const char *name;
        unsigned flags;
    } ways[] = {{"ids", LF_ENCODE_SPECIALS}, {"around", LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS}, {"plain", 0}};
    int n = 0;
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        struct lf_buf text;
        struct lf_ids want = {0};
        lf_buf_init(&text, 1 << 16);
        assert_true(lf_json_string(lf_json_get(it, "text"), &text));
        for (size_t w = 0; w < 3; w++) {
            struct lf_json_value ids = lf_json_get(it, ways[w].name);
            if (w == 2 && lf_json_is_absent(ids)) ids = lf_json_get(it, "ids");
            if (lf_json_is_absent(ids)) continue;
            read_ids(&want, ids);
            check_encode(tok, kind, lf_buf_view(&text), ways[w].flags, &want);
            n++;
        }
        lf_ids_deinit(&want);
        lf_buf_deinit(&text);
    }
    return n;
}

static int check_decodes(const struct lf_tokenizer *tok, const char *kind, struct lf_json_value list)
{
    int n = 0;
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        struct lf_ids ids = {0};
        read_ids(&ids, lf_json_get(it, "ids"));
        for (int all = 0; all < 2; all++) {
            struct lf_json_value want = lf_json_get(it, all ? "all" : "text");
            struct lf_buf text;
            if (lf_json_is_absent(want)) continue;
            lf_buf_init(&text, 1 << 16);
            assert_int_equal(lf_tokenizer_decode(tok, &text, ids.ids, ids.n, all != 0, NULL, NULL), LF_OK);
            if (!lf_json_string_is(want, lf_buf_view(&text).ptr)) {
                show("ids", &ids);
                fail_msg("%s: other text: \"%s\"", kind, lf_buf_view(&text).ptr);
            }
            lf_buf_deinit(&text);
            n++;
        }
        lf_ids_deinit(&ids);
    }
    return n;
}

static void test_fixtures(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        struct lf_buf file;
        struct lf_json json;
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        struct lf_tokenizer *tok = open_or_fail(path);
        (void)snprintf(path, sizeof path, FIXTURES "%s/golden.json", kinds[k]);
        lf_buf_init(&file, 1 << 20);
        assert_int_equal(lf_file_read(&file, path, 1 << 20, NULL), LF_OK);
        assert_int_equal(lf_json_parse(&json, lf_buf_view(&file), &lf_json_limits_file, NULL), LF_OK);
        int n_texts = check_texts(tok, kinds[k], lf_json_get(lf_json_root(&json), "texts"));
        int n_decodes = check_decodes(tok, kinds[k], lf_json_get(lf_json_root(&json), "decodes"));
        assert_true(n_texts > 40 && n_decodes > 5);
        print_message("%-16s %d encodings, %d decodings equal\n", kinds[k], n_texts, n_decodes);
        lf_json_deinit(&json);
        lf_buf_deinit(&file);
        lf_tokenizer_close(tok);
    }
}

static void encode_more(const struct lf_tokenizer *tok, struct lf_ids *ids, const char *text, unsigned flags)
{
    assert_int_equal(lf_tokenizer_encode(tok, ids, lf_str_c(text), NULL, 0, flags, 0, NULL, NULL), LF_OK);
}

static void check_boundary(const struct lf_tokenizer *tok, const char *kind, const char *head, const char *tail)
{
    struct lf_ids whole = {0}, parts = {0};
    struct lf_buf text, want, got;
    lf_buf_init(&text, 1 << 16);
    lf_buf_init(&want, 1 << 16);
    lf_buf_init(&got, 1 << 16);
    lf_buf_cstr(&text, head);
    lf_buf_cstr(&text, tail);
    encode_more(tok, &whole, text.ptr, 0);
    encode_more(tok, &parts, head, 0);
    size_t n_head = parts.n;
    encode_more(tok, &parts, tail, LF_ENCODE_GOES_ON);
    assert_true(parts.n > n_head);
    assert_int_equal(lf_tokenizer_decode(tok, &want, whole.ids, whole.n, false, NULL, NULL), LF_OK);
    assert_int_equal(lf_tokenizer_decode(tok, &got, parts.ids, parts.n, false, NULL, NULL), LF_OK);
    if (!lf_str_eq(lf_buf_view(&want), lf_buf_view(&got)))
        fail_msg("%s: with a boundary \"%s\", without \"%s\"", kind, got.ptr, want.ptr);
    lf_ids_deinit(&whole);
    lf_ids_deinit(&parts);
    lf_buf_deinit(&text);
    lf_buf_deinit(&want);
    lf_buf_deinit(&got);
}

/* What goes on behind a token boundary is the same text: nothing comes in that only begins texts. */
static void a_boundary_within_a_text_adds_nothing_to_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        /* these write a space between any two tokens, or put the mark behind a text, where the boundary is */
        if (strcmp(kinds[k], "like-words") == 0 || strcmp(kinds[k], "sp-suffix") == 0) continue;
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        struct lf_tokenizer *tok = open_or_fail(path);
        check_boundary(tok, kinds[k], "hello", "lo");
        check_boundary(tok, kinds[k], "hello", " hello");
        check_boundary(tok, kinds[k], "the end", "the");
        lf_tokenizer_close(tok);
    }
}

/* One line of ids. */
static void parse_line(struct lf_ids *out, const char **at)
{
    out->n = 0;
    while (**at && **at != '\n') {
        char *end;
        long id = strtol(*at, &end, 10);
        if (end == *at) break;
        assert_int_equal(lf_ids_push(out, (int32_t)id), LF_OK);
        *at = end;
    }
    while (**at && **at != '\n') ++*at;
    if (**at) ++*at;
}

static void check_vectors(const char *dir)
{
    const struct lf_str separator = LF_STR("\n__ggml_vocab_test__\n");
    char path[512];
    struct lf_buf in, out;
    struct lf_ids want = {0};
    struct lf_tokenizer *tok = open_or_fail(dir);
    int n = 0;
    lf_buf_init(&in, 1 << 20);
    lf_buf_init(&out, 1 << 20);
    assert_int_equal(lf_path_join(path, sizeof path, dir, "vectors.inp"), LF_OK);
    assert_int_equal(lf_file_read(&in, path, 1 << 20, NULL), LF_OK);
    assert_int_equal(lf_path_join(path, sizeof path, dir, "vectors.out"), LF_OK);
    assert_int_equal(lf_file_read(&out, path, 1 << 20, NULL), LF_OK);
    const char *line = out.ptr;
    struct lf_str rest = lf_buf_view(&in);
    while (*line) {
        ptrdiff_t end = lf_str_find(rest, separator);
        struct lf_str text = lf_str_from(rest.ptr, end < 0 ? rest.len : (size_t)end);
        parse_line(&want, &line);
        check_encode(tok, dir, text, 0, &want);
        n++;
        if (end < 0) break;
        rest = lf_str_from(rest.ptr + end + separator.len, rest.len - (size_t)end - separator.len);
    }
    print_message("%s: %d vectors equal\n", dir, n);
    assert_true(n > 40);
    lf_ids_deinit(&want);
    lf_buf_deinit(&out);
    lf_buf_deinit(&in);
    lf_tokenizer_close(tok);
}

static void test_vectors_of_the_material(void **state)
{
    (void)state;
    static const char *const names[] = {"phi-3", "falcon", "qwen3"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char dir[512];
        (void)snprintf(dir, sizeof dir, "%s/tokenizers/%s", test_assets(), names[k]);
        if (access(dir, R_OK) != 0) {
            print_message("%s is not there: skipped\n", dir);
            skip();
        }
        check_vectors(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(a_boundary_within_a_text_adds_nothing_to_it),
        cmocka_unit_test(test_vectors_of_the_material),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
