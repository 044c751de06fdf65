#include "device/cuda/staging.h"

#include "core/check.h"

void lf_staging_init(struct lf_staging *ring, size_t segment_bytes, int n_segments)
{
    LF_ASSERT(segment_bytes > 0 && segment_bytes % LF_STAGING_ALIGN == 0 && n_segments >= 2);
    *ring = (struct lf_staging){.segment_bytes = segment_bytes, .n_segments = n_segments};
}

struct lf_staging_piece lf_staging_take(struct lf_staging *ring, size_t want)
{
    LF_ASSERT(want > 0 && ring->at < ring->segment_bytes);
    struct lf_staging_piece piece = {.offset = (size_t)ring->segment * ring->segment_bytes + ring->at,
                                     .bytes = LF_MIN(want, ring->segment_bytes - ring->at),
                                     .segment = ring->segment,
                                     .enters = ring->at == 0};
    ring->at += (piece.bytes + LF_STAGING_ALIGN - 1) / LF_STAGING_ALIGN * LF_STAGING_ALIGN;
    if (ring->at == ring->segment_bytes) {
        piece.leaves = true;
        ring->at = 0;
        ring->segment = (ring->segment + 1) % ring->n_segments;
    }
    return piece;
}
