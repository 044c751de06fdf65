/* How a token's text in the vocabulary becomes text to read. */
#ifndef LF_TOKENIZER_DECODER_H
#define LF_TOKENIZER_DECODER_H

#include "core/str.h"

enum lf_decoder_kind {
    LF_DECODER_SPM,        /* a sentencepiece model: marks to spaces, byte pieces, one mark dropped at the beginning */
    LF_DECODER_BYTE_LEVEL, /* each letter of a token is a byte */
    LF_DECODER_STEPS,      /* tokenizer.json: replacements, byte tokens, letters dropped at the beginning */
    LF_DECODER_JOIN        /* none is given: tokens stand with spaces between them */
};

enum { LF_DECODER_REPLACES_N = 8 };

struct lf_decoder {
    enum lf_decoder_kind kind;
    bool lossy;                /* one U+FFFD for the longest piece of a code point; else one for each byte */
    bool byte_fallback;        /* tokens <0xHH> are bytes */
    bool drop_mark;            /* SPM: a text does not begin with the space of its first mark */
    bool drop_every;           /* SPM: nor of those that follow directly, one a token */
    struct lf_str unk_surface; /* SPM; borrowed */
    struct lf_replace {
        struct lf_str from, to; /* borrowed; a `to` that is empty where only_first drops the mark of the first token */
        bool first_token_only;  /* applies to the first token, before the others do */
    } replaces[LF_DECODER_REPLACES_N];
    int n_replaces;
    char strip[5]; /* a code point that is dropped at the beginning of the text … */
    int n_strip;   /* … up to so many times */
};

/* The byte that a letter of byte-level text stands for, -1 if it is none of the 256 letters. */
int lf_byte_level_byte(uint32_t cp);
/* The letter of a byte. */
uint32_t lf_byte_level_letter(uint8_t byte);
/* The byte that a token such as <0x0A> stands for, or -1: in tokenizer.json, where tokenizers' ByteFallback takes
 * letters of either case, and a plus for the first digit; in a sentencepiece model, where there is one way to write it.
 */
int lf_byte_token(struct lf_str text);
int lf_byte_piece(struct lf_str text);
/* text with every `from` (none if empty) made `to`, appended to out. */
void lf_text_replace(struct lf_buf *out, struct lf_str text, struct lf_str from, struct lf_str to);

#endif
