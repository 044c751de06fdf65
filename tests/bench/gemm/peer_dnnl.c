/* oneDNN 2: a matmul primitive whose weights are reordered once into whatever format it likes best. x stands ready in
 * the weights' type, which leaves out the conversion that our GEMM includes. */
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/gemm/peers.h"

struct made {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t matmul;
    dnnl_memory_t x, w, y;
};

static void check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "oneDNN: %s fails with status %d\n", what, (int)status);
    exit(1);
}

static dnnl_memory_desc_t desc_2d(int rows, int cols, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {rows, cols};
    check(dnnl_memory_desc_init_by_tag(&md, 2, dims, type, tag), "a memory descriptor");
    return md;
}

static dnnl_memory_t memory(const struct made *m, const dnnl_memory_desc_t *md, void *at)
{
    dnnl_memory_t mem;
    check(dnnl_memory_create(&mem, md, m->engine, at), "memory");
    return mem;
}

/* A copy of plain float memory in the order and type of md. */
static dnnl_memory_t reordered(const struct made *m, const dnnl_memory_desc_t *plain, const float *values,
                               const dnnl_memory_desc_t *md)
{
    union {
        const float *values;
        void *at;
    } from = {values};
    dnnl_memory_t src = memory(m, plain, from.at), dst = memory(m, md, DNNL_MEMORY_ALLOCATE);
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t reorder;
    check(dnnl_reorder_primitive_desc_create(&pd, plain, m->engine, md, m->engine, NULL), "a reorder");
    check(dnnl_primitive_create(&reorder, pd), "a reorder");
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
    check(dnnl_primitive_execute(reorder, m->stream, 2, args), "a reorder");
    check(dnnl_stream_wait(m->stream), "a reorder");
    check(dnnl_primitive_destroy(reorder), "a reorder");
    check(dnnl_primitive_desc_destroy(pd), "a reorder");
    check(dnnl_memory_destroy(src), "memory");
    return dst;
}

/* The library's threads are those of the OpenMP it was linked with, whichever that is. */
static void set_n_threads(int n_threads)
{
    union {
        void *symbol;
        void (*call)(int);
    } set = {dlsym(RTLD_DEFAULT, "omp_set_num_threads")};
    if (set.symbol != NULL) set.call(n_threads);
}

static void *make(const struct gemm *p, dnnl_data_type_t type)
{
    struct made *m = calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    set_n_threads(p->n_threads);
    check(dnnl_engine_create(&m->engine, dnnl_cpu, 0), "the engine");
    check(dnnl_stream_create(&m->stream, m->engine, dnnl_stream_default_flags), "the stream");
    dnnl_memory_desc_t x_plain = desc_2d(p->n_rows, p->n_in, dnnl_f32, dnnl_ab);
    dnnl_memory_desc_t w_plain = desc_2d(p->n_in, p->n_out, dnnl_f32, dnnl_ba);
    dnnl_memory_desc_t x_md = desc_2d(p->n_rows, p->n_in, type, dnnl_ab);
    dnnl_memory_desc_t w_any = desc_2d(p->n_in, p->n_out, type, dnnl_format_tag_any);
    dnnl_memory_desc_t y_md = desc_2d(p->n_rows, p->n_out, dnnl_f32, dnnl_ab);

    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    check(dnnl_matmul_desc_init(&desc, &x_md, &w_any, NULL, &y_md), "a GEMM");
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, m->engine, NULL), "a GEMM");
    check(dnnl_primitive_create(&m->matmul, pd), "a GEMM");
    const dnnl_memory_desc_t *w_md = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    m->w = reordered(m, &w_plain, p->values, w_md);
    m->x = reordered(m, &x_plain, p->x, &x_md);
    m->y = memory(m, &y_md, p->y);
    check(dnnl_primitive_desc_destroy(pd), "a GEMM");
    return m;
}

static void *make_f32(const struct gemm *p)
{
    return make(p, dnnl_f32);
}

static void *make_bf16(const struct gemm *p)
{
    return make(p, dnnl_bf16);
}

static void run(void *made)
{
    struct made *m = made;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, m->x}, {DNNL_ARG_WEIGHTS, m->w}, {DNNL_ARG_DST, m->y}};
    check(dnnl_primitive_execute(m->matmul, m->stream, 3, args), "a GEMM");
    check(dnnl_stream_wait(m->stream), "a GEMM");
}

static void free_made(void *made)
{
    struct made *m = made;
    check(dnnl_primitive_destroy(m->matmul), "a GEMM");
    check(dnnl_memory_destroy(m->x), "memory");
    check(dnnl_memory_destroy(m->w), "memory");
    check(dnnl_memory_destroy(m->y), "memory");
    check(dnnl_stream_destroy(m->stream), "the stream");
    check(dnnl_engine_destroy(m->engine), "the engine");
    free(m);
}

const struct peer peer_dnnl_f32 = {"oneDNN f32", false, make_f32, run, free_made, NULL};
const struct peer peer_dnnl_bf16 = {"oneDNN bf16", true, make_bf16, run, free_made, NULL};
