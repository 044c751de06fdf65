/* vocab.json and merges.txt: a byte-level BPE in the files that came before tokenizer.json. They hold the model alone;
 * how text is split before it is what the class named in tokenizer_config.json does. */
#ifndef LF_TOKENIZER_VOCAB_MERGES_H
#define LF_TOKENIZER_VOCAB_MERGES_H

#include "tokenizer/config.h"

/* The tokenizer.json that the two files stand for, appended to out. LF_NOT_FOUND where one of them is not there, or
 * nothing names a class; LF_UNSUPPORTED for a class whose rules are not known here. */
LF_MUST_CHECK enum lf_status lf_vocab_merges_read(struct lf_buf *out, const char *dir,
                                                  const struct lf_tokenizer_config *config, struct lf_err *err);

#endif
