/* The rows of weights on their way from files: read through one buffer, hashed as they stand in the file, and unpacked
 * where they stand there in another form; or random ones.
 *
 * A part is what one tensor, or one expert's share of it, is to a slot. Parts are staged one after another, each from
 * its first row to its last. One thread; unpacking and hashing run on the device's threads. */
#ifndef LF_MODEL_STAGE_H
#define LF_MODEL_STAGE_H

#include "core/hash.h"
#include "device/device.h"
#include "model/formats/quantized.h"
#include "model/names.h"

enum { LF_STAGE_BYTES = 4 * 1024 * 1024 };

/* How a matrix stands in the file. */
enum lf_stored {
    LF_STORED_ROWS,
    LF_STORED_COLUMNS, /* one after another: [n_in, n_rows] */
    LF_STORED_PACKED   /* quantized, in the tensors of its format (formats/quantized.h) */
};

struct lf_part {
    char name[LF_NAME_BYTES];
    enum lf_stored stored;
    const struct lf_tensor *tensor; /* NULL for dummy weights */
    struct lf_quantized quantized;  /* of LF_STORED_PACKED; else zeros */
    bool coded;                     /* it stays so: rows are canonical ones, not expanded */
    uint64_t tensor_row;            /* rows of matrices that stand before it in its tensor */
    int column, tensor_columns;     /* of a matrix's part by columns: the first, of so many; 0: it has all */
    int all_rows; /* of LF_STORED_COLUMNS: rows of a matrix of the tensor, which may be other ranks' */
    int slot_idx;
    int expert;          /* of the slot; 0 where it has none */
    int row_first;       /* of the slot, or of this expert's matrix */
    int part_idx;        /* of the slot's parts */
    int n_rows, n_in;    /* as they are stored; vectors: n_in 1, rows are elements */
    enum lf_dtype dtype; /* in the file, or what a quantized matrix is expanded to */
};

struct lf_stage {
    struct lf_device *dev;
    struct lf_tensor_reader files;
    uint64_t dummy_seed;              /* of parts without a tensor */
    bool hashes;                      /* whether what is read is hashed */
    char *rows;                       /* [LF_STAGE_BYTES] owned: rows as the part has them, */
    struct lf_quant_rows coded;       /* or, where it stays coded, these */
    char *packed;                     /* owned: a matrix of columns */
    size_t packed_bytes;              /* its size; 0: none yet */
    struct lf_sha256 sha, scales_sha; /* of the part so far */
    struct lf_quantized_reader quantized;
};

/* Bytes of n of the part's rows in its file. */
uint64_t lf_part_file_bytes(const struct lf_part *part, int n);

/* set: NULL for dummy weights. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_stage_init(struct lf_stage *out, struct lf_device *dev, const struct lf_tensor_set *set,
                                           uint64_t dummy_seed, bool hashes, struct lf_err *err);
void lf_stage_deinit(struct lf_stage *stage); /* accepts a zeroed one */

/* Turns to a part; returns how many of its rows there are room for at once, at least one. */
int lf_stage_begin(struct lf_stage *stage, const struct lf_part *part);
/* The next n rows, from row `row` on, into stage->rows: as many as lf_stage_begin said, or the last ones. LF_IO,
 * LF_CORRUPT where the file is not what it was, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_stage_rows(struct lf_stage *stage, const struct lf_part *part, int row, int n,
                                           struct lf_err *err);
/* The hash of the part, all of whose rows were staged (identity.h). */
void lf_stage_end(struct lf_stage *stage, const struct lf_part *part, uint8_t sha[LF_SHA256_BYTES]);

#endif
