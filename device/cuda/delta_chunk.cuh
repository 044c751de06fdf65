/* The chunked delta rule in two kernels, and what the first hands to the second.
 *
 * Of a chunk of 64 tokens of one value head, with G_i = Σ_{j<=i} g_j (Yang, Kautz and Hatamizadeh 2024, arXiv
 * 2412.06464, section 3.3; the WY form of Yang et al. 2024, arXiv 2406.06484):
 *
 *     A_ij = β_i · e^(G_i - G_j) · k̂_i·k̂_j (j < i)     T = (I + A)^-1
 *     W = T · diag(β e^G) · K̂     U = T · diag(β) · V     P_ij = e^(G_i - G_j) · q̂_i·k̂_j (j <= i)
 *
 * needs nothing of what came before: delta_prepare.cu computes it for all chunks at once. What does,
 *
 *     V' = U - W·S     O = diag(e^G) · Q̂·S + P·V'     S = e^(G_63) · S + K̂ᵀ · diag(e^(G_63 - G)) · V'
 *
 * goes from chunk to chunk: delta_scan_sm90.cu, in registers.
 *
 * Budget, of 32,768 tokens at 16 key and 48 value heads (Qwen3.6-27B), that is 24,576 chunks of heads, on an H100 of
 * 132 multiprocessors, 1.75 GHz, 2.8 TB/s and 660 TFLOP/s in mma.sync. Per chunk of a head the first kernel does 4.6
 * MFLOP that count (K·Kᵀ and Q·Kᵀ are shared by three heads), 0.11 TFLOP in all: 0.2 ms; it reads q, k and v (0.67 GB)
 * and writes W, U and P (1.0 GB): 0.6 ms, which bounds it. The second does 7.9 MFLOP, 0.19 TFLOP in all, reads those
 * and q, k and writes 0.4 GB: at most 0.7 ms where nothing of it stays in the L2; but it is a chain: 512 chunks, one
 * behind the other, and 96 thread blocks (64 columns of S each; columns are independent), each of which needs 896
 * cycles of wgmma a chunk and waits three times for its end: at some 1,200 cycles a chunk 0.35 ms. So 1.0 to 1.4 ms,
 * and bytes are what there is to save: W, U and P are written once, in the element type, as the tiles that the second
 * kernel reads. Norms of q and k go into T, P and the scales of rows; q and k themselves are written once more, as
 * tiles, 0.27 GB: rows of other sequences then need no mask. (Measured: 1.08 and 0.80 ms; docs/performance.md says of
 * what.)
 *
 * Roundings. K·Kᵀ, Q·Kᵀ, G and T are as of floats (T's products are of bf16 in two parts); β, e^G and the norms go into
 * T's columns before T is rounded, once, so k and v are operands as they came. Rounded to the element type are W, U,
 * P, V' and, as an operand, S, which itself stays float. */
#ifndef LF_DEVICE_CUDA_DELTA_CHUNK_CUH
#define LF_DEVICE_CUDA_DELTA_CHUNK_CUH

#include "device/cuda/delta_cuda.h"
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"

enum {
    CHUNK = LF_DELTA_CHUNK,
    DIM = LF_CUDA_DELTA_DIM,           /* of keys and values */
    HALF_BYTES = CHUNK * 128,          /* 64 rows of 64 elements */
    TILE_BYTES = DIM / 64 * HALF_BYTES /* 64 rows of DIM elements: two halves, side by side */
};

/* Bytes from a tile's start to 8 elements of a row: rows of 128 bytes in the swizzle that wgmma reads (ptx_wgmma.cuh),
 * which also keeps ldmatrix free of conflicts. */
LF_GPU_FN int tile_at(int row, int unit)
{
    return unit / 8 * HALF_BYTES + row * 128 + ((unit % 8) ^ (row % 8)) * 16;
}

/* Of a chunk of a value head, in the scratch: in the order in which the scan has it in shared memory. */
struct chunk_record {
    unsigned char w[TILE_BYTES]; /* W, a tile */
    unsigned char p[HALF_BYTES]; /* P · k_dim^-½, half a tile */
    float out_scale[CHUNK];      /* e^(G_i) / |q_i| · k_dim^-½ */
    float v_scale[CHUNK];        /* e^(G_63 - G_i) / |k_i| */
    float decay, unused[127];    /* e^(G_63) */
    /* Uᵀ as accumulators: [DIM / 16 columns of v][4 pairs of 8 tokens][lane] of 4 words: tokens 16i + 2 (t mod 4) + {0,
     * 1} of columns t / 4 and t / 4 + 8, then the same of tokens + 8. */
    uint4 u[DIM / 16][4][32];
};
static_assert(sizeof(chunk_record) == LF_CUDA_DELTA_RECORD_BYTES, "what delta_scratch_bytes counts");

/* Of a chunk of a key head, behind those: its rows of q and k as tiles, zeros where it has fewer. */
struct key_record {
    unsigned char q[TILE_BYTES], k[TILE_BYTES];
};
static_assert(sizeof(key_record) == LF_CUDA_DELTA_KEY_RECORD_BYTES, "what delta_scratch_bytes counts");

/* Chunks [first, first + n) of the step. */
struct chunk_args {
    lf_delta_params p;
    lf_state_step step;
    int first, n;
};

LF_GPU_FN chunk_record *record_of(const chunk_args &args, int chunk, int head)
{
    return (chunk_record *)args.p.scratch + (size_t)(chunk - args.first) * args.p.shape.n_v_heads + head;
}

LF_GPU_FN key_record *key_record_of(const chunk_args &args, int chunk, int k_head)
{
    key_record *records = (key_record *)((chunk_record *)args.p.scratch + (size_t)args.n * args.p.shape.n_v_heads);
    return records + (size_t)(chunk - args.first) * args.p.shape.n_k_heads + k_head;
}

#endif
