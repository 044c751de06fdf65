#include "server/engine/holding.h"

#include "core/check.h"
#include "server/engine/prefill_order.h"
#include "server/engine/shared_blocks.h"

/* The blocks that its prompt is found in: its own, but for a last one that lay in the cache already. A pin takes the
 * place of the table's reference. */
static void pin_full_blocks(struct lf_sched *s, struct lf_sched_seq *seq)
{
    int n_full = seq->n_keys - 1;
    for (int i = 0; i < n_full; i++) {
        int32_t found = lf_sched_find_block(s, seq, i), own = seq->blocks[i];
        seq->blocks[i] = found >= 0 ? found : own;
        lf_block_pool_pin(s->opts.pool, seq->blocks[i]);
        lf_block_pool_put(s->opts.pool, own);
    }
    while (seq->n_blocks > n_full) lf_block_pool_put(s->opts.pool, seq->blocks[--seq->n_blocks]);
}

void lf_sched_hold(struct lf_sched *s, struct lf_sched_seq *seq)
{
    LF_ASSERT(seq->pin != LF_PIN_NONE && seq->keys && seq->max_tokens == 0);
    if (seq->phase == LF_SCHED_RUNNING) {
        LF_ASSERT(!lf_sched_in_prefill(seq));
        lf_list_remove(&seq->node);
        s->n_running--;
        lf_prefill_order_leave(seq);
        lf_sched_tenant_leaves(s, seq);
        pin_full_blocks(s, seq);
    } else {
        LF_ASSERT(seq->phase == LF_SCHED_NEW && seq->n_blocks == 0);
    }
    seq->phase = LF_SCHED_HOLDING;
    lf_list_push_back(&s->holding, &seq->node);
}

void lf_sched_let_go(struct lf_sched *s, struct lf_sched_seq *seq)
{
    LF_ASSERT(seq->phase == LF_SCHED_HOLDING);
    while (seq->n_blocks > 0) lf_block_pool_unpin(s->opts.pool, seq->blocks[--seq->n_blocks]);
}
