#include "server/rendezvous/identity.h"

#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/str.h"
#include "server/rendezvous/rendezvous.h"

enum { SHOWN_BYTES = 120 };

bool lf_identity_is_valid(const char *identity)
{
    size_t n = strnlen(identity, LF_IDENTITY_BYTES + 1);
    if (n > LF_IDENTITY_BYTES || !lf_utf8_valid(lf_str_from(identity, n))) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)identity[i] < 0x20 || identity[i] == 0x7f) return false;
    return true;
}

static size_t common_words(const char *a, const char *b)
{
    size_t n = 0, words = 0;
    for (; a[n] && a[n] == b[n]; n++)
        if (a[n] == ' ') words = n + 1;
    return words;
}

/* Bytes at the end of both that are the same from a space on, leaving at least what begins at `from`. */
static size_t common_end(struct lf_str a, struct lf_str b, size_t from)
{
    size_t most = LF_MIN(a.len, b.len) - from, n = 0, words = 0;
    for (; n < most && a.ptr[a.len - 1 - n] == b.ptr[b.len - 1 - n]; n++)
        if (a.ptr[a.len - 1 - n] == ' ') words = n + 1;
    return words;
}

/* No character is cut in two. */
static struct lf_str shown(struct lf_str s, size_t from, size_t end, const char **more)
{
    struct lf_str part = lf_str_from(s.ptr + from, s.len - from - end);
    *more = part.len > SHOWN_BYTES ? "…" : "";
    if (part.len > SHOWN_BYTES) part.len = SHOWN_BYTES;
    while (part.len > 0 && !lf_utf8_valid(part)) part.len--;
    return part;
}

void lf_identity_compare(char *out, size_t n_out, const char *who, const char *identity, const char *other_who,
                         const char *other)
{
    struct lf_str a = lf_str_c(identity), b = lf_str_c(other);
    size_t from = common_words(identity, other), end = common_end(a, b, from);
    const char *more_a, *more_b;
    struct lf_str of_a = shown(a, from, end, &more_a), of_b = shown(b, from, end, &more_b);
    snprintf(out, n_out, "%s has \"%.*s%s\", %s \"%.*s%s\"", who, (int)of_a.len, of_a.ptr, more_a, other_who,
             (int)of_b.len, of_b.ptr, more_b);
}
