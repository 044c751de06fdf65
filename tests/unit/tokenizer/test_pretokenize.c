/* Split of tokenizer.json: what each behaviour does with the matches, on the example that Hugging Face's documentation
 * gives them. */
#include "tests/support/test.h"
#include "tokenizer/hf/pretokenize.h"

static enum lf_status open_split(struct lf_pretokenizer *pre, struct lf_arena *arena, const char *json_text,
                                 struct lf_err *err)
{
    struct lf_json json;
    assert_int_equal(lf_json_parse(&json, lf_str_c(json_text), &lf_json_limits_file, NULL), LF_OK);
    enum lf_status status = lf_pretokenizer_open(pre, arena, lf_json_root(&json), "pre_tokenizer", err);
    lf_json_deinit(&json);
    return status;
}

/* The pieces, each in brackets. */
static void assert_pieces(const char *json_text, const char *text, const char *want)
{
    struct lf_arena arena;
    struct lf_pretokenizer pre = {0};
    struct lf_pretokenized state = {0};
    struct lf_regex_work work;
    struct lf_buf out;
    lf_arena_init(&arena, 4096, 1 << 20);
    lf_regex_work_init(&work, NULL, strlen(text));
    lf_pretokenized_init(&state, NULL);
    lf_buf_init(&out, 4096);
    lf_buf_cstr(&out, "");
    assert_int_equal(open_split(&pre, &arena, json_text, NULL), LF_OK);
    assert_int_equal(lf_pretokenizer_run(&pre, &work, &state, lf_str_c(text), LF_PLACE_OPENS), LF_OK);
    for (size_t i = 0; i < state.pieces.n; i++)
        lf_buf_printf(&out, "[%.*s]", (int)state.pieces.pieces[i].len, state.text.ptr + state.pieces.pieces[i].first);
    assert_string_equal(out.ptr, want);
    lf_buf_deinit(&out);
    lf_pretokenized_deinit(&state);
    lf_regex_work_deinit(&work);
    lf_pretokenizer_deinit(&pre);
    lf_arena_deinit(&arena);
}

#define SPLIT(behavior, invert)                                                                                        \
    "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"" behavior "\",\"invert\":" invert "}"

static void every_behaviour_of_a_split(void **state)
{
    (void)state;
    static const char text[] = "the-final--countdown";
    assert_pieces(SPLIT("Removed", "false"), text, "[the][final][countdown]");
    assert_pieces(SPLIT("Isolated", "false"), text, "[the][-][final][-][-][countdown]");
    assert_pieces(SPLIT("MergedWithPrevious", "false"), text, "[the-][final-][-][countdown]");
    assert_pieces(SPLIT("MergedWithNext", "false"), text, "[the][-final][-][-countdown]");
    assert_pieces(SPLIT("Contiguous", "false"), text, "[the][-][final][--][countdown]");
    assert_pieces(SPLIT("Removed", "true"), text, "[-][-][-]");
}

/* \w+|[^\w\s]+, as the Rust crate regex reads it: letters, digits, marks and connectors are one kind. */
static void white_space_parts_words_from_what_is_neither(void **state)
{
    (void)state;
    static const char whitespace[] = "{\"type\":\"Whitespace\"}";
    assert_pieces(whitespace, "  Hey, you_2!?  ", "[Hey][,][you_2][!?]");
    assert_pieces(whitespace, "a", "[a]");
    assert_pieces(whitespace, " \t\n", "");
    assert_pieces(whitespace, "\xc3\xa9t\xc3\xa9\xe2\x80\xa6\xc2\xa0\xe4\xb8\xad\xe3\x80\x82x",
                  "[\xc3\xa9t\xc3\xa9][\xe2\x80\xa6][\xe4\xb8\xad][\xe3\x80\x82][x]");
    assert_pieces("{\"type\":\"WhitespaceSplit\"}", " Hey,  you!", "[Hey,][you!]");
}

static void what_is_no_split_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum lf_status status;
    } cases[] = {
        {SPLIT("Merged", "false"), LF_UNSUPPORTED},
        {"{\"type\":\"Split\",\"behavior\":\"Isolated\"}", LF_CORRUPT},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":7},\"behavior\":\"Isolated\"}", LF_CORRUPT},
        {"{\"type\":\"Sequence\",\"pretokenizers\":7}", LF_CORRUPT},
        {"{\"type\":\"Wordy\"}", LF_UNSUPPORTED},
        {"7", LF_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_arena arena;
        struct lf_pretokenizer pre = {0};
        struct lf_err err = {0};
        lf_arena_init(&arena, 4096, 1 << 20);
        enum lf_status status = open_split(&pre, &arena, cases[i].text, &err);
        if (status != cases[i].status) fail_msg("%s: %s (%s)", cases[i].text, lf_status_name(status), err.message);
        assert_true(err.message[0] != 0);
        lf_pretokenizer_deinit(&pre);
        lf_arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_behaviour_of_a_split),
        cmocka_unit_test(white_space_parts_words_from_what_is_neither),
        cmocka_unit_test(what_is_no_split_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
