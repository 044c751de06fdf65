/* The QKV GEMM of a step with RoPE and the KV append as its epilogue: for few tokens, one kernel less in the chain of a
 * layer.
 *
 * How the sums come about is device/cuda/gemv.cuh's, of coded weights gemv_quant.cuh's. A tile has eight channels of a
 * head and the eight that they are rotated with, half a head further on; heads of values are cut likewise and not
 * rotated. What the GEMM alone would have written is rounded, rotated and rounded again: the bits are those of the GEMM
 * and of rope_cuda.cu.
 *
 * A thread writes two channels of one token. Where that token goes it reads before the predecessor is complete (the
 * step's lists are not a kernel's), cosine and sine while the GEMM is computed. */
#include "attention/cuda/rope_slot.cuh"
#include "device/cuda/gemv.cuh"
#include "device/cuda/gemv_quant.cuh"

struct rope_args {
    lf_rope_cuda_args rope;
    const float *bias; /* [n_out] or NULL */
    int tiles_a_head;
};

template <class T> struct roped {
    using args = rope_args;
    const args &f;
    int row, r; /* of x, of a run */
    rope_slot at;
    float2 cos_sin;
    float q_scale; /* of the row, or 1 */

    /* first_token rises, so the row's sequence is the last that does not begin behind it; there are a few. */
    LF_GPU_MEMBER roped(const gemv_params &p, const args &a)
        : f(a), row(threadIdx.x / GEMV_RUN), r(threadIdx.x % GEMV_RUN), at{}, q_scale(1.0f)
    {
        if (row >= p.n_tokens) return;
        int n_seqs = f.rope.counts->n_seqs, seq_idx = -1;
        while (seq_idx + 1 < n_seqs && f.rope.seqs[seq_idx + 1].first_token <= row) seq_idx++;
        at = rope_slot_in(f.rope, row, seq_idx);
        if (f.rope.q_scale && at.valid) q_scale = __ldg(f.rope.q_scale + at.pos);
    }

    LF_GPU_MEMBER static int first_weight_row(const args &f, int tile)
    {
        return tile / f.tiles_a_head * f.rope.head_dim + tile % f.tiles_a_head * GEMV_RUN;
    }

    LF_GPU_MEMBER static int run_stride(const args &f)
    {
        return f.rope.head_dim / 2;
    }

    LF_GPU_MEMBER int channel(int tile) const
    {
        return tile % f.tiles_a_head * GEMV_RUN + r;
    }

    LF_GPU_MEMBER void prefetch(const gemv_params &, int tile)
    {
        if (!at.valid) return;
        cos_sin = __ldg((const float2 *)(f.rope.table + (size_t)at.pos * f.rope.head_dim) + channel(tile));
    }

    template <int NT> LF_GPU_MEMBER void write(const gemv_params &p, const gemv_sums<NT> &s, int tile)
    {
        if (!at.valid) return;
        int head = tile / f.tiles_a_head, c = channel(tile), half = f.rope.head_dim / 2;
        float a = s.at(row, r), b = s.at(row, r + GEMV_RUN);
        if (f.bias) {
            a += f.bias[head * f.rope.head_dim + c];
            b += f.bias[head * f.rope.head_dim + c + half];
        }
        a = to_float(from_float<T>(gemv_scaled(p, a)));
        b = to_float(from_float<T>(gemv_scaled(p, b)));
        if (head < f.rope.n_heads + f.rope.n_kv_heads) rotate(a, b, cos_sin);
        if (f.rope.q_scale && head < f.rope.n_heads) {
            a *= q_scale;
            b *= q_scale;
        }
        T *to = rope_target<T>(f.rope, at, row, head);
        to[c] = from_float<T>(a);
        to[c + half] = from_float<T>(b);
    }
};

int lf_qkv_cuda_setup(bool *fits)
{
    int rc = gemv_setup<roped>(fits);
    return rc == 0 && *fits ? quant_setup<roped>(fits) : rc;
}

bool lf_qkv_cuda_supports(const struct lf_gemm_params *gemm, const struct lf_rope_cuda_args *rope)
{
    bool is_gemv = lf_cuda_gemv_supports(gemm) || lf_cuda_gemv_quant_supports(gemm, rope->fp16);
    return is_gemv && !rope->q_norm && !rope->v_norm && !rope->v_of_k && rope->rotary_dim == rope->head_dim &&
           rope->head_dim % GEMV_TILE == 0 && rope->stripe_n <= 1;
}

int lf_qkv_cuda(const struct lf_gemm_params *gemm, const struct lf_rope_cuda_args *rope, int n_blocks, void *stream)
{
    rope_args f = {*rope, gemm->bias, rope->head_dim / GEMV_TILE};
    int n_tiles = gemm->w->n_out / GEMV_TILE;
    if (!lf_format_is_plain(&gemm->w->format))
        return quant_launch<roped>(gemm, n_tiles, f, n_blocks, launch_of(rope, stream));
    return gemv_launch<roped>(gemv_args(gemm, n_tiles), f, n_blocks, false, launch_of(rope, stream));
}
