/* grammar/walk_cache.c: matchers of several threads share a vocabulary, whose memory of walks is too small for them,
 * and each gets the masks that it gets alone. For the thread sanitizer, too. */
#include <pthread.h>

#include "core/mix.h"
#include "tests/unit/grammar/rig.h"

enum { THREADS_N = 4, TOKENS_N = 3000, ANSWERS_N = 12, STEPS_N = 40, WORDS_N = (TOKENS_N + 31) / 32 };

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"}},\"required\":["
    "\"a\"]}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":9}}",
    "{\"type\":\"string\",\"pattern\":\"^[a-m]{2,40}n*$\"}",
};

struct worker {
    pthread_t thread;
    struct lf_vocabulary *vocabulary;
    struct lf_grammar *grammars[3]; /* each thread refers to them, and drops them */
    uint64_t hash;                  /* of all masks */
    bool failed;
};

static struct lf_vocabulary *vocabulary_of_words(size_t cache_bytes)
{
    static char bytes[TOKENS_N][6];
    static struct lf_str tokens[TOKENS_N];
    static const char letters[] = "\"\":,{}[]abcdefghijklmn019 ";
    struct lf_vocabulary *v = NULL;
    int32_t end = TOKENS_N - 1;
    uint64_t seed = 1;
    for (int i = 0; i < TOKENS_N; i++) {
        seed = lf_mix64(seed);
        size_t len = i < 256 ? 1 : 2 + seed % 5;
        for (size_t k = 0; k < len; k++) bytes[i][k] = letters[(seed >> (8 + 5 * k)) % (sizeof letters - 1)];
        if (i < 256) bytes[i][0] = (char)i;
        tokens[i] = lf_str_from(bytes[i], len);
    }
    assert_int_equal(lf_vocabulary_create(&v, tokens, TOKENS_N, &end, 1, cache_bytes, NULL), LF_OK);
    return v;
}

/* One answer drawn by its masks, which are hashed. */
static bool draw(struct worker *w, const struct lf_grammar *g, uint64_t seed)
{
    uint32_t mask[WORDS_N], n_allowed;
    struct lf_matcher *m = NULL;
    bool going = lf_matcher_create(&m, g, w->vocabulary, NULL) == LF_OK, fine = going;
    for (int step = 0; step < STEPS_N && going; step++) {
        fine = lf_matcher_mask(m, mask, &n_allowed) == LF_OK && n_allowed > 0;
        for (int i = 0; i < WORDS_N; i++) w->hash = lf_mix64(w->hash ^ mask[i]);
        seed = lf_mix64(seed);
        int32_t token = (int32_t)(seed % TOKENS_N);
        while (fine && !(mask[token / 32] >> token % 32 & 1)) token = (token + 1) % TOKENS_N;
        fine = fine && lf_matcher_accept(m, token) == LF_OK;
        going = fine && token != TOKENS_N - 1;
    }
    lf_matcher_destroy(m);
    return fine;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (uint64_t i = 0; i < ANSWERS_N && !w->failed; i++) w->failed = !draw(w, w->grammars[i % 3], i);
    for (int i = 0; i < 3; i++) lf_grammar_unref(w->grammars[i]);
    return NULL;
}

static void threads_get_the_masks_that_one_gets_alone(void **state)
{
    (void)state;
    struct lf_grammar *grammars[3];
    for (int i = 0; i < 3; i++) grammars[i] = grammar_of(schemas[i], NULL);
    for (size_t cache_bytes = 1 << 12; cache_bytes <= 1 << 20; cache_bytes <<= 4) {
        struct lf_vocabulary *v = vocabulary_of_words(cache_bytes), *own = vocabulary_of_words(cache_bytes);
        struct worker alone = {.vocabulary = own}, workers[THREADS_N];
        for (int k = 0; k < 3; k++) alone.grammars[k] = lf_grammar_ref(grammars[k]);
        work(&alone);
        assert_false(alone.failed);
        for (int i = 0; i < THREADS_N; i++) {
            workers[i] = (struct worker){.vocabulary = v};
            for (int k = 0; k < 3; k++) workers[i].grammars[k] = lf_grammar_ref(grammars[k]);
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS_N; i++) {
            assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
            assert_false(workers[i].failed);
            assert_true(workers[i].hash == alone.hash);
        }
        lf_vocabulary_destroy(v);
        lf_vocabulary_destroy(own);
    }
    for (int i = 0; i < 3; i++) lf_grammar_unref(grammars[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_get_the_masks_that_one_gets_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
