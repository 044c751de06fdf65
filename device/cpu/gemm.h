/* GEMM on the CPU: the packed order of weights, and what a kernel for one instruction set provides.
 *
 * A weight matrix [n_out, n_in] is cut into panels of 64 output columns; lanes past n_out hold zero. A panel is
 * contiguous and k runs from its front to its back:
 *
 *     f32    [n_in][64]
 *     f16    [n_in][64]
 *     bf16   [ceil(n_in/2)][64][2]      two neighbouring k side by side, the missing partner of an odd n_in is zero
 *
 *     panel of bf16:   k 0,1 │ c0k0 c0k1 │ c1k0 c1k1 │ … │ c63k0 c63k1 │     256 bytes a pair: four 64-byte registers,
 *                      k 2,3 │ c0k2 c0k3 │ …                                 or a row of four AMX tiles
 *
 * The bf16 order is the operand order of VDPBF16PS and TDPBF16PS, and unpacks to two floats with a shift and a mask.
 *
 * The rule of the reduction: every output element has one accumulator, which starts at zero and takes k in ascending
 * order. Rows and columns are only ever lanes or separate registers, never summed across. So the bits of a row are the
 * same whatever rows stand beside it, and splitting by rows, columns or K blocks (accumulators are stored and loaded
 * back) changes nothing. Bias, alpha and residual come at the end, in this order. */
#ifndef LF_DEVICE_CPU_GEMM_H
#define LF_DEVICE_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "device/ops.h"

enum {
    LF_PANEL_COLS = 64,
    LF_GEMM_K_BLOCK = 512, /* even, and a multiple of AMX's 32; a panel's block of bf16 is 64 KiB */
    LF_GEMM_ROWS_MAX = 32, /* rows of a kernel's tile, but of AMX's */
    LF_GEMM_AMX_ROWS = 256,
    LF_GEMM_PANELS_MAX = 4, /* of a work tile */
    LF_GEMM_X_STRIDE = 32,  /* rounded rows are padded with zeros to a multiple of this */
};

/* What a kernel reads of x: float, bf16 in rows padded with zeros to LF_GEMM_X_STRIDE, or int8 (gemm_quant.h). */
enum lf_x_form { LF_X_FLOAT, LF_X_BF16, LF_X_INT8 };

/* One kernel: acc[r, 0..63] = (load ? acc[r, 0..63] : 0) + Σ_k x[r, k] · panel[k, 0..63], k = 0..n_k-1 ascending, for
 * r < n_rows <= max_rows. acc is row-major [n_rows, 64], 64-byte aligned. x_stride counts elements of x. panel points
 * at the first k, which is even, or at a group of coded weights. */
struct lf_gemm_tile {
    float *acc;
    const void *x;
    size_t x_stride;
    const void *panel;
    int n_rows;
    int n_k;
    bool load;
    bool from_memory; /* the panel is not in a cache, as far as the driver can tell */
    /* Bytes that will be read next, for a kernel that asks for them while it multiplies; NULL: none are known. */
    const char *next;
    size_t next_bytes;
    /* Of coded weights. */
    const struct lf_quant_order *order;
    const struct lf_x_group *x_groups; /* of row 0 from the first k on; LF_X_INT8 */
    size_t x_groups_stride;            /* from row to row */
};

/* Asks for some of what is read next. */
static inline void lf_gemm_fetch(const char *from, size_t bytes)
{
    enum { CACHE_LINE = 64 };
    for (size_t i = 0; i < bytes; i += CACHE_LINE) __builtin_prefetch(from + i, 0, 2);
}

struct lf_gemm_kernel {
    void (*tile)(const struct lf_gemm_tile *t);
    int max_rows;
    enum lf_x_form x;
    int max_panels; /* that a work tile may have side by side (gemm_work.h), up to LF_GEMM_PANELS_MAX; 0: one */
};

extern const struct lf_gemm_kernel lf_gemm_c_f32, lf_gemm_c_f16, lf_gemm_c_bf16;
extern const struct lf_gemm_kernel lf_gemm_avx2_f32, lf_gemm_avx2_f16, lf_gemm_avx2_bf16;
extern const struct lf_gemm_kernel lf_gemm_avx512_f32, lf_gemm_avx512_f16, lf_gemm_avx512_bf16;
extern const struct lf_gemm_kernel lf_gemm_avx512bf16_bf16;
extern const struct lf_gemm_kernel lf_gemm_amx_bf16;

/* Bytes of one panel. */
static inline size_t lf_panel_bytes(enum lf_dtype dtype, int n_in)
{
    size_t k = dtype == LF_BF16 ? ((size_t)n_in + 1) / 2 * 2 : (size_t)n_in;
    return k * LF_PANEL_COLS * lf_dtype_bytes(dtype);
}
/* Element index of (k, column) inside a panel. */
static inline size_t lf_panel_index(enum lf_dtype dtype, int k, int col)
{
    if (dtype != LF_BF16) return (size_t)k * LF_PANEL_COLS + (size_t)col;
    return ((size_t)(k / 2) * LF_PANEL_COLS + (size_t)col) * 2 + (size_t)(k % 2);
}

/* Entries of the op table. */
bool lf_cpu_supports_format(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in,
                            int n_experts);
uint64_t lf_cpu_weight_bytes(const struct lf_format *format, int n_out, int n_in);
void lf_cpu_weight_pack(struct lf_device *dev, const struct lf_weight *w, int row_first, int n_rows, const void *src);
void lf_cpu_weight_row(struct lf_device *dev, const struct lf_weight *w, int row, float *out);
/* n of its elements from element `first` on. */
void lf_cpu_weight_row_part(struct lf_device *dev, const struct lf_weight *w, int row, int first, int n, float *out);
uint64_t lf_cpu_gemm_scratch_bytes(int max_tokens, int max_n_in);
void lf_cpu_gemm(struct lf_device *dev, const struct lf_gemm_params *p);

#endif
