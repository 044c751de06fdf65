/* The identity of a model as it computes here: all that the bytes of a KV block depend on, but for the block's tokens.
 *
 * Blocks that outlive the process are found again under it (kv/tiers/disk_record.h), so two models have the same one
 * only where they compute the same bits. It is SHA-256 of these fields; each is a line "NAME LENGTH\n", then so many
 * bytes:
 *
 *     program   version, commit, compiler and C library, as a line: another release may sum in another order
 *     device    kind; name, which on a CPU is the instruction set in use (what --isa allows, not what the machine has)
 *               and says how matrices are packed; compute capability; element type of activations
 *     kv        element type and page order, tokens of a block, layers, KV heads, head_dim
 *     rank      which of how many, where there are several (split.h): their sums have another order, and each has its
 *               own heads
 *     context   which of how many that divide contexts: each has other tokens of a block
 *     states    layers that have one, bytes of each, blocks of a slot; tokens of a chunk; heads and sizes of the delta
 *               rule. Where no layer has one it is not there
 *     rope      "long" where the context is one that longrope has its long factors for; else it is not there
 *     fusion    "none" on a GPU whose ops are not fused (--no-fusion); else it is not there: a CPU's bits are the same
 *     config    config.json, byte for byte: rope and its scaling, windows, norms, head counts
 *     seed      of dummy weights; only there
 *     quantize  the format that plain matrices were quantized to where they were loaded; else it is not there
 *     weights   32 bytes: SHA-256 of, for each tensor that takes part, in the order of their names, a line
 *               "NAME TYPE ROWS COLUMNS\n" and the hash of its bytes
 *     headers   in place of weights, where nobody asked for their bytes to be hashed: SHA-256 of the safetensors
 *               headers. It tells shapes apart and no fine-tunes: enough for a cache that ends with the process
 *
 * The hash of a tensor is SHA-256 of the SHA-256s of its pieces, so that all threads of a device can hash at once. A
 * piece is as many whole rows as 64 KiB hold, at least one. Rows are those of the file, also where they are columns of
 * the matrix; of quantized ones it is SHA-256 of the hash of their codes, that of the rest, and the types of these
 * tensors ("I32\0BF16\0" …). Names are those of the whole model ("model.norm.weight") for a checkpoint of the bare one
 * too. So what files the tensors are in, and in what order, does not matter; a tensor that takes no part does not
 * either.
 *
 * What it does not tell apart: two builds of a source tree with different changes that are not committed, whose commit
 * is "…-dirty" for both; and a machine with FMA from one without under --isa c, on which the C library may compute the
 * last bit of a cos another way. Every better instruction set has FMA. */
#ifndef LF_MODEL_IDENTITY_H
#define LF_MODEL_IDENTITY_H

#include "core/hash.h"
#include "device/cpu/threads.h"
#include "kv/kv_view.h"
#include "model/hparams.h"
#include "model/model.h"
#include "model/safetensors.h"

/* A tensor and the hash of its bytes. */
struct lf_tensor_hash {
    const char *name; /* borrowed */
    enum lf_dtype dtype;
    int n_rows, n_in; /* a vector has one column */
    uint8_t sha[LF_SHA256_BYTES];
};

/* Rows in a piece of a tensor with rows of that many bytes, at least 1. */
int lf_hash_piece_rows(size_t row_bytes);
/* Adds the hashes of the pieces in n_rows rows to sha, which becomes the tensor's when all rows were added, in order.
 * n_rows is a multiple of lf_hash_piece_rows except in the last call. Runs on the threads; their owner calls. */
void lf_hash_rows(struct lf_sha256 *sha, struct lf_threads *threads, const void *rows, int n_rows, size_t row_bytes);
/* The field "weights". Sorts the tensors by name. */
void lf_hash_tensors(struct lf_tensor_hash *tensors, int n, uint8_t out[LF_SHA256_BYTES]);

/* Of a model with these options. weights: what lf_hash_tensors made, NULL where it was not asked for. set: its files,
 * without any for dummy weights. Reads config.json: LF_NOT_FOUND, LF_IO, LF_LIMIT, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_identity_make(uint8_t out[LF_SHA256_BYTES], const struct lf_model_opts *opts,
                                              const struct lf_hparams *hp, const struct lf_device_info *info,
                                              const uint8_t *weights, const struct lf_tensor_set *set,
                                              struct lf_err *err);

#endif
