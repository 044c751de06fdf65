/* GEMM with AMX: TDPBF16PS multiplies a 16 × 32 tile of x by a 32 × 16 tile of weights in 16 cycles.
 *
 * The panels of gemm.h need no other order: sixteen pairs of k times sixteen columns of a panel are sixteen pieces of
 * 64 bytes, 256 bytes apart, which is a B tile as it stands.
 *
 *     up to 16 rows    C tiles 0-3: all 64 columns        A tile 4          B tiles 6, 7 in turn
 *     17 to 32 rows    C tiles 0-3: 2 of rows × 2 of      A tiles 4, 5      B tiles 6, 7
 *                      columns, half a panel at a time
 *     up to 256        by 32
 *
 * The instruction takes a tile's k in a fixed order for each element and rows never meet, so the bits of a row do not
 * depend on the rows beside it. They differ from VDPBF16PS's, which adds in another order.
 *
 * A K block that is no multiple of 32 ends on a copy of its last weights, filled up with zeros; x has zeros there
 * already. Tiles are configured on entry and released on exit, so no thread carries tile state between GEMMs. */
#include "device/cpu/gemm.h"

#include <immintrin.h>
#include <string.h>

enum {
    ROWS = 32,
    LINE = 64,
    TILE_ROWS = 16,
    TILE_COLS = 16,
    TILE_K = LF_GEMM_X_STRIDE,
    TILE_PAIRS = TILE_K / 2,
    ACC_ROW_BYTES = LF_PANEL_COLS * 4,
    PANEL_ROW_BYTES = LF_PANEL_COLS * 4 /* a pair of k */
};

/* The operand of LDTILECFG: palette 1, then bytes a row and rows of each tile. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

static void set_tile(struct tile_config *cfg, int tile, int n_rows)
{
    cfg->n_rows[tile] = (uint8_t)n_rows;
    cfg->row_bytes[tile] = 64;
}

/* The last K step of a GEMM whose n_in is no multiple of 32, zeros behind it. */
struct tail {
    _Alignas(64) uint32_t cells[TILE_PAIRS * LF_PANEL_COLS];
};

static const char *copy_tail(struct tail *tail, const char *panel, int n_k)
{
    size_t n = ((size_t)n_k + 1) / 2 * PANEL_ROW_BYTES;
    memcpy(tail->cells, panel, n);
    memset((char *)tail->cells + n, 0, sizeof tail->cells - n);
    return (const char *)tail->cells;
}

static void tile_16(const struct lf_gemm_tile *t)
{
    struct tile_config cfg = {.palette = 1};
    for (int i = 0; i < 5; i++) set_tile(&cfg, i, t->n_rows);
    set_tile(&cfg, 6, TILE_PAIRS);
    set_tile(&cfg, 7, TILE_PAIRS);
    _tile_loadconfig(&cfg);

    if (t->load) {
        _tile_loadd(0, t->acc, ACC_ROW_BYTES);
        _tile_loadd(1, t->acc + TILE_COLS, ACC_ROW_BYTES);
        _tile_loadd(2, t->acc + 2 * TILE_COLS, ACC_ROW_BYTES);
        _tile_loadd(3, t->acc + 3 * TILE_COLS, ACC_ROW_BYTES);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    struct tail tail;
    const uint16_t *x = t->x;
    const char *panel = t->panel;
    for (int k = 0; k < t->n_k; k += TILE_K, x += TILE_K, panel += TILE_PAIRS * PANEL_ROW_BYTES) {
        if (t->n_k - k < TILE_K) panel = copy_tail(&tail, panel, t->n_k - k);
        _tile_loadd(4, x, t->x_stride * 2);
        _tile_loadd(6, panel, PANEL_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, panel + 64, PANEL_ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(6, panel + 128, PANEL_ROW_BYTES);
        _tile_dpbf16ps(2, 4, 6);
        _tile_loadd(7, panel + 192, PANEL_ROW_BYTES);
        _tile_dpbf16ps(3, 4, 7);
    }
    _tile_stored(0, t->acc, ACC_ROW_BYTES);
    _tile_stored(1, t->acc + TILE_COLS, ACC_ROW_BYTES);
    _tile_stored(2, t->acc + 2 * TILE_COLS, ACC_ROW_BYTES);
    _tile_stored(3, t->acc + 3 * TILE_COLS, ACC_ROW_BYTES);
    _tile_release();
}

/* Half a panel: columns col .. col + 31 of up to 32 rows. The tiles are configured. */
static void tile_32_half(const struct lf_gemm_tile *t, int col)
{
    float *top = t->acc + col, *bottom = top + TILE_ROWS * LF_PANEL_COLS;
    if (t->load) {
        _tile_loadd(0, top, ACC_ROW_BYTES);
        _tile_loadd(1, top + TILE_COLS, ACC_ROW_BYTES);
        _tile_loadd(2, bottom, ACC_ROW_BYTES);
        _tile_loadd(3, bottom + TILE_COLS, ACC_ROW_BYTES);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    struct tail tail;
    const uint16_t *x = t->x;
    const char *panel = (const char *)t->panel;
    size_t x_bytes = t->x_stride * 2;
    for (int k = 0; k < t->n_k; k += TILE_K, x += TILE_K, panel += TILE_PAIRS * PANEL_ROW_BYTES) {
        if (t->n_k - k < TILE_K) panel = copy_tail(&tail, panel, t->n_k - k);
        _tile_loadd(4, x, x_bytes);
        _tile_loadd(6, panel + col * 4, PANEL_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, panel + col * 4 + 64, PANEL_ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, x + TILE_ROWS * t->x_stride, x_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, top, ACC_ROW_BYTES);
    _tile_stored(1, top + TILE_COLS, ACC_ROW_BYTES);
    _tile_stored(2, bottom, ACC_ROW_BYTES);
    _tile_stored(3, bottom + TILE_COLS, ACC_ROW_BYTES);
}

static void configure_32(int n_rows)
{
    struct tile_config cfg = {.palette = 1};
    int n_bottom = n_rows - TILE_ROWS;
    set_tile(&cfg, 0, TILE_ROWS);
    set_tile(&cfg, 1, TILE_ROWS);
    set_tile(&cfg, 2, n_bottom);
    set_tile(&cfg, 3, n_bottom);
    set_tile(&cfg, 4, TILE_ROWS);
    set_tile(&cfg, 5, n_bottom);
    set_tile(&cfg, 6, TILE_PAIRS);
    set_tile(&cfg, 7, TILE_PAIRS);
    _tile_loadconfig(&cfg);
}

static void tile_32(const struct lf_gemm_tile *t)
{
    configure_32(t->n_rows);
    tile_32_half(t, 0);
    tile_32_half(t, LF_PANEL_COLS / 2);
    _tile_release();
}

/* n_rows of t's, from row on, as a tile of their own. */
static struct lf_gemm_tile rows_of(const struct lf_gemm_tile *t, int row, int n_rows)
{
    struct lf_gemm_tile part = *t;
    part.acc += row * LF_PANEL_COLS;
    part.x = (const uint16_t *)t->x + (size_t)row * t->x_stride;
    part.n_rows = n_rows;
    return part;
}

/* More rows: half a panel of a K block stays in the L1 cache while all of them pass, and each step asks for a part of
 * what comes next. */
static void tile_many(const struct lf_gemm_tile *t)
{
    int whole = t->n_rows / ROWS * ROWS;
    size_t left = t->next_bytes, step = left / (size_t)(2 * whole / ROWS) + LINE;
    const char *next = t->next;
    configure_32(ROWS);
    for (int col = 0; col < LF_PANEL_COLS; col += LF_PANEL_COLS / 2) {
        for (int row = 0; row < whole; row += ROWS) {
            struct lf_gemm_tile part = rows_of(t, row, ROWS);
            size_t n = left < step ? left : step;
            lf_gemm_fetch(next, n);
            next += n;
            left -= n;
            tile_32_half(&part, col);
        }
    }
    struct lf_gemm_tile last = rows_of(t, whole, t->n_rows - whole);
    if (last.n_rows > TILE_ROWS)
        tile_32(&last);
    else if (last.n_rows > 0)
        tile_16(&last);
    _tile_release();
}

static void run(const struct lf_gemm_tile *t)
{
    if (t->n_rows <= TILE_ROWS)
        tile_16(t);
    else if (t->n_rows <= ROWS)
        tile_32(t);
    else
        tile_many(t);
}

const struct lf_gemm_kernel lf_gemm_amx_bf16 = {
    .tile = run, .max_rows = LF_GEMM_AMX_ROWS, .x = LF_X_BF16, .max_panels = LF_GEMM_PANELS_MAX};
