/* What the GEMMs of a CPU are made of: a work tile, a block of rows of x times one panel of 64 columns or a few, over
 * all of K. gemm.c and experts.c cut their work into these and share them out.
 *
 * Inside it K goes in blocks, so that a panel's block stays in the L2 cache while the groups of rows of one kernel tile
 * pass over it, and the rows' block while the panels do; the accumulators of the whole work tile wait in a buffer on
 * the stack in between. A work tile of r rows by c columns multiplies r · c / (r + c) times for each number that it
 * reads from outside of its L2: AMX, which would have to read faster than memory is with the 96 × 64 of the others,
 * gets 256 × 256 where that leaves each thread a few work tiles.
 *
 * With few rows (decode) there is nothing to keep: K is not cut, and a panel is one sequential read. Only then the
 * kernel is told that it comes from memory: asking ahead for what the first of several groups reads was 1 to 3% slower
 * (bench_experts). */
#ifndef LF_DEVICE_CPU_GEMM_WORK_H
#define LF_DEVICE_CPU_GEMM_WORK_H

#include "device/cpu/gemm_quant.h"
#include "device/cpu/row_kernels.h"

enum {
    LF_WORK_ROWS = 96,              /* of a work tile of one panel: 24 KiB of accumulators */
    LF_FAR_BYTES = 4 * 1024 * 1024, /* weights of this size are not in the caches when their turn comes again */
    LF_ROUND_PER_TASK = 32 * 1024,  /* elements of x that a task rounds or gathers */
};

/* What the work tiles of a GEMM share. */
struct lf_gemm_work {
    const struct lf_gemm_kernel *kernel;
    const struct lf_row_kernels *rows;
    lf_quant_x_fn *quant_x;
    struct lf_quant_order order; /* of coded weights */
    size_t panel_bytes;
    int cell_k; /* consecutive k that lie together in a panel: of one k, a pair or a group */
    size_t cell_bytes;
    int n_in;        /* of the matrix */
    int n_k;         /* the kernel's: n_in, or filled up to whole groups */
    const void *x;   /* what the kernel reads */
    size_t x_stride; /* elements */
    size_t x_elem_bytes;
    const struct lf_x_group *x_groups; /* [rows, order.n_groups] where the kernel reads int8 */
    float *y;
    float alpha;           /* 1: as it is, to the bit */
    const float *residual; /* or NULL */
    size_t y_stride;
    bool from_memory; /* the weights are not in a cache */
};

/* The part of it that follows from the matrix. */
struct lf_gemm_work lf_gemm_work(const struct lf_device *dev, const struct lf_weight *w);

/* ---- x as the kernel reads it: rounded, quantized or, where rows are gathered, copied into a scratch ---- */

/* Bytes of n_rows rows of n_in elements, at least those of any format and any smaller n_in. */
uint64_t lf_gemm_x_bytes(int n_rows, int n_in);
/* Lays n_rows rows out in the scratch; fill_row fills them one by one, on any thread. */
void lf_gemm_place_x(struct lf_gemm_work *g, void *scratch, int n_rows);
void lf_gemm_fill_row(const struct lf_gemm_work *g, int row, const float *x);

/* Rows [row, row + n_rows) of x and y, columns [col, col + n_cols) of y: one panel, or as many neighbours as the kernel
 * takes. */
struct lf_gemm_work_tile {
    const char *panel;
    const float *bias; /* [n_cols] or NULL */
    int row, n_rows;
    int col, n_cols;
};

/* How a GEMM of n_rows by n_panels is cut into work tiles: as large as the kernel takes, but a few for each thread. */
struct lf_gemm_cut {
    int rows, n_blocks;        /* of rows */
    int panels, n_panel_tiles; /* of panels */
};
struct lf_gemm_cut lf_gemm_cut(const struct lf_gemm_kernel *kernel, int n_rows, int n_panels, int n_threads);

void lf_gemm_run_work_tile(const struct lf_gemm_work *g, const struct lf_gemm_work_tile *u);
/* Rows of a work tile of one panel, so that n_rows are cut into blocks of equal size, whole kernel tiles each. */
int lf_gemm_block_rows(const struct lf_gemm_kernel *kernel, int n_rows);
/* Tasks to cut n_work_tiles into, for so many multiplications and bytes of weights: big enough to be worth handing out,
 * and enough of them that uneven cores finish together. */
int lf_gemm_tasks(uint64_t n_macs, uint64_t weight_bytes, int n_work_tiles, int n_threads);

#endif
