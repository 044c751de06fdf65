#include "server/http/api/prompts.h"

#include "core/check.h"
#include "core/clock.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "server/http/api/boundaries.h"
#include "template/chat_template.h"

enum { COUNT_SLACK = 4096, END_BYTES = 256 };

/* So many ids are counted before a text is given up: an oversized document's refusal can then say how long it is. */
static size_t count_limit(const struct lf_prompt_source *source)
{
    return (size_t)source->ctx * 2 + COUNT_SLACK;
}

enum lf_status lf_refuse_context(struct lf_api_err *err, const char *param, int64_t n_prompt, int64_t max_tokens,
                                 int64_t ctx, bool more)
{
    (void)!lf_refuse(err, 400, param, "context_length_exceeded",
                     "This model's maximum context length is %lld tokens. However, your prompt has %s%lld tokens and "
                     "you requested %lld output tokens.",
                     (long long)ctx, more ? "more than " : "", (long long)n_prompt, (long long)max_tokens);
    err->has_context = true;
    err->n_prompt_tokens = n_prompt;
    err->n_ctx = ctx;
    err->max_tokens_allowed = LF_MAX(ctx - n_prompt, 0);
    return LF_INVALID;
}

enum lf_status lf_refuse_submit(struct lf_api_err *err, enum lf_status status, int retry_after_s,
                                const struct lf_err *why)
{
    switch (status) {
    case LF_FULL:
        (void)!lf_refuse(err, 429, NULL, "queue_full", "The queue is full; try again in %d s.", retry_after_s);
        err->retry_after_s = LF_MIN(LF_MAX(retry_after_s, 1), 60);
        return LF_INVALID;
    case LF_QUOTA:
        return lf_refuse_rate(err, retry_after_s, why);
    case LF_SHUTDOWN:
        return lf_refuse(err, 503, NULL, "draining", "The server is shutting down.");
    case LF_DEVICE:
        return lf_refuse(err, 503, NULL, "engine_failed", "The engine has failed.");
    case LF_NO_MEMORY:
        return lf_refuse_work(err, LF_NO_MEMORY);
    default:
        return lf_refuse(err, 500, NULL, "internal_error", "The request could not be queued.");
    }
}

enum lf_status lf_refuse_beside_pins(struct lf_api_err *err, const char *param, int64_t n_tokens, int64_t most)
{
    return lf_refuse(err, 507, param, "pins_leave_no_room",
                     "This needs room for %lld tokens, and documents that are pinned to the device leave %lld.",
                     (long long)n_tokens, (long long)most);
}

/* What the tokenizer or the template said, as a refusal. */
static enum lf_status refuse_text(struct lf_api_err *err, const char *param, enum lf_status status,
                                  const struct lf_err *why)
{
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(err, status);
    return lf_refuse(err, 400, param, "invalid_value", "%s: %s", param, why->message);
}

static enum lf_status encode(struct lf_ids *ids, struct lf_str text, const struct lf_text_span *spans, size_t n_spans,
                             unsigned flags, struct lf_ask *ask, const struct lf_prompt_source *source,
                             const char *param, struct lf_api_err *err)
{
    struct lf_err why = {0};
    size_t limit = count_limit(source), left = limit > ids->n ? limit - ids->n : 1;
    enum lf_status status =
        lf_tokenizer_encode(source->tok, ids, text, spans, n_spans, flags, left, source->work, &why);
    if (status == LF_LIMIT)
        return lf_refuse_context(err, param, (int64_t)limit, LF_MAX(ask->max_tokens, 0), source->ctx, true);
    if (status == LF_UNSUPPORTED) return lf_refuse(err, 400, param, "text_too_expensive", "%s: %s", param, why.message);
    if (status != LF_OK) return refuse_text(err, param, status, &why);
    if (ids->n || ask->may_be_empty) return LF_OK;
    return lf_refuse(err, 400, param, "empty_prompt", "%s: no token in it.", param);
}

/* ---- completions ---- */

static enum lf_status read_text(struct lf_prompt *out, struct lf_json_value v, struct lf_ask *ask,
                                const struct lf_prompt_source *source, struct lf_api_err *err)
{
    LF_TRY(lf_ask_text(ask, &out->text, v, "prompt", err));
    out->is_text = true;
    struct lf_text_span whole = {0, out->text.len};
    unsigned flags =
        (ask->add_special_tokens ? LF_ENCODE_BOS_EOS : 0u) | (ask->parse_special ? LF_ENCODE_SPECIALS : 0u);
    return encode(&out->ids, out->text, &whole, ask->parse_special ? 0 : 1, flags, ask, source, "prompt", err);
}

static enum lf_status read_ids(struct lf_prompt *out, struct lf_json_value list, const struct lf_prompt_source *source,
                               struct lf_api_err *err)
{
    int n_vocab = lf_tokenizer_n_vocab(source->tok);
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        int32_t id;
        LF_TRY(lf_ask_token_id(&id, it, n_vocab, "prompt", err));
        if (lf_ids_push(&out->ids, id) != LF_OK) return lf_refuse_work(err, LF_NO_MEMORY);
    }
    return out->ids.n ? LF_OK : lf_refuse(err, 400, "prompt", "empty_prompt", "prompt: a list of ids that is empty.");
}

static enum lf_status make_room(struct lf_prompts *out, uint32_t n, const struct lf_prompt_source *source,
                                struct lf_api_err *err)
{
    if (n == 0) return lf_refuse(err, 400, "prompt", "empty_prompt", "prompt: an empty list.");
    if (n > LF_PROMPTS_N)
        return lf_refuse(err, 400, "prompt", "too_many_prompts", "prompt: at most %d prompts, got %u.", LF_PROMPTS_N,
                         n);
    out->memory = lf_work_memory(source->work);
    out->items = lf_text_alloc_zeroed(out->memory, n * sizeof *out->items);
    if (!out->items) return lf_refuse_work(err, LF_NO_MEMORY);
    out->n = (int)n;
    for (uint32_t i = 0; i < n; i++) out->items[i].ids.memory = out->memory;
    return LF_OK;
}

/* A list whose elements are all strings or all lists of ids. */
static enum lf_status read_list(struct lf_prompts *out, struct lf_ask *ask, const struct lf_prompt_source *source,
                                struct lf_api_err *err)
{
    LF_TRY(make_room(out, lf_json_len(ask->prompt), source, err));
    struct lf_json_value it = lf_json_first(ask->prompt);
    enum lf_json_type kind = lf_json_type(it);
    for (int i = 0; i < out->n; i++, it = lf_json_next(ask->prompt, it)) {
        if (lf_json_type(it) != kind || (kind != LF_JSON_STRING && kind != LF_JSON_ARRAY))
            return lf_refuse(
                err, 400, "prompt", "invalid_value",
                "prompt: expected a string, a list of strings, a list of token ids or a list of such lists.");
        LF_TRY(kind == LF_JSON_STRING ? read_text(&out->items[i], it, ask, source, err)
                                      : read_ids(&out->items[i], it, source, err));
    }
    return LF_OK;
}

static enum lf_status read_prompt(struct lf_prompts *out, struct lf_ask *ask, const struct lf_prompt_source *source,
                                  struct lf_api_err *err)
{
    bool list = lf_json_type(ask->prompt) == LF_JSON_ARRAY;
    if (lf_json_type(ask->prompt) == LF_JSON_NONE)
        return lf_refuse(err, 400, "prompt", "missing_parameter", "prompt: this field is needed.");
    if (list && lf_json_len(ask->prompt) && lf_json_type(lf_json_first(ask->prompt)) != LF_JSON_NUMBER)
        return read_list(out, ask, source, err);
    if (list) {
        LF_TRY(make_room(out, lf_json_len(ask->prompt) ? 1 : 0, source, err));
        return read_ids(&out->items[0], ask->prompt, source, err);
    }
    LF_TRY(make_room(out, 1, source, err));
    return read_text(&out->items[0], ask->prompt, ask, source, err);
}

/* ---- chat ---- */

/* What fields of the request say to the template. An effort also turns its switch on, or off where it is none: a
 * template may know the switch alone, and may have it off. */
static size_t variables_of(struct lf_chat_variable out[2], const struct lf_ask *ask)
{
    size_t n = 0;
    if (ask->reasoning_effort.len)
        out[n++] = (struct lf_chat_variable){.name = "reasoning_effort", .text = ask->reasoning_effort};
    bool on = ask->thinking == LF_SWITCH_UNSET ? !lf_str_eq(ask->reasoning_effort, LF_STR("none"))
                                               : ask->thinking == LF_SWITCH_ON;
    if (ask->thinking != LF_SWITCH_UNSET || ask->reasoning_effort.len)
        out[n++] = (struct lf_chat_variable){.name = "enable_thinking", .on = on};
    return n;
}

static enum lf_status render_messages(struct lf_chat_text *out, struct lf_ask *ask,
                                      const struct lf_prompt_source *source, struct lf_api_err *err)
{
    if (!source->chat)
        return lf_refuse(err, 400, ask->messages_param, "no_chat_template",
                         "This model has no chat template: use "
                         "/v1/completions.");
    if (!ask->messages) return lf_refuse(err, 400, "messages", "missing_parameter", "messages: this field is needed.");
    struct lf_chat_variable variables[2];
    struct lf_chat_render_params p = {.messages = ask->messages,
                                      .n_messages = ask->n_messages,
                                      .work = source->work,
                                      .tools = ask->tool_values,
                                      .made_tools = ask->made_tools,
                                      .n_made_tools = ask->n_made_tools,
                                      .variables = variables,
                                      .n_variables = variables_of(variables, ask),
                                      .extra = ask->template_vars,
                                      .add_generation_prompt =
                                          ask->add_generation_prompt && !ask->continue_final_message,
                                      .bos_token = lf_tokenizer_bos_text(source->tok),
                                      .eos_token = lf_tokenizer_eos_text(source->tok),
                                      .now_unix_s = ask->now_s ? ask->now_s : lf_clock_unix_s()};
    struct lf_err why = {0};
    enum lf_status status = lf_chat_template_render(source->chat, out, &p, &why);
    return status == LF_OK ? LF_OK : refuse_text(err, ask->messages_param, status, &why);
}

/* The text of the last message where that is the assistant's, else an empty one. */
static enum lf_status final_text(struct lf_str *out, struct lf_ask *ask, struct lf_api_err *err)
{
    const struct lf_chat_message *m = &ask->messages[ask->n_messages - 1];
    bool assistant = m->role.ptr ? lf_str_eq(m->role, LF_STR("assistant"))
                                 : lf_json_string_is(lf_json_get(m->more, "role"), "assistant");
    struct lf_json_value content = lf_json_get(m->more, "content");
    *out = assistant && m->has_content ? m->content : LF_STR("");
    if (!assistant || m->has_content || lf_json_type(content) != LF_JSON_STRING) return LF_OK;
    return lf_ask_text(ask, out, content, ask->messages_param, err);
}

/* That there is something to go on from. */
static enum lf_status text_to_continue(struct lf_str *out, struct lf_ask *ask, struct lf_api_err *err)
{
    LF_TRY(final_text(out, ask, err));
    if (ask->messages[ask->n_messages - 1].n_calls == 0 && lf_str_trim(*out).len > 0) return LF_OK;
    return lf_refuse(err, 400, "continue_final_message", "invalid_value",
                     "continue_final_message: expected a last message of the assistant's with a text and no calls.");
}

/* Where `needle` stands last in a stretch of the text, -1: nowhere. */
static ptrdiff_t find_last(struct lf_str text, size_t first, size_t len, struct lf_str needle)
{
    for (size_t n = len; n >= needle.len; n--)
        if (lf_str_ends(lf_str_from(text.ptr + first, n), needle)) return (ptrdiff_t)(first + n - needle.len);
    return -1;
}

/* In what came from the request, so that no text is taken for the template's own marks; else anywhere. */
static ptrdiff_t find_final(const struct lf_chat_text *rendered, struct lf_str needle)
{
    struct lf_str text = lf_buf_view(&rendered->text);
    ptrdiff_t at = -1;
    for (size_t i = rendered->n_user_spans; at < 0 && i-- > 0;)
        at = find_last(text, rendered->user_spans[i].first, rendered->user_spans[i].len, needle);
    return at < 0 ? find_last(text, 0, text.len, needle) : at;
}

/* Cuts the rendered conversation behind the last message's text: what the template closes a message with is not there.
 * Templates may trim a text, so it is looked for without the white space around it, and keeps what is there of that
 * behind it. */
static enum lf_status cut_behind_final(struct lf_chat_text *rendered, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_str last, text = lf_buf_view(&rendered->text);
    LF_TRY(text_to_continue(&last, ask, err));
    struct lf_str core = lf_str_trim(last);
    ptrdiff_t at = find_final(rendered, core);
    if (at < 0)
        return lf_refuse(err, 400, "continue_final_message", "invalid_value",
                         "continue_final_message: the model's chat template does not write the last message as it is.");
    size_t end = (size_t)at + core.len;
    const char *behind = core.ptr + core.len;
    for (; end < text.len && behind < last.ptr + last.len && text.ptr[end] == *behind; end++) behind++;
    rendered->text.len = end;
    rendered->text.ptr[end] = '\0';
    while (rendered->n_user_spans && rendered->user_spans[rendered->n_user_spans - 1].first >= end)
        rendered->n_user_spans--;
    for (size_t i = 0; i < rendered->n_user_spans; i++) {
        struct lf_text_span *span = &rendered->user_spans[i];
        span->len = LF_MIN(span->len, end - span->first);
    }
    return LF_OK;
}

/* A template may end inside what answers consist of: in an open block of reasoning. */
static enum lf_status keep_end(struct lf_prompt *out, struct lf_str text, struct lf_ask *ask, struct lf_api_err *err)
{
    size_t n = LF_MIN(text.len, (size_t)END_BYTES);
    const char *copy = lf_arena_strdup(&ask->arena, lf_str_from(text.ptr + text.len - n, n));
    out->end = lf_str_from(copy, n);
    return copy ? LF_OK : lf_refuse_work(err, LF_NO_MEMORY);
}

/* ---- from its text to ids ---- */

/* The spans of a stretch of the text, counted from its beginning. */
static size_t spans_within(struct lf_text_span *out, const struct lf_chat_text *t, size_t first, size_t end)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_user_spans; i++) {
        size_t from = LF_MAX(t->user_spans[i].first, first);
        size_t to = LF_MIN(t->user_spans[i].first + t->user_spans[i].len, end);
        if (from < to) out[n++] = (struct lf_text_span){from - first, to - from};
    }
    return n;
}

/* In parts that end at the boundaries, all of which lie within the text. Where parts end there are marks. */
static enum lf_status encode_parts(struct lf_prompt *out, const struct lf_chat_text *t, const size_t *boundaries,
                                   size_t n, struct lf_ask *ask, const struct lf_prompt_source *source,
                                   struct lf_api_err *err)
{
    struct lf_text_span *spans = lf_arena_array(&ask->arena, t->n_user_spans + 1, sizeof *spans);
    unsigned flags = LF_ENCODE_SPECIALS;
    size_t first = 0;
    out->marks = lf_arena_array(&ask->arena, n + 1, sizeof *out->marks);
    if (!spans || !out->marks) return lf_refuse_work(err, LF_NO_MEMORY);
    for (size_t i = 0; i <= n; i++) {
        size_t end = i < n ? boundaries[i] : t->text.len;
        if (end <= first && i) continue;
        size_t n_spans = spans_within(spans, t, first, end);
        struct lf_str part = lf_str_from(lf_buf_view(&t->text).ptr + first, end - first);
        LF_TRY(encode(&out->ids, part, spans, n_spans, flags, ask, source, ask->messages_param, err));
        if (i < n && out->ids.n) out->marks[out->n_marks++] = (int32_t)out->ids.n;
        flags |= LF_ENCODE_GOES_ON;
        first = end;
    }
    return LF_OK;
}

static enum lf_status encode_chat(struct lf_prompt *out, const struct lf_chat_text *t, struct lf_ask *ask,
                                  const struct lf_prompt_source *source, struct lf_api_err *err)
{
    if (ask->n_documents == 0)
        return encode(&out->ids, lf_buf_view(&t->text), t->user_spans, t->n_user_spans, LF_ENCODE_SPECIALS, ask, source,
                      ask->messages_param, err);
    size_t *boundaries = lf_arena_array(&ask->arena, ask->n_documents, sizeof *boundaries);
    if (!boundaries) return lf_refuse_work(err, LF_NO_MEMORY);
    return encode_parts(out, t, boundaries, lf_boundaries_find(boundaries, t, ask), ask, source, err);
}

static enum lf_status read_chat(struct lf_prompts *out, struct lf_ask *ask, const struct lf_prompt_source *source,
                                struct lf_api_err *err)
{
    struct lf_chat_text text = {0};
    enum lf_status status = make_room(out, 1, source, err);
    if (status == LF_OK) status = render_messages(&text, ask, source, err);
    if (status == LF_OK && ask->continue_final_message) status = cut_behind_final(&text, ask, err);
    if (status == LF_OK) status = encode_chat(&out->items[0], &text, ask, source, err);
    if (status == LF_OK) status = keep_end(&out->items[0], lf_buf_view(&text.text), ask, err);
    if (status == LF_OK && ask->echo_final) status = final_text(&out->items[0].text, ask, err);
    lf_chat_text_deinit(&text);
    lf_ask_drop_arguments(ask);
    return status;
}

enum lf_status lf_prompt_render(struct lf_buf *text, struct lf_ask *ask, const struct lf_prompt_source *source,
                                struct lf_api_err *err)
{
    struct lf_chat_text rendered = {0};
    enum lf_status status = render_messages(&rendered, ask, source, err);
    if (status == LF_OK && ask->continue_final_message) status = cut_behind_final(&rendered, ask, err);
    if (status == LF_OK) lf_buf_str(text, lf_buf_view(&rendered.text));
    lf_chat_text_deinit(&rendered);
    return status;
}

enum lf_status lf_prompts_read(struct lf_prompts *out, struct lf_ask *ask, const struct lf_prompt_source *source,
                               struct lf_api_err *err)
{
    *out = (struct lf_prompts){0};
    bool chat = ask->messages != NULL;
    enum lf_status status = chat ? read_chat(out, ask, source, err) : read_prompt(out, ask, source, err);
    if (status != LF_OK) lf_prompts_deinit(out);
    return status;
}

static enum lf_status read_beginning(struct lf_prompts *out, struct lf_chat_text *text, struct lf_ask *ask,
                                     const struct lf_prompt_source *source, struct lf_api_err *err)
{
    size_t *boundaries = lf_arena_array(&ask->arena, ask->n_documents, sizeof *boundaries);
    if (!boundaries) return lf_refuse_work(err, LF_NO_MEMORY);
    LF_TRY(make_room(out, 1, source, err));
    LF_TRY(render_messages(text, ask, source, err));
    size_t n = lf_boundaries_find(boundaries, text, ask);
    if (n < ask->n_documents)
        return lf_refuse(err, 400, "text", "unsupported_content",
                         "text: this model's chat template does not write a user's text as it is, so no conversation "
                         "begins with it.");
    text->text.len = boundaries[n - 1];
    return encode_parts(&out->items[0], text, boundaries, n - 1, ask, source, err);
}

enum lf_status lf_prompts_read_beginning(struct lf_prompts *out, struct lf_ask *ask,
                                         const struct lf_prompt_source *source, struct lf_api_err *err)
{
    struct lf_chat_text text = {0};
    *out = (struct lf_prompts){0};
    enum lf_status status = read_beginning(out, &text, ask, source, err);
    lf_chat_text_deinit(&text);
    if (status != LF_OK) lf_prompts_deinit(out);
    return status;
}

void lf_prompts_deinit(struct lf_prompts *prompts)
{
    for (int i = 0; i < prompts->n; i++) lf_ids_deinit(&prompts->items[i].ids);
    lf_text_free(prompts->memory, prompts->items);
    *prompts = (struct lf_prompts){0};
}
