#include "server/ranks.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/log.h"
#include "server/commands.h"
#include "server/device_choice.h"
#include "server/ends.h"

struct rank {
    struct lf_ranks *all;
    struct lf_comm *comm;
    pthread_t thread;
    bool is_started;
    int idx;

    /* its thread's */
    struct lf_hparams hp;
    struct lf_device *dev;
    struct lf_model *model;
    struct lf_kv_cache kv; /* once it has loaded, its blocks may be copied by others */
};

struct lf_ranks {
    struct lf_ranks_opts opts;
    struct lf_comm_group *group;
    int n;
    pthread_t watcher;         /* of ranks that are processes */
    bool is_watched, is_apart; /* --rank */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_read, n_loaded; /* under the lock: that have read their weights, and that have a cache, too */
    int n_idle;           /* and that run nothing any more */
    bool is_stopping;
    uint8_t identities[LF_RANKS_N][LF_SHA256_BYTES]; /* of those that have read */

    struct rank of[LF_RANKS_N]; /* this one has a comm and nothing else, ranks of other processes have nothing */
};

/* The number of an axis that is named at *text, for the first time; *text goes on behind it. */
static bool read_axis(const char **text, const char *axis, int *n)
{
    size_t n_axis = strlen(axis);
    if (*n > 0 || strncmp(*text, axis, n_axis) != 0 || !isdigit((unsigned char)(*text)[n_axis])) return false;
    char *end;
    unsigned long value = strtoul(*text + n_axis, &end, 10);
    if (value < 1 || value > LF_RANKS_N) return false;
    *n = (int)value;
    *text = end;
    return true;
}

static bool read_split(struct lf_split *s, const char *text)
{
    while (read_axis(&text, "tp=", &s->n_ranks) || read_axis(&text, "cp=", &s->n_cp)) {
        if (*text == 0) return lf_split_world(s) <= LF_RANKS_N;
        if (*text++ != ',') return false;
    }
    return false;
}

enum lf_status lf_ranks_parse(struct lf_split *out, const char *parallel, struct lf_err *err)
{
    struct lf_split s = {.rank = 0};
    if (parallel && !read_split(&s, parallel))
        return lf_fail(
            err, LF_INVALID,
            "--parallel: expected auto, tp=N, cp=M or tp=N,cp=M, from 1 to %d ranks together, got \"%.40s\" (how "
            "many requests run at once is --max-seqs)",
            LF_RANKS_N, parallel);
    *out = (struct lf_split){.n_ranks = lf_split_n_ranks(&s), .n_cp = lf_split_n_cp(&s)};
    return LF_OK;
}

/* ---- a rank's thread ---- */

static void report_read(struct rank *r)
{
    struct lf_ranks *ranks = r->all;
    (void)pthread_mutex_lock(&ranks->lock);
    lf_model_identity(r->model, ranks->identities[r->idx]);
    ranks->n_read++;
    (void)pthread_cond_broadcast(&ranks->changed);
    (void)pthread_mutex_unlock(&ranks->lock);
}

static enum lf_status load(struct rank *r, struct lf_err *err)
{
    const struct lf_ranks_opts *o = &r->all->opts;
    struct lf_model_opts model = o->model;
    struct lf_kv_cache_opts kv = o->kv;
    char name[LF_DEVICE_NAME];
    struct lf_device_opts device = o->device;
    device.asks_others = false;
    device.name = lf_device_choice_name(name, o->device.name, r->idx);
    r->hp = *o->hp; /* its pointers are borrowed */
    struct lf_split *split = &r->hp.split;
    split->rank = r->idx % lf_split_n_ranks(split);
    split->cp_rank = r->idx / lf_split_n_ranks(split);
    kv.stripe = (struct lf_kv_stripe){.idx = split->cp_rank, .n = split->n_cp};
    model.comm = r->comm;
    model.progress = NULL;
    model.program = NULL; /* rank 0's identity names it */
    LF_TRY(lf_device_open(&r->dev, &device, err));
    LF_TRY(lf_model_open(&r->model, r->dev, &r->hp, &model, err));
    report_read(r);
    kv.layout = lf_model_kv_layout(r->model);
    LF_TRY(lf_kv_cache_open(&r->kv, r->dev, &kv, err));
    return lf_model_prepare(r->model, &r->kv, err);
}

static int count_started(const struct lf_ranks *ranks)
{
    int n = 0;
    for (int i = 1; i < ranks->n; i++) n += ranks->of[i].is_started;
    return n;
}

/* Until the process is done with all ranks: the group may have ended before, and blocks of this one's cache be on their
 * way to a tier. Then until all are idle, for what one has is written by others' kernels (lf_comm_open). */
static void unload(struct rank *r)
{
    struct lf_ranks *ranks = r->all;
    struct lf_err lost; /* a device's: it runs nothing either */
    (void)pthread_mutex_lock(&ranks->lock);
    while (!ranks->is_stopping) (void)pthread_cond_wait(&ranks->changed, &ranks->lock);
    (void)pthread_mutex_unlock(&ranks->lock);
    if (r->dev && lf_device_sync(r->dev, &lost) != LF_OK) LF_DEBUG_LOG("rank %d: %s", r->idx, lost.message);
    (void)pthread_mutex_lock(&ranks->lock);
    ranks->n_idle++;
    (void)pthread_cond_broadcast(&ranks->changed);
    while (ranks->n_idle < count_started(ranks)) (void)pthread_cond_wait(&ranks->changed, &ranks->lock);
    (void)pthread_mutex_unlock(&ranks->lock);
    lf_kv_cache_close(&r->kv);
    lf_model_close(r->model);
    lf_device_close(r->dev);
}

/* It has loaded, or has ended the group: whoever waits looks again. */
static void report(struct lf_ranks *ranks, bool has_loaded)
{
    (void)pthread_mutex_lock(&ranks->lock);
    ranks->n_loaded += has_loaded;
    (void)pthread_cond_broadcast(&ranks->changed);
    (void)pthread_mutex_unlock(&ranks->lock);
}

/* Else somebody waits for the others, and says what has become of them. */
static bool all_have_loaded(struct lf_ranks *ranks)
{
    (void)pthread_mutex_lock(&ranks->lock);
    bool have = ranks->n_loaded == ranks->n - 1;
    (void)pthread_mutex_unlock(&ranks->lock);
    return have;
}

/* Until the group ends. Nothing that might wait for rank 0, the log's lock least of all, comes before the alarm. */
static void follow(struct rank *r)
{
    struct lf_err err = {0};
    enum lf_status status = lf_model_follow(r->model, &r->kv, &err);
    if (status == LF_SHUTDOWN || !all_have_loaded(r->all)) return;
    (void)alarm(LF_RANKS_GRACE_S);
    LF_ERROR("rank %d ends: %s", r->idx, err.message);
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct lf_err err = {0};
    enum lf_status status = load(r, &err);
    if (status != LF_OK) {
        lf_fail_within(&err, status, "rank %d", r->idx);
        lf_comm_group_abort(r->all->group, status, err.message); /* of one that has ended it keeps why it has */
    }
    report(r->all, status == LF_OK);
    if (status == LF_OK) follow(r);
    unload(r);
    return NULL;
}

/* Signals belong to the thread that waits for them. */
static enum lf_status start_thread(pthread_t *thread, void *(*main)(void *), void *arg, const char *name,
                                   struct lf_err *err)
{
    sigset_t all, before;
    char reason[128];
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, main, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return lf_fail(err, LF_NO_MEMORY, "the thread %s does not start: %s", name,
                       strerror_r(rc, reason, sizeof(reason)));
    (void)pthread_setname_np(*thread, name);
    return LF_OK;
}

static enum lf_status start_rank(struct rank *r, struct lf_err *err)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "lf-rank%d", r->idx);
    LF_TRY(start_thread(&r->thread, rank_main, r, name, err));
    r->is_started = true;
    return LF_OK;
}

/* ---- ranks that are processes ---- */

enum { WATCH_MS = 100 };

/* Sleeps for a moment, or until it is to stop. */
static bool goes_on(struct lf_ranks *ranks)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WATCH_MS * LF_NS_PER_MS;
    until.tv_sec += until.tv_nsec / LF_NS_PER_S;
    until.tv_nsec %= LF_NS_PER_S;
    (void)pthread_mutex_lock(&ranks->lock);
    if (!ranks->is_stopping) (void)pthread_cond_timedwait(&ranks->changed, &ranks->lock, &until);
    bool goes = !ranks->is_stopping;
    (void)pthread_mutex_unlock(&ranks->lock);
    return goes;
}

static void *watch(void *arg)
{
    struct lf_ranks *ranks = arg;
    struct lf_err err;
    while (goes_on(ranks)) {
        if (!all_have_loaded(ranks) || lf_ranks_check(ranks, &err) == LF_OK) continue;
        (void)alarm(LF_RANKS_GRACE_S);
        if (ranks->opts.rank == 0) LF_ERROR("rank 0 ends: %s", err.message); /* others say so as they go */
        return NULL;
    }
    return NULL;
}

static enum lf_status start_process(struct lf_ranks *ranks, struct lf_err *err)
{
    const struct lf_ranks_opts *o = &ranks->opts;
    LF_TRY(lf_comm_group_create_wire(&ranks->group, ranks->n, o->rank, o->sockets, LF_RANKS_TIMEOUT_MS, err));
    LF_TRY(lf_comm_create(&ranks->of[o->rank].comm, ranks->group, o->rank, err));
    LF_TRY(start_thread(&ranks->watcher, watch, ranks, "lf-watch", err));
    ranks->is_watched = true;
    return LF_OK;
}

/* ---- all of them ---- */

static enum lf_status start_all(struct lf_ranks *ranks, struct lf_err *err)
{
    struct sigaction action = {.sa_handler = lf_end_failed};
    (void)sigaction(SIGALRM, &action, NULL);
    if (ranks->is_apart) return start_process(ranks, err);
    LF_TRY(lf_comm_group_create(&ranks->group, ranks->n, LF_RANKS_TIMEOUT_MS, err));
    for (int i = 0; i < ranks->n; i++) {
        ranks->of[i].all = ranks;
        ranks->of[i].idx = i;
        LF_TRY(lf_comm_create(&ranks->of[i].comm, ranks->group, i, err));
    }
    for (int i = 1; i < ranks->n; i++) LF_TRY(start_rank(&ranks->of[i], err));
    return LF_OK;
}

/* A clock that is set must not make the watcher sleep: the system has this one, or no threads. */
static void init_changed(pthread_cond_t *changed)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(changed, &attr);
    (void)pthread_condattr_destroy(&attr);
}

enum lf_status lf_ranks_start(struct lf_ranks **out, const struct lf_ranks_opts *opts, struct lf_err *err)
{
    struct lf_ranks *ranks = calloc(1, sizeof(*ranks));
    int n = lf_split_world(&opts->hp->split);
    if (!ranks) {
        for (int r = 0; opts->sockets && r < n; r++)
            if (r != opts->rank) (void)close(opts->sockets[r]);
        return lf_fail(err, LF_NO_MEMORY, "no memory for ranks");
    }
    ranks->opts = *opts;
    ranks->is_apart = opts->sockets != NULL;
    ranks->n = n;
    (void)pthread_mutex_init(&ranks->lock, NULL);
    init_changed(&ranks->changed);
    enum lf_status status = start_all(ranks, err);
    if (status == LF_OK)
        *out = ranks;
    else
        lf_ranks_stop(ranks);
    return status;
}

struct lf_comm *lf_ranks_comm(struct lf_ranks *ranks)
{
    return ranks->of[ranks->opts.rank].comm;
}

enum lf_status lf_ranks_check(struct lf_ranks *ranks, struct lf_err *err)
{
    enum lf_status status = lf_comm_group_check(ranks->group, err);
    return status == LF_SHUTDOWN ? LF_OK : status;
}

/* A meeting is what all come to that have loaded. */
static void wait_for_processes(struct lf_ranks *ranks)
{
    lf_comm_meet(lf_ranks_comm(ranks));
    if (lf_ranks_check(ranks, NULL) != LF_OK) return;
    (void)pthread_mutex_lock(&ranks->lock);
    ranks->n_loaded = ranks->n - 1;
    (void)pthread_mutex_unlock(&ranks->lock);
}

enum lf_status lf_ranks_wait(struct lf_ranks *ranks, struct lf_err *err)
{
    if (ranks->is_apart) {
        wait_for_processes(ranks);
        return lf_comm_group_check(ranks->group, err); /* LF_SHUTDOWN, too: nobody else will say so */
    }
    (void)pthread_mutex_lock(&ranks->lock);
    while (lf_ranks_check(ranks, NULL) == LF_OK && ranks->n_loaded < ranks->n - 1)
        (void)pthread_cond_wait(&ranks->changed, &ranks->lock);
    (void)pthread_mutex_unlock(&ranks->lock);
    return lf_ranks_check(ranks, err);
}

static int count_read(struct lf_ranks *ranks)
{
    (void)pthread_mutex_lock(&ranks->lock);
    while (lf_ranks_check(ranks, NULL) == LF_OK && ranks->n_read < ranks->n - 1)
        (void)pthread_cond_wait(&ranks->changed, &ranks->lock);
    int n = ranks->n_read;
    (void)pthread_mutex_unlock(&ranks->lock);
    return n;
}

enum lf_status lf_ranks_identity(struct lf_ranks *ranks, uint8_t identity[LF_SHA256_BYTES], struct lf_err *err)
{
    struct lf_sha256 sha;
    LF_ASSERT(!ranks->is_apart);
    if (count_read(ranks) < ranks->n - 1) return lf_comm_group_check(ranks->group, err);
    memcpy(ranks->identities[0], identity, LF_SHA256_BYTES);
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, ranks->identities, (size_t)ranks->n * LF_SHA256_BYTES);
    lf_sha256_final(&sha, identity);
    return LF_OK;
}

void lf_ranks_add_parts(struct lf_ranks *ranks, struct lf_kv_parts *parts)
{
    LF_ASSERT(!ranks->is_apart && parts->n == 1);
    for (int i = 1; i < ranks->n; i++) parts->of[parts->n++] = &ranks->of[i].kv;
}

void lf_ranks_fail(struct lf_ranks *ranks, const struct lf_err *why)
{
    lf_comm_group_abort(ranks->group, why->status, why->message);
}

static void tell_to_stop(struct lf_ranks *ranks)
{
    (void)pthread_mutex_lock(&ranks->lock);
    ranks->is_stopping = true;
    (void)pthread_cond_broadcast(&ranks->changed);
    (void)pthread_mutex_unlock(&ranks->lock);
}

static void join_all(struct lf_ranks *ranks)
{
    bool is_lost = all_have_loaded(ranks) && lf_ranks_check(ranks, NULL) != LF_OK;
    lf_comm_group_abort(ranks->group, LF_SHUTDOWN, "the ranks are stopped");
    (void)alarm(is_lost ? LF_RANKS_GRACE_S : LF_RANKS_STOP_S);
    tell_to_stop(ranks);
    for (int i = 1; i < ranks->n; i++)
        if (ranks->of[i].is_started) (void)pthread_join(ranks->of[i].thread, NULL);
    if (ranks->is_watched) (void)pthread_join(ranks->watcher, NULL);
    if (!is_lost) (void)alarm(0); /* else rank 0's device may be lost as well */
}

void lf_ranks_stop(struct lf_ranks *ranks)
{
    if (!ranks) return;
    if (ranks->group) join_all(ranks);
    for (int i = 0; i < ranks->n; i++) lf_comm_destroy(ranks->of[i].comm);
    lf_comm_group_destroy(ranks->group);
    (void)pthread_cond_destroy(&ranks->changed);
    (void)pthread_mutex_destroy(&ranks->lock);
    free(ranks);
}
