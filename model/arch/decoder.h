/* Slots that most decoders have, under the names that Llama's have; which biases they have, and whether they are
 * stacked in the files, is in hparams and the architecture's row. */
#ifndef LF_MODEL_ARCH_DECODER_H
#define LF_MODEL_ARCH_DECODER_H

#include "model/recorder.h"

/* Channels of all heads of q, and of k. */
int lf_decoder_n_q(const struct lf_hparams *hp, int layer);
int lf_decoder_n_kv(const struct lf_hparams *hp, int layer);

/* q, k and v of hidden. Where RoPE is interleaved, rows of q and k are in the order of halves. */
struct lf_linear lf_decoder_qkv(struct lf_recorder *r, int layer);
/* Back into the residual stream, of attention. */
struct lf_linear lf_decoder_out(struct lf_recorder *r, int layer);
/* gate and up of hidden; back into the residual stream, of the MLP. */
struct lf_linear lf_decoder_gate_up(struct lf_recorder *r, int layer);
struct lf_linear lf_decoder_down(struct lf_recorder *r, int layer);

/* What is outside the layers: the embedding, the head, which may be tied to it, and the norm before the head. */
struct lf_decoder_ends {
    struct lf_linear table, head;
    int norm;
};
struct lf_decoder_ends lf_decoder_ends(struct lf_recorder *r);

/* act(gate) · up of h, in act_dtype: what `down` multiplies. */
int lf_decoder_swiglu(struct lf_recorder *r, int h, struct lf_linear gate_up);

#endif
