#include "core/str.h"

#include <stdio.h>
#include <strings.h>

#include "core/text_memory.h"

bool lf_str_starts(struct lf_str s, struct lf_str prefix)
{
    return s.len >= prefix.len && lf_str_eq(lf_str_from(s.ptr, prefix.len), prefix);
}

bool lf_str_ends(struct lf_str s, struct lf_str suffix)
{
    return s.len >= suffix.len && lf_str_eq(lf_str_from(s.ptr + (s.len - suffix.len), suffix.len), suffix);
}

struct lf_str lf_str_without_bom(struct lf_str s)
{
    const struct lf_str bom = LF_STR("\xef\xbb\xbf");
    return lf_str_starts(s, bom) ? lf_str_from(s.ptr + bom.len, s.len - bom.len) : s;
}

ptrdiff_t lf_str_find(struct lf_str s, struct lf_str needle)
{
    if (needle.len == 0) return 0;
    const char *hit = s.len ? memmem(s.ptr, s.len, needle.ptr, needle.len) : NULL;
    return hit ? hit - s.ptr : -1;
}

/* Not isspace, which goes by the locale. */
static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct lf_str lf_str_trim(struct lf_str s)
{
    while (s.len && is_space(s.ptr[0])) s = lf_str_from(s.ptr + 1, s.len - 1);
    while (s.len && is_space(s.ptr[s.len - 1])) s.len--;
    return s;
}

bool lf_str_is_word(struct lf_str s, const char *word)
{
    return s.len == strlen(word) && (s.len == 0 || strncasecmp(s.ptr, word, s.len) == 0);
}

void lf_buf_init(struct lf_buf *buf, size_t ceiling)
{
    lf_buf_init_in(buf, ceiling, NULL);
}

void lf_buf_init_in(struct lf_buf *buf, size_t ceiling, struct lf_text_memory *memory)
{
    *buf = (struct lf_buf){.ceiling = ceiling, .memory = memory};
}

void lf_buf_deinit(struct lf_buf *buf)
{
    lf_text_free(buf->memory, buf->ptr);
    *buf = (struct lf_buf){0};
}

void lf_buf_clear(struct lf_buf *buf)
{
    buf->len = 0;
    buf->status = LF_OK;
    if (buf->ptr) buf->ptr[0] = 0;
}

enum lf_status lf_buf_reserve(struct lf_buf *buf, size_t n)
{
    if (buf->status != LF_OK) return buf->status;
    if (n > buf->ceiling - buf->len) return buf->status = LF_LIMIT;
    size_t need = buf->len + n + 1; /* the terminator */
    if (need <= buf->cap) return LF_OK;
    size_t cap = buf->cap ? buf->cap : 64;
    while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    /* doubling must not pass the ceiling by much: the last step takes what is allowed, not twice of it */
    if (cap > buf->ceiling + 1) cap = buf->ceiling + 1;
    char *ptr = lf_text_realloc(buf->memory, buf->ptr, cap);
    if (!ptr) return buf->status = LF_NO_MEMORY;
    buf->ptr = ptr;
    buf->cap = cap;
    return LF_OK;
}

void lf_buf_append(struct lf_buf *buf, const void *bytes, size_t n)
{
    if (lf_buf_reserve(buf, n) != LF_OK) return;
    if (n) memcpy(buf->ptr + buf->len, bytes, n);
    buf->len += n;
    buf->ptr[buf->len] = 0;
}

void lf_buf_str(struct lf_buf *buf, struct lf_str s)
{
    lf_buf_append(buf, s.ptr, s.len);
}

void lf_buf_cstr(struct lf_buf *buf, const char *s)
{
    lf_buf_append(buf, s, strlen(s));
}

void lf_buf_char(struct lf_buf *buf, char c)
{
    lf_buf_append(buf, &c, 1);
}

void lf_buf_escaped(struct lf_buf *buf, const char *s, const char *marked)
{
    for (; *s; s++) {
        if (strchr(marked, *s)) lf_buf_char(buf, '\\');
        lf_buf_char(buf, *s);
    }
}

/* Into the room that there is; only what does not fit is written twice. */
void lf_buf_printf(struct lf_buf *buf, const char *fmt, ...)
{
    if (buf->status != LF_OK) return;
    size_t most = buf->cap > buf->ceiling ? buf->ceiling + 1 : buf->cap; /* with the terminator */
    size_t room = buf->ptr && most > buf->len ? most - buf->len : 0;
    char *end = room ? buf->ptr + buf->len : NULL;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(end, room, fmt, args);
    va_end(args);
    bool fits = n >= 0 && (size_t)n < room;
    if (!fits && end) *end = 0;
    if (!fits && n >= 0 && lf_buf_reserve(buf, (size_t)n) == LF_OK) {
        vsnprintf(buf->ptr + buf->len, (size_t)n + 1, fmt, again);
        fits = true;
    }
    if (fits) buf->len += (size_t)n;
    va_end(again);
}

int lf_utf8_decode(const char *s, size_t len, uint32_t *cp)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned c = u[0];
    int n = c < 0x80 ? 1 : c >= 0xC2 && c <= 0xDF ? 2 : (c & 0xF0) == 0xE0 ? 3 : c >= 0xF0 && c <= 0xF4 ? 4 : 0;
    if (n == 0 || (size_t)n > len) return 0;
    if (n == 1) {
        *cp = c;
        return 1;
    }
    uint32_t v = c & (0x7Fu >> n);
    for (int i = 1; i < n; i++) {
        if ((u[i] & 0xC0) != 0x80) return 0;
        v = v << 6 | (u[i] & 0x3Fu);
    }
    /* overlong three- and four-byte forms, surrogates, above the last code point */
    if ((n == 3 && (v < 0x800 || (v >= 0xD800 && v <= 0xDFFF))) || (n == 4 && (v < 0x10000 || v > 0x10FFFF))) return 0;
    *cp = v;
    return n;
}

int lf_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)(heads[n] | cp);
    return n;
}

bool lf_utf8_valid(struct lf_str s)
{
    size_t i = 0;
    while (i < s.len) {
        uint64_t eight;
        if (i + 8 <= s.len && (memcpy(&eight, s.ptr + i, 8), (eight & 0x8080808080808080u) == 0)) {
            i += 8; /* documents are mostly ASCII */
            continue;
        }
        uint32_t cp;
        int n = lf_utf8_decode(s.ptr + i, s.len - i, &cp);
        if (n == 0) return false;
        i += (size_t)n;
    }
    return true;
}

int64_t lf_utf8_count(struct lf_str s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}
