/* What a GEMM contender of the benchmark provides: y[T, n_out] = x[T, n_in] · wᵀ. */
#ifndef LF_TESTS_BENCH_GEMM_PEERS_H
#define LF_TESTS_BENCH_GEMM_PEERS_H

#include <stdbool.h>

struct gemm {
    const float *values; /* weights [n_out, n_in] */
    const float *x;      /* [T, n_in] */
    float *y;            /* [T, n_out] */
    int n_rows, n_in, n_out;
    int n_threads;
};

struct peer {
    const char *name;
    bool bf16; /* weights are bf16, else float */
    /* Brings one GEMM into the library's best order; NULL where it has none. Not timed. */
    void *(*make)(const struct gemm *p);
    void (*run)(void *made);
    void (*free)(void *made);
    double (*bytes)(const void *made); /* of the weights; NULL: two or four an element */
};

extern const struct peer peer_openblas_sgemm, peer_openblas_sbgemm, peer_dnnl_f32, peer_dnnl_bf16;

#endif
