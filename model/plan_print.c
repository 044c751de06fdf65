/* A plan for people, and as JSON: what plan.h says of the two. */
#include <inttypes.h>
#include <stdio.h>

#include "core/check.h"
#include "core/json.h"
#include "core/limits.h"
#include "model/plan.h"
#include "model/plan_size.h"
#include "model/rope_config.h"

#define KIB ((double)(1 << 10))
#define MIB ((double)(1 << 20))
#define GIB ((double)(1 << 30))

struct lf_size_text lf_plan_size(uint64_t bytes)
{
    struct lf_size_text t;
    double x = (double)bytes;
    if (x >= GIB) {
        snprintf(t.text, sizeof(t.text), "%.2f GiB", x / GIB);
    } else if (x >= MIB) {
        snprintf(t.text, sizeof(t.text), "%.2f MiB", x / MIB);
    } else if (x >= KIB) {
        snprintf(t.text, sizeof(t.text), "%.2f KiB", x / KIB);
    } else {
        snprintf(t.text, sizeof(t.text), "%" PRIu64 " B", bytes);
    }
    return t;
}

void lf_plan_name_weights(char name[LF_WEIGHTS_NAME_BYTES], const struct lf_plan *p)
{
    char format[LF_FORMAT_NAME_BYTES];
    lf_format_name(format, &p->weight_format);
    snprintf(name, LF_WEIGHTS_NAME_BYTES, "%s%s", format, p->quantized ? ", by --quantize" : "");
}

static void row(struct lf_buf *out, const char *name, uint64_t bytes, const char *note)
{
    lf_buf_printf(out, "  %-22s %12s%s%s\n", name, lf_plan_size(bytes).text, note[0] ? "  " : "", note);
}

/* Of the sum on a CPU; on a GPU behind it, for it is the host's. */
static void index_row(const struct lf_plan *p, struct lf_buf *out)
{
    char note[128];
    if (p->disk_bytes == 0) return;
    snprintf(note, sizeof(note), "of %" PRIu64 " tokens in %s of --cache-dir%s", p->disk_tokens,
             lf_plan_size(p->disk_bytes).text, p->is_host ? "" : ", of this machine's memory");
    row(out, "index of the disk", p->disk_index_bytes, note);
}

/* Of a request of ctx tokens in one group. */
static int request_blocks(const struct lf_plan *p, int group)
{
    int block = lf_kv_windows_block_tokens(&p->windows);
    return (int)lf_kv_windows_held(&p->windows, group, ((int64_t)p->ctx + block - 1) / block);
}

static bool are_alike(const struct lf_kv_group *a, const struct lf_kv_group *b)
{
    return a->window == b->window && a->n_kv_heads == b->n_kv_heads && a->head_dim == b->head_dim;
}

/* What a request of ctx tokens takes in the layers of each kind, whose groups lie side by side. */
static void group_rows(const struct lf_plan *p, struct lf_buf *out)
{
    for (int first = 0, end; first < p->n_groups; first = end) {
        const struct lf_kv_group *g = &p->groups[first];
        int n_layers = 0, n_blocks = 0;
        char name[32], note[128];
        for (end = first; end < p->n_groups && are_alike(g, &p->groups[end]); end++) {
            n_layers += p->groups[end].n_layers;
            n_blocks += request_blocks(p, end);
        }
        snprintf(name, sizeof(name), g->window ? "  window of %d" : "  full attention", g->window);
        snprintf(note, sizeof(note), "a request: %d blocks, %d layer%s in %d group%s, %d KV head%s of %d", n_blocks,
                 n_layers, n_layers == 1 ? "" : "s", end - first, end - first == 1 ? "" : "s", g->n_kv_heads,
                 g->n_kv_heads == 1 ? "" : "s", g->head_dim);
        row(out, name, (uint64_t)n_blocks * p->kv_block_bytes, note);
    }
    if (p->n_step_blocks > 0) {
        char note[64];
        snprintf(note, sizeof(note), "once: %d blocks", p->n_step_blocks);
        row(out, "  tokens of a step", (uint64_t)p->n_step_blocks * p->kv_block_bytes, note);
    }
}

/* Behind the blocks: what layers keep that are no attention. */
static void states_row(const struct lf_plan *p, struct lf_buf *out)
{
    char note[160];
    if (p->n_slots == 0) return;
    int n_seqs = p->n_slots - p->n_snapshots;
    snprintf(note, sizeof(note), "%s a slot, of %d layer%s: %d for sequences, %d snapshot%s",
             lf_plan_size(p->slot_bytes).text, p->states.n_layers, p->states.n_layers == 1 ? "" : "s", n_seqs,
             p->n_snapshots, p->n_snapshots == 1 ? "" : "s");
    row(out, "states", p->state_bytes, note);
    if (p->max_seqs_before > 0)
        lf_buf_printf(out, "  %-22s %12d  by default %d, of which the states would take more than a quarter\n",
                      "  --max-seqs", p->max_seqs, p->max_seqs_before);
}

/* The model's heads, and those of layers that have others: of the first such, and how many are not like the model's. */
static void name_heads(const struct lf_hparams *hp, struct lf_buf *out)
{
    int n = 0, first = 0;
    for (int i = hp->n_layers - 1; i >= 0; i--) {
        if (lf_layer_n_kv_heads(hp, i) == hp->n_kv_heads && lf_layer_head_dim(hp, i) == hp->head_dim) continue;
        first = i;
        n++;
    }
    lf_buf_printf(out, "%d query and %d KV heads of %d", hp->n_heads, hp->n_kv_heads, hp->head_dim);
    if (n > 0)
        lf_buf_printf(out, " (in %d layer%s other ones: %d of %d)", n, n == 1 ? "" : "s",
                      lf_layer_n_kv_heads(hp, first), lf_layer_head_dim(hp, first));
}

static void requests_line(const struct lf_plan_requests *r, struct lf_buf *out)
{
    if (r->n_plain < 0 || r->n_fp8 < 0) return; /* there is no choice */
    lf_buf_printf(out, "Room for %d request%s of %d tokens with --kv-dtype %s, for %d with fp8.\n", r->n_plain,
                  r->n_plain == 1 ? "" : "s", r->tokens, lf_dtype_name(r->plain), r->n_fp8);
}

void lf_plan_print(const struct lf_plan *p, const struct lf_hparams *hp, struct lf_buf *out)
{
    char note[128], name[LF_WEIGHTS_NAME_BYTES];
    lf_buf_printf(out, "%s: %d layers, hidden %d, ", hp->architecture, hp->n_layers, hp->hidden);
    name_heads(hp, out);
    lf_buf_printf(out, ", vocabulary %d, %d positions\n", hp->n_vocab, hp->made_positions);
    if (hp->max_positions > hp->made_positions) {
        char how[LF_STRETCH_TEXT_BYTES];
        lf_rope_stretch_text(hp, how);
        lf_buf_printf(out, "  %-22s %12d  tokens, more than the model was made for: %s\n", "--max-position",
                      hp->max_positions, how);
    }
    lf_buf_printf(out, "  %-22s %s\n", "device", p->device);
    if (p->n_ranks > 1) {
        snprintf(note, sizeof(note),
                 p->is_host && p->ranks_apart ? "of each of %d ranks, as what follows is"
                 : p->is_host                 ? "of %d ranks, each of which has weights to logits, and a KV cache"
                                              : "of each of %d GPUs, as what follows is",
                 p->n_ranks);
        row(out, p->is_host ? "shared by ranks" : "open to other ranks", p->comm_bytes, note);
        if (p->n_cp > 1)
            lf_buf_printf(out, "  %-22s %12d  parts; of each block of %d tokens a rank has %d\n", "  a context in",
                          p->n_cp, lf_kv_block_tokens(p->n_cp), (int)LF_KV_BLOCK_TOKENS);
    }
    lf_plan_name_weights(name, p);
    row(out, "weights", p->weight_bytes, name);
    snprintf(note, sizeof(note), "%d tokens a step", p->chunk);
    row(out, "activations", p->act_bytes, note);
    row(out, "attention workspace", p->attn_bytes, "");
    snprintf(note, sizeof(note), "%d positions%s", p->ctx,
             p->is_auto_ctx && p->fits ? ", the largest context that fits" : "");
    row(out, "rope table", p->rope_bytes, note);
    snprintf(note, sizeof(note), "%d row%s", p->max_out, p->max_out == 1 ? "" : "s");
    row(out, "logits", p->logits_bytes, note);
    if (p->host_bytes > 0) row(out, "process", p->host_bytes, "");
    if (p->text_bytes > 0) row(out, "texts, connections", p->text_bytes, "at most, as requests come");
    if (p->is_host) index_row(p, out);
    snprintf(note, sizeof(note), "%" PRIu64 " tokens in %d blocks, %s a token in %s", p->kv_tokens, p->n_blocks,
             lf_plan_size(p->kv_token_bytes).text, lf_dtype_name(p->kv_dtype));
    row(out, "KV cache", p->kv_bytes, note);
    if (!lf_plan_is_plain(p) || p->n_slots > 0) group_rows(p, out);
    states_row(p, out);
    snprintf(note, sizeof(note), "of %s (%s available)", lf_plan_size(p->limit_bytes).text,
             lf_plan_size(p->available_bytes).text);
    row(out, "total", p->total_bytes, note);
    const char *by = p->is_described ? "assumed for driver and code" : "driver, code, other processes";
    if (p->context_bytes > 0) row(out, "in use before", p->context_bytes, by);
    if (!p->is_host) index_row(p, out);
    if (p->below_bytes > 0) {
        snprintf(note, sizeof(note), "%" PRIu64 " tokens below the cache, of this machine's memory", p->below_tokens);
        row(out, "--cache-memory", p->below_bytes, note);
    }
    requests_line(&p->requests, out);
    if (p->fits) {
        lf_buf_printf(out, "Fits: %d request%s of %d tokens at once; longest context %d tokens.\n", p->n_concurrent,
                      p->n_concurrent == 1 ? "" : "s", p->ctx, p->longest_ctx);
    } else {
        lf_buf_printf(out, "Does not fit: %s.\n", p->advice);
    }
}

static void print_requests_json(const struct lf_plan_requests *r, struct lf_buf *out)
{
    lf_buf_printf(out, ",\"room\":{\"request_tokens\":%d", r->tokens);
    if (r->n_plain >= 0) lf_buf_printf(out, ",\"%s\":%d", lf_dtype_name(r->plain), r->n_plain);
    if (r->n_fp8 >= 0) lf_buf_printf(out, ",\"fp8\":%d", r->n_fp8);
    lf_buf_char(out, '}');
}

static void print_groups_json(const struct lf_plan *p, struct lf_buf *out)
{
    lf_buf_cstr(out, ",\"kv_groups\":[");
    for (int i = 0; i < p->n_groups; i++) {
        const struct lf_kv_group *g = &p->groups[i];
        uint64_t page = lf_kv_page_bytes_of(p->kv_dtype, g->head_dim);
        uint64_t used = 2 * (uint64_t)g->n_kv_heads * (uint64_t)g->n_layers * page;
        lf_buf_printf(out,
                      "%s{\"window\":%d,\"layers\":%d,\"kv_heads\":%d,\"head_dim\":%d,\"request_blocks\":%d,"
                      "\"unused_block_bytes\":%" PRIu64 "}",
                      i > 0 ? "," : "", g->window, g->n_layers, g->n_kv_heads, g->head_dim, request_blocks(p, i),
                      p->kv_block_bytes - used);
    }
    lf_buf_char(out, ']');
}

void lf_plan_print_json(const struct lf_plan *p, const struct lf_hparams *hp, struct lf_buf *out)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"ctx", (uint64_t)p->ctx},
        {"max_positions", (uint64_t)hp->max_positions},
        {"made_positions", (uint64_t)hp->made_positions},
        {"chunk", (uint64_t)p->chunk},
        {"max_seqs", (uint64_t)p->max_seqs},
        {"max_seqs_before", (uint64_t)p->max_seqs_before},
        {"weight_bytes", p->weight_bytes},
        {"workspace_bytes", p->workspace_bytes},
        {"activation_bytes", p->act_bytes},
        {"attention_bytes", p->attn_bytes},
        {"rope_bytes", p->rope_bytes},
        {"logits_bytes", p->logits_bytes},
        {"host_bytes", p->host_bytes},
        {"text_bytes", p->text_bytes},
        {"context_bytes", p->context_bytes},
        {"kv_block_tokens", (uint64_t)lf_kv_windows_block_tokens(&p->windows)},
        {"kv_block_bytes", p->kv_block_bytes},
        {"kv_token_bytes", p->kv_token_bytes},
        {"kv_blocks", (uint64_t)p->n_blocks},
        {"kv_tokens", p->kv_tokens},
        {"kv_request_blocks", (uint64_t)p->n_request_blocks},
        {"kv_step_blocks", (uint64_t)p->n_step_blocks},
        {"kv_bytes", p->kv_bytes},
        {"state_layers", (uint64_t)p->states.n_layers},
        {"state_slot_bytes", p->slot_bytes},
        {"state_slots", (uint64_t)p->n_slots},
        {"snapshots", (uint64_t)p->n_snapshots},
        {"state_bytes", p->state_bytes},
        {"disk_index_bytes", p->disk_index_bytes},
        {"disk_tokens", p->disk_tokens},
        {"disk_bytes", p->disk_bytes},
        {"cache_memory_tokens", p->below_tokens},
        {"cache_memory_bytes", p->below_bytes},
        {"ranks", (uint64_t)p->n_ranks},
        {"context_ranks", (uint64_t)p->n_cp},
        {"ranks_shared_bytes", p->comm_bytes},
        {"total_bytes", p->total_bytes},
        {"limit_bytes", p->limit_bytes},
        {"available_bytes", p->available_bytes},
        {"concurrent_requests", (uint64_t)p->n_concurrent},
        {"longest_ctx", (uint64_t)p->longest_ctx},
    };
    char weights[LF_WEIGHTS_NAME_BYTES];
    lf_buf_printf(out, "{\"architecture\":");
    lf_json_write_string(out, lf_str_c(hp->architecture));
    lf_buf_cstr(out, ",\"device\":");
    lf_json_write_string(out, lf_str_c(p->device));
    lf_buf_printf(out, ",\"device_is_described\":%s", p->is_described ? "true" : "false");
    lf_plan_name_weights(weights, p);
    lf_buf_printf(out, ",\"weight_format\":\"%s\",\"kv_dtype\":\"%s\"", weights, lf_dtype_name(p->kv_dtype));
    for (size_t i = 0; i < LF_N_ELEMS(numbers); i++) {
        lf_buf_printf(out, ",\"%s\":%" PRIu64, numbers[i].key, numbers[i].value);
    }
    print_groups_json(p, out);
    print_requests_json(&p->requests, out);
    lf_buf_printf(out, ",\"fits\":%s,\"advice\":", p->fits ? "true" : "false");
    lf_json_write_string(out, lf_str_c(p->advice));
    lf_buf_char(out, '}');
}
