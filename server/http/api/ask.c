#include "server/http/api/ask.h"

#include "core/check.h"
#include "core/work.h"
#include "server/documents/documents.h"
#include "server/http/api/place.h"
#include "server/http/api/response_store.h"
#include "server/http/api/shown.h"
#include "server/http/api/unsupported_fields.h"

enum { ARENA_CHUNK_BYTES = 16 * 1024, ARENA_BYTES = 1024 * 1024 * 1024 };

void lf_ask_init(struct lf_ask *ask, const struct lf_ask_limits *limits)
{
    *ask = (struct lf_ask){.n = 1, .add_special_tokens = true, .parse_special = true, .add_generation_prompt = true};
    ask->include_reasoning = ask->parallel_tool_calls = true;
    ask->skip_special_tokens = ask->store = true;
    ask->messages_param = "messages";
    ask->best_of = ask->logprobs = ask->top_logprobs = ask->prompt_logprobs = LF_ABSENT;
    ask->max_tokens = ask->max_completion_tokens = ask->speculate = LF_ABSENT;
    struct lf_sampling_defaults d = limits->sampling ? *limits->sampling : LF_SAMPLING_PLAIN;
    ask->sampling.temperature = (float)d.temperature;
    ask->sampling.top_p = (float)d.top_p;
    ask->sampling.min_p = (float)d.min_p;
    ask->sampling.repetition_penalty = (float)d.repetition_penalty;
    ask->top_k = d.top_k;
    lf_arena_init_in(&ask->arena, ARENA_CHUNK_BYTES, ARENA_BYTES, lf_work_memory(limits->work));
}

void lf_ask_drop_arguments(struct lf_ask *ask)
{
    for (size_t i = 0; i < ask->n_arguments; i++) lf_json_deinit(&ask->arguments[i]);
    for (size_t i = 0; i < ask->n_stored; i++) lf_json_deinit(&ask->stored[i]);
    for (size_t i = 0; i < ask->n_documents; i++) lf_document_unref(ask->source, ask->documents[i].document);
    ask->n_arguments = ask->n_documents = ask->n_stored = 0;
}

void lf_ask_deinit(struct lf_ask *ask)
{
    lf_ask_drop_arguments(ask);
    lf_response_unref(ask->responses, ask->previous);
    lf_response_unref(ask->responses, ask->response);
    ask->previous = ask->response = NULL; /* as with all else, a second time does nothing */
    lf_format_deinit(&ask->format);
    lf_arena_deinit(&ask->arena);
}

/* ---- refusals ---- */

enum lf_status lf_ask_expected(struct lf_reading *r, const char *name, struct lf_json_value v, const char *what)
{
    return lf_place_expected(r->err, name, v, what);
}

enum lf_status lf_ask_unsupported(struct lf_reading *r, const char *name)
{
    return lf_unsupported_refuse(r->err, name, false, NULL);
}

static enum lf_status refuse_unless_neutral(struct lf_reading *r, const struct lf_unsupported_field *f,
                                            struct lf_json_value v)
{
    if (lf_unsupported_is_neutral(f, v)) return LF_OK;
    return lf_unsupported_refuse(r->err, f->name, lf_unsupported_any_value(f), f->instead);
}

/* ---- values ---- */

enum lf_status lf_ask_text(struct lf_ask *ask, struct lf_str *out, struct lf_json_value v, const char *param,
                           struct lf_api_err *err)
{
    if (lf_json_type(v) != LF_JSON_STRING)
        return lf_refuse(err, 400, param, "invalid_value", "%s: expected a string, got %s.", param,
                         lf_shown_json(v).text);
    struct lf_buf text;
    lf_buf_init_in(&text, lf_json_raw(v).len, ask->arena.memory); /* unescaping never makes it longer */
    bool ok = lf_json_string(v, &text);
    char *copy = ok ? lf_arena_strdup(&ask->arena, lf_buf_view(&text)) : NULL;
    if (copy) *out = lf_str_from(copy, text.len);
    lf_buf_deinit(&text);
    return copy ? LF_OK : lf_refuse_work(err, LF_NO_MEMORY);
}

enum lf_status lf_ask_token_id(int32_t *out, struct lf_json_value v, int n_vocab, const char *param,
                               struct lf_api_err *err)
{
    int64_t id;
    if (!lf_json_int64(v, &id) || id < 0 || id >= n_vocab)
        return lf_refuse(err, 400, param, "invalid_token_id", "%s: expected a token id from 0 to %d, got %s.", param,
                         n_vocab - 1, lf_shown_json(v).text);
    *out = (int32_t)id;
    return LF_OK;
}

static enum lf_status read_number(struct lf_reading *r, const struct lf_field *f, struct lf_json_value v)
{
    char *at = (char *)r->ask + f->at;
    int64_t whole;
    double x;
    bool ok = f->kind == LF_FIELD_INT ? lf_json_int64(v, &whole) : lf_json_double(v, &x);
    if (ok && f->kind == LF_FIELD_INT) x = (double)whole;
    if (!ok || x < f->range[0] || x > f->range[1])
        return lf_refuse(r->err, 400, f->name, "invalid_value", "%s: expected %s from %.10g to %.10g, got %s.", f->name,
                         f->kind == LF_FIELD_INT ? "an integer" : "a number", f->range[0], f->range[1],
                         lf_shown_json(v).text);
    if (f->kind == LF_FIELD_INT)
        memcpy(at, &whole, sizeof whole);
    else
        *(float *)(void *)at = (float)x;
    return LF_OK;
}

static enum lf_status read_field(struct lf_reading *r, const struct lf_field *f, struct lf_json_value v)
{
    switch (f->kind) {
    case LF_FIELD_BOOL:
        if (lf_json_bool(v, (bool *)((char *)r->ask + f->at))) return LF_OK;
        return lf_ask_expected(r, f->name, v, "true or false");
    case LF_FIELD_INT:
    case LF_FIELD_FLOAT:
        return read_number(r, f, v);
    case LF_FIELD_READ:
        return f->read(r, f->name, v);
    }
    LF_ASSERT(false);
    return LF_INVALID;
}

enum lf_status lf_ask_read_model(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    return lf_ask_text(r->ask, &r->ask->model, v, name, r->err);
}

static enum lf_status add_stop(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    struct lf_str s;
    LF_TRY(lf_ask_text(ask, &s, v, name, r->err));
    if (s.len == 0 || s.len > LF_STOP_BYTES)
        return lf_refuse(r->err, 400, name, "invalid_value", "%s: each string has 1 to %d bytes, got %zu.", name,
                         LF_STOP_BYTES, s.len);
    ask->stops[ask->n_stops++] = s;
    return LF_OK;
}

enum lf_status lf_ask_read_stop(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) == LF_JSON_STRING) return add_stop(r, name, v);
    if (lf_json_type(v) != LF_JSON_ARRAY) return lf_ask_expected(r, name, v, "a string or an array of strings");
    if (lf_json_len(v) > LF_STOP_N)
        return lf_refuse(r->err, 400, name, "too_many_stops", "%s: at most %d strings, got %u.", name, LF_STOP_N,
                         lf_json_len(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        LF_TRY(add_stop(r, name, it));
    return LF_OK;
}

/* ---- fields ---- */

static const struct lf_field *find_field(const struct lf_field_table *table, unsigned asks, struct lf_str name)
{
    for (int i = 0; i < table->n_fields; i++) {
        const struct lf_field *f = &table->fields[i];
        if ((f->asks & asks) && lf_field_is(f->name, name)) return f;
    }
    return NULL;
}

static const struct lf_unsupported_field *find_unsupported(const struct lf_unsupported_table *table, unsigned asks,
                                                           struct lf_str name)
{
    for (; table; asks = table->also_asks, table = table->also) {
        for (int i = 0; i < table->n; i++) {
            const struct lf_unsupported_field *f = &table->rows[i];
            if ((f->asks & asks) && lf_field_is(f->name, name)) return f;
        }
    }
    return NULL;
}

/* The unescaped name, or "" where it is longer than any field's. */
static struct lf_str field_name(struct lf_json_value name, struct lf_buf *scratch)
{
    struct lf_str s;
    if (lf_json_borrow(name, &s)) return s;
    lf_buf_clear(scratch);
    return lf_json_string(name, scratch) ? lf_buf_view(scratch) : lf_str_from("", 0);
}

static enum lf_status read_member(struct lf_reading *r, const struct lf_field_table *table, unsigned asks,
                                  struct lf_str name, struct lf_json_value v)
{
    const struct lf_field *f = find_field(table, asks, name);
    const struct lf_unsupported_field *other = f ? NULL : find_unsupported(table->unsupported, asks, name);
    if (!f && !other) r->ask->n_unknown++;
    if (lf_json_is_absent(v)) return LF_OK;
    if (f) return read_field(r, f, v);
    return other ? refuse_unless_neutral(r, other, v) : LF_OK;
}

enum lf_status lf_ask_read_fields(struct lf_reading *r, const struct lf_field_table *table, unsigned asks,
                                  const struct lf_json *json)
{
    struct lf_json_value root = lf_json_root(json);
    struct lf_buf scratch;
    enum lf_status status = LF_OK;
    if (lf_json_type(root) != LF_JSON_OBJECT)
        return lf_refuse(r->err, 400, NULL, "invalid_json", "The body must be a JSON object, got %s.",
                         lf_shown_json(root).text);
    lf_buf_init(&scratch, LF_PARAM_BYTES);
    for (struct lf_json_value it = lf_json_first(root); status == LF_OK && lf_json_more(root, it);
         it = lf_json_next(root, it))
        status = read_member(r, table, asks, field_name(it, &scratch), lf_json_member(it));
    lf_buf_deinit(&scratch);
    return status;
}
