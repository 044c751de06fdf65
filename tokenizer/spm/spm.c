#include "tokenizer/spm/spm.h"

#include <math.h>
#include <stdlib.h>

#include "core/check.h"
#include "tokenizer/decoder.h"
#include "tokenizer/spm/sp_shim.h"
#include "tokenizer/spm/spm_proto.h"

/* The types of a piece in the file. */
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };

struct load {
    struct lf_spm *spm;
    struct lf_vocab *vocab;
    const struct lf_sp *sp;
    uint8_t *in_trie;            /* by id: a unigram path may use it */
    struct lf_trie_entry *users; /* user-defined pieces */
    size_t n_users;
};

static unsigned flags_of(int64_t type)
{
    switch (type) {
    case PIECE_UNKNOWN:
        return LF_TOKEN_UNKNOWN;
    case PIECE_CONTROL:
        return LF_TOKEN_SPECIAL;
    case PIECE_USER_DEFINED:
        return LF_TOKEN_USER_DEFINED;
    case PIECE_BYTE:
        return LF_TOKEN_BYTE;
    default:
        return 0;
    }
}

static enum lf_status load_piece(void *ctx, int64_t idx, struct lf_str text, int64_t type, struct lf_err *err)
{
    struct load *load = ctx;
    struct lf_spm *spm = load->spm;
    int32_t id = (int32_t)idx;
    struct lf_sp_piece piece;
    if (lf_sp_get(load->sp, id, &piece) != LF_SP_OK || piece.len != text.len || memcmp(piece.text, text.ptr, text.len))
        return lf_fail(err, LF_CORRUPT, "the library reads piece %d differently", id);
    if (!isfinite(piece.score)) return lf_fail(err, LF_CORRUPT, "the score of piece %d is not a finite number", id);
    if (type == PIECE_UNUSED && !spm->unigram)
        return lf_fail(err, LF_UNSUPPORTED, "piece %d is of type UNUSED, not implemented in a BPE model", id);
    LF_TRY(lf_vocab_add(load->vocab, id, text, flags_of(type), err));
    spm->scores[id] = piece.score;
    spm->bonus[id] = type == PIECE_USER_DEFINED;
    load->in_trie[id] = type == PIECE_NORMAL || type == PIECE_USER_DEFINED;
    if (type == PIECE_UNKNOWN) spm->unk = id;
    if (type == PIECE_BYTE) {
        int byte = lf_byte_piece(text);
        if (byte < 0) return lf_fail(err, LF_CORRUPT, "piece %d is of type BYTE and names no byte", id);
        spm->bytes[byte] = id;
    }
    if (type == PIECE_USER_DEFINED) load->users[load->n_users++] = (struct lf_trie_entry){text, id};
    if (load->in_trie[id] && lf_spm_has_inner_mark(text)) spm->marks_open_words = false;
    return LF_OK;
}

static enum lf_status open_library(struct lf_sp **sp, struct lf_str model, int64_t n_pieces, struct lf_err *err)
{
    struct lf_buf stripped;
    char reason[200] = "";
    lf_buf_init(&stripped, SIZE_MAX / 2);
    enum lf_status status = lf_spm_proto_strip(&stripped, model, err);
    if (status == LF_OK) {
        enum lf_sp_status answer = lf_sp_open(sp, stripped.ptr, stripped.len, reason, sizeof reason);
        if (answer == LF_SP_NO_MEMORY) status = lf_fail(err, LF_NO_MEMORY, "no memory for the sentencepiece model");
        if (answer == LF_SP_REFUSED) status = lf_fail(err, LF_CORRUPT, "sentencepiece: %s", reason);
    }
    lf_buf_deinit(&stripped);
    if (status != LF_OK) return status;
    if (lf_sp_n_pieces(*sp) != n_pieces)
        return lf_fail(err, LF_CORRUPT, "the library reads %d pieces of %lld", lf_sp_n_pieces(*sp),
                       (long long)n_pieces);
    return LF_OK;
}

static void keep(char *out, size_t out_bytes, struct lf_str text)
{
    size_t n = text.len < out_bytes - 1 ? text.len : 0;
    memcpy(out, text.ptr, n);
    out[n] = 0;
}

static enum lf_status take_settings(struct lf_spm *spm, const struct lf_spm_proto *proto, struct lf_err *err)
{
    if (proto->model != LF_SPM_UNIGRAM && proto->model != LF_SPM_BPE)
        return lf_fail(err, LF_UNSUPPORTED, "sentencepiece model type %lld is not implemented (unigram and BPE are)",
                       (long long)proto->model);
    spm->unigram = proto->model == LF_SPM_UNIGRAM;
    spm->byte_fallback = proto->byte_fallback;
    spm->whitespace_as_suffix = proto->whitespace_as_suffix;
    spm->add_dummy_prefix = proto->add_dummy_prefix;
    spm->remove_extra_whitespaces = proto->remove_extra_whitespaces;
    spm->escape_whitespaces = proto->escape_whitespaces;
    spm->marks_open_words = proto->escape_whitespaces && !proto->whitespace_as_suffix;
    if (!lf_utf8_valid(proto->unk_surface)) return lf_fail(err, LF_CORRUPT, "unk_surface is not valid UTF-8");
    keep(spm->unk_surface, sizeof spm->unk_surface, proto->unk_surface);
    keep(spm->bos_piece, sizeof spm->bos_piece, proto->bos_piece);
    keep(spm->eos_piece, sizeof spm->eos_piece, proto->eos_piece);
    return lf_charsmap_open(&spm->charsmap, proto->charsmap, err);
}

static enum lf_status load_pieces(struct load *load, struct lf_str model, int64_t n_pieces, struct lf_err *err)
{
    size_t n = (size_t)n_pieces;
    struct lf_spm *spm = load->spm;
    spm->n_pieces = (int32_t)n_pieces;
    spm->scores = calloc(n, sizeof *spm->scores);
    spm->bonus = calloc(n, sizeof *spm->bonus);
    load->in_trie = calloc(n, sizeof *load->in_trie);
    load->users = calloc(n, sizeof *load->users);
    if (!spm->scores || !spm->bonus || !load->in_trie || !load->users)
        return lf_fail(err, LF_NO_MEMORY, "no memory for %lld pieces", (long long)n_pieces);
    LF_TRY(lf_spm_proto_each_piece(model, load_piece, load, err));
    if (spm->unigram) LF_TRY(lf_spm_unigram_open(spm, load->vocab, load->in_trie, err));
    if (!spm->unigram) LF_TRY(lf_spm_bpe_open(spm, load->vocab, spm->scores, err));
    return lf_aho_build(&spm->user_defined, load->users, load->n_users, err);
}

enum lf_status lf_spm_open(struct lf_spm *spm, struct lf_vocab *vocab, struct lf_str model, int32_t extra_ids,
                           uint64_t extra_bytes, struct lf_err *err)
{
    struct lf_spm_proto proto;
    struct lf_sp *sp = NULL;
    struct load load = {.spm = spm, .vocab = vocab};
    enum lf_status status;
    memset(spm, 0, sizeof *spm);
    memset(vocab, 0, sizeof *vocab);
    LF_TRY(lf_spm_proto_read(&proto, model, err));
    LF_TRY_GOTO(take_settings(spm, &proto, err), done);
    LF_TRY_GOTO(open_library(&sp, model, proto.n_pieces, err), done);
    load.sp = sp;
    LF_TRY_GOTO(lf_vocab_init(vocab, proto.n_pieces + extra_ids, (uint64_t)(proto.n_pieces + extra_ids),
                              proto.piece_bytes + extra_bytes, err),
                done);
    LF_TRY_GOTO(load_pieces(&load, model, proto.n_pieces, err), done);
    if (!spm->unigram) { /* ranks have taken the scores' place */
        free(spm->scores);
        spm->scores = NULL;
    }
done:
    lf_sp_close(sp);
    free(load.in_trie);
    free(load.users);
    if (status != LF_OK) {
        lf_spm_deinit(spm);
        lf_vocab_deinit(vocab);
    }
    return status;
}

void lf_spm_deinit(struct lf_spm *spm)
{
    lf_charsmap_deinit(&spm->charsmap);
    lf_aho_deinit(&spm->user_defined);
    lf_trie_deinit(&spm->chars);
    lf_aho_deinit(&spm->pieces);
    lf_merges_deinit(&spm->merges);
    free(spm->scores);
    free(spm->bonus);
    memset(spm, 0, sizeof *spm);
}

enum lf_status lf_spm_encode(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text,
                             enum lf_spm_start start, bool marks_are_spaces)
{
    LF_TRY(lf_spm_normalize(spm, work, text, start, marks_are_spaces));
    work->after_unknown = false;
    struct lf_str normalized = lf_buf_view(&work->text);
    return spm->unigram ? lf_spm_unigram_encode(spm, work, normalized) : lf_spm_bpe_encode(spm, work, normalized);
}
