#include "server/http/api/responses_json.h"

#include <stdio.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/text_memory.h"
#include "server/http/api/openai_json.h"
#include "server/http/api/response_store.h"

/* What has been printed of a stream, as JSON. */
struct kept {
    struct lf_buf items; /* those that are done, with commas */
    struct lf_buf name;  /* of the call in hand, quoted */
    struct lf_buf text;  /* of the item in hand, escaped, without its quotes */
    int n_events;
};

void lf_responses_forget(struct lf_generation *gen)
{
    struct kept *kept = gen->kept;
    if (!kept) return;
    lf_buf_deinit(&kept->items);
    lf_buf_deinit(&kept->name);
    lf_buf_deinit(&kept->text);
    lf_text_free(gen->memory, kept);
    gen->kept = NULL;
}

/* ---- items ---- */

/* A kind of block, as an item. */
struct item_form {
    const char *id, *type;
    const char *begin, *end;         /* around its content */
    const char *part, *part_end;     /* around the text, which is a part of the content; NULL: it is all of it */
    const char *delta, *done, *text; /* its events, and what the text is called in the last of them */
};

static const struct item_form *form_of(enum lf_answer_kind kind)
{
    static const struct item_form message = {
        .id = "msg",
        .type = "message",
        .begin = "\"role\":\"assistant\",\"content\":[",
        .end = "]",
        .part = "{\"type\":\"output_text\",\"text\":\"",
        .part_end = "\",\"annotations\":[],\"logprobs\":[]}",
        .delta = "response.output_text.delta",
        .done = "response.output_text.done",
        .text = "text",
    };
    static const struct item_form reasoning = {
        .id = "rs",
        .type = "reasoning",
        .begin = "\"summary\":[],\"content\":[",
        .end = "]",
        .part = "{\"type\":\"reasoning_text\",\"text\":\"",
        .part_end = "\"}",
        .delta = "response.reasoning_text.delta",
        .done = "response.reasoning_text.done",
        .text = "text",
    };
    static const struct item_form call = {
        .id = "fc",
        .type = "function_call",
        .begin = "\"arguments\":\"",
        .end = "\"",
        .delta = "response.function_call_arguments.delta",
        .done = "response.function_call_arguments.done",
        .text = "arguments",
    };
    return kind == LF_ANSWER_TEXT ? &message : kind == LF_ANSWER_REASONING ? &reasoning : &call;
}

static void write_item_id(struct lf_buf *out, const struct lf_generation *gen, const struct item_form *form, int block)
{
    lf_buf_printf(out, "\"%s_%s_%d\"", form->id, gen->id, block);
}

/* Up to its content. name: of a call, quoted; which call it is, is its block's number. */
static void begin_item(struct lf_buf *out, const struct lf_generation *gen, const struct item_form *form, int block,
                       struct lf_str name)
{
    lf_buf_cstr(out, "{\"id\":");
    write_item_id(out, gen, form, block);
    lf_buf_printf(out, ",\"type\":\"%s\",", form->type);
    if (!form->part) {
        lf_buf_printf(out, "\"call_id\":\"%s\",\"name\":", lf_call_id(gen, 0, block).text);
        lf_buf_str(out, name);
        lf_buf_char(out, ',');
    }
    lf_buf_cstr(out, form->begin);
}

static void end_item(struct lf_buf *out, const struct item_form *form, const char *status)
{
    lf_buf_printf(out, "%s,\"status\":\"%s\"}", form->end, status);
}

static void write_part(struct lf_buf *out, const struct item_form *form, struct lf_str text)
{
    lf_buf_cstr(out, form->part);
    lf_buf_str(out, text);
    lf_buf_cstr(out, form->part_end);
}

static void write_item(struct lf_buf *out, const struct lf_generation *gen, const struct item_form *form, int block,
                       const char *status)
{
    const struct kept *kept = gen->kept;
    begin_item(out, gen, form, block, lf_buf_view(&kept->name));
    if (form->part)
        write_part(out, form, lf_buf_view(&kept->text));
    else
        lf_buf_str(out, lf_buf_view(&kept->text));
    end_item(out, form, status);
}

/* How the last item of an answer ended: one that was cut says so. */
static const char *last_status(const struct lf_choice *c)
{
    bool cut_call = c->shape.n_whole_calls < c->shape.n_calls;
    return strcmp(c->finish, "length") == 0 || cut_call ? "incomplete" : "completed";
}

static enum lf_answer_kind last_kind(const struct lf_choice *c)
{
    return c->parts.last < 0 ? LF_ANSWER_TEXT : (enum lf_answer_kind)c->parts.last;
}

/* ---- the response ---- */

/* Up to its output. */
static void begin_response(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_buf_printf(out, "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld,\"model\":", gen->id,
                  (long long)gen->created_s);
    lf_json_write_string(out, lf_str_c(gen->model));
    lf_buf_char(out, ',');
    lf_buf_str(out, gen->ask.repeated);
    lf_buf_cstr(out, ",\"output\":[");
}

static const char *status_of(const struct lf_choice *c)
{
    return strcmp(c->finish, "length") == 0 ? "incomplete" : "completed";
}

/* Behind its output, but for what it cost. */
static void write_status(struct lf_buf *out, const char *status)
{
    bool is_cut = strcmp(status, "incomplete") == 0;
    lf_buf_printf(out, "],\"status\":\"%s\",\"error\":null,\"incomplete_details\":%s,", status,
                  is_cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
}

static void end_response(struct lf_buf *out, const struct lf_generation *gen)
{
    struct lf_totals t = lf_totals_of(gen);
    lf_buf_printf(out,
                  "\"usage\":{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld,"
                  "\"cache_write_tokens\":0},\"output_tokens\":%lld,\"output_tokens_details\":{\"reasoning_tokens\":"
                  "%lld},\"total_tokens\":%lld},",
                  (long long)t.n_prompt, (long long)t.n_cached, (long long)t.n_completion, (long long)t.n_reasoning,
                  (long long)(t.n_prompt + t.n_completion));
    lf_openai_write_timings(out, gen, &t);
    lf_buf_char(out, '}');
}

/* ---- storing it: what is written of a response is copied, piece by piece ---- */

static void begin_copy(const struct lf_generation *gen)
{
    enum { TOKEN_BYTES = 8, BESIDE_BYTES = 2048 };
    struct lf_request_state st;
    if (!gen->ask.response) return;
    lf_request_snapshot(gen->choices[0].req, &st);
    lf_response_reserve_text(gen->ask.responses, gen->ask.response,
                             (size_t)st.n_tokens * TOKEN_BYTES + gen->ask.repeated.len + BESIDE_BYTES);
}

/* What was written behind `from`. */
static void copy(const struct lf_generation *gen, const struct lf_buf *out, size_t from)
{
    if (!gen->ask.response) return;
    struct lf_buf *text = lf_response_text_buf(gen->ask.response);
    if (out->status == LF_OK)
        lf_buf_append(text, out->ptr + from, out->len - from);
    else
        text->status = out->status;
}

static void copy_beginning(const struct lf_generation *gen, const struct lf_buf *out, size_t from)
{
    copy(gen, out, from);
    if (gen->ask.response) lf_response_begin_output(gen->ask.response);
}

/* Of what follows the output. */
static void copy_status(const struct lf_generation *gen, const struct lf_buf *out, size_t from)
{
    if (gen->ask.response) lf_response_end_output(gen->ask.response);
    copy(gen, out, from);
}

static void end_copy(const struct lf_generation *gen, const struct lf_buf *out, size_t from)
{
    char id[LF_RESPONSE_ID_BYTES];
    copy(gen, out, from);
    if (!gen->ask.response) return;
    snprintf(id, sizeof id, "resp_%s", gen->id);
    lf_response_put(gen->ask.responses, gen->ask.response, id, lf_clock_unix_s());
}

/* ---- a stream ---- */

static void begin_event(struct lf_buf *out, const struct lf_generation *gen, const char *type)
{
    struct kept *kept = gen->kept;
    lf_buf_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d,", type, type, kept->n_events++);
}

static void end_event(struct lf_buf *out)
{
    lf_buf_cstr(out, "}\n\n");
}

/* An event with the response as it is before there is anything of it. */
static void write_begun(struct lf_buf *out, const struct lf_generation *gen, const char *type)
{
    begin_event(out, gen, type);
    lf_buf_cstr(out, "\"response\":");
    begin_response(out, gen);
    write_status(out, "in_progress");
    lf_buf_cstr(out, "\"usage\":null}");
    end_event(out);
}

static void begin_stream(struct lf_buf *out, struct lf_generation *gen)
{
    struct kept *kept = lf_text_alloc_zeroed(gen->memory, sizeof *kept);
    if (!kept) {
        out->status = LF_NO_MEMORY;
        return;
    }
    lf_buf_init_in(&kept->items, LF_REPLY_BYTES, gen->memory);
    lf_buf_init_in(&kept->name, LF_REPLY_BYTES, gen->memory);
    lf_buf_init_in(&kept->text, LF_REPLY_BYTES, gen->memory);
    gen->kept = kept;
    write_begun(out, gen, "response.created");
    write_begun(out, gen, "response.in_progress");
}

static void begin_item_event(struct lf_buf *out, const struct lf_generation *gen, const char *type, int block)
{
    begin_event(out, gen, type);
    lf_buf_printf(out, "\"output_index\":%d,\"item\":", block);
}

/* An event of the text of an item: what it says follows. */
static void begin_text_event(struct lf_buf *out, const struct lf_generation *gen, const struct item_form *form,
                             const char *type, int block)
{
    begin_event(out, gen, type);
    lf_buf_cstr(out, "\"item_id\":");
    write_item_id(out, gen, form, block);
    lf_buf_printf(out, ",\"output_index\":%d,", block);
    if (form->part) lf_buf_cstr(out, "\"content_index\":0,");
}

static void write_part_event(struct lf_buf *out, const struct lf_generation *gen, const struct item_form *form,
                             const char *type, int block, struct lf_str text)
{
    begin_text_event(out, gen, form, type, block);
    lf_buf_cstr(out, "\"part\":");
    write_part(out, form, text);
    end_event(out);
}

/* Of text an event has log-probabilities, which are none. */
static void end_text_event(struct lf_buf *out, const struct item_form *form)
{
    lf_buf_cstr(out, form == form_of(LF_ANSWER_TEXT) ? ",\"logprobs\":[]" : "");
    end_event(out);
}

static void open_item(struct lf_buf *out, const struct lf_generation *gen, enum lf_answer_kind kind, int block)
{
    const struct item_form *form = form_of(kind);
    const struct kept *kept = gen->kept;
    begin_item_event(out, gen, "response.output_item.added", block);
    begin_item(out, gen, form, block, lf_buf_view(&kept->name));
    end_item(out, form, "in_progress");
    end_event(out);
    if (form->part) write_part_event(out, gen, form, "response.content_part.added", block, LF_STR(""));
}

static void close_item(struct lf_buf *out, const struct lf_generation *gen, enum lf_answer_kind kind, int block,
                       const char *status)
{
    const struct item_form *form = form_of(kind);
    struct kept *kept = gen->kept;
    struct lf_str text = lf_buf_view(&kept->text);
    begin_text_event(out, gen, form, form->done, block);
    if (!form->part) lf_buf_printf(out, "\"name\":%s,", kept->name.ptr ? kept->name.ptr : "\"\"");
    lf_buf_printf(out, "\"%s\":\"", form->text);
    lf_buf_str(out, text);
    lf_buf_char(out, '"');
    end_text_event(out, form);
    if (form->part) write_part_event(out, gen, form, "response.content_part.done", block, text);
    begin_item_event(out, gen, "response.output_item.done", block);
    write_item(out, gen, form, block, status);
    end_event(out);
    if (kept->items.len) lf_buf_char(&kept->items, ',');
    write_item(&kept->items, gen, form, block, status);
    lf_buf_clear(&kept->text);
    lf_buf_clear(&kept->name);
}

/* What could not be kept is missing from what comes: the stream breaks off. */
static void note_loss(struct lf_buf *out, const struct kept *kept)
{
    const struct lf_buf *all[] = {&kept->items, &kept->name, &kept->text};
    for (size_t i = 0; i < LF_N_ELEMS(all); i++)
        if (all[i]->status != LF_OK) out->status = all[i]->status;
}

static void write_delta(struct lf_buf *out, const struct lf_generation *gen, const struct lf_part *part)
{
    const struct item_form *form = form_of(part->kind);
    struct kept *kept = gen->kept;
    begin_text_event(out, gen, form, form->delta, part->block);
    lf_buf_cstr(out, "\"delta\":\"");
    size_t from = kept->text.len;
    lf_json_write_escaped(&kept->text, part->bytes);
    if (kept->text.status == LF_OK) lf_buf_append(out, kept->text.ptr + from, kept->text.len - from);
    lf_buf_char(out, '"');
    end_text_event(out, form);
}

static void delta(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    struct kept *kept = gen->kept;
    (void)idx;
    if (!kept) return;
    if (part->begins) {
        if (part->block > 0) close_item(out, gen, part->before, part->block - 1, "completed");
        if (part->kind == LF_ANSWER_CALL) lf_json_write_string(&kept->name, part->bytes);
        open_item(out, gen, part->kind, part->block);
    }
    if (part->kind != LF_ANSWER_CALL && part->kind != LF_ANSWER_CALL_END) write_delta(out, gen, part);
    note_loss(out, kept);
}

/* The last item. There is always one, so that a reader of text finds some. */
static void finish(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    struct kept *kept = gen->kept;
    if (!kept) return;
    if (c->parts.n_blocks == 0) open_item(out, gen, LF_ANSWER_TEXT, 0);
    close_item(out, gen, last_kind(c), LF_MAX(c->parts.n_blocks - 1, 0), last_status(c));
    note_loss(out, kept);
}

static void end_stream(struct lf_buf *out, const struct lf_generation *gen)
{
    const struct kept *kept = gen->kept;
    const char *status = status_of(&gen->choices[0]);
    if (!kept) return;
    begin_event(out, gen, strcmp(status, "completed") == 0 ? "response.completed" : "response.incomplete");
    lf_buf_cstr(out, "\"response\":");
    begin_copy(gen);
    size_t from = out->len;
    begin_response(out, gen);
    copy_beginning(gen, out, from);
    from = out->len;
    lf_buf_str(out, lf_buf_view(&kept->items));
    copy(gen, out, from);
    from = out->len;
    write_status(out, status);
    copy_status(gen, out, from);
    from = out->len;
    end_response(out, gen);
    end_copy(gen, out, from);
    end_event(out);
}

/* The items that are done, and why there are no more. */
static void fail_stream(struct lf_buf *out, const struct lf_generation *gen)
{
    const struct kept *kept = gen->kept;
    if (!kept) return;
    begin_event(out, gen, "response.failed");
    lf_buf_cstr(out, "\"response\":");
    begin_response(out, gen);
    lf_buf_str(out, lf_buf_view(&kept->items));
    lf_buf_printf(out, "],\"status\":\"failed\",\"error\":{\"code\":\"%s\",\"message\":",
                  gen->err.status == 400 ? "invalid_prompt" : "server_error");
    lf_json_write_string(out, lf_str_c(gen->err.message));
    lf_buf_cstr(out, "},\"incomplete_details\":null,");
    end_response(out, gen);
    end_event(out);
}

static void nothing(struct lf_buf *out, const struct lf_generation *gen)
{
    (void)gen;
    lf_buf_cstr(out, ": keep-alive\n\n"); /* there is no event that says nothing */
}

/* ---- whole ---- */

static void begin_whole(struct lf_buf *out, struct lf_generation *gen)
{
    size_t from = out->len;
    begin_copy(gen);
    begin_response(out, gen);
    copy_beginning(gen, out, from);
}

static void open(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    (void)out;
    (void)gen;
    (void)idx;
}

static void open_whole_item(struct lf_buf *out, const struct lf_generation *gen, const struct lf_part *part)
{
    const struct item_form *form = form_of(part->kind);
    struct lf_buf name;
    lf_buf_init_in(&name, LF_REPLY_BYTES, gen->memory);
    if (part->kind == LF_ANSWER_CALL) lf_json_write_string(&name, part->bytes);
    if (name.status != LF_OK) out->status = name.status;
    begin_item(out, gen, form, part->block, lf_buf_view(&name));
    lf_buf_deinit(&name);
    if (form->part) lf_buf_cstr(out, form->part);
}

static void close_whole_item(struct lf_buf *out, enum lf_answer_kind kind, const char *status)
{
    const struct item_form *form = form_of(kind);
    if (form->part) lf_buf_cstr(out, form->part_end);
    end_item(out, form, status);
}

static void write_whole_part(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    size_t from = out->len;
    (void)idx;
    if (part->begins) {
        if (part->block > 0) {
            close_whole_item(out, part->before, "completed");
            lf_buf_char(out, ',');
        }
        open_whole_item(out, gen, part);
    }
    if (part->kind != LF_ANSWER_CALL && part->kind != LF_ANSWER_CALL_END) lf_json_write_escaped(out, part->bytes);
    copy(gen, out, from);
}

static void shut(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    size_t from = out->len;
    if (c->parts.n_blocks == 0) open_whole_item(out, gen, &(struct lf_part){.kind = LF_ANSWER_TEXT});
    close_whole_item(out, last_kind(c), last_status(c));
    copy(gen, out, from);
}

static void finish_whole(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    size_t from = out->len;
    write_status(out, status_of(&gen->choices[idx]));
    copy_status(gen, out, from);
}

static void end_whole(struct lf_buf *out, const struct lf_generation *gen)
{
    size_t from = out->len;
    end_response(out, gen);
    end_copy(gen, out, from);
}

const struct lf_printer lf_responses_stream = {
    .begin = begin_stream,
    .delta = delta,
    .finish = finish,
    .end = end_stream,
    .error = lf_api_err_write,
    .fail = fail_stream,
    .nothing = nothing,
};
const struct lf_printer lf_responses_whole = {
    .begin = begin_whole,
    .open = open,
    .delta = write_whole_part,
    .shut = shut,
    .finish = finish_whole,
    .end = end_whole,
    .error = lf_api_err_write,
};
