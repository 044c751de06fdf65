/* What a rank has of the weights: bit by bit the rows and columns that the one model has there, of every family that is
 * divided and of every quantized format, expanded and as it is stored. */
#include <dirent.h>
#include <unistd.h>

#include "core/check.h"
#include "core/log.h"
#include "tests/golden/model/loaded.h"

enum { N_RANKS = 2, MAX_WIDTH = 1024, N_SPLIT_AT_LEAST = 40, N_CODED_AT_LEAST = 100 };

#define DATA "tests/golden/model/data"

static int n_split, n_coded; /* directories, and matrices that stayed coded */

/* The row of the whole slot that is row `row` of a rank's part. */
static int whole_row(const struct lf_slot *whole, const struct lf_slot_part *part, int row)
{
    int source = part->rank_row + lf_row_order_source(part, row), first = 0;
    for (int k = 0; k < whole->n_parts; first += whole->parts[k++].n_rows) {
        if (strcmp(whole->parts[k].pattern, part->pattern) != 0) continue;
        for (int i = 0; i < whole->parts[k].n_rows; i++)
            if (lf_row_order_source(&whole->parts[k], i) == source) return first + i;
    }
    fail_msg("row %d of %s is nowhere", source, part->pattern);
    return -1;
}

/* Two matrices of the slot: one expert's, or its only ones. */
static void check_matrix(const struct model *all, const struct model *rank, int slot_idx, int expert)
{
    static float values[MAX_WIDTH], of_rank[MAX_WIDTH];
    const struct lf_slot *whole = &all->programs.recorded.slots[slot_idx],
                         *cut = &rank->programs.recorded.slots[slot_idx];
    const struct lf_ops *ops = lf_device_ops(all->dev);
    struct lf_weight w = lf_weight_of_expert(ops, &all->weights.of[slot_idx], expert);
    struct lf_weight v = lf_weight_of_expert(ops, &rank->weights.of[slot_idx], expert);
    assert_true(w.n_in <= MAX_WIDTH && v.n_in == cut->n_in && v.n_out == cut->n_out);
    for (int k = 0, at = 0; k < cut->n_parts; at += cut->parts[k++].n_rows)
        for (int row = 0; row < cut->parts[k].n_rows; row++) {
            ops->weight_row(all->dev, &w, whole_row(whole, &cut->parts[k], row), values);
            ops->weight_row(rank->dev, &v, at + row, of_rank);
            assert_memory_equal(of_rank, values + cut->rank_column, (size_t)cut->n_in * sizeof(float));
        }
}

static void check_rank(const struct model *all, const char *dir, int r, bool expands)
{
    struct model rank;
    const struct lf_split split = {.rank = r, .n_ranks = N_RANKS};
    open_model(&rank, dir, &split, expands);
    for (int i = 0; i < all->programs.recorded.n_slots; i++) {
        const struct lf_slot *slot = &all->programs.recorded.slots[i];
        n_coded += !lf_format_is_plain(&rank.weights.of[i].format);
        for (int e = 0; e < LF_MAX(slot->n_experts, 1) && !slot->is_vector; e++) check_matrix(all, &rank, i, e);
    }
    close_model(&rank);
}

/* Whether two ranks can have it at all. */
static bool is_divided(const char *dir)
{
    struct lf_hparams hp;
    struct lf_program program;
    struct lf_err err;
    assert_int_equal(lf_hparams_read(&hp, dir, &err), LF_OK);
    hp.split.n_ranks = N_RANKS;
    enum lf_status status = lf_program_record(&program, &hp, &err);
    if (status == LF_OK) lf_program_deinit(&program);
    lf_hparams_deinit(&hp);
    assert_true(status == LF_OK || status == LF_INVALID || status == LF_UNSUPPORTED);
    return status == LF_OK;
}

/* Whether columns of its formats are divided in whole groups. */
static bool has_whole_groups(const char *dir)
{
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_model_opts load = {.dir = dir};
    struct lf_weights_size size;
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_err err;
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_OK);
    assert_int_equal(lf_hparams_read(&hp, dir, &err), LF_OK);
    hp.split.n_ranks = N_RANKS;
    enum lf_status status = lf_weights_measure(&size, &hp, &load, dev, &err);
    if (status != LF_OK && !strstr(err.message, "are not divided over 2 ranks")) fail_msg("%s: %s", dir, err.message);
    lf_hparams_deinit(&hp);
    lf_device_close(dev);
    return status == LF_OK;
}

static void check_dir(const char *dir)
{
    if (!is_divided(dir) || !has_whole_groups(dir)) return;
    for (int expands = 0; expands < 2; expands++) {
        struct model all;
        open_model(&all, dir, NULL, expands);
        for (int r = 0; r < N_RANKS; r++) check_rank(&all, dir, r, expands);
        close_model(&all);
    }
    n_split++;
}

static void check_all(const char *parent)
{
    DIR *all = opendir(parent);
    assert_non_null(all);
    for (struct dirent *one = readdir(all); one; one = readdir(all)) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s/config.json", parent, one->d_name);
        if (access(path, F_OK) != 0) continue;
        snprintf(path, sizeof(path), "%s/%s", parent, one->d_name);
        check_dir(path);
    }
    closedir(all);
}

static void ranks_have_the_weights_of_the_one_model(void **state)
{
    (void)state;
    check_all(DATA);
    check_all(DATA "/quantized");
    print_message("%d models divided, %d matrices of ranks coded\n", n_split, n_coded);
    assert_true(n_split >= N_SPLIT_AT_LEAST && n_coded >= N_CODED_AT_LEAST);
}

int main(void)
{
    lf_log_set_level(LF_LOG_ERROR);
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_have_the_weights_of_the_one_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
