/* What it costs to look for the next tokens in a long prompt (server/engine/speculation.h): the engine's thread does it
 * before a step is launched.
 *
 *     bench_proposals [TOKENS]      of the prompt; default 131072
 *
 * For prompts of several kinds, from random ids to one word over and over, a line: the time to index the prompt, which
 * is once a request, and, of a step each, the median and the 99th percentile of what is asked of the index: whether
 * waiting pays, what to propose, and what came of it. An answer is a passage of the prompt, so that there is something
 * to find, with a word changed now and then. Between steps the processor's caches are filled with other things, as a
 * model's step on a CPU does; a GPU's leaves more of the index in them. */
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "core/sort.h"
#include "server/engine/speculation.h"

enum { ANSWER_N = 512, WRONG_EVERY = 7, DEFAULT_TOKENS = 131072, OTHER_BYTES = 64 << 20, LINE = 64 };

struct bench {
    int n_prompt;
    int32_t *ids, *answer; /* [n_prompt + ANSWER_N + LF_SPECULATION_N], [ANSWER_N + LF_SPECULATION_N] */
    uint32_t *latest, *before;
    int64_t steps_ns[ANSWER_N];
    char *other; /* [OTHER_BYTES] */
};

static bool is_less(const void *a, const void *b)
{
    return *(const int64_t *)a < *(const int64_t *)b;
}

static int32_t *room(int n)
{
    int32_t *p = calloc((size_t)n, sizeof(*p));
    if (!p) exit(1);
    return p;
}

static void fill_caches(struct bench *b)
{
    for (size_t i = 0; i < OTHER_BYTES; i += LINE) b->other[i]++;
}

/* n_words: the vocabulary of the prompt; a passage of it, from the middle on, is what the answer says. */
static void make_text(struct bench *b, int n_words, uint64_t seed)
{
    for (int i = 0; i < b->n_prompt; i++) b->ids[i] = (int32_t)(lf_random64(seed, (uint64_t)i) % (uint64_t)n_words);
    for (int i = 0; i < ANSWER_N + LF_SPECULATION_N; i++)
        b->answer[i] = i % WRONG_EVERY == 0 ? n_words : b->ids[(b->n_prompt / 2 + i) % b->n_prompt];
}

/* A step behind the first n_ids of the sequence, done of its answer; returns how many tokens it brought. */
static int step(struct bench *b, struct lf_speculation *s, int n_ids, int done)
{
    (void)lf_speculation_gain(s, b->ids, n_ids, LF_SPECULATION_N, 0.1, false);
    int n = lf_speculation_propose(s, b->ids, n_ids, LF_SPECULATION_N, 0.1), n_right = 0;
    while (n_right < n && b->ids[n_ids + n_right] == b->answer[done + n_right]) n_right++;
    lf_speculation_learn(s, n, n_right);
    return n_right + 1;
}

static void run(struct bench *b, const char *name)
{
    struct lf_gram_index x;
    struct lf_speculation s;
    int log2 = lf_gram_index_log2(b->n_prompt + ANSWER_N), n_steps = 0, n_came = 0;
    int64_t start = lf_clock_ns();
    lf_gram_index_init(&x, b->ids, b->latest, log2, b->before);
    lf_gram_index_extend(&x, b->n_prompt);
    double index_ms = (double)(lf_clock_ns() - start) / 1e6;
    lf_speculation_init(&s, &x, 0, LF_SPECULATION_N);
    for (int done = 0; done < ANSWER_N;) {
        fill_caches(b);
        start = lf_clock_ns();
        int n = step(b, &s, b->n_prompt + done, done);
        b->steps_ns[n_steps++] = lf_clock_ns() - start;
        for (int i = 0; i < n; i++) b->ids[b->n_prompt + done + i] = b->answer[done + i];
        n_came += n - 1;
        done += n;
    }
    lf_sort(b->steps_ns, (size_t)n_steps, sizeof(*b->steps_ns), is_less);
    printf("%-14s %8d %9.2f %9.2f %9.2f %6.2f\n", name, b->n_prompt, index_ms, (double)b->steps_ns[n_steps / 2] / 1e3,
           (double)b->steps_ns[n_steps * 99 / 100] / 1e3, (double)n_came / n_steps);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int n_words;
    } texts[] = {{"random ids", 100000}, {"1000 words", 1000}, {"30 words", 30}, {"2 words", 2}, {"one word", 1}};
    char *end = NULL;
    long n_prompt = argc > 1 ? strtol(argv[1], &end, 10) : DEFAULT_TOKENS;
    struct bench b = {.n_prompt = (int)n_prompt};
    if ((end && *end) || n_prompt < ANSWER_N || n_prompt > 1 << 24) {
        fprintf(stderr, "bench_proposals: TOKENS is %s, expected %d to %d\n", argv[1], (int)ANSWER_N, 1 << 24);
        return 2;
    }
    int n = b.n_prompt + ANSWER_N + LF_SPECULATION_N;
    b.ids = room(n);
    b.answer = room(ANSWER_N + LF_SPECULATION_N);
    b.latest = (uint32_t *)room(1 << lf_gram_index_log2(n));
    b.before = (uint32_t *)room(n);
    b.other = (char *)room(OTHER_BYTES / (int)sizeof(int32_t));
    printf("%-14s %8s %9s %9s %9s %6s\n", "text", "tokens", "index ms", "step µs", "99%", "came");
    for (size_t i = 0; i < LF_N_ELEMS(texts); i++) {
        make_text(&b, texts[i].n_words, i + 1);
        run(&b, texts[i].name);
    }
    free(b.other);
    free(b.before);
    free(b.latest);
    free(b.answer);
    free(b.ids);
    return 0;
}
