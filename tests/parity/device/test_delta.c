/* The ops of gated delta nets against float64, and that a sequence's bits are its own: however it is cut into steps,
 * whoever is beside it, wherever its state was kept. For one instruction set.
 *
 *     test_delta ISA
 *
 * Tolerances are bounds. A column of S is off by no more than its last error, as 0 <= decay <= 1 and I - β k̂k̂ᵀ
 * shortens every vector, and by what one token's roundings add: sums of k_dim products (k_dim · 2⁻²³ of the sum of
 * their magnitudes) and a handful of roundings of each value. */
#include "tests/parity/device/ops_fixture.h"

#include "core/check.h"

enum { STREAMS = 4, TOKENS = 200, SLOTS = 8, MARKS = 4, X_GAP = 24 };

static struct lf_device *devs[3]; /* 1, 2 and 3 threads */

/* ---- a layer, token streams through it, and slots ---- */

struct net {
    struct lf_delta_shape shape;
    size_t channels, x_stride, n_out; /* of conv, from row to row of its input, of delta */
    float *w, *a_log, *dt;
    float *x[STREAMS], *ba[STREAMS]; /* [TOKENS, x_stride], [TOKENS, 2 · n_v_heads] */
    size_t layer_bytes, slot_bytes;  /* the layer is the second of three of a slot */
};

/* What a step does with one stream. */
struct part {
    int stream, from, to, in, out;
    int n_marks;
    struct lf_state_mark marks[MARKS];
};

/* Outputs of all streams, and the slots. */
struct world {
    const struct net *net;
    char *slots;
    float *y[STREAMS], *out[STREAMS]; /* [TOKENS, channels], [TOKENS, n_out] */
};

static struct net make_net(struct lf_delta_shape shape, uint64_t *seed)
{
    struct net n = {.shape = shape, .channels = (size_t)lf_delta_channels(&shape)};
    n.x_stride = n.channels + X_GAP;
    n.n_out = (size_t)shape.n_v_heads * (size_t)shape.v_dim;
    n.w = fixture_floats(seed, n.channels * (size_t)shape.conv_width, 0.5f);
    n.a_log = fixture_floats(seed, (size_t)shape.n_v_heads, 1.0f);
    n.dt = fixture_floats(seed, (size_t)shape.n_v_heads, 1.0f);
    for (int h = 0; h < shape.n_v_heads; h++) n.a_log[h] -= 2.0f; /* heads that remember long, and some that do not */
    for (int s = 0; s < STREAMS; s++) {
        n.x[s] = fixture_floats(seed, TOKENS * n.x_stride, 1.0f);
        n.ba[s] = fixture_floats(seed, (size_t)TOKENS * 2 * (size_t)shape.n_v_heads, 2.0f);
    }
    n.layer_bytes = lf_delta_layer_bytes(&shape, sizeof(float));
    n.slot_bytes = 3 * n.layer_bytes;
    return n;
}

static void free_net(struct net *n)
{
    free(n->w);
    free(n->a_log);
    free(n->dt);
    for (int s = 0; s < STREAMS; s++) {
        free(n->x[s]);
        free(n->ba[s]);
    }
}

static void fill_canaries(float *at, size_t n)
{
    for (size_t i = 0; i < n; i++) fixture_put_canary(at + i);
}

static struct world make_world(const struct net *net)
{
    struct world w = {.net = net, .slots = aligned_alloc(256, SLOTS * net->slot_bytes)};
    assert_non_null(w.slots);
    fill_canaries((float *)(void *)w.slots, SLOTS * net->slot_bytes / sizeof(float));
    for (int s = 0; s < STREAMS; s++) {
        w.y[s] = fixture_alloc(TOKENS * net->channels * sizeof(float));
        w.out[s] = fixture_alloc(TOKENS * net->n_out * sizeof(float));
        fill_canaries(w.y[s], TOKENS * net->channels);
        fill_canaries(w.out[s], TOKENS * net->n_out);
    }
    return w;
}

static float *slot_of(const struct world *w, int slot)
{
    return (float *)(void *)(w->slots + (size_t)slot * w->net->slot_bytes + w->net->layer_bytes);
}

static size_t state_floats(const struct net *net)
{
    return lf_delta_state_bytes(&net->shape) / sizeof(float) + (size_t)(net->shape.conv_width - 1) * net->channels;
}

/* The layers beside ours, and the filling behind it, are as they were. */
static void free_world(struct world *w)
{
    for (int s = 0; s < SLOTS; s++) {
        const float *slot = (const float *)(const void *)(w->slots + (size_t)s * w->net->slot_bytes);
        size_t layer = w->net->layer_bytes / sizeof(float);
        for (size_t i = 0; i < w->net->slot_bytes / sizeof(float); i++)
            if (i < layer || i >= layer + state_floats(w->net)) fixture_check_canary(slot + i);
    }
    free(w->slots);
    for (int s = 0; s < STREAMS; s++) {
        free(w->y[s]);
        free(w->out[s]);
    }
}

static void expect_slot_untouched(const struct world *w, int slot)
{
    for (size_t i = 0; i < state_floats(w->net); i++) fixture_check_canary(slot_of(w, slot) + i);
}

static void expect_same_slots(const struct world *a, int slot_a, const struct world *b, int slot_b)
{
    assert_memory_equal(slot_of(a, slot_a), slot_of(b, slot_b), state_floats(a->net) * sizeof(float));
}

/* Tokens [from, to) of the stream are the same bytes. */
static void expect_same(const struct world *a, const struct world *b, int stream, int from, int to)
{
    size_t n_y = a->net->channels, n_out = a->net->n_out, t = (size_t)from, n = (size_t)(to - from) * sizeof(float);
    assert_memory_equal(a->y[stream] + t * n_y, b->y[stream] + t * n_y, n * n_y);
    assert_memory_equal(a->out[stream] + t * n_out, b->out[stream] + t * n_out, n * n_out);
}

/* The tensors of a step: its parts follow each other. Inputs and the scratch end at an unmapped page. */
struct step {
    struct lf_state_seq seqs[STREAMS + 1];
    struct lf_state_mark marks[STREAMS * MARKS];
    int n_tokens;
    struct test_guarded x, ba, scratch;
    struct fixture_out y, out;
};

static struct step make_step(const struct net *net, const struct part *parts, int n_parts)
{
    struct step s = {.n_tokens = 0};
    size_t ba_row = 2 * (size_t)net->shape.n_v_heads, n = 0;
    int n_marks = 0;
    for (int i = 0; i < n_parts; i++) n += (size_t)(parts[i].to - parts[i].from);
    float *x = fixture_alloc(n * net->x_stride * sizeof(float)), *ba = fixture_alloc(n * ba_row * sizeof(float));
    for (int i = 0; i < n_parts; i++) {
        const struct part *p = &parts[i];
        size_t at = (size_t)s.n_tokens, from = (size_t)p->from, rows = (size_t)(p->to - p->from);
        s.seqs[i] = (struct lf_state_seq){.first_token = s.n_tokens,
                                          .n_tokens = p->to - p->from,
                                          .position = p->from,
                                          .in = p->in,
                                          .out = p->out,
                                          .first_mark = n_marks,
                                          .n_marks = p->n_marks};
        memcpy(s.marks + n_marks, p->marks, (size_t)p->n_marks * sizeof *s.marks);
        memcpy(x + at * net->x_stride, net->x[p->stream] + from * net->x_stride, rows * net->x_stride * sizeof(float));
        memcpy(ba + at * ba_row, net->ba[p->stream] + from * ba_row, rows * ba_row * sizeof(float));
        n_marks += p->n_marks;
        s.n_tokens += p->to - p->from;
    }
    /* a place that no sequence has, as graphs of decode steps have them */
    s.seqs[n_parts] = (struct lf_state_seq){.first_token = -1, .in = 1 << 30, .out = 1 << 30, .n_marks = 7};
    const struct lf_ops *ops = lf_device_ops(devs[0]);
    size_t scratch = ops->delta_scratch_bytes(&net->shape, s.n_tokens, n_parts);
    char *dirt = fixture_alloc(scratch);
    memset(dirt, 0xff, scratch);
    s.x = test_guarded_copy(x, (n * net->x_stride - X_GAP) * sizeof(float));
    s.ba = test_guarded_copy(ba, n * ba_row * sizeof(float));
    s.scratch = test_guarded_copy(dirt, scratch);
    s.y = fixture_out(n * net->channels);
    s.out = fixture_out(n * net->n_out);
    free(dirt);
    free(x);
    free(ba);
    return s;
}

static void free_step(struct step *s)
{
    fixture_out_check_and_free(&s->y);
    fixture_out_check_and_free(&s->out);
    test_guarded_free(&s->x);
    test_guarded_free(&s->ba);
    test_guarded_free(&s->scratch);
}

/* conv, then delta, of some parts of streams in one step. */
static void run(struct lf_device *dev, struct world *w, const struct part *parts, int n_parts)
{
    const struct net *net = w->net;
    const struct lf_ops *ops = lf_device_ops(dev);
    struct step s = make_step(net, parts, n_parts);
    struct lf_state_step step = {.seqs = s.seqs, .marks = s.marks, .n_seqs = n_parts + 1};
    struct lf_state_view view = {.base = w->slots, .slot_bytes = net->slot_bytes, .offset = net->layer_bytes};
    struct lf_conv_params conv = {.y = s.y.ptr,
                                  .x = s.x.ptr,
                                  .x_stride = (int)net->x_stride,
                                  .w = net->w,
                                  .n_tokens = s.n_tokens,
                                  .shape = net->shape,
                                  .state = view,
                                  .step = &step};
    ops->conv(dev, &conv);
    struct lf_delta_params delta = {.out = s.out.ptr,
                                    .qkv = s.y.ptr,
                                    .ba = (const float *)(const void *)s.ba.ptr,
                                    .a_log = net->a_log,
                                    .dt = net->dt,
                                    .n_tokens = s.n_tokens,
                                    .shape = net->shape,
                                    .state = view,
                                    .step = &step,
                                    .scratch = s.scratch.ptr};
    ops->delta(dev, &delta);
    for (int i = 0; i < n_parts; i++) {
        size_t at = (size_t)s.seqs[i].first_token, from = (size_t)parts[i].from;
        size_t n = (size_t)s.seqs[i].n_tokens * sizeof(float);
        memcpy(w->y[parts[i].stream] + from * net->channels, s.y.ptr + at * net->channels, n * net->channels);
        memcpy(w->out[parts[i].stream] + from * net->n_out, s.out.ptr + at * net->n_out, n * net->n_out);
    }
    free_step(&s);
}

static void run_one(struct lf_device *dev, struct world *w, struct part part)
{
    run(dev, w, &part, 1);
}

/* ---- float64 ---- */

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

/* y of conv from the inputs, zeros before the first. */
static void check_conv(const struct world *w, int stream, int n_tokens)
{
    const struct net *net = w->net;
    int width = net->shape.conv_width;
    for (int t = 0; t < n_tokens; t++) {
        for (size_t c = 0; c < net->channels; c++) {
            double sum = 0.0, magnitude = 0.0;
            for (int j = 0; j < width; j++) {
                if (t - width + 1 + j < 0) continue;
                double x = (double)net->x[stream][(size_t)(t - width + 1 + j) * net->x_stride + c];
                double product = x * (double)net->w[c * (size_t)width + (size_t)j];
                sum += product;
                magnitude += fabs(product);
            }
            /* silu is nowhere steeper than 1.1; its own roundings are some ten of its value */
            double allowed = ldexp(width * magnitude * 1.1 + 6.0 * fabs(silu(sum)), -23) + 1e-37;
            double got = (double)w->y[stream][(size_t)t * net->channels + c];
            if (!(fabs(got - silu(sum)) <= allowed))
                fail_msg("conv width %d, token %d, channel %zu: %.9g, expected %.9g within %g", width, t, c, got,
                         silu(sum), allowed);
        }
    }
}

static double unit_of(double *out, const float *x, int dim, double scale)
{
    double sum = 0.0, length = 0.0;
    for (int i = 0; i < dim; i++) sum += (double)x[i] * (double)x[i];
    for (int i = 0; i < dim; i++) {
        out[i] = (double)x[i] / sqrt(sum + 1e-6) * scale;
        length += out[i] * out[i];
    }
    return sqrt(length);
}

/* One value head: S [k_dim, v_dim], and how far off each column may be. */
struct head {
    double s[256 * 256], error[256];
};

/* One token of column c. What the roundings of e^g, β, k̂ and q̂ are worth stands in `gate` and `unit`, of the value. */
static double column_token(struct head *h, const struct lf_delta_shape *d, size_t c, const double *k, const double *q,
                           double decay, double beta, double v, double gate, double *allowed)
{
    double read = 0.0, length = 0.0, sum = 0.0, out_length = 0.0, n = (double)d->k_dim, unit = n + 8.0;
    size_t v_dim = (size_t)d->v_dim;
    for (size_t i = 0; i < (size_t)d->k_dim; i++) {
        double *s = &h->s[i * v_dim + c];
        *s *= decay;
        read += k[i] * *s;
        length += *s * *s;
    }
    double u = beta * (v - read);
    for (size_t i = 0; i < (size_t)d->k_dim; i++) {
        double *s = &h->s[i * v_dim + c];
        *s += k[i] * u;
        sum += q[i] * *s;
        out_length += *s * *s;
    }
    length = sqrt(length);
    out_length = sqrt(out_length);
    /* read's error and u's, which k̂ (no longer than 1) brings into S; then decay's and the update's own */
    double of_read = (n + unit + gate) * length, of_u = of_read + 16.0 * (fabs(v) + length) + (unit + 8.0) * fabs(u);
    h->error[c] = decay * h->error[c] + ldexp(of_u + (gate + 4.0) * length + 4.0 * out_length, -23);
    double q_length = 0.0;
    for (int i = 0; i < d->k_dim; i++) q_length += q[i] * q[i];
    *allowed = sqrt(q_length) * (h->error[c] + ldexp((n + unit) * out_length, -23)) + 1e-36;
    return sum;
}

static void check_state(const struct world *w, const struct head *h, int head, int slot)
{
    const struct lf_delta_shape *d = &w->net->shape;
    size_t n = (size_t)d->k_dim * (size_t)d->v_dim;
    const float *s = slot_of(w, slot) + (size_t)head * n;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)s[i] - h->s[i]) <= h->error[i % (size_t)d->v_dim] + 1e-36))
            fail_msg("head %d: S[%zu] is %.9g, expected %.9g within %g", head, i, (double)s[i], h->s[i],
                     h->error[i % (size_t)d->v_dim]);
}

/* delta's outputs and S behind them, of what conv gave it (which check_conv has seen). */
static void check_delta(const struct world *w, int stream, int n_tokens, int slot)
{
    const struct net *net = w->net;
    const struct lf_delta_shape *d = &net->shape;
    struct head *h = malloc(sizeof *h);
    assert_non_null(h);
    for (int head = 0; head < d->n_v_heads; head++) {
        int k_head = head / (d->n_v_heads / d->n_k_heads);
        memset(h, 0, sizeof *h);
        for (size_t t = 0; t < (size_t)n_tokens; t++) {
            const float *q_row = w->y[stream] + t * net->channels + (size_t)(k_head * d->k_dim);
            const float *k_row = q_row + (size_t)(d->n_k_heads * d->k_dim);
            const float *v = w->y[stream] + t * net->channels + (size_t)(2 * d->n_k_heads * d->k_dim + head * d->v_dim);
            const float *ba = net->ba[stream] + t * 2 * (size_t)d->n_v_heads;
            double k[256], q[256], b = (double)ba[head], a = (double)ba[d->n_v_heads + head];
            double z = a + (double)net->dt[head], fast = exp((double)net->a_log[head]);
            double g = -fast * (z > 40.0 ? z : log1p(exp(z))), beta = 1.0 / (1.0 + exp(-b));
            double gate = 8.0 + fabs(g) * (16.0 + fabs(a) + fabs((double)net->dt[head]) + fabs(log(fast)));
            unit_of(k, k_row, d->k_dim, 1.0);
            unit_of(q, q_row, d->k_dim, 1.0 / sqrt((double)d->k_dim));
            for (size_t c = 0; c < (size_t)d->v_dim; c++) {
                double allowed, expected = column_token(h, d, c, k, q, exp(g), beta, (double)v[c], gate, &allowed);
                double got = (double)w->out[stream][t * net->n_out + (size_t)(head * d->v_dim) + c];
                if (!(fabs(got - expected) <= allowed))
                    fail_msg("token %zu, head %d, column %zu: %.9g, expected %.9g within %g", t, head, c, got, expected,
                             allowed);
            }
        }
        check_state(w, h, head, slot);
    }
    free(h);
}

static const struct lf_delta_shape shapes[] = {
    {.n_k_heads = 1, .n_v_heads = 1, .k_dim = 8, .v_dim = 8, .conv_width = 2},
    {.n_k_heads = 2, .n_v_heads = 4, .k_dim = 16, .v_dim = 24, .conv_width = 4},
    {.n_k_heads = 1, .n_v_heads = 3, .k_dim = 24, .v_dim = 40, .conv_width = 8},
    {.n_k_heads = 3, .n_v_heads = 3, .k_dim = 40, .v_dim = 16, .conv_width = 3},
    {.n_k_heads = 1, .n_v_heads = 3, .k_dim = 128, .v_dim = 128, .conv_width = 4},
    {.n_k_heads = 1, .n_v_heads = 1, .k_dim = 256, .v_dim = 104, .conv_width = 5},
    {.n_k_heads = 1, .n_v_heads = 1, .k_dim = 8, .v_dim = 256, .conv_width = 6},
    {.n_k_heads = 1, .n_v_heads = 70, .k_dim = 8, .v_dim = 8, .conv_width = 4},
};

static void conv_and_delta_are_right(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct net net = make_net(shapes[i], &seed);
        struct world w = make_world(&net);
        for (int s = 0; s < 2; s++) {
            int n = s == 0 ? 33 : 2; /* fewer tokens than the convolution is wide, too */
            run_one(devs[1], &w, (struct part){.stream = s, .to = n, .in = -1, .out = 5 + s});
            check_conv(&w, s, n);
            check_delta(&w, s, n, 5 + s);
            /* the convolution's last inputs, the oldest first; zeros before the first token */
            int width = shapes[i].conv_width;
            const float *tail = slot_of(&w, 5 + s) + lf_delta_state_bytes(&shapes[i]) / sizeof(float);
            for (int j = 0; j + 1 < width; j++) {
                int t = n - width + 1 + j;
                for (size_t c = 0; c < net.channels; c++) {
                    float x = t < 0 ? 0.0f : net.x[s][(size_t)t * net.x_stride + c];
                    assert_memory_equal(tail + (size_t)j * net.channels + c, &x, sizeof x);
                }
            }
        }
        for (int slot = 0; slot < 5; slot++) expect_slot_untouched(&w, slot);
        free_world(&w);
        free_net(&net);
    }
}

static void long_sequences_stay_right(void **state)
{
    (void)state;
    uint64_t seed = 32;
    struct net net = make_net(shapes[1], &seed);
    net.a_log[0] = -12.0f; /* forgets next to nothing */
    struct world w = make_world(&net);
    run_one(devs[2], &w, (struct part){.to = TOKENS, .in = -1, .out = 3});
    check_conv(&w, 0, TOKENS);
    check_delta(&w, 0, TOKENS, 3);
    free_world(&w);
    free_net(&net);
}

/* Gates at their ends: nothing is forgotten, all is; nothing is written; keys of zeros. */
static void gates_and_keys_at_their_ends(void **state)
{
    (void)state;
    uint64_t seed = 33;
    struct net net = make_net(shapes[1], &seed);
    static const float ends[] = {-200.0f, -90.0f, -30.0f, 0.0f, 19.9f, 20.1f, 60.0f, 90.0f, 200.0f};
    enum { N_ENDS = LF_N_ELEMS(ends) };
    for (size_t t = 0; t < N_ENDS * N_ENDS; t++) {
        for (int h = 0; h < 4; h++) net.ba[0][t * 8 + (size_t)h] = ends[t % N_ENDS];
        for (int h = 4; h < 8; h++) net.ba[0][t * 8 + (size_t)h] = ends[t / N_ENDS];
    }
    for (size_t i = 0; i < 10 * net.x_stride; i++) net.x[0][40 * net.x_stride + i] = 0.0f;
    struct world w = make_world(&net);
    run_one(devs[1], &w, (struct part){.to = N_ENDS * N_ENDS, .in = -1, .out = 0});
    check_delta(&w, 0, N_ENDS * N_ENDS, 0);
    free_world(&w);
    free_net(&net);
}

/* ---- bits ---- */

/* Tokens [0, n) in one step on one thread, in slot 0. */
static struct world whole(const struct net *net, int n)
{
    struct world w = make_world(net);
    for (int s = 0; s < STREAMS; s++) run_one(devs[0], &w, (struct part){.stream = s, .to = n, .in = -1, .out = s});
    return w;
}

static void a_sequence_cut_anywhere_has_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = 34;
    enum { N = 21 };
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct net net = make_net(shapes[i], &seed);
        struct world expected = whole(&net, N);
        for (int cut = 1; cut < N; cut++) {
            struct lf_device *dev = devs[cut % 3];
            struct world w = make_world(&net);
            run_one(dev, &w, (struct part){.to = cut, .in = -1, .out = 4});
            run_one(dev, &w, (struct part){.from = cut, .to = N, .in = 4, .out = 4});
            expect_same(&w, &expected, 0, 0, N);
            expect_same_slots(&w, 4, &expected, 0);
            /* again from a state that stays where it is */
            run_one(dev, &w, (struct part){.to = cut, .in = -1, .out = 6});
            run_one(dev, &w, (struct part){.from = cut, .to = N, .in = 6, .out = 7});
            expect_same(&w, &expected, 0, 0, N);
            expect_same_slots(&w, 7, &expected, 0);
            run_one(dev, &w, (struct part){.from = cut, .to = N, .in = 6, .out = 2});
            expect_same_slots(&w, 2, &expected, 0);
            expect_slot_untouched(&w, 5);
            free_world(&w);
        }
        struct world w = make_world(&net);
        for (int t = 0; t < N; t++)
            run_one(devs[t % 3], &w, (struct part){.from = t, .to = t + 1, .in = t == 0 ? -1 : 1, .out = 1});
        expect_same(&w, &expected, 0, 0, N);
        expect_same_slots(&w, 1, &expected, 0);
        free_world(&w);
        free_world(&expected);
        free_net(&net);
    }
}

static void sequences_do_not_know_their_neighbours(void **state)
{
    (void)state;
    uint64_t seed = 35;
    enum { N = 30 };
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct net net = make_net(shapes[i], &seed);
        struct world expected = whole(&net, N), w = make_world(&net);
        int done[STREAMS] = {0};
        for (int step = 0; done[0] < N || done[1] < N || done[2] < N || done[3] < N; step++) {
            struct part parts[STREAMS];
            int n_parts = 0;
            for (int j = 0; j < STREAMS; j++) {
                int s = (step + j) % STREAMS, n = fixture_between(&seed, 0, 9);
                n = LF_MIN(n, N - done[s]);
                if (n == 0) continue;
                parts[n_parts++] = (struct part){
                    .stream = s, .from = done[s], .to = done[s] + n, .in = done[s] == 0 ? -1 : s + 2, .out = s + 2};
                done[s] += n;
            }
            if (n_parts > 0) run(devs[step % 3], &w, parts, n_parts);
        }
        for (int s = 0; s < STREAMS; s++) {
            expect_same(&w, &expected, s, 0, N);
            expect_same_slots(&w, s + 2, &expected, s);
        }
        free_world(&w);
        free_world(&expected);
        free_net(&net);
    }
}

static void what_is_not_a_number_stays_in_its_sequence(void **state)
{
    (void)state;
    uint64_t seed = 36;
    enum { N = 12 };
    struct net net = make_net(shapes[1], &seed);
    struct world expected = whole(&net, N), w = make_world(&net);
    for (size_t i = 0; i < N * net.x_stride; i++) {
        net.x[0][i] = i % 2 == 0 ? NAN : INFINITY;
        net.x[2][i] = -INFINITY;
    }
    for (size_t i = 0; i < (size_t)N * 8; i++) net.ba[0][i] = i % 2 == 0 ? NAN : INFINITY;
    struct part parts[STREAMS];
    for (int s = 0; s < STREAMS; s++) parts[s] = (struct part){.stream = s, .to = N, .in = -1, .out = s};
    run(devs[2], &w, parts, STREAMS);
    for (int s = 1; s < STREAMS; s += 2) {
        expect_same(&w, &expected, s, 0, N);
        expect_same_slots(&w, s, &expected, s);
    }
    for (size_t i = 0; i < net.n_out; i++) assert_true(isnan(w.out[0][(N - 1) * net.n_out + i]));
    /* one token of an a that is no number spoils its head alone */
    struct net other = make_net(shapes[1], &seed);
    struct world good = whole(&other, N), bad = make_world(&other);
    other.ba[0][3 * 8 + 4 + 2] = NAN;
    run_one(devs[1], &bad, (struct part){.to = N, .in = -1, .out = 0});
    for (size_t t = 0; t < N; t++) {
        for (size_t h = 0; h < 4; h++) {
            const float *is = bad.out[0] + t * other.n_out + h * 24, *was = good.out[0] + t * other.n_out + h * 24;
            if (h == 2 && t >= 3)
                for (size_t c = 0; c < 24; c++) assert_true(isnan(is[c]));
            else
                assert_memory_equal(is, was, 24 * sizeof(float));
        }
    }
    free_world(&good);
    free_world(&bad);
    free_net(&other);
    free_world(&w);
    free_world(&expected);
    free_net(&net);
}

/* ---- marks ---- */

static void a_sequence_goes_on_from_a_snapshot_with_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = 37;
    static const int starts[] = {0, 10, 61, 62, 63, 64, 126, 127};
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct net net = make_net(shapes[i], &seed);
        struct world expected = make_world(&net), at[2] = {make_world(&net), make_world(&net)};
        run_one(devs[0], &expected, (struct part){.to = TOKENS, .in = -1, .out = 0});
        for (int m = 0; m < 2; m++) run_one(devs[0], &at[m], (struct part){.to = 64 * (m + 1), .in = -1, .out = 0});
        for (size_t j = 0; j < LF_N_ELEMS(starts); j++) {
            int start = starts[j];
            struct lf_device *dev = devs[j % 3];
            struct world w = make_world(&net);
            struct part part = {.from = start, .to = 128 + (int)j % 2 * 30, .in = start == 0 ? -1 : 4, .out = 4};
            if (start < 64) part.marks[part.n_marks++] = (struct lf_state_mark){64 - start, 1};
            part.marks[part.n_marks++] = (struct lf_state_mark){128 - start, 6}; /* the last token, where j is even */
            if (start > 0) run_one(dev, &w, (struct part){.to = start, .in = -1, .out = 4});
            run_one(dev, &w, part);
            run_one(dev, &w, (struct part){.from = part.to, .to = TOKENS, .in = 4, .out = 4});
            expect_same(&w, &expected, 0, 0, TOKENS);
            expect_same_slots(&w, 4, &expected, 0);
            for (int m = start < 64 ? 0 : 1; m < 2; m++) {
                int slot = m == 0 ? 1 : 6;
                expect_same_slots(&w, slot, &at[m], 0);
                fill_canaries(w.out[0] + (size_t)(64 * (m + 1)) * net.n_out, 10 * net.n_out);
                run_one(devs[2], &w, (struct part){.from = 64 * (m + 1), .to = TOKENS, .in = slot, .out = 7});
                expect_same(&w, &expected, 0, 0, TOKENS);
                expect_same_slots(&w, 7, &expected, 0);
                expect_same_slots(&w, slot, &at[m], 0);
            }
            if (start >= 64) expect_slot_untouched(&w, 1);
            expect_slot_untouched(&w, 0);
            free_world(&w);
        }
        free_world(&expected);
        for (int m = 0; m < 2; m++) free_world(&at[m]);
        free_net(&net);
    }
}

static void sequences_of_a_step_have_marks_of_their_own(void **state)
{
    (void)state;
    uint64_t seed = 38;
    struct net net = make_net(shapes[1], &seed);
    struct world at = make_world(&net), w = make_world(&net);
    run_one(devs[0], &at, (struct part){.stream = 0, .to = 64, .in = -1, .out = 0});
    run_one(devs[0], &at, (struct part){.stream = 2, .to = 64, .in = -1, .out = 2});
    run_one(devs[0], &at, (struct part){.stream = 2, .from = 64, .to = 128, .in = 2, .out = 3});
    struct part parts[] = {
        {.stream = 0, .to = 70, .in = -1, .out = 0, .n_marks = 1, .marks = {{64, 4}}},
        {.stream = 1, .to = 3, .in = -1, .out = 1},
        {.stream = 2, .to = 128, .in = -1, .out = 2, .n_marks = 2, .marks = {{64, 5}, {128, 6}}},
    };
    run(devs[2], &w, parts, 3);
    expect_same_slots(&w, 4, &at, 0);
    expect_same_slots(&w, 5, &at, 2);
    expect_same_slots(&w, 6, &at, 3);
    expect_same_slots(&w, 2, &at, 3);
    expect_slot_untouched(&w, 3);
    expect_slot_untouched(&w, 7);
    /* two sequences that begin from the same snapshot in one step */
    struct part twice[] = {{.stream = 2, .from = 64, .to = 128, .in = 5, .out = 3},
                           {.stream = 0, .from = 64, .to = 70, .in = 4, .out = 7},
                           {.stream = 3, .from = 64, .to = 66, .in = 5, .out = 1}};
    run(devs[1], &w, twice, 3);
    expect_same_slots(&w, 3, &at, 3);
    expect_same_slots(&w, 7, &w, 0);
    free_world(&at);
    free_world(&w);
    free_net(&net);
}

/* ---- what is asked of memory; nothing to do ---- */

static void the_scratch_is_a_closed_formula(void **state)
{
    (void)state;
    const struct lf_ops *ops = lf_device_ops(devs[0]);
    struct lf_delta_shape d = {.n_k_heads = 16, .n_v_heads = 48, .k_dim = 128, .v_dim = 128, .conv_width = 4};
    assert_int_equal(ops->delta_scratch_bytes(&d, 0, 0), 0);
    assert_int_equal(ops->delta_scratch_bytes(&d, 1, 1),
                     17152); /* 16 · 256 floats, 48 · 3 floats, in whole 256 bytes */
    assert_true(ops->delta_scratch_bytes(&d, 1 << 20, 4) == (uint64_t)(16 * 256 + 48 * 3) * 4 << 20);
}

static void no_tokens_are_no_work(void **state)
{
    (void)state;
    const struct lf_ops *ops = lf_device_ops(devs[1]);
    struct lf_state_seq none = {.out = 1 << 30};
    struct lf_state_step step = {.seqs = &none, .n_seqs = 1};
    for (step.n_seqs = 0; step.n_seqs < 2; step.n_seqs++) {
        ops->conv(devs[1], &(struct lf_conv_params){.x_stride = 24, .shape = shapes[0], .step = &step});
        ops->delta(devs[1], &(struct lf_delta_params){.shape = shapes[0], .step = &step});
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s c|avx2|avx512|avx512-bf16|amx\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 3; i++) devs[i] = fixture_open(fixture_isa(argv[1]), i + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_and_delta_are_right),
        cmocka_unit_test(long_sequences_stay_right),
        cmocka_unit_test(gates_and_keys_at_their_ends),
        cmocka_unit_test(a_sequence_cut_anywhere_has_the_same_bits),
        cmocka_unit_test(sequences_do_not_know_their_neighbours),
        cmocka_unit_test(what_is_not_a_number_stays_in_its_sequence),
        cmocka_unit_test(a_sequence_goes_on_from_a_snapshot_with_the_same_bits),
        cmocka_unit_test(sequences_of_a_step_have_marks_of_their_own),
        cmocka_unit_test(the_scratch_is_a_closed_formula),
        cmocka_unit_test(no_tokens_are_no_work),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) lf_device_close(devs[i]);
    return rc;
}
