/* What the model of fake_backend.h leaves in KV blocks and slots. */
#ifndef LF_TESTS_FAKE_STATES_H
#define LF_TESTS_FAKE_STATES_H

#include <string.h>

#include "core/check.h"
#include "kv/kv_cache.h"
#include "model/batch.h"

/* What other ranks would have of a block is in the layers behind the first. */
static inline uint32_t *fake_slot(const struct lf_kv_view *v, const struct lf_kv_seq *seq, int p, int half)
{
    int block = lf_kv_block_tokens(v->stripe.n);
    float *page = lf_kv_page(v, seq->blocks[p / block], p % block / LF_KV_BLOCK_TOKENS, LF_KV_K, 0);
    return (uint32_t *)(void *)(page + lf_kv_k_index(v, p % LF_KV_BLOCK_TOKENS, half));
}

static inline uint64_t fake_load(const struct lf_kv_view *v, const struct lf_kv_seq *seq, int p)
{
    return (uint64_t)*fake_slot(v, seq, p, 0) << 32 | *fake_slot(v, seq, p, 1);
}

static inline void fake_store(const struct lf_kv_view *v, const struct lf_kv_seq *seq, int p, uint64_t h)
{
    *fake_slot(v, seq, p, 0) = (uint32_t)(h >> 32);
    *fake_slot(v, seq, p, 1) = (uint32_t)h;
}

/* The state in a slot: the same hash in each part of it. false: they differ. */
static inline bool fake_load_state(const struct lf_kv_cache *kv, int32_t slot, uint64_t *h)
{
    struct lf_state_view v = lf_kv_cache_state_view(kv, 0);
    uint64_t part_bytes = v.slot_bytes / (uint64_t)kv->states.slot_blocks;
    const char *at = (const char *)v.base + (uint64_t)slot * v.slot_bytes;
    memcpy(h, at, sizeof(*h));
    for (int i = 1; i < kv->states.slot_blocks; i++)
        if (memcmp(h, at + (uint64_t)i * part_bytes, sizeof(*h)) != 0) return false;
    return true;
}

static inline void fake_store_state(const struct lf_kv_cache *kv, int32_t slot, uint64_t h)
{
    struct lf_state_view v = lf_kv_cache_state_view(kv, 0);
    uint64_t part_bytes = v.slot_bytes / (uint64_t)kv->states.slot_blocks;
    for (int i = 0; i < kv->states.slot_blocks; i++)
        memcpy((char *)v.base + (uint64_t)slot * v.slot_bytes + (uint64_t)i * part_bytes, &h, sizeof(h));
}

/* What a sequence's first token is behind: what the KV cache says, spoilt where the state says something else. */
static inline uint64_t fake_before(const struct lf_kv_cache *kv, const struct lf_batch *batch, int s)
{
    const struct lf_kv_seq *seq = &batch->seqs[s];
    int p = seq->kv_len - seq->n_tokens;
    uint64_t h = p == 0 ? 0 : fake_load(&kv->view, seq, p - 1), state = 0;
    if (!batch->states) return h;
    const struct lf_state_seq *st = &batch->states[s];
    LF_ASSERT(st->position == p && st->n_tokens == seq->n_tokens && (st->in < 0) == (p == 0));
    bool same = st->in < 0 || (fake_load_state(kv, st->in, &state) && state == h);
    return same ? h : ~h;
}

static inline void fake_end_states(const struct lf_kv_cache *kv, const struct lf_batch *batch, int s)
{
    const struct lf_kv_seq *seq = &batch->seqs[s];
    if (!batch->states) return;
    const struct lf_state_seq *st = &batch->states[s];
    for (int i = 0; i < st->n_marks; i++) {
        const struct lf_state_mark *mark = &batch->marks[st->first_mark + i];
        fake_store_state(kv, mark->slot, fake_load(&kv->view, seq, st->position + mark->n_tokens - 1));
    }
    fake_store_state(kv, st->out, fake_load(&kv->view, seq, seq->kv_len - 1));
}

#endif
