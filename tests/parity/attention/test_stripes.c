/* Attention over stripes of a cache: each alone and all of them combined against float64, for every kernel this machine
 * can run. */
#include <math.h>

#include "attn_case.h"
#include "core/check.h"
#include "tests/support/test.h"

static const enum lf_dtype TYPES[] = {LF_F32, LF_BF16, LF_E4M3};

/* New tokens and length: decode and chunks around the ends of pages, blocks, tiles and splits. */
static const int LENGTHS[][2] = {{1, 1},      {1, 64},   {1, 65},    {1, 129},  {3, 130},
                                 {64, 64},    {65, 200}, {128, 128}, {1, 1025}, {300, 900},
                                 {700, 1030}, {1, 5000}, {17, 4100}, {5, 8197}, {129, 2177}};

static struct attn_case case_of(size_t turn, const int *length)
{
    static const int dims[] = {64, 128, 80, 24}, windows[] = {0, 1, 100, 1024}, heads[][2] = {{4, 2}, {7, 1}, {2, 2}};
    return (struct attn_case){.head_dim = dims[turn % 4],
                              .n_heads = heads[turn % 3][0],
                              .n_kv_heads = heads[turn % 3][1],
                              .dtype = TYPES[turn / 2 % LF_N_ELEMS(TYPES)],
                              .n_seqs = 1,
                              .n_rows = {length[0]},
                              .kv_len = {length[1]},
                              .window = windows[turn / 3 % 4],
                              .softcap = turn % 5 == 4 ? 30.0f : 0.0f,
                              .sinks = turn % 3 == 1,
                              .seed = 900 + turn};
}

static void stripes_combined_are_attention_over_all_keys(void **state)
{
    struct lf_device *dev = *state;
    static const int n_stripes[] = {2, 3, 4, 16};
    size_t turn = 0;
    for (size_t len = 0; len < LF_N_ELEMS(LENGTHS); len++)
        for (size_t n = 0; n < LF_N_ELEMS(n_stripes); n++, turn++)
            for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++) {
                struct attn_case c = case_of(turn, LENGTHS[len]);
                attn_check_stripes(dev, &c, (enum lf_isa)isa, n_stripes[n], 40);
            }
}

static void a_stripe_is_attention_over_its_keys(void **state)
{
    struct lf_device *dev = *state;
    for (size_t turn = 0; turn < 40; turn++)
        for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++) {
            struct attn_case c = case_of(turn, LENGTHS[turn % 2 ? 9 : 10]);
            int n = 2 + (int)turn % 3;
            c.stripe = (struct lf_kv_stripe){.idx = (int)(turn / 3) % n, .n = n};
            attn_check(dev, &c, (enum lf_isa)isa, 60);
        }
}

/* Sequences of different lengths in one step, with blocks that they share. */
static void stripes_of_a_batch_combine_too(void **state)
{
    struct lf_device *dev = *state;
    for (int turn = 0; turn < 6; turn++)
        for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++) {
            struct attn_case c = case_of((size_t)turn, LENGTHS[0]);
            const int rows[] = {1, 200, 1, 5, 33}, lens[] = {2100, 700, 65, 515, 600};
            c.n_seqs = (int)LF_N_ELEMS(rows);
            memcpy(c.n_rows, rows, sizeof(rows));
            memcpy(c.kv_len, lens, sizeof(lens));
            attn_check_stripes(dev, &c, (enum lf_isa)isa, 2 + turn % 3, 60);
        }
}

/* Positions 0 to 63 see nothing of stripe 1, and with a window of 10 positions 74 to 127 nothing of stripe 0. */
static void expect_nothing_seen(struct lf_device *dev, enum lf_isa isa, struct lf_kv_stripe stripe, bool sinks,
                                int from, int to)
{
    struct attn_case c = {.head_dim = 64,
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .dtype = LF_BF16,
                          .n_seqs = 1,
                          .n_rows = {128},
                          .kv_len = {128},
                          .window = 10,
                          .sinks = sinks,
                          .stripe = stripe,
                          .seed = 5};
    struct attn_data d;
    attn_data_init(&d, dev, &c);
    attn_data_run(&d, isa);
    for (int row = 0; row < 128; row++)
        for (int head = 0; head < 2; head++) {
            const float *out = attn_out_row(&d, 0, row, head);
            float lse = d.lse[row * 2 + head], none = sinks ? d.sinks[head] : -INFINITY, sum = 0;
            bool sees = row < from || row > to;
            for (int i = 0; i < c.head_dim; i++) sum += fabsf(out[i]);
            assert_true((lse == none) == !sees);
            assert_true((sum == 0.0f) == !sees);
            assert_true(isfinite(sum) && !isnan(lse));
        }
    attn_data_deinit(&d);
}

static void a_row_that_sees_no_key_of_a_stripe_counts_nothing(void **state)
{
    struct lf_device *dev = *state;
    for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++)
        for (int sinks = 0; sinks < 2; sinks++) {
            expect_nothing_seen(dev, (enum lf_isa)isa, (struct lf_kv_stripe){0, 2}, sinks, 73, 127);
            expect_nothing_seen(dev, (enum lf_isa)isa, (struct lf_kv_stripe){1, 2}, sinks, 0, 63);
            expect_nothing_seen(dev, (enum lf_isa)isa, (struct lf_kv_stripe){2, 3}, sinks, 0, 127);
        }
}

static int open_device(void **state)
{
    *state = attn_test_device(3);
    return 0;
}

static int close_device(void **state)
{
    lf_device_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stripes_combined_are_attention_over_all_keys),
        cmocka_unit_test(a_stripe_is_attention_over_its_keys),
        cmocka_unit_test(stripes_of_a_batch_combine_too),
        cmocka_unit_test(a_row_that_sees_no_key_of_a_stripe_counts_nothing),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
