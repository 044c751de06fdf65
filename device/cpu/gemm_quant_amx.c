/* Coded GEMM with AMX: TDPBSUD multiplies a 16 × 64 tile of int8 activations by a 64 × 16 tile of u8 codes.
 *
 * Four k of a panel are a row of four B tiles as they lie (gemm_quant.h), 256 bytes apart from the next four. 16 rows
 * meet the 64 columns of a group in C tiles 0 to 3, A in tile 4, B in 6 and 7 in turn. A group of 32 k is half a tile
 * deep. What they sum up is stored, and goes into the accumulators as the sums of vectors do: the same bits. That costs
 * as much as 128 k of multiplying: few rows are better off with vectors, and groups of 32 k gain nothing over them.
 *
 * Tiles have 16 rows always; the last rows of x are copied, with whatever behind them. They are configured on entry
 * and released on exit, as in gemm_amx.c. */
#include "device/cpu/gemm_quant_dot_avx512.h"
#include "device/cpu/gemm_quant_vec.h"

enum { TILE_ROWS = 16, TILE_K = 64, SUMS_ROW_BYTES = LF_PANEL_COLS * 4 };

/* From so many rows on tiles are faster (bench_gemm): of I8, of packed codes, and where groups have 32 k. */
enum { ROWS_MIN_I8 = 16, ROWS_MIN_U4 = 12, ROWS_MIN_32 = 24 };

/* The operand of LDTILECFG. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

/* Tiles for groups of n k. */
static void configure(int n)
{
    struct tile_config cfg = {.palette = 1};
    int depth = n < TILE_K ? n : TILE_K;
    for (int i = 0; i < 8; i++) {
        cfg.n_rows[i] = (uint8_t)(i < 5 ? TILE_ROWS : depth / 4);
        cfg.row_bytes[i] = (uint16_t)(i == 4 ? depth : 64);
    }
    _tile_loadconfig(&cfg);
}

struct work {
    _Alignas(64) int32_t sums[TILE_ROWS * LF_PANEL_COLS];
    int8_t x[TILE_ROWS * LF_QUANT_GROUP_MAX];
};

/* sums = Σ x · u over a group. */
static void multiply(const struct group *g, const int8_t *x, size_t x_stride, int32_t *sums)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const char *codes = g->codes;
    for (int k = 0; k < g->n; k += TILE_K, codes += TILE_K * LF_PANEL_COLS) {
        _tile_loadd(4, x + k, x_stride);
        _tile_loadd(6, codes, LF_QUANT_QUAD_BYTES);
        _tile_dpbsud(0, 4, 6);
        _tile_loadd(7, codes + 64, LF_QUANT_QUAD_BYTES);
        _tile_dpbsud(1, 4, 7);
        _tile_loadd(6, codes + 128, LF_QUANT_QUAD_BYTES);
        _tile_dpbsud(2, 4, 6);
        _tile_loadd(7, codes + 192, LF_QUANT_QUAD_BYTES);
        _tile_dpbsud(3, 4, 7);
    }
    _tile_stored(0, sums, SUMS_ROW_BYTES);
    _tile_stored(1, sums + 16, SUMS_ROW_BYTES);
    _tile_stored(2, sums + 32, SUMS_ROW_BYTES);
    _tile_stored(3, sums + 48, SUMS_ROW_BYTES);
}

/* A whole tile of rows of x, of n_rows. */
static void fill_tile(const struct rows *rows, int n_rows, int n, int8_t *to)
{
    for (int r = 0; r < n_rows; r++) memcpy(to + r * n, rows->x + (size_t)r * rows->x_stride, (size_t)n);
}

LF_KERNEL void run_block(const struct group *g, struct kind kind, const struct rows *rows, int n_rows,
                         struct work *work)
{
    const int zero = lf_quant_zero(kind.code);
    if (n_rows == TILE_ROWS) {
        multiply(g, rows->x, rows->x_stride, work->sums);
    } else {
        fill_tile(rows, n_rows, g->n, work->x);
        multiply(g, work->x, (size_t)g->n, work->sums);
    }
    for (int r = 0; r < n_rows; r++) {
        const struct lf_x_group *x = rows->groups + (size_t)r * rows->groups_stride;
        LF_UNROLL
        for (int c = 0; c < LF_PANEL_COLS; c += VEC) {
            ivec s = ivec_add(ivec_load(work->sums + r * LF_PANEL_COLS + c), first_sum(g, kind.zeros, zero, c, x));
            add_to(g, c, s, x->scale, rows->acc + (size_t)r * LF_PANEL_COLS);
        }
    }
}

LF_KERNEL void run_tiles(const struct lf_gemm_tile *t, struct kind kind)
{
    struct unpacked to;
    struct work work;
    memset(work.x, 0, sizeof work.x);
    configure(t->order->group);
    for (int i = 0; i < t->n_k / t->order->group; i++) {
        struct group g = open_group(t, kind, i, &to);
        for (int k = 0; k < g.n && g.ahead > 0; k += 4)
            fetch_ahead(g.codes + g.ahead + k * LF_PANEL_COLS / (kind.form == BYTES ? 1 : 2));
        if (kind.form != BYTES) unpack_codes(kind.form, &g, &to);
        for (int row = 0; row < t->n_rows; row += TILE_ROWS) {
            struct rows rows = rows_at(t, row, i);
            int n = t->n_rows - row < TILE_ROWS ? t->n_rows - row : TILE_ROWS;
            run_block(&g, kind, &rows, n, &work);
        }
    }
    _tile_release();
}

static bool is_few_rows(const struct lf_gemm_tile *t, int rows_min)
{
    return t->n_rows < (t->order->group == LF_QUANT_GROUP_MIN ? ROWS_MIN_32 : rows_min);
}

static void amx_i8(const struct lf_gemm_tile *t)
{
    if (is_few_rows(t, ROWS_MIN_I8)) {
        tile_i8(t);
        return;
    }
    clear(t);
    run_tiles(t, (struct kind){LF_CODE_I8, BYTES, false});
}

static void amx_i4(const struct lf_gemm_tile *t)
{
    if (is_few_rows(t, ROWS_MIN_U4)) {
        tile_i4(t);
        return;
    }
    clear(t);
    if (t->order->zeros)
        run_tiles(t, (struct kind){LF_CODE_I4, NIBBLES, true});
    else
        run_tiles(t, (struct kind){LF_CODE_I4, NIBBLES, false});
}

static void amx_e2m1(const struct lf_gemm_tile *t)
{
    if (is_few_rows(t, ROWS_MIN_U4)) {
        tile_e2m1(t);
        return;
    }
    clear(t);
    run_tiles(t, (struct kind){LF_CODE_E2M1, FP4, false});
}

static const struct lf_gemm_kernel i8 = {.tile = amx_i8, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};
static const struct lf_gemm_kernel i4 = {.tile = amx_i4, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};
static const struct lf_gemm_kernel e2m1 = {.tile = amx_e2m1, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};

void lf_quant_use_amx(struct lf_quant_kernels *kernels)
{
    kernels->gemm[LF_CODE_I8] = &i8;
    kernels->gemm[LF_CODE_I4] = &i4;
    kernels->gemm[LF_CODE_E2M1] = &e2m1;
}
