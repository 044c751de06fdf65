/* Coded GEMM with AMX: TDPBSSD multiplies a 16 × 64 tile of int8 activations by a 64 × 16 tile of int8 weights.
 *
 * A group's sums have to leave the tiles to be scaled: a store, and for 16 columns of a row a conversion, a product of
 * scales and a multiply-add, which is what bounds groups of 32 k (half a tile deep). So all else is kept out of that
 * loop. A K block of a panel is opened once for all rows: its codes less their zeros, four k of a panel in a row of
 * four B tiles, and its scales as floats. Then 16 rows × 16 columns go over the block's groups with their accumulators
 * in registers, one group's sums being scaled while the next one's are multiplied.
 *
 * Few rows are better off with vectors. Tiles are configured on entry and released on exit, as in gemm_amx.c. */
#include "device/cpu/gemm_quant_dot_avx512.h"
#include "device/cpu/gemm_quant_vec.h"

enum { TILE_ROWS = 16, TILE_K = 64, K_BLOCK = LF_GEMM_K_BLOCK, GROUPS_MAX = K_BLOCK / LF_QUANT_GROUP_MIN };

/* From so many rows on tiles are faster (bench_gemm): of I8, of packed codes, and where groups have 32 k. */
enum { ROWS_MIN_I8 = 16, ROWS_MIN_U4 = 12, ROWS_MIN_32 = 33 };

/* The operand of LDTILECFG. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

/* Tiles for groups of n k and so many rows of x: 0 and 1 sums, 2 and 3 of x, 4 and 5 of codes. */
static void configure(int n, int n_rows)
{
    struct tile_config cfg = {.palette = 1};
    int depth = n < TILE_K ? n : TILE_K;
    for (int i = 0; i < 6; i++) {
        cfg.n_rows[i] = (uint8_t)(i < 4 ? n_rows : depth / 4);
        cfg.row_bytes[i] = (uint16_t)(i / 2 == 1 ? depth : 64);
    }
    _tile_loadconfig(&cfg);
}

/* A K block of one panel with signed numbers, code less zero, [k/4][64][4], and its scales; and the sums of the two
 * groups that are under way. */
struct block {
    _Alignas(64) char codes[K_BLOCK * LF_PANEL_COLS];
    _Alignas(64) float room[GROUPS_MAX][LF_PANEL_COLS];
    _Alignas(64) int32_t sums[2][TILE_ROWS * VEC];
    const float *scales[GROUPS_MAX];
    int n_groups, group;
};

/* Four k of a vector's columns, less their zeros. */
LF_KERNEL ivec signed_codes(struct kind kind, ivec codes, ivec zeros)
{
    if (kind.form == BYTES) return _mm512_xor_si512(codes, ivec_set8(LF_I8_ZERO));
    if (kind.form == NIBBLES) return _mm512_sub_epi8(codes, zeros);
    return ivec_lookup(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), codes);
}

LF_KERNEL void open_codes(struct kind kind, const struct group *g, char *out)
{
    const char *from = g->codes;
    ivec zeros[PANEL_VECS];
    LF_UNROLL
    for (int v = 0; v < PANEL_VECS; v++)
        zeros[v] = kind.zeros ? ivec_mul(ivec_widen(g->zeros + v * VEC), ivec_set(0x01010101)) : ivec_set8(LF_I4_ZERO);
    for (int k = 0; k < g->n; k += 8, from += step_bytes(kind.form), out += 2 * LF_QUANT_QUAD_BYTES) {
        LF_UNROLL
        for (int v = 0; v < PANEL_VECS; v++) {
            const char *at = from + v * LINE;
            __builtin_prefetch(at + g->ahead, 0, 3);
            if (kind.form == BYTES) __builtin_prefetch(at + LF_QUANT_QUAD_BYTES + g->ahead, 0, 3);
            ivec first = kind.form == BYTES ? ivec_load(at) : ivec_low4(ivec_load(at));
            ivec last = kind.form == BYTES ? ivec_load(at + LF_QUANT_QUAD_BYTES) : ivec_high4(ivec_load(at));
            ivec_store(out + v * LINE, signed_codes(kind, first, zeros[v]));
            ivec_store(out + LF_QUANT_QUAD_BYTES + v * LINE, signed_codes(kind, last, zeros[v]));
        }
    }
}

LF_KERNEL void open_block(struct block *b, const struct lf_gemm_tile *t, struct kind kind, int first, int n_groups)
{
    b->n_groups = n_groups;
    b->group = t->order->group;
    for (int i = 0; i < n_groups; i++) {
        struct group g = open_group(t, kind, first + i, b->room[i]);
        b->scales[i] = g.scales;
        open_codes(kind, &g, b->codes + i * g.n * LF_PANEL_COLS);
    }
    __asm__ volatile("" ::: "memory"); /* tiles are loaded where the compiler does not see it */
}

/* sums of a group for the 16 columns that codes point at. Two that alternate, so that one is multiplied while the
 * other's sums go into the accumulators. */
#define MULTIPLY(name, c, a, b)                                                                                        \
    LF_KERNEL void name(const char *codes, int group, const int8_t *x, size_t x_stride, int32_t *sums)                 \
    {                                                                                                                  \
        _tile_zero(c);                                                                                                 \
        for (int k = 0; k < group; k += TILE_K, codes += TILE_K * LF_PANEL_COLS) {                                     \
            _tile_loadd(a, x + k, x_stride);                                                                           \
            _tile_loadd(b, codes, LF_QUANT_QUAD_BYTES);                                                                \
            _tile_dpbssd(c, a, b);                                                                                     \
        }                                                                                                              \
        _tile_stored(c, sums, VEC * 4);                                                                                \
    }
MULTIPLY(multiply_even, 0, 2, 4)
MULTIPLY(multiply_odd, 1, 3, 5)

LF_KERNEL void add_sums(const int32_t *sums, const float *scales, const struct rows *rows, int group_idx, int n_rows,
                        vec acc[TILE_ROWS])
{
    vec w = vec_load(scales);
    const struct lf_x_group *x = rows->groups + group_idx;
    LF_UNROLL
    for (int r = 0; r < n_rows; r++, x += rows->groups_stride)
        acc[r] = vec_fma(ivec_float(ivec_load(sums + r * VEC)), vec_mul(vec_set(x->scale), w), acc[r]);
}

/* 16 rows by 16 columns over a block: the accumulators stay in registers. */
static void run_square(struct block *b, const struct rows *rows, int col, bool load)
{
    vec acc[TILE_ROWS];
    LF_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) acc[r] = load ? vec_load(rows->acc + r * LF_PANEL_COLS + col) : vec_set(0);
    const char *codes = b->codes + col * 4;
    const int8_t *x = rows->x;
    int group = b->group, group_bytes = group * LF_PANEL_COLS, n = b->n_groups;
    multiply_even(codes, group, x, rows->x_stride, b->sums[0]);
    for (int i = 0; i < n; i += 2) {
        codes += group_bytes;
        x += group;
        if (i + 1 < n) multiply_odd(codes, group, x, rows->x_stride, b->sums[1]);
        add_sums(b->sums[0], b->scales[i] + col, rows, i, TILE_ROWS, acc);
        if (i + 1 == n) break;
        codes += group_bytes;
        x += group;
        if (i + 2 < n) multiply_even(codes, group, x, rows->x_stride, b->sums[0]);
        add_sums(b->sums[1], b->scales[i + 1] + col, rows, i + 1, TILE_ROWS, acc);
    }
    LF_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) vec_store(rows->acc + r * LF_PANEL_COLS + col, acc[r]);
}

/* The same of the last rows, fewer than 16: the tiles are configured for so many. */
static void run_last(struct block *b, const struct rows *rows, int n_rows, int col, bool load)
{
    for (int r = 0; r < n_rows && !load; r++) vec_store(rows->acc + r * LF_PANEL_COLS + col, vec_set(0));
    for (int i = 0; i < b->n_groups; i++) {
        multiply_even(b->codes + i * b->group * LF_PANEL_COLS + col * 4, b->group, rows->x + i * b->group,
                      rows->x_stride, b->sums[0]);
        vec w = vec_load(b->scales[i] + col);
        for (int r = 0; r < n_rows; r++) {
            float *acc = rows->acc + r * LF_PANEL_COLS + col;
            vec scale = vec_mul(vec_set(rows->groups[(size_t)r * rows->groups_stride + (size_t)i].scale), w);
            vec_store(acc, vec_fma(ivec_float(ivec_load(b->sums[0] + r * VEC)), scale, vec_load(acc)));
        }
    }
}

/* All rows of t over an opened block. Each step asks for a part of what comes next. */
static void run_block(struct block *b, const struct lf_gemm_tile *t, int first)
{
    int n_whole = t->n_rows / TILE_ROWS, rest = t->n_rows % TILE_ROWS;
    bool load = t->load || first > 0;
    size_t left = t->next_bytes, step = left / (size_t)(PANEL_VECS * (n_whole + 1)) + LINE;
    const char *next = t->next;
    configure(b->group, TILE_ROWS);
    for (int col = 0; col < LF_PANEL_COLS; col += VEC) {
        for (int i = 0; i < n_whole; i++) {
            struct rows rows = rows_at(t, i * TILE_ROWS, first);
            size_t n = left < step ? left : step;
            lf_gemm_fetch(next, n);
            next += n;
            left -= n;
            run_square(b, &rows, col, load);
        }
    }
    if (rest > 0) configure(b->group, rest);
    for (int col = 0; rest > 0 && col < LF_PANEL_COLS; col += VEC) {
        struct rows rows = rows_at(t, n_whole * TILE_ROWS, first);
        run_last(b, &rows, rest, col, load);
    }
    _tile_release();
}

LF_KERNEL void run_tiles(const struct lf_gemm_tile *t, struct kind kind)
{
    struct block b;
    int n_groups = t->n_k / t->order->group, step = K_BLOCK / t->order->group;
    for (int i = 0; i < n_groups; i += step) {
        open_block(&b, t, kind, i, n_groups - i < step ? n_groups - i : step);
        run_block(&b, t, i);
    }
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
    run_tiles(t, (struct kind){LF_CODE_I8, BYTES, false});
}

static void amx_i4(const struct lf_gemm_tile *t)
{
    if (is_few_rows(t, ROWS_MIN_U4)) {
        tile_i4(t);
        return;
    }
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
    run_tiles(t, (struct kind){LF_CODE_E2M1, FP4, false});
}

static const struct lf_gemm_kernel i8 = {
    .tile = amx_i8, .max_rows = LF_GEMM_AMX_ROWS, .x = LF_X_INT8, .max_panels = LF_GEMM_PANELS_MAX};
static const struct lf_gemm_kernel i4 = {
    .tile = amx_i4, .max_rows = LF_GEMM_AMX_ROWS, .x = LF_X_INT8, .max_panels = LF_GEMM_PANELS_MAX};
static const struct lf_gemm_kernel e2m1 = {
    .tile = amx_e2m1, .max_rows = LF_GEMM_AMX_ROWS, .x = LF_X_INT8, .max_panels = LF_GEMM_PANELS_MAX};

void lf_quant_use_amx(struct lf_quant_kernels *kernels)
{
    kernels->gemm[LF_CODE_I8] = &i8;
    kernels->gemm[LF_CODE_I4] = &i4;
    kernels->gemm[LF_CODE_E2M1] = &e2m1;
}
