#include "grammar/nfa.h"

#include "core/check.h"

void lf_nfa_init(struct lf_nfa *nfa, struct lf_compilation *c)
{
    *nfa = (struct lf_nfa){.c = c};
    nfa->start = lf_nfa_state(nfa);
    nfa->accept = lf_nfa_state(nfa);
}

uint32_t lf_nfa_state(struct lf_nfa *nfa)
{
    uint32_t *first = lf_compilation_grow(nfa->c, nfa->first, nfa->n_states, &nfa->states_cap, sizeof *nfa->first);
    if (!first || !lf_compilation_step(nfa->c, 1)) return 0;
    nfa->first = first;
    first[nfa->n_states] = LF_NFA_NONE;
    return (uint32_t)nfa->n_states++;
}

static void add(struct lf_nfa *nfa, uint32_t from, struct lf_nfa_edge edge)
{
    struct lf_nfa_edge *edges =
        lf_compilation_grow(nfa->c, nfa->edges, nfa->n_edges, &nfa->edges_cap, sizeof *nfa->edges);
    if (!edges || !lf_compilation_step(nfa->c, 1)) return;
    nfa->edges = edges;
    edge.next = nfa->first[from];
    edges[nfa->n_edges] = edge;
    nfa->first[from] = (uint32_t)nfa->n_edges++;
}

void lf_nfa_edge(struct lf_nfa *nfa, uint32_t from, uint32_t to, enum lf_nfa_kind kind)
{
    add(nfa, from, (struct lf_nfa_edge){.to = to, .kind = (uint8_t)kind});
}

void lf_nfa_bytes(struct lf_nfa *nfa, uint32_t from, uint32_t to, uint8_t low, uint8_t high)
{
    add(nfa, from, (struct lf_nfa_edge){.to = to, .kind = LF_NFA_BYTES, .low = low, .high = high});
}

/* Both ends have n bytes, and between them every code point of n bytes lies. Where the ends share all bytes but the
 * last, or the bytes behind the first go from lowest to highest, it is one sequence of ranges; else the range is cut
 * where a byte behind the first changes. */
static void sequences(struct lf_nfa *nfa, uint32_t from, uint32_t to, uint32_t low, uint32_t high, int n)
{
    for (int i = 1; i < n; i++) {
        uint32_t below = (1u << (6 * i)) - 1; /* the code point's bits in the last i bytes */
        if ((low & ~below) == (high & ~below)) break;
        if ((low & below) != 0) {
            sequences(nfa, from, to, low, low | below, n);
            sequences(nfa, from, to, (low | below) + 1, high, n);
            return;
        }
        if ((high & below) != below) {
            sequences(nfa, from, to, low, (high & ~below) - 1, n);
            sequences(nfa, from, to, high & ~below, high, n);
            return;
        }
    }
    char a[4], b[4];
    int len = lf_utf8_encode(low, a);
    lf_utf8_encode(high, b);
    for (int i = 0; i < len; i++) {
        uint32_t next = i + 1 == len ? to : lf_nfa_state(nfa);
        lf_nfa_bytes(nfa, from, next, (uint8_t)a[i], (uint8_t)b[i]);
        from = next;
    }
}

void lf_nfa_code_points(struct lf_nfa *nfa, uint32_t from, uint32_t to, uint32_t low, uint32_t high)
{
    /* Within each of these all code points are valid and have the same number of bytes. */
    static const struct {
        uint32_t low, high;
        int n;
    } parts[] = {{0, 0x7f, 1}, {0x80, 0x7ff, 2}, {0x800, 0xd7ff, 3}, {0xe000, 0xffff, 3}, {0x10000, 0x10ffff, 4}};
    for (size_t i = 0; i < LF_N_ELEMS(parts) && lf_compilation_ok(nfa->c); i++) {
        uint32_t first = LF_MAX(low, parts[i].low), last = LF_MIN(high, parts[i].high);
        if (first <= last) sequences(nfa, from, to, first, last, parts[i].n);
    }
}

uint32_t lf_nfa_text(struct lf_nfa *nfa, uint32_t from, struct lf_str text)
{
    for (size_t i = 0; i < text.len && lf_compilation_ok(nfa->c); i++) {
        uint32_t to = lf_nfa_state(nfa);
        lf_nfa_bytes(nfa, from, to, (uint8_t)text.ptr[i], (uint8_t)text.ptr[i]);
        from = to;
    }
    return from;
}
