/* /tokenize, /detokenize, /apply-template and /v1/messages/count_tokens: what the model sees, without running it. */
#include "core/check.h"
#include "core/json.h"
#include "server/engine/engine.h"
#include "server/http/conn/exchange.h"
#include "server/http/conn/handler.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

static void write_tokens(struct lf_buf *out, const struct lf_ids *ids, int64_t ctx)
{
    lf_buf_printf(out, "{\"count\":%zu,\"max_model_len\":%lld,\"tokens\":[", ids->n, (long long)ctx);
    for (size_t i = 0; i < ids->n; i++) lf_buf_printf(out, "%s%d", i ? "," : "", ids->ids[i]);
    lf_buf_cstr(out, "]}");
}

static void write_prompt(struct lf_buf *out, struct lf_str text)
{
    lf_buf_cstr(out, "{\"prompt\":");
    lf_json_write_string(out, text);
    lf_buf_char(out, '}');
}

enum lf_status lf_answer_tokenize(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_prompt_source_of(x);
    bool text = lf_json_type(ask->prompt) == LF_JSON_STRING, chat = ask->messages != NULL;
    if (text == chat)
        return lf_refuse(err, 400, "prompt", "missing_parameter", "Expected either prompt, a string, or messages.");
    LF_TRY(lf_prompts_read(&prompts, ask, &source, err));
    write_tokens(lf_reply_json(&x->reply, 200), &prompts.items[0].ids, source.ctx);
    lf_prompts_deinit(&prompts);
    return LF_OK;
}

enum lf_status lf_answer_detokenize(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    const struct lf_tokenizer *tok = x->server->tok;
    struct lf_buf text;
    struct lf_ids ids = {.memory = x->server->text_memory};
    enum lf_status status = LF_OK;
    if (lf_json_type(ask->tokens) == LF_JSON_NONE)
        return lf_refuse(err, 400, "tokens", "missing_parameter", "tokens: this field is needed.");
    lf_buf_init_in(&text, LF_REPLY_BYTES, x->server->text_memory);
    for (struct lf_json_value it = lf_json_first(ask->tokens); status == LF_OK && lf_json_more(ask->tokens, it);
         it = lf_json_next(ask->tokens, it)) {
        int32_t id = 0;
        status = lf_ask_token_id(&id, it, lf_tokenizer_n_vocab(tok), "tokens", err);
        if (status == LF_OK && lf_ids_push(&ids, id) != LF_OK) status = lf_refuse_work(err, LF_NO_MEMORY);
    }
    if (status == LF_OK &&
        (lf_tokenizer_decode(tok, &text, ids.ids, ids.n, true, &x->work, NULL) != LF_OK || text.status != LF_OK))
        status = lf_refuse_work(err, LF_NO_MEMORY);
    if (status == LF_OK) write_prompt(lf_reply_json(&x->reply, 200), lf_buf_view(&text));
    lf_ids_deinit(&ids);
    lf_buf_deinit(&text);
    return status;
}

enum lf_status lf_answer_apply_template(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_buf text;
    struct lf_prompt_source source = lf_prompt_source_of(x);
    lf_buf_init_in(&text, LF_REPLY_BYTES, x->server->text_memory);
    enum lf_status status = lf_prompt_render(&text, ask, &source, err);
    if (status == LF_OK && text.status != LF_OK) status = lf_refuse_work(err, LF_NO_MEMORY);
    if (status == LF_OK) write_prompt(lf_reply_json(&x->reply, 200), lf_buf_view(&text));
    lf_buf_deinit(&text);
    return status;
}

enum lf_status lf_answer_count_tokens(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_prompt_source_of(x);
    LF_TRY(lf_prompts_read(&prompts, ask, &source, err));
    lf_buf_printf(lf_reply_json(&x->reply, 200), "{\"input_tokens\":%zu}", prompts.items[0].ids.n);
    lf_prompts_deinit(&prompts);
    return LF_OK;
}
