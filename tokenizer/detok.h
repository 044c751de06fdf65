/* Incremental detokenizer: token ids in, text out, never half a code point.
 *
 * The concatenation of everything given out equals lf_tokenizer_decode of all the ids. One owner, no locking. */
#ifndef LF_TOKENIZER_DETOK_H
#define LF_TOKENIZER_DETOK_H

#include "tokenizer/tokenizer.h"

struct lf_detok {
    const struct lf_tokenizer *tok; /* borrowed */
    bool with_specials;
    bool started;    /* something was given out: a leading ▁ is a space from now on */
    char pending[8]; /* bytes of a code point that is not whole yet */
    int n_pending;
    int n_stripped; /* letters dropped at the beginning, of those the decoder drops there */
};

/* continues: the ids follow a prompt, so a leading word-boundary mark is a space (completions); false: they begin a
 * text of their own. */
void lf_detok_init(struct lf_detok *detok, const struct lf_tokenizer *tok, bool with_specials, bool continues);
/* Appends the text that id completes (may be nothing) to out. */
void lf_detok_push(struct lf_detok *detok, int32_t id, struct lf_buf *out);
/* The end: what is still pending is given out as U+FFFD. */
void lf_detok_flush(struct lf_detok *detok, struct lf_buf *out);
/* The byte that a token of this tokenizer stands for; -1: a text, also where it only looks like a byte. */
int lf_detok_byte(const struct lf_tokenizer *tok, int32_t id);

#endif
