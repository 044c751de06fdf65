/* /v1/capacity: what fits right now; largest_context_now is the asking tenant's. */
#include "core/check.h"
#include "core/json.h"
#include "server/engine/engine.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

static void write_tier(struct lf_buf *out, const char *name, const struct lf_engine_tier *t, int block_tokens)
{
    lf_buf_printf(out, ",\"%s\":", name);
    if (!t->on) {
        lf_buf_cstr(out, "null");
        return;
    }
    lf_buf_printf(out, "{\"total\":%u,\"kept\":%u,\"pinned\":%u,\"works\":%s,\"load_tokens_per_second\":%.3f}",
                  t->n_blocks, t->n_kept, t->n_pinned, t->works ? "true" : "false",
                  t->load_blocks_per_s * block_tokens);
}

static void write_groups(struct lf_buf *out, const struct lf_engine_state *e)
{
    lf_buf_cstr(out, ",\"groups\":[");
    for (int i = 0; i < e->n_groups; i++)
        lf_buf_printf(out, "%s{\"window\":%d,\"layers\":%d,\"request_blocks\":%d}", i > 0 ? "," : "",
                      e->groups[i].window, e->groups[i].n_layers, e->groups[i].n_request_blocks);
    lf_buf_char(out, ']');
}

static void write_states(struct lf_buf *out, const struct lf_engine_states *s)
{
    if (s->n_layers == 0) {
        lf_buf_cstr(out, ",\"states\":null");
        return;
    }
    lf_buf_printf(out,
                  ",\"states\":{\"layers\":%d,\"slot_bytes\":%llu,\"slots\":%d,\"sequence_slots\":%d,"
                  "\"snapshots\":%d,\"used\":%d,\"pinned\":%d,\"kept\":%d}",
                  s->n_layers, (unsigned long long)s->slot_bytes, s->n_slots, s->n_for_running,
                  s->n_slots - s->n_for_running, s->n_used, s->n_pinned, s->n_kept);
}

static void write_plan(struct lf_buf *out, const struct lf_memory_shares *m)
{
    lf_buf_printf(out,
                  ",\"plan\":{\"weights_bytes\":%llu,\"workspace_bytes\":%llu,\"kv_bytes\":%llu,"
                  "\"host_bytes\":%llu,\"ranks\":%d,\"context_ranks\":%d}",
                  (unsigned long long)m->weights, (unsigned long long)m->workspace, (unsigned long long)m->kv,
                  (unsigned long long)m->host, LF_MAX(m->n_ranks, 1), LF_MAX(m->n_cp, 1));
}

void lf_handle_capacity(struct lf_exchange *x)
{
    struct lf_engine_state e;
    lf_engine_snapshot(x->server->engine, &e);
    struct lf_buf *out = lf_reply_json(&x->reply, 200);
    lf_buf_cstr(out, "{\"object\":\"capacity\",\"model\":");
    lf_json_write_string(out, lf_str_c(x->server->opts.model_id));
    lf_buf_printf(out, ",\"max_model_len\":%d,\"max_running\":%d,\"running\":%d,\"waiting\":%d,\"waiting_tokens\":%lld",
                  e.ctx, e.max_seqs, e.n_running, e.n_waiting, (long long)e.waiting_tokens);
    lf_buf_printf(out,
                  ",\"blocks\":{\"tokens\":%d,\"total\":%d,\"used\":%d,\"pinned\":%d,\"cached\":%d,\"free\":%d}"
                  ",\"largest_context_now\":%lld",
                  e.block_tokens, e.n_blocks, e.n_blocks_used, e.n_blocks_pinned, e.n_blocks_cached, e.n_blocks_free,
                  (long long)lf_engine_largest(x->server->engine, x->tenant.id));
    write_groups(out, &e);
    write_states(out, &e.states);
    write_tier(out, "memory", &e.memory, e.block_tokens);
    write_tier(out, "disk", &e.disk, e.block_tokens);
    write_plan(out, &x->server->opts.memory);
    lf_buf_printf(out,
                  ",\"prefill_tokens_per_second\":%.3f,\"decode_tokens_per_second\":%.3f,\"retry_after_s\":%d"
                  ",\"draining\":%s}",
                  e.prefill_tokens_per_s, e.decode_tokens_per_s, e.retry_after_s, e.draining ? "true" : "false");
}
