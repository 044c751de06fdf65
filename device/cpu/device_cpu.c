/* The CPU as a device: worker threads, anonymous memory, and the best kernels that the processor runs. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/check.h"
#include "device/cpu/cpuid.h"
#include "device/cpu/ops_cpu.h"
#include "device/cpu/sysinfo.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; the C library of Debian 12 may not name it */
#endif

enum { HUGE_PAGE = 2 * 1024 * 1024, TOUCH_BYTES = 64 * 1024 * 1024, SMALL_PAGE = 4096 };

static enum lf_status open_cpu(struct lf_device *dev, const struct lf_device_opts *opts, struct lf_err *err)
{
    enum lf_isa best = lf_cpuid_isa();
    enum lf_isa isa = best;
    if (opts->max_isa >= 0) {
        if (opts->max_isa > LF_ISA_AMX)
            return lf_fail(err, LF_INVALID, "instruction set %d is none of 0 to %d", opts->max_isa, (int)LF_ISA_AMX);
        if (opts->max_isa > (int)best)
            return lf_fail(err, LF_UNSUPPORTED, "this machine cannot run \"%s\": its best is \"%s\" (%s)",
                           lf_isa_name((enum lf_isa)opts->max_isa), lf_isa_name(best), lf_cpuid_lacks(best));
        isa = (enum lf_isa)opts->max_isa;
    }
    int n_threads = opts->n_threads != 0 ? opts->n_threads : LF_MIN(lf_sysinfo_n_cpus(""), LF_THREADS_N);
    LF_TRY(lf_threads_create(&dev->threads, n_threads, err));

    struct lf_sysinfo_memory memory = lf_sysinfo_memory("");
    dev->info = (struct lf_device_info){.kind = "cpu",
                                        .token_tile = 1,
                                        .isa = isa,
                                        .n_threads = n_threads,
                                        .act_dtype = LF_F32,
                                        .is_host = true,
                                        .memory_bytes = memory.total_bytes,
                                        .available_bytes = memory.available_bytes};
    snprintf(dev->info.name, sizeof dev->info.name, "%s", lf_isa_name(isa));
    lf_ops_cpu_init(dev, isa);
    return LF_OK;
}

static void close_cpu(struct lf_device *dev)
{
    lf_threads_destroy(dev->threads);
}

/* ---- memory ---- */

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

static enum lf_status alloc_cpu(struct lf_device *dev, void **out, size_t bytes, const char *what, struct lf_err *err)
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
    lf_threads_run(dev->threads, (int)((n + TOUCH_BYTES - 1) / TOUCH_BYTES), touch_task, &touch);
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

static void free_cpu(struct lf_device *dev, void *ptr, size_t bytes)
{
    (void)dev;
    LF_ASSERT(munmap(ptr, mapped_bytes(bytes)) == 0);
}

static void upload_cpu(struct lf_device *dev, void *dst_device, const void *src_host, size_t bytes)
{
    (void)dev;
    memcpy(dst_device, src_host, bytes);
}

static void download_cpu(struct lf_device *dev, void *dst_host, const void *src_device, size_t bytes)
{
    (void)dev;
    memcpy(dst_host, src_device, bytes);
}

const struct lf_backend lf_backend_cpu = {.kind = "cpu",
                                          .open = open_cpu,
                                          .close = close_cpu,
                                          .alloc = alloc_cpu,
                                          .free = free_cpu,
                                          .upload = upload_cpu,
                                          .download = download_cpu};
