/* What engine doubles say about pins: there is no cache in which anything could be. Definitions, for the one double
 * that a program has. */
#ifndef LF_TESTS_SUPPORT_NO_PINS_H
#define LF_TESTS_SUPPORT_NO_PINS_H

#include "server/engine/engine.h"

bool lf_engine_keys(struct lf_engine *e, const struct lf_gen_params *params, uint8_t *keys)
{
    (void)e, (void)params, (void)keys;
    return false;
}

void lf_engine_places(struct lf_engine *e, const uint8_t *keys, int n, int n_there[LF_PIN_N])
{
    (void)e, (void)keys, (void)n;
    for (int pin = 0; pin < LF_PIN_N; pin++) n_there[pin] = 0;
}

void lf_engine_guard(struct lf_engine *e, bool guarded)
{
    (void)e, (void)guarded;
}

int64_t lf_engine_pin_blocks(const struct lf_engine *e, enum lf_pin pin, int64_t n)
{
    (void)e, (void)pin;
    return n;
}

int64_t lf_engine_most(struct lf_engine *e, const struct lf_gen_params *params)
{
    (void)e, (void)params;
    return INT64_MAX;
}

#endif
