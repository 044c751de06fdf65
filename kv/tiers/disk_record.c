#include "kv/tiers/disk_record.h"

#include <string.h>

#include "core/check.h"
#include "core/le.h"

enum {
    SLOT = 8,
    SEQUENCE = 16,
    KEY = 24,
    PREV = 56,
    IDS = 88,
    DATA_SHA = 344,
    BLOCK_BYTES = 376,
    TENANT = 384,
    DEPTH = 392,
    SHA = 480
};

static const char magic[] = "LFKVrec1";

void lf_disk_record_encode(const struct lf_disk_record *record, uint64_t slot, uint8_t out[LF_DISK_RECORD_BYTES])
{
    memset(out, 0, LF_DISK_RECORD_BYTES);
    memcpy(out, magic, SLOT);
    lf_put_le(out + SLOT, slot, 8);
    lf_put_le(out + SEQUENCE, record->sequence, 8);
    memcpy(out + KEY, record->key.bytes, LF_SHA256_BYTES);
    memcpy(out + PREV, record->prev.bytes, LF_SHA256_BYTES);
    for (size_t i = 0; i < LF_KV_BLOCK_TOKENS; i++) lf_put_le(out + IDS + 4 * i, (uint32_t)record->ids[i], 4);
    memcpy(out + DATA_SHA, record->data_sha, LF_SHA256_BYTES);
    lf_put_le(out + BLOCK_BYTES, record->block_bytes, 8);
    lf_put_le(out + TENANT, record->origin.tenant, 8);
    lf_put_le(out + DEPTH, record->origin.depth, 4);
    lf_sha256(out, SHA, out + SHA);
}

static bool is_empty(const uint8_t in[LF_DISK_RECORD_BYTES])
{
    uint8_t any = 0;
    for (size_t i = 0; i < LF_DISK_RECORD_BYTES; i++) any |= in[i];
    return any == 0;
}

enum lf_disk_record_state lf_disk_record_decode(struct lf_disk_record *out, uint64_t slot,
                                                const uint8_t in[LF_DISK_RECORD_BYTES])
{
    uint8_t sha[LF_SHA256_BYTES];
    if (is_empty(in)) return LF_DISK_RECORD_EMPTY;
    lf_sha256(in, SHA, sha);
    if (memcmp(sha, in + SHA, sizeof(sha)) != 0 || memcmp(in, magic, SLOT) != 0 || lf_get_le(in + SLOT, 8) != slot ||
        lf_get_le(in + SEQUENCE, 8) == 0)
        return LF_DISK_RECORD_BROKEN;
    out->sequence = lf_get_le(in + SEQUENCE, 8);
    memcpy(out->key.bytes, in + KEY, LF_SHA256_BYTES);
    memcpy(out->prev.bytes, in + PREV, LF_SHA256_BYTES);
    for (size_t i = 0; i < LF_KV_BLOCK_TOKENS; i++) out->ids[i] = (int32_t)(uint32_t)lf_get_le(in + IDS + 4 * i, 4);
    memcpy(out->data_sha, in + DATA_SHA, LF_SHA256_BYTES);
    out->block_bytes = lf_get_le(in + BLOCK_BYTES, 8);
    out->origin =
        (struct lf_prefix_origin){.tenant = lf_get_le(in + TENANT, 8), .depth = (uint32_t)lf_get_le(in + DEPTH, 4)};
    return LF_DISK_RECORD_WHOLE;
}

uint64_t lf_disk_slot_bytes(uint64_t block_bytes)
{
    return LF_ROUND_UP(block_bytes, (uint64_t)LF_DISK_ALIGN_BYTES);
}
