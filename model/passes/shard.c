/* Tensor parallel: the program of one rank of several (Shoeybi et al. 2019, §3, is the idea).
 *
 * Slots say along which axis they are divided. A value is whole, the same on all ranks, or a part: this rank's columns,
 * or a term: the sum over ranks is meant.
 *
 *                         whole ──▶ gemm, by rows ──▶ part       gate and up, q, k and v: their columns are apart
 *     part ──▶ gate_mul, rope, attention ──▶ part                a head, a channel needs no other
 *     part ──▶ gemm, by columns ──▶ sum ──▶ all_reduce ──▶ whole back into the residual stream, which is added once
 *     part ──▶ expert_gemm, by columns ──▶ term ──▶ expert_sum ──▶ all_reduce ──▶ whole
 *     ids  ──▶ embed, by vocabulary ──▶ sum ──▶ all_reduce ──▶ whole     all but one rank add zeros
 *     whole ──▶ gemm, by vocabulary ──▶ part ──▶ all_gather ──▶ logits
 *
 * Experts are divided within: each rank has all of them, and of each some channels. So ranks have equal work whatever
 * the router chooses, and all sort the same rows. The bias of a matrix that is divided by columns belongs to the sum:
 * rank 0 brings it. Everything else runs on whole values, on all ranks alike. What is not here is refused by name; to
 * let each rank have all of it would work too, but nobody who asks for ranks would want it. */
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "model/passes/passes.h"

struct shard {
    struct lf_program *p;
    const struct lf_split *split;
    const char *architecture;
    struct lf_err *err;
};

/* ---- what can be divided ---- */

/* Rows that are divided by themselves; the part itself where it has no runs. Returns how many. */
static int runs_of(const struct lf_slot_part *part, struct lf_slot_run runs[LF_SLOT_RUNS_N])
{
    int n = 0;
    for (; n < LF_SLOT_RUNS_N && part->runs[n].n_rows > 0; n++) runs[n] = part->runs[n];
    if (n == 0) runs[n++] = (struct lf_slot_run){.n_rows = part->n_rows};
    return n;
}

static bool run_fits(const struct lf_slot *slot, const struct lf_slot_part *part, const struct lf_slot_run *run,
                     int n_ranks)
{
    int at_once = part->order == LF_ROWS_DEINTERLEAVE ? 2 : 1; /* gate and up that alternate stay together */
    if (slot->shard == LF_SHARD_VOCABULARY) return run->n_rows >= n_ranks;
    if (slot->shard == LF_SHARD_ROWS) return run->n_rows % (at_once * n_ranks) == 0;
    return run->is_kv ? lf_split_heads_fit(run->n_heads, n_ranks) : run->n_heads % n_ranks == 0;
}

/* Writes into what (if not NULL) what of the slot does not fit. */
static bool slot_fits(const struct lf_slot *slot, int n_ranks, char what[128])
{
    struct lf_slot_run runs[LF_SLOT_RUNS_N];
    if (slot->shard == LF_SHARD_NONE) return true;
    if (slot->shard == LF_SHARD_COLUMNS) {
        bool fits = slot->is_vector || slot->n_in % n_ranks == 0;
        if (!fits && what) snprintf(what, 128, "%d columns of %.60s", slot->n_in, slot->parts[0].pattern);
        return fits;
    }
    for (int i = 0; i < slot->n_parts; i++) {
        int n = runs_of(&slot->parts[i], runs);
        for (int k = 0; k < n; k++) {
            if (run_fits(slot, &slot->parts[i], &runs[k], n_ranks)) continue;
            bool of_heads = slot->shard == LF_SHARD_HEADS;
            if (what)
                snprintf(what, 128, "%d %s of %.60s", of_heads ? runs[k].n_heads : runs[k].n_rows,
                         of_heads ? (runs[k].is_kv ? "KV heads" : "query heads") : "rows", slot->parts[i].pattern);
            return false;
        }
    }
    return true;
}

static bool fits(const struct lf_program *p, int n_ranks, char what[128])
{
    for (int i = 0; i < p->n_slots; i++)
        if (!slot_fits(&p->slots[i], n_ranks, what)) return false;
    return true;
}

static enum lf_status check_sizes(const struct shard *s)
{
    char what[128], others[128] = "";
    int n_ranks = s->split->n_ranks;
    size_t at = 0;
    if (fits(s->p, n_ranks, what)) return LF_OK;
    for (int n = 2; n <= LF_RANKS_N; n++)
        if (fits(s->p, n, NULL)) at += (size_t)snprintf(others + at, sizeof(others) - at, "%s%d", at ? ", " : "", n);
    return lf_fail(s->err, LF_INVALID, "%s is not divided over %d ranks: it has %s; expected %s%s", s->architecture,
                   n_ranks, what, at ? "1, " : "1 rank: no other number divides it", others);
}

/* What an op does that is not divided; NULL: it is. */
static const char *not_divided(const struct lf_op *op)
{
    switch (op->kind) {
    case LF_OP_ROPE_APPEND:
    case LF_OP_ROPE:
        return op->norm_whole_row ? "norms of all heads at once" : NULL;
    case LF_OP_GATE_MUL:
        return op->in[LF_OP_UP] == LF_NONE ? NULL : "inputs of each layer";
    default:
        return NULL;
    }
}

/* Whether the slot is of heads, and nobody has said which rows are which head's. */
static bool is_unknown(const struct lf_slot *slot)
{
    return slot->shard == LF_SHARD_HEADS && slot->parts[0].runs[0].n_heads == 0;
}

static enum lf_status check_ops(const struct shard *s)
{
    const char *what = NULL;
    for (int i = 0; i < s->p->n_ops && !what; i++) what = not_divided(&s->p->ops[i]);
    for (int i = 0; i < s->p->n_slots && !what; i++)
        if (is_unknown(&s->p->slots[i])) what = "heads of another shape";
    if (!what) return LF_OK;
    return lf_fail(s->err, LF_UNSUPPORTED, "%s has %s, which are not divided over ranks yet: one rank computes them",
                   s->architecture, what);
}

/* ---- slots ---- */

/* The rank's heads of a part whose tensor has them one behind the other, some rows of each section. */
static struct lf_slot_part cut_sections(const struct shard *s, const struct lf_slot_part *part)
{
    struct lf_slot_part cut = *part;
    int n_heads = part->runs[0].n_heads, n = lf_split_n_heads(n_heads, s->split);
    int head_rows = part->n_stored / n_heads;
    memset(cut.runs, 0, sizeof(cut.runs));
    cut.n_stored = n * head_rows;
    cut.n_rows = part->n_rows / n_heads * n;
    cut.first = part->first / n_heads * n;
    cut.rank_row = lf_split_first_head(n_heads, s->split) * head_rows;
    cut.rank_rows = part->n_stored;
    return cut;
}

/* The rank's rows of a run that begins at row `first` of its part. */
static struct lf_slot_part cut_run(const struct shard *s, const struct lf_slot *slot, const struct lf_slot_part *part,
                                   int first, const struct lf_slot_run *run)
{
    const struct lf_split *split = s->split;
    struct lf_slot_part cut = *part;
    int begin, end;
    if (part->order == LF_ROWS_BY_SECTION) return cut_sections(s, part);
    if (slot->shard == LF_SHARD_HEADS) {
        int head_rows = run->n_rows / run->n_heads;
        begin = lf_split_first_head(run->n_heads, split) * head_rows;
        end = begin + lf_split_n_heads(run->n_heads, split) * head_rows;
    } else {
        begin = lf_split_first(run->n_rows, split->rank, split->n_ranks);
        end = lf_split_first(run->n_rows, split->rank + 1, split->n_ranks);
    }
    memset(cut.runs, 0, sizeof(cut.runs));
    cut.n_rows = end - begin;
    cut.rank_row = first + begin;
    cut.rank_rows = part->n_rows;
    return cut;
}

static void cut_rows(const struct shard *s, struct lf_slot *slot)
{
    struct lf_slot cut = *slot;
    cut.n_parts = cut.n_out = 0;
    for (int i = 0; i < slot->n_parts; i++) {
        struct lf_slot_run runs[LF_SLOT_RUNS_N];
        int n = runs_of(&slot->parts[i], runs);
        for (int k = 0, row = 0; k < n; row += runs[k++].n_rows) {
            LF_ASSERT(cut.n_parts < LF_SLOT_PARTS_N);
            struct lf_slot_part *part = &cut.parts[cut.n_parts++];
            *part = cut_run(s, slot, &slot->parts[i], row, &runs[k]);
            cut.n_out += part->n_rows;
        }
    }
    *slot = cut;
}

static void cut_columns(const struct shard *s, struct lf_slot *slot)
{
    if (slot->is_vector) return;
    slot->rank_columns = slot->n_in;
    slot->n_in /= s->split->n_ranks;
    slot->rank_column = slot->n_in * s->split->rank;
}

static void cut_slot(const struct shard *s, struct lf_slot *slot)
{
    if (slot->shard == LF_SHARD_COLUMNS) cut_columns(s, slot);
    if (slot->shard == LF_SHARD_ROWS || slot->shard == LF_SHARD_HEADS || slot->shard == LF_SHARD_VOCABULARY)
        cut_rows(s, slot);
}

/* ---- ops ---- */

static enum lf_status mismatch(const struct shard *s, const struct lf_op *op)
{
    return lf_fail(s->err, LF_UNSUPPORTED, "%s: %s of layer %d is not divided over ranks: what it reads is",
                   s->architecture, lf_op_name(op->kind), op->layer);
}

static bool reads_part(const struct shard *s, const struct lf_op *op)
{
    return s->p->values[op->in[LF_OP_X]].is_part;
}

/* What ops[at] made as y is now made by an op behind it, of a new value: y as it is on this rank. */
static enum lf_status make_behind(struct shard *s, int at, enum lf_op_kind kind, struct lf_value of_rank)
{
    struct lf_op then = lf_op_init(kind, s->p->ops[at].layer);
    then.out[LF_OP_Y] = s->p->ops[at].out[LF_OP_Y];
    LF_TRY(lf_program_add_value(s->p, of_rank, &then.in[LF_OP_X], s->err));
    struct lf_op *op = &s->p->ops[at];
    op->out[LF_OP_Y] = then.in[LF_OP_X];
    if (kind == LF_OP_ALL_REDUCE) { /* is added once */
        then.in[LF_OP_RESIDUAL] = op->in[LF_OP_RESIDUAL];
        op->in[LF_OP_RESIDUAL] = LF_NONE;
    }
    return lf_program_insert(s->p, at + 1, &then, s->err);
}

static enum lf_status reduce_behind(struct shard *s, int at)
{
    struct lf_value sum = s->p->values[s->p->ops[at].out[LF_OP_Y]];
    if (!sum.is_float) return mismatch(s, &s->p->ops[at]);
    return make_behind(s, at, LF_OP_ALL_REDUCE, sum);
}

static enum lf_status shard_embed(struct shard *s, int at)
{
    struct lf_op *op = &s->p->ops[at];
    const struct lf_slot *table = &s->p->slots[op->weight[LF_OP_W]];
    if (table->shard != LF_SHARD_VOCABULARY) return LF_OK;
    op->first_id = table->parts[0].rank_row;
    return reduce_behind(s, at);
}

static enum lf_status shard_gemm(struct shard *s, int at)
{
    struct lf_op *op = &s->p->ops[at];
    const struct lf_slot *w = &s->p->slots[op->weight[LF_OP_W]];
    struct lf_value *y = &s->p->values[op->out[LF_OP_Y]];
    if (reads_part(s, op) != (w->shard == LF_SHARD_COLUMNS)) return mismatch(s, op);
    if (w->shard == LF_SHARD_NONE) return LF_OK;
    if (w->shard == LF_SHARD_COLUMNS) {
        if (s->split->rank > 0) op->weight[LF_OP_BIAS] = LF_NONE;
        return reduce_behind(s, at);
    }
    if (op->in[LF_OP_RESIDUAL] != LF_NONE) return mismatch(s, op);
    if (w->shard == LF_SHARD_VOCABULARY) {
        struct lf_value of_rank = *y;
        of_rank.width = w->n_out;
        of_rank.is_part = true;
        return make_behind(s, at, LF_OP_ALL_GATHER, of_rank);
    }
    y->width = w->n_out;
    y->is_part = true;
    return LF_OK;
}

/* A gated delta net of some heads: its convolution's channels and its states are theirs. */
static enum lf_status shard_delta(struct shard *s, int at)
{
    struct lf_op *op = &s->p->ops[at];
    struct lf_value *y = &s->p->values[op->out[LF_OP_Y]];
    if (!reads_part(s, op)) return mismatch(s, op);
    op->delta = lf_split_delta(&op->delta, s->split);
    y->width = op->kind == LF_OP_CONV ? lf_delta_channels(&op->delta) : op->delta.n_v_heads * op->delta.v_dim;
    y->is_part = true;
    return LF_OK;
}

/* Rows of a token's experts, of which the sum is yet to come: over ranks behind that, once a token. */
static enum lf_status shard_expert_gemm(struct shard *s, int at)
{
    struct lf_op *op = &s->p->ops[at];
    const struct lf_slot *w = &s->p->slots[op->weight[LF_OP_W]];
    struct lf_value *y = &s->p->values[op->out[LF_OP_Y]];
    if (reads_part(s, op) != (w->shard == LF_SHARD_COLUMNS)) return mismatch(s, op);
    y->width = w->n_out;
    y->is_part = w->shard == LF_SHARD_ROWS;
    y->is_term = w->shard == LF_SHARD_COLUMNS;
    if (y->is_term && s->split->rank > 0) op->weight[LF_OP_BIAS] = LF_NONE;
    return LF_OK;
}

static enum lf_status shard_expert_sum(struct shard *s, int at)
{
    return s->p->values[s->p->ops[at].in[LF_OP_X]].is_term ? reduce_behind(s, at) : LF_OK;
}

/* An op whose columns, or heads, are apart: a part of a part. gate_mul reads two columns for each that it writes. */
static enum lf_status shard_apart(struct shard *s, int at)
{
    const struct lf_op *op = &s->p->ops[at];
    struct lf_value *y = &s->p->values[op->out[LF_OP_Y]];
    if (!reads_part(s, op)) return LF_OK;
    if (op->in[LF_OP_RESIDUAL] != LF_NONE) return mismatch(s, op);
    if (!y->is_part) y->width /= s->split->n_ranks;
    y->is_part = true;
    return LF_OK;
}

static enum lf_status shard_op(struct shard *s, int at)
{
    switch (s->p->ops[at].kind) {
    case LF_OP_EMBED:
        return shard_embed(s, at);
    case LF_OP_GEMM:
        return shard_gemm(s, at);
    case LF_OP_EXPERT_GEMM:
        return shard_expert_gemm(s, at);
    case LF_OP_EXPERT_SUM:
        return shard_expert_sum(s, at);
    case LF_OP_CONV:
    case LF_OP_DELTA:
        return shard_delta(s, at);
    case LF_OP_GATE_MUL:
    case LF_OP_GATED_NORM:
    case LF_OP_GATE_SIGMOID:
    case LF_OP_ROPE_APPEND:
    case LF_OP_ROPE:
    case LF_OP_ATTENTION:
    case LF_OP_ROUND:
        return shard_apart(s, at);
    case LF_OP_ALL_REDUCE: /* put there just now */
    case LF_OP_ALL_GATHER:
        return LF_OK;
    default:
        return reads_part(s, &s->p->ops[at]) ? mismatch(s, &s->p->ops[at]) : LF_OK;
    }
}

enum lf_status lf_pass_shard(struct lf_program *program, const struct lf_split *split, const char *architecture,
                             struct lf_err *err)
{
    struct shard s = {.p = program, .split = split, .architecture = architecture, .err = err};
    LF_TRY(check_ops(&s));
    LF_TRY(check_sizes(&s));
    for (int i = 0; i < program->n_slots; i++) cut_slot(&s, &program->slots[i]);
    for (int i = 0; i < program->n_ops; i++) LF_TRY(shard_op(&s, i));
    return LF_OK;
}
