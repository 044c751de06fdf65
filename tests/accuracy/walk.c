#include "tests/accuracy/walk.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"

/* ---- memory ---- */

static int blocks_wanted(const struct lf_runtime *rt)
{
    return rt->plan.n_groups * ((rt->plan.ctx + LF_KV_BLOCK_TOKENS - 1) / LF_KV_BLOCK_TOKENS);
}

enum lf_status walk_load(struct lf_runtime *rt, struct lf_config *config, int n_tokens, struct lf_err *err)
{
    enum { TRIES_N = 8 };
    config->ctx = n_tokens;
    config->kv_tokens = (uint64_t)n_tokens;
    config->prefix_cache = false;
    rt->config = config;
    LF_TRY(lf_runtime_plan(rt, false, err));
    /* Of windows, too, all is kept, so that each question goes on from the document's end: more than a request takes.
     */
    for (int i = 0; i < TRIES_N && rt->plan.fits && rt->plan.n_blocks < blocks_wanted(rt); i++) {
        config->kv_tokens *= 2;
        LF_TRY(lf_runtime_plan(rt, false, err));
    }
    if (!rt->plan.fits) return lf_fail(err, LF_NO_MEMORY, "the plan does not fit: %s", rt->plan.advice);
    return lf_runtime_load(rt, NULL, NULL, err);
}

enum lf_status walk_open(struct walk *walk, struct lf_runtime *rt, struct lf_err *err)
{
    int n = blocks_wanted(rt);
    *walk = (struct walk){.rt = rt, .table_stride = n / rt->plan.n_groups};
    LF_ASSERT(n <= rt->plan.n_blocks);
    walk->blocks = calloc((size_t)n, sizeof(*walk->blocks));
    walk->logits = calloc((size_t)rt->plan.max_out * (size_t)rt->hp.n_vocab, sizeof(*walk->logits));
    if (!walk->blocks || !walk->logits) return lf_fail(err, LF_NO_MEMORY, "no memory for logits");
    for (int i = 0; i < n; i++) walk->blocks[i] = i;
    if (rt->kv.states.n_layers > 0 && rt->plan.n_slots <= WALK_OWN)
        return lf_fail(err, LF_NO_MEMORY, "the plan has %d states, expected 2", rt->plan.n_slots);
    return LF_OK;
}

void walk_close(struct walk *walk)
{
    free(walk->blocks);
    free(walk->logits);
    memset(walk, 0, sizeof(*walk));
}

/* ---- steps ---- */

struct step {
    const int32_t *ids;
    int n, kv_len; /* tokens, and those before them */
    int n_rows;    /* of the last tokens */
    enum walk_slot in, out;
};

static enum lf_status run_step(struct walk *walk, const struct step *step, struct lf_err *err)
{
    struct lf_runtime *rt = walk->rt;
    struct lf_kv_seq seq = {.blocks = walk->blocks,
                            .table_stride = walk->table_stride,
                            .n_tokens = step->n,
                            .kv_len = step->kv_len + step->n,
                            .is_decode = step->n == 1 && step->kv_len > 0};
    struct lf_state_seq state = {.n_tokens = step->n,
                                 .position = step->kv_len,
                                 .in = step->kv_len > 0 ? (int32_t)step->in : -1,
                                 .out = (int32_t)step->out};
    int32_t *wanted = malloc((size_t)step->n_rows * sizeof(*wanted) + 1);
    if (!wanted) return lf_fail(err, LF_NO_MEMORY, "no memory for a step");
    for (int i = 0; i < step->n_rows; i++) wanted[i] = step->n - step->n_rows + i;
    struct lf_batch batch = {.ids = step->ids,
                             .n_tokens = step->n,
                             .seqs = &seq,
                             .n_seqs = 1,
                             .states = rt->kv.states.n_layers > 0 ? &state : NULL,
                             .logits_idx = wanted,
                             .n_out = step->n_rows};
    enum lf_status status = lf_model_step(rt->model, &rt->kv, &batch, walk->logits, err);
    free(wanted);
    return status;
}

/* Tokens of the next step, of n that are left, the first n_without of them without a row: as many as the plan takes,
 * and, where it is not the last, whole blocks, which a GPU's chunks of states are. */
static int step_tokens(const struct walk *walk, int n, int n_without)
{
    int m = LF_MIN(n, walk->rt->plan.chunk);
    m = LF_MIN(m, n_without + walk->rt->plan.max_out);
    if (m < n && m > LF_KV_BLOCK_TOKENS) m -= m % LF_KV_BLOCK_TOKENS;
    return m;
}

enum lf_status walk_append(struct walk *walk, const int32_t *ids, int n, int kv_len, enum walk_slot in,
                           enum walk_slot out, int first_row, walk_row_fn *row, void *ctx, struct lf_err *err)
{
    for (int first = 0, m; first < n; first += m) {
        int n_without = LF_MAX(first_row - first, 0);
        m = step_tokens(walk, n - first, n_without);
        struct step step = {.ids = ids + first,
                            .n = m,
                            .kv_len = kv_len + first,
                            .n_rows = LF_MAX(m - n_without, 0),
                            .in = first > 0 ? out : in,
                            .out = out};
        LF_TRY(run_step(walk, &step, err));
        for (int i = 0; i < step.n_rows; i++)
            LF_TRY(row(ctx, first + m - step.n_rows + i, walk->logits + (size_t)i * (size_t)walk->rt->hp.n_vocab, err));
    }
    return LF_OK;
}

/* ---- answers ---- */

struct choice {
    int n_vocab;
    int32_t best;
};

static enum lf_status choose(void *ctx, int i, const float *logits, struct lf_err *err)
{
    (void)i;
    (void)err;
    struct choice *choice = ctx;
    choice->best = 0;
    for (int32_t id = 1; id < choice->n_vocab; id++)
        if (logits[id] > logits[choice->best]) choice->best = id;
    return LF_OK;
}

static bool is_end(const struct lf_hparams *hp, int32_t id)
{
    for (int i = 0; i < hp->n_eos; i++)
        if (hp->eos_ids[i] == id) return true;
    return false;
}

enum lf_status walk_answer(struct walk *walk, const int32_t *ids, int n, int kv_len, int max_tokens,
                           struct lf_ids *answer, struct lf_err *err)
{
    const struct lf_hparams *hp = &walk->rt->hp;
    struct choice choice = {.n_vocab = hp->n_vocab};
    LF_TRY(walk_append(walk, ids + kv_len, n - kv_len, kv_len, WALK_SHARED, WALK_OWN, n - kv_len - 1, choose, &choice,
                       err));
    for (int i = 0; i < max_tokens; i++) {
        LF_TRY(lf_ids_push(answer, choice.best));
        if (is_end(hp, choice.best) || i + 1 == max_tokens) break;
        int32_t id = choice.best;
        LF_TRY(walk_append(walk, &id, 1, n + i, WALK_OWN, WALK_OWN, 0, choose, &choice, err));
    }
    return LF_OK;
}
