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

/* dims and box from the innermost outwards, strides in bytes from the second on, all multiples of 16, as base is. A row
 * of the box is 128 bytes, which come in the 128-byte swizzle. What lies outside of dims comes as zeros. */
static inline int encode_tensor_map_of(tensor_map_encoder encode, CUtensorMap *map, CUtensorMapDataType type,
                                       const void *base, int rank, const cuuint64_t *dims, const cuuint64_t *strides,
                                       const cuuint32_t *box)
{
    static const cuuint32_t ones[5] = {1, 1, 1, 1, 1};
    CUresult r =
        encode(map, type, (cuuint32_t)rank, (void *)base, dims, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? (int)cudaSuccess : (int)cudaErrorInvalidValue;
}

/* A tensor of bf16 or fp16: box[0] is 64. */
static inline int encode_tensor_map(tensor_map_encoder encode, CUtensorMap *map, bool fp16, const void *base, int rank,
                                    const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box)
{
    CUtensorMapDataType type = fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    return encode_tensor_map_of(encode, map, type, base, rank, dims, strides, box);
}

/* A matrix of bytes, [n_rows, n_columns] dense, n_columns a multiple of 16: boxes of box_rows rows and 128 columns. */
static inline int encode_byte_matrix(tensor_map_encoder encode, CUtensorMap *map, const void *base, int n_rows,
                                     int n_columns, int box_rows)
{
    const cuuint64_t dims[2] = {(cuuint64_t)n_columns, (cuuint64_t)n_rows}, strides[1] = {(cuuint64_t)n_columns};
    const cuuint32_t box[2] = {128, (cuuint32_t)box_rows};
    return encode_tensor_map_of(encode, map, CU_TENSOR_MAP_DATA_TYPE_UINT8, base, 2, dims, strides, box);
}

#endif
