/* Fuzzing answers taken apart: the first byte is the format (a letter is a row), the second what the parser is told,
 * the third where the answer is cut; the rest is the answer, with control tokens between two bytes 0xff. The parts are
 * the same whole and in any pieces; a call is one of the tools'; the arguments of one that has ended are a JSON object;
 * no byte of text is invented, and where no call is found none is lost. */
#include "core/json.h"
#include "core/mix.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/answer_parts.h"

#define TEXT(s)                                                                                                        \
    {                                                                                                                  \
        s, sizeof(s) - 1                                                                                               \
    }
static const struct lf_tool_parameter parameters[] = {
    {TEXT("city"), LF_TOOL_STRING}, {TEXT("days"), LF_TOOL_NUMBER}, {TEXT("a\"b"), LF_TOOL_STRING_OR_NULL}};
static const struct lf_tool tools[] = {{.name = TEXT("get")},
                                       {.name = TEXT("weather"), .parameters = parameters, .n_parameters = 3},
                                       {.name = TEXT("get_x")}};

enum { REASONING = 1, TOOLS = 2, OPENED = 4, CLOSED = 8 };

#define CONTROL '\xff' /* before a control token and behind it: in no UTF-8 */

static size_t cut_at_random(void *ctx, struct lf_str answer, size_t at)
{
    uint64_t *seed = ctx;
    (void)answer, (void)at;
    *seed = lf_mix64(*seed);
    return 1 + (size_t)(*seed % 16);
}

static size_t cut_bytes(void *ctx, struct lf_str answer, size_t at)
{
    (void)ctx, (void)answer, (void)at;
    return 1;
}

/* What came of one answer, apart. */
struct found {
    struct answer_parts parts;
    struct lf_buf text, arguments;
    bool in_call;
};

static void check_arguments(struct lf_str text)
{
    struct lf_json json = {0};
    struct lf_err err = {0};
    enum lf_status status = lf_json_parse(&json, text, &lf_json_limits_request, &err);
    if (status == LF_OK) LF_ASSERT(lf_json_type(lf_json_root(&json)) == LF_JSON_OBJECT);
    /* a name that comes twice is JSON, which this reader refuses */
    if (status != LF_OK) LF_ASSERT(strstr(err.message, "twice") != NULL);
    lf_json_deinit(&json);
}

static bool is_tool(struct lf_str name)
{
    for (size_t i = 0; i < LF_N_ELEMS(tools); i++)
        if (lf_str_eq(tools[i].name, name)) return true;
    return false;
}

static void take(void *ctx, enum lf_answer_kind kind, struct lf_str bytes)
{
    struct found *f = ctx;
    answer_parts_take(&f->parts, kind, bytes);
    if (kind == LF_ANSWER_TEXT || kind == LF_ANSWER_REASONING) lf_buf_str(&f->text, bytes);
    if (kind == LF_ANSWER_CALL) {
        LF_ASSERT(is_tool(bytes));
        f->in_call = true;
        lf_buf_clear(&f->arguments);
    }
    if (kind == LF_ANSWER_ARGUMENTS) {
        LF_ASSERT(f->in_call);
        lf_buf_str(&f->arguments, bytes);
    }
    if (kind == LF_ANSWER_CALL_END) {
        LF_ASSERT(f->in_call);
        f->in_call = false;
        check_arguments(lf_buf_view(&f->arguments));
    }
}

static bool is_within(struct lf_str text, struct lf_str answer)
{
    size_t n = 0;
    for (size_t i = 0; i < answer.len && n < text.len; i++) n += answer.ptr[i] == text.ptr[n];
    return n == text.len;
}

/* The next stretch of text, or a control token; false: none is left. */
static bool next_stretch(struct lf_str *answer, struct lf_str *out, bool *is_control)
{
    if (answer->len == 0) return false;
    *is_control = answer->ptr[0] == CONTROL;
    size_t n = *is_control, first = n;
    while (n < answer->len && answer->ptr[n] != CONTROL) n++;
    *out = lf_str_from(answer->ptr + first, n - first);
    if (*is_control && n < answer->len) n++; /* its second one */
    *answer = lf_str_from(answer->ptr + n, answer->len - n);
    return true;
}

/* Takes the answer apart, its text cut by `cut` (NULL: whole). */
static void read_answer(struct lf_answer_parser *p, struct lf_str answer, answer_cut *cut, void *ctx,
                        const struct lf_answer_sink *sink)
{
    struct lf_str stretch;
    bool is_control;
    lf_answer_parser_restart(p);
    while (next_stretch(&answer, &stretch, &is_control)) {
        if (is_control) LF_ASSERT(lf_answer_parser_push(p, stretch, true, sink) == LF_OK);
        for (size_t at = 0; at < stretch.len && !is_control;) {
            size_t n = cut ? cut(ctx, stretch, at) : stretch.len;
            n = LF_MIN(n, stretch.len - at);
            LF_ASSERT(lf_answer_parser_push(p, lf_str_from(stretch.ptr + at, n), false, sink) == LF_OK);
            at += n;
        }
    }
    LF_ASSERT(lf_answer_parser_flush(p, sink) == LF_OK);
}

static void check_whole(struct lf_answer_parser *p, struct lf_str answer, struct found *f)
{
    struct lf_answer_sink sink = {take, f};
    answer_parts_init(&f->parts);
    lf_buf_init(&f->text, 1 << 24);
    lf_buf_init(&f->arguments, 1 << 24);
    read_answer(p, answer, NULL, NULL, &sink);
    answer_parts_close(&f->parts);
    LF_ASSERT(is_within(lf_buf_view(&f->text), answer));
    bool keeps_all = f->parts.n_calls == 0 && !p->params.reasoning && !p->format->is_channels &&
                     (answer.len == 0 || !memchr(answer.ptr, CONTROL, answer.len));
    if (keeps_all) LF_ASSERT(lf_str_eq(lf_buf_view(&f->text), answer));
}

static void check_cut(struct lf_answer_parser *p, struct lf_str answer, const struct found *f, answer_cut *cut,
                      void *ctx)
{
    struct answer_parts parts;
    struct lf_answer_sink sink = {answer_parts_take, &parts};
    answer_parts_init(&parts);
    read_answer(p, answer, cut, ctx, &sink);
    answer_parts_close(&parts);
    LF_ASSERT(lf_str_eq(lf_buf_view(&parts.text), lf_buf_view(&f->parts.text)));
    lf_buf_deinit(&parts.text);
}

/* Every stretch is what a tokenizer gives. */
static bool is_answer(struct lf_str answer)
{
    struct lf_str stretch;
    bool is_control;
    while (next_stretch(&answer, &stretch, &is_control))
        if (!lf_utf8_valid(stretch)) return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char prompt[64];
    struct found f = {0};
    struct lf_answer_parser *p = NULL;
    if (size < 3) return 0;
    const struct lf_answer_format *format = lf_answer_format_at((uint8_t)(data[0] - 'a') % lf_answer_n_formats);
    struct lf_str answer = lf_str_from((const char *)data + 3, size - 3);
    uint64_t seed = data[2];
    if (!is_answer(answer)) return 0;
    snprintf(prompt, sizeof prompt, "%s%s", data[1] & OPENED && format->think ? format->think : "",
             data[1] & CLOSED && format->think ? format->think_end : "");
    struct lf_answer_parser_params params = {.format = format,
                                             .reasoning = data[1] & REASONING,
                                             .prompt_end = lf_str_c(prompt),
                                             .tools = tools,
                                             .n_tools = data[1] & TOOLS ? LF_N_ELEMS(tools) : 0};
    LF_ASSERT(lf_answer_parser_create(&p, &params) == LF_OK);
    check_whole(p, answer, &f);
    check_cut(p, answer, &f, cut_bytes, NULL);
    check_cut(p, answer, &f, cut_at_random, &seed);
    lf_answer_parser_destroy(p);
    lf_buf_deinit(&f.text);
    lf_buf_deinit(&f.arguments);
    lf_buf_deinit(&f.parts.text);
    return 0;
}
