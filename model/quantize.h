/* Quantizing plain weights where they are loaded (--quantize): which matrices, in which format, and their rows.
 *
 * Decode is bytes, and nearly all of them are matrices of the layers: those are quantized, experts included. The others
 * keep their elements, as in the checkpoints that people publish (llm-compressor, AutoAWQ, GPTQModel and vLLM's own
 * quantizing leave them out, too; llama.cpp gives them more bits than the rest):
 *
 *     the embedding           rows of it are looked up, not multiplied by
 *     the head                its errors are those of the logits, undamped by a residual stream; often it is the
 * embedding routers                 an error there is another expert b and a of delta nets   they set how long a state
 * is remembered, an error of which every later token has gates of one number     of a shared expert: hardly any bytes
 *     vectors                 norms, biases, convolutions, sinks
 *
 * Which matrix is which is read off the program: by what multiplies by it and what reads the result. */
#ifndef LF_MODEL_QUANTIZE_H
#define LF_MODEL_QUANTIZE_H

#include "core/format.h"
#include "device/cpu/threads.h"
#include "model/program.h"

/* What --quantize makes: E4M3 with one scale a row, I8 and I4 in groups of 32, which are those of llama.cpp's Q8_0 and
 * Q4_0: larger ones cost accuracy (of int8, 64 had 1.4 times the divergence of 32: docs/models.md). */
struct lf_format lf_quantize_format(enum lf_code code);

/* chosen [n_slots]: the slots of a recorded program that are quantized. */
void lf_quantize_choose(const struct lf_program *program, bool *chosen);

/* Turns rows into canonical ones, by a device's threads, whose owner calls. Zeroed: new. */
struct lf_quantizer {
    float *widened;                      /* [n_threads, n_in] owned: a row of each thread */
    uint8_t *codes;                      /* owned */
    float *scales;                       /* owned */
    size_t n_widened, n_codes, n_scales; /* elements that there is room for */
};
void lf_quantizer_deinit(struct lf_quantizer *q); /* accepts a zeroed one */

/* n_rows rows of n_in elements of dtype at src, in format, whose group_rows is 1. *out points into the quantizer until
 * the next call. LF_NO_MEMORY; LF_CORRUPT, which names the tensor, for elements that are infinite or NaN. */
LF_MUST_CHECK enum lf_status lf_quantizer_run(struct lf_quantizer *q, struct lf_threads *threads,
                                              const struct lf_format *format, enum lf_dtype dtype, int n_rows, int n_in,
                                              const void *src, const char *name, struct lf_quant_rows *out,
                                              struct lf_err *err);

#endif
