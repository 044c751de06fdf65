#include "grammar/readings.h"

#include <string.h>

#include "core/check.h"
#include "core/mix.h"
#include "core/sort.h"
#include "core/text_memory.h"

void lf_stacks_init(struct lf_stacks *s, const struct lf_network *net, struct lf_text_memory *memory)
{
    *s = (struct lf_stacks){.net = net, .memory = memory};
}

void lf_stacks_deinit(struct lf_stacks *s)
{
    lf_text_free(s->memory, s->frames);
    lf_text_free(s->memory, s->table);
    s->frames = NULL;
    s->table = NULL;
}

void lf_reading_list_deinit(struct lf_reading_list *l, struct lf_stacks *s)
{
    lf_text_free(s->memory, l->list);
    *l = (struct lf_reading_list){0};
}

bool lf_stacks_may_grow(struct lf_stacks *s)
{
    if (s->is_frozen) s->status = LF_FULL;
    return !s->is_frozen;
}

static uint32_t depth_of(const struct lf_stacks *s, uint32_t stack)
{
    return stack == LF_STACK_EMPTY ? 0 : s->frames[stack].depth;
}

static uint32_t slot_of(const struct lf_stacks *s, uint32_t node, uint32_t below)
{
    uint32_t at = (uint32_t)lf_mix64((uint64_t)node << 32 | below) & (s->table_len - 1);
    for (; s->table[at]; at = (at + 1) & (s->table_len - 1)) {
        const struct lf_frame *f = &s->frames[s->table[at] - 1];
        if (f->node == node && f->below == below) break;
    }
    return at;
}

static void rebuild_table(struct lf_stacks *s)
{
    memset(s->table, 0, s->table_len * sizeof *s->table);
    for (uint32_t i = 0; i < s->n; i++) s->table[slot_of(s, s->frames[i].node, s->frames[i].below)] = i + 1;
}

static bool grow(struct lf_stacks *s)
{
    uint32_t cap = s->cap ? 2 * s->cap : 256;
    if (s->cap >= LF_GRAMMAR_STACKS_N) {
        s->status = LF_LIMIT;
        return false;
    }
    if (!lf_stacks_may_grow(s)) return false;
    struct lf_frame *frames = lf_text_realloc(s->memory, s->frames, cap * sizeof *frames);
    if (frames) s->frames = frames;
    uint32_t *table = lf_text_realloc(s->memory, s->table, 2 * (size_t)cap * sizeof *table);
    if (table) s->table = table;
    if (!frames || !table) {
        s->status = LF_NO_MEMORY;
        return false;
    }
    s->cap = cap;
    s->table_len = 2 * cap;
    rebuild_table(s);
    return true;
}

/* The stack with one frame more. */
static uint32_t push(struct lf_stacks *s, uint32_t node, uint32_t below)
{
    if (s->n == s->cap && !grow(s)) return LF_STACK_EMPTY;
    uint32_t at = slot_of(s, node, below);
    if (s->table[at]) return s->table[at] - 1;
    s->frames[s->n] = (struct lf_frame){node, below, depth_of(s, below) + 1};
    s->table[at] = s->n + 1;
    return s->n++;
}

static void add(struct lf_stacks *s, struct lf_reading_list *l, struct lf_reading r)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        if (l->cap >= LF_GRAMMAR_CONFIGS_N) {
            s->status = LF_LIMIT;
            return;
        }
        if (!lf_stacks_may_grow(s)) return;
        struct lf_reading *list = lf_text_realloc(s->memory, l->list, cap * sizeof *list);
        if (!list) {
            s->status = LF_NO_MEMORY;
            return;
        }
        l->list = list;
        l->cap = cap;
    }
    l->list[l->n++] = r;
}

/* Whether what begins at the node can end within the depth that is left. */
static bool can_end(const struct lf_stacks *s, uint32_t node, uint32_t stack)
{
    uint32_t height = s->net->nodes[node].height;
    return height != LF_NET_NO_WAY && depth_of(s, stack) + height <= LF_GRAMMAR_DEPTH;
}

/* Recursion ends: empty edges make no circles, a call is followed by a byte, and a return makes the stack shorter. Long
 * chains of empty edges (optional members) are a loop: the last edge of a node is followed without recursion. */
void lf_readings_enter(struct lf_stacks *s, struct lf_reading_list *list, uint32_t node, uint32_t stack)
{
    const struct lf_network *net = s->net;
    for (;;) {
        uint32_t then = LF_NET_NONE, then_stack = stack;
        if (s->status != LF_OK || !can_end(s, node, stack)) return;
        if (net->nodes[node].is_end && stack == LF_STACK_EMPTY) list->complete = true;
        if (net->nodes[node].is_end && stack != LF_STACK_EMPTY) {
            then = s->frames[stack].node;
            then_stack = s->frames[stack].below;
        }
        for (uint32_t e = net->nodes[node].first; e != LF_NET_NONE; e = net->edges[e].next) {
            const struct lf_net_edge *edge = &net->edges[e];
            if (!can_end(s, edge->to, stack)) continue;
            if (edge->kind == LF_NET_TERMINAL) {
                add(s, list, (struct lf_reading){edge->what, 0, edge->to, stack});
                continue;
            }
            if (then != LF_NET_NONE) lf_readings_enter(s, list, then, then_stack);
            then = edge->to;
            then_stack = stack;
            if (edge->kind == LF_NET_CALL) {
                then_stack = push(s, edge->to, stack);
                then = edge->what;
            }
            if (s->status != LF_OK) return;
        }
        if (then == LF_NET_NONE) return;
        node = then;
        stack = then_stack;
    }
}

static bool comes_before(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct lf_reading)) < 0;
}

/* Of those from `first` on. */
static void drop_doubles(struct lf_reading_list *l, size_t first)
{
    size_t n = first;
    if (l->n < first + 2) return;
    lf_sort(l->list + first, l->n - first, sizeof *l->list, comes_before);
    for (size_t i = first; i < l->n; i++)
        if (n == first || memcmp(&l->list[n - 1], &l->list[i], sizeof *l->list) != 0) l->list[n++] = l->list[i];
    l->n = n;
}

/* from and to may be one list: a reading is copied before another is added. */
static void step(struct lf_stacks *s, const struct lf_reading_list *from, size_t first, size_t end, uint8_t byte,
                 struct lf_reading_list *to)
{
    for (size_t i = first; i < end && s->status == LF_OK; i++) {
        struct lf_reading r = from->list[i];
        const struct lf_terminal *t = &s->net->terminals[r.terminal];
        r.state = lf_terminal_next(t, r.state, byte);
        if (r.state == LF_TERMINAL_DEAD) continue;
        bool accepts = lf_terminal_accepts(t, r.state);
        if (!accepts || !lf_terminal_is_final(t, r.state)) add(s, to, r);
        if (accepts) lf_readings_enter(s, to, r.to, r.stack);
    }
}

void lf_readings_step(struct lf_stacks *s, const struct lf_reading_list *from, uint8_t byte, struct lf_reading_list *to)
{
    to->n = 0;
    to->complete = false;
    step(s, from, 0, from->n, byte, to);
    drop_doubles(to, 0);
}

void lf_readings_step_on(struct lf_stacks *s, struct lf_reading_list *list, size_t first, size_t end, uint8_t byte)
{
    size_t n = list->n;
    list->complete = false;
    step(s, list, first, end, byte, list);
    drop_doubles(list, n);
}

void lf_readings_step_control(struct lf_stacks *s, const struct lf_reading_list *from, struct lf_str control,
                              struct lf_reading_list *to)
{
    to->n = 0;
    to->complete = false;
    for (size_t i = 0; i < from->n && s->status == LF_OK; i++) {
        const struct lf_reading *r = &from->list[i];
        const struct lf_terminal *t = &s->net->terminals[r->terminal];
        if (t->is_control && r->state == 0 && lf_str_eq(t->control, control)) lf_readings_enter(s, to, r->to, r->stack);
    }
    drop_doubles(to, 0);
}

void lf_reading_list_copy(struct lf_stacks *s, struct lf_reading_list *to, const struct lf_reading_list *from)
{
    to->n = 0;
    to->complete = from->complete;
    for (size_t i = 0; i < from->n && s->status == LF_OK; i++) add(s, to, from->list[i]);
    if (s->status != LF_OK) to->n = 0;
}

void lf_stacks_cut(struct lf_stacks *s, uint32_t n)
{
    if (s->n == n) return;
    s->n = n;
    rebuild_table(s);
}

void lf_stacks_collect(struct lf_stacks *s, struct lf_reading_list *live)
{
    if (s->n < LF_GRAMMAR_STACKS_N / 2 || s->is_frozen) return;
    uint32_t *number = lf_text_alloc_zeroed(s->memory, s->n * sizeof *number);
    uint32_t n = 0;
    if (!number) return; /* there is still room; push says when there is none */
    for (size_t i = 0; i < live->n; i++)
        for (uint32_t f = live->list[i].stack; f != LF_STACK_EMPTY && !number[f]; f = s->frames[f].below) number[f] = 1;
    for (uint32_t i = 0; i < s->n; i++) { /* a frame is made after the one below it */
        struct lf_frame f = s->frames[i];
        if (!number[i]) continue;
        if (f.below != LF_STACK_EMPTY) f.below = number[f.below] - 1;
        s->frames[n] = f;
        number[i] = ++n;
    }
    for (size_t i = 0; i < live->n; i++)
        if (live->list[i].stack != LF_STACK_EMPTY) live->list[i].stack = number[live->list[i].stack] - 1;
    s->n = n;
    rebuild_table(s);
    lf_text_free(s->memory, number);
}
