/* From tensors in files to packed matrices on the device.
 *
 * Idea. One table names every tensor of the family: its pattern, its shape in terms of the hyperparameters, the
 * condition under which the architecture has it, and its slot. Rows of the table with the same slot are stacked in
 * table order, which is all that QKV and gate/up need. Walking the table over the layers gives a list of parts, each
 * one tensor and the rows of a slot it fills; sizes, checks, loading and dummy weights all walk that list.
 *
 * Matrices keep the element type of the file; vectors (norms, biases) become float. Files are read front to back
 * through one staging buffer, so nothing is held twice and the reading is sequential.
 *
 * A checkpoint of the bare model (without its head) has the same names without "model." before them: a name is looked
 * for as the table has it, then so.
 *
 * It does not share matrices between models, convert, or quantize. */
#include "model/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/log.h"
#include "device/cpu/threads.h"
#include "model/dummy.h"
#include "model/identity.h"
#include "model/tied.h"

enum { STAGING_BYTES = 4 * 1024 * 1024, ALIGN_BYTES = 64, NAME_BYTES = 128, MAX_UNUSED_LINES = 8 };

/* Extents that shapes are made of. */
enum dim { DIM_NONE, DIM_HIDDEN, DIM_Q, DIM_KV, DIM_INTERMEDIATE, DIM_VOCAB, DIM_HEAD };

/* What a tensor becomes a part of. Slots from SLOT_ATTN_NORM on are vectors of float. */
enum slot {
    SLOT_EMBED,
    SLOT_HEAD,
    SLOT_QKV,
    SLOT_OUT,
    SLOT_GATE_UP,
    SLOT_DOWN,
    SLOT_ATTN_NORM,
    SLOT_MLP_NORM,
    SLOT_FINAL_NORM,
    SLOT_Q_NORM,
    SLOT_K_NORM,
    SLOT_QKV_BIAS,
    SLOT_OUT_BIAS,
    SLOT_GATE_UP_BIAS,
    SLOT_DOWN_BIAS,
    N_SLOTS
};

enum need { ALWAYS, UNTIED, QKV_BIAS, O_BIAS, MLP_BIAS, QK_NORM };

/* The binding table. "#" stands for the layer's index. */
static const struct binding {
    const char *pattern;
    enum dim n_out, n_in; /* vectors have no n_in */
    enum need need;
    enum slot slot;
} bindings[] = {
    {"model.embed_tokens.weight", DIM_VOCAB, DIM_HIDDEN, ALWAYS, SLOT_EMBED},
    {"lm_head.weight", DIM_VOCAB, DIM_HIDDEN, UNTIED, SLOT_HEAD},
    {"model.norm.weight", DIM_HIDDEN, DIM_NONE, ALWAYS, SLOT_FINAL_NORM},
    {"model.layers.#.input_layernorm.weight", DIM_HIDDEN, DIM_NONE, ALWAYS, SLOT_ATTN_NORM},
    {"model.layers.#.post_attention_layernorm.weight", DIM_HIDDEN, DIM_NONE, ALWAYS, SLOT_MLP_NORM},
    {"model.layers.#.self_attn.q_proj.weight", DIM_Q, DIM_HIDDEN, ALWAYS, SLOT_QKV},
    {"model.layers.#.self_attn.k_proj.weight", DIM_KV, DIM_HIDDEN, ALWAYS, SLOT_QKV},
    {"model.layers.#.self_attn.v_proj.weight", DIM_KV, DIM_HIDDEN, ALWAYS, SLOT_QKV},
    {"model.layers.#.self_attn.q_proj.bias", DIM_Q, DIM_NONE, QKV_BIAS, SLOT_QKV_BIAS},
    {"model.layers.#.self_attn.k_proj.bias", DIM_KV, DIM_NONE, QKV_BIAS, SLOT_QKV_BIAS},
    {"model.layers.#.self_attn.v_proj.bias", DIM_KV, DIM_NONE, QKV_BIAS, SLOT_QKV_BIAS},
    {"model.layers.#.self_attn.q_norm.weight", DIM_HEAD, DIM_NONE, QK_NORM, SLOT_Q_NORM},
    {"model.layers.#.self_attn.k_norm.weight", DIM_HEAD, DIM_NONE, QK_NORM, SLOT_K_NORM},
    {"model.layers.#.self_attn.o_proj.weight", DIM_HIDDEN, DIM_Q, ALWAYS, SLOT_OUT},
    {"model.layers.#.self_attn.o_proj.bias", DIM_HIDDEN, DIM_NONE, O_BIAS, SLOT_OUT_BIAS},
    {"model.layers.#.mlp.gate_proj.weight", DIM_INTERMEDIATE, DIM_HIDDEN, ALWAYS, SLOT_GATE_UP},
    {"model.layers.#.mlp.up_proj.weight", DIM_INTERMEDIATE, DIM_HIDDEN, ALWAYS, SLOT_GATE_UP},
    {"model.layers.#.mlp.gate_proj.bias", DIM_INTERMEDIATE, DIM_NONE, MLP_BIAS, SLOT_GATE_UP_BIAS},
    {"model.layers.#.mlp.up_proj.bias", DIM_INTERMEDIATE, DIM_NONE, MLP_BIAS, SLOT_GATE_UP_BIAS},
    {"model.layers.#.mlp.down_proj.weight", DIM_HIDDEN, DIM_INTERMEDIATE, ALWAYS, SLOT_DOWN},
    {"model.layers.#.mlp.down_proj.bias", DIM_HIDDEN, DIM_NONE, MLP_BIAS, SLOT_DOWN_BIAS},
};

/* One tensor and where it goes. */
struct part {
    char name[NAME_BYTES];
    const struct lf_tensor *tensor; /* NULL for dummy weights */
    int target_idx;
    int row_first;       /* of the target */
    int n_rows, n_in;    /* vectors: n_in 1, rows are elements */
    enum lf_dtype dtype; /* in the file */
};

/* One matrix or vector on the device. */
struct target {
    enum slot slot;
    int layer; /* -1 for those outside the layers */
    enum lf_dtype dtype;
    int n_rows, n_in;
    uint64_t offset;
};

struct lf_weight_layout {
    const struct lf_tensor_set *set;
    bool tied;              /* the head is the embedding */
    struct part *parts;     /* [n_parts] */
    struct target *targets; /* [n_targets] */
    int n_parts, n_targets;
    uint64_t bytes;
    uint64_t file_bytes; /* that loading will read */
};

static bool is_vector(enum slot slot)
{
    return slot >= SLOT_ATTN_NORM;
}

static int dim_of(const struct lf_hparams *hp, enum dim dim)
{
    switch (dim) {
    case DIM_HIDDEN:
        return hp->hidden;
    case DIM_Q:
        return hp->n_heads * hp->head_dim;
    case DIM_KV:
        return hp->n_kv_heads * hp->head_dim;
    case DIM_INTERMEDIATE:
        return hp->intermediate;
    case DIM_VOCAB:
        return hp->n_vocab;
    case DIM_HEAD:
        return hp->head_dim;
    case DIM_NONE:
        break;
    }
    return 1;
}

static bool is_needed(const struct lf_weight_layout *l, const struct lf_hparams *hp, enum need need)
{
    switch (need) {
    case UNTIED:
        return !l->tied;
    case QKV_BIAS:
        return hp->qkv_bias;
    case O_BIAS:
        return hp->o_bias;
    case MLP_BIAS:
        return hp->mlp_bias;
    case QK_NORM:
        return hp->qk_norm;
    case ALWAYS:
        break;
    }
    return true;
}

/* The pattern with the layer's index in it. */
static void bind_name(char out[NAME_BYTES], const char *pattern, int layer)
{
    const char *mark = strchr(pattern, '#');
    if (mark) {
        snprintf(out, NAME_BYTES, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 1);
    } else {
        snprintf(out, NAME_BYTES, "%s", pattern);
    }
}

static enum lf_status check_shape(const struct part *p, bool vector, struct lf_err *err)
{
    const struct lf_tensor *t = p->tensor;
    bool ok = vector ? t->rank == 1 : t->rank == 2 && t->shape[1] == (uint64_t)p->n_in;
    if (ok && t->shape[0] == (uint64_t)p->n_rows) return LF_OK;
    char shape[64];
    lf_tensor_shape_text(t, shape, sizeof(shape));
    if (vector) {
        return lf_fail(err, LF_CORRUPT, "tensor %s has shape %s, the configuration asks for [%d]", p->name, shape,
                       p->n_rows);
    }
    return lf_fail(err, LF_CORRUPT, "tensor %s has shape %s, the configuration asks for [%d, %d]", p->name, shape,
                   p->n_rows, p->n_in);
}

/* Of an inner tensor the name that it has in a checkpoint of the bare model. */
static struct lf_str bare_name(struct lf_str name)
{
    const struct lf_str prefix = LF_STR("model.");
    return lf_str_starts(name, prefix) ? lf_str_from(name.ptr + prefix.len, name.len - prefix.len) : name;
}

static const struct lf_tensor *find_tensor(const struct lf_tensor_set *set, const char *name)
{
    const struct lf_tensor *t = lf_tensor_find(set, lf_str_c(name));
    return t ? t : lf_tensor_find(set, bare_name(lf_str_c(name)));
}

/* Finds and checks the part's tensor. */
static enum lf_status bind_tensor(struct part *p, const struct lf_tensor_set *set, bool vector, struct lf_err *err)
{
    p->tensor = find_tensor(set, p->name);
    if (!p->tensor) return lf_fail(err, LF_CORRUPT, "tensor %s is missing", p->name);
    if (!lf_tensor_dtype(p->tensor, &p->dtype)) {
        return lf_fail(err, LF_UNSUPPORTED, "tensor %s is of type %s, which is not implemented (BF16, F16, F32 are)",
                       p->name, p->tensor->dtype_name);
    }
    return check_shape(p, vector, err);
}

/* Adds the part of one table row; starts a new target unless the row before it fills the same one. */
static enum lf_status add_part(struct lf_weight_layout *l, const struct lf_hparams *hp, const struct binding *b,
                               int layer, struct lf_err *err)
{
    struct part *p = &l->parts[l->n_parts];
    struct target *last = l->n_targets > 0 ? &l->targets[l->n_targets - 1] : NULL;
    bool vector = is_vector(b->slot);
    *p = (struct part){.n_rows = dim_of(hp, b->n_out), .n_in = dim_of(hp, b->n_in), .dtype = hp->dtype};
    bind_name(p->name, b->pattern, layer);
    if (l->set) LF_TRY(bind_tensor(p, l->set, vector, err));
    enum lf_dtype dtype = vector ? LF_F32 : p->dtype;
    if (!last || last->slot != b->slot || last->layer != layer) {
        last = &l->targets[l->n_targets++];
        *last = (struct target){.slot = b->slot, .layer = layer, .dtype = dtype, .n_in = p->n_in};
    } else if (last->dtype != dtype) {
        return lf_fail(err, LF_UNSUPPORTED, "tensor %s is of type %s, those it is stacked with are %s", p->name,
                       lf_dtype_name(dtype), lf_dtype_name(last->dtype));
    }
    p->target_idx = l->n_targets - 1;
    p->row_first = last->n_rows;
    last->n_rows += p->n_rows;
    l->file_bytes += (uint64_t)p->n_rows * (uint64_t)p->n_in * lf_dtype_bytes(p->dtype);
    l->n_parts++;
    return LF_OK;
}

static enum lf_status add_parts(struct lf_weight_layout *l, const struct lf_hparams *hp, struct lf_err *err)
{
    for (int layer = -1; layer < hp->n_layers; layer++) {
        for (size_t i = 0; i < LF_N_ELEMS(bindings); i++) {
            bool per_layer = strchr(bindings[i].pattern, '#') != NULL;
            if (per_layer != (layer >= 0) || !is_needed(l, hp, bindings[i].need)) continue;
            LF_TRY(add_part(l, hp, &bindings[i], layer, err));
        }
    }
    return LF_OK;
}

static enum lf_status lay_out(struct lf_weight_layout *l, const struct lf_ops *ops, struct lf_err *err)
{
    uint64_t at = 0;
    for (int i = 0; i < l->n_targets; i++) {
        struct target *p = &l->targets[i];
        uint64_t n =
            is_vector(p->slot) ? (uint64_t)p->n_rows * sizeof(float) : ops->weight_bytes(p->dtype, p->n_rows, p->n_in);
        p->offset = at;
        if (__builtin_add_overflow(at, (n + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES, &at)) {
            return lf_fail(err, LF_LIMIT, "the size of the weights overflows");
        }
    }
    l->bytes = at;
    return LF_OK;
}

static int compare_parts_by_tensor(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static int compare_parts_by_offset(const void *a, const void *b)
{
    const struct lf_tensor *x = ((const struct part *)a)->tensor, *y = ((const struct part *)b)->tensor;
    if (x->file_idx != y->file_idx) return x->file_idx - y->file_idx;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* A tensor no part wants. Inside a layer that is computed it would take part in another program: refused. The
 * frequencies that old files carry, and the copy of a tied head, say nothing new. */
static enum lf_status note_unused(const struct lf_hparams *hp, const struct lf_tensor *t, int *n_unused,
                                  struct lf_err *err)
{
    const struct lf_str prefix = LF_STR("layers.");
    struct lf_str name = bare_name(t->name);
    if (lf_str_ends(t->name, LF_STR(".rotary_emb.inv_freq"))) return LF_OK;
    if (hp->tied && lf_str_eq(t->name, LF_STR("lm_head.weight"))) return LF_OK;
    if (lf_str_starts(name, prefix)) {
        long layer = strtol(name.ptr + prefix.len, NULL, 10);
        if (layer >= 0 && layer < hp->n_layers) {
            return lf_fail(err, LF_UNSUPPORTED, "tensor %.*s is no part of %s as it is implemented",
                           (int)LF_MIN(t->name.len, (size_t)100), t->name.ptr, hp->architecture);
        }
    }
    if (++*n_unused <= MAX_UNUSED_LINES) {
        LF_WARN("tensor %.*s takes no part and is not loaded", (int)LF_MIN(t->name.len, (size_t)100), t->name.ptr);
    }
    return LF_OK;
}

/* Both lists are in the order of the set (by name): one walk finds the tensors that nobody wants. */
static enum lf_status check_unused(struct lf_weight_layout *l, const struct lf_hparams *hp, struct lf_err *err)
{
    int part = 0, n_unused = 0;
    qsort(l->parts, (size_t)l->n_parts, sizeof(*l->parts), compare_parts_by_tensor);
    for (int i = 0; i < l->set->n_tensors; i++) {
        const struct lf_tensor *t = &l->set->tensors[i];
        if (part < l->n_parts && l->parts[part].tensor == t) {
            part++;
        } else {
            LF_TRY(note_unused(hp, t, &n_unused, err));
        }
    }
    if (n_unused > MAX_UNUSED_LINES) LF_WARN("%d tensors in all take no part and are not loaded", n_unused);
    qsort(l->parts, (size_t)l->n_parts, sizeof(*l->parts), compare_parts_by_offset);
    return LF_OK;
}

/* tie_word_embeddings says that the head is the embedding. Where the files hold a head that is another matrix, that is
 * what was trained: it is used. */
static enum lf_status settle_head(struct lf_weight_layout *l, const struct lf_hparams *hp, struct lf_err *err)
{
    const struct lf_tensor *head = l->set && hp->tied ? find_tensor(l->set, "lm_head.weight") : NULL;
    const struct lf_tensor *embed = head ? find_tensor(l->set, "model.embed_tokens.weight") : NULL;
    bool differs = false;
    l->tied = hp->tied;
    if (!head || !embed) return LF_OK;
    LF_TRY(lf_tied_differs(&differs, l->set, head, embed, err));
    l->tied = !differs;
    return LF_OK;
}

enum lf_status lf_weight_layout_make(struct lf_weight_layout **out, const struct lf_hparams *hp,
                                     const struct lf_tensor_set *set, const struct lf_ops *ops, struct lf_err *err)
{
    size_t max_parts = LF_N_ELEMS(bindings) * ((size_t)hp->n_layers + 1);
    enum lf_status status;
    struct lf_weight_layout *l = calloc(1, sizeof(*l));
    if (l) {
        l->set = set;
        l->parts = calloc(max_parts, sizeof(*l->parts));
        l->targets = calloc(max_parts, sizeof(*l->targets));
    }
    if (!l || !l->parts || !l->targets) {
        status = lf_fail(err, LF_NO_MEMORY, "no memory for a list of %zu weights", max_parts);
        goto fail;
    }
    LF_TRY_GOTO(settle_head(l, hp, err), fail);
    LF_TRY_GOTO(add_parts(l, hp, err), fail);
    LF_TRY_GOTO(lay_out(l, ops, err), fail);
    if (set) LF_TRY_GOTO(check_unused(l, hp, err), fail);
    *out = l;
    return LF_OK;
fail:
    lf_weight_layout_free(l);
    return status;
}

void lf_weight_layout_free(struct lf_weight_layout *layout)
{
    if (!layout) return;
    free(layout->parts);
    free(layout->targets);
    free(layout);
}

uint64_t lf_weight_layout_bytes(const struct lf_weight_layout *layout)
{
    return layout->bytes;
}

bool lf_weight_layout_tied(const struct lf_weight_layout *layout)
{
    return layout->tied;
}

/* Points the weights' fields at their addresses in the buffer. */
static void bind_targets(struct lf_weights *w, const struct lf_weight_layout *l)
{
    for (int i = 0; i < l->n_targets; i++) {
        const struct target *p = &l->targets[i];
        struct lf_layer_weights *layer = p->layer >= 0 ? &w->layers[p->layer] : NULL;
        void *ptr = (char *)w->buffer.ptr + p->offset;
        struct lf_weight m = {.data = ptr, .dtype = p->dtype, .n_out = p->n_rows, .n_in = p->n_in};
        switch (p->slot) {
        case SLOT_EMBED:
            w->embed = m;
            break;
        case SLOT_HEAD:
            w->head = m;
            break;
        case SLOT_QKV:
            layer->qkv = m;
            break;
        case SLOT_OUT:
            layer->out = m;
            break;
        case SLOT_GATE_UP:
            layer->gate_up = m;
            break;
        case SLOT_DOWN:
            layer->down = m;
            break;
        case SLOT_FINAL_NORM:
            w->final_norm = ptr;
            break;
        case SLOT_ATTN_NORM:
            layer->attn_norm = ptr;
            break;
        case SLOT_MLP_NORM:
            layer->mlp_norm = ptr;
            break;
        case SLOT_Q_NORM:
            layer->q_norm = ptr;
            break;
        case SLOT_K_NORM:
            layer->k_norm = ptr;
            break;
        case SLOT_QKV_BIAS:
            layer->qkv_bias = ptr;
            break;
        case SLOT_OUT_BIAS:
            layer->out_bias = ptr;
            break;
        case SLOT_GATE_UP_BIAS:
            layer->gate_up_bias = ptr;
            break;
        case SLOT_DOWN_BIAS:
            layer->down_bias = ptr;
            break;
        case N_SLOTS:
            break;
        }
    }
    if (!w->head.data) w->head = w->embed;
}

/* What loading carries along. */
struct loader {
    struct lf_device *dev;
    const struct lf_ops *ops;
    const struct lf_weight_layout *layout;
    const struct lf_model_opts *opts;
    struct lf_weights *w;
    char *staging;                 /* [STAGING_BYTES] rows as they stand in the file */
    float *widened;                /* [STAGING_BYTES / 2] elements of a vector as float */
    struct lf_tensor_hash *hashes; /* [n_parts]; NULL: not asked for */
    int fd, file_idx;
    uint64_t done; /* bytes */
};

/* Makes the part's file the open one. */
static enum lf_status turn_to_file(struct loader *ld, int file_idx, struct lf_err *err)
{
    const struct lf_tensor_file *file = &ld->layout->set->files[file_idx];
    uint64_t size;
    if (ld->fd >= 0 && ld->file_idx == file_idx) return LF_OK;
    if (ld->fd >= 0) close(ld->fd);
    ld->fd = -1;
    LF_TRY(lf_file_open(&ld->fd, &size, file->path, err));
    ld->file_idx = file_idx;
    if (size != file->size) {
        return lf_fail(err, LF_CORRUPT, "%s had %" PRIu64 " bytes a moment ago and has %" PRIu64 ": it was changed",
                       file->path, file->size, size);
    }
    return LF_OK;
}

/* Random rows of a part, by the device's threads: an 8B model has 16 GB of them. */
struct dummy_job {
    const struct loader *ld;
    const struct part *part;
    int row, n_rows, n_tasks;
};

static void dummy_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct dummy_job *job = ctx;
    const struct part *p = job->part;
    int first = (int)((int64_t)job->n_rows * task_idx / job->n_tasks);
    int end = (int)((int64_t)job->n_rows * (task_idx + 1) / job->n_tasks);
    size_t row_bytes = (size_t)p->n_in * lf_dtype_bytes(p->dtype);
    lf_dummy_fill(job->ld->staging + (size_t)first * row_bytes, p->dtype, p->name, job->ld->opts->dummy_seed, p->n_in,
                  job->row + first, end - first);
}

/* Rows [row, row + n_rows) of a part into the staging buffer. */
static enum lf_status stage_rows(struct loader *ld, const struct part *p, int row, int n_rows, size_t row_bytes,
                                 struct lf_err *err)
{
    size_t bytes = (size_t)n_rows * row_bytes;
    if (!p->tensor) {
        struct lf_threads *threads = lf_device_threads(ld->dev);
        struct dummy_job job = {.ld = ld, .part = p, .row = row, .n_rows = n_rows};
        job.n_tasks = LF_MIN(n_rows, lf_threads_n(threads));
        lf_threads_run(threads, job.n_tasks, dummy_task, &job);
        return LF_OK;
    }
    LF_TRY(turn_to_file(ld, p->tensor->file_idx, err));
    return lf_file_pread(ld->fd, ld->staging, bytes, p->tensor->offset + (uint64_t)row * row_bytes,
                         ld->layout->set->files[ld->file_idx].path, err);
}

/* Rows of a part at once: whole pieces of its hash. */
static int rows_at_once(const struct part *p, size_t row_bytes)
{
    int n = (int)LF_MIN((size_t)STAGING_BYTES / row_bytes, (size_t)p->n_rows), piece = lf_hash_piece_rows(row_bytes);
    return n == p->n_rows ? n : n / piece * piece;
}

static void hash_end(struct loader *ld, const struct part *p, struct lf_sha256 *sha)
{
    struct lf_tensor_hash *h = &ld->hashes[p - ld->layout->parts];
    *h = (struct lf_tensor_hash){.name = p->name, .dtype = p->dtype, .n_rows = p->n_rows, .n_in = p->n_in};
    lf_sha256_final(sha, h->sha);
}

static enum lf_status load_part(struct loader *ld, const struct part *p, struct lf_err *err)
{
    const struct target *target = &ld->layout->targets[p->target_idx];
    char *dst = (char *)ld->w->buffer.ptr + target->offset;
    struct lf_weight m = {.data = dst, .dtype = target->dtype, .n_out = target->n_rows, .n_in = target->n_in};
    size_t row_bytes = (size_t)p->n_in * lf_dtype_bytes(p->dtype);
    struct lf_sha256 sha;
    int n_max = rows_at_once(p, row_bytes);
    LF_ASSERT(n_max > 0);
    lf_sha256_init(&sha);
    for (int row = 0; row < p->n_rows; row += n_max) {
        int n = LF_MIN(n_max, p->n_rows - row);
        LF_TRY(stage_rows(ld, p, row, n, row_bytes, err));
        if (ld->hashes) lf_hash_rows(&sha, lf_device_threads(ld->dev), ld->staging, n, row_bytes);
        if (is_vector(target->slot)) {
            lf_to_f32(ld->widened, ld->staging, p->dtype, (size_t)n);
            lf_upload(ld->dev, dst + (size_t)(p->row_first + row) * sizeof(float), ld->widened,
                      (size_t)n * sizeof(float));
        } else {
            ld->ops->weight_pack(ld->dev, &m, p->row_first + row, n, ld->staging);
        }
        ld->done += (uint64_t)n * row_bytes;
        if (ld->opts->progress) ld->opts->progress(ld->opts->progress_ctx, ld->done, ld->layout->file_bytes);
    }
    if (ld->hashes) hash_end(ld, p, &sha);
    return LF_OK;
}

enum lf_status lf_weights_load(struct lf_weights *out, struct lf_device *dev, const struct lf_hparams *hp,
                               const struct lf_weight_layout *layout, const struct lf_model_opts *opts,
                               struct lf_err *err)
{
    struct lf_weights w = {0};
    struct loader ld = {.dev = dev, .ops = lf_device_ops(dev), .layout = layout, .opts = opts, .w = &w, .fd = -1};
    enum lf_status status;
    w.layers = calloc((size_t)hp->n_layers, sizeof(*w.layers));
    ld.staging = malloc(STAGING_BYTES);
    ld.widened = malloc((size_t)STAGING_BYTES / 2 * sizeof(float));
    if (opts->hash_weights) ld.hashes = calloc((size_t)layout->n_parts, sizeof(*ld.hashes));
    if (!w.layers || !ld.staging || !ld.widened || (opts->hash_weights && !ld.hashes)) {
        status = lf_fail(err, LF_NO_MEMORY, "no memory for reading weights");
        goto done;
    }
    LF_TRY_GOTO(lf_buffer_alloc(dev, &w.buffer, (size_t)layout->bytes, "weights", err), done);
    bind_targets(&w, layout);
    for (int i = 0; i < layout->n_parts; i++) LF_TRY_GOTO(load_part(&ld, &layout->parts[i], err), done);
    if (ld.hashes) lf_hash_tensors(ld.hashes, layout->n_parts, w.sha);
    status = LF_OK;
done:
    if (ld.fd >= 0) close(ld.fd);
    free(ld.staging);
    free(ld.widened);
    free(ld.hashes);
    if (status == LF_OK) {
        *out = w;
    } else {
        lf_weights_unload(&w, dev);
    }
    return status;
}

void lf_weights_unload(struct lf_weights *w, struct lf_device *dev)
{
    lf_buffer_free(dev, &w->buffer);
    free(w->layers);
    *w = (struct lf_weights){0};
}
