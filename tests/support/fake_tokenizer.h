/* A double of the tokenizer: implements tokenizer.h and detok.h. That of the chat template is fake_template.c.
 *
 * Ids 0..255 are bytes, then come the control tokens and a few longer pieces, some of which end inside a code point. A
 * text with [[tokenize_ms=N]] in it takes so long to encode.
 * Encoding is greedy. */
#ifndef TESTS_SUPPORT_FAKE_TOKENIZER_H
#define TESTS_SUPPORT_FAKE_TOKENIZER_H

#include "template/chat_template.h"

enum { FAKE_BOS = 256, FAKE_EOS = 257 };
const struct lf_tokenizer *fake_tokenizer(void);
/* Before it is used: what it says the model's chat template is; a token more (false: no room). Borrowed. */
void fake_tokenizer_set_template(const char *source);
bool fake_tokenizer_add(const char *text, bool is_control);

#endif
