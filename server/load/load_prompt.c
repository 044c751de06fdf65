#include "server/load/load_prompt.h"

#include "core/check.h"
#include "core/limits.h"
#include "core/mix.h"

/* Ids that are ordinary tokens in every known vocabulary: past the control and byte tokens, within 4096. */
enum { FIRST_ID = 300, N_IDS = 3700 };

static void append_head(struct lf_buf *out, const char *method, const char *path, const char *host, const char *key)
{
    lf_buf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, path, host);
    if (key) lf_buf_printf(out, "Authorization: Bearer %s\r\n", key);
}

static uint64_t draw(const struct lf_load_shape *shape, uint64_t index, int i)
{
    return lf_random64(shape->seed + (i < shape->n_shared ? 0 : index + 1), (uint64_t)i);
}

static void append_ids(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    for (int i = 0; i < shape->n_prompt; i++)
        lf_buf_printf(out, "%s%d", i ? "," : "", FIRST_ID + (int)(draw(shape, index, i) % N_IDS));
}

static void append_words(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    for (int i = 0; i < shape->n_prompt; i++)
        lf_buf_printf(out, "%s%s", i ? " " : "", lf_workload_word(draw(shape, index, i)));
}

/* ---- documents ---- */

enum { QUESTION_WORDS = 12, DOCUMENT_TTL_S = 24 * 3600 };

static void append_document_name(struct lf_buf *out, const struct lf_load_shape *shape, int document)
{
    const char *kind = shape->workload == LF_WORKLOAD_RANDOM ? "" : "records-"; /* its text is another */
    lf_buf_printf(out, "load-%s%llx-%d-%d", kind, (unsigned long long)shape->document_seed, shape->n_prompt, document);
}

int lf_load_document_of(const struct lf_load_shape *shape, uint64_t index)
{
    return lf_zipf_choose(shape->documents, lf_random64(~shape->seed, index));
}

static uint64_t document_seed(const struct lf_load_shape *shape, int document)
{
    return lf_random64(shape->document_seed + (uint64_t)shape->n_prompt, (uint64_t)document);
}

/* Each begins otherwise than all others, so that no two share a block. */
static void append_document_text(struct lf_buf *out, const struct lf_load_shape *shape, int document)
{
    uint64_t seed = document_seed(shape, document);
    lf_buf_printf(out, "Document %d.", document);
    if (shape->workload != LF_WORKLOAD_RANDOM) {
        lf_buf_char(out, ' ');
        lf_workload_text(out, seed, shape->n_prompt);
        return;
    }
    for (int i = 0; i < shape->n_prompt; i++)
        lf_buf_printf(out, " %s", lf_workload_word(lf_random64(seed, (uint64_t)i)));
}

static void append_random_question(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    lf_buf_printf(out, "Question %llu:", (unsigned long long)index);
    for (int i = 0; i < QUESTION_WORDS; i++)
        lf_buf_printf(out, " %s", lf_workload_word(draw(shape, index, shape->n_shared + i)));
    lf_buf_char(out, '?');
}

static void append_question(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    int document = lf_load_document_of(shape, index);
    lf_buf_cstr(out, "[{\"type\":\"document\",\"name\":\"");
    append_document_name(out, shape, document);
    lf_buf_cstr(out, "\"},{\"type\":\"text\",\"text\":\"");
    if (shape->workload == LF_WORKLOAD_RANDOM)
        append_random_question(out, shape, index);
    else
        lf_workload_question(out, shape->workload, document_seed(shape, document), shape->n_prompt, index);
    lf_buf_cstr(out, "\"}]");
}

/* ---- workloads without documents ---- */

/* A text and a question about it. Of a conversation, request number index is a turn: what was said before it are
 * messages too, so the content ends and begins again (both APIs' messages have a role and a content). */
static void append_turns(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    bool is_chat = shape->workload == LF_WORKLOAD_CHAT;
    uint64_t text = is_chat ? index / LF_WORKLOAD_TURNS_N : index, seed = lf_random64(shape->seed, text);
    uint64_t n_before = is_chat ? index % LF_WORKLOAD_TURNS_N : 0;
    lf_workload_text(out, seed, shape->n_prompt);
    lf_buf_cstr(out, "\\n\\n");
    for (uint64_t k = 0; k < n_before; k++) {
        lf_workload_question(out, shape->workload, seed, shape->n_prompt, k);
        lf_buf_cstr(out, "\"},{\"role\":\"assistant\",\"content\":\"");
        lf_workload_answer(out, seed, shape->n_prompt, k);
        lf_buf_cstr(out, "\"},{\"role\":\"user\",\"content\":\"");
    }
    lf_workload_question(out, shape->workload, seed, shape->n_prompt, n_before);
}

/* What the user's message has in it. */
static void append_content(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    if (shape->documents) {
        append_question(out, shape, index);
        return;
    }
    lf_buf_char(out, '"');
    if (shape->workload == LF_WORKLOAD_RANDOM)
        append_words(out, shape, index);
    else
        append_turns(out, shape, index);
    lf_buf_char(out, '"');
}

/* An answer with a schema ends where it is whole, one of a workload where the model ends it, any other one of OpenAI's
 * at its length. */
static void append_openai_end(struct lf_buf *out, const struct lf_load_shape *shape)
{
    struct lf_str schema = shape->schema;
    lf_buf_cstr(out, ",\"stream_options\":{\"include_usage\":true}");
    if (schema.len == 0) {
        if (shape->workload == LF_WORKLOAD_RANDOM) lf_buf_cstr(out, ",\"ignore_eos\":true");
        return;
    }
    lf_buf_cstr(out, ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"load\",\"schema\":");
    lf_buf_str(out, schema);
    lf_buf_cstr(out, "}}");
}

static void append_responses_end(struct lf_buf *out, const struct lf_load_shape *shape)
{
    struct lf_str schema = shape->schema;
    lf_buf_cstr(out, ",\"store\":false");
    if (schema.len == 0) return;
    lf_buf_cstr(out, ",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"load\",\"schema\":");
    lf_buf_str(out, schema);
    lf_buf_cstr(out, "}}");
}

static void append_messages_end(struct lf_buf *out, const struct lf_load_shape *shape)
{
    struct lf_str schema = shape->schema;
    if (schema.len == 0) return;
    lf_buf_cstr(out, ",\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":");
    lf_buf_str(out, schema);
    lf_buf_cstr(out, "}}");
}

static const struct {
    const char *path, *headers;
    const char *head, *middle; /* around the prompt, before the length of the answer */
    void (*append_prompt)(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index);
    void (*append_end)(struct lf_buf *out, const struct lf_load_shape *shape);
} forms[] = {
    [LF_LOAD_COMPLETIONS] = {"/v1/completions", "", "{\"prompt\":[", "],\"max_tokens\":", append_ids,
                             append_openai_end},
    [LF_LOAD_CHAT] = {"/v1/chat/completions", "", "{\"messages\":[{\"role\":\"user\",\"content\":",
                      "}],\"max_tokens\":", append_content, append_openai_end},
    [LF_LOAD_RESPONSES] = {"/v1/responses", "", "{\"input\":[{\"role\":\"user\",\"content\":",
                           "}],\"max_output_tokens\":", append_content, append_responses_end},
    [LF_LOAD_MESSAGES] = {"/v1/messages", "anthropic-version: 2023-06-01\r\n",
                          "{\"messages\":[{\"role\":\"user\",\"content\":", "}],\"max_tokens\":", append_content,
                          append_messages_end},
};

/* The rest of a request, whose head ends with these headers. The body is given up. */
static void append_body(struct lf_buf *out, const char *headers, struct lf_buf *body)
{
    lf_buf_printf(out, "%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", headers, body->len);
    lf_buf_str(out, lf_buf_view(body));
    if (body->status != LF_OK) out->status = body->status;
    lf_buf_deinit(body);
}

void lf_load_request(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    struct lf_buf body;
    lf_buf_init(&body, out->ceiling);
    lf_buf_cstr(&body, forms[shape->dialect].head);
    forms[shape->dialect].append_prompt(&body, shape, index);
    lf_buf_printf(&body, "%s%d,\"temperature\":0,\"stream\":true", forms[shape->dialect].middle, shape->n_output);
    forms[shape->dialect].append_end(&body, shape);
    lf_buf_char(&body, '}');
    append_head(out, "POST", forms[shape->dialect].path, shape->host, shape->key);
    append_body(out, forms[shape->dialect].headers, &body);
}

void lf_load_put(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    struct lf_buf body, path;
    lf_buf_init(&body, out->ceiling);
    lf_buf_init(&path, LF_DOCUMENT_NAME_BYTES + 64);
    lf_buf_cstr(&body, "{\"text\":\"");
    append_document_text(&body, shape, (int)index);
    lf_buf_printf(&body, "\",\"ttl\":%d}", DOCUMENT_TTL_S);
    lf_buf_cstr(&path, "/v1/documents/");
    append_document_name(&path, shape, (int)index);
    lf_buf_cstr(&path, "?wait=true");
    append_head(out, "PUT", lf_buf_view(&path).ptr, shape->host, shape->key);
    append_body(out, "", &body);
    lf_buf_deinit(&path);
}

void lf_load_get(struct lf_buf *out, const char *host, const char *key, const char *path)
{
    append_head(out, "GET", path, host, key);
    lf_buf_cstr(out, "\r\n");
}
