/* What the parity programs of the device share: a device of the instruction set named on the command line, random
 * tensors, guarded outputs. A program that is asked for an instruction set the machine lacks says so and exits 77. */
#ifndef LF_TESTS_PARITY_DEVICE_OPS_FIXTURE_H
#define LF_TESTS_PARITY_DEVICE_OPS_FIXTURE_H

#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>

#include "core/dtype.h"
#include "device/ops.h"

static const enum lf_dtype fixture_dtypes[] = {LF_F32, LF_F16, LF_BF16};

/* The lf_isa called name; exits with 2 for a name that is none. */
static inline enum lf_isa fixture_isa(const char *name)
{
    for (int i = LF_ISA_C; i <= LF_ISA_AMX; i++)
        if (strcmp(name, lf_isa_name((enum lf_isa)i)) == 0) return (enum lf_isa)i;
    fprintf(stderr, "no instruction set is called %s\n", name);
    exit(2);
}

static inline struct lf_device *fixture_open(enum lf_isa isa, int n_threads)
{
    struct lf_device *dev = NULL;
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = n_threads, .max_isa = (int)isa};
    enum lf_status status = lf_device_open(&dev, &opts, &err);
    if (status == LF_OK) return dev;
    fprintf(stderr, "%s\n", err.message);
    exit(status == LF_UNSUPPORTED ? 77 : 1);
}

/* ---- random numbers: normal, with a rare outlier ---- */

static inline uint32_t fixture_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static inline int fixture_between(uint64_t *seed, int low, int high)
{
    return low + (int)(fixture_random(seed) % (uint32_t)(high - low + 1));
}

static inline float fixture_normal(uint64_t *seed)
{
    /* the sum of twelve uniform numbers has variance 1 */
    double sum = -6.0;
    for (int i = 0; i < 12; i++) sum += fixture_random(seed) / 2147483648.0;
    if (fixture_random(seed) % 1000 == 0) sum *= 10.0;
    return (float)sum;
}

static inline void *fixture_alloc(size_t bytes)
{
    void *ptr = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(ptr);
    return ptr;
}

static inline float *fixture_floats(uint64_t *seed, size_t n, float scale)
{
    float *out = fixture_alloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = fixture_normal(seed) * scale;
    return out;
}

/* To numbers of the type that a format's scales have. */
static inline void fixture_round_scales(const struct lf_format *f, float *scales, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char rounded[sizeof(float)];
        lf_from_f32(rounded, f->scales, scales + i, 1);
        lf_to_f32(scales + i, rounded, f->scales, 1);
    }
}

/* ---- outputs between canaries ---- */

enum { FIXTURE_CANARIES = 64 };
#define FIXTURE_CANARY 0x7fc0abcdu /* a NaN: an op that adds to it shows too */

struct fixture_out {
    float *ptr;
    float *base;
    size_t n;
};

static inline void fixture_put_canary(float *at)
{
    uint32_t canary = FIXTURE_CANARY;
    memcpy(at, &canary, sizeof canary);
}

static inline void fixture_check_canary(const float *at)
{
    uint32_t got;
    memcpy(&got, at, sizeof got);
    assert_int_equal(got, FIXTURE_CANARY);
}

static inline struct fixture_out fixture_out(size_t n)
{
    struct fixture_out out = {.base = fixture_alloc((n + 2 * FIXTURE_CANARIES) * sizeof(float)), .n = n};
    for (size_t i = 0; i < n + 2 * FIXTURE_CANARIES; i++) fixture_put_canary(out.base + i);
    out.ptr = out.base + FIXTURE_CANARIES;
    return out;
}

static inline void fixture_out_check_and_free(struct fixture_out *out)
{
    for (size_t i = 0; i < FIXTURE_CANARIES; i++) {
        fixture_check_canary(out->base + i);
        fixture_check_canary(out->ptr + out->n + i);
    }
    free(out->base);
}

#endif
