/* Fuzzing the template language: the input is a template, and behind a NUL, if there is one, a request:
 * a JSON object with `messages` and `extra`.
 *
 * Nothing is compared: a run must end, within the budgets, without a report of the sanitizers, with valid UTF-8 and
 * with spans in order. */
#include "core/json.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/chat_messages.h"
#include "template/chat_template.h"

static const char default_request[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi <\\u00fc>\\n\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2.5,true]}}}]}],"
    "\"extra\":{\"x\":[3,\"b\",{\"k\":\"v\"}],\"s\":\"a b,c\",\"n\":7}}";

static void check_text(const struct lf_chat_text *text)
{
    size_t at = 0;
    LF_ASSERT(lf_utf8_valid(lf_buf_view(&text->text)));
    for (size_t i = 0; i < text->n_user_spans; i++) {
        struct lf_text_span span = text->user_spans[i];
        LF_ASSERT(span.len > 0 && span.first >= at && span.first + span.len <= text->text.len);
        at = span.first + span.len;
    }
}

static void render(struct lf_str source, struct lf_json_value messages, struct lf_json_value extra)
{
    struct lf_chat_template *t = NULL;
    struct lf_chat_text text = {0};
    struct lf_err err;
    const struct lf_chat_render_params p = {CHAT_MESSAGES(messages), .extra = extra, .bos_token = LF_STR("<s>")};
    if (lf_chat_template_create(&t, source, &err) != LF_OK) return;
    if (lf_chat_template_render(t, &text, &p, &err) == LF_OK) check_text(&text);
    lf_chat_text_deinit(&text);
    lf_chat_template_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t len = end ? (size_t)(end - data) : size;
    struct lf_str json = end ? lf_str_from((const char *)end + 1, size - len - 1)
                             : lf_str_from(default_request, sizeof(default_request) - 1);
    struct lf_json request;
    struct lf_err err;
    if (lf_json_parse(&request, json, &lf_json_limits_request, &err) != LF_OK) return 0;
    struct lf_json_value root = lf_json_root(&request);
    render(lf_str_from((const char *)data, len), lf_json_get(root, "messages"), lf_json_get(root, "extra"));
    lf_json_deinit(&request);
    return 0;
}
