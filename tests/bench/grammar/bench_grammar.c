/* How long a mask takes, and a compilation: driven by compare.py, which writes both inputs.
 *
 *     bench_grammar VOCABULARY CASES [--cold]
 *
 * VOCABULARY: for each token its length (2 bytes, little-endian) and bytes; the last token is the end. CASES: a line of
 * JSON each, {"schema": …, "tokens": [ids …]}; with "begin" and "end", the answer is text in which calls may stand:
 * begin, JSON of the schema, end. Every case is compiled, then its answer is read token by token with a mask before
 * each. Prints a row for the whole: compile and mask times, mean and percentiles in microseconds; with
 * --cold the vocabulary's memory of walks is a new one for each case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/check.h"
#include "core/file.h"
#include "grammar/grammar.h"
#include "grammar/matcher_impl.h"

enum { SAMPLES_N = 4 * 1000 * 1000 };

struct samples {
    int64_t *ns;
    size_t n;
    int64_t worst_ns;
    int worst_case; /* line of CASES */
};

static uint32_t most_visited; /* nodes, by one mask: to compare with LF_GRAMMAR_MASK_STEPS */

/* Processor time of this thread: what others do on the machine does not count. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void add(struct samples *s, int64_t ns, int line)
{
    LF_ASSERT(s->n < SAMPLES_N);
    if (ns > s->worst_ns) s->worst_case = line;
    if (ns > s->worst_ns) s->worst_ns = ns;
    s->ns[s->n++] = ns;
}

static void show(const char *what, struct samples *s)
{
    double sum = 0;
    qsort(s->ns, s->n, sizeof *s->ns, by_value);
    for (size_t i = 0; i < s->n; i++) sum += (double)s->ns[i] / 1e3;
    if (s->n == 0) return;
    printf("%-8s n %7zu  mean %9.2f  p50 %9.2f  p90 %9.2f  p99 %9.2f  max %9.2f us (line %d)\n", what, s->n,
           sum / (double)s->n, (double)s->ns[s->n / 2] / 1e3, (double)s->ns[s->n * 9 / 10] / 1e3,
           (double)s->ns[s->n * 99 / 100] / 1e3, (double)s->ns[s->n - 1] / 1e3, s->worst_case);
}

static struct lf_vocabulary *read_vocabulary(struct lf_buf *text, const char *path)
{
    struct lf_vocabulary *v = NULL;
    struct lf_err err;
    int n = 0;
    LF_ASSERT(lf_file_read(text, path, 1 << 30, NULL) == LF_OK);
    const uint8_t *p = (const uint8_t *)text->ptr, *end = p + text->len;
    struct lf_str *tokens = malloc(LF_VOCAB_N * sizeof *tokens);
    LF_ASSERT(tokens != NULL);
    while (p + 2 <= end) {
        size_t len = (size_t)p[0] | (size_t)p[1] << 8;
        tokens[n++] = lf_str_from((const char *)p + 2, len);
        p += 2 + len;
    }
    int32_t last = n - 1;
    if (lf_vocabulary_create(&v, tokens, n, &last, 1, 0, &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    free(tokens);
    return v;
}

static void read_answer(struct lf_matcher *m, uint32_t *mask, struct lf_json_value ids, struct samples *masks,
                        struct samples *steps, int line)
{
    for (struct lf_json_value it = lf_json_first(ids); lf_json_more(ids, it); it = lf_json_next(ids, it)) {
        int64_t id, began = cpu_ns();
        LF_ASSERT(lf_matcher_mask(m, mask, NULL) == LF_OK);
        add(masks, cpu_ns() - began, line);
        most_visited = LF_MAX(most_visited, m->n_visited);
        LF_ASSERT(lf_json_int64(it, &id));
        LF_ASSERT(mask[id / 32] >> id % 32 & 1);
        began = cpu_ns();
        LF_ASSERT(lf_matcher_accept(m, (int32_t)id) == LF_OK);
        add(steps, cpu_ns() - began, line);
    }
}

/* The answer of a case: JSON, or text with calls in it. */
static enum lf_status compile(struct lf_grammar **out, struct lf_json_value of, struct lf_err *err)
{
    struct lf_json_value schema = lf_json_get(of, "schema"), begin = lf_json_get(of, "begin");
    if (lf_json_type(begin) != LF_JSON_STRING) return lf_grammar_of_schema(out, schema, NULL, NULL, err);
    struct lf_grammar_part marker = {.kind = LF_PART_TEXT, .text = lf_json_raw(begin)};
    struct lf_grammar_part call[] = {{.kind = LF_PART_UNTIL, .parts = &marker, .n_parts = 1},
                                     {.kind = LF_PART_SCHEMA, .schema = schema},
                                     {.kind = LF_PART_TEXT, .text = lf_json_raw(lf_json_get(of, "end"))}};
    struct lf_grammar_part whole = {.kind = LF_PART_SEQUENCE, .parts = call, .n_parts = 3};
    struct lf_grammar_part parts[] = {{.kind = LF_PART_REPEAT, .parts = &whole, .n_parts = 1},
                                      {.kind = LF_PART_FREE, .parts = &marker, .n_parts = 1}};
    struct lf_grammar_part root = {.kind = LF_PART_SEQUENCE, .parts = parts, .n_parts = 2};
    return lf_grammar_of_parts(out, &root, NULL, err);
}

int main(int argc, char **argv)
{
    struct lf_buf vocabulary, cases;
    struct samples compiles = {.ns = malloc(SAMPLES_N * 8)}, masks = {.ns = malloc(SAMPLES_N * 8)},
                   steps = {.ns = malloc(SAMPLES_N * 8)};
    int n_lines = 0;
    bool cold = argc > 3 && strcmp(argv[3], "--cold") == 0;
    if (argc < 3 || !compiles.ns || !masks.ns || !steps.ns) return 2;
    lf_buf_init(&vocabulary, 1 << 30);
    lf_buf_init(&cases, 1 << 30);
    int64_t began = cpu_ns();
    struct lf_vocabulary *v = read_vocabulary(&vocabulary, argv[1]);
    printf("vocabulary: %.1f ms, %.1f MiB\n", (double)(cpu_ns() - began) / 1e6,
           (double)lf_vocabulary_bytes(v) / (1 << 20));
    LF_ASSERT(lf_file_read(&cases, argv[2], 1 << 30, NULL) == LF_OK);
    uint32_t *mask = malloc(lf_vocabulary_mask_words(v) * sizeof *mask);
    LF_ASSERT(mask != NULL);
    for (char *line = cases.ptr, *end; (end = strchr(line, '\n')); line = end + 1) {
        struct lf_json doc = {0};
        struct lf_grammar *g = NULL;
        struct lf_matcher *m = NULL;
        struct lf_err err;
        n_lines++;
        LF_ASSERT(lf_json_parse(&doc, lf_str_from(line, (size_t)(end - line)), &lf_json_limits_file, &err) == LF_OK);
        if (cold) {
            lf_vocabulary_destroy(v);
            lf_buf_clear(&vocabulary);
            v = read_vocabulary(&vocabulary, argv[1]);
        }
        began = cpu_ns();
        enum lf_status status = compile(&g, lf_json_root(&doc), &err);
        add(&compiles, cpu_ns() - began, n_lines);
        if (status != LF_OK) {
            printf("%s\n", err.message);
        } else {
            LF_ASSERT(lf_matcher_create(&m, g, v, NULL) == LF_OK);
            read_answer(m, mask, lf_json_get(lf_json_root(&doc), "tokens"), &masks, &steps, n_lines);
        }
        lf_matcher_destroy(m);
        lf_grammar_unref(g);
        lf_json_deinit(&doc);
    }
    show("compile", &compiles);
    show("mask", &masks);
    show("accept", &steps);
    printf("at most %u nodes visited by one mask\n", (unsigned)most_visited);
    free(mask);
    free(compiles.ns);
    free(masks.ns);
    free(steps.ns);
    lf_vocabulary_destroy(v);
    lf_buf_deinit(&vocabulary);
    lf_buf_deinit(&cases);
    return 0;
}
