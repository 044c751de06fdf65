/* A program that runs seeds: its command line, the loop, and the name of the seed in which it stops.
 *
 *     PROGRAM --seeds A..B     those
 *     PROGRAM --seed N         one, with a line a step on standard output
 *     PROGRAM --steps N        other than 1,000 */
#ifndef LF_TESTS_SIM_SEEDS_H
#define LF_TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_seeds {
    uint64_t first, last;
    int n_steps;
    bool verbose;
};

/* Runs those of the arguments, or else the n from 0 on (a tenth of them where checks are slow), and prints how many and
 * how long. A seed whose check fails is named before the program stops. false: a usage has been printed, and nothing
 * run. */
bool sim_seeds_run(struct sim_seeds *out, int argc, char **argv, const char *program, uint64_t n,
                   void (*run)(uint64_t seed, int n_steps, bool verbose, void *ctx), void *ctx);

#endif
