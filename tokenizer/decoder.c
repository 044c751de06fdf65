#include "tokenizer/decoder.h"

/* Bytes that are visible letters in Latin-1 stand for themselves; the other 68 follow from U+0100 on, in order. */
static bool is_visible(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

uint32_t lf_byte_level_letter(uint8_t byte)
{
    if (is_visible(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xa0) return 0x121u + byte - 0x7f;
    return 0x143; /* 0xad */
}

int lf_byte_level_byte(uint32_t cp)
{
    if (cp < 0x100) return is_visible(cp) ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    if (cp <= 0x142) return (int)(cp - 0x121 + 0x7f);
    return cp == 0x143 ? 0xad : -1;
}

int lf_byte_token(struct lf_str text)
{
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>') return -1;
    int high = text.ptr[3] == '+' ? 0 : lf_digit(text.ptr[3]), low = lf_digit(text.ptr[4]);
    return high >= 16 || low >= 16 ? -1 : high * 16 + low;
}

int lf_byte_piece(struct lf_str text)
{
    if (text.len == 6 && (text.ptr[3] == '+' || text.ptr[3] >= 'a' || text.ptr[4] >= 'a')) return -1;
    return lf_byte_token(text);
}

void lf_text_replace(struct lf_buf *out, struct lf_str text, struct lf_str from, struct lf_str to)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    while (out->status == LF_OK && from.len > 0 && (size_t)(end - at) >= from.len) {
        const char *hit = memmem(at, (size_t)(end - at), from.ptr, from.len);
        if (!hit) break;
        lf_buf_append(out, at, (size_t)(hit - at));
        lf_buf_str(out, to);
        at = hit + from.len;
    }
    lf_buf_append(out, at, (size_t)(end - at));
}
