#include "grammar/terminal.h"

#include <string.h>

#include "core/check.h"
#include "core/hash.h"
#include "core/sort.h"
#include "grammar/grammar.h"
#include "grammar/json_string.h"
#include "grammar/regex.h"

/* A character of a JSON string, as a pattern over its spelling. */
#define HEX "[0-9a-fA-F]"
#define JSON_CHARACTER                                                                                                 \
    "(?:[^\"\\\\\\x00-\\x1f]|\\\\[\"\\\\\\/bfnrt]|\\\\u(?:[1-9a-cefA-CEF]" HEX "{3}|[dD][0-7]" HEX "{2}"               \
    "|0(?:[1-9a-fA-F]" HEX "{2}|0(?:[1-9a-fA-F]" HEX "|0[1-9a-fA-F]))"                                                 \
    "|[dD][89abAB]" HEX "{2}\\\\u[dD][c-fC-F]" HEX "{2}))"

bool lf_terminal_is_empty(const struct lf_terminal *t)
{
    if (t->kind == LF_TERMINAL_TEXTS) return t->n_nodes == 0;
    return t->dfa.n_states == 0;
}

bool lf_terminal_is_final(const struct lf_terminal *t, uint32_t state)
{
    if (t->kind == LF_TERMINAL_TEXTS) return t->nodes[state].n == 0;
    uint32_t q = t->kind == LF_TERMINAL_COUNTED ? state % t->dfa.n_states : state;
    const uint16_t *row = t->dfa.next + (size_t)q * t->dfa.n_classes;
    for (uint32_t i = 0; i < t->dfa.n_classes; i++)
        if (row[i] != LF_DFA_DEAD) return false;
    return true;
}

bool lf_terminal_matches(const struct lf_terminal *t, struct lf_str text)
{
    uint32_t state = 0;
    if (lf_terminal_is_empty(t)) return false;
    for (size_t i = 0; i < text.len && state != LF_TERMINAL_DEAD; i++)
        state = lf_terminal_next(t, state, (uint8_t)text.ptr[i]);
    return state != LF_TERMINAL_DEAD && lf_terminal_accepts(t, state);
}

static bool text_before(const void *a, const void *b)
{
    const struct lf_str *x = a, *y = b;
    int order = x->len && y->len ? memcmp(x->ptr, y->ptr, LF_MIN(x->len, y->len)) : 0;
    return order ? order < 0 : x->len < y->len;
}

/* The texts first to end - 1 share their first `depth` bytes: the path of a node, whose children these give. */
struct text_range {
    size_t first, end, depth;
};

/* The children of node `at`, behind the nodes that are there; breadth first, so children lie together. */
static void add_children(struct lf_terminal *t, struct text_range *ranges, uint32_t at, const struct lf_str *texts)
{
    struct text_range r = ranges[at];
    size_t i = r.first;
    if (i < r.end && texts[i].len == r.depth) {
        t->nodes[at].accept = 1;
        while (i < r.end && texts[i].len == r.depth) i++;
    }
    t->nodes[at].first = t->n_nodes;
    while (i < r.end) {
        size_t end = i + 1;
        while (end < r.end && texts[end].ptr[r.depth] == texts[i].ptr[r.depth]) end++;
        ranges[t->n_nodes] = (struct text_range){i, end, r.depth + 1};
        t->nodes[t->n_nodes++] = (struct lf_text_node){.byte = (uint8_t)texts[i].ptr[r.depth]};
        t->nodes[at].n++;
        i = end;
    }
}

struct lf_terminal lf_terminal_of_texts(struct lf_compilation *c, struct lf_str *texts, size_t n)
{
    struct lf_terminal t = {.kind = LF_TERMINAL_TEXTS};
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) n_bytes += texts[i].len;
    if (n == 0 || !lf_compilation_step(c, n_bytes + n)) return t;
    lf_sort(texts, n, sizeof *texts, text_before);
    t.nodes = lf_compilation_keep(c, n_bytes + 1, sizeof *t.nodes);
    struct text_range *ranges = lf_compilation_scratch(c, n_bytes + 1, sizeof *ranges);
    if (!t.nodes || !ranges) return t;
    ranges[0] = (struct text_range){0, n, 0};
    t.n_nodes = 1;
    for (uint32_t at = 0; at < t.n_nodes; at++) add_children(&t, ranges, at, texts);
    return t;
}

struct lf_terminal lf_terminal_of_control(struct lf_compilation *c, struct lf_str text)
{
    char *bytes = lf_compilation_keep(c, text.len + 1, 1);
    if (!bytes) return (struct lf_terminal){.kind = LF_TERMINAL_TEXTS};
    bytes[0] = LF_GRAMMAR_CONTROL;
    memcpy(bytes + 1, text.ptr, text.len);
    struct lf_str whole = lf_str_from(bytes, text.len + 1);
    struct lf_terminal t = lf_terminal_of_texts(c, &whole, 1);
    t.is_control = true;
    t.control = lf_str_from(bytes + 1, text.len);
    return t;
}

/* What distinguishes DFAs and what they count, in one hash. How many characters there may be is not in it: a walk
 * depends on how many are to come. */
static void identify(struct lf_terminal *t)
{
    uint8_t hash[LF_SHA256_BYTES];
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, &t->dfa.n_classes, sizeof t->dfa.n_classes);
    lf_sha256_update(&sha, t->dfa.class_of, sizeof t->dfa.class_of);
    lf_sha256_update(&sha, t->dfa.accept, t->dfa.n_states);
    lf_sha256_update(&sha, t->dfa.next, (size_t)t->dfa.n_states * t->dfa.n_classes * sizeof *t->dfa.next);
    if (t->kind == LF_TERMINAL_COUNTED) {
        const struct lf_counting *k = &t->counting;
        lf_sha256_update(&sha, k->between, t->dfa.n_states);
        lf_sha256_update(&sha, k->nearest, t->dfa.n_states * sizeof *k->nearest);
        lf_sha256_update(&sha, k->short_of, (size_t)k->n_rows * k->n_words * sizeof *k->short_of);
        lf_sha256_update(&sha, &k->loop, sizeof k->loop);
    }
    lf_sha256_final(&sha, hash);
    memcpy(t->id, hash, sizeof t->id);
}

/* Whether a byte between low and high, and then one of each range of tail, always leads to a state in `in`. */
static bool leads_into(const struct lf_dfa *dfa, const uint8_t *in, uint32_t state, const uint8_t range[2],
                       const uint8_t tail[][2], int n_tail)
{
    uint32_t last = UINT32_MAX;
    for (uint32_t b = range[0]; b <= range[1]; b++) {
        if (dfa->class_of[b] == last) continue;
        last = dfa->class_of[b];
        uint32_t to = lf_dfa_next(dfa, state, (uint8_t)b);
        if (to == LF_DFA_DEAD) return false;
        if (n_tail == 0 ? !in[to] : !leads_into(dfa, in, to, tail[0], tail + 1, n_tail - 1)) return false;
    }
    return true;
}

/* Whether every character of several bytes leads from this state into `in`. */
static bool others_lead_into(const struct lf_dfa *dfa, const uint8_t *in, uint32_t state)
{
    static const struct {
        uint8_t n, range[2], tail[3][2];
    } forms[] = {{1, {0xc2, 0xdf}, {{0x80, 0xbf}}},
                 {2, {0xe0, 0xe0}, {{0xa0, 0xbf}, {0x80, 0xbf}}},
                 {2, {0xe1, 0xec}, {{0x80, 0xbf}, {0x80, 0xbf}}},
                 {2, {0xed, 0xed}, {{0x80, 0x9f}, {0x80, 0xbf}}},
                 {2, {0xee, 0xef}, {{0x80, 0xbf}, {0x80, 0xbf}}},
                 {3, {0xf0, 0xf0}, {{0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
                 {3, {0xf1, 0xf3}, {{0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
                 {3, {0xf4, 0xf4}, {{0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}}};
    for (size_t i = 0; i < LF_N_ELEMS(forms); i++)
        if (!leads_into(dfa, in, state, forms[i].range, forms[i].tail, forms[i].n)) return false;
    return true;
}

/* The same for one of these ranges of ASCII. */
static bool ascii_leads_into(const struct lf_dfa *dfa, const uint8_t *in, uint32_t state, const uint8_t (*ranges)[2],
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!leads_into(dfa, in, state, ranges[i], NULL, 0)) return false;
    return true;
}

/* Whether every plain character leads from this state to one that is still thought endless. */
static bool stays_endless(const struct lf_dfa *dfa, const uint8_t *endless, uint32_t state)
{
    static const uint8_t plain[][2] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}};
    return ascii_leads_into(dfa, endless, state, plain, LF_N_ELEMS(plain)) && others_lead_into(dfa, endless, state);
}

/* States that letters, digits and spaces lead back to. */
static void find_steady(struct lf_compilation *c, struct lf_terminal *t)
{
    static const uint8_t words[][2] = {{' ', ' '}, {'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    uint32_t n = t->dfa.n_states;
    uint8_t *just = lf_compilation_scratch(c, n, 1);
    t->steady = lf_compilation_keep(c, n, 1);
    if (!just || !t->steady) return;
    for (uint32_t s = 0; s < n && lf_compilation_step(c, 16); s++) {
        if (lf_dfa_next(&t->dfa, s, ' ') != s || !lf_compilation_step(c, 256)) continue;
        just[s] = 1;
        t->steady[s] =
            ascii_leads_into(&t->dfa, just, s, words, LF_N_ELEMS(words)) && others_lead_into(&t->dfa, just, s);
        just[s] = 0;
    }
}

/* The largest set of states, none of them accepting, that plain characters do not leave: all are in it until one is
 * found to lead outside. */
static void find_endless(struct lf_compilation *c, struct lf_terminal *t)
{
    uint32_t n = t->dfa.n_states;
    t->endless = lf_compilation_keep(c, n, 1);
    if (!t->endless) return;
    for (uint32_t s = 0; s < n; s++) {
        const struct lf_counting *k = t->kind == LF_TERMINAL_COUNTED ? &t->counting : NULL;
        bool free = !k || (k->between[s] && k->nearest[s] == 0); /* it could end behind any number of characters */
        t->endless[s] = free && !t->dfa.accept[s];               /* a token must not end it half way */
    }
    for (bool changed = true; changed && lf_compilation_ok(c);) {
        changed = false;
        for (uint32_t s = n; s-- > 0;) { /* states are numbered outwards, so one pass settles most of them */
            if (!t->endless[s] || !lf_compilation_step(c, 256) || stays_endless(&t->dfa, t->endless, s)) continue;
            t->endless[s] = 0;
            changed = true;
        }
    }
}

/* Whether some accepting state goes on with so many bytes that most tokens would be looked at behind it. */
static bool is_open(const struct lf_dfa *dfa)
{
    for (uint32_t s = 0; s < dfa->n_states; s++) {
        int n = 0;
        for (int b = 0; b < 256 && dfa->accept[s]; b++) n += lf_dfa_next(dfa, s, (uint8_t)b) != LF_DFA_DEAD;
        if (n >= LF_TERMINAL_OPEN_N) return true;
    }
    return false;
}

struct lf_terminal lf_terminal_of_dfa(struct lf_compilation *c, const struct lf_dfa *dfa)
{
    struct lf_dfa least = lf_dfa_minimize(c, dfa);
    struct lf_terminal t = {.kind = LF_TERMINAL_DFA, .dfa = lf_dfa_keep(c, &least)};
    if (!lf_compilation_ok(c) || t.dfa.n_states == 0) return t;
    find_endless(c, &t);
    find_steady(c, &t);
    t.is_open = lf_compilation_step(c, 256 * (uint64_t)t.dfa.n_states) && is_open(&t.dfa);
    identify(&t);
    return t;
}

/* Counts the characters of a string's DFA; where it has none of so many, it is empty. */
static void count(struct lf_compilation *c, struct lf_terminal *t, uint8_t *between, uint32_t min, uint32_t max)
{
    bool possible = min <= max;
    t->kind = LF_TERMINAL_COUNTED;
    if (possible) t->counting = lf_counting_of(c, &t->dfa, between, min, max);
    if (!lf_compilation_ok(c) || !possible || !lf_counting_can_end(&t->counting, 0, 0))
        t->dfa.n_states = 0;
    else
        identify(t);
}

struct lf_terminal lf_terminal_of_string(struct lf_compilation *c, uint32_t min, uint32_t max, const char *behind)
{
    struct lf_buf text;
    lf_buf_init_in(&text, 1024, lf_work_memory(c->work));
    lf_buf_printf(&text, "\"%s*\"%s", JSON_CHARACTER, behind);
    if (text.status != LF_OK) lf_compilation_fail(c, text.status, "no memory to compile the grammar");
    struct lf_dfa dfa = lf_grammar_regex(c, lf_buf_view(&text), LF_REGEX_WHOLE);
    lf_buf_deinit(&text);
    struct lf_terminal t = lf_terminal_of_dfa(c, &dfa);
    if (!lf_compilation_ok(c) || (min == 0 && max == LF_TERMINAL_UNBOUNDED)) return t;
    uint8_t *between = lf_compilation_keep(c, t.dfa.n_states, 1);
    if (!between) return t;
    between[lf_dfa_next(&t.dfa, 0, '"')] = 1;
    count(c, &t, between, min, max);
    return t;
}

/* Where in a spelled string a byte leads: before its quote, between characters, behind its end, behind a backslash, or
 * so many bytes before the end of a character. */
enum place { UNSEEN, BEFORE, BETWEEN, BEHIND, ESCAPED, INSIDE };

static uint8_t next_place(uint8_t place, uint8_t byte)
{
    if (place == BEFORE) return BETWEEN;
    if (place == ESCAPED) return byte == 'u' ? INSIDE + 4 : BETWEEN;
    if (place > INSIDE) return place == INSIDE + 1 ? BETWEEN : place - 1;
    if (byte == '"' || byte == '\\') return byte == '"' ? BEHIND : ESCAPED;
    return byte < 0x80 ? BETWEEN : byte < 0xe0 ? INSIDE + 1 : byte < 0xf0 ? INSIDE + 2 : INSIDE + 3;
}

/* The states between characters. As it was spelled, each state has one place (were it minimized, one between characters
 * and one behind a backslash could be the same). */
static uint8_t *find_between(struct lf_compilation *c, const struct lf_dfa *spelled)
{
    uint32_t n_todo = 1, *todo = lf_compilation_scratch(c, spelled->n_states, sizeof *todo);
    uint8_t *places = lf_compilation_keep(c, spelled->n_states, 1);
    if (!todo || !places) return NULL;
    places[0] = BEFORE;
    while (n_todo && lf_compilation_step(c, 64)) {
        uint32_t q = todo[--n_todo];
        for (int b = 0; b < 256; b++) {
            uint32_t to = lf_dfa_next(spelled, q, (uint8_t)b);
            uint8_t place = to == LF_DFA_DEAD ? UNSEEN : next_place(places[q], (uint8_t)b);
            if (to == LF_DFA_DEAD) continue;
            LF_ASSERT(places[to] == UNSEEN || places[to] == place);
            if (places[to] == UNSEEN) todo[n_todo++] = to;
            places[to] = place;
        }
    }
    for (uint32_t q = 0; q < spelled->n_states; q++) places[q] = places[q] == BETWEEN;
    return places;
}

struct lf_terminal lf_terminal_of_contents(struct lf_compilation *c, const struct lf_dfa *contents, uint32_t min,
                                           uint32_t max)
{
    struct lf_dfa spelled = lf_json_string_spelled(c, contents, "");
    if (min == 0 && max == LF_TERMINAL_UNBOUNDED) return lf_terminal_of_dfa(c, &spelled);
    struct lf_terminal t = {.kind = LF_TERMINAL_DFA, .dfa = lf_dfa_keep(c, &spelled)};
    uint8_t *between = t.dfa.n_states ? find_between(c, &t.dfa) : NULL;
    if (between) count(c, &t, between, min, max);
    if (lf_compilation_ok(c) && t.dfa.n_states) find_endless(c, &t);
    return t;
}
