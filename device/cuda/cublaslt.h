/* cuBLASLt, found when a GPU is opened. Inside device/cuda/ only.
 *
 * The library is half a gigabyte, and a program that is linked with it pays at every start: 150 MB of resident pages
 * and a tenth of a second, on a machine without a GPU too. So nothing is linked with it, the functions that are used
 * are looked up by name, and a build with the GPU backend runs where there is no CUDA at all. Their types come from the
 * library's own header. */
#ifndef LF_DEVICE_CUDA_CUBLASLT_H
#define LF_DEVICE_CUDA_CUBLASLT_H

#include <cublasLt.h>

#include "core/status.h"

struct lf_cublaslt {
    void *library; /* of dlopen, owned */
    __typeof__(cublasLtCreate) *create;
    __typeof__(cublasLtDestroy) *destroy;
    __typeof__(cublasLtGetStatusString) *status_string;
    __typeof__(cublasLtMatmul) *matmul;
    __typeof__(cublasLtMatmulAlgoGetHeuristic) *algo_get_heuristic;
    __typeof__(cublasLtMatmulDescInit_internal) *desc_init;
    __typeof__(cublasLtMatmulDescSetAttribute) *desc_set_attribute;
    __typeof__(cublasLtMatmulPreferenceInit_internal) *preference_init;
    __typeof__(cublasLtMatmulPreferenceSetAttribute) *preference_set_attribute;
    __typeof__(cublasLtMatrixLayoutInit_internal) *layout_init;
};

/* Looks for the version that was compiled with, where the loader looks and then where toolkits and PyPI's packages put
 * it (library_places.h). LF_NOT_FOUND says what to install, or why what is there does not open. */
LF_MUST_CHECK enum lf_status lf_cublaslt_open(struct lf_cublaslt *out, struct lf_err *err);
void lf_cublaslt_close(struct lf_cublaslt *lt); /* accepts a zeroed one */

#endif
