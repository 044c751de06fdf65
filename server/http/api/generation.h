/* A generation: the engine requests of one HTTP request (one per prompt and choice), and the parts they become.
 *
 *     token ─▸ detokenizer ─▸ stop strings ─▸ parser ─▸ text, reasoning, calls (parts.h)
 *        └──────── a control token: by its text ──┘
 *
 * Pull-style: the engine publishes token ids at its own pace and waits for nobody; text is made of them when somebody
 * asks, that is when the socket has room. A choice goes through its tokens one by one, through the detokenizer, the
 * stop strings and, where the request has tools or the model reasons, the parser of its answers' format, whether it is
 * streamed or not, so a stream's pieces add up to the whole answer byte for byte. It can go through them again
 * (rewind), so a whole answer need not be held to be sent.
 *
 * Stop strings look at what the model writes, markers of calls and of reasoning among it where they are no control
 * tokens; a control token ends a stop string that has only begun.
 *
 * Used by one thread at a time: the worker that starts it, then libmicrohttpd's. */
#ifndef LF_SERVER_HTTP_API_GENERATION_H
#define LF_SERVER_HTTP_API_GENERATION_H

#include "server/engine/request.h"
#include "server/http/conn/auth.h"
#include "server/http/api/dialect.h"
#include "server/http/api/parts.h"
#include "server/http/api/prompts.h"
#include "server/http/api/token_text.h"
#include "tokenizer/detok.h"
#include "tokenizer/stop.h"

/* What there is in an answer. */
struct lf_answer_shape {
    bool has_text, has_reasoning;
    int n_calls, n_whole_calls; /* n_whole_calls: the last one may have been cut */
};

struct lf_choice {
    struct lf_request *req; /* one reference; NULL before submit */
    const struct lf_prompt *prompt;
    struct lf_detok detok, echo_detok;
    struct lf_stop stop;
    int n_read;      /* tokens taken: what usage counts */
    int n_ids_shown; /* of these, ids that a stream has shown; -1: nothing of the choice yet */
    int n_echoed;    /* prompt tokens whose log-probabilities were taken */
    bool echo_done;
    struct lf_answer_parser *parser; /* owned; NULL: all is text */
    struct lf_parts parts;           /* made, and shown or not */
    int n_reasoning, n_unplaced;     /* tokens of reasoning; those read since the last part that was made */
    int pass;                        /* a whole answer: how often its tokens were gone through before */
    struct lf_answer_shape shape;    /* once it has ended */
    struct lf_logprob_text lp;
    int64_t offset, echo_offset; /* code points before the next token, generated or echoed */
    const char *finish;          /* finish_reason; NULL: goes on */
    int64_t finished_ns;
    bool finish_shown; /* a stream told it */
};

/* An answer that called tools has ended for that, unless it was cut: by its length, or in a call by a stop string. */
static inline bool lf_choice_called(const struct lf_choice *c)
{
    return strcmp(c->finish, "stop") == 0 && c->shape.n_calls > 0 && c->shape.n_whole_calls == c->shape.n_calls;
}

struct lf_generation {
    const struct lf_dialect *dialect;
    const struct lf_tokenizer *tok;
    struct lf_text_memory *memory;
    struct lf_ask ask;         /* owned: stop strings and salt live in its arena */
    struct lf_prompts prompts; /* owned; the ids are dropped at submit unless they are echoed */
    int n_choices, n_finish_shown;
    struct lf_choice *choices; /* [n_choices], owned; choice i belongs to prompt i / ask.n */
    char id[25];
    char shown_id[LF_REQUEST_ID_BYTES + 1]; /* the client's own, or id */
    const char *model;                      /* borrowed */
    const char *fingerprint;                /* borrowed; NULL: none is shown */
    int64_t created_s;                      /* unix time */
    struct lf_buf head;                     /* what a printer puts before each event, if it likes */
    void *kept;                             /* what else printers remember; the dialect's */
    int64_t tokenize_ns, n_prompt_tokens;
    bool has_reasoning; /* answers are looked through for it, so usage says how much there is */
    bool quiet;         /* log-probabilities are not gathered while text is pulled */
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
    const char *client_id, *fingerprint; /* client_id NULL: id is shown */
    const struct lf_tenant *tenant;
    uint64_t seed; /* where the request gives none */
    int64_t deadline_ns, tokenize_ns;
    int default_max_tokens;
    int speculate;                         /* where the request does not say */
    const struct lf_answer_format *format; /* of the model's answers; NULL: all is text */
    bool reasoning;                        /* is split off where the format has it */
    struct lf_grammar *grammar;            /* of every choice; NULL: any text */
    struct lf_vocabulary *vocabulary;      /* NULL where there is no grammar; borrowed as tok is */
    void (*notify)(void *ctx);             /* the engine's thread, from the start until lf_generation_destroy returns */
    void *notify_ctx;
};

static inline bool lf_generation_continues(const struct lf_generation *gen)
{
    return lf_answer_continues(gen->dialect, &gen->ask);
}

/* Checks lengths and submits every choice. ask and prompts are taken over whatever comes back. */
LF_MUST_CHECK enum lf_status lf_generation_start(struct lf_generation **out, const struct lf_generation_params *params,
                                                 struct lf_ask *ask, struct lf_prompts *prompts,
                                                 struct lf_api_err *err);
void lf_generation_destroy(struct lf_generation *gen); /* accepts NULL; cancels what runs */

/* Takes what was published for a choice. one: at most until there is a part to show; else all of it. After it parts, lp
 * and finish say what there is; an error of the engine sets gen->failed. */
void lf_choice_pull(struct lf_generation *gen, struct lf_choice *c, bool one);
/* Back to the first token. */
void lf_choice_rewind(struct lf_generation *gen, struct lf_choice *c);
/* A choice's call has an id of its own, the same however the answer is sent. Nine letters and digits are what every
 * template takes back, and too many to come twice. */
struct lf_call_id {
    char text[10];
};
struct lf_call_id lf_call_id(const struct lf_generation *gen, int idx, int call);

#endif
