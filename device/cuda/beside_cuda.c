/* Copies beside the queue: each lane has a stream of its own, so a copy waits for no kernel and no kernel for it. The
 * bus has an engine for each way; lanes share them, copy by copy.
 *
 * A copy's end is waited for with an event that puts the thread to sleep: several lanes may have copies for seconds,
 * and a core each is not to be had for that. Errors are the caller's; one that breaks the device shows in its queue
 * too, where it is final. */
#include "device/cuda/cuda_impl.h"

cudaError_t lf_cuda_lanes_init(struct lf_cuda *cuda)
{
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < LF_COPY_LANES_N && rc == cudaSuccess; i++) {
        struct lf_cuda_lane *lane = &cuda->lanes[i];
        rc = cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking);
        if (rc == cudaSuccess)
            rc = cudaEventCreateWithFlags(&lane->done, cudaEventDisableTiming | cudaEventBlockingSync);
    }
    return rc;
}

void lf_cuda_lanes_deinit(struct lf_cuda *cuda)
{
    for (int i = 0; i < LF_COPY_LANES_N; i++) {
        struct lf_cuda_lane *lane = &cuda->lanes[i];
        if (lane->done != NULL) (void)cudaEventDestroy(lane->done);
        if (lane->stream != NULL) (void)cudaStreamDestroy(lane->stream);
    }
}

static enum lf_status fail(const struct lf_device *dev, cudaError_t rc, const char *what, struct lf_err *err)
{
    (void)cudaGetLastError(); /* this thread's, and said here */
    return lf_fail(err, rc == cudaErrorMemoryAllocation ? LF_NO_MEMORY : LF_DEVICE, "%s: %s: %s", dev->info.name, what,
                   cudaGetErrorString(rc));
}

static enum lf_status copy(struct lf_device *dev, int lane_idx, void *dst, const void *src, size_t bytes,
                           enum cudaMemcpyKind kind, struct lf_err *err)
{
    const struct lf_cuda_lane *lane = &dev->cuda->lanes[lane_idx];
    lf_cuda_use(dev->cuda->idx);
    cudaError_t rc = cudaMemcpyAsync(dst, src, bytes, kind, lane->stream);
    if (rc == cudaSuccess) rc = cudaEventRecord(lane->done, lane->stream);
    if (rc == cudaSuccess) rc = cudaEventSynchronize(lane->done);
    return rc == cudaSuccess ? LF_OK : fail(dev, rc, "copying beside the queue", err);
}

enum lf_status lf_cuda_copy_out(struct lf_device *dev, int lane, void *dst_host, const void *src_device, size_t bytes,
                                struct lf_err *err)
{
    return copy(dev, lane, dst_host, src_device, bytes, cudaMemcpyDeviceToHost, err);
}

enum lf_status lf_cuda_copy_in(struct lf_device *dev, int lane, void *dst_device, const void *src_host, size_t bytes,
                               struct lf_err *err)
{
    return copy(dev, lane, dst_device, src_host, bytes, cudaMemcpyHostToDevice, err);
}

enum lf_status lf_cuda_host_pin(struct lf_device *dev, void *ptr, size_t bytes, struct lf_err *err)
{
    lf_cuda_use(dev->cuda->idx);
    cudaError_t rc = cudaHostRegister(ptr, bytes, cudaHostRegisterDefault);
    return rc == cudaSuccess ? LF_OK : fail(dev, rc, "pinning memory", err);
}

void lf_cuda_host_unpin(struct lf_device *dev, void *ptr)
{
    lf_cuda_use(dev->cuda->idx);
    if (cudaHostUnregister(ptr) != cudaSuccess) (void)cudaGetLastError(); /* after an error of the device all fails */
}
