/* A double of the tokenizer and of the chat template: implements tokenizer.h, detok.h and chat_template.h.
 *
 * Ids 0..255 are bytes, then come the control tokens and a few longer pieces, some of which end inside a code point. A
 * text with [[tokenize_ms=N]] in it takes so long to encode.
 * Encoding is greedy. The template writes `<|role|>content<|end|>` for each message, `<|assistant|>` at the end. */
#ifndef TESTS_SUPPORT_FAKE_TOKENIZER_H
#define TESTS_SUPPORT_FAKE_TOKENIZER_H

#include "template/chat_template.h"

enum { FAKE_BOS = 256, FAKE_EOS = 257 };
const struct lf_tokenizer *fake_tokenizer(void);

#endif
