/* What a launcher told a process through its environment: which rank it is, how many there are, where rank 0 is.
 *
 *     Kubernetes operators              RANK WORLD_SIZE                                    MASTER_ADDR MASTER_PORT
 *     Open MPI                          OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
 *     MPICH, Intel MPI, PMI             PMI_RANK PMI_SIZE
 *     Slurm                             SLURM_PROCID SLURM_NTASKS                          SLURM_STEP_NODELIST, else
 *                                                                                          SLURM_LAUNCH_NODE_IPADDR
 *
 * Launchers nest: mpirun may be started by a wrapper that sets RANK, and then the two sets must say the same. Slurm is
 * the exception: it numbers the tasks that it starts itself, and within one of them another launcher may start ranks,
 * whose numbers are then others. So its numbers count only where no other set is there, and its nodes only where its
 * numbers are those that count (then its first node has rank 0).
 *
 * A variable that is empty is not set. MASTER_ADDR and MASTER_PORT go together with any set. Slurm has no port:
 * LF_RENDEZVOUS_PORT. A pure function; any thread. */
#ifndef LF_SERVER_RENDEZVOUS_LAUNCHERS_H
#define LF_SERVER_RENDEZVOUS_LAUNCHERS_H

#include "core/status.h"

enum { LF_RENDEZVOUS_PORT = 29577, LF_LAUNCHER_ADDRESS_BYTES = 300 };

struct lf_launcher {
    const char *by;    /* the variable that says the rank: of static lifetime; NULL: no launcher */
    int rank, n_ranks; /* 0, 0 without one */
    char address[LF_LAUNCHER_ADDRESS_BYTES]; /* of rank 0, as HOST:PORT; "" where nothing says it */
};

/* get returns a variable's value, or NULL, with user passed on. LF_INVALID, by name: half a set, two sets that
 * contradict each other, a number that is none, a rank that is not below their number, a list of nodes that cannot be
 * read. */
LF_MUST_CHECK enum lf_status lf_launcher_read(struct lf_launcher *out, const char *(*get)(const char *name, void *user),
                                              void *user, struct lf_err *err);

#endif
