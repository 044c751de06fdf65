/* /v1/documents and /v1/documents/{name}: texts that are put once, read into the cache in the background, and named in
 * the messages of chats.
 *
 * A document is what a conversation begins with: its system prompt, where it has one, and its text as the beginning of
 * the first message of the user's, as the model's template writes them. That beginning is prefilled as a request that
 * generates nothing, so its blocks are in the prefix cache as those of any request, and a chat that begins with the
 * same tokens finds them there. */
#include <stdio.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/text_memory.h"
#include "server/engine/engine.h"
#include "server/http/api/document_answer.h"
#include "server/http/api/document_json.h"
#include "server/http/api/document_pins.h"
#include "server/http/api/document_reading.h"
#include "server/http/api/routes.h"
#include "server/http/api/tools.h"
#include "server/http/api/unsupported_fields.h"
#include "server/http/api/v1_documents.h"
#include "server/http/conn/exchange.h"
#include "server/http/conn/handler.h"
#include "server/http/conn/server.h"

enum { TTL_S = 10 * 366 * 24 * 3600 };

/* ---- a body ---- */

static enum lf_status read_text(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    return lf_ask_text(r->ask, &r->ask->text, v, name, r->err);
}

static enum lf_status read_system(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    return lf_ask_text(r->ask, &r->ask->system, v, name, r->err);
}

static const struct lf_field fields[] = {
    {.name = "text",
     .asks = LF_DOCUMENT_PUT,
     .kind = LF_FIELD_READ,
     .read = read_text,
     .type = "string",
     .help = "the document; needed. A body of `text/plain` is this text and nothing else"},
    {.name = "system",
     .asks = LF_DOCUMENT_PUT,
     .kind = LF_FIELD_READ,
     .read = read_system,
     .type = "string",
     .help = "the system prompt that it is read with; a chat that begins with the document and has none of its own "
             "gets it"},
    {.name = "ttl",
     .asks = LF_DOCUMENT_PUT,
     .kind = LF_FIELD_INT,
     .at = LF_ASK_AT(ttl_s),
     .range = {0, TTL_S},
     .help = "seconds until the name is free again, counted from this request; 0: it stays"},
    {.name = "tools",
     .asks = LF_DOCUMENT_PUT,
     .kind = LF_FIELD_READ,
     .read = lf_tools_read,
     .type = "array",
     .help = "as those of `/v1/chat/completions`: the document is read behind their definitions, so chats that begin "
             "with it and have the same tools find it in the cache; they are no chat's that does not name them"},
    {.name = "pin",
     .asks = LF_DOCUMENT_PUT,
     .kind = LF_FIELD_READ,
     .read = lf_document_read_pin,
     .type = "boolean or string",
     .help =
         "`true` or a tier: as `POST /v1/documents/ID/pin`, with the reading; `false`: unpins it. Left out, a document "
         "that is there stays as it is"},
    {.name = "tier",
     .asks = LF_DOCUMENT_PIN,
     .kind = LF_FIELD_READ,
     .read = lf_document_read_tier,
     .type = "string",
     .help =
         "`disk`, `memory` or `device`: where the tokens stay, and in the tiers below it. Left out: the lowest tier "
         "there is, `disk` with `--cache-dir`, which takes no room from requests. On a CPU `memory` is `device`"},
};

static const struct lf_unsupported_field unsupported_rows[] = {
    {.name = "chat_template_kwargs", .asks = LF_DOCUMENT_PUT, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "metadata", .asks = LF_DOCUMENT_PUT, .neutral = LF_NEUTRAL_ANY},
};
static const struct lf_unsupported_table unsupported = {.rows = unsupported_rows, .n = LF_N_ELEMS(unsupported_rows)};
const struct lf_field_table lf_document_fields = {
    .title = "`/v1/documents/ID`", .fields = fields, .n_fields = LF_N_ELEMS(fields), .unsupported = &unsupported};

enum lf_status lf_document_parse(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                                 struct lf_api_err *err)
{
    struct lf_reading r = {ask, limits, err};
    lf_ask_init(ask, limits);
    return lf_ask_read_fields(&r, &lf_document_fields, LF_DOCUMENT_PUT, json);
}

enum lf_status lf_document_parse_pin(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                                     struct lf_api_err *err)
{
    struct lf_reading r = {ask, limits, err};
    lf_ask_init(ask, limits);
    return lf_ask_read_fields(&r, &lf_document_fields, LF_DOCUMENT_PIN, json);
}

static struct lf_document_key key_of(const struct lf_exchange *x)
{
    return (struct lf_document_key){x->tenant.salt, x->tail, lf_clock_unix_s()};
}

static enum lf_status check_content(const struct lf_exchange *x, const struct lf_ask *ask, struct lf_api_err *err)
{
    uint64_t most = x->server->opts.max_document_bytes;
    if (!lf_document_is_name(x->tail))
        return lf_refuse(err, 400, "name", "invalid_value",
                         "name: expected 1 to %d letters, digits, dots, underscores and dashes.",
                         LF_DOCUMENT_NAME_BYTES);
    if (ask->text.len > most)
        return lf_refuse(err, 413, "text", "document_too_large", "The document has more than %llu bytes.",
                         (unsigned long long)most);
    if (!lf_utf8_valid(ask->text) || (ask->text.len && memchr(ask->text.ptr, 0, ask->text.len)))
        return lf_refuse(err, 400, "text", "invalid_value", "text: it is not valid UTF-8, or has a NUL in it.");
    if (lf_str_trim(ask->text).len > 0) return LF_OK;
    return lf_refuse(err, 400, "text", "missing_parameter", "text: this field is needed, with a text in it.");
}

/* ---- putting ---- */

static enum lf_status refuse_verdict(const struct lf_exchange *x, enum lf_document_verdict verdict,
                                     struct lf_api_err *err)
{
    if (verdict == LF_DOCUMENT_MANY)
        return lf_refuse(err, 507, NULL, "document_quota", "This key may have %d documents: delete one first.",
                         x->tenant.limits.documents);
    if (verdict == LF_DOCUMENT_IN_USE)
        return lf_refuse(err, 409, "name", "document_exists",
                         "There is another document of this name. If-Match with its ETag, or with *, replaces it.");
    if (verdict == LF_DOCUMENT_NO_MATCH)
        return lf_refuse(err, 412, NULL, "no_match", "If-Match names another document than there is.");
    return lf_refuse(
        err, 507, NULL, "documents_full",
        "There is no room for one more document of this size (--document-memory, or their number): delete one first.");
}

static enum lf_status refuse_quota(const struct lf_exchange *x, int64_t n_tokens, int64_t n_more,
                                   struct lf_api_err *err)
{
    int64_t own = x->tenant.limits.document_tokens;
    return lf_refuse(err, 507, NULL, "document_quota",
                     "The documents of this key may have %lld tokens together (%s); the others have %lld, "
                     "and this one has %lld: delete one first.",
                     (long long)(own ? own : x->server->opts.document_tokens),
                     own ? "its document-tokens" : "--document-tokens", (long long)n_tokens, (long long)n_more);
}

/* What is there now, or how it is going on. */
static enum lf_status show(struct lf_exchange *x, struct lf_document *doc, int status, struct lf_api_err *err)
{
    struct lf_document_view view;
    struct lf_documents *docs = x->server->documents;
    lf_document_look(docs, doc, &view);
    enum lf_status made = x->wait ? lf_document_answer_create(&x->answer, docs, doc, x->server->text_memory) : LF_OK;
    if (made == LF_OK) {
        snprintf(x->reply.etag, sizeof x->reply.etag, "%s", view.etag.text);
        snprintf(x->reply.location, sizeof x->reply.location, "/v1/documents/%.*s", (int)view.name.len, view.name.ptr);
    }
    struct lf_document_places places;
    bool has_places = !x->wait && lf_document_places(x->server, &view, &places);
    if (!x->wait) lf_document_write_placed(lf_reply_json(&x->reply, status), &view, has_places ? &places : NULL);
    if (!x->wait || made != LF_OK) lf_document_unref(docs, doc);
    return made == LF_OK ? LF_OK : lf_refuse_work(err, made);
}

/* A new document has been entered: its reading is looked after from now on. The request is taken over. */
static enum lf_status follow(struct lf_exchange *x, struct lf_document *doc, struct lf_request *req,
                             struct lf_api_err *err)
{
    struct lf_documents *docs = x->server->documents;
    const struct lf_document_key key = key_of(x);
    struct lf_document_view view;
    enum lf_document_verdict verdict;
    lf_document_look(docs, doc, &view);
    struct lf_document *again = lf_document_ref(docs, doc);
    int64_t pinning = lf_document_pinning(docs, doc);
    if (lf_readings_add(&x->server->readings, again, req, LF_READING_READS, pinning) == LF_OK)
        return show(x, doc, 202, err);
    (void)lf_keeper_remove(&x->server->keeper, &key, lf_str_c(view.etag.text), &verdict);
    lf_document_unref(docs, again);
    lf_document_unref(docs, doc);
    lf_request_put(req);
    return lf_refuse_work(err, LF_NO_MEMORY);
}

/* Pins a document that is there, or unpins it, and shows it. Its reference is taken over. The text is worked on as if
 * it had come with the body: by a worker for long ones, and with as much memory set aside. */
static enum lf_status pin_and_show(struct lf_exchange *x, struct lf_document *doc, enum lf_pin pin,
                                   struct lf_api_err *err)
{
    uint64_t n = lf_document_content(doc)->text.len;
    if (pin != LF_PIN_NONE && n > LF_SHORT_BODY_BYTES && n > x->document_bytes && n > x->body.len) {
        lf_document_unref(x->server->documents, doc);
        x->document_bytes = n;
        x->effort = LF_EFFORT_COSTLY;
        return LF_OK;
    }
    enum lf_status status = lf_document_pin_to(x->server, doc, pin, &x->work, err);
    if (status == LF_OK) return show(x, doc, 200, err);
    lf_document_unref(x->server->documents, doc);
    return status;
}

/* It is there, and ends when this request says, and stays where it says. */
static enum lf_status put_again(struct lf_exchange *x, const struct lf_ask *ask, struct lf_document *doc,
                                const struct lf_document_put *put, struct lf_api_err *err)
{
    struct lf_err why;
    enum lf_status status = lf_keeper_renew(&x->server->keeper, doc, put->expires_s, &why);
    if (status == LF_OK) return ask->pin_given ? pin_and_show(x, doc, put->pin, err) : show(x, doc, 200, err);
    lf_document_unref(x->server->documents, doc);
    if (status == LF_NOT_FOUND) { /* its end has come meanwhile: the same request puts it anew */
        (void)!lf_refuse(err, 503, NULL, "document_ended", "The document has just come to its end: put it once more.");
        err->retry_after_s = 1;
        return LF_INVALID;
    }
    return lf_document_refuse_disk(status, &why, err);
}

/* It is not there: its beginning is made, queued, and only then is the name taken. */
static enum lf_status put_new(struct lf_exchange *x, struct lf_ask *ask, struct lf_document_put *put,
                              struct lf_api_err *err)
{
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_prompt_source_of(x);
    struct lf_request *req = NULL;
    struct lf_document *doc = NULL;
    enum lf_document_verdict verdict = LF_DOCUMENT_FULL;
    struct lf_err why;
    ask->now_s = put->key.now_s;
    LF_TRY(lf_document_begin(&prompts, ask, &source, err));
    int64_t n_tokens;
    put->n_tokens = (int64_t)prompts.items[0].ids.n;
    struct lf_gen_params params = lf_document_params(x->server, &x->tenant, ask, &prompts.items[0].ids);
    params.pin = put->pin;
    enum lf_status status = lf_documents_has_quota(x->server->documents, put, &n_tokens)
                                ? lf_document_submit(x->server, &params, &req, err)
                                : refuse_quota(x, n_tokens, put->n_tokens, err);
    uint8_t *keys = status == LF_OK ? lf_document_keys(x->server, &params, &put->n_keys) : NULL;
    lf_prompts_deinit(&prompts);
    LF_TRY(status);
    put->keys = keys;
    status = lf_keeper_put(&x->server->keeper, put, &verdict, &doc, &why);
    lf_text_free(x->server->text_memory, keys);
    if (status == LF_OK && verdict == LF_DOCUMENT_NEW) return follow(x, doc, req, err);
    lf_request_put(req);
    if (status != LF_OK) return lf_document_refuse_disk(status, &why, err);
    if (verdict == LF_DOCUMENT_QUOTA) {
        (void)lf_documents_has_quota(x->server->documents, put, &n_tokens);
        return refuse_quota(x, n_tokens, put->n_tokens, err);
    }
    return verdict == LF_DOCUMENT_SAME ? put_again(x, ask, doc, put, err) : refuse_verdict(x, verdict, err);
}

enum lf_status lf_answer_document(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_documents *docs = x->server->documents;
    struct lf_document *doc = NULL;
    LF_TRY(check_content(x, ask, err));
    const struct lf_document_content content = {ask->text, ask->system, lf_json_raw(ask->tool_values)};
    struct lf_document_put put = {.key = key_of(x),
                                  .content = &content,
                                  .if_match = x->if_match,
                                  .n_most = x->tenant.limits.documents,
                                  .tokens_most = x->tenant.limits.document_tokens};
    LF_TRY(lf_document_tier(&put.pin, x->server, ask, err));
    if (ask->ttl_s) put.expires_s = put.key.now_s + ask->ttl_s;
    enum lf_document_verdict verdict = lf_documents_check(docs, &put, &doc);
    if (verdict == LF_DOCUMENT_SAME) return put_again(x, ask, doc, &put, err);
    return verdict == LF_DOCUMENT_NEW ? put_new(x, ask, &put, err) : refuse_verdict(x, verdict, err);
}

/* ---- pinning ---- */

static enum lf_status pin_named(struct lf_exchange *x, enum lf_pin pin, struct lf_api_err *err)
{
    const struct lf_document_key key = key_of(x);
    struct lf_document *doc = lf_documents_find(x->server->documents, &key);
    return doc ? pin_and_show(x, doc, pin, err) : lf_refuse_document(err, "name", x->tail);
}

enum lf_status lf_answer_document_pin(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    enum lf_pin pin;
    if (!ask->pin_given) ask->pin_default = true;
    LF_TRY(lf_document_tier(&pin, x->server, ask, err));
    return pin_named(x, pin, err);
}

enum lf_status lf_answer_document_unpin(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    (void)ask;
    return pin_named(x, LF_PIN_NONE, err);
}

/* ---- asking ---- */

struct list {
    struct lf_buf *out;
    const char *comma;
};

static void show_one(void *ctx, const struct lf_document_view *view)
{
    struct list *list = ctx;
    lf_buf_cstr(list->out, list->comma);
    lf_document_write(list->out, view);
    list->comma = ",";
}

void lf_handle_documents(struct lf_exchange *x)
{
    struct list list = {lf_reply_json(&x->reply, 200), ""};
    lf_buf_cstr(list.out, "{\"object\":\"list\",\"data\":[");
    lf_documents_list(x->server->documents, x->tenant.salt, lf_clock_unix_s(), show_one, &list);
    lf_buf_cstr(list.out, "]}");
}

static void reply_not_found(struct lf_exchange *x)
{
    struct lf_api_err err;
    (void)!lf_refuse_document(&err, "name", x->tail);
    lf_reply_error(&x->reply, &err);
}

void lf_handle_document(struct lf_exchange *x)
{
    const struct lf_document_key key = key_of(x);
    struct lf_api_err err;
    struct lf_document *doc = lf_documents_find(x->server->documents, &key);
    if (!doc)
        reply_not_found(x);
    else if (show(x, doc, 200, &err) != LF_OK)
        lf_reply_error(&x->reply, &err);
}

void lf_handle_document_delete(struct lf_exchange *x)
{
    const struct lf_document_key key = key_of(x);
    struct lf_api_err err;
    enum lf_document_verdict verdict;
    if (!lf_keeper_remove(&x->server->keeper, &key, x->if_match, &verdict)) {
        reply_not_found(x);
    } else if (verdict != LF_DOCUMENT_NEW) {
        (void)!refuse_verdict(x, verdict, &err);
        lf_reply_error(&x->reply, &err);
    } else {
        struct lf_buf *out = lf_reply_json(&x->reply, 200);
        lf_buf_cstr(out, "{\"object\":\"document\",\"name\":");
        lf_json_write_string(out, x->tail);
        lf_buf_cstr(out, ",\"deleted\":true}");
    }
}
