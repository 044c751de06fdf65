/* Pre-tokenizers of tokenizer.json: a list of steps that cut a text into pieces, and may rewrite it on the way.
 *
 * Pieces are places in one text, in order; what lies between them is dropped. A step reads the pieces of the one before
 * it and writes its own, so no piece is ever copied alone. */
#ifndef LF_TOKENIZER_HF_PRETOKENIZE_H
#define LF_TOKENIZER_HF_PRETOKENIZE_H

#include "core/arena.h"
#include "core/json.h"
#include "tokenizer/encode.h"
#include "tokenizer/hf/regex.h"

enum lf_split_behavior {
    LF_SPLIT_REMOVED,
    LF_SPLIT_ISOLATED,
    LF_SPLIT_MERGED_WITH_PREVIOUS,
    LF_SPLIT_MERGED_WITH_NEXT,
    LF_SPLIT_CONTIGUOUS
};

enum lf_pretokenize_kind {
    LF_PRETOKENIZE_REGEX,  /* by pattern */
    LF_PRETOKENIZE_DIGITS, /* by property of a code point … */
    LF_PRETOKENIZE_PUNCTUATION,
    LF_PRETOKENIZE_SPACE,
    LF_PRETOKENIZE_WORDS,     /* runs of word letters, runs of other letters, spaces dropped */
    LF_PRETOKENIZE_LETTER,    /* one given code point */
    LF_PRETOKENIZE_PREFIX,    /* rewrite: each piece begins with a given text */
    LF_PRETOKENIZE_SPACES_TO, /* rewrite: each space becomes a given text */
    LF_PRETOKENIZE_BYTES      /* rewrite: each byte becomes a letter */
};

enum lf_prefix_when { LF_PREFIX_ALWAYS, LF_PREFIX_FIRST };

enum { LF_PRETOKENIZE_STEPS_N = 32 };

struct lf_pretokenize_step {
    enum lf_pretokenize_kind kind;
    enum lf_split_behavior behavior;
    bool invert;
    enum lf_prefix_when when;
    struct lf_regex *pattern; /* owned */
    struct lf_str text;       /* the prefix, the letter; in the arena */
};

struct lf_pretokenizer {
    struct lf_pretokenize_step steps[LF_PRETOKENIZE_STEPS_N];
    int n_steps;
};

struct lf_piece {
    uint32_t first, len;
};

struct lf_pieces {
    struct lf_piece *pieces; /* owned */
    size_t n, cap;
    struct lf_text_memory *memory; /* borrowed; NULL: the process's heap */
};

/* What the steps work on; zero it, then init. */
struct lf_pretokenized {
    struct lf_buf text, other_text;
    struct lf_pieces pieces, other_pieces;
};

/* From the value of "pre_tokenizer", null for none; place: its name, for messages. Zero it first. */
LF_MUST_CHECK enum lf_status lf_pretokenizer_open(struct lf_pretokenizer *pre, struct lf_arena *arena,
                                                  struct lf_json_value v, const char *place, struct lf_err *err);
void lf_pretokenizer_deinit(struct lf_pretokenizer *pre); /* accepts a zeroed one */

void lf_pretokenized_init(struct lf_pretokenized *state, struct lf_text_memory *memory); /* NULL: the heap */
void lf_pretokenized_deinit(struct lf_pretokenized *state);
/* Cuts text into state->pieces of state->text. place: of the text. LF_LIMIT: it grows too
 * much; LF_NO_MEMORY; what lf_regex_next and the work say. */
LF_MUST_CHECK enum lf_status lf_pretokenizer_run(const struct lf_pretokenizer *pre, struct lf_regex_work *work,
                                                 struct lf_pretokenized *state, struct lf_str text,
                                                 enum lf_place place);

/* Appends the piece [first, end). */
LF_MUST_CHECK enum lf_status lf_pieces_append(struct lf_pieces *out, size_t first, size_t end);
/* Used between the files of the pre-tokenizer: cuts one piece, appends to out. */
LF_MUST_CHECK enum lf_status lf_split_piece(const struct lf_pretokenize_step *step, struct lf_regex_work *work,
                                            struct lf_str text, struct lf_piece piece, struct lf_pieces *out);

#endif
