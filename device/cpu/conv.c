/* The convolution before a gated delta net: of each channel, over its last conv_width tokens (device/delta.h).
 *
 * A piece is some channels of one sequence, all its tokens: what lies before the step is copied out of the state first,
 * so that the state may be written where it was read. The weights are turned so that a row of them has neighbouring
 * channels; pieces of the same channels follow each other, and what is turned once serves all sequences of a task. An
 * output is one sum over the taps in ascending order, wherever its rows lie. */
#include <string.h>

#include "core/check.h"
#include "device/cpu/delta.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

enum { PER_TASK = 8 * 1024 }; /* outputs that are worth a task of their own */

struct conv {
    struct lf_device *dev;
    const struct lf_conv_params *p;
    int n_channels, n_pieces; /* of the channels: LF_CONV_COLS, the last one fewer */
    int pieces_per_task;
};

/* Some channels of one sequence. */
struct piece {
    const struct lf_conv_params *p;
    const struct lf_state_seq *seq;
    int first, n;                                         /* channels */
    float before[(LF_CONV_WIDTH_MAX - 1) * LF_CONV_COLS]; /* what lies before the step */
    float w[LF_CONV_WIDTH_MAX * LF_CONV_COLS];            /* [width, LF_CONV_COLS] */
};

static float *state_of(const struct lf_conv_params *p, int slot)
{
    char *state = (char *)p->state.base + (uint64_t)slot * p->state.slot_bytes + p->state.offset;
    return (float *)(void *)(state + lf_delta_state_bytes(&p->shape));
}

/* The inputs of the sequence's token t of this step; below zero: of those before it. */
static const float *input(const struct piece *c, int t)
{
    int width = c->p->shape.conv_width;
    if (t < 0) return c->before + (size_t)(t + width - 1) * LF_CONV_COLS;
    return (const float *)c->p->x + (size_t)(c->seq->first_token + t) * (size_t)c->p->x_stride + c->first;
}

static void load_state(struct piece *c)
{
    const struct lf_delta_shape *shape = &c->p->shape;
    int width = shape->conv_width;
    size_t channels = (size_t)lf_delta_channels(shape);
    for (int j = 0; j + 1 < width; j++) {
        float *to = c->before + (size_t)j * LF_CONV_COLS;
        if (c->seq->in < 0)
            memset(to, 0, (size_t)c->n * sizeof(float));
        else
            memcpy(to, state_of(c->p, c->seq->in) + (size_t)j * channels + c->first, (size_t)c->n * sizeof(float));
    }
}

static void turn_weights(struct piece *c)
{
    int width = c->p->shape.conv_width;
    const float *w = c->p->w + (size_t)c->first * (size_t)width;
    for (int j = 0; j < width; j++)
        for (int i = 0; i < c->n; i++) c->w[j * LF_CONV_COLS + i] = w[i * width + j];
}

/* The state behind the first n_tokens tokens. */
static void store_state(const struct piece *c, int n_tokens, int slot)
{
    int n = c->p->shape.conv_width - 1;
    size_t channels = (size_t)lf_delta_channels(&c->p->shape);
    float *to = state_of(c->p, slot) + c->first;
    for (int j = 0; j < n; j++)
        memcpy(to + (size_t)j * channels, input(c, n_tokens - n + j), (size_t)c->n * sizeof(float));
}

static void convolve(struct lf_device *dev, struct piece *c)
{
    const struct lf_conv_params *p = c->p;
    const struct lf_state_seq *seq = c->seq;
    int width = p->shape.conv_width;
    size_t channels = (size_t)lf_delta_channels(&p->shape);
    load_state(c);
    for (int t = 0; t < seq->n_tokens; t++) {
        const float *rows[LF_CONV_WIDTH_MAX];
        for (int j = 0; j < width; j++) rows[j] = input(c, t - width + 1 + j);
        dev->delta.conv((float *)p->y + (size_t)(seq->first_token + t) * channels + c->first, rows, c->w, width, c->n);
    }
    for (int m = 0; m < seq->n_marks; m++) {
        const struct lf_state_mark *mark = &p->step->marks[seq->first_mark + m];
        store_state(c, mark->n_tokens, mark->slot);
    }
    store_state(c, seq->n_tokens, seq->out);
}

static void conv_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct conv *v = ctx;
    int first = task_idx * v->pieces_per_task;
    int end = LF_MIN(first + v->pieces_per_task, v->n_pieces * v->p->step->n_seqs);
    struct piece c;
    c.p = v->p;
    c.first = -1;
    for (int i = first; i < end; i++) {
        int channel = i / v->p->step->n_seqs * LF_CONV_COLS;
        c.seq = &v->p->step->seqs[i % v->p->step->n_seqs];
        if (c.seq->n_tokens == 0) continue;
        if (channel != c.first) {
            c.first = channel;
            c.n = LF_MIN(LF_CONV_COLS, v->n_channels - channel);
            turn_weights(&c);
        }
        convolve(v->dev, &c);
    }
}

void lf_cpu_conv(struct lf_device *dev, const struct lf_conv_params *p)
{
    lf_cpu_check_states(&p->shape, p->step, p->n_tokens);
    if (p->n_tokens == 0) return;
    struct conv v = {.dev = dev, .p = p, .n_channels = lf_delta_channels(&p->shape)};
    LF_ASSERT(p->x_stride >= v.n_channels);
    v.n_pieces = (v.n_channels + LF_CONV_COLS - 1) / LF_CONV_COLS;
    int n = v.n_pieces * p->step->n_seqs;
    int64_t per_piece = (int64_t)p->n_tokens * v.n_channels / LF_MAX(n, 1);
    v.pieces_per_task = (int)LF_MAX(1, PER_TASK / LF_MAX(per_piece, 1));
    lf_threads_run(dev->threads, (n + v.pieces_per_task - 1) / v.pieces_per_task, conv_task, &v);
}
