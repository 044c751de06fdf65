#include "grammar/counting.h"

#include <string.h>

#include "core/check.h"

/* A search backwards. A list of states, and who leads to them by bytes that end no character is added behind them. */
struct search {
    struct lf_compilation *c;
    const struct lf_dfa *dfa;
    const uint8_t *between;
    uint32_t *first, *from; /* from[first[state]] to from[first[state + 1]] - 1: who leads to it, each once */
    uint8_t *is_in;         /* [state]: in the list, or it was */
    uint32_t *list, n;
};

/* Who leads to whom: first how many, then who. */
static bool find_edges(struct search *s)
{
    uint32_t n = s->dfa->n_states, k = s->dfa->n_classes;
    uint32_t *seen = lf_compilation_scratch(s->c, n, sizeof *seen);
    s->first = lf_compilation_scratch(s->c, (size_t)n + 2, sizeof *s->first);
    if (!seen || !s->first || !lf_compilation_step(s->c, (uint64_t)n * k / 2)) return false;
    for (int fills = 0; fills < 2; fills++) {
        memset(seen, 0, n * sizeof *seen);
        for (uint32_t q = 0; q < n; q++)
            for (uint32_t cls = 0; cls < k; cls++) {
                uint32_t to = s->dfa->next[(size_t)q * k + cls];
                if (to == LF_DFA_DEAD || seen[to] == q + 1) continue;
                seen[to] = q + 1;
                if (fills)
                    s->from[s->first[to + 1]++] = q;
                else
                    s->first[to + 2]++;
            }
        if (fills) break;
        for (uint32_t q = 0; q <= n; q++) s->first[q + 1] += s->first[q];
        s->from = lf_compilation_scratch(s->c, s->first[n + 1], sizeof *s->from);
        if (!s->from) return false;
    }
    return true;
}

static void take(struct search *s, uint32_t state)
{
    if (s->is_in[state]) return;
    s->is_in[state] = 1;
    s->list[s->n++] = state;
}

/* Those from `begin` on, with all that lead to them within a character, or from before the quote. */
static void spread(struct search *s, uint32_t begin)
{
    uint64_t n_steps = 0;
    for (uint32_t i = begin; i < s->n; i++) {
        uint32_t q = s->list[i];
        n_steps += 1 + s->first[q + 1] - s->first[q];
        for (uint32_t e = s->first[q]; e < s->first[q + 1]; e++)
            if (!s->between[q] || s->from[e] == 0) take(s, s->from[e]);
    }
    lf_compilation_step(s->c, n_steps / 2 + 1);
}

/* Takes who leads to this state by the last byte of a character. */
static void take_a_character_before(struct search *s, uint32_t state)
{
    for (uint32_t e = s->first[state]; s->between[state] && e < s->first[state + 1]; e++)
        if (s->from[e] != 0) take(s, s->from[e]);
}

/* Breadth first from the ends. */
static void find_nearest(struct search *s, struct lf_counting *k)
{
    uint32_t begin = 0;
    for (uint32_t q = 0; q < s->dfa->n_states; q++)
        if (s->dfa->accept[q]) take(s, q);
    for (uint32_t n_characters = 0; begin < s->n && lf_compilation_ok(s->c); n_characters++) {
        spread(s, begin);
        uint32_t end = s->n;
        for (uint32_t i = begin; i < end; i++) k->nearest[s->list[i]] = k->farthest = n_characters;
        for (; begin < end; begin++) take_a_character_before(s, s->list[begin]);
    }
}

/* Rows until one is as one before it. It is compared with the last one whose number is a power of two (Brent 1980). */
static void find_short_of(struct search *s, struct lf_counting *k)
{
    uint32_t n = s->dfa->n_states, n_old = 0, *rows = NULL, *old = lf_compilation_scratch(s->c, n, sizeof *old);
    uint32_t *row = lf_compilation_scratch(s->c, k->n_words, sizeof *row);
    size_t cap = 0, row_bytes = k->n_words * sizeof *row;
    if (!old || !row) return;
    for (uint32_t q = 0; q < n; q++)
        if (k->nearest[q] <= k->max - k->min) old[n_old++] = q;
    while (k->n_rows < k->min && lf_compilation_ok(s->c)) {
        memset(s->is_in, 0, n);
        s->n = 0;
        for (uint32_t i = 0; i < n_old; i++) take_a_character_before(s, old[i]);
        spread(s, 0);
        n_old = s->n;
        memcpy(old, s->list, n_old * sizeof *old);
        memset(row, 0, row_bytes);
        for (uint32_t i = 0; i < n_old; i++) row[old[i] / 32] |= 1u << old[i] % 32;
        if (k->n_rows && memcmp(rows + (size_t)k->loop * k->n_words, row, row_bytes) == 0) break;
        rows = lf_compilation_grow(s->c, rows, k->n_rows, &cap, row_bytes);
        if (!rows || !lf_compilation_step(s->c, k->n_words)) return;
        memcpy(rows + (size_t)k->n_rows * k->n_words, row, row_bytes);
        if ((k->n_rows & (k->n_rows + 1)) == 0) k->loop = k->n_rows;
        k->n_rows++;
    }
    k->short_of = lf_compilation_keep(s->c, k->n_rows, row_bytes);
    if (k->short_of && k->n_rows) memcpy(k->short_of, rows, k->n_rows * row_bytes);
}

struct lf_counting lf_counting_of(struct lf_compilation *c, const struct lf_dfa *dfa, uint8_t *between, uint32_t min,
                                  uint32_t max)
{
    uint32_t n = dfa->n_states, most = max == LF_COUNTING_UNBOUNDED ? min : max;
    struct lf_counting k = {.min = min, .max = max, .between = between, .n_words = (n + 31) / 32};
    struct search s = {.c = c, .dfa = dfa, .between = between};
    LF_ASSERT(min <= max);
    if (((uint64_t)most + 1) * n >= UINT32_MAX)
        lf_compilation_fail(c, LF_LIMIT, "a length of %u characters beside a pattern of %u states is too large", most,
                            n);
    s.is_in = lf_compilation_scratch(c, n, 1);
    s.list = lf_compilation_scratch(c, n, sizeof *s.list);
    k.nearest = lf_compilation_keep(c, n, sizeof *k.nearest);
    if (!s.is_in || !s.list || !k.nearest || !find_edges(&s)) return k;
    find_nearest(&s, &k);
    find_short_of(&s, &k);
    return k;
}
