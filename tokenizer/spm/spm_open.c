/* A model directory with a tokenizer.model, and the text of a request through it. */
#include <ctype.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/file.h"
#include "tokenizer/spm/spm_open.h"

enum { MODEL_FILE_BYTES = 32 * 1024 * 1024 };

/* Ids and bytes that the listed tokens may need beside the pieces. */
static enum lf_status room_for(const struct lf_tokenizer_config *config, int32_t *n_ids, uint64_t *n_bytes,
                               struct lf_err *err)
{
    for (const struct lf_listed_token *t = config->tokens; t; t = t->next) {
        if (t->id >= LF_VOCAB_N / 2)
            return lf_fail(err, LF_CORRUPT, "added token id %lld is out of range", (long long)t->id);
        if (t->id >= *n_ids) *n_ids = (int32_t)t->id + 1;
        *n_bytes += t->text.len;
    }
    return LF_OK;
}

static enum lf_status add_listed(struct lf_tokenizer *tok, struct lf_added_index *index,
                                 const struct lf_listed_token *t, struct lf_err *err)
{
    int32_t id;
    LF_TRY(lf_tokenizer_place_listed(tok, t, true, &id, err));
    if (id < 0) return LF_OK;
    struct lf_added_token token = {.id = id,
                                   .special = t->special,
                                   .named = t->named,
                                   .lstrip = t->lstrip,
                                   .rstrip = t->rstrip,
                                   .single_word = t->single_word};
    return lf_tokenizer_match(tok, index, &token, t->text, err);
}

static enum lf_status add_tokens(struct lf_tokenizer *tok, const struct lf_tokenizer_config *config, struct lf_err *err)
{
    struct lf_added_index index = {calloc((size_t)tok->vocab.n_ids_cap, sizeof *index.by_id)};
    if (!index.by_id) return lf_fail(err, LF_NO_MEMORY, "no memory for the added tokens");
    enum lf_status status = LF_OK;
    for (const struct lf_listed_token *t = config->tokens; status == LF_OK && t; t = t->next)
        status = add_listed(tok, &index, t, err);
    for (int32_t id = 0; status == LF_OK && id < tok->spm.n_pieces; id++) {
        if (!(tok->vocab.flags[id] & LF_TOKEN_SPECIAL)) continue;
        status = lf_tokenizer_match(tok, &index, &(struct lf_added_token){.id = id, .special = true},
                                    lf_vocab_text(&tok->vocab, id), err);
    }
    free(index.by_id);
    return status == LF_OK ? lf_added_finish(&tok->added, err) : status;
}

static enum lf_status settle(struct lf_tokenizer *tok, const struct lf_tokenizer_config *config, struct lf_err *err)
{
    const struct lf_spm *spm = &tok->spm;
    struct lf_str bos = config->bos.len > 0 ? config->bos : lf_str_c(spm->bos_piece);
    struct lf_str eos = config->eos.len > 0 ? config->eos : lf_str_c(spm->eos_piece);
    tok->bos = lf_vocab_find(&tok->vocab, bos);
    tok->eos = lf_vocab_find(&tok->vocab, eos);
    if (tok->bos >= 0 || config->bos.len > 0) LF_TRY(lf_text_keep(&tok->bos_text, &tok->arena, bos, err));
    if (tok->eos >= 0 || config->eos.len > 0) LF_TRY(lf_text_keep(&tok->eos_text, &tok->arena, eos, err));
    tok->legacy = config->legacy != LF_ANSWER_NO;
    bool llama = lf_str_find(config->class_name, LF_STR("Llama")) >= 0;
    tok->add_prefix_space = config->add_prefix_space != LF_ANSWER_NONE ? config->add_prefix_space == LF_ANSWER_YES
                                                                       : llama || spm->add_dummy_prefix;
    if (tok->bos >= 0 && config->add_bos != LF_ANSWER_NO) {
        tok->before = &tok->bos;
        tok->n_before = 1;
    }
    if (tok->eos >= 0 && config->add_eos == LF_ANSWER_YES) {
        tok->after = &tok->eos;
        tok->n_after = 1;
    }
    tok->decoder = (struct lf_decoder){.kind = LF_DECODER_SPM,
                                       .drop_mark = spm->add_dummy_prefix || spm->remove_extra_whitespaces,
                                       .drop_every = spm->remove_extra_whitespaces,
                                       .unk_surface = lf_str_c(spm->unk_surface)};
    return LF_OK;
}

/* A line a token: its bytes in base64, a space, its rank. */
static bool is_tiktoken(struct lf_str file)
{
    size_t i = 0;
    while (i < file.len && (isalnum((unsigned char)file.ptr[i]) || strchr("+/=", file.ptr[i]))) {
        if (file.ptr[i] == '\0') return false;
        i++;
    }
    return i > 0 && i + 1 < file.len && file.ptr[i] == ' ' && isdigit((unsigned char)file.ptr[i + 1]);
}

enum lf_status lf_tokenizer_open_spm(struct lf_tokenizer *tok, const char *dir,
                                     const struct lf_tokenizer_config *config, struct lf_err *err)
{
    struct lf_buf file;
    int32_t n_ids = 0;
    uint64_t n_bytes = 0;
    enum lf_status status;
    lf_buf_init(&file, MODEL_FILE_BYTES);
    LF_TRY_GOTO(lf_file_read_in(&file, dir, "tokenizer.model", MODEL_FILE_BYTES, err), done);
    LF_TRY_GOTO(room_for(config, &n_ids, &n_bytes, err), done);
    if (is_tiktoken(lf_buf_view(&file))) {
        status =
            lf_fail(err, LF_UNSUPPORTED,
                    "tokenizer.model is in the form of tiktoken, which is not read; expected tokenizer.json of the "
                    "same model");
        goto done;
    }
    status = lf_spm_open(&tok->spm, &tok->vocab, lf_buf_view(&file), n_ids, n_bytes, err);
    if (status != LF_OK) lf_fail_within(err, status, "tokenizer.model");
    if (status == LF_OK) status = add_tokens(tok, config, err);
    if (status == LF_OK) status = settle(tok, config, err);
done:
    lf_buf_deinit(&file);
    return status;
}

/* A mark alone before bos_token or its like is no text, as transformers has it; before other added tokens it stays.
 * The text is empty only where such a token follows: of an empty prompt nothing is encoded. */
static enum lf_status encode_opening(const struct lf_tokenizer *tok, struct lf_encode_work *work, struct lf_str text,
                                     const struct lf_added_token *next)
{
    size_t first = work->out->n;
    LF_TRY(lf_spm_encode(&tok->spm, work, text, LF_SPM_START_MARK, true));
    bool only_mark =
        work->out->n == first + 1 && lf_str_eq(lf_vocab_text(&tok->vocab, work->out->ids[first]), LF_STR(LF_SPM_MARK));
    if (only_mark && next && next->named) work->out->n = first;
    return LF_OK;
}

/* One segment; next: the added token behind it, or NULL. */
static enum lf_status encode_segment(const struct lf_tokenizer *tok, struct lf_encode_work *work, struct lf_str text,
                                     enum lf_place place, const struct lf_added_token *next)
{
    if (tok->legacy && place != LF_PLACE_GOES_ON)
        return text.len > 0 ? lf_spm_encode(&tok->spm, work, text, LF_SPM_START_MODEL, false) : LF_OK;
    if (place == LF_PLACE_OPENS && tok->add_prefix_space) return encode_opening(tok, work, text, next);
    if (text.len == 0) return LF_OK;
    bool spaced = text.ptr[0] == ' ' || lf_spm_is_mark(text, 0);
    return lf_spm_encode(&tok->spm, work, text, spaced ? LF_SPM_START_INSIDE : LF_SPM_START_BARE, true);
}

enum lf_status lf_tokenizer_encode_spm(const struct lf_tokenizer *tok, struct lf_encode_work *work,
                                       const struct lf_added_search *search)
{
    struct lf_added_match match;
    size_t at = 0;
    enum lf_place place = search->goes_on ? LF_PLACE_GOES_ON : LF_PLACE_OPENS;
    if (search->text.len == 0) return LF_OK;
    enum lf_status status = lf_added_find(&tok->added, &tok->added.raw, search, &work->matches, work->on);
    if (status != LF_OK) return lf_encode_fail(work, status, NULL);
    while (lf_added_next(&tok->added, &work->matches, search, at, &match)) {
        struct lf_str segment = lf_str_from(search->text.ptr + at, match.first - at);
        LF_TRY(encode_segment(tok, work, segment, place, match.token));
        LF_TRY(lf_encode_push(work, match.token->id));
        at = match.end;
        place = LF_PLACE_BEHIND_TOKEN;
    }
    return encode_segment(tok, work, lf_str_from(search->text.ptr + at, search->text.len - at), place, NULL);
}
