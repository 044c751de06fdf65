/* y = alpha · (x · wᵀ (+ bias)) (+ residual) by cuBLASLt.
 *
 * cuBLASLt counts columns first, so a row-major y [T, n_out] is its D [n_out, T], w is its A, transposed, and x is its
 * B. The residual is its C (beta 1), a float bias its epilogue, which alpha does not touch. Where y is not float the
 * epilogue wants the bias in y's type. Either way it is scaled and rounded into an area of this device's just before
 * (exact where alpha is 1 and the file's bias has that type).
 *
 * Choice. The library's heuristics are asked once for each shape and bucket of tokens (2^k and 3 · 2^k), and their
 * first answer, an algorithm, is kept; T tokens use the bucket above. So nothing is chosen while serving, and the
 * choice does not depend on a measurement. Where y is float, k may be split (split-K), the parts reduced as floats in a
 * fixed order; others would be rounded once more on the way. A shape that was not prepared is chosen when it first
 * comes: the same choice, only later. Where the library has no answer (odd strides) a plain kernel of ours stands in.
 */
#include "device/cuda/gemm_cublaslt.h"

#include <stdlib.h>

#include "core/check.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/gemm_buckets.h"

enum {
    WORKSPACE_BYTES = 32 * 1024 * 1024,
    BIAS_BYTES = 8 * 1024 * 1024,
    SHAPES_N = 64,   /* of one model: four a layer, the head, and with and without residual */
    ALIGN_BYTES = 16 /* of tensors; a shape with odd strides is chosen for less */
};

/* What an algorithm was chosen for. */
struct shape {
    int n_in, n_out, x_stride, y_stride;
    bool y_float, bias, residual;
};

struct choice {
    struct shape shape;
    bool chosen[LF_GEMM_BUCKETS_N];
    bool plain[LF_GEMM_BUCKETS_N]; /* the library has none: odd strides, say */
    cublasLtMatmulAlgo_t algo[LF_GEMM_BUCKETS_N];
};

struct lf_cuda_gemm {
    struct lf_cublaslt lt;
    cublasLtHandle_t handle;
    void *workspace; /* [WORKSPACE_BYTES] */
    void *bias;      /* [BIAS_BYTES]: scaled and rounded, from one GEMM to the next */
    int n_choices, next_out;
    struct choice choices[SHAPES_N];
};

/* A GEMM as the library wants it said. Lives on the stack: the library copies what it keeps. */
struct problem {
    const struct lf_cublaslt *lt;
    cublasLtMatmulDescOpaque_t op;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

/* cuBLAS has codes of its own; those of CUDA end below 1000. */
static void check_lt(struct lf_device *dev, cublasStatus_t rc, const char *what)
{
    if (rc == CUBLAS_STATUS_SUCCESS) return;
    (void)lf_sticky_note(&dev->cuda->sticky, 10000 + (int)rc, what, dev->cuda->gemm->lt.status_string(rc));
}

static struct shape shape_of(const struct lf_gemm_params *p)
{
    return (struct shape){.n_in = p->w->n_in,
                          .n_out = p->w->n_out,
                          .x_stride = p->x_stride,
                          .y_stride = p->y_stride,
                          .y_float = p->y_float,
                          .bias = p->bias != NULL,
                          .residual = p->residual != NULL};
}

static bool same_shape(const struct shape *a, const struct shape *b)
{
    return a->n_in == b->n_in && a->n_out == b->n_out && a->x_stride == b->x_stride && a->y_stride == b->y_stride &&
           a->y_float == b->y_float && a->bias == b->bias && a->residual == b->residual;
}

/* The shape's entry; past the table's end the oldest is forgotten. */
static struct choice *choice_of(struct lf_cuda_gemm *gemm, const struct lf_gemm_params *p)
{
    struct shape shape = shape_of(p);
    for (int i = 0; i < gemm->n_choices; i++)
        if (same_shape(&gemm->choices[i].shape, &shape)) return &gemm->choices[i];
    struct choice *c = &gemm->choices[gemm->next_out];
    gemm->n_choices = LF_MIN(gemm->n_choices + 1, (int)SHAPES_N);
    gemm->next_out = (gemm->next_out + 1) % SHAPES_N;
    *c = (struct choice){.shape = shape};
    return c;
}

static cublasStatus_t set(struct problem *pr, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes)
{
    return pr->lt->desc_set_attribute(&pr->op, what, value, bytes);
}

static cublasStatus_t layout(const struct problem *pr, cublasLtMatrixLayoutOpaque_t *of, cudaDataType_t type,
                             uint64_t n_rows, uint64_t n_columns, int stride)
{
    return pr->lt->layout_init(of, sizeof *of, type, n_rows, n_columns, stride);
}

static cublasStatus_t describe(struct problem *pr, const struct shape *s, int n_tokens, cudaDataType_t act)
{
    cudaDataType_t out = s->y_float ? CUDA_R_32F : act;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t with_bias = CUBLASLT_EPILOGUE_BIAS;
    uint64_t n_in = (uint64_t)s->n_in, n_out = (uint64_t)s->n_out, t = (uint64_t)n_tokens;
    cublasStatus_t rc = pr->lt->desc_init(&pr->op, sizeof pr->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = set(pr, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (rc == CUBLAS_STATUS_SUCCESS && s->bias)
        rc = set(pr, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias, sizeof with_bias);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = layout(pr, &pr->w, act, n_in, n_out, s->n_in);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = layout(pr, &pr->x, act, n_in, t, s->x_stride);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = layout(pr, &pr->y, out, n_out, t, s->y_stride);
    return rc;
}

/* The largest power of two up to ALIGN_BYTES that divides all. */
static uint32_t align_of(const struct shape *s, size_t x_elem, size_t y_elem)
{
    size_t all = (size_t)s->n_in * x_elem | (size_t)s->x_stride * x_elem | (size_t)s->y_stride * y_elem | ALIGN_BYTES;
    return (uint32_t)(all & (~all + 1));
}

static cublasStatus_t prefer(const struct lf_cublaslt *lt, cublasLtMatmulPreferenceOpaque_t *pref, uint32_t align,
                             bool y_float)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t split = y_float ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
    const size_t workspace = WORKSPACE_BYTES;
    cublasStatus_t rc = lt->preference_init(pref, sizeof *pref);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = lt->preference_set_attribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = lt->preference_set_attribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &split, sizeof split);
    for (size_t i = 0; i < LF_N_ELEMS(aligned) && rc == CUBLAS_STATUS_SUCCESS; i++)
        rc = lt->preference_set_attribute(pref, aligned[i], &align, sizeof align);
    return rc;
}

static cudaDataType_t act_type(const struct lf_device *dev)
{
    return dev->info.act_dtype == LF_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static void choose(struct lf_device *dev, struct choice *c, int bucket)
{
    struct lf_cuda_gemm *gemm = dev->cuda->gemm;
    struct problem pr = {.lt = &gemm->lt};
    cublasLtMatmulPreferenceOpaque_t pref;
    cublasLtMatmulHeuristicResult_t found;
    int n_found = 0;
    size_t act = lf_dtype_bytes(dev->info.act_dtype);
    cublasStatus_t rc = describe(&pr, &c->shape, lf_gemm_bucket_tokens(bucket), act_type(dev));
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = prefer(&gemm->lt, &pref, align_of(&c->shape, act, c->shape.y_float ? sizeof(float) : act),
                    c->shape.y_float);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = gemm->lt.algo_get_heuristic(gemm->handle, &pr.op, &pr.w, &pr.x, &pr.y, &pr.y, &pref, 1, &found, &n_found);
    c->plain[bucket] = rc == CUBLAS_STATUS_NOT_SUPPORTED || (rc == CUBLAS_STATUS_SUCCESS && n_found == 0);
    if (!c->plain[bucket]) check_lt(dev, rc, "choosing a GEMM algorithm");
    if (!c->plain[bucket]) c->algo[bucket] = found.algo;
    c->chosen[bucket] = true;
}

/* The bias as the epilogue takes it. */
static const void *bias_for(struct lf_device *dev, const struct lf_gemm_params *p)
{
    if (p->y_float && p->alpha == 1.0f) return p->bias;
    LF_ASSERT((size_t)p->w->n_out * lf_dtype_bytes(p->y_float ? LF_F32 : dev->info.act_dtype) <= BIAS_BYTES);
    void *made = dev->cuda->gemm->bias;
    lf_cuda_check(dev, lf_cuda_scale(made, p->y_float, p->bias, p->alpha, p->w->n_out, lf_cuda_launch(dev)), "bias");
    return made;
}

static void run(struct lf_device *dev, const struct lf_gemm_params *p, const struct choice *c, int bucket)
{
    const float one = 1.0f, zero = 0.0f;
    struct lf_cuda_gemm *gemm = dev->cuda->gemm;
    struct problem pr = {.lt = &gemm->lt};
    cublasStatus_t rc = describe(&pr, &c->shape, p->n_tokens, act_type(dev));
    if (rc == CUBLAS_STATUS_SUCCESS && p->bias != NULL) {
        const void *bias = bias_for(dev, p);
        rc = set(&pr, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (rc == CUBLAS_STATUS_SUCCESS && lf_cuda_ok(dev))
        rc = gemm->lt.matmul(gemm->handle, &pr.op, &p->alpha, p->w->data, &pr.w, p->x, &pr.x,
                             p->residual != NULL ? &one : &zero, p->residual != NULL ? p->residual : p->y, &pr.y, p->y,
                             &pr.y, &c->algo[bucket], gemm->workspace, WORKSPACE_BYTES, dev->cuda->stream);
    check_lt(dev, rc, "GEMM");
}

void lf_cuda_gemm_run(struct lf_device *dev, const struct lf_gemm_params *p)
{
    struct choice *c = choice_of(dev->cuda->gemm, p);
    int bucket = lf_gemm_bucket_of(p->n_tokens);
    if (!c->chosen[bucket]) choose(dev, c, bucket);
    if (!lf_cuda_ok(dev)) return;
    if (c->plain[bucket])
        lf_cuda_check(dev, lf_cuda_gemm_any(p, lf_cuda_launch(dev)), "GEMM");
    else
        run(dev, p, c, bucket);
}

void lf_cuda_gemm_prepare(struct lf_device *dev, const struct lf_gemm_params *p)
{
    for (int bucket = 0; bucket <= lf_gemm_bucket_of(p->n_tokens); bucket++) {
        struct lf_gemm_params q = *p;
        q.n_tokens = LF_MIN(lf_gemm_bucket_tokens(bucket), p->n_tokens);
        lf_cuda_gemm_run(dev, &q);
    }
}

enum lf_status lf_cuda_gemm_create(struct lf_device *dev, struct lf_err *err)
{
    struct lf_cuda_gemm *gemm = calloc(1, sizeof *gemm);
    if (gemm == NULL) return lf_fail(err, LF_NO_MEMORY, "no memory for GEMMs");
    dev->cuda->gemm = gemm;
    enum lf_status found = lf_cublaslt_open(&gemm->lt, err);
    /* not LF_NOT_FOUND, behind which --device auto goes on to the CPU in silence: there is a GPU */
    if (found == LF_NOT_FOUND) found = LF_UNSUPPORTED;
    if (found != LF_OK && err) err->status = found;
    if (found != LF_OK) return found;
    cublasStatus_t rc = gemm->lt.create(&gemm->handle);
    if (rc != CUBLAS_STATUS_SUCCESS)
        return lf_fail(err, LF_DEVICE, "cuBLASLt does not start: %s", gemm->lt.status_string(rc));
    cudaError_t alloc = cudaMalloc(&gemm->workspace, WORKSPACE_BYTES);
    if (alloc == cudaSuccess) alloc = cudaMalloc(&gemm->bias, BIAS_BYTES);
    if (alloc != cudaSuccess) {
        (void)cudaGetLastError();
        return lf_fail(err, LF_NO_MEMORY, "workspace of GEMMs, %d bytes: %s", WORKSPACE_BYTES + BIAS_BYTES,
                       cudaGetErrorString(alloc));
    }
    return LF_OK;
}

void lf_cuda_gemm_destroy(struct lf_device *dev)
{
    struct lf_cuda_gemm *gemm = dev->cuda->gemm;
    if (gemm == NULL) return;
    if (gemm->bias != NULL) (void)cudaFree(gemm->bias);
    if (gemm->workspace != NULL) (void)cudaFree(gemm->workspace);
    if (gemm->handle != NULL) (void)gemm->lt.destroy(gemm->handle);
    lf_cublaslt_close(&gemm->lt);
    free(gemm);
    dev->cuda->gemm = NULL;
}
