/* Inside of a tokenizer; for the files of this folder only. */
#ifndef LF_TOKENIZER_TOKENIZER_IMPL_H
#define LF_TOKENIZER_TOKENIZER_IMPL_H

#include "core/arena.h"
#include "tokenizer/hf/added.h"
#include "tokenizer/config.h"
#include "tokenizer/decoder.h"
#include "tokenizer/spm/spm.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"

struct lf_hf;

struct lf_tokenizer {
    struct lf_arena arena; /* texts and lists below */
    struct lf_vocab vocab;
    struct lf_added added;
    struct lf_decoder decoder;
    struct lf_spm spm;             /* of tokenizer.model, where hf is NULL */
    struct lf_hf *hf;              /* owned: of tokenizer.json */
    bool id_text;                  /* no model's tokenizer: the text of a token is its id */
    bool legacy;                   /* sentencepiece: every segment between special tokens begins as a text of its own */
    bool add_prefix_space;         /* sentencepiece, not legacy: the text begins with a mark */
    int32_t bos, eos;              /* -1: none */
    const int32_t *before, *after; /* ids that go around a text; in the arena */
    size_t n_before, n_after;
    struct lf_str bos_text, eos_text, chat_template; /* in the arena */
};

/* Where an added token is in tok->added, by id; scratch of opening. */
struct lf_added_index {
    int32_t *by_id; /* owned, [vocab.n_ids_cap], index + 1 */
};

/* Gives a listed token its place in the vocabulary; *id -1: a name without an id, no token of this model. override: it
 * may take the place of another text (sentencepiece); else that is LF_CORRUPT. */
LF_MUST_CHECK enum lf_status lf_tokenizer_place_listed(struct lf_tokenizer *tok, const struct lf_listed_token *t,
                                                       bool override, int32_t *id, struct lf_err *err);
/* Puts one token of the vocabulary into the matcher, or makes the one there special. find: its text to look for. */
LF_MUST_CHECK enum lf_status lf_tokenizer_match(struct lf_tokenizer *tok, struct lf_added_index *index,
                                                const struct lf_added_token *token, struct lf_str find,
                                                struct lf_err *err);

#endif
