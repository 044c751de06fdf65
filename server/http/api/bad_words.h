/* Words that an answer must not have: from their texts to the ids that spell them. */
#ifndef LF_SERVER_HTTP_API_BAD_WORDS_H
#define LF_SERVER_HTTP_API_BAD_WORDS_H

#include "server/http/api/prompts.h"

/* For a row of a table: an array of texts. */
lf_read_fn lf_bad_words_read;
/* Fills ask->bad_ids, in its arena, from the texts. As in vLLM a word is forbidden as it begins an answer or goes on in
 * it, and with a space before it; spelled with other tokens it may still come. */
LF_MUST_CHECK enum lf_status lf_bad_words_encode(struct lf_ask *ask, const struct lf_prompt_source *source,
                                                 struct lf_api_err *err);

#endif
