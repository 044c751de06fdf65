#include "server/http/conn/reply.h"

#include <stdio.h>

#include "core/check.h"
#include "core/json.h"

static const char *type_of_status(int status)
{
    if (status == 429) return "rate_limit_error";
    if (status == 401) return "authentication_error";
    return status >= 500 ? "server_error" : "invalid_request_error";
}

enum lf_status lf_refuse(struct lf_api_err *err, int status, const char *param, const char *code, const char *fmt, ...)
{
    *err = (struct lf_api_err){.status = status, .type = type_of_status(status), .code = code};
    snprintf(err->param, sizeof err->param, "%s", param ? param : "");
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    return LF_INVALID;
}

enum lf_status lf_refuse_rate(struct lf_api_err *err, int retry_after_s, const struct lf_err *why)
{
    int wait_s = LF_MIN(LF_MAX(retry_after_s, 1), 60);
    (void)!lf_refuse(err, 429, NULL, "rate_limit_exceeded", "Too much for this key: %s. Try again in %d s.",
                     why->message, wait_s);
    err->retry_after_s = wait_s;
    return LF_INVALID;
}

enum lf_status lf_refuse_work(struct lf_api_err *err, enum lf_status why)
{
    if (why == LF_TIMEOUT)
        return lf_refuse(err, 503, NULL, "request_timeout", "The request took longer than this server allows.");
    if (why == LF_CANCELLED) return lf_refuse(err, 503, NULL, "draining", "The server is shutting down.");
    (void)!lf_refuse(err, 503, NULL, "text_memory_full",
                     "No memory for the text of this request right now (--text-memory): try again in a moment.");
    err->retry_after_s = 1;
    return LF_INVALID;
}

static void write_nullable(struct lf_buf *out, const char *s)
{
    if (s && *s)
        lf_json_write_string(out, lf_str_c(s));
    else
        lf_buf_cstr(out, "null");
}

void lf_api_err_write(struct lf_buf *out, const struct lf_api_err *err)
{
    lf_buf_cstr(out, "{\"error\":{\"message\":");
    lf_json_write_string(out, lf_str_c(err->message));
    lf_buf_printf(out, ",\"type\":\"%s\",\"param\":", err->type);
    write_nullable(out, err->param);
    lf_buf_cstr(out, ",\"code\":");
    write_nullable(out, err->code);
    if (err->has_context)
        lf_buf_printf(out, ",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld,\"max_tokens_allowed\":%lld",
                      (long long)err->n_prompt_tokens, (long long)err->n_ctx, (long long)err->max_tokens_allowed);
    if (err->has_progress) lf_buf_printf(out, ",\"progress\":%.3f", err->progress);
    lf_buf_cstr(out, "}}");
}

void lf_reply_init(struct lf_reply *reply)
{
    *reply = (struct lf_reply){0};
    lf_buf_init(&reply->body, LF_REPLY_BYTES);
}

void lf_reply_use_memory(struct lf_reply *reply, struct lf_text_memory *memory)
{
    if (!reply->body.ptr) reply->body.memory = memory;
}

void lf_reply_deinit(struct lf_reply *reply)
{
    lf_buf_deinit(&reply->body);
}

struct lf_buf *lf_reply_json(struct lf_reply *reply, int status)
{
    lf_buf_clear(&reply->body);
    reply->bytes = (struct lf_str){0};
    reply->policy = NULL;
    reply->status = status;
    reply->content_type = "application/json";
    reply->allow = NULL;
    reply->retry_after_s = 0;
    return &reply->body;
}

void lf_reply_static(struct lf_reply *reply, int status, const char *content_type, struct lf_str bytes)
{
    (void)lf_reply_json(reply, status);
    reply->content_type = content_type;
    reply->bytes = bytes;
}

void lf_reply_error(struct lf_reply *reply, const struct lf_api_err *err)
{
    lf_api_err_write(lf_reply_json(reply, err->status), err);
    reply->retry_after_s = err->retry_after_s;
}
