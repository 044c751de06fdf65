/* Quantized checkpoints of every format (quantized.py made data/quantized): every row of every quantized matrix has,
 * bit by bit, the values that the format's own program gives it, and the logits are those of the model that has them in
 * place, which transformers computes in float64. */
#include <dirent.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/hash.h"
#include "core/log.h"
#include "model/names.h"
#include "tests/golden/model/loaded.h"
#include "tests/support/expected.h"
#include "tests/support/model_rig.h"
#include "tests/support/plain_kernels.h"

enum { CHUNK = 33, N_MODELS_AT_LEAST = 32, N_CODED_AT_LEAST = 80, HASH_BYTES = 8, MAX_WIDTH = 1024 };

#define DIR_NAME         "tests/golden/model/data/quantized"
#define TOLERANCE        2e-5
#define TOLERANCE_EIGHT  2.5e-2 /* where activations are rounded to eight bits (device/cpu/gemm_quant.h) */
#define TOLERANCE_FP8    1e-2   /* FP8 that is not rounded to a model's sixteen bits, as what is expected was */
#define TOLERANCE_HALVES 2.5e-2 /* activations are rounded to the type of the weights, where vectors multiply it */

/* ---- rows ---- */

/* The hash that a line "MODULE ROW HASH" of the text has; NULL: there is none. */
static const char *find_hash(const struct lf_buf *text, const char *module, int row)
{
    char start[LF_NAME_BYTES + 16];
    int n = snprintf(start, sizeof(start), "%s %d ", module, row);
    for (const char *at = text->ptr; at && *at;) {
        if (strncmp(at, start, (size_t)n) == 0) return at + n;
        at = strchr(at, '\n');
        if (at) at++;
    }
    return NULL;
}

/* One row of a matrix against its line; false: it has none. */
static bool check_row(const struct model *m, const struct lf_buf *text, const struct lf_weight *w, int row,
                      const char *module, int row_in_file)
{
    static float values[MAX_WIDTH];
    uint8_t sha[LF_SHA256_BYTES];
    char hex[2 * HASH_BYTES + 1];
    const char *want = find_hash(text, module, row_in_file);
    assert_true(w->n_in <= MAX_WIDTH);
    if (!want) return false;
    lf_device_ops(m->dev)->weight_row(m->dev, w, row, values);
    static char rounded[MAX_WIDTH * sizeof(float)]; /* what stays coded has more bits than the model's type */
    lf_from_f32(rounded, m->hp.dtype, values, (size_t)w->n_in);
    lf_to_f32(values, rounded, m->hp.dtype, (size_t)w->n_in);
    lf_sha256(values, (size_t)w->n_in * sizeof(*values), sha);
    for (int i = 0; i < HASH_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", sha[i]);
    if (strncmp(hex, want, sizeof(hex) - 1) != 0) fail_msg("row %d of %s is another", row_in_file, module);
    return true;
}

/* Rows of a part of a slot that have lines. */
static int check_part(const struct model *m, const struct lf_buf *text, int slot_idx, int expert, int part_idx,
                      int first)
{
    const struct lf_slot *slot = &m->programs.recorded.slots[slot_idx];
    const struct lf_slot_part *part = &slot->parts[part_idx];
    struct lf_weight w = lf_weight_of_expert(lf_device_ops(m->dev), &m->weights.of[slot_idx], expert);
    char module[LF_NAME_BYTES];
    int n = 0;
    lf_name_bind(module, part->pattern, "", slot->layer, expert);
    for (int row = 0; row < part->n_rows; row++)
        n += check_row(m, text, &w, first + row, module, lf_row_order_source(part, row));
    return n;
}

static int n_coded; /* matrices that stayed so */

/* All lines of rows.txt are of rows that are checked. */
static void check_rows_of(const char *dir, bool expands)
{
    char path[512];
    struct lf_buf text;
    struct lf_err err;
    struct model m;
    int n = 0, n_lines = 0;
    snprintf(path, sizeof(path), "%s/rows.txt", dir);
    lf_buf_init(&text, 1 << 24);
    assert_int_equal(lf_file_read(&text, path, 1 << 24, &err), LF_OK);
    for (size_t i = 0; i < text.len; i++) n_lines += text.ptr[i] == '\n';
    open_model(&m, dir, NULL, expands);
    for (int i = 0; i < m.programs.recorded.n_slots; i++) {
        const struct lf_slot *slot = &m.programs.recorded.slots[i];
        bool is_coded = !lf_format_is_plain(&m.weights.of[i].format);
        assert_false(is_coded && expands);
        n_coded += is_coded;
        for (int e = 0; e < LF_MAX(slot->n_experts, 1) && !slot->is_vector; e++)
            for (int k = 0, first = 0; k < slot->n_parts; first += slot->parts[k++].n_rows)
                n += check_part(&m, &text, i, e, k, first);
    }
    if (n != n_lines) fail_msg("%s: %d rows of %d were found", dir, n, n_lines);
    close_model(&m);
    lf_buf_deinit(&text);
}

static void check_rows(const char *dir)
{
    check_rows_of(dir, true);
    check_rows_of(dir, false);
}

/* ---- logits ---- */

static double check_logits(const char *dir, int isa, bool expands, double tolerance)
{
    struct expected e;
    struct model_rig rig;
    struct lf_err err;
    struct model_rig_opts opts = {.dir = dir,
                                  .max_isa = isa,
                                  .n_threads = 2,
                                  .ctx = 128,
                                  .chunk = CHUNK,
                                  .max_seqs = 2,
                                  .max_out = CHUNK,
                                  .kv_dtype = LF_F32,
                                  .adapt = expands ? only_plain : NULL};
    int32_t blocks[2 * LF_KV_GROUPS_N];
    read_expected(&e, dir);
    if (model_rig_open(&rig, &opts, &err) != LF_OK) fail_msg("%s", err.message);
    size_t n = (size_t)e.n_ids * (size_t)e.n_vocab;
    float *logits = calloc(n, sizeof(*logits));
    assert_non_null(logits);
    model_rig_fill_table(&rig, blocks, 2 * LF_KV_GROUPS_N);
    model_rig_run(&rig, blocks, e.ids, e.n_ids, 0, CHUNK, true, logits);
    double error = relative_error(logits, e.logits, n);
    if (error > tolerance) fail_msg("%s: relative error %g", dir, error);
    free(logits);
    model_rig_close(&rig);
    lf_buf_deinit(&e.bytes);
    return error;
}

/* Calls fn for every directory; its number. */
static int for_each(void (*fn)(const char *dir))
{
    DIR *all = opendir(DIR_NAME);
    int n = 0;
    assert_non_null(all);
    for (struct dirent *one = readdir(all); one; one = readdir(all)) {
        char dir[512];
        if (one->d_name[0] == '.') continue;
        snprintf(dir, sizeof(dir), "%s/%s", DIR_NAME, one->d_name);
        fn(dir);
        n++;
    }
    closedir(all);
    return n;
}

static void every_row_has_the_values_of_its_format(void **state)
{
    (void)state;
    assert_true(for_each(check_rows) >= N_MODELS_AT_LEAST);
    print_message("%d matrices stayed coded\n", n_coded);
    assert_true(n_coded >= N_CODED_AT_LEAST);
}

static double worst[3]; /* of halves, of float, of what stays coded */

/* What a model may differ by whose matrices stay coded: a model none of which does by no more than an expanded one. */
static double tolerance_coded(const char *dir, double expanded)
{
    struct model m;
    double tolerance = expanded;
    open_model(&m, dir, NULL, false);
    for (int i = 0; i < m.programs.recorded.n_slots; i++) {
        enum lf_code code = m.weights.of[i].format.code;
        if (code == LF_CODE_NONE || (code == LF_CODE_E4M3 && m.hp.dtype == LF_F32)) continue;
        tolerance = fmax(tolerance, code == LF_CODE_E4M3 ? TOLERANCE_FP8 : TOLERANCE_EIGHT);
    }
    close_model(&m);
    return tolerance;
}

static void check_model(const char *dir)
{
    bool is_float = strstr(dir, "-f32") != NULL;
    double tolerance = is_float ? TOLERANCE : TOLERANCE_HALVES;
    worst[is_float] = fmax(worst[is_float], check_logits(dir, LF_ISA_C, true, tolerance));
    worst[is_float] = fmax(worst[is_float], check_logits(dir, -1, true, tolerance));
    worst[2] = fmax(worst[2], check_logits(dir, -1, false, tolerance_coded(dir, tolerance)));
}

static void logits_are_those_of_the_expanded_model(void **state)
{
    (void)state;
    assert_true(for_each(check_model) >= N_MODELS_AT_LEAST);
    print_message("worst relative error %.1e of float, %.1e of halves, %.1e of what stays coded\n", worst[1], worst[0],
                  worst[2]);
}

int main(void)
{
    lf_log_set_level(LF_LOG_WARN);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_has_the_values_of_its_format),
                                       cmocka_unit_test(logits_are_those_of_the_expanded_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
