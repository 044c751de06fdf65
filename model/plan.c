/* The memory plan.
 *
 *     total = weights + workspace(ctx, chunk, max_seqs, max_out) + host + texts + n_blocks · bytes of a KV block
 *             + n_slots · bytes of a slot
 *
 * all of it on the device. `host`, what the process needs beside the model, and `texts`, what clients' requests may
 * take of it at most, count where the device's memory is the host's; a GPU has instead its context, which was taken
 * before the available memory was read. What lies below a GPU's cache is the host's, and beside the total.
 *
 * Of several ranks weights, workspace, blocks and slots are what each has. On a CPU all of them are in the same memory:
 * the total has them n_ranks times, and what ranks share.
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
 * Where layers have states, blocks and slots share what there is. Each sequence that may run has a slot; snapshots are
 * --snapshots, or one for every 8,192 tokens that the blocks hold and one for each sequence. So the more blocks, the
 * more slots, and n_blocks is the largest with which both have room. Without --max-seqs as many sequences run as have
 * their slots in a quarter of the memory for the cache.
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
#include "core/limits.h"
#include "device/comm.h"
#include "kv/kv_view.h"
#include "model/batch.h"
#include "model/batch_message.h"
#include "model/plan_size.h"
#include "model/workspace.h"

enum { DEFAULT_CHUNK = 512, DEFAULT_CHUNK_GPU = 8192, DEFAULT_REQUESTS = 2, SMALL_CHUNK = 128 };
enum { WORKING_SHARE = 4, LONG_REQUEST = 128 * 1024 };

/* What a plan is made from, with defaults filled in. */
struct frame {
    const struct lf_hparams *hp;
    const struct lf_ops *ops;
    const struct lf_device_info *info;
    struct lf_programs *programs;
    const struct lf_layer_kinds *kinds;
    enum lf_dtype kinds_dtype; /* that they were made for: blocks of another one are cut alike, but for fp8 */
    /* the other of a plain type and fp8, the plain one first; NULL where the device has no such cache */
    const struct lf_layer_kinds *kinds_of[2];
    enum lf_dtype dtype_of[2];
    uint64_t weight_bytes;
    struct lf_plan_opts opts;
    bool is_auto_ctx;
    bool may_lower, lowers_out; /* max_seqs is nobody's wish, and max_out neither */
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
        return lf_fail(err, LF_INVALID, "--ctx is %d, but the model has positions for %d tokens%s", o->ctx,
                       f->hp->max_positions, f->hp->stretch.max_position ? "" : " (--max-position asks for more)");
    }
    LF_TRY(check_range("ctx", o->ctx == LF_CTX_AUTO ? 0 : o->ctx, LF_CONTEXT_TOKENS, err));
    LF_TRY(check_range("chunk", o->chunk, LF_STEP_TOKENS_N, err));
    LF_TRY(check_range("max-seqs", o->max_seqs, LF_RUNNING_MAX_N, err));
    LF_TRY(check_range("concurrency", o->concurrency, INT32_MAX, err));
    LF_TRY(check_range("snapshots", o->n_snapshots, LF_SNAPSHOTS_N, err));
    if (o->max_out < 0) return lf_fail(err, LF_INVALID, "%d rows of logits, expected 1 or more", o->max_out);
    if (f->info->is_host && o->kv_dtype == LF_F16) {
        return lf_fail(err, LF_UNSUPPORTED, "--kv-dtype %s is not implemented (f32, bf16 and fp8 are)",
                       lf_dtype_name(o->kv_dtype));
    }
    bool takes_fp8 = f->info->act_dtype == LF_BF16;
    if (!f->info->is_host && o->kv_dtype != f->info->act_dtype && !(o->kv_dtype == LF_E4M3 && takes_fp8)) {
        return lf_fail(err, LF_UNSUPPORTED,
                       "--kv-dtype %s: on a GPU this model's KV cache is in %s%s, leave it at auto",
                       lf_dtype_name(o->kv_dtype), lf_dtype_name(f->info->act_dtype), takes_fp8 ? " or fp8" : "");
    }
    if (o->chunk > 0 && o->max_seqs > o->chunk) {
        return lf_fail(err, LF_INVALID, "--max-seqs is %d, but a step has --chunk %d tokens, one a sequence at least",
                       o->max_seqs, o->chunk);
    }
    f->is_auto_ctx = o->ctx == LF_CTX_AUTO;
    if (o->ctx <= 0) o->ctx = f->hp->max_positions;
    if (o->chunk == 0) o->chunk = LF_MAX(f->info->is_host ? DEFAULT_CHUNK : DEFAULT_CHUNK_GPU, o->max_seqs);
    f->may_lower = o->max_seqs == 0;
    f->lowers_out = o->max_seqs == 0 && o->max_out == 0;
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

/* Tokens that a block stands for. */
static int block_tokens(const struct frame *f)
{
    return lf_kv_block_tokens(lf_split_n_cp(&f->hp->split));
}

static int blocks_of(int block_tokens, uint64_t tokens)
{
    uint64_t block = (uint64_t)block_tokens, n = tokens / block + (tokens % block != 0);
    return (int)LF_MIN(n, (uint64_t)INT32_MAX);
}

/* Blocks that hold so many tokens, of requests of ctx. */
static uint64_t blocks_for(const struct lf_plan *p, uint64_t tokens)
{
    if (lf_plan_is_plain(p)) return (uint64_t)blocks_of(lf_kv_windows_block_tokens(&p->windows), tokens);
    double n = (double)tokens / p->ctx * p->n_request_blocks;
    return n < INT32_MAX ? (uint64_t)ceil(n) + (uint64_t)p->n_step_blocks : INT32_MAX;
}

/* Tokens of requests of ctx that so many blocks hold: of shorter ones they hold no more. */
static uint64_t tokens_in(const struct lf_plan *p, int n_blocks)
{
    uint64_t n = (uint64_t)LF_MAX(n_blocks - p->n_step_blocks, 0);
    return lf_plan_is_plain(p) ? n * (uint64_t)lf_kv_windows_block_tokens(&p->windows)
                               : n * (uint64_t)p->ctx / (uint64_t)p->n_request_blocks;
}

/* The longest request for which there are blocks, in whole blocks, ctx at most. */
static int longest_in(const struct lf_plan *p, int n_blocks)
{
    int64_t n = lf_kv_windows_fit(&p->windows, n_blocks - p->n_step_blocks);
    return (int)LF_MIN(n * lf_kv_windows_block_tokens(&p->windows), (int64_t)p->ctx);
}

static struct lf_step_limits limits_of(const struct frame *f)
{
    const struct lf_plan_opts *o = &f->opts;
    return (struct lf_step_limits){.ctx = o->ctx,
                                   .chunk = o->chunk,
                                   .max_seqs = o->max_seqs,
                                   .max_out = o->max_out,
                                   .n_cp = f->hp->split.n_cp,
                                   .kv_dtype = o->kv_dtype};
}

/* Of the opts' kv_dtype. */
static uint64_t block_bytes_of(const struct frame *f)
{
    uint64_t elems = f->kinds->layout.block_bytes / lf_dtype_bytes(f->kinds_dtype);
    return elems * lf_dtype_bytes(f->opts.kv_dtype);
}

/* What the groups make of ctx and chunk. */
static void set_groups(struct lf_plan *p, const struct lf_kv_layout *layout, int block_tokens)
{
    p->n_groups = layout->n_groups;
    memcpy(p->groups, layout->groups, sizeof(p->groups));
    p->windows = lf_kv_layout_windows(layout);
    p->windows.block_tokens = block_tokens;
    int n_full = lf_kv_windows_n_full(&p->windows);
    int64_t n_request = lf_kv_windows_need(&p->windows, blocks_of(block_tokens, (uint64_t)p->ctx));
    p->kv_token_bytes = (uint64_t)(n_full ? n_full : p->n_groups) * p->kv_block_bytes / (uint64_t)block_tokens;
    p->n_request_blocks = (int)LF_MIN(n_request, (int64_t)INT32_MAX);
    p->n_step_blocks = (int)lf_kv_windows_slack(&p->windows, p->chunk);
}

/* What ranks share, and the messages in which they are told a step. */
static uint64_t comm_bytes(const struct frame *f, const struct lf_step_limits *limits)
{
    const struct lf_split *split = &f->hp->split;
    int n_ranks = lf_split_world(split);
    int n_ends = lf_split_n_cp(split) > 1 && lf_split_n_ranks(split) > 1 ? LF_COMM_AXES_N : 1;
    if (n_ranks == 1) return 0;
    if (!f->info->is_host) return lf_comm_gpu_bytes(n_ranks, n_ends > 1 ? lf_split_n_ranks(split) : 0);
    uint64_t n_words = lf_batch_message_words(limits, &f->kinds->layout);
    uint64_t n_here = f->opts.ranks_apart ? 1 : (uint64_t)n_ranks;
    return lf_comm_group_bytes(n_ranks, n_ends) + n_here * n_words * sizeof(int32_t);
}

/* Everything but the cache. */
static void size_parts(struct lf_plan *p, const struct frame *f)
{
    const struct lf_plan_opts *o = &f->opts;
    struct lf_step_limits limits = limits_of(f);
    struct lf_workspace ws;
    lf_workspace_layout(&ws, f->programs, f->kinds, f->hp, &limits, f->ops, f->info);
    *p = (struct lf_plan){.ctx = o->ctx,
                          .chunk = o->chunk,
                          .max_seqs = o->max_seqs,
                          .max_out = o->max_out,
                          .kv_dtype = o->kv_dtype,
                          .weight_format = o->weight_format,
                          .quantized = o->quantized,
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
                          .states = f->kinds->layout.states,
                          .is_host = f->info->is_host,
                          .n_ranks = lf_split_world(&f->hp->split),
                          .n_cp = lf_split_n_cp(&f->hp->split),
                          .comm_bytes = comm_bytes(f, &limits),
                          .context_bytes = f->info->context_bytes,
                          .available_bytes = f->info->available_bytes,
                          .is_described = f->info->is_described,
                          .is_auto_ctx = f->is_auto_ctx,
                          .no_fusion = o->no_fusion,
                          .cache_groups = o->cache_groups,
                          .ranks_apart = o->ranks_apart};
    p->states.slot_blocks = lf_kv_states_slot_blocks(&p->states, p->kv_block_bytes);
    p->slot_bytes = (uint64_t)p->states.slot_blocks * p->kv_block_bytes;
    set_groups(p, &f->kinds->layout, block_tokens(f));
    snprintf(p->device, sizeof(p->device), "%.6s, %s", f->info->kind, f->info->name);
    if (!f->info->is_host) p->host_bytes = p->text_bytes = 0;
    uint64_t may_use = f->info->is_host ? f->info->available_bytes / 5 * 4 : f->info->available_bytes / 100 * 97;
    p->limit_bytes = o->memory_bytes ? o->memory_bytes : may_use;
}

/* Ranks whose memory the plan is of: those of a process share it, of GPUs it is that of each. */
static uint64_t n_ranks_here(const struct lf_plan *p)
{
    return p->is_host && !p->ranks_apart ? (uint64_t)p->n_ranks : 1;
}

/* Of the device, but for the cache. */
static uint64_t fixed_bytes(const struct lf_plan *p)
{
    return n_ranks_here(p) * (p->weight_bytes + p->workspace_bytes) + p->comm_bytes + p->host_bytes + p->text_bytes +
           (p->is_host ? p->disk_index_bytes : 0);
}

/* That are kept beside so many blocks. */
static int snapshots_for(const struct lf_plan *p, const struct lf_plan_opts *o, int n_blocks)
{
    if (p->states.n_layers == 0) return 0;
    if (o->no_prefix_cache) return 1;
    if (o->n_snapshots > 0) return o->n_snapshots;
    uint64_t n = (tokens_in(p, n_blocks) + LF_KV_MARK_TOKENS - 1) / LF_KV_MARK_TOKENS;
    return (int)LF_MIN(n + (uint64_t)lf_batch_n_slots(p->max_seqs), (uint64_t)LF_SNAPSHOTS_N);
}

static int slots_for(const struct lf_plan *p, const struct lf_plan_opts *o, int n_blocks)
{
    return p->states.n_layers > 0 ? lf_batch_n_slots(p->max_seqs) + snapshots_for(p, o, n_blocks) : 0;
}

/* Of so many blocks, and of the slots beside them. */
static uint64_t cache_bytes(const struct lf_plan *p, const struct lf_plan_opts *o, int n_blocks)
{
    uint64_t bytes = (uint64_t)n_blocks * p->kv_block_bytes + (uint64_t)slots_for(p, o, n_blocks) * p->slot_bytes;
    return n_ranks_here(p) * bytes;
}

static void set_blocks(struct lf_plan *p, const struct lf_plan_opts *o, int n_blocks)
{
    p->n_blocks = n_blocks;
    p->kv_tokens = tokens_in(p, n_blocks);
    p->kv_bytes = (uint64_t)n_blocks * p->kv_block_bytes;
    p->n_snapshots = snapshots_for(p, o, n_blocks);
    p->n_slots = slots_for(p, o, n_blocks);
    p->state_bytes = (uint64_t)p->n_slots * p->slot_bytes;
    p->total_bytes = fixed_bytes(p) + cache_bytes(p, o, n_blocks);
}

/* What the limit leaves beside everything else. */
static uint64_t bytes_left(const struct lf_plan *p)
{
    uint64_t fixed = fixed_bytes(p);
    return p->limit_bytes > fixed ? p->limit_bytes - fixed : 0;
}

/* Blocks for which there is room, with the slots beside them. */
static int blocks_left(const struct lf_plan *p, const struct lf_plan_opts *o)
{
    uint64_t left = bytes_left(p);
    int low = 0, high = (int)LF_MIN(left / p->kv_block_bytes / n_ranks_here(p),
                                    (uint64_t)(INT32_MAX / lf_kv_windows_block_tokens(&p->windows)));
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        if (cache_bytes(p, o, mid) <= left)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* Fewer sequences by default, where the states of all would take too much: as many as have room for them, but those
 * that must fit. */
static void lower_max_seqs(struct lf_plan *p, const struct frame *f)
{
    struct frame fewer = *f;
    int n = p->max_seqs;
    if (p->states.n_layers == 0 || !f->may_lower) return;
    uint64_t most = bytes_left(p) / WORKING_SHARE / p->slot_bytes;
    while (n > f->opts.concurrency && (uint64_t)lf_batch_n_slots(n) > most) n--;
    if (n == p->max_seqs) return;
    fewer.opts.max_seqs = n;
    if (f->lowers_out) fewer.opts.max_out = n;
    size_parts(p, &fewer);
    p->max_seqs_before = f->opts.max_seqs;
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
    lower_max_seqs(p, f);
    int left = blocks_left(p, o), n_step = p->n_step_blocks;
    uint64_t needed = blocks_needed(p, o->concurrency);
    uint64_t wanted = LF_MAX(needed, blocks_needed(p, DEFAULT_REQUESTS));
    bool take_all = o->memory_bytes || !f->info->is_host;
    int given = o->n_blocks > 0 ? o->n_blocks : o->kv_tokens ? (int)blocks_for(p, o->kv_tokens) : 0;
    int n = given > 0 ? given : (take_all ? left : (int)LF_MIN(wanted, (uint64_t)left));
    set_blocks(p, o, n);
    p->n_concurrent = LF_MAX(n - n_step, 0) / p->n_request_blocks;
    p->longest_ctx = longest_in(p, n);
    p->fits = p->total_bytes <= p->limit_bytes && p->total_bytes <= p->available_bytes && (uint64_t)n >= needed;
    if (p->fits) {
        p->n_concurrent = LF_MIN(p->n_concurrent, p->max_seqs);
        return;
    }
    if (given == 0 && ((uint64_t)n < needed || p->limit_bytes > p->available_bytes)) {
        set_blocks(p, o, (int)LF_MIN(needed, (uint64_t)INT32_MAX));
    }
}

/* The same with a cache of fp8, or of the plain type; false where the device has none. */
static bool with_cache(struct frame *out, const struct frame *f, bool fp8)
{
    *out = *f;
    out->kinds = f->kinds_of[fp8];
    out->kinds_dtype = out->opts.kv_dtype = f->dtype_of[fp8];
    return out->kinds != NULL;
}

static int requests_in(const struct frame *f, bool fp8, int n_tokens)
{
    struct frame of;
    struct lf_plan p;
    if (!with_cache(&of, f, fp8)) return -1;
    size_parts(&p, &of);
    lower_max_seqs(&p, &of);
    p.limit_bytes = LF_MIN(p.limit_bytes, p.available_bytes); /* what is asked for may be more than there is */
    int64_t need = lf_kv_windows_need(&p.windows, blocks_of(block_tokens(f), (uint64_t)n_tokens));
    return (int)(LF_MAX(blocks_left(&p, &of.opts) - p.n_step_blocks, 0) / need);
}

static void count_requests(struct lf_plan *p, const struct frame *f)
{
    struct lf_plan_requests *r = &p->requests;
    r->tokens = LF_MIN(p->ctx, LONG_REQUEST);
    r->plain = f->dtype_of[0];
    r->n_plain = requests_in(f, false, r->tokens);
    r->n_fp8 = requests_in(f, true, r->tokens);
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
    int block = block_tokens(f), low = 0, high = blocks_of(block, (uint64_t)o.ctx);
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        o.ctx = LF_MIN(mid * block, f->opts.ctx);
        if (fits_with(f, &o)) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    return LF_MIN(low * block, f->opts.ctx);
}

static void set_max_seqs(struct lf_plan_opts *o, int n)
{
    o->max_seqs = n;
    o->max_out = LF_MIN(o->max_out, n);
}

static void set_snapshots(struct lf_plan_opts *o, int n)
{
    o->n_snapshots = n;
}

/* The largest n from low to high with which it fits; low - 1 where none does. */
static int largest(const struct frame *f, void (*set)(struct lf_plan_opts *o, int n), int low, int high)
{
    low--;
    while (low < high) {
        struct lf_plan_opts o = f->opts;
        int mid = low + (high - low + 1) / 2;
        set(&o, mid);
        if (fits_with(f, &o))
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* Fewer sequences, or fewer snapshots, where that was asked for. */
static void write_fewer_states(const struct lf_plan *p, const struct frame *f, struct lf_buf *out)
{
    const struct lf_plan_opts *o = &f->opts;
    if (p->states.n_layers == 0) return;
    int n_seqs = f->may_lower ? 0 : largest(f, set_max_seqs, o->concurrency, o->max_seqs - 1);
    int n_snapshots = o->n_snapshots == 0 ? 0 : largest(f, set_snapshots, 1, o->n_snapshots - 1);
    if (n_seqs >= o->concurrency) lf_buf_printf(out, "--max-seqs %d fits; ", n_seqs);
    if (n_snapshots > 0) lf_buf_printf(out, "--snapshots %d fits; ", n_snapshots);
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
                      lf_plan_size(p->total_bytes > limit ? p->total_bytes - limit : 0).text, lf_plan_size(limit).text,
                      f->opts.memory_bytes ? "--memory" : "memory that may be used");
    }
    size_t n_before = out.len;
    struct lf_plan_opts o = f->opts;
    if (o.kv_dtype == LF_F32) {
        o.kv_dtype = LF_BF16;
        if (fits_with(f, &o)) lf_buf_printf(&out, "--kv-dtype bf16 fits; ");
        o = f->opts;
    }
    struct frame fp8;
    if (o.kv_dtype != LF_E4M3 && with_cache(&fp8, f, true) && fits_with(&fp8, &fp8.opts))
        lf_buf_printf(&out, "--kv-dtype fp8 fits; ");
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
    write_fewer_states(p, f, &out);
    p->longest_ctx = f->opts.fitting_ctx > 0 ? f->opts.fitting_ctx : largest_ctx(f);
    if (p->longest_ctx > 0) lf_buf_printf(&out, "--ctx %d fits (--ctx auto takes what does); ", p->longest_ctx);
    uint64_t memory = f->opts.other_memory > 0 ? f->opts.other_memory : p->total_bytes;
    if (may_name_memory && p->total_bytes > limit && memory <= p->available_bytes) {
        lf_buf_printf(&out, "--memory %" PRIu64 "M fits (%s are available); ", (memory + ((1 << 20) - 1)) >> 20,
                      lf_plan_size(p->available_bytes).text);
    }
    o = f->opts;
    if (o.kv_tokens) {
        o.kv_tokens =
            lf_plan_is_plain(p) ? needed * (uint64_t)block_tokens(f) : (uint64_t)o.concurrency * (uint64_t)p->ctx;
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
    lf_buf_printf(&out, "--memory is %s, but %s are available; without it: %s", lf_plan_size(p->limit_bytes).text,
                  lf_plan_size(p->available_bytes).text, other.fits ? "it fits" : other.advice);
    snprintf(p->advice, sizeof(p->advice), "%s", lf_buf_view(&out).ptr);
    lf_buf_deinit(&out);
}

static enum lf_status check_attention(const struct frame *f, struct lf_err *err)
{
    struct lf_step_limits limits = limits_of(f);
    for (int i = 0; i < f->kinds->n_shapes; i++) {
        struct lf_attn_shape shape = lf_workspace_attn_shape(f->kinds, i, f->hp, &limits);
        LF_TRY(lf_attn_check(&shape, f->info, err));
    }
    return LF_OK;
}

/* What the plan would be with a cache of the other type: beside, where the device has such a cache. */
static void find_other_cache(struct frame *f, struct lf_layer_kinds *kinds)
{
    bool is_fp8 = f->opts.kv_dtype == LF_E4M3;
    struct frame other;
    f->dtype_of[0] = !is_fp8 ? f->opts.kv_dtype : f->info->is_host ? LF_BF16 : f->info->act_dtype;
    f->dtype_of[1] = LF_E4M3;
    f->kinds_of[is_fp8] = f->kinds;
    if (lf_layer_kinds_make(kinds, f->hp, f->programs, f->dtype_of[!is_fp8], f->info->act_dtype, f->opts.cache_groups,
                            NULL) != LF_OK)
        return;
    f->kinds_of[!is_fp8] = kinds;
    with_cache(&other, f, !is_fp8);
    if (check_attention(&other, NULL) != LF_OK) f->kinds_of[!is_fp8] = NULL;
}

static enum lf_status check_ranks(const struct frame *f, struct lf_err *err)
{
    int n_ranks = lf_split_world(&f->hp->split);
    if (f->info->is_host || n_ranks == 1) return LF_OK;
    if (f->hp->delta.n_v_heads > 0)
        return lf_fail(err, LF_UNSUPPORTED,
                       "gated delta nets have not been run over several GPUs yet: expected one GPU, or --device cpu");
    if (n_ranks <= LF_GPU_RANKS_N || f->opts.is_forecast) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "ranks on GPUs are those of one machine, %d at most, not %d", LF_GPU_RANKS_N,
                   n_ranks);
}

static enum lf_status check_snapshots(const struct frame *f, struct lf_err *err)
{
    if (f->opts.n_snapshots == 0) return LF_OK;
    if (f->kinds->layout.states.n_layers == 0)
        return lf_fail(err, LF_INVALID, "--snapshots is %d, but no layer of %s has a state", f->opts.n_snapshots,
                       f->hp->architecture);
    if (f->opts.no_prefix_cache)
        return lf_fail(err, LF_INVALID,
                       "--snapshots are what the prefix cache keeps of states, but --prefix-cache is off");
    return LF_OK;
}

static enum lf_status check_whole_chunks(const struct frame *f, struct lf_err *err)
{
    int least = LF_BATCH_STATE_TOKENS;
    if (f->info->is_host || f->kinds->layout.states.n_layers == 0 || f->opts.chunk >= least) return LF_OK;
    return lf_fail(err, LF_INVALID, "--chunk is %d, but on a GPU %s, whose layers have states, needs %d at least",
                   f->opts.chunk, f->hp->architecture, least);
}

enum lf_status lf_plan_make(struct lf_plan *out, const struct lf_hparams *hp, uint64_t weight_bytes,
                            const struct lf_ops *ops, const struct lf_device_info *info,
                            const struct lf_plan_opts *opts, struct lf_err *err)
{
    struct lf_programs programs;
    struct lf_layer_kinds kinds = {.n = 0}, other = {.n = 0};
    struct frame f = {.hp = hp,
                      .ops = ops,
                      .info = info,
                      .programs = &programs,
                      .kinds = &kinds,
                      .kinds_dtype = opts->kv_dtype,
                      .weight_bytes = weight_bytes,
                      .opts = *opts};
    struct lf_plan p;
    LF_TRY(check_ranks(&f, err));
    LF_TRY(fill_defaults(&f, err));
    LF_TRY(lf_programs_make(&programs, hp, ops, opts->no_fusion, err));
    enum lf_status status =
        lf_layer_kinds_make(&kinds, hp, &programs, opts->kv_dtype, info->act_dtype, opts->cache_groups, err);
    if (status == LF_OK) status = check_snapshots(&f, err);
    if (status == LF_OK) status = check_whole_chunks(&f, err);
    if (status == LF_OK) status = check_attention(&f, err);
    if (status != LF_OK) goto done;
    find_other_cache(&f, &other);
    decide(&p, &f);
    if (f.is_auto_ctx && !p.fits) { /* where none fits: what the least would need */
        int largest = largest_ctx(&f);
        f.opts.ctx = largest > 0 ? largest : LF_MIN(block_tokens(&f), f.opts.ctx);
        decide(&p, &f);
    }
    if (!p.fits) write_advice(&p, &f);
    count_requests(&p, &f);
    *out = p;
done:
    lf_layer_kinds_deinit(&other);
    lf_layer_kinds_deinit(&kinds);
    lf_programs_deinit(&programs);
    return status;
}
