/* What the policy below the cache is worth: documents of 1K to 128K tokens that are asked about by Zipf, beside texts
 * that come once, in a place too small for all. What must be computed again is counted, in units of a token at the
 * front, and compared with least recently used in the same traffic. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/mix.h"
#include "kv/tiers/eviction.h"

enum { DOCS_N = 100, ASKS_N = 1500, BLOCKS_MOST = 2048, SEEDS_N = 6 };

struct traffic {
    double zipf, once; /* its exponent; the part of texts that never come again */
    int n_places, tokens_most;
    uint64_t seed;
};

struct block {
    struct lf_eviction_item item;
    int doc, idx; /* of what lies here; doc -1: nothing */
};

/* A place for blocks. `is_plain`: all have the same value. */
struct place {
    struct lf_eviction order;
    struct block *blocks;
    int n_blocks;
    int at[DOCS_N][BLOCKS_MOST]; /* where a document's block lies, -1: nowhere */
    uint64_t n_writes;
    double paid;
    bool is_plain;
};

static double uniform(uint64_t seed, uint64_t *n)
{
    return (double)(lf_random64(seed, (*n)++) >> 11) * 0x1p-53;
}

static int draw_blocks(const struct traffic *t, uint64_t *n)
{
    return (int)(1024 * pow(t->tokens_most / 1024.0, uniform(t->seed, n))) / 64;
}

static struct block *claim(struct place *p, int n_places)
{
    if (p->n_blocks < n_places) return &p->blocks[p->n_blocks++];
    struct block *b = LF_LIST_ENTRY(lf_eviction_next(&p->order), struct block, item);
    lf_eviction_remove(&p->order, &b->item);
    if (b->doc >= 0) p->at[b->doc][b->idx] = -1;
    return b;
}

/* doc -1: one that nobody asks for again. */
static void ask(struct place *p, const struct traffic *t, int doc, int n_blocks)
{
    for (int i = 0; i < n_blocks; i++) {
        struct block *b = doc >= 0 && p->at[doc][i] >= 0 ? &p->blocks[p->at[doc][i]] : NULL;
        if (b) {
            lf_eviction_remove(&p->order, &b->item);
            if (!p->is_plain) lf_eviction_count_use(&b->item);
        } else {
            p->paid += 1 + 64.0 * i / LF_EVICTION_TWICE_TOKENS;
            b = claim(p, t->n_places);
            p->n_writes++;
            *b = (struct block){.item = {.depth = p->is_plain ? 0 : 64 * (uint32_t)i}, .doc = doc, .idx = i};
            if (doc >= 0) p->at[doc][i] = (int)(b - p->blocks);
        }
        lf_eviction_add(&p->order, &b->item, p->n_writes);
    }
}

static double paid_by(const struct traffic *t, bool is_plain)
{
    struct place *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->blocks = calloc((size_t)t->n_places, sizeof(*p->blocks));
    assert_non_null(p->blocks);
    p->is_plain = is_plain;
    for (int d = 0; d < DOCS_N; d++)
        for (int i = 0; i < BLOCKS_MOST; i++) p->at[d][i] = -1;
    lf_eviction_init(&p->order, (uint32_t)t->n_places);
    uint64_t n = 0;
    int n_blocks[DOCS_N];
    double cumulated[DOCS_N], sum = 0;
    for (int d = 0; d < DOCS_N; d++) {
        n_blocks[d] = draw_blocks(t, &n);
        cumulated[d] = sum += pow(d + 1, -t->zipf);
    }
    for (int a = 0; a < ASKS_N; a++) {
        if (uniform(t->seed, &n) < t->once) {
            ask(p, t, -1, draw_blocks(t, &n));
            continue;
        }
        double at = uniform(t->seed, &n) * sum;
        int d = 0;
        while (d < DOCS_N - 1 && cumulated[d] < at) d++;
        ask(p, t, d, n_blocks[d]);
    }
    double paid = p->paid;
    free(p->blocks);
    free(p);
    return paid;
}

static void less_is_computed_again_than_by_age_alone(void **state)
{
    (void)state;
    static const struct traffic kinds[] = {
        {.zipf = 1.0, .n_places = 10000, .tokens_most = 131072},
        {.zipf = 0.6, .n_places = 10000, .tokens_most = 131072},
        {.zipf = 0.8, .n_places = 20000, .tokens_most = 131072, .once = 0.3},
        {.zipf = 1.0, .n_places = 5000, .tokens_most = 32768, .once = 0.2},
    };
    for (size_t k = 0; k < LF_N_ELEMS(kinds); k++) {
        double sum = 0;
        for (uint64_t seed = 1; seed <= SEEDS_N; seed++) {
            struct traffic t = kinds[k];
            t.seed = seed;
            double ratio = paid_by(&t, false) / paid_by(&t, true);
            assert_true(ratio < 1.01); /* never worse */
            sum += ratio;
        }
        print_message("Zipf %.1f, %2.0f%% once, %5d blocks, up to %3dK tokens: %.3f of what least recently used pays\n",
                      kinds[k].zipf, 100 * kinds[k].once, kinds[k].n_places, kinds[k].tokens_most / 1024,
                      sum / SEEDS_N);
        assert_true(sum / SEEDS_N < 0.96);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_is_computed_again_than_by_age_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
