/* Epilogues of a GEMV (gemv.cuh says what one is): y = alpha · (x · wᵀ (+ bias)) (+ residual), and where wanted the
 * first half of a fused RMSNorm of y; or, with w = [gate, up], y = act(x · gateᵀ, x · upᵀ) at once, one kernel less
 * between two GEMVs. */
#ifndef LF_DEVICE_CUDA_GEMV_EPILOGUES_CUH
#define LF_DEVICE_CUDA_GEMV_EPILOGUES_CUH

#include "device/cuda/gate.cuh"
#include "device/cuda/gemv.cuh"

/* ---- y, a thread an output ---- */

struct plain_args {
    void *y;
    const float *bias, *residual;
    int y_stride;
    bool y_float;
    lf_fused_norm norm;
};

template <class T> struct plain {
    using args = plain_args;
    const args &f;
    int token, r; /* r: of the tile's weight rows */
    float addend, weight;

    LF_GPU_MEMBER plain(const gemv_params &, const args &a)
        : f(a), token(threadIdx.x / GEMV_TILE), r(threadIdx.x % GEMV_TILE)
    {
    }

    LF_GPU_MEMBER static int first_weight_row(const args &, int tile)
    {
        return tile * GEMV_TILE;
    }

    LF_GPU_MEMBER static int run_stride(const args &)
    {
        return GEMV_RUN;
    }

    LF_GPU_MEMBER bool owns(const gemv_params &p, int tile) const
    {
        return token < p.n_tokens && tile * GEMV_TILE + r < p.n_out;
    }

    LF_GPU_MEMBER size_t y_offset(int tile) const
    {
        return (size_t)token * f.y_stride + tile * GEMV_TILE + r;
    }

    LF_GPU_MEMBER void prefetch(const gemv_params &p, int tile)
    {
        addend = weight = 0.0f;
        if (!owns(p, tile)) return;
        if (f.residual) addend = f.residual[y_offset(tile)];
        if (f.norm.h) weight = f.norm.weight[tile * GEMV_TILE + r];
    }

    /* y ∘ weight and the tile's part of the row sum of squares; 16 lanes have a token. */
    LF_GPU_MEMBER void write_norm(const gemv_params &p, float y, bool is_own, int tile)
    {
        float square = __fmul_rn(y, y);
        if (is_own) ((T *)f.norm.h)[(size_t)token * p.n_out + tile * GEMV_TILE + r] = from_float<T>(y * weight);
        square = lanes_reduce<GEMV_TILE>(square, [](float a, float b) { return a + b; });
        if (r == 0 && token < p.n_tokens) f.norm.sum_squares[(size_t)token * p.n_tiles + tile] = square;
    }

    template <int NT> LF_GPU_MEMBER void write(const gemv_params &p, const gemv_sums<NT> &s, int tile)
    {
        bool is_own = owns(p, tile);
        float y = 0.0f;
        if (is_own) {
            y = s.at(token, r);
            if (f.bias) y += f.bias[tile * GEMV_TILE + r];
            y = gemv_scaled(p, y) + addend;
            if (f.y_float)
                ((float *)f.y)[y_offset(tile)] = y;
            else
                ((T *)f.y)[y_offset(tile)] = from_float<T>(y);
        }
        if (f.norm.h) write_norm(p, y, is_own, tile);
    }
};

/* ---- gate and up: a tile has eight weight rows of each; both are rounded before they meet ---- */

struct gated_args {
    void *y; /* [T, width] */
    const float *bias;
    int width; /* of gate, and of up */
    lf_act act;
    float limit;
};

/* IS_SILU: known to the compiler, so that the others take no registers. */
template <class T, bool IS_SILU> struct gated_of {
    using args = gated_args;
    const args &f;

    LF_GPU_MEMBER gated_of(const gemv_params &, const args &a) : f(a) {}

    LF_GPU_MEMBER static int first_weight_row(const args &, int tile)
    {
        return tile * GEMV_RUN;
    }

    LF_GPU_MEMBER static int run_stride(const args &f)
    {
        return f.width;
    }

    LF_GPU_MEMBER void prefetch(const gemv_params &, int) {}

    template <int NT> LF_GPU_MEMBER void write(const gemv_params &p, const gemv_sums<NT> &s, int tile)
    {
        int token = threadIdx.x / GEMV_RUN, r = threadIdx.x % GEMV_RUN, col = tile * GEMV_RUN + r;
        if (token >= p.n_tokens || col >= f.width) return;
        float gate = s.at(token, r), up = s.at(token, r + GEMV_RUN);
        if (f.bias) {
            gate += f.bias[col];
            up += f.bias[col + f.width];
        }
        gate = to_float(from_float<T>(gemv_scaled(p, gate)));
        up = to_float(from_float<T>(gemv_scaled(p, up)));
        ((T *)f.y)[(size_t)token * f.width + col] =
            from_float<T>(gate_mul_by(IS_SILU ? LF_ACT_SILU : f.act, gate, up, f.limit));
    }
};
template <class T> using silu_gated = gated_of<T, true>;
template <class T> using gated = gated_of<T, false>;

#endif
