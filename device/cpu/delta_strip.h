/* The gated delta rule by vectors, in the words of vec.h: a strip of S through the tokens of a sequence. Included by
 * delta_vec.h alone.
 *
 * A token asks twice for all of S: for what k̂ reads of it, and to add what is written. Two passes over S would load
 * and store each of its vectors twice; so one pass writes what token t adds and takes what tokens t + 1's k̂ and q̂ read
 * of the sum,
 *
 *     S = e^g S + k̂ uᵀ      read = Sᵀ k̂′      seen = Sᵀ q̂′
 *
 * and the output follows without another look at S: of e^g′ S + k̂′ u′ᵀ, q̂′ sees e^g′ seen + (k̂′ · q̂′) u′. That is four
 * operations, one load and one store a vector. S between two tokens is whole, so it does not matter where a step ends:
 * the first token's pass only reads, the last one's only writes, and a vector's operations are the same ones.
 *
 * Sums over k_dim run in ascending order, one accumulator a column. A strip is 32 columns wide, so that 128 rows of it
 * take half of the first cache. Of one token alone it is as wide as the accumulators allow: S then comes from memory,
 * whole rows come in order, and a prefetcher knows them for a stream. */
#include <math.h>
#include <stddef.h>

#include "device/cpu/delta.h"
#include "device/cpu/vec_math.h"

enum {
    STRIP_COLS = 32,
    STRIP_VECS = STRIP_COLS / VEC,
    STEP_VECS = VEC_REGS == 32 ? 8 : STRIP_VECS, /* each has two accumulators */
    STEP_COLS = STEP_VECS * VEC
};

LF_KERNEL vec load_lanes(const float *p, int n)
{
    return n >= VEC ? vec_loadu(p) : vec_load_first(p, n);
}

LF_KERNEL void store_lanes(float *p, vec x, int n)
{
    if (n >= VEC)
        vec_storeu(p, x);
    else
        vec_store_first(p, x, n);
}

/* One pass over S, rows of it at `from` and, where it is written, at `to`. is_whole: no vector is cut short. */
struct pass {
    const float *from;
    float *to;
    size_t from_row, to_row;
    const float *k, *next; /* k̂ of the token that is added; k̂′ and q̂′ of the one that reads */
    float decay;
    int k_dim, n_cols;
};

LF_KERNEL vec strip_load(const float *row, int j, bool is_whole, int n_cols)
{
    return is_whole ? vec_loadu(row + j * VEC) : load_lanes(row + j * VEC, n_cols - j * VEC);
}

LF_KERNEL void strip_store(float *row, int j, vec x, bool is_whole, int n_cols)
{
    if (is_whole)
        vec_storeu(row + j * VEC, x);
    else
        store_lanes(row + j * VEC, x, n_cols - j * VEC);
}

LF_KERNEL void pass_rows(const struct pass *p, int n_vecs, bool adds, bool reads, bool is_whole, const vec *u,
                         vec *read, vec *seen)
{
    vec decay = vec_set(p->decay);
    LF_UNROLL
    for (int j = 0; j < n_vecs; j++)
        if (reads) read[j] = seen[j] = vec_set(0.0f);
    for (int i = 0; i < p->k_dim; i++) {
        const float *from = p->from + (size_t)i * p->from_row;
        float *to = p->to + (size_t)i * p->to_row;
        vec k = vec_set(adds ? p->k[i] : 0.0f);
        vec k_next = vec_set(reads ? p->next[i] : 0.0f), q_next = vec_set(reads ? p->next[p->k_dim + i] : 0.0f);
        LF_UNROLL
        for (int j = 0; j < n_vecs; j++) {
            vec s = strip_load(from, j, is_whole, p->n_cols);
            if (adds) {
                s = vec_fma(k, u[j], vec_mul(decay, s));
                strip_store(to, j, s, is_whole, p->n_cols);
            }
            if (reads) {
                read[j] = vec_fma(k_next, s, read[j]);
                seen[j] = vec_fma(q_next, s, seen[j]);
            }
        }
    }
}

/* What token t writes and gives, of what it has read. */
LF_KERNEL void finish_token(const struct lf_delta_strip *s, int t, int n_vecs, bool is_whole, vec *u, const vec *read,
                            const vec *seen)
{
    const struct lf_delta_gate *gate = &s->gates[t];
    const float *v = s->v + (size_t)t * s->v_stride;
    float *y = s->y + (size_t)t * s->y_stride;
    vec decay = vec_set(gate->decay), beta = vec_set(gate->beta), kq = vec_set(gate->kq);
    LF_UNROLL
    for (int j = 0; j < n_vecs; j++) {
        u[j] = vec_mul(beta, vec_fnma(decay, read[j], strip_load(v, j, is_whole, s->n_cols)));
        strip_store(y, j, vec_fma(kq, u[j], vec_mul(decay, seen[j])), is_whole, s->n_cols);
    }
}

LF_KERNEL void run(int n_vecs, bool is_whole, const struct lf_delta_strip *s)
{
    static const float zeros[STEP_COLS];
    _Alignas(64) float kept[LF_DELTA_DIM_MAX * STRIP_COLS];
    size_t two = 2 * (size_t)s->k_dim;
    struct pass p = {.from = s->in != NULL ? s->in : zeros,
                     .from_row = s->in != NULL ? (size_t)s->v_dim : 0,
                     .k_dim = s->k_dim,
                     .n_cols = s->n_cols};
    vec u[STEP_VECS], read[STEP_VECS], seen[STEP_VECS];
    p.next = s->units;
    pass_rows(&p, n_vecs, false, true, is_whole, u, read, seen);
    int last = n_vecs <= STRIP_VECS ? s->n_tokens - 1 : 0;
    for (int t = 0; t < last; t++) {
        finish_token(s, t, n_vecs, is_whole, u, read, seen);
        p.to = kept;
        p.to_row = STRIP_COLS;
        p.k = s->units + (size_t)t * two;
        p.next = p.k + two;
        p.decay = s->gates[t].decay;
        pass_rows(&p, n_vecs, true, true, is_whole, u, read, seen);
        p.from = kept;
        p.from_row = STRIP_COLS;
    }
    finish_token(s, last, n_vecs, is_whole, u, read, seen);
    p.to = s->out;
    p.to_row = (size_t)s->v_dim;
    p.k = s->units + (size_t)last * two;
    p.decay = s->gates[last].decay;
    pass_rows(&p, n_vecs, true, false, is_whole, u, read, seen);
}

/* Strips of other widths are cut into single vectors: the right edge of S alone has them. */
static void edge(const struct lf_delta_strip *s)
{
    for (int col = 0; col < s->n_cols; col += VEC) {
        struct lf_delta_strip one = *s;
        if (s->in != NULL) one.in += col;
        one.out += col;
        one.v += col;
        one.y += col;
        one.n_cols = s->n_cols - col < VEC ? s->n_cols - col : VEC;
        if (one.n_cols == VEC)
            run(1, true, &one);
        else
            run(1, false, &one);
    }
}

static void strip(const struct lf_delta_strip *s)
{
    if (s->n_cols == STRIP_COLS)
        run(STRIP_VECS, true, s);
    else if (s->n_cols == STEP_COLS)
        run(STEP_VECS, true, s);
    else
        edge(s);
}
