/* Opening a model: hyperparameters and plan in, weights and workspace on the device out. */
#include "model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/limits.h"
#include "core/log.h"
#include "model/batch_message.h"
#include "model/identity.h"
#include "model/executor.h"
#include "model/sample_device.h"
#include "model/sample_rows.h"
#include "model/safetensors.h"
#include "model/weights.h"
#include "model/workspace.h"

struct lf_model {
    struct lf_executor x;
    struct lf_hparams hp;
    struct lf_buffer workspace;
    struct lf_sampled *results;      /* [max_out] of the step that was launched, where the host samples */
    struct lf_sample_device sampler; /* else */
    uint64_t n_launched, n_waited;   /* steps */
    bool samples_later;              /* the last launch has not been sampled */
    int32_t *message;                /* [message_words] of several ranks: the step that rank 0 tells */
    struct lf_kv_seq *message_seqs;  /* [max_seqs] of the others */
    size_t message_words;
    int64_t told_ns;         /* when rank 0 last told something */
    bool tied;               /* slots that share bytes do (weights.h) */
    bool ends_together;      /* of several ranks, each step */
    int n_out[LF_FETCHES_N]; /* of launch i: n_out[i % LF_FETCHES_N] */
    uint8_t identity[LF_SHA256_BYTES];
};

/* Opens the headers (unless the weights are dummies) and lays the weights out. */
static enum lf_status open_layout(struct lf_weight_layout **layout, struct lf_tensor_set *set,
                                  const struct lf_hparams *hp, const struct lf_program *program,
                                  const struct lf_model_opts *opts, struct lf_device *dev, struct lf_err *err)
{
    bool files = opts->load == LF_LOAD_FILES;
    if (files) LF_TRY(lf_tensor_set_open(set, opts->dir, err));
    enum lf_status status = lf_weight_layout_make(layout, hp, program, files ? set : NULL, opts->quantize, dev, err);
    if (status != LF_OK) {
        lf_fail_within(err, status, "%s", opts->dir);
        lf_tensor_set_close(set);
    }
    return status;
}

enum lf_status lf_weights_measure(struct lf_weights_size *out, const struct lf_hparams *hp,
                                  const struct lf_model_opts *opts, struct lf_device *dev, struct lf_err *err)
{
    struct lf_tensor_set set = {0};
    struct lf_weight_layout *layout;
    struct lf_program program;
    LF_TRY(lf_program_record(&program, hp, err));
    enum lf_status status = open_layout(&layout, &set, hp, &program, opts, dev, err);
    if (status == LF_OK) {
        *out = (struct lf_weights_size){.bytes = lf_weight_layout_bytes(layout),
                                        .format = lf_weight_layout_format(layout),
                                        .quantized = opts->quantize != LF_CODE_NONE};
        lf_weight_layout_free(layout);
        lf_tensor_set_close(&set);
    }
    lf_program_deinit(&program);
    return status;
}

static enum lf_status copy_hparams(struct lf_hparams *out, const struct lf_hparams *hp, struct lf_err *err)
{
    size_t n = (size_t)hp->n_layers;
    *out = *hp;
    out->quantization = NULL; /* of files, which are not looked at again */
    out->layers = calloc(n, sizeof(*out->layers));
    if (!out->layers) return lf_fail(err, LF_NO_MEMORY, "no memory for what %zu layers differ in", n);
    memcpy(out->layers, hp->layers, n * sizeof(*out->layers));
    return LF_OK;
}

struct rope_upload {
    struct lf_device *dev;
    const struct lf_rope_opts *opts;
    float *table;
};

static void upload_part(void *ctx, int from, int n, const float *part)
{
    const struct rope_upload *u = ctx;
    float *to = u->table + (size_t)from * (size_t)u->opts->rotary_dim;
    lf_upload(u->dev, to, part, (size_t)lf_rope_table_bytes(u->opts, n));
}

/* cos and sin of every position. Made where the CPU can write, so a GPU's table has the same bits. */
static enum lf_status fill_rope_table(struct lf_model *model, int rope, int n_positions, struct lf_err *err)
{
    struct lf_executor *m = &model->x;
    struct rope_upload u = {
        .dev = m->dev, .opts = &model->hp.ropes[rope], .table = (float *)(void *)(m->base + m->ws.ropes[rope])};
    if (!lf_device_info(m->dev)->is_host) return lf_rope_table_parts(m->dev, u.opts, n_positions, upload_part, &u, err);
    lf_rope_table_fill(m->dev, u.opts, n_positions, u.table);
    return LF_OK;
}

/* What q is multiplied by at every position, where the model does so. */
static enum lf_status fill_q_scale(struct lf_model *model, int n_positions, struct lf_err *err)
{
    struct lf_executor *m = &model->x;
    const struct lf_q_scale *q = &model->hp.q_scale;
    if (!(q->beta > 0)) return LF_OK;
    float *made = malloc((size_t)n_positions * sizeof(*made));
    if (!made) return lf_fail(err, LF_NO_MEMORY, "no memory for the query scales of %d positions", n_positions);
    for (int i = 0; i < n_positions; i++) made[i] = (float)(1 + q->beta * log1p((double)(i / q->n_positions)));
    lf_upload(m->dev, m->base + m->ws.q_scale, made, (size_t)n_positions * sizeof(*made));
    free(made);
    return LF_OK;
}

/* An attention object for each shape of layers. */
static enum lf_status open_attention(struct lf_executor *m, struct lf_err *err)
{
    for (int i = 0; i < m->kinds.n_shapes; i++) {
        struct lf_attn_shape shape = lf_workspace_attn_shape(&m->kinds, i, m->hp, &m->limits);
        size_t bytes = (size_t)lf_attn_workspace_bytes(&shape, lf_device_info(m->dev));
        struct lf_buffer workspace = {m->base + m->ws.attention[i], bytes};
        LF_TRY(lf_attn_create(&m->attn[i], m->dev, lf_device_info(m->dev)->isa, &shape, workspace, err));
    }
    return LF_OK;
}

/* What ranks tell each other a step in. */
static bool make_message(struct lf_model *model)
{
    struct lf_executor *m = &model->x;
    if (lf_split_world(&model->hp.split) == 1) return true;
    model->message_words = lf_batch_message_words(&m->limits, &m->kinds.layout);
    model->message = calloc(model->message_words, sizeof(*model->message));
    model->message_seqs = calloc((size_t)m->limits.max_seqs, sizeof(*model->message_seqs));
    return model->message && model->message_seqs;
}

/* What a step is put together in. */
static bool make_arrays(struct lf_model *model)
{
    struct lf_executor *m = &model->x;
    int chunk = m->limits.chunk, max_seqs = m->limits.max_seqs;
    size_t n_states = (size_t)m->kinds.layout.states.n_layers, n_long = (size_t)lf_state_most_long(chunk, max_seqs);
    m->tail_seqs = calloc((size_t)max_seqs, sizeof(*m->tail_seqs));
    model->results = calloc((size_t)m->limits.max_out, sizeof(*model->results));
    if (n_states == 0) return m->tail_seqs && model->results;
    struct lf_state_arrays *a = &m->state_arrays;
    m->state_views = calloc(n_states, sizeof(*m->state_views));
    m->state_seqs = calloc((size_t)max_seqs, sizeof(*m->state_seqs));
    a->chunks = calloc((size_t)lf_state_most_chunks(chunk, max_seqs) + 1, sizeof(*a->chunks));
    a->long_seqs = calloc(n_long + 1, sizeof(*a->long_seqs));
    a->first_chunks = calloc(n_long + 1, sizeof(*a->first_chunks));
    return m->tail_seqs && model->results && m->state_views && m->state_seqs && a->chunks && a->long_seqs &&
           a->first_chunks;
}

/* The workspace and what is filled in once: tables by position, the attention object. */
static enum lf_status open_workspace(struct lf_model *model, const struct lf_plan *plan, struct lf_err *err)
{
    struct lf_executor *m = &model->x;
    m->limits = (struct lf_step_limits){.ctx = plan->ctx,
                                        .chunk = plan->chunk,
                                        .max_seqs = plan->max_seqs,
                                        .max_out = plan->max_out,
                                        .n_cp = model->hp.split.n_cp,
                                        .kv_dtype = plan->kv_dtype};
    lf_workspace_layout(&m->ws, &m->programs, &m->kinds, &model->hp, &m->limits, lf_device_ops(m->dev),
                        lf_device_info(m->dev));
    /* the plan is for the rank whose part is the largest (split.h) */
    bool is_planned = lf_split_world_rank(&model->hp.split) > 0 ? m->ws.total_bytes <= plan->workspace_bytes
                                                                : m->ws.total_bytes == plan->workspace_bytes;
    if (!is_planned) {
        return lf_fail(err, LF_INVALID, "the plan has %" PRIu64 " bytes of workspace, the model needs %" PRIu64,
                       plan->workspace_bytes, m->ws.total_bytes);
    }
    if (!make_arrays(model) || !make_message(model))
        return lf_fail(err, LF_NO_MEMORY, "no memory for %d sequences", plan->max_seqs);
    LF_TRY(lf_buffer_alloc(m->dev, &model->workspace, (size_t)m->ws.total_bytes, "workspace", err));
    m->base = model->workspace.ptr;
    if (!lf_device_info(m->dev)->is_host) {
        LF_TRY(lf_sample_device_init(&model->sampler, m->dev, m->base + m->ws.sampler, plan->max_out,
                                     lf_batch_n_slots(plan->max_seqs), plan->ctx, model->hp.n_vocab, err));
        m->sampled = lf_sample_device_ids(&model->sampler);
    }
    for (int i = 0; i < model->hp.n_ropes; i++) LF_TRY(fill_rope_table(model, i, plan->ctx, err));
    LF_TRY(fill_q_scale(model, plan->ctx, err));
    for (int i = 0; i < model->hp.n_ropes; i++)
        if (model->hp.ropes[i].kind == LF_ROPE_LONGROPE && lf_split_world_rank(&model->hp.split) == 0)
            LF_INFO("longrope: %s factors, for a context of %d tokens (trained on %d)",
                    lf_rope_is_long(&model->hp.ropes[i], plan->ctx) ? "long" : "short", plan->ctx,
                    model->hp.ropes[i].original_max_positions);
    return open_attention(m, err);
}

/* Ends of this rank along the axes of the split. */
static enum lf_status connect(struct lf_executor *m, const struct lf_split *split, struct lf_err *err)
{
    int n_ranks = lf_split_n_ranks(split);
    LF_TRY(lf_comm_connect(m->comm, m->dev, err));
    if (lf_split_n_cp(split) == 1) m->tp = m->comm;
    if (lf_split_n_cp(split) > 1 && n_ranks == 1) m->cp = m->comm;
    if (m->tp || m->cp) return LF_OK;
    LF_TRY(lf_comm_along(&m->cp, m->comm, LF_COMM_COLUMN, n_ranks, err));
    return lf_comm_along(&m->tp, m->comm, LF_COMM_ROW, n_ranks, err);
}

enum lf_status lf_model_open(struct lf_model **out, struct lf_device *dev, const struct lf_hparams *hp,
                             const struct lf_model_opts *opts, struct lf_err *err)
{
    struct lf_tensor_set set = {0};
    struct lf_weight_layout *layout = NULL;
    enum lf_status status;
    struct lf_model *model = calloc(1, sizeof(*model));
    if (!model) return lf_fail(err, LF_NO_MEMORY, "no memory for a model");
    model->x.dev = dev;
    model->x.hp = &model->hp;
    model->x.comm = opts->comm;
    model->ends_together = opts->comm && opts->ends_together;
    LF_ASSERT(lf_split_world(&hp->split) == (opts->comm ? lf_comm_n_ranks(opts->comm) : 1));
    LF_ASSERT(!opts->comm || lf_comm_rank(opts->comm) == lf_split_world_rank(&hp->split));
    if (opts->comm) LF_TRY_GOTO(connect(&model->x, &hp->split, err), done);
    LF_TRY_GOTO(copy_hparams(&model->hp, hp, err), done);
    LF_TRY_GOTO(lf_programs_make(&model->x.programs, &model->hp, lf_device_ops(dev), opts->plan->no_fusion, err), done);
    LF_TRY_GOTO(lf_layer_kinds_make(&model->x.kinds, &model->hp, &model->x.programs, opts->plan->kv_dtype,
                                    lf_device_info(dev)->act_dtype, opts->plan->cache_groups, err),
                done);
    LF_TRY_GOTO(open_layout(&layout, &set, hp, &model->x.programs.recorded, opts, dev, err), done);
    if (hp->tied && !lf_weight_layout_tied(layout))
        LF_WARN("tie_word_embeddings is true, but lm_head.weight differs from the embedding: lm_head.weight is used");
    model->tied = lf_weight_layout_tied(layout);
    LF_TRY_GOTO(open_workspace(model, opts->plan, err), done);
    LF_TRY_GOTO(lf_weights_load(&model->x.weights, dev, layout, opts, err), done);
    status = lf_identity_make(model->identity, opts, hp, lf_device_info(dev),
                              opts->hash_weights ? model->x.weights.sha : NULL, &set, err);
done:
    lf_weight_layout_free(layout);
    lf_tensor_set_close(&set);
    if (status == LF_OK) {
        *out = model;
    } else {
        lf_model_close(model);
    }
    return status;
}

void lf_model_close(struct lf_model *model)
{
    if (!model) return;
    struct lf_device *dev = model->x.dev;
    lf_executor_deinit(&model->x);
    if (model->x.tp != model->x.comm) lf_comm_destroy(model->x.tp);
    if (model->x.cp != model->x.comm) lf_comm_destroy(model->x.cp);
    lf_weights_unload(&model->x.weights, dev);
    for (int i = 0; i < LF_ATTN_SHAPES_N; i++) lf_attn_destroy(model->x.attn[i]);
    lf_layer_kinds_deinit(&model->x.kinds);
    lf_buffer_free(dev, &model->workspace);
    lf_sample_device_deinit(&model->sampler);
    free(model->results);
    free(model->message);
    free(model->message_seqs);
    free(model->x.tail_seqs);
    free(model->x.state_views);
    free(model->x.state_seqs);
    free(model->x.state_arrays.chunks);
    free(model->x.state_arrays.long_seqs);
    free(model->x.state_arrays.first_chunks);
    lf_programs_deinit(&model->x.programs);
    lf_hparams_deinit(&model->hp);
    free(model);
}

const struct lf_kv_layout *lf_model_kv_layout(const struct lf_model *model)
{
    return &model->x.kinds.layout;
}

void lf_model_identity(const struct lf_model *model, uint8_t out[32])
{
    memcpy(out, model->identity, LF_SHA256_BYTES);
}

enum lf_status lf_model_prepare(struct lf_model *model, struct lf_kv_cache *kv, struct lf_err *err)
{
    return lf_executor_prepare(&model->x, kv, err);
}

int lf_model_n_async_steps(const struct lf_model *model)
{
    return model->x.sampled ? LF_FETCHES_N - 1 : 0;
}

static float *logits_of(const struct lf_model *model)
{
    return (float *)(void *)(model->x.base + model->x.ws.logits);
}

/* Rank 0: the others are to run the same step. */
static void tell(struct lf_model *model, const struct lf_batch *batch)
{
    if (!model->message) return;
    size_t n = lf_batch_pack(model->message, batch, &model->x.limits, &model->x.kinds.layout);
    lf_comm_tell(model->x.comm, model->message, n * sizeof(*model->message));
    model->told_ns = lf_clock_ns();
}

/* What a GPU has drawn in a step is what placeholders of the next one stand for, on all ranks. */
static void share_ids(struct lf_model *model, int n_out)
{
    if (model->x.comm && n_out > 0) lf_sample_device_share(&model->sampler, model->x.comm, n_out);
}

/* Behind a step's last kernel. Of one with ids to share that is where all have come together; else its last collective
 * may be before what a rank writes last: where no row is wanted of the last layer, or where that keeps a state. */
static void end_together(struct lf_model *model, int n_out)
{
    bool shares = model->x.sampled && n_out > 0;
    if (model->ends_together && !shares) lf_comm_barrier(model->x.comm);
}

/* What the last step has left is worth something: no rank has failed. */
static enum lf_status check_comm(const struct lf_model *model, struct lf_err *err)
{
    return model->x.comm ? lf_comm_check(model->x.comm, err) : LF_OK;
}

enum lf_status lf_model_beat(struct lf_model *model, struct lf_err *err)
{
    if (!model->message || lf_clock_ns() - model->told_ns < LF_MODEL_BEAT_MS * LF_NS_PER_MS) return LF_OK;
    lf_comm_tell(model->x.comm, NULL, 0);
    model->told_ns = lf_clock_ns();
    return check_comm(model, err);
}

void lf_model_end(struct lf_model *model)
{
    if (model->x.comm) lf_comm_end(model->x.comm);
}

enum lf_status lf_model_follow(struct lf_model *model, struct lf_kv_cache *kv, struct lf_err *err)
{
    struct lf_batch batch;
    size_t bytes, word_bytes = sizeof(*model->message);
    int n_out = 0; /* of the step before */
    for (;;) {
        LF_TRY(lf_comm_hear(model->x.comm, model->message, model->message_words * word_bytes, &bytes, err));
        if (bytes == 0) continue; /* rank 0 is there */
        lf_batch_unpack(&batch, model->message_seqs, model->message, bytes / word_bytes, &model->x.limits,
                        &model->x.kinds.layout, kv->view.n_blocks);
        lf_executor_run(&model->x, kv, &batch, n_out);
        end_together(model, batch.n_out);
        n_out = model->x.sampled ? batch.n_out : 0;
        share_ids(model, n_out);
        LF_TRY(check_comm(model, err));
    }
}

enum lf_status lf_model_launch(struct lf_model *model, struct lf_kv_cache *kv, const struct lf_batch *batch,
                               struct lf_err *err)
{
    struct lf_executor *m = &model->x;
    int slot = (int)(model->n_launched % LF_FETCHES_N), before = (int)((model->n_launched + 1) % LF_FETCHES_N);
    LF_ASSERT(!model->samples_later);
    LF_ASSERT(model->n_launched - model->n_waited <= (uint64_t)lf_model_n_async_steps(model));
    tell(model, batch);
    lf_executor_run(m, kv, batch, m->sampled ? model->n_out[before] : 0);
    end_together(model, batch->n_out);
    model->n_out[slot] = batch->n_out;
    model->n_launched++;
    model->samples_later = true;
    return batch->samples_later ? LF_OK : lf_model_sample(model, batch, err);
}

enum lf_status lf_model_sample(struct lf_model *model, const struct lf_batch *batch, struct lf_err *err)
{
    struct lf_executor *m = &model->x;
    int slot = (int)((model->n_launched - 1) % LF_FETCHES_N);
    LF_ASSERT(model->samples_later && batch->n_out == model->n_out[slot]);
    model->samples_later = false;
    if (m->sampled) {
        lf_sample_device_launch(&model->sampler, batch, logits_of(model));
        share_ids(model, batch->n_out);
        lf_fetch_begin(m->dev, slot, lf_sample_device_out(&model->sampler),
                       (size_t)batch->n_out * sizeof(struct lf_sampled));
    } else {
        LF_TRY(lf_device_sync(m->dev, err));
        LF_TRY(check_comm(model, err));
        lf_sample_rows(m->dev, model->results, batch, logits_of(model), model->hp.n_vocab, m->base + m->ws.sampler);
    }
    return LF_OK;
}

enum lf_status lf_model_wait(struct lf_model *model, struct lf_sampled *out, struct lf_err *err)
{
    int slot = (int)(model->n_waited % LF_FETCHES_N);
    LF_ASSERT(model->n_waited + model->samples_later < model->n_launched);
    model->n_waited++;
    if (model->x.sampled) {
        LF_TRY(lf_fetch_end(model->x.dev, slot, out, err));
        return check_comm(model, err);
    }
    memcpy(out, model->results, (size_t)model->n_out[slot] * sizeof(*out));
    return LF_OK;
}

bool lf_model_has_workers(const struct lf_model *model)
{
    return lf_device_info(model->x.dev)->is_host && lf_threads_n(lf_device_threads(model->x.dev)) > 1;
}

void lf_model_run_tasks(struct lf_model *model, int n_tasks, lf_task_fn *fn, void *tasks)
{
    lf_threads_run(lf_device_threads(model->x.dev), n_tasks, fn, tasks);
}

enum lf_status lf_model_step(struct lf_model *model, struct lf_kv_cache *kv, const struct lf_batch *batch,
                             float *logits, struct lf_err *err)
{
    struct lf_executor *m = &model->x;
    lf_executor_run(m, kv, batch, 0);
    size_t n_logits = (size_t)batch->n_out * (size_t)model->hp.n_vocab;
    if (n_logits > 0) lf_download(m->dev, logits, m->base + m->ws.logits, n_logits * sizeof(float));
    LF_TRY(lf_device_sync(m->dev, err));
    return check_comm(model, err);
}

/* ---- what a step's ops take ---- */

/* The table of a step of one of the programs. weights: by slot; tied: slots that share bytes do (weights.h). */
static struct lf_op_table_opts table_opts(const struct lf_programs *programs, enum lf_wanted wanted,
                                          const struct lf_weight *weights, bool tied, struct lf_device *dev,
                                          const struct lf_hparams *hp, enum lf_dtype kv_dtype,
                                          const struct lf_op_step *step)
{
    return (struct lf_op_table_opts){.program = &programs->of[wanted],
                                     .slots = programs->recorded.slots,
                                     .weights = weights,
                                     .tied = tied,
                                     .ops = lf_device_ops(dev),
                                     .info = lf_device_info(dev),
                                     .hp = hp,
                                     .kv_dtype = kv_dtype,
                                     .step = *step};
}

enum lf_status lf_model_plan_ops(struct lf_op_table *out, const struct lf_hparams *hp, const struct lf_model_opts *opts,
                                 struct lf_device *dev, const struct lf_op_step *step, struct lf_err *err)
{
    struct lf_tensor_set set = {0};
    struct lf_weight_layout *layout = NULL;
    struct lf_programs programs;
    struct lf_weight *weights = NULL;
    enum lf_status status;
    LF_TRY(lf_programs_make(&programs, hp, lf_device_ops(dev), opts->plan->no_fusion, err));
    LF_TRY_GOTO(open_layout(&layout, &set, hp, &programs.recorded, opts, dev, err), done);
    weights = calloc((size_t)programs.recorded.n_slots, sizeof(*weights));
    status = weights ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for a table of weights");
    if (status != LF_OK) goto done;
    lf_weight_layout_describe(layout, weights);
    enum lf_wanted wanted = step->n_tokens == 1 ? LF_WANTED_ALL : LF_WANTED_SOME;
    struct lf_op_table_opts table =
        table_opts(&programs, wanted, weights, lf_weight_layout_tied(layout), dev, hp, opts->plan->kv_dtype, step);
    status = lf_op_table_make(out, &table, err);
done:
    free(weights);
    lf_weight_layout_free(layout);
    lf_tensor_set_close(&set);
    lf_programs_deinit(&programs);
    return status;
}

static int blocks_of(const struct lf_op_step *step)
{
    return (step->kv_len + LF_KV_BLOCK_TOKENS - 1) / LF_KV_BLOCK_TOKENS;
}

/* The step on the cache's first blocks, which all its groups share, and on its first slot: what they hold is worth
 * nothing here. ids: zeros, room for the step's tokens and, behind them, its block table. */
static enum lf_status profile(struct lf_op_table *out, struct lf_model *model, struct lf_kv_cache *kv,
                              const struct lf_op_step *step, int n_runs, int32_t *ids, double *seconds,
                              struct lf_err *err)
{
    struct lf_executor *m = &model->x;
    int32_t *blocks = ids + step->n_tokens, last = step->n_tokens - 1;
    enum lf_wanted wanted;
    double step_seconds;
    for (int i = 0; i < blocks_of(step); i++) blocks[i] = i;
    struct lf_kv_seq seq = {
        .blocks = blocks, .n_tokens = step->n_tokens, .kv_len = step->kv_len, .is_decode = step->n_tokens == 1};
    int position = step->kv_len - step->n_tokens;
    struct lf_state_seq state = {.n_tokens = step->n_tokens, .position = position, .in = position > 0 ? 0 : -1};
    struct lf_batch batch = {.ids = ids,
                             .n_tokens = step->n_tokens,
                             .seqs = &seq,
                             .n_seqs = 1,
                             .states = kv->states.n_layers > 0 ? &state : NULL,
                             .logits_idx = &last,
                             .n_out = 1};
    LF_TRY(lf_executor_profile(m, kv, &batch, n_runs, &wanted, seconds, &step_seconds, err));
    struct lf_op_table_opts table =
        table_opts(&m->programs, wanted, m->weights.of, model->tied, m->dev, m->hp, m->limits.kv_dtype, step);
    table.seconds = seconds;
    LF_TRY(lf_op_table_make(out, &table, err));
    out->step_seconds = step_seconds;
    return LF_OK;
}

enum lf_status lf_model_profile(struct lf_op_table *out, struct lf_model *model, struct lf_kv_cache *kv,
                                const struct lf_op_step *step, int n_runs, struct lf_err *err)
{
    int n_blocks = blocks_of(step), n_ops = 0;
    if (model->message) return lf_fail(err, LF_UNSUPPORTED, "the time of several ranks' ops is not measured yet");
    if (step->n_tokens < 1 || step->n_tokens > LF_MIN(model->x.limits.chunk, step->kv_len) || n_runs < 1 ||
        step->kv_len > model->x.limits.ctx || n_blocks > kv->pool.n_blocks)
        return lf_fail(err, LF_INVALID,
                       "a step of %d tokens, the last of %d; a step has room for %d, a context for %d, "
                       "the cache for %d",
                       step->n_tokens, step->kv_len, model->x.limits.chunk, model->x.limits.ctx,
                       kv->pool.n_blocks * LF_KV_BLOCK_TOKENS);
    for (int i = 0; i < LF_WANTED_N; i++) n_ops = LF_MAX(n_ops, model->x.programs.of[i].n_ops);
    int32_t *ids = calloc((size_t)step->n_tokens + (size_t)n_blocks, sizeof(*ids));
    double *seconds = calloc((size_t)n_ops, sizeof(*seconds));
    enum lf_status status = ids && seconds ? profile(out, model, kv, step, n_runs, ids, seconds, err)
                                           : lf_fail(err, LF_NO_MEMORY, "no memory to profile a step");
    free(ids);
    free(seconds);
    return status;
}
