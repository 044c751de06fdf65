/* Attention of decode tokens (attn_decode.cuh) over FP8 caches. */
#include "attention/cuda/attn_decode.cuh"

int lf_attn_decode_fp8_setup(void)
{
    return setup<bf16, e4m3>();
}

int lf_attn_decode_fp8(const struct lf_attn_cuda_args *args, void *stream)
{
    return args->max_decode == 0 ? 0 : launch_for_dim<bf16, e4m3>(args, stream);
}
