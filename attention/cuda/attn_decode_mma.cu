/* Attention of decode tokens (attn_decode.cuh) over caches in the type of the activations. */
#include "attention/cuda/attn_decode.cuh"

bool lf_attn_decode_mma_supports(int head_dim)
{
    return head_dim >= UNIT_ELEMS && head_dim <= 256 && head_dim % UNIT_ELEMS == 0;
}

size_t lf_attn_decode_mma_scratch_bytes(int head_dim, int n_sms)
{
    size_t warp_tiles = head_dim <= 64    ? 4 * sizeof(shape<bf16, 64, 4>::partial)
                        : head_dim <= 128 ? 4 * sizeof(shape<bf16, 128, 4>::partial)
                                          : 2 * sizeof(shape<bf16, 256, 2>::partial);
    return LF_ATTN_SCRATCH_HEAD + (size_t)n_sms * warp_tiles;
}

int lf_attn_decode_mma_setup(void)
{
    int rc = setup<bf16, bf16>();
    return rc == 0 ? setup<fp16, fp16>() : rc;
}

int lf_attn_decode_mma(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_decode == 0) return 0;
    return args->fp16 ? launch_for_dim<fp16, fp16>(args, stream) : launch_for_dim<bf16, bf16>(args, stream);
}
