/* Sampling on a GPU: what a step's outs ask for, as rows in device memory. The host's is sample_rows.h.
 *
 * Token counts for penalties stay on the device, [n_vocab] for each running sequence: they begin with its prompt
 * at its first sample, and the kernel counts what it draws. So a step can be launched before the host knows what the
 * one before it has drawn. Of a sequence with several rows, of tokens that are tried (server/engine/speculation.h), it
 * counts nothing: each row is given what is tried before it, and what came is counted when the sequence is sampled
 * next, for by then the host knows. */
#ifndef LF_MODEL_SAMPLE_DEVICE_H
#define LF_MODEL_SAMPLE_DEVICE_H

#include "device/comm.h"
#include "device/device.h"
#include "model/batch.h"

/* Where in the workspace its memory lies; bytes, from the beginning of its region. */
struct lf_sample_layout {
    uint64_t rows, bias, banned, ahead, masks, prompt, counts, ids, out, total;
};
void lf_sample_layout(struct lf_sample_layout *out, int max_out, int n_slots, int ctx, int n_vocab);

struct lf_sample_device {
    struct lf_device *dev; /* borrowed */
    struct lf_sample_layout at;
    char *base; /* of the region, device address, borrowed */
    int n_vocab;
    /* host, [max_out], and as much for each of them as a request may have */
    struct lf_sample_row *rows;
    struct lf_logit_bias *bias;
    int32_t *banned, *ahead;
    int *n_counted; /* [n_slots] tokens of the output that are in the counts, or will be with the steps launched */
};
LF_MUST_CHECK enum lf_status lf_sample_device_init(struct lf_sample_device *s, struct lf_device *dev, char *base,
                                                   int max_out, int n_slots, int ctx, int n_vocab, struct lf_err *err);
void lf_sample_device_deinit(struct lf_sample_device *s); /* accepts a zeroed one */
/* Queues the sampling of batch's outs from logits [n_out, n_vocab]; what is drawn will be at lf_sample_device_ids, the
 * records at lf_sample_device_out. */
void lf_sample_device_launch(struct lf_sample_device *s, const struct lf_batch *batch, float *logits);

/* Queues the sending of what was drawn last, so many rows, to all ranks: each of them calls it, and has it then where
 * lf_sample_device_ids says. */
void lf_sample_device_share(struct lf_sample_device *s, struct lf_comm *comm, int n_out);

/* Device addresses. */
const int32_t *lf_sample_device_ids(const struct lf_sample_device *s);
const struct lf_sampled *lf_sample_device_out(const struct lf_sample_device *s);

#endif
