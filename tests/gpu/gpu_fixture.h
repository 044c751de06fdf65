/* What the programs of the GPU lane share: the device (or exit 77), tensors in its memory between canaries, tolerances.
 * Each program runs its cases with bf16 and with fp16 activations. */
#ifndef LF_TESTS_GPU_GPU_FIXTURE_H
#define LF_TESTS_GPU_GPU_FIXTURE_H

#include "tests/parity/device/ops_fixture.h"

#include "core/check.h"

enum { GPU_CANARY_BYTES = 256 };

static char gpu_case[160];    /* named when the device fails */
static struct lf_device *gpu; /* of the case in hand */
static const struct lf_ops *gpu_ops;
static enum lf_dtype gpu_act;

static inline struct lf_device *gpu_open(enum lf_dtype act)
{
    struct lf_device *dev = NULL;
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cuda", .act_dtype = act, .max_isa = -1};
    enum lf_status status = lf_device_open(&dev, &opts, &err);
    if (status == LF_OK) return dev;
    printf("%s\n", err.message);
    exit(status == LF_NOT_FOUND || status == LF_UNSUPPORTED ? 77 : 1);
}

/* Runs the tests once for each type of activations, but for those that LF_GPU_SKIP names, if set (`*` and `?`). */
static inline int gpu_run_(const struct CMUnitTest *tests, size_t n)
{
    static const enum lf_dtype acts[] = {LF_BF16, LF_F16};
    int failed = 0;
    cmocka_set_skip_filter(getenv("LF_GPU_SKIP"));
    for (size_t i = 0; i < LF_N_ELEMS(acts); i++) {
        gpu_act = acts[i];
        gpu = gpu_open(gpu_act);
        gpu_ops = lf_device_ops(gpu);
        printf("activations: %s on %s\n", lf_dtype_name(gpu_act), lf_device_info(gpu)->name);
        failed += _cmocka_run_group_tests(lf_dtype_name(gpu_act), tests, n, NULL, NULL);
        lf_device_close(gpu);
    }
    return failed;
}
#define gpu_run(tests) gpu_run_(tests, LF_N_ELEMS(tests))

/* How often something random or repeated is done: n times, or with LF_GPU_PART=k in the environment a k-th of it, for
 * compute-sanitizer, under which all of it takes hours. At least twice. */
static inline int gpu_times(int n)
{
    const char *part = getenv("LF_GPU_PART");
    long k = part == NULL ? 1 : strtol(part, NULL, 10);
    return k <= 1 ? n : (int)LF_MAX(2, n / k);
}

static inline void gpu_sync(void)
{
    struct lf_err err = {LF_OK, ""};
    if (lf_device_sync(gpu, &err) != LF_OK) fail_msg("%s (%s)", err.message, gpu_case);
}

/* ---- tensors ---- */

struct gpu_tensor {
    struct lf_buffer buf;
    char *ptr; /* device, 256-byte aligned */
    enum lf_dtype dtype;
    size_t n;
};

/* Every byte is 0xff, NaN in each of the types, around the tensor too. */
static inline struct gpu_tensor gpu_poisoned(enum lf_dtype dtype, size_t n)
{
    struct gpu_tensor t = {.dtype = dtype, .n = n};
    size_t bytes = n * lf_dtype_bytes(dtype) + 2 * GPU_CANARY_BYTES;
    char *poison = malloc(bytes);
    assert_non_null(poison);
    memset(poison, 0xff, bytes);
    assert_int_equal(lf_buffer_alloc(gpu, &t.buf, bytes, "tensor", NULL), LF_OK);
    lf_upload(gpu, t.buf.ptr, poison, bytes);
    t.ptr = (char *)t.buf.ptr + GPU_CANARY_BYTES;
    free(poison);
    return t;
}

/* A tensor of these values, which are rounded to dtype on the way and in place. */
static inline struct gpu_tensor gpu_tensor(enum lf_dtype dtype, float *values, size_t n)
{
    struct gpu_tensor t = gpu_poisoned(dtype, n);
    char *raw = malloc(n * lf_dtype_bytes(dtype) + 1);
    assert_non_null(raw);
    lf_from_f32(raw, dtype, values, n);
    lf_to_f32(values, raw, dtype, n);
    lf_upload(gpu, t.ptr, raw, n * lf_dtype_bytes(dtype));
    free(raw);
    return t;
}

static inline struct gpu_tensor gpu_random(enum lf_dtype dtype, uint64_t *seed, size_t n, float scale, float **values)
{
    *values = fixture_floats(seed, n, scale);
    return gpu_tensor(dtype, *values, n);
}

static inline struct gpu_tensor gpu_ids(const int32_t *ids, size_t n)
{
    struct gpu_tensor t = gpu_poisoned(LF_F32, n);
    lf_upload(gpu, t.ptr, ids, n * sizeof *ids);
    return t;
}

/* The raw bytes; checks the canaries. Freed by the caller. */
static inline char *gpu_read_raw(const struct gpu_tensor *t)
{
    size_t bytes = t->n * lf_dtype_bytes(t->dtype);
    unsigned char *all = malloc(bytes + 2 * GPU_CANARY_BYTES);
    assert_non_null(all);
    lf_download(gpu, all, t->buf.ptr, bytes + 2 * GPU_CANARY_BYTES);
    gpu_sync();
    for (size_t i = 0; i < GPU_CANARY_BYTES; i++) {
        assert_int_equal(all[i], 0xff);
        assert_int_equal(all[GPU_CANARY_BYTES + bytes + i], 0xff);
    }
    memmove(all, all + GPU_CANARY_BYTES, bytes);
    return (char *)all;
}

/* The values, widened. Freed by the caller. */
static inline float *gpu_read(const struct gpu_tensor *t)
{
    char *raw = gpu_read_raw(t);
    float *out = fixture_alloc(t->n * sizeof *out);
    lf_to_f32(out, raw, t->dtype, t->n);
    free(raw);
    return out;
}

static inline void gpu_free(struct gpu_tensor *t)
{
    lf_buffer_free(gpu, &t->buf);
}

/* How far a number of this size moves when it is rounded to dtype. */
static inline double gpu_rounding(enum lf_dtype dtype, double x)
{
    if (dtype == LF_BF16) return ldexp(fabs(x), -8) + 1e-38;
    if (dtype == LF_F16) return ldexp(fabs(x), -11) + ldexp(1.0, -25);
    return ldexp(fabs(x), -24) + 1e-38;
}

/* A weight in device memory and its values as the GPU has them. */
struct gpu_weight {
    struct lf_weight w;
    struct gpu_tensor tensor;
    float *values; /* [n_out, n_in] */
};

static inline struct gpu_weight gpu_weight(uint64_t *seed, enum lf_dtype file_dtype, int n_out, int n_in, float scale)
{
    size_t n = (size_t)n_out * (size_t)n_in, elem = lf_dtype_bytes(file_dtype);
    struct gpu_weight gw = {.w = {.format.dtype = file_dtype, .n_out = n_out, .n_in = n_in}};
    gw.values = fixture_floats(seed, n, scale);
    gw.tensor = gpu_poisoned(gpu_act, n);
    gw.w.data = gw.tensor.ptr;
    assert_int_equal(gpu_ops->weight_bytes(&gw.w.format, n_out, n_in), n * 2);
    char *file = malloc(n * elem + 1), *packed = malloc(n * 2);
    assert_true(file != NULL && packed != NULL);
    lf_from_f32(file + 1, file_dtype, gw.values, n);
    lf_to_f32(gw.values, file + 1, file_dtype, n);
    lf_from_f32(packed, gpu_act, gw.values, n);
    lf_to_f32(gw.values, packed, gpu_act, n);
    /* in two pieces, the later one first, from an odd address */
    int cut = fixture_between(seed, 0, n_out);
    gpu_ops->weight_pack(gpu, &gw.w, cut, n_out - cut, file + 1 + (size_t)cut * (size_t)n_in * elem);
    gpu_ops->weight_pack(gpu, &gw.w, 0, cut, file + 1);
    free(packed);
    free(file);
    return gw;
}

static inline void gpu_weight_free(struct gpu_weight *gw)
{
    gpu_free(&gw->tensor);
    free(gw->values);
}

#endif
