/* The command line of a program that runs seeds, and the name of the seed in which it stops:
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

/* Those of the arguments; first and last are set before to what is run without. false: a usage has been printed. */
bool sim_seeds_parse(struct sim_seeds *out, int argc, char **argv, const char *program);
/* The seed that runs from now on: said when the program stops by a failed check. */
void sim_seeds_running(const char *program, uint64_t seed);

#endif
