/* A step as ranks tell it to each other: what arrives is what was said, and no message is longer than the longest. */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/batch_message.h"
#include "tests/support/test.h"

enum {
    CHUNK = 300,
    MAX_SEQS = 3,
    MAX_OUT = 5,
    CTX = 1000,
    STRIDE = 20,
    GROUPS_N = 2,
    MARKS_N = 2 * MAX_SEQS + 64,
    N_BLOCKS = 3000
};

static struct lf_step_limits limits = {.ctx = CTX, .chunk = CHUNK, .max_seqs = MAX_SEQS, .max_out = MAX_OUT};

struct step {
    int32_t ids[CHUNK], logits_idx[MAX_OUT], tables[MAX_SEQS][GROUPS_N * STRIDE];
    struct lf_kv_seq seqs[MAX_SEQS];
    struct lf_state_seq states[MAX_SEQS];
    struct lf_state_mark marks[MARKS_N];
    struct lf_batch batch;
};

/* Sequences of the given tokens behind which kv_len keys lie; tables are longer than these need. */
static void make_step(struct step *s, int n_seqs, const int *n_tokens, const int *kv_len, int n_out)
{
    memset(s, 0, sizeof(*s));
    s->batch = (struct lf_batch){.ids = s->ids, .seqs = s->seqs, .n_seqs = n_seqs, .logits_idx = s->logits_idx};
    for (int i = 0; i < n_seqs; i++) {
        s->seqs[i] = (struct lf_kv_seq){.blocks = s->tables[i],
                                        .table_stride = STRIDE,
                                        .first_token = s->batch.n_tokens,
                                        .n_tokens = n_tokens[i],
                                        .kv_len = kv_len[i],
                                        .is_decode = i % 2 == 1};
        for (int k = 0; k < GROUPS_N * STRIDE; k++) s->tables[i][k] = 1000 * i + k;
        s->batch.n_tokens += n_tokens[i];
    }
    for (int i = 0; i < s->batch.n_tokens; i++) s->ids[i] = i % 7 == 0 ? -1 - i : i;
    for (int i = 0; i < n_out; i++) s->logits_idx[i] = 2 * i;
    s->batch.n_out = n_out;
}

static void check_seq(const struct lf_kv_seq *got, const struct lf_kv_seq *said, int n_groups)
{
    int n_tokens = lf_kv_block_tokens(limits.n_cp), n_blocks = (said->kv_len + n_tokens - 1) / n_tokens;
    assert_int_equal(got->first_token, said->first_token);
    assert_int_equal(got->n_tokens, said->n_tokens);
    assert_int_equal(got->kv_len, said->kv_len);
    assert_int_equal(got->is_decode, said->is_decode);
    for (int g = 0; g < n_groups; g++)
        assert_memory_equal(got->blocks + g * got->table_stride, said->blocks + g * said->table_stride,
                            (size_t)n_blocks * sizeof(*got->blocks));
}

/* Says it and hears it; returns its words. */
static size_t pass_on(const struct step *s, const struct lf_kv_layout *layout)
{
    enum { GUARD = 0x5a5a5a5a };
    struct lf_batch got;
    struct lf_kv_seq seqs[MAX_SEQS];
    size_t most = lf_batch_message_words(&limits, layout);
    int32_t *words = malloc((most + 1) * sizeof(*words));
    assert_non_null(words);
    words[most] = GUARD;
    size_t n = lf_batch_pack(words, &s->batch, &limits, layout);
    assert_true(n <= most && words[most] == GUARD);
    lf_batch_unpack(&got, seqs, words, n, &limits, layout, N_BLOCKS);
    assert_int_equal(got.n_tokens, s->batch.n_tokens);
    assert_int_equal(got.n_seqs, s->batch.n_seqs);
    assert_int_equal(got.n_out, s->batch.n_out);
    assert_memory_equal(got.ids, s->ids, (size_t)s->batch.n_tokens * sizeof(*s->ids));
    assert_memory_equal(got.logits_idx, s->logits_idx, (size_t)s->batch.n_out * sizeof(*s->logits_idx));
    for (int i = 0; i < s->batch.n_seqs; i++) check_seq(&got.seqs[i], &s->seqs[i], layout->n_groups);
    if (layout->states.n_layers > 0) {
        assert_int_equal(got.n_marks, s->batch.n_marks);
        assert_memory_equal(got.states, s->states, (size_t)s->batch.n_seqs * sizeof(*s->states));
        assert_memory_equal(got.marks, s->marks, (size_t)s->batch.n_marks * sizeof(*s->marks));
    }
    free(words);
    return n;
}

static void what_arrives_is_what_was_said(void **state)
{
    (void)state;
    struct step s;
    const struct lf_kv_layout one = {.n_groups = 1}, two = {.n_groups = GROUPS_N};
    make_step(&s, 3, (int[]){1, 64, 2}, (int[]){1, 64, 129}, 4);
    /* counts, ids, places of logits; of each sequence its counts and 1, 1 and 3 blocks, and no table is read further */
    assert_int_equal(pass_on(&s, &one), 4 + 67 + 4 + 3 * 3 + 5);
    assert_int_equal(pass_on(&s, &two), 4 + 67 + 4 + 3 * 3 + 2 * 5);
    make_step(&s, 1, (int[]){100}, (int[]){900}, 0); /* nobody's logits */
    pass_on(&s, &two);
}

/* Tables are shorter where contexts are divided. */
static void blocks_of_divided_contexts_stand_for_more_tokens(void **state)
{
    (void)state;
    struct step s;
    size_t n[4];
    const struct lf_kv_layout two = {.n_groups = GROUPS_N};
    make_step(&s, MAX_SEQS, (int[]){CHUNK - 2, 1, 1}, (int[]){CTX, CTX, CTX}, MAX_OUT);
    for (limits.n_cp = 0; limits.n_cp < 4; limits.n_cp++) {
        n[limits.n_cp] = pass_on(&s, &two);
        assert_int_equal(n[limits.n_cp], lf_batch_message_words(&limits, &two));
    }
    limits.n_cp = 0;
    assert_int_equal(n[1], n[0]);
    assert_int_equal(n[0] - n[2], MAX_SEQS * GROUPS_N * (16 - 8)); /* blocks of 1000 tokens */
    assert_int_equal(n[0] - n[3], MAX_SEQS * GROUPS_N * (16 - 6));
}

/* Bytes that no two places have in common go along as states and marks. */
static void add_states(struct step *s, int n_marks)
{
    for (size_t i = 0; i < sizeof(s->states); i++) ((unsigned char *)s->states)[i] = (unsigned char)(i * 37);
    for (size_t i = 0; i < sizeof(s->marks); i++) ((unsigned char *)s->marks)[i] = (unsigned char)(i * 53);
    s->batch.states = s->states;
    s->batch.marks = s->marks;
    s->batch.n_marks = n_marks;
}

static const struct lf_kv_layout with_states = {.n_groups = 1, .states = {.n_layers = 2}};

static void states_go_along(void **state)
{
    (void)state;
    struct step s;
    make_step(&s, 2, (int[]){5, 1}, (int[]){70, 300}, 2);
    add_states(&s, 2);
    pass_on(&s, &with_states);
}

static void the_longest_has_as_many_words_as_are_reserved(void **state)
{
    (void)state;
    struct step s;
    const struct lf_kv_layout two = {.n_groups = GROUPS_N};
    make_step(&s, MAX_SEQS, (int[]){CHUNK - 2, 1, 1}, (int[]){CTX, CTX, CTX}, MAX_OUT);
    assert_int_equal(pass_on(&s, &two), lf_batch_message_words(&limits, &two));
    assert_int_equal(lf_batch_n_marks(MAX_SEQS), MARKS_N);
    add_states(&s, MARKS_N);
    assert_int_equal(pass_on(&s, &with_states), lf_batch_message_words(&limits, &with_states));
}

/* Whether reading these words ends the process. */
static bool ends_who_reads(const int32_t *words, size_t n, const struct lf_kv_layout *layout)
{
    int how = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        struct lf_batch got;
        struct lf_kv_seq seqs[MAX_SEQS];
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO); /* what it says is no part of the test's output */
        lf_batch_unpack(&got, seqs, words, n, &limits, layout, N_BLOCKS);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

static void what_is_no_step_ends_who_reads_it(void **state)
{
    (void)state;
    struct step s;
    const struct lf_kv_layout two = {.n_groups = GROUPS_N};
    int32_t words[64];
    make_step(&s, 1, (int[]){2}, (int[]){70}, 1); /* 4 counts, 2 ids, a place; 3 counts and 2 · 2 blocks */
    size_t n = lf_batch_pack(words, &s.batch, &limits, &two);
    assert_int_equal(n, 14);
    assert_false(ends_who_reads(words, n, &two));
    assert_true(ends_who_reads(words, n - 1, &two));
    const struct {
        int at, word;
    } wrong[] = {{13, N_BLOCKS}, {13, -1}, {10, N_BLOCKS}, {8, CTX + 1}, {8, 0}, {0, 100}, {1, MAX_SEQS + 1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int32_t right = words[wrong[i].at];
        words[wrong[i].at] = wrong[i].word;
        if (!ends_who_reads(words, n, &two)) fail_msg("word %d of %d is taken", wrong[i].at, wrong[i].word);
        words[wrong[i].at] = right;
    }
    words[13] = N_BLOCKS - 1;
    assert_false(ends_who_reads(words, n, &two));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_arrives_is_what_was_said),
        cmocka_unit_test(states_go_along),
        cmocka_unit_test(what_is_no_step_ends_who_reads_it),
        cmocka_unit_test(blocks_of_divided_contexts_stand_for_more_tokens),
        cmocka_unit_test(the_longest_has_as_many_words_as_are_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
