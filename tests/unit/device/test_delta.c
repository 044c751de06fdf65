/* Steps of gated delta nets: what is cut into chunks, and where. */
#include <stdlib.h>

#include "tests/support/test.h"

#include "core/check.h"
#include "core/mix.h"
#include "device/delta.h"

enum { MAX_TOKENS = 4096, MAX_SEQS = 32 };

/* Lists of exactly the size that the header names, so that a sanitizer sees what is written behind them. */
struct lists {
    struct lf_state_arrays arrays;
    int most_chunks, most_long;
};

static uint64_t draw(uint64_t *seed)
{
    return lf_mix64(++*seed);
}

static void *list(int n, size_t bytes)
{
    void *p = calloc((size_t)n + 1, bytes);
    assert_non_null(p);
    return p;
}

static struct lists lists_make(int n_tokens, int n_seqs)
{
    struct lists l = {.most_chunks = lf_state_most_chunks(n_tokens, n_seqs),
                      .most_long = lf_state_most_long(n_tokens, n_seqs)};
    l.arrays.chunks = list(l.most_chunks, sizeof *l.arrays.chunks);
    l.arrays.long_seqs = list(l.most_long, sizeof(int32_t));
    l.arrays.first_chunks = list(l.most_long, sizeof(int32_t));
    return l;
}

static void lists_free(struct lists *l)
{
    free(l->arrays.chunks);
    free(l->arrays.long_seqs);
    free(l->arrays.first_chunks);
}

static void chunks_end_at_multiples_of_64_in_the_sequence(void **state)
{
    (void)state;
    const struct lf_state_seq seqs[] = {
        {.first_token = 0, .n_tokens = 130, .position = 60, .in = 1, .out = 2},
        {.first_token = 130, .n_tokens = LF_DELTA_SHORT_TOKENS, .position = 60},
        {.first_token = 146, .n_tokens = 0, .position = 0},
        {.first_token = 146, .n_tokens = LF_DELTA_SHORT_TOKENS + 1, .position = 128},
    };
    static const struct lf_state_chunk expected[] = {{0, 0, 4}, {0, 4, 64}, {0, 68, 62}, {3, 146, 17}};
    struct lists l = lists_make(163, 4);
    struct lf_state_step step;
    lf_state_step_make(&step, &l.arrays, seqs, 4, NULL);
    assert_ptr_equal(step.seqs, seqs);
    assert_int_equal(step.n_seqs, 4);
    assert_int_equal(step.n_long, 2);
    assert_int_equal(step.n_chunks, LF_N_ELEMS(expected));
    assert_memory_equal(step.chunks, expected, sizeof expected);
    static const int32_t long_seqs[] = {0, 3}, first_chunks[] = {0, 3, 4};
    assert_memory_equal(step.long_seqs, long_seqs, sizeof long_seqs);
    assert_memory_equal(step.first_chunks, first_chunks, sizeof first_chunks);
    lists_free(&l);
}

static void a_step_of_short_sequences_has_no_chunks(void **state)
{
    (void)state;
    struct lf_state_seq seqs[MAX_SEQS];
    for (int i = 0; i < MAX_SEQS; i++)
        seqs[i] = (struct lf_state_seq){.first_token = i, .n_tokens = i % 3 != 0, .position = 64 * i + i};
    struct lists l = lists_make(MAX_SEQS, MAX_SEQS);
    struct lf_state_step step;
    lf_state_step_make(&step, &l.arrays, seqs, MAX_SEQS, NULL);
    assert_int_equal(step.n_chunks, 0);
    assert_int_equal(step.n_long, 0);
    assert_int_equal(step.first_chunks[0], 0);
    lists_free(&l);
}

/* The most that the header names is reached, and never passed. */
static void lists_of_the_named_sizes_are_enough(void **state)
{
    (void)state;
    uint64_t seed = 7;
    int fullest = 0;
    for (int round = 0; round < 3000; round++) {
        struct lf_state_seq seqs[MAX_SEQS];
        int n_seqs = 1 + (int)(draw(&seed) % MAX_SEQS), n_tokens = 0;
        for (int i = 0; i < n_seqs; i++) {
            int n = (int)(draw(&seed) % (round % 2 == 0 ? MAX_TOKENS / MAX_SEQS : 67));
            if (round % 3 == 0) n = 66; /* two lone tokens beside a chunk: the worst */
            seqs[i] = (struct lf_state_seq){
                .first_token = n_tokens, .n_tokens = n, .position = round % 3 == 0 ? 63 : (int)(draw(&seed) % 200)};
            n_tokens += n;
        }
        struct lists l = lists_make(n_tokens, n_seqs);
        struct lf_state_step step;
        lf_state_step_make(&step, &l.arrays, seqs, n_seqs, NULL);
        assert_in_range(step.n_chunks, 0, l.most_chunks);
        assert_in_range(step.n_long, 0, l.most_long);
        fullest += step.n_chunks == l.most_chunks && step.n_long == l.most_long;
        int covered = 0;
        for (int c = 0; c < step.n_chunks; c++) {
            const struct lf_state_chunk *chunk = &step.chunks[c];
            const struct lf_state_seq *seq = &seqs[chunk->seq];
            int position = seq->position + chunk->first_token - seq->first_token;
            assert_in_range(chunk->n_tokens, 1, LF_DELTA_CHUNK);
            assert_int_equal(position / LF_DELTA_CHUNK, (position + chunk->n_tokens - 1) / LF_DELTA_CHUNK);
            covered += chunk->n_tokens;
        }
        for (int i = 0; i < n_seqs; i++)
            if (seqs[i].n_tokens > LF_DELTA_SHORT_TOKENS) covered -= seqs[i].n_tokens;
        assert_int_equal(covered, 0);
        lists_free(&l);
    }
    assert_true(fullest > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_end_at_multiples_of_64_in_the_sequence),
        cmocka_unit_test(a_step_of_short_sequences_has_no_chunks),
        cmocka_unit_test(lists_of_the_named_sizes_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
