/* Subset construction, products and minimization.
 *
 * A set of NFA states is kept without those that have only empty edges: they say nothing that their successors do not.
 * The start set is the one where nothing was read, so ^ is followed from there and nowhere else; whether a set accepts
 * is asked with $ open. */
#include "grammar/dfa.h"

#include <string.h>

#include "core/check.h"
#include "core/mix.h"

struct set {
    uint32_t *states; /* ascending; in the scratch */
    uint32_t n;
    uint64_t hash;
};

/* One subset construction. */
struct subsets {
    struct lf_compilation *c;
    const struct lf_nfa *nfa;
    struct set *sets;
    size_t n, cap;
    uint32_t *table; /* index + 1 of a set, by hash */
    size_t table_len;
    uint32_t *todo, *seen; /* [NFA states]: a stack; the round a state was seen in */
    uint32_t *found;       /* [NFA states]: the set being made */
    uint32_t n_found, round;
    bool accepts; /* the set being made */
};

static void classes_of_edges(const struct lf_nfa *nfa, struct lf_dfa *dfa)
{
    bool begins[257] = {true};
    for (size_t i = 0; i < nfa->n_edges; i++) {
        const struct lf_nfa_edge *e = &nfa->edges[i];
        if (e->kind != LF_NFA_BYTES) continue;
        begins[e->low] = true;
        begins[e->high + 1] = true;
    }
    uint32_t cls = 0;
    for (uint32_t b = 0; b < 256; b++) {
        if (b && begins[b]) cls++;
        dfa->class_of[b] = (uint8_t)cls;
    }
    dfa->n_classes = cls + 1;
}

static void see(struct subsets *s, uint32_t state, uint32_t *n_todo)
{
    if (s->seen[state] == s->round) return;
    s->seen[state] = s->round;
    s->todo[(*n_todo)++] = state;
}

/* The states in todo with all that empty edges reach, into found. */
static void close_over(struct subsets *s, uint32_t n_todo, bool at_begin)
{
    const struct lf_nfa *nfa = s->nfa;
    uint64_t n_steps = 0;
    s->n_found = 0;
    while (n_todo) {
        uint32_t state = s->todo[--n_todo];
        bool says_something = state == nfa->accept;
        for (uint32_t e = nfa->first[state]; e != LF_NFA_NONE; e = nfa->edges[e].next) {
            const struct lf_nfa_edge *edge = &nfa->edges[e];
            if (edge->kind == LF_NFA_EMPTY || (edge->kind == LF_NFA_AT_BEGIN && at_begin)) see(s, edge->to, &n_todo);
            says_something |= edge->kind == LF_NFA_BYTES || edge->kind == LF_NFA_AT_END;
            n_steps++;
        }
        if (says_something) s->found[s->n_found++] = state;
    }
    lf_compilation_step(s->c, n_steps);
}

/* Whether the end of the text may follow the set in found. */
static bool found_accepts(struct subsets *s, bool at_begin)
{
    const struct lf_nfa *nfa = s->nfa;
    uint32_t n_todo = 0;
    s->round++;
    for (uint32_t i = 0; i < s->n_found; i++) see(s, s->found[i], &n_todo);
    while (n_todo) {
        uint32_t state = s->todo[--n_todo];
        if (state == nfa->accept) return true;
        for (uint32_t e = nfa->first[state]; e != LF_NFA_NONE; e = nfa->edges[e].next) {
            enum lf_nfa_kind kind = nfa->edges[e].kind;
            if (kind == LF_NFA_EMPTY || kind == LF_NFA_AT_END || (kind == LF_NFA_AT_BEGIN && at_begin))
                see(s, nfa->edges[e].to, &n_todo);
        }
    }
    return false;
}

static void sort_u32(uint32_t *list, uint32_t n)
{
    for (uint32_t gap = n / 2; gap; gap /= 2) /* Shell's: the sets are short, and nearly sorted */
        for (uint32_t i = gap; i < n; i++)
            for (uint32_t k = i; k >= gap && list[k - gap] > list[k]; k -= gap) {
                uint32_t x = list[k];
                list[k] = list[k - gap];
                list[k - gap] = x;
            }
}

static uint64_t hash_u32(const uint32_t *list, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++) h = lf_mix64(h ^ list[i]);
    return h;
}

static bool enlarge_table(struct subsets *s)
{
    size_t len = s->table_len ? s->table_len * 2 : 64;
    uint32_t *table = lf_compilation_scratch(s->c, len, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < s->n; i++) {
        size_t at = s->sets[i].hash & (len - 1);
        while (table[at]) at = (at + 1) & (len - 1);
        table[at] = (uint32_t)i + 1;
    }
    s->table = table;
    s->table_len = len;
    return true;
}

/* The index of the set in found, new or not; LF_DFA_DEAD on failure. first: the start set, which is like no other. */
static uint32_t intern(struct subsets *s, bool first)
{
    sort_u32(s->found, s->n_found);
    uint64_t hash = hash_u32(s->found, s->n_found);
    if (2 * (s->n + 1) > s->table_len && !enlarge_table(s)) return LF_DFA_DEAD;
    size_t at = hash & (s->table_len - 1);
    for (; s->table[at]; at = (at + 1) & (s->table_len - 1)) {
        const struct set *old = &s->sets[s->table[at] - 1];
        if (old != s->sets && old->hash == hash && old->n == s->n_found &&
            memcmp(old->states, s->found, s->n_found * sizeof *s->found) == 0)
            return s->table[at] - 1;
    }
    if (s->n >= LF_GRAMMAR_STATES_N)
        lf_compilation_fail(s->c, LF_LIMIT, "a pattern or a number of characters needs more than %d states",
                            LF_GRAMMAR_STATES_N);
    struct set *sets = lf_compilation_grow(s->c, s->sets, s->n, &s->cap, sizeof *sets);
    uint32_t *states = lf_compilation_scratch(s->c, s->n_found, sizeof *states);
    if (!sets || !states) return LF_DFA_DEAD;
    memcpy(states, s->found, s->n_found * sizeof *states);
    s->sets = sets;
    sets[s->n] = (struct set){.states = states, .n = s->n_found, .hash = first ? ~hash : hash};
    s->table[at] = (uint32_t)s->n + 1;
    return (uint32_t)s->n++;
}

/* The set that a byte leads to from set i, into found; false: nowhere. */
static bool follow(struct subsets *s, uint32_t i, uint8_t byte)
{
    const struct lf_nfa *nfa = s->nfa;
    uint32_t n_todo = 0;
    uint64_t n_steps = 0;
    s->round++;
    for (uint32_t k = 0; k < s->sets[i].n; k++)
        for (uint32_t e = nfa->first[s->sets[i].states[k]]; e != LF_NFA_NONE; e = nfa->edges[e].next) {
            const struct lf_nfa_edge *edge = &nfa->edges[e];
            n_steps++;
            if (edge->kind == LF_NFA_BYTES && byte >= edge->low && byte <= edge->high) see(s, edge->to, &n_todo);
        }
    lf_compilation_step(s->c, n_steps);
    if (!n_todo) return false;
    close_over(s, n_todo, false);
    return s->n_found > 0;
}

/* Only states that can be reached and from which an accepting one can. Transitions into the others are dead. */
static struct lf_dfa trim(struct lf_compilation *c, const struct lf_dfa *dfa)
{
    struct lf_dfa out = *dfa;
    size_t n = dfa->n_states, k = dfa->n_classes, n_live = 0;
    uint8_t *live = lf_compilation_scratch(c, n, 1);
    uint16_t *number = lf_compilation_scratch(c, n, sizeof *number);
    out.n_states = 0;
    if (!live || !number) return out;
    memcpy(live, dfa->accept, n);
    for (bool more = true; more && lf_compilation_step(c, n * k / 4);) {
        more = false;
        for (size_t s = n; s-- > 0;) /* states are numbered outwards, so one pass settles most of them */
            for (size_t i = 0; i < k && !live[s]; i++) {
                uint16_t to = dfa->next[s * k + i];
                if (to != LF_DFA_DEAD && live[to]) live[s] = more = true;
            }
    }
    if (!lf_compilation_ok(c) || n == 0 || !live[0]) return out;
    for (size_t s = 0; s < n; s++) {
        number[s] = (uint16_t)n_live;
        n_live += live[s];
    }
    out.next = lf_compilation_scratch(c, n_live * k, sizeof *out.next);
    out.accept = lf_compilation_scratch(c, n_live, 1);
    if (!out.next || !out.accept) return out;
    for (size_t s = 0; s < n; s++) {
        if (!live[s]) continue;
        out.accept[number[s]] = dfa->accept[s];
        for (size_t i = 0; i < k; i++) {
            uint16_t to = dfa->next[s * k + i];
            out.next[number[s] * k + i] = to != LF_DFA_DEAD && live[to] ? number[to] : (uint16_t)LF_DFA_DEAD;
        }
    }
    out.n_states = (uint32_t)n_live;
    return out;
}

/* Room for the transitions of one state more, all dead. */
static bool add_state(struct lf_compilation *c, struct lf_dfa *dfa, size_t *next_cap, size_t *accept_cap)
{
    size_t n = dfa->n_states, k = dfa->n_classes;
    uint16_t *next = lf_compilation_grow(c, dfa->next, n, next_cap, k * sizeof *next);
    uint8_t *accept = lf_compilation_grow(c, dfa->accept, n, accept_cap, 1);
    if (!next || !accept || !lf_compilation_step(c, k)) return false;
    dfa->next = next;
    dfa->accept = accept;
    memset(next + n * k, 0xff, k * sizeof *next);
    accept[n] = 0;
    dfa->n_states++;
    return true;
}

/* The first byte of each class. */
static void first_bytes(const struct lf_dfa *dfa, uint8_t first[256])
{
    for (uint32_t b = 256; b-- > 0;) first[dfa->class_of[b]] = (uint8_t)b;
}

struct lf_dfa lf_dfa_of(struct lf_compilation *c, const struct lf_nfa *nfa)
{
    struct lf_dfa dfa = {0};
    size_t next_cap = 0, accept_cap = 0;
    struct subsets s = {.c = c, .nfa = nfa};
    uint8_t first[256];
    s.todo = lf_compilation_scratch(c, nfa->n_states, sizeof *s.todo);
    s.seen = lf_compilation_scratch(c, nfa->n_states, sizeof *s.seen);
    s.found = lf_compilation_scratch(c, nfa->n_states, sizeof *s.found);
    if (!s.todo || !s.seen || !s.found) return dfa;
    classes_of_edges(nfa, &dfa);
    first_bytes(&dfa, first);
    uint32_t n_todo = 0;
    s.round++;
    see(&s, nfa->start, &n_todo);
    close_over(&s, n_todo, true);
    if (intern(&s, true) != 0 || !add_state(c, &dfa, &next_cap, &accept_cap)) return (struct lf_dfa){0};
    dfa.accept[0] = found_accepts(&s, true);
    for (uint32_t i = 0; i < dfa.n_states && lf_compilation_ok(c); i++)
        for (uint32_t cls = 0; cls < dfa.n_classes && lf_compilation_ok(c); cls++) {
            if (!follow(&s, i, first[cls])) continue;
            uint32_t to = intern(&s, false);
            if (to == dfa.n_states && add_state(c, &dfa, &next_cap, &accept_cap))
                dfa.accept[to] = found_accepts(&s, false);
            dfa.next[(size_t)i * dfa.n_classes + cls] = (uint16_t)to;
        }
    if (!lf_compilation_ok(c)) return (struct lf_dfa){0};
    return trim(c, &dfa);
}

/* Pairs of states under construction; LF_DFA_DEAD stands for "left this one". */
struct pairs {
    uint32_t *list; /* a << 16 | b */
    size_t n, cap;
    uint32_t *table;
    size_t table_len;
};

static uint32_t pair_number(struct lf_compilation *c, struct pairs *p, uint32_t pair)
{
    if (2 * (p->n + 1) > p->table_len) {
        size_t len = p->table_len ? 2 * p->table_len : 64;
        uint32_t *table = lf_compilation_scratch(c, len, sizeof *table);
        if (!table) return LF_DFA_DEAD;
        for (size_t i = 0; i < p->n; i++) {
            size_t to = lf_mix64(p->list[i]) & (len - 1);
            while (table[to]) to = (to + 1) & (len - 1);
            table[to] = (uint32_t)i + 1;
        }
        p->table = table;
        p->table_len = len;
    }
    size_t at = lf_mix64(pair) & (p->table_len - 1);
    for (; p->table[at]; at = (at + 1) & (p->table_len - 1))
        if (p->list[p->table[at] - 1] == pair) return p->table[at] - 1;
    if (p->n >= LF_GRAMMAR_STATES_N)
        lf_compilation_fail(c, LF_LIMIT, "patterns that must hold together need more than %d states",
                            LF_GRAMMAR_STATES_N);
    uint32_t *list = lf_compilation_grow(c, p->list, p->n, &p->cap, sizeof *list);
    if (!list) return LF_DFA_DEAD;
    p->list = list;
    list[p->n] = pair;
    p->table[at] = (uint32_t)p->n + 1;
    return (uint32_t)p->n++;
}

static bool holds(enum lf_dfa_op op, bool a, bool b)
{
    return op == LF_DFA_AND ? a && b : op == LF_DFA_OR ? a || b : a && !b;
}

static uint32_t next_or_dead(const struct lf_dfa *dfa, uint32_t state, uint8_t byte)
{
    return state == LF_DFA_DEAD ? (uint32_t)LF_DFA_DEAD : lf_dfa_next(dfa, state, byte);
}

/* Classes that neither a nor b tells apart. */
static void common_classes(const struct lf_dfa *a, const struct lf_dfa *b, struct lf_dfa *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t k = 0;
        while (k < i && (a->class_of[k] != a->class_of[i] || b->class_of[k] != b->class_of[i])) k++;
        out->class_of[i] = k < i ? out->class_of[k] : (uint8_t)n++;
    }
    out->n_classes = n;
}

struct lf_dfa lf_dfa_combine(struct lf_compilation *c, const struct lf_dfa *a, const struct lf_dfa *b,
                             enum lf_dfa_op op)
{
    struct lf_dfa dfa = {0};
    struct pairs pairs = {0};
    size_t next_cap = 0, accept_cap = 0;
    uint8_t first[256];
    if (!lf_compilation_ok(c)) return dfa;
    common_classes(a, b, &dfa);
    first_bytes(&dfa, first);
    pair_number(c, &pairs, (a->n_states ? 0u : LF_DFA_DEAD) << 16 | (b->n_states ? 0u : LF_DFA_DEAD));
    for (uint32_t i = 0; i < pairs.n && lf_compilation_ok(c); i++) {
        uint32_t sa = pairs.list[i] >> 16, sb = pairs.list[i] & 0xffff;
        if (!add_state(c, &dfa, &next_cap, &accept_cap)) break;
        dfa.accept[i] = holds(op, sa != LF_DFA_DEAD && a->accept[sa], sb != LF_DFA_DEAD && b->accept[sb]);
        for (uint32_t cls = 0; cls < dfa.n_classes; cls++) {
            uint32_t ta = next_or_dead(a, sa, first[cls]), tb = next_or_dead(b, sb, first[cls]);
            if (!holds(op, ta != LF_DFA_DEAD, op == LF_DFA_MINUS ? false : tb != LF_DFA_DEAD)) continue;
            dfa.next[(size_t)i * dfa.n_classes + cls] = (uint16_t)pair_number(c, &pairs, ta << 16 | tb);
        }
    }
    if (!lf_compilation_ok(c)) return (struct lf_dfa){0};
    return trim(c, &dfa);
}

/* Hopcroft's partition of the states, with one more state for "dead": blocks are ranges of `order`. A block is split by
 * where its members lead under one class of bytes; of the two halves the smaller one is looked at again. */
struct partition {
    uint32_t *order, *place; /* [n + 1] states by block; where a state is in it */
    uint32_t *block;         /* [n + 1] of a state */
    uint32_t *first, *end;   /* [n + 1] of a block, in order */
    uint32_t *n_marked;      /* [n + 1] members of a block that are at its front for the split under way */
    uint32_t *touched;       /* [n + 1] blocks with marked members */
    uint32_t *todo;          /* [n + 1] blocks to split by */
    uint8_t *is_todo;
    uint32_t *members; /* [n + 1] copy of the block that is split by */
    uint32_t n_blocks, n_touched, n_todo;
};

/* Who leads to a state under a class: sources[from[class × (n + 2) + state]] up to that of state + 1. */
struct reverse {
    uint32_t *from, *sources;
};

static uint32_t target(const struct lf_dfa *dfa, uint32_t state, uint32_t cls)
{
    uint32_t n = dfa->n_states;
    uint32_t to = state == n ? (uint32_t)LF_DFA_DEAD : dfa->next[(size_t)state * dfa->n_classes + cls];
    return to == LF_DFA_DEAD ? n : to;
}

static bool reverse_of(struct lf_compilation *c, const struct lf_dfa *dfa, struct reverse *r)
{
    uint32_t n = dfa->n_states + 1, k = dfa->n_classes;
    r->from = lf_compilation_scratch(c, (size_t)(n + 1) * k, sizeof *r->from);
    r->sources = lf_compilation_scratch(c, (size_t)n * k, sizeof *r->sources);
    if (!r->from || !r->sources || !lf_compilation_step(c, (size_t)n * k / 2)) return false;
    for (uint32_t cls = 0, base = 0; cls < k; cls++, base += n) {
        uint32_t *from = r->from + (size_t)cls * (n + 1);
        for (uint32_t s = 0; s < n; s++) from[target(dfa, s, cls) + 1]++;
        from[0] = base;
        for (uint32_t s = 0; s < n; s++) from[s + 1] += from[s];
        for (uint32_t s = n; s-- > 0;) r->sources[--from[target(dfa, s, cls) + 1]] = s;
        for (uint32_t s = 0; s < n; s++) from[s] = from[s + 1]; /* the countdown left each at its beginning */
        from[n] = base + n;
    }
    return true;
}

static void add_todo(struct partition *p, uint32_t block)
{
    if (p->is_todo[block]) return;
    p->is_todo[block] = 1;
    p->todo[p->n_todo++] = block;
}

/* To the front of its block. */
static void mark(struct partition *p, uint32_t state)
{
    uint32_t b = p->block[state], at = p->place[state], to = p->first[b] + p->n_marked[b];
    if (at < to) return;
    if (p->n_marked[b]++ == 0) p->touched[p->n_touched++] = b;
    uint32_t other = p->order[to];
    p->order[to] = state, p->order[at] = other;
    p->place[state] = to, p->place[other] = at;
}

/* The marked members of each touched block become a block of their own, where there are others. */
static void split_touched(struct partition *p)
{
    while (p->n_touched) {
        uint32_t b = p->touched[--p->n_touched], n = p->n_marked[b], size = p->end[b] - p->first[b];
        p->n_marked[b] = 0;
        if (n == size) continue;
        uint32_t fresh = p->n_blocks++;
        p->first[fresh] = p->first[b];
        p->end[fresh] = p->first[b] = p->first[b] + n;
        for (uint32_t i = p->first[fresh]; i < p->end[fresh]; i++) p->block[p->order[i]] = fresh;
        add_todo(p, p->is_todo[b] || n <= size - n ? fresh : b);
    }
}

static bool begin_partition(struct lf_compilation *c, const struct lf_dfa *dfa, struct partition *p)
{
    uint32_t n = dfa->n_states + 1;
    uint32_t **lists[] = {&p->order,    &p->place,   &p->block, &p->first,  &p->end,
                          &p->n_marked, &p->touched, &p->todo,  &p->members};
    for (size_t i = 0; i < LF_N_ELEMS(lists); i++)
        if (!(*lists[i] = lf_compilation_scratch(c, n, sizeof **lists[i]))) return false;
    p->is_todo = lf_compilation_scratch(c, n, 1);
    if (!p->is_todo) return false;
    for (uint32_t s = 0; s < n; s++) p->order[s] = p->place[s] = s;
    p->n_blocks = 1;
    p->end[0] = n;
    add_todo(p, 0);
    for (uint32_t s = 0; s < n - 1; s++)
        if (dfa->accept[s]) mark(p, s);
    split_touched(p);
    return true;
}

static void split_all(struct lf_compilation *c, const struct lf_dfa *dfa, const struct reverse *r, struct partition *p)
{
    uint32_t n = dfa->n_states + 1;
    while (p->n_todo && lf_compilation_ok(c)) {
        uint32_t b = p->todo[--p->n_todo], size = p->end[b] - p->first[b];
        uint64_t n_steps = 0;
        p->is_todo[b] = 0;
        memcpy(p->members, p->order + p->first[b], size * sizeof *p->members);
        for (uint32_t cls = 0; cls < dfa->n_classes; cls++) {
            const uint32_t *from = r->from + (size_t)cls * (n + 1);
            for (uint32_t i = 0; i < size; i++)
                for (uint32_t k = from[p->members[i]]; k < from[p->members[i] + 1]; k++, n_steps++)
                    mark(p, r->sources[k]);
            split_touched(p);
        }
        lf_compilation_step(c, n_steps + size);
    }
}

/* One state for each block but that of "dead", in the order of their first members. */
static struct lf_dfa of_blocks(struct lf_compilation *c, const struct lf_dfa *dfa, const struct partition *p)
{
    struct lf_dfa out = *dfa;
    size_t k = dfa->n_classes;
    uint32_t n = 0, *number = p->n_marked; /* of a block, + 1 */
    out.next = lf_compilation_scratch(c, (p->n_blocks - 1) * k, sizeof *out.next);
    out.accept = lf_compilation_scratch(c, p->n_blocks - 1, 1);
    if (!out.next || !out.accept) return (struct lf_dfa){0};
    for (uint32_t s = 0; s < dfa->n_states; s++)
        if (number[p->block[s]] == 0) number[p->block[s]] = ++n;
    for (uint32_t s = 0; s < dfa->n_states; s++) {
        uint32_t to = number[p->block[s]] - 1;
        out.accept[to] = dfa->accept[s];
        for (size_t i = 0; i < k; i++) {
            uint16_t next = dfa->next[s * k + i];
            out.next[to * k + i] = next == LF_DFA_DEAD ? next : (uint16_t)(number[p->block[next]] - 1);
        }
    }
    out.n_states = n;
    return out;
}

struct lf_dfa lf_dfa_minimize(struct lf_compilation *c, const struct lf_dfa *dfa)
{
    struct partition p = {0};
    struct reverse r = {0};
    if (dfa->n_states == 0 || !reverse_of(c, dfa, &r) || !begin_partition(c, dfa, &p)) return *dfa;
    split_all(c, dfa, &r, &p);
    return lf_compilation_ok(c) ? of_blocks(c, dfa, &p) : (struct lf_dfa){0};
}

struct lf_dfa lf_dfa_keep(struct lf_compilation *c, const struct lf_dfa *dfa)
{
    struct lf_dfa out = *dfa;
    size_t n = dfa->n_states, k = dfa->n_classes;
    out.next = lf_compilation_keep(c, n * k, sizeof *out.next);
    out.accept = lf_compilation_keep(c, n, 1);
    if (!out.next || !out.accept) return (struct lf_dfa){0};
    if (n) memcpy(out.next, dfa->next, n * k * sizeof *out.next);
    if (n) memcpy(out.accept, dfa->accept, n);
    return out;
}

bool lf_dfa_accepts(const struct lf_dfa *dfa, struct lf_str text)
{
    uint32_t state = 0;
    if (dfa->n_states == 0) return false;
    for (size_t i = 0; i < text.len; i++) {
        state = lf_dfa_next(dfa, state, (uint8_t)text.ptr[i]);
        if (state == LF_DFA_DEAD) return false;
    }
    return dfa->accept[state];
}
