/* GEMV (gemv.cuh) with two epilogues: y = alpha · (x · wᵀ (+ bias)) (+ residual), and where wanted the first half of a
 * fused RMSNorm of y; or, with w = [gate, up], y = act(x · gateᵀ, x · upᵀ) at once, one kernel less between two GEMVs.
 * And, for shapes that nobody else takes, a GEMM that takes any. */
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

/* ---- any shape, any number of tokens: a warp an output ---- */

struct any_args {
    lf_gemm_params p;
    const void *w;
    int n_in, n_out;
};

template <class T> __global__ void __launch_bounds__(GEMV_THREADS) gemm_any(const __grid_constant__ any_args a)
{
    const lf_gemm_params &p = a.p;
    int lane = threadIdx.x % WARP, col = blockIdx.x * GEMV_WARPS + threadIdx.x / WARP;
    start_successor();
    wait_predecessor();
    if (col >= a.n_out) return;
    const T *w = (const T *)a.w + (size_t)col * a.n_in;
    for (int token = blockIdx.y; token < p.n_tokens; token += gridDim.y) {
        const T *x = (const T *)p.x + (size_t)token * p.x_stride;
        size_t at = (size_t)token * p.y_stride + col;
        float sum = 0.0f;
        for (int k = lane; k < a.n_in; k += WARP) sum += to_float(w[k]) * to_float(x[k]);
        sum = warp_sum(sum);
        if (p.bias) sum += p.bias[col];
        if (lane != 0) continue;
        sum *= p.alpha;
        if (p.residual) sum += p.residual[at];
        if (p.y_float)
            ((float *)p.y)[at] = sum;
        else
            ((T *)p.y)[at] = from_float<T>(sum);
    }
}

/* ---- host ---- */

int lf_cuda_gemv_setup(bool *fits)
{
    int rc = load_kernels(gemm_any<bf16>, gemm_any<fp16>);
    if (rc == 0) rc = gemv_setup<plain>(fits);
    if (rc == 0 && *fits) rc = gemv_setup<silu_gated>(fits);
    return rc == 0 && *fits ? gemv_setup<gated>(fits) : rc;
}

bool lf_cuda_gemv_supports(const struct lf_gemm_params *p)
{
    return p->n_tokens <= LF_CUDA_GEMV_TOKENS && p->w->n_in % 8 == 0 && p->x_stride % 8 == 0 &&
           ((size_t)p->w->data | (size_t)p->x) % 16 == 0;
}

bool lf_cuda_gemv_gate_mul_supports(const struct lf_gemm_params *p)
{
    return lf_cuda_gemv_supports(p) && !p->y_float && p->w->n_out % GEMV_TILE == 0;
}

int lf_cuda_gemv(const struct lf_gemm_params *p, int n_blocks, struct lf_cuda_launch how)
{
    plain_args f = {p->y, p->bias, p->residual, p->y_stride, p->y_float, p->norm};
    bool wide = p->residual != NULL;
    return gemv_launch<plain>(gemv_args(p, (p->w->n_out + GEMV_TILE - 1) / GEMV_TILE), f, n_blocks, wide, how);
}

int lf_cuda_gemv_gate_mul(const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate, int n_blocks,
                          struct lf_cuda_launch how)
{
    gated_args f = {gate->out, p->bias, gate->dim, gate->act, gate->limit};
    gemv_params args = gemv_args(p, p->w->n_out / GEMV_TILE);
    if (gate->act == LF_ACT_SILU) return gemv_launch<silu_gated>(args, f, n_blocks, false, how);
    return gemv_launch<gated>(args, f, n_blocks, false, how);
}

int lf_cuda_gemm_any(const struct lf_gemm_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    dim3 grid(blocks_for(p->w->n_out, GEMV_WARPS), (unsigned)min(p->n_tokens, (int)MOST_GRID_Y));
    any_args a = {*p, p->w->data, p->w->n_in, p->w->n_out};
    return queue_kernel(how.fp16 ? gemm_any<fp16> : gemm_any<bf16>, {grid, GEMV_THREADS}, how, a);
}
