#include "server/http/api/boundaries.h"

#include "core/check.h"

/* Where needle stands in what came from the request, at or behind `from`; -1: nowhere. */
static ptrdiff_t find(const struct lf_chat_text *rendered, size_t from, struct lf_str needle)
{
    for (size_t i = 0; i < rendered->n_user_spans; i++) {
        struct lf_text_span span = rendered->user_spans[i];
        size_t end = span.first + span.len, first = LF_MAX(span.first, from);
        if (end < first + needle.len) continue;
        ptrdiff_t at = lf_str_find(lf_str_from(rendered->text.ptr + first, end - first), needle);
        if (at >= 0) return (ptrdiff_t)first + at;
    }
    return -1;
}

/* Of several in one message each text is the beginning of the next one's: they are looked for from the same place. */
size_t lf_boundaries_find(size_t *at, const struct lf_chat_text *rendered, const struct lf_ask *ask)
{
    size_t n = 0, from = 0, message = SIZE_MAX;
    for (size_t i = 0; i < ask->n_documents; i++) {
        const struct lf_ask_document *d = &ask->documents[i];
        struct lf_str head = lf_str_trim(lf_str_from(ask->messages[d->message].content.ptr, d->end));
        if (d->message != message && n) from = at[n - 1];
        message = d->message;
        ptrdiff_t found = head.len ? find(rendered, from, head) : -1;
        if (found < 0) continue;
        from = (size_t)found;
        at[n++] = from + head.len;
    }
    return n;
}
