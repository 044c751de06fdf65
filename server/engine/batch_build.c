/* See batch_build.h. */
#include "server/engine/batch_build.h"

#include <string.h>

void lf_batch_build(struct lf_batch *out, const struct lf_batch_arrays *arrays, const struct lf_sched_step *step)
{
    int n_tokens = 0, n_out = 0;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        const struct lf_sched_seq *seq = item->seq;
        memcpy(arrays->ids + n_tokens, seq->ids + seq->n_done, (size_t)item->n_tokens * sizeof(int32_t));
        arrays->seqs[i] = (struct lf_kv_seq){.blocks = seq->blocks,
                                             .table_stride = seq->table_stride,
                                             .first_token = n_tokens,
                                             .n_tokens = item->n_tokens,
                                             .kv_len = seq->n_done + item->n_tokens,
                                             .is_decode = !lf_sched_in_prefill(seq)};
        if (arrays->states) {
            arrays->states[i] = item->state;
            arrays->states[i].first_token = n_tokens;
        }
        for (int k = 0; k < item->n_out; k++) arrays->logits_idx[n_out++] = n_tokens + item->out_first + k;
        n_tokens += item->n_tokens;
    }
    *out = (struct lf_batch){.ids = arrays->ids,
                             .n_tokens = n_tokens,
                             .seqs = arrays->seqs,
                             .n_seqs = step->n_items,
                             .states = arrays->states,
                             .marks = arrays->states ? step->marks : NULL,
                             .n_marks = arrays->states ? step->n_marks : 0,
                             .logits_idx = arrays->logits_idx,
                             .outs = arrays->outs,
                             .n_out = n_out};
}
