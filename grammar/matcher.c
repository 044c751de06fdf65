/* Matchers, but for their masks (mask.c): the answer read so far, token by token. What is refused changes nothing,
 * since readings are made beside those that are there. */
#include "grammar/grammar.h"

#include <string.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "grammar/grammar_impl.h"
#include "grammar/matcher_impl.h"

void lf_matcher_destroy(struct lf_matcher *m)
{
    if (!m) return;
    lf_reading_list_deinit(&m->now, &m->stacks);
    lf_reading_list_deinit(&m->next[0], &m->stacks);
    lf_reading_list_deinit(&m->next[1], &m->stacks);
    lf_reading_list_deinit(&m->mark, &m->stacks);
    lf_reading_list_deinit(&m->follow, &m->stacks);
    lf_stacks_deinit(&m->stacks);
    lf_walk_buffer_deinit(&m->kept);
    lf_text_free(m->memory, m->exits);
    lf_text_free(m->memory, m->rests);
    lf_text_free(m->memory, m);
}

/* What was kept of a walk is one vocabulary's. */
static void use_vocabulary(struct lf_matcher *m, struct lf_vocabulary *v)
{
    m->has_kept = m->has_kept && m->vocabulary == v;
    m->vocabulary = v;
}

void lf_matcher_restart(struct lf_matcher *m)
{
    use_vocabulary(m, m->first);
    m->stacks.status = LF_OK;
    m->now.n = 0;
    m->now.complete = false;
    m->ended = false;
    lf_readings_enter(&m->stacks, &m->now, m->grammar->net.start, LF_STACK_EMPTY);
}

void lf_matcher_set_growing(struct lf_matcher *m, bool may_grow)
{
    m->stacks.is_frozen = m->kept.is_frozen = !may_grow;
}

enum lf_status lf_matcher_create(struct lf_matcher **out, const struct lf_grammar *g, struct lf_vocabulary *v,
                                 struct lf_text_memory *memory)
{
    struct lf_matcher *m = lf_text_alloc_zeroed(memory, sizeof *m);
    if (!m) return LF_NO_MEMORY;
    m->grammar = g;
    m->first = m->vocabulary = v;
    m->memory = memory;
    lf_stacks_init(&m->stacks, &g->net, memory);
    bool made = lf_walk_buffer_init(&m->kept, v->n_words, memory);
    if (made) lf_matcher_restart(m);
    enum lf_status status = made ? m->stacks.status : LF_NO_MEMORY;
    if (status != LF_OK) {
        lf_matcher_destroy(m);
        return status;
    }
    *out = m;
    return LF_OK;
}

enum { NODES_A_READING = 16 };

/* What was reached becomes where the answer is. */
static enum lf_status go_on(struct lf_matcher *m, struct lf_reading_list *to)
{
    struct lf_reading_list reached = *to;
    if (m->stacks.status != LF_OK) return m->stacks.status;
    if (to->n == 0 && !to->complete) return LF_INVALID;
    *to = m->now;
    m->now = reached;
    return LF_OK;
}

/* n readings move by a byte: each takes the time of many nodes of a mask. */
static bool spend(struct lf_matcher *m, size_t n)
{
    m->n_visited += (uint32_t)n * NODES_A_READING; /* n <= LF_GRAMMAR_CONFIGS_N */
    if (m->n_visited > LF_GRAMMAR_MASK_STEPS) m->stacks.status = LF_LIMIT;
    return m->stacks.status == LF_OK;
}

static void collect(struct lf_matcher *m)
{
    if (!m->looks_ahead) lf_stacks_collect(&m->stacks, &m->now);
}

/* costs: as one token of LF_GRAMMAR_MASK_STEPS at most. */
static enum lf_status accept_text(struct lf_matcher *m, struct lf_str bytes, bool costs)
{
    struct lf_reading_list *from = &m->now;
    if (m->ended) return bytes.len ? LF_INVALID : LF_OK;
    collect(m);
    m->stacks.status = LF_OK;
    for (size_t i = 0; i < bytes.len; i++) {
        struct lf_reading_list *to = &m->next[i % 2];
        if (costs && !spend(m, from->n)) return m->stacks.status;
        lf_readings_step(&m->stacks, from, (uint8_t)bytes.ptr[i], to);
        if (m->stacks.status != LF_OK) return m->stacks.status;
        if (to->n == 0 && !to->complete) return LF_INVALID;
        from = to;
    }
    if (bytes.len == 0) return LF_OK;
    LF_TRY(go_on(m, from));
    if (m->vocabulary->next) use_vocabulary(m, m->vocabulary->next);
    return LF_OK;
}

enum lf_status lf_matcher_accept_bytes(struct lf_matcher *m, struct lf_str bytes)
{
    return accept_text(m, bytes, false);
}

static enum lf_status accept_control(struct lf_matcher *m, struct lf_str control)
{
    collect(m);
    m->stacks.status = LF_OK;
    lf_readings_step_control(&m->stacks, &m->now, control, &m->next[0]);
    return go_on(m, &m->next[0]);
}

enum lf_status lf_matcher_accept(struct lf_matcher *m, int32_t token)
{
    if (token < 0 || (uint32_t)token >= m->vocabulary->n_tokens || m->ended) return LF_INVALID;
    struct lf_str text = lf_vocabulary_token(m->vocabulary, token);
    bool is_end = lf_vocabulary_is_end(m->vocabulary, token);
    if (text.len && text.ptr[0] == LF_GRAMMAR_CONTROL) {
        enum lf_status status = accept_control(m, lf_str_from(text.ptr + 1, text.len - 1));
        if (status != LF_INVALID || !is_end) return status;
    }
    if (is_end) {
        if (!m->now.complete) return LF_INVALID;
        m->ended = true;
        return LF_OK;
    }
    if (!m->looks_ahead) m->n_visited = 0;
    return text.len ? accept_text(m, text, true) : LF_INVALID;
}

bool lf_matcher_is_complete(const struct lf_matcher *m)
{
    return m->ended || m->now.complete;
}

bool lf_matcher_is_finished(const struct lf_matcher *m)
{
    if (m->ended) return true;
    for (size_t i = 0; i < m->now.n; i++) {
        const struct lf_reading *r = &m->now.list[i];
        if (!lf_terminal_is_final(&m->grammar->net.terminals[r->terminal], r->state)) return false;
    }
    return true;
}

/* ---- looking ahead ---- */

/* What is remembered is enough to come back: what is reached on the way lies beside it, and its frames behind. */
static enum lf_status remember(struct lf_matcher *m)
{
    lf_stacks_collect(&m->stacks, &m->now);
    m->stacks.status = LF_OK;
    lf_reading_list_copy(&m->stacks, &m->mark, &m->now);
    return m->stacks.status;
}

/* How many of the tokens may come. */
static enum lf_status go_ahead(struct lf_matcher *m, const int32_t *tokens, int n, uint32_t *masks, size_t stride,
                               int *n_allowed)
{
    for (; *n_allowed < n; ++*n_allowed) {
        LF_TRY(lf_matcher_accept(m, tokens[*n_allowed]));
        if (masks) LF_TRY(lf_matcher_mask(m, masks + (size_t)(*n_allowed + 1) * stride, NULL));
    }
    return LF_OK;
}

enum lf_status lf_matcher_look_ahead(struct lf_matcher *m, const int32_t *tokens, int n, uint32_t *masks, size_t stride,
                                     int *n_allowed)
{
    *n_allowed = 0;
    m->n_visited = 0; /* from here on one budget for all */
    if (masks) LF_TRY(lf_matcher_mask(m, masks, NULL));
    enum lf_status status = n > 0 ? remember(m) : LF_OK;
    if (n == 0 || status != LF_OK) return status == LF_FULL ? LF_FULL : LF_OK;
    struct lf_vocabulary *vocabulary = m->vocabulary;
    uint32_t n_frames = m->stacks.n;
    bool ended = m->ended;
    m->looks_ahead = true;
    status = go_ahead(m, tokens, n, masks, stride, n_allowed);
    m->looks_ahead = false;
    m->ended = ended;
    use_vocabulary(m, vocabulary);
    lf_stacks_cut(&m->stacks, n_frames);
    struct lf_reading_list reached = m->now;
    m->now = m->mark;
    m->mark = reached;
    return status == LF_FULL ? LF_FULL : LF_OK;
}
