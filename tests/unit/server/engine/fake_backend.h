/* A model for the engine's tests: a token is a pure function of all tokens before it, and the only way from one step to
 * the next leads through the KV blocks.
 *
 * Token p leaves in its slot a hash of (the hash in slot p - 1, its id). The slot is found through the block table, so
 * a wrong table, a block shared or reused too early, a stale prefix hit or a skipped token changes every later one.
 * Where the cache has states each part of a sequence's has that hash too: one that stands elsewhere changes them as
 * well. Logits of a token come from its hash; expected_token repeats them from the ids alone. */
#ifndef LF_TESTS_FAKE_BACKEND_H
#define LF_TESTS_FAKE_BACKEND_H

#include "tests/support/test.h"

#include <math.h>
#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "device/cpu/threads.h"
#include "kv/kv_cache.h"
#include "model/batch.h"
#include "model/sample_rows.h"
#include "server/engine/engine.h"
#include "tests/unit/server/engine/fake_states.h"

enum { FAKE_VOCAB = 97, FAKE_EOS = 7, FAKE_OUT_N = 64 };

struct fake_backend {
    int n_blocks;
    int delay_us;        /* of a step, and */
    int token_us;        /* of each of its tokens */
    int fail_at_step;    /* 0: never */
    int break_at_step;   /* it leaves anything in its slots, and waiting for it and for all behind it fails; 0: never */
    int32_t broken_id;   /* a token of this id has logits that are no numbers; 0: none */
    _Atomic int gate;    /* steps wait while it is 1 */
    _Atomic int hold;    /* steps from this one on wait; 0: none */
    _Atomic int n_steps; /* launched */
    int n_async_steps;   /* 1: as a device that samples by itself */
    int n_slots;         /* as the engine's; 0: slots are not looked at */
    int n_launched, n_waited;
    int n_idle;         /* waits for the step launched last: until the next one is launched there is nothing to do */
    bool samples_later; /* the last launch has not been sampled */
    float logits[FAKE_OUT_N * FAKE_VOCAB];
    struct lf_sampled results[2][FAKE_OUT_N]; /* of launch i: results[i % 2] */
    int n_results[2];
    int max_rows_seen, max_seqs_seen;
    struct lf_threads *workers; /* of a device that computes on the host; NULL: none */
    int n_tasks;                /* that they were given */
    void (*on_thread)(void);    /* called at every step: marks the engine thread */
};

static const int32_t fake_eos[1] = {FAKE_EOS};

static inline uint64_t fake_hash(uint64_t before, int32_t id)
{
    return lf_mix64(before * 31 + (uint64_t)id + 1);
}

static inline float fake_logit(uint64_t hash, int v)
{
    return (float)(lf_mix64(hash ^ (uint64_t)v * 0x9e37u) >> 40) * 1e-6f;
}

static inline int32_t fake_argmax(uint64_t hash)
{
    int best = 0;
    for (int v = 1; v < FAKE_VOCAB; v++)
        if (fake_logit(hash, v) > fake_logit(hash, best)) best = v;
    return best;
}

/* The greedy token behind ids[0..n). */
static inline int32_t fake_expected(const int32_t *ids, int n)
{
    uint64_t h = 0;
    for (int i = 0; i < n; i++) h = fake_hash(h, ids[i]);
    return fake_argmax(h);
}

/* A placeholder's id is what the launch before this one has drawn. */
static inline int32_t fake_id(const struct fake_backend *f, int32_t id)
{
    if (id >= 0) return id;
    LF_ASSERT(f->n_async_steps == 1 && f->n_launched > 0 && -id <= f->n_results[(f->n_launched - 1) % 2]);
    return f->results[(f->n_launched - 1) % 2][-1 - id].id;
}

/* All of the logits rows at once: what is drawn depends on logits alone where a request has no penalties. */
static inline enum lf_status fake_sample_step(void *ctx, const struct lf_batch *batch)
{
    static _Thread_local uint32_t scratch[2 * FAKE_VOCAB];
    struct fake_backend *f = ctx;
    int at = (f->n_launched - 1) % 2;
    LF_ASSERT(f->samples_later && batch->n_out == f->n_results[at]);
    for (int i = 0; i < batch->n_out; i++)
        lf_sample_row(&f->results[at][i], &batch->outs[i], f->logits + (size_t)i * FAKE_VOCAB, FAKE_VOCAB, scratch);
    f->samples_later = false;
    long delay_us = f->delay_us + (long)f->token_us * batch->n_tokens;
    if (delay_us > 0) {
        struct timespec t = {delay_us / 1000000, delay_us % 1000000 * 1000};
        nanosleep(&t, NULL);
    }
    return LF_OK;
}

static inline void fake_run_tasks(void *ctx, int n_tasks, lf_engine_task_fn *fn, void *tasks)
{
    struct fake_backend *f = ctx;
    f->n_tasks += n_tasks;
    lf_threads_run(f->workers, n_tasks, fn, tasks);
}

/* Sequences that run together have slots of their own. One may have several rows, side by side. */
static inline void fake_check_slots(const struct fake_backend *f, const struct lf_batch *batch)
{
    bool used[FAKE_OUT_N] = {false};
    int before = -1;
    for (int i = 0; i < batch->n_out && f->n_slots > 0 && f->n_async_steps > 0; i++) {
        const struct lf_batch_out *o = &batch->outs[i];
        if (!o->sampling) continue;
        LF_ASSERT(o->slot >= 0 && o->slot < LF_MIN(f->n_slots, (int)FAKE_OUT_N));
        LF_ASSERT(!used[o->slot] || o->slot == before);
        used[o->slot] = true;
        before = o->slot;
    }
}

static inline enum lf_status fake_launch(void *ctx, struct lf_kv_cache *kv, const struct lf_batch *batch)
{
    struct fake_backend *f = ctx;
    LF_ASSERT(!f->samples_later && batch->n_out <= FAKE_OUT_N);
    LF_ASSERT(f->n_launched - f->n_waited <= f->n_async_steps);
    if (f->on_thread) f->on_thread();
    while (f->gate) lf_clock_sleep_ms(1);
    f->n_steps++;
    while (f->hold != 0 && f->n_steps >= f->hold) lf_clock_sleep_ms(1);
    f->max_rows_seen = LF_MAX(f->max_rows_seen, batch->n_tokens);
    f->max_seqs_seen = LF_MAX(f->max_seqs_seen, batch->n_seqs);
    if (f->fail_at_step != 0 && f->n_steps >= f->fail_at_step) return LF_DEVICE;
    int row = 0, out = 0;
    for (int s = 0; s < batch->n_seqs; s++) {
        const struct lf_kv_seq *seq = &batch->seqs[s];
        LF_ASSERT(seq->first_token == row && seq->n_tokens >= 1 && seq->kv_len >= seq->n_tokens);
        for (int i = 0; i < seq->n_tokens; i++, row++) {
            int p = seq->kv_len - seq->n_tokens + i;
            uint64_t before = i == 0 ? fake_before(kv, batch, s) : fake_load(&kv->view, seq, p - 1);
            uint64_t h = fake_hash(before, fake_id(f, batch->ids[row]));
            fake_store(&kv->view, seq, p, f->n_steps == f->break_at_step ? ~h : h);
            if (out == batch->n_out || batch->logits_idx[out] != row) continue;
            for (int v = 0; v < FAKE_VOCAB; v++) f->logits[(size_t)out * FAKE_VOCAB + (size_t)v] = fake_logit(h, v);
            if (f->broken_id != 0 && batch->ids[row] == f->broken_id) f->logits[(size_t)out * FAKE_VOCAB + 3] = NAN;
            out++;
        }
        fake_end_states(kv, batch, s);
    }
    LF_ASSERT(row == batch->n_tokens && out == batch->n_out);
    fake_check_slots(f, batch);
    f->n_results[f->n_launched++ % 2] = batch->n_out;
    f->samples_later = true;
    return batch->samples_later ? LF_OK : fake_sample_step(f, batch);
}

static inline enum lf_status fake_wait_step(void *ctx, struct lf_sampled *out)
{
    struct fake_backend *f = ctx;
    LF_ASSERT(f->n_waited + f->samples_later < f->n_launched);
    int at = f->n_waited++ % 2;
    f->n_idle += f->n_waited == f->n_launched;
    memcpy(out, f->results[at], (size_t)f->n_results[at] * sizeof(*out));
    return f->break_at_step != 0 && f->n_waited >= f->break_at_step ? LF_DEVICE : LF_OK;
}

#endif
