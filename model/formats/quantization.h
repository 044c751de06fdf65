/* Quantized checkpoints: which of their matrices are quantized, and how, as config.json says (quantization_config,
 * compression_config) or hf_quant_config.json beside it.
 *
 * A quant_method is a row of the table in quantization.c and a file, which turns its keys into schemes (packing.h) with
 * the modules that each is for, and a list of modules that are left out. Which of a model's matrices are quantized the
 * tensors say (a matrix of a list of ignored ones may be plain, and another one may be too); that the list does not
 * contradict them is checked (quantized.c). What is not implemented is refused with the names of what is.
 *
 * Read-only once it is read: any thread. */
#ifndef LF_MODEL_FORMATS_QUANTIZATION_H
#define LF_MODEL_FORMATS_QUANTIZATION_H

#include "model/formats/modules.h"
#include "model/formats/packing.h"

struct lf_quant_group {
    struct lf_scheme scheme;
    struct lf_modules targets;
    bool of_all; /* every linear layer, unless another group names it */
};

struct lf_quantization {
    const char *method;     /* "gptq" …; static */
    const char *ignore_key; /* what the list of ignored modules is called; static */
    struct lf_modules ignored;
    struct lf_quant_group *groups; /* [n_groups] in the arena; the first that names a module is its */
    int n_groups;
    struct lf_arena arena;
};

/* What root, or text, the part of it that describes the model of text, says; *out NULL: the weights are plain.
 * *mxfp4: the family's experts may be in MXFP4 by names of their own (bind.c), which then needs nothing of this; and
 * then whether they are said to be.
 * LF_CORRUPT, LF_UNSUPPORTED, LF_LIMIT, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_quantization_read(struct lf_quantization **out, struct lf_json_value root,
                                                  struct lf_json_value text, bool *mxfp4, struct lf_err *err);
/* What hf_quant_config.json says, where config.json says nothing. */
LF_MUST_CHECK enum lf_status lf_quantization_read_modelopt(struct lf_quantization **out, struct lf_json_value root,
                                                           struct lf_err *err);
void lf_quantization_free(struct lf_quantization *q); /* accepts NULL */

/* *out: the scheme of the module, where its tensors are quantized; NULL: none is said to be its. *ignored: it is in the
 * list of those left out. */
LF_MUST_CHECK enum lf_status lf_quantization_find(const struct lf_quantization *q, struct lf_str module,
                                                  const struct lf_scheme **out, bool *ignored, struct lf_err *err);
/* *named: some group is for the module by its name, not for all that others leave. LF_LIMIT. */
LF_MUST_CHECK enum lf_status lf_quantization_names(const struct lf_quantization *q, struct lf_str module, bool *named,
                                                   struct lf_err *err);
/* Whether a tensor is of how others quantize activations, or their caches: no part of a matrix. */
bool lf_quantization_is_aside(struct lf_str tensor);

/* ---- for the files of the methods ---- */

typedef enum lf_status lf_quantization_read_fn(struct lf_quantization *q, struct lf_json_value config,
                                               struct lf_err *err);
lf_quantization_read_fn lf_fp8_read, lf_fbgemm_fp8_read, lf_compressed_tensors_read, lf_gptq_read, lf_awq_read,
    lf_modelopt_read;

/* Adds a group. targets: taken over; NULL: it is for all. */
LF_MUST_CHECK enum lf_status lf_quantization_add(struct lf_quantization *q, const struct lf_scheme *scheme,
                                                 const struct lf_modules *targets, struct lf_err *err);
/* [rows, columns] of blocks. */
LF_MUST_CHECK enum lf_status lf_quantization_read_block(struct lf_scheme *s, struct lf_json_value block,
                                                        const char *key, struct lf_err *err);
/* A group's columns: a whole number, or -1 or null for whole rows. */
LF_MUST_CHECK enum lf_status lf_quantization_read_group(struct lf_scheme *s, struct lf_json_value value,
                                                        const char *key, struct lf_err *err);
/* A key that has to have one of two numbers of bits: 4 or 8; `only`: this one alone, or 0. */
LF_MUST_CHECK enum lf_status lf_quantization_read_bits(struct lf_scheme *s, struct lf_json_value value, const char *key,
                                                       int only, struct lf_err *err);

#endif
