/* Memory that GPUs of one host open to each other, and the kernels that exchange through it (peer.cu, peer_combine.cu).
 * Plain C, without CUDA: a plan counts its bytes anywhere. Each end of a rank (lf_comm_along) has such memory of its
 * own.
 *
 *     counts   of each thread block, this GPU's own
 *     flags    [block][rank]: in which round that rank's block of the same number is; the rank writes it
 *     few      two by turns, [rank][packet]: what ranks push; a packet has its turn's number in it
 *     pieces   two by turns, [block] of two slots: what this rank lets others read, or what they write for it
 *
 * A block talks to the blocks of its number and to nobody else, so each number is a protocol of its own, and messages
 * of any sizes may follow one another. */
#ifndef LF_DEVICE_CUDA_PEER_H
#define LF_DEVICE_CUDA_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/limits.h"
#include "device/comm.h"
#include "device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LF_PEER_BLOCKS = 256,               /* of a grid at most */
    LF_PEER_PIECE_BYTES = 32 * 1024,    /* of a block's slot */
    LF_PEER_FEW_FLOATS = 64 * 1024,     /* of a message that is pushed, at most; */
    LF_PEER_NORM_FLOATS = 128 * 1024,   /* of one with a norm, which is always */
    LF_PEER_COMBINE_ELEMS = 128 * 1024, /* of an lse-combine that is pushed in packets, at most */
    LF_PEER_MEMORY_ALIGN = 2 << 20      /* memory is taken in so much */
};

/* Of a block: how often it has done what; the numbers of turns and rounds. */
struct lf_peer_counts {
    uint32_t few, round, piece, unused;
};

struct lf_peer_memory {
    struct lf_peer_counts counts[LF_PEER_BLOCKS];
    uint32_t stop; /* in the whole group's: not 0: a kernel has given up, and the ones behind it do nothing */
    uint32_t unused[63];
    uint32_t flags[LF_PEER_BLOCKS][LF_RANKS_N];
    char pieces[2][LF_PEER_BLOCKS][2 * LF_PEER_PIECE_BYTES];
    /* then uint32_t few[2][n_ranks][2 * LF_PEER_NORM_FLOATS], 16-byte aligned */
};

static inline uint64_t lf_peer_bytes(int n_ranks)
{
    uint64_t few = 2 * (uint64_t)n_ranks * 2 * LF_PEER_NORM_FLOATS * sizeof(uint32_t);
    uint64_t bytes = sizeof(struct lf_peer_memory) + few;
    return (bytes + LF_PEER_MEMORY_ALIGN - 1) / LF_PEER_MEMORY_ALIGN * LF_PEER_MEMORY_ALIGN;
}

/* Words of the host's memory. */
struct lf_peer_report {
    uint32_t abort;      /* the host: whoever waits gives up */
    uint32_t waited_for; /* a kernel: 1 + the group's rank that did not come */
};

/* What all kernels of a rank are told. */
struct lf_peers {
    struct lf_peer_memory *of[LF_RANKS_N]; /* by rank of the end; its own too */
    struct lf_peer_report *report;         /* as the GPU addresses it */
    uint32_t *stop;                        /* of this rank, for all of its ends */
    uint64_t timeout_ns;
    int rank, n_ranks, first, stride; /* as in struct lf_comm */
};

int lf_cuda_peer_setup(void);
/* A message of up to LF_PEER_FEW_FLOATS, or with a norm, is pushed, a longer one is reduced by parts. */
int lf_cuda_peer_all_reduce(const struct lf_peers *peers, const struct lf_all_reduce_params *p,
                            struct lf_cuda_launch how);
/* Bytes of the words that a gather moves: what all rows, and where they lie, are multiples of. Of such words it has
 * fewer than 2^31. The same on all ranks. */
size_t lf_cuda_peer_gather_unit(const struct lf_peers *peers, const struct lf_all_gather_params *params);
/* The params' first is the host's memory. Of no bytes: a barrier. */
int lf_cuda_peer_all_gather(const struct lf_peers *peers, const struct lf_all_gather_params *p,
                            struct lf_cuda_launch how);
int lf_cuda_combine_setup(void);
/* peer_combine.cu. The params' first is the host's memory. Of up to LF_PEER_COMBINE_ELEMS elements that all get:
 * pushed in packets; else in pieces. */
int lf_cuda_peer_combine(const struct lf_peers *peers, const struct lf_lse_combine_params *p,
                         struct lf_cuda_launch how);

#ifdef __cplusplus
}
#endif

#endif
