/* A request, whatever dialect it came in: what was asked, as plain data, and how a body is read into it.
 *
 * A dialect's body is a JSON object, and a table says which fields there are, of what kind and in which range; a second
 * one (unsupported_fields.h) which ones would change the meaning of the answer and are refused by name. Every optional
 * field may be null. Unknown fields are counted and otherwise ignored. Nothing here knows of sockets or of the engine's
 * queue. */
#ifndef LF_SERVER_HTTP_API_ASK_H
#define LF_SERVER_HTTP_API_ASK_H

#include "core/arena.h"
#include "core/json.h"
#include "core/pin.h"
#include "core/limits.h"
#include "server/engine/request.h"
#include "server/http/api/format.h"
#include "server/http/conn/reply.h"
#include "template/answer_format.h"

struct lf_chat_message;
struct lf_chat_tool;
struct lf_document;
struct lf_documents;
struct lf_response;
struct lf_response_store;
struct lf_unsupported_table;

enum { LF_CACHE_SALT_BYTES = 256 };

/* A document in a message: behind its text is a token boundary. */
struct lf_ask_document {
    struct lf_document *document; /* one reference, the ask's; NULL: it has no name here */
    struct lf_str text;           /* the document's, or in the arena */
    size_t message;               /* which one */
    size_t end;                   /* in that message's content: where its text ends */
};

/* What was asked. Integers that were not given are LF_ABSENT. Views live in the arena. */
#define LF_ABSENT INT64_MIN
enum lf_switch { LF_SWITCH_UNSET, LF_SWITCH_OFF, LF_SWITCH_ON };
struct lf_ask {
    struct lf_arena arena;
    int n_unknown; /* fields that nobody knows */

    struct lf_json_value prompt, tokens;    /* borrowed from the document */
    const struct lf_chat_message *messages; /* [n_messages] in the arena; NULL: not given */
    size_t n_messages;
    const char *messages_param;         /* the field that they came in, as refusals name it; static */
    struct lf_json_value template_vars; /* chat_template_kwargs */
    struct lf_str reasoning_effort;     /* for the template; empty: not given */
    enum lf_switch thinking;            /* the same */
    bool include_reasoning;             /* true unless given */
    /* Tools: as the template gets them, those that may be called, and whether they must. */
    struct lf_json_value tool_values;      /* an array; borrowed from the document; or NONE, and then … */
    const struct lf_chat_tool *made_tools; /* [n_made_tools] */
    size_t n_made_tools;
    struct lf_tool *tools; /* [n_tools] */
    size_t n_tools;
    enum lf_tool_choice tool_choice;
    struct lf_json_value tool_choice_value; /* until it is read; borrowed from the document */
    bool parallel_tool_calls;               /* true unless given */
    struct lf_json *arguments;              /* [n_arguments] parsed texts of arguments, until the prompt is made */
    size_t n_arguments;
    uint32_t n_argument_nodes; /* of all of them */
    struct lf_str model;       /* empty: not given */

    bool may_be_empty; /* a prompt without a token is no error: it is only counted */
    bool stream, stream_options, include_usage, return_progress, echo;
    bool echo_final;                              /* the answer's text begins with the assistant's last message */
    bool continuous_usage;                        /* in every chunk of a stream */
    bool continue_final_message;                  /* the answer goes on from the last message */
    bool generation_prompt_asked;                 /* add_generation_prompt: true was said */
    bool include_stop, return_ids, tokens_as_ids; /* include_stop_str_in_output, return_token_ids, … */
    bool skip_special_tokens;                     /* true unless given */
    struct lf_str request_id;                     /* the client's; empty: not given */
    bool add_special_tokens, parse_special, add_generation_prompt; /* true unless given */
    bool chat_logprobs;
    int64_t logprobs, top_logprobs, prompt_logprobs; /* LF_ABSENT: none */
    int64_t n, best_of;                              /* n is 1 unless given */
    int64_t max_tokens, max_completion_tokens, min_tokens;
    bool ignore_eos, seed_given;
    int64_t seed, top_k, priority;
    int64_t speculate;             /* as in struct lf_gen_params; LF_ABSENT: as the server's option has it */
    struct lf_str prediction;      /* in the arena: what the answer is likely to be; empty: not given … */
    const int32_t *prediction_ids; /* … and as ids, once they are encoded */
    int n_prediction_ids, n_stops, n_stop_tokens, n_allowed_tokens;
    struct lf_sampling sampling; /* its seed and n_logprobs are set from the fields above by who submits */
    struct lf_str stops[LF_STOP_N];
    int32_t stop_tokens[LF_STOP_TOKENS_N];
    const int32_t *allowed_tokens; /* [n_allowed_tokens] in the arena: all that may come; 0: any */
    struct lf_str *bad_words;      /* [n_bad_words] in the arena: texts that must not come … */
    int n_bad_words;
    const int32_t *bad_ids; /* [n_bad_ids] … as ids, once they are encoded: of each how many, and these */
    int n_bad_ids;
    struct lf_str cache_salt;
    struct lf_format format; /* of the text of the answer */
    /* Of /v1/responses: */
    struct lf_str repeated;              /* members of the answer that repeat the request, as JSON */
    bool store;                          /* true unless given */
    struct lf_response_store *responses; /* where the next two are; borrowed */
    struct lf_response *previous;        /* that it goes on from: one reference; NULL: none */
    struct lf_response *response;        /* that is to be stored: one reference; NULL: it is not */
    struct lf_json *stored;              /* [n_stored] parsed texts of previous ones, until the prompt is made */
    size_t n_stored;

    struct lf_documents *source;       /* where those with names are; borrowed */
    struct lf_ask_document *documents; /* [n_documents] in the arena, as they come in the messages */
    size_t n_documents;
    int64_t now_s; /* the date that the template is told; 0: of now */

    /* Of a document to be put. */
    struct lf_str text, system;
    int64_t ttl_s;
    bool pin_given, pin_default; /* it is to stay somewhere, or nowhere; and where is not said */
    enum lf_pin pin;
};

/* What the model's chat template knows. */
struct lf_template_traits {
    bool keep_developer; /* the role developer; else it is written as system */
    bool has_tools;      /* definitions of tools */
    bool has_calls;      /* calls in messages */
    bool has_thinking;   /* the switch enable_thinking */
};

struct lf_ask_limits {
    int max_choices;
    int n_vocab;
    const struct lf_sampling_defaults *sampling; /* NULL: LF_SAMPLING_PLAIN */
    struct lf_template_traits template;
    const struct lf_answer_format *answers; /* how answers are taken apart; NULL: not at all */
    struct lf_documents *documents;         /* that messages may name; NULL: there are none */
    struct lf_response_store *responses;    /* that requests may go on from; NULL: there are none */
    const uint8_t *tenant;                  /* [LF_SHA256_BYTES] whose */
    uint64_t document_bytes;                /* of all those of one request, at most; and of what it goes on from */
    struct lf_work *work;                   /* of reading it: its memory, and who waits; NULL: the process's heap */
};

/* Whether the model's answers have reasoning. */
static inline bool lf_ask_reasons(const struct lf_ask_limits *limits)
{
    return limits->answers && lf_answer_format_has_reasoning(limits->answers);
}

/* Defaults, and the arena. To be deinitialized. */
void lf_ask_init(struct lf_ask *ask, const struct lf_ask_limits *limits);
void lf_ask_deinit(struct lf_ask *ask);
/* The prompt has been made: what was only kept for it goes. */
void lf_ask_drop_arguments(struct lf_ask *ask);

/* ---- reading ---- */

struct lf_reading {
    struct lf_ask *ask;
    const struct lf_ask_limits *limits;
    struct lf_api_err *err;
};

typedef enum lf_status lf_read_fn(struct lf_reading *r, const char *name, struct lf_json_value v);

/* BOOL, INT, FLOAT: stored there in the ask, numbers within the range, its ends included. READ: by a function. */
enum lf_field_kind { LF_FIELD_BOOL, LF_FIELD_INT, LF_FIELD_FLOAT, LF_FIELD_READ };

struct lf_field {
    const char *name;
    unsigned asks; /* bits of the table's own: which of its endpoints know it */
    enum lf_field_kind kind;
    size_t at; /* of the ask: LF_ASK_AT */
    double range[2];
    lf_read_fn *read;
    const char *type; /* of READ: what it takes, for docs/api.md */
    const char *help; /* what it does, for docs/api.md */
};
#define LF_ASK_AT(member) offsetof(struct lf_ask, member)

/* The fields of a family of endpoints: what reading a body follows, and what docs/api.md is made from. */
struct lf_field_table {
    const char *title;
    const struct lf_field *fields;
    int n_fields;
    const struct lf_unsupported_table *unsupported;
};

/* Reads the root object with the rows of a table that have one of the bits of `asks`. */
LF_MUST_CHECK enum lf_status lf_ask_read_fields(struct lf_reading *r, const struct lf_field_table *table, unsigned asks,
                                                const struct lf_json *json);

/* Refusals of a field, for functions that read one: another value was expected; this value is not implemented. */
LF_MUST_CHECK enum lf_status lf_ask_expected(struct lf_reading *r, const char *name, struct lf_json_value v,
                                             const char *what);
LF_MUST_CHECK enum lf_status lf_ask_unsupported(struct lf_reading *r, const char *name);
/* An id of the vocabulary, or a refusal that names param. */
LF_MUST_CHECK enum lf_status lf_ask_token_id(int32_t *out, struct lf_json_value v, int n_vocab, const char *param,
                                             struct lf_api_err *err);
/* The unescaped text of a string, in the ask's arena. */
LF_MUST_CHECK enum lf_status lf_ask_text(struct lf_ask *ask, struct lf_str *out, struct lf_json_value v,
                                         const char *param, struct lf_api_err *err);
/* For a row of any table: the model's name, a list of stop strings. */
lf_read_fn lf_ask_read_model, lf_ask_read_stop;

#endif
