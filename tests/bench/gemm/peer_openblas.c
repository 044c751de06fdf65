/* OpenBLAS as a peer of the GEMM bench: sgemm and sgemv in float, sbgemm in bf16 where the library has it. */
#include <cblas.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "tests/bench/gemm/peers.h"

struct made {
    struct gemm p;
    uint16_t *w, *x; /* bf16 copies, or NULL */
};

static void *make_sgemm(const struct gemm *p)
{
    struct made *m = calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    m->p = *p;
    openblas_set_num_threads(p->n_threads);
    return m;
}

static void run_sgemm(void *made)
{
    const struct gemm *p = &((struct made *)made)->p;
    if (p->n_rows == 1)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, p->n_out, p->n_in, 1.0f, p->values, p->n_in, p->x, 1, 0.0f, p->y, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->n_rows, p->n_out, p->n_in, 1.0f, p->x, p->n_in,
                    p->values, p->n_in, 0.0f, p->y, p->n_out);
}

static void free_made(void *made)
{
    struct made *m = made;
    free(m->w);
    free(m->x);
    free(m);
}

const struct peer peer_openblas_sgemm = {"OpenBLAS f32", false, make_sgemm, run_sgemm, free_made, NULL};

#ifdef BENCH_SBGEMM
static void *make_sbgemm(const struct gemm *p)
{
    struct made *m = make_sgemm(p);
    if (m == NULL) return NULL;
    size_t n_w = (size_t)p->n_out * (size_t)p->n_in, n_x = (size_t)p->n_rows * (size_t)p->n_in;
    m->w = malloc(n_w * 2);
    m->x = malloc(n_x * 2);
    if (m->w == NULL || m->x == NULL) {
        free_made(m);
        return NULL;
    }
    lf_from_f32(m->w, LF_BF16, p->values, n_w);
    lf_from_f32(m->x, LF_BF16, p->x, n_x);
    return m;
}

static void run_sbgemm(void *made)
{
    const struct made *m = made;
    const struct gemm *p = &m->p;
    cblas_sbgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->n_rows, p->n_out, p->n_in, 1.0f, m->x, p->n_in, m->w,
                 p->n_in, 0.0f, p->y, p->n_out);
}

const struct peer peer_openblas_sbgemm = {"OpenBLAS bf16", true, make_sbgemm, run_sbgemm, free_made, NULL};
#endif
