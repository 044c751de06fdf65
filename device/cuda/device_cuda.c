/* A GPU as a device: one stream, plain cudaMalloc, pinned memory for the copies, and a first error that is final. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/log.h"
#include "device/cpu/sysinfo.h"
#include "device/cpu/threads.h"
#include "device/cuda/cuda_impl.h"

enum {
    MAX_LOADERS = 16,
    MAX_GPU_DIGITS = 4,
    SPLIT_ROWS = 128 /* a tile of a GEMM, which takes as long for fewer */
};

/* What driver, code and library workspaces are taken to need of a GPU that cannot be asked, and what the driver keeps
 * of the memory that its data sheet names: more than was seen on an H100, so that what is planned is there. */
#define DESCRIBED_CONTEXT_BYTES ((uint64_t)1536 << 20)

/* ---- opening ---- */

/* The number behind "cuda:", 0 where there is none. */
static enum lf_status parse_idx(const char *name, int *idx, struct lf_err *err)
{
    *idx = 0;
    if (strcmp(name, "auto") == 0 || strcmp(name, "cuda") == 0) return LF_OK;
    const char *digits = name + strlen("cuda:");
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > MAX_GPU_DIGITS || digits[n] != '\0')
        return lf_fail(err, LF_NOT_FOUND, "\"%s\" names no GPU: write \"cuda\" or \"cuda:N\"", name);
    *idx = (int)strtol(digits, NULL, 10);
    return LF_OK;
}

static enum lf_status fail_open(cudaError_t rc, const char *what, struct lf_err *err)
{
    (void)cudaGetLastError(); /* what was reported here is not to be reported again */
    return lf_fail(err, rc == cudaErrorMemoryAllocation ? LF_NO_MEMORY : LF_DEVICE, "%s: %s", what,
                   cudaGetErrorString(rc));
}

/* A GPU for each rank. */
static enum lf_status check_ranks(int n_ranks, int n_gpus, struct lf_err *err)
{
    if (n_ranks <= n_gpus) return LF_OK;
    return lf_fail(err, LF_NOT_FOUND, "%d ranks need as many GPUs, this machine has %d", n_ranks, n_gpus);
}

/* From idx on, as far as each reaches the memory of idx and idx that of each: ranks say so again of all pairs. */
static int count_linked(int idx, int n_gpus)
{
    int end = idx + 1, there = 1, back = 1;
    while (end < n_gpus && cudaDeviceCanAccessPeer(&there, idx, end) == cudaSuccess && there &&
           cudaDeviceCanAccessPeer(&back, end, idx) == cudaSuccess && back)
        end++;
    return end - idx;
}

static enum lf_status find_gpu(struct lf_device *dev, int idx, int n_ranks, struct lf_err *err)
{
    int n = 0, major = 0, minor = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc != cudaSuccess || n == 0) {
        (void)cudaGetLastError();
        const char *why = rc == cudaSuccess ? "the driver knows none" : cudaGetErrorString(rc);
        if (rc == cudaErrorInsufficientDriver)
            why = "there is no NVIDIA driver, or it is too old for this build's CUDA";
        return lf_fail(err, LF_NOT_FOUND, "cuda:%d: no GPU can be used: %s (plan --gpu-memory does without)", idx, why);
    }
    if (idx >= n)
        return lf_fail(err, LF_NOT_FOUND, "there is no cuda:%d: this machine has cuda:0 to cuda:%d", idx, n - 1);
    LF_TRY(check_ranks(n_ranks, n, err));
    lf_cuda_use(idx);
    struct cudaDeviceProp prop;
    rc = cudaGetDeviceProperties(&prop, idx);
    if (rc == cudaSuccess) rc = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, idx);
    if (rc == cudaSuccess) rc = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, idx);
    if (rc == cudaSuccess) rc = cudaDeviceGetAttribute(&dev->info.n_sms, cudaDevAttrMultiProcessorCount, idx);
    if (rc != cudaSuccess) return fail_open(rc, "asking the GPU what it is", err);
    dev->info.sm = major * 10 + minor;
    dev->info.n_gpus = LF_MIN(count_linked(idx, n), (int)LF_RANKS_N);
    (void)snprintf(dev->info.name, sizeof dev->info.name, "%.*s", LF_DEVICE_NAME - 1, prop.name);
    if (dev->info.sm < LF_CUDA_OLDEST_SM)
        return lf_fail(err, LF_UNSUPPORTED, "cuda:%d (%s) has compute capability %d.%d, at least %d.%d is needed", idx,
                       dev->info.name, major, minor, LF_CUDA_OLDEST_SM / 10, LF_CUDA_OLDEST_SM % 10);
    return LF_OK;
}

static void close_cuda(struct lf_device *dev)
{
    struct lf_cuda *cuda = dev->cuda;
    if (cuda != NULL) {
        lf_cuda_use(cuda->idx);
        /* What still runs must not lose its memory. A failure here was one before: it is in sticky. */
        if (cuda->stream != NULL) (void)cudaStreamSynchronize(cuda->stream);
        lf_ops_cuda_deinit(dev);
        lf_cuda_lanes_deinit(cuda);
        lf_cuda_copy_deinit(cuda);
        if (cuda->stream != NULL) (void)cudaStreamDestroy(cuda->stream);
        free(cuda);
        dev->cuda = NULL;
    }
    lf_threads_destroy(dev->threads);
    dev->threads = NULL;
}

static void note_gpu(struct lf_gpu *out, const char *name, int n_sms, uint64_t available_bytes)
{
    (void)snprintf(out->name, sizeof(out->name), "%.*s", LF_DEVICE_NAME - 1, name);
    out->n_sms = n_sms;
    out->available_bytes = available_bytes;
}

/* One behind this one, before anything but a context is on it; that is given back, its rank makes its own. */
static cudaError_t ask_other(struct lf_gpu *out, int idx)
{
    struct cudaDeviceProp prop;
    size_t available = 0, total = 0;
    lf_cuda_use(idx);
    cudaError_t rc = cudaGetDeviceProperties(&prop, idx);
    if (rc == cudaSuccess) rc = cudaMemGetInfo(&available, &total);
    if (rc != cudaSuccess) return rc;
    note_gpu(out, prop.name, prop.multiProcessorCount, available);
    return cudaDeviceReset();
}

/* own_bytes: of this one's memory that its code and workspaces take beside a context. One that cannot be asked ends the
 * row: it is not offered. */
static void ask_others(struct lf_device_info *info, int idx, bool asks, uint64_t own_bytes)
{
    note_gpu(&info->gpus[0], info->name, info->n_sms, info->available_bytes);
    int n = asks ? info->n_gpus : 1;
    info->n_gpus = 1;
    while (info->n_gpus < n) {
        struct lf_gpu *gpu = &info->gpus[info->n_gpus];
        cudaError_t rc = ask_other(gpu, idx + info->n_gpus);
        if (rc != cudaSuccess) {
            LF_WARN("cuda:%d cannot be asked: %s", idx + info->n_gpus, cudaGetErrorString(rc));
            break;
        }
        gpu->available_bytes -= LF_MIN(gpu->available_bytes, own_bytes);
        info->n_gpus++;
    }
    (void)cudaGetLastError(); /* it is not this one's */
    lf_cuda_use(idx);
}

/* Everything that stays in the GPU's memory beside buffers: context, code, library workspace. */
static enum lf_status build(struct lf_device *dev, int idx, const struct lf_device_opts *opts, struct lf_err *err)
{
    int n_threads = (opts->n_threads > 0 ? opts->n_threads : lf_sysinfo_n_cpus("")) / LF_MAX(opts->n_ranks, 1);
    if (opts->n_threads == 0) n_threads = LF_MIN(n_threads, (int)MAX_LOADERS);
    LF_TRY(lf_threads_create(&dev->threads, LF_MAX(n_threads, 1), err));
    dev->cuda = calloc(1, sizeof *dev->cuda);
    if (dev->cuda == NULL) return lf_fail(err, LF_NO_MEMORY, "no memory for the device");
    dev->cuda->idx = idx;
    size_t bare = 0, available = 0, total = 0;
    cudaError_t rc = cudaMemGetInfo(&bare, &total);
    if (rc == cudaSuccess) rc = cudaStreamCreateWithFlags(&dev->cuda->stream, cudaStreamNonBlocking);
    if (rc != cudaSuccess) return fail_open(rc, "opening the GPU", err);
    rc = lf_cuda_copy_init(dev->cuda);
    if (rc == cudaSuccess) rc = lf_cuda_lanes_init(dev->cuda);
    if (rc != cudaSuccess) return fail_open(rc, "pinned memory and lanes for copies", err);
    LF_TRY(lf_ops_cuda_init(dev, err));

    rc = cudaMemGetInfo(&available, &total);
    if (rc != cudaSuccess) return fail_open(rc, "asking for the GPU's memory", err);
    dev->info.memory_bytes = total;
    dev->info.available_bytes = available;
    dev->info.context_bytes = total - available;
    dev->info.host_available_bytes = lf_sysinfo_memory("").available_bytes;
    ask_others(&dev->info, idx, opts->asks_others, bare - LF_MIN(bare, available));
    return LF_OK;
}

/* A GPU that is not asked for anything: what a plan needs, without a driver. */
static enum lf_status describe(struct lf_device *dev, const struct lf_device_opts *opts, struct lf_err *err)
{
    struct lf_device_info *info = &dev->info;
    if (opts->gpu_n_sms < 1) return lf_fail(err, LF_INVALID, "a GPU of %d multiprocessors", opts->gpu_n_sms);
    if (opts->gpu_memory_bytes <= DESCRIBED_CONTEXT_BYTES)
        return lf_fail(err, LF_INVALID,
                       "a GPU of %" PRIu64 " bytes: driver and code alone take 1.5 GiB (write 80G for 80 GiB)",
                       opts->gpu_memory_bytes);
    info->is_described = true;
    info->n_sms = opts->gpu_n_sms;
    info->n_gpus = LF_MIN(LF_MAX(opts->n_gpus, 1), (int)LF_RANKS_N);
    info->memory_bytes = opts->gpu_memory_bytes;
    info->context_bytes = DESCRIBED_CONTEXT_BYTES;
    info->available_bytes = info->memory_bytes - info->context_bytes;
    (void)snprintf(info->name, sizeof info->name, "a GPU as described: %.2f GiB, %d multiprocessors",
                   (double)info->memory_bytes / (1 << 30), info->n_sms);
    for (int i = 0; i < info->n_gpus; i++) note_gpu(&info->gpus[i], info->name, info->n_sms, info->available_bytes);
    lf_ops_cuda_fill(dev);
    return LF_OK;
}

static enum lf_status open_cuda(struct lf_device *dev, const struct lf_device_opts *opts, struct lf_err *err)
{
    int idx = 0;
    dev->info = (struct lf_device_info){.kind = "cuda",
                                        .isa = LF_ISA_C,
                                        .token_tile = LF_CUDA_ROW_TILE,
                                        .split_rows = SPLIT_ROWS,
                                        .act_dtype = opts->act_dtype};
    if (dev->info.act_dtype == LF_F32) dev->info.act_dtype = LF_BF16;
    if (opts->gpu_memory_bytes > 0) return describe(dev, opts, err);
    LF_TRY(parse_idx(opts->name, &idx, err));
    LF_TRY(find_gpu(dev, idx, opts->n_ranks, err));
    enum lf_status status = build(dev, idx, opts, err);
    if (status != LF_OK) close_cuda(dev);
    return status;
}

/* ---- memory ---- */

static enum lf_status alloc_cuda(struct lf_device *dev, void **out, size_t bytes, const char *what, struct lf_err *err)
{
    void *ptr = NULL;
    LF_ASSERT(!dev->info.is_described);
    LF_TRY(lf_sticky_status(&dev->cuda->sticky, dev->info.name, err));
    lf_cuda_use(dev->cuda->idx);
    cudaError_t rc = cudaMalloc(&ptr, bytes);
    if (rc == cudaErrorMemoryAllocation) {
        size_t available = 0, total = 0;
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&available, &total);
        return lf_fail(err, LF_NO_MEMORY,
                       "%s needs %zu bytes (%.2f GiB) on cuda:%d, %zu (%.2f GiB) of %.2f GiB are free", what, bytes,
                       (double)bytes / (1 << 30), dev->cuda->idx, available, (double)available / (1 << 30),
                       (double)total / (1 << 30));
    }
    /* Zeros, as fresh pages of a CPU are: rows that are never packed read as 0. */
    if (rc == cudaSuccess) {
        rc = cudaMemsetAsync(ptr, 0, bytes, dev->cuda->stream);
        if (rc != cudaSuccess) (void)cudaFree(ptr);
    }
    lf_cuda_check(dev, (int)rc, what);
    LF_TRY(lf_sticky_status(&dev->cuda->sticky, dev->info.name, err));
    *out = ptr;
    return LF_OK;
}

static void free_cuda(struct lf_device *dev, void *ptr, size_t bytes)
{
    (void)bytes;
    lf_cuda_use(dev->cuda->idx);
    lf_cuda_check(dev, (int)cudaFree(ptr), "freeing memory"); /* waits for what still uses it */
}

static enum lf_status sync_cuda(struct lf_device *dev, struct lf_err *err)
{
    LF_ASSERT(!dev->cuda->capturing);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, (int)cudaStreamSynchronize(dev->cuda->stream), "running a step");
    return lf_sticky_status(&dev->cuda->sticky, dev->info.name, err);
}

const struct lf_backend lf_backend_cuda = {.kind = "cuda",
                                           .open = open_cuda,
                                           .close = close_cuda,
                                           .alloc = alloc_cuda,
                                           .free = free_cuda,
                                           .upload = lf_cuda_upload,
                                           .download = lf_cuda_download,
                                           .fetch_begin = lf_cuda_fetch_begin,
                                           .fetch_end = lf_cuda_fetch_end,
                                           .copy_out = lf_cuda_copy_out,
                                           .copy_in = lf_cuda_copy_in,
                                           .host_pin = lf_cuda_host_pin,
                                           .host_unpin = lf_cuda_host_unpin,
                                           .sync = sync_cuda,
                                           .graph_begin = lf_cuda_graph_begin,
                                           .graph_end = lf_cuda_graph_end,
                                           .graph_launch = lf_cuda_graph_launch,
                                           .graph_destroy = lf_cuda_graph_destroy};
