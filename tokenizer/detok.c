/* Ids to text, one at a time.
 *
 * Bytes go through `pending`, which holds at most the beginning of one code point; text goes out only when it is whole.
 * What can no longer become one is replaced: either one U+FFFD for the longest beginning of a code point (byte-level
 * tokenizers, as Unicode recommends) or one for each byte (sentencepiece and byte fallback).
 *
 * Hugging Face's byte fallback replaces every byte of a run if one of them is bad; that cannot be known before the run
 * ends, so here whole code points of such a run stay what they are. */
#include "tokenizer/detok.h"

#include "tokenizer/tokenizer_impl.h"

#define REPLACEMENT "\xef\xbf\xbd"

void lf_detok_init(struct lf_detok *detok, const struct lf_tokenizer *tok, bool with_specials, bool continues)
{
    *detok = (struct lf_detok){.tok = tok, .with_specials = with_specials, .started = continues};
    if (continues) detok->n_stripped = tok->decoder.n_strip;
}

/* Text that is whole goes out, less what is dropped at the beginning. */
static void emit_text(struct lf_detok *detok, struct lf_str text, struct lf_buf *out)
{
    const struct lf_decoder *d = &detok->tok->decoder;
    struct lf_str strip = lf_str_c(d->strip);
    while (detok->n_stripped < d->n_strip && text.len > 0) {
        if (!lf_str_starts(text, strip)) {
            detok->n_stripped = d->n_strip;
            break;
        }
        text = lf_str_from(text.ptr + strip.len, text.len - strip.len);
        detok->n_stripped++;
    }
    lf_buf_str(out, text);
}

/* 1: the bytes are a code point; 0: they begin one; -1: they do neither. */
static int progress(const char *bytes, int n)
{
    static const char fill[3] = {(char)0x80, (char)0x80, (char)0x80};
    uint8_t first = (uint8_t)bytes[0];
    int need = first < 0x80 ? 1 : first < 0xc2 ? -1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : -1;
    if (need < 0 || n > need) return -1;
    char whole[4];
    uint32_t cp;
    memcpy(whole, bytes, (size_t)n);
    memcpy(whole + n, fill, (size_t)(need - n));
    /* The second byte's range depends on the first; filled up with 0x80 some beginnings only look bad. */
    if (n == 1 && need >= 3) whole[1] = first == 0xe0 ? (char)0xa0 : first == 0xf0 ? (char)0x90 : (char)0x80;
    return lf_utf8_decode(whole, (size_t)need, &cp) != need ? -1 : n == need;
}

static void drop_pending(struct lf_detok *detok, int n)
{
    detok->n_pending -= n;
    memmove(detok->pending, detok->pending + n, (size_t)detok->n_pending);
}

static void emit_byte(struct lf_detok *detok, char byte, struct lf_buf *out)
{
    detok->pending[detok->n_pending++] = byte;
    while (detok->n_pending > 0) {
        int n = detok->n_pending;
        int p = progress(detok->pending, n);
        if (p == 0) return;
        if (p > 0) {
            emit_text(detok, lf_str_from(detok->pending, (size_t)n), out);
            detok->n_pending = 0;
            return;
        }
        emit_text(detok, LF_STR(REPLACEMENT), out);
        drop_pending(detok, detok->tok->decoder.lossy && n > 1 ? n - 1 : 1);
    }
}

void lf_detok_flush(struct lf_detok *detok, struct lf_buf *out)
{
    while (detok->n_pending > 0) {
        emit_text(detok, LF_STR(REPLACEMENT), out);
        drop_pending(detok, detok->tok->decoder.lossy ? detok->n_pending : 1);
    }
}

static void emit_replaced(struct lf_detok *detok, struct lf_str text, struct lf_str from, struct lf_str to,
                          struct lf_buf *out)
{
    size_t first = 0;
    for (size_t i = 0; i < text.len;) {
        if (!lf_str_starts(lf_str_from(text.ptr + i, text.len - i), from)) {
            i++;
            continue;
        }
        emit_text(detok, lf_str_from(text.ptr + first, i - first), out);
        emit_text(detok, to, out);
        i += from.len;
        first = i;
    }
    emit_text(detok, lf_str_from(text.ptr + first, text.len - first), out);
}

static void push_spm(struct lf_detok *detok, struct lf_str text, unsigned flags, struct lf_buf *out)
{
    const struct lf_decoder *d = &detok->tok->decoder;
    if (flags & LF_TOKEN_BYTE) {
        detok->started = true;
        emit_byte(detok, (char)lf_byte_piece(text), out);
        return;
    }
    lf_detok_flush(detok, out);
    if (flags & (LF_TOKEN_SPECIAL | LF_TOKEN_ADDED)) {
        detok->started = true;
        lf_buf_str(out, text);
        return;
    }
    if (flags & LF_TOKEN_UNKNOWN) text = d->unk_surface;
    bool dropped = !detok->started && d->drop_mark && lf_str_starts(text, LF_STR(LF_SPM_MARK));
    if (dropped) text = lf_str_from(text.ptr + LF_SPM_MARK_LEN, text.len - LF_SPM_MARK_LEN);
    if (text.len > 0 || (dropped && !d->drop_every)) detok->started = true;
    emit_replaced(detok, text, LF_STR(LF_SPM_MARK), LF_STR(" "), out);
}

static void push_byte_level(struct lf_detok *detok, struct lf_str text, struct lf_buf *out)
{
    uint32_t cp;
    size_t i = 0;
    /* A token with a letter that stands for no byte is text as it is. */
    while (i < text.len) {
        int n = lf_utf8_decode(text.ptr + i, text.len - i, &cp);
        if (n == 0 || lf_byte_level_byte(cp) < 0) break;
        i += (size_t)n;
    }
    bool letters = i == text.len;
    for (i = 0; i < text.len;) {
        int n = letters ? lf_utf8_decode(text.ptr + i, text.len - i, &cp) : 1;
        emit_byte(detok, letters ? (char)lf_byte_level_byte(cp) : text.ptr[i], out);
        i += (size_t)n;
    }
}

static void push_steps(struct lf_detok *detok, struct lf_str text, struct lf_buf *out)
{
    const struct lf_decoder *d = &detok->tok->decoder;
    struct lf_buf from, to;
    bool first = !detok->started;
    detok->started = true;
    if (d->byte_fallback && lf_byte_token(text) >= 0) {
        emit_byte(detok, (char)lf_byte_token(text), out);
        return;
    }
    lf_detok_flush(detok, out);
    if (d->n_replaces == 1 && !d->replaces[0].first_token_only) {
        emit_replaced(detok, text, d->replaces[0].from, d->replaces[0].to, out);
        return;
    }
    lf_buf_init(&from, out->ceiling);
    lf_buf_init(&to, out->ceiling);
    lf_buf_str(&from, text);
    for (int i = 0; i < d->n_replaces && from.status == LF_OK; i++) {
        if (d->replaces[i].first_token_only && !first) continue;
        lf_buf_clear(&to);
        lf_text_replace(&to, lf_buf_view(&from), d->replaces[i].from, d->replaces[i].to);
        struct lf_buf swap = from;
        from = to;
        to = swap;
    }
    if (from.status != LF_OK || to.status != LF_OK) out->status = LF_NO_MEMORY;
    emit_text(detok, lf_buf_view(&from), out);
    lf_buf_deinit(&from);
    lf_buf_deinit(&to);
}

int lf_detok_byte(const struct lf_tokenizer *tok, int32_t id)
{
    if (!lf_vocab_has(&tok->vocab, id)) return -1;
    struct lf_str text = lf_vocab_text(&tok->vocab, id);
    if (tok->decoder.kind == LF_DECODER_SPM) return tok->vocab.flags[id] & LF_TOKEN_BYTE ? lf_byte_piece(text) : -1;
    return tok->decoder.kind == LF_DECODER_STEPS && tok->decoder.byte_fallback ? lf_byte_token(text) : -1;
}

void lf_detok_push(struct lf_detok *detok, int32_t id, struct lf_buf *out)
{
    const struct lf_vocab *vocab = &detok->tok->vocab;
    if (!lf_vocab_has(vocab, id)) return;
    unsigned flags = vocab->flags[id];
    if ((flags & LF_TOKEN_SPECIAL) && !detok->with_specials) return;
    struct lf_str text = lf_vocab_text(vocab, id);
    switch (detok->tok->decoder.kind) {
    case LF_DECODER_SPM:
        push_spm(detok, text, flags, out);
        break;
    case LF_DECODER_BYTE_LEVEL:
        push_byte_level(detok, text, out);
        break;
    case LF_DECODER_STEPS:
        push_steps(detok, text, out);
        break;
    case LF_DECODER_JOIN:
        if (detok->started) emit_text(detok, LF_STR(" "), out);
        detok->started = true;
        emit_text(detok, text, out);
        break;
    }
}
