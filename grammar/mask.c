/* Masks: each reading's tokens, one walk for each.
 *
 * A walk goes over a trie with one terminal. Where the terminal may end within a token, the walk goes on under that
 * node in what follows the terminal. From the root such nodes are gathered first, so that a walk that was long can be
 * kept without what follows (walk_cache.h). */
#include <string.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "grammar/grammar_impl.h"
#include "grammar/matcher_impl.h"

enum {
    KEPT_FROM_N = 300,        /* nodes that a walk visits to be worth keeping */
    KEPT_RESTS_N = 32 * 1024, /* tokens that go on behind a terminal, at most, of a walk that is kept */
    EXITS_N = 256 * 1024,
    NODES_A_WORD = 4, /* words of a mask that are copied and merged in the time of one node */
    LEVELS_N = 3,     /* terminals that one token goes through alone; then its readings go together */
};

/* Where one walk is in what it walks for. */
struct walk {
    struct lf_matcher *m;
    const struct lf_token_trie *trie;
    uint32_t *mask;
    struct lf_reading reading;
    const struct lf_walk_key *key; /* of a walk that gathers its exits instead of following them; else NULL */
    size_t first, n;               /* in m->follow: what begins behind the terminal; made when it is first needed */
    bool has_follow;
    int level; /* terminals that the token has gone through */
};

static void follow(struct walk *w, uint32_t at);

/* So many nodes more. False: it has failed, stop. */
static inline bool visit(struct lf_matcher *m, size_t n)
{
    m->n_visited += (uint32_t)n;
    if (m->n_visited > LF_GRAMMAR_MASK_STEPS) m->stacks.status = LF_LIMIT;
    return m->stacks.status == LF_OK;
}

static inline void allow(uint32_t *mask, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) mask[(uint32_t)ids[i] / 32] |= 1u << (uint32_t)ids[i] % 32;
}

static void add_exit(struct lf_matcher *m, uint32_t at)
{
    if (m->n_exits == m->exits_cap) {
        size_t cap = m->exits_cap ? 2 * m->exits_cap : 1024;
        if (cap <= EXITS_N && !lf_stacks_may_grow(&m->stacks)) return;
        uint32_t *exits = cap <= EXITS_N ? lf_text_realloc(m->memory, m->exits, cap * sizeof *exits) : NULL;
        if (!exits) {
            m->stacks.status = cap <= EXITS_N ? LF_NO_MEMORY : LF_LIMIT;
            return;
        }
        m->exits = exits;
        m->exits_cap = cap;
    }
    m->exits[m->n_exits++] = at;
}

static inline bool has_byte(const uint64_t set[4], uint8_t byte)
{
    return set[byte / 64] >> byte % 64 & 1;
}

/* Whether what follows may begin with a byte that a token has behind this node. */
static bool goes_on(const struct walk *w, uint32_t at)
{
    const struct lf_trie_node_of_tokens *nodes = w->trie->nodes;
    for (uint32_t i = at + 1; i < nodes[at].next; i = nodes[i].next)
        if (has_byte(w->key->starts, nodes[i].byte)) return true;
    return false;
}

/* All nodes under `at` that the reading's terminal reaches. */
static void walk_under(struct walk *w, uint32_t at)
{
    const struct lf_trie_node_of_tokens *nodes = w->trie->nodes;
    const struct lf_terminal *t = &w->m->grammar->net.terminals[w->reading.terminal];
    uint32_t top = nodes[at].depth, end = nodes[at].next, *states = w->m->states;
    for (uint32_t i = at + 1; i < end;) {
        const struct lf_trie_node_of_tokens *node = &nodes[i];
        uint32_t state = node->depth == top + 1u ? w->reading.state : states[node->depth - 1];
        if (!visit(w->m, 1)) return;
        state = lf_terminal_next(t, state, node->byte);
        if (state == LF_TERMINAL_DEAD) {
            i = node->next;
            continue;
        }
        states[node->depth] = state;
        allow(w->mask, w->trie->ids + node->first, node->n);
        i++;
        if (node->next == i || !lf_terminal_accepts(t, state)) continue;
        if (!w->key)
            follow(w, i - 1); /* it uses states of greater depth only */
        else if (goes_on(w, i - 1))
            add_exit(w->m, i - 1);
        if (w->m->stacks.status != LF_OK) return;
    }
}

static void find_follow(struct walk *w)
{
    struct lf_matcher *m = w->m;
    bool complete = m->follow.complete;
    if (w->has_follow) return;
    w->first = m->follow.n;
    lf_readings_enter(&m->stacks, &m->follow, w->reading.to, w->reading.stack);
    w->n = m->follow.n - w->first;
    w->has_follow = true;
    (void)visit(m, w->n);
    m->follow.complete = complete;
}

/* All nodes under `at` with all readings at once, as they were when the list had n and from `first` on. A token that
 * goes through many terminals may do so in ever so many ways, but those that meet are one reading. */
static void walk_together(struct walk *w, uint32_t at)
{
    struct lf_matcher *m = w->m;
    const struct lf_trie_node_of_tokens *nodes = w->trie->nodes;
    size_t ends[LF_GRAMMAR_TOKEN_BYTES + 1]; /* of the readings of a depth; they lie one behind the other */
    uint32_t top = nodes[at].depth, end = nodes[at].next;
    ends[top] = w->first + w->n;
    for (uint32_t i = at + 1; i < end;) {
        uint32_t depth = nodes[i].depth;
        size_t first = depth == top + 1 ? w->first : ends[depth - 2];
        m->follow.n = ends[depth - 1];
        if (!visit(m, ends[depth - 1] - first)) return;
        lf_readings_step_on(&m->stacks, &m->follow, first, ends[depth - 1], nodes[i].byte);
        if (m->stacks.status != LF_OK) return;
        ends[depth] = m->follow.n;
        bool taken = m->follow.n > ends[depth - 1] || m->follow.complete;
        if (taken) allow(w->mask, w->trie->ids + nodes[i].first, nodes[i].n);
        i = taken ? i + 1 : nodes[i].next;
    }
}

/* What begins behind the terminal, under the node where it may end. */
static void follow(struct walk *w, uint32_t at)
{
    struct lf_matcher *m = w->m;
    find_follow(w);
    if (w->level == LEVELS_N) {
        size_t n = m->follow.n;
        bool complete = m->follow.complete;
        walk_together(w, at);
        m->follow.n = n;
        m->follow.complete = complete;
        return;
    }
    for (size_t i = 0; i < w->n && m->stacks.status == LF_OK; i++) {
        size_t n = m->follow.n;
        struct walk under = {
            .m = m, .trie = w->trie, .mask = w->mask, .reading = m->follow.list[w->first + i], .level = w->level + 1};
        walk_under(&under, at);
        m->follow.n = n;
    }
}

/* ------------------------------------------------------------------------------------------------ kept walks */

/* What the tokens of a state depend on. Of a counted terminal it is how many characters are to come, but for what no
 * token gets to see. */
static struct lf_walk_key key_of(const struct lf_vocabulary *v, const struct lf_terminal *t, uint32_t state)
{
    struct lf_walk_key key = {.state = state};
    memcpy(key.id, t->id, sizeof key.id);
    if (t->kind != LF_TERMINAL_COUNTED) {
        key.max = LF_GRAMMAR_TOKEN_BYTES + 1;
        return key;
    }
    const struct lf_counting *k = &t->counting;
    uint32_t count = state / t->dfa.n_states, far = k->loop + v->longest + 1;
    key.min = k->min > count ? k->min - count : 0;
    if (key.min > far && k->n_rows > k->loop) key.min = far + (key.min - far) % (k->n_rows - k->loop);
    key.max = LF_MIN(k->max - LF_MIN(count, k->max), k->farthest + LF_MAX(v->longest, (uint32_t)LF_PLAIN_CHARACTERS_N));
    key.state = state % t->dfa.n_states;
    return key;
}

static void add_starts(const struct lf_terminal *t, uint64_t starts[4])
{
    for (uint32_t b = 0; b < 256 && !t->is_control; b++)
        if (lf_terminal_next(t, 0, (uint8_t)b) != LF_TERMINAL_DEAD) starts[b / 64] |= UINT64_C(1) << b % 64;
}

/* Free text may end behind most tokens' every byte: there only what follows it says which of them are worth a look. */
static void narrow_starts(struct walk *w, const struct lf_terminal *t, struct lf_walk_key *key)
{
    struct lf_matcher *m = w->m;
    memset(key->starts, t->is_open ? 0 : 0xff, sizeof key->starts);
    if (!t->is_open) return;
    find_follow(w);
    for (size_t i = 0; i < w->n; i++)
        add_starts(&m->grammar->net.terminals[m->follow.list[w->first + i].terminal], key->starts);
}

static bool same_key(const struct lf_walk_key *a, const struct lf_walk_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool add_rest(struct lf_matcher *m, size_t n, struct lf_token_text rest)
{
    if (n == m->rests_cap) {
        if (!lf_stacks_may_grow(&m->stacks)) return false;
        size_t cap = m->rests_cap ? 2 * m->rests_cap : 1024;
        if (cap > KEPT_RESTS_N || !lf_stacks_may_grow(&m->stacks)) return false;
        struct lf_token_text *rests = lf_text_realloc(m->memory, m->rests, cap * sizeof *rests);
        if (!rests) return false;
        m->rests = rests;
        m->rests_cap = cap;
    }
    m->rests[n] = rest;
    return true;
}

/* The tokens under the exits, as a trie of what they have behind them. False: too many to keep, or no memory. */
static bool gather_rests(struct lf_matcher *m, const struct lf_token_trie *trie, const struct lf_walk_key *key)
{
    size_t n = 0;
    const struct lf_trie_node_of_tokens *nodes = trie->nodes;
    for (size_t e = 0; e < m->n_exits; e++) {
        uint32_t at = m->exits[e], depth = nodes[at].depth;
        for (uint32_t i = at + 1; i < nodes[at].next; i = nodes[i].next) {
            uint32_t last = nodes[i].next < trie->n_nodes ? nodes[nodes[i].next].first : trie->n_ids;
            if (!has_byte(key->starts, nodes[i].byte)) continue;
            for (uint32_t k = nodes[i].first; k < last; k++, n++) {
                struct lf_str text = lf_vocabulary_token(m->vocabulary, trie->ids[k]);
                struct lf_token_text rest = {lf_str_from(text.ptr + depth, text.len - depth), trie->ids[k]};
                if (!add_rest(m, n, rest)) return false;
            }
        }
    }
    size_t n_nodes = lf_token_trie_count(m->rests, n);
    if (!lf_walk_buffer_reserve(&m->kept, n_nodes, n)) {
        (void)lf_stacks_may_grow(&m->stacks);
        return false;
    }
    lf_token_trie_fill(&m->kept.walk.rests, m->rests, n);
    return true;
}

static void merge(uint32_t *mask, const uint32_t *more, uint32_t n_words)
{
    for (uint32_t i = 0; i < n_words; i++) mask[i] |= more[i];
}

/* What the kept walk says, in what follows this reading. */
static void use_kept(struct walk *w, uint32_t *mask)
{
    struct lf_matcher *m = w->m;
    merge(mask, m->kept.walk.mask, m->vocabulary->n_words);
    if (!visit(m, m->vocabulary->n_words / NODES_A_WORD)) return;
    w->trie = &m->kept.walk.rests;
    w->mask = mask;
    w->key = NULL;
    if (w->trie->n_ids) follow(w, 0);
}

/* Whether words are allowed as they are and leave the state as it is; no text begins within one that could follow. */
static bool takes_words(const struct lf_terminal *t, const struct lf_walk_key *key)
{
    const uint64_t of_words[4] = {UINT64_C(1) << ' ' | UINT64_C(0x3ff) << '0',
                                  UINT64_C(0x3ffffff) << ('A' - 64) | UINT64_C(0x3ffffff) << ('a' - 64), ~UINT64_C(0),
                                  ~UINT64_C(0)};
    if (t->kind != LF_TERMINAL_DFA || !t->steady[key->state]) return false;
    for (int i = 0; i < 4 && lf_terminal_accepts(t, key->state); i++)
        if (key->starts[i] & of_words[i]) return false;
    return true;
}

/* Walks from the root; into the kept walk where that is worth it. */
static void walk_all(struct walk *w, const struct lf_walk_key *key, uint32_t *mask)
{
    struct lf_matcher *m = w->m;
    const struct lf_terminal *t = &m->grammar->net.terminals[w->reading.terminal];
    struct lf_vocabulary *v = m->vocabulary;
    uint32_t n_before = m->n_visited;
    bool plain = t->endless && t->endless[key->state] && key->max > 0;
    m->has_kept = false;
    m->n_exits = 0;
    if (!visit(m, v->n_words / NODES_A_WORD)) return;
    memset(m->kept.walk.mask, 0, v->n_words * sizeof(uint32_t));
    if (plain) merge(m->kept.walk.mask, v->plain[LF_MIN(key->max, (uint32_t)LF_PLAIN_CHARACTERS_N)], v->n_words);
    bool words = !plain && takes_words(t, key);
    if (words) merge(m->kept.walk.mask, v->words, v->n_words);
    w->trie = plain ? &v->others : words ? &v->marks : &v->all;
    w->mask = m->kept.walk.mask;
    w->key = key;
    walk_under(w, 0);
    if (m->stacks.status != LF_OK) return;
    if ((plain || words || m->n_visited - n_before >= KEPT_FROM_N) && gather_rests(m, w->trie, key)) {
        m->kept_key = *key;
        m->has_kept = true;
        lf_walk_cache_put(v->cache, key, &m->kept.walk);
        use_kept(w, mask);
        return;
    }
    if (m->stacks.status != LF_OK) return;
    merge(mask, m->kept.walk.mask, v->n_words);
    w->mask = mask;
    w->key = NULL;
    for (size_t e = 0; e < m->n_exits && m->stacks.status == LF_OK; e++) follow(w, m->exits[e]);
}

static void walk_terminal(struct walk *w, const struct lf_terminal *t, uint32_t *mask)
{
    struct lf_matcher *m = w->m;
    struct lf_walk_key key = key_of(m->vocabulary, t, w->reading.state);
    narrow_starts(w, t, &key);
    if (m->stacks.status != LF_OK) return;
    if (!m->has_kept || !same_key(&key, &m->kept_key)) {
        m->kept.was_short = false;
        m->has_kept = lf_walk_cache_get(m->vocabulary->cache, &key, &m->kept);
        m->kept_key = key;
        if (m->kept.was_short && !lf_stacks_may_grow(&m->stacks)) return;
    }
    if (m->has_kept)
        use_kept(w, mask);
    else
        walk_all(w, &key, mask);
}

static void mask_of(struct lf_matcher *m, const struct lf_reading *r, uint32_t *mask)
{
    const struct lf_terminal *t = &m->grammar->net.terminals[r->terminal];
    struct walk w = {.m = m, .trie = &m->vocabulary->all, .mask = mask, .reading = *r};
    if (t->is_control) {
        const struct lf_token_text *controls;
        uint32_t n = r->state == 0 ? lf_vocabulary_controls(m->vocabulary, t->control, &controls) : 0;
        for (uint32_t i = 0; i < n; i++) allow(mask, &controls[i].id, 1);
    } else if (t->kind == LF_TERMINAL_TEXTS) {
        walk_under(&w, 0);
    } else {
        walk_terminal(&w, t, mask);
    }
    m->follow.n = 0;
}

static uint32_t count(const uint32_t *mask, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += (uint32_t)__builtin_popcount(mask[i]);
    return sum;
}

enum lf_status lf_matcher_mask(struct lf_matcher *m, uint32_t *mask, uint32_t *n_allowed)
{
    const struct lf_vocabulary *v = m->vocabulary;
    memset(mask, 0, v->n_words * sizeof *mask);
    m->stacks.status = LF_OK;
    m->follow.n = 0;
    if (!m->looks_ahead) m->n_visited = 0;
    for (size_t i = 0; i < m->now.n && !m->ended && m->stacks.status == LF_OK; i++) mask_of(m, &m->now.list[i], mask);
    if (m->now.complete && !m->ended) allow(mask, v->ends, v->n_ends);
    if (n_allowed) *n_allowed = count(mask, v->n_words);
    return m->stacks.status;
}
