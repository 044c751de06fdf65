/* Which graphs there are, and which one a batch gets. */
#include "tests/support/test.h"

#include "model/graphs.h"

enum { SEQS = 300 };

static char addresses[LF_GRAPHS_N]; /* graphs are told apart by their address; nobody looks inside */

static struct lf_graph *graph_at(int i)
{
    return (struct lf_graph *)(void *)&addresses[i];
}

static struct lf_graphs graphs_up_to(int most)
{
    struct lf_graphs graphs = {0};
    int sizes[LF_GRAPHS_N], n = lf_graph_sizes(sizes, most);
    for (int i = 0; i < n; i++) lf_graphs_add(&graphs, graph_at(i), sizes[i]);
    return graphs;
}

/* A decode step of n sequences. */
static struct lf_batch decode_step(struct lf_kv_seq *seqs, int n)
{
    for (int i = 0; i < n; i++)
        seqs[i] = (struct lf_kv_seq){.first_token = i, .n_tokens = 1, .kv_len = 10 + i, .is_decode = true};
    return (struct lf_batch){.seqs = seqs, .n_seqs = n, .n_tokens = n, .n_out = n};
}

static void sizes_end_with_the_most_there_can_be(void **state)
{
    (void)state;
    for (int most = 1; most <= SEQS; most++) {
        int sizes[LF_GRAPHS_N], n = lf_graph_sizes(sizes, most);
        assert_in_range(n, 1, LF_GRAPHS_N);
        assert_int_equal(sizes[0], 1);
        for (int i = 1; i < n; i++) assert_true(sizes[i] > sizes[i - 1] && sizes[i] <= 2 * sizes[i - 1]);
        assert_int_equal(sizes[n - 1], most < LF_GRAPH_TOKENS ? most : LF_GRAPH_TOKENS);
    }
}

static void a_decode_step_gets_the_smallest_graph_that_holds_it(void **state)
{
    (void)state;
    static struct lf_kv_seq seqs[SEQS];
    for (int most = 1; most <= SEQS; most += 7) {
        struct lf_graphs graphs = graphs_up_to(most), others = {0};
        for (int n = 1; n <= SEQS; n++) {
            struct lf_batch batch = decode_step(seqs, n);
            int expected = 0;
            while (expected < graphs.n && graphs.of[expected].n_tokens < n) expected++;
            assert_ptr_equal(lf_graphs_find(&graphs, &others, &batch), expected < graphs.n ? graph_at(expected) : NULL);
            assert_int_equal(expected < graphs.n, n <= most && n <= LF_GRAPH_TOKENS);
            if (expected < graphs.n) assert_true(2 * graphs.of[expected].n_tokens < 3 * n);
        }
    }
}

static void other_steps_get_none(void **state)
{
    (void)state;
    static struct lf_kv_seq seqs[SEQS];
    struct lf_graphs graphs = graphs_up_to(64), others = graphs_up_to(16), none = {0};
    struct lf_batch batch = decode_step(seqs, 5);
    assert_non_null(lf_graphs_find(&graphs, &others, &batch));
    assert_null(lf_graphs_find(&none, &none, &batch)); /* a device without graphs */
    batch.n_out = 4;                                   /* a token whose logits nobody wants */
    assert_null(lf_graphs_find(&graphs, &others, &batch));
    batch = decode_step(seqs, 5);
    seqs[3].is_decode = false; /* the last token of a prompt */
    assert_null(lf_graphs_find(&graphs, &others, &batch));
}

/* What is tried beside a sequence's token is a token of it. */
static void several_tokens_a_sequence_have_graphs_of_their_own(void **state)
{
    (void)state;
    static struct lf_kv_seq seqs[SEQS];
    struct lf_graphs one = graphs_up_to(64), several = {0};
    int sizes[LF_GRAPHS_N], n = lf_graph_sizes(sizes, 16);
    for (int i = 1; i < n; i++) lf_graphs_add(&several, graph_at(LF_GRAPHS_N - i), sizes[i]);
    for (int n_more = 1; n_more <= 16; n_more++) {
        struct lf_batch batch = decode_step(seqs, 3);
        int expected = 1;
        seqs[1].n_tokens += n_more;
        batch.n_tokens = batch.n_out = 3 + n_more;
        while (expected < n && sizes[expected] < batch.n_tokens) expected++;
        assert_ptr_equal(lf_graphs_find(&one, &several, &batch),
                         expected < n ? graph_at(LF_GRAPHS_N - expected) : NULL);
        batch.n_out--; /* not all are wanted: a prompt's */
        assert_null(lf_graphs_find(&one, &several, &batch));
        batch.n_out++;
        seqs[1].is_decode = false;
        assert_null(lf_graphs_find(&one, &several, &batch));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_end_with_the_most_there_can_be),
                                       cmocka_unit_test(a_decode_step_gets_the_smallest_graph_that_holds_it),
                                       cmocka_unit_test(other_steps_get_none),
                                       cmocka_unit_test(several_tokens_a_sequence_have_graphs_of_their_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
