/* Ranks that are GPUs of one host: their collectives are kernels (peer.cu) in the devices' queues.
 *
 * Connecting. Each rank makes a memory pool of its own that the others' GPUs may read and write, and until something is
 * opened nothing but what lies in it is open to them. They show each other where it is, and go on when all have. The
 * pool and the words in the host's memory outlive the device: they are given back when no rank runs any more.
 *
 * What a rank opens besides (lf_comm_open), its workspace and its cache, is plain memory of the device: access between
 * devices opens all of that.
 *
 * Ends along an axis (lf_comm_along) have memory of their own in the same pool, so counts, flags and packets of the one
 * know nothing of the others'. Whoever gives up does so for all: one word of the whole group's memory stops the kernels
 * of every end, and the report is the rank's. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "device/comm_impl.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/peer.h"

struct lf_comm_cuda {
    struct lf_device *dev; /* borrowed; not looked at any more in disconnect */
    int idx;
    bool is_along;      /* what follows, but for peers, is that of the whole group's end */
    cudaMemPool_t pool; /* NULL in an end along an axis */
    struct lf_peer_memory *of[LF_COMM_AXES_N];
    struct lf_comm_opened opened[LF_COMM_OPEN_N];
    struct lf_peer_report *report; /* pinned */
    struct lf_peers peers;
};

/* ---- connecting ---- */

static enum lf_status fail_cuda(cudaError_t rc, const char *what, struct lf_err *err)
{
    (void)cudaGetLastError();
    return lf_fail(err, rc == cudaErrorMemoryAllocation ? LF_NO_MEMORY : LF_DEVICE, "%s: %s", what,
                   cudaGetErrorString(rc));
}

/* Shows the others what the whole group's end has, waits for theirs, and copies it. */
static enum lf_status show(struct lf_comm *c, struct lf_comm_gpu gpus[LF_RANKS_N], struct lf_err *err)
{
    struct lf_comm_group *g = c->group;
    struct lf_comm_gpu mine = {.idx = c->cuda->idx, .abort = &c->cuda->report->abort};
    for (int axis = 0; axis < LF_COMM_AXES_N; axis++) mine.of[axis] = c->cuda->of[axis];
    memcpy(mine.opened, c->cuda->opened, sizeof(mine.opened));
    (void)pthread_mutex_lock(&g->lock);
    g->gpus[c->rank] = mine;
    (void)pthread_mutex_unlock(&g->lock);
    lf_comm_meet(c);
    LF_TRY(lf_comm_check(c, err));
    (void)pthread_mutex_lock(&g->lock);
    memcpy(gpus, g->gpus, sizeof(g->gpus));
    (void)pthread_mutex_unlock(&g->lock);
    return LF_OK;
}

static enum lf_status check_access(int from, int to, struct lf_err *err)
{
    int can = 0;
    if (from == to) return lf_fail(err, LF_INVALID, "two ranks have the same GPU, cuda:%d", from);
    cudaError_t rc = cudaDeviceCanAccessPeer(&can, from, to);
    if (rc != cudaSuccess) return fail_cuda(rc, "asking for access between GPUs", err);
    if (can) return LF_OK;
    return lf_fail(
        err, LF_UNSUPPORTED,
        "cuda:%d cannot reach the memory of cuda:%d: ranks need GPUs that are linked (nvidia-smi topo -p2p r)", from,
        to);
}

/* Opens the pool to all others' GPUs. */
static enum lf_status open_pool(const struct lf_comm *c, const struct lf_comm_gpu *gpus, struct lf_err *err)
{
    struct lf_comm_cuda *cuda = c->cuda;
    struct cudaMemAccessDesc access[LF_RANKS_N];
    size_t n = 0;
    for (int r = 0; r < c->group->n_ranks; r++) {
        if (r == c->rank) continue;
        LF_TRY(check_access(gpus[r].idx, cuda->idx, err));
        access[n] = (struct cudaMemAccessDesc){.flags = cudaMemAccessFlagsProtReadWrite};
        access[n].location.type = cudaMemLocationTypeDevice;
        access[n++].location.id = gpus[r].idx;
    }
    cudaError_t rc = cudaMemPoolSetAccess(cuda->pool, access, n);
    return rc == cudaSuccess ? LF_OK : fail_cuda(rc, "opening memory to other GPUs", err);
}

static enum lf_status make_pool(struct lf_comm_cuda *cuda, struct lf_err *err)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned};
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = cuda->idx;
    cudaError_t rc = cudaMemPoolCreate(&cuda->pool, &props);
    if (rc == cudaSuccess)
        rc = cudaHostAlloc((void **)&cuda->report, sizeof(*cuda->report), cudaHostAllocPortable | cudaHostAllocMapped);
    if (rc != cudaSuccess) return fail_cuda(rc, "making memory for ranks", err);
    memset(cuda->report, 0, sizeof(*cuda->report));
    return LF_OK;
}

/* For the end of an axis, among so many ranks. */
static enum lf_status take_memory(struct lf_comm_cuda *cuda, enum lf_comm_axis axis, int n_ranks, struct lf_err *err)
{
    size_t bytes = (size_t)lf_peer_bytes(n_ranks);
    cudaStream_t stream = lf_cuda_stream(cuda->dev);
    cudaError_t rc = cudaMallocFromPoolAsync((void **)&cuda->of[axis], bytes, cuda->pool, stream);
    if (rc == cudaSuccess) rc = cudaMemsetAsync(cuda->of[axis], 0, bytes, stream);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(stream);
    return rc == cudaSuccess ? LF_OK : fail_cuda(rc, "taking memory for ranks", err);
}

static enum lf_status load_kernels(struct lf_err *err)
{
    int rc = lf_cuda_peer_setup();
    if (rc == 0) rc = lf_cuda_combine_setup();
    return rc == 0 ? LF_OK : fail_cuda((cudaError_t)rc, "loading the kernels of ranks", err);
}

/* What kernels of the end are told; cuda: of the whole group's end. */
static enum lf_status set_peers(struct lf_comm *c, const struct lf_comm_cuda *cuda, const struct lf_comm_gpu *gpus,
                                struct lf_err *err)
{
    void *report = NULL;
    cudaError_t rc = cudaHostGetDevicePointer(&report, cuda->report, 0);
    if (rc != cudaSuccess) return fail_cuda(rc, "memory of the host for ranks", err);
    struct lf_peers *peers = &c->cuda->peers;
    *peers = (struct lf_peers){.report = report,
                               .stop = &cuda->of[LF_COMM_ALL]->stop,
                               .rank = c->rank,
                               .n_ranks = c->n_ranks,
                               .first = c->first,
                               .stride = c->stride};
    peers->timeout_ns = (uint64_t)c->group->timeout_ms * (uint64_t)LF_NS_PER_MS;
    for (int r = 0; r < c->n_ranks; r++) peers->of[r] = gpus[lf_comm_in_group(c, r)].of[c->axis];
    return LF_OK;
}

static enum lf_status connect_gpus(struct lf_comm *c, struct lf_device *dev, struct lf_err *err)
{
    struct lf_comm_gpu gpus[LF_RANKS_N];
    struct lf_comm_group *g = c->group;
    if (g->n_ranks > LF_GPU_RANKS_N)
        return lf_fail(err, LF_UNSUPPORTED, "ranks on GPUs are %d at most, not %d", LF_GPU_RANKS_N, g->n_ranks);
    c->cuda = calloc(1, sizeof(*c->cuda));
    if (!c->cuda) return lf_fail(err, LF_NO_MEMORY, "no memory for rank %d", c->rank);
    c->cuda->dev = dev;
    c->cuda->idx = dev->cuda->idx;
    lf_cuda_use(c->cuda->idx);
    LF_TRY(load_kernels(err));
    LF_TRY(make_pool(c->cuda, err));
    LF_TRY(show(c, gpus, err)); /* which GPUs they are, */
    LF_TRY(open_pool(c, gpus, err));
    LF_TRY(take_memory(c->cuda, LF_COMM_ALL, g->n_ranks, err));
    LF_TRY(show(c, gpus, err)); /* and where their memory is */
    return set_peers(c, c->cuda, gpus, err);
}

static enum lf_status connect_along(struct lf_comm *c, struct lf_comm *whole, struct lf_err *err)
{
    struct lf_comm_gpu gpus[LF_RANKS_N];
    LF_ASSERT(whole->cuda && !whole->cuda->of[c->axis]);
    c->cuda = calloc(1, sizeof(*c->cuda));
    if (!c->cuda) return lf_fail(err, LF_NO_MEMORY, "no memory for rank %d", whole->rank);
    *c->cuda = (struct lf_comm_cuda){
        .dev = whole->cuda->dev, .idx = whole->cuda->idx, .is_along = true, .report = whole->cuda->report};
    lf_cuda_use(c->cuda->idx);
    LF_TRY(take_memory(whole->cuda, c->axis, c->n_ranks, err));
    LF_TRY(show(whole, gpus, err));
    return set_peers(c, whole->cuda, gpus, err);
}

/* This rank's GPU reaches all plain memory of the others' from here on. */
static enum lf_status enable_access(const struct lf_comm *c, const struct lf_comm_gpu *gpus, struct lf_err *err)
{
    lf_cuda_use(c->cuda->idx);
    for (int r = 0; r < c->group->n_ranks; r++) {
        if (r == c->rank) continue;
        cudaError_t rc = cudaDeviceEnablePeerAccess(gpus[r].idx, 0);
        if (rc == cudaErrorPeerAccessAlreadyEnabled)
            (void)cudaGetLastError();
        else if (rc != cudaSuccess)
            return fail_cuda(rc, "reaching the memory of another GPU", err);
    }
    return LF_OK;
}

static enum lf_status open_memory(struct lf_comm *c, void *base, size_t bytes, struct lf_err *err)
{
    struct lf_comm_gpu gpus[LF_RANKS_N];
    int n = 0;
    while (n < LF_COMM_OPEN_N && c->cuda->opened[n].base) n++;
    LF_ASSERT(n < LF_COMM_OPEN_N);
    c->cuda->opened[n] = (struct lf_comm_opened){.base = base, .bytes = bytes};
    LF_TRY(show(c, gpus, err));
    return enable_access(c, gpus, err);
}

/* The whole group's end, of which others are alive no more. */
static void give_back(struct lf_comm *c)
{
    struct lf_comm_cuda *cuda = c->cuda;
    (void)pthread_mutex_lock(&c->group->lock);
    c->group->gpus[c->rank].abort = NULL;
    (void)pthread_mutex_unlock(&c->group->lock);
    lf_cuda_use(cuda->idx);
    for (int axis = 0; axis < LF_COMM_AXES_N; axis++)
        if (cuda->of[axis]) (void)cudaFree(cuda->of[axis]);
    if (cuda->pool) (void)cudaMemPoolDestroy(cuda->pool);
    if (cuda->report) (void)cudaFreeHost(cuda->report);
}

/* Errors are of a device that has failed already. */
static void disconnect_gpus(struct lf_comm *c)
{
    if (c->cuda && !c->cuda->is_along) give_back(c);
    free(c->cuda);
    c->cuda = NULL;
}

/* ---- failing ---- */

static void look(struct lf_comm *c)
{
    struct lf_err err;
    if (!c->cuda || lf_comm_is_over(c)) return;
    uint32_t waited_for = *(const volatile uint32_t *)&c->cuda->report->waited_for;
    if (waited_for > 0)
        (void)lf_comm_fail(c, "the GPU of rank %d waited %d ms for that of rank %d", c->rank, c->group->timeout_ms,
                           (int)waited_for - 1);
    else if (lf_sticky_status(&c->cuda->dev->cuda->sticky, c->cuda->dev->info.name, &err) != LF_OK)
        (void)lf_comm_fail(c, "rank %d: %s", c->rank, err.message);
}

static bool is_busy(const struct lf_comm *c)
{
    return c->cuda && !lf_comm_is_over(c) && cudaStreamQuery(lf_cuda_stream(c->cuda->dev)) == cudaErrorNotReady;
}

/* ---- collectives ---- */

/* All or none: a fused norm has other roundings, and steps of so few tokens have the same bits (device/norm.h). */
static int norm_tokens(const struct lf_comm *c, int width)
{
    bool fits = width % LF_NORM_PART == 0 && (int64_t)width * LF_FUSED_NORM_TOKENS <= LF_PEER_NORM_FLOATS;
    return fits && c->cuda->dev->info.act_dtype == LF_BF16 ? LF_FUSED_NORM_TOKENS : 0;
}

static void all_reduce(struct lf_comm *c, const struct lf_all_reduce_params *p)
{
    struct lf_device *dev = c->cuda->dev;
    LF_ASSERT(!p->norm.h || p->n <= LF_PEER_NORM_FLOATS);
    if (lf_cuda_ok(dev))
        lf_cuda_check(dev, lf_cuda_peer_all_reduce(&c->cuda->peers, p, lf_cuda_launch(dev)), "all-reduce");
}

/* Kernels count words in 31 bits, bytes where rows are not made of words: as many rows at a time as they can. */
static void all_gather(struct lf_comm *c, const struct lf_all_gather_params *p)
{
    struct lf_device *dev = c->cuda->dev;
    size_t row_bytes = p->first[c->n_ranks], own_bytes = p->first[c->rank + 1] - p->first[c->rank];
    size_t most_bytes = INT32_MAX * lf_cuda_peer_gather_unit(&c->cuda->peers, p);
    LF_ASSERT(row_bytes <= most_bytes);
    int most = (int)LF_MIN(most_bytes / LF_MAX(row_bytes, 1), (size_t)INT32_MAX);
    for (int row = 0; (row == 0 || row < p->n_rows) && lf_cuda_ok(dev); row += LF_MIN(most, p->n_rows - row)) {
        struct lf_all_gather_params some = *p;
        some.out = (char *)p->out + (size_t)row * row_bytes;
        some.x = (const char *)p->x + (size_t)row * own_bytes;
        some.n_rows = LF_MIN(most, p->n_rows - row);
        lf_cuda_check(dev, lf_cuda_peer_all_gather(&c->cuda->peers, &some, lf_cuda_launch(dev)), "all-gather");
        if (p->n_rows == 0) break;
    }
}

/* All columns are the root's. */
static void broadcast(struct lf_comm *c, int root, void *data, size_t bytes)
{
    size_t first[LF_RANKS_N + 1];
    for (int r = 0; r <= c->n_ranks; r++) first[r] = r <= root ? 0 : bytes;
    struct lf_all_gather_params p = {.out = data, .x = data, .first = first, .n_rows = 1};
    all_gather(c, &p);
}

static void barrier(struct lf_comm *c)
{
    broadcast(c, 0, NULL, 0);
}

static void lse_combine(struct lf_comm *c, const struct lf_lse_combine_params *p)
{
    struct lf_device *dev = c->cuda->dev;
    LF_ASSERT(p->dtype == dev->info.act_dtype && p->dim > 0 && p->dim % 8 == 0 && p->dim <= LF_HEAD_DIM);
    if (lf_cuda_ok(dev))
        lf_cuda_check(dev, lf_cuda_peer_combine(&c->cuda->peers, p, lf_cuda_launch(dev)), "lse-combine");
}

const struct lf_comm_backend lf_comm_backend_cuda = {.kind = "cuda",
                                                     .connect = connect_gpus,
                                                     .connect_along = connect_along,
                                                     .open = open_memory,
                                                     .disconnect = disconnect_gpus,
                                                     .look = look,
                                                     .is_busy = is_busy,
                                                     .norm_tokens = norm_tokens,
                                                     .barrier = barrier,
                                                     .broadcast = broadcast,
                                                     .all_reduce = all_reduce,
                                                     .all_gather = all_gather,
                                                     .lse_combine = lse_combine};
