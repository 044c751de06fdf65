/* A rank's end: made for the host first, so that whoever waits for a rank can be told that it will not come; then for
 * its device, whose kind chooses among the backends. */
#include "device/comm.h"

#include <stdlib.h>
#include <string.h>

#include "device/comm_impl.h"
#include "device/cuda/peer.h"
#include "device/device.h"

static const struct lf_comm_backend *const backends[] = {
    &lf_comm_backend_cpu,
#ifdef LF_HAVE_CUDA
    &lf_comm_backend_cuda,
#endif
};

enum lf_status lf_comm_create(struct lf_comm **out, struct lf_comm_group *group, int rank, struct lf_err *err)
{
    LF_ASSERT(rank >= 0 && rank < lf_comm_group_n_ranks(group));
    struct lf_comm *c = calloc(1, sizeof(*c));
    if (!c) return lf_fail(err, LF_NO_MEMORY, "no memory for rank %d", rank);
    c->backend = &lf_comm_backend_cpu;
    c->group = group;
    c->rank = rank;
    c->n_ranks = lf_comm_group_n_ranks(group);
    c->stride = 1;
    *out = c;
    return LF_OK;
}

enum lf_status lf_comm_along(struct lf_comm **out, struct lf_comm *comm, enum lf_comm_axis axis, int n_columns,
                             struct lf_err *err)
{
    int n_all = lf_comm_group_n_ranks(comm->group);
    bool is_row = axis == LF_COMM_ROW;
    LF_ASSERT(comm->axis == LF_COMM_ALL && axis != LF_COMM_ALL && n_columns > 0 && n_all % n_columns == 0);
    struct lf_comm *c;
    LF_TRY(lf_comm_create(&c, comm->group, comm->rank, err));
    c->axis = axis;
    c->rank = is_row ? comm->rank % n_columns : comm->rank / n_columns;
    c->n_ranks = is_row ? n_columns : n_all / n_columns;
    c->stride = is_row ? 1 : n_columns;
    c->first = comm->rank - c->rank * c->stride;
    c->backend = comm->backend;
    enum lf_status status = c->backend->connect_along ? c->backend->connect_along(c, comm, err) : LF_OK;
    if (status == LF_OK)
        *out = c;
    else
        lf_comm_destroy(c);
    return status;
}

void lf_comm_destroy(struct lf_comm *comm)
{
    if (comm && comm->backend->disconnect) comm->backend->disconnect(comm);
    free(comm);
}

enum lf_status lf_comm_connect(struct lf_comm *comm, struct lf_device *dev, struct lf_err *err)
{
    const char *kind = lf_device_info(dev)->kind;
    const struct lf_comm_backend *found = NULL;
    for (size_t i = 0; i < LF_N_ELEMS(backends) && !found; i++)
        if (strcmp(backends[i]->kind, kind) == 0) found = backends[i];
    if (!found) return lf_fail(err, LF_UNSUPPORTED, "ranks of \"%s\" devices are not implemented", kind);
    if (!found->connect) return LF_OK;
    if (comm->group->wire)
        return lf_fail(
            err, LF_UNSUPPORTED,
            "ranks of \"%s\" devices in several processes are not implemented: one process has all of a host", kind);
    comm->backend = found;
    return found->connect(comm, dev, err);
}

enum lf_status lf_comm_open(struct lf_comm *comm, void *base, size_t bytes, struct lf_err *err)
{
    LF_ASSERT(comm->axis == LF_COMM_ALL && base && bytes > 0);
    return comm->backend->open ? comm->backend->open(comm, base, bytes, err) : LF_OK;
}

void *lf_comm_peer(const struct lf_comm *comm, int rank, const void *at)
{
    const struct lf_comm_gpu *gpus = comm->group->gpus;
    const struct lf_comm_gpu *own = &gpus[lf_comm_in_group(comm, comm->rank)];
    const struct lf_comm_gpu *other = &gpus[lf_comm_in_group(comm, rank)];
    for (int i = 0; i < LF_COMM_OPEN_N && own->opened[i].base; i++) {
        uintptr_t offset = (uintptr_t)at - (uintptr_t)own->opened[i].base;
        if (offset >= own->opened[i].bytes) continue;
        LF_ASSERT(offset < other->opened[i].bytes);
        return other->opened[i].base + offset;
    }
    return NULL;
}

int lf_comm_rank(const struct lf_comm *comm)
{
    return comm->rank;
}

int lf_comm_n_ranks(const struct lf_comm *comm)
{
    return comm->n_ranks;
}

void lf_comm_end(struct lf_comm *comm)
{
    lf_comm_group_abort(comm->group, LF_SHUTDOWN, "the work is done");
}

uint64_t lf_comm_gpu_bytes(int n_ranks, int n_columns)
{
    uint64_t bytes = lf_peer_bytes(n_ranks);
    if (n_columns == 0) return bytes;
    bytes += lf_peer_bytes(n_ranks / n_columns);
    return n_columns > 1 ? bytes + lf_peer_bytes(n_columns) : bytes;
}

int lf_comm_norm_tokens(const struct lf_comm *comm, int width)
{
    return comm->backend->norm_tokens ? comm->backend->norm_tokens(comm, width) : 0;
}

void lf_comm_barrier(struct lf_comm *comm)
{
    comm->backend->barrier(comm);
}

void lf_comm_broadcast(struct lf_comm *comm, int root, void *data, size_t bytes)
{
    LF_ASSERT(root >= 0 && root < lf_comm_n_ranks(comm));
    comm->backend->broadcast(comm, root, data, bytes);
}

void lf_comm_all_reduce(struct lf_comm *comm, const struct lf_all_reduce_params *p)
{
    LF_ASSERT(!p->norm.h || lf_comm_norm_tokens(comm, p->width) > 0);
    comm->backend->all_reduce(comm, p);
}

void lf_comm_all_gather(struct lf_comm *comm, const struct lf_all_gather_params *p)
{
    LF_ASSERT(p->n_rows >= 0 && p->first[0] == 0);
    comm->backend->all_gather(comm, p);
}

void lf_comm_lse_combine(struct lf_comm *comm, const struct lf_lse_combine_params *p)
{
    LF_ASSERT(p->n_rows >= 0 && (!p->first || (p->first[0] == 0 && p->first[comm->n_ranks] == p->n_rows)));
    LF_ASSERT(comm->backend->lse_combine);
    comm->backend->lse_combine(comm, p);
}

void lf_comm_exchange(struct lf_comm *comm, const struct lf_exchange_params *p)
{
    int n_ranks = lf_comm_n_ranks(comm);
    LF_ASSERT(p->to != comm->rank && p->to < n_ranks && p->from != comm->rank && p->from < n_ranks);
    LF_ASSERT(comm->backend->exchange && comm->axis == LF_COMM_ALL);
    comm->backend->exchange(comm, p);
}
