#include "server/http/api/document_reading.h"

#include "core/check.h"
#include "server/documents/documents.h"
#include "server/engine/engine.h"
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

enum lf_status lf_document_submit(struct lf_http_server *s, const struct lf_gen_params *params, struct lf_request **out,
                                  struct lf_api_err *err)
{
    struct lf_engine_state engine;
    struct lf_err why = {0};
    int retry_after_s = 1;
    lf_engine_snapshot(s->engine, &engine);
    int64_t room = LF_MIN(engine.ctx, (int64_t)engine.n_blocks * LF_KV_BLOCK_TOKENS);
    if (params->n_prompt >= room) return lf_refuse_context(err, "text", params->n_prompt, 1, room, false);
    enum lf_status status = lf_engine_submit(s->engine, params, out, &retry_after_s, &why);
    if (status == LF_LIMIT) return lf_refuse_context(err, "text", params->n_prompt, 1, room, false);
    return status == LF_OK ? LF_OK : lf_refuse_submit(err, status, retry_after_s, &why);
}
