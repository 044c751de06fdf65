#include "server/http/openai_request.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/work.h"
#include "server/http/messages.h"
#include "server/http/unsupported_fields.h"

enum { ARENA_CHUNK_BYTES = 16 * 1024, ARENA_BYTES = 1024 * 1024 * 1024, SHOWN_DIGITS_N = 24 };

struct reading {
    struct lf_ask *ask;
    const struct lf_ask_limits *limits;
    struct lf_api_err *err;
};

typedef enum lf_status read_fn(struct reading *r, const char *name, struct lf_json_value v);

/* BOOL, INT, FLOAT: stored there in the ask, numbers within the range, its ends included. READ: by a function. */
enum field_kind { BOOL, INT, FLOAT, READ };

struct field {
    const char *name;
    unsigned asks; /* of enum lf_ask_kind */
    enum field_kind kind;
    size_t at;
    double range[2];
    read_fn *read;
};

enum { GEN = LF_ASK_COMPLETION | LF_ASK_CHAT, TEXT = LF_ASK_COMPLETION | LF_ASK_TOKENIZE };
enum { TALK = LF_ASK_CHAT | LF_ASK_TOKENIZE, ALL = GEN | LF_ASK_TOKENIZE | LF_ASK_DETOKENIZE };

static read_fn read_model, read_prompt, read_messages, read_tokens, read_template_vars, read_stream_options,
    read_logit_bias, read_stop, read_stop_token_ids, read_cache_salt, read_seed, read_completion_logprobs,
    read_response_format, read_tool_choice, read_modalities;

#define AT(member) offsetof(struct lf_ask, member)

/* What is implemented, and what a function must look at to say that it is not. The rest is in unsupported_fields.c. */
static const struct field fields[] = {
    {.name = "model", .asks = ALL, .kind = READ, .read = read_model},
    {.name = "prompt", .asks = TEXT, .kind = READ, .read = read_prompt},
    {.name = "content", .asks = LF_ASK_TOKENIZE, .kind = READ, .read = read_prompt},
    {.name = "messages", .asks = TALK, .kind = READ, .read = read_messages},
    {.name = "tokens", .asks = LF_ASK_DETOKENIZE, .kind = READ, .read = read_tokens},
    {.name = "chat_template_kwargs", .asks = TALK, .kind = READ, .read = read_template_vars},
    {.name = "add_generation_prompt", .asks = TALK, .kind = BOOL, .at = AT(add_generation_prompt)},
    {.name = "stream", .asks = GEN, .kind = BOOL, .at = AT(stream)},
    {.name = "stream_options", .asks = GEN, .kind = READ, .read = read_stream_options},
    {.name = "return_progress", .asks = GEN, .kind = BOOL, .at = AT(return_progress)},
    {.name = "echo", .asks = LF_ASK_COMPLETION, .kind = BOOL, .at = AT(echo)},
    {.name = "add_special_tokens", .asks = TEXT, .kind = BOOL, .at = AT(add_special_tokens)},
    {.name = "parse_special", .asks = TEXT, .kind = BOOL, .at = AT(parse_special)},
    {.name = "logprobs", .asks = LF_ASK_COMPLETION, .kind = READ, .read = read_completion_logprobs},
    {.name = "logprobs", .asks = LF_ASK_CHAT, .kind = BOOL, .at = AT(chat_logprobs)},
    {.name = "top_logprobs", .asks = LF_ASK_CHAT, .kind = INT, .at = AT(top_logprobs), .range = {0, LF_TOP_LOGPROBS_N}},
    {.name = "n", .asks = GEN, .kind = INT, .at = AT(n), .range = {1, 128}},
    {.name = "best_of", .asks = GEN, .kind = INT, .at = AT(best_of), .range = {1, 128}},
    {.name = "max_tokens", .asks = GEN, .kind = INT, .at = AT(max_tokens), .range = {0, LF_CONTEXT_TOKENS}},
    {.name = "max_completion_tokens",
     .asks = GEN,
     .kind = INT,
     .at = AT(max_completion_tokens),
     .range = {0, LF_CONTEXT_TOKENS}},
    {.name = "min_tokens", .asks = GEN, .kind = INT, .at = AT(min_tokens), .range = {0, LF_CONTEXT_TOKENS}},
    {.name = "ignore_eos", .asks = GEN, .kind = BOOL, .at = AT(ignore_eos)},
    {.name = "temperature", .asks = GEN, .kind = FLOAT, .at = AT(sampling.temperature), .range = {0, 2}},
    {.name = "top_p", .asks = GEN, .kind = FLOAT, .at = AT(sampling.top_p), .range = {0, 1}},
    {.name = "min_p", .asks = GEN, .kind = FLOAT, .at = AT(sampling.min_p), .range = {0, 1}},
    {.name = "top_k", .asks = GEN, .kind = INT, .at = AT(top_k), .range = {-1, LF_VOCAB_N}},
    {.name = "presence_penalty", .asks = GEN, .kind = FLOAT, .at = AT(sampling.presence_penalty), .range = {-2, 2}},
    {.name = "frequency_penalty", .asks = GEN, .kind = FLOAT, .at = AT(sampling.frequency_penalty), .range = {-2, 2}},
    {.name = "repetition_penalty",
     .asks = GEN,
     .kind = FLOAT,
     .at = AT(sampling.repetition_penalty),
     .range = {0.01, 100}},
    {.name = "seed", .asks = GEN, .kind = READ, .read = read_seed},
    {.name = "logit_bias", .asks = GEN, .kind = READ, .read = read_logit_bias},
    {.name = "stop", .asks = GEN, .kind = READ, .read = read_stop},
    {.name = "stop_token_ids", .asks = GEN, .kind = READ, .read = read_stop_token_ids},
    {.name = "cache_salt", .asks = GEN, .kind = READ, .read = read_cache_salt},
    {.name = "priority", .asks = GEN, .kind = INT, .at = AT(priority), .range = {-1000000, 1000000}},
    {.name = "response_format", .asks = GEN, .kind = READ, .read = read_response_format},
    {.name = "tool_choice", .asks = GEN, .kind = READ, .read = read_tool_choice},
    {.name = "function_call", .asks = GEN, .kind = READ, .read = read_tool_choice},
    {.name = "modalities", .asks = GEN, .kind = READ, .read = read_modalities},
};

static enum lf_status expected(struct reading *r, const char *name, struct lf_json_value v, const char *what)
{
    return lf_refuse(r->err, 400, name, "invalid_value", "%s: expected %s, got %s.", name, what, lf_json_type_name(v));
}

/* ---- the plain kinds ---- */

static enum lf_status read_number(struct reading *r, const struct field *f, struct lf_json_value v)
{
    char *at = (char *)r->ask + f->at;
    int64_t whole;
    double x;
    bool ok = f->kind == INT ? lf_json_int64(v, &whole) : lf_json_double(v, &x);
    if (ok && f->kind == INT) x = (double)whole;
    if (!ok || x < f->range[0] || x > f->range[1]) {
        struct lf_str got = lf_str_c(lf_json_type_name(v));
        if (lf_json_type(v) == LF_JSON_NUMBER)
            got = lf_json_raw(v).len <= SHOWN_DIGITS_N ? lf_json_raw(v) : LF_STR("another number");
        return lf_refuse(r->err, 400, f->name, "invalid_value", "%s: expected %s from %.10g to %.10g, got %.*s.",
                         f->name, f->kind == INT ? "an integer" : "a number", f->range[0], f->range[1], (int)got.len,
                         got.ptr);
    }
    if (f->kind == INT)
        memcpy(at, &whole, sizeof whole);
    else
        *(float *)(void *)at = (float)x;
    return LF_OK;
}

static enum lf_status unsupported(struct reading *r, const char *name, bool with_any_value, const char *instead)
{
    return lf_refuse(r->err, 400, name, "unsupported_parameter",
                     "%s: not implemented%s, and ignoring it would change the answer%s%s.", name,
                     with_any_value ? "" : " with this value", instead ? "; here that is " : "",
                     instead ? instead : "");
}

static enum lf_status refuse_unless_neutral(struct reading *r, const struct lf_unsupported_field *f,
                                            struct lf_json_value v)
{
    if (lf_unsupported_is_neutral(f, v)) return LF_OK;
    return unsupported(r, f->name, f->neutral == LF_NEUTRAL_NONE || f->neutral == LF_NEUTRAL_EMPTY, f->instead);
}

static enum lf_status read_field(struct reading *r, const struct field *f, struct lf_json_value v)
{
    switch (f->kind) {
    case BOOL:
        if (lf_json_bool(v, (bool *)((char *)r->ask + f->at))) return LF_OK;
        return expected(r, f->name, v, "true or false");
    case INT:
    case FLOAT:
        return read_number(r, f, v);
    case READ:
        return f->read(r, f->name, v);
    }
    LF_ASSERT(false);
    return LF_INVALID;
}

/* ---- the fields that need a function ---- */

enum lf_status lf_ask_text(struct lf_ask *ask, struct lf_str *out, struct lf_json_value v, const char *param,
                           struct lf_api_err *err)
{
    if (lf_json_type(v) != LF_JSON_STRING)
        return lf_refuse(err, 400, param, "invalid_value", "%s: expected a string, got %s.", param,
                         lf_json_type_name(v));
    struct lf_buf text;
    lf_buf_init_in(&text, lf_json_raw(v).len, ask->arena.memory); /* unescaping never makes it longer */
    bool ok = lf_json_string(v, &text);
    char *copy = ok ? lf_arena_strdup(&ask->arena, lf_buf_view(&text)) : NULL;
    if (copy) *out = lf_str_from(copy, text.len);
    lf_buf_deinit(&text);
    return copy ? LF_OK : lf_refuse_work(err, LF_NO_MEMORY);
}

static enum lf_status read_model(struct reading *r, const char *name, struct lf_json_value v)
{
    return lf_ask_text(r->ask, &r->ask->model, v, name, r->err);
}

static enum lf_status read_prompt(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_STRING && lf_json_type(v) != LF_JSON_ARRAY)
        return expected(r, name, v, "a string or an array");
    r->ask->prompt = v;
    return LF_OK;
}

static enum lf_status read_messages(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY || lf_json_len(v) == 0)
        return expected(r, name, v, "an array with at least one message");
    if (lf_json_len(v) > LF_MESSAGES_N)
        return lf_refuse(r->err, 400, name, "too_many_messages", "messages: at most %d, got %u.", LF_MESSAGES_N,
                         lf_json_len(v));
    return lf_messages_read(&r->ask->messages, &r->ask->n_messages, v, r->limits->keep_developer, &r->ask->arena,
                            r->err);
}

static enum lf_status read_tokens(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY) return expected(r, name, v, "an array of token ids");
    r->ask->tokens = v;
    return LF_OK;
}

static enum lf_status read_template_vars(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_OBJECT) return expected(r, name, v, "an object");
    r->ask->template_vars = v;
    return LF_OK;
}

static enum lf_status read_stream_options(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_OBJECT) return expected(r, name, v, "an object");
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        struct lf_json_value flag = lf_json_member(it);
        if (lf_json_string_is(it, "include_obfuscation") || lf_json_is_absent(flag)) continue;
        if (lf_json_string_is(it, "continuous_usage_stats"))
            continue; /* load generators send it; the last chunk has it */
        if (!lf_json_string_is(it, "include_usage"))
            r->ask->n_unknown++;
        else if (!lf_json_bool(flag, &r->ask->include_usage))
            return expected(r, "stream_options.include_usage", flag, "true or false");
    }
    return LF_OK;
}

static enum lf_status read_seed(struct reading *r, const char *name, struct lf_json_value v)
{
    if (!lf_json_int64(v, &r->ask->seed)) return expected(r, name, v, "an integer of 64 bits");
    r->ask->seed_given = true;
    return LF_OK;
}

static enum lf_status read_completion_logprobs(struct reading *r, const char *name, struct lf_json_value v)
{
    int64_t n;
    if (!lf_json_int64(v, &n) || n < 0 || n > LF_TOP_LOGPROBS_N) return expected(r, name, v, "an integer from 0 to 20");
    r->ask->logprobs = n;
    return LF_OK;
}

enum lf_status lf_ask_token_id(int32_t *out, struct lf_json_value v, int n_vocab, const char *param,
                               struct lf_api_err *err)
{
    int64_t id;
    if (!lf_json_int64(v, &id) || id < 0 || id >= n_vocab)
        return lf_refuse(err, 400, param, "invalid_token_id", "%s: expected a token id from 0 to %d.", param,
                         n_vocab - 1);
    *out = (int32_t)id;
    return LF_OK;
}

/* "123" as an id of the vocabulary: digits only, no leading zero. */
static bool id_from_name(struct lf_json_value name, int n_vocab, int32_t *out)
{
    struct lf_str s;
    int64_t id = 0;
    if (!lf_json_borrow(name, &s) || s.len == 0 || s.len > 9 || (s.len > 1 && s.ptr[0] == '0')) return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') return false;
        id = id * 10 + (s.ptr[i] - '0');
    }
    *out = (int32_t)id;
    return id < n_vocab;
}

static enum lf_status read_logit_bias(struct reading *r, const char *name, struct lf_json_value v)
{
    struct lf_sampling *s = &r->ask->sampling;
    if (lf_json_type(v) != LF_JSON_OBJECT) return expected(r, name, v, "an object from token ids to numbers");
    if (lf_json_len(v) > LF_LOGIT_BIAS_N)
        return lf_refuse(r->err, 400, name, "too_many_biases", "logit_bias: at most %d, got %u.", LF_LOGIT_BIAS_N,
                         lf_json_len(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        int32_t id;
        double bias;
        if (!id_from_name(it, r->limits->n_vocab, &id))
            return lf_refuse(r->err, 400, name, "invalid_token_id", "logit_bias: expected token ids from 0 to %d.",
                             r->limits->n_vocab - 1);
        if (!lf_json_double(lf_json_member(it), &bias) || bias < -100 || bias > 100)
            return expected(r, name, lf_json_member(it), "numbers from -100 to 100");
        s->bias[s->n_bias++] = (struct lf_logit_bias){id, (float)bias};
    }
    return LF_OK;
}

static enum lf_status add_stop(struct reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    struct lf_str s;
    LF_TRY(lf_ask_text(ask, &s, v, name, r->err));
    if (s.len == 0 || s.len > LF_STOP_BYTES)
        return lf_refuse(r->err, 400, name, "invalid_value", "stop: each string has 1 to %d bytes, got %zu.",
                         LF_STOP_BYTES, s.len);
    ask->stops[ask->n_stops++] = s;
    return LF_OK;
}

static enum lf_status read_stop(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) == LF_JSON_STRING) return add_stop(r, name, v);
    if (lf_json_type(v) != LF_JSON_ARRAY) return expected(r, name, v, "a string or an array of strings");
    if (lf_json_len(v) > LF_STOP_N)
        return lf_refuse(r->err, 400, name, "too_many_stops", "stop: at most %d strings, got %u.", LF_STOP_N,
                         lf_json_len(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        LF_TRY(add_stop(r, name, it));
    return LF_OK;
}

static enum lf_status read_stop_token_ids(struct reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    if (lf_json_type(v) != LF_JSON_ARRAY) return expected(r, name, v, "an array of token ids");
    if (lf_json_len(v) > LF_STOP_TOKENS_N)
        return lf_refuse(r->err, 400, name, "too_many_stops", "stop_token_ids: at most %d, got %u.", LF_STOP_TOKENS_N,
                         lf_json_len(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        LF_TRY(lf_ask_token_id(&ask->stop_tokens[ask->n_stop_tokens++], it, r->limits->n_vocab, name, r->err));
    return LF_OK;
}

static enum lf_status read_cache_salt(struct reading *r, const char *name, struct lf_json_value v)
{
    LF_TRY(lf_ask_text(r->ask, &r->ask->cache_salt, v, name, r->err));
    if (r->ask->cache_salt.len == 0 || r->ask->cache_salt.len > LF_CACHE_SALT_BYTES)
        return lf_refuse(r->err, 400, name, "invalid_value", "cache_salt: expected 1 to %d bytes, got %zu.",
                         LF_CACHE_SALT_BYTES, r->ask->cache_salt.len);
    return LF_OK;
}

static enum lf_status read_response_format(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_OBJECT) return expected(r, name, v, "an object");
    return lf_json_string_is(lf_json_get(v, "type"), "text") ? LF_OK : unsupported(r, name, false, NULL);
}

static enum lf_status read_tool_choice(struct reading *r, const char *name, struct lf_json_value v)
{
    return lf_json_string_is(v, "none") ? LF_OK : unsupported(r, name, false, NULL);
}

static enum lf_status read_modalities(struct reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY) return expected(r, name, v, "an array of strings");
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        if (!lf_json_string_is(it, "text")) return unsupported(r, name, false, NULL);
    return LF_OK;
}

/* ---- what holds between fields ---- */

static enum lf_status check_lengths(struct lf_ask *ask, struct lf_api_err *err)
{
    if (ask->max_tokens != LF_ABSENT && ask->max_completion_tokens != LF_ABSENT &&
        ask->max_tokens != ask->max_completion_tokens)
        return lf_refuse(err, 400, "max_tokens", "invalid_value",
                         "max_tokens and max_completion_tokens contradict each other.");
    const char *name = ask->max_tokens != LF_ABSENT ? "max_tokens" : "max_completion_tokens";
    if (ask->max_tokens == LF_ABSENT) ask->max_tokens = ask->max_completion_tokens;
    if (ask->kind == LF_ASK_CHAT && ask->max_tokens == 0)
        return lf_refuse(err, 400, name, "invalid_value", "%s: expected at least 1.", name);
    if (ask->max_tokens != LF_ABSENT && ask->min_tokens > ask->max_tokens)
        return lf_refuse(err, 400, "min_tokens", "invalid_value",
                         "min_tokens: more than the largest length asked for.");
    return LF_OK;
}

static enum lf_status check_together(struct lf_ask *ask, const struct lf_ask_limits *limits, bool stream_options,
                                     struct lf_api_err *err)
{
    LF_TRY(check_lengths(ask, err));
    if (stream_options && !ask->stream)
        return lf_refuse(err, 400, "stream_options", "invalid_value", "stream_options: only together with stream.");
    if (ask->n > limits->max_choices)
        return lf_refuse(err, 400, "n", "invalid_value", "n: this server gives at most %d choices.",
                         limits->max_choices);
    if (ask->best_of != LF_ABSENT && ask->best_of != ask->n)
        return lf_refuse(err, 400, "best_of", "unsupported_parameter", "best_of: must equal n, nothing is ranked.");
    if (ask->top_logprobs != LF_ABSENT && !ask->chat_logprobs)
        return lf_refuse(err, 400, "top_logprobs", "invalid_value", "top_logprobs: only together with logprobs.");
    if (ask->kind == LF_ASK_CHAT && ask->chat_logprobs)
        ask->logprobs = ask->top_logprobs == LF_ABSENT ? 0 : ask->top_logprobs;
    ask->sampling.top_k = ask->top_k < 0 ? 0 : (int32_t)ask->top_k;
    return LF_OK;
}

static const struct field *find_field(enum lf_ask_kind kind, struct lf_str name)
{
    for (size_t i = 0; i < LF_N_ELEMS(fields); i++)
        if ((fields[i].asks & (unsigned)kind) && lf_field_is(fields[i].name, name)) return &fields[i];
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

static enum lf_status read_fields(struct reading *r, struct lf_json_value root, bool *stream_options)
{
    struct lf_ask *ask = r->ask;
    struct lf_buf scratch;
    enum lf_status status = LF_OK;
    lf_buf_init(&scratch, LF_PARAM_BYTES);
    for (struct lf_json_value it = lf_json_first(root); lf_json_more(root, it); it = lf_json_next(root, it)) {
        struct lf_json_value v = lf_json_member(it);
        struct lf_str name = field_name(it, &scratch);
        const struct field *f = find_field(ask->kind, name);
        const struct lf_unsupported_field *other = f ? NULL : lf_unsupported_find(ask->kind, name);
        if (!f && !other) ask->n_unknown++;
        if (lf_json_is_absent(v)) continue;
        if (f && f->read == read_stream_options) *stream_options = true;
        if (f) LF_TRY_GOTO(read_field(r, f, v), done);
        if (other) LF_TRY_GOTO(refuse_unless_neutral(r, other, v), done);
    }
done:
    lf_buf_deinit(&scratch);
    return status;
}

static void set_defaults(struct lf_ask *ask, enum lf_ask_kind kind)
{
    *ask = (struct lf_ask){
        .kind = kind, .n = 1, .add_special_tokens = true, .parse_special = true, .add_generation_prompt = true};
    ask->best_of = ask->logprobs = ask->top_logprobs = LF_ABSENT;
    ask->max_tokens = ask->max_completion_tokens = LF_ABSENT;
    ask->sampling.temperature = ask->sampling.top_p = ask->sampling.repetition_penalty = 1;
}

enum lf_status lf_ask_read(struct lf_ask *ask, enum lf_ask_kind kind, const struct lf_json *json,
                           const struct lf_ask_limits *limits, struct lf_api_err *err)
{
    set_defaults(ask, kind);
    lf_arena_init_in(&ask->arena, ARENA_CHUNK_BYTES, ARENA_BYTES, lf_work_memory(limits->work));
    struct lf_json_value root = lf_json_root(json);
    if (lf_json_type(root) != LF_JSON_OBJECT)
        return lf_refuse(err, 400, NULL, "invalid_json", "The body must be a JSON object, got %s.",
                         lf_json_type_name(root));
    struct reading r = {ask, limits, err};
    bool stream_options = false;
    LF_TRY(read_fields(&r, root, &stream_options));
    return check_together(ask, limits, stream_options, err);
}

void lf_ask_deinit(struct lf_ask *ask)
{
    lf_arena_deinit(&ask->arena);
}
