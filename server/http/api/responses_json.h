/* What /v1/responses prints: a response with its output, an array of items.
 *
 * An item is a message of the assistant's, a stretch of reasoning, or a call of a function: a block of parts.h. A
 * stream tells each of them piece by piece and then once more whole, and so at its end the response itself: so its
 * printer keeps what it has printed (`kept` of the generation), in the memory for texts. Escaped once, a text is the
 * same bytes in every event, and in the answer that is not streamed.
 *
 *     created  in_progress  { output_item.added  [content_part.added]  ….delta …  ….done  [content_part.done]
 *                             output_item.done } …  completed | incomplete | failed */
#ifndef LF_SERVER_HTTP_API_RESPONSES_JSON_H
#define LF_SERVER_HTTP_API_RESPONSES_JSON_H

#include "server/http/api/dialect.h"

extern const struct lf_printer lf_responses_stream, lf_responses_whole;
/* Of the dialect: lets go of what they keep. */
void lf_responses_forget(struct lf_generation *gen);

#endif
