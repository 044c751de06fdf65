/* A request body of the OpenAI API, read and checked: from JSON to plain data.
 *
 * One table says which fields there are, of what kind and in which range; another (unsupported_fields.h), which ones
 * would change the meaning of the answer and are refused by name. Every optional field may be null. Unknown fields are
 * counted and otherwise ignored. Nothing here knows of sockets or of the engine's queue. */
#ifndef LF_SERVER_HTTP_OPENAI_REQUEST_H
#define LF_SERVER_HTTP_OPENAI_REQUEST_H

#include "core/arena.h"
#include "core/json.h"
#include "core/limits.h"
#include "server/engine/request.h"
#include "server/http/reply.h"

enum { LF_CACHE_SALT_BYTES = 256 };

/* Which endpoints know a field. */
enum lf_ask_kind { LF_ASK_COMPLETION = 1, LF_ASK_CHAT = 2, LF_ASK_TOKENIZE = 4, LF_ASK_DETOKENIZE = 8 };

/* What was asked. Integers that were not given are LF_ABSENT. Views live in the arena. */
#define LF_ABSENT INT64_MIN
struct lf_ask {
    enum lf_ask_kind kind;
    struct lf_arena arena;
    int n_unknown; /* fields that nobody knows */

    struct lf_json_value prompt, tokens;    /* borrowed from the document */
    const struct lf_chat_message *messages; /* [n_messages] in the arena; NULL: not given */
    size_t n_messages;
    struct lf_json_value template_vars; /* chat_template_kwargs */
    struct lf_str model;                /* empty: not given */

    bool stream, include_usage, return_progress, echo;
    bool add_special_tokens, parse_special, add_generation_prompt; /* true unless given */
    bool chat_logprobs;
    int64_t logprobs, top_logprobs; /* LF_ABSENT: none */
    int64_t n, best_of;             /* n is 1 unless given */
    int64_t max_tokens, max_completion_tokens, min_tokens;
    bool ignore_eos, seed_given;
    int64_t seed, top_k, priority;
    struct lf_sampling sampling; /* its seed and n_logprobs are set from the fields above by who submits */
    int n_stops;
    struct lf_str stops[LF_STOP_N];
    int n_stop_tokens;
    int32_t stop_tokens[LF_STOP_TOKENS_N];
    struct lf_str cache_salt;
};

struct lf_ask_limits {
    int max_choices;
    int n_vocab;
    bool keep_developer;  /* the template knows this role; else it is written as system */
    struct lf_work *work; /* of reading it: its memory, and who waits; NULL: the process's heap */
};

/* Reads the root object of a request of that kind. ask is to be deinitialized whatever comes back. */
LF_MUST_CHECK enum lf_status lf_ask_read(struct lf_ask *ask, enum lf_ask_kind kind, const struct lf_json *json,
                                         const struct lf_ask_limits *limits, struct lf_api_err *err);
void lf_ask_deinit(struct lf_ask *ask);

/* An id of the vocabulary, or a refusal that names param. */
LF_MUST_CHECK enum lf_status lf_ask_token_id(int32_t *out, struct lf_json_value v, int n_vocab, const char *param,
                                             struct lf_api_err *err);
/* The unescaped text of a string, in the ask's arena. */
LF_MUST_CHECK enum lf_status lf_ask_text(struct lf_ask *ask, struct lf_str *out, struct lf_json_value v,
                                         const char *param, struct lf_api_err *err);

#endif
