/* A quantized matrix of a checkpoint: its tensors, found and checked, and reading its rows.
 *
 * Whether a matrix is quantized its tensors say: where the plain one is there, in a type of plain numbers, it is plain.
 * Else there must be the tensors of its scheme, and the list of ignored modules must not name it. */
#ifndef LF_MODEL_FORMATS_QUANTIZED_H
#define LF_MODEL_FORMATS_QUANTIZED_H

#include "core/hash.h"
#include "device/cpu/threads.h"
#include "model/formats/quantization.h"
#include "model/reader.h"

/* The matrix in the tensors, of which one is for each source; asked for are rows of it from `first` on, of them
 * n_columns from `column` on: all, or whole groups of lf_scheme_format. */
struct lf_quantized {
    struct lf_scheme scheme;
    const struct lf_tensor *sources[LF_SOURCES_N]; /* NULL: it has none */
    int n_shares, share;                           /* experts in a tensor, and which; 1, 0: it has no such dimension */
    int n_out, n_in, first;
    int column, n_columns;
};

/* What a matrix is called and where it lies. */
struct lf_quantized_place {
    const char *module;       /* its name without a suffix */
    const char *plain_suffix; /* of the tensor of a plain one, for messages; "" where it is of all experts */
    int n_experts, expert;    /* n_experts 0: it has no such dimension */
    int n_out, n_in, first;
    int column, n_columns; /* as in struct lf_quantized */
};

LF_MUST_CHECK enum lf_status lf_quantized_bind(struct lf_quantized *out, const struct lf_tensor_set *set,
                                               const struct lf_quantization *q, const struct lf_quantized_place *place,
                                               struct lf_err *err);
/* Bytes of n of its rows, and of what goes with them, in files. */
uint64_t lf_quantized_bytes(const struct lf_quantized *m, int n);
/* Of a row of codes, where they lie row by row; else of all. */
size_t lf_quantized_piece_bytes(const struct lf_quantized *m);

/* Buffers that grow to what is needed. */
struct lf_quantized_reader {
    struct lf_tensor_reader *files;         /* borrowed */
    struct lf_threads *threads;             /* borrowed; their owner calls */
    struct lf_sha256 *codes_sha, *rest_sha; /* of what is read; NULL: it is not hashed */
    struct lf_packed packed;
    char *bytes; /* owned: sources as they stand in files */
    size_t n_bytes;
    size_t codes_at;           /* of codes in them */
    struct lf_quant_room room; /* owned: canonical rows */
    size_t n_codes, n_groups;  /* there is room for */
    float *wide;               /* owned: of each task a row */
    size_t n_wide;
};
void lf_quantized_reader_deinit(struct lf_quantized_reader *r); /* accepts a zeroed one */

/* Whether its columns are whole groups. LF_INVALID. */
LF_MUST_CHECK enum lf_status lf_quantized_check_columns(const struct lf_quantized *m, const char *module,
                                                        struct lf_err *err);

/* The next n rows, from row `row` on, of a matrix that is read from row 0 on, as canonical rows of
 * lf_scheme_format, [n, n_columns]: *out borrows them until the next call. name: for messages. LF_CORRUPT, LF_IO,
 * LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_quantized_read(struct lf_quantized_reader *r, struct lf_quant_rows *out,
                                               const struct lf_quantized *m, int row, int n, const char *name,
                                               struct lf_err *err);
/* Values of n canonical rows, rounded to dtype: out [n, n_columns]. */
LF_MUST_CHECK enum lf_status lf_quantized_expand(struct lf_quantized_reader *r, const struct lf_quantized *m,
                                                 const struct lf_quant_rows *rows, enum lf_dtype dtype, int n,
                                                 void *out, struct lf_err *err);

#endif
