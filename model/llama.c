/* One step, top to bottom (Touvron et al. 2023, §2.2, is the architecture):
 *
 *     x = embed(ids)
 *     each layer:   h = rmsnorm(x);  qkv = h·Wqkvᵀ;  q, K, V = rope(qkv), K and V appended to the cache
 *                   x += attention(q, K, V)·Woᵀ
 *                   h = rmsnorm(x);  x += (silu(gate) · up)·Wdownᵀ    with [gate, up] = h·Wguᵀ
 *     logits = rmsnorm(x[out rows])·Wheadᵀ
 *
 * In the last layer only the rows whose logits are wanted go on behind the append: nobody reads the others' output. A
 * chunk in the middle of a prompt has no such row, so its last layer ends with the append; the last chunk computes one
 * row there instead of hundreds. Since a row's bits depend on its own position and keys only, this changes nothing.
 *
 * Every buffer is a piece of the workspace (workspace.h draws it); a step allocates nothing. */
#include "model/llama.h"

#include <math.h>

#include "attention/rope.h"
#include "core/check.h"

/* What the layers of one step share. Rows and sequences shrink in the last layer. */
struct step {
    struct lf_llama *m;
    const struct lf_ops *ops;
    const struct lf_kv_view *kv;
    void *x, *h; /* the residual stream and its norm */
    int n_rows;
    const struct lf_kv_seq *seqs;
    int n_seqs;
    int planned_window; /* of the attention plan in force; -1: none */
};

static void *at(const struct lf_llama *m, uint64_t offset)
{
    return m->base + offset;
}

/* y = x·wᵀ + bias + residual over the step's rows, dense. */
static void gemm(const struct step *s, void *y, const void *x, const struct lf_weight *w, const float *bias,
                 const void *residual)
{
    struct lf_gemm_params p = {.y = y,
                               .x = x,
                               .w = w,
                               .bias = bias,
                               .residual = residual,
                               .n_rows = s->n_rows,
                               .x_stride = w->n_in,
                               .y_stride = w->n_out,
                               .scratch = at(s->m, s->m->ws.scratch)};
    s->ops->gemm(s->m->dev, &p);
}

static void rmsnorm(const struct step *s, void *out, const void *x, const float *weight)
{
    const struct lf_hparams *hp = s->m->hp;
    struct lf_rmsnorm_params p = {
        .out = out, .x = x, .weight = weight, .eps = hp->norm_eps, .n_rows = s->n_rows, .dim = hp->hidden};
    s->ops->rmsnorm(s->m->dev, &p);
}

static void gather(const struct step *s, void *out, const void *x, const struct lf_batch *batch, int dim)
{
    struct lf_gather_params p = {.out = out, .x = x, .rows = batch->out_rows, .n_rows = batch->n_out, .dim = dim};
    s->ops->gather(s->m->dev, &p);
}

/* Norm, QKV, rotation; K and V of all rows are in the cache afterwards. */
static void project_qkv(const struct step *s, const struct lf_layer_weights *w, int layer)
{
    const struct lf_llama *m = s->m;
    const struct lf_hparams *hp = m->hp;
    rmsnorm(s, s->h, s->x, w->attn_norm);
    gemm(s, at(m, m->ws.qkv), s->h, &w->qkv, w->qkv_bias, NULL);
    struct lf_rope_append_params p = {.q_out = at(m, m->ws.q),
                                      .qkv = at(m, m->ws.qkv),
                                      .q_norm = w->q_norm,
                                      .k_norm = w->k_norm,
                                      .norm_eps = hp->norm_eps,
                                      .table = at(m, m->ws.rope),
                                      .rotary_dim = hp->rope.rotary_dim,
                                      .n_heads = hp->n_heads,
                                      .kv = s->kv,
                                      .layer = layer,
                                      .seqs = s->seqs,
                                      .n_seqs = s->n_seqs};
    lf_rope_append(m->dev, &p);
}

static void attend(struct step *s, const struct lf_layer_weights *w, int layer, const void *q)
{
    const struct lf_llama *m = s->m;
    int window = m->hp->window[layer];
    if (window != s->planned_window) {
        lf_attn_plan(m->attn, s->seqs, s->n_seqs, window);
        s->planned_window = window;
    }
    struct lf_attn_params p = {.out = at(m, m->ws.attn),
                               .q = q,
                               .kv = s->kv,
                               .layer = layer,
                               .scale = 1.0f / sqrtf((float)m->hp->head_dim),
                               .window = window};
    lf_attn_run(m->attn, &p);
    gemm(s, s->x, at(m, m->ws.attn), &w->out, w->out_bias, s->x);
}

static void mlp(const struct step *s, const struct lf_layer_weights *w)
{
    const struct lf_llama *m = s->m;
    rmsnorm(s, s->h, s->x, w->mlp_norm);
    gemm(s, at(m, m->ws.gate_up), s->h, &w->gate_up, w->gate_up_bias, NULL);
    struct lf_silu_mul_params p = {
        .out = at(m, m->ws.act), .gate_up = at(m, m->ws.gate_up), .n_rows = s->n_rows, .dim = m->hp->intermediate};
    s->ops->silu_mul(m->dev, &p);
    gemm(s, s->x, at(m, m->ws.act), &w->down, w->down_bias, s->x);
}

/* The out rows as sequences of their own: neighbours of one sequence stay together, each run ends where its last row
 * may look. Returns how many, or -1 where they are more than attention was made for. */
static int make_tail_seqs(const struct lf_llama *m, const struct lf_batch *batch)
{
    int n = 0, seq_idx = 0;
    for (int i = 0; i < batch->n_out; i++) {
        int row = batch->out_rows[i];
        while (row >= batch->seqs[seq_idx].first_row + batch->seqs[seq_idx].n_rows) seq_idx++;
        const struct lf_kv_seq *seq = &batch->seqs[seq_idx];
        int kv_len = seq->kv_len - (seq->first_row + seq->n_rows - 1 - row);
        bool joins = i > 0 && batch->out_rows[i - 1] == row - 1 && row > seq->first_row;
        if (joins) {
            m->tail_seqs[n - 1].n_rows++;
            m->tail_seqs[n - 1].kv_len = kv_len;
            continue;
        }
        if (n == m->limits.max_seqs) return -1;
        m->tail_seqs[n++] = (struct lf_kv_seq){.blocks = seq->blocks, .first_row = i, .n_rows = 1, .kv_len = kv_len};
    }
    return n;
}

/* The rows of x that are wanted, and no other, go on. */
static void keep_out_rows(struct step *s, const struct lf_batch *batch)
{
    gather(s, s->h, s->x, batch, s->m->hp->hidden);
    void *x = s->x;
    s->x = s->h;
    s->h = x;
    s->n_rows = batch->n_out;
}

static void check_batch(const struct lf_llama *m, const struct lf_kv_view *kv, const struct lf_batch *b)
{
    LF_ASSERT(b->n_rows > 0 && b->n_rows <= m->limits.chunk);
    LF_ASSERT(b->n_seqs > 0 && b->n_seqs <= m->limits.max_seqs);
    LF_ASSERT(b->n_out >= 0 && b->n_out <= m->limits.max_out);
    LF_ASSERT(kv->dtype == m->limits.kv_dtype && kv->n_layers == m->hp->n_layers);
    LF_ASSERT(kv->n_kv_heads == m->hp->n_kv_heads && kv->head_dim == m->hp->head_dim);
    int row = 0;
    for (int i = 0; i < b->n_seqs; i++) {
        const struct lf_kv_seq *seq = &b->seqs[i];
        LF_ASSERT(seq->first_row == row && seq->n_rows > 0);
        LF_ASSERT(seq->kv_len >= seq->n_rows && seq->kv_len <= m->limits.ctx);
        row += seq->n_rows;
    }
    LF_ASSERT(row == b->n_rows);
    for (int i = 0; i < b->n_rows; i++) LF_ASSERT(b->ids[i] >= 0 && b->ids[i] < m->hp->n_vocab);
    for (int i = 0; i < b->n_out; i++) {
        LF_ASSERT(b->out_rows[i] >= 0 && b->out_rows[i] < b->n_rows);
        LF_ASSERT(i == 0 || b->out_rows[i] > b->out_rows[i - 1]);
    }
}

/* Behind the append of the last layer: narrows the step to the out rows where that is possible, and returns the queries
 * to go on with. */
static const void *narrow(struct step *s, const struct lf_batch *batch)
{
    const struct lf_llama *m = s->m;
    void *q = at(m, m->ws.q);
    if (batch->n_out == s->n_rows) return q;
    int n_seqs = make_tail_seqs(m, batch);
    if (n_seqs < 0) return q;
    void *picked = at(m, m->ws.picked);
    gather(s, picked, q, batch, m->hp->n_heads * m->hp->head_dim);
    keep_out_rows(s, batch);
    s->seqs = m->tail_seqs;
    s->n_seqs = n_seqs;
    s->planned_window = -1;
    return picked;
}

void lf_llama_step(struct lf_llama *m, const struct lf_kv_view *kv, const struct lf_batch *batch, float *logits)
{
    const struct lf_hparams *hp = m->hp;
    check_batch(m, kv, batch);
    struct step s = {.m = m,
                     .ops = lf_device_ops(m->dev),
                     .kv = kv,
                     .x = at(m, m->ws.x),
                     .h = at(m, m->ws.h),
                     .n_rows = batch->n_rows,
                     .seqs = batch->seqs,
                     .n_seqs = batch->n_seqs,
                     .planned_window = -1};
    struct lf_embed_params embed = {.out = s.x, .table = &m->weights.embed, .ids = batch->ids, .n_rows = batch->n_rows};
    s.ops->embed(m->dev, &embed);
    for (int layer = 0; layer < hp->n_layers; layer++) {
        const struct lf_layer_weights *w = &m->weights.layers[layer];
        const void *q = at(m, m->ws.q);
        project_qkv(&s, w, layer);
        if (layer == hp->n_layers - 1) {
            if (batch->n_out == 0) return;
            q = narrow(&s, batch);
        }
        attend(&s, w, layer, q);
        mlp(&s, w);
    }
    if (s.n_rows != batch->n_out) keep_out_rows(&s, batch);
    rmsnorm(&s, s.h, s.x, m->weights.final_norm);
    gemm(&s, at(m, m->ws.logits), s.h, &m->weights.head, NULL, NULL);
    size_t n_logits = (size_t)batch->n_out * (size_t)hp->n_vocab;
    lf_download(m->dev, logits, at(m, m->ws.logits), n_logits * sizeof(float));
}
