/* See sort.h. */
#include "core/sort.h"

#include <string.h>

#include "core/check.h"

struct heap {
    char *base;
    size_t n, elem_bytes;
    bool (*comes_before)(const void *a, const void *b);
};

static char *at(const struct heap *h, size_t i)
{
    return h->base + i * h->elem_bytes;
}

static void swap(const struct heap *h, size_t i, size_t j)
{
    char kept[LF_SORT_ELEM_BYTES];
    memcpy(kept, at(h, i), h->elem_bytes);
    memcpy(at(h, i), at(h, j), h->elem_bytes);
    memcpy(at(h, j), kept, h->elem_bytes);
}

/* Moves element i down until none of its children belongs behind it: the last of the order is on top. */
static void sift_down(const struct heap *h, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n) return;
        if (child + 1 < h->n && h->comes_before(at(h, child), at(h, child + 1))) child++;
        if (!h->comes_before(at(h, i), at(h, child))) return;
        swap(h, i, child);
        i = child;
    }
}

void lf_sort(void *base, size_t n, size_t elem_bytes, bool (*comes_before)(const void *a, const void *b))
{
    LF_ASSERT(elem_bytes > 0 && elem_bytes <= LF_SORT_ELEM_BYTES);
    struct heap h = {.base = base, .n = n, .elem_bytes = elem_bytes, .comes_before = comes_before};
    for (size_t i = n / 2; i-- > 0;) sift_down(&h, i);
    while (h.n > 1) {
        h.n--;
        swap(&h, 0, h.n);
        sift_down(&h, 0);
    }
}
