/* The log-probabilities of tokens, with their exact bytes, in the two forms of the OpenAI API. */
#ifndef LF_SERVER_HTTP_API_TOKEN_TEXT_H
#define LF_SERVER_HTTP_API_TOKEN_TEXT_H

#include "server/engine/request.h"
#include "tokenizer/tokenizer.h"

/* Log-probabilities of a run of tokens, as pieces of JSON that grow: the elements of chat's `content` in list[0], or of
 * completions' four parallel arrays. */
enum lf_logprob_form { LF_LOGPROBS_NONE, LF_LOGPROBS_CHAT, LF_LOGPROBS_COMPLETION };
enum lf_logprob_list { LF_LOGPROB_TOKENS, LF_LOGPROB_VALUES, LF_LOGPROB_TOP, LF_LOGPROB_OFFSETS, LF_LOGPROB_LISTS_N };
struct lf_logprob_text {
    const struct lf_tokenizer *tok; /* borrowed */
    enum lf_logprob_form form;
    int n_top;                              /* alternatives a token; 0: the token alone */
    int n;                                  /* tokens in the lists */
    struct lf_buf list[LF_LOGPROB_LISTS_N]; /* owned */
};

void lf_logprob_text_init(struct lf_logprob_text *lp, const struct lf_tokenizer *tok, enum lf_logprob_form form,
                          int n_top, struct lf_text_memory *memory);
void lf_logprob_text_deinit(struct lf_logprob_text *lp);
void lf_logprob_text_clear(struct lf_logprob_text *lp);
/* sampled NULL: the first token of an echoed prompt, which has no probability; id then names it. offset: code points
 * of text before the token. */
void lf_logprob_text_add(struct lf_logprob_text *lp, const struct lf_sampled *sampled, int32_t id, int64_t offset);
/* The value of "logprobs" for what has been added. */
void lf_logprob_text_write(struct lf_buf *out, const struct lf_logprob_text *lp);

/* The same value list by list, for whoever writes it without holding it: what stands before each, and behind all. */
int lf_logprob_n_lists(enum lf_logprob_form form);
const char *lf_logprob_list_head(enum lf_logprob_form form, int list);
const char *lf_logprob_end(enum lf_logprob_form form);

#endif
