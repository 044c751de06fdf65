/* The convolution before the delta rule, and the states of its inputs.
 *
 * Work split: a thread has eight neighbouring channels of a run of up to RUN tokens; weights and the last inputs stay
 * in registers, so each input is read once, and conv_width - 1 at the start of a run once more. Bound by memory: 4
 * bytes an element. A sequence of up to LF_DELTA_SHORT_TOKENS tokens is one run, whose thread also keeps the last
 * inputs: in place, for nobody else reads them. Longer ones are cut into many runs, of which the first read what the
 * state had, so their last inputs are kept by a second kernel behind the first. The order of a sum is that of the taps.
 * CPU twin: device/cpu. */
#include "device/cuda/delta.cuh"
#include "device/cuda/delta_cuda.h"
#include "device/cuda/elem.cuh"

enum {
    THREADS = 128,
    VEC = 8,
    AHEAD = 4, /* inputs asked for at once */
    RUN = 32,
    RUNS_A_CHUNK = LF_DELTA_CHUNK / RUN
};

struct conv_args {
    lf_conv_params p;
    lf_state_step step;
    int n_channels;
    bool is_aligned; /* x's rows are, to 16 bytes */
};

struct eight {
    float x[VEC];
};

template <class T> LF_GPU_FN uint4 load_words(const T *src, bool is_aligned)
{
    if (is_aligned) return *(const uint4 *)src;
    uint32_t words[4];
    for (int i = 0; i < 4; i++) {
        const unsigned short *halves = (const unsigned short *)src + 2 * i;
        words[i] = halves[0] | (uint32_t)halves[1] << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

template <class T> LF_GPU_FN eight widen(uint4 w)
{
    float2 a = unpack<T>(w.x), b = unpack<T>(w.y), c = unpack<T>(w.z), d = unpack<T>(w.w);
    return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
}

/* Eight channels of one sequence: what lies before the step, and behind. */
template <class T, int WIDTH> struct channels {
    static constexpr int TAIL = WIDTH - 1;
    const conv_args &args;
    lf_state_seq seq;
    int channel;

    LF_GPU_MEMBER T *tail_row(int slot, int row) const
    {
        char *state = slot_at(args.p.state, slot) +
                      (size_t)args.p.shape.n_v_heads * args.p.shape.k_dim * args.p.shape.v_dim * sizeof(float);
        return (T *)state + (size_t)row * args.n_channels + channel;
    }

    /* The input at token `at` of the sequence's in this step; before it, of the tail. */
    LF_GPU_MEMBER uint4 input(int at) const
    {
        if (at >= 0)
            return load_words((const T *)args.p.x + ((int64_t)seq.first_token + at) * args.p.x_stride + channel,
                              args.is_aligned);
        return seq.in < 0 ? make_uint4(0, 0, 0, 0) : *(const uint4 *)tail_row(seq.in, TAIL + at);
    }

    /* Keeps the inputs before token n, of which `old` are those before the step. */
    LF_GPU_MEMBER void keep(int slot, int n, const uint4 (&old)[TAIL]) const
    {
#pragma unroll
        for (int i = 0; i < TAIL; i++) {
            int at = n - TAIL + i;
            uint4 words = make_uint4(0, 0, 0, 0);
            if (at >= 0) words = input(at);
#pragma unroll
            for (int k = 0; k < TAIL; k++)
                if (at + TAIL == k) words = old[k];
            *(uint4 *)tail_row(slot, i) = words;
        }
    }

    LF_GPU_MEMBER void keep_all(const uint4 (&old)[TAIL]) const
    {
        for (int m = 0; m < seq.n_marks; m++) {
            lf_state_mark mark = args.step.marks[seq.first_mark + m];
            keep(mark.slot, mark.n_tokens, old);
        }
        keep(seq.out, seq.n_tokens, old);
    }

    LF_GPU_MEMBER void load_old(uint4 (&old)[TAIL]) const
    {
#pragma unroll
        for (int i = 0; i < TAIL; i++) old[i] = input(i - TAIL);
    }
};

/* y of tokens [first, end) of the sequence's. */
template <class T, int WIDTH>
LF_GPU_FN void run(const channels<T, WIDTH> &of, int first, int end, const float (&w)[WIDTH][VEC])
{
    eight window[WIDTH]; /* the inputs of the taps; the last is the token's */
#pragma unroll
    for (int j = 1; j < WIDTH; j++) window[j] = widen<T>(of.input(first - WIDTH + j));
    for (int at = first; at < end; at += AHEAD) {
        uint4 words[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (at + i < end) words[i] = of.input(at + i);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (at + i >= end) break;
#pragma unroll
            for (int j = 0; j < WIDTH - 1; j++) window[j] = window[j + 1];
            window[WIDTH - 1] = widen<T>(words[i]);
            float y[VEC] = {};
#pragma unroll
            for (int j = 0; j < WIDTH; j++)
#pragma unroll
                for (int c = 0; c < VEC; c++) y[c] += w[j][c] * window[j].x[c];
#pragma unroll
            for (int c = 0; c < VEC; c++) y[c] *= sigmoid(y[c]);
            T *out = (T *)of.args.p.y + ((int64_t)of.seq.first_token + at + i) * of.args.n_channels + of.channel;
            *(uint4 *)out =
                make_uint4(pack<T>(y[0], y[1]), pack<T>(y[2], y[3]), pack<T>(y[4], y[5]), pack<T>(y[6], y[7]));
        }
    }
}

/* They lie side by side, those of a channel's taps first. */
template <int WIDTH> LF_GPU_FN void load_weights(float (&w)[WIDTH][VEC], const conv_args &args, int channel)
{
    const float4 *from = (const float4 *)(args.p.w + (size_t)channel * WIDTH);
#pragma unroll
    for (int i = 0; i < WIDTH * VEC / 4; i++) {
        float4 x = __ldg(from + i);
        float four[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int k = 0; k < 4; k++) w[(4 * i + k) % WIDTH][(4 * i + k) / WIDTH] = four[k];
    }
}

/* Rows of the grid: runs of chunks, then sequences. */
template <class T, int WIDTH>
__global__ void __launch_bounds__(THREADS) conv_runs(const __grid_constant__ conv_args args)
{
    int channel = (blockIdx.x * THREADS + threadIdx.x) * VEC, n_runs = args.step.n_chunks * RUNS_A_CHUNK;
    bool is_in = channel < args.n_channels;
    float w[WIDTH][VEC];
    start_successor();
    if (is_in) load_weights<WIDTH>(w, args, channel);
    wait_predecessor();
    if (!is_in) return;
    for (int row = blockIdx.y; row < n_runs + args.step.n_seqs; row += gridDim.y) {
        if (row < n_runs) {
            lf_state_chunk chunk = args.step.chunks[row / RUNS_A_CHUNK];
            channels<T, WIDTH> of = {args, args.step.seqs[chunk.seq], channel};
            int before = chunk.first_token - of.seq.first_token, first = row % RUNS_A_CHUNK * RUN;
            if (first >= chunk.n_tokens) continue; /* a short last chunk has fewer runs, and nothing lies behind it */
            run(of, before + first, before + min(first + (int)RUN, chunk.n_tokens), w);
            continue;
        }
        channels<T, WIDTH> of = {args, args.step.seqs[row - n_runs], channel};
        if (of.seq.n_tokens == 0 || of.seq.n_tokens > LF_DELTA_SHORT_TOKENS) continue;
        uint4 old[WIDTH - 1];
        of.load_old(old);
        run(of, 0, of.seq.n_tokens, w);
        of.keep_all(old);
    }
}

/* Rows of the grid: long sequences. */
template <class T, int WIDTH>
__global__ void __launch_bounds__(THREADS) conv_tails(const __grid_constant__ conv_args args)
{
    int channel = (blockIdx.x * THREADS + threadIdx.x) * VEC;
    start_successor();
    wait_predecessor();
    if (channel >= args.n_channels) return;
    for (int row = blockIdx.y; row < args.step.n_long; row += gridDim.y) {
        channels<T, WIDTH> of = {args, args.step.seqs[args.step.long_seqs[row]], channel};
        uint4 old[WIDTH - 1];
        of.load_old(old);
        of.keep_all(old);
    }
}

/* ---- host ---- */

typedef void conv_kernel(const conv_args);

template <class T> static conv_kernel *find_kernel(int width, bool is_tails)
{
    static conv_kernel *const runs[] = {conv_runs<T, 2>, conv_runs<T, 3>, conv_runs<T, 4>, conv_runs<T, 5>,
                                        conv_runs<T, 6>, conv_runs<T, 7>, conv_runs<T, 8>};
    static conv_kernel *const tails[] = {conv_tails<T, 2>, conv_tails<T, 3>, conv_tails<T, 4>, conv_tails<T, 5>,
                                         conv_tails<T, 6>, conv_tails<T, 7>, conv_tails<T, 8>};
    return (is_tails ? tails : runs)[width - 2];
}

int lf_cuda_conv_setup(void)
{
    int rc = 0;
    for (int i = 0; i < 14 && rc == 0; i++)
        rc = load_kernels(find_kernel<bf16>(2 + i / 2, i % 2), find_kernel<fp16>(2 + i / 2, i % 2));
    return rc;
}

int lf_cuda_conv(const struct lf_conv_params *p, struct lf_cuda_launch how)
{
    const lf_state_step *step = p->step;
    if (p->n_tokens == 0 || step->n_seqs == 0) return 0;
    int n_channels = lf_delta_channels(&p->shape), width = p->shape.conv_width;
    conv_args args = {*p, *step, n_channels, p->x_stride % VEC == 0 && (uintptr_t)p->x % 16 == 0};
    int64_t n_rows = (int64_t)step->n_chunks * RUNS_A_CHUNK + step->n_seqs;
    unsigned blocks = blocks_for(n_channels, THREADS * VEC);
    dim3 grid(blocks, (unsigned)min(n_rows, (int64_t)MOST_GRID_Y)),
        tails(blocks, (unsigned)min(step->n_long, (int)MOST_GRID_Y));
    auto find = how.fp16 ? find_kernel<fp16> : find_kernel<bf16>;
    int rc = queue_kernel(find(width, false), {grid, THREADS}, how, args);
    if (rc != 0 || step->n_long == 0) return rc;
    return queue_kernel(find(width, true), {tails, THREADS}, how, args);
}
