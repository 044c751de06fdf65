#include "template/builtin/jinja_text.h"

#include "template/jinja/jinja_run.h"

/* -- Views -- */

bool lf_jinja_text_borrow(struct lf_jinja_text *out, struct lf_arena *arena, struct lf_str s, bool user)
{
    if (s.len > UINT32_MAX) return false;
    struct lf_jinja_buf *buf = lf_arena_alloc(arena, sizeof(*buf));
    if (!buf) return false;
    /* Never written to: its capacity is its length. */
    buf->ptr = (char *)(uintptr_t)(s.len ? s.ptr : "");
    buf->len = buf->cap = (uint32_t)s.len;
    buf->runs = &buf->one;
    buf->n_runs = s.len > 0;
    buf->cap_runs = 1;
    buf->one = (struct lf_jinja_run){(uint32_t)s.len, user};
    unsigned char high = 0;
    for (size_t i = 0; i < s.len; i++) high |= (unsigned char)s.ptr[i];
    buf->ascii = high < 0x80;
    *out = (struct lf_jinja_text){buf, 0, (uint32_t)s.len};
    return true;
}

/* The run that holds the byte at off (off < buf->len). */
static uint32_t run_at(const struct lf_jinja_buf *buf, uint32_t off)
{
    uint32_t first = 0, last = buf->n_runs - 1;
    while (first < last) {
        uint32_t mid = first + (last - first) / 2;
        if (buf->runs[mid].end > off) {
            last = mid;
        } else {
            first = mid + 1;
        }
    }
    return first;
}

struct lf_jinja_pieces lf_jinja_text_pieces(struct lf_jinja_text t)
{
    return (struct lf_jinja_pieces){t, t.off, t.len ? run_at(t.buf, t.off) : 0};
}

bool lf_jinja_pieces_next(struct lf_jinja_pieces *it, struct lf_jinja_piece *out)
{
    uint32_t end = it->text.off + it->text.len;
    if (it->pos >= end) return false;
    struct lf_jinja_run run = it->text.buf->runs[it->run_idx++];
    uint32_t piece_end = LF_MIN(run.end, end);
    *out = (struct lf_jinja_piece){lf_str_from(it->text.buf->ptr + it->pos, piece_end - it->pos), run.user};
    it->pos = piece_end;
    return true;
}

bool lf_jinja_text_user_at(struct lf_jinja_text t, size_t pos)
{
    return t.buf->runs[run_at(t.buf, t.off + (uint32_t)pos)].user;
}

/* -- Code points -- */

size_t lf_jinja_text_char(struct lf_jinja_text t, size_t pos, uint32_t *cp)
{
    int n = lf_utf8_decode(lf_jinja_text_ptr(t) + pos, t.len - pos, cp);
    if (n > 0) return (size_t)n;
    *cp = 0xfffd; /* not reached: texts are valid UTF-8 */
    return 1;
}

size_t lf_jinja_text_prev(struct lf_jinja_text t, size_t end)
{
    const char *s = lf_jinja_text_ptr(t);
    do {
        end--;
    } while (end > 0 && ((unsigned char)s[end] & 0xC0) == 0x80);
    return end;
}

enum lf_status lf_jinja_text_n_chars(struct lf_jinja *j, size_t *out, struct lf_jinja_text t)
{
    *out = t.len;
    if (t.buf->ascii) return LF_OK;
    LF_TRY(lf_jinja_charge(j, t.len));
    const char *s = lf_jinja_text_ptr(t);
    size_t n = 0;
    for (size_t i = 0; i < t.len; i++) n += ((unsigned char)s[i] & 0xC0) != 0x80;
    *out = n;
    return LF_OK;
}

size_t lf_jinja_text_byte_of(struct lf_jinja_text t, size_t char_idx)
{
    if (t.buf->ascii) return LF_MIN(char_idx, t.len);
    const char *s = lf_jinja_text_ptr(t);
    size_t pos = 0;
    for (; pos < t.len; pos++) {
        if (((unsigned char)s[pos] & 0xC0) != 0x80 && char_idx-- == 0) break;
    }
    return pos;
}

/* -- Building -- */

/* Room for n more bytes behind the buffer. */
static enum lf_status reserve(struct lf_jinja *j, struct lf_jinja_buf *buf, size_t n)
{
    if (n > LF_TEMPLATE_OUTPUT_BYTES || buf->len + n > LF_TEMPLATE_OUTPUT_BYTES) {
        return lf_jinja_fail(j, LF_LIMIT, "a text grows beyond %d bytes", LF_TEMPLATE_OUTPUT_BYTES);
    }
    if (buf->len + n <= buf->cap) return LF_OK;
    size_t cap = buf->len + n + (buf->len + n) / 2 + 16;
    char *ptr;
    LF_TRY(lf_jinja_alloc(j, &ptr, cap, 1));
    if (buf->len) memcpy(ptr, buf->ptr, buf->len);
    buf->ptr = ptr;
    buf->cap = (uint32_t)cap;
    return LF_OK;
}

static enum lf_status add_run(struct lf_jinja *j, struct lf_jinja_buf *buf, bool user)
{
    if (buf->n_runs && buf->runs[buf->n_runs - 1].user == user) return LF_OK;
    if (buf->n_runs == buf->cap_runs) {
        uint32_t cap = buf->cap_runs * 2 + 6;
        struct lf_jinja_run *runs;
        LF_TRY(lf_jinja_alloc(j, &runs, cap, sizeof(*runs)));
        if (buf->n_runs) memcpy(runs, buf->runs, buf->n_runs * sizeof(*runs));
        buf->runs = runs;
        buf->cap_runs = cap;
    }
    buf->runs[buf->n_runs++] = (struct lf_jinja_run){buf->len, user};
    return LF_OK;
}

static enum lf_status add(struct lf_jinja *j, struct lf_jinja_buf *buf, struct lf_str s, bool user)
{
    if (s.len == 0) return LF_OK;
    LF_TRY(lf_jinja_charge(j, s.len));
    LF_TRY(reserve(j, buf, s.len));
    LF_TRY(add_run(j, buf, user));
    memcpy(buf->ptr + buf->len, s.ptr, s.len);
    buf->len += (uint32_t)s.len;
    buf->runs[buf->n_runs - 1].end = buf->len;
    if (buf->ascii) {
        unsigned char high = 0;
        for (size_t i = 0; i < s.len; i++) high |= (unsigned char)s.ptr[i];
        buf->ascii = high < 0x80;
    }
    return LF_OK;
}

static enum lf_status add_text(struct lf_jinja *j, struct lf_jinja_buf *buf, struct lf_jinja_text t)
{
    struct lf_jinja_pieces it = lf_jinja_text_pieces(t);
    struct lf_jinja_piece piece;
    while (lf_jinja_pieces_next(&it, &piece)) LF_TRY(add(j, buf, piece.s, piece.user));
    return LF_OK;
}

static enum lf_status new_buf(struct lf_jinja *j, struct lf_jinja_buf **out)
{
    LF_TRY(lf_jinja_alloc(j, out, 1, sizeof(**out)));
    (*out)->ptr = (char *)(uintptr_t) ""; /* never NULL; without room it is not written to */
    (*out)->runs = &(*out)->one;
    (*out)->cap_runs = 1;
    (*out)->ascii = true;
    return LF_OK;
}

enum lf_status lf_jinja_text_cat(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text a,
                                 struct lf_jinja_text b)
{
    if (a.len == 0 || b.len == 0) {
        *out = a.len == 0 ? b : a;
        return LF_OK;
    }
    struct lf_jinja_buf *buf = a.buf;
    uint32_t off = a.off;
    if (a.off + a.len != buf->len || buf->cap - buf->len < b.len) {
        LF_TRY(new_buf(j, &buf));
        LF_TRY(reserve(j, buf, (size_t)a.len + b.len));
        LF_TRY(add_text(j, buf, a));
        off = 0;
    }
    LF_TRY(add_text(j, buf, b));
    *out = (struct lf_jinja_text){buf, off, a.len + b.len};
    return LF_OK;
}

/* -- The writer -- */

struct lf_jinja_writer lf_jinja_writer_of(struct lf_jinja *j)
{
    struct lf_jinja_writer w = {.j = j};
    w.status = new_buf(j, &w.buf);
    return w;
}

void lf_jinja_write(struct lf_jinja_writer *w, struct lf_str s, bool user)
{
    if (w->status == LF_OK) w->status = add(w->j, w->buf, s, user);
}

void lf_jinja_write_text(struct lf_jinja_writer *w, struct lf_jinja_text t)
{
    if (w->status == LF_OK) w->status = add_text(w->j, w->buf, t);
}

void lf_jinja_write_c(struct lf_jinja_writer *w, const char *s)
{
    lf_jinja_write(w, lf_str_c(s), false);
}

void lf_jinja_write_cp(struct lf_jinja_writer *w, uint32_t cp, bool user)
{
    char bytes[4];
    int n = lf_utf8_encode(cp, bytes);
    lf_jinja_write(w, lf_str_from(bytes, (size_t)n), user);
}

void lf_jinja_write_fill(struct lf_jinja_writer *w, struct lf_jinja_text fill, size_t n)
{
    if (fill.len == 0 || w->status != LF_OK) return;
    size_t n_bytes;
    if (__builtin_mul_overflow(fill.len, n, &n_bytes) || n_bytes > LF_TEMPLATE_OUTPUT_BYTES) {
        w->status = lf_jinja_fail(w->j, LF_LIMIT, "a text grows beyond %d bytes", LF_TEMPLATE_OUTPUT_BYTES);
        return;
    }
    w->status = reserve(w->j, w->buf, n_bytes);
    uint32_t first = w->buf->len;
    /* What is there already is written again, twice as much each time; the room for it all is reserved. */
    for (size_t n_done = 0; n_done < n_bytes && w->status == LF_OK;) {
        struct lf_jinja_text written = {w->buf, first, (uint32_t)LF_MIN(n_done, n_bytes - n_done)};
        lf_jinja_write_text(w, n_done ? written : fill);
        n_done += n_done ? written.len : fill.len;
    }
}

enum lf_status lf_jinja_writer_text(struct lf_jinja_writer *w, struct lf_jinja_text *out)
{
    if (w->status != LF_OK) return w->status;
    *out = (struct lf_jinja_text){w->buf, 0, w->buf->len};
    return LF_OK;
}
