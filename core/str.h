/* Text without surprises: borrowed views, and buffers that know their ceiling.
 *
 * A view is a pointer and a length, not terminated, borrowed. A buffer owns its bytes, grows by doubling up to a
 * ceiling given at init, and fails stickily: after one failed append every later one is a no-op, and the status is
 * asked once at the end. A buffer is always terminated behind len, so ptr is a C string too (if no NUL was added). */
#ifndef LF_CORE_STR_H
#define LF_CORE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/status.h"

struct lf_text_memory;

struct lf_str {
    const char *ptr; /* borrowed */
    size_t len;
};

#define LF_STR(literal) ((struct lf_str){"" literal, sizeof(literal) - 1})

static inline struct lf_str lf_str_from(const char *ptr, size_t len)
{
    return (struct lf_str){ptr, len};
}
/* NULL gives the empty view. */
static inline struct lf_str lf_str_c(const char *c)
{
    return (struct lf_str){c, c ? strlen(c) : 0};
}
static inline bool lf_str_eq(struct lf_str a, struct lf_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
bool lf_str_starts(struct lf_str s, struct lf_str prefix);
bool lf_str_ends(struct lf_str s, struct lf_str suffix);
/* Without the byte order mark that some editors put before UTF-8. */
struct lf_str lf_str_without_bom(struct lf_str s);
/* Index of needle in s, or -1. */
ptrdiff_t lf_str_find(struct lf_str s, struct lf_str needle);
/* Without the white space of ASCII at both ends. */
struct lf_str lf_str_trim(struct lf_str s);
/* Whether s is this word, with ASCII letters of either case. */
bool lf_str_is_word(struct lf_str s, const char *word);
/* The value of a digit, letters of either case being those above 9; 36 for anything else: so `lf_digit(c) < base` asks
 * whether it is one of a base. */
static inline int lf_digit(char c)
{
    int lower = c | 0x20;
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 36;
}

struct lf_buf {
    char *ptr; /* owned; NULL until the first append */
    size_t len;
    size_t cap;
    size_t ceiling; /* len never passes it */
    enum lf_status status;
    struct lf_text_memory *memory; /* borrowed; NULL: the process's heap */
};

void lf_buf_init(struct lf_buf *buf, size_t ceiling);
void lf_buf_init_in(struct lf_buf *buf, size_t ceiling, struct lf_text_memory *memory);
void lf_buf_deinit(struct lf_buf *buf); /* accepts a zeroed or deinitialized one */
void lf_buf_clear(struct lf_buf *buf);  /* len = 0, keeps the memory, forgets a failure */
/* Room for n more bytes without another allocation. */
enum lf_status lf_buf_reserve(struct lf_buf *buf, size_t n);
void lf_buf_append(struct lf_buf *buf, const void *bytes, size_t n);
void lf_buf_str(struct lf_buf *buf, struct lf_str s);
void lf_buf_cstr(struct lf_buf *buf, const char *s);
void lf_buf_char(struct lf_buf *buf, char c);
/* s with a backslash before each of these characters. */
void lf_buf_escaped(struct lf_buf *buf, const char *s, const char *marked);
void lf_buf_printf(struct lf_buf *buf, const char *fmt, ...) LF_PRINTF(2, 3);
static inline struct lf_str lf_buf_view(const struct lf_buf *buf)
{
    return (struct lf_str){buf->ptr ? buf->ptr : "", buf->len};
}

/* UTF-8. Decodes one code point at s (len > 0): returns its length 1..4 and sets *cp, or returns 0 where the bytes
 * are not valid UTF-8 (overlong, surrogate, above U+10FFFF, cut short). */
int lf_utf8_decode(const char *s, size_t len, uint32_t *cp);
/* Writes cp (a valid scalar value) to out[4]; returns the length. */
int lf_utf8_encode(uint32_t cp, char out[4]);
bool lf_utf8_valid(struct lf_str s);
/* Code points of valid UTF-8. */
int64_t lf_utf8_count(struct lf_str s);

#endif
