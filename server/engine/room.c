/* See room.h. */
#include "server/engine/room.h"

#include "core/check.h"
#include "server/engine/block_tables.h"
#include "server/engine/scheduler.h"
#include "server/engine/shared_blocks.h"

void lf_sched_snapshot_room(const struct lf_sched *s, struct lf_sched_room *out)
{
    int n_left = s->opts.max_seqs - s->n_running;
    *out = (struct lf_sched_room){.n_blocks = lf_sched_n_spare(s),
                                  .share_blocks = lf_sched_share_of(lf_sched_n_unpinned(s)),
                                  .share_seqs = (int)lf_sched_share_of(s->opts.max_seqs),
                                  .n_slots = LF_MAX(n_left, 0),
                                  .n_kept = LF_MIN(n_left, 0) + s->opts.n_kept,
                                  .n_here = s->n_here,
                                  .left = {s->left[0], s->left[1]}};
    LF_LIST_EACH(it, &s->queues)
    {
        const struct lf_sched_hold *blocked = &LF_LIST_ENTRY(it, struct lf_sched_tenant, node)->blocked;
        if (blocked->seq) out->n_blocks = LF_MIN(out->n_blocks, lf_sched_room_beside(s, blocked));
    }
}

int64_t lf_sched_room_blocks(const struct lf_sched_room *room, uint64_t tenant, const struct lf_sched_holds *holds,
                             int64_t now_ns)
{
    bool is_here = holds->n_waiting + holds->n_running > 0;
    int n_others = room->n_here - is_here;
    if (holds->n_waiting > 0) return 0; /* its turn is before */
    if (room->n_slots == 0 && (holds->n_running > 0 || room->n_kept == 0)) return 0;
    if (n_others <= 0 && (holds->n_running == 0 || !lf_sched_other_left(room->left, tenant, now_ns)))
        return LF_MAX(room->n_blocks, 0);
    if (holds->n_running >= room->share_seqs) return 0;
    return LF_MAX(LF_MIN(room->n_blocks, room->share_blocks - holds->n_blocks), 0);
}
