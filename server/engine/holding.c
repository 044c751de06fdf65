#include "server/engine/holding.h"

#include "core/check.h"
#include "server/engine/block_tables.h"
#include "server/engine/prefill_order.h"
#include "server/engine/states.h"

void lf_sched_hold(struct lf_sched *s, struct lf_sched_seq *seq)
{
    LF_ASSERT(seq->pin != LF_PIN_NONE && seq->keys && seq->max_tokens == 0);
    if (seq->phase == LF_SCHED_RUNNING) {
        LF_ASSERT(!lf_sched_in_prefill(seq));
        lf_list_remove(&seq->node);
        s->n_running--;
        lf_prefill_order_leave(seq);
        lf_sched_tenant_leaves(s, seq);
        lf_tables_pin(s, seq);
        lf_states_pin(s, seq);
    } else {
        LF_ASSERT(seq->phase == LF_SCHED_NEW && seq->n_blocks == 0);
        lf_states_init(seq);
    }
    seq->phase = LF_SCHED_HOLDING;
    lf_list_push_back(&s->holding, &seq->node);
}

void lf_sched_let_go(struct lf_sched *s, struct lf_sched_seq *seq)
{
    LF_ASSERT(seq->phase == LF_SCHED_HOLDING);
    lf_states_unpin(s, seq);
    lf_tables_unpin(s, seq);
}
