/* A fake disk for several threads, whose data file waits or fails on demand.
 *
 * File 0 is the index and file 1 the data, as everywhere. A read or write of the data that is held waits inside the
 * disk, as on a slow one, until it is released. */
#ifndef LF_TESTS_SUPPORT_GATED_DISK_H
#define LF_TESTS_SUPPORT_GATED_DISK_H

#include <pthread.h>

#include "tests/support/fake_disk.h"

enum gated_op { GATED_READ, GATED_WRITE };

struct gate {
    int n_to_hold; /* of those that come next */
    int n_held;    /* that wait now */
    uint64_t n_releases;
    long n_begun;
    enum lf_status failure; /* what each answers, instead of touching the disk; LF_OK: none fails */
};

struct gated_disk {
    struct fake_disk disk; /* for the test alone while nothing is under way */
    pthread_mutex_t lock;  /* over the disk and all below */
    pthread_cond_t changed;
    struct gate gates[2];
};

void gated_disk_init(struct gated_disk *g);
void gated_disk_deinit(struct gated_disk *g);
struct lf_disk_file *gated_disk_file(struct gated_disk *g, int i);

/* The next n wait. */
void gated_disk_hold(struct gated_disk *g, enum gated_op op, int n);
/* Returns when n wait; false: they did not within 20 s. */
bool gated_disk_await_held(struct gated_disk *g, enum gated_op op, int n);
/* Those that wait go on, and no more are held. */
void gated_disk_release(struct gated_disk *g, enum gated_op op);
/* The one that waits goes on, with this answer (LF_OK: the disk's), and the next is held; returns when it waits. false:
 * none has come within 20 s. */
bool gated_disk_pass_one(struct gated_disk *g, enum gated_op op, enum lf_status failure);
void gated_disk_fail(struct gated_disk *g, enum gated_op op, enum lf_status failure);
/* From the fail_at-th operation from here on (0: the next) n of the fake disk's fail; n = -1: all of them. */
void gated_disk_fail_at(struct gated_disk *g, long fail_at, long n, enum lf_status failure);
long gated_disk_n_begun(struct gated_disk *g, enum gated_op op);

#endif
