/* A tokenizer for a model without one: the text of a token is its id, in decimal.
 *
 * A shape can be served and load-tested from its config.json alone. Prompts of ids work as ever; a text is ids with
 * white space between them ("17 4 256"), anything else in it is refused by name, and answers read the same way. There
 * are no special tokens and there is no chat template. */
#ifndef LF_TOKENIZER_ID_TEXT_H
#define LF_TOKENIZER_ID_TEXT_H

#include "tokenizer/encode.h"
#include "tokenizer/vocab.h"

/* Fills a zeroed vocabulary with the texts of n_vocab ids; what is there on failure, deinit takes. */
LF_MUST_CHECK enum lf_status lf_id_text_vocab(struct lf_vocab *vocab, int n_vocab, struct lf_err *err);
/* The words of text are ids; LF_INVALID for one that is not. */
LF_MUST_CHECK enum lf_status lf_tokenizer_encode_ids(const struct lf_tokenizer *tok, struct lf_encode_work *work,
                                                     struct lf_str text);

#endif
