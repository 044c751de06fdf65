/* What must hold of a compiled grammar whatever it came from. It is answered at random over a vocabulary of bytes, some
 * pieces of JSON and two control tokens: some token is allowed until the answer ends, what the mask allows is accepted
 * and nothing else.
 *
 * Compiling and answering have a deadline: hostile sources cost as much as limits.h allows, under sanitizers seconds,
 * and the next input is worth more than their end. One input in 256 has none; none has with LF_FUZZ_LATE in the
 * environment, for an input that failed is to fail again. */
#ifndef LF_TESTS_FUZZ_USE_GRAMMAR_H
#define LF_TESTS_FUZZ_USE_GRAMMAR_H

#include "core/clock.h"
#include "core/mix.h"
#include "core/work.h"
#include "grammar/grammar.h"
#include "tests/fuzz/fuzz.h"

enum { FUZZ_PIECES_N = 14, FUZZ_TOKENS_N = 256 + FUZZ_PIECES_N + 1, FUZZ_END = FUZZ_TOKENS_N - 1 };
enum { FUZZ_STEPS_N = 60, FUZZ_MS = 10 };

static const char *const fuzz_pieces[FUZZ_PIECES_N] = {
    "\"}", "\",\"", "\":\"", "{\"", "[[", "],", "aa", "12", "\xc3\xa9x", "null", "\\u00", "\"]", "\xff<1>", "\xff<2>"};

static inline struct lf_vocabulary *fuzz_vocabulary(void)
{
    static struct lf_vocabulary *v;
    static char bytes[256];
    struct lf_str tokens[FUZZ_TOKENS_N];
    int32_t end = FUZZ_END;
    if (v) return v;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = lf_str_from(&bytes[i], 1);
    }
    for (int i = 0; i < FUZZ_PIECES_N; i++) tokens[256 + i] = lf_str_c(fuzz_pieces[i]);
    tokens[FUZZ_END] = LF_STR("");
    LF_ASSERT(lf_vocabulary_create(&v, tokens, FUZZ_TOKENS_N, &end, 1, 1 << 16, NULL) == LF_OK);
    return v;
}

/* The time that an input has. */
static inline struct lf_work fuzz_work(const uint8_t *data, size_t size)
{
    uint64_t hash = size;
    for (size_t i = 0; i < size; i++) hash = lf_mix64(hash ^ data[i]);
    bool has_end = hash % 256 != 0 && getenv("LF_FUZZ_LATE") == NULL;
    return (struct lf_work){.deadline_ns = has_end ? lf_clock_ns() + FUZZ_MS * LF_NS_PER_MS : 0};
}

static inline bool fuzz_is_late(const struct lf_work *work)
{
    return work->deadline_ns && lf_clock_ns() > work->deadline_ns;
}

static inline void fuzz_check_compiled(enum lf_status status, const struct lf_err *err)
{
    LF_ASSERT(status == LF_OK || err->message[0] != 0);
    LF_ASSERT(status == LF_OK || status == LF_INVALID || status == LF_UNSUPPORTED || status == LF_LIMIT ||
              status == LF_TIMEOUT);
}

/* Called with what an answer is so far, wherever it may end. */
typedef void fuzz_whole_fn(void *ctx, struct lf_str answer);

/* What may come behind a token that may, and behind that once more, leaves the matcher where it is. */
static inline void fuzz_look_ahead(struct lf_matcher *m, int token, const uint32_t *mask)
{
    enum { WORDS = (FUZZ_TOKENS_N + 31) / 32 };
    uint32_t masks[3][WORDS];
    const int32_t ids[2] = {token, token};
    int n_allowed = 0;
    enum lf_status status = lf_matcher_look_ahead(m, ids, 2, masks[0], WORDS, &n_allowed);
    if (status == LF_LIMIT) return;
    LF_ASSERT(status == LF_OK && n_allowed <= 2 && memcmp(masks[0], mask, sizeof masks[0]) == 0);
    if (n_allowed > 1) LF_ASSERT(masks[1][token / 32] >> token % 32 & 1);
}

/* The next token of an answer, at random of those that are allowed; -1: it goes no further. */
static inline int fuzz_next_token(struct lf_matcher *m, uint64_t seed, bool may_stick)
{
    uint32_t mask[(FUZZ_TOKENS_N + 31) / 32], n_allowed;
    enum lf_status status = lf_matcher_mask(m, mask, &n_allowed);
    if (status == LF_LIMIT) return -1;
    LF_ASSERT(status == LF_OK);
    if (n_allowed == 0 && may_stick) return -1;
    LF_ASSERT(n_allowed > 0);
    int other = (int)(seed % FUZZ_TOKENS_N), token = other;
    while (!(mask[token / 32] >> token % 32 & 1)) token = (token + 1) % FUZZ_TOKENS_N;
    if (other != token) LF_ASSERT(lf_matcher_accept(m, other) == LF_INVALID);
    fuzz_look_ahead(m, token, mask);
    return token;
}

/* may_stick: the grammar may need a control token that there is not, or be at its end without one. */
static inline void fuzz_answer_at_random(const struct lf_grammar *g, const struct lf_work *work, uint64_t seed,
                                         bool may_stick, fuzz_whole_fn *whole, void *ctx)
{
    struct lf_matcher *m = NULL;
    struct lf_buf text;
    lf_buf_init(&text, 1 << 16);
    LF_ASSERT(lf_matcher_create(&m, g, fuzz_vocabulary(), NULL) == LF_OK);
    for (int step = 0; step < FUZZ_STEPS_N && !fuzz_is_late(work); step++) {
        seed = lf_mix64(seed);
        int token = fuzz_next_token(m, seed, may_stick);
        if (token < 0 || token == FUZZ_END) break;
        enum lf_status status = lf_matcher_accept(m, token);
        if (status == LF_LIMIT) break;
        LF_ASSERT(status == LF_OK);
        lf_buf_str(&text, token < 256 ? lf_str_from(&(char){(char)token}, 1) : lf_str_c(fuzz_pieces[token - 256]));
        if (lf_matcher_is_complete(m)) whole(ctx, lf_buf_view(&text));
    }
    lf_matcher_destroy(m);
    lf_buf_deinit(&text);
}

#endif
