#include "tokenizer/tokenizer.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "tokenizer/detok.h"
#include "tokenizer/encode.h"
#include "tokenizer/hf/hf.h"
#include "tokenizer/id_text.h"
#include "tokenizer/spm/spm_open.h"
#include "tokenizer/tokenizer_impl.h"

enum { CHECK_BYTES = 16 * 1024, TOKEN_STEPS = 16 };
enum { ARENA_CHUNK_BYTES = 4096, ARENA_BYTES = 64 * 1024 * 1024 };

/* Back to the state before anything was opened. */
static void clear(struct lf_tokenizer *tok)
{
    lf_hf_free(tok->hf);
    lf_spm_deinit(&tok->spm);
    lf_added_deinit(&tok->added);
    lf_vocab_deinit(&tok->vocab);
    lf_arena_deinit(&tok->arena);
    *tok = (struct lf_tokenizer){.bos = -1, .eos = -1};
    lf_arena_init(&tok->arena, ARENA_CHUNK_BYTES, ARENA_BYTES);
}

/* tokenizer.json if it is there and implemented, else tokenizer.model, else vocab.json with merges.txt. */
static enum lf_status open_either(struct lf_tokenizer *tok, const char *dir, const struct lf_tokenizer_config *config,
                                  struct lf_err *err)
{
    enum lf_status status = lf_tokenizer_open_hf(tok, dir, config, err);
    if (status != LF_NOT_FOUND && status != LF_UNSUPPORTED) return status;
    struct lf_err other = {0};
    clear(tok);
    enum lf_status second = lf_tokenizer_open_spm(tok, dir, config, &other);
    if (second == LF_NOT_FOUND && status == LF_UNSUPPORTED) return status;
    if (second == LF_NOT_FOUND) {
        clear(tok);
        second = lf_tokenizer_open_vocab_merges(tok, dir, config, &other);
    }
    if (second == LF_NOT_FOUND)
        return lf_fail(err, LF_NOT_FOUND, "%s has neither tokenizer.json nor tokenizer.model", dir);
    if (err && second != LF_OK) *err = other;
    return second;
}

static enum lf_status keep_template(struct lf_tokenizer *tok, struct lf_str text, struct lf_err *err)
{
    if (text.len > LF_TEMPLATE_SOURCE_BYTES)
        return lf_fail(err, LF_LIMIT, "the chat template has %zu bytes, at most %d are allowed", text.len,
                       LF_TEMPLATE_SOURCE_BYTES);
    return lf_text_keep(&tok->chat_template, &tok->arena, text, err);
}

enum lf_status lf_tokenizer_open(struct lf_tokenizer **out, const char *dir, struct lf_err *err)
{
    struct lf_tokenizer_config config = {0};
    struct lf_tokenizer *tok = calloc(1, sizeof *tok);
    enum lf_status status;
    if (!tok) return lf_fail(err, LF_NO_MEMORY, "no memory for a tokenizer");
    clear(tok);
    LF_TRY_GOTO(lf_tokenizer_config_read(&config, dir, err), fail);
    LF_TRY_GOTO(open_either(tok, dir, &config, err), fail);
    LF_TRY_GOTO(keep_template(tok, config.chat_template, err), fail);
    lf_tokenizer_config_deinit(&config);
    *out = tok;
    return LF_OK;
fail:
    lf_tokenizer_config_deinit(&config);
    lf_tokenizer_close(tok);
    return status;
}

enum lf_status lf_tokenizer_open_ids(struct lf_tokenizer **out, int n_vocab, struct lf_err *err)
{
    struct lf_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok) return lf_fail(err, LF_NO_MEMORY, "no memory for a tokenizer");
    clear(tok);
    tok->id_text = true;
    tok->decoder.kind = LF_DECODER_JOIN;
    enum lf_status status = lf_id_text_vocab(&tok->vocab, n_vocab, err);
    if (status != LF_OK) {
        lf_tokenizer_close(tok);
        return status;
    }
    *out = tok;
    return LF_OK;
}

void lf_tokenizer_close(struct lf_tokenizer *tok)
{
    if (!tok) return;
    clear(tok);
    lf_arena_deinit(&tok->arena);
    free(tok);
}

/* One byte for each of text, 1 where it came from a user. NULL with LF_OK where there are no spans. */
static enum lf_status mark_user_bytes(uint8_t **out, struct lf_str text, const struct lf_text_span *spans, size_t n,
                                      struct lf_text_memory *memory, struct lf_err *err)
{
    size_t at = 0;
    *out = NULL;
    if (n == 0 || text.len == 0) return LF_OK;
    uint8_t *user = lf_text_alloc_zeroed(memory, text.len);
    if (!user) return lf_fail(err, LF_NO_MEMORY, "no memory for %zu bytes of text", text.len);
    for (size_t i = 0; i < n; i++) {
        if (spans[i].first < at || spans[i].first > text.len || spans[i].len > text.len - spans[i].first) {
            lf_text_free(memory, user);
            return lf_fail(err, LF_INVALID, "span %zu of the text is out of order or out of range", i);
        }
        memset(user + spans[i].first, 1, spans[i].len);
        at = spans[i].first + spans[i].len;
    }
    *out = user;
    return LF_OK;
}

static enum lf_status encode_all(const struct lf_tokenizer *tok, struct lf_encode_work *work,
                                 const struct lf_added_search *search, unsigned flags)
{
    if (tok->id_text) return lf_tokenizer_encode_ids(tok, work, search->text);
    bool around = (flags & LF_ENCODE_BOS_EOS) != 0;
    for (size_t i = 0; around && i < tok->n_before; i++) LF_TRY(lf_encode_push(work, tok->before[i]));
    LF_TRY(tok->hf ? lf_tokenizer_encode_hf(tok, work, search) : lf_tokenizer_encode_spm(tok, work, search));
    for (size_t i = 0; around && i < tok->n_after; i++) LF_TRY(lf_encode_push(work, tok->after[i]));
    return LF_OK;
}

/* In parts that end between code points, so that a long text can be left. */
static enum lf_status check_utf8(struct lf_encode_work *work, struct lf_str text)
{
    for (size_t at = 0, end; at < text.len; at = end) {
        end = at + LF_MIN(text.len - at, CHECK_BYTES);
        for (int i = 0; i < 3 && end < text.len && ((uint8_t)text.ptr[end] & 0xc0) == 0x80; i++) end--;
        if (!lf_utf8_valid(lf_str_from(text.ptr + at, end - at)))
            return lf_fail(work->err, LF_INVALID, "the text is not valid UTF-8");
        LF_TRY(lf_encode_step(work, end - at));
    }
    return LF_OK;
}

enum lf_status lf_tokenizer_encode(const struct lf_tokenizer *tok, struct lf_ids *out, struct lf_str text,
                                   const struct lf_text_span *user_spans, size_t n_user_spans, unsigned flags,
                                   size_t max_ids, struct lf_work *work, struct lf_err *err)
{
    struct lf_encode_work scratch;
    uint8_t *user = NULL;
    if (text.len > LF_TOKENIZER_TEXT_BYTES)
        return lf_fail(err, LF_LIMIT, "the text has %zu bytes, at most %d are allowed", text.len,
                       LF_TOKENIZER_TEXT_BYTES);
    lf_encode_work_init(&scratch, out, text.len, max_ids, work, err);
    enum lf_status status = check_utf8(&scratch, text);
    if (status == LF_OK) status = mark_user_bytes(&user, text, user_spans, n_user_spans, lf_work_memory(work), err);
    struct lf_added_search search = {.text = text,
                                     .user = user,
                                     .specials = (flags & LF_ENCODE_SPECIALS) != 0,
                                     .goes_on = (flags & LF_ENCODE_GOES_ON) != 0};
    if (status == LF_OK) status = encode_all(tok, &scratch, &search, flags);
    if (status != LF_OK) out->n = scratch.first;
    lf_encode_work_deinit(&scratch);
    lf_text_free(lf_work_memory(work), user);
    return status;
}

enum lf_status lf_tokenizer_decode(const struct lf_tokenizer *tok, struct lf_buf *out, const int32_t *ids, size_t n_ids,
                                   bool with_specials, struct lf_work *work, struct lf_err *err)
{
    struct lf_detok detok;
    size_t first = out->len;
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= tok->vocab.n_ids)
            return lf_fail(err, LF_INVALID, "token id %d is out of range (0 to %d)", ids[i], tok->vocab.n_ids - 1);
    }
    lf_detok_init(&detok, tok, with_specials, false);
    enum lf_status status = LF_OK;
    for (size_t i = 0; i < n_ids && status == LF_OK && out->status == LF_OK; i++) {
        lf_detok_push(&detok, ids[i], out);
        status = lf_work_step(work, TOKEN_STEPS + tok->vocab.lens[ids[i]]);
    }
    lf_detok_flush(&detok, out);
    if (out->status == LF_OK && status == LF_OK) return LF_OK;
    out->len = LF_MIN(first, out->len);
    if (status != LF_OK) return lf_fail(err, status, "nobody waits for the text of %zu tokens any more", n_ids);
    return lf_fail(err, out->status, "the text of %zu tokens does not fit", n_ids);
}

int lf_tokenizer_n_vocab(const struct lf_tokenizer *tok)
{
    return tok->vocab.n_ids;
}

bool lf_tokenizer_token(const struct lf_tokenizer *tok, int32_t id, struct lf_token_info *out)
{
    if (!lf_vocab_has(&tok->vocab, id)) return false;
    out->text = lf_vocab_text(&tok->vocab, id);
    out->special = (tok->vocab.flags[id] & LF_TOKEN_SPECIAL) != 0;
    return true;
}

int32_t lf_tokenizer_find(const struct lf_tokenizer *tok, struct lf_str text)
{
    return lf_vocab_find(&tok->vocab, text);
}

int32_t lf_tokenizer_bos(const struct lf_tokenizer *tok)
{
    return tok->bos;
}

int32_t lf_tokenizer_eos(const struct lf_tokenizer *tok)
{
    return tok->eos;
}

struct lf_str lf_tokenizer_bos_text(const struct lf_tokenizer *tok)
{
    return tok->bos_text;
}

struct lf_str lf_tokenizer_eos_text(const struct lf_tokenizer *tok)
{
    return tok->eos_text;
}

struct lf_str lf_tokenizer_chat_template(const struct lf_tokenizer *tok)
{
    return tok->chat_template;
}
