/* The bounds of the engine's histograms: latencies, gaps between tokens, counts of tokens. */
#include "core/check.h"
#include "server/engine/engine.h"

void lf_engine_metrics_init(struct lf_engine_metrics *m)
{
    struct lf_histogram *latencies[] = {&m->ttft_s,    &m->e2e_s,    &m->queue_s,
                                        &m->prefill_s, &m->decode_s, &m->inference_s};
    struct lf_histogram *tokens[] = {&m->prompt_tokens_per_request, &m->generation_tokens_per_request,
                                     &m->tokens_per_step, &m->max_tokens};
    for (size_t i = 0; i < LF_N_ELEMS(latencies); i++)
        lf_histogram_init(latencies[i], lf_bounds_latency_s, lf_bounds_latency_n);
    for (size_t i = 0; i < LF_N_ELEMS(tokens); i++) lf_histogram_init(tokens[i], lf_bounds_tokens, lf_bounds_tokens_n);
    lf_histogram_init(&m->itl_s, lf_bounds_gap_s, lf_bounds_gap_n);
}
