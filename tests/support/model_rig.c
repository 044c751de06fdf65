#include "tests/support/model_rig.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"

static enum lf_status open_parts(struct model_rig *rig, const struct model_rig_opts *o, struct lf_err *err)
{
    struct lf_device_opts dev_opts = {
        .name = o->device ? o->device : "cpu", .n_threads = o->n_threads, .max_isa = o->max_isa};
    struct lf_weights_size weights;
    LF_TRY(lf_hparams_read(&rig->hp, o->dir, err));
    rig->hp.split = o->split;
    if (o->change) o->change(&rig->hp);
    dev_opts.act_dtype = rig->hp.dtype == LF_F16 ? LF_F16 : LF_BF16;
    LF_TRY(lf_device_open(&rig->dev, &dev_opts, err));
    if (o->adapt) o->adapt(rig->dev);
    const struct lf_device_info *info = lf_device_info(rig->dev);
    enum lf_dtype kv_dtype = info->is_host || o->kv_dtype == LF_E4M3 ? o->kv_dtype : info->act_dtype;
    struct lf_model_opts model_opts = {.dir = o->dir,
                                       .load = o->load,
                                       .quantize = o->quantize,
                                       .dummy_seed = o->seed,
                                       .plan = &rig->plan,
                                       .comm = o->comm,
                                       .program = o->program,
                                       .hash_weights = o->hash_weights,
                                       .ends_together = o->ends_together};
    LF_TRY(lf_weights_measure(&weights, &rig->hp, &model_opts, rig->dev, err));
    struct lf_plan_opts plan_opts = {.ctx = o->ctx,
                                     .chunk = o->chunk,
                                     .max_seqs = o->max_seqs,
                                     .max_out = o->max_out,
                                     .kv_tokens = (uint64_t)(o->kv_tokens ? o->kv_tokens : o->ctx),
                                     .kv_dtype = kv_dtype,
                                     .no_fusion = o->no_fusion,
                                     .cache_groups = o->cache_groups};
    LF_TRY(lf_plan_make(&rig->plan, &rig->hp, weights.bytes, lf_device_ops(rig->dev), info, &plan_opts, err));
    LF_TRY(lf_model_open(&rig->model, rig->dev, &rig->hp, &model_opts, err));
    struct lf_kv_cache_opts kv_opts = {.dtype = kv_dtype,
                                       .stripe = {.idx = o->split.cp_rank, .n = o->split.n_cp},
                                       .n_blocks = rig->plan.n_blocks,
                                       .n_slots = rig->plan.n_slots,
                                       .layout = lf_model_kv_layout(rig->model),
                                       .prefix_cache = o->prefix_cache};
    LF_TRY(lf_kv_cache_open(&rig->kv, rig->dev, &kv_opts, err));
    return lf_model_prepare(rig->model, &rig->kv, err);
}

enum lf_status model_rig_open(struct model_rig *rig, const struct model_rig_opts *opts, struct lf_err *err)
{
    memset(rig, 0, sizeof(*rig));
    enum lf_status status = open_parts(rig, opts, err);
    if (status != LF_OK) model_rig_close(rig);
    return status;
}

void model_rig_close(struct model_rig *rig)
{
    lf_kv_cache_close(&rig->kv);
    lf_model_close(rig->model);
    lf_hparams_deinit(&rig->hp);
    lf_device_close(rig->dev);
    memset(rig, 0, sizeof(*rig));
}

void model_rig_fill_table(struct model_rig *rig, int32_t *blocks, int n)
{
    rig->table_stride = (rig->plan.ctx + LF_KV_BLOCK_TOKENS - 1) / LF_KV_BLOCK_TOKENS;
    int n_used = rig->kv.n_groups * rig->table_stride;
    LF_ASSERT(n_used <= n && n_used <= rig->plan.n_blocks);
    for (int i = 0; i < n_used; i++) blocks[i] = rig->plan.n_blocks - 1 - i;
}

struct lf_state_seq model_rig_state(const struct lf_kv_seq *seq, int slot)
{
    int position = seq->kv_len - seq->n_tokens;
    return (struct lf_state_seq){.first_token = seq->first_token,
                                 .n_tokens = seq->n_tokens,
                                 .position = position,
                                 .in = position > 0 ? slot : -1,
                                 .out = slot};
}

void model_rig_run(struct model_rig *rig, const int32_t *blocks, const int32_t *ids, int n, int kv_len, int chunk,
                   bool all, float *logits)
{
    int32_t *wanted = malloc((size_t)chunk * sizeof(*wanted));
    LF_ASSERT(wanted != NULL);
    for (int first = 0; first < n; first += chunk) {
        int m = LF_MIN(chunk, n - first);
        bool last = first + m == n;
        struct lf_kv_seq seq = {.blocks = blocks,
                                .table_stride = rig->table_stride,
                                .n_tokens = m,
                                .kv_len = kv_len + first + m,
                                .is_decode = n == 1 && kv_len > 0};
        struct lf_state_seq state = model_rig_state(&seq, 0);
        struct lf_batch batch = {.ids = ids + first,
                                 .n_tokens = m,
                                 .seqs = &seq,
                                 .n_seqs = 1,
                                 .states = rig->kv.states.n_layers > 0 ? &state : NULL,
                                 .logits_idx = wanted};
        for (int i = 0; i < m && all; i++) wanted[i] = i;
        if (!all) wanted[0] = m - 1;
        batch.n_out = all ? m : last;
        float *out = all ? logits + (size_t)first * (size_t)rig->hp.n_vocab : logits;
        LF_ASSERT(lf_model_step(rig->model, &rig->kv, &batch, out, NULL) == LF_OK);
    }
    free(wanted);
}
