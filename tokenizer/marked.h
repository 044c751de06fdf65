/* A text whose bytes may carry a mark each: whether they came from a user.
 *
 * The marks travel through normalization, so that a special token that only appears in the normalized text is still not
 * recognized where a user wrote any of it. Without track no marks are kept. */
#ifndef LF_TOKENIZER_MARKED_H
#define LF_TOKENIZER_MARKED_H

#include "core/limits.h"
#include "core/str.h"

/* What n bytes may become on their way to tokens: Unicode's forms make 11 times as much of them at most, and a file
 * whose rules make more of it must not take all memory. */
enum { LF_TEXT_GROWTH = 16 };
static inline size_t lf_text_grown_bytes(size_t n)
{
    return n > SIZE_MAX / 4 / LF_TEXT_GROWTH ? SIZE_MAX / 2 : n * LF_TEXT_GROWTH + LF_TOKEN_BYTES;
}

struct lf_marked {
    struct lf_buf text;
    struct lf_buf user; /* as long as text, where track is set */
    bool track;
};

/* memory: NULL is the process's heap. */
static inline void lf_marked_init(struct lf_marked *marked, bool track, struct lf_text_memory *memory)
{
    lf_buf_init_in(&marked->text, SIZE_MAX / 2, memory);
    lf_buf_init_in(&marked->user, SIZE_MAX / 2, memory);
    marked->track = track;
}
static inline void lf_marked_deinit(struct lf_marked *marked)
{
    lf_buf_deinit(&marked->text);
    lf_buf_deinit(&marked->user);
}
static inline void lf_marked_clear(struct lf_marked *marked)
{
    lf_buf_clear(&marked->text);
    lf_buf_clear(&marked->user);
}
/* Empties it for what n bytes may become: past that its status is LF_LIMIT. */
static inline void lf_marked_begin(struct lf_marked *marked, size_t n)
{
    lf_marked_clear(marked);
    marked->text.ceiling = marked->user.ceiling = lf_text_grown_bytes(n);
}
/* Text with the same mark on each byte. */
static inline void lf_marked_append(struct lf_marked *marked, struct lf_str text, bool user)
{
    lf_buf_str(&marked->text, text);
    for (size_t i = 0; marked->track && i < text.len; i++) lf_buf_char(&marked->user, user ? 1 : 0);
}
/* Text with marks of its own; user may be NULL: none. */
static inline void lf_marked_copy(struct lf_marked *marked, struct lf_str text, const char *user)
{
    lf_buf_str(&marked->text, text);
    if (marked->track && user) lf_buf_append(&marked->user, user, text.len);
    for (size_t i = 0; marked->track && !user && i < text.len; i++) lf_buf_char(&marked->user, 0);
}
/* Whether any of text[first, end) came from a user. */
static inline bool lf_marked_any(const struct lf_marked *marked, size_t first, size_t end)
{
    return marked->track && end > first && memchr(marked->user.ptr + first, 1, end - first) != NULL;
}
static inline enum lf_status lf_marked_status(const struct lf_marked *marked)
{
    return marked->text.status != LF_OK ? marked->text.status : marked->user.status;
}

#endif
