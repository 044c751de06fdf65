/* Reading a packed group (gemm_quant.h) by vectors: its codes as u8 numbers, its scales as floats. */
#ifndef LF_DEVICE_CPU_GEMM_QUANT_CODES_H
#define LF_DEVICE_CPU_GEMM_QUANT_CODES_H

#include "device/cpu/gemm_quant.h"
#include "device/cpu/ivec.h"

/* How codes lie where they are read. */
enum form { BYTES, NIBBLES, FP4, WIDE };
enum { PANEL_VECS = LF_PANEL_COLS / VEC, LINE = 64, FAR_BYTES = 2048 };

/* Constants of a kernel. */
struct kind {
    enum lf_code code;
    enum form form;
    bool zeros;
};

struct group {
    const char *codes;
    const float *scales;
    const uint8_t *zeros;
    int n;     /* k */
    int ahead; /* bytes: what is asked for early. 0: nothing, and without a branch in the loops, which costs registers
                */
};

/* Where a group's codes and scales are widened to. */
struct unpacked {
    _Alignas(64) char codes[LF_QUANT_GROUP_MAX * LF_PANEL_COLS];
    float scales[LF_PANEL_COLS];
};

/* u = 12 + 2 · number, by code */
LF_KERNEL ivec u_of_e2m1(ivec codes)
{
    return ivec_lookup(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0), codes);
}

/* Of eight k the first four's numbers, and the last. */
LF_KERNEL ivec first_codes(enum form form, const char *at)
{
    if (form == BYTES) return ivec_load(at);
    return form == FP4 ? u_of_e2m1(ivec_low4(ivec_load(at))) : ivec_low4(ivec_load(at));
}

LF_KERNEL ivec last_codes(enum form form, const char *at)
{
    if (form == BYTES) return ivec_load(at + LF_QUANT_QUAD_BYTES);
    return form == FP4 ? u_of_e2m1(ivec_high4(ivec_load(at))) : ivec_high4(ivec_load(at));
}

/* Bytes of eight k. */
LF_KERNEL int step_bytes(enum form form)
{
    return form == BYTES ? 2 * LF_QUANT_QUAD_BYTES : LF_QUANT_QUAD_BYTES;
}

LF_KERNEL void unpack_codes(enum form form, struct group *g, struct unpacked *to)
{
    const char *from = g->codes;
    char *out = to->codes;
    for (int k = 0; k < g->n; k += 8, from += LF_QUANT_QUAD_BYTES, out += 2 * LF_QUANT_QUAD_BYTES) {
        LF_UNROLL
        for (int v = 0; v < PANEL_VECS; v++) {
            ivec_store(out + v * VEC * 4, first_codes(form, from + v * VEC * 4));
            ivec_store(out + LF_QUANT_QUAD_BYTES + v * VEC * 4, last_codes(form, from + v * VEC * 4));
        }
    }
    g->codes = to->codes;
    g->ahead = 0;
}

/* Asks for four k's bytes further on. */
LF_KERNEL void fetch_ahead(const char *from)
{
    LF_UNROLL
    for (int i = 0; i < LF_QUANT_QUAD_BYTES; i += LINE) __builtin_prefetch(from + i, 0, 3);
}

/* 2^(e - 127), whose smallest is a denormal. */
LF_KERNEL void widen_exponents(const uint8_t *e, float *scales)
{
    LF_UNROLL
    for (int c = 0; c < LF_PANEL_COLS; c += VEC) {
        ivec bits = ivec_shift_left(ivec_widen(e + c), 23);
        vec_store(scales + c, ivec_as_float(ivec_max(bits, ivec_set(0x400000))));
    }
}

LF_KERNEL void widen_scales(enum lf_dtype type, const char *from, float *scales)
{
    LF_UNROLL
    for (int c = 0; c < LF_PANEL_COLS; c += VEC) {
        const char *at = from + c * 2;
        vec_store(scales + c, type == LF_F16 ? vec_load_f16(at) : ivec_as_float(ivec_shift_left(ivec_widen16(at), 16)));
    }
}

LF_KERNEL struct group open_group(const struct lf_gemm_tile *t, struct kind kind, int group_idx, float *widened)
{
    const struct lf_quant_order *o = t->order;
    const char *at = (const char *)t->panel + (size_t)group_idx * o->group_bytes;
    struct group g = {.codes = at + o->codes_at,
                      .scales = (const float *)(const void *)at,
                      .zeros = (const uint8_t *)at + o->zeros_at,
                      .n = o->group,
                      .ahead = t->from_memory ? FAR_BYTES : 0};
    for (size_t i = 0; t->from_memory && i < o->codes_at; i += LINE) __builtin_prefetch(at + FAR_BYTES + i, 0, 3);
    if (kind.code != LF_CODE_E2M1 && o->scales == LF_F32) return g;
    if (kind.code == LF_CODE_E2M1)
        widen_exponents((const uint8_t *)at, widened);
    else if (o->scales == LF_F16)
        widen_scales(LF_F16, at, widened);
    else
        widen_scales(LF_BF16, at, widened);
    g.scales = widened;
    return g;
}

#endif
