/* From tensors in files to packed matrices on the device.
 *
 * Idea. The slots of a recorded program name every tensor that takes part, with its shape. Walking them gives a list of
 * parts, each one tensor and the rows of a slot that it fills; sizes, checks, loading and dummy weights all walk that
 * list. Of experts each has its own parts: where the files hold all of them in one tensor, a part is some rows of it,
 * under the name that a tensor of that expert alone would have. So a model is the same, and so is its hash, whichever
 * way it was saved; but for columns and quantized matrices, whose hash is of what stands in the file.
 *
 * Matrices keep the element type of the file, or are quantized (quantize.h). Those that are quantized in it stay so
 * where the device has kernels for all of their slot, and are expanded where it has not; vectors (norms, biases) become
 * float. Files are read front to back through one staging buffer (stage.h), so nothing is held twice and the reading is
 * sequential.
 *
 * It does not share matrices between models. */
#include "model/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/log.h"
#include "device/comm.h"
#include "model/bind.h"
#include "model/formats/quantization.h"
#include "model/identity.h"
#include "model/names.h"
#include "model/quantize.h"
#include "model/stage.h"
#include "model/tied.h"

enum { MAX_UNUSED_LINES = 8 };

/* Where a slot lies. */
struct target {
    struct lf_format format;
    bool quantized;  /* here, where it is loaded */
    bool multiplies; /* in GEMMs and nowhere else: it may be coded */
    uint64_t offset;
};

struct lf_weight_layout {
    const struct lf_tensor_set *set;
    const struct lf_program *program;
    bool tied;              /* slots that share another's bytes do */
    enum lf_code quantize;  /* what quantized targets become */
    struct lf_part *parts;  /* [n_parts] */
    struct target *targets; /* [program->n_slots] */
    int n_parts;
    uint64_t bytes;
    uint64_t file_bytes; /* that loading will read */
};

/* Whether the slot has no bytes of its own. */
static bool is_shared(const struct lf_weight_layout *l, const struct lf_slot *slot)
{
    return slot->tied_to != LF_NONE && l->tied;
}

/* Adds part part_idx of a slot, whose rows begin at row_first. */
static enum lf_status add_part(struct lf_weight_layout *l, const struct lf_hparams *hp, int slot_idx, int expert,
                               int part_idx, int row_first, struct lf_err *err)
{
    const struct lf_slot *slot = &l->program->slots[slot_idx];
    struct lf_part *p = &l->parts[l->n_parts];
    *p = (struct lf_part){.slot_idx = slot_idx,
                          .part_idx = part_idx,
                          .expert = expert,
                          .row_first = row_first,
                          .n_rows = lf_slot_part_stored(&slot->parts[part_idx]),
                          .n_in = slot->n_in,
                          .tensor_row = (uint64_t)slot->parts[part_idx].rank_row,
                          .column = slot->rank_column,
                          .tensor_columns = slot->rank_columns,
                          .dtype = hp->dtype};
    lf_part_name(p, slot);
    LF_TRY(l->set ? lf_part_bind(p, slot, hp, l->set, err) : lf_part_bind_dummy(p, slot, hp, err));
    l->file_bytes += lf_part_file_bytes(p, p->n_rows);
    l->n_parts++;
    return LF_OK;
}

/* The coded format in which the files have all of a slot, whose n parts begin with p; plain where there is none. */
static struct lf_format format_in_files(const struct lf_slot *slot, const struct lf_part *p, int n)
{
    struct lf_format format = lf_part_format(p, slot);
    for (int i = 1; i < n; i++) {
        struct lf_format other = lf_part_format(&p[i], slot);
        if (other.scales != format.scales) other.scales = format.scales = LF_F32;
        if (other.group_rows == 1 || format.group_rows == 1) other.group_rows = format.group_rows = 1;
        if (!lf_format_equal(&other, &format)) return lf_format_plain(p->dtype);
    }
    return format;
}

/* The format of a slot: as the files have it, where the device has kernels for it; else matrices of the files that are
 * coded are expanded, and all of it has one type. */
static enum lf_status settle_format(struct lf_weight_layout *l, int slot_idx, struct lf_part *p, int n,
                                    struct lf_device *dev, struct lf_err *err)
{
    const struct lf_slot *slot = &l->program->slots[slot_idx];
    struct target *target = &l->targets[slot_idx];
    struct lf_format coded = format_in_files(slot, p, n);
    bool stays = !lf_format_is_plain(&coded) && target->multiplies &&
                 lf_device_ops(dev)->supports_format(dev, &coded, slot->n_out, slot->n_in, slot->n_experts);
    target->format = stays ? coded : lf_format_plain(slot->is_vector ? LF_F32 : p->dtype);
    for (int i = 0; i < n; i++) {
        p[i].coded = stays;
        if (target->quantized && p[i].stored == LF_STORED_PACKED)
            return lf_fail(err, LF_UNSUPPORTED, "--quantize is for plain weights, and tensor %s is quantized",
                           p[i].name);
        if (stays || slot->is_vector || target->quantized || p[i].dtype == p->dtype) continue;
        return lf_fail(err, LF_UNSUPPORTED, "tensor %s is of type %s, those it is stacked with are %s", p[i].name,
                       lf_dtype_name(p[i].dtype), lf_dtype_name(p->dtype));
    }
    if (target->quantized) target->format = lf_quantize_format(l->quantize);
    return LF_OK;
}

static enum lf_status add_parts(struct lf_weight_layout *l, const struct lf_hparams *hp, struct lf_device *dev,
                                struct lf_err *err)
{
    for (int i = 0; i < l->program->n_slots; i++) {
        const struct lf_slot *slot = &l->program->slots[i];
        struct lf_part *first = &l->parts[l->n_parts];
        if (is_shared(l, slot)) continue;
        for (int expert = 0; expert < LF_MAX(slot->n_experts, 1); expert++)
            for (int k = 0, row = 0; k < slot->n_parts; row += slot->parts[k++].n_rows)
                LF_TRY(add_part(l, hp, i, expert, k, row, err));
        LF_TRY(settle_format(l, i, first, (int)(&l->parts[l->n_parts] - first), dev, err));
    }
    return LF_OK;
}

/* Which slots may be coded: no row of theirs, or of one that shares their bytes, is looked up. */
static void note_multiplied(struct lf_weight_layout *l)
{
    const struct lf_program *p = l->program;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == LF_OP_GEMM || p->ops[i].kind == LF_OP_EXPERT_GEMM)
            l->targets[p->ops[i].weight[LF_OP_W]].multiplies = true;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == LF_OP_EMBED) l->targets[p->ops[i].weight[LF_OP_W]].multiplies = false;
}

/* The formats that plain weights can be quantized to on the device, for a matrix like the slot, by their names. */
static void name_supported(const struct lf_slot *slot, struct lf_device *dev, char out[64])
{
    static const enum lf_code all[] = {LF_CODE_E4M3, LF_CODE_I8, LF_CODE_I4};
    size_t n = 0;
    for (size_t i = 0; i < LF_N_ELEMS(all); i++) {
        struct lf_format format = lf_quantize_format(all[i]);
        if (lf_device_ops(dev)->supports_format(dev, &format, slot->n_out, slot->n_in, slot->n_experts))
            n += (size_t)snprintf(out + n, 64 - n, "%s%s", n ? ", " : "", lf_code_name(all[i]));
    }
    if (n == 0) snprintf(out, 64, "none, so without --quantize");
}

/* Which slots are quantized; refuses what the device has no kernels for. */
static enum lf_status choose_quantized(struct lf_weight_layout *l, struct lf_device *dev, struct lf_err *err)
{
    struct lf_format format = lf_quantize_format(l->quantize);
    if (l->quantize == LF_CODE_NONE) return LF_OK;
    bool *chosen = calloc((size_t)l->program->n_slots, sizeof(*chosen));
    if (!chosen) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of %d weights", l->program->n_slots);
    lf_quantize_choose(l->program, chosen);
    enum lf_status status = LF_OK;
    for (int i = 0; i < l->program->n_slots && status == LF_OK; i++) {
        const struct lf_slot *slot = &l->program->slots[i];
        l->targets[i].quantized = chosen[i];
        if (!chosen[i] || lf_device_ops(dev)->supports_format(dev, &format, slot->n_out, slot->n_in, slot->n_experts))
            continue;
        char name[LF_FORMAT_NAME_BYTES], supported[64];
        lf_format_name(name, &format);
        name_supported(slot, dev, supported);
        status = lf_fail(err, LF_UNSUPPORTED,
                         "--quantize %s: %s on this device (%s) is not implemented for %s of [%d, %d]; implemented: %s",
                         lf_code_name(l->quantize), name, lf_device_info(dev)->kind,
                         slot->n_experts > 0 ? "experts" : "matrices", slot->n_out, slot->n_in, supported);
    }
    free(chosen);
    return status;
}

static enum lf_status lay_out(struct lf_weight_layout *l, const struct lf_ops *ops, struct lf_err *err)
{
    uint64_t at = 0;
    for (int i = 0; i < l->program->n_slots; i++) {
        const struct lf_slot *slot = &l->program->slots[i];
        struct target *t = &l->targets[i];
        if (is_shared(l, slot)) continue;
        t->offset = at;
        if (__builtin_add_overflow(at, lf_slot_bytes(slot, &t->format, ops), &at)) {
            return lf_fail(err, LF_LIMIT, "the size of the weights overflows");
        }
    }
    for (int i = 0; i < l->program->n_slots; i++)
        if (is_shared(l, &l->program->slots[i])) l->targets[i] = l->targets[l->program->slots[i].tied_to];
    l->bytes = at;
    return LF_OK;
}

static int compare_parts_by_offset(const void *a, const void *b)
{
    const struct lf_tensor *x = ((const struct lf_part *)a)->tensor, *y = ((const struct lf_part *)b)->tensor;
    uint64_t row = ((const struct lf_part *)a)->tensor_row, other_row = ((const struct lf_part *)b)->tensor_row;
    if (x->file_idx != y->file_idx) return x->file_idx - y->file_idx;
    if (x->offset != y->offset) return (x->offset > y->offset) - (x->offset < y->offset);
    return (row > other_row) - (row < other_row);
}

/* Whether it is a tensor of keys and values that the layer does not make: it reads those of another one. Some files
 * hold them all the same. */
static bool is_of_alias(const struct lf_hparams *hp, int layer, struct lf_str name)
{
    static const char *const ends[] = {".self_attn.k_proj.weight", ".self_attn.v_proj.weight",
                                       ".self_attn.k_norm.weight", ".self_attn.v_norm.weight"};
    bool is_known = false;
    for (size_t i = 0; i < LF_N_ELEMS(ends); i++) is_known |= lf_str_ends(name, lf_str_c(ends[i]));
    return is_known && hp->layers[layer].alias_back > 0;
}

/* How others scale a KV cache of fp8; ours makes its own scales (kv/kv_fp8.h). */
static bool is_scale_of_cache(struct lf_str name)
{
    return lf_str_ends(name, LF_STR(".k_scale")) || lf_str_ends(name, LF_STR(".v_scale")) ||
           lf_str_ends(name, LF_STR(".kv_scale"));
}

/* A tensor no part wants. Inside a layer that is computed it would take part in another program: refused. The
 * frequencies that old files carry, and the copy of a tied head, say nothing new. */
static enum lf_status note_unused(const struct lf_hparams *hp, const struct lf_tensor *t, int *n_unused,
                                  struct lf_err *err)
{
    const struct lf_str prefix = LF_STR("layers.");
    struct lf_str name = lf_name_bare(t->name);
    if (lf_str_ends(t->name, LF_STR(".rotary_emb.inv_freq"))) return LF_OK;
    if (is_scale_of_cache(t->name)) return LF_OK;
    if (hp->quantization && lf_quantization_is_aside(t->name)) return LF_OK;
    if (hp->tied && lf_str_eq(t->name, LF_STR("lm_head.weight"))) return LF_OK;
    if (lf_str_starts(name, prefix)) {
        long layer = strtol(name.ptr + prefix.len, NULL, 10);
        if (layer >= 0 && layer < hp->n_layers && !is_of_alias(hp, (int)layer, name)) {
            return lf_fail(err, LF_UNSUPPORTED, "tensor %.*s is no part of %s as it is implemented",
                           (int)LF_MIN(t->name.len, (size_t)100), t->name.ptr, hp->architecture);
        }
    }
    if (lf_split_world_rank(&hp->split) > 0) return LF_OK; /* rank 0 names it */
    if (++*n_unused <= MAX_UNUSED_LINES) {
        LF_WARN("tensor %.*s takes no part and is not loaded", (int)LF_MIN(t->name.len, (size_t)100), t->name.ptr);
    }
    return LF_OK;
}

static enum lf_status check_unused(const struct lf_weight_layout *l, const struct lf_hparams *hp, struct lf_err *err)
{
    const struct lf_tensor *tensors = l->set->tensors;
    enum lf_status status = LF_OK;
    int n_unused = 0;
    bool *is_used = calloc((size_t)l->set->n_tensors + 1, sizeof(*is_used));
    if (!is_used) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of %d tensors", l->set->n_tensors);
    for (int i = 0; i < l->n_parts; i++) {
        is_used[l->parts[i].tensor - tensors] = true;
        for (int k = 0; k < LF_SOURCES_N; k++)
            if (l->parts[i].quantized.sources[k]) is_used[l->parts[i].quantized.sources[k] - tensors] = true;
    }
    for (int i = 0; i < l->set->n_tensors && status == LF_OK; i++)
        if (!is_used[i]) status = note_unused(hp, &tensors[i], &n_unused, err);
    if (n_unused > MAX_UNUSED_LINES) LF_WARN("%d tensors in all take no part and are not loaded", n_unused);
    free(is_used);
    return status;
}

/* The tensor of a slot that one tensor fills; NULL: there is none. */
static const struct lf_tensor *only_tensor(const struct lf_weight_layout *l, const struct lf_slot *slot)
{
    char name[LF_NAME_BYTES];
    lf_name_bind(name, slot->parts[0].pattern, slot->suffix, slot->layer, 0);
    return lf_name_find(l->set, name);
}

static size_t count_parts(const struct lf_program *program)
{
    size_t n = 0;
    for (int i = 0; i < program->n_slots; i++)
        n += (size_t)program->slots[i].n_parts * (size_t)LF_MAX(program->slots[i].n_experts, 1);
    return n;
}

/* tie_word_embeddings says that the head is the embedding. Where the files hold a head that is another matrix, that is
 * what was trained: it is used. */
static enum lf_status settle_ties(struct lf_weight_layout *l, struct lf_err *err)
{
    l->tied = true;
    for (int i = 0; i < l->program->n_slots && l->set && l->tied; i++) {
        const struct lf_slot *slot = &l->program->slots[i];
        if (slot->tied_to == LF_NONE) continue;
        const struct lf_tensor *own = only_tensor(l, slot);
        const struct lf_tensor *shared = only_tensor(l, &l->program->slots[slot->tied_to]);
        bool differs = false;
        if (own && shared) LF_TRY(lf_tied_differs(&differs, l->set, own, shared, err));
        l->tied = !differs;
    }
    return LF_OK;
}

enum lf_status lf_weight_layout_make(struct lf_weight_layout **out, const struct lf_hparams *hp,
                                     const struct lf_program *program, const struct lf_tensor_set *set,
                                     enum lf_code quantize, struct lf_device *dev, struct lf_err *err)
{
    size_t max_parts = count_parts(program);
    enum lf_status status;
    struct lf_weight_layout *l = calloc(1, sizeof(*l));
    if (l) {
        l->set = set;
        l->program = program;
        l->quantize = quantize;
        l->parts = calloc(max_parts, sizeof(*l->parts));
        l->targets = calloc((size_t)program->n_slots, sizeof(*l->targets));
    }
    if (!l || !l->parts || !l->targets) {
        status = lf_fail(err, LF_NO_MEMORY, "no memory for a list of %zu weights", max_parts);
        goto fail;
    }
    LF_TRY_GOTO(settle_ties(l, err), fail);
    LF_TRY_GOTO(choose_quantized(l, dev, err), fail);
    note_multiplied(l);
    LF_TRY_GOTO(add_parts(l, hp, dev, err), fail);
    LF_TRY_GOTO(lay_out(l, lf_device_ops(dev), err), fail);
    if (set) {
        LF_TRY_GOTO(check_unused(l, hp, err), fail);
        qsort(l->parts, (size_t)l->n_parts, sizeof(*l->parts), compare_parts_by_offset);
    }
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

/* Whatever type their scales are exactly numbers of: that is of a matrix's values. */
static bool are_alike(const struct lf_format *a, const struct lf_format *b)
{
    struct lf_format c = *b;
    c.scales = a->scales;
    return lf_format_equal(a, &c);
}

/* Elements of matrices of layers that have the format. */
static uint64_t count_elements(const struct lf_weight_layout *l, const struct lf_format *format)
{
    uint64_t n = 0;
    for (int i = 0; i < l->program->n_slots; i++) {
        const struct lf_slot *slot = &l->program->slots[i];
        if (slot->is_vector || slot->layer < 0 || !are_alike(&l->targets[i].format, format)) continue;
        n += (uint64_t)slot->n_out * (uint64_t)slot->n_in * (uint64_t)LF_MAX(slot->n_experts, 1);
    }
    return n;
}

struct lf_format lf_weight_layout_format(const struct lf_weight_layout *l)
{
    struct lf_format best = lf_format_plain(LF_F32);
    uint64_t most = count_elements(l, &best);
    for (int i = 0; i < l->program->n_slots; i++) {
        const struct lf_format *format = &l->targets[i].format;
        if (are_alike(format, &best)) continue;
        uint64_t n = count_elements(l, format);
        if (n > most) best = *format;
        most = LF_MAX(most, n);
    }
    return best;
}

void lf_weight_layout_quantized(const struct lf_weight_layout *l, bool *out)
{
    for (int i = 0; i < l->set->n_tensors; i++) out[i] = false;
    for (int pass = 0; pass < 2; pass++) { /* those of which a part is, then without those of which one is not */
        for (int i = 0; i < l->n_parts; i++) {
            const struct lf_part *p = &l->parts[i];
            if (l->targets[p->slot_idx].quantized == (pass == 0)) out[p->tensor - l->set->tensors] = pass == 0;
        }
    }
}

bool lf_weight_layout_tied(const struct lf_weight_layout *layout)
{
    return layout->tied;
}

void lf_weight_layout_describe(const struct lf_weight_layout *l, struct lf_weight *out)
{
    for (int i = 0; i < l->program->n_slots; i++)
        out[i] = (struct lf_weight){.format = l->targets[i].format,
                                    .n_out = l->program->slots[i].n_out,
                                    .n_in = l->program->slots[i].n_in,
                                    .n_experts = l->program->slots[i].n_experts};
}

/* Points the slots at their addresses in the buffer. */
static void bind_slots(struct lf_weights *w, const struct lf_weight_layout *l)
{
    lf_weight_layout_describe(l, w->of);
    for (int i = 0; i < l->program->n_slots; i++) w->of[i].data = (char *)w->buffer.ptr + l->targets[i].offset;
}

/* What loading carries along. */
struct loader {
    struct lf_device *dev;
    const struct lf_ops *ops;
    const struct lf_weight_layout *layout;
    const struct lf_model_opts *opts;
    struct lf_weights *w;
    struct lf_stage stage;
    struct lf_quantizer quantizer;
    char *ordered;  /* [LF_STAGE_BYTES] staged rows in the order of the slot; NULL until they are needed */
    float *widened; /* [LF_STAGE_BYTES / 2] elements of a vector as float */
    struct lf_tensor_hash *hashes; /* [n_parts]; NULL: not asked for */
    uint64_t done;                 /* bytes */
};

/* n rows from row `row` of a part on, as the slot has them, to where they belong. rows: elements, or of a part that
 * stays coded a struct lf_quant_rows. */
static enum lf_status store_rows(struct loader *ld, const struct lf_part *p, int row, int n, const void *rows,
                                 struct lf_err *err)
{
    const struct lf_weight *w = &ld->w->of[p->slot_idx];
    const struct lf_slot *slot = &ld->layout->program->slots[p->slot_idx];
    if (!slot->is_vector) {
        struct lf_weight one = lf_weight_of_expert(ld->ops, w, p->expert);
        bool quantized = ld->layout->targets[p->slot_idx].quantized;
        struct lf_quant_rows coded; /* made here; those of a part that stays coded are `rows` */
        if (quantized)
            LF_TRY(lf_quantizer_run(&ld->quantizer, lf_device_threads(ld->dev), &w->format, p->dtype, n, p->n_in, rows,
                                    p->name, &coded, err));
        ld->ops->weight_pack(ld->dev, &one, p->row_first + row, n, quantized ? &coded : rows);
        return LF_OK;
    }
    lf_to_f32(ld->widened, rows, p->dtype, (size_t)n);
    for (int i = 0; i < n && slot->add != 0; i++) ld->widened[i] += slot->add;
    float *to = (float *)w->data + (size_t)p->expert * (size_t)slot->n_out + p->row_first + row;
    lf_upload(ld->dev, to, ld->widened, (size_t)n * sizeof(float));
    return LF_OK;
}

/* The staged rows in the order of their slot, one behind the other. */
struct ordered {
    struct lf_quant_rows coded; /* in the loader's buffer, of a part that stays coded */
    size_t n_groups, row_bytes;
};

/* Cuts the loader's buffer into codes, scales and zero points of n rows. They have room where expanded rows have. */
static struct ordered order_begin(struct loader *ld, const struct lf_part *p, int n)
{
    const struct lf_format *format = &ld->layout->targets[p->slot_idx].format;
    struct ordered o = {.row_bytes = (size_t)p->n_in * lf_dtype_bytes(p->dtype)};
    if (!p->coded) return o;
    o.n_groups = (size_t)lf_format_n_groups(format, p->n_in);
    o.row_bytes = (size_t)p->n_in;
    size_t n_codes = LF_ROUND_UP((size_t)n * o.row_bytes, sizeof(float)), n_scales = (size_t)n * o.n_groups;
    LF_ASSERT(n_codes + n_scales * (sizeof(float) + 1) <= LF_STAGE_BYTES);
    o.coded = (struct lf_quant_rows){.codes = (const uint8_t *)ld->ordered,
                                     .scales = (const float *)(const void *)(ld->ordered + n_codes)};
    if (format->zeros) o.coded.zeros = (const uint8_t *)(o.coded.scales + n_scales);
    return o;
}

/* Row `from` of those that are staged becomes row `to`. */
static void order_row(struct loader *ld, const struct lf_part *p, const struct ordered *o, size_t to, size_t from)
{
    const struct lf_quant_rows *staged = &ld->stage.coded;
    const char *rows = p->coded ? (const char *)staged->codes : ld->stage.rows;
    memcpy(ld->ordered + to * o->row_bytes, rows + from * o->row_bytes, o->row_bytes);
    if (!p->coded) return;
    char *scales = ld->ordered + ((const char *)o->coded.scales - ld->ordered);
    memcpy(scales + to * o->n_groups * sizeof(float), staged->scales + from * o->n_groups, o->n_groups * sizeof(float));
    char *zeros = o->coded.zeros ? ld->ordered + ((const char *)o->coded.zeros - ld->ordered) : NULL;
    if (zeros) memcpy(zeros + to * o->n_groups, staged->zeros + from * o->n_groups, o->n_groups);
}

/* The same of the staged rows [row, row + n) of a part whose rows have another order in the file: whatever stands side
 * by side in the slot goes there at once. */
static enum lf_status store_reordered(struct loader *ld, const struct lf_part *p, int row, int n, struct lf_err *err)
{
    const struct lf_slot_part *order = &ld->layout->program->slots[p->slot_idx].parts[p->part_idx];
    int n_run = 0;
    if (!ld->ordered) ld->ordered = malloc(LF_STAGE_BYTES);
    if (!ld->ordered) return lf_fail(err, LF_NO_MEMORY, "no memory for reading weights");
    struct ordered o = order_begin(ld, p, n);
    for (int to = 0; to < order->n_rows; to++) {
        int from = lf_row_order_source(order, to) - row;
        bool is_staged = from >= 0 && from < n;
        if (is_staged) order_row(ld, p, &o, (size_t)n_run++, (size_t)from);
        if (n_run == 0 || (is_staged && to + 1 < order->n_rows)) continue;
        LF_TRY(store_rows(ld, p, is_staged ? to + 1 - n_run : to - n_run, n_run,
                          p->coded ? (const void *)&o.coded : ld->ordered, err));
        n_run = 0;
    }
    return LF_OK;
}

static enum lf_status load_part(struct loader *ld, const struct lf_part *p, struct lf_err *err)
{
    const struct lf_slot *slot = &ld->layout->program->slots[p->slot_idx];
    bool is_ordered = slot->parts[p->part_idx].order == LF_ROWS_AS_STORED;
    int n_max = lf_stage_begin(&ld->stage, p);
    uint64_t done = ld->done;
    for (int row = 0; row < p->n_rows; row += n_max) {
        int n = LF_MIN(n_max, p->n_rows - row);
        LF_TRY(lf_stage_rows(&ld->stage, p, row, n, err));
        if (is_ordered)
            LF_TRY(store_rows(ld, p, row, n, p->coded ? (const void *)&ld->stage.coded : ld->stage.rows, err));
        else
            LF_TRY(store_reordered(ld, p, row, n, err));
        ld->done = done + lf_part_file_bytes(p, row + n);
        if (ld->opts->progress) ld->opts->progress(ld->opts->progress_ctx, ld->done, ld->layout->file_bytes);
    }
    if (!ld->hashes) return LF_OK;
    struct lf_tensor_hash *h = &ld->hashes[p - ld->layout->parts];
    *h = (struct lf_tensor_hash){.name = p->name, .dtype = p->dtype, .n_rows = p->n_rows, .n_in = p->n_in};
    lf_stage_end(&ld->stage, p, h->sha);
    return LF_OK;
}

enum lf_status lf_weights_load(struct lf_weights *out, struct lf_device *dev, const struct lf_weight_layout *layout,
                               const struct lf_model_opts *opts, struct lf_err *err)
{
    struct lf_weights w = {0};
    struct loader ld = {.dev = dev, .ops = lf_device_ops(dev), .layout = layout, .opts = opts, .w = &w};
    enum lf_status status;
    LF_TRY(lf_stage_init(&ld.stage, dev, layout->set, opts->dummy_seed, opts->hash_weights, err));
    w.of = calloc((size_t)layout->program->n_slots, sizeof(*w.of));
    ld.widened = malloc((size_t)LF_STAGE_BYTES / 2 * sizeof(float));
    if (opts->hash_weights) ld.hashes = calloc((size_t)layout->n_parts, sizeof(*ld.hashes));
    if (!w.of || !ld.widened || (opts->hash_weights && !ld.hashes)) {
        status = lf_fail(err, LF_NO_MEMORY, "no memory for reading weights");
        goto done;
    }
    LF_TRY_GOTO(lf_buffer_alloc(dev, &w.buffer, (size_t)layout->bytes, "weights", err), done);
    bind_slots(&w, layout);
    for (int i = 0; i < layout->n_parts; i++) {
        if (opts->comm) LF_TRY_GOTO(lf_comm_check(opts->comm, err), done); /* or nobody will need them */
        LF_TRY_GOTO(load_part(&ld, &layout->parts[i], err), done);
    }
    if (ld.hashes) lf_hash_tensors(ld.hashes, layout->n_parts, w.sha);
    status = LF_OK;
done:
    lf_stage_deinit(&ld.stage);
    lf_quantizer_deinit(&ld.quantizer);
    free(ld.ordered);
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
    free(w->of);
    *w = (struct lf_weights){0};
}
