/* An hour of a real service's arrivals (Azure's public LLM inference trace, conversations: arrival, prompt length,
 * answer length) on a modelled machine, in virtual time. Opt-in: LF_ASSETS names the folder that holds
 * traces/AzureLLMInferenceTrace_conv.csv; skipped where it is not set. */
#include "tests/support/test.h"

#include "core/check.h"
#include "core/clock.h"
#include "tests/sim/world.h"

enum { MAX_ROWS = 30000, MAX_GAPS = 8 * 1000 * 1000, STEP_MS = 50, SKIPPED = 77 };

struct arrival {
    int64_t at_ns;
    int n_prompt, n_answer;
};

struct figures {
    int n_gaps, n_ttft;
    int64_t *gaps, *ttft;
};

/* A machine with about twice the capacity that the hour needs on average. */
static const struct sim_machine machine = {
    .w = {[LF_COST_STEP] = 8e6,
          [LF_COST_TOKEN] = 4e4,
          [LF_COST_PREFILL_KEY] = 2,
          [LF_COST_LOGITS] = 1e4,
          [LF_COST_DECODE_KEY] = 40},
    .noise = 0.1,
};

/* Seconds since midnight of "2023-11-16 18:15:46.6805900". */
static bool parse_time(const char *text, int64_t *out_ns)
{
    if (strlen(text) < 20) return false;
    long h = strtol(text + 11, NULL, 10), m = strtol(text + 14, NULL, 10);
    *out_ns = (int64_t)((double)(h * 3600 + m * 60) * 1e9 + strtod(text + 17, NULL) * 1e9);
    return true;
}

static int read_trace(const char *path, struct arrival *rows)
{
    FILE *file = fopen(path, "r");
    char line[256];
    int n = 0;
    if (!file) return 0;
    while (n < MAX_ROWS && fgets(line, sizeof(line), file)) {
        struct arrival *a = &rows[n];
        char *comma = strchr(line, ','), *end;
        if (!comma || !parse_time(line, &a->at_ns)) continue;
        a->n_prompt = (int)strtol(comma + 1, &end, 10);
        if (*end != ',' || a->n_prompt < 1) continue; /* the line of headings too */
        a->n_answer = (int)strtol(end + 1, NULL, 10);
        if (a->n_answer > 0) n++;
    }
    fclose(file);
    return n;
}

static void on_token(struct sim_world *w, struct sim_request *r, int64_t gap_ns)
{
    struct figures *f = w->ctx;
    (void)r;
    if (f->n_gaps < MAX_GAPS) f->gaps[f->n_gaps++] = gap_ns;
}

static void on_end(struct sim_world *w, struct sim_request *r)
{
    struct figures *f = w->ctx;
    f->ttft[f->n_ttft++] = r->first_token_ns - r->submitted_ns;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_ms(int64_t *ns, int n, double p)
{
    assert_true(n > 0);
    qsort(ns, (size_t)n, sizeof(*ns), compare_ns);
    return (double)ns[(int)((double)(n - 1) * p)] * 1e-6;
}

static void free_ended(struct sim_world *w)
{
    struct sim_request *next;
    for (struct sim_request *r = w->requests; r; r = next) {
        next = r->next;
        if (r->seq.phase == LF_SCHED_ENDED) sim_collect(w, r);
    }
}

static void replay(struct sim_world *w, const struct arrival *rows, int n)
{
    int64_t start_ns = w->now_ns;
    for (int i = 0; i < n || w->sched.n_running + w->sched.n_waiting > 0;) {
        for (; i < n && start_ns + rows[i].at_ns - rows[0].at_ns <= w->now_ns; i++) {
            struct sim_request *r = sim_submit(w, 0, 0, rows[i].n_prompt, rows[i].n_answer, rows[i].n_answer);
            r->submitted_ns = start_ns + rows[i].at_ns - rows[0].at_ns; /* a step was running when it came */
        }
        if (!sim_step(w)) w->now_ns = start_ns + rows[i].at_ns - rows[0].at_ns;
        if (w->n_steps % 64 == 0) free_ended(w);
    }
}

static void an_hour_of_real_arrivals_keeps_its_pace(void **state)
{
    struct arrival *rows = *state;
    static struct figures f;
    int n = 0;
    while (rows[n].n_prompt > 0) n++;
    f.gaps = malloc(MAX_GAPS * sizeof(*f.gaps));
    f.ttft = malloc((size_t)n * sizeof(*f.ttft));
    assert_true(f.gaps && f.ttft);
    struct sim_opts o = {.n_blocks = 4096,
                         .chunk = 2048,
                         .max_seqs = 64,
                         .max_out = 64,
                         .step_ns = (int64_t)STEP_MS * LF_NS_PER_MS,
                         .prefix = true,
                         .machine = machine,
                         .seed = 1};
    struct sim_world w;
    sim_open(&w, &o);
    w.on_token = on_token;
    w.on_end = on_end;
    w.ctx = &f;
    int64_t before_ns = lf_clock_ns();
    replay(&w, rows, n);
    assert_int_equal(f.n_ttft, n);
    double itl = percentile_ms(f.gaps, f.n_gaps, 0.99), ttft = percentile_ms(f.ttft, n, 0.5);
    print_message("%d requests, %lld steps in %.1f s: ITL p50 %.1f p99 %.1f ms, TTFT p50 %.0f p99 %.0f ms\n", n,
                  (long long)w.n_steps, (double)(lf_clock_ns() - before_ns) * 1e-9,
                  percentile_ms(f.gaps, f.n_gaps, 0.5), itl, ttft, percentile_ms(f.ttft, n, 0.99));
    assert_true(itl <= 2 * STEP_MS);
    assert_true(ttft < 1000);
    sim_check(&w);
    sim_close(&w);
    free(f.ttft);
    free(f.gaps);
}

static int load(void **state)
{
    static struct arrival rows[MAX_ROWS + 1];
    char path[4096];
    snprintf(path, sizeof(path), "%s/traces/AzureLLMInferenceTrace_conv.csv", test_assets());
    *state = rows;
    return read_trace(path, rows) > 1000 ? 0 : -1;
}

int main(void)
{
    if (!getenv("LF_ASSETS")) {
        print_message("skipped: LF_ASSETS is not set\n");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_hour_of_real_arrivals_keeps_its_pace)};
    return cmocka_run_group_tests(tests, load, NULL);
}
