#include "model/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/file.h"
#include "core/limits.h"
#include "model/quantize.h"

/* ---- tensors ---- */

enum { PIECE_BYTES = 64 * 1024, BATCH_N = 128 /* pieces */ };

struct batch {
    const char *rows;
    size_t bytes, piece_bytes; /* the last piece may be shorter */
    uint8_t shas[BATCH_N][LF_SHA256_BYTES];
};

static void hash_piece(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    struct batch *b = ctx;
    size_t at = (size_t)task_idx * b->piece_bytes;
    lf_sha256(b->rows + at, LF_MIN(b->piece_bytes, b->bytes - at), b->shas[task_idx]);
}

int lf_hash_piece_rows(size_t row_bytes)
{
    return LF_MAX(1, (int)((size_t)PIECE_BYTES / row_bytes));
}

void lf_hash_rows(struct lf_sha256 *sha, struct lf_threads *threads, const void *rows, int n_rows, size_t row_bytes)
{
    size_t total = (size_t)n_rows * row_bytes, piece_bytes = (size_t)lf_hash_piece_rows(row_bytes) * row_bytes;
    for (size_t at = 0; at < total; at += BATCH_N * piece_bytes) {
        struct batch b = {.rows = (const char *)rows + at, .piece_bytes = piece_bytes};
        b.bytes = LF_MIN(BATCH_N * piece_bytes, total - at);
        int n = (int)((b.bytes + piece_bytes - 1) / piece_bytes);
        lf_threads_run(threads, n, hash_piece, &b);
        lf_sha256_update(sha, b.shas, (size_t)n * sizeof(b.shas[0]));
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct lf_tensor_hash *)a)->name, ((const struct lf_tensor_hash *)b)->name);
}

void lf_hash_tensors(struct lf_tensor_hash *tensors, int n, uint8_t out[LF_SHA256_BYTES])
{
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    qsort(tensors, (size_t)n, sizeof(*tensors), compare_names);
    for (int i = 0; i < n; i++) {
        const struct lf_tensor_hash *t = &tensors[i];
        char line[256];
        int len = snprintf(line, sizeof(line), "%s %s %d %d\n", t->name, lf_dtype_name(t->dtype), t->n_rows, t->n_in);
        LF_ASSERT(len > 0 && len < (int)sizeof(line));
        lf_sha256_update(&sha, line, (size_t)len);
        lf_sha256_update(&sha, t->sha, sizeof(t->sha));
    }
    lf_sha256_final(&sha, out);
}

/* ---- fields ---- */

static void add(struct lf_sha256 *sha, const char *name, const void *value, size_t n)
{
    char line[64];
    int len = snprintf(line, sizeof(line), "%s %zu\n", name, n);
    lf_sha256_update(sha, line, (size_t)len);
    lf_sha256_update(sha, value, n);
}

static void add_text(struct lf_sha256 *sha, const char *name, const char *text)
{
    add(sha, name, text, strlen(text));
}

static void add_device(struct lf_sha256 *sha, const struct lf_device_info *info)
{
    char text[LF_DEVICE_NAME + 64];
    snprintf(text, sizeof(text), "%s, %s, %d, %s", info->kind, info->name, info->sm, lf_dtype_name(info->act_dtype));
    add_text(sha, "device", text);
}

static void add_kv(struct lf_sha256 *sha, const struct lf_hparams *hp, const struct lf_plan *plan, bool is_host)
{
    char text[160];
    snprintf(text, sizeof(text), "%s, %s, %d, %d, %d, %d", lf_dtype_name(plan->kv_dtype), is_host ? "lanes" : "rows",
             (int)LF_KV_BLOCK_TOKENS, hp->n_layers, hp->n_kv_heads, hp->head_dim);
    add_text(sha, "kv", text);
    if (plan->kv_dtype == LF_E4M3) add_text(sha, "fp8 pages", "2"); /* raised when their layout changes (kv_fp8.h) */
}

static void add_rank(struct lf_sha256 *sha, const struct lf_split *split)
{
    char text[48];
    if (lf_split_n_ranks(split) > 1) {
        snprintf(text, sizeof(text), "%d of %d", split->rank, split->n_ranks);
        add_text(sha, "rank", text);
    }
    if (lf_split_n_cp(split) > 1) {
        snprintf(text, sizeof(text), "%d of %d", split->cp_rank, split->n_cp);
        add_text(sha, "context", text);
    }
}

/* Keys turned by other angles, or windows that the configuration's positions do not leave. */
static void add_stretch(struct lf_sha256 *sha, const struct lf_hparams *hp)
{
    char text[80];
    if (hp->stretch.max_position == 0) return;
    snprintf(text, sizeof(text), "%d, yarn %d of %d", hp->stretch.max_position, hp->ropes[0].kind == LF_ROPE_YARN,
             hp->ropes[0].original_max_positions);
    add_text(sha, "positions", text);
}

/* How the states of layers lie in a slot, and a slot in blocks. */
static void add_states(struct lf_sha256 *sha, const struct lf_delta_shape *d, const struct lf_kv_states *states)
{
    char text[160];
    if (states->n_layers == 0) return;
    snprintf(text, sizeof(text), "%d, %" PRIu64 ", %d, %d, %d, %d, %d, %d, %d", states->n_layers, states->layer_bytes,
             states->slot_blocks, (int)LF_DELTA_CHUNK, d->n_k_heads, d->n_v_heads, d->k_dim, d->v_dim, d->conv_width);
    add_text(sha, "states", text);
}

static void add_headers(struct lf_sha256 *sha, const struct lf_tensor_set *set)
{
    struct lf_sha256 headers;
    uint8_t digest[LF_SHA256_BYTES];
    lf_sha256_init(&headers);
    for (int i = 0; i < set->n_files; i++)
        lf_sha256_update(&headers, set->files[i].header_sha, sizeof(set->files[i].header_sha));
    lf_sha256_final(&headers, digest);
    add(sha, "headers", digest, sizeof(digest));
}

static void add_seed(struct lf_sha256 *sha, uint64_t seed)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, seed);
    add_text(sha, "seed", text);
}

static void add_quantize(struct lf_sha256 *sha, enum lf_code code)
{
    char text[LF_FORMAT_NAME_BYTES];
    struct lf_format format = lf_quantize_format(code);
    lf_format_name(text, &format);
    add_text(sha, "quantize", text);
}

enum lf_status lf_identity_make(uint8_t out[LF_SHA256_BYTES], const struct lf_model_opts *opts,
                                const struct lf_hparams *hp, const struct lf_device_info *info, const uint8_t *weights,
                                const struct lf_tensor_set *set, struct lf_err *err)
{
    struct lf_buf config;
    struct lf_sha256 sha;
    lf_buf_init(&config, LF_JSON_FILE_BYTES);
    enum lf_status status = lf_file_read_in(&config, opts->dir, "config.json", LF_JSON_FILE_BYTES, err);
    if (status == LF_OK) {
        lf_sha256_init(&sha);
        add_text(&sha, "program", opts->program ? opts->program : "");
        add_device(&sha, info);
        add_kv(&sha, hp, opts->plan, info->is_host);
        add_rank(&sha, &hp->split);
        add_states(&sha, &hp->delta, &opts->plan->states);
        add_stretch(&sha, hp);
        for (int i = 0; i < hp->n_ropes; i++)
            if (lf_rope_is_long(&hp->ropes[i], opts->plan->ctx)) add_text(&sha, "rope", "long");
        if (opts->plan->no_fusion && !info->is_host) add_text(&sha, "fusion", "none");
        add(&sha, "config", config.ptr, config.len);
        if (opts->quantize != LF_CODE_NONE) add_quantize(&sha, opts->quantize);
        if (opts->load == LF_LOAD_DUMMY) add_seed(&sha, opts->dummy_seed);
        if (weights)
            add(&sha, "weights", weights, LF_SHA256_BYTES);
        else
            add_headers(&sha, set);
        lf_sha256_final(&sha, out);
    }
    lf_buf_deinit(&config);
    return status;
}
