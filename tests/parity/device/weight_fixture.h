/* Weights of the parity programs: formats, packed matrices with their values, and activations as a GEMM reads them. */
#ifndef LF_TESTS_PARITY_DEVICE_WEIGHT_FIXTURE_H
#define LF_TESTS_PARITY_DEVICE_WEIGHT_FIXTURE_H

#include "core/quant.h"
#include "device/cpu/gemm_quant.h"
#include "tests/parity/device/ops_fixture.h"

enum { FIXTURE_FORMATS_N = 10 };
static const struct lf_format fixture_formats[FIXTURE_FORMATS_N] = {
    {.dtype = LF_F32},
    {.dtype = LF_F16},
    {.dtype = LF_BF16},
    {.dtype = LF_BF16, .code = LF_CODE_I8, .group = 32, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_I8, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 64, .group_rows = 1, .zeros = true, .scales = LF_F16},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_E2M1, .group = 32, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 32, .group_rows = 1, .scales = LF_BF16}};

/* A packed matrix whose last byte is followed by an unmapped page, and its values widened to float. */
struct fixture_weight {
    struct lf_weight w;
    struct test_guarded packed;
    float *values; /* [n_out, n_in] */
};

/* Packed in two pieces, the later one first, from an odd address. */
static inline void fixture_pack_plain(struct lf_device *dev, uint64_t *seed, struct fixture_weight *fw)
{
    const struct lf_ops *ops = lf_device_ops(dev);
    enum lf_dtype dtype = fw->w.format.dtype;
    size_t n = (size_t)fw->w.n_out * (size_t)fw->w.n_in, row_bytes = (size_t)fw->w.n_in * lf_dtype_bytes(dtype);
    float *values = fixture_floats(seed, n, 1.0f);
    char *shifted = fixture_alloc(n * lf_dtype_bytes(dtype) + 1);
    lf_from_f32(shifted, dtype, values, n);
    lf_to_f32(fw->values, shifted, dtype, n);
    memmove(shifted + 1, shifted, n * lf_dtype_bytes(dtype));
    int cut = fixture_between(seed, 0, fw->w.n_out);
    ops->weight_pack(dev, &fw->w, cut, fw->w.n_out - cut, shifted + 1 + (size_t)cut * row_bytes);
    ops->weight_pack(dev, &fw->w, 0, cut, shifted + 1);
    free(shifted);
    free(values);
}

static inline uint8_t fixture_code(uint64_t *seed, enum lf_code code)
{
    uint8_t c = (uint8_t)fixture_random(seed);
    if (code == LF_CODE_I4 || code == LF_CODE_E2M1) return c & 15;
    return code == LF_CODE_E4M3 && (c & 0x7f) == 0x7f ? 0 : c; /* no NaN */
}

static inline void fixture_pack_coded(struct lf_device *dev, uint64_t *seed, struct fixture_weight *fw)
{
    const struct lf_format *f = &fw->w.format;
    size_t n_in = (size_t)fw->w.n_in, n = (size_t)fw->w.n_out * n_in,
           row_groups = (size_t)lf_format_n_groups(f, fw->w.n_in);
    size_t n_groups = (size_t)fw->w.n_out * row_groups;
    uint8_t *codes = fixture_alloc(n), *zeros = fixture_alloc(n_groups);
    float *scales = fixture_floats(seed, n_groups, 0.02f);
    for (size_t i = 0; i < n; i++) codes[i] = fixture_code(seed, f->code);
    for (size_t i = 0; i < n_groups; i++) {
        zeros[i] = (uint8_t)fixture_between(seed, 0, 16);
        if (f->code == LF_CODE_E2M1) scales[i] = ldexpf(1.0f, fixture_between(seed, -9, 0));
    }
    fixture_round_scales(f, scales, n_groups);
    struct lf_quant_rows all = {codes, scales, f->zeros ? zeros : NULL}, last = all;
    lf_dequantize_rows(f, fw->w.n_out, fw->w.n_in, &all, fw->values);
    int cut = fixture_between(seed, 0, fw->w.n_out);
    last.codes += (size_t)cut * n_in;
    last.scales += (size_t)cut * row_groups;
    if (f->zeros) last.zeros += (size_t)cut * row_groups;
    lf_device_ops(dev)->weight_pack(dev, &fw->w, cut, fw->w.n_out - cut, &last);
    lf_device_ops(dev)->weight_pack(dev, &fw->w, 0, cut, &all);
    free(codes);
    free(zeros);
    free(scales);
}

static inline struct fixture_weight fixture_weight(struct lf_device *dev, uint64_t *seed, struct lf_format format,
                                                   int n_out, int n_in)
{
    struct fixture_weight fw = {.w = {.format = format, .n_out = n_out, .n_in = n_in}};
    fw.values = fixture_alloc((size_t)n_out * (size_t)n_in * sizeof(float));
    size_t bytes = lf_device_ops(dev)->weight_bytes(&fw.w.format, n_out, n_in);
    void *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    fw.packed = test_guarded_copy(zeros, bytes);
    free(zeros);
    fw.w.data = fw.packed.ptr;
    assert_int_equal((uintptr_t)fw.w.data % 64, 0);
    if (lf_format_is_plain(&format))
        fixture_pack_plain(dev, seed, &fw);
    else
        fixture_pack_coded(dev, seed, &fw);
    return fw;
}

/* ---- activations ---- */

/* What a GEMM multiplies with weights of this format: x, x rounded to bf16, or scale times code of x in int8. */
static inline void fixture_x_as_read(enum lf_isa isa, const struct lf_format *format, const float *x, int n_in,
                                     double *out)
{
    bool rounds = format->code == LF_CODE_NONE && format->dtype == LF_BF16 && isa >= LF_ISA_AVX512_BF16;
    for (int k = 0; k < n_in; k++) out[k] = (double)(rounds ? lf_f32_from_bf16(lf_bf16_from_f32(x[k])) : x[k]);
    if (format->code == LF_CODE_NONE || format->code == LF_CODE_E4M3) return;
    struct lf_quant_order o = lf_quant_order(format, n_in);
    int8_t *codes = fixture_alloc((size_t)lf_quant_n_in(&o));
    struct lf_x_group *groups = fixture_alloc((size_t)o.n_groups * sizeof *groups);
    lf_quant_x_c(codes, groups, x, n_in, o.group, 1);
    for (int k = 0; k < n_in; k++) out[k] = (double)groups[k / o.group].scale * codes[k];
    free(codes);
    free(groups);
}

static inline void fixture_weight_free(struct fixture_weight *fw)
{
    test_guarded_free(&fw->packed);
    free(fw->values);
}

#endif
