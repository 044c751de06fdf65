/* Gated delta nets on a GPU against float64 on the host: token by token and in chunks, states, marks and what lies
 * beside. */
#include "tests/gpu/gpu_fixture.h"

enum { N_SLOTS = 12, MAX_SEQS = 6, MAX_MARKS = 8 };

/* A step of one layer, its tensors on the device and their values here. */
struct rig {
    struct lf_delta_shape shape;
    int channels, n_tokens, n_seqs, n_marks;
    struct lf_state_seq seqs[MAX_SEQS];
    struct lf_state_mark marks[MAX_MARKS];
    float *x, *w, *qkv, *ba, *a_log, *dt, *slots; /* slots: S of each as floats, without the tails */
    struct gpu_tensor x_t, w_t, qkv_t, ba_t, a_log_t, dt_t, slots_t, y_t, out_t, scratch_t;
    struct gpu_tensor seqs_t, marks_t, chunks_t, long_t, first_t;
    struct lf_state_step step;
    struct lf_state_view view;
    size_t s_floats, slot_bytes;
};

static struct gpu_tensor upload_ints(const void *ints, size_t bytes)
{
    int32_t none = 0;
    return bytes == 0 ? gpu_ids(&none, 1) : gpu_ids(ints, bytes / sizeof(int32_t));
}

static void rig_lists(struct rig *r)
{
    struct lf_state_arrays arrays;
    int most_chunks = lf_state_most_chunks(r->n_tokens, r->n_seqs),
        most_long = lf_state_most_long(r->n_tokens, r->n_seqs);
    arrays.chunks = fixture_alloc(((size_t)most_chunks + 1) * sizeof *arrays.chunks);
    arrays.long_seqs = fixture_alloc(((size_t)most_long + 1) * sizeof(int32_t));
    arrays.first_chunks = fixture_alloc(((size_t)most_long + 1) * sizeof(int32_t));
    struct lf_state_step *s = &r->step;
    lf_state_step_make(s, &arrays, r->seqs, r->n_seqs, r->marks);
    r->seqs_t = upload_ints(r->seqs, (size_t)r->n_seqs * sizeof *r->seqs);
    r->marks_t = upload_ints(r->marks, (size_t)r->n_marks * sizeof *r->marks);
    r->chunks_t = upload_ints(arrays.chunks, (size_t)s->n_chunks * sizeof *arrays.chunks);
    r->long_t = upload_ints(arrays.long_seqs, (size_t)s->n_long * sizeof(int32_t));
    r->first_t = upload_ints(arrays.first_chunks, ((size_t)s->n_long + 1) * sizeof(int32_t));
    s->seqs = (void *)r->seqs_t.ptr;
    s->marks = (void *)r->marks_t.ptr;
    s->chunks = (void *)r->chunks_t.ptr;
    s->long_seqs = (void *)r->long_t.ptr;
    s->first_chunks = (void *)r->first_t.ptr;
    free(arrays.chunks);
    free(arrays.long_seqs);
    free(arrays.first_chunks);
}

static float *uniform_floats(uint64_t *seed, size_t n, float low, float high)
{
    float *out = fixture_alloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = low + (high - low) * (float)fixture_random(seed) / 2147483648.0f;
    return out;
}

/* Slots between poison: S and the tails are random, the rest NaN. */
static void rig_slots(struct rig *r, uint64_t *seed)
{
    size_t tail = (size_t)(r->shape.conv_width - 1) * (size_t)r->channels, n = r->s_floats;
    r->slot_bytes = (size_t)lf_delta_layer_bytes(&r->shape, 2) + 512;
    r->slots = fixture_floats(seed, n * N_SLOTS, 0.3f);
    r->slots_t = gpu_poisoned(LF_F32, r->slot_bytes * N_SLOTS / 4);
    uint16_t *halves = fixture_alloc(tail * 2);
    float *values = fixture_floats(seed, tail, 1.0f);
    r->view = (struct lf_state_view){.base = r->slots_t.ptr, .slot_bytes = r->slot_bytes, .offset = 256};
    for (size_t s = 0; s < N_SLOTS; s++) {
        char *at = r->slots_t.ptr + s * r->slot_bytes + 256;
        lf_upload(gpu, at, r->slots + s * n, n * sizeof(float));
        lf_from_f32(halves, gpu_act, values, tail);
        lf_upload(gpu, at + lf_delta_state_bytes(&r->shape), halves, tail * 2);
    }
    free(values);
    free(halves);
}

/* Takes the shape and the sequences that are set; first tokens and slots (in i, out i, or in where it is below -1)
 * are given here. */
static void rig_make(struct rig *r, uint64_t *seed)
{
    const struct lf_delta_shape *d = &r->shape;
    r->channels = lf_delta_channels(d);
    r->s_floats = (size_t)lf_delta_state_bytes(d) / sizeof(float);
    r->n_tokens = 0;
    for (int i = 0; i < r->n_seqs; i++) {
        r->seqs[i].first_token = r->n_tokens;
        r->n_tokens += r->seqs[i].n_tokens;
    }
    size_t t = (size_t)r->n_tokens, c = (size_t)r->channels, nv = (size_t)d->n_v_heads;
    r->x_t = gpu_random(gpu_act, seed, t * c, 1.0f, &r->x);
    r->w_t = gpu_random(LF_F32, seed, c * (size_t)d->conv_width, 0.5f, &r->w);
    r->qkv = fixture_floats(seed, t * c, 1.0f);
    for (size_t i = 0; i < t * c; i++) r->qkv[i] /= 1.0f + expf(-r->qkv[i]); /* as what comes of the convolution */
    r->qkv_t = gpu_tensor(gpu_act, r->qkv, t * c);
    r->ba_t = gpu_random(LF_F32, seed, t * 2 * nv, 1.0f, &r->ba);
    r->a_log = uniform_floats(seed, nv, -3.0f, 2.5f);
    r->dt = uniform_floats(seed, nv, -4.0f, 0.0f);
    r->a_log_t = gpu_tensor(LF_F32, r->a_log, nv);
    r->dt_t = gpu_tensor(LF_F32, r->dt, nv);
    r->y_t = gpu_poisoned(gpu_act, t * c);
    r->out_t = gpu_poisoned(gpu_act, t * nv * (size_t)d->v_dim);
    r->scratch_t = gpu_poisoned(LF_F32, (size_t)gpu_ops->delta_scratch_bytes(d, r->n_tokens, r->n_seqs) / 4);
    rig_slots(r, seed);
    rig_lists(r);
    gpu_sync();
}

static void rig_free(struct rig *r)
{
    struct gpu_tensor *tensors[] = {&r->x_t,    &r->w_t,     &r->qkv_t,    &r->ba_t,    &r->a_log_t,
                                    &r->dt_t,   &r->y_t,     &r->out_t,    &r->slots_t, &r->scratch_t,
                                    &r->seqs_t, &r->marks_t, &r->chunks_t, &r->long_t,  &r->first_t};
    float *values[] = {r->x, r->w, r->qkv, r->ba, r->a_log, r->dt, r->slots};
    for (size_t i = 0; i < LF_N_ELEMS(tensors); i++) gpu_free(tensors[i]);
    for (size_t i = 0; i < LF_N_ELEMS(values); i++) free(values[i]);
}

static struct lf_delta_params rig_delta(struct rig *r)
{
    return (struct lf_delta_params){.out = r->out_t.ptr,
                                    .qkv = r->qkv_t.ptr,
                                    .ba = (float *)(void *)r->ba_t.ptr,
                                    .a_log = (float *)(void *)r->a_log_t.ptr,
                                    .dt = (float *)(void *)r->dt_t.ptr,
                                    .n_tokens = r->n_tokens,
                                    .shape = r->shape,
                                    .state = r->view,
                                    .step = &r->step,
                                    .scratch = r->scratch_t.ptr};
}

static struct lf_conv_params rig_conv(struct rig *r)
{
    return (struct lf_conv_params){.y = r->y_t.ptr,
                                   .x = r->x_t.ptr,
                                   .x_stride = r->channels,
                                   .w = (float *)(void *)r->w_t.ptr,
                                   .n_tokens = r->n_tokens,
                                   .shape = r->shape,
                                   .state = r->view,
                                   .step = &r->step};
}

static void run_delta(struct rig *r)
{
    struct lf_delta_params p = rig_delta(r);
    gpu_ops->delta(gpu, &p);
    gpu_sync();
}

/* The bytes of slot s of the layer, from S on. Freed by the caller. */
static char *read_slot(struct rig *r, int s)
{
    size_t n = (size_t)lf_delta_layer_bytes(&r->shape, 2);
    char *out = fixture_alloc(n);
    lf_download(gpu, out, r->slots_t.ptr + (size_t)s * r->slot_bytes + 256, n);
    gpu_sync();
    return out;
}

/* ---- the reference ---- */

struct sums {
    double error, of; /* squares */
};

static void add_difference(struct sums *to, double got, double expected)
{
    if (isnan(got)) fail_msg("NaN (%s)", gpu_case);
    to->error += (got - expected) * (got - expected);
    to->of += expected * expected;
}

static double relative(const struct sums *s)
{
    return sqrt(s->error / (s->of + 1e-30));
}

/* One token of one head: S and out in float64. */
static void token_reference(const struct rig *r, double *s, double *out, size_t token, int head)
{
    const struct lf_delta_shape *d = &r->shape;
    int k_head = head / (d->n_v_heads / d->n_k_heads), kd = d->k_dim, vd = d->v_dim;
    const float *row = r->qkv + token * (size_t)r->channels, *q = row + k_head * kd;
    const float *k = row + (d->n_k_heads + k_head) * kd, *v = row + 2 * d->n_k_heads * kd + head * vd;
    const float *ba = r->ba + token * 2 * (size_t)d->n_v_heads + head;
    double qq = 1e-6, kk = 1e-6, x = (double)ba[d->n_v_heads] + (double)r->dt[head];
    double beta = 1 / (1 + exp(-(double)ba[0])), decay = exp(-exp((double)r->a_log[head]) * log1p(exp(x)));
    for (int i = 0; i < kd; i++) {
        qq += (double)q[i] * (double)q[i];
        kk += (double)k[i] * (double)k[i];
    }
    double q_scale = 1 / sqrt(qq) / sqrt(kd), k_scale = 1 / sqrt(kk);
    for (int c = 0; c < vd; c++) {
        double sum = 0;
        out[c] = 0;
        for (int i = 0; i < kd; i++) sum += (s[i * vd + c] *= decay) * (double)k[i] * k_scale;
        double u = beta * ((double)v[c] - sum);
        for (int i = 0; i < kd; i++) out[c] += (s[i * vd + c] += (double)k[i] * k_scale * u) * (double)q[i] * q_scale;
    }
}

static void compare_state(const struct rig *r, struct sums *to, char *const *slots, int slot, int head, const double *s)
{
    size_t n = (size_t)r->shape.k_dim * (size_t)r->shape.v_dim;
    const float *got = (const float *)(const void *)slots[slot] + (size_t)head * n;
    for (size_t i = 0; i < n; i++) add_difference(to, (double)got[i], s[i]);
}

/* How far outputs and states (ends and marks) are from the reference, over all sequences, relative. */
static void compare(struct rig *r, double *out_error, double *state_error)
{
    const struct lf_delta_shape *d = &r->shape;
    size_t n = (size_t)d->k_dim * (size_t)d->v_dim;
    double *s = fixture_alloc(n * sizeof *s), out[256];
    float *got = gpu_read(&r->out_t);
    char *slots[N_SLOTS], *rest = gpu_read_raw(&r->slots_t); /* canaries */
    struct sums outs = {0}, states = {0};
    free(rest);
    for (int i = 0; i < N_SLOTS; i++) slots[i] = read_slot(r, i);
    for (int i = 0; i < r->n_seqs; i++) {
        const struct lf_state_seq *seq = &r->seqs[i];
        for (int head = 0; head < d->n_v_heads && seq->n_tokens > 0; head++) {
            for (size_t k = 0; k < n; k++)
                s[k] = seq->in < 0 ? 0 : (double)r->slots[(size_t)seq->in * r->s_floats + (size_t)head * n + k];
            for (int t = 0, m = 0; t < seq->n_tokens; t++) {
                size_t token = (size_t)(seq->first_token + t);
                token_reference(r, s, out, token, head);
                for (int c = 0; c < d->v_dim; c++)
                    add_difference(
                        &outs,
                        (double)got[(token * (size_t)d->n_v_heads + (size_t)head) * (size_t)d->v_dim + (size_t)c],
                        out[c]);
                if (m == seq->n_marks || r->marks[seq->first_mark + m].n_tokens != t + 1) continue;
                compare_state(r, &states, slots, r->marks[seq->first_mark + m++].slot, head, s);
            }
            compare_state(r, &states, slots, seq->out, head, s);
        }
    }
    for (int i = 0; i < N_SLOTS; i++) free(slots[i]);
    free(got);
    free(s);
    *out_error = relative(&outs);
    *state_error = relative(&states);
}

static void expect_right(struct rig *r, bool in_chunks)
{
    /* Outputs are rounded, 2^-9 or 2^-12 at most and half of that on average; so are, in chunks, W, U, P, V' and S. */
    double unit = gpu_act == LF_BF16 ? 1.0 / 256 : 1.0 / 2048, outs, states;
    run_delta(r);
    compare(r, &outs, &states);
    printf("  %s: outputs %.2e, states %.2e\n", gpu_case, outs, states);
    if (outs > (in_chunks ? 1.5 : 0.6) * unit || states > (in_chunks ? 1.5 * unit : 2e-6))
        fail_msg("outputs are off by %g, states by %g (%s)", outs, states, gpu_case);
}

static struct rig rig_of(struct lf_delta_shape shape)
{
    return (struct rig){.shape = shape};
}

static struct lf_state_seq *add_seq(struct rig *r, int n_tokens, int position, int in, int out)
{
    struct lf_state_seq *seq = &r->seqs[r->n_seqs++];
    *seq = (struct lf_state_seq){
        .n_tokens = n_tokens, .position = position, .in = in, .out = out, .first_mark = r->n_marks};
    return seq;
}

static void add_mark(struct rig *r, struct lf_state_seq *seq, int n_tokens, int slot)
{
    r->marks[r->n_marks++] = (struct lf_state_mark){n_tokens, slot};
    seq->n_marks++;
}

static const struct lf_delta_shape chunked[] = {{1, 1, 128, 128, 4}, {2, 4, 128, 128, 4}, {1, 3, 128, 128, 4}};
static const struct lf_delta_shape others[] = {{1, 2, 8, 8, 2},     {2, 2, 64, 32, 3},  {1, 2, 72, 40, 4},
                                               {1, 1, 256, 256, 8}, {1, 2, 128, 64, 5}, {1, 9, 128, 128, 4}};

/* ---- tests ---- */

static void tokens_one_by_one_are_right(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t i = 0; i < LF_N_ELEMS(chunked) + LF_N_ELEMS(others); i++) {
        struct rig r = rig_of(i < LF_N_ELEMS(chunked) ? chunked[i] : others[i - LF_N_ELEMS(chunked)]);
        (void)snprintf(gpu_case, sizeof gpu_case, "steps, shape %zu", i);
        add_seq(&r, 1, 0, -1, 0);
        add_seq(&r, 0, 0, 7, 7); /* a place without tokens */
        add_seq(&r, 16, 49, 1, 1);
        add_mark(&r, add_seq(&r, 5, 62, 2, 3), 2, 4);
        add_seq(&r, 1, 1000, 5, 6);
        rig_make(&r, &seed);
        expect_right(&r, false);
        rig_free(&r);
    }
}

static void other_shapes_are_right_in_long_steps(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (size_t i = 0; i < LF_N_ELEMS(others); i++) {
        struct rig r = rig_of(others[i]);
        (void)snprintf(gpu_case, sizeof gpu_case, "long steps, shape %zu", i);
        struct lf_state_seq *seq = add_seq(&r, 90, 60, 1, 1);
        add_mark(&r, seq, 4, 2);
        add_mark(&r, seq, 68, 3);
        add_seq(&r, 3, 0, -1, 4);
        rig_make(&r, &seed);
        expect_right(&r, false);
        rig_free(&r);
    }
}

static void chunks_are_right(void **state)
{
    (void)state;
    uint64_t seed = 3;
    static const int lengths[] = {17, 63, 64, 65, 100, 128, 192, 200}, starts[] = {0, 5, 63, 64, 127};
    for (size_t i = 0; i < LF_N_ELEMS(lengths); i++) {
        struct rig r = rig_of(chunked[i % LF_N_ELEMS(chunked)]);
        int position = starts[i % LF_N_ELEMS(starts)];
        (void)snprintf(gpu_case, sizeof gpu_case, "%d tokens from %d on", lengths[i], position);
        add_seq(&r, lengths[i], position, position == 0 ? -1 : 2, 3);
        rig_make(&r, &seed);
        expect_right(&r, true);
        rig_free(&r);
    }
}

static void several_sequences_of_all_lengths_are_right(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int round = 0; round < gpu_times(6); round++) {
        struct rig r = rig_of(chunked[round % 3]);
        (void)snprintf(gpu_case, sizeof gpu_case, "several sequences, round %d", round);
        for (int i = 0; i < 4; i++) {
            bool is_short = fixture_random(&seed) % 3 == 0;
            int n = fixture_between(&seed, is_short ? 0 : 17, is_short ? 16 : 210), at = fixture_between(&seed, 0, 200);
            add_seq(&r, n, at, at == 0 ? -1 : i, fixture_random(&seed) % 2 ? i : i + 4);
        }
        struct lf_state_seq *seq = add_seq(&r, 140, 60, 8, 8);
        add_mark(&r, seq, 4, 9);
        add_mark(&r, seq, 132, 10);
        rig_make(&r, &seed);
        expect_right(&r, true);
        rig_free(&r);
    }
}

/* Slots and outputs of a run of the rig, all bytes. */
struct bytes {
    char *out, *slots;
};

static struct bytes run_bytes(struct rig *r)
{
    for (size_t s = 0; s < N_SLOTS; s++)
        lf_upload(gpu, r->slots_t.ptr + s * r->slot_bytes + 256, r->slots + s * r->s_floats,
                  r->s_floats * sizeof(float));
    run_delta(r);
    return (struct bytes){gpu_read_raw(&r->out_t), gpu_read_raw(&r->slots_t)};
}

static void steps_repeat_to_the_bit(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct rig r = rig_of(chunked[2]);
    (void)snprintf(gpu_case, sizeof gpu_case, "repeated");
    add_seq(&r, 200, 31, 0, 0);
    add_seq(&r, 9, 31, 1, 2);
    add_mark(&r, add_seq(&r, 64, 64, 3, 4), 64, 5);
    rig_make(&r, &seed);
    struct bytes first = run_bytes(&r);
    for (int i = 0; i < gpu_times(100); i++) {
        struct bytes again = run_bytes(&r);
        assert_memory_equal(again.out, first.out, r.out_t.n * 2);
        assert_memory_equal(again.slots, first.slots, r.slots_t.n * 4);
        free(again.out);
        free(again.slots);
    }
    free(first.out);
    free(first.slots);
    rig_free(&r);
}

/* One sequence's outputs, and what its slot then holds, are the same beside others of NaN, behind them too. */
static void a_sequence_is_alone_beside_others(void **state)
{
    (void)state;
    uint64_t seed = 6;
    static const int lengths[] = {7, 90};
    for (size_t l = 0; l < LF_N_ELEMS(lengths); l++) {
        struct rig r = rig_of(chunked[1]);
        (void)snprintf(gpu_case, sizeof gpu_case, "beside NaN, %d tokens", lengths[l]);
        add_seq(&r, 30, 0, -1, 0);
        add_seq(&r, lengths[l], 70, 1, 1);
        add_seq(&r, 100, 0, -1, 2);
        add_seq(&r, 3, 0, -1, 3);
        rig_make(&r, &seed);
        struct bytes before = run_bytes(&r);
        size_t row = (size_t)r.channels * 2, first = 30, n = (size_t)lengths[l], all = (size_t)r.n_tokens;
        char *nan = malloc(all * row);
        assert_non_null(nan);
        memset(nan, 0xff, all * row);
        lf_upload(gpu, r.qkv_t.ptr, nan, first * row);
        lf_upload(gpu, r.qkv_t.ptr + (first + n) * row, nan, (all - first - n) * row);
        struct bytes after = run_bytes(&r);
        size_t out_row = (size_t)r.shape.n_v_heads * (size_t)r.shape.v_dim * 2, slot = r.slot_bytes;
        assert_memory_equal(before.out + first * out_row, after.out + first * out_row, n * out_row);
        assert_memory_equal(before.slots + slot, after.slots + slot, slot);
        free(nan);
        free(before.out);
        free(before.slots);
        free(after.out);
        free(after.slots);
        rig_free(&r);
    }
}

/* A mark's slot has the bits of a step that ends there, and what begins of it goes on as if it had not been cut. */
static void snapshots_are_where_a_sequence_can_begin(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct rig r = rig_of(chunked[2]);
    (void)snprintf(gpu_case, sizeof gpu_case, "snapshots");
    struct lf_state_seq *seq = add_seq(&r, 150, 40, 0, 1);
    add_mark(&r, seq, 24, 2);
    add_mark(&r, seq, 88, 3);
    rig_make(&r, &seed);
    struct bytes whole = run_bytes(&r);
    size_t slot = r.slot_bytes, s_bytes = r.s_floats * 4, out_row = (size_t)r.shape.n_v_heads * 256;
    /* tokens 0 to 23 into slot 2, 24 to 87 of slot 2 into 3, and the rest of 3 into 1 */
    static const int firsts[] = {0, 24, 88}, ends[] = {24, 88, 150}, ins[] = {0, 2, 3}, outs[] = {2, 3, 1};
    for (int i = 0; i < 3; i++) {
        struct rig part = r;
        part.n_seqs = 1;
        part.n_marks = 0;
        part.seqs[0] = (struct lf_state_seq){.first_token = firsts[i],
                                             .n_tokens = ends[i] - firsts[i],
                                             .position = 40 + firsts[i],
                                             .in = ins[i],
                                             .out = outs[i]};
        rig_lists(&part);
        if (i == 0) lf_upload(gpu, r.slots_t.ptr + 256, r.slots, s_bytes);
        run_delta(&part);
        char *got = read_slot(&r, outs[i]), *out = gpu_read_raw(&r.out_t);
        assert_memory_equal(got, whole.slots + (size_t)outs[i] * slot + 256, s_bytes);
        assert_memory_equal(out, whole.out, (size_t)ends[i] * out_row);
        free(got);
        free(out);
        gpu_free(&part.seqs_t);
        gpu_free(&part.marks_t);
        gpu_free(&part.chunks_t);
        gpu_free(&part.long_t);
        gpu_free(&part.first_t);
    }
    free(whole.out);
    free(whole.slots);
    rig_free(&r);
}

/* More chunks than are in the scratch at once. */
static void long_prompts_are_cut_into_segments(void **state)
{
    (void)state;
    uint64_t seed = 8;
    struct rig r = rig_of(chunked[0]);
    (void)snprintf(gpu_case, sizeof gpu_case, "segments");
    struct lf_state_seq *seq = add_seq(&r, 70 * 64 + 11, 30, 0, 0);
    add_mark(&r, seq, 34 + 63 * 64, 1);
    add_mark(&r, seq, 34 + 64 * 64, 2);
    add_seq(&r, 300, 0, -1, 3);
    rig_make(&r, &seed);
    expect_right(&r, true);
    rig_free(&r);
}

/* ---- the convolution ---- */

static double input_at(const struct rig *r, const struct lf_state_seq *seq, const float *tail, int at, int c)
{
    if (at >= 0) return (double)r->x[(size_t)(seq->first_token + at) * (size_t)r->channels + (size_t)c];
    return seq->in < 0 ? 0 : (double)tail[(size_t)(r->shape.conv_width - 1 + at) * (size_t)r->channels + (size_t)c];
}

static void check_tail(const struct rig *r, const struct lf_state_seq *seq, const float *tail, const float *kept, int n)
{
    for (int i = 0; i < r->shape.conv_width - 1; i++)
        for (int c = 0; c < r->channels; c++)
            if ((double)kept[(size_t)i * (size_t)r->channels + (size_t)c] !=
                input_at(r, seq, tail, n - r->shape.conv_width + 1 + i, c))
                fail_msg("input %d of channel %d is not what was kept at %d (%s)", i, c, n, gpu_case);
}

static float *read_tail(struct rig *r, int slot)
{
    size_t n = (size_t)(r->shape.conv_width - 1) * (size_t)r->channels;
    char *raw = read_slot(r, slot);
    float *out = fixture_alloc(n * sizeof *out);
    lf_to_f32(out, raw + lf_delta_state_bytes(&r->shape), gpu_act, n);
    free(raw);
    return out;
}

static void check_conv(struct rig *r)
{
    struct lf_conv_params p = rig_conv(r);
    float *tails[N_SLOTS], *kept[N_SLOTS];
    for (int s = 0; s < N_SLOTS; s++) tails[s] = read_tail(r, s);
    gpu_ops->conv(gpu, &p);
    gpu_sync();
    float *y = gpu_read(&r->y_t);
    for (int s = 0; s < N_SLOTS; s++) kept[s] = read_tail(r, s);
    for (int i = 0; i < r->n_seqs; i++) {
        const struct lf_state_seq *seq = &r->seqs[i];
        const float *tail = tails[LF_MAX(seq->in, 0)];
        for (int t = 0; t < seq->n_tokens; t++)
            for (int c = 0; c < r->channels; c++) {
                double sum = 0, size = 0;
                for (int j = 0; j < r->shape.conv_width; j++) {
                    double x = input_at(r, seq, tail, t - r->shape.conv_width + 1 + j, c);
                    double term = (double)r->w[c * r->shape.conv_width + j] * x;
                    sum += term;
                    size += fabs(term);
                }
                double expected = sum / (1 + exp(-sum));
                double got = (double)y[(size_t)(seq->first_token + t) * (size_t)r->channels + (size_t)c];
                if (!(fabs(got - expected) <= gpu_rounding(gpu_act, expected) + 2e-6 * size))
                    fail_msg("y[%d, %d] = %g, not %g (%s)", t, c, got, expected, gpu_case);
            }
        if (seq->n_tokens > 0) check_tail(r, seq, tail, kept[seq->out], seq->n_tokens);
        for (int m = seq->first_mark; m < seq->first_mark + seq->n_marks; m++)
            check_tail(r, seq, tail, kept[r->marks[m].slot], r->marks[m].n_tokens);
    }
    for (int s = 0; s < N_SLOTS; s++) {
        free(tails[s]);
        free(kept[s]);
    }
    free(y);
}

static void convolutions_are_right_and_keep_their_inputs(void **state)
{
    (void)state;
    uint64_t seed = 9;
    static const struct lf_delta_shape shapes[] = {{1, 2, 8, 8, 2},   {1, 2, 16, 24, 3}, {2, 4, 128, 128, 4},
                                                   {1, 2, 8, 16, 5},  {1, 1, 8, 8, 6},   {1, 3, 8, 8, 7},
                                                   {1, 1, 16, 16, 8}, {1, 1, 8, 8, 4}};
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        struct rig r = rig_of(shapes[i]);
        (void)snprintf(gpu_case, sizeof gpu_case, "convolution, width %d", r.shape.conv_width);
        struct lf_state_seq *seq = add_seq(&r, 130, 63, 0, 0); /* a first chunk of one token, in place */
        add_mark(&r, seq, 1, 8);
        add_mark(&r, seq, 129, 9);
        add_seq(&r, 1, 5, 1, 1);
        add_mark(&r, add_seq(&r, 16, 62, 2, 3), 2, 10);
        add_seq(&r, 0, 0, 7, 7);
        add_seq(&r, 40, 0, -1, 4);
        add_seq(&r, 2, 0, -1, 5);
        rig_make(&r, &seed);
        check_conv(&r);
        rig_free(&r);
    }
}

/* x is the left part of wider rows, at an odd place too. */
static void convolutions_take_parts_of_wider_rows(void **state)
{
    (void)state;
    uint64_t seed = 10;
    static const size_t extra[] = {8, 5};
    for (size_t e = 0; e < LF_N_ELEMS(extra); e++) {
        struct rig r = rig_of((struct lf_delta_shape){1, 2, 16, 8, 4});
        add_seq(&r, 33, 10, 0, 1);
        add_seq(&r, 4, 0, -1, 2);
        rig_make(&r, &seed);
        size_t t = (size_t)r.n_tokens, c = (size_t)r.channels, stride = c + extra[e];
        float *wide = fixture_floats(&seed, t * stride, 1.0f);
        for (size_t i = 0; i < t; i++) memcpy(wide + i * stride, r.x + i * c, c * sizeof(float));
        struct gpu_tensor wide_t = gpu_tensor(gpu_act, wide, t * stride);
        struct lf_conv_params p = rig_conv(&r);
        gpu_ops->conv(gpu, &p);
        char *expected = gpu_read_raw(&r.y_t), *tails = read_slot(&r, 1);
        p.x = wide_t.ptr;
        p.x_stride = (int)stride;
        gpu_ops->conv(gpu, &p);
        char *got = gpu_read_raw(&r.y_t), *again = read_slot(&r, 1);
        assert_memory_equal(got, expected, t * c * 2);
        assert_memory_equal(again, tails, (size_t)lf_delta_layer_bytes(&r.shape, 2));
        free(expected);
        free(tails);
        free(got);
        free(again);
        free(wide);
        gpu_free(&wide_t);
        rig_free(&r);
    }
}

/* ---- graphs ---- */

/* A recorded step of four places is replayed with other sequences in them, and with fewer. */
static void a_graph_replays_with_other_sequences(void **state)
{
    (void)state;
    uint64_t seed = 13;
    struct rig r = rig_of(chunked[1]);
    (void)snprintf(gpu_case, sizeof gpu_case, "graph");
    for (int i = 0; i < 4; i++) add_seq(&r, 1, 64 + i, i, i);
    rig_make(&r, &seed);
    struct lf_conv_params conv = rig_conv(&r);
    struct lf_delta_params delta = rig_delta(&r);
    conv.y = r.qkv_t.ptr;
    if (!lf_graph_begin(gpu)) fail_msg("no graph can be recorded");
    gpu_ops->conv(gpu, &conv);
    gpu_ops->delta(gpu, &delta);
    struct lf_graph *graph = lf_graph_end(gpu);
    assert_non_null(graph);
    size_t slots_bytes = r.slot_bytes * N_SLOTS;
    for (int n_used = 4; n_used >= 1; n_used--) {
        for (int i = 0; i < 4; i++) {
            r.seqs[i].n_tokens = i < n_used;
            r.seqs[i].in = r.seqs[i].out = 11 - i - n_used;
        }
        char *before = gpu_read_raw(&r.slots_t), *ends[2], *outs[2];
        for (int by_graph = 0; by_graph < 2; by_graph++) {
            lf_upload(gpu, r.slots_t.ptr, before, slots_bytes);
            lf_upload(gpu, r.seqs_t.ptr, r.seqs, 4 * sizeof *r.seqs);
            if (by_graph)
                lf_graph_launch(gpu, graph);
            else {
                gpu_ops->conv(gpu, &conv);
                gpu_ops->delta(gpu, &delta);
            }
            ends[by_graph] = gpu_read_raw(&r.slots_t);
            outs[by_graph] = gpu_read_raw(&r.out_t);
        }
        assert_memory_equal(ends[0], ends[1], slots_bytes);
        assert_memory_equal(outs[0], outs[1], (size_t)n_used * (size_t)r.shape.n_v_heads * 256);
        for (int s = 0; s < N_SLOTS; s++) { /* those of no place are as they were */
            bool is_used = s <= 11 - n_used && s > 11 - 2 * n_used;
            int differs = memcmp(ends[1] + (size_t)s * r.slot_bytes, before + (size_t)s * r.slot_bytes, r.slot_bytes);
            assert_int_equal(differs != 0, is_used);
        }
        for (int i = 0; i < 2; i++) {
            free(ends[i]);
            free(outs[i]);
        }
        free(before);
    }
    lf_graph_destroy(gpu, graph);
    rig_free(&r);
}

static void no_tokens_is_no_work(void **state)
{
    (void)state;
    struct lf_state_step step = {0};
    struct lf_delta_shape shape = chunked[0];
    int x = 0;
    gpu_ops->conv(gpu, &(struct lf_conv_params){.shape = shape, .step = &step, .x = &x, .x_stride = 384});
    gpu_ops->delta(gpu, &(struct lf_delta_params){.shape = shape, .step = &step});
    gpu_sync();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_one_by_one_are_right),
        cmocka_unit_test(other_shapes_are_right_in_long_steps),
        cmocka_unit_test(chunks_are_right),
        cmocka_unit_test(several_sequences_of_all_lengths_are_right),
        cmocka_unit_test(steps_repeat_to_the_bit),
        cmocka_unit_test(a_sequence_is_alone_beside_others),
        cmocka_unit_test(snapshots_are_where_a_sequence_can_begin),
        cmocka_unit_test(long_prompts_are_cut_into_segments),
        cmocka_unit_test(convolutions_are_right_and_keep_their_inputs),
        cmocka_unit_test(convolutions_take_parts_of_wider_rows),
        cmocka_unit_test(a_graph_replays_with_other_sequences),
        cmocka_unit_test(no_tokens_is_no_work),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return gpu_run(tests);
}
