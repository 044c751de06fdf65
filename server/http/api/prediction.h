/* The field `prediction`: text that an answer is likely to repeat (server/engine/speculation.h). */
#ifndef LF_SERVER_HTTP_API_PREDICTION_H
#define LF_SERVER_HTTP_API_PREDICTION_H

#include "server/http/api/prompts.h"

/* For a row of any table, as in OpenAI's API: {"type": "content", "content": a text or text parts}. */
lf_read_fn lf_prediction_read;
extern const char lf_prediction_type[], lf_prediction_help[];
/* Fills ask->prediction_ids, in its arena: the text as it would go on in an answer. 400 where it is longer than a
 * context. */
LF_MUST_CHECK enum lf_status lf_prediction_encode(struct lf_ask *ask, const struct lf_prompt_source *source,
                                                  struct lf_api_err *err);

#endif
