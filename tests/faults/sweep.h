/* The allocation sweep: a piece of work is done again and again while its 1st, 2nd, 3rd … allocation is refused, first
 * that one alone, then with all that follow it, until the work comes to its end without having met the refusal.
 *
 * Each time it must come back with LF_NO_MEMORY, or with LF_OK where it can do without; nothing may be left allocated.
 * The last round is the proof that the work still goes after all those failures. */
#ifndef LF_TESTS_FAULTS_SWEEP_H
#define LF_TESTS_FAULTS_SWEEP_H

#include "core/check.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/test.h"

/* Does the work and undoes it; ctx is the scenario's. Called without cmocka: it must not assert while armed. */
typedef enum lf_status sweep_fn(const void *ctx);

enum { SWEEP_MOST = 200000 };

/* Sanitizers cost a factor: under them every 11th is refused where there are more than these. */
#ifdef FAILING_ALLOC_WRAPPED
enum { SWEEP_ALL_BELOW = 64, SWEEP_STEP = 11 };
#else
enum { SWEEP_ALL_BELOW = SWEEP_MOST, SWEEP_STEP = 1 };
#endif

/* at_least: allocations that the work is known to make, so that a sweep over nothing fails. n_ways: 1 refuses single
 * allocations only, 2 also all from the k-th on. */
static inline void sweep_ways(const char *name, sweep_fn *run, const void *ctx, long at_least, int n_ways)
{
    long k = 1;
    if (run(ctx) != LF_OK) fail_msg("%s: fails without a refusal", name); /* also what is allocated once and kept */
    for (int for_good = 0; for_good < n_ways; for_good++) {
        for (k = 1;; k += k < SWEEP_ALL_BELOW ? 1 : SWEEP_STEP) {
            long before = failing_alloc_n_live();
            failing_alloc_arm(k, for_good);
            enum lf_status status = run(ctx);
            long n_refused = failing_alloc_disarm();
            long left = failing_alloc_n_live() - before;
            if (status != LF_NO_MEMORY && status != LF_OK)
                fail_msg("%s: allocation %ld refused: status %s", name, k, lf_status_name(status));
            if (left != 0) fail_msg("%s: allocation %ld refused: %ld blocks left", name, k, left);
            if (n_refused == 0) {
                assert_int_equal(status, LF_OK);
                break;
            }
            assert_true(k < SWEEP_MOST);
        }
    }
    if (k - 1 < at_least) fail_msg("%s: %ld allocations, at least %ld were expected", name, k - 1, at_least);
    print_message("%-40s %6ld allocations\n", name, k - 1);
}

/* The same with n + 1 variants of the work, without a word, each allocation refused alone: for work whose small pieces
 * share large blocks. Each variant fills them to another point, so every piece is once the one that needs a new block.
 * set(ctx, i) makes the i-th; under a sanitizer every 11th of them is enough. */
static inline void sweep_variants(const char *name, sweep_fn *run, void (*set)(void *ctx, int i), void *ctx, int n)
{
    long n_refused_all = 0;
    for (int i = 0; i <= n; i += SWEEP_STEP) {
        set(ctx, i);
        if (run(ctx) != LF_OK) fail_msg("%s: variant %d fails without a refusal", name, i);
        for (long k = 1, n_refused = 1; n_refused != 0; k++) {
            long before = failing_alloc_n_live();
            failing_alloc_arm(k, false);
            enum lf_status status = run(ctx);
            n_refused = failing_alloc_disarm();
            long left = failing_alloc_n_live() - before;
            if ((status != LF_NO_MEMORY && status != LF_OK) || left != 0)
                fail_msg("%s: variant %d, allocation %ld refused: status %s, %ld blocks left", name, i, k,
                         lf_status_name(status), left);
            n_refused_all += n_refused;
        }
    }
    assert_true(n_refused_all >= n / SWEEP_STEP);
    print_message("%-40s %6ld refusals in %d variants\n", name, n_refused_all, n + 1);
}

static inline void sweep(const char *name, sweep_fn *run, const void *ctx, long at_least)
{
    sweep_ways(name, run, ctx, at_least, 2);
}

#endif
