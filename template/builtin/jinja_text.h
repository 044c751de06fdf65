/* Text of a template's values: bytes that remember who wrote them.
 *
 * Idea. A buffer holds bytes and a list of runs, each wholly the template's or wholly the user's. A text is a view of a
 * buffer, so slicing, trimming and splitting copy nothing and cannot lose the marks. Bytes under a view never change: a
 * buffer only grows behind them. Joining two texts appends to the left one's buffer where that one ends the buffer and
 * room is left, so building a long text piece by piece is linear.
 *
 * Everything lives in an arena (the program's for literals, the render's for the rest) and is freed with it. A buffer
 * of the program has no room, so it is never written to and any thread may read it. */
#ifndef LF_TEMPLATE_BUILTIN_JINJA_TEXT_H
#define LF_TEMPLATE_BUILTIN_JINJA_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/str.h"

struct lf_jinja;

struct lf_jinja_run {
    uint32_t end; /* byte behind the run; it begins where the run before it ends */
    bool user;
};

struct lf_jinja_buf {
    char *ptr;
    uint32_t len, cap;
    struct lf_jinja_run *runs; /* ascending, neighbours differ in user; none iff len is 0 */
    uint32_t n_runs, cap_runs;
    struct lf_jinja_run one; /* storage of the first run */
    bool ascii;              /* every byte below 128 */
};

struct lf_jinja_text {
    struct lf_jinja_buf *buf;
    uint32_t off, len; /* bytes */
};

static inline const char *lf_jinja_text_ptr(struct lf_jinja_text t)
{
    return t.buf->ptr + t.off;
}
static inline struct lf_str lf_jinja_text_str(struct lf_jinja_text t)
{
    return (struct lf_str){t.buf->ptr + t.off, t.len};
}
/* Bytes [first, end) of t. */
static inline struct lf_jinja_text lf_jinja_text_sub(struct lf_jinja_text t, size_t first, size_t end)
{
    return (struct lf_jinja_text){t.buf, t.off + (uint32_t)first, (uint32_t)(end - first)};
}

/* A text over bytes that outlive the arena; *out on success, false where the arena is full or s passes 4 GiB. */
LF_MUST_CHECK bool lf_jinja_text_borrow(struct lf_jinja_text *out, struct lf_arena *arena, struct lf_str s, bool user);

/* The stretches of one origin that make up a text, in order. */
struct lf_jinja_piece {
    struct lf_str s;
    bool user;
};
struct lf_jinja_pieces {
    struct lf_jinja_text text;
    uint32_t pos, run_idx;
};
struct lf_jinja_pieces lf_jinja_text_pieces(struct lf_jinja_text t);
bool lf_jinja_pieces_next(struct lf_jinja_pieces *it, struct lf_jinja_piece *out);
/* Who wrote the byte at pos. */
bool lf_jinja_text_user_at(struct lf_jinja_text t, size_t pos);

/* Lengths and places in code points. Charge the render's budget. */
LF_MUST_CHECK enum lf_status lf_jinja_text_n_chars(struct lf_jinja *j, size_t *out, struct lf_jinja_text t);
/* Byte offset of code point idx (idx at most the length). */
size_t lf_jinja_text_byte_of(struct lf_jinja_text t, size_t char_idx);
/* Length in bytes of the code point at pos, and the code point. Text is valid UTF-8. */
size_t lf_jinja_text_char(struct lf_jinja_text t, size_t pos, uint32_t *cp);
/* Start of the code point that ends at byte end (end > 0). */
size_t lf_jinja_text_prev(struct lf_jinja_text t, size_t end);

LF_MUST_CHECK enum lf_status lf_jinja_text_cat(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text a,
                                               struct lf_jinja_text b);

/* Builds a text; fails stickily like lf_buf: the status is asked once, by lf_jinja_writer_text. */
struct lf_jinja_writer {
    struct lf_jinja *j;
    struct lf_jinja_buf *buf;
    enum lf_status status;
};
struct lf_jinja_writer lf_jinja_writer_of(struct lf_jinja *j);
void lf_jinja_write(struct lf_jinja_writer *w, struct lf_str s, bool user);
void lf_jinja_write_text(struct lf_jinja_writer *w, struct lf_jinja_text t);
void lf_jinja_write_c(struct lf_jinja_writer *w, const char *s); /* the template's own */
void lf_jinja_write_cp(struct lf_jinja_writer *w, uint32_t cp, bool user);
void lf_jinja_write_fill(struct lf_jinja_writer *w, struct lf_jinja_text fill, size_t n); /* fill, n times */
LF_MUST_CHECK enum lf_status lf_jinja_writer_text(struct lf_jinja_writer *w, struct lf_jinja_text *out);

#endif
