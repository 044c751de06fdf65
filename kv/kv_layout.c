#include "kv/kv_layout.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"

enum {
    LONG_BLOCKS = 128 * 1024 / LF_KV_BLOCK_TOKENS, /* of the sequence whose bytes are made few */
    NEAR_PER_CENT = 1,
    STATE_ALIGN_BYTES = 256
};

/* Layers that keep the same. */
struct kv_class {
    struct lf_kv_group of; /* n_layers: of the class */
    int n_groups;          /* that it is cut into */
    int first_group;
};

struct cut {
    struct kv_class classes[LF_KV_GROUPS_N]; /* full ones first */
    int n_classes;
    uint64_t page_bytes; /* every group's page divides it */
    uint64_t block_bytes;
    int n_groups;
};

static uint64_t page_bytes(const struct lf_kv_group *g, enum lf_dtype dtype)
{
    return lf_kv_page_bytes_of(dtype, g->head_dim);
}

/* Of one layer in a block. */
static uint64_t layer_bytes(const struct lf_kv_group *g, enum lf_dtype dtype)
{
    return 2 * (uint64_t)g->n_kv_heads * page_bytes(g, dtype);
}

static bool is_of(const struct lf_kv_group *g, const struct lf_kv_layer_spec *s)
{
    return g->window == s->window && g->n_kv_heads == s->n_kv_heads && g->head_dim == s->head_dim;
}

static bool has_state(const struct lf_kv_layer_spec *s)
{
    return s->state_bytes > 0;
}

static enum lf_status check_state(const struct lf_kv_layer_spec *s, int i, struct lf_err *err)
{
    if (s->alias_of != -1)
        return lf_fail(err, LF_INVALID, "KV cache: layer %d has a state, and reads the keys of layer %d", i,
                       s->alias_of);
    if (s->state_bytes % STATE_ALIGN_BYTES != 0 || s->state_bytes > LF_STATE_LAYER_BYTES)
        return lf_fail(err, LF_INVALID,
                       "KV cache: layer %d has a state of %llu bytes, expected a multiple of %d, %d at most", i,
                       (unsigned long long)s->state_bytes, (int)STATE_ALIGN_BYTES, (int)LF_STATE_LAYER_BYTES);
    return LF_OK;
}

static enum lf_status check_spec(const struct lf_kv_layer_spec *specs, int i, struct lf_err *err)
{
    const struct lf_kv_layer_spec *s = &specs[i];
    if (has_state(s)) return check_state(s, i, err);
    if (s->window < 0) return lf_fail(err, LF_INVALID, "KV cache: layer %d has a window of %d tokens", i, s->window);
    if (s->n_kv_heads < 1 || s->n_kv_heads > LF_HEADS_N)
        return lf_fail(err, LF_INVALID, "KV cache: layer %d has %d KV heads, expected 1 to %d", i, s->n_kv_heads,
                       (int)LF_HEADS_N);
    if (s->head_dim < 2 || s->head_dim % 2 != 0 || s->head_dim > LF_HIDDEN_N)
        return lf_fail(err, LF_INVALID, "KV cache: layer %d has a head_dim of %d, expected an even one from 2 to %d", i,
                       s->head_dim, (int)LF_HIDDEN_N);
    if (s->alias_of == -1) return LF_OK;
    if (s->alias_of < 0 || s->alias_of >= i)
        return lf_fail(err, LF_INVALID, "KV cache: layer %d reads the keys of layer %d, which is no earlier one", i,
                       s->alias_of);
    const struct lf_kv_layer_spec *of = &specs[s->alias_of];
    if (has_state(of))
        return lf_fail(err, LF_INVALID, "KV cache: layer %d reads the keys of layer %d, which has a state and no keys",
                       i, s->alias_of);
    if (s->window != of->window || s->n_kv_heads != of->n_kv_heads || s->head_dim != of->head_dim)
        return lf_fail(err, LF_INVALID,
                       "KV cache: layer %d reads the keys of layer %d, but they differ in shape or "
                       "window",
                       i, s->alias_of);
    return LF_OK;
}

/* Adds the layers of full attention to the classes, or those with windows. */
static enum lf_status find_classes(struct cut *cut, const struct lf_kv_layer_spec *specs, int n_layers, bool windowed,
                                   struct lf_err *err)
{
    for (int i = 0; i < n_layers; i++) {
        const struct lf_kv_layer_spec *s = &specs[i];
        int c = 0;
        if (has_state(s) || s->alias_of >= 0 || (s->window > 0) != windowed) continue;
        while (c < cut->n_classes && !is_of(&cut->classes[c].of, s)) c++;
        if (c == LF_KV_GROUPS_N)
            return lf_fail(err, LF_UNSUPPORTED,
                           "layers of more than %d kinds (window, KV heads, head_dim) are not "
                           "implemented",
                           (int)LF_KV_GROUPS_N);
        if (c == cut->n_classes)
            cut->classes[cut->n_classes++] =
                (struct kv_class){.of = {.window = s->window, .n_kv_heads = s->n_kv_heads, .head_dim = s->head_dim}};
        cut->classes[c].of.n_layers++;
    }
    return LF_OK;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The least that every page divides, and the alignment of states, which follow the blocks. LF_LIMIT where blocks would
 * have to be absurd: head sizes without much in common. */
static enum lf_status find_page(struct cut *cut, bool has_states, enum lf_dtype dtype, struct lf_err *err)
{
    cut->page_bytes = has_states ? STATE_ALIGN_BYTES : 1;
    for (int c = 0; c < cut->n_classes; c++) {
        uint64_t page = page_bytes(&cut->classes[c].of, dtype);
        uint64_t factor = page / gcd(page, cut->page_bytes);
        if (__builtin_mul_overflow(cut->page_bytes, factor, &cut->page_bytes) || cut->page_bytes > UINT32_MAX)
            return lf_fail(err, LF_LIMIT,
                           "KV cache: no block fits the pages of all layers: their head_dims differ too "
                           "oddly");
    }
    return LF_OK;
}

/* Cuts the classes for blocks of so many bytes; false where a layer does not fit or there are too many groups. */
static bool cut_for(struct cut *cut, uint64_t block_bytes, enum lf_dtype dtype)
{
    cut->block_bytes = block_bytes;
    cut->n_groups = 0;
    for (int c = 0; c < cut->n_classes; c++) {
        struct kv_class *class = &cut->classes[c];
        uint64_t fit = block_bytes / layer_bytes(&class->of, dtype);
        if (fit == 0) return false;
        int at_most = (int)LF_MIN(fit, (uint64_t) class->of.n_layers);
        class->n_groups = (class->of.n_layers + at_most - 1) / at_most;
        class->first_group = cut->n_groups;
        cut->n_groups += class->n_groups;
        if (cut->n_groups > LF_KV_GROUPS_N) return false;
    }
    return true;
}

/* Bytes of a long sequence, a double: only to compare. */
static double cost_of(const struct cut *cut)
{
    double blocks = 0;
    for (int c = 0; c < cut->n_classes; c++) {
        const struct lf_kv_windows w = {.n = 1, .tokens = {cut->classes[c].of.window}};
        blocks += (double)cut->classes[c].n_groups * (double)lf_kv_windows_held(&w, 0, LONG_BLOCKS);
    }
    return blocks * (double)cut->block_bytes;
}

/* Goes through the blocks of 1, 2, … layers of each class: any other size only adds waste to one of them. With `least`
 * 0 it finds the least cost, else, of the cuts that cost hardly more, the one of fewest groups, then the cheapest. */
static double search(struct cut *best, const struct cut *from, enum lf_dtype dtype, double least)
{
    double best_cost = 0;
    for (int c = 0; c < from->n_classes; c++) {
        for (int n = 1; n <= from->classes[c].of.n_layers; n++) {
            struct cut cut = *from;
            uint64_t bytes = (uint64_t)n * layer_bytes(&from->classes[c].of, dtype);
            if (!cut_for(&cut, LF_ROUND_UP(bytes, from->page_bytes), dtype)) continue;
            double cost = cost_of(&cut);
            if (least > 0 && cost > least * (100 + NEAR_PER_CENT) / 100) continue;
            bool fewer = least > 0 && cut.n_groups < best->n_groups;
            bool as_many = least <= 0 || cut.n_groups == best->n_groups;
            if (best_cost > 0 && !fewer && !(as_many && cost < best_cost)) continue;
            *best = cut;
            best_cost = cost;
        }
    }
    return best_cost;
}

/* Layers of group g, the class's i-th: the first groups have one more where they are not alike. */
static int layers_of(const struct kv_class *class, int i)
{
    return class->of.n_layers / class->n_groups + (i < class->of.n_layers % class->n_groups);
}

static void fill_groups(struct lf_kv_layout *out, const struct cut *cut)
{
    out->n_groups = cut->n_groups;
    out->block_bytes = cut->block_bytes;
    for (int c = 0; c < cut->n_classes; c++) {
        for (int i = 0; i < cut->classes[c].n_groups; i++) {
            struct lf_kv_group *g = &out->groups[cut->classes[c].first_group + i];
            *g = cut->classes[c].of;
            g->n_layers = layers_of(&cut->classes[c], i);
        }
    }
}

/* Layers go into their class's groups in order, until each is full; states are numbered as they come. */
static void fill_places(struct lf_kv_layout *out, const struct cut *cut, const struct lf_kv_layer_spec *specs)
{
    struct lf_kv_place next[LF_KV_GROUPS_N];
    int16_t n_states = 0;
    for (int c = 0; c < cut->n_classes; c++)
        next[c] = (struct lf_kv_place){.group = (int16_t)cut->classes[c].first_group};
    for (int i = 0; i < out->n_layers; i++) {
        int c = 0;
        if (has_state(&specs[i])) {
            out->places[i] = (struct lf_kv_place){.group = -1, .layer = n_states++};
            continue;
        }
        if (specs[i].alias_of >= 0) {
            out->places[i] = out->places[specs[i].alias_of];
            continue;
        }
        while (!is_of(&cut->classes[c].of, &specs[i])) c++;
        out->places[i] = next[c];
        if (++next[c].layer < out->groups[next[c].group].n_layers) continue;
        next[c] = (struct lf_kv_place){.group = (int16_t)(next[c].group + 1)};
    }
}

int lf_kv_states_slot_blocks(const struct lf_kv_states *states, uint64_t block_bytes)
{
    uint64_t bytes = (uint64_t)states->n_layers * states->layer_bytes;
    return (int)((bytes + block_bytes - 1) / block_bytes); /* bounded: LF_LAYERS_N states of LF_STATE_LAYER_BYTES */
}

/* All are alike. */
static enum lf_status find_states(struct lf_kv_states *out, const struct lf_kv_layer_spec *specs, int n_layers,
                                  struct lf_err *err)
{
    for (int i = 0; i < n_layers; i++) {
        if (!has_state(&specs[i])) continue;
        if (out->n_layers > 0 && specs[i].state_bytes != out->layer_bytes)
            return lf_fail(err, LF_UNSUPPORTED, "layers with states of different sizes are not implemented");
        out->layer_bytes = specs[i].state_bytes;
        out->n_layers++;
    }
    if (out->n_layers == n_layers)
        return lf_fail(err, LF_UNSUPPORTED,
                       "models that have states alone, and no layer of attention, are not implemented");
    return LF_OK;
}

/* Parts of a snapshot are told apart by two bytes of their keys (kv/prefix_cache.h). */
static enum lf_status check_slot(const struct lf_kv_states *states, struct lf_err *err)
{
    if (states->slot_blocks <= LF_SLOT_BLOCKS_N) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED,
                   "a sequence's states are as long as %d blocks of keys; more than %d are not implemented",
                   states->slot_blocks, (int)LF_SLOT_BLOCKS_N);
}

enum lf_status lf_kv_layout_make(struct lf_kv_layout *out, const struct lf_kv_layer_spec *specs, int n_layers,
                                 enum lf_dtype dtype, struct lf_err *err)
{
    struct cut cut = {0}, best = {0};
    struct lf_kv_layout layout = {.n_layers = n_layers};
    if (n_layers < 1 || n_layers > LF_LAYERS_N)
        return lf_fail(err, LF_INVALID, "KV cache of %d layers, expected 1 to %d", n_layers, (int)LF_LAYERS_N);
    for (int i = 0; i < n_layers; i++) LF_TRY(check_spec(specs, i, err));
    LF_TRY(find_classes(&cut, specs, n_layers, false, err));
    LF_TRY(find_classes(&cut, specs, n_layers, true, err));
    LF_TRY(find_states(&layout.states, specs, n_layers, err));
    LF_TRY(find_page(&cut, layout.states.n_layers > 0, dtype, err));
    double least = search(&best, &cut, dtype, 0);
    /* A block of all layers of the largest class has room for every class in a group of its own. */
    LF_ASSERT(least > 0);
    search(&best, &cut, dtype, least);
    layout.states.slot_blocks = lf_kv_states_slot_blocks(&layout.states, best.block_bytes);
    LF_TRY(check_slot(&layout.states, err));
    layout.places = calloc((size_t)n_layers, sizeof(*layout.places));
    if (!layout.places) return lf_fail(err, LF_NO_MEMORY, "no memory for the places of %d layers", n_layers);
    fill_groups(&layout, &best);
    fill_places(&layout, &best, specs);
    *out = layout;
    return LF_OK;
}

void lf_kv_layout_deinit(struct lf_kv_layout *layout)
{
    free(layout->places);
    memset(layout, 0, sizeof(*layout));
}

bool lf_kv_layout_same(const struct lf_kv_layout *a, const struct lf_kv_layout *b)
{
    return a->n_groups == b->n_groups && a->n_layers == b->n_layers && a->block_bytes == b->block_bytes &&
           memcmp(a->groups, b->groups, sizeof(a->groups)) == 0 && a->states.n_layers == b->states.n_layers &&
           a->states.layer_bytes == b->states.layer_bytes && a->states.slot_blocks == b->states.slot_blocks &&
           memcmp(a->places, b->places, (size_t)a->n_layers * sizeof(*a->places)) == 0;
}

uint64_t lf_kv_layout_waste(const struct lf_kv_layout *layout, int group, enum lf_dtype dtype)
{
    const struct lf_kv_group *g = &layout->groups[group];
    return layout->block_bytes - (uint64_t)g->n_layers * layer_bytes(g, dtype);
}

uint64_t lf_kv_states_waste(const struct lf_kv_layout *layout)
{
    const struct lf_kv_states *s = &layout->states;
    return (uint64_t)s->slot_blocks * layout->block_bytes - (uint64_t)s->n_layers * s->layer_bytes;
}

struct lf_kv_windows lf_kv_layout_windows(const struct lf_kv_layout *layout)
{
    struct lf_kv_windows w = {.n = layout->n_groups};
    for (int i = 0; i < layout->n_groups; i++) w.tokens[i] = layout->groups[i].window;
    return w;
}
