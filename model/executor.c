#include "model/executor.h"

#include <math.h>

#include "core/check.h"
#include "core/clock.h"

/* ---- preparing ---- */

/* The tokens whose logits are wanted as sequences of their own: neighbours of one sequence stay together, each run ends
 * where its last token may look. Returns how many, or -1 where they are more than attention was made for. */
static int make_tail_seqs(const struct lf_executor *x, const struct lf_batch *batch)
{
    int n = 0, seq_idx = 0;
    for (int i = 0; i < batch->n_out; i++) {
        int token = batch->logits_idx[i];
        while (token >= batch->seqs[seq_idx].first_token + batch->seqs[seq_idx].n_tokens) seq_idx++;
        const struct lf_kv_seq *seq = &batch->seqs[seq_idx];
        int kv_len = seq->kv_len - (seq->first_token + seq->n_tokens - 1 - token);
        bool joins = i > 0 && batch->logits_idx[i - 1] == token - 1 && token > seq->first_token;
        if (joins) {
            x->tail_seqs[n - 1].n_tokens++;
            x->tail_seqs[n - 1].kv_len = kv_len;
            continue;
        }
        if (n == x->limits.max_seqs) return -1;
        /* The keys before a decode token are of earlier steps: attention may read them early. */
        LF_ASSERT(!seq->is_decode || token == seq->first_token);
        x->tail_seqs[n++] = (struct lf_kv_seq){.blocks = seq->blocks,
                                               .table_stride = seq->table_stride,
                                               .first_token = i,
                                               .n_tokens = 1,
                                               .kv_len = kv_len,
                                               .is_decode = seq->is_decode};
    }
    return n;
}

static bool has_states(const struct lf_executor *x)
{
    return x->kinds.layout.states.n_layers > 0;
}

/* The cache is laid out as the model thinks. */
static void use_cache(struct lf_executor *x, const struct lf_kv_cache *kv)
{
    const struct lf_kv_layout *layout = &x->kinds.layout;
    LF_ASSERT(kv->view.dtype == x->limits.kv_dtype && kv->n_groups == layout->n_groups);
    LF_ASSERT(lf_kv_block_bytes(&kv->view) == layout->block_bytes);
    for (int i = 0; i < kv->n_groups; i++) {
        x->views[i] = lf_kv_cache_view(kv, i);
        LF_ASSERT(x->views[i].n_layers == layout->groups[i].n_layers);
        LF_ASSERT(x->views[i].n_kv_heads == layout->groups[i].n_kv_heads);
        LF_ASSERT(x->views[i].head_dim == layout->groups[i].head_dim);
        LF_ASSERT(LF_MAX(x->views[i].stripe.n, 1) == lf_split_n_cp(&x->hp->split));
        LF_ASSERT(x->views[i].stripe.idx == x->hp->split.cp_rank);
    }
    LF_ASSERT(kv->states.n_layers == layout->states.n_layers && kv->states.layer_bytes == layout->states.layer_bytes);
    x->n_state_slots = kv->slots.n_blocks;
    for (int i = 0; i < kv->states.n_layers; i++) x->state_views[i] = lf_kv_cache_state_view(kv, i);
}

/* Whose state is where, and which marks are whose; what lf_state_step_make asserts is not asserted here. */
static void check_states(const struct lf_executor *x, const struct lf_batch *b)
{
    int n_marks = 0;
    LF_ASSERT((b->states != NULL) == has_states(x));
    if (!has_states(x)) return;
    LF_ASSERT(b->n_marks >= 0 && b->n_marks <= lf_batch_n_marks(x->limits.max_seqs));
    for (int i = 0; i < b->n_seqs; i++) {
        const struct lf_kv_seq *seq = &b->seqs[i];
        const struct lf_state_seq *s = &b->states[i];
        LF_ASSERT(s->first_token == seq->first_token && s->n_tokens == seq->n_tokens);
        LF_ASSERT(s->position == seq->kv_len - seq->n_tokens && (s->position == 0) == (s->in == -1));
        LF_ASSERT(s->in < x->n_state_slots && s->out >= 0 && s->out < x->n_state_slots);
        LF_ASSERT(s->n_marks == 0 || s->first_mark == n_marks);
        for (int m = 0; m < s->n_marks; m++) {
            const struct lf_state_mark *mark = &b->marks[n_marks++];
            LF_ASSERT(n_marks <= b->n_marks && mark->slot >= 0 && mark->slot < x->n_state_slots);
            LF_ASSERT(mark->slot != s->out);
        }
    }
    LF_ASSERT(n_marks == b->n_marks);
}

static void check_batch(const struct lf_executor *x, const struct lf_batch *b, int n_before)
{
    LF_ASSERT(b->n_tokens > 0 && b->n_tokens <= x->limits.chunk);
    LF_ASSERT(b->n_seqs > 0 && b->n_seqs <= x->limits.max_seqs);
    LF_ASSERT(b->n_out >= 0 && b->n_out <= x->limits.max_out);
    int n_tokens = 0;
    for (int i = 0; i < b->n_seqs; i++) {
        const struct lf_kv_seq *seq = &b->seqs[i];
        LF_ASSERT(seq->first_token == n_tokens && seq->n_tokens > 0);
        LF_ASSERT(seq->kv_len >= seq->n_tokens && seq->kv_len <= x->limits.ctx);
        n_tokens += seq->n_tokens;
    }
    LF_ASSERT(n_tokens == b->n_tokens);
    for (int i = 0; i < b->n_tokens; i++) LF_ASSERT(b->ids[i] >= -n_before && b->ids[i] < x->hp->n_vocab);
    for (int i = 0; i < b->n_out; i++) {
        LF_ASSERT(b->logits_idx[i] >= 0 && b->logits_idx[i] < b->n_tokens);
        LF_ASSERT(i == 0 || b->logits_idx[i] > b->logits_idx[i - 1]);
    }
    check_states(x, b);
}

/* Makes attention's schedules for all layers and uploads the step's input; returns which tokens the step's program is
 * for. */
static enum lf_wanted prepare_step(const struct lf_executor *x, const struct lf_batch *b)
{
    for (int i = 0; i < x->kinds.n; i++) {
        const struct lf_layer_kind *k = &x->kinds.of[i];
        lf_attn_schedule(x->attn[k->shape_idx], k->schedule_idx, b->seqs, b->n_seqs, k->attn);
    }
    lf_upload(x->dev, x->base + x->ws.ids, b->ids, (size_t)b->n_tokens * sizeof(*b->ids));
    if (b->n_out == 0) return LF_WANTED_NONE;
    if (b->n_out == b->n_tokens) return LF_WANTED_ALL;
    lf_upload(x->dev, x->base + x->ws.logits_idx, b->logits_idx, (size_t)b->n_out * sizeof(*b->logits_idx));
    int n_tail = make_tail_seqs(x, b);
    if (n_tail < 0) return LF_WANTED_SEVERAL;
    for (int i = 0; i < x->kinds.n; i++) {
        const struct lf_layer_kind *k = &x->kinds.of[i];
        if (k->tail_idx != LF_NONE) lf_attn_schedule(x->attn[k->shape_idx], k->tail_idx, x->tail_seqs, n_tail, k->attn);
    }
    return LF_WANTED_SOME;
}

static struct lf_step step_init(const struct lf_executor *x, enum lf_wanted wanted, int n_tokens, int n_out)
{
    return (struct lf_step){.dev = x->dev,
                            .attn = x->attn,
                            .kinds = &x->kinds,
                            .program = &x->programs.of[wanted],
                            .weights = x->weights.of,
                            .base = x->base,
                            .ws = &x->ws,
                            .fused_norm_tokens = x->fused_norm_tokens[wanted],
                            .sampled = x->sampled,
                            .kv = x->views,
                            .states = x->state_views,
                            .n_tokens = n_tokens,
                            .n_out = n_out,
                            .most_tokens = x->limits.chunk,
                            .first_own = lf_split_first_row(n_tokens, &x->hp->split),
                            .n_own = lf_split_n_rows(n_tokens, &x->hp->split),
                            .split = &x->hp->split,
                            .comm = x->tp,
                            .cp = x->cp};
}

/* A list of the host's goes to its place in the workspace, and *list there. */
#define UPLOAD_LIST(x, list, offset, n)                                                                                \
    do {                                                                                                               \
        if ((n) > 0) lf_upload((x)->dev, (x)->base + (offset), list, (size_t)(n) * sizeof(*(list)));                   \
        (list) = (const void *)((x)->base + (offset));                                                                 \
    } while (0)

/* The lists of a GPU's step are uploaded; all places of sequences are, for a graph may look at more than the batch has.
 */
static void upload_states(const struct lf_executor *x, struct lf_state_step *s, int n_marks)
{
    const struct lf_workspace_states *ws = &x->ws.states;
    int n_seqs = x->limits.max_seqs;
    for (int i = 0; i < n_seqs; i++) x->state_seqs[i] = i < s->n_seqs ? s->seqs[i] : (struct lf_state_seq){.in = -1};
    s->seqs = x->state_seqs;
    UPLOAD_LIST(x, s->seqs, ws->seqs, n_seqs);
    UPLOAD_LIST(x, s->marks, ws->marks, n_marks);
    UPLOAD_LIST(x, s->chunks, ws->chunks, s->n_chunks);
    UPLOAD_LIST(x, s->long_seqs, ws->long_seqs, s->n_long);
    UPLOAD_LIST(x, s->first_chunks, ws->first_chunks, s->n_long > 0 ? s->n_long + 1 : 0);
}

/* What the batch does with states, where the device sees it. */
static void prepare_states(const struct lf_executor *x, const struct lf_batch *b, struct lf_state_step *out)
{
    if (!has_states(x)) return;
    lf_state_step_make(out, &x->state_arrays, b->states, b->n_seqs, b->marks);
    if (!lf_device_info(x->dev)->is_host) upload_states(x, out, b->n_marks);
}

/* Everything of a batch that a launch needs. */
static struct lf_step make_step(const struct lf_executor *x, const struct lf_batch *batch, enum lf_wanted *wanted)
{
    *wanted = prepare_step(x, batch);
    struct lf_step step = step_init(x, *wanted, batch->n_tokens, batch->n_out);
    prepare_states(x, batch, &step.state_step);
    return step;
}

void lf_executor_run(struct lf_executor *x, const struct lf_kv_cache *kv, const struct lf_batch *batch, int n_before)
{
    enum lf_wanted wanted;
    use_cache(x, kv);
    check_batch(x, batch, n_before);
    struct lf_step step = make_step(x, batch, &wanted);
    struct lf_graph *graph = lf_graphs_find(&x->graphs, &x->several, batch);
    if (graph)
        lf_graph_launch(x->dev, graph);
    else
        lf_interpret(&step);
}

enum lf_status lf_executor_profile(struct lf_executor *x, const struct lf_kv_cache *kv, const struct lf_batch *batch,
                                   int n_runs, enum lf_wanted *wanted, double *seconds, double *step_seconds,
                                   struct lf_err *err)
{
    use_cache(x, kv);
    check_batch(x, batch, 0);
    struct lf_step step = make_step(x, batch, wanted);
    for (int i = 0; i < step.program->n_ops; i++) seconds[i] = HUGE_VAL;
    *step_seconds = HUGE_VAL;
    for (int i = 0; i < n_runs; i++) LF_TRY(lf_interpret_timed(&step, seconds, err));
    for (int i = 0; i < n_runs; i++) {
        int64_t start = lf_clock_ns();
        lf_executor_run(x, kv, batch, 0);
        LF_TRY(lf_device_sync(x->dev, err));
        *step_seconds = LF_MIN(*step_seconds, (double)(lf_clock_ns() - start) / LF_NS_PER_S);
    }
    return LF_OK;
}

/* ---- what comes before the first step ---- */

/* What decides how a GEMM is computed, but for its tokens. */
static bool same_gemm(const struct lf_gemm_params *a, const struct lf_gemm_params *b)
{
    return a->w->n_out == b->w->n_out && a->w->n_in == b->w->n_in && lf_format_equal(&a->w->format, &b->w->format) &&
           a->y_float == b->y_float && !a->bias == !b->bias && !a->residual == !b->residual;
}

/* Whether an op before this one has a GEMM of the same shape. */
static bool is_prepared(const struct lf_step *s, int op_idx, const struct lf_gemm_params *p)
{
    for (int i = 0; i < op_idx; i++) {
        if (!lf_op_has_gemm(s->program->ops[i].kind)) continue;
        struct lf_gemm_params other = lf_step_gemm_params(s, &s->program->ops[i]);
        if (same_gemm(p, &other)) return true;
    }
    return false;
}

static bool has_fused_norm(const struct lf_op *op)
{
    return op->out[LF_OP_Y_SUM_SQUARES] != LF_NONE || op->in[LF_OP_X_SUM_SQUARES] != LF_NONE;
}

/* Each shape once, for as many tokens as it may have in such a step: other programs have no others. */
static void prepare_gemms_of(struct lf_executor *x, int n_tokens)
{
    const struct lf_ops *ops = lf_device_ops(x->dev);
    if (!ops->gemm_prepare) return;
    struct lf_step s = step_init(x, LF_WANTED_ALL, n_tokens, LF_MIN(n_tokens, x->limits.max_out));
    for (int i = 0; i < s.program->n_ops; i++) {
        if (!lf_op_has_gemm(s.program->ops[i].kind)) continue;
        struct lf_gemm_params p = lf_step_gemm_params(&s, &s.program->ops[i]);
        if (!is_prepared(&s, i, &p)) ops->gemm_prepare(x->dev, &p);
    }
}

/* Where ranks divide a step's rows, one that is just too small to be divided may have more of them for each. */
static void prepare_gemms(struct lf_executor *x)
{
    const struct lf_split *split = &x->hp->split;
    prepare_gemms_of(x, x->limits.chunk);
    if (lf_split_divides(x->limits.chunk, split))
        prepare_gemms_of(x, lf_split_rows_least(split) * lf_split_n_cp(split) - 1);
}

/* All ranks are here, and what they have asked their devices for before is done: nothing is made or loaded any more
 * while a collective of another one waits for this one. */
static enum lf_status meet(const struct lf_executor *x, struct lf_err *err)
{
    LF_TRY(lf_device_sync(x->dev, err));
    if (!x->comm) return LF_OK;
    lf_comm_meet(x->comm);
    return lf_comm_check(x->comm, err);
}

/* Up to how many tokens all that a program fuses can be. What one fuses another may not: where the last layer only
 * appends, one GEMM alone reads what several do elsewhere. */
static int find_fused_norm_tokens(const struct lf_executor *x, enum lf_wanted wanted)
{
    struct lf_step s = step_init(x, wanted, x->limits.chunk, x->limits.max_out);
    int n = x->tp ? lf_comm_norm_tokens(x->tp, x->hp->hidden) : LF_FUSED_NORM_TOKENS;
    for (int i = 0; i < s.program->n_ops; i++) {
        const struct lf_op *op = &s.program->ops[i];
        if (!lf_op_has_gemm(op->kind) || !has_fused_norm(op)) continue; /* others have other inputs there */
        struct lf_gemm_params p = lf_step_gemm_params(&s, op);
        n = LF_MIN(n, lf_device_ops(x->dev)->fused_norm_tokens(x->dev, &p));
    }
    return n;
}

/* A decode step of sequences that have no token: it looks at the places of all, and at nobody's slot. */
static struct lf_state_step idle_states(const struct lf_executor *x, int n_seqs)
{
    struct lf_state_step s;
    for (int i = 0; i < n_seqs; i++) x->state_seqs[i] = (struct lf_state_seq){.in = -1};
    lf_state_step_make(&s, &x->state_arrays, x->state_seqs, n_seqs, NULL);
    upload_states(x, &s, 0);
    return s;
}

/* Of n_tokens, about n_each of them a sequence. */
static enum lf_status record(struct lf_executor *x, struct lf_graphs *graphs, int n_tokens, int n_each,
                             struct lf_err *err)
{
    struct lf_step s = step_init(x, LF_WANTED_ALL, n_tokens, n_tokens);
    if (has_states(x)) s.state_step = idle_states(x, n_tokens);
    for (int i = 0; i < x->kinds.n; i++) {
        const struct lf_layer_kind *k = &x->kinds.of[i];
        lf_attn_record(x->attn[k->shape_idx], k->schedule_idx, k->attn, n_tokens, n_each);
    }
    LF_TRY(meet(x, err));
    lf_interpret(&s); /* once for real, so that recording meets nothing for the first time */
    LF_TRY(meet(x, err));
    if (!lf_graph_begin(x->dev)) return LF_OK;
    lf_interpret(&s);
    struct lf_graph *graph = lf_graph_end(x->dev);
    if (graph) lf_graphs_add(graphs, graph, n_tokens);
    return lf_device_sync(x->dev, err);
}

/* What other ranks of a context write into. */
static enum lf_status open_memory(const struct lf_executor *x, const struct lf_kv_cache *kv, struct lf_err *err)
{
    if (!x->cp) return LF_OK;
    LF_TRY(lf_comm_open(x->comm, x->base, (size_t)x->ws.total_bytes, err));
    return lf_comm_open(x->comm, kv->buffer.ptr, kv->buffer.bytes, err);
}

enum lf_status lf_executor_prepare(struct lf_executor *x, const struct lf_kv_cache *kv, struct lf_err *err)
{
    static const int32_t no_ids[LF_GRAPH_TOKENS];
    use_cache(x, kv);
    LF_TRY(open_memory(x, kv, err));
    prepare_gemms(x);
    for (int i = 0; i < LF_WANTED_N; i++) x->fused_norm_tokens[i] = find_fused_norm_tokens(x, (enum lf_wanted)i);
    if (lf_device_info(x->dev)->is_host) return LF_OK;
    int sizes[LF_GRAPHS_N];
    int most = LF_MIN(x->limits.max_out, x->limits.chunk), n_ids = LF_MIN(most, LF_GRAPH_TOKENS);
    int n = lf_graph_sizes(sizes, LF_MIN(x->limits.max_seqs, most));
    /* Surplus tokens of a graph read ids too: there are valid ones from the start. */
    lf_upload(x->dev, x->base + x->ws.ids, no_ids, (size_t)n_ids * sizeof(*no_ids));
    for (int i = 0; i < n; i++) LF_TRY(record(x, &x->graphs, sizes[i], 1, err));
    if (has_states(x)) return LF_OK; /* nothing is tried there */
    n = lf_graph_sizes(sizes, LF_MIN(most, LF_BATCH_FEW_TOKENS));
    for (int i = 1; i < n; i++) LF_TRY(record(x, &x->several, sizes[i], sizes[i], err));
    return LF_OK;
}

void lf_executor_deinit(struct lf_executor *x)
{
    for (int i = 0; i < x->graphs.n; i++) lf_graph_destroy(x->dev, x->graphs.of[i].graph);
    for (int i = 0; i < x->several.n; i++) lf_graph_destroy(x->dev, x->several.of[i].graph);
    x->graphs.n = x->several.n = 0;
}
