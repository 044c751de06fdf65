/* See prediction.h. */
#include "server/http/api/prediction.h"

#include "core/check.h"
#include "core/work.h"
#include "server/http/api/messages.h"

const char lf_prediction_type[] = "object: `type` `\"content\"`, and `content`, a string or an array of text parts";
const char lf_prediction_help[] =
    "text that the answer is likely to repeat, a file that is to be edited, no longer than a context: steps try its "
    "tokens as `speculate` says, or as many as pay where neither that nor `--speculate` says anything; the answer is "
    "the same. Of no effect where `speculate` has none";

enum lf_status lf_prediction_read(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_json_value content = lf_json_get(v, "content");
    if (lf_json_type(v) != LF_JSON_OBJECT || !lf_json_string_is(lf_json_get(v, "type"), "content"))
        return lf_ask_expected(r, name, v, "an object of type content");
    if (lf_json_type(content) == LF_JSON_STRING)
        return lf_ask_text(r->ask, &r->ask->prediction, content, "prediction.content", r->err);
    if (lf_json_type(content) == LF_JSON_ARRAY)
        return lf_message_parts(&r->ask->prediction, r, content, "prediction.content", LF_NO_DOCUMENTS);
    return lf_ask_expected(r, "prediction.content", content, "a string or an array of text parts");
}

/* A client's whole text may come: it is read no further than what a context holds. */
static enum lf_status encode(struct lf_ids *out, const struct lf_ask *ask, const struct lf_prompt_source *source,
                             struct lf_api_err *err)
{
    struct lf_err why = {0};
    enum lf_status status = lf_tokenizer_encode(source->tok, out, ask->prediction, NULL, 0, LF_ENCODE_GOES_ON,
                                                (size_t)source->ctx, source->work, &why);
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(err, status);
    if (status == LF_LIMIT)
        return lf_refuse(err, 400, "prediction", "invalid_value",
                         "prediction: more than %lld tokens, which is longer than an answer can be.",
                         (long long)source->ctx);
    if (status == LF_UNSUPPORTED)
        return lf_refuse(err, 400, "prediction", "text_too_expensive", "prediction: %s", why.message);
    return status == LF_OK ? LF_OK : lf_refuse(err, 400, "prediction", "invalid_value", "prediction: %s", why.message);
}

static enum lf_status keep(struct lf_ask *ask, const struct lf_ids *ids, struct lf_api_err *err)
{
    if (ids->n == 0) return LF_OK;
    int32_t *copy = lf_arena_array(&ask->arena, ids->n, sizeof *copy);
    if (!copy) return lf_refuse_work(err, LF_NO_MEMORY);
    memcpy(copy, ids->ids, ids->n * sizeof *copy);
    ask->prediction_ids = copy;
    ask->n_prediction_ids = (int)ids->n;
    return LF_OK;
}

enum lf_status lf_prediction_encode(struct lf_ask *ask, const struct lf_prompt_source *source, struct lf_api_err *err)
{
    struct lf_ids ids = {.memory = lf_work_memory(source->work)};
    if (ask->prediction.len == 0) return LF_OK;
    enum lf_status status = encode(&ids, ask, source, err);
    if (status == LF_OK) status = keep(ask, &ids, err);
    lf_ids_deinit(&ids);
    return status;
}
