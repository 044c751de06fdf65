#include "server/http/api/routes.h"

#include "core/check.h"
#include "server/http/api/dialect.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/v1_documents.h"
#include "server/http/conn/handler.h"
#include "server/http/conn/server.h"

#define GET  .method = "GET", .allow = "GET, HEAD, OPTIONS"
#define POST .method = "POST", .allow = "POST, OPTIONS"
#define KEY  .auth = LF_AUTH_KEY
/* health: no key, at any time, and on the slots kept for it */
#define HEALTH GET, .auth = LF_AUTH_NONE, .before_ready = true, .is_health = true
#define HEALTH_ALSO_POST                                                                                               \
    .method = "GET", .allow = "GET, HEAD, POST, OPTIONS", .auth = LF_AUTH_NONE, .before_ready = true,                  \
    .is_health = true, .posts = true
/* what a browser shows: nothing in it is a secret */
#define PAGE                   GET, .auth = LF_AUTH_NONE, .before_ready = true, .is_page = true
#define ANSWER(fn)             .handle = lf_handle_body, .answer_body = fn
#define GENERATE(dialect_name) POST, KEY, .generates = true, ANSWER(lf_answer_generate), .dialect = &dialect_name
#define NAMED                  .path = "/v1/documents/", .allow = "GET, HEAD, PUT, DELETE, OPTIONS", .auth = LF_AUTH_KEY
#define PIN(end)                                                                                                       \
    .path = "/v1/documents/*/" end, .method = "POST", .allow = "POST, OPTIONS", .auth = LF_AUTH_KEY,                   \
    .may_be_empty = true, .generates = true, .handle = lf_handle_body, .fields = &lf_document_fields,                  \
    .parse = lf_document_parse_pin
#define STORED    .path = "/v1/responses/", .allow = "GET, HEAD, DELETE, OPTIONS", .auth = LF_AUTH_KEY
#define BODY(bit) POST, KEY, .fields = &lf_openai_fields, .endpoint = (bit)

static const struct lf_route rows[] = {
    {.path = "/v1/completions",
     GENERATE(lf_dialect_completions),
     .summary = "goes on from a text",
     .answer =
         "`choices[i].text`, with `finish_reason` `stop` or `length`; `usage`, whose "
         "`prompt_tokens_details.cached_tokens` were found in the prefix cache, and whose "
         "`completion_tokens_details` are there where reasoning is split off or steps tried tokens (`speculate`); "
         "`timings` in ms. A stream has these pieces as events and ends with `[DONE]`."},
    {.path = "/v1/chat/completions",
     GENERATE(lf_dialect_chat),
     .summary = "answers a conversation",
     .answer = "As above, with `choices[i].message.content`; in a stream `choices[i].delta.content`. What the model "
               "reasoned stands beside it as `reasoning_content`, and the same as `reasoning`; calls of tools as "
               "`tool_calls`, with `finish_reason` `tool_calls`, and `content` is then null where there is none."},
    {.path = "/v1/responses",
     GENERATE(lf_dialect_responses),
     .summary = "the same as items, in OpenAI's newer form",
     .answer = "`output`: items of type message, reasoning and function_call, with `status` completed or, where "
               "`max_output_tokens` cut it, incomplete; `usage`, `timings`, and what was asked. A stream has OpenAI's "
               "named events, each with its `sequence_number`, from `response.created` to `response.completed`, "
               "`response.incomplete` or `response.failed`."},
    {STORED, .method = "GET", .handle = lf_handle_response, .summary = "a stored response, or 404",
     .answer = "The response as it was answered."},
    {STORED, .method = "DELETE", .handle = lf_handle_response_delete, .summary = "forgets a stored response",
     .answer = "`deleted`. Responses that went on from it stay, and so does their conversation."},
    {.path = "/v1/messages",
     GENERATE(lf_dialect_messages),
     .summary = "the same in Anthropic's form",
     .answer = "`content`, blocks of type text, thinking and tool_use, with `stop_reason` `end_turn`, `max_tokens`, "
               "`stop_sequence` or `tool_use`; `usage`. A stream has Anthropic's named events."},
    {.path = "/v1/messages/count_tokens",
     POST,
     KEY,
     ANSWER(lf_answer_count_tokens),
     .dialect = &lf_dialect_count_tokens,
     .summary = "the length of such a conversation in tokens",
     .answer = "`input_tokens`."},
    {.path = "/v1/models",
     GET,
     KEY,
     .handle = lf_handle_models,
     .summary = "lists the model",
     .answer = "`data`: one model with `id`, `max_model_len`, the longest prompt and answer, and "
               "`default_sampling_params`."},
    {.path = "/v1/models/",
     GET,
     KEY,
     .handle = lf_handle_model,
     .summary = "the model of that id, or 404",
     .answer = "`id`, `max_model_len` and `default_sampling_params`."},
    {.path = "/v1/documents",
     GET,
     KEY,
     .handle = lf_handle_documents,
     .summary = "lists the documents of this key",
     .answer = "`data`: each as `/v1/documents/ID` shows it, oldest first."},
    {PIN("pin"), .endpoint = LF_DOCUMENT_PIN, .answer_body = lf_answer_document_pin,
     .summary = "keeps a document's tokens in a tier",
     .answer = "The document, with `pinned`: its tokens stay in that tier and in those below it, also over a restart, "
               "until it is unpinned, deleted, or its `ttl` is over. What is not there yet is read or brought there in "
               "the background; `GET` says how much is (`tokens_on`). At most half of each tier may be pinned, of all "
               "keys together, else 507. A body may be left out."},
    {PIN("unpin"), .endpoint = LF_DOCUMENT_UNPIN, .answer_body = lf_answer_document_unpin,
     .summary = "lets a document's tokens make room for others again",
     .answer = "The document, with `pinned` null. Its tokens stay until their room is needed."},
    {NAMED, .method = "GET", .may_wait = true, .handle = lf_handle_document, .summary = "a document's state, or 404",
     .answer =
         "`state`: `reading`, `ready` or `failed` with its `reason`; `tokens` of its beginning of a conversation, "
         "`tokens_read` so far, `eta_ms` where that is known; `bytes` of its text, `hits`: requests that used it; "
         "`created`, `expires` (null: never); `etag`; `pinned`: `device`, `memory`, `disk` or null; `tokens_on`: of "
         "its "
         "tokens in whole blocks those on the `device`, in `memory` and on `disk` (null: there is no such tier), not "
         "in "
         "a list. A document that is ready was read; when the cache needs its "
         "blocks for others, or with `--prefix-cache off`, who asks next waits until it is read again."},
    {NAMED, .method = "PUT", .takes_text = true, .generates = true, .handle = lf_handle_body,
     .answer_body = lf_answer_document, .fields = &lf_document_fields, .endpoint = LF_DOCUMENT_PUT,
     .parse = lf_document_parse, .summary = "puts a text under a name, and reads it into the cache",
     .answer = "202 with the document's state while it is read in the background; `Location` is where to ask for it, "
               "`ETag` what it is. The same text again: 200. Another text under a name in use: 409, unless `If-Match` "
               "has its `ETag` or is `*`. With `?wait=true` the state as events of a stream, at least every second, "
               "until it is ready, and then `[DONE]`."},
    {NAMED, .method = "DELETE", .may_wait = true, .handle = lf_handle_document_delete,
     .summary = "frees a document's name",
     .answer = "`deleted`. Requests that use the document go on; `If-Match` as with PUT."},
    {.path = "/tokenize",
     BODY(LF_ASK_TOKENIZE),
     ANSWER(lf_answer_tokenize),
     .summary = "the token ids of a prompt or of a conversation",
     .answer = "`tokens`, their `count`, and `max_model_len`."},
    {.path = "/detokenize",
     BODY(LF_ASK_DETOKENIZE),
     ANSWER(lf_answer_detokenize),
     .summary = "the text of token ids",
     .answer = "`prompt`."},
    {.path = "/apply-template",
     BODY(LF_ASK_TEMPLATE),
     ANSWER(lf_answer_apply_template),
     .summary = "a conversation as the model's chat template writes it",
     .answer = "`prompt`."},
    {.path = "/livez",
     HEALTH,
     .handle = lf_handle_livez,
     .summary = "whether the process works: restart it where not",
     .answer = "200, or 503 once the engine has failed."},
    {.path = "/readyz",
     HEALTH,
     .handle = lf_handle_readyz,
     .summary = "whether requests are taken: send none where not",
     .answer = "200; 503 while loading, with `progress` from 0 to 1, while draining, or once the engine has failed."},
    {.path = "/health", HEALTH, .handle = lf_handle_readyz, .summary = "the same as /readyz", .answer = "As above."},
    {.path = "/ping",
     HEALTH_ALSO_POST,
     .handle = lf_handle_readyz,
     .summary = "the same as /readyz, also with POST",
     .answer = "As above."},
    {.path = "/version",
     GET,
     KEY,
     .handle = lf_handle_version,
     .summary = "which version of the program this is",
     .answer = "`version`."},
    {.path = "/openapi.json",
     GET,
     KEY,
     .handle = lf_handle_openapi,
     .summary = "this API, as OpenAPI 3.1",
     .answer = "The document, made of the tables that this page is made of."},
    {.path = "/metrics",
     GET,
     KEY,
     .handle = lf_handle_metrics,
     .answers_text = "text/plain",
     .summary = "counters, gauges and histograms",
     .answer = "Prometheus' text; `longflash docs metrics` lists them."},
    {.path = "/v1/capacity",
     GET,
     KEY,
     .handle = lf_handle_capacity,
     .summary = "what fits right now",
     .answer =
         "`largest_context_now`, `blocks`, requests `running` and `waiting`, `waiting_tokens`, measured tokens "
         "per second, `retry_after_s`, `draining`; `groups` of layers that share blocks, with the `window` that "
         "they keep (0: all) and `request_blocks`, those of a request of the whole context; `plan`, what was "
         "planned: `weights_bytes`, "
         "`workspace_bytes`, `kv_bytes`, and `host_bytes` of the process, texts and tables (0 on a GPU), together "
         "of so many `ranks`, which divide each context into `context_ranks` parts."},
    {.path = "/",
     PAGE,
     .handle = lf_handle_page,
     .answers_text = "text/html",
     .summary = "the page for browsers (`--no-page`: 404)",
     .answer = "HTML, with an `ETag`: `If-None-Match` makes it a 304."},
    {.path = "/page/",
     PAGE,
     .handle = lf_handle_page_file,
     .answers_text = "*/*",
     .summary = "a file of the page",
     .answer = "CSS, JavaScript or SVG, as with `/`."},
};
_Static_assert(LF_N_ELEMS(rows) <= LF_ROUTES_N, "the metrics have a row for each route");

/* Whether a path begins as the row does before its star, and ends as it does behind that, with something between. */
static bool fits(struct lf_str path, struct lf_str row, size_t star)
{
    size_t n_end = row.len - star - 1;
    struct lf_str begin = lf_str_from(row.ptr, star), end = lf_str_from(row.ptr + star + 1, n_end);
    if (path.len <= star + n_end || !lf_str_starts(path, begin)) return false;
    return lf_str_eq(lf_str_from(path.ptr + path.len - n_end, n_end), end);
}

size_t lf_route_end_bytes(const struct lf_route *route)
{
    const char *star = strchr(route->path, '*');
    return star ? strlen(star + 1) : 0;
}

void lf_route_write_path(struct lf_buf *out, const struct lf_route *route, const char *name)
{
    const char *star = strchr(route->path, '*');
    if (!star) lf_buf_cstr(out, route->path);
    if (lf_route_is_below(route)) lf_buf_cstr(out, name);
    if (!star) return;
    lf_buf_str(out, lf_str_from(route->path, (size_t)(star - route->path)));
    lf_buf_cstr(out, name);
    lf_buf_cstr(out, star + 1);
}

const struct lf_route *lf_route_find(struct lf_str path, size_t *tail_at)
{
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_str row = lf_str_c(rows[i].path);
        bool below = lf_route_is_below(&rows[i]) && path.len > row.len && lf_str_starts(path, row);
        const char *star = strchr(rows[i].path, '*');
        if (star && fits(path, row, (size_t)(star - rows[i].path))) {
            *tail_at = (size_t)(star - rows[i].path);
            return &rows[i];
        }
        if (star) continue;
        if (!below && !lf_str_eq(path, row)) continue;
        *tail_at = row.len;
        return &rows[i];
    }
    return NULL;
}

const struct lf_route *lf_route_with_method(const struct lf_route *route, const char *method)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    if (strcmp(route->method, wanted) == 0 || (route->posts && strcmp(method, "POST") == 0)) return route;
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++)
        if (strcmp(rows[i].path, route->path) == 0 && strcmp(rows[i].method, wanted) == 0) return &rows[i];
    return NULL;
}

/* Below these as well. */
static const struct {
    const char *path, *what;
} not_offered[] = {
    {"/v1/embeddings", "embeddings"}, {"/v1/rerank", "reranking"}, {"/v2/rerank", "reranking"},
    {"/rerank", "reranking"},         {"/v1/audio", "audio"},      {"/v1/images", "images"},
    {"/v1/files", "files"},           {"/v1/batches", "batches"},  {"/v1/fine_tuning", "fine-tuning"},
};

const char *lf_route_not_offered(struct lf_str path)
{
    for (size_t i = 0; i < LF_N_ELEMS(not_offered); i++) {
        struct lf_str row = lf_str_c(not_offered[i].path);
        if (lf_str_starts(path, row) && (path.len == row.len || path.ptr[row.len] == '/')) return not_offered[i].what;
    }
    return NULL;
}

int lf_route_idx(const struct lf_route *route)
{
    if (!route) return LF_ROUTES_N;
    while (route > rows && strcmp(route[-1].path, route->path) == 0) route--;
    return (int)(route - rows);
}

int lf_routes_n(void)
{
    return (int)LF_N_ELEMS(rows);
}

const struct lf_route *lf_route_at(int i)
{
    return &rows[i];
}

const struct lf_field_table *lf_route_fields(const struct lf_route *route, unsigned *endpoint)
{
    *endpoint = route->dialect ? route->dialect->endpoint : route->endpoint;
    return route->dialect ? route->dialect->fields : route->fields;
}
