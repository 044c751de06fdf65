/* The experts that have rows, in shared memory: made by each thread block for itself out of `first` (ops.h), so that a
 * grid of any size may share a step's work without a word from the host. The rows of an expert are cut into units of
 * ROWS, and a unit times a tile of an expert's columns is a tile of the grouped GEMM. Tiles run expert by expert, and
 * in an expert column tile by column tile: thread blocks side by side then read the same weights.
 *
 * Where a tile of half a unit's rows costs half as much, tiles dealt out by turns leave some with much less to do. So
 * the two kinds are dealt out each for itself (expert_walk), and every walker takes its own in the order of the list.
 */
#ifndef LF_DEVICE_CUDA_EXPERT_LIST_CUH
#define LF_DEVICE_CUDA_EXPERT_LIST_CUH

#include <limits.h>

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
    int half[LF_EXPERTS_N + 1]; /* the same of units that have ROWS / 2 rows at most: an expert's last, if any */

    /* By one warp. Of the sorted rows from `from` on, as many as lie before `end`. */
    LF_GPU_MEMBER void build(const int32_t *first, int n_experts, int from = 0, int end = INT_MAX)
    {
        int lane = threadIdx.x % WARP, n_found = 0, n_units = 0, n_halves = 0;
#pragma unroll 4
        for (int base = 0; base < n_experts; base += WARP) {
            int e = min(base + lane, n_experts), begin = min(max(__ldcg(first + e), from), end);
            int n_rows = min(max(__ldcg(first + min(e + 1, n_experts)), from), end) - begin;
            unsigned with_rows = __ballot_sync(ALL_LANES, n_rows > 0);
            unsigned with_half = __ballot_sync(ALL_LANES, n_rows > 0 && (n_rows - 1) % ROWS < ROWS / 2);
            int units = (n_rows + ROWS - 1) / ROWS, upto = warp_scan(units, [](int a, int b) { return a + b; });
            if (n_rows > 0) {
                int at = n_found + __popc(with_rows & ((1u << lane) - 1));
                expert[at] = e;
                row[at] = begin;
                unit[at] = n_units + upto - units;
                half[at] = n_halves + __popc(with_half & ((1u << lane) - 1));
            }
            n_found += __popc(with_rows);
            n_halves += __popc(with_half);
            n_units += __shfl_sync(ALL_LANES, upto, WARP - 1);
        }
        if (lane != 0) return;
        n = n_found;
        row[n_found] = min(__ldcg(first + n_experts), end);
        unit[n_found] = n_units;
        half[n_found] = n_halves;
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

/* The tiles of one of n_walkers. */
template <int ROWS> struct expert_walk {
    const expert_list<ROWS> &list;
    int column_tiles, n_walkers;
    int whole, half;       /* the next of either kind, counted from the list's begin */
    int whole_at, half_at; /* whose they are, or an earlier one */

    LF_GPU_MEMBER expert_walk(const expert_list<ROWS> &l, int n_column_tiles, int walker, int n)
        : list(l), column_tiles(n_column_tiles), n_walkers(n), whole(walker), whole_at(0), half_at(0)
    {
        /* those who have a whole one less begin */
        half = (walker + n - n_whole(l.n) % n) % n;
    }

    /* Whole ones of the first `at` experts. */
    LF_GPU_MEMBER int n_whole(int at) const
    {
        return (list.unit[at] - list.half[at]) * column_tiles;
    }

    LF_GPU_MEMBER int n_half(int at) const
    {
        return list.half[at] * column_tiles;
    }

    LF_GPU_MEMBER expert_tile take_whole()
    {
        int units = n_whole(whole_at + 1) / column_tiles - n_whole(whole_at) / column_tiles;
        int within = whole - n_whole(whole_at), row = list.row[whole_at] + within % units * ROWS;
        whole += n_walkers;
        return {list.expert[whole_at], row, min((int)ROWS, list.row[whole_at + 1] - row), within / units};
    }

    LF_GPU_MEMBER expert_tile take_half()
    {
        int within = half - n_half(half_at), units = list.unit[half_at + 1] - list.unit[half_at];
        int row = list.row[half_at] + (units - 1) * ROWS;
        half += n_walkers;
        return {list.expert[half_at], row, list.row[half_at + 1] - row, within};
    }

    /* The next tile; false: there is none. */
    LF_GPU_MEMBER bool take(expert_tile &tile)
    {
        bool has_whole = whole < n_whole(list.n), has_half = half < n_half(list.n);
        if (!has_whole && !has_half) return false;
        while (has_whole && whole >= n_whole(whole_at + 1)) whole_at++;
        while (has_half && half >= n_half(half_at + 1)) half_at++;
        tile = has_whole && (!has_half || whole_at <= half_at) ? take_whole() : take_half();
        return true;
    }
};

#endif
