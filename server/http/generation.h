/* A generation: the engine requests of one HTTP request (one per prompt and choice), and the text they become.
 *
 * Pull-style: the engine publishes token ids at its own pace and waits for nobody; text is made of them when somebody
 * asks, that is when the socket has room. A choice goes through its tokens one by one, through the detokenizer and the
 * stop strings, whether it is streamed or not, so a stream's pieces add up to the whole answer byte for byte.
 *
 * Owned by its call and used by one thread at a time: the worker that starts it, then libmicrohttpd's. */
#ifndef LF_SERVER_HTTP_GENERATION_H
#define LF_SERVER_HTTP_GENERATION_H

#include "server/engine/request.h"
#include "server/http/call.h"
#include "server/http/prompts.h"
#include "server/http/token_text.h"
#include "tokenizer/detok.h"
#include "tokenizer/stop.h"

enum { LF_ANSWER_BYTES = 64 * 1024 * 1024 };

struct lf_choice {
    struct lf_request *req; /* one reference; NULL before submit */
    const struct lf_prompt *prompt;
    struct lf_detok detok, echo_detok;
    struct lf_stop stop;
    int n_read;   /* tokens taken: what usage counts */
    int n_echoed; /* prompt tokens whose log-probabilities were taken */
    bool echo_done;
    struct lf_buf text; /* made and not yet written out */
    size_t text_sent;   /* of it, in a stream */
    struct lf_logprob_text lp;
    int64_t offset, echo_offset; /* code points before the next token, generated or echoed */
    const char *finish;          /* finish_reason; NULL: goes on */
    int64_t finished_ns;
    bool finish_sent;
};

struct lf_generation {
    const struct lf_tokenizer *tok;
    struct lf_ask ask;         /* owned: stop strings and salt live in its arena */
    struct lf_prompts prompts; /* owned; the ids are dropped at submit unless they are echoed */
    int n_choices, n_finished;
    struct lf_choice *choices; /* [n_choices]; choice i belongs to prompt i / ask.n */
    struct lf_buf head;        /* `{"id":…,"object":…,"created":…,"model":…,"choices":[` */
    int64_t tokenize_ns, n_prompt_tokens;
    bool failed;
    struct lf_api_err err; /* where failed */
};

/* Checks lengths and submits every choice. ask and prompts are taken over whatever comes back. On success call->gen is
 * set, and the engine may notify the call from now on. */
LF_MUST_CHECK enum lf_status lf_generation_start(struct lf_call *call, struct lf_ask *ask, struct lf_prompts *prompts,
                                                 int64_t tokenize_ns, struct lf_api_err *err);
void lf_generation_destroy(struct lf_generation *gen); /* accepts NULL; cancels what runs */

/* Takes what was published for a choice. one: at most until there is text to show (a stream); else all of it. After it
 * text, lp and finish say what there is; an error of the engine sets gen->failed. */
void lf_choice_pull(struct lf_generation *gen, struct lf_choice *c, bool one);
/* The answer without a stream: true when it is whole, and written into reply. */
bool lf_generation_poll(struct lf_generation *gen, struct lf_reply *reply);

#endif
