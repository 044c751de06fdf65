/* What ranks share while they compute together: slots of collectives, channels of exchanges, and who waits for whom.
 * Ranks that are threads have one of it. Ranks in several processes have one each, a mirror, in which what the others
 * write arrives over sockets (comm_wire.h). comm_cpu.c says how it is used. */
#ifndef LF_DEVICE_CPU_COMM_SHARED_H
#define LF_DEVICE_CPU_COMM_SHARED_H

#include <stddef.h>
#include <stdint.h>

#include "device/comm_impl.h"
#include "device/cpu/wait_count.h"

enum {
    LF_COMM_SLOT_BYTES = 128 * 1024,
    LF_COMM_PIECE_BYTES = 32 * 1024, /* of a channel */
    LF_COMM_TICKS_N = 50             /* of a timeout: one in which this process did not run counts as one */
};

/* What a rank is there for. */
enum lf_comm_what {
    LF_COMM_BARRIER,
    LF_COMM_BROADCAST,
    LF_COMM_ALL_REDUCE,
    LF_COMM_ALL_GATHER,
    LF_COMM_LSE_COMBINE,
    LF_COMM_MESSAGE,
    LF_COMM_MEETING,
    LF_COMM_WHATS_N
};

struct lf_comm_slot {
    enum lf_comm_what what;
    uint64_t bytes; /* of the whole message; UINT64_MAX: the rank does not know */
    _Alignas(LF_COUNT_ALIGN) char data[LF_COMM_SLOT_BYTES];
};

struct lf_comm_channel {
    struct lf_count written, read;
    uint64_t bytes[LF_COMM_SLOTS_N]; /* of the whole message */
    _Alignas(LF_COUNT_ALIGN) char data[LF_COMM_SLOTS_N][LF_COMM_PIECE_BYTES];
};

/* Of one end of each rank. */
struct lf_comm_turns {
    struct lf_count arrived[LF_RANKS_N]; /* in how many */
    struct lf_comm_slot slots[LF_RANKS_N][LF_COMM_SLOTS_N];
};

/* For what a rank has waited longer than a tick. It may stand still since, and what it waited for have come. */
struct lf_comm_awaited {
    _Atomic int rank;       /* from 1 on; 0: nobody */
    _Atomic uint32_t count; /* which that one raises: where it is in the shared memory, in steps of LF_COUNT_ALIGN */
    _Atomic uint32_t at_least;
};

struct lf_comm_shared {
    struct lf_comm_turns along[LF_COMM_AXES_N];
    struct lf_comm_awaited awaited[LF_RANKS_N];
    struct lf_comm_channel channels[]; /* [n_ranks, n_ranks], from, to */
};

static inline size_t lf_comm_shared_bytes(int n_ranks)
{
    return sizeof(struct lf_comm_shared) + (size_t)n_ranks * (size_t)n_ranks * sizeof(struct lf_comm_channel);
}

#endif
