#include "template/builtin/jinja_str.h"

#include "template/builtin/jinja_char.h"

/* -- Arguments -- */

enum lf_status lf_jinja_soft_str(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v)
{
    struct lf_jinja_text text;
    LF_TRY(lf_jinja_to_text(j, &text, v));
    *out = lf_jinja_string(text);
    out->markup = v.type == LF_JINJA_STRING && v.markup;
    return LF_OK;
}

enum lf_status lf_jinja_int_arg(struct lf_jinja *j, int64_t *out, struct lf_jinja_value v, int64_t otherwise)
{
    *out = otherwise;
    if (!lf_jinja_given(v) || v.type == LF_JINJA_NONE) return LF_OK;
    if (!lf_jinja_is_integral(v)) {
        return lf_jinja_fail(j, LF_INVALID, "expected an integer, not a '%s'", lf_jinja_type_name(v));
    }
    *out = v.as.i;
    return LF_OK;
}

enum lf_status lf_jinja_text_arg(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_value v)
{
    if (v.type != LF_JINJA_STRING) {
        return lf_jinja_fail(j, LF_INVALID, "expected a string, not a '%s'", lf_jinja_type_name(v));
    }
    *out = v.as.s;
    return LF_OK;
}

/* -- Stripping and finding -- */

static bool strips(uint32_t cp, const struct lf_jinja_text *chars)
{
    if (!chars) return lf_jinja_is_space(cp);
    uint32_t other;
    for (size_t pos = 0; pos < chars->len;) {
        pos += lf_jinja_text_char(*chars, pos, &other);
        if (other == cp) return true;
    }
    return false;
}

enum lf_status lf_jinja_strip(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t,
                              const struct lf_jinja_text *chars, enum lf_jinja_sides sides)
{
    size_t first = 0, end = t.len, cost = 4 + (chars ? 4u * chars->len : 0);
    uint32_t cp;
    while ((sides & LF_JINJA_LEFT) && first < end) {
        size_t n = lf_jinja_text_char(t, first, &cp);
        LF_TRY(lf_jinja_charge(j, cost));
        if (!strips(cp, chars)) break;
        first += n;
    }
    while ((sides & LF_JINJA_RIGHT) && end > first) {
        size_t prev = lf_jinja_text_prev(t, end);
        LF_TRY(lf_jinja_charge(j, cost));
        lf_jinja_text_char(t, prev, &cp);
        if (!strips(cp, chars)) break;
        end = prev;
    }
    *out = lf_jinja_text_sub(t, first, end);
    return LF_OK;
}

/* The last place of needle in [s, s + n), both not empty, or NULL. Pays as it goes: the search is the plain one. */
static enum lf_status find_last(struct lf_jinja *j, const char **out, const char *s, size_t n, struct lf_str needle)
{
    size_t last = needle.len - 1;
    LF_TRY(lf_jinja_charge(j, n));
    *out = NULL;
    for (size_t i = n < needle.len ? 0 : n - last; i-- > 0;) {
        if (s[i] != needle.ptr[0] || s[i + last] != needle.ptr[last]) continue;
        LF_TRY(lf_jinja_charge(j, needle.len));
        if (memcmp(s + i, needle.ptr, needle.len) != 0) continue;
        *out = s + i;
        return LF_OK;
    }
    return LF_OK;
}

enum lf_status lf_jinja_find(struct lf_jinja *j, ptrdiff_t *out, struct lf_jinja_text t, struct lf_jinja_text needle,
                             size_t from, bool last)
{
    const char *s = lf_jinja_text_ptr(t) + from, *place;
    size_t n = t.len - from;
    LF_TRY(lf_jinja_charge(j, LF_JINJA_CHAR_COST)); /* a search that ends at once is still one */
    if (needle.len == 0) {
        *out = (ptrdiff_t)(last ? t.len : from);
        return LF_OK;
    }
    if (last) {
        LF_TRY(find_last(j, &place, s, n, lf_jinja_text_str(needle)));
    } else {
        place = memmem(s, n, lf_jinja_text_ptr(needle), needle.len);
        /* The C library's search may compare up to 256 bytes of a short needle at each place. */
        uint64_t n_seen = place ? (uint64_t)(place - s) + needle.len : n;
        LF_TRY(lf_jinja_charge(j, n_seen + n_seen * LF_MIN(needle.len, 256u) / 16));
    }
    *out = place ? place - s + (ptrdiff_t)from : -1;
    return LF_OK;
}

/* old is empty: `with` goes before every code point and to the end. */
static enum lf_status interleave(struct lf_jinja_writer *w, struct lf_jinja_text t, struct lf_jinja_text with,
                                 int64_t count)
{
    size_t pos = 0;
    uint32_t cp;
    for (; count != 0 && w->status == LF_OK; count -= count > 0) { /* a negative one means all */
        lf_jinja_write_text(w, with);
        if (pos == t.len) break;
        size_t n = lf_jinja_text_char(t, pos, &cp);
        lf_jinja_write_text(w, lf_jinja_text_sub(t, pos, pos + n));
        pos += n;
    }
    lf_jinja_write_text(w, lf_jinja_text_sub(t, pos, t.len));
    return w->status;
}

enum lf_status lf_jinja_replace(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t,
                                struct lf_jinja_text old, struct lf_jinja_text with, int64_t count)
{
    size_t pos = 0;
    ptrdiff_t place = 0;
    LF_TRY(lf_jinja_find(j, &place, t, old, 0, false));
    if (place < 0 || count == 0) {
        *out = t;
        return LF_OK;
    }
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    if (old.len == 0) {
        LF_TRY(interleave(&w, t, with, count));
        return lf_jinja_writer_text(&w, out);
    }
    while (place >= 0 && count != 0) {
        lf_jinja_write_text(&w, lf_jinja_text_sub(t, pos, (size_t)place));
        lf_jinja_write_text(&w, with);
        if (w.status != LF_OK) return w.status;
        pos = (size_t)place + old.len;
        count -= count > 0;
        if (count != 0) LF_TRY(lf_jinja_find(j, &place, t, old, pos, false));
    }
    lf_jinja_write_text(&w, lf_jinja_text_sub(t, pos, t.len));
    return lf_jinja_writer_text(&w, out);
}

/* -- Case -- */

static bool is_cased(uint32_t cp)
{
    return lf_jinja_upper(cp) != cp || lf_jinja_lower(cp) != cp || cp == 0xdf;
}

static void write_upper(struct lf_jinja_writer *w, uint32_t cp, bool user, bool title)
{
    if (cp == 0xdf) {
        lf_jinja_write(w, title ? LF_STR("Ss") : LF_STR("SS"), user);
    } else {
        lf_jinja_write_cp(w, lf_jinja_upper(cp), user);
    }
}

static void write_cased(struct lf_jinja_writer *w, uint32_t cp, bool user, enum lf_jinja_casing casing, bool inside)
{
    bool titled = casing == LF_JINJA_TITLE || casing == LF_JINJA_CAPITALIZE;
    bool upper = casing == LF_JINJA_UPPER || (titled && !inside);
    if (casing == LF_JINJA_SWAPCASE) upper = lf_jinja_lower(cp) == cp;
    if (upper) {
        write_upper(w, cp, user, titled);
    } else {
        lf_jinja_write_cp(w, lf_jinja_lower(cp), user);
    }
}

/* ASCII in one go: upper or lower only. */
static enum lf_status case_ascii(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t, bool upper)
{
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    struct lf_jinja_pieces it = lf_jinja_text_pieces(t);
    struct lf_jinja_piece piece;
    char chunk[256];
    while (lf_jinja_pieces_next(&it, &piece)) {
        for (size_t i = 0; i < piece.s.len; i += sizeof(chunk)) {
            size_t n = LF_MIN(sizeof(chunk), piece.s.len - i);
            for (size_t k = 0; k < n; k++) {
                char c = piece.s.ptr[i + k];
                bool other = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
                chunk[k] = (char)(other ? c ^ 0x20 : c);
            }
            lf_jinja_write(&w, lf_str_from(chunk, n), piece.user);
        }
    }
    return lf_jinja_writer_text(&w, out);
}

enum lf_status lf_jinja_case(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t,
                             enum lf_jinja_casing casing)
{
    if (t.buf->ascii && casing <= LF_JINJA_LOWER) return case_ascii(j, out, t, casing == LF_JINJA_UPPER);
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    struct lf_jinja_pieces it = lf_jinja_text_pieces(t);
    struct lf_jinja_piece piece;
    bool inside = false; /* of a word, or behind the first letter */
    while (w.status == LF_OK && lf_jinja_pieces_next(&it, &piece)) {
        LF_TRY(lf_jinja_charge(j, piece.s.len * LF_JINJA_CHAR_COST));
        for (size_t i = 0; i < piece.s.len;) {
            uint32_t cp;
            int n = lf_utf8_decode(piece.s.ptr + i, piece.s.len - i, &cp);
            i += (size_t)LF_MAX(n, 1);
            write_cased(&w, n ? cp : 0xfffd, piece.user, casing, inside);
            inside = casing == LF_JINJA_CAPITALIZE || is_cased(cp);
        }
    }
    return lf_jinja_writer_text(&w, out);
}

enum lf_status lf_jinja_is_cased(struct lf_jinja *j, bool *out, struct lf_jinja_text t, bool upper)
{
    bool any = false;
    uint32_t cp;
    *out = false;
    LF_TRY(lf_jinja_charge(j, (uint64_t)t.len * LF_JINJA_CHAR_COST));
    for (size_t pos = 0; pos < t.len;) {
        pos += lf_jinja_text_char(t, pos, &cp);
        if (!is_cased(cp)) continue;
        bool is_upper = lf_jinja_lower(cp) != cp;
        if (is_upper != upper) return LF_OK;
        any = true;
    }
    *out = any;
    return LF_OK;
}

/* -- Lines, padding -- */

bool lf_jinja_next_line(struct lf_jinja_text t, size_t *pos, struct lf_jinja_text *line, bool keep_end)
{
    if (*pos >= t.len) return false;
    const char *s = lf_jinja_text_ptr(t);
    size_t end = *pos, next = t.len;
    while (end < t.len) {
        uint32_t cp;
        size_t n = lf_jinja_text_char(t, end, &cp);
        next = end + n;
        if (lf_jinja_is_line_end(cp)) {
            if (cp == '\r' && next < t.len && s[next] == '\n') next++;
            break;
        }
        end = next;
    }
    *line = lf_jinja_text_sub(t, *pos, keep_end ? next : end);
    *pos = next;
    return true;
}

enum lf_status lf_jinja_pad(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_text t, int64_t width,
                            struct lf_jinja_text fill, enum lf_jinja_sides sides)
{
    size_t n;
    LF_TRY(lf_jinja_text_n_chars(j, &n, t));
    *out = t;
    if (width <= (int64_t)n) return LF_OK;
    int64_t missing = width - (int64_t)n, left = 0;
    if (sides == LF_JINJA_LEFT) left = missing;
    if (sides == LF_JINJA_BOTH) left = missing / 2 + (missing & width & 1); /* as Python centers */
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    lf_jinja_write_fill(&w, fill, (size_t)left);
    lf_jinja_write_text(&w, t);
    lf_jinja_write_fill(&w, fill, (size_t)(missing - left));
    return lf_jinja_writer_text(&w, out);
}

/* -- Splitting -- */

/* One piece off t in its direction at white space: *piece, and what is left. */
static enum lf_status cut_word(struct lf_jinja *j, struct lf_jinja_text *t, struct lf_jinja_text *piece,
                               bool from_right)
{
    uint32_t cp;
    size_t at = from_right ? t->len : 0, end = at;
    while (from_right ? at > 0 : at < t->len) {
        size_t here = from_right ? lf_jinja_text_prev(*t, at) : at;
        size_t n = lf_jinja_text_char(*t, here, &cp);
        if (lf_jinja_is_space(cp)) break;
        at = from_right ? here : at + n;
    }
    LF_TRY(lf_jinja_charge(j, 4 * (from_right ? end - at : at)));
    *piece = from_right ? lf_jinja_text_sub(*t, at, t->len) : lf_jinja_text_sub(*t, 0, at);
    *t = from_right ? lf_jinja_text_sub(*t, 0, at) : lf_jinja_text_sub(*t, at, t->len);
    return lf_jinja_strip(j, t, *t, NULL, from_right ? LF_JINJA_RIGHT : LF_JINJA_LEFT);
}

/* The same at sep; *found false where there is none. */
static enum lf_status cut_at(struct lf_jinja *j, struct lf_jinja_text *t, struct lf_jinja_text *piece,
                             struct lf_jinja_text sep, bool from_right, bool *found)
{
    ptrdiff_t place;
    LF_TRY(lf_jinja_find(j, &place, *t, sep, 0, from_right));
    *found = place >= 0;
    if (!*found) return LF_OK;
    size_t first = (size_t)place, end = first + sep.len;
    *piece = from_right ? lf_jinja_text_sub(*t, end, t->len) : lf_jinja_text_sub(*t, 0, first);
    *t = from_right ? lf_jinja_text_sub(*t, 0, first) : lf_jinja_text_sub(*t, end, t->len);
    return LF_OK;
}

enum lf_status lf_jinja_split(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value self,
                              const struct lf_jinja_text *sep, int64_t max, bool from_right)
{
    struct lf_jinja_value list, item = self;
    struct lf_jinja_text rest = self.as.s;
    LF_TRY(lf_jinja_list_new(j, &list, LF_JINJA_LIST, 0));
    if (sep && sep->len == 0) return lf_jinja_fail(j, LF_INVALID, "split: the separator is empty");
    if (!sep) LF_TRY(lf_jinja_strip(j, &rest, rest, NULL, from_right ? LF_JINJA_RIGHT : LF_JINJA_LEFT));
    bool found = true;
    while (max != 0 && (sep || rest.len > 0)) {
        LF_TRY(sep ? cut_at(j, &rest, &item.as.s, *sep, from_right, &found)
                   : cut_word(j, &rest, &item.as.s, from_right));
        if (!found) break;
        LF_TRY(lf_jinja_list_push(j, list.as.list, item));
        if (max > 0) max--; /* a negative one means all */
    }
    if (sep || rest.len > 0) {
        item.as.s = rest;
        LF_TRY(lf_jinja_list_push(j, list.as.list, item));
    }
    size_t n = list.as.list->n;
    for (size_t i = 0; from_right && i < n / 2; i++) {
        struct lf_jinja_value swap = list.as.list->items[i];
        list.as.list->items[i] = list.as.list->items[n - 1 - i];
        list.as.list->items[n - 1 - i] = swap;
    }
    *out = list;
    return LF_OK;
}
