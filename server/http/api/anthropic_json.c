#include "server/http/api/anthropic_json.h"

#include "core/check.h"
#include "core/json.h"
#include "server/http/api/openai_json.h"

/* ---- what stream and whole have in common ---- */

static void write_message(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_buf_printf(out, "{\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", gen->id);
    lf_json_write_string(out, lf_str_c(gen->model));
    lf_buf_cstr(out, ",\"content\":[");
}

static void write_stop(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    bool length = strcmp(c->finish, "length") == 0;
    lf_buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":",
                  length                 ? "max_tokens"
                  : c->stop.matched >= 0 ? "stop_sequence"
                  : lf_choice_called(c)  ? "tool_use"
                                         : "end_turn");
    if (c->stop.matched >= 0)
        lf_json_write_string(out, gen->ask.stops[c->stop.matched]);
    else
        lf_buf_cstr(out, "null");
}

static void write_usage(struct lf_buf *out, const struct lf_generation *gen)
{
    struct lf_totals t = lf_totals_of(gen);
    lf_buf_printf(out,
                  "\"usage\":{\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%lld,"
                  "\"output_tokens\":%lld",
                  (long long)(t.n_prompt - t.n_cached), (long long)t.n_cached, (long long)t.n_completion);
    if (gen->has_reasoning)
        lf_buf_printf(out, ",\"output_tokens_details\":{\"thinking_tokens\":%lld}", (long long)t.n_reasoning);
    lf_buf_char(out, '}');
}

static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

static void error(struct lf_buf *out, const struct lf_api_err *err)
{
    lf_buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", error_type(err->status));
    lf_json_write_string(out, lf_str_c(err->message));
    /* Anthropic's client then sends the conversation whole */
    if (strcmp(err->param, "thread") == 0)
        lf_buf_cstr(out, ",\"details\":{\"error_code\":\"thread_unsupported_request\",\"unsupported\":[\"thread\"]}");
    lf_buf_cstr(out, "}}");
}

/* Of a block of thinking: opaque, and taken back unread. */
static struct lf_call_id signature_of(const struct lf_generation *gen, int idx, int block)
{
    return lf_call_id(gen, idx, -1 - block);
}

/* ---- a stream ---- */

static void begin_block(struct lf_buf *out, int block)
{
    lf_buf_printf(out,
                  "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":%d,"
                  "\"content_block\":{\"type\":",
                  block);
}

static void begin_text(struct lf_buf *out, int block)
{
    begin_block(out, block);
    lf_buf_cstr(out, "\"text\",\"text\":\"\"}}\n\n");
}

static void begin_stream(struct lf_buf *out, struct lf_generation *gen)
{
    lf_buf_cstr(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    write_message(out, gen);
    lf_buf_printf(out,
                  "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%lld,\"output_tokens\":0}}"
                  "}\n\n",
                  (long long)gen->n_prompt_tokens);
    if (!gen->choices[0].parser) begin_text(out, 0); /* there is no other block */
}

static void begin_delta(struct lf_buf *out, int block, const char *type)
{
    lf_buf_printf(out,
                  "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":%d,"
                  "\"delta\":{\"type\":\"%s",
                  block, type);
}

static void end_block(struct lf_buf *out, const struct lf_generation *gen, int block, enum lf_answer_kind kind)
{
    if (kind == LF_ANSWER_REASONING) {
        begin_delta(out, block, "signature_delta\",\"signature\":");
        lf_buf_printf(out, "\"%s\"}}\n\n", signature_of(gen, 0, block).text);
    }
    lf_buf_printf(out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":%d}\n\n", block);
}

static void next_block(struct lf_buf *out, const struct lf_generation *gen, const struct lf_part *part)
{
    if (part->block > 0) end_block(out, gen, part->block - 1, part->before);
    if (part->kind == LF_ANSWER_TEXT) {
        begin_text(out, part->block);
        return;
    }
    begin_block(out, part->block);
    if (part->kind == LF_ANSWER_REASONING) {
        lf_buf_cstr(out, "\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
        return;
    }
    lf_buf_printf(out, "\"tool_use\",\"id\":\"%s\",\"name\":", lf_call_id(gen, 0, part->call).text);
    lf_json_write_string(out, part->bytes);
    lf_buf_cstr(out, ",\"input\":{}}}\n\n");
}

static void delta(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    static const char *const types[] = {[LF_ANSWER_TEXT] = "text_delta\",\"text\":",
                                        [LF_ANSWER_REASONING] = "thinking_delta\",\"thinking\":",
                                        [LF_ANSWER_ARGUMENTS] = "input_json_delta\",\"partial_json\":"};
    if (part->begins && gen->choices[idx].parser) next_block(out, gen, part);
    if (part->kind == LF_ANSWER_CALL || part->kind == LF_ANSWER_CALL_END) return;
    begin_delta(out, part->block, types[part->kind]);
    lf_json_write_string(out, part->bytes);
    lf_buf_cstr(out, "}}\n\n");
}

/* The last block. There is always one, so that a reader of text finds some. */
static void end_blocks(struct lf_buf *out, const struct lf_generation *gen, const struct lf_choice *c)
{
    int block = LF_MAX(c->parts.n_blocks - 1, 0);
    if (c->parser && c->parts.n_blocks == 0) begin_text(out, 0);
    end_block(out, gen, block, c->parts.last < 0 ? LF_ANSWER_TEXT : (enum lf_answer_kind)c->parts.last);
}

static void finish(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    end_blocks(out, gen, &gen->choices[idx]);
    lf_buf_cstr(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
    write_stop(out, gen, idx);
    lf_buf_cstr(out, "},");
    write_usage(out, gen);
    lf_buf_cstr(out, "}\n\n");
}

static void end_stream(struct lf_buf *out, const struct lf_generation *gen)
{
    (void)gen;
    lf_buf_cstr(out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void error_event(struct lf_buf *out, const struct lf_api_err *err)
{
    lf_buf_cstr(out, "event: error\ndata: ");
    error(out, err);
    lf_buf_cstr(out, "\n\n");
}

static void ping(struct lf_buf *out, const struct lf_generation *gen)
{
    (void)gen;
    lf_buf_cstr(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

/* ---- whole ---- */

static void begin_whole(struct lf_buf *out, struct lf_generation *gen)
{
    write_message(out, gen);
}

static void open(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    (void)out;
    (void)gen;
    (void)idx;
}

static void end_whole_block(struct lf_buf *out, const struct lf_generation *gen, int idx, int block,
                            enum lf_answer_kind kind)
{
    if (kind == LF_ANSWER_TEXT)
        lf_buf_cstr(out, "\"}");
    else if (kind == LF_ANSWER_REASONING)
        lf_buf_printf(out, "\",\"signature\":\"%s\"}", signature_of(gen, idx, block).text);
    else
        lf_buf_char(out, '}');
}

static void next_whole_block(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    if (part->block > 0) {
        end_whole_block(out, gen, idx, part->block - 1, part->before);
        lf_buf_char(out, ',');
    }
    if (part->kind == LF_ANSWER_TEXT) {
        lf_buf_cstr(out, "{\"type\":\"text\",\"text\":\"");
        return;
    }
    if (part->kind == LF_ANSWER_REASONING) {
        lf_buf_cstr(out, "{\"type\":\"thinking\",\"thinking\":\"");
        return;
    }
    lf_buf_printf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", lf_call_id(gen, idx, part->call).text);
    lf_json_write_string(out, part->bytes);
    lf_buf_cstr(out, ",\"input\":");
    if (part->call >= gen->choices[idx].shape.n_whole_calls) lf_buf_cstr(out, "{}");
}

/* A call that was cut has no input: what there is of it is no JSON. */
static void write_part(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    if (part->begins) next_whole_block(out, gen, idx, part);
    if (part->kind == LF_ANSWER_TEXT || part->kind == LF_ANSWER_REASONING)
        lf_json_write_escaped(out, part->bytes);
    else if (part->kind == LF_ANSWER_ARGUMENTS && part->call < gen->choices[idx].shape.n_whole_calls)
        lf_buf_str(out, part->bytes);
}

static void shut(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_parts *parts = &gen->choices[idx].parts;
    if (parts->n_blocks)
        end_whole_block(out, gen, idx, parts->n_blocks - 1, (enum lf_answer_kind)parts->last);
    else
        lf_buf_cstr(out, "{\"type\":\"text\",\"text\":\"\"}");
    lf_buf_cstr(out, "],");
}

static void end_whole(struct lf_buf *out, const struct lf_generation *gen)
{
    struct lf_totals t = lf_totals_of(gen);
    lf_buf_char(out, ',');
    write_usage(out, gen);
    lf_buf_char(out, ',');
    lf_openai_write_timings(out, gen, &t);
    lf_buf_char(out, '}');
}

const struct lf_printer lf_anthropic_stream = {
    .begin = begin_stream,
    .delta = delta,
    .finish = finish,
    .end = end_stream,
    .error = error_event,
    .nothing = ping,
};
const struct lf_printer lf_anthropic_whole = {
    .begin = begin_whole,
    .open = open,
    .delta = write_part,
    .shut = shut,
    .finish = write_stop,
    .end = end_whole,
    .error = error,
};
