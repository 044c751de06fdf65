/* The ops of gated delta nets on a GPU (device/delta.h): launchers as in kernels.h, and their entries. Inside
 * device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_DELTA_CUDA_H
#define LF_DEVICE_CUDA_DELTA_CUDA_H

#include "device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LF_CUDA_DELTA_DIM = 128,                /* of keys and values, in the chunked form */
    LF_CUDA_DELTA_SHARED_BY = 8,            /* value heads of a key head, at most, there */
    LF_CUDA_DELTA_RECORD_BYTES = 41984,     /* of the scratch, of a chunk of a value head */
    LF_CUDA_DELTA_KEY_RECORD_BYTES = 32768, /* and of a key head */
    LF_CUDA_DELTA_SEGMENT = 64              /* chunks whose records are in the scratch at once */
};

int lf_cuda_conv_setup(void);
int lf_cuda_conv(const struct lf_conv_params *p, struct lf_cuda_launch how);

int lf_cuda_delta_rows_setup(void);
int lf_cuda_gated_norm(const struct lf_gated_norm_params *p, struct lf_cuda_launch how);
int lf_cuda_gate_sigmoid(const struct lf_gate_sigmoid_params *p, struct lf_cuda_launch how);

/* Token by token, any shape: the sequences of up to most_tokens tokens. */
int lf_cuda_delta_step_setup(void);
int lf_cuda_delta_step(const struct lf_delta_params *p, int most_tokens, struct lf_cuda_launch how);

/* In chunks: chunks [first, first + n) of the step, n at most LF_CUDA_DELTA_SEGMENT. First all of prepare, then scan,
 * which needs sm_90, as its _setup does. Head dimensions are LF_CUDA_DELTA_DIM. */
int lf_cuda_delta_prepare_setup(void);
int lf_cuda_delta_prepare(const struct lf_delta_params *p, int first, int n, struct lf_cuda_launch how);
int lf_cuda_delta_scan_sm90_setup(void);
int lf_cuda_delta_scan_sm90(const struct lf_delta_params *p, int first, int n, struct lf_cuda_launch how);

/* Loads the kernels; a cudaError_t. */
struct lf_device;
int lf_delta_cuda_setup(struct lf_device *dev);
void lf_delta_cuda_fill(struct lf_ops *ops); /* the entries */

#ifdef __cplusplus
}
#endif

#endif
