#include "template/builtin/jinja_sort.h"

/* Merges the sorted runs [first, mid) and [mid, end) of src into dst. */
static enum lf_status merge(struct lf_jinja *j, const struct lf_jinja_list *keys, bool descending, const size_t *src,
                            size_t *dst, size_t first, size_t mid, size_t end)
{
    size_t a = first, b = mid;
    for (size_t i = first; i < end; i++) {
        bool take_b = a == mid;
        if (a < mid && b < end) {
            struct lf_jinja_value left = keys->items[src[a]], right = keys->items[src[b]];
            LF_TRY(descending ? lf_jinja_less(j, &take_b, left, right) : lf_jinja_less(j, &take_b, right, left));
        }
        dst[i] = take_b ? src[b++] : src[a++];
    }
    return LF_OK;
}

enum lf_status lf_jinja_sort_order(struct lf_jinja *j, size_t **out, const struct lf_jinja_list *keys, bool descending)
{
    size_t n = keys->n, *src, *dst;
    LF_TRY(lf_jinja_alloc(j, &src, n + 1, sizeof(*src)));
    LF_TRY(lf_jinja_alloc(j, &dst, n + 1, sizeof(*dst)));
    for (size_t i = 0; i < n; i++) src[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t first = 0; first < n; first += 2 * width) {
            size_t mid = LF_MIN(first + width, n), end = LF_MIN(first + 2 * width, n);
            LF_TRY(merge(j, keys, descending, src, dst, first, mid, end));
        }
        size_t *swap = src;
        src = dst;
        dst = swap;
    }
    *out = src;
    return LF_OK;
}
