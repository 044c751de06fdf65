/* Sampling on the host: all logits rows of a step, by the device's worker threads. */
#ifndef LF_MODEL_SAMPLE_ROWS_H
#define LF_MODEL_SAMPLE_ROWS_H

#include "device/device.h"
#include "model/batch.h"

/* What `o` asks of logits[n_vocab], which are overwritten. scratch: as of lf_sample. */
void lf_sample_row(struct lf_sampled *out, const struct lf_batch_out *o, float *logits, int n_vocab, void *scratch);

/* Of lf_sample_rows for any number of rows. */
uint64_t lf_sample_rows_scratch_bytes(int n_vocab);
/* out[i] from logits[i, n_vocab], which are overwritten, as batch->outs[i] says. scratch: 64-byte aligned. */
void lf_sample_rows(struct lf_device *dev, struct lf_sampled *out, const struct lf_batch *batch, float *logits,
                    int n_vocab, void *scratch);

#endif
