#include "attention/attention.h"

#include <math.h>

#include "core/check.h"
#include "tests/support/test.h"

enum { HEADS = 4, KV_HEADS = 2, DIM = 64, MAX_LEN = 2048, MAX_BLOCKS = MAX_LEN / LF_KV_BLOCK_TOKENS };

struct fixture {
    struct lf_device *dev;
    enum lf_isa isa;
    struct lf_attn_shape shape;
    struct lf_buffer workspace;
    struct lf_attn *attn;
    struct lf_kv_view kv;
    int32_t blocks[MAX_BLOCKS];
    float q[MAX_LEN * HEADS * DIM], out[MAX_LEN * HEADS * DIM], again[MAX_LEN * HEADS * DIM];
};

static float noise(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)(int32_t)(x >> 32) * 0x1p-30f;
}

static void put(struct fixture *f, enum lf_kv_part part, int pos, int head, int channel, float x)
{
    void *page = lf_kv_page(&f->kv, f->blocks[pos / LF_KV_BLOCK_TOKENS], 0, part, head);
    int t = pos % LF_KV_BLOCK_TOKENS;
    size_t idx = part == LF_KV_K ? lf_kv_k_index(&f->kv, t, channel) : lf_kv_v_index(&f->kv, t, channel);
    if (f->kv.dtype == LF_F32)
        ((float *)page)[idx] = x;
    else
        ((uint16_t *)page)[idx] = lf_bf16_from_f32(x);
}

/* Values that bf16 holds exactly. */
static float v_of(int pos, int head, int channel)
{
    return (float)((pos * 7 + head * 5 + channel * 3) % 61 - 30) / 4.0f;
}

static void fixture_init(struct fixture *f, struct lf_device *dev, enum lf_isa isa, enum lf_dtype dtype)
{
    struct lf_err err;
    f->dev = dev;
    f->isa = isa;
    f->shape = (struct lf_attn_shape){.n_heads = HEADS,
                                      .n_kv_heads = KV_HEADS,
                                      .head_dim = DIM,
                                      .kv_dtype = dtype,
                                      .max_tokens = MAX_LEN,
                                      .max_seqs = 4,
                                      .max_kv_len = MAX_LEN,
                                      .n_schedules = 1,
                                      .n_groups = 1};
    size_t bytes = lf_attn_workspace_bytes(&f->shape, lf_device_info(dev));
    assert_int_equal(lf_buffer_alloc(dev, &f->workspace, bytes, "workspace", &err), LF_OK);
    assert_int_equal(lf_attn_create(&f->attn, dev, isa, &f->shape, f->workspace, &err), LF_OK);
    f->kv = (struct lf_kv_view){
        .dtype = dtype, .n_blocks = MAX_BLOCKS, .n_layers = 1, .n_kv_heads = KV_HEADS, .head_dim = DIM};
    f->kv.block_pages = lf_kv_layers_pages(&f->kv);
    f->kv.base = aligned_alloc(64, lf_kv_block_bytes(&f->kv) * MAX_BLOCKS);
    assert_non_null(f->kv.base);
    memset(f->kv.base, 0xff, lf_kv_block_bytes(&f->kv) * MAX_BLOCKS);
    for (int i = 0; i < MAX_BLOCKS; i++) f->blocks[i] = (i * 5 + 3) % MAX_BLOCKS;
    for (size_t i = 0; i < LF_N_ELEMS(f->q); i++) f->q[i] = noise(i);
}

static void fill_cache(struct fixture *f, int len)
{
    for (int pos = 0; pos < len; pos++)
        for (int h = 0; h < KV_HEADS; h++)
            for (int i = 0; i < DIM; i++) {
                put(f, LF_KV_K, pos, h, i, noise((uint64_t)((pos * KV_HEADS + h) * DIM + i)));
                put(f, LF_KV_V, pos, h, i, v_of(pos, h, i));
            }
}

static void fixture_deinit(struct fixture *f)
{
    lf_attn_destroy(f->attn);
    lf_buffer_free(f->dev, &f->workspace);
    free(f->kv.base);
}

static void run(struct fixture *f, int n_rows, int kv_len, int schedule_window, int window, const float *sinks,
                float *out)
{
    struct lf_kv_seq seq = {.blocks = f->blocks, .n_tokens = n_rows, .kv_len = kv_len};
    struct lf_attn_params p = {.out = out, .q = f->q, .kv = &f->kv, .scale = 0.125f, .window = window, .sinks = sinks};
    lf_attn_schedule(f->attn, 0, &seq, 1, (struct lf_attn_kind){.window = schedule_window, .n_groups = 1});
    lf_attn_run(f->attn, 0, &p);
}

typedef void check_fn(struct fixture *f);

/* Runs a check with every kernel of this machine and both types of KV. */
static void with_every_kernel(struct lf_device *dev, check_fn *check)
{
    struct fixture *f = malloc(sizeof(*f));
    assert_non_null(f);
    for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++)
        for (int dtype = 0; dtype < 2; dtype++) {
            fixture_init(f, dev, (enum lf_isa)isa, dtype ? LF_BF16 : LF_F32);
            check(f);
            fixture_deinit(f);
        }
    free(f);
}

/* One weight of about 1 over itself: the value but for the last bits; where weights are rounded to bf16, but for the
 * error of the unrounded weight, 3e-6. */
static void expect_own_value(struct fixture *f)
{
    float error = f->kv.dtype == LF_BF16 && f->isa >= LF_ISA_AVX512_BF16 ? 4e-5f : 4e-6f;
    fill_cache(f, 300);
    run(f, 300, 300, 1, 1, NULL, f->out);
    for (int pos = 0; pos < 300; pos++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < DIM; i++)
                assert_true(fabsf(f->out[(pos * HEADS + h) * DIM + i] - v_of(pos, h / 2, i)) < error);
}

static void a_window_of_one_returns_the_row_s_own_value(void **state)
{
    with_every_kernel(*state, expect_own_value);
}

/* Equal keys weigh the same: the output is the mean of the visible values. */
static void expect_mean(struct fixture *f)
{
    fill_cache(f, 700);
    for (int pos = 0; pos < 700; pos++)
        for (int h = 0; h < KV_HEADS; h++)
            for (int i = 0; i < DIM; i++) put(f, LF_KV_K, pos, h, i, 0.5f);
    run(f, 3, 700, 0, 0, NULL, f->out);
    for (int row = 0; row < 3; row++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < DIM; i++) {
                double sum = 0.0;
                for (int pos = 0; pos < 698 + row; pos++) sum += (double)v_of(pos, h / 2, i);
                double got = (double)f->out[(row * HEADS + h) * DIM + i];
                assert_true(fabs(got - sum / (698 + row)) < 2e-5);
            }
}

static void equal_keys_give_the_mean_of_the_values(void **state)
{
    with_every_kernel(*state, expect_mean);
}

/* The same pages in blocks that are larger than their layers need, named by the second table of the sequence. */
static void expect_group_and_stride_change_nothing(struct fixture *f)
{
    static int32_t tables[2][MAX_BLOCKS];
    struct lf_kv_view plain = f->kv, wide = f->kv;
    size_t used = lf_kv_block_bytes(&plain), wide_bytes;
    fill_cache(f, 1500);
    run(f, 40, 1500, 0, 0, NULL, f->out);
    wide.block_pages += 3;
    wide.group = 1;
    wide_bytes = lf_kv_block_bytes(&wide);
    wide.base = aligned_alloc(64, wide_bytes * MAX_BLOCKS);
    assert_non_null(wide.base);
    memset(wide.base, 0xff, wide_bytes * MAX_BLOCKS);
    for (size_t i = 0; i < MAX_BLOCKS; i++) {
        memcpy((char *)wide.base + i * wide_bytes, (char *)plain.base + i * used, used);
        tables[0][i] = -1;
        tables[1][i] = f->blocks[i];
    }
    struct lf_kv_seq seq = {.blocks = tables[0], .table_stride = MAX_BLOCKS, .n_tokens = 40, .kv_len = 1500};
    struct lf_attn_params p = {.out = f->again, .q = f->q, .kv = &wide, .scale = 0.125f};
    lf_attn_schedule(f->attn, 0, &seq, 1, (struct lf_attn_kind){.first_group = 1, .n_groups = 1});
    lf_attn_run(f->attn, 0, &p);
    assert_memory_equal(f->out, f->again, 40 * HEADS * DIM * sizeof(float));
    free(wide.base);
}

static void blocks_of_a_group_may_be_larger_than_its_layers(void **state)
{
    with_every_kernel(*state, expect_group_and_stride_change_nothing);
}

/* A tile that the window hides is skipped by one schedule and masked by another. */
static void expect_schedule_window_changes_nothing(struct fixture *f)
{
    fill_cache(f, 1500);
    run(f, 40, 1500, 0, 333, NULL, f->out);
    run(f, 40, 1500, 333, 333, NULL, f->again);
    assert_memory_equal(f->out, f->again, 40 * HEADS * DIM * sizeof(float));
}

static void a_plan_without_the_window_gives_the_same_bits(void **state)
{
    with_every_kernel(*state, expect_schedule_window_changes_nothing);
}

static void expect_sinks(struct fixture *f)
{
    float none[HEADS], large[HEADS];
    for (int h = 0; h < HEADS; h++) {
        none[h] = -INFINITY;
        large[h] = 80.0f;
    }
    fill_cache(f, 600);
    run(f, 9, 600, 0, 0, NULL, f->out);
    run(f, 9, 600, 0, 0, none, f->again);
    assert_memory_equal(f->out, f->again, 9 * HEADS * DIM * sizeof(float));
    run(f, 9, 600, 0, 0, large, f->again);
    for (int i = 0; i < 9 * HEADS * DIM; i++) assert_true(fabsf(f->again[i]) < 1e-20f);
}

static void a_sink_of_minus_infinity_is_none_and_a_large_one_takes_all(void **state)
{
    with_every_kernel(*state, expect_sinks);
}

static void expect_no_allocation(struct fixture *f)
{
    fill_cache(f, MAX_LEN);
    uint64_t before = lf_device_n_allocs(f->dev);
    run(f, 1, MAX_LEN, 0, 0, NULL, f->out);
    run(f, 500, MAX_LEN, 0, 0, NULL, f->out);
    assert_true(lf_device_n_allocs(f->dev) == before);
}

static void plan_and_run_allocate_no_device_memory(void **state)
{
    with_every_kernel(*state, expect_no_allocation);
}

static enum lf_status try_create(struct lf_device *dev, enum lf_isa isa, const struct lf_attn_shape *shape,
                                 size_t bytes)
{
    static _Alignas(64) char memory[64];
    struct lf_attn *attn = NULL;
    struct lf_err err;
    enum lf_status status =
        lf_attn_create(&attn, dev, isa, shape, (struct lf_buffer){.ptr = memory, .bytes = bytes}, &err);
    if (status != LF_OK) assert_null(attn);
    if (status != LF_OK) assert_true(strlen(err.message) > 10);
    lf_attn_destroy(attn);
    return status;
}

static void create_refuses_what_no_kernel_takes(void **state)
{
    static const struct lf_attn_shape good = {.n_heads = 8,
                                              .n_kv_heads = 2,
                                              .head_dim = 64,
                                              .kv_dtype = LF_BF16,
                                              .max_tokens = 512,
                                              .max_seqs = 8,
                                              .max_kv_len = 4096,
                                              .n_schedules = 3,
                                              .n_groups = 2};
    struct lf_device *dev = *state;
    size_t bytes = lf_attn_workspace_bytes(&good, lf_device_info(dev));
    static const int dims[] = {0, 4, 12, 100, 520, -64};
    for (size_t i = 0; i < LF_N_ELEMS(dims); i++) {
        struct lf_attn_shape s = good;
        s.head_dim = dims[i];
        assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_UNSUPPORTED);
    }
    struct lf_attn_shape s = good;
    s.kv_dtype = LF_F16;
    assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_UNSUPPORTED);
    s = good;
    s.n_heads = 7;
    assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_INVALID);
    s = good;
    s.max_seqs = 0;
    assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_INVALID);
    s = good;
    s.n_schedules = LF_ATTN_SCHEDULES_N + 1;
    assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_INVALID);
    s.n_schedules = 0;
    assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_INVALID);
    s = good;
    s.n_groups = 0;
    assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_INVALID);
    static const struct lf_kv_stripe stripes[] = {{2, 2}, {-1, 2}, {1, 0}, {0, LF_RANKS_N + 1}, {0, -1}};
    for (size_t i = 0; i < LF_N_ELEMS(stripes); i++) {
        s = good;
        s.stripe = stripes[i];
        assert_int_equal(try_create(dev, LF_ISA_C, &s, bytes), LF_INVALID);
    }
    assert_int_equal(try_create(dev, LF_ISA_C, &good, bytes - 1), LF_INVALID);
    if (lf_device_info(dev)->isa < LF_ISA_AMX)
        assert_int_equal(try_create(dev, LF_ISA_AMX, &good, bytes), LF_UNSUPPORTED);
    assert_int_equal(try_create(dev, LF_ISA_C, &good, bytes), LF_OK);
    lf_attn_destroy(NULL);
}

/* Scratch belongs to threads, places for partial results to the longest sequence; neither grows with the cache. */
static void workspace_is_small_and_monotonic(void **state)
{
    (void)state;
    struct lf_attn_shape s = {.n_heads = 32,
                              .n_kv_heads = 8,
                              .head_dim = 128,
                              .kv_dtype = LF_BF16,
                              .max_tokens = 2048,
                              .max_seqs = 64,
                              .max_kv_len = 131072,
                              .n_schedules = 3,
                              .n_groups = 1};
    struct lf_device_info info = {.n_threads = 2, .is_host = true};
    uint64_t two = lf_attn_workspace_bytes(&s, &info);
    assert_true(two < 40u * 1024 * 1024);
    info.n_threads = 64;
    assert_true(lf_attn_workspace_bytes(&s, &info) > two);
    s.max_kv_len *= 2;
    info.n_threads = 2;
    assert_true(lf_attn_workspace_bytes(&s, &info) > two);
    s.stripe.n = 2; /* half the keys each */
    assert_true(lf_attn_workspace_bytes(&s, &info) == two);
}

static int open_device(void **state)
{
    struct lf_device *dev;
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 3, .max_isa = -1};
    if (lf_device_open(&dev, &opts, &err) != LF_OK) return -1;
    *state = dev;
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
        cmocka_unit_test(a_window_of_one_returns_the_row_s_own_value),
        cmocka_unit_test(equal_keys_give_the_mean_of_the_values),
        cmocka_unit_test(blocks_of_a_group_may_be_larger_than_its_layers),
        cmocka_unit_test(a_plan_without_the_window_gives_the_same_bits),
        cmocka_unit_test(a_sink_of_minus_infinity_is_none_and_a_large_one_takes_all),
        cmocka_unit_test(plan_and_run_allocate_no_device_memory),
        cmocka_unit_test(create_refuses_what_no_kernel_takes),
        cmocka_unit_test(workspace_is_small_and_monotonic),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
