/* The one stream of a GPU, and the first error on it, which is final. What every file of the device asks for before it
 * puts something into the stream, and tells afterwards. */
#include "device/cuda/cuda_impl.h"

void *lf_cuda_stream(const struct lf_device *dev)
{
    return dev->cuda->stream;
}

/* A thread's current GPU is the runtime's affair, and 0 at first. */
void lf_cuda_use(int idx)
{
    static _Thread_local int current = -1;
    if (current != idx && cudaSetDevice(idx) == cudaSuccess) current = idx;
}

bool lf_cuda_ok(const struct lf_device *dev)
{
    lf_cuda_use(dev->cuda->idx);
    return dev->cuda->sticky.code == 0;
}

bool lf_cuda_overlaps(const struct lf_device *dev)
{
    return dev->info.sm >= 90;
}

struct lf_cuda_launch lf_cuda_launch(const struct lf_device *dev)
{
    return (struct lf_cuda_launch){
        .stream = dev->cuda->stream, .fp16 = dev->info.act_dtype == LF_F16, .overlaps = lf_cuda_overlaps(dev)};
}

void lf_cuda_check(struct lf_device *dev, int cuda_error, const char *what)
{
    if (cuda_error == cudaSuccess) return;
    (void)lf_sticky_note(&dev->cuda->sticky, cuda_error, what, cudaGetErrorString((cudaError_t)cuda_error));
}
