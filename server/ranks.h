/* --parallel: the other ranks (ARCHITECTURE.md). Without --rank they are of this process, a thread each, which owns a
 * device, a part of the model and a cache of its own, and follows what rank 0, the engine's thread, launches.
 *
 * start makes the threads, which load at once; rank 0 loads meanwhile, and then waits until all are ready. A rank that
 * fails ends the group: rank 0's next step says so, and lf_ranks_check to anybody else.
 *
 * Where rank 0 stands still there may be nobody who could end the process: the thread that looks after the engine waits
 * for a lock that rank 0 has. So a rank that has lost the others sets an alarm, whose signal ends the process with
 * status 1 unless it has ended before. Where another one stands still there may be nobody who misses it: so stop sets
 * the same alarm before it joins them.
 *
 * With --rank each process has one rank, and sockets lead to the others (rank_join.h): then start makes its end of the
 * group, wait is a meeting of all processes, and nobody is joined. A thread watches for the group's end and sets the
 * alarm, in the process of each rank: its own may stand still while the others have lost it. */
#ifndef LF_SERVER_RANKS_H
#define LF_SERVER_RANKS_H

#include "device/comm.h"
#include "device/device.h"
#include "kv/kv_parts.h"
#include "model/model.h"

/* How long a rank waits for another one; how much longer the process is there then, at most; and how long ranks that
 * have not failed, or were still loading, take to give back what they have. */
enum { LF_RANKS_TIMEOUT_MS = 5 * 1000, LF_RANKS_GRACE_S = 3, LF_RANKS_STOP_S = 30 };

/* What "tp=N", "cp=N" or both with a comma between say, as rank 0 sees it; NULL is one rank. LF_INVALID. */
LF_MUST_CHECK enum lf_status lf_ranks_parse(struct lf_split *out, const char *parallel, struct lf_err *err);

struct lf_ranks_opts {
    struct lf_device_opts device; /* of each */
    const struct lf_hparams *hp;  /* its split has the numbers of ranks. Borrowed, as what the others point to */
    struct lf_model_opts model;   /* comm is set here, progress is not called */
    struct lf_kv_cache_opts kv;   /* layout and stripe are set here */
    /* Of ranks that are processes, whose device, model and cache are the caller's: sockets[r] leads to rank r, taken
     * over also where start fails. NULL: they are threads, and this is rank 0 */
    const int *sockets;
    int rank;
};

struct lf_ranks;
/* LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_ranks_start(struct lf_ranks **out, const struct lf_ranks_opts *opts,
                                            struct lf_err *err);
/* This rank's end, for its model, which does not use it any more when it is closed; it lives until stop. */
struct lf_comm *lf_ranks_comm(struct lf_ranks *ranks);
/* Makes of rank 0's identity, which its model has, that of all: a cache of the parts of all ranks depends on what each
 * has read. Of ranks that are threads: waits until they have read it, or one says why it has not. */
LF_MUST_CHECK enum lf_status lf_ranks_identity(struct lf_ranks *ranks, uint8_t identity[LF_SHA256_BYTES],
                                               struct lf_err *err);
/* Until all have loaded, or one says why it has not. */
LF_MUST_CHECK enum lf_status lf_ranks_wait(struct lf_ranks *ranks, struct lf_err *err);
/* The caches of the others, behind rank 0's, which is in *parts: of ranks that are threads, once all have loaded. They
 * are there until stop, however the group ends. */
void lf_ranks_add_parts(struct lf_ranks *ranks, struct lf_kv_parts *parts);
/* Ends the group: with what this rank has failed with. */
void lf_ranks_fail(struct lf_ranks *ranks, const struct lf_err *why);
/* LF_OK, or why the group has failed: with the status of the rank that did. Any thread. */
LF_MUST_CHECK enum lf_status lf_ranks_check(struct lf_ranks *ranks, struct lf_err *err);
/* Ends and joins them, once rank 0 launches no more; its model stays, and its end of the group does not. One that does
 * not come ends the process with status 1, in LF_RANKS_STOP_S; where the group had failed behind loading the process
 * has LF_RANKS_GRACE_S from here to its end. Accepts NULL. */
void lf_ranks_stop(struct lf_ranks *ranks);

#endif
