/* Ranks as a grid: collectives of their rows and columns. */
#include "tests/unit/device/comm_checks.h"

/* This rank among those of its row, or of its column; *line: which of them that is. */
static struct rank rank_along(const struct rank *r, enum lf_comm_axis axis, int n_columns, int *line)
{
    struct rank of = *r;
    assert_int_equal(lf_comm_along(&of.comm, r->comm, axis, n_columns, NULL), LF_OK);
    of.rank = lf_comm_rank(of.comm);
    of.n_ranks = lf_comm_n_ranks(of.comm);
    *line = axis == LF_COMM_ROW ? r->rank / n_columns : r->rank % n_columns;
    return of;
}

/* Now along one axis, now along the other, now among all; each line has messages of its own. */
static void along_both_axes(struct rank *r)
{
    int n_columns = *(const int *)r->ctx, lines[LF_COMM_AXES_N] = {0};
    float *x = malloc(MOST_FLOATS * sizeof(*x)), *y = malloc((size_t)MOST_FLOATS * MOST_RANKS * sizeof(*y));
    struct rank of[LF_COMM_AXES_N] = {[LF_COMM_ALL] = *r};
    assert_true(x && y);
    of[LF_COMM_ROW] = rank_along(r, LF_COMM_ROW, n_columns, &lines[LF_COMM_ROW]);
    of[LF_COMM_COLUMN] = rank_along(r, LF_COMM_COLUMN, n_columns, &lines[LF_COMM_COLUMN]);
    assert_int_equal(of[LF_COMM_ROW].n_ranks, n_columns);
    assert_int_equal(of[LF_COMM_COLUMN].rank * n_columns + of[LF_COMM_ROW].rank, r->rank);
    for (int i = 0; i < 60; i++) {
        int axis = (int)(lf_random64(8, (uint64_t)i) % LF_COMM_AXES_N), message = i + 1000 * lines[axis];
        switch (lf_random64(9, (uint64_t)message) % 3) {
        case 0:
            check_all_gather(&of[axis], message, x, y);
            break;
        case 1:
            check_all_reduce(&of[axis], message, x, y);
            break;
        default:
            check_lse_combine(&of[axis], message, x, y);
        }
    }
    lf_comm_destroy(of[LF_COMM_ROW].comm);
    lf_comm_destroy(of[LF_COMM_COLUMN].comm);
    free(x);
    free(y);
}

static void collectives_of_rows_and_columns_are_theirs_alone(void **state)
{
    (void)state;
    for (int n = 1; n <= MOST_RANKS; n++)
        for (int n_columns = 1; n_columns <= n; n_columns++)
            if (n % n_columns == 0) run_all(n, along_both_axes, &n_columns);
}

/* The last rank does not come to its column's meeting; then nobody comes to that of the rows. */
static void wait_in_column(struct rank *r)
{
    int line;
    struct rank column = rank_along(r, LF_COMM_COLUMN, 2, &line), row = rank_along(r, LF_COMM_ROW, 2, &line);
    if (r->rank < 3) lf_comm_barrier(column.comm);
    if (r->rank < 3) lf_comm_barrier(row.comm);
    lf_comm_destroy(column.comm);
    lf_comm_destroy(row.comm);
}
static void a_rank_that_is_missed_in_its_column_ends_all(void **state)
{
    (void)state;
    struct ranks ranks;
    start(&ranks, 4, SHORT_MS, wait_in_column, NULL);
    join(&ranks);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ranks.of[i].status, LF_DEVICE);
        assert_non_null(strstr(ranks.of[i].err.message, " waited 1000 ms for rank 3, in a barrier"));
    }
    end(&ranks);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_of_rows_and_columns_are_theirs_alone),
        cmocka_unit_test(a_rank_that_is_missed_in_its_column_ends_all),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed + cmocka_run_group_tests_name("over the wire", tests, use_wire, NULL);
}
