/* What would be admitted at once: the answer to "how large may my next request be", by the rules of admission.c and
 * tenants.h, as things stood when the engine last looked. Blocks that the prefix cache would save are not counted, so
 * more may fit than this says. What waits already is admitted before, or would have been: beside it there is what may
 * pass it. Pure. */
#ifndef LF_SERVER_ENGINE_ROOM_H
#define LF_SERVER_ENGINE_ROOM_H

#include <stdint.h>

/* A tenant that has nothing here any more, and since when; at_ns 0: none. */
struct lf_sched_left {
    uint64_t id;
    int64_t at_ns;
};

struct lf_sched_room {
    int64_t n_blocks;     /* of the pool: free, and left by what waits for blocks */
    int64_t share_blocks; /* of one tenant, while another waits, runs, or was here a short while ago */
    int share_seqs;
    int n_slots, n_kept;          /* free ones for anybody, and beyond them for who runs nothing */
    int n_here;                   /* tenants that wait or run */
    struct lf_sched_left left[2]; /* those that left last */
};

/* What a tenant has here: n_blocks for all the tables of those that run. */
struct lf_sched_holds {
    int n_waiting, n_running;
    int64_t n_blocks;
};

struct lf_sched;
void lf_sched_snapshot_room(const struct lf_sched *s, struct lf_sched_room *out);
/* Blocks that one more request of this tenant may need to be admitted at once; 0: none would be. */
int64_t lf_sched_room_blocks(const struct lf_sched_room *room, uint64_t tenant, const struct lf_sched_holds *holds,
                             int64_t now_ns);

#endif
