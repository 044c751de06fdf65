/* GEMM with coded weights (core/format.h) on the CPU: the packed order, quantized activations, and what defines the
 * bits.
 *
 * A matrix is cut into panels of 64 columns, as in gemm.h. A panel is a sequence of groups: 32, 64 or 128 k, the
 * largest of them that divides the format's group, 128 for whole rows. n_in is filled up to whole groups, and k behind
 * it meets activations of zero. A group is one piece of memory, a multiple of 64 bytes, so that a panel is one
 * sequential read:
 *
 *     scales    [64] of the type that the format has them in: float, or bf16 or f16 where that loses nothing, which
 *               saves an eighth of four bits in groups of 32. E4M3: float. E2M1, whose scales are powers of two: their
 *               exponents, u8 [64] (e8m0)
 *     zeros     u8 [64], of I4 with zero points only
 *     codes     I8, E4M3   [group/4][64 columns][4 k] of u8; I8 has 128 added
 *               I4, E2M1   [group/8][64 columns][4]   of two codes: k 0 to 3 in the low, k 4 to 7 in the high four bits
 *
 *     four k of I8:    │ c0: k0 k1 k2 k3 │ c1: k0 k1 k2 k3 │ … │ c63 │     256 bytes: four 64-byte operands of
 * VPDPBUSD, or a row of four B tiles of TDPBSSD
 *
 * One AND gives the first half of packed nibbles in this order, one shift and an AND the second.
 *
 * Activations are quantized once a GEMM, a token and group at a time: scale = max |x| / 127, codes = x / scale to
 * nearest even. So in a group everything is whole numbers, and exact in any order:
 *
 *     s = Σ_k x[k] · u[k] − z · Σ_k x[k]              u >= 0 the stored code, z its zero: 128 of I8, 8 or the group's
 * of I4; E2M1 is read as u = 12 + 2 · number, z = 12 acc = fma(s, x_scale · w_scale, acc)            in float, groups
 * ascending (x_scale halved for E2M1)
 *
 * |s| < 2^24, which a float holds. That is all of the arithmetic; the order of everything that rounds is fixed, so the
 * plain C kernel and those of every instruction set give the same bits, and a token's bits are its own.
 *
 * The activations' group is the weights', so one product of scales serves both. Smaller would cost a conversion and a
 * multiply-add more for each 32 products, larger is less accurate: docs/notebook/gemm-quant-cpu.md has the figures.
 *
 * A group of x that holds NaN or an infinity has the scale NaN, and so has every output of its token. A group whose
 * largest magnitude is below LF_X_TINY has scale and codes 0.
 *
 * E4M3 has no whole numbers to gain from: x stays float, codes are widened in registers.
 *
 *     part = Σ_k x[k] · w[k], k ascending by fma      acc = fma(part, w_scale, acc) */
#ifndef LF_DEVICE_CPU_GEMM_QUANT_H
#define LF_DEVICE_CPU_GEMM_QUANT_H

#include "core/format.h"
#include "device/cpu/gemm.h"

enum {
    LF_QUANT_GROUP_MIN = 32,
    LF_QUANT_GROUP_MAX = 128,
    LF_QUANT_QUAD_BYTES = 4 * LF_PANEL_COLS, /* of four k of one panel, a byte a code */
    LF_I8_ZERO = 128,
    LF_E2M1_ZERO = 12,
};
#define LF_X_TINY 0x1p-100f

/* The packed order of a coded matrix [*, n_in]. */
struct lf_quant_order {
    enum lf_code code;
    enum lf_dtype scales; /* but of E2M1 */
    bool zeros;
    int group;        /* k of a packed group */
    int n_groups;     /* of a panel */
    int format_group; /* k that share a scale in canonical rows */
    size_t zeros_at;  /* bytes from a group's begin */
    size_t codes_at;
    size_t group_bytes;
};

/* Whether there is a packed order for f: E4M3, I8, I4 and E2M1 with groups of a multiple of 32, or whole rows. */
bool lf_quant_supports(const struct lf_format *f);
struct lf_quant_order lf_quant_order(const struct lf_format *f, int n_in);
static inline size_t lf_quant_panel_bytes(const struct lf_quant_order *o)
{
    return (size_t)o->n_groups * o->group_bytes;
}
static inline int lf_quant_n_in(const struct lf_quant_order *o) /* filled up */
{
    return o->n_groups * o->group;
}
/* The number that a group's integers are multiplied by besides the scales. */
static inline float lf_quant_unit(enum lf_code code)
{
    return code == LF_CODE_E2M1 ? 0.5f : 1.0f;
}
static inline int lf_quant_zero(enum lf_code code)
{
    return code == LF_CODE_I8 ? LF_I8_ZERO : code == LF_CODE_I4 ? LF_I4_ZERO : LF_E2M1_ZERO;
}

/* Packs rows [first, first + n_rows) of src, canonical rows of n_in columns, into columns col .. of one panel. E2M1:
 * scales are powers of two, 2^-127 to 2^127. E4M3: a NaN makes its packed group's values of that row NaN. */
void lf_quant_pack_cols(const struct lf_quant_order *o, char *panel, int col, int n_rows, int n_in,
                        const struct lf_quant_rows *src, int first);
/* n elements of a panel's column from element `first` on, as floats: what lf_dequantize_rows makes of the same codes.
 */
void lf_quant_panel_col(const struct lf_quant_order *o, const char *panel, int col, int first, int n, float *out);

/* The scale of a packed group's column. */
float lf_quant_scale_at(const struct lf_quant_order *o, const char *group, int col);

/* One token's activations of one group. */
struct lf_x_group {
    float scale;
    int32_t sum; /* of the codes */
};

/* Quantizes one token's n activations in groups; codes [ceil(n / group) · group]. unit: multiplies the scales. */
typedef void lf_quant_x_fn(int8_t *codes, struct lf_x_group *groups, const float *x, int n, int group, float unit);
lf_quant_x_fn lf_quant_x_c, lf_quant_x_avx2;

/* Tiles of coded weights: n_k counts whole groups, but of E4M3, whose x is float and ends where it ends. */
struct lf_quant_kernels {
    const struct lf_gemm_kernel *gemm[LF_CODE_E2M1 + 1]; /* by enum lf_code */
    lf_quant_x_fn *quant_x;
};
extern const struct lf_quant_kernels lf_quant_c;

/* Each replaces the entries it has something faster for. */
void lf_quant_use_avx2(struct lf_quant_kernels *kernels);
void lf_quant_use_avx512vnni(struct lf_quant_kernels *kernels);
void lf_quant_use_amx(struct lf_quant_kernels *kernels);

#endif
