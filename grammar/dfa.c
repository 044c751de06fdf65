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

/* One round of Moore's refinement: states stay together whose successors do. Returns the number of groups. */
static uint32_t refine(struct lf_compilation *c, const struct lf_dfa *dfa, const uint16_t *group, uint16_t *finer,
                       uint32_t *table, size_t table_len)
{
    uint32_t n = 0;
    size_t k = dfa->n_classes;
    memset(table, 0, table_len * sizeof *table);
    for (uint32_t s = 0; s < dfa->n_states && lf_compilation_step(c, k); s++) {
        const uint16_t *row = dfa->next + s * k;
        uint64_t h = group[s];
        for (size_t i = 0; i < k; i++) h = lf_mix64(h ^ (row[i] == LF_DFA_DEAD ? LF_DFA_DEAD : group[row[i]]));
        size_t at = h & (table_len - 1);
        for (; table[at]; at = (at + 1) & (table_len - 1)) {
            uint32_t other = table[at] - 1;
            const uint16_t *their = dfa->next + other * k;
            size_t i = 0;
            while (i < k && (row[i] == LF_DFA_DEAD ? their[i] == LF_DFA_DEAD
                                                   : their[i] != LF_DFA_DEAD && group[row[i]] == group[their[i]]))
                i++;
            if (i == k && group[other] == group[s]) break;
        }
        finer[s] = table[at] ? finer[table[at] - 1] : (uint16_t)n++;
        if (!table[at]) table[at] = s + 1;
    }
    return n;
}

struct lf_dfa lf_dfa_minimize(struct lf_compilation *c, const struct lf_dfa *dfa)
{
    struct lf_dfa out = *dfa;
    size_t n = dfa->n_states, k = dfa->n_classes, table_len = 64;
    while (table_len < 2 * n) table_len *= 2;
    uint16_t *group = lf_compilation_scratch(c, n, sizeof *group);
    uint16_t *finer = lf_compilation_scratch(c, n, sizeof *finer);
    uint32_t *table = lf_compilation_scratch(c, table_len, sizeof *table);
    if (!group || !finer || !table || n == 0) return out;
    uint32_t n_groups = 0, n_before;
    for (size_t s = 0; s < n; s++) group[s] = dfa->accept[s];
    do {
        n_before = n_groups;
        n_groups = refine(c, dfa, group, finer, table, table_len);
        uint16_t *swap = group;
        group = finer;
        finer = swap;
    } while (n_groups != n_before && lf_compilation_ok(c));
    out.next = lf_compilation_scratch(c, n_groups * k, sizeof *out.next);
    out.accept = lf_compilation_scratch(c, n_groups, 1);
    if (!out.next || !out.accept) return (struct lf_dfa){0};
    for (size_t s = 0; s < n; s++) {
        out.accept[group[s]] = dfa->accept[s];
        for (size_t i = 0; i < k; i++) {
            uint16_t to = dfa->next[s * k + i];
            out.next[group[s] * k + i] = to == LF_DFA_DEAD ? to : group[to];
        }
    }
    out.n_states = n_groups;
    return out;
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
