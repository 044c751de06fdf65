/* Random coded weights for the programs of the GPU lane: canonical rows, packed, and their values as the GPU has them. */
#ifndef LF_TESTS_GPU_GPU_QUANT_H
#define LF_TESTS_GPU_GPU_QUANT_H

#include "tests/gpu/gpu_fixture.h"

#include "core/quant.h"
#include "device/cuda/quant_order.h"

struct quant_weight {
    struct lf_format format;
    struct lf_weight w;
    struct gpu_tensor tensor; /* of bytes, two an element */
    float *values;            /* [n_out, n_in] */
};

static inline uint8_t quant_code(uint64_t *seed, enum lf_code code)
{
    uint8_t c = (uint8_t)fixture_random(seed);
    if (code == LF_CODE_E4M3) return (c & 0x7f) == 0x7f ? 0 : c;
    return c & 15;
}

/* Scales as the order keeps them exactly: powers of two of E2M1, else of the activations' type. */
static inline float quant_scale(uint64_t *seed, enum lf_code code)
{
    float scale = ldexpf(1.0f + (float)fixture_between(seed, 0, 127) / 128.0f, fixture_between(seed, -10, -2));
    return code == LF_CODE_E2M1 ? ldexpf(1.0f, fixture_between(seed, -10, -2)) : scale;
}

/* [n_out, n_groups], the same in the rows that share one. */
static inline float *quant_scales(uint64_t *seed, const struct lf_format *f, int n_out, int n_groups)
{
    float *scales = fixture_alloc((size_t)n_out * (size_t)n_groups * sizeof *scales);
    int rows = LF_MAX(f->group_rows, 1);
    for (int r = 0; r < n_out; r++)
        for (int g = 0; g < n_groups; g++)
            scales[r * n_groups + g] =
                r % rows == 0 ? quant_scale(seed, f->code) : scales[(r - r % rows) * n_groups + g];
    return scales;
}

static inline void quant_pack_bytes(const struct lf_format *f, const struct lf_quant_rows *rows, int n_out, int n_in,
                                    uint8_t *out)
{
    struct lf_quant_order o = lf_quant_order_of(f, n_out, n_in);
    memcpy(out, rows->codes, (size_t)n_out * (size_t)n_in);
    float *scales = (float *)(void *)(out + o.scales_at);
    for (int r = 0; r < n_out; r += o.scale_rows)
        for (int g = 0; g < o.n_groups; g++) scales[r / o.scale_rows * o.n_groups + g] = rows->scales[r * o.n_groups + g];
}

static inline void quant_pack_runs(const struct lf_format *f, const struct lf_quant_rows *rows, int n_out, int n_in,
                                   uint8_t *out)
{
    struct lf_quant_order o = lf_quant_order_of(f, n_out, n_in);
    size_t n_groups = (size_t)lf_format_n_groups(f, n_in), blocks = (size_t)o.n_blocks;
    for (size_t run = 0; run < (size_t)o.n_runs; run++) {
        size_t row = run * LF_QUANT_RUN;
        struct lf_quant_rows own = {rows->codes + row * (size_t)n_in, rows->scales + row * n_groups,
                                    f->zeros ? rows->zeros + row * n_groups : NULL};
        lf_quant_pack_run(f, n_in, gpu_act, 0, LF_MIN(LF_QUANT_RUN, n_out - (int)row), &own,
                          out + run * blocks * LF_QUANT_BLOCK_BYTES,
                          out + o.scales_at + run * blocks * (size_t)o.scale_bytes,
                          f->zeros ? out + o.zeros_at + run * blocks * (size_t)o.zero_bytes : NULL);
    }
}

static inline struct quant_weight quant_weight(uint64_t *seed, const struct lf_format *f, int n_out, int n_in)
{
    struct quant_weight q = {.format = *f, .w = {.n_out = n_out, .n_in = n_in}};
    size_t n = (size_t)n_out * (size_t)n_in, n_groups = (size_t)lf_format_n_groups(f, n_in);
    struct lf_quant_order o = lf_quant_order_of(f, n_out, n_in);
    uint8_t *codes = fixture_alloc(n), *zeros = fixture_alloc((size_t)n_out * n_groups), *packed = calloc(1, o.bytes);
    float *scales = quant_scales(seed, f, n_out, (int)n_groups);
    assert_non_null(packed);
    for (size_t i = 0; i < n; i++) codes[i] = quant_code(seed, f->code);
    for (size_t i = 0; i < (size_t)n_out * n_groups; i++) zeros[i] = (uint8_t)fixture_between(seed, 0, 16);
    struct lf_quant_rows rows = {codes, scales, f->zeros ? zeros : NULL};
    (f->code == LF_CODE_E4M3 ? quant_pack_bytes : quant_pack_runs)(f, &rows, n_out, n_in, packed);
    q.values = fixture_alloc(n * sizeof *q.values);
    lf_dequantize_rows(f, n_out, n_in, &rows, q.values);
    q.tensor = gpu_poisoned(LF_F16, (o.bytes + 1) / 2);
    lf_upload(gpu, q.tensor.ptr, packed, o.bytes);
    q.w.data = q.tensor.ptr;
    free(packed);
    free(scales);
    free(zeros);
    free(codes);
    return q;
}

static inline void quant_weight_free(struct quant_weight *q)
{
    gpu_free(&q->tensor);
    free(q->values);
}

#endif
