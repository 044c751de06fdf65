#include "model/bind.h"

#include <stdio.h>

#include "core/check.h"
#include "model/names.h"

/* What a part is bound with. */
struct binding {
    const struct lf_tensor_set *set;
    const struct lf_hparams *hp;
    const struct lf_slot *slot;
};

enum { SHAPE_N = 4 };

/* Whether the shape is this one; a dimension of 0 is none. */
static enum lf_status check_shape(const struct lf_tensor *t, const char *name, const int dims[SHAPE_N],
                                  struct lf_err *err)
{
    char have[64], expected[64] = "";
    int rank = 0;
    bool is_same = true;
    for (size_t i = 0, at = 0; i < SHAPE_N; i++) {
        if (dims[i] == 0) continue;
        is_same &= rank < t->rank && t->shape[rank] == (uint64_t)dims[i];
        at += (size_t)snprintf(expected + at, sizeof(expected) - at, "%s%d", rank++ ? ", " : "", dims[i]);
    }
    if (is_same && t->rank == rank) return LF_OK;
    lf_tensor_shape_text(t, have, sizeof(have));
    return lf_fail(err, LF_CORRUPT, "tensor %s has shape %s, the configuration asks for [%s]", name, have, expected);
}

/* The tensor that holds all of a slot in place of one for each part and expert; NULL: there is none. */
static const struct lf_tensor *find_whole(const struct lf_tensor_set *set, const struct lf_slot *slot,
                                          char name[LF_NAME_BYTES])
{
    if (!slot->whole) return NULL;
    lf_name_bind(name, slot->whole, "", slot->layer, 0);
    return lf_name_find(set, name);
}

/* Whether part part_idx of all experts is one tensor, which has no name for each. */
static bool is_stacked(const struct lf_slot *slot, int part_idx)
{
    return slot->n_experts > 0 && !strchr(slot->parts[part_idx].pattern, '@');
}

static enum lf_status read_dtype(struct lf_part *p, const char *name, struct lf_err *err)
{
    if (lf_tensor_dtype(p->tensor, &p->dtype)) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "tensor %s is of type %s, which is not implemented (BF16, F16, F32 are)", name,
                   p->tensor->dtype_name);
}

static enum lf_status check_bytes(const struct lf_tensor *t, const char *name, struct lf_err *err)
{
    if (strcmp(t->dtype_name, "U8") == 0) return LF_OK;
    return lf_fail(err, LF_CORRUPT, "tensor %s is of type %s, expected U8: what MXFP4 is stored in", name,
                   t->dtype_name);
}

enum { MXFP4_GROUP = 32, MXFP4_GROUP_BYTES = 16 };

static const struct lf_scheme mxfp4_scheme = {
    .packing = &lf_packing_mxfp4, .code = LF_CODE_E2M1, .bits = 4, .group = MXFP4_GROUP, .group_rows = 1};

/* Of the part's tensor, those of all ranks. */
static int all_rows(const struct lf_slot_part *part)
{
    return part->rank_rows > 0 ? part->rank_rows : lf_slot_part_stored(part);
}

static int all_columns(const struct lf_part *p)
{
    return p->tensor_columns > 0 ? p->tensor_columns : p->n_in;
}

/* Blocks and scales of all experts in place of their matrices: MXFP4 (formats/fp4.c) under names and in shapes of its
 * own. Whatever the model's type is, bf16 holds its values. */
static enum lf_status bind_mxfp4(const struct binding *b, struct lf_part *p, const char *blocks_name,
                                 const char *scales_name, struct lf_err *err)
{
    const struct lf_slot_part *part = &b->slot->parts[p->part_idx];
    int n_experts = b->slot->n_experts, n_in = all_columns(p), n_rows = all_rows(part), n_groups = n_in / MXFP4_GROUP;
    const struct lf_tensor *scales = lf_name_find(b->set, scales_name);
    if (!scales)
        return lf_fail(err, LF_CORRUPT, "tensor %s is missing, of which %s needs the scales", scales_name, blocks_name);
    if (n_in % MXFP4_GROUP != 0)
        return lf_fail(err, LF_CORRUPT, "tensor %s is MXFP4, in groups of %d, of rows of %d", blocks_name,
                       (int)MXFP4_GROUP, n_in);
    LF_TRY(check_bytes(p->tensor, blocks_name, err));
    LF_TRY(check_bytes(scales, scales_name, err));
    LF_TRY(check_shape(p->tensor, blocks_name, (int[SHAPE_N]){n_experts, n_rows, n_groups, MXFP4_GROUP_BYTES}, err));
    LF_TRY(check_shape(scales, scales_name, (int[SHAPE_N]){n_experts, n_rows, n_groups}, err));
    p->stored = LF_STORED_PACKED;
    p->dtype = LF_BF16;
    p->quantized = (struct lf_quantized){.scheme = mxfp4_scheme,
                                         .sources = {[LF_SOURCE_CODES] = p->tensor, [LF_SOURCE_SCALES] = scales},
                                         .n_shares = n_experts,
                                         .share = p->expert,
                                         .n_out = n_rows,
                                         .n_in = n_in,
                                         .first = part->rank_row,
                                         .column = p->column,
                                         .n_columns = p->n_in};
    return lf_quantized_check_columns(&p->quantized, blocks_name, err);
}

/* The same of a slot whose tensors have columns, or are MXFP4. */
static enum lf_status bind_columns(const struct binding *b, struct lf_part *p, struct lf_err *err)
{
    const struct lf_slot *slot = b->slot;
    const char *pattern = slot->parts[p->part_idx].pattern;
    char name[LF_NAME_BYTES], blocks[LF_NAME_BYTES], scales[LF_NAME_BYTES];
    lf_name_bind(name, pattern, slot->suffix, slot->layer, p->expert);
    lf_name_bind(blocks, pattern, "_blocks", slot->layer, p->expert);
    lf_name_bind(scales, pattern, "_scales", slot->layer, p->expert);
    p->all_rows = all_rows(&slot->parts[p->part_idx]);
    p->tensor_row = (uint64_t)p->expert * (uint64_t)p->all_rows + (uint64_t)slot->parts[p->part_idx].rank_row;
    p->tensor = lf_name_find(b->set, blocks);
    if (p->tensor) return bind_mxfp4(b, p, blocks, scales, err);
    p->stored = LF_STORED_COLUMNS;
    p->tensor = lf_name_find(b->set, name);
    if (!p->tensor) return lf_fail(err, LF_CORRUPT, "tensor %s is missing, and so is %s", name, blocks);
    LF_TRY(read_dtype(p, name, err));
    return check_shape(p->tensor, name, (int[SHAPE_N]){slot->n_experts, all_columns(p), p->all_rows}, err);
}

/* Where the part's matrix or vector is to be found. */
struct place {
    char module[LF_NAME_BYTES]; /* its name without a suffix */
    const char *suffix;         /* of a plain one */
    int n_experts, n_rows;      /* of the tensor; n_experts 0: it has no such dimension */
    uint64_t row;               /* of all its matrices the one that the part begins with */
};

static struct place own_place(const struct lf_slot *slot, const struct lf_part *p)
{
    const struct lf_slot_part *part = &slot->parts[p->part_idx];
    bool of_all = is_stacked(slot, p->part_idx);
    int n_rows = all_rows(part);
    struct place at = {.suffix = slot->suffix,
                       .n_experts = of_all ? slot->n_experts : 0,
                       .n_rows = part->tensor_rows > 0 ? part->tensor_rows : n_rows,
                       .row = of_all ? (uint64_t)p->expert * (uint64_t)n_rows : (uint64_t)part->tensor_row};
    at.row += (uint64_t)part->rank_row;
    lf_name_bind(at.module, part->pattern, "", slot->layer, p->expert);
    return at;
}

/* Rows of the slot's first n parts, those of all ranks. */
static int rows_before(const struct lf_slot *slot, int n)
{
    int rows = 0;
    for (int i = 0; i < n; i++) rows += slot->parts[i].rank_rows > 0 ? slot->parts[i].rank_rows : slot->parts[i].n_rows;
    return rows;
}

/* In the one tensor in place of one for each part and expert. */
static struct place whole_place(const struct lf_slot *slot, const struct lf_part *p)
{
    int n_rows = rows_before(slot, slot->n_parts);
    struct place at = {.suffix = "",
                       .n_experts = slot->n_experts,
                       .n_rows = n_rows,
                       .row = (uint64_t)p->expert * (uint64_t)n_rows + (uint64_t)rows_before(slot, p->part_idx) +
                              (uint64_t)slot->parts[p->part_idx].rank_row};
    lf_name_bind(at.module, slot->whole, "", slot->layer, 0);
    return at;
}

static enum lf_status bind_quantized(const struct binding *b, struct lf_part *p, const struct place *at,
                                     struct lf_err *err)
{
    struct lf_quantized_place place = {.module = at->module,
                                       .plain_suffix = at->suffix,
                                       .n_experts = at->n_experts,
                                       .expert = (int)(at->row / (uint64_t)at->n_rows),
                                       .first = (int)(at->row % (uint64_t)at->n_rows),
                                       .n_out = at->n_rows,
                                       .n_in = all_columns(p),
                                       .column = p->column,
                                       .n_columns = p->n_in};
    LF_TRY(lf_quantized_bind(&p->quantized, b->set, b->hp->quantization, &place, err));
    p->stored = LF_STORED_PACKED;
    p->dtype = b->hp->dtype;
    p->tensor = p->quantized.sources[LF_SOURCE_CODES];
    return LF_OK;
}

/* Finds and checks the part's tensors, and where in them the part begins. */
static enum lf_status bind(const struct binding *b, struct lf_part *p, struct lf_err *err)
{
    const struct lf_slot *slot = b->slot;
    char name[LF_NAME_BYTES];
    if (slot->by_columns) return bind_columns(b, p, err);
    struct place at = find_whole(b->set, slot, name) ? whole_place(slot, p) : own_place(slot, p);
    snprintf(name, sizeof(name), "%s%s", at.module, at.suffix);
    p->tensor = lf_name_find(b->set, name);
    p->tensor_row = at.row;
    bool is_plain = p->tensor && lf_tensor_dtype(p->tensor, &p->dtype);
    if (!is_plain && !slot->is_vector && b->hp->quantization) return bind_quantized(b, p, &at, err);
    if (!p->tensor) return lf_fail(err, LF_CORRUPT, "tensor %s is missing", name);
    LF_TRY(read_dtype(p, name, err));
    if (slot->n_taps > 0)
        return check_shape(p->tensor, name, (int[SHAPE_N]){at.n_rows / slot->n_taps, 1, slot->n_taps}, err);
    int n_columns = slot->is_vector ? 0 : all_columns(p);
    return check_shape(p->tensor, name, (int[SHAPE_N]){at.n_experts, at.n_rows, n_columns}, err);
}

void lf_part_name(struct lf_part *p, const struct lf_slot *slot)
{
    char suffix[32] = "";
    if (is_stacked(slot, p->part_idx)) snprintf(suffix, sizeof(suffix), ".%d", p->expert);
    const struct lf_slot_part *part = &slot->parts[p->part_idx];
    if (part->tensor_rows > 0) snprintf(suffix, sizeof(suffix), ".%d", part->tensor_row);
    char pattern[LF_NAME_BYTES];
    snprintf(pattern, sizeof(pattern), "%s%s", slot->parts[p->part_idx].pattern, slot->suffix);
    lf_name_bind(p->name, pattern, suffix, slot->layer, p->expert);
}

enum lf_status lf_part_bind(struct lf_part *part, const struct lf_slot *slot, const struct lf_hparams *hp,
                            const struct lf_tensor_set *set, struct lf_err *err)
{
    const struct binding b = {.set = set, .hp = hp, .slot = slot};
    return bind(&b, part, err);
}

/* How the module's matrix would be quantized; NULL: it would not be. Logits are left out by most that quantize all
 * layers, without a word, so they must be named. */
static enum lf_status find_dummy_scheme(const struct lf_slot *slot, const struct lf_quantization *q,
                                        struct lf_str module, const struct lf_scheme **out, struct lf_err *err)
{
    bool is_ignored, is_named = slot->layer >= 0;
    if (!is_named) LF_TRY(lf_quantization_names(q, module, &is_named, err));
    if (!is_named) return LF_OK;
    return lf_quantization_find(q, module, out, &is_ignored, err);
}

enum lf_status lf_part_bind_dummy(struct lf_part *p, const struct lf_slot *slot, const struct lf_hparams *hp,
                                  struct lf_err *err)
{
    const struct lf_scheme *scheme = slot->by_columns && hp->mxfp4 ? &mxfp4_scheme : NULL;
    struct place at = own_place(slot, p);
    if (slot->is_vector || p->tensor_columns > 0) return LF_OK; /* codes are not divided by columns */
    if (hp->quantization) LF_TRY(find_dummy_scheme(slot, hp->quantization, lf_str_c(at.module), &scheme, err));
    if (!scheme) return LF_OK;
    p->stored = LF_STORED_PACKED;
    p->quantized = (struct lf_quantized){
        .scheme = *scheme, .n_shares = 1, .n_out = p->n_rows, .n_in = p->n_in, .n_columns = p->n_in};
    return LF_OK;
}

/* A type that holds the scales of a matrix as they are. Those of dummy weights are powers of two. */
static enum lf_dtype scales_type(const struct lf_tensor *scales)
{
    enum lf_source_type type;
    if (!scales) return LF_F32;
    if (!lf_source_type_of(scales->dtype_name, &type)) return LF_F32;
    return type == LF_SOURCE_BF16 ? LF_BF16 : type == LF_SOURCE_F16 ? LF_F16 : LF_F32;
}

struct lf_format lf_part_format(const struct lf_part *p, const struct lf_slot *slot)
{
    const struct lf_quantized *m = &p->quantized;
    if (p->stored != LF_STORED_PACKED) return lf_format_plain(p->dtype);
    struct lf_format f = lf_scheme_format(&m->scheme, p->dtype);
    bool is_in_order = slot->parts[p->part_idx].order == LF_ROWS_AS_STORED;
    bool is_aligned = m->first % f.group_rows == 0 && p->row_first % f.group_rows == 0;
    bool is_last = p->row_first + p->n_rows == slot->n_out;
    if (!is_in_order || !is_aligned || (p->n_rows % f.group_rows != 0 && !is_last)) f.group_rows = 1;
    f.scales = scales_type(m->sources[LF_SOURCE_SCALES]);
    /* what core/format.h has no name for: columns in any group, codes of eight bits with zero points, NVFP4 */
    bool has_name = !m->scheme.act_order && (!f.zeros || f.code == LF_CODE_I4) && !m->sources[LF_SOURCE_FACTOR];
    return has_name ? f : lf_format_plain(p->dtype);
}
