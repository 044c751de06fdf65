/* What a grammar costs an answer, at the engine's level: the time of a step without one and with one.
 *
 *     bench_engine MODEL_DIR [--pairs 7] [--tokens 600] [--threads 0] [--device cpu]
 *
 * For 1 and for 8 requests at once: pairs of a round without and a round with the grammar of a JSON schema, in turn, on
 * one engine. Prints a row for each number of requests: both medians in microseconds a step, and their ratio as the
 * median of the pairs. With --threads 1 what counts is the process's processor time: a busy machine matters less then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "grammar/grammar.h"
#include "server/engine/engine.h"
#include "tests/support/model_rig.h"
#include "tokenizer/tokenizer.h"

enum { PAIRS_MAX_N = 99, REQUESTS_N = 8, PROMPT_N = 64 };

static const char schema[] = "{\"type\":\"array\",\"minItems\":1000,\"items\":{\"type\":\"object\",\"properties\":{"
                             "\"name\":{\"type\":\"string\"},"
                             "\"kind\":{\"enum\":[\"person\",\"place\",\"thing\"]},\"size\":{\"type\":\"integer\","
                             "\"minimum\":0,\"maximum\":9999},"
                             "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":12}}},"
                             "\"required\":[\"name\",\"kind\",\"size\",\"tags\"],\"additionalProperties\":false}}";

static enum lf_status launch(void *ctx, struct lf_kv_cache *kv, const struct lf_batch *batch)
{
    struct lf_err err;
    return lf_model_launch(ctx, kv, batch, &err);
}

static enum lf_status sample(void *ctx, const struct lf_batch *batch)
{
    struct lf_err err;
    return lf_model_sample(ctx, batch, &err);
}

static enum lf_status wait_step(void *ctx, struct lf_sampled *out)
{
    struct lf_err err;
    return lf_model_wait(ctx, out, &err);
}

static void run_tasks(void *ctx, int n_tasks, lf_engine_task_fn *fn, void *tasks)
{
    lf_model_run_tasks(ctx, n_tasks, fn, tasks);
}

/* Tokens that are whole characters, which JSON can be written in. */
static struct lf_vocabulary *read_vocabulary(const char *dir, int n_vocab)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_vocabulary *v = NULL;
    struct lf_str *tokens = calloc((size_t)n_vocab, sizeof *tokens);
    struct lf_err err;
    LF_ASSERT(tokens && lf_tokenizer_open(&tok, dir, &err) == LF_OK);
    for (int32_t id = 0; id < LF_MIN(n_vocab, lf_tokenizer_n_vocab(tok)); id++) {
        struct lf_buf text;
        lf_buf_init(&text, 4096);
        LF_ASSERT(lf_tokenizer_decode(tok, &text, &id, 1, false, NULL, NULL) == LF_OK);
        struct lf_str s = lf_buf_view(&text);
        if (s.len && !memmem(s.ptr, s.len, "\xef\xbf\xbd", 3)) tokens[id] = lf_str_from(strndup(s.ptr, s.len), s.len);
        lf_buf_deinit(&text);
    }
    LF_ASSERT(lf_vocabulary_create(&v, tokens, n_vocab, NULL, 0, 0, &err) == LF_OK);
    for (int id = 0; id < n_vocab; id++) free((void *)(uintptr_t)tokens[id].ptr);
    free(tokens);
    lf_tokenizer_close(tok);
    return v;
}

static struct lf_grammar *read_grammar(void)
{
    struct lf_json doc = {0};
    struct lf_grammar *g = NULL;
    LF_ASSERT(lf_json_parse(&doc, lf_str_c(schema), &lf_json_limits_request, NULL) == LF_OK);
    LF_ASSERT(lf_grammar_of_schema(&g, lf_json_root(&doc), NULL, NULL, NULL) == LF_OK);
    lf_json_deinit(&doc);
    return g;
}

static bool by_processor_time;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(by_processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Microseconds a step of n requests at once takes; the short prompt is in it. */
static double run_round(struct lf_engine *engine, const struct lf_gen_params *p, int n)
{
    double began_us = now_us();
    struct lf_request *reqs[REQUESTS_N];
    struct lf_request_state st;
    struct lf_err err;
    int retry;
    for (int i = 0; i < n; i++) LF_ASSERT(lf_engine_submit(engine, p, &reqs[i], &retry, &err) == LF_OK);
    for (int i = 0; i < n; i++) {
        do {
            lf_clock_sleep_ms(2);
            lf_request_snapshot(reqs[i], &st);
        } while (st.finish == LF_FINISH_NONE);
        LF_ASSERT(st.finish == LF_FINISH_LENGTH);
        lf_request_put(reqs[i]);
    }
    return (now_us() - began_us) / p->max_tokens;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static void measure(struct lf_engine *engine, struct lf_gen_params *p, struct lf_grammar *g, int n, int n_pairs)
{
    double without[PAIRS_MAX_N], with[PAIRS_MAX_N], ratio[PAIRS_MAX_N];
    const struct lf_engine_metrics *m = lf_engine_metrics(engine);
    uint64_t masks = lf_counter_get(&m->masks), masks_ns = lf_counter_get(&m->masks_ns);
    for (int i = -1; i < n_pairs; i++) { /* the first pair is not counted */
        p->grammar = NULL;
        double a = run_round(engine, p, n);
        p->grammar = g;
        double b = run_round(engine, p, n);
        if (i < 0) continue;
        without[i] = a;
        with[i] = b;
        ratio[i] = b / a;
    }
    masks = lf_counter_get(&m->masks) - masks;
    masks_ns = lf_counter_get(&m->masks_ns) - masks_ns;
    printf("%d at once: %.1f us a step without, %.1f with a grammar, ratio %.3f; a mask %.2f us\n", n,
           median(without, n_pairs), median(with, n_pairs), median(ratio, n_pairs),
           (double)masks_ns / 1e3 / (double)masks);
}

int main(int argc, char **argv)
{
    int n_pairs = 7, n_tokens = 600, n_threads = 0;
    const char *device = NULL;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--pairs") == 0) n_pairs = LF_MIN((int)strtol(argv[i + 1], NULL, 10), PAIRS_MAX_N);
        if (strcmp(argv[i], "--tokens") == 0) n_tokens = (int)strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--threads") == 0) n_threads = (int)strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--device") == 0) device = argv[i + 1];
    }
    if (argc < 2 || n_pairs < 1 || n_tokens < 2) {
        fprintf(stderr, "bench_engine MODEL_DIR [--pairs N] [--tokens N] [--threads N] [--device NAME]\n");
        return 2;
    }
    by_processor_time = n_threads == 1;
    const int ctx = PROMPT_N + n_tokens;
    struct model_rig_opts opts = {.dir = argv[1],
                                  .device = device,
                                  .max_isa = -1,
                                  .n_threads = n_threads,
                                  .ctx = ctx,
                                  .chunk = 512,
                                  .max_seqs = REQUESTS_N,
                                  .max_out = REQUESTS_N,
                                  .kv_tokens = REQUESTS_N * (ctx + LF_KV_BLOCK_TOKENS),
                                  .kv_dtype = LF_BF16};
    struct model_rig rig;
    struct lf_err err = {LF_OK, ""};
    if (model_rig_open(&rig, &opts, &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    struct lf_vocabulary *v = read_vocabulary(argv[1], rig.hp.n_vocab);
    struct lf_grammar *g = read_grammar();
    struct lf_engine_backend backend = {.ctx = rig.model,
                                        .launch = launch,
                                        .sample = sample,
                                        .wait = wait_step,
                                        .run_tasks = lf_model_has_workers(rig.model) ? run_tasks : NULL,
                                        .n_async_steps = lf_model_n_async_steps(rig.model),
                                        .n_vocab = rig.hp.n_vocab};
    struct lf_engine_opts engine_opts = {.ctx = ctx,
                                         .chunk = 512,
                                         .max_seqs = REQUESTS_N,
                                         .max_out = REQUESTS_N,
                                         .queue_n = 64,
                                         .step_ms = 100,
                                         .token_tile = lf_device_info(rig.dev)->token_tile};
    struct lf_engine *engine = NULL;
    LF_ASSERT(lf_engine_create(&engine, &backend, &rig.kv, &engine_opts, &err) == LF_OK);
    int32_t prompt[PROMPT_N];
    for (int i = 0; i < PROMPT_N; i++) prompt[i] = (int32_t)(lf_random64(1, (uint64_t)i) % (uint64_t)rig.hp.n_vocab);
    struct lf_gen_params p = {
        .prompt = prompt,
        .n_prompt = PROMPT_N,
        .max_tokens = n_tokens,
        .ignore_eos = true,
        .sampling = {.temperature = 0.7f, .top_p = 0.95f, .repetition_penalty = 1, .n_logprobs = -1},
        .vocabulary = v,
        .n_prompt_logprobs = -1};
    measure(engine, &p, g, 1, n_pairs);
    measure(engine, &p, g, REQUESTS_N, n_pairs);
    lf_engine_destroy(engine);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
    model_rig_close(&rig);
    return 0;
}
