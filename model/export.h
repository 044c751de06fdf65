/* A plain checkpoint written again with quantized matrices (`longflash quantize`), in the format of compressed-tensors,
 * which vLLM, SGLang and transformers open, too. Codes and scales are those that --quantize makes of the same
 * checkpoint (quantize.h), matrix by matrix under the names of the original; export_shard.h has the tensors.
 *
 *     int4, int8   pack-quantized, symmetric, in groups; activations stay as they are (W4A16, W8A16)
 *     fp8          float-quantized, a scale a row, activations quantized a token at a time (FP8-dynamic)
 *
 * config.json gets a quantization_config and is otherwise as it was, byte for byte; so are all tensors that stay plain.
 * Files of tokenizer, template and generation come along, weights in other formats do not. Everything is written into a
 * folder beside the wanted one, which takes its name in the end: there is all of it or nothing. */
#ifndef LF_MODEL_EXPORT_H
#define LF_MODEL_EXPORT_H

#include "device/device.h"
#include "model/export_shard.h"
#include "model/hparams.h"

struct lf_export_opts {
    const char *dir, *out;                                      /* from, to */
    enum lf_code code;                                          /* E4M3, I8 or I4 */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes of weights; may be NULL */
    void *progress_ctx;
};

/* hp: of dir. dev: a CPU, whose threads do it. LF_INVALID where `out` is there already; LF_UNSUPPORTED for a checkpoint
 * that is quantized, or whose matrices the format cannot name or cut into groups; LF_IO, LF_CORRUPT, LF_NO_MEMORY,
 * LF_LIMIT and what opening the checkpoint says. */
LF_MUST_CHECK enum lf_status lf_export(const struct lf_hparams *hp, struct lf_device *dev,
                                       const struct lf_export_opts *opts, struct lf_err *err);

#endif
