/* Ranks over memory that they share, or over mirrors of it.
 *
 * Collectives go in turns. Each rank has two slots, used by turns alternately; in a turn it writes its piece of the
 * message into its slot, meets the others, and reads theirs:
 *
 *     turn        0          1          2
 *     rank 0   write s0 │ read, write s1 │ read, write s0 │ …        │: all have arrived
 *     rank 1   write s0 │ read, write s1 │ read, write s0 │ …
 *
 * So a turn is one meeting: who writes a slot anew has met everybody since they read it. In front of its piece a rank
 * says what it is there for, and one that came for something else is found out before anything of it is used.
 *
 * Ends of a rank for its row and its column (lf_comm_along) have turns and slots of their own.
 *
 * An exchange concerns two ranks: each pair has a channel of two pieces for each direction, and two counts. In step i a
 * rank first sends its piece i, then receives piece i. A send waits for the receive of step i - 2, a receive for the
 * send of the same step, so no circle of ranks waits for itself.
 *
 * Ranks in several processes have a mirror of that memory each (comm_wire.h). Who has raised a count sends the others
 * what it is about: the slot that they are to read, a piece, or that a piece was read. Their mirror gets it before
 * their count is raised. What is overwritten has been read, for the same reason as in memory that is shared: who sends
 * turn t + 2 has had turn t + 1 of the rank that it sends to, which had read turn t before. So collectives are written
 * once, and ranks that are threads pay a branch in each turn.
 *
 * Every rank adds everything up by itself: ranks read n times what they write, but no result has to be passed on. It
 * is the reference; the interconnect of a CPU's ranks is its cache. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "device/comm_impl.h"
#include "device/cpu/comm_shared.h"
#include "device/cpu/comm_wire.h"
#include "device/cpu/sysinfo.h"

enum {
    SLOT_BYTES = LF_COMM_SLOT_BYTES,
    SLOT_FLOATS = SLOT_BYTES / sizeof(float),
    PIECE_BYTES = LF_COMM_PIECE_BYTES,
    SLOTS_N = LF_COMM_SLOTS_N,
    SUM_BLOCK = 256, /* floats that are added up at a time: they stay in registers or L1 */
    TICKS_N = LF_COMM_TICKS_N,
    SPIN_NS = 20 * 1000
};

static const char *const names[LF_COMM_WHATS_N] = {"a barrier",      "a broadcast", "an all-reduce", "an all-gather",
                                                   "an lse-combine", "a message",   "a meeting"};
#define ANY_BYTES UINT64_MAX

/* ---- a group's life ---- */

/* Slots of ranks, and of ends, that there are not are never touched. */
uint64_t lf_comm_group_bytes(int n_ranks, int n_ends)
{
    size_t n_used = (size_t)n_ranks * (size_t)n_ends;
    return lf_comm_shared_bytes(n_ranks) -
           (LF_COMM_AXES_N * (size_t)LF_RANKS_N - n_used) * SLOTS_N * sizeof(struct lf_comm_slot);
}

/* But for how its ranks reach each other. */
static enum lf_status create(struct lf_comm_group **out, int n_ranks, int timeout_ms, struct lf_err *err)
{
    if (n_ranks < 1 || n_ranks > LF_RANKS_N)
        return lf_fail(err, LF_INVALID, "ranks must be 1 to %d, not %d", LF_RANKS_N, n_ranks);
    LF_ASSERT(timeout_ms > 0);
    struct lf_comm_group *g = calloc(1, sizeof(*g));
    if (!g) return lf_fail(err, LF_NO_MEMORY, "no memory for %d ranks", n_ranks);
    g->n_ranks = n_ranks;
    for (int r = 0; r < n_ranks; r++) g->gpus[r].idx = -1;
    g->timeout_ms = timeout_ms;
    g->shared_bytes = lf_comm_shared_bytes(n_ranks);
    g->shared = mmap(NULL, g->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g->shared == MAP_FAILED || pthread_mutex_init(&g->lock, NULL) != 0) {
        if (g->shared != MAP_FAILED) (void)munmap(g->shared, g->shared_bytes);
        free(g);
        return lf_fail(err, LF_NO_MEMORY, "no memory for what %d ranks share", n_ranks);
    }
    *out = g;
    return LF_OK;
}

enum lf_status lf_comm_group_create(struct lf_comm_group **out, int n_ranks, int timeout_ms, struct lf_err *err)
{
    LF_TRY(create(out, n_ranks, timeout_ms, err));
    /* with fewer CPUs, who spins keeps another from it */
    (*out)->spin_ns = n_ranks <= lf_sysinfo_n_cpus("") ? SPIN_NS : 0;
    return LF_OK;
}

static void on_wire_end(void *group, enum lf_status status, const char *reason)
{
    lf_comm_group_abort(group, status, reason);
}

enum lf_status lf_comm_group_create_wire(struct lf_comm_group **out, int n_ranks, int rank, const int sockets[],
                                         int timeout_ms, struct lf_err *err)
{
    struct lf_comm_group *g = NULL;
    enum lf_status status = create(&g, n_ranks, timeout_ms, err);
    if (status != LF_OK) {
        for (int r = 0; r < LF_MIN(n_ranks, (int)LF_RANKS_N); r++)
            if (r != rank) (void)close(sockets[r]);
        return status;
    }
    struct lf_comm_wire_opts opts = {.n_ranks = n_ranks,
                                     .rank = rank,
                                     .sockets = sockets,
                                     .timeout_ms = timeout_ms,
                                     .shared = g->shared,
                                     .end = on_wire_end,
                                     .ctx = g};
    status = lf_comm_wire_create(&g->wire, &opts, err);
    if (status == LF_OK) status = lf_comm_wire_start(g->wire, err);
    if (status == LF_OK)
        *out = g;
    else
        lf_comm_group_destroy(g);
    return status;
}

void lf_comm_group_destroy(struct lf_comm_group *group)
{
    if (!group) return;
    if (group->wire) lf_comm_group_abort(group, LF_SHUTDOWN, "a rank has left the group");
    lf_comm_wire_destroy(group->wire);
    (void)pthread_mutex_destroy(&group->lock);
    (void)munmap(group->shared, group->shared_bytes);
    free(group);
}

int lf_comm_group_n_ranks(const struct lf_comm_group *group)
{
    return group->n_ranks;
}

/* ---- failing ---- */

static struct lf_comm_channel *channel_of(struct lf_comm_group *g, int from, int to)
{
    return &g->shared->channels[from * g->n_ranks + to];
}

static void close_all(struct lf_comm_group *g)
{
    for (int from = 0; from < g->n_ranks; from++) {
        for (int axis = 0; axis < LF_COMM_AXES_N; axis++) lf_count_close(&g->shared->along[axis].arrived[from]);
        for (int to = 0; to < g->n_ranks; to++) {
            lf_count_close(&channel_of(g, from, to)->written);
            lf_count_close(&channel_of(g, from, to)->read);
        }
    }
}

void lf_comm_group_abort(struct lf_comm_group *group, enum lf_status status, const char *reason)
{
    LF_ASSERT(status != LF_OK);
    (void)pthread_mutex_lock(&group->lock);
    if (!atomic_load(&group->is_over)) {
        group->status = status;
        (void)snprintf(group->reason, sizeof(group->reason), "%s", reason);
        if (group->wire) lf_comm_wire_end(group->wire, status, group->reason);
    }
    atomic_store(&group->is_over, true);
    for (int r = 0; r < group->n_ranks; r++)
        if (group->gpus[r].abort) *group->gpus[r].abort = 1;
    (void)pthread_mutex_unlock(&group->lock);
    close_all(group);
}

enum lf_status lf_comm_group_check(struct lf_comm_group *group, struct lf_err *err)
{
    if (!atomic_load(&group->is_over)) return LF_OK;
    (void)pthread_mutex_lock(&group->lock);
    enum lf_status status = lf_fail(err, group->status, "%s", group->reason);
    (void)pthread_mutex_unlock(&group->lock);
    return status;
}

enum lf_status lf_comm_check(struct lf_comm *comm, struct lf_err *err)
{
    if (comm->backend->look) comm->backend->look(comm);
    return lf_comm_group_check(comm->group, err);
}

bool lf_comm_fail(struct lf_comm *c, const char *fmt, ...)
{
    char reason[LF_ERR_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);
    lf_comm_group_abort(c->group, LF_DEVICE, reason);
    return false;
}

bool lf_comm_is_over(const struct lf_comm *c)
{
    return atomic_load(&c->group->is_over);
}

/* A step may take as long as it likes: the rank that is waited for may be waiting for its device, as this one's shows.
 * A device that waits for another rank's gives up by itself. */
static bool is_busy(const struct lf_comm *c)
{
    return c->backend->is_busy && c->backend->is_busy(c);
}

/* A GPU that has given up says so to nobody who waits here: its queue goes on, and the wait would begin anew. */
static void look(struct lf_comm *c)
{
    if (c->backend && c->backend->look) c->backend->look(c);
}

static void await(struct lf_comm *c, const struct lf_count *count, uint32_t at_least, int other)
{
    struct lf_comm_awaited *a = &c->group->shared->awaited[lf_comm_in_group(c, c->rank)];
    size_t at = (size_t)((const char *)count - (const char *)c->group->shared);
    atomic_store(&a->rank, 0);
    atomic_store(&a->count, (uint32_t)(at / LF_COUNT_ALIGN));
    atomic_store(&a->at_least, at_least);
    atomic_store(&a->rank, lf_comm_in_group(c, other) + 1);
}

/* Whom a rank waits for, that has not come yet; -1: it has no reason to wait, and does not come itself. */
static int find_awaited(struct lf_comm_group *g, int rank)
{
    struct lf_comm_awaited *a = &g->shared->awaited[rank];
    int other = atomic_load(&a->rank) - 1;
    if (other < 0) return -1;
    void *count = (char *)g->shared + (size_t)atomic_load(&a->count) * LF_COUNT_ALIGN;
    return lf_count_has(count, atomic_load(&a->at_least)) ? -1 : other;
}

/* Who stands still, where `other` does not come: it may wait itself, in its own row or column. One that stands still
 * since it waited for somebody is found by that: whoever it was has come. */
static int find_lost(struct lf_comm_group *g, int other)
{
    int next = find_awaited(g, other);
    for (int i = 0; i < g->n_ranks && next >= 0; i++) {
        other = next;
        next = find_awaited(g, other);
    }
    return other;
}

/* Whether the count is reached; `other` is the rank that raises it. is_patient: for ever, else in time. A wait counts
 * ticks of its own rather than time: a process that is stopped, or a machine that sleeps, ages the others by one. */
static bool wait_for(struct lf_comm *c, struct lf_count *count, uint32_t at_least, int other, const char *what,
                     bool is_patient)
{
    struct lf_comm_group *g = c->group;
    int64_t tick_ns = g->timeout_ms * LF_NS_PER_MS / TICKS_N, spin_ns = g->spin_ns;
    enum lf_waited waited = LF_WAITED_TOO_LONG;
    bool is_late = false;
    for (int n = 0; n < TICKS_N; n = is_busy(c) ? 0 : n + 1) {
        waited = lf_count_wait(count, at_least, spin_ns, is_patient ? 0 : lf_clock_ns() + tick_ns);
        if (waited != LF_WAITED_TOO_LONG) break;
        spin_ns = 0;
        is_late = true;
        await(c, count, at_least, other);
        look(c);
    }
    if (waited == LF_WAITED_TOO_LONG)
        return lf_comm_fail(c, "rank %d waited %d ms for rank %d, in %s", lf_comm_in_group(c, c->rank), g->timeout_ms,
                            find_lost(g, lf_comm_in_group(c, other)), what);
    if (is_late) atomic_store(&g->shared->awaited[lf_comm_in_group(c, c->rank)].rank, 0);
    return waited == LF_WAITED_REACHED;
}

/* ---- turns ---- */

static struct lf_comm_turns *turns_of(const struct lf_comm *c)
{
    return &c->group->shared->along[c->axis];
}

static struct lf_comm_slot *slot_of(const struct lf_comm *c, int rank)
{
    return &turns_of(c)->slots[lf_comm_in_group(c, rank)][c->turn % SLOTS_N];
}

static bool is_same_purpose(const struct lf_comm_slot *a, const struct lf_comm_slot *b)
{
    return a->what == b->what && (a->bytes == b->bytes || a->bytes == ANY_BYTES || b->bytes == ANY_BYTES);
}

/* What others read of a rank's slot in a turn: rank r the bytes from r · stride on. */
struct part {
    size_t bytes, stride;
};
static const struct part nothing;

/* To the mirrors of ranks that are not in this process. */
static void send_slot(const struct lf_comm *c, const struct lf_comm_slot *mine, struct part part)
{
    for (int i = 1; i < c->n_ranks; i++) {
        int r = (c->rank + i) % c->n_ranks; /* not all to the same one first */
        lf_comm_wire_turn(c->group->wire, lf_comm_in_group(c, r), c->axis, c->turn, mine, (size_t)r * part.stride,
                          part.bytes);
    }
}

/* Arrives, with its slot written, of which `part` is read, and waits for the others: all for the same. Then their slots
 * may be read until leave(). is_patient: rank 0 may take its time, and in a meeting everybody. */
static bool meet(struct lf_comm *c, enum lf_comm_what what, uint64_t bytes, struct part part, bool is_patient)
{
    struct lf_comm_slot *mine = slot_of(c, c->rank);
    mine->what = what;
    mine->bytes = bytes;
    lf_count_raise(&turns_of(c)->arrived[lf_comm_in_group(c, c->rank)]);
    if (c->group->wire) send_slot(c, mine, part);
    for (int r = 0; r < c->n_ranks; r++) {
        struct lf_count *arrived = &turns_of(c)->arrived[lf_comm_in_group(c, r)];
        if (!wait_for(c, arrived, c->turn + 1, r, names[what], is_patient && (r == 0 || what == LF_COMM_MEETING)))
            return false;
        const struct lf_comm_slot *other = slot_of(c, r);
        if (!is_same_purpose(mine, other))
            return lf_comm_fail(c, "rank %d came for %s of %llu bytes, rank %d for %s of %llu",
                                lf_comm_in_group(c, c->rank), names[what], (unsigned long long)bytes,
                                lf_comm_in_group(c, r), names[other->what], (unsigned long long)other->bytes);
    }
    return true;
}

static void leave(struct lf_comm *c)
{
    c->turn++;
}

static void barrier(struct lf_comm *c)
{
    if (lf_comm_is_over(c) || !meet(c, LF_COMM_BARRIER, 0, nothing, false)) return;
    leave(c);
}

void lf_comm_meet(struct lf_comm *c)
{
    LF_ASSERT(c->axis == LF_COMM_ALL);
    if (lf_comm_is_over(c) || !meet(c, LF_COMM_MEETING, 0, nothing, true)) return;
    leave(c);
}

static void broadcast(struct lf_comm *c, int root, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        size_t n = LF_MIN(bytes - at, (size_t)SLOT_BYTES);
        if (lf_comm_is_over(c)) return;
        if (c->rank == root) memcpy(slot_of(c, root)->data, (const char *)data + at, n);
        if (!meet(c, LF_COMM_BROADCAST, bytes, (struct part){.bytes = c->rank == root ? n : 0}, false)) return;
        if (c->rank != root) memcpy((char *)data + at, slot_of(c, root)->data, n);
        leave(c);
    }
}

static const float *floats_of(const struct lf_comm *c, int rank)
{
    return (const float *)(const void *)slot_of(c, rank)->data;
}

/* y = residual + Σ over ranks, of n floats of the slots. */
static void add_up(const struct lf_comm *c, float *y, const float *residual, size_t n)
{
    float sum[SUM_BLOCK];
    for (size_t at = 0; at < n; at += SUM_BLOCK) {
        size_t k = LF_MIN(n - at, (size_t)SUM_BLOCK);
        memcpy(sum, floats_of(c, 0) + at, k * sizeof(float));
        for (int r = 1; r < c->n_ranks; r++) {
            const float *x = floats_of(c, r) + at;
            for (size_t i = 0; i < k; i++) sum[i] += x[i];
        }
        for (size_t i = 0; i < k; i++) y[at + i] = residual ? residual[at + i] + sum[i] : sum[i];
    }
}

static void all_reduce(struct lf_comm *c, const struct lf_all_reduce_params *p)
{
    for (size_t at = 0; at < p->n; at += SLOT_FLOATS) {
        size_t n = LF_MIN(p->n - at, (size_t)SLOT_FLOATS);
        if (lf_comm_is_over(c)) return;
        memcpy(slot_of(c, c->rank)->data, p->x + at, n * sizeof(float));
        if (!meet(c, LF_COMM_ALL_REDUCE, p->n * sizeof(float), (struct part){.bytes = n * sizeof(float)}, false))
            return;
        add_up(c, p->y + at, p->residual ? p->residual + at : NULL, n);
        leave(c);
    }
}

/* Of rank r's columns, all rows one behind the other, the n bytes from `at` on go where they belong. */
static void scatter(const struct lf_all_gather_params *p, int n_ranks, int r, size_t at, size_t n, const char *data)
{
    size_t width = p->first[r + 1] - p->first[r];
    for (size_t done = 0; done < n;) {
        size_t row = (at + done) / width, column = (at + done) % width;
        size_t k = LF_MIN(width - column, n - done);
        memcpy((char *)p->out + row * p->first[n_ranks] + p->first[r] + column, data + done, k);
        done += k;
    }
}

static void all_gather(struct lf_comm *c, const struct lf_all_gather_params *p)
{
    int n_ranks = c->n_ranks;
    size_t n_rows = (size_t)p->n_rows, parts[LF_RANKS_N], longest = 0; /* bytes of each rank */
    for (int r = 0; r < n_ranks; r++) {
        parts[r] = n_rows * (p->first[r + 1] - p->first[r]);
        longest = LF_MAX(longest, parts[r]);
    }
    for (size_t at = 0; at < longest; at += SLOT_BYTES) {
        size_t mine = at < parts[c->rank] ? LF_MIN(parts[c->rank] - at, (size_t)SLOT_BYTES) : 0;
        if (lf_comm_is_over(c)) return;
        if (mine > 0) memcpy(slot_of(c, c->rank)->data, (const char *)p->x + at, mine);
        if (!meet(c, LF_COMM_ALL_GATHER, n_rows * p->first[n_ranks], (struct part){.bytes = mine}, false)) return;
        for (int r = 0; r < n_ranks; r++)
            if (at < parts[r])
                scatter(p, n_ranks, r, at, LF_MIN(parts[r] - at, (size_t)SLOT_BYTES), slot_of(c, r)->data);
        leave(c);
    }
}

/* ---- attention of which each rank has some keys ---- */

/* A slot is cut into a share for each rank that gets rows of its own; in a turn it has the next n heads of those rows,
 * and behind them their lse. Where all get all rows there is one share. */
struct shares {
    const struct lf_lse_combine_params *p;
    int n_shares, n; /* heads in a share, at most */
};

/* Which heads go into a share: of all rows. */
static size_t heads_before(const struct shares *s, int share)
{
    int row = s->p->first ? s->p->first[share] : share * s->p->n_rows;
    return (size_t)row * (size_t)s->p->n_heads;
}

/* How many of a share's heads there are from `at` on in a turn. */
static size_t heads_in_turn(const struct shares *s, int share, size_t at)
{
    size_t n = heads_before(s, share + 1) - heads_before(s, share);
    return n > at ? LF_MIN(n - at, (size_t)s->n) : 0;
}

static float *share_of(const struct lf_comm *c, const struct shares *s, int rank, int share)
{
    float *floats = (float *)(void *)slot_of(c, rank)->data;
    return floats + (size_t)share * (size_t)s->n * (size_t)(s->p->dim + 1);
}

static void write_share(const struct lf_comm *c, const struct shares *s, int share, size_t at)
{
    size_t n = heads_in_turn(s, share, at), head = heads_before(s, share) + at, dim = (size_t)s->p->dim;
    float *to = share_of(c, s, c->rank, share);
    if (n == 0) return;
    memcpy(to, (const float *)s->p->x + head * dim, n * dim * sizeof(float));
    memcpy(to + (size_t)s->n * dim, s->p->lse + head, n * sizeof(float));
}

/* Head i of this rank's share, of all ranks: nothing of those is read that saw no key. */
static void combine_head(const struct lf_comm *c, const struct shares *s, int share, size_t i, float *out)
{
    size_t dim = (size_t)s->p->dim;
    float lse[LF_RANKS_N], most = -INFINITY, sum = 0;
    for (int r = 0; r < c->n_ranks; r++) {
        lse[r] = share_of(c, s, r, share)[(size_t)s->n * dim + i];
        most = fmaxf(most, lse[r]);
    }
    memset(out, 0, dim * sizeof(float));
    for (int r = 0; r < c->n_ranks; r++) {
        if (lse[r] == -INFINITY) continue;
        const float *x = share_of(c, s, r, share) + i * dim;
        float weight = expf(lse[r] - most);
        sum += weight;
        for (size_t k = 0; k < dim; k++) out[k] += weight * x[k];
    }
    for (size_t k = 0; k < dim && sum != 0; k++) out[k] /= sum;
}

static void lse_combine(struct lf_comm *c, const struct lf_lse_combine_params *p)
{
    struct shares s = {.p = p, .n_shares = p->first ? c->n_ranks : 1};
    int mine = p->first ? c->rank : 0;
    s.n = SLOT_FLOATS / s.n_shares / (p->dim + 1);
    LF_ASSERT(s.n > 0 && p->dtype == LF_F32 && !p->is_here);
    size_t longest = 0, dim = (size_t)p->dim, share_bytes = (size_t)s.n * (dim + 1) * sizeof(float);
    struct part share = {.bytes = share_bytes, .stride = p->first ? share_bytes : 0};
    for (int k = 0; k < s.n_shares; k++) longest = LF_MAX(longest, heads_before(&s, k + 1) - heads_before(&s, k));
    for (size_t at = 0; at < longest; at += (size_t)s.n) {
        if (lf_comm_is_over(c)) return;
        for (int k = 0; k < s.n_shares; k++) write_share(c, &s, k, at);
        if (!meet(c, LF_COMM_LSE_COMBINE, heads_before(&s, s.n_shares) * dim * sizeof(float), share, false)) return;
        size_t n = heads_in_turn(&s, mine, at);
        for (size_t i = 0; i < n; i++) combine_head(c, &s, mine, i, (float *)p->out + (at + i) * dim);
        leave(c);
    }
}

/* ---- messages ---- */

void lf_comm_tell(struct lf_comm *c, const void *message, size_t bytes)
{
    LF_ASSERT(c->rank == 0 && c->axis == LF_COMM_ALL);
    size_t at = 0;
    do { /* one of no bytes is a message too */
        size_t n = LF_MIN(bytes - at, (size_t)SLOT_BYTES);
        if (lf_comm_is_over(c)) return;
        if (n > 0) memcpy(slot_of(c, 0)->data, (const char *)message + at, n);
        if (!meet(c, LF_COMM_MESSAGE, bytes, (struct part){.bytes = n}, false)) return;
        leave(c);
        at += n;
    } while (at < bytes);
}

enum lf_status lf_comm_hear(struct lf_comm *c, void *message, size_t max_bytes, size_t *bytes, struct lf_err *err)
{
    LF_ASSERT(c->rank != 0);
    size_t at = 0, n_all = 0;
    do {
        if (lf_comm_is_over(c) || !meet(c, LF_COMM_MESSAGE, ANY_BYTES, nothing, !c->has_heard))
            return lf_comm_check(c, err);
        size_t said = (size_t)slot_of(c, 0)->bytes;
        if (said > max_bytes || (at > 0 && said != n_all)) {
            (void)lf_comm_fail(c, "rank %d has room for a message of %zu bytes, one of %zu came", c->rank,
                               at > 0 ? n_all : max_bytes, said);
            return lf_comm_check(c, err);
        }
        n_all = said;
        size_t n = LF_MIN(n_all - at, (size_t)SLOT_BYTES);
        if (n > 0) memcpy((char *)message + at, slot_of(c, 0)->data, n);
        leave(c);
        c->has_heard = true;
        at += n;
    } while (at < n_all);
    *bytes = n_all;
    return LF_OK;
}

/* ---- between two ranks ---- */

/* Piece i of what is sent; of a message of no bytes there is one, of none. */
static bool send_piece(struct lf_comm *c, const struct lf_exchange_params *p, size_t at)
{
    struct lf_comm_channel *ch = channel_of(c->group, c->rank, p->to);
    uint32_t n = c->n_sent[p->to]++;
    size_t bytes = LF_MIN(p->send_bytes - at, (size_t)PIECE_BYTES);
    if (!wait_for(c, &ch->read, n + 1 - SLOTS_N, p->to, "a send", false)) return false;
    ch->bytes[n % SLOTS_N] = p->send_bytes;
    if (bytes > 0) memcpy(ch->data[n % SLOTS_N], (const char *)p->send + at, bytes);
    lf_count_raise(&ch->written);
    if (c->group->wire) lf_comm_wire_piece(c->group->wire, p->to, n, p->send_bytes, ch->data[n % SLOTS_N], bytes);
    return true;
}

static bool receive_piece(struct lf_comm *c, const struct lf_exchange_params *p, size_t at)
{
    struct lf_comm_channel *ch = channel_of(c->group, p->from, c->rank);
    uint32_t n = c->n_received[p->from]++;
    size_t bytes = LF_MIN(p->receive_bytes - at, (size_t)PIECE_BYTES);
    if (!wait_for(c, &ch->written, n + 1, p->from, "a receive", false)) return false;
    if (ch->bytes[n % SLOTS_N] != p->receive_bytes)
        return lf_comm_fail(c, "rank %d expected %zu bytes of rank %d, which sent %llu", c->rank, p->receive_bytes,
                            p->from, (unsigned long long)ch->bytes[n % SLOTS_N]);
    if (bytes > 0) memcpy((char *)p->receive + at, ch->data[n % SLOTS_N], bytes);
    lf_count_raise(&ch->read);
    if (c->group->wire) lf_comm_wire_taken(c->group->wire, p->from, n);
    return true;
}

static size_t n_pieces(int other, size_t bytes)
{
    if (other == LF_COMM_NOBODY) return 0;
    return bytes == 0 ? 1 : (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
}

static void exchange(struct lf_comm *c, const struct lf_exchange_params *p)
{
    size_t n_send = n_pieces(p->to, p->send_bytes), n_receive = n_pieces(p->from, p->receive_bytes);
    for (size_t i = 0; i < LF_MAX(n_send, n_receive); i++) {
        if (lf_comm_is_over(c)) return;
        if (i < n_send && !send_piece(c, p, i * PIECE_BYTES)) return;
        if (i < n_receive && !receive_piece(c, p, i * PIECE_BYTES)) return;
    }
}

const struct lf_comm_backend lf_comm_backend_cpu = {.kind = "cpu",
                                                    .barrier = barrier,
                                                    .broadcast = broadcast,
                                                    .all_reduce = all_reduce,
                                                    .all_gather = all_gather,
                                                    .lse_combine = lse_combine,
                                                    .exchange = exchange};
