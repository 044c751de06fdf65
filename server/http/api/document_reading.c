#include "server/http/api/document_reading.h"

#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "server/documents/documents.h"
#include "server/engine/engine.h"
#include "server/http/api/tools.h"
#include "server/http/conn/server.h"
#include "template/chat_template.h"

enum { LOWEST_PRIORITY = 1 << 20 };

/* The conversation that begins with it. */
static enum lf_status begin_conversation(struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_chat_message *messages = lf_arena_array(&ask->arena, 2, sizeof *messages);
    ask->documents = lf_arena_array(&ask->arena, 1, sizeof *ask->documents);
    if (!messages || !ask->documents) return lf_refuse_work(err, LF_NO_MEMORY);
    size_t n = 0;
    if (ask->system.len)
        messages[n++] = (struct lf_chat_message){.role = LF_STR("system"), .content = ask->system, .has_content = true};
    ask->documents[0] = (struct lf_ask_document){.message = n, .end = ask->text.len};
    ask->n_documents = 1;
    messages[n++] = (struct lf_chat_message){.role = LF_STR("user"), .content = ask->text, .has_content = true};
    ask->messages = messages;
    ask->n_messages = n;
    ask->messages_param = "text";
    return LF_OK;
}

enum lf_status lf_document_begin(struct lf_prompts *out, struct lf_ask *ask, const struct lf_prompt_source *source,
                                 struct lf_api_err *err)
{
    LF_TRY(begin_conversation(ask, err));
    return lf_prompts_read_beginning(out, ask, source, err);
}

struct lf_gen_params lf_document_params(struct lf_http_server *s, const struct lf_tenant *tenant,
                                        const struct lf_ask *ask, const struct lf_ids *ids)
{
    struct lf_gen_params params = {.prompt = ids->ids,
                                   .n_prompt = (int)ids->n,
                                   .sampling = ask->sampling,
                                   .n_prompt_logprobs = -1,
                                   .priority = LOWEST_PRIORITY,
                                   .salt = tenant->salt,
                                   .salt_bytes = sizeof tenant->salt,
                                   .tenant = tenant->id,
                                   .limits = tenant->limits.requests,
                                   .memory = s->text_memory};
    params.sampling.n_logprobs = -1;
    return params;
}

enum lf_status lf_document_read_tools(struct lf_ask *ask, struct lf_json *json, struct lf_str tools,
                                      const struct lf_ask_limits *limits, struct lf_api_err *err)
{
    struct lf_err why = {0};
    struct lf_reading r = {ask, limits, err};
    if (tools.len == 0) return LF_OK;
    enum lf_status status = lf_json_parse_in(json, tools, &lf_json_limits_request, limits->work, &why);
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(err, status);
    if (status != LF_OK) return lf_refuse(err, 400, "tools", "invalid_json", "tools: %s", why.message);
    return lf_tools_read(&r, "tools", lf_json_root(json));
}

static enum lf_status begin_again(struct lf_document_beginning *b, struct lf_http_server *s,
                                  const struct lf_document *doc, struct lf_work *work, struct lf_api_err *err)
{
    const struct lf_ask_limits limits = {
        .sampling = s->opts.sampling, .template = s->traits, .answers = s->answers, .work = work};
    const struct lf_document_content *content = lf_document_content(doc);
    struct lf_engine_state engine;
    lf_engine_snapshot(s->engine, &engine);
    const struct lf_prompt_source source = {.tok = s->tok, .chat = s->chat, .ctx = engine.ctx, .work = work};
    lf_ask_init(&b->ask, &limits);
    b->ask.text = content->text;
    b->ask.system = content->system;
    b->ask.now_s = lf_document_created_s(doc);
    LF_TRY(lf_document_read_tools(&b->ask, &b->tools, content->tools, &limits, err));
    LF_TRY(lf_document_begin(&b->prompts, &b->ask, &source, err));
    b->params = lf_document_params(s, &b->tenant, &b->ask, &b->prompts.items[0].ids);
    return LF_OK;
}

enum lf_status lf_document_begin_again(struct lf_document_beginning *out, struct lf_http_server *s,
                                       const struct lf_document *doc, struct lf_work *work, struct lf_api_err *err)
{
    *out = (struct lf_document_beginning){0};
    lf_tenant_from_salt(&out->tenant, lf_document_tenant(doc));
    enum lf_status status = begin_again(out, s, doc, work, err);
    if (status != LF_OK) lf_document_beginning_deinit(out);
    return status;
}

void lf_document_beginning_deinit(struct lf_document_beginning *b)
{
    lf_prompts_deinit(&b->prompts);
    lf_ask_deinit(&b->ask);
    lf_json_deinit(&b->tools);
}

uint8_t *lf_document_keys(struct lf_http_server *s, const struct lf_gen_params *params, int *n)
{
    struct lf_engine_state state;
    lf_engine_snapshot(s->engine, &state);
    int n_full = params->n_prompt / state.block_tokens;
    uint8_t *keys = n_full ? lf_text_alloc(s->text_memory, (size_t)n_full * LF_SHA256_BYTES) : NULL;
    *n = 0;
    if (!keys) return NULL;
    if (lf_engine_keys(s->engine, params, keys)) {
        *n = n_full;
        return keys;
    }
    lf_text_free(s->text_memory, keys);
    return NULL;
}

/* Whether what params pin finds room in every tier that it is to stay in: else 507. */
static enum lf_status check_pin_room(struct lf_http_server *s, const struct lf_engine_state *state,
                                     const struct lf_gen_params *params, struct lf_api_err *err)
{
    int64_t n_full = params->n_prompt / state->block_tokens;
    for (int pin = LF_PIN_DISK; pin <= (int)params->pin; pin++) {
        const struct lf_engine_pins *pins = &state->pins[pin];
        int64_t n = lf_engine_pin_blocks(s->engine, (enum lf_pin)pin, n_full);
        int64_t n_spare = lf_engine_pin_blocks(s->engine, (enum lf_pin)pin, params->pin_spare[pin]);
        int64_t n_left = pins->n_most - pins->n + n_spare;
        if (!pins->n_most || n <= n_left) continue;
        return lf_refuse(err, 507, "tier", "pins_full",
                         "%lld tokens would be pinned (%s) in %lld blocks; at most half of a tier may be, and there is "
                         "room for %lld blocks of %lld: unpin a document, or name a lower tier.",
                         (long long)(n_full * state->block_tokens), lf_pin_name((enum lf_pin)pin), (long long)n,
                         (long long)LF_MAX(n_left, 0), (long long)pins->n_most);
    }
    return LF_OK;
}

enum lf_status lf_document_submit(struct lf_http_server *s, const struct lf_gen_params *params, struct lf_request **out,
                                  struct lf_api_err *err)
{
    struct lf_engine_state engine;
    struct lf_err why = {0};
    int retry_after_s = 1;
    lf_engine_snapshot(s->engine, &engine);
    int64_t room = engine.most_tokens;
    if (params->n_prompt >= room) return lf_refuse_context(err, "text", params->n_prompt, 1, room, false);
    LF_TRY(check_pin_room(s, &engine, params, err));
    int64_t most = params->pin == LF_PIN_DEVICE ? room : lf_engine_most(s->engine, params);
    if (params->n_prompt > most) return lf_refuse_beside_pins(err, "text", params->n_prompt, most);
    enum lf_status status = lf_engine_submit(s->engine, params, out, &retry_after_s, &why);
    if (status == LF_LIMIT) return lf_refuse_beside_pins(err, "text", params->n_prompt, most); /* pinned meanwhile */
    return status == LF_OK ? LF_OK : lf_refuse_submit(err, status, retry_after_s, &why);
}
