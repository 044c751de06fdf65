/* Opening a device by name, and the bookkeeping every backend shares. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/log.h"
#include "device/cpu/cpuid.h"
#include "device/cpu/host_memory.h"
#include "device/device_impl.h"

/* Slowest first. */
static const struct lf_backend *const backends[] = {
    &lf_backend_cpu,
#ifdef LF_HAVE_CUDA
    &lf_backend_cuda,
#endif
};

/* The best instruction set that there are kernels for in this build. */
#if defined(LF_HAVE_AMX)
enum { LF_ISA_BUILT = LF_ISA_AMX };
#elif defined(LF_X86)
enum { LF_ISA_BUILT = LF_ISA_AVX512_BF16 };
#else
enum { LF_ISA_BUILT = LF_ISA_C };
#endif

const char *lf_isa_name(enum lf_isa isa)
{
    static const char *const names[] = {"c", "avx2", "avx512", "avx512-bf16", "amx"};
    LF_ASSERT((size_t)isa < LF_N_ELEMS(names));
    return names[isa];
}

void lf_device_backends(struct lf_buf *out)
{
    for (size_t i = 0; i < LF_N_ELEMS(backends); i++) lf_buf_printf(out, "%s%s", i ? ", " : "", backends[i]->kind);
#ifdef LF_HAVE_CUDA
    lf_buf_cstr(out, " (CUDA " LF_CUDA_VERSION ")");
#endif
}

void lf_device_isas(struct lf_buf *out)
{
    for (int i = LF_ISA_C; i <= LF_ISA_BUILT; i++)
        lf_buf_printf(out, "%s%s", i ? ", " : "", lf_isa_name((enum lf_isa)i));
    lf_buf_printf(out, "; this machine: %s", lf_isa_name(lf_cpuid_isa()));
}

/* "cuda:1" is called by "cuda"; of the CPU there is one. */
static bool is_called(const struct lf_backend *backend, const char *name)
{
    size_t n = strlen(backend->kind);
    if (strncmp(name, backend->kind, n) != 0) return false;
    return name[n] == '\0' || (name[n] == ':' && backend != &lf_backend_cpu);
}

static enum lf_status open_backend(struct lf_device *dev, const struct lf_backend *backend,
                                   const struct lf_device_opts *opts, struct lf_err *err)
{
    memset(dev, 0, sizeof *dev);
    dev->backend = backend;
    return backend->open(dev, opts, err);
}

/* "auto" takes the fastest backend that opens. The CPU always does, or says why not. */
static enum lf_status open_by_name(struct lf_device *dev, const struct lf_device_opts *opts, struct lf_err *err)
{
    bool any = strcmp(opts->name, "auto") == 0;
    enum lf_status status = LF_NOT_FOUND;
    for (size_t i = LF_N_ELEMS(backends); any && status != LF_OK && i-- > 0;) {
        status = open_backend(dev, backends[i], opts, err);
        if (i > 0 && status != LF_OK && status != LF_NOT_FOUND)
            LF_WARN("%s is there but cannot be used: %s", backends[i]->kind, err->message);
    }
    if (any) return status;
    for (size_t i = 0; i < LF_N_ELEMS(backends); i++)
        if (is_called(backends[i], opts->name)) return open_backend(dev, backends[i], opts, err);
    bool has_gpu = LF_N_ELEMS(backends) > 1;
    if (!has_gpu && strncmp(opts->name, "cuda", 4) == 0)
        return lf_fail(err, LF_NOT_FOUND, "%.60s: this build has no GPU backend: it is made where CMake finds nvcc",
                       opts->name);
    return lf_fail(err, LF_NOT_FOUND, "no device is called \"%.60s\" (this build has: auto, cpu%s)", opts->name,
                   has_gpu ? ", cuda, cuda:N" : "");
}

enum lf_status lf_device_open(struct lf_device **out, const struct lf_device_opts *opts, struct lf_err *err)
{
    if (opts->n_threads < 0 || opts->n_threads > LF_THREADS_N)
        return lf_fail(err, LF_INVALID, "threads must be 0 (one for each CPU) to %d, not %d", LF_THREADS_N,
                       opts->n_threads);

    struct lf_device *dev = calloc(1, sizeof *dev);
    if (dev == NULL) return lf_fail(err, LF_NO_MEMORY, "no memory for the device");
    enum lf_status status = open_by_name(dev, opts, err);
    if (status != LF_OK) {
        free(dev);
        return status;
    }
    *out = dev;
    return LF_OK;
}

void lf_device_close(struct lf_device *dev)
{
    if (dev == NULL) return;
    LF_ASSERT(dev->allocated_bytes == 0);
    dev->backend->close(dev);
    free(dev);
}

const struct lf_ops *lf_device_ops(const struct lf_device *dev)
{
    return &dev->ops;
}

const struct lf_device_info *lf_device_info(const struct lf_device *dev)
{
    return &dev->info;
}

struct lf_threads *lf_device_threads(const struct lf_device *dev)
{
    return dev->threads;
}

enum lf_status lf_buffer_alloc(struct lf_device *dev, struct lf_buffer *out, size_t bytes, const char *what,
                               struct lf_err *err)
{
    if (bytes == 0) return lf_fail(err, LF_INVALID, "%s: a buffer needs at least one byte", what);
    void *ptr = NULL;
    LF_TRY(dev->backend->alloc(dev, &ptr, bytes, what, err));
    dev->allocated_bytes += bytes;
    dev->n_allocs++;
    *out = (struct lf_buffer){.ptr = ptr, .bytes = bytes};
    return LF_OK;
}

void lf_buffer_free(struct lf_device *dev, struct lf_buffer *buf)
{
    if (buf->ptr == NULL) return;
    LF_ASSERT(dev->allocated_bytes >= buf->bytes);
    dev->backend->free(dev, buf->ptr, buf->bytes);
    dev->allocated_bytes -= buf->bytes;
    *buf = (struct lf_buffer){0};
}

uint64_t lf_device_allocated_bytes(const struct lf_device *dev)
{
    return dev->allocated_bytes;
}

uint64_t lf_device_n_allocs(const struct lf_device *dev)
{
    return dev->n_allocs;
}

void lf_upload(struct lf_device *dev, void *dst_device, const void *src_host, size_t bytes)
{
    dev->backend->upload(dev, dst_device, src_host, bytes);
}

void lf_download(struct lf_device *dev, void *dst_host, const void *src_device, size_t bytes)
{
    dev->backend->download(dev, dst_host, src_device, bytes);
}

void lf_fetch_begin(struct lf_device *dev, int slot, const void *src_device, size_t bytes)
{
    LF_ASSERT(slot >= 0 && slot < LF_FETCHES_N && bytes <= LF_FETCH_BYTES);
    dev->fetches[slot] = (struct lf_fetch){.src = src_device, .bytes = bytes};
    if (dev->backend->fetch_begin) dev->backend->fetch_begin(dev, slot, src_device, bytes);
}

enum lf_status lf_fetch_end(struct lf_device *dev, int slot, void *dst_host, struct lf_err *err)
{
    const struct lf_fetch *f = &dev->fetches[slot];
    if (dev->backend->fetch_end) return dev->backend->fetch_end(dev, slot, dst_host, f->bytes, err);
    lf_download(dev, dst_host, f->src, f->bytes);
    return lf_device_sync(dev, err);
}

/* ---- beside the queue ---- */

enum lf_status lf_copy_out(struct lf_device *dev, int lane, void *dst_host, const void *src_device, size_t bytes,
                           struct lf_err *err)
{
    LF_ASSERT(lane >= 0 && lane < LF_COPY_LANES_N);
    if (dev->backend->copy_out) return dev->backend->copy_out(dev, lane, dst_host, src_device, bytes, err);
    memcpy(dst_host, src_device, bytes);
    return LF_OK;
}

enum lf_status lf_copy_in(struct lf_device *dev, int lane, void *dst_device, const void *src_host, size_t bytes,
                          struct lf_err *err)
{
    LF_ASSERT(lane >= 0 && lane < LF_COPY_LANES_N);
    if (dev->backend->copy_in) return dev->backend->copy_in(dev, lane, dst_device, src_host, bytes, err);
    memcpy(dst_device, src_host, bytes);
    return LF_OK;
}

enum lf_status lf_host_alloc(struct lf_device *dev, struct lf_buffer *out, size_t bytes, const char *what,
                             struct lf_err *err)
{
    void *ptr = NULL;
    if (bytes == 0) return lf_fail(err, LF_INVALID, "%s: memory of the host needs at least one byte", what);
    LF_TRY(lf_host_memory_take(dev->threads, &ptr, bytes, what, err));
    *out = (struct lf_buffer){.ptr = ptr, .bytes = bytes};
    return LF_OK;
}

void lf_host_free(struct lf_device *dev, struct lf_buffer *buf)
{
    (void)dev;
    if (buf->ptr) lf_host_memory_give_back(buf->ptr, buf->bytes);
    *buf = (struct lf_buffer){0};
}

enum lf_status lf_host_pin(struct lf_device *dev, void *ptr, size_t bytes, struct lf_err *err)
{
    return dev->backend->host_pin ? dev->backend->host_pin(dev, ptr, bytes, err) : LF_OK;
}

void lf_host_unpin(struct lf_device *dev, void *ptr)
{
    if (dev->backend->host_unpin) dev->backend->host_unpin(dev, ptr);
}

/* ---- the queue ---- */

enum lf_status lf_device_sync(struct lf_device *dev, struct lf_err *err)
{
    return dev->backend->sync ? dev->backend->sync(dev, err) : LF_OK;
}

bool lf_graph_begin(struct lf_device *dev)
{
    return dev->backend->graph_begin && dev->backend->graph_begin(dev);
}

struct lf_graph *lf_graph_end(struct lf_device *dev)
{
    return dev->backend->graph_end ? dev->backend->graph_end(dev) : NULL;
}

void lf_graph_launch(struct lf_device *dev, struct lf_graph *graph)
{
    LF_ASSERT(graph != NULL && dev->backend->graph_launch != NULL);
    dev->backend->graph_launch(dev, graph);
}

void lf_graph_destroy(struct lf_device *dev, struct lf_graph *graph)
{
    if (graph != NULL) dev->backend->graph_destroy(dev, graph);
}

void lf_gemm_then_gate_mul(struct lf_device *dev, const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate)
{
    LF_ASSERT(p->w->n_out == 2 * gate->dim && p->y_stride == p->w->n_out);
    LF_ASSERT(gate->gate_up == p->y && gate->n_tokens == p->n_tokens && !gate->up);
    dev->ops.gemm(dev, p);
    dev->ops.gate_mul(dev, gate);
}
