#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "server/engine/block_tables.h"
#include "server/engine/holding.h"
#include "server/engine/proposals.h"

static void on_evict(void *ctx, int32_t block)
{
    struct sim_world *w = ctx;
    w->n_evicted++;
    w->forget(w->prefix, block);
}

/* Comes between the pool and the prefix cache. */
static void count_evictions(struct sim_world *w)
{
    LF_ASSERT(w->pool.on_evict_ctx == w->prefix);
    w->forget = w->pool.on_evict;
    w->pool.on_evict = on_evict;
    w->pool.on_evict_ctx = w;
}

void sim_open(struct sim_world *w, const struct sim_opts *o)
{
    memset(w, 0, sizeof(*w));
    w->machine = o->machine;
    if (w->machine.w[LF_COST_TRIED] <=
        0) { /* what is tried costs what a prompt's tokens do where nothing else is said */
        w->machine.w[LF_COST_TRIED] = w->machine.w[LF_COST_TOKEN] + w->machine.w[LF_COST_LOGITS];
        w->machine.w[LF_COST_TRIED_KEY] = w->machine.w[LF_COST_PREFILL_KEY];
    }
    w->seed = o->seed;
    w->block = lf_kv_windows_block_tokens(&o->windows);
    w->now_ns = 1000000000;
    LF_ASSERT(lf_block_pool_init(&w->pool, o->n_blocks, NULL) == LF_OK);
    if (o->prefix) LF_ASSERT(lf_prefix_cache_create(&w->prefix, &w->pool, "sim", 3, w->block, NULL) == LF_OK);
    w->ahead = o->ahead;
    w->step.items = calloc((size_t)o->max_seqs, sizeof(*w->step.items));
    for (int i = 0; i < 2; i++) w->flights[i].step.items = calloc((size_t)o->max_seqs, sizeof(*w->step.items));
    w->shadow = calloc((size_t)o->n_blocks * (size_t)w->block, sizeof(*w->shadow));
    int n_kept = (o->max_seqs + 6) / 8;
    sim_slots_open(w, o->n_slots, o->slot_blocks, o->max_seqs + n_kept);
    w->step.marks = w->slots.marks;
    size_t n_refs = (size_t)o->n_blocks + (size_t)w->slots.pool.n_blocks;
    w->refs = calloc(n_refs, sizeof(*w->refs));
    w->held = calloc(n_refs, sizeof(*w->held));
    int n_tenants = o->n_tenants > 0 ? o->n_tenants : 16;
    w->tenants = calloc((size_t)n_tenants, sizeof(*w->tenants));
    w->held_epochs = calloc((size_t)o->n_blocks, sizeof(*w->held_epochs));
    LF_ASSERT(w->tenants && w->held_epochs);
    LF_ASSERT(w->step.items && w->flights[0].step.items && w->flights[1].step.items && w->shadow && w->refs && w->held);
    const struct lf_sched_opts opts = {.chunk = o->chunk,
                                       .max_seqs = o->max_seqs,
                                       .n_kept = n_kept,
                                       .max_out = o->max_out,
                                       .token_tile = LF_MAX(o->token_tile, 1),
                                       .step_ns = o->step_ns,
                                       .alone_ns = LF_MAX(o->step_ns, o->alone_ns),
                                       .windows = o->windows,
                                       .pool = &w->pool,
                                       .slots = w->slots.pool.n_blocks > 0 ? &w->slots.pool : NULL,
                                       .snapshots = w->slots.snapshots,
                                       .slot_blocks = o->slot_blocks,
                                       .whole_chunks = o->whole_chunks,
                                       .prefix = w->prefix,
                                       .tenants = w->tenants,
                                       .n_tenants = n_tenants,
                                       .held_epochs = w->held_epochs,
                                       .proposes = o->proposes,
                                       .proposal_tokens = o->seed % 2 == 0 ? 16 : 0};
    lf_sched_init(&w->sched, &opts);
    if (w->prefix) count_evictions(w);
    sim_disk_open(w, &o->disk);
}

void sim_close(struct sim_world *w)
{
    while (w->requests) {
        if (w->requests->seq.phase != LF_SCHED_ENDED) sim_end(w, w->requests);
        sim_collect(w, w->requests);
    }
    sim_disk_close(w);
    sim_slots_close(w);
    free(w->held_epochs);
    free(w->tenants);
    free(w->held);
    free(w->refs);
    free(w->shadow);
    for (int i = 0; i < 2; i++) free(w->flights[i].step.items);
    free(w->step.items);
    if (w->prefix) w->pool.on_evict_ctx = w->prefix;
    lf_prefix_cache_destroy(w->prefix);
    lf_block_pool_deinit(&w->pool);
}

uint64_t sim_random(struct sim_world *w)
{
    return lf_random64(w->seed, w->n_draws++);
}

int sim_between(struct sim_world *w, int lo, int hi)
{
    return lo + (int)(sim_random(w) % (uint64_t)(hi - lo + 1));
}

bool sim_chance(struct sim_world *w, double p)
{
    return (double)(sim_random(w) >> 11) * 0x1p-53 < p;
}

/* Where texts repeat themselves they do every twenty tokens, but for one in some sixteen. */
static int32_t token_of(uint64_t text, int position, bool repeats)
{
    uint64_t own = lf_mix64(text * 0x9e3779b97f4a7c15u + (uint64_t)position);
    if (!repeats || own % 16 == 0) return (int32_t)(own & 0xffff);
    return (int32_t)(lf_mix64(text * 0x9e3779b97f4a7c15u + (uint64_t)(position % 20)) & 0xffff);
}

int32_t sim_text_of(const struct sim_request *r, int p)
{
    const struct lf_sched_seq *seq = &r->seq;
    if (p < seq->n_prompt) return seq->ids[p];
    return token_of((uint64_t)seq->ids[seq->n_prompt - 1] + 1000, p - seq->n_prompt, r->grams != NULL);
}

/* As request.c has it. A third of them may always be given seven. */
static void speculate(struct sim_world *w, struct sim_request *r)
{
    struct lf_gram_index index;
    int n_ids = r->seq.n_prompt + r->seq.max_tokens, log2 = lf_gram_index_log2(n_ids);
    if (!w->sched.opts.proposes) return;
    r->grams = calloc(((size_t)1 << log2) + (size_t)n_ids, sizeof(*r->grams));
    LF_ASSERT(r->grams);
    lf_gram_index_init(&index, r->seq.ids, r->grams, log2, r->grams + ((size_t)1 << log2));
    lf_speculation_init(&r->speculation, &index, 0, r->seq.n_prompt % 3 == 0 ? 7 : LF_SPECULATION_AUTO);
    r->seq.speculation = &r->speculation;
}

static void fill_content(struct sim_request *r)
{
    uint64_t all = 0;
    for (int p = 0; p < r->seq.n_prompt + r->seq.max_tokens; p++) {
        all = lf_mix64(all * 3 + (uint64_t)sim_text_of(r, p));
        r->content[p] = (int32_t)(all & 0x3ffffff);
    }
}

/* What depends on the prompt's tokens. */
static void follow_ids(struct sim_world *w, struct sim_request *r)
{
    struct lf_sched_seq *seq = &r->seq;
    fill_content(r);
    if (!w->prefix) return;
    lf_prefix_cache_root(w->prefix, NULL, 0, &seq->keys[0]);
    for (int i = 0; i < seq->n_prompt / w->block; i++)
        lf_prefix_key_next(&seq->keys[i], seq->ids + (ptrdiff_t)i * w->block, w->block, &seq->keys[i + 1]);
    seq->n_keys = seq->n_prompt / w->block + 1;
}

int32_t sim_content_of(const struct sim_request *r, int group, int p)
{
    return r->content[p] | group << 26;
}

struct sim_request *sim_make(struct sim_world *w, int doc, int n_shared, int n_prompt, int max_tokens, int n_answer)
{
    size_t n_groups = (size_t)lf_kv_windows_n(&w->sched.opts.windows);
    size_t n_blocks = (size_t)lf_sched_n_blocks(&w->sched.opts.windows, n_prompt, max_tokens);
    struct sim_request *r = calloc(1, sizeof(*r));
    LF_ASSERT(r);
    struct lf_sched_seq *seq = &r->seq;
    r->id = (int)w->n_draws;
    r->doc = doc;
    r->n_shared = n_shared;
    r->n_answer = LF_MIN(n_answer, max_tokens);
    seq->block_tokens = w->block;
    seq->n_prompt = n_prompt;
    seq->max_tokens = max_tokens;
    seq->ids = calloc((size_t)n_prompt + (size_t)max_tokens, sizeof(*seq->ids));
    seq->blocks = calloc(n_groups * n_blocks, sizeof(*seq->blocks));
    r->content = calloc((size_t)n_prompt + (size_t)max_tokens, sizeof(*r->content));
    LF_ASSERT(seq->ids && seq->blocks && r->content);
    speculate(w, r);
    uint64_t own = sim_random(w);
    for (int i = 0; i < n_prompt; i++) seq->ids[i] = token_of(i < n_shared ? (uint64_t)doc : own, i, r->grams != NULL);
    lf_list_init(&seq->node);
    r->next = w->requests;
    w->requests = r;
    if (w->prefix) seq->keys = calloc(n_blocks + 1, sizeof(*seq->keys));
    LF_ASSERT(seq->keys || !w->prefix);
    follow_ids(w, r);
    if (w->disk.opts.n_blocks == 0) return r;
    size_t n_states = n_groups * n_blocks + (size_t)w->slots.n_parts;
    seq->restore.states = calloc(n_states, sizeof(*seq->restore.states));
    LF_ASSERT(seq->restore.states);
    return r;
}

struct sim_request *sim_make_behind(struct sim_world *w, const struct sim_request *before, int n_prompt, int max_tokens)
{
    struct sim_request *r = sim_make(w, 0, 0, n_prompt, max_tokens, max_tokens);
    for (int i = 0; i < n_prompt; i++) r->seq.ids[i] = sim_text_of(before, i);
    follow_ids(w, r);
    return r;
}

void sim_enter(struct sim_world *w, struct sim_request *r)
{
    r->submitted_ns = w->now_ns;
    lf_sched_submit(&w->sched, &r->seq, w->now_ns);
}

struct sim_request *sim_submit(struct sim_world *w, int doc, int n_shared, int n_prompt, int max_tokens, int n_answer)
{
    struct sim_request *r = sim_make(w, doc, n_shared, n_prompt, max_tokens, n_answer);
    sim_enter(w, r);
    return r;
}

static int32_t *slot_of(const struct sim_world *w, const struct lf_sched_seq *seq, int g, int p)
{
    return &w->shadow[(ptrdiff_t)lf_sched_table(seq, g)[p / w->block] * w->block + p % w->block];
}

static void check_slot(const struct sim_world *w, const struct lf_sched_seq *seq, int g, int p)
{
    LF_ASSERT(p / w->block >= seq->tables[g].first && p / w->block < seq->tables[g].end);
    LF_ASSERT(*slot_of(w, seq, g, p) == sim_content_of((const struct sim_request *)seq, g, p));
}

/* Every slot that the sequence counts as computed, and has, holds what it should. */
static void check_content(const struct sim_world *w, const struct lf_sched_seq *seq, int from, int to)
{
    for (int g = 0; g < lf_kv_windows_n(&w->sched.opts.windows); g++)
        for (int p = LF_MAX(from, seq->tables[g].first * w->block); p < to; p++) check_slot(w, seq, g, p);
}

/* What the tokens of an item see is there, but for what is proposed, as they are given to the device: each position of
 * every sixteenth step, else the first and the last of each block. */
static void check_seen(const struct sim_world *w, const struct lf_sched_item *item)
{
    const struct lf_kv_windows *windows = &w->sched.opts.windows;
    int end = item->first + item->n_tokens - item->n_proposed;
    for (int g = 0; g < lf_kv_windows_n(windows); g++) {
        int window = windows->tokens[g], first = window > 0 ? LF_MAX(item->first - window + 1, 0) : 0;
        for (int p = first; p < end; p++) {
            check_slot(w, item->seq, g, p);
            if (w->n_steps % 16 != 0) p = LF_MAX(p, LF_MIN(p / w->block * w->block + w->block - 2, end - 2));
        }
    }
}

void sim_end(struct sim_world *w, struct sim_request *r)
{
    if (r->seq.phase == LF_SCHED_RUNNING && w->check) check_content(w, &r->seq, 0, r->seq.n_done);
    lf_sched_end(&w->sched, &r->seq);
    for (int f = 0; f < w->n_flights; f++)
        for (int i = 0; i < w->flights[f].step.n_items; i++)
            if (w->flights[f].step.items[i].seq == &r->seq) w->flights[f].step.items[i].seq = NULL;
    r->ended_ns = w->now_ns;
    LF_ASSERT(++r->n_ended == 1);
    if (w->on_end) w->on_end(w, r);
}

void sim_collect(struct sim_world *w, struct sim_request *r)
{
    LF_ASSERT(r->n_ended == 1);
    struct sim_request **at = &w->requests;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    free(r->seq.restore.states);
    free(r->seq.keys);
    free(r->seq.blocks);
    free(r->content);
    free(r->grams);
    free(r->seq.ids);
    free(r);
}

/* Prefills progress by LF_SCHED_MIN_TOKENS at least, unless one ends with fewer, or meets what comes from below, or
 * there is no room for more. */
static void check_progress(const struct sim_world *w)
{
    const struct lf_sched_step *step = &w->step;
    bool full = step->n_tokens == w->sched.opts.chunk || step->n_out == w->sched.opts.max_out ||
                step->n_items == w->sched.opts.max_seqs,
         ends = false, due = false;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        ends = ends || (lf_sched_in_prefill(item->seq) && item->n_tokens == lf_restore_room(item->seq));
    }
    LF_LIST_EACH(it, &w->sched.running)
    {
        const struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        due = due || (lf_sched_in_prefill(seq) && !seq->waits);
    }
    LF_ASSERT(!due || full || ends || step->n_prefill_tokens >= LF_SCHED_MIN_TOKENS);
}

/* What was planned keeps the limits, and every token has a slot of its own. */
static void check_step(const struct sim_world *w)
{
    const struct lf_sched_step *step = &w->step;
    const struct lf_sched_opts *o = &w->sched.opts;
    int n_tokens = 0, n_out = 0;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        const struct lf_sched_seq *seq = item->seq;
        LF_ASSERT(seq->phase == LF_SCHED_RUNNING && item->n_tokens >= 1 &&
                  seq->n_done + item->n_tokens - item->n_proposed <= seq->n_ids);
        LF_ASSERT(item->n_out >= 0 && item->out_first >= 0 && item->out_first + item->n_out <= item->n_tokens);
        bool complete = seq->n_done + item->n_tokens - item->n_proposed == seq->n_ids;
        LF_ASSERT(seq->n_ids + item->n_proposed < seq->n_prompt + seq->max_tokens || item->n_proposed == 0);
        LF_ASSERT(item->n_proposed == 0 || (o->proposes && complete && item->n_out == item->n_proposed + 1));
        LF_ASSERT(item->first == seq->n_done && item->complete == complete);
        LF_ASSERT(lf_sched_in_prefill(seq) || seq->n_ids < seq->n_prompt + seq->max_tokens);
        if (w->disk.opts.n_blocks > 0) check_content(w, seq, 0, seq->n_done); /* what it will look at */
        if (complete && seq->max_tokens > 0)
            LF_ASSERT(item->n_out >= 1 && item->out_first + item->n_out == item->n_tokens);
        if (seq->all_logits && lf_sched_in_prefill(seq))
            LF_ASSERT(item->out_first == 0 && item->n_out >= item->n_tokens - (complete ? 1 : 0));
        for (int k = 0; k < i; k++) LF_ASSERT(step->items[k].seq != seq);
        n_tokens += item->n_tokens;
        n_out += item->n_out;
    }
    LF_ASSERT(step->n_items >= 1 && step->n_items <= o->max_seqs);
    LF_ASSERT(n_tokens == step->n_tokens && n_tokens <= o->chunk && n_out == step->n_out && n_out <= o->max_out);
    check_progress(w);
}

static int64_t true_cost(struct sim_world *w)
{
    double ns = 0;
    for (int i = 0; i < LF_COST_N; i++) ns += w->machine.w[i] * w->step.load.x[i];
    for (int i = 0; i < w->step.n_items; i++)
        if (lf_sched_in_prefill(w->step.items[i].seq)) ns += w->machine.chunk;
    if (w->machine.noise > 0) ns *= 1 + w->machine.noise * ((double)(sim_random(w) >> 11) * 0x1p-52 - 1);
    if (w->machine.hiccup > 0 && sim_chance(w, w->machine.hiccup)) ns *= 50;
    return ns < 1 ? 1 : (int64_t)ns;
}

/* What a step leaves at position p, which is seen by all behind it: of what was proposed and is not what comes,
 * something else. */
static int32_t row_of(const struct lf_sched_item *item, int group, int p)
{
    const struct sim_request *r = (const struct sim_request *)item->seq;
    for (int at = r->seq.n_ids; at <= p; at++)
        if (r->seq.ids[at] != sim_text_of(r, at)) return -1;
    return sim_content_of(r, group, p);
}

static void write_rows(struct sim_world *w)
{
    for (int i = 0; i < w->step.n_items; i++) {
        const struct lf_sched_item *item = &w->step.items[i];
        const struct lf_sched_seq *seq = item->seq;
        if (lf_sched_in_prefill(seq)) ((struct sim_request *)item->seq)->n_prefilled += item->n_tokens;
        for (int g = 0; g < lf_kv_windows_n(&w->sched.opts.windows); g++)
            for (int p = seq->n_done; p < seq->n_done + item->n_tokens; p++)
                *slot_of(w, seq, g, p) = row_of(item, g, p);
    }
    bool due = w->check && (w->sched.opts.windows.n > 0 || w->n_steps % 16 == 0);
    for (int i = 0; i < w->step.n_items && due; i++) check_seen(w, &w->step.items[i]);
}

static void note_token(struct sim_world *w, struct sim_request *r)
{
    if (r->first_token_ns == 0) {
        r->first_token_ns = w->now_ns;
    } else {
        int64_t gap_ns = w->now_ns - r->last_token_ns;
        r->max_gap_ns = LF_MAX(r->max_gap_ns, gap_ns);
        if (w->on_token) w->on_token(w, r, gap_ns);
    }
    r->last_token_ns = w->now_ns;
}

/* false: it was the last. */
static bool read_token(struct sim_world *w, struct sim_request *r)
{
    struct lf_sched_seq *seq = &r->seq;
    note_token(w, r);
    int at = seq->n_ids - seq->n_placeholders, n_output = at - seq->n_prompt;
    if (n_output + 1 == r->n_answer && r->n_answer < seq->max_tokens)
        return false; /* a stop token is none of the text */
    lf_sched_sampled(&w->sched, seq, sim_text_of(r, at));
    return n_output + 1 < r->n_answer;
}

static void read_item(struct sim_world *w, const struct lf_sched_item *item)
{
    struct sim_request *r = (struct sim_request *)item->seq;
    struct lf_sched_seq *seq = &r->seq;
    if (!item->complete) return;
    LF_ASSERT(r->n_prefilled + seq->n_cached == seq->n_prompt);
    if (seq->pin != LF_PIN_NONE) {
        lf_sched_hold(&w->sched, seq);
        return;
    }
    if (seq->all_logits) LF_ASSERT(seq->n_cached == 0);
    bool goes_on = seq->max_tokens > 0;
    int n_right = 0;
    for (int i = 0; goes_on && i <= item->n_proposed; i++) {
        int at = seq->n_ids - seq->n_placeholders;
        bool is_right = i < item->n_proposed && seq->ids[at] == sim_text_of(r, at);
        LF_ASSERT(item->n_proposed > 0 || seq->ids[at] < 0);
        goes_on = read_token(w, r);
        if (!goes_on || !is_right) break;
        lf_sched_accepted(&w->sched, seq);
        n_right++;
    }
    w->n_accepted += n_right;
    if (item->n_proposed > 0) lf_speculation_learn(seq->speculation, item->n_proposed, n_right);
    if (!goes_on) sim_end(w, r);
}

/* The first in the queue is admitted as soon as those running let it, once nobody may pass it any more. */
static void check_head(struct sim_world *w)
{
    if (lf_list_empty(&w->sched.waiting)) return;
    struct sim_request *r = (struct sim_request *)LF_LIST_ENTRY(w->sched.waiting.next, struct lf_sched_seq, node);
    const struct lf_sched_hold *hold = &r->seq.tenant->blocked;
    if (hold->seq != &r->seq || w->now_ns - hold->since_ns < LF_SCHED_BYPASS_NS) return;
    r->head_steps++;
}

static void launch(struct sim_world *w)
{
    struct sim_flight *f = &w->flights[w->n_flights++];
    struct lf_sched_item *items = f->step.items;
    if (w->check) check_step(w);
    f->took_ns = true_cost(w);
    w->n_steps++;
    write_rows(w);
    sim_slots_step(w);
    f->step = w->step;
    f->step.items = items;
    memcpy(items, w->step.items, (size_t)w->step.n_items * sizeof(*items));
    lf_sched_launched(&w->sched, &f->step);
}

static void read_oldest(struct sim_world *w)
{
    struct sim_flight *f = &w->flights[0];
    w->now_ns += f->took_ns;
    for (int i = 0; i < f->step.n_items; i++)
        if (f->step.items[i].seq) read_item(w, &f->step.items[i]);
    lf_sched_learn(&w->sched, &f->step, f->took_ns);
    struct sim_flight done = *f;
    w->flights[0] = w->flights[1];
    w->flights[1] = done;
    w->n_flights--;
}

/* Of the blocks that are in use and not pinned those that stand in a table of the tenant, or are reserved for one. */
static int n_blocks_of(struct sim_world *w, const struct lf_sched_tenant *t)
{
    const struct lf_kv_windows *windows = &w->sched.opts.windows;
    int n = 0;
    memset(w->refs, 0, (size_t)w->pool.n_blocks * sizeof(*w->refs));
    LF_LIST_EACH(it, &w->sched.running)
    {
        const struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        if (seq->tenant != t) continue;
        for (int g = 0; g < lf_kv_windows_n(windows); g++) {
            if (lf_kv_windows_slides(windows, g)) n += (int)lf_kv_windows_held(windows, g, seq->table_stride);
            for (int i = 0; i < seq->n_blocks && !lf_kv_windows_slides(windows, g); i++) {
                int32_t block = lf_sched_table(seq, g)[i];
                n += w->pool.blocks[block].n_pins == 0 && w->refs[block]++ == 0;
            }
        }
    }
    return n;
}

/* A tenant among others has not been given more than its share. */
static void check_share(struct sim_world *w, const struct lf_sched_seq *seq)
{
    const struct lf_sched_tenant *t = seq->tenant;
    bool others = false;
    for (struct sim_request *r = w->requests; r; r = r->next) {
        if (r->seq.phase == LF_SCHED_NEW || r->seq.tenant == t) continue;
        others = others || r->seq.phase == LF_SCHED_WAITING || r->seq.phase == LF_SCHED_RUNNING;
    }
    if (!others || t->n_running == 1) return; /* one request may be larger than a share */
    LF_ASSERT(t->n_running <= LF_MAX(w->sched.opts.max_seqs * 3 / 4, 1));
    LF_ASSERT(n_blocks_of(w, t) <= LF_MAX(w->pool.n_blocks * 3 / 4, 1));
}

static void admit(struct sim_world *w)
{
    struct lf_sched_seq *seq;
    for (int64_t n_lost = sim_n_lost(w); (seq = lf_sched_admit(&w->sched, w->now_ns)) != NULL; n_lost = sim_n_lost(w)) {
        ((struct sim_request *)seq)->n_hit = seq->n_cached;
        ((struct sim_request *)seq)->n_lost = n_lost;
        ((struct sim_request *)seq)->started_ns = w->now_ns;
        ((struct sim_request *)seq)->n_steps_before = w->n_steps;
        LF_ASSERT(seq->n_cached < seq->n_prompt && seq->n_cached % w->block == 0);
        if (seq->all_logits) LF_ASSERT(seq->n_cached == 0);
        if (w->check) check_content(w, seq, 0, seq->n_cached);
        if (w->check) check_share(w, seq);
        if (w->on_admit) w->on_admit(w, (struct sim_request *)seq);
    }
    LF_ASSERT(w->sched.n_running > 0 || w->sched.n_waiting == 0 || w->disk.n_loads + w->n_jobs > 0);
}

/* As the engine does; the machine idles for a twentieth of a millisecond. */
static bool read_ahead(struct sim_world *w)
{
    if (w->n_flights == 0) return false;
    if (w->flights[w->n_flights - 1].step.n_proposed == 0 && !lf_proposals_wait(&w->sched)) return false;
    while (w->n_flights > 0) read_oldest(w);
    w->now_ns += LF_NS_PER_MS / 20;
    lf_proposals_waited(&w->sched, LF_NS_PER_MS / 20);
    return true;
}

bool sim_step(struct sim_world *w)
{
    sim_disk_take_back(w);
    admit(w);
    if (w->sched.n_running == 0 && w->n_flights == 0 && w->disk.n_loads == 0) return false;
    sim_disk_load(w);
    if (w->check) check_head(w);
    bool waited = read_ahead(w);
    if (w->sched.n_running == 0 && w->n_flights == 0 && w->disk.n_loads == 0) return true; /* all have just ended */
    lf_sched_plan_step(&w->sched, &w->step);
    LF_ASSERT(w->step.n_items > 0 || w->n_flights > 0 || waited || w->disk.n_loads > 0);
    if (w->step.n_items > 0) launch(w);
    if (w->n_flights > w->ahead || (w->step.n_items == 0 && w->n_flights > 0))
        read_oldest(w);
    else if (w->step.n_items == 0 && w->disk.n_loads > 0)
        sim_disk_wait(w);
    if (w->check) sim_check(w);
    return true;
}

void sim_check(struct sim_world *w)
{
    int n_slots = w->slots.pool.n_blocks;
    memset(w->held, 0, (size_t)(w->pool.n_blocks + n_slots) * sizeof(*w->held));
    sim_disk_check(w, w->held);
    for (int i = 0; i < w->n_jobs; i++) w->held[w->jobs[i]]++;
    lf_sched_check(&w->sched, w->held, w->refs);
    if (w->sched.n_running + w->disk.n_loads + w->n_jobs == 0) {
        LF_ASSERT(w->pool.n_free + w->pool.n_cached + w->pool.n_pinned == w->pool.n_blocks);
        LF_ASSERT(w->slots.pool.n_free + w->slots.pool.n_cached + w->slots.pool.n_pinned == n_slots);
    }
    sim_slots_check(w);
    LF_ASSERT(w->pool.n_pinned <= w->pool.n_blocks / 2);
    LF_LIST_EACH(it, &w->sched.holding)
    {
        const struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        check_content(w, seq, 0, seq->n_blocks * w->block); /* nothing takes what is pinned */
    }
}
