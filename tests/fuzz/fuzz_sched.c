/* The scheduler under operations in any order that its header allows: the bytes are the calls. A head of 8 bytes says
 * how large everything is; then each byte is an operation, the next ones what it is given.
 *
 * After every operation all invariants hold, a tenant among others has been admitted no more than its share, and a step
 * keeps its limits. At the end nothing more comes: then each launched step computes a token at least that nobody
 * computes again, so that everything is over after as many steps as there are tokens. That bounds every wait. */
#include "server/engine/scheduler.h"

#include <stddef.h>
#include <string.h>

#include "core/mix.h"
#include "core/limits.h"
#include "tests/fuzz/fuzz.h"

enum { BLOCK = LF_KV_BLOCK_TOKENS, SEQS_N = 24, BLOCKS_N = 12, TENANTS_N = 5, RUN_N = 8, FLIGHTS_N = 2 };
enum op { SUBMIT, ADMIT, LAUNCH, READ, END, JUMP, CLEAR, STEP, OPS_N };

struct bytes {
    const uint8_t *at, *end;
};

struct flight {
    struct lf_sched_step step;
    struct lf_sched_item items[RUN_N];
};

struct world {
    struct lf_sched sched;
    struct lf_block_pool pool;
    struct lf_prefix_cache *prefix; /* NULL: off */
    struct lf_sched_tenant tenants[TENANTS_N];
    uint32_t held_epochs[BLOCKS_N];
    int32_t refs[BLOCKS_N];
    struct flight flights[FLIGHTS_N]; /* the older one first */
    int n_flights, n_async_steps;
    int64_t now_ns;
    bool drains; /* nothing is learnt any more: it would take most of the time */
    uint64_t n_texts;
    struct lf_sched_seq seqs[SEQS_N];
    /* From here on not cleared: written before they are read. */
    int32_t ids[SEQS_N][BLOCKS_N * BLOCK];
    int32_t blocks[SEQS_N][BLOCKS_N];
    struct lf_prefix_key keys[SEQS_N][BLOCKS_N + 1];
};

static int take(struct bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

static bool is_live(const struct lf_sched_seq *seq)
{
    return seq->phase == LF_SCHED_WAITING || seq->phase == LF_SCHED_RUNNING;
}

static void open_world(struct world *w, struct bytes *b)
{
    memset(w, 0, offsetof(struct world, ids));
    w->now_ns = 1000;
    int n_blocks = 1 + take(b) % BLOCKS_N, chunk = 1 + take(b) * 2, max_seqs = 1 + take(b) % RUN_N;
    int max_out = 1 + take(b) % RUN_N, token_tile = 1 + take(b), n_tenants = 1 + take(b) % TENANTS_N;
    bool prefix = take(b) % 2;
    w->n_async_steps = take(b) % FLIGHTS_N;
    LF_ASSERT(lf_block_pool_init(&w->pool, n_blocks, NULL) == LF_OK);
    if (prefix) LF_ASSERT(lf_prefix_cache_create(&w->prefix, &w->pool, "fuzz", 4, BLOCK, NULL) == LF_OK);
    for (int i = 0; i < FLIGHTS_N; i++) w->flights[i].step.items = w->flights[i].items;
    const struct lf_sched_opts opts = {.chunk = chunk,
                                       .max_seqs = max_seqs,
                                       .n_kept = (max_seqs + 6) / 8,
                                       .max_out = max_out,
                                       .token_tile = token_tile,
                                       .step_ns = 50 * 1000 * 1000,
                                       .alone_ns = 200 * 1000 * 1000,
                                       .pool = &w->pool,
                                       .prefix = w->prefix,
                                       .tenants = w->tenants,
                                       .n_tenants = n_tenants,
                                       .held_epochs = w->held_epochs};
    lf_sched_init(&w->sched, &opts);
}

/* An entry that no follower looks at any more; NULL: all are taken. */
static struct lf_sched_seq *free_entry(struct world *w)
{
    for (int i = 0; i < SEQS_N; i++) {
        bool taken = is_live(&w->seqs[i]);
        for (int k = 0; k < SEQS_N; k++)
            taken = taken || (w->seqs[k].phase == LF_SCHED_WAITING && w->seqs[k].leader == &w->seqs[i]);
        if (!taken) return &w->seqs[i];
    }
    return NULL;
}

static void fill_ids(struct world *w, struct lf_sched_seq *seq, uint64_t text)
{
    for (int i = 0; i < seq->n_prompt; i++) seq->ids[i] = (int32_t)(lf_random64(text, (uint64_t)i) & 0xffff);
    if (!w->prefix) return;
    lf_prefix_cache_root(w->prefix, NULL, 0, &seq->keys[0]);
    for (int i = 0; i < seq->n_prompt / BLOCK; i++)
        lf_prefix_key_next(&seq->keys[i], seq->ids + (ptrdiff_t)i * BLOCK, BLOCK, &seq->keys[i + 1]);
    seq->n_keys = seq->n_prompt / BLOCK + 1;
}

/* Tenant, prompt (blocks and tokens), answer, priority, which text (0: one of its own), echo and leader. */
static void submit(struct world *w, struct bytes *b)
{
    struct lf_sched_seq *seq = free_entry(w);
    int room = w->pool.n_blocks * BLOCK, tenant = take(b) % 8, n_blocks = take(b) % BLOCKS_N, n_rest = take(b) % BLOCK;
    int n_prompt = LF_MIN(LF_MAX(n_blocks * BLOCK + n_rest, 1), room), max_tokens = take(b) % 32;
    int priority = (int8_t)take(b), text = take(b) % 4, flags = take(b);
    if (!seq) return;
    ptrdiff_t i = seq - w->seqs;
    memset(seq, 0, sizeof *seq);
    seq->ids = w->ids[i];
    seq->blocks = w->blocks[i];
    seq->keys = w->prefix ? w->keys[i] : NULL;
    seq->block_tokens = BLOCK;
    seq->n_prompt = n_prompt;
    seq->max_tokens = LF_MIN(max_tokens, room - n_prompt);
    seq->priority = priority * (flags & 4 ? 100000 : 1);
    seq->tenant_id = (uint64_t)tenant * (flags & 8 ? 0x9e3779b97f4a7c15u : 1);
    seq->all_logits = flags & 1;
    struct lf_sched_seq *leader = &w->seqs[(flags >> 4) % SEQS_N];
    if (flags & 2 && leader != seq && is_live(leader)) seq->leader = leader;
    lf_list_init(&seq->node);
    fill_ids(w, seq, text ? (uint64_t)text : 1000 + w->n_texts++);
    lf_sched_submit(&w->sched, seq, w->now_ns);
}

static void check_share(struct world *w, const struct lf_sched_seq *seq)
{
    const struct lf_sched_tenant *t = seq->tenant;
    int n = 0;
    memset(w->refs, 0, sizeof w->refs);
    LF_LIST_EACH(it, &w->sched.running)
    {
        const struct lf_sched_seq *other = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        for (int i = 0; i < other->n_blocks && other->tenant == t; i++) n += w->refs[other->blocks[i]]++ == 0;
    }
    if (w->sched.n_here == 1 || t->n_running == 1) return;
    LF_ASSERT(t->n_running <= LF_MAX(w->sched.opts.max_seqs * 3 / 4, 1));
    LF_ASSERT(n <= LF_MAX(w->pool.n_blocks * 3 / 4, 1));
}

static void admit(struct world *w)
{
    struct lf_sched_seq *seq;
    while ((seq = lf_sched_admit(&w->sched, w->now_ns)) != NULL) {
        LF_ASSERT(seq->n_cached < seq->n_prompt && seq->n_cached % BLOCK == 0);
        LF_ASSERT(!seq->all_logits || seq->n_cached == 0);
        check_share(w, seq);
        LF_ASSERT(w->sched.n_running <= w->sched.opts.max_seqs || seq->tenant->n_running == 1);
    }
    LF_ASSERT(w->sched.n_running > 0 || w->sched.n_waiting == 0);
}

static void check_step(const struct world *w, const struct lf_sched_step *step)
{
    const struct lf_sched_opts *o = &w->sched.opts;
    int n_tokens = 0, n_out = 0;
    for (int i = 0; i < step->n_items; i++) {
        const struct lf_sched_item *item = &step->items[i];
        LF_ASSERT(item->seq->phase == LF_SCHED_RUNNING && item->first == item->seq->n_done);
        LF_ASSERT(item->n_tokens >= 1 && item->first + item->n_tokens <= item->seq->n_ids);
        LF_ASSERT(item->n_out >= 0 && item->out_first >= 0 && item->out_first + item->n_out <= item->n_tokens);
        for (int k = 0; k < i; k++) LF_ASSERT(step->items[k].seq != item->seq);
        LF_ASSERT(!lf_sched_in_prefill(item->seq) || lf_sched_eta_ns(&w->sched, item->seq) > 0);
        n_tokens += item->n_tokens;
        n_out += item->n_out;
    }
    LF_ASSERT(step->n_items <= o->max_seqs);
    LF_ASSERT(n_tokens == step->n_tokens && n_tokens <= o->chunk && n_out == step->n_out && n_out <= o->max_out);
}

/* Whether there was something to launch, and room on the way for it. */
static bool launch(struct world *w)
{
    if (w->n_flights > w->n_async_steps) return false;
    struct lf_sched_step *step = &w->flights[w->n_flights].step;
    lf_sched_plan_step(&w->sched, step);
    check_step(w, step);
    LF_ASSERT(step->n_items > 0 || w->n_flights > 0 || w->sched.n_running == 0);
    if (step->n_items == 0) return false;
    lf_sched_launched(&w->sched, step);
    w->n_flights++;
    return true;
}

static void end(struct world *w, struct lf_sched_seq *seq)
{
    lf_sched_end(&w->sched, seq);
    for (int f = 0; f < w->n_flights; f++)
        for (int i = 0; i < w->flights[f].step.n_items; i++)
            if (w->flights[f].step.items[i].seq == seq) w->flights[f].step.items[i].seq = NULL;
}

static void read_oldest(struct world *w, int took)
{
    struct flight *f = &w->flights[0];
    if (w->n_flights == 0) return;
    for (int i = 0; i < f->step.n_items; i++) {
        struct lf_sched_seq *seq = f->step.items[i].seq;
        if (!seq || !f->step.items[i].complete) continue;
        if (seq->max_tokens > 0) lf_sched_sampled(&w->sched, seq, 7);
        if (seq->n_ids - seq->n_placeholders == seq->n_prompt + seq->max_tokens) end(w, seq);
    }
    int64_t took_ns = INT64_C(1000) << took % 24;
    w->now_ns += took_ns;
    if (!w->drains) lf_sched_learn(&w->sched, &f->step, took_ns);
    w->n_flights--;
    struct flight first = w->flights[0];
    w->flights[0] = w->flights[1];
    w->flights[1] = first;
    for (int i = 0; i < FLIGHTS_N; i++) w->flights[i].step.items = w->flights[i].items;
}

static void step(struct world *w, int took)
{
    admit(w);
    if (!launch(w) || w->n_flights > w->n_async_steps) read_oldest(w, took);
}

static void run_op(struct world *w, struct bytes *b)
{
    struct lf_sched_seq *seq;
    switch ((enum op)(take(b) % OPS_N)) {
    case SUBMIT:
        submit(w, b);
        break;
    case ADMIT:
        admit(w);
        break;
    case LAUNCH:
        (void)launch(w);
        break;
    case READ:
        read_oldest(w, take(b));
        break;
    case END:
        seq = &w->seqs[take(b) % SEQS_N];
        if (is_live(seq)) end(w, seq);
        break;
    case JUMP:
        w->now_ns += (int64_t)take(b) * 1000 * 1000 * 1000;
        break;
    case CLEAR:
        if (w->prefix) lf_prefix_cache_clear(w->prefix);
        break;
    default:
        step(w, take(b));
    }
    lf_sched_check(&w->sched, NULL, w->refs);
}

/* Tokens that may still be computed, and a step to read what is under way. */
static int64_t most_steps(const struct world *w)
{
    int64_t n = w->n_flights;
    for (int i = 0; i < SEQS_N; i++)
        if (is_live(&w->seqs[i])) n += w->seqs[i].n_prompt + w->seqs[i].max_tokens;
    return (1 + w->n_async_steps) * n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    struct bytes b = {data, data + size};
    open_world(&w, &b);
    while (b.at < b.end) run_op(&w, &b);
    w.drains = true;
    for (int64_t left = most_steps(&w); w.sched.n_running + w.sched.n_waiting + w.n_flights > 0; left--) {
        LF_ASSERT(left > 0);
        step(&w, 10);
    }
    lf_sched_check(&w.sched, NULL, w.refs);
    LF_ASSERT(w.pool.n_free + w.pool.n_cached == w.pool.n_blocks && w.sched.n_here == 0);
    lf_prefix_cache_destroy(w.prefix);
    lf_block_pool_deinit(&w.pool);
    return 0;
}
