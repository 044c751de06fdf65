#include "model/op_table.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/check.h"
#include "model/passes/passes.h"

static uint64_t slot_bytes(const struct lf_op_table_opts *o, int slot_idx)
{
    const struct lf_slot *slot = &o->slots[slot_idx];
    const struct lf_weight *w = &o->weights[slot_idx];
    if (slot->tied_to != LF_NONE && o->tied) return 0;
    return lf_slot_bytes(slot, &w->format, o->ops);
}

/* Whether an op before ops[op_idx] has the slot, too. */
static bool is_counted(const struct lf_op_table_opts *o, int op_idx, int slot_idx)
{
    for (int i = 0; i < op_idx; i++)
        for (int k = 0; k < LF_OP_WEIGHTS_N; k++)
            if (o->program->ops[i].weight[k] == slot_idx) return true;
    return false;
}

/* What several ops share is the first one's, so that the sum is what there is. */
static uint64_t weight_bytes(const struct lf_op_table_opts *o, int op_idx)
{
    const struct lf_op *op = &o->program->ops[op_idx];
    uint64_t bytes = 0;
    for (int i = 0; i < LF_OP_WEIGHTS_N; i++)
        if (op->weight[i] != LF_NONE && !is_counted(o, op_idx, op->weight[i])) bytes += slot_bytes(o, op->weight[i]);
    return bytes;
}

/* K and V of one token. */
static uint64_t kv_layer_bytes(const struct lf_op_table_opts *o, int layer)
{
    if (layer < 0) return 0;
    int n_heads = lf_split_n_heads(lf_layer_n_kv_heads(o->hp, layer), &o->hp->split);
    uint64_t page = lf_kv_page_bytes_of(o->kv_dtype, lf_layer_head_dim(o->hp, layer));
    return 2 * (uint64_t)n_heads * page / LF_KV_BLOCK_TOKENS;
}

static struct lf_op_row row_of(const struct lf_op_table_opts *o, int op_idx)
{
    const struct lf_op *op = &o->program->ops[op_idx];
    const struct lf_value *values = o->program->values;
    struct lf_cost_step step = {.n_tokens = o->step.n_tokens,
                                .n_own = lf_split_n_rows(o->step.n_tokens, &o->hp->split),
                                .n_cp = o->hp->split.n_cp,
                                .n_ranks = o->hp->split.n_ranks,
                                .n_out = 1,
                                .kv_len = o->step.kv_len,
                                .kv_layer_bytes = kv_layer_bytes(o, op->layer),
                                .act_bytes = lf_dtype_bytes(o->info->act_dtype)};
    struct lf_op_row row = {.kind = op->kind, .n = 1, .weight_bytes = weight_bytes(o, op_idx), .window = op->window};
    struct lf_op_cost cost = lf_pass_cost(o->program, op, o->slots, o->weights, &step);
    row.n_rows = lf_cost_rows(&step, &values[op->out[LF_OP_Y]]);
    row.n_out = values[op->out[LF_OP_Y]].width;
    row.n_in = op->in[LF_OP_X] == LF_NONE ? 1 : values[op->in[LF_OP_X]].width;
    row.flops = cost.flops;
    row.bytes = cost.bytes;
    row.received_bytes = cost.received_bytes;
    row.seconds = o->seconds ? o->seconds[op_idx] : 0;
    return row;
}

static bool are_alike(const struct lf_op_row *a, const struct lf_op_row *b)
{
    return a->kind == b->kind && a->n_rows == b->n_rows && a->n_in == b->n_in && a->n_out == b->n_out &&
           a->window == b->window;
}

static void add(struct lf_op_row *sum, const struct lf_op_row *row)
{
    sum->n += row->n;
    sum->weight_bytes += row->weight_bytes;
    sum->flops += row->flops;
    sum->bytes += row->bytes;
    sum->received_bytes += row->received_bytes;
    sum->seconds += row->seconds;
}

enum lf_status lf_op_table_make(struct lf_op_table *out, const struct lf_op_table_opts *o, struct lf_err *err)
{
    struct lf_op_table t = {.step = o->step};
    for (int i = 0; i < o->program->n_ops; i++) {
        struct lf_op_row row = row_of(o, i);
        int k = 0;
        while (k < t.n_rows && !are_alike(&t.rows[k], &row)) k++;
        if (k == LF_OP_ROWS_N) return lf_fail(err, LF_LIMIT, "more than %d kinds of ops", LF_OP_ROWS_N);
        if (k < t.n_rows)
            add(&t.rows[k], &row);
        else
            t.rows[t.n_rows++] = row;
    }
    *out = t;
    return LF_OK;
}

static struct lf_op_row sum_of(const struct lf_op_table *t)
{
    struct lf_op_row sum = {0};
    for (int i = 0; i < t->n_rows; i++) add(&sum, &t->rows[i]);
    return sum;
}

/* "[1536, 256]" of a matrix, "256 of the last 4096" and the like. */
static void shape_text(const struct lf_op_row *row, char *out, size_t out_bytes)
{
    if (row->window > 0)
        snprintf(out, out_bytes, "%d, window %d", row->n_out, row->window);
    else if (lf_op_has_gemm(row->kind) || row->kind == LF_OP_EXPERT_GEMM)
        snprintf(out, out_bytes, "[%d, %d]", row->n_out, row->n_in);
    else
        snprintf(out, out_bytes, "%d", row->n_out);
}

#define MIB  ((double)(1 << 20))
#define GIGA 1e9

static void print_row(const struct lf_op_row *row, const char *name, const char *shape, const struct lf_op_row *sum,
                      struct lf_buf *out)
{
    lf_buf_printf(out, "  %-17s %-20s %5d %6d %12.2f %12.3f %11.2f", name, shape, row->n, row->n_rows,
                  (double)row->weight_bytes / MIB, row->flops / GIGA, row->bytes / MIB);
    if (sum->seconds > 0)
        lf_buf_printf(out, " %10.3f %6.1f%% %9.1f %8.1f\n", row->seconds * 1e3, 100 * row->seconds / sum->seconds,
                      row->flops / row->seconds / GIGA, row->bytes / row->seconds / GIGA);
    else
        lf_buf_printf(out, " %6.1f%% %6.1f%%\n", 100 * row->flops / sum->flops, 100 * row->bytes / sum->bytes);
}

void lf_op_table_print(const struct lf_op_table *t, struct lf_buf *out)
{
    struct lf_op_row sum = sum_of(t);
    char shape[64];
    lf_buf_printf(out, "\nA step of %d token%s, the last of %d:\n", t->step.n_tokens, t->step.n_tokens == 1 ? "" : "s",
                  t->step.kv_len);
    lf_buf_printf(out, "  %-17s %-20s %5s %6s %12s %12s %11s %s\n", "op", "shape", "ops", "rows", "weights, MiB",
                  "GFLOP", "moved, MiB",
                  sum.seconds > 0 ? "        ms    share   GFLOP/s     GB/s" : "  FLOPs   bytes");
    for (int i = 0; i < t->n_rows; i++) {
        shape_text(&t->rows[i], shape, sizeof(shape));
        print_row(&t->rows[i], lf_op_name(t->rows[i].kind), shape, &sum, out);
    }
    sum.n_rows = t->step.n_tokens;
    print_row(&sum, "sum", "", &sum, out);
    if (t->step_seconds > 0)
        lf_buf_printf(out, "  The step as a whole, not op by op: %.3f ms.\n", t->step_seconds * 1e3);
}

static void print_row_json(const struct lf_op_row *row, struct lf_buf *out)
{
    lf_buf_printf(
        out,
        "{\"op\":\"%s\",\"ops\":%d,\"rows\":%d,\"n_in\":%d,\"n_out\":%d,\"window\":%d,\"weight_bytes\":%" PRIu64
        ",\"flops\":%.0f,\"bytes\":%.0f",
        lf_op_name(row->kind), row->n, row->n_rows, row->n_in, row->n_out, row->window, row->weight_bytes, row->flops,
        row->bytes);
    if (row->seconds > 0) lf_buf_printf(out, ",\"seconds\":%.9f", row->seconds);
    lf_buf_char(out, '}');
}

void lf_op_table_print_json(const struct lf_op_table *t, struct lf_buf *out)
{
    lf_buf_printf(out, "{\"tokens\":%d,\"kv_len\":%d,\"rows\":[", t->step.n_tokens, t->step.kv_len);
    for (int i = 0; i < t->n_rows; i++) {
        if (i > 0) lf_buf_char(out, ',');
        print_row_json(&t->rows[i], out);
    }
    lf_buf_char(out, ']');
    if (t->step_seconds > 0) lf_buf_printf(out, ",\"step_seconds\":%.9f", t->step_seconds);
    lf_buf_char(out, '}');
}
