/* The CPU as a device: worker threads, memory of the host, and the best kernels that the processor runs. */
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "device/cpu/cpuid.h"
#include "device/cpu/host_memory.h"
#include "device/cpu/ops_cpu.h"
#include "device/cpu/sysinfo.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

enum { SPLIT_ROWS = 8 };

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
    n_threads = LF_MAX(n_threads / LF_MAX(opts->n_ranks, 1), 1);
    LF_TRY(lf_threads_create(&dev->threads, n_threads, err));

    struct lf_sysinfo_memory memory = lf_sysinfo_memory("");
    dev->info = (struct lf_device_info){.kind = "cpu",
                                        .token_tile = 1,
                                        .split_rows = SPLIT_ROWS,
                                        .isa = isa,
                                        .n_threads = n_threads,
                                        .act_dtype = LF_F32,
                                        .is_host = true,
                                        .memory_bytes = memory.total_bytes,
                                        .available_bytes = memory.available_bytes,
                                        .host_available_bytes = memory.available_bytes};
    snprintf(dev->info.name, sizeof dev->info.name, "%s", lf_isa_name(isa));
    lf_ops_cpu_init(dev, isa);
    return LF_OK;
}

static void close_cpu(struct lf_device *dev)
{
    lf_threads_destroy(dev->threads);
}

static enum lf_status alloc_cpu(struct lf_device *dev, void **out, size_t bytes, const char *what, struct lf_err *err)
{
    return lf_host_memory_take(dev->threads, out, bytes, what, err);
}

static void free_cpu(struct lf_device *dev, void *ptr, size_t bytes)
{
    (void)dev;
    lf_host_memory_give_back(ptr, bytes);
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
