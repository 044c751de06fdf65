/* Configurations of models that are not implemented: what they are, in a person's words, for the refusal. */
#ifndef LF_MODEL_FOREIGN_H
#define LF_MODEL_FOREIGN_H

#include "core/json.h"

/* What a model of this architecture is, where its name or its configuration tells: "a speech or audio model"; else "".
 */
const char *lf_foreign_kind(struct lf_json_value root, struct lf_str architecture);
/* LF_UNSUPPORTED with the name of the format: key says by q that the weights are quantized in a way that is not among
 * the known ones, which the message names. */
LF_MUST_CHECK enum lf_status lf_foreign_quantization(struct lf_json_value q, const char *key, const char *known,
                                                     struct lf_err *err);

#endif
