/* The public functions of attention: what holds on every device is checked here, the rest is the backend's. */
#include "attention/attention.h"

#include <string.h>

#include "attention/attn_impl.h"
#include "core/check.h"

static const struct lf_attn_backend *backend_of(const struct lf_device_info *info)
{
#ifdef LF_HAVE_CUDA
    if (!info->is_host) return &lf_attn_backend_cuda;
#endif
    LF_ASSERT(info->is_host);
    return &lf_attn_backend_cpu;
}

uint64_t lf_attn_workspace_bytes(const struct lf_attn_shape *shape, const struct lf_device_info *info)
{
    return backend_of(info)->workspace_bytes(shape, info);
}

static enum lf_status check_shape(const struct lf_attn_shape *s, struct lf_err *err)
{
    if (s->head_dim < LF_HEAD_DIM_STEP || s->head_dim > LF_HEAD_DIM || s->head_dim % LF_HEAD_DIM_STEP != 0)
        return lf_fail(err, LF_UNSUPPORTED, "attention: head_dim %d; expected a multiple of %d from %d to %d",
                       s->head_dim, (int)LF_HEAD_DIM_STEP, (int)LF_HEAD_DIM_STEP, (int)LF_HEAD_DIM);
    if (s->n_kv_heads < 1 || s->n_heads < s->n_kv_heads || s->n_heads % s->n_kv_heads != 0)
        return lf_fail(err, LF_INVALID, "attention: %d query heads are no multiple of %d KV heads", s->n_heads,
                       s->n_kv_heads);
    if (s->max_tokens < 1 || s->max_seqs < 1 || s->max_kv_len < 1 || s->max_window < 0)
        return lf_fail(
            err, LF_INVALID,
            "attention: room for %d tokens a step, %d sequences, %d keys, windows of %d; expected at least 1, "
            "of windows 0",
            s->max_tokens, s->max_seqs, s->max_kv_len, s->max_window);
    if (s->stripe.n < 0 || s->stripe.n > LF_RANKS_N || s->stripe.idx < 0 || s->stripe.idx >= LF_MAX(s->stripe.n, 1))
        return lf_fail(err, LF_INVALID, "attention: stripe %d of %d; expected 0 to n - 1 of at most %d", s->stripe.idx,
                       s->stripe.n, (int)LF_RANKS_N);
    if (s->n_schedules < 1 || s->n_schedules > LF_ATTN_SCHEDULES_N || s->n_groups < 1)
        return lf_fail(err, LF_INVALID, "attention: %d schedules, %d cache groups; expected 1 to %d, at least 1",
                       s->n_schedules, s->n_groups, (int)LF_ATTN_SCHEDULES_N);
    return LF_OK;
}

enum lf_status lf_attn_check(const struct lf_attn_shape *shape, const struct lf_device_info *info, struct lf_err *err)
{
    LF_TRY(check_shape(shape, err));
    return backend_of(info)->check(shape, info, err);
}

enum lf_status lf_attn_create(struct lf_attn **out, struct lf_device *dev, enum lf_isa isa,
                              const struct lf_attn_shape *shape, struct lf_buffer workspace, struct lf_err *err)
{
    const struct lf_device_info *info = lf_device_info(dev);
    LF_TRY(lf_attn_check(shape, info, err));
    const struct lf_attn_backend *backend = backend_of(info);
    uint64_t needed = backend->workspace_bytes(shape, info);
    if (workspace.bytes < needed)
        return lf_fail(err, LF_INVALID, "attention: workspace of %zu bytes; expected %llu", workspace.bytes,
                       (unsigned long long)needed);
    LF_ASSERT((uintptr_t)workspace.ptr % 64 == 0);
    struct lf_attn *attn;
    LF_TRY(backend->create(&attn, dev, isa, shape, workspace, err));
    attn->backend = backend;
    attn->dev = dev;
    attn->shape = *shape;
    *out = attn;
    return LF_OK;
}

void lf_attn_destroy(struct lf_attn *attn)
{
    if (attn != NULL) attn->backend->destroy(attn);
}

static void check_kind(const struct lf_attn *attn, int schedule_idx, struct lf_attn_kind kind)
{
    LF_ASSERT(schedule_idx >= 0 && schedule_idx < attn->shape.n_schedules);
    LF_ASSERT(kind.first_group >= 0 && kind.n_groups >= 1 && kind.n_groups <= attn->shape.n_groups);
    LF_ASSERT(attn->shape.max_window == 0 || (kind.window > 0 && kind.window <= attn->shape.max_window));
}

void lf_attn_schedule(struct lf_attn *attn, int schedule_idx, const struct lf_kv_seq *seqs, int n_seqs,
                      struct lf_attn_kind kind)
{
    const struct lf_attn_shape *shape = &attn->shape;
    int64_t n_tokens = 0;
    check_kind(attn, schedule_idx, kind);
    LF_ASSERT(n_seqs >= 0 && n_seqs <= shape->max_seqs);
    for (int i = 0; i < n_seqs; i++) {
        LF_ASSERT(seqs[i].first_token == n_tokens && seqs[i].n_tokens >= 1 && seqs[i].n_tokens <= seqs[i].kv_len);
        LF_ASSERT(seqs[i].kv_len <= shape->max_kv_len);
        n_tokens += seqs[i].n_tokens;
    }
    LF_ASSERT(n_tokens <= shape->max_tokens);
    attn->schedules[schedule_idx] = (struct lf_attn_schedule){
        .made = true, .seqs = seqs, .n_seqs = n_seqs, .n_tokens = (int)n_tokens, .kind = kind};
    attn->backend->schedule(attn, schedule_idx);
}

void lf_attn_record(struct lf_attn *attn, int schedule_idx, struct lf_attn_kind kind, int n_tokens, int n_each)
{
    LF_ASSERT(n_each >= 1 && n_tokens >= n_each && n_tokens <= attn->shape.max_tokens);
    check_kind(attn, schedule_idx, kind);
    attn->schedules[schedule_idx] =
        (struct lf_attn_schedule){.made = true, .n_tokens = n_tokens, .kind = kind, .records = n_each};
    attn->backend->schedule(attn, schedule_idx);
}

/* The cache is one that the object was made for, and the schedule is for its layers. */
static void check_view(const struct lf_attn *attn, int schedule_idx, const struct lf_kv_view *kv)
{
    const struct lf_attn_kind *kind = &attn->schedules[schedule_idx].kind;
    LF_ASSERT(attn->schedules[schedule_idx].made);
    LF_ASSERT(kv->group >= kind->first_group && kv->group < kind->first_group + kind->n_groups);
    LF_ASSERT(kv->head_dim == attn->shape.head_dim && kv->n_kv_heads == attn->shape.n_kv_heads);
    LF_ASSERT(kv->dtype == attn->shape.kv_dtype && (uintptr_t)kv->base % 64 == 0);
    LF_ASSERT(kv->stripe.idx == attn->shape.stripe.idx &&
              lf_kv_block_tokens(kv->stripe.n) == lf_kv_block_tokens(attn->shape.stripe.n));
    LF_ASSERT(kv->block_pages >= lf_kv_layers_pages(kv));
}

void lf_attn_run(struct lf_attn *attn, int schedule_idx, const struct lf_attn_params *p)
{
    int window = attn->schedules[schedule_idx].kind.window;
    check_view(attn, schedule_idx, p->kv);
    LF_ASSERT(window == 0 || p->window == window);
    LF_ASSERT(p->owners.n == 0 || (p->lse && p->kv->stripe.n > 1 && !lf_device_info(attn->dev)->is_host));
    attn->backend->run(attn, schedule_idx, p);
}

void lf_rope_append(struct lf_attn *attn, const struct lf_rope_append_params *p)
{
    check_view(attn, p->schedule_idx, p->kv);
    LF_ASSERT(p->peers.n > 0 || p->n_tokens >= attn->schedules[p->schedule_idx].n_tokens);
    LF_ASSERT(p->peers.n > 0 ? p->kv->stripe.n == p->peers.n && !lf_device_info(attn->dev)->is_host
                             : p->first_row == 0);
    attn->backend->rope_append(attn, p);
}

void lf_gemm_rope_append(struct lf_attn *attn, const struct lf_gemm_params *gemm, const struct lf_rope_append_params *p)
{
    check_view(attn, p->schedule_idx, p->kv);
    LF_ASSERT(p->n_tokens >= attn->schedules[p->schedule_idx].n_tokens);
    LF_ASSERT(!gemm->residual && !gemm->norm.h && !p->q_only && p->peers.n == 0);
    LF_ASSERT(gemm->y == p->qkv && gemm->n_tokens == p->n_tokens && gemm->y_stride == gemm->w->n_out && !gemm->y_float);
    LF_ASSERT(gemm->w->n_out == (p->n_heads + (p->v_of_k ? 1 : 2) * p->kv->n_kv_heads) * p->kv->head_dim);
    if (attn->backend->gemm_rope_append && attn->backend->gemm_rope_append(attn, gemm, p)) return;
    lf_device_ops(attn->dev)->gemm(attn->dev, gemm);
    lf_rope_append(attn, p);
}
