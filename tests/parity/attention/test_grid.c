/* Every attention kernel this machine can run against float64, over the grid of shapes attention is used with. */
#include <math.h>

#include "attn_case.h"
#include "core/check.h"
#include "tests/support/test.h"

static bool full; /* --full: the whole product */

static const int LENGTHS[][2] = {{1, 1},     {1, 128},     {1, 339},     {3, 799},     {16, 20000},
                                 {64, 128},  {113, 203},   {108, 256},   {239, 239},   {256, 512},
                                 {799, 799}, {1023, 1024}, {1024, 1024}, {2048, 3577}, {4224, 4224}};
static const int DIMS[] = {64, 80, 96, 128, 256, 32};
static const int ODD_DIMS[] = {8, 16, 24, 40, 72, 136, 192, 200, 264, 512};
static const int HEADS[][2] = {{2, 2}, {4, 1}, {8, 1}, {7, 1}, {14, 2}, {4, 2}};
static const int WINDOWS[] = {0, 64, 4096};
enum { N_TYPES = 3 };
static const enum lf_dtype TYPES[N_TYPES] = {LF_F32, LF_BF16, LF_E4M3};
static const float SOFTCAPS[] = {0.0f, 30.0f};

static void for_each_isa(struct lf_device *dev, const struct attn_case *c, int n_samples)
{
    for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++) {
        int64_t work = 0;
        for (int i = 0; i < c->n_seqs; i++) work += (int64_t)c->n_rows[i] * c->kv_len[i] * c->n_heads * c->head_dim;
        if (isa == LF_ISA_C && work > (full ? 2000000000 : 400000000))
            continue; /* the plain C kernel only where it is quick */
        attn_check(dev, c, (enum lf_isa)isa, n_samples);
    }
}

/* The case, in its type and, where all, in the others. */
static void for_each_type(struct lf_device *dev, const struct attn_case *c, bool all, int n_samples)
{
    for (int i = 0; i < N_TYPES; i++) {
        struct attn_case typed = *c;
        typed.dtype = TYPES[i];
        if (all || typed.dtype == c->dtype) for_each_isa(dev, &typed, n_samples);
    }
}

static struct attn_case grid_case(size_t len, size_t dim, size_t heads, size_t window, size_t softcap, int dtype)
{
    return (struct attn_case){.head_dim = DIMS[dim],
                              .n_heads = HEADS[heads][0],
                              .n_kv_heads = HEADS[heads][1],
                              .dtype = TYPES[dtype],
                              .n_seqs = 1,
                              .n_rows = {LENGTHS[len][0]},
                              .kv_len = {LENGTHS[len][1]},
                              .window = WINDOWS[window],
                              .softcap = SOFTCAPS[softcap],
                              .sinks = (len + dim + heads) % 3 == 0,
                              .outliers = (len + dim) % 4 == 1,
                              .seed = 1 + len * 1000 + dim * 100 + heads * 10 + window};
}

/* Each length with each head_dim, the other choices taking turns; with --full all of them. */
static void grid_matches_float64(void **state)
{
    struct lf_device *dev = *state;
    size_t turn = 0;
    for (size_t len = 0; len < LF_N_ELEMS(LENGTHS); len++)
        for (size_t dim = 0; dim < LF_N_ELEMS(DIMS); dim++, turn++) {
            bool large = (int64_t)LENGTHS[len][0] * LENGTHS[len][1] > 1000000;
            if (!full && large && dim % 3 != len % 3) continue;
            if (!full) {
                struct attn_case c = grid_case(len, dim, turn % 6, turn / 2 % 3, turn % 4 == 3, (int)(turn % N_TYPES));
                for_each_type(dev, &c, !large, 48);
                continue;
            }
            for (size_t i = 0; i < 6 * 3 * 2 * N_TYPES; i++) {
                struct attn_case c = grid_case(len, dim, i % 6, i / 6 % 3, i / 18 % 2, (int)(i / 36));
                for_each_isa(dev, &c, 96);
            }
        }
}

/* Vectors, strips and tiles of every width end within these heads, or there are more of them than elsewhere. */
static void every_head_dim_matches_float64(void **state)
{
    size_t turn = 0;
    for (size_t dim = 0; dim < LF_N_ELEMS(ODD_DIMS); dim++)
        for (size_t len = 0; len < LF_N_ELEMS(LENGTHS); len++, turn++) {
            if (LENGTHS[len][0] * LENGTHS[len][1] > (full ? 1200000 : 300000)) continue;
            struct attn_case c = grid_case(len, 0, turn % 6, turn / 2 % 3, turn % 4 == 3, 0);
            c.head_dim = ODD_DIMS[dim];
            c.outliers = false;
            c.seed += 7000 * (1 + dim);
            for_each_type(*state, &c, true, 48);
        }
}

static struct attn_case mixed_case(int i)
{
    struct attn_case c = {.head_dim = i % 2 ? 64 : 128,
                          .n_heads = 8,
                          .n_kv_heads = i % 3 ? 2 : 8,
                          .dtype = TYPES[i % N_TYPES],
                          .n_seqs = 12,
                          .window = i % 4 == 3 ? 300 : 0,
                          .softcap = i % 5 == 4 ? 30.0f : 0.0f,
                          .sinks = i % 3 == 2,
                          .shared_blocks = i % 2 ? 3 : 0,
                          .seed = 5000 + (uint64_t)i};
    static const int rows[] = {1, 1, 1, 77, 1, 256, 2, 1, 5, 1, 300, 1};
    static const int lens[] = {193, 512, 513, 1100, 2049, 256, 700, 64 * 30, 1024, 4000, 300, 511};
    for (int s = 0; s < c.n_seqs; s++) {
        c.n_rows[s] = rows[(s + i) % 12];
        c.kv_len[s] = lens[(s + i) % 12];
    }
    return c;
}

static void mixed_batches_with_shared_and_shuffled_pages(void **state)
{
    for (int i = 0; i < (full ? 24 : 6); i++) {
        struct attn_case c = mixed_case(i);
        for_each_isa(*state, &c, 400);
    }
}

/* Every tail length of a tile, one row and a few: slots past kv_len hold NaN. */
static void tails_never_touch_unused_slots(void **state)
{
    static const int dims[] = {64, 24, 64, 8, 64, 264};
    for (int len = 1; len <= 140; len++) {
        struct attn_case c = {.head_dim = dims[len % 6],
                              .n_heads = 4,
                              .n_kv_heads = 2,
                              .n_seqs = 2,
                              .n_rows = {1, LF_MIN(len, 5)},
                              .kv_len = {len, len},
                              .window = len % 3 == 0 ? 33 : 0,
                              .seed = (uint64_t)len};
        for_each_type(*state, &c, true, 64);
    }
}

static void long_caches_with_sampled_rows(void **state)
{
    for (int i = 0; i < 5; i++) {
        struct attn_case c = {.head_dim = i < 2 ? 64 : 128,
                              .n_heads = 4,
                              .n_kv_heads = i < 2 ? 2 : 1,
                              .dtype = i == 4  ? LF_E4M3
                                       : i % 2 ? LF_F32
                                               : LF_BF16,
                              .n_seqs = 2,
                              .n_rows = {i % 2 ? 70 : 33, 1},
                              .kv_len = {i % 2 ? 65536 : 131072, i % 2 ? 131071 : 65535},
                              .seed = 900 + (uint64_t)i};
        if (!full && i == 3) continue;
        for (int isa = full ? LF_ISA_C : LF_ISA_AVX2; isa <= (int)lf_device_info(*state)->isa; isa++)
            attn_check(*state, &c, (enum lf_isa)isa, full ? 64 : 12);
    }
}

/* Pages past 2³¹ and 2³² bytes from the base. Only the pages in use take memory. */
static void block_index_above_two_to_the_31_bytes(void **state)
{
    for (int dtype = 0; dtype < N_TYPES; dtype++) {
        struct attn_case c = {.head_dim = 256,
                              .n_heads = 8,
                              .n_kv_heads = 8,
                              .dtype = TYPES[dtype],
                              .n_seqs = 2,
                              .n_rows = {1, 9},
                              .kv_len = {300, 700},
                              .n_layers = 32,
                              .first_block = dtype == 2 ? 600 : 300,
                              .seed = 31};
        size_t block = (size_t)2 * 64 * 256 * 8 * 32 * lf_dtype_bytes(c.dtype);
        assert_true(block * (size_t)c.first_block > (size_t)1 << 32);
        for_each_isa(*state, &c, 64);
    }
}

static struct attn_case edge_case(int dtype)
{
    return (struct attn_case){.head_dim = 80,
                              .n_heads = 2,
                              .n_kv_heads = 1,
                              .dtype = TYPES[dtype],
                              .n_seqs = 1,
                              .n_rows = {200},
                              .kv_len = {200},
                              .seed = 31};
}

static void check_edge_row(struct attn_data *d, int isa, int row, int head)
{
    double ref[LF_HEAD_DIM], lse;
    attn_ref_row(d, 0, row, head, ref, &lse);
    const float *out = attn_out_row(d, 0, row, head);
    for (int i = 0; i < d->c.head_dim; i++)
        if (fabs((double)out[i] - ref[i]) > 1e-4)
            fail_msg("%s %s row %d channel %d: %f, not %f", lf_isa_name((enum lf_isa)isa), lf_dtype_name(d->c.dtype),
                     row, i, (double)out[i], ref[i]);
}

/* Queries of one channel whose product with most keys is past the largest float. */
static void scores_of_infinity_become_the_softcap(void **state)
{
    struct lf_device *dev = *state;
    for (int dtype = 0; dtype < N_TYPES; dtype++) {
        struct attn_case c = edge_case(dtype);
        c.softcap = 30.0f;
        struct attn_data d;
        attn_data_init(&d, dev, &c);
        memset(d.q, 0, 200 * 2 * 80 * sizeof(float));
        for (size_t i = 0; i < 200 * 2; i++) d.q[i * 80] = 3e38f;
        for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++) {
            attn_data_run(&d, (enum lf_isa)isa);
            for (int row = 0; row < 200; row += 7) check_edge_row(&d, isa, row, row % 2);
        }
        attn_data_deinit(&d);
    }
}

static void a_key_of_nan_makes_nan_of_the_rows_that_see_it(void **state)
{
    struct lf_device *dev = *state;
    for (int dtype = 0; dtype < N_TYPES; dtype++) {
        struct attn_case c = edge_case(dtype);
        c.nan_key = 100;
        struct attn_data d;
        attn_data_init(&d, dev, &c);
        for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++) {
            attn_data_run(&d, (enum lf_isa)isa);
            for (int row = 0; row < 200; row++)
                for (int i = 0; i < c.head_dim; i++)
                    if (isnan(attn_out_row(&d, 0, row, 1)[i]) != (row >= c.nan_key))
                        fail_msg("%s %s row %d channel %d: %f", lf_isa_name((enum lf_isa)isa), lf_dtype_name(c.dtype),
                                 row, i, (double)attn_out_row(&d, 0, row, 1)[i]);
        }
        attn_data_deinit(&d);
    }
}

static int open_device(void **state)
{
    *state = attn_test_device(0);
    return 0;
}

static int close_device(void **state)
{
    lf_device_close(*state);
    return 0;
}

int main(int argc, char **argv)
{
    full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_never_touch_unused_slots),
        cmocka_unit_test(grid_matches_float64),
        cmocka_unit_test(every_head_dim_matches_float64),
        cmocka_unit_test(mixed_batches_with_shared_and_shuffled_pages),
        cmocka_unit_test(long_caches_with_sampled_rows),
        cmocka_unit_test(block_index_above_two_to_the_31_bytes),
        cmocka_unit_test(scores_of_infinity_become_the_softcap),
        cmocka_unit_test(a_key_of_nan_makes_nan_of_the_rows_that_see_it),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
