/* What is behind comm.h: a group, a rank's end, and the table of backends, each of which moves what devices of its kind
 * have in their memory. Inside device/ only.
 *
 * Messages, meeting and failing are the host's, and the same for all kinds of devices: cpu/comm_cpu.c has them, with
 * the collectives of memory that is the host's itself. */
#ifndef LF_DEVICE_COMM_IMPL_H
#define LF_DEVICE_COMM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/check.h"
#include "device/comm.h"
#include "device/cpu/wait_count.h"

enum { LF_COMM_SLOTS_N = 2 };

struct lf_comm_backend {
    const char *kind; /* of the devices, as struct lf_device_info has it */
    /* All but the collectives may be NULL. connect: by each rank's thread, at the same time. */
    enum lf_status (*connect)(struct lf_comm *comm, struct lf_device *dev, struct lf_err *err);
    /* along: made of `whole`, which is connected; by each rank's thread, at the same time. */
    enum lf_status (*connect_along)(struct lf_comm *along, struct lf_comm *whole, struct lf_err *err);
    /* NULL: no rank can reach another one's memory. */
    enum lf_status (*open)(struct lf_comm *comm, void *base, size_t bytes, struct lf_err *err);
    void (*disconnect)(struct lf_comm *comm);    /* any thread, behind all use of it by all ranks */
    void (*look)(struct lf_comm *comm);          /* fails the group where the device has failed */
    bool (*is_busy)(const struct lf_comm *comm); /* what its device was given is not done; NULL: it always is */
    int (*norm_tokens)(const struct lf_comm *comm, int width);
    void (*barrier)(struct lf_comm *comm);
    void (*broadcast)(struct lf_comm *comm, int root, void *data, size_t bytes);
    void (*all_reduce)(struct lf_comm *comm, const struct lf_all_reduce_params *params);
    void (*all_gather)(struct lf_comm *comm, const struct lf_all_gather_params *params);
    void (*lse_combine)(struct lf_comm *comm, const struct lf_lse_combine_params *params);
    void (*exchange)(struct lf_comm *comm, const struct lf_exchange_params *params);
};

/* Memory that a rank has opened. */
struct lf_comm_opened {
    char *base; /* NULL: none yet */
    size_t bytes;
};

/* What a rank of GPUs shows the others (cuda/comm_cuda.c). Under the group's lock. */
struct lf_comm_gpu {
    int idx;                                      /* N of "cuda:N"; -1: not connected */
    void *of[LF_COMM_AXES_N];                     /* its peer memory, for each of its ends */
    struct lf_comm_opened opened[LF_COMM_OPEN_N]; /* read without the lock behind lf_comm_open: then it stays */
    volatile uint32_t *abort; /* a word of the host's memory that its kernels read while they wait */
};

struct lf_comm_group {
    int n_ranks, timeout_ms;
    int64_t spin_ns;
    struct lf_comm_shared *shared;
    size_t shared_bytes;
    struct lf_comm_wire *wire; /* NULL: all ranks are in this process. Else one is, and shared is its mirror */

    pthread_mutex_t lock;
    enum lf_status status; /* under the lock, as what follows */
    char reason[LF_ERR_MESSAGE_BYTES];
    struct lf_comm_gpu gpus[LF_RANKS_N];
    atomic_bool is_over; /* set under the lock, read by anybody */
};

struct lf_comm {
    const struct lf_comm_backend *backend;
    struct lf_comm_group *group;
    int rank, n_ranks; /* among those that it is for: */
    enum lf_comm_axis axis;
    int first, stride; /* rank r of them is rank first + r · stride of the group */
    uint32_t turn;
    bool has_heard;                                      /* a message */
    uint32_t n_sent[LF_RANKS_N], n_received[LF_RANKS_N]; /* pieces, to and from each rank */
    struct lf_comm_cuda *cuda;                           /* of that backend */
};

/* Ends the group; false. */
LF_PRINTF(2, 3) bool lf_comm_fail(struct lf_comm *comm, const char *fmt, ...);
bool lf_comm_is_over(const struct lf_comm *comm);
/* A rank of the end's, among the group's. */
static inline int lf_comm_in_group(const struct lf_comm *comm, int rank)
{
    return comm->first + rank * comm->stride;
}

extern const struct lf_comm_backend lf_comm_backend_cpu;
#ifdef LF_HAVE_CUDA
extern const struct lf_comm_backend lf_comm_backend_cuda;
#endif

#endif
