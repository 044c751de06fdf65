/* Attention on a GPU, host side: the workspace, the upload of a step's lists, the launches.
 *
 * Each schedule has its own task lists in the workspace, and the tables of its cache groups; schedules are uploaded
 * before the step's first kernel and stay until the next step. What runs is known on the host too: a kernel without
 * tasks is not launched, and a grid is no larger than its list. Only where a graph is recorded (an empty schedule)
 * everything a decode step can need is launched; decode's grid then fills the GPU.
 *
 * The kernels are chosen once, by head_dim: the portable ones (mma.sync), but for prefill Hopper's own where it takes
 * it, and past 256 attn_wide.cu for both kinds of tokens. */
#include <stdlib.h>
#include <string.h>

#include "attention/cuda/attn_cuda.h"
#include "attention/attn_impl.h"
#include "attention/cuda/attn_map.h"
#include "attention/cuda/rope_cuda.h"
#include "core/check.h"
#include "device/cuda/cuda.h"

enum {
    COMBINE_SHARE = 16
}; /* in a recorded graph, multiprocessors for each tile that the combine kernel's grid is made for */

/* Where the arrays of a schedule, and then of the workspace, begin: bytes, each a multiple of 256. */
struct layout {
    uint64_t counts, seqs, tables, prefill, decode, combine, wave_counts, schedule_bytes; /* in a schedule */
    uint64_t partial_o, partial_ml, scratch, expanded, own_table, total;                  /* behind the schedules */
    uint64_t group_tables; /* entries, from the tables of a cache group to the next's */
};

typedef int launcher_fn(const struct lf_attn_cuda_args *args, void *stream);

struct attn_cuda {
    struct lf_attn base;
    struct lf_attn_map map; /* of the schedule made last; its counts are kept below */
    struct lf_attn_cuda_counts counts[LF_ATTN_SCHEDULES_N];
    int n_combine_prefill[LF_ATTN_SCHEDULES_N];
    int decode_rows[LF_ATTN_SCHEDULES_N]; /* most query rows of a decode task */
    struct layout layout;
    struct lf_attn_wave *waves[LF_ATTN_SCHEDULES_N]; /* owned, [max_seqs] each; where prefill expands pages */
    int n_waves[LF_ATTN_SCHEDULES_N];
    char *workspace; /* device, borrowed */
    launcher_fn *prefill, *decode;
    int n_sms;
    bool fp16, has_qkv;
    bool expands; /* lf_attn_expands */
};

static uint64_t reserve(uint64_t *at, uint64_t n)
{
    uint64_t offset = *at;
    *at += (n + 255) / 256 * 256;
    return offset;
}

/* What the kernels that take this head_dim want, at most. */
static size_t scratch_bytes(int head_dim, int n_sms)
{
    if (lf_attn_wide_supports(head_dim)) return lf_attn_wide_scratch_bytes(head_dim, n_sms);
    size_t prefill =
        LF_MAX(lf_attn_prefill_mma_scratch_bytes(head_dim, n_sms), lf_attn_prefill_sm90_scratch_bytes(head_dim, n_sms));
    return LF_MAX(prefill, lf_attn_decode_mma_scratch_bytes(head_dim, n_sms));
}

static void layout_init(struct layout *l, const struct lf_attn_shape *s, int n_sms)
{
    struct lf_attn_map_caps caps;
    lf_attn_map_caps(&caps, s, n_sms);
    uint64_t at = 0, task_bytes = sizeof(struct lf_attn_cuda_task), rows = (uint64_t)caps.n_partial_rows;
    l->counts = reserve(&at, sizeof(struct lf_attn_cuda_counts));
    l->seqs = reserve(&at, (uint64_t)caps.n_seqs * sizeof(struct lf_attn_cuda_seq));
    l->group_tables = (uint64_t)caps.n_tables;
    l->tables = reserve(&at, (uint64_t)s->n_groups * l->group_tables * sizeof(int32_t));
    l->prefill = reserve(&at, (uint64_t)caps.n_prefill * task_bytes);
    l->decode = reserve(&at, (uint64_t)caps.n_decode * task_bytes);
    l->combine = reserve(&at, (uint64_t)caps.n_combine * sizeof(struct lf_attn_cuda_combine));
    uint64_t n_waves = caps.n_wave_pages > 0 ? (uint64_t)caps.n_seqs : 0, pages = (uint64_t)caps.n_wave_pages;
    l->wave_counts = reserve(&at, n_waves * sizeof(struct lf_attn_cuda_counts));
    l->schedule_bytes = at;
    at *= (uint64_t)s->n_schedules;
    l->partial_o = reserve(&at, rows * (uint64_t)s->head_dim * sizeof(float));
    l->partial_ml = reserve(&at, rows * 2 * sizeof(float));
    l->scratch = reserve(&at, scratch_bytes(s->head_dim, n_sms));
    l->expanded = reserve(&at, pages * 2 * (uint64_t)s->n_kv_heads * lf_kv_page_bytes_of(LF_BF16, s->head_dim));
    l->own_table = reserve(&at, pages * sizeof(int32_t));
    l->total = at;
}

static enum lf_status check(const struct lf_attn_shape *shape, const struct lf_device_info *info, struct lf_err *err)
{
    int group = shape->n_heads / shape->n_kv_heads;
    if (shape->stripe.n > 1 && info->act_dtype != LF_BF16)
        return lf_fail(err, LF_UNSUPPORTED,
                       "attention on a GPU: stripe %d of %d with activations of type %s; contexts are divided with %s",
                       shape->stripe.idx, shape->stripe.n, lf_dtype_name(info->act_dtype), lf_dtype_name(LF_BF16));
    if (!lf_attn_decode_mma_supports(shape->head_dim) && !lf_attn_wide_supports(shape->head_dim))
        return lf_fail(err, LF_UNSUPPORTED, "attention on a GPU: head_dim %d; expected a multiple of 8 from 8 to %d",
                       shape->head_dim, (int)LF_ATTN_CUDA_HEAD_DIM);
    if (shape->kv_dtype == LF_E4M3 && shape->head_dim % LF_ATTN_FP8_UNIT != 0)
        return lf_fail(
            err, LF_UNSUPPORTED,
            "attention on a GPU: a KV cache in %s of a model with head_dim %d; expected a multiple of %d, or "
            "a cache in %s",
            lf_dtype_name(LF_E4M3), shape->head_dim, (int)LF_ATTN_FP8_UNIT, lf_dtype_name(info->act_dtype));
    if (shape->kv_dtype != info->act_dtype && !(shape->kv_dtype == LF_E4M3 && info->act_dtype == LF_BF16))
        return lf_fail(err, LF_UNSUPPORTED, "attention on a GPU: KV of type %s with activations of type %s",
                       lf_dtype_name(shape->kv_dtype), lf_dtype_name(info->act_dtype));
    if (group > LF_ATTN_PREFILL_ROWS)
        return lf_fail(err, LF_UNSUPPORTED, "attention on a GPU: %d query heads share a KV head; at most %d may", group,
                       (int)LF_ATTN_PREFILL_ROWS);
    return LF_OK;
}

static uint64_t workspace_bytes(const struct lf_attn_shape *shape, const struct lf_device_info *info)
{
    struct layout l;
    layout_init(&l, shape, info->n_sms);
    return l.total;
}

static void choose_decode(struct attn_cuda *a, struct lf_device *dev, const struct lf_attn_shape *shape)
{
    bool fp8 = shape->kv_dtype == LF_E4M3;
    if (shape->stripe.n > 1) {
        a->decode = lf_attn_decode_stripe;
        lf_cuda_check(dev, lf_attn_decode_stripe_setup(fp8), "attention's decode kernel");
    } else {
        a->decode = fp8 ? lf_attn_decode_fp8 : lf_attn_decode_mma;
        lf_cuda_check(dev, fp8 ? lf_attn_decode_fp8_setup() : lf_attn_decode_mma_setup(), "attention's decode kernel");
    }
}

/* Chooses the kernels and has them loaded. */
static enum lf_status choose_kernels(struct attn_cuda *a, struct lf_device *dev, const struct lf_attn_shape *shape,
                                     struct lf_err *err)
{
    int head_dim = shape->head_dim;
    bool striped = shape->stripe.n > 1;
    if (lf_attn_wide_supports(head_dim)) {
        a->prefill = lf_attn_prefill_wide;
        a->decode = lf_attn_decode_wide;
        lf_cuda_check(dev, striped ? lf_attn_wide_stripe_setup() : lf_attn_wide_setup(), "attention's kernel");
    } else if (lf_device_info(dev)->sm == 90 && lf_attn_prefill_sm90_supports(head_dim)) {
        a->prefill = lf_attn_prefill_sm90;
        lf_cuda_check(dev, striped ? lf_attn_prefill_sm90_stripe_setup() : lf_attn_prefill_sm90_setup(),
                      "attention's prefill kernel");
    } else {
        a->prefill = lf_attn_prefill_mma;
        lf_cuda_check(dev, striped ? lf_attn_prefill_mma_stripe_setup() : lf_attn_prefill_mma_setup(),
                      "attention's prefill kernel");
    }
    if (!a->decode) choose_decode(a, dev, shape);
    lf_cuda_check(dev, lf_attn_combine_prefill_setup(), "attention's combine kernel");
    lf_cuda_check(dev, striped ? lf_rope_append_cuda_stripe_setup() : lf_rope_append_cuda_setup(), "RoPE's kernel");
    lf_cuda_check(dev, lf_qkv_cuda_setup(&a->has_qkv), "RoPE's kernel");
    lf_cuda_check(dev, lf_attn_combine_decode_setup(), "attention's combine kernel");
    if (a->expands) lf_cuda_check(dev, lf_attn_expand_setup(), "attention's kernel for FP8");
    return lf_device_sync(dev, err);
}

static void destroy(struct lf_attn *attn)
{
    struct attn_cuda *a = (struct attn_cuda *)attn;
    lf_attn_map_deinit(&a->map);
    for (int i = 0; i < LF_ATTN_SCHEDULES_N; i++) free(a->waves[i]);
    free(a);
}

/* What prefill by waves needs beside the map. */
static enum lf_status make_waves(struct attn_cuda *a, struct lf_device *dev, const struct lf_attn_shape *shape,
                                 struct lf_err *err)
{
    if (!a->expands) return LF_OK;
    size_t pages = (size_t)a->map.caps.n_wave_pages;
    int32_t *own_table = malloc(pages * sizeof *own_table);
    bool has_all = own_table != NULL;
    for (int i = 0; i < shape->n_schedules; i++) {
        a->waves[i] = calloc((size_t)shape->max_seqs, sizeof *a->waves[i]);
        has_all = has_all && a->waves[i];
    }
    for (size_t i = 0; i < pages && has_all; i++) own_table[i] = (int32_t)i;
    if (has_all) lf_upload(dev, a->workspace + a->layout.own_table, own_table, pages * sizeof *own_table);
    free(own_table);
    return has_all ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for attention's task lists");
}

static enum lf_status create(struct lf_attn **out, struct lf_device *dev, enum lf_isa isa,
                             const struct lf_attn_shape *shape, struct lf_buffer workspace, struct lf_err *err)
{
    (void)isa;
    const struct lf_device_info *info = lf_device_info(dev);
    struct attn_cuda *a = calloc(1, sizeof *a);
    if (!a) return lf_fail(err, LF_NO_MEMORY, "attention: %zu bytes", sizeof *a);
    a->n_sms = info->n_sms;
    a->fp16 = info->act_dtype == LF_F16;
    a->workspace = workspace.ptr;
    layout_init(&a->layout, shape, a->n_sms);
    a->expands = lf_attn_expands(shape);
    enum lf_status status = choose_kernels(a, dev, shape, err);
    if (status == LF_OK) status = lf_attn_map_init(&a->map, shape, a->n_sms, err);
    if (status == LF_OK) status = make_waves(a, dev, shape, err);
    static const char zeros[LF_ATTN_SCRATCH_HEAD];
    if (status == LF_OK) lf_upload(dev, a->workspace + a->layout.scratch, zeros, sizeof zeros);
    if (status != LF_OK) {
        destroy(&a->base);
        return status;
    }
    *out = &a->base;
    return LF_OK;
}

static void *part(const struct attn_cuda *a, int schedule_idx, uint64_t offset)
{
    return a->workspace + a->layout.schedule_bytes * (uint64_t)schedule_idx + offset;
}

static void upload(const struct attn_cuda *a, int schedule_idx, uint64_t offset, const void *src, int n, size_t size)
{
    if (n > 0) lf_upload(a->base.dev, part(a, schedule_idx, offset), src, (size_t)n * size);
}

/* Keeps the map's waves, and gives the prefill kernel each one's number of tasks. */
static void upload_waves(struct attn_cuda *a, int schedule_idx)
{
    struct lf_attn_cuda_counts counts = a->map.counts;
    uint64_t at = a->layout.wave_counts;
    a->n_waves[schedule_idx] = a->map.n_waves;
    for (int i = 0; i < a->map.n_waves; i++, at += sizeof counts) {
        a->waves[schedule_idx][i] = a->map.waves[i];
        counts.n_prefill = a->map.waves[i].n_tasks;
        upload(a, schedule_idx, at, &counts, 1, sizeof counts);
    }
}

static void schedule(struct lf_attn *attn, int schedule_idx)
{
    struct attn_cuda *a = (struct attn_cuda *)attn;
    const struct lf_attn_schedule *p = &attn->schedules[schedule_idx];
    const struct lf_attn_map *map = &a->map;
    const struct layout *l = &a->layout;
    lf_attn_map_build(&a->map, p->seqs, p->n_seqs, p->kind.window);
    a->counts[schedule_idx] = map->counts;
    a->n_combine_prefill[schedule_idx] = map->n_combine_prefill;
    int group = map->n_heads / map->n_kv_heads;
    a->decode_rows[schedule_idx] = LF_MAX(group, LF_MIN(group * p->records, LF_ATTN_DECODE_ROWS));
    for (int i = 0; i < map->counts.n_decode; i++)
        a->decode_rows[schedule_idx] = LF_MAX(a->decode_rows[schedule_idx], map->decode[i].n_rows);
    upload(a, schedule_idx, l->counts, &map->counts, 1, sizeof map->counts);
    upload(a, schedule_idx, l->seqs, map->seqs, map->counts.n_seqs, sizeof *map->seqs);
    for (int i = 0; i < p->kind.n_groups && p->records == 0; i++) {
        lf_attn_map_tables(&a->map, p->seqs, p->kind.first_group + i);
        upload(a, schedule_idx, l->tables + (uint64_t)i * l->group_tables * sizeof *map->tables, map->tables,
               map->n_tables, sizeof *map->tables);
    }
    upload(a, schedule_idx, l->prefill, map->prefill, map->counts.n_prefill, sizeof *map->prefill);
    upload(a, schedule_idx, l->decode, map->decode, map->counts.n_decode, sizeof *map->decode);
    upload(a, schedule_idx, l->combine, map->combine, map->counts.n_combine + map->n_combine_prefill,
           sizeof *map->combine);
    if (a->expands) upload_waves(a, schedule_idx);
}

/* The tables of a view's cache group. */
static const int32_t *tables_of(const struct attn_cuda *a, int schedule_idx, const struct lf_kv_view *kv)
{
    const int32_t *tables = part(a, schedule_idx, a->layout.tables);
    int i = kv->group - a->base.schedules[schedule_idx].kind.first_group;
    return tables + (uint64_t)i * a->layout.group_tables;
}

static int32_t fp8_page_bytes(const struct lf_kv_view *kv)
{
    return kv->dtype == LF_E4M3 ? (int32_t)lf_kv_page_bytes(kv) : 0;
}

static struct lf_attn_cuda_owners owners_of(const struct lf_attn_owners *o, int n_heads)
{
    struct lf_attn_cuda_owners owners = {.n = o->n};
    for (int r = 0; r < o->n; r++) {
        owners.first[r] = o->first[r] * n_heads;
        owners.out[r] = o->out[r];
        owners.lse[r] = o->lse[r];
    }
    return owners;
}

static struct lf_attn_cuda_args args_of(const struct attn_cuda *a, int schedule_idx, const struct lf_attn_params *p)
{
    const struct lf_attn_shape *shape = &a->base.shape;
    const struct layout *l = &a->layout;
    const struct lf_attn_cuda_counts *n = &a->counts[schedule_idx];
    const struct lf_attn_schedule *made = &a->base.schedules[schedule_idx];
    return (struct lf_attn_cuda_args){
        .out = p->out,
        .q = p->q,
        .lse = p->lse,
        .sinks = p->sinks,
        .kv = p->kv->base,
        .n_blocks = p->kv->n_blocks,
        .block_pages = p->kv->block_pages,
        .layer = p->layer,
        .fp8_page_bytes = fp8_page_bytes(p->kv),
        .n_tokens = shape->max_tokens,
        .n_heads = shape->n_heads,
        .n_kv_heads = shape->n_kv_heads,
        .head_dim = shape->head_dim,
        .fp16 = a->fp16,
        .scale = p->scale,
        .softcap = p->softcap,
        .window = p->window,
        .counts = part(a, schedule_idx, l->counts),
        .seqs = part(a, schedule_idx, l->seqs),
        .tables = tables_of(a, schedule_idx, p->kv),
        .prefill = part(a, schedule_idx, l->prefill),
        .decode = part(a, schedule_idx, l->decode),
        .combine = part(a, schedule_idx, l->combine),
        .partial_o = (float *)(void *)(a->workspace + l->partial_o),
        .partial_ml = (float *)(void *)(a->workspace + l->partial_ml),
        .scratch = (float *)(void *)(a->workspace + l->scratch),
        .max_prefill = n->n_prefill,
        .max_decode = made->records > 0 ? a->map.caps.n_decode : n->n_decode,
        .max_combine =
            made->records > 0 ? LF_MIN(a->map.caps.n_combine, LF_MAX(1, a->n_sms / COMBINE_SHARE)) : n->n_combine,
        .decode_rows = a->decode_rows[schedule_idx],
        .all_combine_rows = made->n_tokens * shape->n_heads,
        .n_sms = a->n_sms,
        .overlaps = lf_cuda_overlaps(a->base.dev),
        .combine_prefill = (const struct lf_attn_cuda_combine *)part(a, schedule_idx, l->combine) + n->n_combine,
        .n_combine_prefill = a->n_combine_prefill[schedule_idx],
        .stripe_idx = shape->stripe.idx,
        .stripe_n = shape->stripe.n,
        .owners = owners_of(&p->owners, shape->n_heads),
    };
}

/* The pages that a wave reads become blocks of the workspace, in the order of its part of the tables. */
static void expand_pages(const struct attn_cuda *a, const struct lf_attn_wave *wave,
                         const struct lf_attn_cuda_args *args, void *out)
{
    struct lf_attn_expand_args expand = {.out = out,
                                         .kv = args->kv,
                                         .tables = args->tables + wave->table,
                                         .n_pages = wave->n_pages,
                                         .block_pages = args->block_pages,
                                         .layer = args->layer,
                                         .n_kv_heads = args->n_kv_heads,
                                         .head_dim = args->head_dim,
                                         .fp8_page_bytes = args->fp8_page_bytes,
                                         .overlaps = args->overlaps};
    lf_cuda_check(a->base.dev, lf_attn_expand(&expand, lf_cuda_stream(a->base.dev)), "attention (FP8 pages)");
}

/* Expands and attends wave by wave. Entry `table` of the tables, a wave's first, is entry 0 of the workspace's. */
static void run_waves(const struct attn_cuda *a, int schedule_idx, const struct lf_attn_cuda_args *args)
{
    const struct lf_attn_cuda_counts *counts = part(a, schedule_idx, a->layout.wave_counts);
    const int32_t *own_table = (const int32_t *)(const void *)(a->workspace + a->layout.own_table);
    struct lf_attn_cuda_args its = *args;
    its.kv = a->workspace + a->layout.expanded;
    its.n_blocks = a->map.caps.n_wave_pages;
    its.block_pages = 2 * args->n_kv_heads;
    its.layer = 0;
    its.fp8_page_bytes = 0;
    for (int i = 0; i < a->n_waves[schedule_idx]; i++) {
        const struct lf_attn_wave *wave = &a->waves[schedule_idx][i];
        expand_pages(a, wave, args, a->workspace + a->layout.expanded);
        its.tables = own_table - wave->table;
        its.counts = counts + i;
        its.prefill = args->prefill + wave->task;
        its.max_prefill = wave->n_tasks;
        lf_cuda_check(a->base.dev, a->prefill(&its, lf_cuda_stream(a->base.dev)), "attention (prefill)");
    }
}

static void run_prefill(const struct attn_cuda *a, int schedule_idx, const struct lf_attn_cuda_args *args)
{
    if (args->max_prefill == 0) return;
    if (a->expands)
        run_waves(a, schedule_idx, args);
    else
        lf_cuda_check(a->base.dev, a->prefill(args, lf_cuda_stream(a->base.dev)), "attention (prefill)");
}

static void run(struct lf_attn *attn, int schedule_idx, const struct lf_attn_params *p)
{
    struct attn_cuda *a = (struct attn_cuda *)attn;
    struct lf_device *dev = attn->dev;
    if (!lf_cuda_ok(dev)) return;
    struct lf_attn_cuda_args args = args_of(a, schedule_idx, p);
    void *stream = lf_cuda_stream(dev);
    run_prefill(a, schedule_idx, &args);
    if (args.max_decode > 0) lf_cuda_check(dev, a->decode(&args, stream), "attention (decode)");
    if (args.n_combine_prefill > 0) lf_cuda_check(dev, lf_attn_combine_prefill(&args, stream), "attention (combine)");
    if (args.max_combine > 0) lf_cuda_check(dev, lf_attn_combine_decode(&args, stream), "attention (combine)");
}

static void set_peers(struct lf_rope_cuda_args *args, const struct lf_rope_peers *peers)
{
    args->n_peers = peers->n;
    for (int r = 0; r < peers->n; r++) {
        args->peer_q[r] = peers->q_out[r];
        args->peer_kv[r] = peers->kv[r];
    }
}

static struct lf_rope_cuda_args rope_args_of(const struct attn_cuda *a, const struct lf_rope_append_params *p)
{
    struct lf_rope_cuda_args args = {
        .q_out = p->q_out,
        .qkv = p->qkv,
        .q_norm = p->q_norm,
        .k_norm = p->k_norm,
        .table = p->table,
        .q_scale = p->q_scale,
        .counts = part(a, p->schedule_idx, a->layout.counts),
        .seqs = part(a, p->schedule_idx, a->layout.seqs),
        .tables = tables_of(a, p->schedule_idx, p->kv),
        .kv = p->kv->base,
        .norm_eps = p->norm_eps,
        .norm_whole_row = p->norm_whole_row && p->q_norm != NULL,
        .v_norm = p->v_norm,
        .v_of_k = p->v_of_k,
        .n_tokens = p->n_tokens,
        .n_heads = p->n_heads,
        .n_kv_heads = p->q_only ? 0 : p->kv->n_kv_heads,
        .head_dim = p->kv->head_dim,
        .rotary_dim = p->rotary_dim,
        .block_pages = p->kv->block_pages,
        .layer = p->layer,
        .fp8_page_bytes = fp8_page_bytes(p->kv),
        .fp16 = a->fp16,
        .overlaps = lf_cuda_overlaps(a->base.dev),
        .stripe_idx = a->base.shape.stripe.idx,
        .stripe_n = a->base.shape.stripe.n,
        .first_row = p->first_row,
    };
    set_peers(&args, &p->peers);
    return args;
}

static void rope_append(struct lf_attn *attn, const struct lf_rope_append_params *p)
{
    struct lf_device *dev = attn->dev;
    if (!lf_cuda_ok(dev)) return;
    struct lf_rope_cuda_args args = rope_args_of((struct attn_cuda *)attn, p);
    lf_cuda_check(dev, lf_rope_append_cuda(&args, lf_cuda_stream(dev)), "RoPE and KV append");
}

static bool gemm_rope_append(struct lf_attn *attn, const struct lf_gemm_params *gemm,
                             const struct lf_rope_append_params *p)
{
    struct attn_cuda *a = (struct attn_cuda *)attn;
    struct lf_device *dev = attn->dev;
    struct lf_rope_cuda_args args = rope_args_of(a, p);
    bool is_gemv = lf_format_is_plain(&gemm->w->format) || lf_cuda_gemm_coded_is_gemv(dev, gemm);
    if (p->kv->dtype == LF_E4M3 || !a->has_qkv || !is_gemv || !lf_qkv_cuda_supports(gemm, &args)) return false;
    if (lf_cuda_ok(dev))
        lf_cuda_check(dev, lf_qkv_cuda(gemm, &args, a->n_sms, lf_cuda_stream(dev)), "GEMM, RoPE and KV append");
    return true;
}

const struct lf_attn_backend lf_attn_backend_cuda = {.check = check,
                                                     .workspace_bytes = workspace_bytes,
                                                     .create = create,
                                                     .destroy = destroy,
                                                     .schedule = schedule,
                                                     .run = run,
                                                     .rope_append = rope_append,
                                                     .gemm_rope_append = gemm_rope_append};
