#include "tests/support/test.h"

#include "server/engine/batch_build.h"

/* A prefill chunk in the middle, the end of another one, a decode and an echo: ids, positions and logits rows line up.
 */
static void a_step_becomes_tokens_tables_and_logits_rows_in_order(void **state)
{
    (void)state;
    int32_t ids[4][8], tables[4][1] = {{3}, {1}, {2}, {0}};
    struct lf_sched_seq seqs[4];
    memset(seqs, 0, sizeof(seqs));
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < 8; i++) ids[s][i] = 10 * s + i;
        seqs[s].ids = ids[s];
        seqs[s].blocks = tables[s];
    }
    seqs[1].n_done = 2;
    seqs[2].n_done = 5;
    struct lf_sched_item items[] = {{.seq = &seqs[0], .n_tokens = 3, .out_first = 3},
                                    {.seq = &seqs[1], .n_tokens = 4, .out_first = 3, .n_out = 1},
                                    {.seq = &seqs[2], .n_tokens = 1, .n_out = 1},
                                    {.seq = &seqs[3], .n_tokens = 3, .n_out = 2}};
    struct lf_sched_step step = {.items = items, .n_items = 4, .n_tokens = 11, .n_out = 4};
    int32_t batch_ids[11], logits_idx[4];
    struct lf_kv_seq kv_seqs[4];
    struct lf_batch_arrays arrays = {batch_ids, kv_seqs, logits_idx, NULL, NULL};
    struct lf_batch batch;
    lf_batch_build(&batch, &arrays, &step);

    const int32_t expected_ids[11] = {0, 1, 2, 12, 13, 14, 15, 25, 30, 31, 32}, expected_out[4] = {6, 7, 8, 9};
    const int first_tokens[4] = {0, 3, 7, 8}, n_tokens[4] = {3, 4, 1, 3}, kv_lens[4] = {3, 6, 6, 3};
    assert_int_equal(batch.n_tokens, 11);
    assert_int_equal(batch.n_seqs, 4);
    assert_int_equal(batch.n_out, 4);
    assert_memory_equal(batch.ids, expected_ids, sizeof(expected_ids));
    assert_memory_equal(batch.logits_idx, expected_out, sizeof(expected_out));
    for (int s = 0; s < 4; s++) {
        assert_ptr_equal(batch.seqs[s].blocks, tables[s]);
        assert_int_equal(batch.seqs[s].first_token, first_tokens[s]);
        assert_int_equal(batch.seqs[s].n_tokens, n_tokens[s]);
        assert_int_equal(batch.seqs[s].kv_len, kv_lens[s]);
    }
}

/* A decode is one token behind the prompt: what is proposed beside it makes a chunk of it, which is computed as one. */
static void what_is_proposed_makes_a_chunk(void **state)
{
    (void)state;
    int32_t ids[3][12], table[1] = {0}, batch_ids[6], logits_idx[5];
    struct lf_sched_seq seqs[3];
    memset(seqs, 0, sizeof(seqs));
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < 12; i++) ids[s][i] = 20 * s + i;
        seqs[s].ids = ids[s];
        seqs[s].blocks = table;
        seqs[s].n_prompt = 5;
        seqs[s].n_done = s == 0 ? 4 : 5 + s;
        seqs[s].n_ids = s == 0 ? 5 : 6 + s;
    }
    struct lf_sched_item items[] = {{.seq = &seqs[0], .n_tokens = 1, .out_first = 1},
                                    {.seq = &seqs[1], .n_tokens = 1, .n_out = 1},
                                    {.seq = &seqs[2], .n_tokens = 4, .n_out = 4, .n_proposed = 3}};
    struct lf_sched_step step = {.items = items, .n_items = 3, .n_tokens = 6, .n_out = 5, .n_proposed = 3};
    struct lf_kv_seq kv_seqs[3];
    struct lf_batch_arrays arrays = {batch_ids, kv_seqs, logits_idx, NULL, NULL};
    struct lf_batch batch;
    lf_batch_build(&batch, &arrays, &step);
    const int32_t expected_ids[6] = {4, 26, 47, 48, 49, 50}, expected_out[5] = {1, 2, 3, 4, 5};
    const bool is_decode[3] = {false, true, true};
    const int kv_lens[3] = {5, 7, 11};
    assert_memory_equal(batch.ids, expected_ids, sizeof(expected_ids));
    assert_memory_equal(batch.logits_idx, expected_out, sizeof(expected_out));
    for (int s = 0; s < 3; s++) {
        assert_int_equal(batch.seqs[s].is_decode, is_decode[s]);
        assert_int_equal(batch.seqs[s].kv_len, kv_lens[s]);
    }
}

/* What the items do with states, in their order, and the marks of all. */
static void states_and_marks_go_with_their_sequences(void **state)
{
    (void)state;
    int32_t ids[128] = {0}, table[2] = {0}, batch_ids[200], logits_idx[2];
    struct lf_sched_seq seqs[2];
    memset(seqs, 0, sizeof(seqs));
    for (int s = 0; s < 2; s++) {
        seqs[s].ids = ids;
        seqs[s].blocks = table;
    }
    seqs[1].n_done = 60;
    struct lf_sched_item items[] = {
        {.seq = &seqs[0], .n_tokens = 128, .state = {.n_tokens = 128, .in = -1, .out = 4, .n_marks = 2}},
        {.seq = &seqs[1],
         .n_tokens = 4,
         .state = {.n_tokens = 4, .position = 60, .in = 7, .out = 2, .first_mark = 2, .n_marks = 1}}};
    struct lf_state_mark marks[] = {{64, 9}, {128, 8}, {4, 6}};
    struct lf_sched_step step = {.items = items, .n_items = 2, .n_tokens = 132, .marks = marks, .n_marks = 3};
    struct lf_kv_seq kv_seqs[2];
    struct lf_state_seq states[2];
    struct lf_batch_arrays arrays = {batch_ids, kv_seqs, logits_idx, NULL, states};
    struct lf_batch batch;
    lf_batch_build(&batch, &arrays, &step);
    const struct lf_state_seq expected[2] = {
        {.n_tokens = 128, .in = -1, .out = 4, .n_marks = 2},
        {.first_token = 128, .n_tokens = 4, .position = 60, .in = 7, .out = 2, .first_mark = 2, .n_marks = 1}};
    assert_ptr_equal(batch.states, states);
    assert_memory_equal(batch.states, expected, sizeof(expected));
    assert_int_equal(batch.n_marks, 3);
    assert_memory_equal(batch.marks, marks, sizeof(marks));
    arrays.states = NULL; /* a model without */
    lf_batch_build(&batch, &arrays, &step);
    assert_true(!batch.states && !batch.marks && batch.n_marks == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_becomes_tokens_tables_and_logits_rows_in_order),
                                       cmocka_unit_test(what_is_proposed_makes_a_chunk),
                                       cmocka_unit_test(states_and_marks_go_with_their_sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
