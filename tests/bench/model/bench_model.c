/* Prefill and decode speed of a model, without server and scheduler.
 *
 *     bench_model DIR [--device NAME] [--dummy] [--layers N] [--threads N] [--chunk N] [--kv f32|bf16] [--isa NAME]
 *                 [--decode N] [--clock wall|cpu] [--quantize fp8|int8|int4] LENGTH…
 *
 * For each LENGTH: prefills that many random tokens in chunks, then decodes N tokens behind them one at a time; on a
 * CPU each is followed by a plain read loop over as many bytes as the token reads, with as many threads. Prints tokens
 * a second of both, the time to the first token and between tokens, the bytes that a decoded token reads (of a layer's
 * experts those of its own; longflash plan --ops has them op by op) as GB/s, and beside it what the read loop reached
 * (medians). --layers: the first so many of a model whose layers are not all wanted, or too large. --clock cpu, with
 * --threads 1, counts only the time that the benchmark had the CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "tests/bench/gemm/ceilings.h"

enum { MAX_DECODE = 1024 };
/* What the read loop has room for: no machine's caches hold it. */
#define READ_ROOM_BYTES ((size_t)4 << 30)

struct options {
    const char *dir, *device;
    enum lf_load load;
    enum lf_code quantize;
    int n_threads, chunk, n_decode, isa, n_layers;
    enum lf_dtype kv_dtype;
    struct bench_clock clock;
    int lengths[64];
    int n_lengths;
};

struct bench {
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_plan plan;
    struct lf_model_opts model_opts;
    struct lf_model *model;
    struct lf_kv_cache kv;
    int32_t *ids, *blocks;
    float *logits;
    const struct options *opts;
};

static void must(enum lf_status status, const struct lf_err *err)
{
    if (status == LF_OK) return;
    fprintf(stderr, "bench_model: %s\n", err->message);
    exit(1);
}

static int isa_by_name(const char *name)
{
    for (int isa = LF_ISA_C; isa <= LF_ISA_AMX; isa++)
        if (strcmp(name, lf_isa_name((enum lf_isa)isa)) == 0) return isa;
    fprintf(stderr, "bench_model: no instruction set %s\n", name);
    exit(2);
}

static enum lf_code code_by_name(const char *name)
{
    for (enum lf_code code = LF_CODE_E4M3; code <= LF_CODE_I4; code++)
        if (strcmp(name, lf_code_name(code)) == 0) return code;
    fprintf(stderr, "bench_model: no format %s\n", name);
    exit(2);
}

static struct options parse_args(int argc, char **argv)
{
    struct options o = {.device = "cpu", .chunk = 512, .n_decode = 64, .isa = -1, .kv_dtype = LF_BF16};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--dummy") == 0)
            o.load = LF_LOAD_DUMMY;
        else if (strcmp(argv[i], "--device") == 0 && ++i)
            o.device = value;
        else if (strcmp(argv[i], "--threads") == 0 && ++i)
            o.n_threads = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--chunk") == 0 && ++i)
            o.chunk = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--layers") == 0 && ++i)
            o.n_layers = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--decode") == 0 && ++i)
            o.n_decode = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--clock") == 0 && ++i)
            o.clock.cpu_time = strcmp(value, "cpu") == 0;
        else if (strcmp(argv[i], "--kv") == 0 && ++i)
            o.kv_dtype = strcmp(value, "f32") == 0 ? LF_F32 : strcmp(value, "fp8") == 0 ? LF_E4M3 : LF_BF16;
        else if (strcmp(argv[i], "--quantize") == 0 && ++i)
            o.quantize = code_by_name(value);
        else if (strcmp(argv[i], "--isa") == 0 && ++i)
            o.isa = isa_by_name(value);
        else if (!o.dir)
            o.dir = argv[i];
        else if (o.n_lengths < (int)LF_N_ELEMS(o.lengths))
            o.lengths[o.n_lengths++] = (int)strtol(argv[i], NULL, 10);
    }
    o.n_decode = LF_MAX(1, LF_MIN(o.n_decode, MAX_DECODE));
    if (!o.dir || !o.n_lengths) {
        fprintf(stderr, "usage: bench_model DIR [options] LENGTH…\n");
        exit(2);
    }
    return o;
}

static void open_bench(struct bench *b, const struct options *o)
{
    struct lf_err err;
    int longest = 0;
    for (int i = 0; i < o->n_lengths; i++) longest = LF_MAX(longest, o->lengths[i] + o->n_decode);
    b->opts = o;
    must(lf_hparams_read(&b->hp, o->dir, &err), &err);
    if (o->n_layers > 0) b->hp.n_layers = LF_MIN(o->n_layers, b->hp.n_layers);
    struct lf_device_opts dev_opts = {.name = o->device,
                                      .n_threads = o->n_threads,
                                      .max_isa = o->isa,
                                      .act_dtype = b->hp.dtype == LF_F16 ? LF_F16 : LF_BF16};
    must(lf_device_open(&b->dev, &dev_opts, &err), &err);
    const struct lf_device_info *info = lf_device_info(b->dev);
    enum lf_dtype kv_dtype = info->is_host || o->kv_dtype == LF_E4M3 ? o->kv_dtype : info->act_dtype;
    struct lf_weights_size weights;
    b->model_opts = (struct lf_model_opts){
        .dir = o->dir, .load = o->load, .quantize = o->quantize, .dummy_seed = 1, .plan = &b->plan};
    must(lf_weights_measure(&weights, &b->hp, &b->model_opts, b->dev, &err), &err);
    int n_blocks = longest / LF_KV_BLOCK_TOKENS + 2;
    struct lf_plan_opts plan_opts = {.ctx = longest,
                                     .chunk = o->chunk,
                                     .max_seqs = 1,
                                     .no_prefix_cache = true,
                                     .kv_dtype = kv_dtype,
                                     .kv_tokens = (uint64_t)n_blocks * LF_KV_BLOCK_TOKENS};
    must(lf_plan_make(&b->plan, &b->hp, weights.bytes, lf_device_ops(b->dev), lf_device_info(b->dev), &plan_opts, &err),
         &err);
    must(lf_model_open(&b->model, b->dev, &b->hp, &b->model_opts, &err), &err);
    struct lf_kv_cache_opts kv_opts = {
        .dtype = kv_dtype, .n_blocks = n_blocks, .n_slots = b->plan.n_slots, .layout = lf_model_kv_layout(b->model)};
    must(lf_kv_cache_open(&b->kv, b->dev, &kv_opts, &err), &err);
    must(lf_model_prepare(b->model, &b->kv, &err), &err);
    b->ids = calloc((size_t)longest, sizeof *b->ids);
    b->blocks = calloc((size_t)n_blocks, sizeof *b->blocks);
    b->logits = calloc((size_t)b->hp.n_vocab, sizeof *b->logits);
    if (!b->ids || !b->blocks || !b->logits) exit(1);
    for (int i = 0; i < longest; i++) b->ids[i] = (int32_t)(lf_random64(7, (uint64_t)i) % (uint64_t)b->hp.n_vocab);
    for (int i = 0; i < n_blocks; i++) b->blocks[i] = i;
}

/* Bytes that a token behind so many others reads and writes. */
static double token_bytes(struct bench *b, int length)
{
    struct lf_op_table table;
    struct lf_err err;
    struct lf_op_step one = {.n_tokens = 1, .kv_len = length + 1};
    double bytes = 0;
    must(lf_model_plan_ops(&table, &b->hp, &b->model_opts, b->dev, &one, &err), &err);
    for (int i = 0; i < table.n_rows; i++) bytes += table.rows[i].bytes;
    return bytes;
}

/* Runs tokens [first, first + n) of the sequence; seconds it took. */
static double step(struct bench *b, int first, int n, bool logits, bool is_decode)
{
    int last = n - 1;
    struct lf_kv_seq seq = {
        .blocks = b->blocks, .first_token = 0, .n_tokens = n, .kv_len = first + n, .is_decode = is_decode};
    struct lf_state_seq state = {.n_tokens = n, .position = first, .in = first > 0 ? 0 : -1};
    struct lf_batch batch = {.ids = b->ids + first,
                             .n_tokens = n,
                             .seqs = &seq,
                             .n_seqs = 1,
                             .states = b->kv.states.n_layers > 0 ? &state : NULL,
                             .logits_idx = &last,
                             .n_out = logits ? 1 : 0};
    int64_t start = bench_clock_ns(b->opts->clock);
    LF_ASSERT(lf_model_step(b->model, &b->kv, &batch, b->logits, NULL) == LF_OK);
    return (double)(bench_clock_ns(b->opts->clock) - start) / LF_NS_PER_S;
}

/* GB/s at which the workers read so many bytes of buf once, from another place each time. */
static double read_gbs(struct bench *b, const struct lf_buffer *buf, size_t bytes, int round)
{
    size_t room = (buf->bytes - bytes) / 4096 + 1, first = (size_t)(lf_random64(5, (uint64_t)round) % room) * 4096;
    struct lf_buffer part = {(char *)buf->ptr + first, bytes};
    return ceiling_read_gbs(b->dev, b->opts->clock, &part);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *xs, int n)
{
    qsort(xs, (size_t)n, sizeof *xs, compare_doubles);
    return xs[n / 2];
}

/* Each decoded token is followed by one plain read of as many bytes: what slows one of them on a busy machine slows the
 * other. */
static void run_length(struct bench *b, const struct options *o, int length, const struct lf_buffer *plain)
{
    double prefill_s = 0, decode_s[MAX_DECODE], reads[MAX_DECODE], bytes = token_bytes(b, length);
    size_t plain_bytes = LF_MIN((size_t)bytes, plain->bytes) / 4096 * 4096;
    for (int at = 0; at < length; at += o->chunk) {
        int n = LF_MIN(o->chunk, length - at);
        prefill_s += step(b, at, n, at + n == length, false);
    }
    for (int i = 0; i < o->n_decode; i++) {
        decode_s[i] = step(b, length + i, 1, true, true);
        reads[i] = plain->ptr ? read_gbs(b, plain, plain_bytes, i) : 0;
    }
    double decode = median(decode_s, o->n_decode), read = median(reads, o->n_decode);
    double gbs = bytes / decode / 1e9;
    printf("%7d %10.1f %10.1f %10.2f %10.3f %10.1f", length, length / prefill_s, 1 / decode, prefill_s * 1e3,
           decode * 1e3, gbs);
    if (plain->ptr) printf(" %10.1f %6.1f%%", read, 100 * gbs / read);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct options o = parse_args(argc, argv);
    struct bench b = {0};
    open_bench(&b, &o);
    struct lf_err err;
    struct lf_buffer plain = {0};
    const struct lf_device_info *info = lf_device_info(b.dev);
    if (info->is_host) {
        size_t bytes = LF_MIN((size_t)b.plan.weight_bytes, READ_ROOM_BYTES) / 4096 * 4096;
        must(lf_buffer_alloc(b.dev, &plain, bytes, "the read loop", &err), &err);
        memset(plain.ptr, 1, plain.bytes);
    }
    printf("# %s, %s, %d threads, chunk %d, kv %s\n", o.dir, info->name, info->n_threads, o.chunk,
           lf_dtype_name(b.kv.view.dtype));
    printf("#length  prefill/s   decode/s    TTFT ms     ITL ms       GB/s  read loop\n");
    step(&b, 0, LF_MIN(o.chunk, 64), true, false); /* warm-up */
    for (int i = 0; i < o.n_lengths; i++) run_length(&b, &o, o.lengths[i], &plain);
    lf_buffer_free(b.dev, &plain);
    free(b.ids);
    free(b.blocks);
    free(b.logits);
    lf_kv_cache_close(&b.kv);
    lf_model_close(b.model);
    lf_hparams_deinit(&b.hp);
    lf_device_close(b.dev);
    return 0;
}
