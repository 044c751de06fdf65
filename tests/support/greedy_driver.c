/* Greedy answers of a model to a list of token ids, for comparison with another implementation.
 *
 *     greedy_driver DIR N_TOKENS [--kv f32|bf16|f16] [--chunk N] [--isa N] [--device NAME] [--logits] < ids
 *
 * Reads white-space separated ids from standard input; prints a line "id gap" for each answer token, gap being the
 * distance between the two largest logits; with --logits the logits of the prompt's last token follow as one line. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "tests/support/model_rig.h"

struct args {
    struct model_rig_opts rig;
    int n_tokens, chunk;
    bool logits;
};

static int usage(void)
{
    fprintf(stderr,
            "greedy_driver DIR N_TOKENS [--kv f32|bf16|f16] [--chunk N] [--isa N] [--device NAME] [--logits] < ids\n");
    return 2;
}

static bool parse_args(struct args *a, int argc, char **argv)
{
    if (argc < 3) return false;
    *a = (struct args){.rig = {.dir = argv[1], .max_isa = -1, .kv_dtype = LF_BF16}, .chunk = 512};
    a->n_tokens = (int)strtol(argv[2], NULL, 10);
    for (int i = 3; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--logits") == 0) {
            a->logits = true;
        } else if (strcmp(argv[i], "--kv") == 0 && more) {
            const char *type = argv[++i];
            a->rig.kv_dtype = strcmp(type, "f32") == 0 ? LF_F32 : strcmp(type, "f16") == 0 ? LF_F16 : LF_BF16;
        } else if (strcmp(argv[i], "--device") == 0 && more) {
            a->rig.device = argv[++i];
        } else if (strcmp(argv[i], "--chunk") == 0 && more) {
            a->chunk = (int)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--isa") == 0 && more) {
            a->rig.max_isa = (int)strtol(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    a->rig.chunk = LF_MAX(a->chunk, (int)LF_BATCH_STATE_TOKENS);
    return a->n_tokens > 0 && a->chunk > 0;
}

/* Ids from standard input. Returns how many, -1 where something is no number. */
static int read_ids(int32_t **out)
{
    int n = 0, cap = 0, c = getchar();
    *out = NULL;
    while (c != EOF) {
        if (isspace(c)) {
            c = getchar();
            continue;
        }
        long x = 0;
        for (; isdigit(c); c = getchar()) x = LF_MIN(x * 10 + (c - '0'), 1L << 30);
        if (c != EOF && !isspace(c)) return -1;
        if (n == cap) {
            cap = cap ? 2 * cap : 1024;
            int32_t *more = realloc(*out, (size_t)cap * sizeof(**out));
            if (!more) return -1;
            *out = more;
        }
        (*out)[n++] = (int32_t)x;
    }
    return n;
}

static int32_t best_of(const float *logits, int n, float *gap)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    float second = -1e30f;
    for (int i = 0; i < n; i++) {
        if (i != best && logits[i] > second) second = logits[i];
    }
    *gap = logits[best] - second;
    return best;
}

static void generate(struct model_rig *rig, const struct args *a, const int32_t *ids, int n, float *logits)
{
    int32_t *blocks = malloc((size_t)rig->plan.n_blocks * sizeof(*blocks));
    LF_ASSERT(blocks != NULL);
    model_rig_fill_table(rig, blocks, rig->plan.n_blocks);
    int64_t start = lf_clock_ns();
    model_rig_run(rig, blocks, ids, n, 0, a->chunk, false, logits);
    fprintf(stderr, "%d tokens in %.3f s\n", n, (double)(lf_clock_ns() - start) / 1e9);
    float *first = malloc((size_t)rig->hp.n_vocab * sizeof(*first));
    LF_ASSERT(first != NULL);
    memcpy(first, logits, (size_t)rig->hp.n_vocab * sizeof(*first));
    for (int i = 0; i < a->n_tokens; i++) {
        float gap;
        int32_t id = best_of(logits, rig->hp.n_vocab, &gap);
        printf("%d %.6f\n", id, (double)gap);
        if (i + 1 < a->n_tokens) model_rig_run(rig, blocks, &id, 1, n + i, 1, false, logits);
    }
    for (int i = 0; i < rig->hp.n_vocab && a->logits; i++) printf("%.8g ", (double)first[i]);
    if (a->logits) printf("\n");
    free(first);
    free(blocks);
}

int main(int argc, char **argv)
{
    struct args a;
    struct model_rig rig;
    struct lf_err err;
    int32_t *ids = NULL;
    if (!parse_args(&a, argc, argv)) return usage();
    int n = read_ids(&ids);
    if (n < 1) return usage();
    a.rig.ctx = n + a.n_tokens;
    a.rig.max_seqs = LF_MIN(a.chunk, 16);
    int64_t start = lf_clock_ns();
    if (model_rig_open(&rig, &a.rig, &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.message);
        free(ids);
        return 1;
    }
    fprintf(stderr, "open in %.1f ms\n", (double)(lf_clock_ns() - start) / 1e6);
    float *logits = malloc((size_t)rig.hp.n_vocab * sizeof(*logits));
    LF_ASSERT(logits != NULL);
    generate(&rig, &a, ids, n, logits);
    free(logits);
    free(ids);
    model_rig_close(&rig);
    return 0;
}
