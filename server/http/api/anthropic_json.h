/* What /v1/messages prints: Anthropic's form of an answer, in content blocks.
 *
 * A block is a stretch of text, one of thinking, or a call of a tool. A stream has named events, and deltas in its
 * blocks. Input tokens are counted without those that came from the prefix cache; how many did is known only once the
 * request has been admitted, so a stream's first event counts all of them as input, and its last corrects it. */
#ifndef LF_SERVER_HTTP_API_ANTHROPIC_JSON_H
#define LF_SERVER_HTTP_API_ANTHROPIC_JSON_H

#include "server/http/api/dialect.h"

extern const struct lf_printer lf_anthropic_stream, lf_anthropic_whole;

#endif
