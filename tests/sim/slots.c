/* See slots.h. */
#include "tests/sim/slots.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "model/batch.h"
#include "tests/sim/world.h"

enum { GARBAGE = -7 };

static void on_evict(void *ctx, int32_t slot)
{
    struct sim_world *w = ctx;
    w->n_evicted++;
    w->slots.forget(w->slots.snapshots, slot);
}

void sim_slots_open(struct sim_world *w, int n_spare, int n_parts, int n_running)
{
    struct sim_slots *s = &w->slots;
    if (n_spare == 0) return;
    LF_ASSERT(n_parts >= 1 && n_parts <= SIM_PARTS_N);
    LF_ASSERT(lf_block_pool_init(&s->pool, n_running + n_spare, NULL) == LF_OK);
    s->n_parts = n_parts;
    s->shadow = calloc((size_t)s->pool.n_blocks, sizeof(*s->shadow));
    s->marks = calloc((size_t)lf_batch_n_marks(n_running), sizeof(*s->marks));
    LF_ASSERT(s->shadow && s->marks);
    for (int i = 0; i < s->pool.n_blocks; i++)
        for (int k = 0; k < n_parts; k++) s->shadow[i].parts[k] = GARBAGE;
    if (!w->prefix) return;
    LF_ASSERT(lf_prefix_cache_create(&s->snapshots, &s->pool, "sim", 3, w->block, NULL) == LF_OK);
    s->forget = s->pool.on_evict;
    s->pool.on_evict = on_evict;
    s->pool.on_evict_ctx = w;
}

void sim_slots_close(struct sim_world *w)
{
    struct sim_slots *s = &w->slots;
    if (s->pool.n_blocks == 0) return;
    if (s->snapshots) s->pool.on_evict_ctx = s->snapshots;
    lf_prefix_cache_destroy(s->snapshots);
    free(s->marks);
    free(s->shadow);
    lf_block_pool_deinit(&s->pool);
}

int64_t sim_state_of(const struct sim_request *r, int p)
{
    return p == 0 ? 0 : (int64_t)p << 32 | r->content[p - 1];
}

int64_t sim_n_lost(const struct sim_world *w)
{
    return w->n_evicted + (int64_t)(w->sched.n_marks_skipped + w->sched.n_snapshots_dropped);
}

static void key_at(const struct sim_request *r, int n, struct lf_prefix_key *out)
{
    const struct lf_sched_seq *seq = &r->seq;
    int known = LF_MIN(n, seq->n_keys - 1);
    *out = seq->keys[known];
    for (int i = known; i < n; i++) {
        int32_t ids[SIM_BLOCK_MOST];
        int block = seq->block_tokens;
        for (int k = 0; k < block; k++) ids[k] = sim_text_of(r, i * block + k);
        struct lf_prefix_key prev = *out;
        lf_prefix_key_next(&prev, ids, block, out);
    }
}

static void write_state(struct sim_world *w, int32_t slot, const struct sim_request *r, int p)
{
    struct sim_slot *shadow = &w->slots.shadow[slot];
    for (int k = 0; k < w->slots.n_parts; k++) shadow->parts[k] = sim_state_of(r, p);
    memset(&shadow->key, 0, sizeof(shadow->key));
    if (r->seq.keys && p > 0 && p % w->block == 0 && p <= r->seq.n_prompt + r->seq.max_tokens)
        key_at(r, p / w->block, &shadow->key);
}

static bool holds(const struct sim_world *w, int32_t slot, int64_t state)
{
    for (int k = 0; k < w->slots.n_parts; k++)
        if (w->slots.shadow[slot].parts[k] != state) return false;
    return true;
}

/* Nothing writes to a slot that another sequence of the step reads, or writes too. */
static void check_apart(const struct sim_world *w, const struct lf_sched_item *item)
{
    const struct lf_sched_step *step = &w->step;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_state_seq *other = &step->items[i].state;
        if (other == &item->state) continue;
        LF_ASSERT(other->out != item->state.out && other->in != item->state.out);
    }
    for (int m = 0; m < step->n_marks; m++) {
        int32_t slot = step->marks[m].slot;
        LF_ASSERT(slot != item->state.in && slot != item->state.out);
        for (int k = 0; k < m; k++) LF_ASSERT(step->marks[k].slot != slot);
    }
}

static void check_item(const struct sim_world *w, const struct lf_sched_item *item, int first_token, int first_mark)
{
    const struct lf_state_seq *s = &item->state;
    const struct lf_sched_opts *o = &w->sched.opts;
    int end = item->first + item->n_tokens, before = 0;
    LF_ASSERT(s->first_token == first_token && s->n_tokens == item->n_tokens && s->position == item->first);
    LF_ASSERT((s->in < 0) == (item->first == 0) && s->out == item->seq->state);
    if (s->in >= 0) LF_ASSERT(holds(w, s->in, sim_state_of((const struct sim_request *)item->seq, item->first)));
    LF_ASSERT(s->first_mark == first_mark && s->n_marks >= 0);
    for (int i = 0; i < s->n_marks; i++) {
        const struct lf_state_mark *mark = &w->step.marks[first_mark + i];
        LF_ASSERT(mark->n_tokens > before && mark->n_tokens <= item->n_tokens);
        LF_ASSERT((item->first + mark->n_tokens) % LF_DELTA_CHUNK == 0);
        before = mark->n_tokens;
    }
    if (o->whole_chunks && !item->seq->all_logits && end < item->seq->n_prompt) LF_ASSERT(end % LF_DELTA_CHUNK == 0);
}

void sim_slots_step(struct sim_world *w)
{
    struct sim_slots *s = &w->slots;
    const struct lf_sched_step *step = &w->step;
    int first_token = 0, first_mark = 0;
    if (s->pool.n_blocks == 0) return;
    LF_ASSERT(step->n_marks <= lf_batch_n_marks(w->sched.opts.max_seqs));
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        check_item(w, item, first_token, first_mark);
        check_apart(w, item);
        first_token += item->n_tokens;
        first_mark += item->state.n_marks;
        s->n_from_snapshots += item->state.in >= 0 && item->state.in != item->state.out;
    }
    LF_ASSERT(first_mark == step->n_marks);
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        const struct sim_request *r = (const struct sim_request *)item->seq;
        write_state(w, item->state.out, r, item->first + item->n_tokens);
        for (int m = 0; m < item->state.n_marks; m++) {
            const struct lf_state_mark *mark = &step->marks[item->state.first_mark + m];
            write_state(w, mark->slot, r, item->first + mark->n_tokens);
        }
    }
    s->n_marks += step->n_marks;
}

void sim_slots_check(const struct sim_world *w)
{
    const struct sim_slots *s = &w->slots;
    for (int i = 0; i < s->pool.n_blocks; i++) {
        const struct sim_slot *shadow = &s->shadow[i];
        if (!s->pool.blocks[i].cached) continue;
        struct lf_prefix_entry entry = lf_prefix_cache_entry(s->snapshots, i);
        LF_ASSERT(memcmp(entry.key->bytes, shadow->key.bytes, sizeof(entry.key->bytes)) == 0);
        LF_ASSERT(shadow->parts[0] > 0 && holds(w, i, shadow->parts[0]));
    }
}
