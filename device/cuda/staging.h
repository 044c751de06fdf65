/* Where in a ring of pinned memory the bytes of an upload go. Arithmetic only: plain C, no CUDA.
 *
 * The copy engine reads the ring after the call that filled it has returned, so bytes must not be overwritten before
 * they are fetched. The ring is cut into segments; when one is full an event is recorded behind the last copy out of
 * it, and before the first byte goes into a segment again its event is waited for. An upload
 * larger than what is left of a segment is cut into pieces, and so one larger than the ring flows through it, the CPU
 * filling one segment while the device empties the others.
 *
 *     segment 0          segment 1          segment 2          segment 3
 *     ├─ piece ┼ piece ┼─┤ piece (the rest) ┼────── at          (recorded, maybe still read)
 */
#ifndef LF_DEVICE_CUDA_STAGING_H
#define LF_DEVICE_CUDA_STAGING_H

#include <stdbool.h>
#include <stddef.h>

enum { LF_STAGING_ALIGN = 64 };

struct lf_staging {
    size_t segment_bytes; /* a multiple of LF_STAGING_ALIGN */
    int n_segments;       /* at least 2 */
    int segment;          /* the one being filled */
    size_t at;            /* in it */
};

/* Bytes [offset, offset + bytes) of the ring. */
struct lf_staging_piece {
    size_t offset, bytes;
    int segment;
    bool enters; /* the first of its segment: wait for the segment's event before writing */
    bool leaves; /* the last of its segment: record the segment's event behind the copy */
};

void lf_staging_init(struct lf_staging *ring, size_t segment_bytes, int n_segments);
/* The next piece for up to want (> 0) bytes. */
struct lf_staging_piece lf_staging_take(struct lf_staging *ring, size_t want);

#endif
