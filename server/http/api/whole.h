/* A generation as one JSON text, sent when it is there whole: then nothing can go wrong any more that would have been
 * worth another status.
 *
 * The text is not held. When every choice has ended it is made while the socket takes it, going through the tokens once
 * more: for its parts, once for each pass that the form needs, and once for each list of log-probabilities. (64 prompts
 * with 20 log-probabilities a token are tens of megabytes of JSON, and some of ids.) */
#ifndef LF_SERVER_HTTP_API_WHOLE_H
#define LF_SERVER_HTTP_API_WHOLE_H

#include "server/http/conn/answer.h"
#include "server/http/api/generation.h"

/* gen is taken over on success. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_whole_create(struct lf_answer **out, struct lf_generation *gen);

#endif
