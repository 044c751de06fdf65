/* server/http/api/token_text.c: bytes of tokens and log-probabilities, on the tokenizer's double. */
#include "tests/support/test.h"

#include <math.h>

#include "core/json.h"
#include "server/http/api/token_text.h"
#include "tests/support/fake_tokenizer.h"

static void bytes_of(int32_t id, const char *want, size_t n)
{
    struct lf_buf out;
    lf_buf_init(&out, 4096);
    lf_buf_cstr(&out, "before ");
    lf_token_bytes(&out, fake_tokenizer(), id, false);
    assert_int_equal(out.len, n + 7);
    assert_memory_equal(out.ptr + 7, want, n);
    lf_buf_deinit(&out);
}

static int32_t find(const char *text)
{
    int32_t id = lf_tokenizer_find(fake_tokenizer(), lf_str_c(text));
    assert_true(id >= 0);
    return id;
}

static void every_byte_and_every_piece(void **state)
{
    (void)state;
    for (int b = 0; b < 256; b++) bytes_of(b, &(char){(char)b}, 1);
    bytes_of(FAKE_EOS, "</s>", 4);
    bytes_of(find("Hello"), "Hello", 5);
    bytes_of(find("<0x+4>"), "<0x+4>", 6);
    bytes_of(find(" \xE6\x97"), " \xE6\x97", 3);               /* ends inside a code point */
    bytes_of(find("\xA5\xE6\x9C\xAC"), "\xA5\xE6\x9C\xAC", 4); /* begins inside one */
    bytes_of(-1, "", 0);
    bytes_of(100000, "", 0);
}

static void check(struct lf_logprob_text *lp, const char *want)
{
    struct lf_buf out;
    struct lf_json json = {0};
    lf_buf_init(&out, 1 << 20);
    lf_logprob_text_write(&out, lp);
    assert_string_equal(out.ptr, want);
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&out), &lf_json_limits_request, NULL), LF_OK);
    lf_json_deinit(&json);
    lf_buf_deinit(&out);
}

static void chat_form(void **state)
{
    (void)state;
    struct lf_logprob_text lp;
    struct lf_sampled s = {
        .id = 'a', .logprob = -0.5f, .n_top = 2, .top_ids = {'a', 0xC3}, .top_logprobs = {-0.5f, -INFINITY}};
    lf_logprob_text_init(&lp, fake_tokenizer(), LF_LOGPROBS_CHAT, 2, NULL);
    check(&lp, "{\"content\":[],\"refusal\":null}");
    lf_logprob_text_add(&lp, &s, s.id, 0);
    check(&lp, "{\"content\":[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":["
               "{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97]},"
               "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-9999,\"bytes\":[195]}]}],\"refusal\":null}");
    lf_logprob_text_clear(&lp);
    assert_int_equal(lp.n, 0);
    check(&lp, "{\"content\":[],\"refusal\":null}");
    lf_logprob_text_deinit(&lp);
}

static void completion_form(void **state)
{
    (void)state;
    struct lf_logprob_text lp;
    struct lf_sampled s = {.id = 'a', .logprob = -0.1f, .n_top = 1, .top_ids = {'b'}, .top_logprobs = {NAN}};
    lf_logprob_text_init(&lp, fake_tokenizer(), LF_LOGPROBS_COMPLETION, 1, NULL);
    lf_logprob_text_add(&lp, NULL, 0xC3, 0);
    lf_logprob_text_add(&lp, &s, s.id, 1);
    check(&lp, "{\"tokens\":[\"bytes:\\\\xc3\",\"a\"],\"token_logprobs\":[null,-0.1],"
               "\"top_logprobs\":[null,{\"b\":-9999,\"a\":-0.1}],\"text_offset\":[0,1]}");
    lf_logprob_text_deinit(&lp);
}

static void a_name_comes_once_although_two_tokens_read_the_same(void **state)
{
    (void)state;
    struct lf_logprob_text lp;
    int32_t piece = find("\xC3\xA9");
    struct lf_sampled s = {
        .id = piece, .logprob = -1, .n_top = 3, .top_ids = {piece, piece, 'x'}, .top_logprobs = {-1, -2, -3}};
    lf_logprob_text_init(&lp, fake_tokenizer(), LF_LOGPROBS_COMPLETION, 3, NULL);
    lf_logprob_text_add(&lp, &s, s.id, 0);
    check(&lp, "{\"tokens\":[\"\xC3\xA9\"],\"token_logprobs\":[-1],\"top_logprobs\":[{\"\xC3\xA9\":-1,\"x\":-3}],"
               "\"text_offset\":[0]}");
    lf_logprob_text_deinit(&lp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_and_every_piece),
        cmocka_unit_test(chat_form),
        cmocka_unit_test(completion_form),
        cmocka_unit_test(a_name_comes_once_although_two_tokens_read_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
