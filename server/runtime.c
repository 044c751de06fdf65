/* From a model directory to a running engine.
 *
 * The plan's host part. What the process itself takes (program, libraries, tokenizer, template) is not computed but
 * measured: plan runs the same program up to the same point as serve, so its own resident size is the number. What
 * comes later is a formula: the engine's tables, the cache's bookkeeping, and a fixed share for the HTTP threads. */
#include "server/runtime.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/log.h"
#include "device/comm.h"
#include "kv/tiers/disk_speed.h"
#include "model/layer_kinds.h"
#include "model/rope_config.h"
#include "server/below_cache.h"
#include "server/commands.h"
#include "server/device_choice.h"
#include "server/engine/engine.h"
#include "server/http/conn/http_server.h"
#include "server/options.h"
#include "server/rank_join.h"
#include "server/runtime_opts.h"
#include "server/ranks.h"
#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"

enum {
    HTTP_BYTES = 4 * 1024 * 1024,     /* threads, connections and library pages touched once requests come */
    MMAP_THRESHOLD_BYTES = 256 * 1024 /* larger pieces are given back to the system when freed */
};

void lf_runtime_tame_heap(void)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
    mallopt(M_TRIM_THRESHOLD, MMAP_THRESHOLD_BYTES);
}

/* The number behind `name` in /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *name)
{
    FILE *f = fopen("/proc/self/status", "re");
    if (!f) return 0;
    char line[256];
    uint64_t kib = 0;
    size_t len = strlen(name);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, name, len) == 0 && line[len] == ':') kib = strtoull(line + len + 1, NULL, 10);
    fclose(f);
    return kib * 1024;
}

uint64_t lf_runtime_peak_bytes(void)
{
    return status_bytes("VmHWM");
}

/* The end of text that tokenizer_config.json names ends an answer too: fine-tunes of base models write it and leave the
 * ids of the base model in config.json. */
static void add_tokenizer_eos(struct lf_runtime *rt)
{
    int32_t id = lf_tokenizer_eos(rt->tok);
    struct lf_str text = lf_tokenizer_eos_text(rt->tok);
    if (lf_hparams_add_eos(&rt->hp, id))
        LF_INFO("answers end at %.*s (%d) of the tokenizer too", (int)LF_MIN(text.len, 40u), text.ptr, (int)id);
}

static enum lf_status open_tokenizer(struct lf_runtime *rt, bool needed, struct lf_err *err)
{
    enum lf_status status = lf_tokenizer_open(&rt->tok, rt->dir.path, err);
    rt->id_text = status == LF_NOT_FOUND && rt->config->load_choice == LF_LOAD_DUMMY;
    if (rt->id_text) return lf_tokenizer_open_ids(&rt->tok, rt->hp.n_vocab, err);
    if (status == LF_NOT_FOUND && !needed) return LF_OK;
    if (status == LF_NOT_FOUND) return lf_model_dir_no_tokenizer(&rt->dir, err);
    LF_TRY(status);
    add_tokenizer_eos(rt);
    struct lf_str source = lf_tokenizer_chat_template(rt->tok);
    if (source.len == 0) return LF_OK;
    struct lf_err why;
    status = lf_chat_template_create(&rt->chat, source, &why);
    if (status == LF_NO_MEMORY) return lf_fail(err, status, "chat template: %s", why.message);
    if (status != LF_OK) LF_WARN("the chat template is left out, /v1/chat/completions is refused: %s", why.message);
    return LF_OK;
}

_Static_assert((int)LF_OPTION_WORD == (int)LF_CTX_AUTO, "--ctx auto is passed on as it is");

static void warn_of_stretch(const struct lf_hparams *hp)
{
    char how[LF_STRETCH_TEXT_BYTES];
    if (hp->max_positions <= hp->made_positions) return;
    lf_rope_stretch_text(hp, how);
    LF_WARN("--max-position %d: the model was made for %d tokens, and not for what it answers behind them (%s)",
            hp->max_positions, hp->made_positions, how);
}

static enum lf_dtype kv_dtype(const struct lf_runtime *rt)
{
    const struct lf_device_info *info = lf_device_info(rt->dev);
    if (rt->config->kv_dtype == LF_KV_FP8) return LF_E4M3;
    if (rt->config->kv_dtype == LF_KV_AUTO && !info->is_host) return info->act_dtype;
    if (rt->config->kv_dtype == LF_KV_AUTO) return rt->hp.dtype == LF_F32 ? LF_F32 : LF_BF16;
    return rt->config->kv_dtype == LF_KV_F32 ? LF_F32 : LF_BF16;
}

/* Layers with windows keep the last tokens alone, in groups of their own (kv/kv_layout.h). */
enum { CACHE_GROUPS = true };

static enum lf_status find_block_bytes(struct lf_runtime *rt, struct lf_err *err)
{
    struct lf_kv_layout layout;
    LF_TRY(lf_hparams_kv_layout(&layout, &rt->hp, kv_dtype(rt), lf_device_info(rt->dev)->act_dtype, CACHE_GROUPS, err));
    rt->kv_block_bytes = layout.block_bytes;
    rt->slot_blocks = layout.states.slot_blocks;
    lf_kv_layout_deinit(&layout);
    return LF_OK;
}

/* With the identity of the model that was read. */
static enum lf_status open_disk(struct lf_runtime *rt, const char *program, const uint8_t *identity, struct lf_err *err)
{
    char about[1024], split[64] = "";
    struct lf_disk_kind kind = lf_below_kind(rt);
    const struct lf_split *s = &rt->hp.split;
    if (!rt->config->cache_dir) return LF_OK;
    if (lf_split_world(s) > 1)
        snprintf(split, sizeof(split), " over tp=%d,cp=%d", lf_split_n_ranks(s), lf_split_n_cp(s));
    snprintf(about, sizeof(about), "%.500s, %s%s, KV in %s, %s", rt->dir.path, rt->plan.device, split,
             lf_dtype_name(kv_dtype(rt)), program);
    struct lf_disk_store_opts opts = {.dir = rt->config->cache_dir,
                                      .about = about,
                                      .identity = identity,
                                      .budget_bytes = lf_below_disk_bytes(rt->config),
                                      .kinds = &kind,
                                      .n_kinds = 1};
    LF_TRY(lf_disk_store_open(&rt->disk, &opts, err));
    lf_below_say_not_used(rt);
    return LF_OK;
}

/* ---- open ---- */

/* What would have no effect is refused: the engine proposes nothing there (server/engine/request.h). */
static enum lf_status check_speculation(const struct lf_runtime *rt, struct lf_err *err)
{
    int n = rt->config->speculate;
    if (n == LF_SPECULATION_OFF || n == LF_SPECULATE_DEFAULT) return LF_OK; /* nobody asks for it by name */
    if (rt->slot_blocks > 0)
        return lf_fail(err, LF_UNSUPPORTED, "--speculate: not implemented for models with states: expected off");
    return LF_OK;
}

/* How many, until auto has found out. */
static enum lf_status read_ranks(struct lf_runtime *rt, struct lf_err *err)
{
    const struct lf_config *c = rt->config;
    rt->is_auto_split = lf_device_choice_is_auto(c);
    LF_TRY(lf_ranks_parse(&rt->hp.split, rt->is_auto_split ? NULL : c->parallel, err));
    LF_TRY(lf_rank_read(&rt->rank, c, &rt->hp.split, err));
    bool is_apart = rt->rank != LF_RANK_THREADS;
    rt->dev_opts.n_ranks = is_apart ? 1 : lf_split_world(&rt->hp.split);
    rt->dev_opts.asks_others = rt->is_auto_split || rt->dev_opts.n_ranks > 1;
    return lf_opts_check_ranks(c, lf_split_world(&rt->hp.split), is_apart, err);
}

static enum lf_status open_device(struct lf_runtime *rt, struct lf_err *err)
{
    LF_TRY(lf_device_open(&rt->dev, &rt->dev_opts, err));
    rt->hp.split.rows_least = lf_device_info(rt->dev)->split_rows;
    if (rt->rank == LF_RANK_THREADS || lf_device_info(rt->dev)->is_host) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED,
                   "--rank is not implemented for GPUs yet: one process has all GPUs of a host, expected --parallel "
                   "without --rank, or --device cpu");
}

enum lf_status lf_runtime_split(struct lf_runtime *rt, int n_ranks, int n_cp, struct lf_err *err)
{
    LF_TRY(lf_opts_check_ranks(rt->config, n_ranks * n_cp, false, err));
    rt->hp.split = (struct lf_split){.n_ranks = n_ranks, .n_cp = n_cp, .rows_least = rt->hp.split.rows_least};
    rt->dev_opts.n_ranks = n_ranks * n_cp;
    LF_TRY(find_block_bytes(rt, err));
    LF_TRY(lf_below_check_disk(rt, err)); /* of so many ranks blocks may be larger */
    return lf_below_check_memory(rt, err);
}

enum lf_status lf_runtime_reopen(struct lf_runtime *rt, struct lf_err *err)
{
    lf_device_close(rt->dev);
    rt->dev = NULL;
    return lf_device_open(&rt->dev, &rt->dev_opts, err);
}

enum lf_status lf_runtime_open(struct lf_runtime *rt, const struct lf_config *config, bool need_tokenizer,
                               struct lf_err *err)
{
    memset(rt, 0, sizeof(*rt));
    rt->config = config;
    rt->rank = LF_RANK_THREADS;
    enum lf_status status;
    struct lf_stretch stretch;
    rt->dev_opts = (struct lf_device_opts){.n_threads = config->threads, .max_isa = config->isa - 1};
    LF_TRY_GOTO(lf_device_choice_describe(&rt->dev_opts, config, err), fail);
    LF_TRY_GOTO(lf_model_dir_find(&rt->dir, config->model, err), fail);
    LF_TRY_GOTO(lf_model_dir_check(&rt->dir, config->load_choice != LF_LOAD_DUMMY, err), fail);
    LF_TRY_GOTO(lf_opts_stretch(&stretch, config, err), fail);
    LF_TRY_GOTO(lf_hparams_read_stretched(&rt->hp, rt->dir.path, &stretch, err), fail);
    rt->dev_opts.act_dtype = rt->hp.dtype == LF_F16 ? LF_F16 : LF_BF16;
    LF_TRY_GOTO(read_ranks(rt, err), fail);
    LF_TRY_GOTO(open_device(rt, err), fail);
    LF_TRY_GOTO(find_block_bytes(rt, err), fail);
    LF_TRY_GOTO(check_speculation(rt, err), fail);
    LF_TRY_GOTO(lf_below_check_disk(rt, err), fail);
    LF_TRY_GOTO(lf_below_check_memory(rt, err), fail);
    if (rt->rank <= 0) LF_TRY_GOTO(open_tokenizer(rt, need_tokenizer, err), fail); /* the others know ids alone */
    malloc_trim(0);
    rt->process_bytes = status_bytes("VmRSS");
    return LF_OK;
fail:
    lf_runtime_close(rt);
    return status;
}

/* Of a step, in ms: what those who decode wait for, and what a new request may wait for where nobody does. On a GPU
 * large steps of a long document are faster than several small ones; on a CPU they are not. */
enum { STEP_MS_CPU = 100, STEP_MS_GPU = 50, ALONE_MS_GPU = 250 };

static struct lf_engine_opts engine_opts(const struct lf_runtime *rt)
{
    const struct lf_config *c = rt->config;
    bool is_host = lf_device_info(rt->dev)->is_host;
    return (struct lf_engine_opts){
        .ctx = rt->plan.ctx,
        .chunk = rt->plan.chunk,
        .max_seqs = rt->plan.max_seqs,
        .max_out = rt->plan.max_out,
        .queue_n = c->queue ? c->queue : LF_QUEUE_N,
        .step_ms = c->step_ms ? c->step_ms : (is_host ? STEP_MS_CPU : STEP_MS_GPU),
        .alone_ms = is_host ? 0 : ALONE_MS_GPU,
        .token_tile = lf_device_info(rt->dev)->token_tile,
        .per_tenant_n = c->api_keys_file || c->api_keys_env ? LF_IN_FLIGHT_PER_KEY_N : 0,
        .n_mask_threads = LF_MIN(lf_device_info(rt->dev)->n_threads, (int)LF_MASK_THREADS_N),
        .watchdog_s = c->watchdog,
        .has_disk = c->cache_dir != NULL,
        .memory_bytes = c->cache_memory,
        .may_meet = c->cache_meet,
        .block_bytes = lf_below_kind(rt).block_bytes,
        .n_slots = rt->plan.n_slots,
        .slot_blocks = rt->plan.states.slot_blocks,
    };
}

static uint64_t text_bytes_with(const struct lf_config *c, uint64_t memory)
{
    return c->text_memory ? c->text_memory : lf_http_text_bytes(c->max_body, memory);
}

uint64_t lf_runtime_text_bytes(const struct lf_runtime *rt)
{
    return text_bytes_with(rt->config, rt->config->memory);
}

static enum lf_status check_text_memory(const struct lf_config *c, struct lf_err *err)
{
    uint64_t least = lf_http_text_bytes_least(c->max_body);
    if (c->text_memory == 0 || c->text_memory >= least) return LF_OK;
    return lf_fail(
        err, LF_INVALID,
        "--text-memory is %llu bytes, but a request of --max-body %llu bytes may need %llu: expected more of "
        "the one or less of the other",
        (unsigned long long)c->text_memory, (unsigned long long)c->max_body, (unsigned long long)least);
}

/* Of all requests that run: as many as the cache holds, or, where windows let it hold more, as can run. */
static uint64_t tokens_at_once(const struct lf_plan *p)
{
    return LF_MIN(p->kv_tokens, (uint64_t)lf_batch_n_slots(p->max_seqs) * (uint64_t)p->ctx);
}

/* The engine's tables grow with the number of blocks, and that shrinks with the tables: one round is enough, for the
 * second plan has no more blocks than the first. */
static enum lf_status plan_on(struct lf_runtime *rt, const struct lf_device_info *info,
                              const struct lf_plan_opts *given, uint64_t weight_bytes, struct lf_err *err)
{
    const struct lf_ops *ops = lf_device_ops(rt->dev);
    struct lf_plan_opts opts = *given;
    LF_TRY(lf_plan_make(&rt->plan, &rt->hp, weight_bytes, ops, info, &opts, err));
    struct lf_engine_opts engine = engine_opts(rt);
    opts.host_bytes +=
        lf_engine_host_bytes(&engine, rt->hp.n_vocab, rt->plan.n_blocks, lf_kv_windows_block_tokens(&rt->plan.windows));
    opts.text_bytes += lf_engine_answer_bytes(tokens_at_once(&rt->plan));
    return lf_plan_make(&rt->plan, &rt->hp, weight_bytes, ops, info, &opts, err);
}

/* Of all ranks. */
static struct lf_device_info device_info(const struct lf_runtime *rt)
{
    return lf_device_choice_info(lf_device_info(rt->dev), lf_split_world(&rt->hp.split));
}

static enum lf_status plan_with(struct lf_runtime *rt, const struct lf_plan_opts *given, uint64_t weight_bytes,
                                struct lf_err *err)
{
    struct lf_device_info info = device_info(rt);
    return plan_on(rt, &info, given, weight_bytes, err);
}

/* What is measured moves from one start to the next: the process by some pages of its libraries, and what the machine
 * has available by whatever else runs there. A context that is said to fit must fit at the next start too, and is best
 * the same number: so it is looked for with more of the process than was measured and less of the memory, in steps. */
enum {
    DRIFT_BYTES = 512 * 1024,
    PROCESS_STEP_BYTES = 1024 * 1024,
    AVAILABLE_DRIFT = 64, /* one part in so many */
    AVAILABLE_STEP_BYTES = 16 * 1024 * 1024
};

static void allow_for_process(struct lf_plan_opts *opts)
{
    opts->host_bytes += DRIFT_BYTES + PROCESS_STEP_BYTES - 1;
    opts->host_bytes -= opts->host_bytes % PROCESS_STEP_BYTES;
}

static void allow_for_others(struct lf_device_info *info)
{
    if (!info->is_host) return; /* what a GPU has is read to the byte, and no other program should come and go there */
    info->available_bytes -= info->available_bytes / AVAILABLE_DRIFT;
    info->available_bytes -= info->available_bytes % AVAILABLE_STEP_BYTES;
}

enum { FEWER_BLOCKS_N = 16 };

/* The plan of the largest context that fits, now and at the next start; where there is none, of one that fits now. */
static enum lf_status plan_largest(struct lf_runtime *rt, const struct lf_plan_opts *given, uint64_t weight_bytes,
                                   struct lf_err *err)
{
    struct lf_plan_opts opts = *given;
    struct lf_device_info info = device_info(rt);
    opts.ctx = LF_CTX_AUTO;
    allow_for_process(&opts);
    allow_for_others(&info);
    LF_TRY(plan_on(rt, &info, &opts, weight_bytes, err));
    opts = *given;
    opts.ctx = LF_CTX_AUTO;
    if (!rt->plan.fits) LF_TRY(plan_with(rt, &opts, weight_bytes, err));
    if (!rt->plan.fits) return LF_OK;
    /* as --ctx with that number has it: its first plan may have a block more, and larger tables for it */
    opts.ctx = rt->plan.ctx;
    LF_TRY(plan_with(rt, &opts, weight_bytes, err));
    int block_tokens = lf_kv_windows_block_tokens(&rt->plan.windows);
    for (int i = 0; i < FEWER_BLOCKS_N && !rt->plan.fits && opts.ctx > block_tokens; i++) {
        opts.ctx -= block_tokens;
        LF_TRY(plan_with(rt, &opts, weight_bytes, err));
    }
    rt->plan.is_auto_ctx = true;
    return LF_OK;
}

/* Of logits, of a step; 0: one for each request that runs, as by default. What is proposed takes rows too: a single
 * request must find room for its own. */
static int n_rows(const struct lf_config *c)
{
    bool is_narrow = c->max_seqs > 0 && c->max_seqs <= LF_SPECULATION_N;
    return is_narrow && c->speculate != LF_SPECULATION_OFF ? LF_SPECULATION_N + 1 : 0;
}

static bool keeps_below(const struct lf_runtime *rt)
{
    return rt->config->cache_dir || rt->config->cache_memory > 0;
}

/* What the configuration says, with that much --memory, of which texts get a share. */
static struct lf_plan_opts plan_opts(const struct lf_runtime *rt, uint64_t memory, bool serves)
{
    const struct lf_config *c = rt->config;
    uint32_t n_slots = lf_below_disk_slots(rt);
    return (struct lf_plan_opts){
        .ctx = c->ctx,
        .chunk = c->chunk,
        .max_seqs = c->max_seqs,
        .max_out = n_rows(c),
        .concurrency = c->concurrency,
        .memory_bytes = memory,
        .n_snapshots = c->snapshots,
        .no_prefix_cache = !c->prefix_cache,
        .kv_tokens = c->kv_tokens,
        .kv_dtype = kv_dtype(rt),
        .weight_format = rt->weights.format,
        .quantized = rt->weights.quantized,
        .ranks_apart = rt->rank != LF_RANK_THREADS,
        .no_fusion = c->no_fusion,
        .cache_groups = CACHE_GROUPS,
        .host_bytes = rt->process_bytes + HTTP_BYTES + lf_answer_vocabulary_bytes(&rt->vocabulary),
        .disk_index_bytes = n_slots > 0 ? lf_disk_table_host_bytes(n_slots) : 0,
        .disk_tokens = lf_below_tokens(rt, n_slots),
        .disk_bytes = n_slots > 0 ? lf_below_disk_bytes(c) : 0,
        .below_tokens = lf_below_tokens(rt, lf_below_memory_slots(rt)),
        .below_bytes = c->cache_memory,
        .text_bytes = serves ? lf_http_host_bytes(text_bytes_with(c, memory), c->document_memory + c->response_memory,
                                                  c->n_connections)
                             : 0,
    };
}

enum { MORE_MEMORY_N = 16, MEMORY_STEP_BYTES = 1024 * 1024 };

/* The --memory with which it fits, now and at the next start: with more of it the share of texts is larger too.
 * UINT64_MAX where none does. */
static enum lf_status find_memory(struct lf_runtime *rt, uint64_t weight_bytes, bool serves, uint64_t *out,
                                  struct lf_err *err)
{
    uint64_t memory = rt->config->memory;
    for (int i = 0; i < MORE_MEMORY_N; i++) {
        struct lf_plan_opts opts = plan_opts(rt, memory, serves);
        allow_for_process(&opts);
        LF_TRY(plan_with(rt, &opts, weight_bytes, err));
        *out = i > 0 ? memory : UINT64_MAX;
        if (rt->plan.fits) return LF_OK;
        memory = rt->plan.total_bytes + MEMORY_STEP_BYTES - 1;
        memory -= memory % MEMORY_STEP_BYTES;
    }
    *out = UINT64_MAX;
    return LF_OK;
}

/* Its bytes are known exactly, so it is not among what is measured. */
static enum lf_status make_vocabulary(struct lf_runtime *rt, bool serves, struct lf_err *err)
{
    const struct lf_config *c = rt->config;
    bool wanted = serves || c->json_schema || c->regex || c->choice || c->tools;
    if (!wanted || !rt->tok || rt->id_text || rt->vocabulary.continues) return LF_OK;
    LF_TRY(lf_answer_vocabulary_create(&rt->vocabulary, rt->tok, rt->hp.n_vocab, rt->hp.eos_ids, rt->hp.n_eos, err));
    malloc_trim(0);
    return LF_OK;
}

struct lf_model_opts lf_runtime_model_opts(const struct lf_runtime *rt)
{
    static const enum lf_code codes[] = {LF_CODE_NONE, LF_CODE_E4M3, LF_CODE_I8, LF_CODE_I4}; /* by choice */
    const struct lf_config *c = rt->config;
    return (struct lf_model_opts){.dir = rt->dir.path,
                                  .load = (enum lf_load)c->load_choice,
                                  .quantize = codes[c->quantize],
                                  .dummy_seed = c->seed,
                                  .plan = &rt->plan,
                                  .hash_weights = c->cache_dir != NULL,
                                  .ends_together = keeps_below(rt)};
}

enum lf_status lf_runtime_plan(struct lf_runtime *rt, bool serves, struct lf_err *err)
{
    const struct lf_config *c = rt->config;
    struct lf_model_opts model_opts = lf_runtime_model_opts(rt);
    if (serves) LF_TRY(check_text_memory(c, err));
    LF_TRY(make_vocabulary(rt, serves, err));
    enum lf_status status = lf_weights_measure(&rt->weights, &rt->hp, &model_opts, rt->dev, err);
    LF_TRY(lf_model_dir_complete(&rt->dir, status, err));
    uint64_t weight_bytes = rt->weights.bytes;
    struct lf_plan_opts opts = plan_opts(rt, c->memory, serves);
    if (c->ctx == LF_CTX_AUTO) return plan_largest(rt, &opts, weight_bytes, err);
    LF_TRY(plan_with(rt, &opts, weight_bytes, err));
    if (rt->plan.fits) return LF_OK;
    LF_TRY(plan_largest(rt, &opts, weight_bytes, err));
    opts.fitting_ctx = rt->plan.fits ? rt->plan.ctx : 0;
    LF_TRY(find_memory(rt, weight_bytes, serves, &opts.other_memory, err));
    return plan_with(rt, &opts, weight_bytes, err);
}

static enum lf_status backend_launch(void *ctx, struct lf_kv_cache *kv, const struct lf_batch *batch)
{
    struct lf_err err;
    enum lf_status status = lf_model_launch(ctx, kv, batch, &err);
    if (status != LF_OK) LF_ERROR("%s", err.message);
    return status;
}

static enum lf_status backend_sample(void *ctx, const struct lf_batch *batch)
{
    struct lf_err err;
    enum lf_status status = lf_model_sample(ctx, batch, &err);
    if (status != LF_OK) LF_ERROR("%s", err.message);
    return status;
}

static enum lf_status backend_wait(void *ctx, struct lf_sampled *out)
{
    struct lf_err err;
    enum lf_status status = lf_model_wait(ctx, out, &err);
    if (status != LF_OK) LF_ERROR("%s", err.message);
    return status;
}

static enum lf_status backend_beat(void *ctx)
{
    struct lf_err err;
    enum lf_status status = lf_model_beat(ctx, &err);
    if (status != LF_OK) LF_ERROR("%s", err.message);
    return status;
}

static void backend_end(void *ctx)
{
    lf_model_end(ctx);
}

static void backend_run_tasks(void *ctx, int n_tasks, lf_engine_task_fn *fn, void *tasks)
{
    lf_model_run_tasks(ctx, n_tasks, fn, tasks);
}

static struct lf_kv_cache_opts kv_opts(const struct lf_runtime *rt)
{
    return (struct lf_kv_cache_opts){.dtype = rt->plan.kv_dtype,
                                     .n_blocks = rt->plan.n_blocks,
                                     .n_slots = rt->plan.n_slots,
                                     .stripe = {.idx = rt->hp.split.cp_rank, .n = rt->hp.split.n_cp}};
}

/* ---- ranks ---- */

/* What rank 0 has decided that others must have alike. */
struct sizes {
    int32_t ctx, chunk, max_seqs, max_out, n_blocks, n_slots, n_snapshots;
};

static struct sizes sizes_of(const struct lf_plan *p)
{
    return (struct sizes){.ctx = p->ctx,
                          .chunk = p->chunk,
                          .max_seqs = p->max_seqs,
                          .max_out = p->max_out,
                          .n_blocks = p->n_blocks,
                          .n_slots = p->n_slots,
                          .n_snapshots = p->n_snapshots};
}

enum lf_status lf_runtime_join(struct lf_runtime *rt, struct lf_err *err)
{
    int sockets[LF_RANKS_N];
    struct lf_model_opts model = lf_runtime_model_opts(rt);
    const struct lf_device_info *info = lf_device_info(rt->dev);
    LF_TRY(lf_rank_join(sockets, rt->rank, rt->config, &rt->hp, &model, kv_dtype(rt), info, err));
    struct lf_ranks_opts opts = {.hp = &rt->hp, .sockets = sockets, .rank = rt->rank};
    return lf_ranks_start(&rt->ranks, &opts, err);
}

enum lf_status lf_runtime_plan_told(struct lf_runtime *rt, struct lf_err *err)
{
    struct sizes told, mine;
    size_t n_bytes = 0;
    struct lf_model_opts model = lf_runtime_model_opts(rt);
    LF_TRY(lf_comm_hear(lf_ranks_comm(rt->ranks), &told, sizeof(told), &n_bytes, err));
    if (n_bytes != sizeof(told)) return lf_fail(err, LF_DEVICE, "rank 0 told sizes of %zu bytes", n_bytes);
    enum lf_status status = lf_weights_measure(&rt->weights, &rt->hp, &model, rt->dev, err);
    LF_TRY(lf_model_dir_complete(&rt->dir, status, err));
    struct lf_plan_opts opts = plan_opts(rt, rt->config->memory, false);
    opts.ctx = told.ctx;
    opts.chunk = told.chunk;
    opts.max_seqs = told.max_seqs;
    opts.max_out = told.max_out;
    opts.n_blocks = told.n_blocks;
    opts.n_snapshots = told.n_snapshots;
    opts.concurrency = 0;
    LF_TRY(plan_with(rt, &opts, rt->weights.bytes, err));
    mine = sizes_of(&rt->plan);
    if (memcmp(&mine, &told, sizeof(mine)) != 0)
        return lf_fail(
            err, LF_UNSUPPORTED,
            "rank 0 has %d blocks and %d slots for contexts of %d tokens, this rank %d, %d and %d: expected the "
            "same options",
            told.n_blocks, told.n_slots, told.ctx, mine.n_blocks, mine.n_slots, mine.ctx);
    if (rt->plan.fits) return LF_OK;
    return lf_fail(err, LF_NO_MEMORY,
                   "what rank 0 has planned takes %llu bytes, of which this rank may use %llu: expected less --ctx or "
                   "--kv-tokens there, or more --memory here",
                   (unsigned long long)rt->plan.total_bytes, (unsigned long long)rt->plan.limit_bytes);
}

/* Of ranks that are processes: rank 0 is the first that comes here, the others have heard what it tells. */
static enum lf_status join_others(struct lf_runtime *rt, struct lf_err *err)
{
    struct lf_split *split = &rt->hp.split;
    if (!rt->ranks) {
        struct sizes told = sizes_of(&rt->plan);
        LF_TRY(lf_runtime_join(rt, err));
        lf_comm_tell(lf_ranks_comm(rt->ranks), &told, sizeof(told));
    }
    split->rank = rt->rank % lf_split_n_ranks(split);
    split->cp_rank = rt->rank / lf_split_n_ranks(split);
    return lf_ranks_check(rt->ranks, err);
}

/* The other ranks, which load while this one does. */
static enum lf_status start_ranks(struct lf_runtime *rt, struct lf_model_opts *model_opts, struct lf_err *err)
{
    if (lf_split_world(&rt->hp.split) == 1) return LF_OK;
    if (rt->rank != LF_RANK_THREADS) {
        LF_TRY(join_others(rt, err));
        model_opts->comm = lf_ranks_comm(rt->ranks);
        return LF_OK;
    }
    struct lf_ranks_opts opts = {.device = rt->dev_opts, .hp = &rt->hp, .model = *model_opts, .kv = kv_opts(rt)};
    if (strcmp(opts.device.name, "auto") == 0) opts.device.name = lf_device_info(rt->dev)->kind;
    LF_TRY(lf_ranks_start(&rt->ranks, &opts, err));
    model_opts->comm = lf_ranks_comm(rt->ranks);
    return LF_OK;
}

enum lf_status lf_runtime_load(struct lf_runtime *rt, void (*progress)(void *ctx, uint64_t done, uint64_t total),
                               void *ctx, struct lf_err *err)
{
    const struct lf_config *c = rt->config;
    char program[LF_PROGRAM_BYTES];
    lf_program_print(program);
    warn_of_stretch(&rt->hp);
    if (rt->splits.n > 0) LF_INFO("--parallel auto is %s", rt->splits.reason);
    if (c->cache_dir) LF_TRY(lf_disk_store_lock(&rt->disk, c->cache_dir, err));
    struct lf_model_opts model_opts = lf_runtime_model_opts(rt);
    model_opts.program = program;
    model_opts.progress = progress;
    model_opts.progress_ctx = ctx;
    LF_TRY(start_ranks(rt, &model_opts, err));
    LF_TRY(lf_model_open(&rt->model, rt->dev, &rt->hp, &model_opts, err));
    uint8_t identity[32];
    lf_model_identity(rt->model, identity);
    if (rt->ranks && keeps_below(rt)) LF_TRY(lf_ranks_identity(rt->ranks, identity, err));
    /* before the cache is allocated: what the index takes while it is read lies below the memory of the whole */
    LF_TRY(open_disk(rt, program, identity, err));
    struct lf_kv_cache_opts kv = kv_opts(rt);
    kv.layout = lf_model_kv_layout(rt->model);
    kv.prefix_cache = c->prefix_cache && rt->rank <= 0; /* which blocks are whose rank 0 knows alone */
    kv.identity = identity;
    kv.identity_bytes = sizeof(identity);
    LF_TRY(lf_kv_cache_open(&rt->kv, rt->dev, &kv, err));
    LF_TRY(lf_model_prepare(rt->model, &rt->kv, err));
    if (!rt->ranks) return LF_OK;
    LF_TRY(lf_ranks_wait(rt->ranks, err));
    if (rt->rank > 0) return LF_OK;
    return lf_model_beat(rt->model, err); /* from here on they wait with a bound */
}

enum lf_status lf_runtime_start(struct lf_runtime *rt, struct lf_err *err)
{
    struct lf_engine_backend backend = {
        .ctx = rt->model,
        .launch = backend_launch,
        .sample = backend_sample,
        .wait = backend_wait,
        .run_tasks = lf_model_has_workers(rt->model) ? backend_run_tasks : NULL,
        .beat = rt->ranks ? backend_beat : NULL,
        .beat_ms = LF_MODEL_BEAT_MS,
        .end = rt->ranks ? backend_end : NULL,
        .n_async_steps = lf_model_n_async_steps(rt->model),
        .n_vocab = rt->hp.n_vocab,
        .eos_ids = rt->hp.eos_ids,
        .n_eos = rt->hp.n_eos,
    };
    struct lf_engine_opts opts = engine_opts(rt);
    struct lf_kv_parts parts = {.of = {&rt->kv}, .n = 1};
    if (rt->ranks && keeps_below(rt)) lf_ranks_add_parts(rt->ranks, &parts);
    opts.parts = &parts;
    opts.disk = rt->disk.tables[0];
    if (opts.disk) (void)lf_disk_speed_read(opts.speed.ns, LF_ENGINE_SPEED_N, rt->config->cache_dir, rt->disk.identity);
    LF_TRY(lf_engine_create(&rt->engine, &backend, &rt->kv, &opts, err));
    malloc_trim(0);
    return LF_OK;
}

void lf_runtime_keep_speed(struct lf_runtime *rt)
{
    struct lf_engine_state state;
    struct lf_err err;
    if (!rt->engine || !rt->disk.tables[0]) return;
    lf_engine_snapshot(rt->engine, &state);
    if (state.n_steps == rt->n_steps_kept || state.speed.ns[0] <= 0) return;
    rt->n_steps_kept = state.n_steps;
    if (lf_disk_speed_write(state.speed.ns, LF_ENGINE_SPEED_N, rt->config->cache_dir, rt->disk.identity, &err) != LF_OK)
        LF_WARN("what was measured is not kept: %s", err.message);
}

void lf_runtime_close(struct lf_runtime *rt)
{
    struct lf_err err;
    lf_runtime_keep_speed(rt);
    lf_engine_destroy(rt->engine);
    if (rt->ranks && rt->dev && lf_device_sync(rt->dev, &err) != LF_OK) LF_DEBUG_LOG("rank 0: %s", err.message);
    lf_ranks_stop(rt->ranks); /* which free what this one's kernels wrote to */
    lf_disk_store_close(&rt->disk);
    lf_kv_cache_close(&rt->kv);
    lf_model_close(rt->model);
    lf_answer_vocabulary_deinit(&rt->vocabulary);
    lf_chat_template_destroy(rt->chat);
    lf_tokenizer_close(rt->tok);
    lf_device_close(rt->dev);
    lf_hparams_deinit(&rt->hp);
    memset(rt, 0, sizeof(*rt));
}
