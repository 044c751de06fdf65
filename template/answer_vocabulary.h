/* A model's tokens as grammars see them: what each adds to the text that a client reads.
 *
 * There are two of them, for at the beginning of an answer many tokenizers drop a space: "▁{" adds " {" to a text that
 * goes on, and "{" to one that begins. A chat's answer begins a text of its own, a completion goes on where its prompt
 * ends (detok.h). Where no token differs there is one vocabulary for both. A token that adds nothing at a beginning is
 * not allowed there. */
#ifndef LF_TEMPLATE_ANSWER_VOCABULARY_H
#define LF_TEMPLATE_ANSWER_VOCABULARY_H

#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"

struct lf_answer_vocabulary {
    struct lf_vocabulary *continues; /* owned */
    struct lf_vocabulary *begins;    /* owned unless it is the same */
};

/* n_tokens: of the model, whose vocabulary may be larger or smaller than the tokenizer's; the tokens that only the
 * model has are never allowed. ends: the ids that end an answer. Some 100 ms for 100,000 tokens. LF_NO_MEMORY;
 * LF_INVALID as lf_vocabulary_create. */
LF_MUST_CHECK enum lf_status lf_answer_vocabulary_create(struct lf_answer_vocabulary *out,
                                                         const struct lf_tokenizer *tok, int n_tokens,
                                                         const int32_t *ends, int n_ends, struct lf_err *err);
void lf_answer_vocabulary_deinit(struct lf_answer_vocabulary *v); /* accepts a zeroed one */
/* Bytes that it holds, for the memory plan: fixed once it is made. */
size_t lf_answer_vocabulary_bytes(const struct lf_answer_vocabulary *v);

/* Whether an answer under the grammar can begin at all, v being one of the two. A mask that is made here is kept for
 * the first step. LF_INVALID: no token may come first, as where the text begins with a space and every token loses it;
 * LF_LIMIT: an answer has too many readings from the start; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_answer_can_begin(const struct lf_grammar *g, struct lf_vocabulary *v,
                                                 struct lf_text_memory *memory, struct lf_err *err);

#endif
