/* One file of an exported checkpoint (export.h): the tensors of a safetensors file, some of them quantized.
 *
 * What becomes of a quantized matrix X.weight [n_out, n_in], as compressed-tensors has it:
 *
 *     I4, I8   pack-quantized     X.weight_packed  I32 [n_out, n_in · bits / 32]: code + 2^(bits - 1) of I8, codes of
 * I4, along a row, the lowest bits first X.weight_scale   BF16 [n_out, n_in / group] X.weight_shape   I64 [2]: n_out,
 * n_in E4M3     float-quantized    X.weight         F8_E4M3 [n_out, n_in] X.weight_scale   BF16 [n_out, 1]
 *
 * Elements of larger types come first and then names in order, as the safetensors library writes them, so that every
 * tensor is aligned. */
#ifndef LF_MODEL_EXPORT_SHARD_H
#define LF_MODEL_EXPORT_SHARD_H

#include "core/format.h"
#include "device/cpu/threads.h"
#include "model/quantize.h"
#include "model/safetensors.h"

enum lf_export_kind { LF_EXPORT_COPY, LF_EXPORT_CODES, LF_EXPORT_SCALES, LF_EXPORT_SHAPE };

/* A tensor of the file. */
struct lf_export_entry {
    const struct lf_tensor *source;
    enum lf_export_kind kind;
    const char *suffix; /* behind the source's name, which then is without ".weight"; NULL: the source's name */
    const char *dtype_name;
    int elem_bytes, rank;
    uint64_t shape[LF_TENSOR_RANK];
    uint64_t offset; /* in the file */
};

struct lf_export_shard {
    struct lf_format format;
    struct lf_export_entry *entries; /* [n_entries] owned, in the order of the file */
    int n_entries;
    uint64_t data_bytes;  /* behind the header */
    struct lf_buf header; /* owned, with its length before it */
};

/* Lays out the file for those of set's tensors that are in file file_idx; quantized [n_tensors] says which become the
 * format. LF_NO_MEMORY, LF_LIMIT. */
LF_MUST_CHECK enum lf_status lf_export_shard_make(struct lf_export_shard *out, const struct lf_format *format,
                                                  const struct lf_tensor_set *set, int file_idx, const bool *quantized,
                                                  struct lf_err *err);
void lf_export_shard_deinit(struct lf_export_shard *shard); /* accepts a zeroed one */
void lf_export_entry_name(const struct lf_export_entry *entry, struct lf_buf *out);

/* Writes the file at path, which must not be there, to the disk. done: bytes of sources so far, counted on. LF_IO;
 * LF_CORRUPT for elements that cannot be quantized, LF_NO_MEMORY. */
struct lf_export_progress {
    void (*call)(void *ctx, uint64_t done, uint64_t total); /* may be NULL */
    void *ctx;
    uint64_t done, total;
};
LF_MUST_CHECK enum lf_status lf_export_shard_write(const struct lf_export_shard *shard, const struct lf_tensor_set *set,
                                                   int file_idx, const char *path, struct lf_threads *threads,
                                                   struct lf_quantizer *quantizer, struct lf_export_progress *progress,
                                                   struct lf_err *err);

#endif
