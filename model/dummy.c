/* Random bits made into weights by their exponent alone.
 *
 * A matrix element has a random sign, random mantissa bits and one fixed exponent: its magnitude is uniform in [s, 2s),
 * mean 0, root mean square s·√(7/3). s is the power of two that brings this nearest to 1/√n_in, so that a GEMM keeps
 * the size of its input and activations stay finite through any number of layers. No conversion is needed, so a value
 * costs a fraction of a nanosecond and an 8B model a few seconds. Norm weights are 1, biases small.
 *
 * Coded elements are random codes, of FP8 with one fixed exponent too, times a power of two of the same purpose.
 *
 * Rows are counters of their own: 64-bit words lf_mix64(key of the row + i), each cut into elements. */
#include "model/dummy.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/mix.h"
#include "core/str.h"

/* FNV-1a: the same in every process, as lf_hash64 is not. */
static uint64_t name_hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

/* For each type: bits kept of a random word's lane, and the exponent field of 2^e in every lane. */
struct lanes {
    uint64_t random, exponent;
};

static struct lanes lanes_of(enum lf_dtype dtype, int e)
{
    uint64_t field;
    switch (dtype) {
    case LF_BF16:
        field = (uint64_t)(e + 127) << 7;
        return (struct lanes){0x807f807f807f807fu, field * 0x0001000100010001u};
    case LF_F16:
        field = (uint64_t)(e + 15) << 10;
        return (struct lanes){0x83ff83ff83ff83ffu, field * 0x0001000100010001u};
    case LF_F32:
    case LF_E4M3: /* no weights' */
        break;
    }
    field = (uint64_t)(e + 127) << 23;
    return (struct lanes){0x807fffff807fffffu, field * 0x0000000100000001u};
}

/* Bits kept of a code's random byte, bits set, and the root mean square of what comes of it. */
struct codes {
    uint8_t random, set;
    double rms;
};

static struct codes codes_of(enum lf_code code)
{
    switch (code) {
    case LF_CODE_E4M3:
        return (struct codes){0x87, 0x38, 1.46}; /* 1 to 1.875 */
    case LF_CODE_I4:
        return (struct codes){0x0f, 0, 4.6};
    case LF_CODE_E2M1:
        return (struct codes){0x0f, 0, 2.9};
    case LF_CODE_I8:
    case LF_CODE_NONE: /* no coded rows' */
        break;
    }
    return (struct codes){0xff, 0, 74.0};
}

static void fill_row(unsigned char *out, struct lanes lanes, uint64_t key, size_t n_bytes)
{
    size_t i = 0;
    uint64_t counter = 0;
    for (; i + 8 <= n_bytes; i += 8, counter++) {
        uint64_t bits = (lf_mix64(key + counter) & lanes.random) | lanes.exponent;
        memcpy(out + i, &bits, 8);
    }
    if (i < n_bytes) {
        uint64_t bits = (lf_mix64(key + counter) & lanes.random) | lanes.exponent;
        memcpy(out + i, &bits, n_bytes - i);
    }
}

static uint64_t tensor_key(const char *name, uint64_t seed)
{
    return lf_mix64(name_hash(name) ^ lf_mix64(seed));
}

void lf_dummy_codes(const struct lf_quant_room *out, const struct lf_format *f, const char *name, uint64_t seed,
                    int n_in, int row_first, int from, int n_rows)
{
    struct codes codes = codes_of(f->code);
    struct lanes lanes = {codes.random * 0x0101010101010101u, codes.set * 0x0101010101010101u};
    float scale = ldexpf(1.0f, (int)lrint(-0.5 * log2((double)n_in * codes.rms * codes.rms)));
    size_t n_groups = (size_t)lf_format_n_groups(f, n_in);
    uint64_t key = tensor_key(name, seed);
    for (int r = from; r < from + n_rows; r++) {
        fill_row(out->codes + (size_t)r * (size_t)n_in, lanes, lf_mix64(key + (uint64_t)(row_first + r)), (size_t)n_in);
        for (size_t g = 0; g < n_groups; g++) out->scales[(size_t)r * n_groups + g] = scale;
        if (out->zeros) memset(out->zeros + (size_t)r * n_groups, LF_I4_ZERO, n_groups);
    }
}

void lf_dummy_fill(void *out, enum lf_dtype dtype, const char *name, uint64_t seed, int n_in, int row_first, int n_rows)
{
    struct lf_str s = lf_str_c(name);
    unsigned char *at = out;
    size_t row_bytes = (size_t)n_in * lf_dtype_bytes(dtype);
    if (lf_str_ends(s, LF_STR("norm.weight"))) {
        const float one = 1.0f;
        size_t size = lf_dtype_bytes(dtype);
        for (size_t i = 0; i < (size_t)n_rows * (size_t)n_in; i++) lf_from_f32(at + i * size, dtype, &one, 1);
        return;
    }
    /* √(7/3)·2^e = 1/√n_in, to the nearest e; a bias is 2^-6 and up to twice that. Of experts it is "…_bias.3". */
    bool is_bias = lf_str_ends(s, LF_STR(".bias")) || lf_str_find(s, LF_STR("_bias.")) >= 0;
    int e = is_bias ? -6 : (int)lrint(-0.5 * log2((double)n_in * 7.0 / 3.0));
    struct lanes lanes = lanes_of(dtype, e);
    uint64_t key = tensor_key(name, seed);
    for (int r = 0; r < n_rows; r++, at += row_bytes) {
        fill_row(at, lanes, lf_mix64(key + (uint64_t)(row_first + r)), row_bytes);
    }
}
