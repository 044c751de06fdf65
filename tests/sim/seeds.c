#include "tests/sim/seeds.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"

#if defined(LF_DEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CHECKS_COST = 10 };
#else
enum { CHECKS_COST = 1 };
#endif

static char running_seed[64];

static void name_seed(int sig)
{
    (void)sig;
    ssize_t ignored = write(STDERR_FILENO, running_seed, strlen(running_seed));
    (void)ignored;
}

/* Said when the program stops by a failed check. */
static void name_running(const char *program, uint64_t seed)
{
    signal(SIGABRT, name_seed);
    snprintf(running_seed, sizeof(running_seed), "failed: %s --seed %llu\n", program, (unsigned long long)seed);
}

static bool parse_number(const char *text, char **end, uint64_t *out)
{
    errno = 0;
    *out = strtoull(text, end, 10);
    return errno == 0 && *end != text;
}

static bool parse(struct sim_seeds *out, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        char *end;
        uint64_t n;
        if (!parse_number(argv[i + 1], &end, &n)) return false;
        if (strcmp(argv[i], "--seed") == 0) {
            out->first = out->last = n;
            out->verbose = true;
        } else if (strcmp(argv[i], "--steps") == 0 && n > 0 && n < 1000000000) {
            out->n_steps = (int)n;
        } else if (strcmp(argv[i], "--seeds") == 0 && strncmp(end, "..", 2) == 0) {
            out->first = n;
            if (!parse_number(end + 2, &end, &out->last)) return false;
        } else {
            return false;
        }
        if (*end) return false;
    }
    return argc % 2 == 1 && out->first <= out->last;
}

bool sim_seeds_run(struct sim_seeds *out, int argc, char **argv, const char *program, uint64_t n,
                   void (*run)(uint64_t seed, int n_steps, bool verbose, void *ctx), void *ctx)
{
    *out = (struct sim_seeds){.last = n / CHECKS_COST - 1, .n_steps = 1000};
    if (!parse(out, argc, argv)) {
        fprintf(stderr, "usage: %s [--seed N | --seeds A..B] [--steps N]\n", program);
        return false;
    }
    int64_t before_ns = lf_clock_ns();
    for (uint64_t seed = out->first; seed <= out->last; seed++) {
        name_running(program, seed);
        run(seed, out->n_steps, out->verbose, ctx);
    }
    printf("%llu seeds, %.1f s\n", (unsigned long long)(out->last - out->first + 1),
           (double)(lf_clock_ns() - before_ns) * 1e-9);
    return true;
}
