/* Graphs: what is put into the stream between begin and end is recorded, and replayed with one launch. */
#include <stdlib.h>

#include "core/check.h"
#include "device/cuda/cuda_impl.h"

struct lf_graph {
    cudaGraphExec_t exec;
};

bool lf_cuda_graph_begin(struct lf_device *dev)
{
    LF_ASSERT(!dev->cuda->capturing);
    if (!lf_cuda_ok(dev)) return false;
    /* Other threads' calls are theirs: nothing of this program touches this stream but its owner. */
    cudaError_t rc = cudaStreamBeginCapture(dev->cuda->stream, cudaStreamCaptureModeThreadLocal);
    lf_cuda_check(dev, (int)rc, "recording a graph");
    dev->cuda->capturing = rc == cudaSuccess;
    return dev->cuda->capturing;
}

struct lf_graph *lf_cuda_graph_end(struct lf_device *dev)
{
    struct lf_cuda *cuda = dev->cuda;
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t exec = NULL;
    if (!cuda->capturing) return NULL;
    cuda->capturing = false;
    cudaError_t rc = cudaStreamEndCapture(cuda->stream, &recorded);
    if (rc == cudaSuccess) rc = cudaGraphInstantiate(&exec, recorded, 0);
    if (recorded != NULL) (void)cudaGraphDestroy(recorded);
    /* Its nodes go to the device ahead of time, so that the first launch is like all others. */
    if (rc == cudaSuccess) rc = cudaGraphUpload(exec, cuda->stream);
    struct lf_graph *graph = rc == cudaSuccess ? malloc(sizeof *graph) : NULL;
    if (graph == NULL) {
        if (exec != NULL) (void)cudaGraphExecDestroy(exec);
        lf_cuda_check(dev, rc == cudaSuccess ? (int)cudaErrorMemoryAllocation : (int)rc, "recording a graph");
        return NULL;
    }
    graph->exec = exec;
    return graph;
}

void lf_cuda_graph_launch(struct lf_device *dev, struct lf_graph *graph)
{
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, (int)cudaGraphLaunch(graph->exec, dev->cuda->stream), "launching a graph");
}

void lf_cuda_graph_destroy(struct lf_device *dev, struct lf_graph *graph)
{
    lf_cuda_check(dev, (int)cudaGraphExecDestroy(graph->exec), "freeing a graph");
    free(graph);
}
