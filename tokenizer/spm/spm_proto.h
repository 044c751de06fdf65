/* What a sentencepiece model says beside its pieces: a reader of protocol buffers that never trusts a length.
 *
 * It also writes the copy that the library is shown: pieces and trainer settings only. The library follows the tables
 * of a normalizer without looking where they lead, and runs the model's own test samples through them when it opens a
 * model; a hostile file must not get that far. */
#ifndef LF_TOKENIZER_SPM_SPM_PROTO_H
#define LF_TOKENIZER_SPM_SPM_PROTO_H

#include <stdbool.h>

#include "core/str.h"

enum lf_spm_model { LF_SPM_UNIGRAM = 1, LF_SPM_BPE = 2, LF_SPM_WORD = 3, LF_SPM_CHAR = 4 };

struct lf_spm_proto {
    int64_t model; /* enum lf_spm_model, or what the file says */
    int64_t n_pieces;
    uint64_t piece_bytes; /* sum of the pieces' lengths */
    bool byte_fallback;
    bool whitespace_as_suffix;
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
    struct lf_str charsmap; /* borrowed from the model */
    struct lf_str unk_surface;
    struct lf_str bos_piece, eos_piece;
};

/* model stays where it is while *out is used. */
LF_MUST_CHECK enum lf_status lf_spm_proto_read(struct lf_spm_proto *out, struct lf_str model, struct lf_err *err);
/* Calls piece(ctx, index, text, type) for each piece of a model that lf_spm_proto_read took; type as in the file. */
typedef enum lf_status lf_spm_piece_fn(void *ctx, int64_t idx, struct lf_str text, int64_t type, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_spm_proto_each_piece(struct lf_str model, lf_spm_piece_fn *piece, void *ctx,
                                                     struct lf_err *err);
/* A model that lf_spm_proto_read took, without normalizers and samples, appended to out. */
LF_MUST_CHECK enum lf_status lf_spm_proto_strip(struct lf_buf *out, struct lf_str model, struct lf_err *err);

#endif
