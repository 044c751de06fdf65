#include "kv/tiers/pins.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/hash.h"

static size_t n_buckets_of(int n_blocks)
{
    size_t n = 16;
    while (n < (size_t)n_blocks) n *= 2;
    return n;
}

uint64_t lf_pins_host_bytes(int n_blocks)
{
    return n_buckets_of(n_blocks) * sizeof(struct lf_list);
}

enum lf_status lf_pins_init(struct lf_pins *pins, int n_blocks)
{
    pins->n_buckets = n_buckets_of(n_blocks);
    pins->buckets = calloc(pins->n_buckets, sizeof(*pins->buckets));
    if (!pins->buckets) return LF_NO_MEMORY;
    for (size_t i = 0; i < pins->n_buckets; i++) lf_list_init(&pins->buckets[i]);
    return LF_OK;
}

void lf_pins_deinit(struct lf_pins *pins)
{
    free(pins->buckets);
    memset(pins, 0, sizeof(*pins));
}

static struct lf_list *bucket_of(const struct lf_pins *pins, const struct lf_prefix_key *key)
{
    return &pins->buckets[lf_hash64(key->bytes, sizeof(key->bytes)) & (pins->n_buckets - 1)];
}

void lf_pins_add(struct lf_pins *pins, struct lf_pin_node *node)
{
    LF_ASSERT(node->pin > LF_PIN_NONE && node->pin < LF_PIN_N);
    lf_list_push_back(bucket_of(pins, node->key), &node->node);
}

void lf_pins_remove(struct lf_pin_node *node)
{
    lf_list_remove(&node->node);
}

enum lf_pin lf_pins_find(const struct lf_pins *pins, const struct lf_prefix_key *key, int window)
{
    enum lf_pin most = LF_PIN_NONE;
    const struct lf_kv_windows w = {.n = 1, .tokens = {window}};
    LF_LIST_EACH(it, bucket_of(pins, key))
    {
        const struct lf_pin_node *node = LF_LIST_ENTRY(it, struct lf_pin_node, node);
        if (window > 0 && node->idx < lf_kv_windows_first(&w, 0, node->n - 1)) continue;
        if (memcmp(node->key->bytes, key->bytes, sizeof(key->bytes)) == 0) most = LF_MAX(most, node->pin);
    }
    return most;
}
