/* The bytes of one token. The detokenizer gives out text, never half a code point; a token may begin or end inside one,
 * so what it holds back is asked for, and what came out as U+FFFD is read from the vocabulary's own writing. */
#include "tokenizer/decoder.h"
#include "tokenizer/detok.h"
#include "tokenizer/tokenizer.h"

enum { TOKEN_TEXT_BYTES = 64 * 1024 };

/* The bytes of a text in which each letter is one, as byte-level vocabularies write them; false: it is no such text. */
static bool byte_level(struct lf_str s, struct lf_buf *out)
{
    size_t len = out->len;
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        int n = lf_utf8_decode(s.ptr + i, s.len - i, &cp);
        int byte = n ? lf_byte_level_byte(cp) : -1;
        if (byte < 0) {
            out->len = len;
            return false;
        }
        lf_buf_char(out, (char)byte);
        i += (size_t)n;
    }
    return true;
}

/* What came out has U+FFFD in it: bytes from the middle of a code point, or the character itself. */
static void write_exactly(struct lf_buf *out, size_t len, struct lf_str text)
{
    struct lf_buf exact;
    lf_buf_init(&exact, TOKEN_TEXT_BYTES);
    if (byte_level(text, &exact)) {
        out->len = len;
        lf_buf_str(out, lf_buf_view(&exact));
    }
    if (exact.status != LF_OK) out->status = exact.status; /* must not go missing silently */
    lf_buf_deinit(&exact);
}

void lf_token_bytes(struct lf_buf *out, const struct lf_tokenizer *tok, int32_t id, bool begins)
{
    struct lf_token_info info;
    if (!lf_tokenizer_token(tok, id, &info)) return;
    if (info.special) {
        lf_buf_str(out, info.text);
        return;
    }
    int byte = lf_detok_byte(tok, id);
    if (byte >= 0x80) {
        lf_buf_char(out, (char)byte);
        return;
    }
    struct lf_detok detok;
    size_t len = out->len;
    lf_detok_init(&detok, tok, true, !begins);
    lf_detok_push(&detok, id, out);
    lf_buf_append(out, detok.pending, (size_t)detok.n_pending);
    struct lf_str text = lf_str_from(out->ptr ? out->ptr + len : "", out->len - len);
    if (lf_str_find(text, LF_STR("\xEF\xBF\xBD")) >= 0) write_exactly(out, len, info.text);
}
