/* The memory plan.
 *
 *     total = weights + workspace(ctx, chunk, max_seqs, max_out) + host + texts + n_blocks · bytes of a KV block
 *
 * all of it on the device. `host`, what the process needs beside the model, and `texts`, what clients' requests may
 * take of it at most, count where the device's memory is the host's; a GPU has instead its context, which was taken
 * before the available memory was read. What lies below a GPU's cache is the host's, and beside the total.
 *
 * Everything but n_blocks is given; the policy below chooses that:
 *     --kv-tokens   exactly so many blocks
 *     --memory      as many as the limit leaves
 *     neither       on a CPU two requests of ctx tokens (or --concurrency, if more) where 80% of the available memory
 *                   hold them, else as many as they hold; on a GPU, which has nothing else to do, as many as 97% of
 *                   the available memory hold
 * A request takes the blocks of its tokens in groups of layers that see all, those of the window in the others; and
 * once for all there are blocks for the tokens of a step, which come before windows let go of others.
 *
 * A plan fits where the cache holds --concurrency requests of ctx tokens inside the limit and the machine. Where it
 * does not, n_blocks is what would be needed, so that the printed total says what is missing, and the advice is found
 * by making other plans: the formula is cheap. */
#include "model/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "core/limits.h"
#include "kv/kv_view.h"
#include "model/workspace.h"

enum { DEFAULT_CHUNK = 512, DEFAULT_CHUNK_GPU = 8192, DEFAULT_REQUESTS = 2, SMALL_CHUNK = 128 };

#define KIB ((double)(1 << 10))
#define MIB ((double)(1 << 20))
#define GIB ((double)(1 << 30))

/* What a plan is made from, with defaults filled in. */
struct frame {
    const struct lf_hparams *hp;
    const struct lf_ops *ops;
    const struct lf_device_info *info;
    struct lf_programs *programs;
    const struct lf_layer_kinds *kinds;
    enum lf_dtype kinds_dtype; /* that they were made for: blocks of another one are cut alike */
    uint64_t weight_bytes;
    struct lf_plan_opts opts;
    bool is_auto_ctx;
};

static enum lf_status check_range(const char *name, int64_t value, int64_t max, struct lf_err *err)
{
    if (value >= 0 && value <= max) return LF_OK;
    return lf_fail(err, LF_INVALID, "--%s is %" PRId64 ", expected 1 to %" PRId64, name, value, max);
}

static enum lf_status fill_defaults(struct frame *f, struct lf_err *err)
{
    struct lf_plan_opts *o = &f->opts;
    if (o->ctx > f->hp->max_positions) {
        return lf_fail(err, LF_INVALID, "--ctx is %d, but the model has positions for %d tokens", o->ctx,
                       f->hp->max_positions);
    }
    LF_TRY(check_range("ctx", o->ctx == LF_CTX_AUTO ? 0 : o->ctx, LF_CONTEXT_TOKENS, err));
    LF_TRY(check_range("chunk", o->chunk, LF_STEP_TOKENS_N, err));
    LF_TRY(check_range("max-seqs", o->max_seqs, LF_RUNNING_MAX_N, err));
    LF_TRY(check_range("concurrency", o->concurrency, INT32_MAX, err));
    if (o->max_out < 0) return lf_fail(err, LF_INVALID, "%d rows of logits, expected 1 or more", o->max_out);
    if (f->info->is_host && o->kv_dtype != LF_F32 && o->kv_dtype != LF_BF16) {
        return lf_fail(err, LF_UNSUPPORTED, "--kv-dtype %s is not implemented (f32 and bf16 are)",
                       lf_dtype_name(o->kv_dtype));
    }
    if (!f->info->is_host && o->kv_dtype != f->info->act_dtype) {
        return lf_fail(err, LF_UNSUPPORTED, "--kv-dtype %s: on a GPU this model's KV cache is in %s, leave it at auto",
                       lf_dtype_name(o->kv_dtype), lf_dtype_name(f->info->act_dtype));
    }
    if (o->chunk > 0 && o->max_seqs > o->chunk) {
        return lf_fail(err, LF_INVALID, "--max-seqs is %d, but a step has --chunk %d tokens, one a sequence at least",
                       o->max_seqs, o->chunk);
    }
    f->is_auto_ctx = o->ctx == LF_CTX_AUTO;
    if (o->ctx <= 0) o->ctx = f->hp->max_positions;
    if (o->chunk == 0) o->chunk = LF_MAX(f->info->is_host ? DEFAULT_CHUNK : DEFAULT_CHUNK_GPU, o->max_seqs);
    if (o->max_seqs == 0) o->max_seqs = LF_MIN(LF_RUNNING_N, o->chunk);
    if (o->max_out == 0) o->max_out = o->max_seqs;
    o->max_out = LF_MIN(o->max_out, o->chunk);
    if (o->concurrency == 0) o->concurrency = 1;
    if (o->concurrency > o->max_seqs) {
        return lf_fail(err, LF_INVALID, "--concurrency is %d, but at most %d requests run at once (--max-seqs)",
                       o->concurrency, o->max_seqs);
    }
    return LF_OK;
}

static int blocks_of(uint64_t tokens)
{
    uint64_t n = tokens / LF_KV_BLOCK_TOKENS + (tokens % LF_KV_BLOCK_TOKENS != 0);
    return (int)LF_MIN(n, (uint64_t)INT32_MAX);
}

/* One group that keeps all: blocks are tokens. */
static bool is_plain(const struct lf_plan *p)
{
    return p->n_groups == 1 && p->groups[0].window == 0;
}

/* Blocks that hold so many tokens, of requests of ctx. */
static uint64_t blocks_for(const struct lf_plan *p, uint64_t tokens)
{
    if (is_plain(p)) return (uint64_t)blocks_of(tokens);
    double n = (double)tokens / p->ctx * p->n_request_blocks;
    return n < INT32_MAX ? (uint64_t)ceil(n) + (uint64_t)p->n_step_blocks : INT32_MAX;
}

/* Tokens of requests of ctx that so many blocks hold: of shorter ones they hold no more. */
static uint64_t tokens_in(const struct lf_plan *p, int n_blocks)
{
    uint64_t n = (uint64_t)LF_MAX(n_blocks - p->n_step_blocks, 0);
    return is_plain(p) ? n * LF_KV_BLOCK_TOKENS : n * (uint64_t)p->ctx / (uint64_t)p->n_request_blocks;
}

/* The longest request for which there are blocks, in whole blocks, ctx at most. */
static int longest_in(const struct lf_plan *p, int n_blocks)
{
    int64_t n = lf_kv_windows_fit(&p->windows, n_blocks - p->n_step_blocks);
    return (int)LF_MIN(n * LF_KV_BLOCK_TOKENS, (int64_t)p->ctx);
}

static struct lf_step_limits limits_of(const struct lf_plan_opts *o)
{
    return (struct lf_step_limits){
        .ctx = o->ctx, .chunk = o->chunk, .max_seqs = o->max_seqs, .max_out = o->max_out, .kv_dtype = o->kv_dtype};
}

/* Of the opts' kv_dtype. */
static uint64_t block_bytes_of(const struct frame *f)
{
    uint64_t elems = f->kinds->layout.block_bytes / lf_dtype_bytes(f->kinds_dtype);
    return elems * lf_dtype_bytes(f->opts.kv_dtype);
}

/* What the groups make of ctx and chunk. */
static void set_groups(struct lf_plan *p, const struct lf_kv_layout *layout)
{
    p->n_groups = layout->n_groups;
    memcpy(p->groups, layout->groups, sizeof(p->groups));
    p->windows = lf_kv_layout_windows(layout);
    int n_full = lf_kv_windows_n_full(&p->windows);
    int64_t n_request = lf_kv_windows_need(&p->windows, blocks_of((uint64_t)p->ctx));
    p->kv_token_bytes = (uint64_t)(n_full ? n_full : p->n_groups) * p->kv_block_bytes / LF_KV_BLOCK_TOKENS;
    p->n_request_blocks = (int)LF_MIN(n_request, (int64_t)INT32_MAX);
    p->n_step_blocks = (int)lf_kv_windows_slack(&p->windows, p->chunk);
}

/* Everything but the cache. */
static void size_parts(struct lf_plan *p, const struct frame *f)
{
    const struct lf_plan_opts *o = &f->opts;
    struct lf_step_limits limits = limits_of(o);
    struct lf_workspace ws;
    lf_workspace_layout(&ws, f->programs, f->kinds, f->hp, &limits, f->ops, f->info);
    *p = (struct lf_plan){.ctx = o->ctx,
                          .chunk = o->chunk,
                          .max_seqs = o->max_seqs,
                          .max_out = o->max_out,
                          .kv_dtype = o->kv_dtype,
                          .weight_bytes = f->weight_bytes,
                          .workspace_bytes = ws.total_bytes,
                          .rope_bytes = ws.rope_bytes,
                          .attn_bytes = ws.attn_bytes,
                          .act_bytes = ws.act_bytes,
                          .logits_bytes = ws.logits_bytes,
                          .host_bytes = o->host_bytes,
                          .text_bytes = o->text_bytes,
                          .kv_block_bytes = block_bytes_of(f),
                          .disk_index_bytes = o->disk_index_bytes,
                          .disk_tokens = o->disk_tokens,
                          .disk_bytes = o->disk_bytes,
                          .below_tokens = o->below_tokens,
                          .below_bytes = o->below_bytes,
                          .is_host = f->info->is_host,
                          .context_bytes = f->info->context_bytes,
                          .available_bytes = f->info->available_bytes,
                          .is_described = f->info->is_described,
                          .is_auto_ctx = f->is_auto_ctx,
                          .no_fusion = o->no_fusion,
                          .cache_groups = o->cache_groups};
    set_groups(p, &f->kinds->layout);
    snprintf(p->device, sizeof(p->device), "%.6s, %s", f->info->kind, f->info->name);
    if (!f->info->is_host) p->host_bytes = p->text_bytes = 0;
    uint64_t may_use = f->info->is_host ? f->info->available_bytes / 5 * 4 : f->info->available_bytes / 100 * 97;
    p->limit_bytes = o->memory_bytes ? o->memory_bytes : may_use;
}

/* Of the device, but for the cache. */
static uint64_t fixed_bytes(const struct lf_plan *p)
{
    return p->weight_bytes + p->workspace_bytes + p->host_bytes + p->text_bytes +
           (p->is_host ? p->disk_index_bytes : 0);
}

static void set_blocks(struct lf_plan *p, int n_blocks)
{
    p->n_blocks = n_blocks;
    p->kv_tokens = tokens_in(p, n_blocks);
    p->kv_bytes = (uint64_t)n_blocks * p->kv_block_bytes;
    p->total_bytes = fixed_bytes(p) + p->kv_bytes;
}

/* Blocks that the limit leaves beside everything else. */
static int blocks_left(const struct lf_plan *p)
{
    uint64_t fixed = fixed_bytes(p);
    if (fixed >= p->limit_bytes) return 0;
    return (int)LF_MIN((p->limit_bytes - fixed) / p->kv_block_bytes, (uint64_t)(INT32_MAX / LF_KV_BLOCK_TOKENS));
}

/* For so many requests of ctx tokens at once. */
static uint64_t blocks_needed(const struct lf_plan *p, int n_requests)
{
    return (uint64_t)p->n_request_blocks * (uint64_t)n_requests + (uint64_t)p->n_step_blocks;
}

/* The plan for a frame, without advice. */
static void decide(struct lf_plan *p, const struct frame *f)
{
    const struct lf_plan_opts *o = &f->opts;
    size_parts(p, f);
    int left = blocks_left(p), n_step = p->n_step_blocks;
    uint64_t needed = blocks_needed(p, o->concurrency);
    uint64_t wanted = LF_MAX(needed, blocks_needed(p, DEFAULT_REQUESTS));
    bool take_all = o->memory_bytes || !f->info->is_host;
    int n = o->kv_tokens ? (int)blocks_for(p, o->kv_tokens) : (take_all ? left : (int)LF_MIN(wanted, (uint64_t)left));
    set_blocks(p, n);
    p->n_concurrent = LF_MAX(n - n_step, 0) / p->n_request_blocks;
    p->longest_ctx = longest_in(p, n);
    p->fits = p->total_bytes <= p->limit_bytes && p->total_bytes <= p->available_bytes && (uint64_t)n >= needed;
    if (p->fits) {
        p->n_concurrent = LF_MIN(p->n_concurrent, o->max_seqs);
        return;
    }
    if (!o->kv_tokens && ((uint64_t)n < needed || p->limit_bytes > p->available_bytes)) {
        set_blocks(p, (int)LF_MIN(needed, (uint64_t)INT32_MAX));
    }
}

static bool fits_with(const struct frame *f, const struct lf_plan_opts *opts)
{
    struct frame other = *f;
    struct lf_plan plan;
    other.opts = *opts;
    decide(&plan, &other);
    return plan.fits;
}

/* The largest ctx, in whole blocks, with which it fits; 0 where none does. */
static int largest_ctx(const struct frame *f)
{
    struct lf_plan_opts o = f->opts;
    int low = 0, high = blocks_of((uint64_t)o.ctx);
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        o.ctx = LF_MIN(mid * LF_KV_BLOCK_TOKENS, f->opts.ctx);
        if (fits_with(f, &o)) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    return LF_MIN(low * LF_KV_BLOCK_TOKENS, f->opts.ctx);
}

/* "1.50 GiB" and the like, in at most 24 bytes. */
struct size_text {
    char text[24];
};

static struct size_text size_text(uint64_t bytes)
{
    struct size_text t;
    double x = (double)bytes;
    if (x >= GIB) {
        snprintf(t.text, sizeof(t.text), "%.2f GiB", x / GIB);
    } else if (x >= MIB) {
        snprintf(t.text, sizeof(t.text), "%.2f MiB", x / MIB);
    } else if (x >= KIB) {
        snprintf(t.text, sizeof(t.text), "%.2f KiB", x / KIB);
    } else {
        snprintf(t.text, sizeof(t.text), "%" PRIu64 " B", bytes);
    }
    return t;
}

/* What to change where the limit is the machine's or below it: each way out that really leads out, with its number. */
static void write_ways_out(struct lf_plan *p, const struct frame *f)
{
    struct lf_buf out;
    lf_buf_init(&out, sizeof(p->advice) - 1);
    uint64_t limit = p->limit_bytes;
    bool may_name_memory = f->opts.memory_bytes || f->info->is_host; /* a GPU's last 3% are not to be promised */
    uint64_t needed = blocks_needed(p, f->opts.concurrency);
    if (f->opts.kv_tokens && p->total_bytes <= limit) {
        lf_buf_printf(&out, "--kv-tokens %" PRIu64 " makes blocks: %d, needed for %d × %d tokens: %" PRIu64 "; ",
                      f->opts.kv_tokens, p->n_blocks, f->opts.concurrency, p->ctx, needed);
    } else {
        lf_buf_printf(&out, "%s more than %s of %s; ",
                      size_text(p->total_bytes > limit ? p->total_bytes - limit : 0).text, size_text(limit).text,
                      f->opts.memory_bytes ? "--memory" : "memory that may be used");
    }
    size_t n_before = out.len;
    struct lf_plan_opts o = f->opts;
    if (o.kv_dtype == LF_F32) {
        o.kv_dtype = LF_BF16;
        if (fits_with(f, &o)) lf_buf_printf(&out, "--kv-dtype bf16 fits; ");
        o = f->opts;
    }
    if (o.chunk > SMALL_CHUNK && o.max_seqs <= SMALL_CHUNK) {
        o.chunk = SMALL_CHUNK;
        o.max_out = LF_MIN(o.max_out, o.chunk);
        if (fits_with(f, &o)) lf_buf_printf(&out, "--chunk %d fits; ", SMALL_CHUNK);
        o = f->opts;
    }
    if (p->n_concurrent > 0 && p->n_concurrent < o.concurrency) {
        o.concurrency = p->n_concurrent;
        if (fits_with(f, &o)) lf_buf_printf(&out, "--concurrency %d fits; ", o.concurrency);
    }
    p->longest_ctx = f->opts.fitting_ctx > 0 ? f->opts.fitting_ctx : largest_ctx(f);
    if (p->longest_ctx > 0) lf_buf_printf(&out, "--ctx %d fits (--ctx auto takes what does); ", p->longest_ctx);
    uint64_t memory = f->opts.other_memory > 0 ? f->opts.other_memory : p->total_bytes;
    if (may_name_memory && p->total_bytes > limit && memory <= p->available_bytes) {
        lf_buf_printf(&out, "--memory %" PRIu64 "M fits (%s are available); ", (memory + ((1 << 20) - 1)) >> 20,
                      size_text(p->available_bytes).text);
    }
    o = f->opts;
    if (o.kv_tokens) {
        o.kv_tokens = is_plain(p) ? needed * LF_KV_BLOCK_TOKENS : (uint64_t)o.concurrency * (uint64_t)p->ctx;
        if (fits_with(f, &o)) lf_buf_printf(&out, "--kv-tokens %" PRIu64 " fits; ", o.kv_tokens);
        o = f->opts;
    }
    if (out.len == n_before) lf_buf_printf(&out, "no context fits: a machine with more memory, or a smaller model; ");
    if (out.len >= 2) out.len -= 2;
    snprintf(p->advice, sizeof(p->advice), "%.*s", (int)out.len, out.ptr ? out.ptr : "");
    lf_buf_deinit(&out);
}

static void write_advice(struct lf_plan *p, const struct frame *f)
{
    if (p->limit_bytes <= p->available_bytes) {
        write_ways_out(p, f);
        return;
    }
    struct lf_plan other;
    struct frame without = *f;
    without.opts.memory_bytes = 0;
    without.opts.fitting_ctx = 0;
    without.opts.other_memory = 0;
    decide(&other, &without);
    if (!other.fits) write_ways_out(&other, &without);
    p->longest_ctx = other.longest_ctx;
    struct lf_buf out;
    lf_buf_init(&out, 2 * sizeof(p->advice));
    lf_buf_printf(&out, "--memory is %s, but %s are available; without it: %s", size_text(p->limit_bytes).text,
                  size_text(p->available_bytes).text, other.fits ? "it fits" : other.advice);
    snprintf(p->advice, sizeof(p->advice), "%s", lf_buf_view(&out).ptr);
    lf_buf_deinit(&out);
}

static enum lf_status check_attention(const struct frame *f, struct lf_err *err)
{
    struct lf_step_limits limits = limits_of(&f->opts);
    for (int i = 0; i < f->kinds->n_shapes; i++) {
        struct lf_attn_shape shape = lf_workspace_attn_shape(f->kinds, i, f->hp, &limits);
        LF_TRY(lf_attn_check(&shape, f->info, err));
    }
    return LF_OK;
}

enum lf_status lf_plan_make(struct lf_plan *out, const struct lf_hparams *hp, uint64_t weight_bytes,
                            const struct lf_ops *ops, const struct lf_device_info *info,
                            const struct lf_plan_opts *opts, struct lf_err *err)
{
    struct lf_programs programs;
    struct lf_layer_kinds kinds = {.n = 0};
    struct frame f = {.hp = hp,
                      .ops = ops,
                      .info = info,
                      .programs = &programs,
                      .kinds = &kinds,
                      .kinds_dtype = opts->kv_dtype,
                      .weight_bytes = weight_bytes,
                      .opts = *opts};
    struct lf_plan p;
    LF_TRY(fill_defaults(&f, err));
    LF_TRY(lf_programs_make(&programs, hp, ops, opts->no_fusion, err));
    enum lf_status status =
        lf_layer_kinds_make(&kinds, hp, &programs, opts->kv_dtype, info->act_dtype, opts->cache_groups, err);
    if (status == LF_OK) status = check_attention(&f, err);
    if (status != LF_OK) goto done;
    decide(&p, &f);
    if (f.is_auto_ctx && !p.fits) { /* where none fits: what the least would need */
        int largest = largest_ctx(&f);
        f.opts.ctx = largest > 0 ? largest : LF_MIN((int)LF_KV_BLOCK_TOKENS, f.opts.ctx);
        decide(&p, &f);
    }
    if (!p.fits) write_advice(&p, &f);
    *out = p;
done:
    lf_layer_kinds_deinit(&kinds);
    lf_programs_deinit(&programs);
    return status;
}

static void row(struct lf_buf *out, const char *name, uint64_t bytes, const char *note)
{
    lf_buf_printf(out, "  %-22s %12s%s%s\n", name, size_text(bytes).text, note[0] ? "  " : "", note);
}

/* Of the sum on a CPU; on a GPU behind it, for it is the host's. */
static void index_row(const struct lf_plan *p, struct lf_buf *out)
{
    char note[128];
    if (p->disk_bytes == 0) return;
    snprintf(note, sizeof(note), "of %" PRIu64 " tokens in %s of --cache-dir%s", p->disk_tokens,
             size_text(p->disk_bytes).text, p->is_host ? "" : ", of this machine's memory");
    row(out, "index of the disk", p->disk_index_bytes, note);
}

/* Of a request of ctx tokens in one group. */
static int request_blocks(const struct lf_plan *p, int group)
{
    return (int)lf_kv_windows_held(p->groups[group].window, blocks_of((uint64_t)p->ctx));
}

static bool are_alike(const struct lf_kv_group *a, const struct lf_kv_group *b)
{
    return a->window == b->window && a->n_kv_heads == b->n_kv_heads && a->head_dim == b->head_dim;
}

/* What a request of ctx tokens takes in the layers of each kind, whose groups lie side by side. */
static void group_rows(const struct lf_plan *p, struct lf_buf *out)
{
    for (int first = 0, end; first < p->n_groups; first = end) {
        const struct lf_kv_group *g = &p->groups[first];
        int n_layers = 0, n_blocks = 0;
        char name[32], note[128];
        for (end = first; end < p->n_groups && are_alike(g, &p->groups[end]); end++) {
            n_layers += p->groups[end].n_layers;
            n_blocks += request_blocks(p, end);
        }
        snprintf(name, sizeof(name), g->window ? "  window of %d" : "  full attention", g->window);
        snprintf(note, sizeof(note), "a request: %d blocks, %d layer%s in %d group%s, %d KV head%s of %d", n_blocks,
                 n_layers, n_layers == 1 ? "" : "s", end - first, end - first == 1 ? "" : "s", g->n_kv_heads,
                 g->n_kv_heads == 1 ? "" : "s", g->head_dim);
        row(out, name, (uint64_t)n_blocks * p->kv_block_bytes, note);
    }
    if (p->n_step_blocks > 0) {
        char note[64];
        snprintf(note, sizeof(note), "once: %d blocks", p->n_step_blocks);
        row(out, "  tokens of a step", (uint64_t)p->n_step_blocks * p->kv_block_bytes, note);
    }
}

/* The model's heads, and those of layers that have others: of the first such, and how many are not like the model's. */
static void name_heads(const struct lf_hparams *hp, struct lf_buf *out)
{
    int n = 0, first = 0;
    for (int i = hp->n_layers - 1; i >= 0; i--) {
        if (lf_layer_n_kv_heads(hp, i) == hp->n_kv_heads && lf_layer_head_dim(hp, i) == hp->head_dim) continue;
        first = i;
        n++;
    }
    lf_buf_printf(out, "%d query and %d KV heads of %d", hp->n_heads, hp->n_kv_heads, hp->head_dim);
    if (n > 0)
        lf_buf_printf(out, " (in %d layer%s other ones: %d of %d)", n, n == 1 ? "" : "s",
                      lf_layer_n_kv_heads(hp, first), lf_layer_head_dim(hp, first));
}

void lf_plan_print(const struct lf_plan *p, const struct lf_hparams *hp, struct lf_buf *out)
{
    char note[128];
    lf_buf_printf(out, "%s: %d layers, hidden %d, ", hp->architecture, hp->n_layers, hp->hidden);
    name_heads(hp, out);
    lf_buf_printf(out, ", vocabulary %d, %d positions\n", hp->n_vocab, hp->max_positions);
    lf_buf_printf(out, "  %-22s %s\n", "device", p->device);
    row(out, "weights", p->weight_bytes, "");
    snprintf(note, sizeof(note), "%d tokens a step", p->chunk);
    row(out, "activations", p->act_bytes, note);
    row(out, "attention workspace", p->attn_bytes, "");
    snprintf(note, sizeof(note), "%d positions%s", p->ctx,
             p->is_auto_ctx && p->fits ? ", the largest context that fits" : "");
    row(out, "rope table", p->rope_bytes, note);
    snprintf(note, sizeof(note), "%d rows", p->max_out);
    row(out, "logits", p->logits_bytes, note);
    if (p->host_bytes > 0) row(out, "process", p->host_bytes, "");
    if (p->text_bytes > 0) row(out, "texts, connections", p->text_bytes, "at most, as requests come");
    if (p->is_host) index_row(p, out);
    snprintf(note, sizeof(note), "%" PRIu64 " tokens in %d blocks, %s a token in %s", p->kv_tokens, p->n_blocks,
             size_text(p->kv_token_bytes).text, lf_dtype_name(p->kv_dtype));
    row(out, "KV cache", p->kv_bytes, note);
    if (!is_plain(p)) group_rows(p, out);
    snprintf(note, sizeof(note), "of %s (%s available)", size_text(p->limit_bytes).text,
             size_text(p->available_bytes).text);
    row(out, "total", p->total_bytes, note);
    const char *by = p->is_described ? "assumed for driver and code" : "driver, code, other processes";
    if (p->context_bytes > 0) row(out, "in use before", p->context_bytes, by);
    if (!p->is_host) index_row(p, out);
    if (p->below_bytes > 0) {
        snprintf(note, sizeof(note), "%" PRIu64 " tokens below the cache, of this machine's memory", p->below_tokens);
        row(out, "--cache-memory", p->below_bytes, note);
    }
    if (p->fits) {
        lf_buf_printf(out, "Fits: %d request%s of %d tokens at once; longest context %d tokens.\n", p->n_concurrent,
                      p->n_concurrent == 1 ? "" : "s", p->ctx, p->longest_ctx);
    } else {
        lf_buf_printf(out, "Does not fit: %s.\n", p->advice);
    }
}

static void print_groups_json(const struct lf_plan *p, struct lf_buf *out)
{
    lf_buf_cstr(out, ",\"kv_groups\":[");
    for (int i = 0; i < p->n_groups; i++) {
        const struct lf_kv_group *g = &p->groups[i];
        uint64_t page = LF_KV_BLOCK_TOKENS * (uint64_t)g->head_dim * lf_dtype_bytes(p->kv_dtype);
        uint64_t used = 2 * (uint64_t)g->n_kv_heads * (uint64_t)g->n_layers * page;
        lf_buf_printf(out,
                      "%s{\"window\":%d,\"layers\":%d,\"kv_heads\":%d,\"head_dim\":%d,\"request_blocks\":%d,"
                      "\"unused_block_bytes\":%" PRIu64 "}",
                      i > 0 ? "," : "", g->window, g->n_layers, g->n_kv_heads, g->head_dim, request_blocks(p, i),
                      p->kv_block_bytes - used);
    }
    lf_buf_char(out, ']');
}

void lf_plan_print_json(const struct lf_plan *p, const struct lf_hparams *hp, struct lf_buf *out)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"ctx", (uint64_t)p->ctx},
        {"max_positions", (uint64_t)hp->max_positions},
        {"chunk", (uint64_t)p->chunk},
        {"max_seqs", (uint64_t)p->max_seqs},
        {"weight_bytes", p->weight_bytes},
        {"workspace_bytes", p->workspace_bytes},
        {"activation_bytes", p->act_bytes},
        {"attention_bytes", p->attn_bytes},
        {"rope_bytes", p->rope_bytes},
        {"logits_bytes", p->logits_bytes},
        {"host_bytes", p->host_bytes},
        {"text_bytes", p->text_bytes},
        {"context_bytes", p->context_bytes},
        {"kv_block_tokens", LF_KV_BLOCK_TOKENS},
        {"kv_block_bytes", p->kv_block_bytes},
        {"kv_token_bytes", p->kv_token_bytes},
        {"kv_blocks", (uint64_t)p->n_blocks},
        {"kv_tokens", p->kv_tokens},
        {"kv_request_blocks", (uint64_t)p->n_request_blocks},
        {"kv_step_blocks", (uint64_t)p->n_step_blocks},
        {"kv_bytes", p->kv_bytes},
        {"disk_index_bytes", p->disk_index_bytes},
        {"disk_tokens", p->disk_tokens},
        {"disk_bytes", p->disk_bytes},
        {"cache_memory_tokens", p->below_tokens},
        {"cache_memory_bytes", p->below_bytes},
        {"total_bytes", p->total_bytes},
        {"limit_bytes", p->limit_bytes},
        {"available_bytes", p->available_bytes},
        {"concurrent_requests", (uint64_t)p->n_concurrent},
        {"longest_ctx", (uint64_t)p->longest_ctx},
    };
    lf_buf_printf(out, "{\"architecture\":");
    lf_json_write_string(out, lf_str_c(hp->architecture));
    lf_buf_cstr(out, ",\"device\":");
    lf_json_write_string(out, lf_str_c(p->device));
    lf_buf_printf(out, ",\"device_is_described\":%s", p->is_described ? "true" : "false");
    lf_buf_printf(out, ",\"kv_dtype\":\"%s\"", lf_dtype_name(p->kv_dtype));
    for (size_t i = 0; i < LF_N_ELEMS(numbers); i++) {
        lf_buf_printf(out, ",\"%s\":%" PRIu64, numbers[i].key, numbers[i].value);
    }
    print_groups_json(p, out);
    lf_buf_printf(out, ",\"fits\":%s,\"advice\":", p->fits ? "true" : "false");
    lf_json_write_string(out, lf_str_c(p->advice));
    lf_buf_char(out, '}');
}
