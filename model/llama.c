/* One step, top to bottom (Touvron et al. 2023, §2.2, is the architecture):
 *
 *     x = embed(ids)
 *     each layer:   h = rmsnorm(x);  qkv = h·Wqkvᵀ;  q, K, V = rope(qkv), K and V appended to the cache
 *                   x += attention(q, K, V)·Woᵀ
 *                   h = rmsnorm(x);  x += (silu(gate) · up)·Wdownᵀ    with [gate, up] = h·Wguᵀ
 *     logits = rmsnorm(x[logits_idx])·Wheadᵀ
 *
 * In the last layer only the tokens whose logits are wanted go on behind the append: nobody reads the others' output. A
 * chunk in the middle of a prompt has no such token, so its last layer ends with the append; the last chunk computes
 * one there instead of hundreds. Since a token's bits depend on its own position and keys only, this changes nothing.
 *
 * Where the device can, in steps of few tokens the norms inside and between layers are fused: they are no ops of their
 * own but the epilogue of the GEMM before and the prologue of the GEMM behind (struct lf_fused_norm). The first norm
 * and the last stay.
 *
 * A step is prepared, then launched. Preparing makes the attention schedules and uploads what differs from step to
 * step: ids, logits_idx, sequences, tasks. Launching is the list of ops above. On a device with graphs the launches of
 * pure decode steps are recorded once for a few sizes (graphs.h); a step replays the next larger one, whose surplus
 * tokens compute on what is there and touch nothing that others read.
 *
 * Every buffer is a part of the workspace (workspace.h draws it); a step allocates nothing. */
#include "model/llama.h"

#include <math.h>

#include "attention/rope.h"
#include "core/check.h"

enum { SCHEDULE_TAIL = LF_LLAMA_WINDOWS_N }; /* of the last layer, where it has fewer tokens */

/* What the launches of one step share. Tokens become fewer in the last layer. */
struct step {
    const struct lf_llama *m;
    const struct lf_ops *ops;
    const struct lf_kv_view *kv;
    float *x; /* the residual stream */
    int n_tokens, n_out;
    bool narrows;    /* the last layer goes on with n_out tokens */
    bool fused_norm; /* h is x ∘ weight and sum_squares is there: by the epilogue of the GEMM before */
};

static void *at(const struct lf_llama *m, uint64_t offset)
{
    return m->base + offset;
}

/* y = x·wᵀ + bias over the step's tokens, dense. */
static struct lf_gemm_params gemm_params(const struct step *s, void *y, const void *x, const struct lf_weight *w,
                                         const float *bias)
{
    return (struct lf_gemm_params){.y = y,
                                   .x = x,
                                   .w = w,
                                   .bias = bias,
                                   .n_tokens = s->n_tokens,
                                   .x_stride = w->n_in,
                                   .y_stride = w->n_out,
                                   .scratch = at(s->m, s->m->ws.scratch)};
}

/* x += h·wᵀ + bias: back into the residual stream. */
static struct lf_gemm_params gemm_add_params(const struct step *s, const void *h, const struct lf_weight *w,
                                             const float *bias)
{
    struct lf_gemm_params p = gemm_params(s, s->x, h, w, bias);
    p.y_float = true;
    p.residual = s->x;
    return p;
}

/* The logits of the tokens in h. */
static struct lf_gemm_params head_params(const struct step *s)
{
    const struct lf_llama *m = s->m;
    struct lf_gemm_params p = gemm_params(s, at(m, m->ws.logits), at(m, m->ws.h), &m->weights.head, NULL);
    p.y_float = true;
    return p;
}

/* h = norm(x) */
static void rmsnorm(const struct step *s, const float *weight)
{
    const struct lf_hparams *hp = s->m->hp;
    struct lf_rmsnorm_params p = {.out = at(s->m, s->m->ws.h),
                                  .x = s->x,
                                  .weight = weight,
                                  .eps = hp->norm_eps,
                                  .n_tokens = s->n_tokens,
                                  .dim = hp->hidden};
    s->ops->rmsnorm(s->m->dev, &p);
}

/* x += h·wᵀ + bias, followed by a norm of x if its weight is given: half of it is the epilogue where it can be. */
static void gemm_add(struct step *s, const void *h, const struct lf_weight *w, const float *bias,
                     const float *norm_weight)
{
    const struct lf_llama *m = s->m;
    struct lf_gemm_params p = gemm_add_params(s, h, w, bias);
    s->fused_norm = norm_weight && s->n_tokens <= m->fused_norm_tokens;
    if (s->fused_norm)
        p.norm =
            (struct lf_fused_norm){.h = at(m, m->ws.h), .weight = norm_weight, .sum_squares = at(m, m->ws.sum_squares)};
    s->ops->gemm(m->dev, &p);
}

/* The GEMM norm(x)·wᵀ + bias; the norm is done here where it is not fused. */
static struct lf_gemm_params norm_gemm_params(struct step *s, const float *norm_weight, void *y,
                                              const struct lf_weight *w, const float *bias)
{
    const struct lf_llama *m = s->m;
    struct lf_gemm_params p = gemm_params(s, y, at(m, m->ws.h), w, bias);
    if (s->fused_norm)
        p.x_sum_squares = at(m, m->ws.sum_squares);
    else
        rmsnorm(s, norm_weight);
    p.x_eps = m->hp->norm_eps;
    s->fused_norm = false;
    return p;
}

/* The tokens of x whose logits are wanted. */
static void gather(const struct step *s, void *out, const void *x, int dim, enum lf_dtype dtype)
{
    struct lf_gather_params p = {
        .out = out, .x = x, .rows = at(s->m, s->m->ws.logits_idx), .n_rows = s->n_out, .dim = dim, .dtype = dtype};
    s->ops->gather(s->m->dev, &p);
}

/* Norm, QKV, rotation; K and V of all tokens are in the cache afterwards. */
static void project_qkv(struct step *s, const struct lf_layer_weights *w, int layer)
{
    const struct lf_llama *m = s->m;
    const struct lf_hparams *hp = m->hp;
    struct lf_gemm_params qkv = norm_gemm_params(s, w->attn_norm, at(m, m->ws.qkv), &w->qkv, w->qkv_bias);
    struct lf_rope_append_params p = {.q_out = at(m, m->ws.q),
                                      .qkv = at(m, m->ws.qkv),
                                      .q_norm = w->q_norm,
                                      .k_norm = w->k_norm,
                                      .norm_eps = hp->norm_eps,
                                      .table = at(m, m->ws.rope),
                                      .n_tokens = s->n_tokens,
                                      .rotary_dim = hp->rope.rotary_dim,
                                      .n_heads = hp->n_heads,
                                      .kv = s->kv,
                                      .layer = layer};
    lf_gemm_rope_append(m->attn, &qkv, &p);
}

/* The attention schedule for a layer's window. */
static int schedule_of(const struct lf_llama *m, int layer)
{
    int i = 0;
    while (m->windows[i] != m->hp->window[layer]) i++;
    return i;
}

static void attend(struct step *s, const struct lf_layer_weights *w, int layer, int schedule_idx, const void *q)
{
    const struct lf_llama *m = s->m;
    struct lf_attn_params p = {.out = at(m, m->ws.attn),
                               .q = q,
                               .kv = s->kv,
                               .layer = layer,
                               .scale = 1.0f / sqrtf((float)m->hp->head_dim),
                               .window = m->hp->window[layer]};
    lf_attn_run(m->attn, schedule_idx, &p);
    gemm_add(s, at(m, m->ws.attn), &w->out, w->out_bias, w->mlp_norm);
}

static void mlp(struct step *s, int layer)
{
    const struct lf_llama *m = s->m;
    const struct lf_layer_weights *w = &m->weights.layers[layer];
    const float *next_norm = layer + 1 < m->hp->n_layers ? w[1].attn_norm : NULL;
    struct lf_gemm_params p = norm_gemm_params(s, w->mlp_norm, at(m, m->ws.gate_up), &w->gate_up, w->gate_up_bias);
    s->ops->gemm_silu_mul(m->dev, &p, at(m, m->ws.act));
    gemm_add(s, at(m, m->ws.act), &w->down, w->down_bias, next_norm);
}

/* x has only the tokens that are wanted from here on. */
static void keep_wanted(struct step *s)
{
    float *kept = at(s->m, s->m->ws.x_out);
    gather(s, kept, s->x, s->m->hp->hidden, LF_F32);
    s->x = kept;
    s->n_tokens = s->n_out;
}

/* Narrows the step, behind the append of the last layer, to the tokens whose logits are wanted; returns their queries.
 */
static const void *narrow(struct step *s)
{
    const struct lf_llama *m = s->m;
    void *picked = at(m, m->ws.picked);
    gather(s, picked, at(m, m->ws.q), m->hp->n_heads * m->hp->head_dim, lf_device_info(m->dev)->act_dtype);
    keep_wanted(s);
    return picked;
}

/* All ops of a step, in order. */
static void launch(struct step *s)
{
    const struct lf_llama *m = s->m;
    const struct lf_hparams *hp = m->hp;
    struct lf_embed_params embed = {.out = s->x,
                                    .table = &m->weights.embed,
                                    .ids = at(m, m->ws.ids),
                                    .sampled = m->sampled,
                                    .n_tokens = s->n_tokens};
    s->ops->embed(m->dev, &embed);
    for (int layer = 0; layer < hp->n_layers; layer++) {
        const struct lf_layer_weights *w = &m->weights.layers[layer];
        const void *q = at(m, m->ws.q);
        int schedule_idx = schedule_of(m, layer);
        project_qkv(s, w, layer);
        if (layer == hp->n_layers - 1) {
            if (s->n_out == 0) return;
            if (s->narrows) {
                q = narrow(s);
                schedule_idx = SCHEDULE_TAIL;
            }
        }
        attend(s, w, layer, schedule_idx, q);
        mlp(s, layer);
    }
    if (s->n_tokens != s->n_out) keep_wanted(s);
    rmsnorm(s, m->weights.final_norm);
    struct lf_gemm_params head = head_params(s);
    s->ops->gemm(m->dev, &head);
}

/* ---- preparing ---- */

/* The tokens whose logits are wanted as sequences of their own: neighbours of one sequence stay together, each run ends
 * where its last token may look. Returns how many, or -1 where they are more than attention was made for. */
static int make_tail_seqs(const struct lf_llama *m, const struct lf_batch *batch)
{
    int n = 0, seq_idx = 0;
    for (int i = 0; i < batch->n_out; i++) {
        int token = batch->logits_idx[i];
        while (token >= batch->seqs[seq_idx].first_token + batch->seqs[seq_idx].n_tokens) seq_idx++;
        const struct lf_kv_seq *seq = &batch->seqs[seq_idx];
        int kv_len = seq->kv_len - (seq->first_token + seq->n_tokens - 1 - token);
        bool joins = i > 0 && batch->logits_idx[i - 1] == token - 1 && token > seq->first_token;
        if (joins) {
            m->tail_seqs[n - 1].n_tokens++;
            m->tail_seqs[n - 1].kv_len = kv_len;
            continue;
        }
        if (n == m->limits.max_seqs) return -1;
        /* The keys before a decode token are of earlier steps: attention may read them early. */
        LF_ASSERT(!seq->is_decode || token == seq->first_token);
        m->tail_seqs[n++] = (struct lf_kv_seq){
            .blocks = seq->blocks, .first_token = i, .n_tokens = 1, .kv_len = kv_len, .is_decode = seq->is_decode};
    }
    return n;
}

static void check_batch(const struct lf_llama *m, const struct lf_kv_view *kv, const struct lf_batch *b, int n_before)
{
    LF_ASSERT(b->n_tokens > 0 && b->n_tokens <= m->limits.chunk);
    LF_ASSERT(b->n_seqs > 0 && b->n_seqs <= m->limits.max_seqs);
    LF_ASSERT(b->n_out >= 0 && b->n_out <= m->limits.max_out);
    LF_ASSERT(kv->dtype == m->limits.kv_dtype && kv->n_layers == m->hp->n_layers);
    LF_ASSERT(kv->n_kv_heads == m->hp->n_kv_heads && kv->head_dim == m->hp->head_dim);
    int n_tokens = 0;
    for (int i = 0; i < b->n_seqs; i++) {
        const struct lf_kv_seq *seq = &b->seqs[i];
        LF_ASSERT(seq->first_token == n_tokens && seq->n_tokens > 0);
        LF_ASSERT(seq->kv_len >= seq->n_tokens && seq->kv_len <= m->limits.ctx);
        n_tokens += seq->n_tokens;
    }
    LF_ASSERT(n_tokens == b->n_tokens);
    for (int i = 0; i < b->n_tokens; i++) LF_ASSERT(b->ids[i] >= -n_before && b->ids[i] < m->hp->n_vocab);
    for (int i = 0; i < b->n_out; i++) {
        LF_ASSERT(b->logits_idx[i] >= 0 && b->logits_idx[i] < b->n_tokens);
        LF_ASSERT(i == 0 || b->logits_idx[i] > b->logits_idx[i - 1]);
    }
}

/* Makes attention's schedules for all layers and uploads the step's input; true where the last layer narrows. */
static bool prepare_step(const struct lf_llama *m, const struct lf_batch *b)
{
    for (int i = 0; i < m->n_windows; i++) lf_attn_schedule(m->attn, i, b->seqs, b->n_seqs, m->windows[i]);
    lf_upload(m->dev, at(m, m->ws.ids), b->ids, (size_t)b->n_tokens * sizeof(*b->ids));
    if (b->n_out == 0 || b->n_out == b->n_tokens) return false;
    lf_upload(m->dev, at(m, m->ws.logits_idx), b->logits_idx, (size_t)b->n_out * sizeof(*b->logits_idx));
    int n_tail = make_tail_seqs(m, b);
    if (n_tail < 0) return false;
    lf_attn_schedule(m->attn, SCHEDULE_TAIL, m->tail_seqs, n_tail, m->hp->window[m->hp->n_layers - 1]);
    return true;
}

static struct step step_init(const struct lf_llama *m, const struct lf_kv_view *kv, int n_tokens, int n_out)
{
    return (struct step){
        .m = m, .ops = lf_device_ops(m->dev), .kv = kv, .x = at(m, m->ws.x), .n_tokens = n_tokens, .n_out = n_out};
}

void lf_llama_run(struct lf_llama *m, const struct lf_kv_view *kv, const struct lf_batch *batch, int n_before)
{
    check_batch(m, kv, batch, n_before);
    struct step s = step_init(m, kv, batch->n_tokens, batch->n_out);
    s.narrows = prepare_step(m, batch);
    struct lf_graph *graph = lf_graphs_find(&m->graphs, batch);
    if (graph)
        lf_graph_launch(m->dev, graph);
    else
        launch(&s);
}

/* ---- what comes before the first step ---- */

/* All layers have the same shapes, so what holds and is ready for the first does for all. */
static void prepare_gemms(struct lf_llama *m)
{
    const struct lf_ops *ops = lf_device_ops(m->dev);
    const struct lf_layer_weights *w = &m->weights.layers[0];
    if (!ops->gemm_prepare) return;
    struct step s = step_init(m, NULL, m->limits.chunk, m->limits.max_out);
    const struct lf_gemm_params gemms[] = {
        gemm_params(&s, at(m, m->ws.qkv), at(m, m->ws.h), &w->qkv, w->qkv_bias),
        gemm_add_params(&s, at(m, m->ws.attn), &w->out, w->out_bias),
        gemm_params(&s, at(m, m->ws.gate_up), at(m, m->ws.h), &w->gate_up, w->gate_up_bias),
        gemm_add_params(&s, at(m, m->ws.act), &w->down, w->down_bias),
    };
    m->fused_norm_tokens = ops->fused_norm_tokens ? LF_FUSED_NORM_TOKENS : 0;
    for (size_t i = 0; i < LF_N_ELEMS(gemms); i++) {
        ops->gemm_prepare(m->dev, &gemms[i]);
        if (ops->fused_norm_tokens)
            m->fused_norm_tokens = LF_MIN(m->fused_norm_tokens, ops->fused_norm_tokens(m->dev, &gemms[i]));
    }
    s.n_tokens = m->limits.max_out;
    struct lf_gemm_params head = head_params(&s);
    ops->gemm_prepare(m->dev, &head);
}

static enum lf_status record(struct lf_llama *m, const struct lf_kv_view *kv, int n_tokens, struct lf_err *err)
{
    struct step s = step_init(m, kv, n_tokens, n_tokens);
    for (int i = 0; i < m->n_windows; i++) lf_attn_record(m->attn, i, m->windows[i]);
    launch(&s); /* once for real, so that recording meets nothing for the first time */
    LF_TRY(lf_device_sync(m->dev, err));
    if (!lf_graph_begin(m->dev)) return LF_OK;
    launch(&s);
    struct lf_graph *graph = lf_graph_end(m->dev);
    if (graph) lf_graphs_add(&m->graphs, graph, n_tokens);
    return lf_device_sync(m->dev, err);
}

enum lf_status lf_llama_prepare(struct lf_llama *m, const struct lf_kv_view *kv, struct lf_err *err)
{
    static const int32_t no_ids[LF_GRAPH_TOKENS];
    if (lf_device_info(m->dev)->is_host) return LF_OK;
    prepare_gemms(m);
    int sizes[LF_GRAPHS_N];
    int n = lf_graph_sizes(sizes, LF_MIN(LF_MIN(m->limits.max_seqs, m->limits.max_out), m->limits.chunk));
    /* Surplus tokens of a graph read ids too: there are valid ones from the start. */
    lf_upload(m->dev, at(m, m->ws.ids), no_ids, (size_t)sizes[n - 1] * sizeof(*no_ids));
    for (int i = 0; i < n; i++) LF_TRY(record(m, kv, sizes[i], err));
    return LF_OK;
}

void lf_llama_deinit(struct lf_llama *m)
{
    for (int i = 0; i < m->graphs.n; i++) lf_graph_destroy(m->dev, m->graphs.of[i].graph);
    m->graphs.n = 0;
}
