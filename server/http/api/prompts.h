/* From a request to token ids: prompts as text, as ids and as lists of both; messages through the model's template. */
#ifndef LF_SERVER_HTTP_API_PROMPTS_H
#define LF_SERVER_HTTP_API_PROMPTS_H

#include "server/http/api/ask.h"
#include "tokenizer/tokenizer.h"

struct lf_chat_template;

struct lf_prompt {
    struct lf_ids ids;  /* owned */
    struct lf_str text; /* for echo, in the ask's arena: as it was given, of a conversation the assistant's last one */
    bool is_text;
    int32_t *marks; /* [n_marks] of a conversation: how many ids stand before the end of each of its documents, in
                     * the ask's arena; ascending */
    int n_marks;
    struct lf_str end; /* of a conversation: the last bytes as the template wrote them, in the ask's arena */
};

struct lf_prompts {
    int n;
    struct lf_prompt *items;       /* [n], owned */
    struct lf_text_memory *memory; /* theirs */
};

struct lf_prompt_source {
    const struct lf_tokenizer *tok;
    const struct lf_chat_template *chat; /* NULL: the model has none */
    int64_t ctx;                         /* of the engine; a prompt is counted up to twice of it */
    struct lf_work *work;                /* NULL: the process's heap, and nobody to ask */
};

/* Reads ask->prompt (completions and tokenize) or ask->messages. out is deinitialized on failure. */
LF_MUST_CHECK enum lf_status lf_prompts_read(struct lf_prompts *out, struct lf_ask *ask,
                                             const struct lf_prompt_source *source, struct lf_api_err *err);
/* Of ask->messages, as far as the boundary behind the last document: what every conversation that goes on from there
 * begins with. 400 where the template does not write the text as it is. */
LF_MUST_CHECK enum lf_status lf_prompts_read_beginning(struct lf_prompts *out, struct lf_ask *ask,
                                                       const struct lf_prompt_source *source, struct lf_api_err *err);
void lf_prompts_deinit(struct lf_prompts *prompts); /* accepts a zeroed one */

/* The rendered template of ask->messages, appended to text. */
LF_MUST_CHECK enum lf_status lf_prompt_render(struct lf_buf *text, struct lf_ask *ask,
                                              const struct lf_prompt_source *source, struct lf_api_err *err);

/* The refusal of a prompt that leaves no room for the answer. more: the count is only a lower bound. */
LF_MUST_CHECK enum lf_status lf_refuse_context(struct lf_api_err *err, const char *param, int64_t n_prompt,
                                               int64_t max_tokens, int64_t ctx, bool more);
/* What the engine says of any request that it does not take, whatever it asks for. why: what it said. */
LF_MUST_CHECK enum lf_status lf_refuse_submit(struct lf_api_err *err, enum lf_status status, int retry_after_s,
                                              const struct lf_err *why);

/* Pins leave no room for so many tokens of prompt and answer, but for most of them: 507. */
LF_MUST_CHECK enum lf_status lf_refuse_beside_pins(struct lf_api_err *err, const char *param, int64_t n_tokens,
                                                   int64_t most);

#endif
