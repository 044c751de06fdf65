/* The exact edges of tokenizers and templates: bounds that nothing else would hold, and small parts of the language
 * that are easily lost. */
#include "core/check.h"
#include "core/json.h"
#include "tests/unit/tokenizer/support.h"
#include "template/chat_template.h"
#include "tokenizer/decoder.h"

/* How often the special token is found in text where the given bytes are a user's. */
static size_t n_special(const struct lf_tokenizer *tok, const char *text, size_t first, size_t len)
{
    struct lf_text_span span = {first, len};
    struct lf_ids ids = {0};
    size_t n = 0;
    int32_t end = lf_tokenizer_find(tok, LF_STR("<|im_end|>"));
    assert_true(end >= 0);
    assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_c(text), &span, 1, LF_ENCODE_SPECIALS, 0, NULL, NULL),
                     LF_OK);
    for (size_t i = 0; i < ids.n; i++) n += ids.ids[i] == end;
    lf_ids_deinit(&ids);
    return n;
}

static void one_byte_of_a_user_undoes_a_special_token(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-qwen");
    const char *text = "a<|im_end|>b";
    assert_int_equal(n_special(tok, text, 0, 1), 1);
    for (size_t at = 1; at <= 10; at++) assert_int_equal(n_special(tok, text, at, 1), 0);
    assert_int_equal(n_special(tok, text, 11, 1), 1);
    lf_tokenizer_close(tok);
}

static void expect(const char *source, enum lf_status expected, const char *part)
{
    struct lf_err err = {0};
    struct lf_chat_text out = {0};
    struct lf_chat_template *t = NULL;
    struct lf_chat_render_params p = {0};
    enum lf_status status = lf_chat_template_create(&t, lf_str_c(source), &err);
    if (status == LF_OK) status = lf_chat_template_render(t, &out, &p, &err);
    const char *got = status != LF_OK ? err.message : out.text.ptr ? out.text.ptr : "";
    if (status != expected || !strstr(got, part)) fail_msg("%.100s: %s: %s", source, lf_status_name(status), got);
    lf_chat_text_deinit(&out);
    lf_chat_template_destroy(t);
}

/* A loop of a thousand rounds over n statements that evaluate nothing. */
static void expect_statements(int n, enum lf_status expected, const char *part)
{
    struct lf_buf source;
    lf_buf_init(&source, 1 << 20);
    lf_buf_cstr(&source, "{% for i in range(1000) %}");
    for (int i = 0; i < n; i++) lf_buf_cstr(&source, "{% macro m() %}{% endmacro %}");
    lf_buf_cstr(&source, "{% endfor %}done");
    assert_int_equal(source.status, LF_OK);
    expect(source.ptr, expected, part);
    lf_buf_deinit(&source);
}

static void statements_are_steps(void **state)
{
    (void)state;
    expect_statements(900, LF_OK, "done");
    expect_statements(1001, LF_LIMIT, "more than 1000000 steps");
}

/* Two values of the same shape, nested so deep, and something done with them. */
static void expect_nested(int depth, const char *brackets, const char *then, enum lf_status expected, const char *part)
{
    char source[400];
    (void)snprintf(source, sizeof source,
                   "{%% set ns = namespace(x=1, y=1) %%}{%% for i in range(%d) %%}{%% set ns.x = %c ns.x, %c %%}"
                   "{%% set ns.y = %c ns.y, %c %%}{%% endfor %%}%s",
                   depth, brackets[0], brackets[1], brackets[0], brackets[1], then);
    expect(source, expected, part);
}

static void values_are_compared_to_a_depth(void **state)
{
    (void)state;
    static const char *const operations[] = {"{{ ns.x == ns.y }}", "{{ ns.x != ns.y }}", "{{ ns.x in [ns.y] }}",
                                             "{{ ns.x <= ns.y }}", "{{ ns.x < ns.y }}"};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        expect_nested(900, "[]", operations[i], LF_OK, "e"); /* True or False */
        expect_nested(1100, "[]", operations[i], LF_LIMIT, "nest deeper than 1024");
    }
    expect_nested(900, "()", "{{ {ns.x: 1}|length }}", LF_OK, "1");
    expect_nested(1100, "()", "{{ {ns.x: 1}|length }}", LF_LIMIT, "nest deeper than 1024");
}

static void a_call_block_keeps_all_its_arguments(void **state)
{
    (void)state;
    expect(
        "{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{{ caller() }}{% endmacro %}{% call m(1, 2, c=3) %}x{% endcall %}",
        LF_OK, "123x");
}

static void code_points_that_do_not_print_are_shown_as_python_does(void **state)
{
    (void)state;
    expect("{{ ['\\U000e0001'] }}", LF_OK, "['\\U000e0001']");
    expect("{{ ['\\u2028'] }}", LF_OK, "['\\u2028']");
    expect("{{ ['\\x7f'] }}", LF_OK, "['\\x7f']");
}

static void arguments_with_a_default_may_be_left_out(void **state)
{
    (void)state;
    expect("{{ 'a'.center(4) }}|{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3) }}|{{ 'a'.zfill(3) }}|", LF_OK, " a  |a  |  a|00a|");
    expect("{{ 'a'.center(4, '-') }}|{{ 'a'.ljust(3, '-') }}|{{ 'a'.rjust(3, '-') }}|", LF_OK, "-a--|a--|--a|");
    expect("{{ 'abab'.replace('a', 'c') }}|{{ 'abab'.replace('a', 'c', 1) }}|", LF_OK, "cbcb|cbab|");
    expect("{{ 'ab'.removeprefix('a') }}|{{ 'ab'.removesuffix('b') }}|", LF_OK, "b|a|");
    expect("{{ 'a'.ljust() }}", LF_INVALID, "width");
    expect("{{ 'a'.replace('a') }}", LF_INVALID, "new");
}

/* Added tokens may take the spaces beside them; letters they leave alone. The first of the file, <|begin|>, is changed
 * to do so: spaces are tokens to this tokenizer. */
static void attributes_of_a_namespace_do_not_begin_with_an_underscore(void **state)
{
    (void)state;
    const char *refused = "an attribute of a namespace cannot begin with an underscore";
    expect("{% set ns = namespace(a=1) %}{% set ns._a = 2 %}", LF_INVALID, refused);
    expect("{% set ns = namespace(a=1) %}{% set ns._ = 2 %}", LF_INVALID, refused);
    expect("{% set ns = namespace(a=1) %}{% set ns.a_ = 2 %}{{ ns.a_ + ns.a }}", LF_OK, "3");
    expect("{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}", LF_OK, "2");
    expect("{% set d = {} %}{% set d.a = 2 %}", LF_INVALID, "only of a namespace");
}

/* x, then name=x and *x in any order, then **x; each of the last two once. */
static void arguments_come_in_their_order(void **state)
{
    (void)state;
    static const char *const good[] = {"1",
                                       "a=1",
                                       "1, b=2",
                                       "1, *[2]",
                                       "*[1, 2]",
                                       "a=1, **{'b': 2}",
                                       "*[1], b=2",
                                       "b=2, *[1]",
                                       "1, *[], **{'b': 2}",
                                       "*[1], b=2, **{}",
                                       "**{'a': 1, 'b': 2}"};
    static const char *const bad[] = {"a=1, 2",    "*[1], 2",  "**{}, 1",   "**{}, a=1",
                                      "**{}, *[]", "*[], *[]", "**{}, **{}"};
    char source[256];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)snprintf(source, sizeof source, "{%% macro m(a, b=0) %%}{{ a }}:{{ b }}{%% endmacro %%}{{ m(%s) }}",
                       good[i]);
        expect(source, LF_OK, strchr(good[i], '2') ? "1:2" : "1:0");
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(source, sizeof source, "{%% macro m(a, b=0) %%}{%% endmacro %%}{{ m(%s) }}", bad[i]);
        expect(source, LF_INVALID, "arguments in the order x, name=x, *x, **x");
    }
}

static void added_tokens_strip_spaces_and_nothing_else(void **state)
{
    (void)state;
    static const char no[] = "\"lstrip\":false,\"rstrip\":false", yes[] = "\"lstrip\":true ,\"rstrip\":true ";
    struct model_dir dir = model_dir_make();
    struct lf_buf file;
    lf_buf_init(&file, 1 << 20);
    assert_int_equal(lf_file_read(&file, FIXTURES "like-gpt2/tokenizer.json", 1 << 20, NULL), LF_OK);
    char *flags = strstr(file.ptr, no);
    assert_non_null(flags);
    memcpy(flags, yes, sizeof yes - 1);
    model_dir_write(&dir, "tokenizer.json", file.ptr, file.len);
    lf_buf_deinit(&file);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    int32_t begin = lf_tokenizer_find(tok, LF_STR("<|begin|>"));
    assert_true(begin >= 0);
    ASSERT_ENCODES(tok, " \xc2\xa0\t<|begin|>\n \xe3\x80\x80", LF_ENCODE_SPECIALS, begin, -1);
    static const char *const texts[] = {"a<|begin|>", "a \n<|begin|>"};
    struct lf_ids letter = {0};
    assert_int_equal(lf_tokenizer_encode(tok, &letter, LF_STR("a"), NULL, 0, 0, 0, NULL, NULL), LF_OK);
    assert_int_equal(letter.n, 1);
    for (size_t i = 0; i < 2; i++) ASSERT_ENCODES(tok, texts[i], LF_ENCODE_SPECIALS, letter.ids[0], begin, -1);
    lf_ids_deinit(&letter);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

/* The alphabet of byte-level vocabularies: what is visible in Latin-1 is itself, the other 68 follow from U+0100 on. */
static void each_byte_has_its_letter(void **state)
{
    (void)state;
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool hidden = byte <= 0x20 || (byte >= 0x7f && byte <= 0xa0) || byte == 0xad;
        uint32_t letter = lf_byte_level_letter((uint8_t)byte);
        assert_int_equal(letter, hidden ? next++ : byte);
        assert_int_equal(lf_byte_level_byte(letter), byte);
        if (hidden) assert_int_equal(lf_byte_level_byte(byte), -1);
    }
    assert_int_equal(next, 0x144);
    assert_int_equal(lf_byte_level_byte(next), -1);
    assert_int_equal(lf_byte_level_byte(0x10ffff), -1);
}

static void a_byte_token_names_two_digits(void **state)
{
    (void)state;
    assert_int_equal(lf_byte_token(LF_STR("<0x00>")), 0);
    assert_int_equal(lf_byte_token(LF_STR("<0xfA>")), 0xfa);
    assert_int_equal(lf_byte_token(LF_STR("<0x+a>")), 10); /* Rust's from_str_radix */
    static const char *const others[] = {"<0xA>",  "<0x0A>>", "<0x0A]", "<0X0A>", "<0xg0>", "<0x0g>",
                                         "(0x0A>", "<0x++>",  "<0x+>>", "<0xA+>", "<0x-1>", ""};
    for (size_t i = 0; i < LF_N_ELEMS(others); i++) {
        assert_int_equal(lf_byte_token(lf_str_c(others[i])), -1);
        assert_int_equal(lf_byte_piece(lf_str_c(others[i])), -1);
    }
}

/* As sentencepiece writes them: each byte in one way. */
static void a_byte_piece_has_capital_letters(void **state)
{
    (void)state;
    char text[8];
    for (int byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        assert_int_equal(lf_byte_piece(lf_str_c(text)), byte);
        snprintf(text, sizeof text, "<0x%02x>", byte);
        bool has_letter = byte % 16 >= 10 || byte / 16 >= 10;
        assert_int_equal(lf_byte_piece(lf_str_c(text)), has_letter ? -1 : byte);
        assert_int_equal(lf_byte_token(lf_str_c(text)), byte);
    }
    assert_int_equal(lf_byte_piece(LF_STR("<0x+A>")), -1);
    assert_int_equal(lf_byte_piece(LF_STR("<0xfA>")), -1);
    assert_int_equal(lf_byte_piece(LF_STR("<0xFa>")), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_byte_of_a_user_undoes_a_special_token),
        cmocka_unit_test(statements_are_steps),
        cmocka_unit_test(values_are_compared_to_a_depth),
        cmocka_unit_test(a_call_block_keeps_all_its_arguments),
        cmocka_unit_test(arguments_with_a_default_may_be_left_out),
        cmocka_unit_test(attributes_of_a_namespace_do_not_begin_with_an_underscore),
        cmocka_unit_test(arguments_come_in_their_order),
        cmocka_unit_test(added_tokens_strip_spaces_and_nothing_else),
        cmocka_unit_test(code_points_that_do_not_print_are_shown_as_python_does),
        cmocka_unit_test(each_byte_has_its_letter),
        cmocka_unit_test(a_byte_token_names_two_digits),
        cmocka_unit_test(a_byte_piece_has_capital_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
