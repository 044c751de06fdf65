/* FP8 pages on a CPU: the expansions have the reference's bits, and attention over codes has the bits of attention over
 * a bf16 cache of the same numbers. */
#include <math.h>

#include "attention/cpu/attn_expand.h"
#include "attn_case.h"
#include "core/check.h"
#include "core/mix.h"
#include "kv/kv_fp8.h"
#include "tests/support/test.h"

enum { GUARD = 64 };

static void *aligned(size_t n)
{
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    assert_non_null(p);
    return p;
}

/* Every scale that quantizing makes, but for the last, which has no codes above 256, and codes: all but those of NaN,
 * or normal ones alone. Every fifth token is NaN. */
static void fill_page(uint8_t *page, int head_dim, enum lf_kv_part part, int round)
{
    int n = LF_KV_BLOCK_TOKENS * head_dim;
    for (int i = 0; i < n; i++) {
        uint8_t any = (uint8_t)(round == 0 ? i : (int)(lf_mix64((uint64_t)(round * n + i)) & 0xff));
        page[i] = (any & 0x7f) == 0x7f ? 0xb8 : round % 2 && (any & 0x7f) < 8 ? 0x38 : any;
    }
    for (int t = 0; t < LF_KV_BLOCK_TOKENS; t++)
        page[n + t] = (uint8_t)(27 + (round * LF_KV_BLOCK_TOKENS + t * 7) % (246 - 27 + 1));
    for (int t = round % 5; t < LF_KV_BLOCK_TOKENS; t += 5) {
        struct lf_kv_view v = {.dtype = LF_E4M3, .order = LF_KV_LANES, .head_dim = head_dim};
        page[n + t] = LF_KV_FP8_NAN;
        for (int i = 0; i < head_dim; i++)
            page[part == LF_KV_K ? lf_kv_k_index(&v, t, i) : lf_kv_v_index(&v, t, i)] = 0;
    }
}

static void expect_expansion(lf_attn_expand_fn *expand, int head_dim, enum lf_kv_part part, const uint8_t *page)
{
    size_t n = (size_t)LF_KV_BLOCK_TOKENS * (size_t)head_dim;
    uint16_t *expected = aligned(n * 2), *got = aligned((n + GUARD) * 2);
    memset(got, 0x5a, (n + GUARD) * 2);
    lf_attn_expand_c(head_dim, part, page, NULL, expected);
    expand(head_dim, part, page, page, got);
    for (size_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            fail_msg("head_dim %d, %s, element %zu: code %02x is %04x; expected %04x", head_dim,
                     part == LF_KV_K ? "K" : "V", i, page[i], got[i], expected[i]);
    for (size_t i = n; i < n + GUARD; i++) assert_int_equal(got[i], 0x5a5a);
    free(expected);
    free(got);
}

static void every_expansion_has_the_bits_of_the_reference(void **state)
{
    struct lf_device *dev = *state;
    lf_attn_expand_fn *expand = lf_attn_expand_c;
#if defined(__x86_64__)
    if (lf_device_info(dev)->isa >= LF_ISA_AVX2) expand = lf_attn_expand_avx2;
#endif
    for (int head_dim = LF_HEAD_DIM_STEP; head_dim <= LF_HEAD_DIM; head_dim += LF_HEAD_DIM_STEP) {
        uint8_t *page = aligned(lf_kv_page_bytes_of(LF_E4M3, head_dim));
        for (int round = 0; round < 4; round++) {
            for (int part = LF_KV_K; part <= LF_KV_V; part++) {
                fill_page(page, head_dim, (enum lf_kv_part)part, round);
                expect_expansion(expand, head_dim, (enum lf_kv_part)part, page);
            }
        }
        free(page);
    }
}

static void copy_page(const struct attn_data *from, const struct attn_data *to, int block, int part, int head)
{
    int layer = from->kv.n_layers - 1;
    const void *codes = lf_kv_page(&from->kv, block, layer, (enum lf_kv_part)part, head);
    lf_kv_fp8_expand_page(&from->kv, (enum lf_kv_part)part, codes,
                          lf_kv_page(&to->kv, block, layer, (enum lf_kv_part)part, head));
}

static void expect_bits_of_bf16(struct lf_device *dev, struct attn_case c, enum lf_isa isa)
{
    struct attn_data fp8, bf16;
    c.dtype = LF_E4M3;
    attn_data_init(&fp8, dev, &c);
    c.dtype = LF_BF16;
    attn_data_init(&bf16, dev, &c);
    for (int block = 0; block < fp8.kv.n_blocks; block++)
        for (int head = 0; head < c.n_kv_heads; head++)
            for (int part = LF_KV_K; part <= LF_KV_V; part++) copy_page(&fp8, &bf16, block, part, head);
    attn_data_run(&fp8, isa);
    attn_data_run(&bf16, isa);
    size_t n = (size_t)fp8.n_rows * (size_t)c.n_heads;
    assert_memory_equal(fp8.out, bf16.out, n * (size_t)c.head_dim * sizeof(float));
    assert_memory_equal(fp8.lse, bf16.lse, n * sizeof(float));
    attn_data_deinit(&fp8);
    attn_data_deinit(&bf16);
}

static void attention_over_codes_has_the_bits_of_attention_over_their_numbers(void **state)
{
    static const int dims[] = {64, 80, 128, 24, 264, 512};
    struct lf_device *dev = *state;
    for (size_t i = 0; i < LF_N_ELEMS(dims); i++) {
        struct attn_case c = {.head_dim = dims[i],
                              .n_heads = 4,
                              .n_kv_heads = 2,
                              .n_seqs = 3,
                              .n_rows = {1, 70, 5},
                              .kv_len = {1333, 700, 64},
                              .window = i % 3 == 1 ? 200 : 0,
                              .softcap = i % 3 == 2 ? 30.0f : 0.0f,
                              .outliers = i % 2,
                              .seed = 600 + i};
        for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++)
            expect_bits_of_bf16(dev, c, (enum lf_isa)isa);
    }
}

/* Rows before it may be NaN too, where a kernel multiplies it by the weight of 0 that it has for them. */
static void a_value_with_an_infinite_element_makes_nan_of_the_rows_that_see_it(void **state)
{
    struct lf_device *dev = *state;
    struct attn_case c = {.head_dim = 64,
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .dtype = LF_E4M3,
                          .n_seqs = 2,
                          .n_rows = {100, 70},
                          .kv_len = {300, 170},
                          .nan_value = 250,
                          .seed = 700};
    struct attn_data d;
    attn_data_init(&d, dev, &c);
    for (int isa = LF_ISA_C; isa <= (int)lf_device_info(dev)->isa; isa++) {
        attn_data_run(&d, (enum lf_isa)isa);
        for (int i = 0; i < c.head_dim; i++) {
            for (int row = c.nan_value - 200; row < 100; row++) assert_true(isnan(attn_out_row(&d, 0, row, 1)[i]));
            for (int row = 0; row < 70; row++) assert_true(isfinite(attn_out_row(&d, 1, row, 1)[i]));
        }
    }
    attn_data_deinit(&d);
}

static int open_device(void **state)
{
    *state = attn_test_device(2);
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
        cmocka_unit_test(every_expansion_has_the_bits_of_the_reference),
        cmocka_unit_test(attention_over_codes_has_the_bits_of_attention_over_their_numbers),
        cmocka_unit_test(a_value_with_an_infinite_element_makes_nan_of_the_rows_that_see_it),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
