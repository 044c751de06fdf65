/* Copies between host and GPU through pinned memory of fixed size, made at open.
 *
 * Pinned memory is what the copy engine reads by itself, so an upload costs the CPU one memcpy and the queue one entry;
 * the ring's events (staging.h) are all that is ever waited for. Large uploads, the weights, are copied into it by all
 * worker threads: one core fills it at less than half the bus's rate. A download waits for what was asked for before
 * it; a large one alternates between two halves, one being filled while the other is emptied. */
#include <string.h>

#include "core/check.h"
#include "device/cpu/threads.h"
#include "device/cuda/cuda_impl.h"

enum { COPY_PER_TASK = 256 * 1024 };

cudaError_t lf_cuda_copy_init(struct lf_cuda *cuda)
{
    lf_staging_init(&cuda->ring, LF_CUDA_UP_SEGMENT_BYTES, LF_CUDA_UP_SEGMENTS);
    cudaError_t rc =
        cudaHostAlloc((void **)&cuda->up, (size_t)LF_CUDA_UP_SEGMENT_BYTES * LF_CUDA_UP_SEGMENTS, cudaHostAllocDefault);
    if (rc == cudaSuccess) rc = cudaHostAlloc((void **)&cuda->down, 2 * LF_CUDA_DOWN_BYTES, cudaHostAllocDefault);
    for (int i = 0; i < LF_CUDA_UP_SEGMENTS && rc == cudaSuccess; i++)
        rc = cudaEventCreateWithFlags(&cuda->up_events[i], cudaEventDisableTiming);
    for (int i = 0; i < 2 && rc == cudaSuccess; i++)
        rc = cudaEventCreateWithFlags(&cuda->down_marks[i], cudaEventDisableTiming);
    if (rc == cudaSuccess)
        rc = cudaHostAlloc((void **)&cuda->fetched, LF_FETCHES_N * LF_FETCH_BYTES, cudaHostAllocDefault);
    for (int i = 0; i < LF_FETCHES_N && rc == cudaSuccess; i++)
        rc = cudaEventCreateWithFlags(&cuda->fetch_marks[i], cudaEventDisableTiming);
    return rc;
}

void lf_cuda_copy_deinit(struct lf_cuda *cuda)
{
    for (int i = 0; i < LF_FETCHES_N; i++)
        if (cuda->fetch_marks[i] != NULL) (void)cudaEventDestroy(cuda->fetch_marks[i]);
    for (int i = 0; i < 2; i++)
        if (cuda->down_marks[i] != NULL) (void)cudaEventDestroy(cuda->down_marks[i]);
    for (int i = 0; i < LF_CUDA_UP_SEGMENTS; i++)
        if (cuda->up_events[i] != NULL) (void)cudaEventDestroy(cuda->up_events[i]);
    if (cuda->fetched != NULL) (void)cudaFreeHost(cuda->fetched);
    if (cuda->down != NULL) (void)cudaFreeHost(cuda->down);
    if (cuda->up != NULL) (void)cudaFreeHost(cuda->up);
}

/* ---- up ---- */

/* Elements on their way into the ring: bytes as they are, numbers whose type changes, or whatever `make` makes. */
struct fill {
    char *dst;
    const char *src;
    size_t dst_elem, src_elem; /* bytes of an element */
    enum lf_dtype dst_type, src_type;
    size_t n;
    lf_cuda_make_fn *make; /* or NULL */
    const void *ctx;
    size_t first; /* the number of the first one to be made */
};

static void fill_elems(const struct fill *f, size_t first, size_t n)
{
    float wide[1024];
    if (f->make) {
        for (size_t i = first; i < first + n; i++) f->make(f->ctx, f->first + i, f->dst + i * f->dst_elem);
        return;
    }
    if (f->dst_type == f->src_type) {
        memcpy(f->dst + first * f->dst_elem, f->src + first * f->src_elem, n * f->dst_elem);
        return;
    }
    for (size_t i = first; i < first + n; i += LF_N_ELEMS(wide)) {
        size_t m = LF_MIN(LF_N_ELEMS(wide), first + n - i);
        lf_to_f32(wide, f->src + i * f->src_elem, f->src_type, m);
        lf_from_f32(f->dst + i * f->dst_elem, f->dst_type, wide, m);
    }
}

static void fill_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct fill *f = ctx;
    size_t per_task = COPY_PER_TASK / f->dst_elem, first = (size_t)task_idx * per_task;
    fill_elems(f, first, LF_MIN(per_task, f->n - first));
}

static void fill_ring(struct lf_device *dev, struct fill *f)
{
    size_t per_task = COPY_PER_TASK / f->dst_elem;
    if (f->n <= per_task)
        fill_elems(f, 0, f->n);
    else
        lf_threads_run(dev->threads, (int)((f->n + per_task - 1) / per_task), fill_task, f);
}

/* all->dst is in device memory. Pieces end at multiples of 64 bytes, so none ends inside of an element. */
static void upload(struct lf_device *dev, const struct fill *all)
{
    struct lf_cuda *cuda = dev->cuda;
    LF_ASSERT(!cuda->capturing);
    for (size_t done = 0; done < all->n && lf_cuda_ok(dev);) {
        struct lf_staging_piece piece = lf_staging_take(&cuda->ring, (all->n - done) * all->dst_elem);
        struct fill fill = *all;
        fill.dst = cuda->up + piece.offset;
        if (all->src) fill.src += done * all->src_elem;
        fill.first += done;
        fill.n = piece.bytes / all->dst_elem;
        if (piece.enters) lf_cuda_check(dev, (int)cudaEventSynchronize(cuda->up_events[piece.segment]), "upload");
        fill_ring(dev, &fill);
        lf_cuda_check(dev,
                      (int)cudaMemcpyAsync(all->dst + done * all->dst_elem, fill.dst, piece.bytes,
                                           cudaMemcpyHostToDevice, cuda->stream),
                      "upload");
        if (piece.leaves)
            lf_cuda_check(dev, (int)cudaEventRecord(cuda->up_events[piece.segment], cuda->stream), "upload");
        done += fill.n;
    }
}

void lf_cuda_upload(struct lf_device *dev, void *dst_device, const void *src_host, size_t bytes)
{
    struct fill fill = {.dst = dst_device, .src = src_host, .dst_elem = 1, .src_elem = 1, .n = bytes};
    upload(dev, &fill);
}

void lf_cuda_upload_as(struct lf_device *dev, void *dst_device, enum lf_dtype dst_type, const void *src_host,
                       enum lf_dtype src_type, size_t n)
{
    struct fill fill = {.dst = dst_device,
                        .src = src_host,
                        .dst_elem = lf_dtype_bytes(dst_type),
                        .src_elem = lf_dtype_bytes(src_type),
                        .dst_type = dst_type,
                        .src_type = src_type,
                        .n = n};
    upload(dev, &fill);
}

void lf_cuda_upload_made(struct lf_device *dev, void *dst_device, size_t elem_bytes, size_t first, size_t n,
                         lf_cuda_make_fn *make, const void *ctx)
{
    struct fill fill = {.dst = dst_device, .dst_elem = elem_bytes, .n = n, .make = make, .ctx = ctx, .first = first};
    upload(dev, &fill);
}

/* ---- down ---- */

/* Empties a half that was asked for: its bytes go to dst. */
static void take_half(struct lf_device *dev, int half, void *dst, size_t bytes)
{
    struct lf_cuda *cuda = dev->cuda;
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, (int)cudaEventSynchronize(cuda->down_marks[half]), "download");
    if (lf_cuda_ok(dev))
        memcpy(dst, cuda->down + (size_t)half * LF_CUDA_DOWN_BYTES, bytes);
    else
        memset(dst, 0, bytes); /* nobody reads it, but nobody reads garbage either */
}

static void ask_half(struct lf_device *dev, int half, const void *src_device, size_t bytes)
{
    struct lf_cuda *cuda = dev->cuda;
    if (!lf_cuda_ok(dev)) return;
    lf_cuda_check(dev,
                  (int)cudaMemcpyAsync(cuda->down + (size_t)half * LF_CUDA_DOWN_BYTES, src_device, bytes,
                                       cudaMemcpyDeviceToHost, cuda->stream),
                  "download");
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, (int)cudaEventRecord(cuda->down_marks[half], cuda->stream), "download");
}

void lf_cuda_download(struct lf_device *dev, void *dst_host, const void *src_device, size_t bytes)
{
    const size_t most = LF_CUDA_DOWN_BYTES;
    LF_ASSERT(!dev->cuda->capturing);
    int half = 0;
    if (bytes > 0) ask_half(dev, 0, src_device, LF_MIN(bytes, most));
    for (size_t at = 0; at < bytes; at += most, half = 1 - half) {
        size_t next = at + most;
        if (next < bytes) ask_half(dev, 1 - half, (const char *)src_device + next, LF_MIN(bytes - next, most));
        take_half(dev, half, (char *)dst_host + at, LF_MIN(bytes - at, most));
    }
}

/* ---- fetches ---- */

void lf_cuda_fetch_begin(struct lf_device *dev, int slot, const void *src_device, size_t bytes)
{
    struct lf_cuda *cuda = dev->cuda;
    LF_ASSERT(!cuda->capturing);
    if (!lf_cuda_ok(dev)) return;
    lf_cuda_check(dev,
                  (int)cudaMemcpyAsync(cuda->fetched + (size_t)slot * LF_FETCH_BYTES, src_device, bytes,
                                       cudaMemcpyDeviceToHost, cuda->stream),
                  "fetch");
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, (int)cudaEventRecord(cuda->fetch_marks[slot], cuda->stream), "fetch");
}

enum lf_status lf_cuda_fetch_end(struct lf_device *dev, int slot, void *dst_host, size_t bytes, struct lf_err *err)
{
    struct lf_cuda *cuda = dev->cuda;
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, (int)cudaEventSynchronize(cuda->fetch_marks[slot]), "running a step");
    LF_TRY(lf_sticky_status(&cuda->sticky, dev->info.name, err));
    memcpy(dst_host, cuda->fetched + (size_t)slot * LF_FETCH_BYTES, bytes);
    return LF_OK;
}
