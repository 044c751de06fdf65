/* Random coded weights for the programs of the GPU lane: canonical rows, packed, and their values as the GPU has them.
 */
#ifndef LF_TESTS_GPU_GPU_QUANT_H
#define LF_TESTS_GPU_GPU_QUANT_H

#include "tests/gpu/gpu_fixture.h"

#include "core/quant.h"

struct quant_weight {
    struct lf_weight w;
    struct gpu_tensor tensor; /* its bytes, two an element */
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

/* In two pieces, the later one first; of blocks of rows, cut between blocks. */
static inline void quant_pack(const struct quant_weight *q, const struct lf_quant_rows *rows, int cut)
{
    size_t n_groups = (size_t)lf_format_n_groups(&q->w.format, q->w.n_in), row = (size_t)cut;
    struct lf_quant_rows later = {rows->codes + row * (size_t)q->w.n_in, rows->scales + row * n_groups,
                                  rows->zeros ? rows->zeros + row * n_groups : NULL};
    gpu_ops->weight_pack(gpu, &q->w, cut, q->w.n_out - cut, &later);
    gpu_ops->weight_pack(gpu, &q->w, 0, cut, rows);
}

static inline struct quant_weight quant_weight(uint64_t *seed, const struct lf_format *f, int n_out, int n_in)
{
    struct quant_weight q = {.w = {.format = *f, .n_out = n_out, .n_in = n_in}};
    size_t n = (size_t)n_out * (size_t)n_in, n_groups = (size_t)lf_format_n_groups(f, n_in);
    uint8_t *codes = fixture_alloc(n), *zeros = fixture_alloc((size_t)n_out * n_groups);
    float *scales = quant_scales(seed, f, n_out, (int)n_groups);
    for (size_t i = 0; i < n; i++) codes[i] = quant_code(seed, f->code);
    for (size_t i = 0; i < (size_t)n_out * n_groups; i++) zeros[i] = (uint8_t)fixture_between(seed, 0, 16);
    struct lf_quant_rows rows = {codes, scales, f->zeros ? zeros : NULL};
    q.values = fixture_alloc(n * sizeof *q.values);
    lf_dequantize_rows(f, n_out, n_in, &rows, q.values);
    assert_true(gpu_ops->supports_format(gpu, f, n_out, n_in, 0));
    q.tensor = gpu_poisoned(LF_F16, (gpu_ops->weight_bytes(f, n_out, n_in) + 1) / 2);
    q.w.data = q.tensor.ptr;
    int cut = fixture_between(seed, 0, n_out), block = LF_MAX(f->group_rows, 1);
    quant_pack(&q, &rows, cut / block * block);
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

/* x [n_rows, n_in] as FP8 GEMMs have it: codes times scales, one scale each `group` columns of a row. Plain C of what
 * device/cuda/quant_rows.cu does; gpu_gemm_fp8 compares that to the bit. */
static inline void quant_round_e4m3(float *x, int n_rows, int n_in, int group)
{
    for (int at = 0; at < n_rows * n_in;) {
        int n = LF_MIN(group, n_in - at % n_in);
        float most = 0.0f;
        for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[at + i]));
        float scale = fmaxf(most / 448.0f, 0x1p-126f), inverse = 1.0f / scale;
        for (int i = 0; i < n; i++)
            x[at + i] = scale * lf_code_number(LF_CODE_E4M3, lf_e4m3_from_f32(x[at + i] * inverse));
        at += n;
    }
}

#endif
