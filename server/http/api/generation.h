/* A generation: the engine requests of one HTTP request (one per prompt and choice), and the text they become.
 *
 * Pull-style: the engine publishes token ids at its own pace and waits for nobody; text is made of them when somebody
 * asks, that is when the socket has room. A choice goes through its tokens one by one, through the detokenizer and the
 * stop strings, whether it is streamed or not, so a stream's pieces add up to the whole answer byte for byte. It can go
 * through them again (rewind), so a whole answer need not be held to be sent.
 *
 * Used by one thread at a time: the worker that starts it, then libmicrohttpd's. */
#ifndef LF_SERVER_HTTP_API_GENERATION_H
#define LF_SERVER_HTTP_API_GENERATION_H

#include "server/engine/request.h"
#include "server/http/conn/auth.h"
#include "server/http/api/dialect.h"
#include "server/http/api/prompts.h"
#include "server/http/api/token_text.h"
#include "tokenizer/detok.h"
#include "tokenizer/stop.h"

struct lf_choice {
    struct lf_request *req; /* one reference; NULL before submit */
    const struct lf_prompt *prompt;
    struct lf_detok detok, echo_detok;
    struct lf_stop stop;
    int n_read;   /* tokens taken: what usage counts */
    int n_echoed; /* prompt tokens whose log-probabilities were taken */
    bool echo_done;
    struct lf_buf text; /* made and not yet shown */
    size_t text_shown;  /* of it */
    struct lf_logprob_text lp;
    int64_t offset, echo_offset; /* code points before the next token, generated or echoed */
    const char *finish;          /* finish_reason; NULL: goes on */
    int64_t finished_ns;
    bool finish_shown; /* a stream told it */
};

struct lf_generation {
    const struct lf_dialect *dialect;
    const struct lf_tokenizer *tok;
    struct lf_text_memory *memory;
    struct lf_ask ask;         /* owned: stop strings and salt live in its arena */
    struct lf_prompts prompts; /* owned; the ids are dropped at submit unless they are echoed */
    int n_choices, n_finish_shown;
    struct lf_choice *choices; /* [n_choices], owned; choice i belongs to prompt i / ask.n */
    char id[25];
    const char *model;  /* borrowed */
    int64_t created_s;  /* unix time */
    struct lf_buf head; /* what a printer puts before each event, if it likes */
    int64_t tokenize_ns, n_prompt_tokens;
    bool quiet; /* log-probabilities are not gathered while text is pulled */
    bool failed;
    struct lf_api_err err; /* where failed */
};

/* What starting one takes beside the request itself. All borrowed during the call, but for tok, model and memory. */
struct lf_generation_params {
    const struct lf_dialect *dialect;
    const struct lf_tokenizer *tok;
    struct lf_engine *engine;
    struct lf_text_memory *memory;
    const char *id, *model;
    const struct lf_tenant *tenant;
    uint64_t seed; /* where the request gives none */
    int64_t deadline_ns, tokenize_ns;
    int default_max_tokens;
    struct lf_grammar *grammar;       /* of every choice; NULL: any text */
    struct lf_vocabulary *vocabulary; /* NULL where there is no grammar; borrowed as tok is */
    void (*notify)(void *ctx);        /* the engine's thread, from the start until lf_generation_destroy returns */
    void *notify_ctx;
};

/* Checks lengths and submits every choice. ask and prompts are taken over whatever comes back. */
LF_MUST_CHECK enum lf_status lf_generation_start(struct lf_generation **out, const struct lf_generation_params *params,
                                                 struct lf_ask *ask, struct lf_prompts *prompts,
                                                 struct lf_api_err *err);
void lf_generation_destroy(struct lf_generation *gen); /* accepts NULL; cancels what runs */

/* Takes what was published for a choice. one: at most until there is text to show; else all of it. After it text, lp
 * and finish say what there is; an error of the engine sets gen->failed. */
void lf_choice_pull(struct lf_generation *gen, struct lf_choice *c, bool one);
/* The next piece of text to show, cut between code points, and that it was shown; empty: none is there. */
struct lf_str lf_choice_next_text(const struct lf_choice *c);
void lf_choice_shown(struct lf_choice *c, size_t n);
/* Back to the first token. */
void lf_choice_rewind(struct lf_generation *gen, struct lf_choice *c);

#endif
