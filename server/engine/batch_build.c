/* See batch_build.h. */
#include "server/engine/batch_build.h"

#include <string.h>

void lf_batch_build(struct lf_batch *out, const struct lf_batch_arrays *arrays, const struct lf_sched_plan *plan)
{
    int n_rows = 0, n_out = 0;
    for (int i = 0; i < plan->n_items; i++) {
        const struct lf_sched_item *item = &plan->items[i];
        const struct lf_sched_seq *seq = item->seq;
        memcpy(arrays->ids + n_rows, seq->ids + seq->n_done, (size_t)item->n_rows * sizeof(int32_t));
        arrays->seqs[i] = (struct lf_kv_seq){.blocks = seq->blocks,
                                             .first_row = n_rows,
                                             .n_rows = item->n_rows,
                                             .kv_len = seq->n_done + item->n_rows,
                                             .generated = seq->n_done >= seq->n_prompt};
        for (int k = 0; k < item->n_out; k++) arrays->out_rows[n_out++] = n_rows + item->out_first + k;
        n_rows += item->n_rows;
    }
    *out = (struct lf_batch){.ids = arrays->ids,
                             .n_rows = n_rows,
                             .seqs = arrays->seqs,
                             .n_seqs = plan->n_items,
                             .out_rows = arrays->out_rows,
                             .outs = arrays->outs,
                             .n_out = n_out};
}
