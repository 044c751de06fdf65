/* One step of the engine, as the model sees it: plain data, all host memory, borrowed for the call. */
#ifndef LF_MODEL_BATCH_H
#define LF_MODEL_BATCH_H

#include <stdint.h>

#include "kv/kv_view.h"

struct lf_batch {
    const int32_t *ids;           /* [n_rows] token ids, each < n_vocab */
    int n_rows;                   /* T <= max_rows */
    const struct lf_kv_seq *seqs; /* [n_seqs], rows in order and without holes */
    int n_seqs;                   /* <= max_seqs */
    const int32_t *out_rows;      /* [n_out] rows whose logits are wanted, ascending */
    int n_out;                    /* 0 <= n_out <= max_out */
};

#endif
