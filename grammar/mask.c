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
};

/* Where one walk is in what it walks for. */
struct walk {
    struct lf_matcher *m;
    const struct lf_token_trie *trie;
    uint32_t *mask;
    struct lf_reading reading;
    bool gather;     /* exits are gathered, not followed */
    size_t first, n; /* in m->follow: what begins behind the terminal; made when it is first needed */
    bool has_follow;
};

static void follow(struct walk *w, uint32_t at);

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

/* All nodes under `at` that the reading's terminal reaches. */
static void walk_under(struct walk *w, uint32_t at)
{
    const struct lf_trie_node_of_tokens *nodes = w->trie->nodes;
    const struct lf_terminal *t = &w->m->grammar->net.terminals[w->reading.terminal];
    uint32_t top = nodes[at].depth, end = nodes[at].next, *states = w->m->states;
    for (uint32_t i = at + 1; i < end;) {
        const struct lf_trie_node_of_tokens *node = &nodes[i];
        uint32_t state = node->depth == top + 1u ? w->reading.state : states[node->depth - 1];
        if (++w->m->n_visited > LF_GRAMMAR_MASK_STEPS) w->m->stacks.status = LF_LIMIT;
        state = lf_terminal_next(t, state, node->byte);
        if (state == LF_TERMINAL_DEAD) {
            i = node->next;
            continue;
        }
        states[node->depth] = state;
        allow(w->mask, w->trie->ids + node->first, node->n);
        i++;
        if (w->m->n_visited > LF_GRAMMAR_MASK_STEPS) return;
        if (node->next == i || !lf_terminal_accepts(t, state)) continue;
        if (w->gather)
            add_exit(w->m, i - 1);
        else
            follow(w, i - 1); /* it uses states of greater depth only */
        if (w->m->stacks.status != LF_OK) return;
    }
}

/* What begins behind the terminal, under the node where it may end. */
static void follow(struct walk *w, uint32_t at)
{
    struct lf_matcher *m = w->m;
    if (!w->has_follow) {
        bool complete = m->follow.complete;
        w->first = m->follow.n;
        lf_readings_enter(&m->stacks, &m->follow, w->reading.to, w->reading.stack);
        w->n = m->follow.n - w->first;
        w->has_follow = true;
        m->follow.complete = complete;
    }
    for (size_t i = 0; i < w->n && m->stacks.status == LF_OK; i++) {
        size_t n = m->follow.n;
        struct walk under = {.m = m, .trie = w->trie, .mask = w->mask, .reading = m->follow.list[w->first + i]};
        walk_under(&under, at);
        m->follow.n = n;
    }
}

/* ------------------------------------------------------------------------------------------------ kept walks */

static struct lf_walk_key key_of(const struct lf_terminal *t, uint32_t state)
{
    struct lf_walk_key key = {.state = state};
    memcpy(key.id, t->id, sizeof key.id);
    if (t->kind != LF_TERMINAL_COUNTED) {
        key.max = LF_GRAMMAR_TOKEN_BYTES + 1;
        return key;
    }
    uint32_t count = state / t->dfa.n_states;
    uint32_t min = t->min > count ? t->min - count : 0;
    uint32_t max = t->max == LF_TERMINAL_UNBOUNDED ? LF_TERMINAL_UNBOUNDED : t->max - count;
    key.state = state % t->dfa.n_states;
    key.min = LF_MIN(min, LF_GRAMMAR_TOKEN_BYTES + 1u);
    key.max = LF_MIN(max, LF_GRAMMAR_TOKEN_BYTES + 1u);
    return key;
}

static bool same_key(const struct lf_walk_key *a, const struct lf_walk_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The tokens under the exits, as a trie of what they have behind them. False: too many to keep, or no memory. */
static bool gather_rests(struct lf_matcher *m, const struct lf_token_trie *trie)
{
    size_t n = 0;
    for (size_t e = 0; e < m->n_exits; e++) {
        const struct lf_trie_node_of_tokens *node = &trie->nodes[m->exits[e]];
        uint32_t last = node->next < trie->n_nodes ? trie->nodes[node->next].first : trie->n_ids;
        for (uint32_t k = node->first + node->n; k < last; k++) {
            if (n == KEPT_RESTS_N) return false;
            if (n == m->rests_cap) {
                if (!lf_stacks_may_grow(&m->stacks)) return false;
                size_t cap = m->rests_cap ? 2 * m->rests_cap : 1024;
                struct lf_token_text *rests = lf_text_realloc(m->memory, m->rests, cap * sizeof *rests);
                if (!rests) return false;
                m->rests = rests;
                m->rests_cap = cap;
            }
            struct lf_str text = lf_vocabulary_token(m->vocabulary, trie->ids[k]);
            m->rests[n++] =
                (struct lf_token_text){lf_str_from(text.ptr + node->depth, text.len - node->depth), trie->ids[k]};
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
static void use_kept(struct lf_matcher *m, const struct lf_reading *r, uint32_t *mask)
{
    struct walk w = {.m = m, .trie = &m->kept.walk.rests, .mask = mask, .reading = *r};
    merge(mask, m->kept.walk.mask, m->vocabulary->n_words);
    if (m->kept.walk.rests.n_ids) follow(&w, 0);
    m->follow.n = 0;
}

/* Walks from the root; into the kept walk where that is worth it. */
static void walk_all(struct lf_matcher *m, const struct lf_reading *r, const struct lf_walk_key *key, uint32_t *mask)
{
    const struct lf_terminal *t = &m->grammar->net.terminals[r->terminal];
    struct lf_vocabulary *v = m->vocabulary;
    uint32_t n_before = m->n_visited;
    bool plain = t->endless && t->endless[key->state] && key->max > 0;
    struct walk w = {
        .m = m, .trie = plain ? &v->others : &v->all, .mask = m->kept.walk.mask, .reading = *r, .gather = true};
    m->has_kept = false;
    m->n_exits = 0;
    memset(m->kept.walk.mask, 0, v->n_words * sizeof(uint32_t));
    if (plain) merge(m->kept.walk.mask, v->plain[LF_MIN(key->max, (uint32_t)LF_PLAIN_CHARACTERS_N)], v->n_words);
    walk_under(&w, 0);
    if (m->stacks.status != LF_OK) return;
    if ((plain || m->n_visited - n_before >= KEPT_FROM_N) && gather_rests(m, w.trie)) {
        m->kept_key = *key;
        m->has_kept = true;
        lf_walk_cache_put(v->cache, key, &m->kept.walk);
        use_kept(m, r, mask);
        return;
    }
    if (m->stacks.status != LF_OK) return;
    merge(mask, m->kept.walk.mask, v->n_words);
    w.mask = mask;
    for (size_t e = 0; e < m->n_exits && m->stacks.status == LF_OK; e++) follow(&w, m->exits[e]);
    m->follow.n = 0;
}

static void mask_of(struct lf_matcher *m, const struct lf_reading *r, uint32_t *mask)
{
    const struct lf_terminal *t = &m->grammar->net.terminals[r->terminal];
    if (t->kind == LF_TERMINAL_TEXTS) {
        struct walk w = {.m = m, .trie = &m->vocabulary->all, .mask = mask, .reading = *r};
        walk_under(&w, 0);
        m->follow.n = 0;
        return;
    }
    struct lf_walk_key key = key_of(t, r->state);
    if (m->has_kept && same_key(&key, &m->kept_key)) {
        use_kept(m, r, mask);
        return;
    }
    m->kept.was_short = false;
    m->has_kept = lf_walk_cache_get(m->vocabulary->cache, &key, &m->kept);
    m->kept_key = key;
    if (m->kept.was_short && !lf_stacks_may_grow(&m->stacks)) return;
    if (m->has_kept)
        use_kept(m, r, mask);
    else
        walk_all(m, r, &key, mask);
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
    m->n_visited = 0;
    for (size_t i = 0; i < m->now.n && !m->ended && m->stacks.status == LF_OK; i++) mask_of(m, &m->now.list[i], mask);
    if (m->now.complete && !m->ended) allow(mask, v->ends, v->n_ends);
    if (n_allowed) *n_allowed = count(mask, v->n_words);
    return m->stacks.status;
}
