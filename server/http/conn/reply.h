/* Replies: what goes back for one HTTP request that is not a stream, and the one shape that every error has. */
#ifndef LF_SERVER_HTTP_CONN_REPLY_H
#define LF_SERVER_HTTP_CONN_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/str.h"

enum { LF_REPLY_BYTES = 256 * 1024 * 1024, LF_PARAM_BYTES = 64 };

/* A refusal on its way to becoming `{"error":{…}}`. Filled by lf_refuse; the extra keys are set by who knows them. */
struct lf_api_err {
    int status;                 /* HTTP */
    const char *type;           /* static; follows from the status */
    const char *code;           /* static; NULL: null */
    char param[LF_PARAM_BYTES]; /* "": null */
    char message[LF_ERR_MESSAGE_BYTES];
    int retry_after_s; /* 0: no Retry-After */
    bool has_context;  /* context_length_exceeded carries three numbers more */
    int64_t n_prompt_tokens, n_ctx, max_tokens_allowed;
    bool has_progress; /* 503 while loading: 0..1 */
    double progress;
};

/* Fills err and returns LF_INVALID, so that refusing is one line. param and code may be NULL. */
LF_MUST_CHECK enum lf_status lf_refuse(struct lf_api_err *err, int status, const char *param, const char *code,
                                       const char *fmt, ...) LF_PRINTF(5, 6);
/* What stopped work on a text (core/work.h): no memory for it now, a deadline, or that the server stops. */
LF_MUST_CHECK enum lf_status lf_refuse_work(struct lf_api_err *err, enum lf_status why);
/* A limit of the client's own (LF_QUOTA), in the engine's words. */
LF_MUST_CHECK enum lf_status lf_refuse_rate(struct lf_api_err *err, int retry_after_s, const struct lf_err *why);
/* The error's JSON, one line. */
void lf_api_err_write(struct lf_buf *out, const struct lf_api_err *err);

struct lf_reply {
    int status; /* 0: none yet */
    struct lf_buf body;
    struct lf_str bytes;      /* static, in place of body; NULL: none */
    const char *content_type; /* static */
    const char *allow;        /* static; 405 and OPTIONS */
    int retry_after_s;
    char etag[40], location[160]; /* headers of what has them; "": none */
    const char *policy;           /* static: Content-Security-Policy of what browsers show; NULL: none */
    bool close;                   /* the connection ends with it */
};

void lf_reply_init(struct lf_reply *reply);
/* Where its body is to be from now on; nothing has been written yet. */
void lf_reply_use_memory(struct lf_reply *reply, struct lf_text_memory *memory);
void lf_reply_deinit(struct lf_reply *reply);
/* Takes the reply back to an empty JSON one of that status; the body is then written by the caller. */
struct lf_buf *lf_reply_json(struct lf_reply *reply, int status);
/* The same for bytes that are in the program. */
void lf_reply_static(struct lf_reply *reply, int status, const char *content_type, struct lf_str bytes);
void lf_reply_error(struct lf_reply *reply, const struct lf_api_err *err);

#endif
