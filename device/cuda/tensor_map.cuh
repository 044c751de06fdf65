/* Descriptions of tensors for the copy engine (ptx_tma.cuh), made on the host. */
#ifndef LF_DEVICE_CUDA_TENSOR_MAP_CUH
#define LF_DEVICE_CUDA_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

typedef decltype(&cuTensorMapEncodeTiled) tensor_map_encoder;

/* The driver's cuTensorMapEncodeTiled; a cudaError_t. */
static inline int find_tensor_map_encoder(tensor_map_encoder *out)
{
    void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    int rc = (int)cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    if (rc == 0 && found != cudaDriverEntryPointSuccess) rc = (int)cudaErrorNotSupported;
    if (rc == 0) *out = (tensor_map_encoder)encode;
    return rc;
}

/* A tensor of elements of two bytes: dims and box from the innermost outwards, strides in bytes from the second on, all
 * multiples of 16, as base is. box[0] is 64: rows of 128 bytes, which come in the 128-byte swizzle. What lies outside
 * of dims comes as zeros. */
static inline int encode_tensor_map(tensor_map_encoder encode, CUtensorMap *map, bool fp16, const void *base, int rank,
                                    const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box)
{
    static const cuuint32_t ones[5] = {1, 1, 1, 1, 1};
    CUresult r =
        encode(map, fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)rank,
               (void *)base, dims, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? (int)cudaSuccess : (int)cudaErrorInvalidValue;
}

#endif
