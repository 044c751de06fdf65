#include "grammar/free_text.h"

#include <string.h>

#include "core/check.h"

/* The automaton of the markers, over classes of bytes: those that are in no marker share class 0. */
struct finder {
    struct lf_dfa dfa;
    uint32_t *fallback; /* [state]: that of its longest suffix that begins a marker */
    uint8_t *hit;       /* [state]: a marker ends here */
};

static void classes_of_markers(const struct lf_str *markers, size_t n, struct lf_dfa *dfa)
{
    dfa->n_classes = 1;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < markers[i].len; k++) {
            uint8_t byte = (uint8_t)markers[i].ptr[k];
            if (dfa->class_of[byte] == 0) dfa->class_of[byte] = (uint8_t)dfa->n_classes++;
        }
}

static bool take_memory(struct lf_compilation *c, const struct lf_str *markers, size_t n, struct finder *f)
{
    size_t most = 1;
    for (size_t i = 0; i < n; i++) most += markers[i].len;
    if (most > LF_GRAMMAR_STATES_N) {
        lf_compilation_fail(c, LF_LIMIT, "markers in free text need more than %d states", LF_GRAMMAR_STATES_N);
        return false;
    }
    f->dfa.next = lf_compilation_scratch(c, most * f->dfa.n_classes, sizeof *f->dfa.next);
    f->dfa.accept = lf_compilation_scratch(c, most, 1);
    f->fallback = lf_compilation_scratch(c, most, sizeof *f->fallback);
    f->hit = lf_compilation_scratch(c, most, 1);
    if (!f->dfa.next || !f->dfa.accept || !f->fallback || !f->hit) return false;
    memset(f->dfa.next, 0xff, most * f->dfa.n_classes * sizeof *f->dfa.next);
    f->dfa.n_states = 1;
    return true;
}

/* The trie of the markers. */
static void add_markers(const struct lf_str *markers, size_t n, struct finder *f)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t at = 0;
        for (size_t k = 0; k < markers[i].len; k++) {
            size_t edge = (size_t)at * f->dfa.n_classes + f->dfa.class_of[(uint8_t)markers[i].ptr[k]];
            if (f->dfa.next[edge] == LF_DFA_DEAD) f->dfa.next[edge] = (uint16_t)f->dfa.n_states++;
            at = f->dfa.next[edge];
        }
        f->hit[at] = 1;
    }
}

/* Breadth first: a state's fallback is nearer to the root, so its transitions are all there already. */
static void add_fallbacks(struct lf_compilation *c, struct finder *f)
{
    size_t k = f->dfa.n_classes;
    uint32_t *queue = lf_compilation_scratch(c, f->dfa.n_states, sizeof *queue), n = 1;
    if (!queue) return;
    for (uint32_t i = 0; i < n && lf_compilation_step(c, k); i++) {
        uint32_t s = queue[i];
        for (size_t cls = 0; cls < k; cls++) {
            uint16_t *to = &f->dfa.next[s * k + cls];
            uint32_t back = s ? f->dfa.next[f->fallback[s] * k + cls] : 0;
            if (*to == LF_DFA_DEAD) {
                *to = (uint16_t)back;
                continue;
            }
            f->fallback[*to] = back;
            f->hit[*to] |= f->hit[back];
            queue[n++] = *to;
        }
    }
}

static void judge_states(struct finder *f, enum lf_free_text_kind kind)
{
    size_t k = f->dfa.n_classes;
    for (uint32_t s = 0; s < f->dfa.n_states; s++) {
        f->dfa.accept[s] = kind == LF_FREE_TEXT_UP_TO ? f->hit[s] : !f->hit[s];
        if (f->hit[s]) memset(f->dfa.next + s * k, 0xff, k * sizeof *f->dfa.next);
    }
}

static struct lf_dfa any_text(struct lf_compilation *c)
{
    struct lf_nfa nfa;
    lf_nfa_init(&nfa, c);
    lf_nfa_edge(&nfa, nfa.start, nfa.accept, LF_NFA_EMPTY);
    lf_nfa_code_points(&nfa, nfa.start, nfa.start, 0, 0x10ffff);
    return lf_compilation_ok(c) ? lf_dfa_of(c, &nfa) : (struct lf_dfa){0};
}

struct lf_dfa lf_free_text(struct lf_compilation *c, const struct lf_str *markers, size_t n,
                           enum lf_free_text_kind kind)
{
    struct finder f = {0};
    classes_of_markers(markers, n, &f.dfa);
    if (!take_memory(c, markers, n, &f)) return (struct lf_dfa){0};
    add_markers(markers, n, &f);
    add_fallbacks(c, &f);
    judge_states(&f, kind);
    struct lf_dfa text = any_text(c);
    return lf_compilation_ok(c) ? lf_dfa_combine(c, &text, &f.dfa, LF_DFA_AND) : text;
}
