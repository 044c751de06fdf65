/* generation_config.json as far as it says how to sample: the model's defaults for requests that do not say. (Its ids
 * that end an answer are in hparams.h.) */
#ifndef LF_MODEL_GENERATION_CONFIG_H
#define LF_MODEL_GENERATION_CONFIG_H

#include "core/status.h"
#include "core/str.h"
#include "model/sampler.h"

/* LF_SAMPLING_PLAIN with what dir/generation_config.json sets of it; LF_OK where there is no such file. LF_CORRUPT for
 * a value that cannot be. What it asks for beyond that is named in the log. do_sample says nothing: a request that
 * wants the likeliest token has temperature 0, as vLLM reads the file. */
LF_MUST_CHECK enum lf_status lf_generation_config_read(struct lf_sampling_defaults *out, const char *dir,
                                                       struct lf_err *err);
/* "temperature 0.6, top_p 0.95": what differs from LF_SAMPLING_PLAIN; nothing where nothing does. */
void lf_sampling_defaults_print(const struct lf_sampling_defaults *defaults, struct lf_buf *out);

#endif
