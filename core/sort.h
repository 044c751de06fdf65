/* Sorting in place without a byte of memory: qsort of the C library may allocate. Heapsort, not stable: give equal
 * elements an order where it matters. */
#ifndef LF_CORE_SORT_H
#define LF_CORE_SORT_H

#include <stdbool.h>
#include <stddef.h>

enum { LF_SORT_ELEM_BYTES = 64 }; /* at most */

/* Sorts n elements of elem_bytes each so that comes_before(later, earlier) is nowhere true. comes_before is a strict
 * weak order. O(n log n) always. */
void lf_sort(void *base, size_t n, size_t elem_bytes, bool (*comes_before)(const void *a, const void *b));

#endif
