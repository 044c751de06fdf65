/* The experts that have rows, in shared memory: made by each thread block for itself out of `first` (ops.h), so that a
 * grid of any size may share a step's work without a word from the host. The rows of an expert are cut into units of
 * ROWS, and a unit times a tile of an expert's columns is a tile of the grouped GEMM. Tiles run expert by expert, and
 * in an expert column tile by column tile: thread blocks side by side then read the same weights. */
#ifndef LF_DEVICE_CUDA_EXPERT_LIST_CUH
#define LF_DEVICE_CUDA_EXPERT_LIST_CUH

#include "core/limits.h"
#include "device/cuda/warp.cuh"

struct expert_tile {
    int expert;
    int row, n_rows; /* sorted rows, at most ROWS */
    int column_tile;
};

template <int ROWS> struct expert_list {
    int n;
    int expert[LF_EXPERTS_N];
    int row[LF_EXPERTS_N + 1];  /* the first of the expert; the next one's is where they end */
    int unit[LF_EXPERTS_N + 1]; /* the same of units */

    /* By one warp. */
    LF_GPU_MEMBER void build(const int32_t *first, int n_experts)
    {
        int lane = threadIdx.x % WARP, n_found = 0, n_units = 0;
#pragma unroll 4
        for (int base = 0; base < n_experts; base += WARP) {
            int e = min(base + lane, n_experts), begin = __ldcg(first + e);
            int n_rows = __ldcg(first + min(e + 1, n_experts)) - begin;
            unsigned with_rows = __ballot_sync(ALL_LANES, n_rows > 0);
            int units = (n_rows + ROWS - 1) / ROWS, upto = warp_scan(units, [](int a, int b) { return a + b; });
            if (n_rows > 0) {
                int at = n_found + __popc(with_rows & ((1u << lane) - 1));
                expert[at] = e;
                row[at] = begin;
                unit[at] = n_units + upto - units;
            }
            n_found += __popc(with_rows);
            n_units += __shfl_sync(ALL_LANES, upto, WARP - 1);
        }
        if (lane != 0) return;
        n = n_found;
        row[n_found] = __ldcg(first + n_experts);
        unit[n_found] = n_units;
    }

    LF_GPU_MEMBER int n_tiles(int column_tiles) const
    {
        return unit[n] * column_tiles;
    }

    /* tile < n_tiles. at: of the tile asked for before, an earlier one, or 0. */
    LF_GPU_MEMBER expert_tile find(int tile, int column_tiles, int &at) const
    {
        while (tile >= unit[at + 1] * column_tiles) at++;
        int within = tile - unit[at] * column_tiles, n_units = unit[at + 1] - unit[at];
        int first_row = row[at] + within % n_units * ROWS;
        return {expert[at], first_row, min((int)ROWS, row[at + 1] - first_row), within / n_units};
    }
};

#endif
