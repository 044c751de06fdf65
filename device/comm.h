/* Ranks: several devices that compute one model together, and how they exchange what they compute.
 *
 * A rank is a device and the one thread that owns it. The ranks of a group call the same functions in the same order
 * with the same sizes: the program they run is the same. What a rank passes and gets is memory of its own device.
 *
 *     all_reduce   y = residual + ((x₀ + x₁) + x₂) + …     the sum over ranks, to each
 *     all_gather   out = [x₀ x₁ x₂ …] of each row          all columns, to each
 *     lse_combine  out = Σ e^lseᵣ · xᵣ / Σ e^lseᵣ          attention of which each has some keys: its rows, or all
 *     broadcast    data of one rank, to all
 *     exchange     send and receive, each between two ranks
 *
 * Order. Sums run over ranks from 0 on, whatever the size of the message and wherever a row stands in it. So a row's
 * bits depend on the split and on nothing else; a ring, which begins elsewhere for each piece, would not have that.
 *
 * Failure. Collectives are ops (ops.h): they neither allocate nor fail. The first thing that goes wrong in a group
 * (a rank that does not come in time, one that comes with something else, lf_comm_group_abort) is final for all of it:
 * whoever waits stops waiting, later calls return at once and leave anything in their outputs, and lf_comm_check says
 * what it was. A group whose work is done ends in the same way, with a status of its own (LF_SHUTDOWN). A rank waits
 * for the others timeout_ms at most, in which the process runs; only for the first message of rank 0, and in
 * lf_comm_meet for all, it waits for ever, because loading takes its time. Rank 0, when it has nothing to say, says so
 * in time.
 *
 * Open memory. GPUs that reach each other's memory need no message for what an op can write where it belongs: a rank
 * opens its workspace and its cache (lf_comm_open), ops ask where another rank has the same (lf_comm_peer), and
 * barriers say when it may be written and when it has come.
 *
 * A row of a table for each kind of device (comm_impl.h). Of CPUs collectives go through memory that ranks share
 * (cpu/comm_cpu.c), which is also the plain reference, and are complete on return; where ranks are processes, on one
 * host or several, each has a mirror of that memory, and what others write there comes over sockets (cpu/comm_wire.h):
 * the same sums in the same order, so the same bits. Of GPUs they are kernels of the
 * device's queue that read and write each other's memory (cuda/comm_cuda.c), recorded in graphs as other ops are; one
 * that waits too long gives up, and lf_comm_check says so once it has. */
#ifndef LF_DEVICE_COMM_H
#define LF_DEVICE_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/status.h"
#include "device/ops.h"

enum { LF_GPU_RANKS_N = 8 }; /* at most, where they are GPUs of one host; else LF_RANKS_N */

/* What ranks share, as threads of one process or as one rank of each of several. Made before them and destroyed behind
 * them, by any thread. */
struct lf_comm_group;
/* A rank's end. Its thread alone uses it. */
struct lf_comm;

/* timeout_ms: > 0. LF_INVALID for a number of ranks that is none of 1 to LF_RANKS_N, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_comm_group_create(struct lf_comm_group **out, int n_ranks, int timeout_ms,
                                                  struct lf_err *err);
/* A group of which this process has one rank; sockets[r] is a connected stream socket to rank r's process, which is of
 * the same build and calls this with the same n_ranks and timeout_ms; sockets[rank] is not looked at. The group owns
 * the sockets from here on, also where it fails. A thread of its own reads them, so a process that ends, stands still
 * for timeout_ms, or sends what is no message of this group ends the group in all of them, in whatever wait. CPUs only.
 * LF_INVALID as above, LF_NO_MEMORY, LF_IO. */
LF_MUST_CHECK enum lf_status lf_comm_group_create_wire(struct lf_comm_group **out, int n_ranks, int rank,
                                                       const int sockets[], int timeout_ms, struct lf_err *err);
/* Accepts NULL; every lf_comm of it is destroyed before. Of several processes this one leaves: for the others the group
 * ends with LF_SHUTDOWN, if it has not ended before. */
void lf_comm_group_destroy(struct lf_comm_group *group);
int lf_comm_group_n_ranks(const struct lf_comm_group *group);
/* Memory of the host that a group takes, once all of it has been used: by as many ends of each rank, those of
 * lf_comm_along with it. */
uint64_t lf_comm_group_bytes(int n_ranks, int n_ends);
/* Memory of its own that each GPU gives to it, and to the ends of its row and column in a grid of so many columns. 0
 * columns: there are no such ends. */
uint64_t lf_comm_gpu_bytes(int n_ranks, int n_columns);
/* Ends the group: any thread, at any time. The first reason stays, and its status, which lf_comm_check returns from
 * then on: LF_SHUTDOWN where nothing has gone wrong. The reason is copied. */
void lf_comm_group_abort(struct lf_comm_group *group, enum lf_status status, const char *reason);
/* LF_OK, or what ended the group. Any thread: unlike lf_comm_check it asks no device. */
LF_MUST_CHECK enum lf_status lf_comm_group_check(struct lf_comm_group *group, struct lf_err *err);

/* Every rank's end is made once. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_comm_create(struct lf_comm **out, struct lf_comm_group *group, int rank,
                                            struct lf_err *err);
void lf_comm_destroy(struct lf_comm *comm); /* accepts NULL; no rank is in a collective any more */
/* The ranks of a group as a grid, row by row with so many columns: another end of this rank, for collectives among
 * those of its row, or of its column, who count from 0 on there. Failing stays the group's, and messages and meetings
 * are for ends of the whole group alone, as exchanges are. n_columns divides the number of ranks. Of GPUs, behind
 * lf_comm_connect and by all ranks, each with the same axis: they wait for one another as there. Each axis is asked for
 * once, and such an end is destroyed before that of the whole group. LF_NO_MEMORY, LF_DEVICE. */
enum lf_comm_axis { LF_COMM_ALL, LF_COMM_ROW, LF_COMM_COLUMN, LF_COMM_AXES_N };
LF_MUST_CHECK enum lf_status lf_comm_along(struct lf_comm **out, struct lf_comm *comm, enum lf_comm_axis axis,
                                           int n_columns, struct lf_err *err);
/* Before the first collective, by each rank's thread, with its device: all ranks have devices of one kind. GPUs wait
 * here for one another, for ever, as in lf_comm_meet. LF_UNSUPPORTED where they cannot reach each other's memory,
 * LF_NO_MEMORY, LF_DEVICE. */
LF_MUST_CHECK enum lf_status lf_comm_connect(struct lf_comm *comm, struct lf_device *dev, struct lf_err *err);
/* Memory of its own that a rank of GPUs opens to the others, so that ops may write there themselves, between barriers;
 * by all ranks of the group, in the same order, LF_COMM_OPEN_N times at most. They wait for one another as in
 * lf_comm_connect. It stays open, and is freed when no rank runs any more. Where a backend has no such memory nothing
 * happens. LF_DEVICE. */
enum { LF_COMM_OPEN_N = 2 };
LF_MUST_CHECK enum lf_status lf_comm_open(struct lf_comm *comm, void *base, size_t bytes, struct lf_err *err);
/* Where a rank of the end has what this one has at `at`, as this one's device addresses it: ranks that lay out what
 * they open alike know all of each other's. NULL: it is in no open memory. */
void *lf_comm_peer(const struct lf_comm *comm, int rank, const void *at);
int lf_comm_rank(const struct lf_comm *comm);
int lf_comm_n_ranks(const struct lf_comm *comm);
/* Ends the group because its work is done: LF_SHUTDOWN. */
void lf_comm_end(struct lf_comm *comm);
/* LF_OK, or what ended the group: LF_DEVICE with the reason, or what abort was told. */
LF_MUST_CHECK enum lf_status lf_comm_check(struct lf_comm *comm, struct lf_err *err);

/* ---- device memory ---- */

void lf_comm_barrier(struct lf_comm *comm);
void lf_comm_broadcast(struct lf_comm *comm, int root, void *data, size_t bytes);

struct lf_all_reduce_params {
    float *y;              /* [n]; may be x or the residual */
    const float *x;        /* [n], this rank's */
    const float *residual; /* [n], the same on all ranks, or NULL */
    size_t n;
    /* Rows of y of so many floats, up to lf_comm_norm_tokens() of them: half of their norm is made on the way. */
    struct lf_fused_norm norm;
    int width; /* looked at with a norm */
};
/* Rows of that width whose norm an all_reduce may make; 0: none. */
int lf_comm_norm_tokens(const struct lf_comm *comm, int width);
void lf_comm_all_reduce(struct lf_comm *comm, const struct lf_all_reduce_params *params);

/* Rank r's columns of a row are bytes first[r] to first[r + 1]; those of ranks may differ in width. */
struct lf_all_gather_params {
    void *out;           /* [n_rows, first[n_ranks]] bytes; does not overlap x */
    const void *x;       /* [n_rows, first[rank + 1] - first[rank]] bytes */
    const size_t *first; /* [n_ranks + 1], from 0 on, ascending */
    int n_rows;
};
void lf_comm_all_gather(struct lf_comm *comm, const struct lf_all_gather_params *params);

/* Each rank brings what attention made of the keys that it has: x, already divided by the sum of their
 * e^score, and the logarithm of that sum. Of a head of a row (Dao et al. 2022, §3.1, over ranks instead of tiles):
 *
 *     m = max lseᵣ     out = Σ e^(lseᵣ - m) · xᵣ / Σ e^(lseᵣ - m)     both sums from rank 0 on
 *
 * A rank without a key for it has lse -inf, and its x is not looked at; where no rank has one out is 0.
 *
 * Weights and sums are floats. x and out are what attention makes of activations there: floats on a CPU, bf16 or fp16
 * on a GPU, where each xᵣ has been rounded once before it comes here, and out is again. The weights are positive and
 * add up to 1, so the first rounding moves out by no more than half a unit in the last place of the largest |xᵣ|: of
 * bf16 2^-8 of it, as much as the second one may. */
struct lf_lse_combine_params {
    void *out;           /* [first[rank + 1] - first[rank], n_heads, dim], or all rows; does not overlap x */
    const void *x;       /* [n_rows, n_heads, dim] */
    const float *lse;    /* [n_rows, n_heads] */
    enum lf_dtype dtype; /* of out and x: LF_F32 on a CPU, LF_BF16 or LF_F16 on a GPU, whose dim is a multiple of 8 */
    const int
        *first; /* [n_ranks + 1], from 0 to n_rows, ascending: rank r gets rows from first[r] on. NULL: each all */
    int n_rows, n_heads, dim;
    /* On GPUs that reach each other's memory (lf_comm_peer): x [n_ranks, n_rows, n_heads, dim] and lse have what all
     * ranks bring, who have written it before they come here; first is NULL, n_rows are this rank's own. */
    bool is_here;
};
void lf_comm_lse_combine(struct lf_comm *comm, const struct lf_lse_combine_params *params);

/* Not on GPUs yet. A send, a receive, or both at once, so that a ring does not stand still: what `to` receives is as
 * long as what is sent. Between two ranks messages keep their order; others need not take part. */
enum { LF_COMM_NOBODY = -1 };
struct lf_exchange_params {
    int to; /* LF_COMM_NOBODY: nothing is sent. Not this rank, as `from` */
    const void *send;
    size_t send_bytes;
    int from; /* LF_COMM_NOBODY: nothing is received */
    void *receive;
    size_t receive_bytes;
};
void lf_comm_exchange(struct lf_comm *comm, const struct lf_exchange_params *params);

/* ---- memory of the host: what is to be done ---- */

/* Returns when all have come, however long they take, or the group has failed: between what takes minutes, as reading
 * weights does, and collectives, which wait for seconds. */
void lf_comm_meet(struct lf_comm *comm);

/* Rank 0 says something, the others hear it, in their order among the collectives. tell returns when all have come for
 * it, so no rank is more than a message behind. A message of no bytes is one too. */
void lf_comm_tell(struct lf_comm *comm, const void *message, size_t bytes);
/* message: room for max_bytes; *bytes of it are written. As lf_comm_check where the group has ended; a
 * message longer than max_bytes ends it. */
LF_MUST_CHECK enum lf_status lf_comm_hear(struct lf_comm *comm, void *message, size_t max_bytes, size_t *bytes,
                                          struct lf_err *err);

#endif
