/* Attention for AMX: bf16 pages are the B operand of TDPBF16PS as they lie.
 *
 * A tile register holds 16 rows of 64 bytes. Scores: 16 query rows × the 64 keys of a page in four accumulators; for
 * each 32 channels one load of Q and four of K. Output: 16 rows × up to 64 channels in four accumulators over the keys
 * of a tile, 32 at a time; they go through memory to be added to o · alpha. Queries and P are rounded to bf16 as in
 * attn_avx512bf16.c, with which this file shares the softmax; the order of additions is the instruction's (even and odd
 * channels of 32 apart, then together), so the bits differ from there but not with the rows beside a row.
 *
 * A multiplication by P = 0 cannot be left out here, so the keys of a page at and past a group's last one are replaced
 * with zeros in a copy. Channels come in 32; what a head_dim has more is a last step of the scores with its own tile
 * shapes. Output channels come in 16; a last 8 are copied into rows of 16. The operating system must have granted the
 * tile registers to the process (device/ asks at open). */
#include "attention/cpu/attn_bf16.h"

#include <string.h>

enum {
    ROWS = 16,     /* of a tile register */
    STEP = 32,     /* bf16 of a row of A, pairs of rows of B */
    TILE_ROW = 64, /* bytes */
    PAGE_STEPS = LF_KV_BLOCK_TOKENS / STEP
};

/* Tile registers: 0 to 3 accumulators, 4 A, 5 B, 6 and 7 A and B of the last channels, where they are no 32. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void begin(const struct lf_attn_block *b)
{
    _Alignas(64) struct tile_config c;
    int rest = b->head_dim % STEP;
    memset(&c, 0, sizeof(c));
    c.palette = 1;
    for (int i = 0; i < 8; i++) {
        c.rows[i] = ROWS;
        c.row_bytes[i] = TILE_ROW;
    }
    if (rest > 0) {
        c.row_bytes[6] = (uint16_t)(rest * 2);
        c.rows[7] = (uint8_t)(rest / 2);
    }
    _tile_loadconfig(&c);
}

static void end(void)
{
    _tile_release();
}

static void zero_accumulators(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Rows of a block beyond n hold anything; what is computed from them goes nowhere. All keys of the page. */
static void scores(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first, int lo,
                   int hi)
{
    (void)n;
    (void)lo;
    (void)hi;
    enum { Q_ROW = LF_ATTN_Q_STRIDE * 4, K_ROW = LF_KV_BLOCK_TOKENS * 4 };
    const char *q = (const char *)(b->q + (size_t)row0 * LF_ATTN_Q_STRIDE), *k = page;
    int channel = 0;
    zero_accumulators();
    for (; channel + STEP <= b->head_dim; channel += STEP, k += ROWS * K_ROW) {
        for (int i = 0; i < ROWS && ahead; i++)
            fetch_ahead(4, (const float *)ahead + (size_t)(channel / 2 + i) * LF_KV_BLOCK_TOKENS);
        _tile_loadd(4, q + channel * 2, Q_ROW);
        _tile_loadd(5, k, K_ROW);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(5, k + TILE_ROW, K_ROW);
        _tile_dpbf16ps(1, 4, 5);
        _tile_loadd(5, k + 2 * TILE_ROW, K_ROW);
        _tile_dpbf16ps(2, 4, 5);
        _tile_loadd(5, k + 3 * TILE_ROW, K_ROW);
        _tile_dpbf16ps(3, 4, 5);
    }
    if (channel < b->head_dim) {
        _tile_loadd(6, q + channel * 2, Q_ROW);
        _tile_loadd(7, k, K_ROW);
        _tile_dpbf16ps(0, 6, 7);
        _tile_loadd(7, k + TILE_ROW, K_ROW);
        _tile_dpbf16ps(1, 6, 7);
        _tile_loadd(7, k + 2 * TILE_ROW, K_ROW);
        _tile_dpbf16ps(2, 6, 7);
        _tile_loadd(7, k + 3 * TILE_ROW, K_ROW);
        _tile_dpbf16ps(3, 6, 7);
    }
    float *s = b->s + (size_t)row0 * LF_ATTN_TILE + first;
    _tile_stored(0, s, LF_ATTN_TILE * 4);
    _tile_stored(1, s + VEC, LF_ATTN_TILE * 4);
    _tile_stored(2, s + 2 * VEC, LF_ATTN_TILE * 4);
    _tile_stored(3, s + 3 * VEC, LF_ATTN_TILE * 4);
}

/* The first `end` keys of a V page in b->page, zeros after them. */
static const void *page_prefix(struct lf_attn_block *b, const void *page, int end)
{
    size_t d = (size_t)b->head_dim, whole = (size_t)(end / 2) * d;
    uint32_t *dst = (uint32_t *)(void *)b->page;
    const uint32_t *src = page;
    memcpy(dst, src, whole * 4);
    memset(dst + whole, 0, ((size_t)LF_KV_BLOCK_TOKENS / 2 * d - whole) * 4);
    for (size_t i = whole; end % 2 && i < whole + d; i++) dst[i] = src[i] & 0xffff;
    return dst;
}

/* The last 8 channels of a V page as rows of 16: of the first `end` keys, zeros beside and after them. */
static void copy_last_channels(uint32_t (*dst)[VEC], const void *page, int head_dim, int end)
{
    memset(dst, 0, sizeof(*dst) * LF_KV_BLOCK_TOKENS / 2);
    for (int pair = 0; 2 * pair < end; pair++) {
        const uint32_t *src = (const uint32_t *)page + (size_t)(pair + 1) * (size_t)head_dim - VEC / 2;
        for (int i = 0; i < VEC / 2; i++) dst[pair][i] = 2 * pair + 1 < end ? src[i] : src[i] & 0xffff;
    }
}

/* Channels `first` and on of a tile's V pages: rows of pairs, v_row bytes apart. */
struct channels {
    const void *pages[LF_ATTN_TILE_PAGES];
    int v_row, first;
};

/* A page's keys from .. to - 1, in whole steps, into accumulators 0 .. n_vecs - 1: channels offset and on. */
static void add_page(const struct lf_attn_block *b, int row0, const struct channels *c, int page, int from, int to,
                     int offset, int n_vecs)
{
    int v_row = c->v_row;
    for (int step = from / STEP; step * STEP < to; step++) {
        const char *v = (const char *)c->pages[page] + step * ROWS * v_row + (offset - c->first) * 4;
        /* P: bf16 in the first half of each row of b->s. */
        const char *p =
            (const char *)(b->s + (size_t)row0 * LF_ATTN_TILE) + (page * LF_KV_BLOCK_TOKENS + step * STEP) * 2;
        _tile_loadd(4, p, LF_ATTN_TILE * 4);
        _tile_loadd(5, v, v_row);
        _tile_dpbf16ps(0, 4, 5);
        if (n_vecs < 2) continue;
        _tile_loadd(5, v + TILE_ROW, v_row);
        _tile_dpbf16ps(1, 4, 5);
        if (n_vecs < 3) continue;
        _tile_loadd(5, v + 2 * TILE_ROW, v_row);
        _tile_dpbf16ps(2, 4, 5);
        if (n_vecs < 4) continue;
        _tile_loadd(5, v + 3 * TILE_ROW, v_row);
        _tile_dpbf16ps(3, 4, 5);
    }
}

/* o = o · alpha + sums for n rows and n_vecs vectors of channels. */
static void add_sums(struct lf_attn_block *b, int row0, int n, int offset, int n_vecs)
{
    _Alignas(64) float sums[ROWS][4 * VEC];
    _tile_stored(0, sums[0], sizeof(sums[0]));
    _tile_stored(1, sums[0] + VEC, sizeof(sums[0]));
    _tile_stored(2, sums[0] + 2 * VEC, sizeof(sums[0]));
    _tile_stored(3, sums[0] + 3 * VEC, sizeof(sums[0]));
    for (int r = 0; r < n; r++) {
        float *o = b->o + (size_t)(row0 + r) * b->o_stride + (size_t)offset;
        __m512 alpha = _mm512_set1_ps(b->alpha[row0 + r]);
        for (int v = 0; v < n_vecs; v++)
            _mm512_store_ps(o + v * VEC,
                            _mm512_fmadd_ps(_mm512_load_ps(o + v * VEC), alpha, _mm512_load_ps(sums[r] + v * VEC)));
    }
}

/* o of n_vecs vectors of channels from offset on, over the tile's keys lo .. hi - 1. */
static void output_channels(struct lf_attn_block *b, const struct channels *c, int row0, int n, int lo, int hi,
                            int offset, int n_vecs)
{
    zero_accumulators();
    for (int page = lo / LF_KV_BLOCK_TOKENS; page * LF_KV_BLOCK_TOKENS < hi; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        int from = lo > first ? lo - first : 0;
        int to = hi - first < LF_KV_BLOCK_TOKENS ? hi - first : LF_KV_BLOCK_TOKENS;
        add_page(b, row0, c, page, from, to, offset, n_vecs);
    }
    add_sums(b, row0, n, offset, n_vecs);
}

static void output_last(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi)
{
    _Alignas(64) uint32_t last[LF_ATTN_TILE_PAGES][LF_KV_BLOCK_TOKENS / 2][VEC];
    struct channels c = {.pages = {last[0], last[1]}, .v_row = TILE_ROW, .first = b->head_dim / VEC * VEC};
    for (int page = lo / LF_KV_BLOCK_TOKENS; page * LF_KV_BLOCK_TOKENS < hi; page++) {
        int end = hi - page * LF_KV_BLOCK_TOKENS;
        copy_last_channels(last[page], t->v[page], b->head_dim, end < LF_KV_BLOCK_TOKENS ? end : LF_KV_BLOCK_TOKENS);
    }
    output_channels(b, &c, row0, n, lo, hi, c.first, 1);
}

static void output(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi, bool fetch)
{
    struct channels c = {.pages = {t->v[0], t->v[1]}, .v_row = b->head_dim * 4};
    int whole = b->head_dim / VEC * VEC;
    for (int page = 0; page < LF_ATTN_TILE_PAGES; page++) {
        int end = hi - page * LF_KV_BLOCK_TOKENS;
        if (end > 0 && end < LF_KV_BLOCK_TOKENS) c.pages[page] = page_prefix(b, t->v[page], end);
        for (int i = 0; fetch && t->v_ahead[page] && i < 2 * b->head_dim; i++)
            fetch_ahead(1, (const float *)t->v_ahead[page] + i * VEC);
    }
    for (int offset = 0; offset < whole; offset += 4 * VEC) {
        int n_vecs = whole - offset < 4 * VEC ? (whole - offset) / VEC : 4;
        output_channels(b, &c, row0, n, lo, hi, offset, n_vecs);
    }
    if (whole < b->head_dim) output_last(b, t, row0, n, lo, hi);
}

const struct lf_attn_kernel lf_attn_kernel_amx = {.name = "amx",
                                                  .group = ROWS,
                                                  .pack_q = pack_queries,
                                                  .scores = scores,
                                                  .next_max = next_max,
                                                  .softmax = softmax_pairs,
                                                  .output = output,
                                                  .close = close_split,
                                                  .combine = combine_split,
                                                  .expand = lf_attn_expand_avx2,
                                                  .begin = begin,
                                                  .end = end};
