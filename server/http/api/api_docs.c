/* docs/api.md: what the tables of routes and of fields say, for people. Defaults are read from a fresh request, and the
 * refusal that is shown is the real one, so neither is written twice. */
#include "core/check.h"
#include "server/http/api/ask.h"
#include "server/http/conn/http_server.h"
#include "server/http/api/error_codes.h"
#include "server/http/api/examples.h"
#include "server/http/api/openai_json.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/routes.h"
#include "server/http/api/unsupported_fields.h"

static const char before[] =
    "<!-- made by `longflash docs api` from server/http/api/: routes.c, openai_request.c, v1_responses.c, "
    "v1_messages.c, "
    "unsupported_fields.c -->\n"
    "# HTTP API\n\n"
    "Bodies are JSON objects (`Content-Type: application/json`). Where the server has keys, a request brings one as\n"
    "`Authorization: Bearer KEY` or `X-Api-Key: KEY`. Every field may be `null`, which is as if it were not there. "
    "Fields that\nnobody knows are ignored and counted (`http_unknown_fields_total`); fields that are known, not "
    "implemented and would change\nthe answer are refused (below). A stream is `text/event-stream`; `: keep-alive` "
    "comments in it, each with an empty "
    "line, fill\nsilence (`--keep-alive`). A client that ends its sending side before an answer that needs\nwork "
    "counts as gone.\n\n"
    "An error is `{\"error\": {\"message\": …, \"type\": …, \"param\": …, \"code\": …}}`, in `/v1/messages` "
    "`{\"type\": \"error\", \"error\":\n{\"type\": …, \"message\": …}}`:\n\n"
    "| status | when |\n|---|---|\n"
    "| 400 | the request cannot be meant; `param` names the field |\n"
    "| 401, 403 | no key, or one that is not known; a Host that is not allowed |\n"
    "| 404, 405 | no such path or model; no such method |\n"
    "| 408 | the head or the body came too slowly; the connection is closed |\n"
    "| 411, 413, 414, 415, 431 | a body without length, one beyond `--max-body`; URL, type or headers |\n"
    "| 429 | the queue is full, or a key or an address has too many requests or connections; `Retry-After` says when "
    "to "
    "come again |\n"
    "| 500 | a defect here, or `broken_logits`: the model computed no numbers |\n"
    "| 503 | loading, draining, or no memory for texts; `Retry-After` |\n"
    "| 505 | neither HTTP/1.1 nor HTTP/1.0 |\n\n"
    "Defaults of `temperature`, `top_p`, `top_k`, `min_p` and `repetition_penalty` are the model's where its\n"
    "`generation_config.json` has any (`--generation-config`); `/v1/models` says which hold.\n";

static bool shares_path(const struct lf_route *route)
{
    int n = 0;
    for (int i = 0; i < lf_routes_n(); i++) n += strcmp(lf_route_at(i)->path, route->path) == 0;
    return n > 1;
}

static void endpoints(struct lf_buf *out)
{
    lf_buf_cstr(out, "\n## Endpoints\n\n| | key | while loading | what it is for |\n|---|---|---|---|\n");
    for (int i = 0; i < lf_routes_n(); i++) {
        const struct lf_route *r = lf_route_at(i);
        lf_buf_printf(out, "| `%s ", r->method);
        lf_route_write_path(out, r, "ID");
        lf_buf_printf(out, "` | %s | %s | %s |\n", r->auth == LF_AUTH_KEY ? "yes" : "no",
                      r->before_ready ? "answers" : "503", r->summary);
    }
    lf_buf_cstr(out, "\n## Answers\n\n");
    for (int i = 0; i < lf_routes_n(); i++) {
        const struct lf_route *r = lf_route_at(i);
        bool is_named = shares_path(r) || strchr(r->path, '*');
        lf_buf_printf(out, "- `%s%s", is_named ? r->method : "", is_named ? " " : "");
        lf_route_write_path(out, r, is_named ? "ID" : "");
        lf_buf_printf(out, "`: %s\n", r->answer);
    }
}

static void members(struct lf_buf *out, const char *title, const char *intro, const struct lf_member_doc *rows, int n)
{
    lf_buf_printf(out, "\n### %s\n\n%s\n\n| member | what it is |\n|---|---|\n", title, intro);
    for (int i = 0; i < n; i++) lf_buf_printf(out, "| `%s` | %s |\n", rows[i].name, rows[i].help);
}

static void examples(struct lf_buf *out)
{
    lf_buf_cstr(out, "\n## Examples\n\nAsked of `longflash serve --ctx 8K --kv-tokens 16K --prefix-cache off` with the "
                     "demo model; ids, times and\nrates differ from "
                     "time to time.\n");
    for (int i = 0; i < lf_api_examples_n; i++) {
        const struct lf_api_example *e = &lf_api_examples[i];
        bool stream = strncmp(e->answer, "data: ", 6) == 0 || strncmp(e->answer, "event: ", 7) == 0;
        lf_buf_printf(out, "\n### %s → %d\n", e->request, e->status);
        if (e->body) lf_buf_printf(out, "\n```json\n%s\n```\n", e->body);
        lf_buf_printf(out, "\n```%s\n%s\n```\n", stream ? "text" : "json", e->answer);
    }
}

static void error_codes(struct lf_buf *out)
{
    lf_buf_cstr(out, "\n## Error codes\n\n`type` follows from the status: `authentication_error` for 401, "
                     "`rate_limit_error` for 429, `server_error` from 500 on, else\n`invalid_request_error`; in "
                     "`/v1/messages` it is Anthropic's.\n\n| status | `code` | when |\n|---|---|---|\n");
    for (int i = 0; i < lf_error_codes_n; i++) {
        const struct lf_error_code *e = &lf_error_codes[i];
        lf_buf_printf(out, "| %d | `%s` | %s |\n", e->status, e->code, e->meaning);
    }
}

static void write_type(struct lf_buf *out, const struct lf_field *f)
{
    switch (f->kind) {
    case LF_FIELD_BOOL:
        lf_buf_cstr(out, "true or false");
        return;
    case LF_FIELD_INT:
    case LF_FIELD_FLOAT:
        lf_buf_printf(out, "%s from %.10g to %.10g", f->kind == LF_FIELD_INT ? "integer" : "number", f->range[0],
                      f->range[1]);
        return;
    case LF_FIELD_READ:
        lf_buf_escaped(out, f->type, "|");
        if (f->range[1] > 0) lf_buf_printf(out, ", at most %.10g", f->range[1]);
        return;
    }
}

/* As a fresh request has it; what is read by a function has none. */
static void write_default(struct lf_buf *out, const struct lf_field *f, const struct lf_ask *fresh)
{
    const char *at = (const char *)fresh + f->at;
    int64_t whole;
    float x;
    switch (f->kind) {
    case LF_FIELD_BOOL:
        lf_buf_cstr(out, *(const bool *)at ? "true" : "false");
        return;
    case LF_FIELD_INT:
        memcpy(&whole, at, sizeof whole);
        if (whole != LF_ABSENT) lf_buf_printf(out, "%lld", (long long)whole);
        return;
    case LF_FIELD_FLOAT:
        memcpy(&x, at, sizeof x);
        lf_buf_printf(out, "%g", (double)x);
        return;
    case LF_FIELD_READ:
        return;
    }
}

static bool has_fields(const struct lf_route *route)
{
    unsigned endpoint;
    const struct lf_field_table *table = lf_route_fields(route, &endpoint);
    for (int i = 0; table && i < table->n_fields; i++)
        if (table->fields[i].asks & endpoint) return true;
    return false;
}

static void fields_of(struct lf_buf *out, const struct lf_route *route)
{
    unsigned endpoint;
    const struct lf_field_table *table = lf_route_fields(route, &endpoint);
    struct lf_ask fresh;
    lf_ask_init(&fresh, &(struct lf_ask_limits){0});
    lf_buf_printf(out, "\n## %s ", route->method);
    lf_route_write_path(out, route, "ID");
    lf_buf_cstr(out, "\n\n| field | type | default | what it does |\n|---|---|---|---|\n");
    for (int i = 0; i < table->n_fields; i++) {
        const struct lf_field *f = &table->fields[i];
        if (!(f->asks & endpoint)) continue;
        lf_buf_printf(out, "| `%s` | ", f->name);
        write_type(out, f);
        lf_buf_cstr(out, " | ");
        write_default(out, f, &fresh);
        lf_buf_cstr(out, " | ");
        lf_buf_escaped(out, f->help, "|");
        lf_buf_cstr(out, " |\n");
    }
    lf_ask_deinit(&fresh);
}

/* ---- what is refused ---- */

static void write_neutral(struct lf_buf *out, unsigned neutral)
{
    static const struct {
        unsigned bit;
        const char *text;
    } values[] = {{LF_NEUTRAL_FALSE, "`false`"},
                  {LF_NEUTRAL_TRUE, "`true`"},
                  {LF_NEUTRAL_ZERO, "`0`"},
                  {LF_NEUTRAL_ONE, "`1`"},
                  {LF_NEUTRAL_MINUS_ONE, "`-1`"},
                  {LF_NEUTRAL_EMPTY, "`\"\"` `[]` `{}`"},
                  {LF_NEUTRAL_DISABLED, "`\"none\"` `\"disabled\"`"}};
    lf_buf_cstr(out, "`null`");
    for (size_t i = 0; i < LF_N_ELEMS(values); i++)
        if (neutral & values[i].bit) lf_buf_printf(out, " %s", values[i].text);
}

/* The endpoints of the table that know the row. */
static void write_paths(struct lf_buf *out, const struct lf_field_table *table, unsigned asks)
{
    const char *comma = "";
    for (int i = 0; i < lf_routes_n(); i++) {
        unsigned endpoint;
        if (lf_route_fields(lf_route_at(i), &endpoint) != table || !(asks & endpoint)) continue;
        lf_buf_printf(out, "%s`%s`", comma, lf_route_at(i)->path);
        comma = ", ";
    }
}

static void ignored_of(struct lf_buf *out, const struct lf_field_table *table)
{
    const char *comma = "";
    lf_buf_cstr(out, "\nTaken with any value, for they cannot change the text of an answer: ");
    for (int i = 0; i < table->unsupported->n; i++) {
        const struct lf_unsupported_field *f = &table->unsupported->rows[i];
        if (!(f->neutral & LF_NEUTRAL_ANY)) continue;
        lf_buf_printf(out, "%s`%s`", comma, f->name);
        comma = ", ";
    }
    lf_buf_cstr(out, ".\n");
}

static bool say_the_same(const struct lf_unsupported_field *a, const struct lf_unsupported_field *b)
{
    return a->asks == b->asks && a->neutral == b->neutral && lf_str_eq(lf_str_c(a->instead), lf_str_c(b->instead));
}

/* Rows that follow each other and say the same share a line. */
static void refused_of(struct lf_buf *out, const struct lf_field_table *table)
{
    const struct lf_unsupported_table *rows = table->unsupported;
    lf_buf_cstr(out, "\n| field | endpoints | taken with | here that is |\n|---|---|---|---|\n");
    for (int i = 0; i < rows->n; i++) {
        const struct lf_unsupported_field *f = &rows->rows[i];
        if (f->neutral & LF_NEUTRAL_ANY) continue;
        lf_buf_printf(out, "| `%s`", f->name);
        for (; i + 1 < rows->n && say_the_same(f, &rows->rows[i + 1]); i++)
            lf_buf_printf(out, ", `%s`", rows->rows[i + 1].name);
        lf_buf_cstr(out, " | ");
        write_paths(out, table, f->asks);
        lf_buf_cstr(out, " | ");
        write_neutral(out, f->neutral);
        lf_buf_printf(out, " | %s |\n", f->instead ? f->instead : "");
    }
}

/* The table of a route's bodies where no route before it has the same; else NULL. */
static const struct lf_field_table *new_table(int route_idx)
{
    unsigned endpoint;
    const struct lf_field_table *table = lf_route_fields(lf_route_at(route_idx), &endpoint);
    for (int i = 0; i < route_idx; i++)
        if (lf_route_fields(lf_route_at(i), &endpoint) == table) return NULL;
    return table;
}

static void refused(struct lf_buf *out)
{
    struct lf_api_err err;
    (void)!lf_unsupported_refuse(&err, "max_new_tokens", true, "max_tokens");
    lf_buf_printf(out,
                  "\n## Fields that are refused\n\nKnown from other servers and clients, and not implemented. With a "
                  "value that asks for nothing they are taken, else\nrefused with 400 and a message like this one:\n\n"
                  "    %s\n",
                  err.message);
    for (int i = 0; i < lf_routes_n(); i++) {
        const struct lf_field_table *table = new_table(i);
        if (!table) continue;
        lf_buf_printf(out, "\n### %s\n", table->title);
        refused_of(out, table);
        ignored_of(out, table);
        if (table->unsupported->also) lf_buf_cstr(out, "What `/v1/chat/completions` refuses is refused here too.\n");
    }
}

void lf_http_api_docs(struct lf_buf *out)
{
    lf_buf_cstr(out, before);
    endpoints(out);
    members(out, "timings",
            "Of `/v1/completions`, `/v1/chat/completions`, `/v1/responses` and `/v1/messages`, in a stream in its last "
            "chunk (not of `/v1/messages`); added up over the choices.",
            lf_openai_timings, LF_TIMINGS_N);
    members(out, "prompt_progress",
            "In a stream with `return_progress`: a chunk without choices at once, then at least every second, and one "
            "when the "
            "prompt has been read.",
            lf_openai_progress_members, LF_PROGRESS_N);
    examples(out);
    error_codes(out);
    for (int i = 0; i < lf_routes_n(); i++)
        if (has_fields(lf_route_at(i))) fields_of(out, lf_route_at(i));
    refused(out);
}
