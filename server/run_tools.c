#include "server/run_tools.h"

#include "core/check.h"
#include "server/text_input.h"

enum { ARENA_CHUNK_BYTES = 16 * 1024, ARENA_BYTES = 16 * 1024 * 1024, PIECE_BYTES = 1024 * 1024 };

/* ---- definitions ---- */

static enum lf_status read_tool(struct lf_run_tools *t, size_t i, struct lf_json_value v, struct lf_err *err)
{
    struct lf_tool_fault fault;
    if (!lf_json_string_is(lf_json_get(v, "type"), "function"))
        return lf_fail(err, LF_INVALID, "tools[%zu].type: expected \"function\"", i);
    enum lf_status status = lf_tool_read(t->tools, i, lf_json_get(v, "function"), "parameters", &t->arena, &fault);
    if (status == LF_INVALID)
        return lf_fail(err, status, "tools[%zu].function.%s: expected %s, got %s", i, fault.member, fault.expected,
                       lf_json_type_name(fault.value));
    return status == LF_OK ? LF_OK : lf_fail(err, status, "no memory for the tools");
}

static enum lf_status read_tools(struct lf_run_tools *t, const char *path, struct lf_err *err)
{
    LF_TRY(lf_text_read(&t->source, path, LF_GRAMMAR_SOURCE_BYTES, err));
    LF_TRY(lf_json_parse(&t->doc, lf_buf_view(&t->source), &lf_json_limits_request, err));
    struct lf_json_value all = lf_json_root(&t->doc);
    size_t n = lf_json_type(all) == LF_JSON_ARRAY ? lf_json_len(all) : 0;
    if (n == 0 || n > LF_TOOLS_N)
        return lf_fail(err, LF_INVALID, "expected an array of 1 to %d tools, each with type and function", LF_TOOLS_N);
    t->tools = lf_arena_array(&t->arena, n, sizeof(*t->tools));
    if (!t->tools) return lf_fail(err, LF_NO_MEMORY, "no memory for the tools");
    for (struct lf_json_value it = lf_json_first(all); lf_json_more(all, it); it = lf_json_next(all, it))
        LF_TRY(read_tool(t, t->n_tools++, it, err));
    return LF_OK;
}

static enum lf_status find_format(struct lf_run_tools *t, const char *parser, struct lf_err *err)
{
    enum lf_status status = lf_answer_format_find(&t->format, lf_str_c(parser), err);
    if (status != LF_OK) return lf_fail_within(err, status, "--tool-parser");
    if (lf_answer_format_has_tools(t->format)) return LF_OK;
    return lf_fail(err, LF_INVALID, "--tool-parser %s: expected a form with calls of tools, this one has none", parser);
}

enum lf_status lf_run_tools_read(struct lf_run_tools *t, const char *path, const char *parser, struct lf_err *err)
{
    *t = (struct lf_run_tools){0};
    if (parser) LF_TRY(find_format(t, parser, err));
    lf_buf_init(&t->source, LF_GRAMMAR_SOURCE_BYTES + 1);
    lf_arena_init(&t->arena, ARENA_CHUNK_BYTES, ARENA_BYTES);
    enum lf_status status = read_tools(t, path, err);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--tools: %.200s", path);
}

void lf_run_tools_deinit(struct lf_run_tools *t)
{
    lf_answer_parser_destroy(t->parser);
    lf_json_deinit(&t->doc);
    lf_buf_deinit(&t->source);
    lf_arena_deinit(&t->arena);
}

enum lf_status lf_run_tools_begin(struct lf_run_tools *t, struct lf_grammar **out, struct lf_str template,
                                  struct lf_str prompt, struct lf_err *err)
{
    if (!t->format) t->format = lf_answer_format_of_template(template);
    if (!lf_answer_format_has_tools(t->format))
        return lf_fail(err, LF_UNSUPPORTED,
                       "--tools: the model's chat template shows no form of calls that is known; "
                       "--tool-parser names one");
    t->prompt_end_len = LF_MIN(prompt.len, sizeof(t->prompt_end));
    memcpy(t->prompt_end, prompt.ptr + prompt.len - t->prompt_end_len, t->prompt_end_len);
    struct lf_str end = lf_str_from(t->prompt_end, t->prompt_end_len);
    struct lf_answer_rules rules = {.prompt_end = end,
                                    .reasoning = true,
                                    .tools = t->tools,
                                    .n_tools = t->n_tools,
                                    .choice = LF_TOOL_CHOICE_AUTO,
                                    .parallel = true};
    struct lf_answer_parser_params params = {
        .format = t->format, .prompt_end = end, .tools = t->tools, .n_tools = t->n_tools};
    if (lf_answer_parser_create(&t->parser, &params) != LF_OK) return lf_fail(err, LF_NO_MEMORY, "no memory for calls");
    enum lf_status status = lf_answer_format_grammar(out, t->format, &rules, NULL, err);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--tools");
}

/* ---- the answer ---- */

struct printer {
    struct lf_run_tools *t;
    struct lf_buf *out;
};

/* Line ends between the members of a call are white space: a call stays on its line. */
static void print_arguments(struct lf_buf *out, struct lf_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        lf_buf_char(out, bytes.ptr[i] == '\n' || bytes.ptr[i] == '\r' ? ' ' : bytes.ptr[i]);
}

static void print_part(void *ctx, enum lf_answer_kind kind, struct lf_str bytes)
{
    struct printer *p = ctx;
    switch (kind) {
    case LF_ANSWER_TEXT:
    case LF_ANSWER_REASONING:
        lf_buf_str(p->out, bytes);
        p->t->in_line = bytes.ptr[bytes.len - 1] != '\n';
        break;
    case LF_ANSWER_CALL:
        lf_buf_cstr(p->out, p->t->in_line ? "\n{\"name\": " : "{\"name\": ");
        lf_json_write_string(p->out, bytes);
        lf_buf_cstr(p->out, ", \"arguments\": ");
        p->t->in_call = p->t->in_line = true;
        break;
    case LF_ANSWER_ARGUMENTS:
        print_arguments(p->out, bytes);
        break;
    case LF_ANSWER_CALL_END:
        lf_buf_cstr(p->out, "}\n");
        p->t->in_call = p->t->in_line = false;
        break;
    }
}

static enum lf_status push(struct lf_run_tools *t, struct lf_str piece, bool is_control, struct lf_buf *out)
{
    struct printer p = {t, out};
    const struct lf_answer_sink sink = {.take = print_part, .ctx = &p};
    return piece.len ? lf_answer_parser_push(t->parser, piece, is_control, &sink) : LF_OK;
}

enum lf_status lf_run_tools_take(struct lf_run_tools *t, struct lf_detok *detok, int32_t id, struct lf_buf *out)
{
    struct lf_token_info info;
    if (lf_tokenizer_token(detok->tok, id, &info) && info.special) return push(t, info.text, true, out);
    struct lf_buf text;
    lf_buf_init(&text, PIECE_BYTES);
    lf_detok_push(detok, id, &text);
    enum lf_status status = text.status == LF_OK ? push(t, lf_buf_view(&text), false, out) : text.status;
    lf_buf_deinit(&text);
    return status;
}

enum lf_status lf_run_tools_end(struct lf_run_tools *t, struct lf_detok *detok, struct lf_buf *out)
{
    struct printer p = {t, out};
    const struct lf_answer_sink sink = {.take = print_part, .ctx = &p};
    struct lf_buf text;
    lf_buf_init(&text, PIECE_BYTES);
    lf_detok_flush(detok, &text);
    enum lf_status status = push(t, lf_buf_view(&text), false, out);
    lf_buf_deinit(&text);
    return status == LF_OK ? lf_answer_parser_flush(t->parser, &sink) : status;
}
