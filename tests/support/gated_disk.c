#include "tests/support/gated_disk.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/check.h"

struct gated_file {
    struct lf_disk_file base;
    struct gated_disk *gated;
    struct lf_disk_file *file;
    bool is_data;
};

/* Waits if this one is held; LF_OK, or what it is to answer. Returns under the lock. */
static enum lf_status enter(const struct gated_file *f, enum gated_op op)
{
    struct gated_disk *g = f->gated;
    struct gate *gate = &g->gates[op];
    pthread_mutex_lock(&g->lock);
    if (!f->is_data) return LF_OK;
    gate->n_begun++;
    if (gate->n_to_hold > 0) {
        uint64_t n_releases = gate->n_releases;
        gate->n_to_hold--;
        gate->n_held++;
        pthread_cond_broadcast(&g->changed);
        while (gate->n_releases == n_releases) pthread_cond_wait(&g->changed, &g->lock);
        gate->n_held--;
    }
    return gate->failure;
}

static enum lf_status leave(const struct gated_file *f, enum lf_status status)
{
    pthread_mutex_unlock(&f->gated->lock);
    return status;
}

static enum lf_status read_bytes(struct lf_disk_file *file, void *dst, size_t n, uint64_t offset, struct lf_err *err)
{
    const struct gated_file *f = (const struct gated_file *)file;
    enum lf_status failure = enter(f, GATED_READ);
    if (failure != LF_OK) return leave(f, lf_fail(err, failure, "the disk does not read"));
    return leave(f, f->file->ops->read(f->file, dst, n, offset, err));
}

static enum lf_status write_bytes(struct lf_disk_file *file, const void *src, size_t n, uint64_t offset,
                                  struct lf_err *err)
{
    const struct gated_file *f = (const struct gated_file *)file;
    enum lf_status failure = enter(f, GATED_WRITE);
    if (failure != LF_OK) return leave(f, lf_fail(err, failure, "the disk does not write"));
    return leave(f, f->file->ops->write(f->file, src, n, offset, err));
}

static enum lf_status sync_bytes(struct lf_disk_file *file, struct lf_err *err)
{
    const struct gated_file *f = (const struct gated_file *)file;
    pthread_mutex_lock(&f->gated->lock);
    return leave(f, f->file->ops->sync(f->file, err));
}

static enum lf_status resize(struct lf_disk_file *file, uint64_t bytes, struct lf_err *err)
{
    const struct gated_file *f = (const struct gated_file *)file;
    pthread_mutex_lock(&f->gated->lock);
    return leave(f, f->file->ops->resize(f->file, bytes, err));
}

static void close_file(struct lf_disk_file *file)
{
    struct gated_file *f = (struct gated_file *)file;
    f->file->ops->close(f->file);
    free(f);
}

static const struct lf_disk_file_ops ops = {
    .read = read_bytes, .write = write_bytes, .sync = sync_bytes, .resize = resize, .close = close_file};

void gated_disk_init(struct gated_disk *g)
{
    memset(g, 0, sizeof(*g));
    fake_disk_init(&g->disk);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

void gated_disk_deinit(struct gated_disk *g)
{
    fake_disk_deinit(&g->disk);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

struct lf_disk_file *gated_disk_file(struct gated_disk *g, int i)
{
    struct gated_file *f = calloc(1, sizeof(*f));
    LF_ASSERT(f);
    *f = (struct gated_file){{&ops}, g, fake_disk_file(&g->disk, i), i == 1};
    return &f->base;
}

void gated_disk_hold(struct gated_disk *g, enum gated_op op, int n)
{
    pthread_mutex_lock(&g->lock);
    g->gates[op].n_to_hold = n;
    pthread_mutex_unlock(&g->lock);
}

bool gated_disk_await_held(struct gated_disk *g, enum gated_op op, int n)
{
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&g->lock);
    while (g->gates[op].n_held < n && error == 0) error = pthread_cond_timedwait(&g->changed, &g->lock, &until);
    pthread_mutex_unlock(&g->lock);
    return error == 0;
}

void gated_disk_release(struct gated_disk *g, enum gated_op op)
{
    pthread_mutex_lock(&g->lock);
    g->gates[op].n_to_hold = 0;
    g->gates[op].n_releases++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

bool gated_disk_pass_one(struct gated_disk *g, enum gated_op op, enum lf_status failure)
{
    struct gate *gate = &g->gates[op];
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&g->lock);
    long n_begun = gate->n_begun;
    gate->failure = failure;
    gate->n_to_hold = 1;
    gate->n_releases++;
    pthread_cond_broadcast(&g->changed);
    while (gate->n_begun == n_begun && error == 0) error = pthread_cond_timedwait(&g->changed, &g->lock, &until);
    pthread_mutex_unlock(&g->lock);
    return error == 0;
}

void gated_disk_fail(struct gated_disk *g, enum gated_op op, enum lf_status failure)
{
    pthread_mutex_lock(&g->lock);
    g->gates[op].failure = failure;
    pthread_mutex_unlock(&g->lock);
}

void gated_disk_fail_at(struct gated_disk *g, long fail_at, long n, enum lf_status failure)
{
    pthread_mutex_lock(&g->lock);
    g->disk.fails_at = g->disk.n_ops + fail_at;
    g->disk.fails_n = n;
    g->disk.failure = failure;
    pthread_mutex_unlock(&g->lock);
}

long gated_disk_n_begun(struct gated_disk *g, enum gated_op op)
{
    pthread_mutex_lock(&g->lock);
    long n = g->gates[op].n_begun;
    pthread_mutex_unlock(&g->lock);
    return n;
}
