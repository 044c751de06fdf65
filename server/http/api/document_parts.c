#include "server/http/api/document_parts.h"

#include <stdio.h>

#include "core/check.h"
#include "core/clock.h"
#include "server/documents/documents.h"
#include "server/http/api/document_json.h"
#include "server/http/api/place.h"
#include "server/http/api/shown.h"
#include "template/chat_template.h"

static struct lf_place place_of(const char *part, const char *member)
{
    return lf_place_at("%s.%s", part, member);
}

static enum lf_status unsupported(struct lf_reading *r, const char *part, const char *member, struct lf_json_value v,
                                  const char *known)
{
    struct lf_place at = place_of(part, member);
    return lf_refuse(r->err, 400, at.name, "unsupported_content", "%s: only %s are understood, got %s.", at.name, known,
                     lf_shown_json(v).text);
}

bool lf_document_part_is(struct lf_json_value part, const char *file_type)
{
    struct lf_json_value type = lf_json_get(part, "type");
    return lf_json_string_is(type, "document") || lf_json_string_is(type, file_type);
}

/* ---- one part ---- */

static enum lf_status read_named(struct lf_reading *r, struct lf_ask_document *out, struct lf_json_value v,
                                 const char *part, const char *member)
{
    struct lf_place at = place_of(part, member);
    struct lf_str name;
    LF_TRY(lf_ask_text(r->ask, &name, v, at.name, r->err));
    if (!r->limits->documents) return lf_refuse_document(r->err, at.name, name);
    const struct lf_document_key key = {r->limits->tenant, name, lf_clock_unix_s()};
    out->document = lf_documents_find(r->limits->documents, &key);
    if (!out->document) return lf_refuse_document(r->err, at.name, name);
    r->ask->source = r->limits->documents;
    out->text = lf_document_content(out->document)->text;
    if (lf_document_parts_bytes(r->ask) <= r->limits->document_bytes) return LF_OK;
    return lf_refuse(r->err, 413, at.name, "document_too_large",
                     "%s: the documents that one request names have more bytes together than a body may have "
                     "(--max-body).",
                     at.name);
}

/* Anthropic's: a file is a document of ours. */
static enum lf_status read_source(struct lf_reading *r, struct lf_ask_document *out, struct lf_json_value source,
                                  const char *part)
{
    struct lf_json_value type = lf_json_get(source, "type"), media = lf_json_get(source, "media_type");
    struct lf_place at = place_of(part, "source.data");
    if (lf_json_string_is(type, "file"))
        return read_named(r, out, lf_json_get(source, "file_id"), part, "source.file_id");
    if (!lf_json_string_is(type, "text")) return unsupported(r, part, "source.type", type, "file and text");
    if (!lf_json_is_absent(media) && !lf_json_string_is(media, "text/plain"))
        return unsupported(r, part, "source.media_type", media, "texts (text/plain)");
    return lf_ask_text(r->ask, &out->text, lf_json_get(source, "data"), at.name, r->err);
}

/* OpenAI's: {"file_id"}; a file that comes with the request is not read. */
static enum lf_status read_file(struct lf_reading *r, struct lf_ask_document *out, struct lf_json_value file,
                                const char *part)
{
    struct lf_json_value data = lf_json_get(file, "file_data");
    if (!lf_json_is_absent(data)) return unsupported(r, part, "file.file_data", data, "names of documents (file_id)");
    return read_named(r, out, lf_json_get(file, "file_id"), part, "file.file_id");
}

/* The same in /v1/responses, where these are members of the part itself. */
static enum lf_status read_input_file(struct lf_reading *r, struct lf_ask_document *out, struct lf_json_value file,
                                      const char *part)
{
    static const char *const members[] = {"file_data", "file_url"};
    for (size_t i = 0; i < LF_N_ELEMS(members); i++) {
        struct lf_json_value v = lf_json_get(file, members[i]);
        if (!lf_json_is_absent(v)) return unsupported(r, part, members[i], v, "names of documents (file_id)");
    }
    return read_named(r, out, lf_json_get(file, "file_id"), part, "file_id");
}

/* Anthropic's members that would change what the model sees, or what the answer has. */
static enum lf_status check_members(struct lf_reading *r, struct lf_json_value part, const char *name)
{
    static const char *const members[] = {"title", "context"};
    struct lf_json_value cites = lf_json_get(lf_json_get(part, "citations"), "enabled");
    struct lf_place at = place_of(name, "citations");
    for (size_t i = 0; i < LF_N_ELEMS(members); i++) {
        struct lf_json_value v = lf_json_get(part, members[i]);
        struct lf_place member = place_of(name, members[i]);
        if (lf_json_is_absent(v) || lf_json_string_is(v, "")) continue;
        return lf_refuse(r->err, 400, member.name, "unsupported_parameter",
                         "%s: not implemented; a text part beside the document says as much.", member.name);
    }
    if (lf_json_is_absent(cites) || lf_json_type(cites) == LF_JSON_FALSE) return LF_OK;
    return lf_refuse(r->err, 400, at.name, "unsupported_parameter", "%s: not implemented.", at.name);
}

static enum lf_status add(struct lf_reading *r, struct lf_ask_document **out, const char *name)
{
    struct lf_ask *ask = r->ask;
    if (ask->n_documents == LF_ASK_DOCUMENTS_N)
        return lf_refuse(r->err, 400, name, "too_many_documents", "%s: at most %d documents in one request.", name,
                         LF_ASK_DOCUMENTS_N);
    if (!ask->documents) ask->documents = lf_arena_array(&ask->arena, LF_ASK_DOCUMENTS_N, sizeof *ask->documents);
    if (!ask->documents) return lf_refuse_work(r->err, LF_NO_MEMORY);
    *out = &ask->documents[ask->n_documents++];
    return LF_OK;
}

enum lf_status lf_document_part_read(struct lf_reading *r, struct lf_json_value part, const char *name)
{
    struct lf_ask_document *d = NULL;
    struct lf_json_value source = lf_json_get(part, "source"), file = lf_json_get(part, "file");
    LF_TRY(add(r, &d, name));
    LF_TRY(check_members(r, part, name));
    if (lf_json_string_is(lf_json_get(part, "type"), "file")) return read_file(r, d, file, name);
    if (lf_json_string_is(lf_json_get(part, "type"), "input_file")) return read_input_file(r, d, part, name);
    if (lf_json_is_absent(source)) return read_named(r, d, lf_json_get(part, "name"), name, "name");
    return read_source(r, d, source, name);
}

void lf_document_part_append(struct lf_ask *ask, size_t i, struct lf_buf *text, size_t message)
{
    struct lf_ask_document *d = &ask->documents[i];
    lf_buf_str(text, d->text);
    d->message = message;
    d->end = text->len;
}

/* ---- all messages ---- */

struct lf_chat_message *lf_document_parts_prepend(struct lf_ask *ask)
{
    struct lf_chat_message *all = lf_arena_array(&ask->arena, ask->n_messages + 1, sizeof *all);
    if (!all) return NULL;
    memcpy(all + 1, ask->messages, ask->n_messages * sizeof *all);
    ask->messages = all;
    ask->n_messages++;
    for (size_t i = 0; i < ask->n_documents; i++) ask->documents[i].message++;
    return all;
}

static bool is_users(const struct lf_chat_message *m)
{
    if (m->role.ptr) return lf_str_eq(m->role, LF_STR("user"));
    return lf_json_string_is(lf_json_get(m->more, "role"), "user");
}

/* What the first of the user's messages begins with; NULL: no document. */
static const struct lf_ask_document *leading(const struct lf_ask *ask)
{
    size_t first = 0;
    while (first < ask->n_messages && !is_users(&ask->messages[first])) first++;
    const struct lf_ask_document *d = ask->n_documents ? &ask->documents[0] : NULL;
    return d && d->document && d->message == first && d->end == d->text.len ? d : NULL;
}

enum lf_status lf_document_parts_settle(struct lf_ask *ask, struct lf_api_err *err)
{
    const struct lf_ask_document *d = leading(ask);
    if (!d) return LF_OK;
    struct lf_str system = lf_document_content(d->document)->system;
    ask->now_s = lf_document_created_s(d->document);
    if (system.len == 0 || d->message > 0) return LF_OK;
    char *copy = lf_arena_strdup(&ask->arena, system); /* the document may be gone before the messages are */
    struct lf_chat_message *first = copy ? lf_document_parts_prepend(ask) : NULL;
    if (!first) return lf_refuse_work(err, LF_NO_MEMORY);
    *first = (struct lf_chat_message){
        .role = LF_STR("system"), .content = lf_str_from(copy, system.len), .has_content = true};
    return LF_OK;
}

uint64_t lf_document_parts_bytes(const struct lf_ask *ask)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ask->n_documents; i++)
        if (ask->documents[i].document) n += ask->documents[i].text.len;
    return n;
}

void lf_document_parts_hit(const struct lf_ask *ask)
{
    for (size_t i = 0; i < ask->n_documents; i++)
        if (ask->documents[i].document) lf_document_hit(ask->source, ask->documents[i].document);
}
