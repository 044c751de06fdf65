/* How quantized matrices stand in files, and reading them into canonical rows (core/format.h).
 *
 * A quantized matrix is several tensors: codes and scales, and where its format has them zero points, the group of each
 * column (act-order), a factor of all scales. A scheme is what config.json says of a matrix: numbers. A packing is the
 * order in which a format's tensors hold them: a row of names, types and shapes, and two functions that take codes and
 * zero points out of the bytes; all else is the same for all formats and stands in packing.c.
 *
 *     packing        codes of [n_out, n_in]                                   scales of each            zero points
 *     bytes          [n_out, n_in], a byte each                               row or block and group    a byte
 *     int32 rows     [n_out, n_in / 8], along a row, the lowest bits first    row and group             along a column
 *     gptq           [n_in / 8, n_out], along a row, the lowest bits first    group and row             along a group
 *     awq            [n_in, n_out / 8], rows 0 2 4 6 1 3 5 7 in a word        group and row             as codes
 *     fp4            [n_out, n_in / 2], along a row, the lower half first     row and group             none
 *
 * (8 of 4 bits in a word, or 4 of 8.) A packed tensor of experts has one dimension more, and each expert's share is a
 * matrix of its own. Plain data; any thread. */
#ifndef LF_MODEL_FORMATS_PACKING_H
#define LF_MODEL_FORMATS_PACKING_H

#include <string.h>

#include "core/format.h"
#include "core/status.h"

enum lf_source {
    LF_SOURCE_CODES,
    LF_SOURCE_SCALES,
    LF_SOURCE_ZEROS,
    LF_SOURCE_ORDER,  /* the group of each column */
    LF_SOURCE_FACTOR, /* one number, of all scales */
    LF_SOURCE_SHAPE,  /* n_out and n_in once more */
    LF_SOURCES_N
};

/* Types that numbers of sources have in files. */
enum lf_source_type {
    LF_SOURCE_F32,
    LF_SOURCE_F16,
    LF_SOURCE_BF16,
    LF_SOURCE_F8_E4M3,
    LF_SOURCE_F8_E8M0, /* powers of two, 2^(byte - 127); also what is stored as U8 */
    LF_SOURCE_I8,
    LF_SOURCE_U8,
    LF_SOURCE_I32,
    LF_SOURCE_I64
};

struct lf_packing;

/* What a configuration says of a matrix. */
struct lf_scheme {
    const struct lf_packing *packing; /* static */
    enum lf_code code;
    int bits;           /* of a code in its file: 4 or 8 */
    int group;          /* columns that share a scale; 0: the whole row */
    int group_rows;     /* rows that share it; 0: all */
    bool zeros;         /* groups have zero points, else codes have one in the middle, as core/format.h has it */
    bool act_order;     /* columns are in any group */
    bool zero_less_one; /* a zero point is stored less 1 (GPTQ's first version) */
};

enum { LF_SOURCE_NAMES_N = 2, LF_SOURCE_TYPES_N = 4 };

/* A source as a row of a packing's table. */
struct lf_source_row {
    const char *suffixes[LF_SOURCE_NAMES_N]; /* behind the module's name: the first that is there; NULL: none more */
    const char *stacked;                     /* behind the name of a tensor of all experts, which ends otherwise */
    uint16_t types;                          /* bits, 1 << enum lf_source_type */
    bool optional;
};

/* A matrix in memory, as its tensors hold it: of one expert, where there are some. */
struct lf_packed {
    const struct lf_scheme *scheme;
    int n_out, n_in;                      /* of the tensors, which may have more rows than a part of a slot takes */
    int codes_from;                       /* the row with which codes begin; not 0 only where codes lie row by row */
    const uint8_t *sources[LF_SOURCES_N]; /* NULL: it has none */
    enum lf_source_type types[LF_SOURCES_N];
};

struct lf_packing {
    const char *name; /* for messages */
    struct lf_source_row rows[LF_SOURCES_N];
    bool by_rows;              /* codes lie row by row, so that some can be read alone */
    bool scales_by_group;      /* scales are [groups, rows], else [rows, groups] */
    bool factor_divides;       /* scales are divided by the factor, else multiplied */
    bool fills_rows, fills_in; /* words are full: rows, or columns, are a multiple of the codes in one */
    /* The shape of codes, and of zero points. */
    void (*shape)(const struct lf_scheme *scheme, enum lf_source source, int n_out, int n_in, int dims[2]);
    /* Codes of rows [row, row + n) into out [n, n_in]. */
    void (*codes)(const struct lf_packed *p, int row, int n, uint8_t *out);
    /* The zero point of a row and a group of the file, 0 to 2^bits - 1: of signed codes the zero point + 2^(bits - 1).
     */
    uint8_t (*zero)(const struct lf_packed *p, int row, int group);
};

/* The packings, a file each. */
extern const struct lf_packing lf_packing_fp8, lf_packing_int8, lf_packing_int32, lf_packing_gptq, lf_packing_awq,
    lf_packing_mxfp4, lf_packing_nvfp4, lf_packing_nvfp4_modelopt;

enum { LF_WORD_BITS = 32 };
/* `bits` bits of word i of a source from bit `at` on. */
static inline uint8_t lf_word_bits(const uint8_t *words, size_t i, int at, int bits)
{
    uint32_t word;
    memcpy(&word, words + i * sizeof(word), sizeof(word));
    return (uint8_t)(word >> at & ((1u << bits) - 1));
}

/* Groups of a row in the file. */
int lf_scheme_n_groups(const struct lf_scheme *scheme, int n_in);
/* What its canonical rows are, which stand for values of dtype. */
struct lf_format lf_scheme_format(const struct lf_scheme *scheme, enum lf_dtype dtype);
/* The shape that a source has, dimensions of 1 aside: its rank, 0 to 2, and dims. */
int lf_source_shape(const struct lf_scheme *scheme, enum lf_source source, int n_out, int n_in, int dims[2]);
/* "F32" … as safetensors spell it, NULL where there is no such type; bytes of an element. */
bool lf_source_type_of(const char *dtype_name, enum lf_source_type *out);
const char *lf_source_type_name(enum lf_source_type type);
size_t lf_source_type_bytes(enum lf_source_type type);

/* Room for canonical rows. */
struct lf_quant_room {
    uint8_t *codes;
    float *scales;
    uint8_t *zeros;
};
/* Checks what is not of single rows: order, factor, shape. name: for messages. LF_CORRUPT. */
LF_MUST_CHECK enum lf_status lf_packed_check(const struct lf_packed *p, const char *name, struct lf_err *err);
/* Rows [row, row + n) of the matrix as canonical rows of lf_scheme_format. Returns NULL, or what is wrong with the
 * first bad row, which is *bad then: a scale that is no number or so large that a value would not be one, a code that
 * is none, a zero point that is not where the configuration says. */
const char *lf_packed_rows(const struct lf_packed *p, int row, int n, const struct lf_quant_room *out, int *bad);
/* values of n canonical rows as elements of f->dtype, out [n, n_in]: as lf_dequantize_rows, then rounded once. wide:
 * scratch of n_in floats. */
void lf_expand_rows(const struct lf_format *f, int n, int n_in, const struct lf_quant_rows *rows, void *out,
                    float *wide);

#endif
