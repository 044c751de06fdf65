/* How the elements of a weight matrix are written: plain, as numbers of an element type, or coded, as small codes whose
 * numbers a scale multiplies (quantized).
 *
 * A scale belongs to a group: `group` consecutive columns (k) of `group_rows` rows. Formats that checkpoints have:
 *
 *     FP8 in blocks of 128 x 128         E4M3, group 128, group_rows 128     (DeepSeek-V3, arXiv 2412.19437, 3.3)
 *     FP8, int8 of one scale a row       E4M3 / I8, group 0
 *     FP8 of one scale a tensor          the same, with equal scales
 *     GPTQ, AWQ, pack-quantized          I4, group 32, 64, 128 or 0, with zero points or without
 *     MXFP4 (OCP Microscaling 1.0)       E2M1, group 32, scales powers of two
 *
 * Every reader of a checkpoint and every quantizer makes canonical rows (struct lf_quant_rows), and every packer takes
 * those; how a device keeps them is its own. core/quant.h has the arithmetic. Plain data; any thread. */
#ifndef LF_CORE_FORMAT_H
#define LF_CORE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

enum lf_code {
    LF_CODE_NONE, /* plain elements of dtype */
    LF_CODE_E4M3, /* FP8: 1 sign, 4 exponent (bias 7), 3 mantissa; no infinity, 0x7f and 0xff are NaN (OCP FP8 1.0) */
    LF_CODE_I8,   /* two's complement */
    LF_CODE_I4,   /* 0 to 15, less a zero point */
    LF_CODE_E2M1  /* 0 to 15: 1 sign, 2 exponent (bias 1), 1 mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6 */
};

struct lf_format {
    enum lf_dtype dtype; /* plain: of the elements. Coded: what the values are rounded to where they are expanded */
    enum lf_code code;
    int group;      /* consecutive columns of a row that share a scale, the last group may be short; 0: the whole row */
    int group_rows; /* rows that share it: 1, or more in blocks, the last of which may be short. Plain: 0 */
    bool zeros;     /* of I4: each group has a zero point of its own; else it is LF_I4_ZERO */
    enum lf_dtype scales; /* coded: a type that every scale is exactly a number of, so that a device may keep it as one;
                             LF_F32, which any is, where nothing is known. Plain: LF_F32 */
};
enum { LF_I4_ZERO = 8, LF_FORMAT_NAME_BYTES = 48 };

/* Rows of a coded matrix, one byte a code: value = scale · (number of the code - zero), in float. Borrowed. */
struct lf_quant_rows {
    const uint8_t *codes; /* [n_rows, n_in]: E4M3 and I8 as they are, I4 and E2M1 in the low four bits, the others 0 */
    const float *scales;  /* [n_rows, n_groups]: repeated for rows and groups that share one */
    const uint8_t *zeros; /* [n_rows, n_groups] of I4 with zeros, each 0 to 16; else NULL */
};

static inline struct lf_format lf_format_plain(enum lf_dtype dtype)
{
    struct lf_format f = {dtype, LF_CODE_NONE, 0, 0, false, LF_F32}; /* all of it: C++ warns of members left out */
    return f;
}
static inline bool lf_format_is_plain(const struct lf_format *f)
{
    return f->code == LF_CODE_NONE;
}
static inline bool lf_format_equal(const struct lf_format *a, const struct lf_format *b)
{
    return a->dtype == b->dtype && a->code == b->code && a->group == b->group && a->group_rows == b->group_rows &&
           a->zeros == b->zeros && a->scales == b->scales;
}
/* Columns that share a scale in a matrix of n_in columns. */
static inline int lf_format_group(const struct lf_format *f, int n_in)
{
    return f->group > 0 && f->group < n_in ? f->group : n_in;
}
/* Groups of a row: n_groups. */
static inline int lf_format_n_groups(const struct lf_format *f, int n_in)
{
    int group = lf_format_group(f, n_in);
    return (n_in + group - 1) / group;
}

/* Bytes of an element of a matrix with n_in columns, its share of scales (2 bytes, of E2M1 1) and zero points (a half)
 * included: the least that it takes anywhere. */
double lf_format_elem_bytes(const struct lf_format *f, int n_in);

const char *lf_code_name(enum lf_code code); /* "plain", "fp8", "int8", "int4", "fp4" */
/* For people, into name: "bf16", "int8", "int4 in groups of 128 with zero points", "fp8 in blocks of 128x128". */
void lf_format_name(char name[LF_FORMAT_NAME_BYTES], const struct lf_format *f);

#endif
