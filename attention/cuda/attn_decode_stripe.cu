/* Attention of decode tokens (attn_decode.cuh) over caches that are a stripe of contexts (attn_stripe.h): of bf16 and
 * of FP8, with activations of bf16. */
#include "attention/cuda/attn_decode.cuh"

int lf_attn_decode_stripe_setup(bool fp8)
{
    return fp8 ? setup<bf16, e4m3, true>() : setup<bf16, bf16, true>();
}

int lf_attn_decode_stripe(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_decode == 0) return 0;
    if (args->fp16) return (int)cudaErrorNotSupported;
    return args->fp8_page_bytes != 0 ? launch_for_dim<bf16, e4m3, true>(args, stream)
                                     : launch_for_dim<bf16, bf16, true>(args, stream);
}
