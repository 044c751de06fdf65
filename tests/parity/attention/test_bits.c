/* A row's bits depend on its position and its keys only: not on the chunk, the batch, the pages, the threads or how the
 * schedule cut the work. Checked for every kernel this machine can run. */
#include "attn_case.h"
#include "core/check.h"
#include "tests/support/test.h"

enum { LENGTH = 1200, /* two splits and a tail */ BITS_CASES = 6 };

static const enum lf_dtype TYPES[] = {LF_F32, LF_BF16, LF_E4M3};
enum { N_TYPES = LF_N_ELEMS(TYPES) };

static bool full; /* --full: 1,000 repeats */

struct bits_state {
    struct lf_device *one, *two, *many; /* threads; many makes the schedule cut everything into parts */
};

/* Output rows and lse of positions first .. first + n - 1 of sequence 0 of c, computed in one step. */
struct rows {
    float *out, *lse;
    size_t n_out, n_lse;
};

static struct rows run_rows(struct lf_device *dev, const struct attn_case *base, enum lf_isa isa, int first, int n)
{
    struct attn_case c = *base;
    struct attn_data d;
    c.n_rows[0] = n;
    c.kv_len[0] = first + n;
    attn_data_init(&d, dev, &c);
    attn_data_run(&d, isa);
    struct rows rows = {.n_lse = (size_t)n * (size_t)c.n_heads};
    rows.n_out = rows.n_lse * (size_t)c.head_dim;
    rows.out = malloc(rows.n_out * sizeof(float));
    rows.lse = malloc(rows.n_lse * sizeof(float));
    assert_true(rows.out && rows.lse);
    memcpy(rows.out, d.out, rows.n_out * sizeof(float)); /* sequence 0 comes first */
    memcpy(rows.lse, d.lse, rows.n_lse * sizeof(float));
    attn_data_deinit(&d);
    return rows;
}

static void rows_free(struct rows *rows)
{
    free(rows->out);
    free(rows->lse);
}

/* Runs positions first .. first + n - 1 in the given way and compares them with the same rows of all, which begin at
 * position 0. */
static void check_rows(struct lf_device *dev, const struct attn_case *c, enum lf_isa isa, int first, int n,
                       const struct rows *all, const char *way)
{
    struct rows some = run_rows(dev, c, isa, first, n);
    size_t row = (size_t)first * (size_t)c->n_heads;
    for (size_t i = 0; i < some.n_out; i++) {
        size_t at = row * (size_t)c->head_dim + i;
        if (memcmp(&some.out[i], &all->out[at], sizeof(float)) == 0) continue;
        fail_msg("%s, %s, d%d, %s: position %zu differs: %.9g, %.9g", lf_isa_name(isa), lf_dtype_name(c->dtype),
                 c->head_dim, way, at / ((size_t)c->head_dim * (size_t)c->n_heads), (double)some.out[i],
                 (double)all->out[at]);
    }
    assert_memory_equal(some.lse, all->lse + row, some.n_lse * sizeof(float));
    rows_free(&some);
}

static struct attn_case bits_case(int i)
{
    static const int dims[BITS_CASES] = {64, 80, 128, 48, 24, 264};
    struct attn_case c = {.head_dim = dims[i],
                          .n_heads = i % 2 ? 7 : 4,
                          .n_kv_heads = i % 2 ? 1 : 2,
                          .n_seqs = 1,
                          .window = i == 2 ? 200 : 0,
                          .softcap = i == 3 ? 30.0f : 0.0f,
                          .sinks = i == 1,
                          .seed = 40 + (uint64_t)i};
    return c;
}

static void add_neighbours(struct attn_case *c)
{
    static const int rows[] = {1, 40, 1, 3, 1, 1, 200};
    static const int lens[] = {1500, 40, 64, 600, 1, 513, 900};
    for (int i = 0; i < (int)LF_N_ELEMS(rows); i++) {
        c->n_rows[1 + i] = rows[i];
        c->kv_len[1 + i] = lens[i];
    }
    c->n_seqs = 1 + (int)LF_N_ELEMS(rows);
}

static void check_ways(struct bits_state *s, const struct attn_case *c, enum lf_isa isa)
{
    struct rows all = run_rows(s->one, c, isa, 0, LENGTH);
    check_rows(s->two, c, isa, 0, LENGTH, &all, "two threads");
    check_rows(s->many, c, isa, 0, LENGTH, &all, "many threads");
    static const int chunks[] = {300, 129, 64};
    for (size_t k = 0; k < LF_N_ELEMS(chunks); k++)
        for (int first = 0; first < LENGTH; first += chunks[k])
            check_rows(k ? s->two : s->many, c, isa, first, LF_MIN(chunks[k], LENGTH - first), &all, "in chunks");
    for (int first = 0; first < LENGTH; first += first < 140 ? 1 : 53)
        check_rows(first % 2 ? s->one : s->many, c, isa, first, 1, &all, "one token at a time");
    for (int first = 5; first < LENGTH - 5; first += 111)
        check_rows(s->two, c, isa, first, 1 + first % 5, &all, "a few tokens at a time");
    struct attn_case batch = *c;
    add_neighbours(&batch);
    for (int first = 0; first < LENGTH; first += 171) {
        check_rows(s->two, &batch, isa, first, 1, &all, "decode in a batch");
        check_rows(s->many, &batch, isa, first, LF_MIN(171, LENGTH - first), &all, "prefill in a batch");
    }
    rows_free(&all);
}

static void a_row_has_the_same_bits_however_it_is_computed(void **state)
{
    struct bits_state *s = *state;
    for (int i = 0; i < BITS_CASES; i++)
        for (int dtype = 0; dtype < N_TYPES; dtype++)
            for (int isa = LF_ISA_C; isa <= (int)lf_device_info(s->two)->isa; isa++) {
                struct attn_case c = bits_case(i);
                c.dtype = TYPES[dtype];
                if (isa == LF_ISA_C && i > 1 && !full) continue;
                check_ways(s, &c, (enum lf_isa)isa);
            }
}

/* And where the cache has a stripe of the tokens. Many a row sees none of them. */
static void a_row_has_the_same_bits_over_a_stripe(void **state)
{
    struct bits_state *s = *state;
    static const struct lf_kv_stripe stripes[] = {{0, 2}, {1, 2}, {2, 4}, {1, 3}, {4, 5}, {15, 16}};
    for (int i = 0; i < (int)LF_N_ELEMS(stripes); i++)
        for (int isa = LF_ISA_C; isa <= (int)lf_device_info(s->two)->isa; isa++) {
            struct attn_case c = bits_case(i);
            c.dtype = TYPES[i % N_TYPES];
            c.stripe = stripes[i];
            if (isa == LF_ISA_C && i > 1 && !full) continue;
            check_ways(s, &c, (enum lf_isa)isa);
        }
}

static void a_long_cache_split_over_tasks_has_the_bits_of_one_task(void **state)
{
    struct bits_state *s = *state;
    for (int isa = LF_ISA_AVX2; isa <= (int)lf_device_info(s->two)->isa; isa++)
        for (int dtype = 0; dtype < N_TYPES; dtype++) {
            struct attn_case c = {
                .head_dim = 64, .n_heads = 4, .n_kv_heads = 1, .dtype = TYPES[dtype], .n_seqs = 1, .seed = 3};
            struct rows whole = run_rows(s->one, &c, (enum lf_isa)isa, 19900, 40);
            struct rows split = run_rows(s->many, &c, (enum lf_isa)isa, 19900, 40);
            struct rows last = run_rows(s->many, &c, (enum lf_isa)isa, 19939, 1);
            assert_memory_equal(whole.out, split.out, whole.n_out * sizeof(float));
            assert_memory_equal(whole.lse, split.lse, whole.n_lse * sizeof(float));
            assert_memory_equal(whole.out + whole.n_out - last.n_out, last.out, last.n_out * sizeof(float));
            rows_free(&whole);
            rows_free(&split);
            rows_free(&last);
        }
}

static void repeats_are_equal(void **state)
{
    struct bits_state *s = *state;
    for (int dtype = 0; dtype < N_TYPES; dtype++) {
        struct attn_case c = bits_case(0);
        c.dtype = TYPES[dtype];
        c.n_rows[0] = 33;
        c.kv_len[0] = 5000;
        add_neighbours(&c);
        struct attn_data d;
        attn_data_init(&d, s->many, &c);
        enum lf_isa isa = lf_device_info(s->many)->isa;
        attn_data_run(&d, isa);
        size_t n = (size_t)d.n_rows * (size_t)(c.n_heads * c.head_dim);
        float *first = malloc(n * sizeof(float));
        assert_non_null(first);
        memcpy(first, d.out, n * sizeof(float));
        for (int i = 0; i < (full ? 1000 : 50); i++) {
            attn_data_run(&d, isa);
            if (memcmp(first, d.out, n * sizeof(float)) != 0) fail_msg("repeat %d differs", i);
        }
        free(first);
        attn_data_deinit(&d);
    }
}

static int open_devices(void **state)
{
    static struct bits_state s;
    s.one = attn_test_device(1);
    s.two = attn_test_device(2);
    s.many = attn_test_device(12);
    *state = &s;
    return 0;
}

static int close_devices(void **state)
{
    struct bits_state *s = *state;
    lf_device_close(s->one);
    lf_device_close(s->two);
    lf_device_close(s->many);
    return 0;
}

int main(int argc, char **argv)
{
    full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_same_bits_however_it_is_computed),
        cmocka_unit_test(a_row_has_the_same_bits_over_a_stripe),
        cmocka_unit_test(a_long_cache_split_over_tasks_has_the_bits_of_one_task),
        cmocka_unit_test(repeats_are_equal),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
