/* See host_memory.h. */
#include "device/cpu/host_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "core/check.h"
#include "device/cpu/sysinfo.h"
#include "device/cpu/threads.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; the C library of Debian 12 may not name it */
#endif

enum { HUGE_PAGE = 2 * 1024 * 1024, TOUCH_BYTES = 64 * 1024 * 1024, SMALL_PAGE = 4096 };

struct touch {
    char *ptr;
    size_t bytes;
    atomic_int failed; /* an errno, 0 for none */
};

/* Makes pages resident. The kernel does it in one call and reports what is missing; an older one has the pages
 * written to instead, where running out ends the process. */
static void touch_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    struct touch *t = ctx;
    size_t first = (size_t)task_idx * TOUCH_BYTES;
    size_t n = LF_MIN((size_t)TOUCH_BYTES, t->bytes - first);
    int rc = 0;
    do {
        rc = madvise(t->ptr + first, n, MADV_POPULATE_WRITE);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0) return;
    if (errno != EINVAL) {
        atomic_store(&t->failed, errno);
        return;
    }
    for (size_t i = 0; i < n; i += SMALL_PAGE) ((volatile char *)t->ptr)[first + i] = 0;
}

static size_t mapped_bytes(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* Address space of n bytes aligned to a huge page: one page too many, the ends given back. NULL where refused. */
static char *map_aligned(size_t n)
{
    char *base = mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0) (void)munmap(base, before);
    (void)munmap(base + before + n, HUGE_PAGE - before);
    return base + before;
}

enum lf_status lf_host_memory_take(struct lf_threads *threads, void **out, size_t bytes, const char *what,
                                   struct lf_err *err)
{
    uint64_t available = lf_sysinfo_memory("").available_bytes;
    if (bytes > available || bytes > SIZE_MAX / 2)
        return lf_fail(err, LF_NO_MEMORY, "%s needs %zu bytes (%.2f GiB), %" PRIu64 " (%.2f GiB) are available", what,
                       bytes, (double)bytes / (1 << 30), available, (double)available / (1 << 30));
    size_t n = mapped_bytes(bytes);
    struct touch touch = {.ptr = map_aligned(n), .bytes = n};
    if (touch.ptr == NULL)
        return lf_fail(err, LF_NO_MEMORY, "%s: the system refuses %zu bytes of address space (ulimit -v?)", what, n);
    /* Huge pages are an optimization: a kernel without them says no and all else holds. */
    (void)madvise(touch.ptr, n, MADV_HUGEPAGE);
    lf_threads_run(threads, (int)((n + TOUCH_BYTES - 1) / TOUCH_BYTES), touch_task, &touch);
    int failed = atomic_load(&touch.failed);
    if (failed != 0) {
        char reason[128];
        (void)munmap(touch.ptr, n);
        return lf_fail(err, LF_NO_MEMORY, "%s: %zu bytes cannot be made resident: %s", what, bytes,
                       strerror_r(failed, reason, sizeof reason));
    }
    *out = touch.ptr;
    return LF_OK;
}

void lf_host_memory_give_back(void *ptr, size_t bytes)
{
    LF_ASSERT(munmap(ptr, mapped_bytes(bytes)) == 0);
}
