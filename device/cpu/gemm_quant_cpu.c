/* The reference of coded GEMMs: plain C, any machine. It defines the bits (gemm_quant.h). */
#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/quant.h"
#include "device/cpu/gemm_quant.h"

enum { C_ROWS = LF_GEMM_ROWS_MAX };

/* ---- activations ---- */

/* The bits of the largest magnitude: as integers, among which NaN and infinity are the largest. */
static uint32_t largest(const float *x, int n)
{
    uint32_t most = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        most = LF_MAX(most, bits & 0x7fffffffu);
    }
    return most;
}

static struct lf_x_group quantize_group(int8_t *codes, const float *x, int n, float unit)
{
    uint32_t bits = largest(x, n);
    float most;
    memcpy(&most, &bits, sizeof most);
    bool has_codes = isfinite(most) && most >= LF_X_TINY;
    struct lf_x_group g = {.scale = has_codes ? most / 127.0f * unit : isfinite(most) ? 0 : NAN};
    float inverse = has_codes ? 127.0f / most : 0;
    for (int i = 0; i < n; i++) {
        codes[i] = (int8_t)(has_codes ? lrintf(x[i] * inverse) : 0);
        g.sum += codes[i];
    }
    return g;
}

void lf_quant_x_c(int8_t *codes, struct lf_x_group *groups, const float *x, int n, int group, float unit)
{
    float last[LF_QUANT_GROUP_MAX] = {0};
    for (int k = 0; k < n; k += group) {
        const float *from = x + k;
        if (n - k < group) from = memcpy(last, from, (size_t)(n - k) * sizeof(float));
        *groups++ = quantize_group(codes + k, from, group, unit);
    }
}

/* ---- integers ---- */

/* One column's numbers of a group, u of gemm_quant.h. */
static void unpack_column(const struct lf_quant_order *o, const char *group, int col, int *u)
{
    static const uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    const uint8_t *codes = (const uint8_t *)group + o->codes_at + col * 4;
    for (int k = 0; k < o->group; k++) {
        if (o->code == LF_CODE_I8) {
            u[k] = codes[k / 4 * LF_QUANT_QUAD_BYTES + k % 4];
            continue;
        }
        int both = codes[k / 8 * LF_QUANT_QUAD_BYTES + k % 4], code = k % 8 < 4 ? both & 15 : both >> 4;
        u[k] = o->code == LF_CODE_E2M1 ? e2m1[code] : code;
    }
}

static void add_column(const struct lf_gemm_tile *t, const char *group, int g, int col)
{
    const struct lf_quant_order *o = t->order;
    int u[LF_QUANT_GROUP_MAX];
    unpack_column(o, group, col, u);
    int zero = o->zeros ? (uint8_t)group[o->zeros_at + (size_t)col] : lf_quant_zero(o->code);
    float w_scale = lf_quant_scale_at(o, group, col);
    for (int r = 0; r < t->n_rows; r++) {
        const int8_t *x = (const int8_t *)t->x + (size_t)r * t->x_stride + (size_t)(g * o->group);
        const struct lf_x_group *xg = t->x_groups + (size_t)r * t->x_groups_stride + g;
        int s = 0;
        for (int k = 0; k < o->group; k++) s += x[k] * u[k];
        float *acc = t->acc + (size_t)r * LF_PANEL_COLS + col;
        *acc = fmaf((float)(s - zero * xg->sum), xg->scale * w_scale, *acc);
    }
}

static void tile_integers(const struct lf_gemm_tile *t)
{
    if (!t->load) memset(t->acc, 0, (size_t)t->n_rows * LF_PANEL_COLS * sizeof(float));
    for (int g = 0; g < t->n_k / t->order->group; g++)
        for (int c = 0; c < LF_PANEL_COLS; c++)
            add_column(t, (const char *)t->panel + (size_t)g * t->order->group_bytes, g, c);
}

/* ---- E4M3 ---- */

static void add_float_column(const struct lf_gemm_tile *t, const char *group, int g, int col)
{
    const struct lf_quant_order *o = t->order;
    const uint8_t *codes = (const uint8_t *)group + o->codes_at + col * 4;
    int n = LF_MIN(o->group, t->n_k - g * o->group);
    float w[LF_QUANT_GROUP_MAX], w_scale = lf_quant_scale_at(o, group, col);
    for (int k = 0; k < n; k++) w[k] = lf_code_number(LF_CODE_E4M3, codes[k / 4 * LF_QUANT_QUAD_BYTES + k % 4]);
    for (int r = 0; r < t->n_rows; r++) {
        const float *x = (const float *)t->x + (size_t)r * t->x_stride + (size_t)(g * o->group);
        float *acc = t->acc + (size_t)r * LF_PANEL_COLS + col, part = 0;
        for (int k = 0; k < n; k++) part = fmaf(x[k], w[k], part);
        *acc = fmaf(part, w_scale, *acc);
    }
}

static void tile_e4m3(const struct lf_gemm_tile *t)
{
    if (!t->load) memset(t->acc, 0, (size_t)t->n_rows * LF_PANEL_COLS * sizeof(float));
    for (int g = 0; g * t->order->group < t->n_k; g++)
        for (int c = 0; c < LF_PANEL_COLS; c++)
            add_float_column(t, (const char *)t->panel + (size_t)g * t->order->group_bytes, g, c);
}

static const struct lf_gemm_kernel integers = {.tile = tile_integers, .max_rows = C_ROWS, .x = LF_X_INT8};
static const struct lf_gemm_kernel e4m3 = {.tile = tile_e4m3, .max_rows = C_ROWS, .x = LF_X_FLOAT};

const struct lf_quant_kernels lf_quant_c = {
    .gemm = {[LF_CODE_E4M3] = &e4m3, [LF_CODE_I8] = &integers, [LF_CODE_I4] = &integers, [LF_CODE_E2M1] = &integers},
    .quant_x = lf_quant_x_c};
