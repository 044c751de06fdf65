#include "model/stage.h"

#include <math.h>

#include "core/check.h"
#include "core/mix.h"
#include "core/quant.h"
#include "device/cpu/threads.h"
#include "model/identity.h"
#include "tests/support/temp_dir.h"

/* More rows than there is room for at once, which is no whole number of the pieces that are hashed; and an expert
 * before the one that is read. */
enum { GROUP = 32, GROUP_BYTES = 16 }; /* of MXFP4 */
enum { ROWS = 1100, N_IN = 2144, GROUPS = N_IN / GROUP, AT_ONCE = LF_STAGE_BYTES / (2 * N_IN) };
enum {
    PLAIN_BYTES = 2 * ROWS * N_IN * 2,
    BLOCKS_BYTES = 2 * ROWS * GROUPS * GROUP_BYTES,
    SCALES_BYTES = 2 * ROWS * GROUPS,
    DATA_BYTES = PLAIN_BYTES + BLOCKS_BYTES + SCALES_BYTES
};

struct fixture {
    struct temp_dir dir;
    struct lf_device *dev;
    struct lf_tensor_set set;
    struct lf_part rows, columns, mxfp4;
    uint8_t *data; /* of the file: a tensor that is read as rows and as columns, blocks, scales */
};

static void write_file(const struct fixture *f, const char *name)
{
    char header[512];
    int n = snprintf(header, sizeof header,
                     "{\"blocks\":{\"dtype\":\"U8\",\"shape\":[2,%d,%d,16],\"data_offsets\":[%d,%d]},"
                     "\"plain\":{\"dtype\":\"BF16\",\"shape\":[2,%d,%d],\"data_offsets\":[0,%d]},"
                     "\"scales\":{\"dtype\":\"U8\",\"shape\":[2,%d,%d],\"data_offsets\":[%d,%d]}}",
                     ROWS, GROUPS, PLAIN_BYTES, PLAIN_BYTES + BLOCKS_BYTES, N_IN, ROWS, PLAIN_BYTES, ROWS, GROUPS,
                     PLAIN_BYTES + BLOCKS_BYTES, DATA_BYTES);
    uint8_t *bytes = malloc(8 + (size_t)n + DATA_BYTES);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)n >> (8 * i));
    memcpy(bytes + 8, header, (size_t)n);
    memcpy(bytes + 8 + n, f->data, DATA_BYTES);
    temp_dir_write(&f->dir, name, bytes, 8 + (size_t)n + DATA_BYTES);
    free(bytes);
}

static struct lf_part part_of(const struct fixture *f, enum lf_stored stored, const char *tensor, int expert)
{
    struct lf_part p = {.name = "w",
                        .stored = stored,
                        .tensor = lf_tensor_find(&f->set, lf_str_c(tensor)),
                        .tensor_row = (uint64_t)expert * ROWS,
                        .expert = expert,
                        .n_rows = ROWS,
                        .all_rows = ROWS,
                        .n_in = N_IN,
                        .dtype = LF_BF16};
    assert_non_null(p.tensor);
    if (stored != LF_STORED_PACKED) return p;
    p.quantized = (struct lf_quantized){
        .scheme = {.packing = &lf_packing_mxfp4, .code = LF_CODE_E2M1, .bits = 4, .group = GROUP, .group_rows = 1},
        .sources = {[LF_SOURCE_CODES] = p.tensor, [LF_SOURCE_SCALES] = lf_tensor_find(&f->set, LF_STR("scales"))},
        .n_shares = 2,
        .share = expert,
        .n_out = ROWS,
        .n_in = N_IN,
        .n_columns = N_IN};
    return p;
}

static int setup(void **state)
{
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 2, .max_isa = -1};
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->dir = temp_dir_make();
    f->data = malloc(DATA_BYTES);
    assert_non_null(f->data);
    for (size_t i = 0; i < DATA_BYTES; i++) f->data[i] = (uint8_t)lf_random64(5, i);
    for (size_t i = 0; i < SCALES_BYTES; i++) f->data[DATA_BYTES - SCALES_BYTES + i] %= 253; /* finite with any code */
    write_file(f, "model.safetensors");
    assert_int_equal(lf_device_open(&f->dev, &opts, &err), LF_OK);
    if (lf_tensor_set_open(&f->set, f->dir.path, &err) != LF_OK) fail_msg("%s", err.message);
    f->rows = part_of(f, LF_STORED_ROWS, "plain", 1);
    f->columns = part_of(f, LF_STORED_COLUMNS, "plain", 1);
    f->mxfp4 = part_of(f, LF_STORED_PACKED, "blocks", 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lf_tensor_set_close(&f->set);
    lf_device_close(f->dev);
    temp_dir_remove(&f->dir);
    free(f->data);
    free(f);
    return 0;
}

/* All rows of a part, the caller's; sha may be NULL. */
static uint16_t *read_all(const struct fixture *f, const struct lf_part *p, uint8_t *sha)
{
    struct lf_stage s;
    struct lf_err err;
    uint16_t *out = malloc((size_t)ROWS * N_IN * sizeof(*out));
    assert_non_null(out);
    assert_int_equal(lf_stage_init(&s, f->dev, &f->set, 0, sha != NULL, &err), LF_OK);
    int n_max = lf_stage_begin(&s, p), n_steps = 0;
    assert_true(n_max > 0 && n_max <= AT_ONCE);
    for (int row = 0; row < ROWS; row += n_max, n_steps++) {
        int n = n_max < ROWS - row ? n_max : ROWS - row;
        if (lf_stage_rows(&s, p, row, n, &err) != LF_OK) fail_msg("%s", err.message);
        memcpy(out + (size_t)row * N_IN, s.rows, (size_t)n * N_IN * sizeof(*out));
    }
    assert_true(n_steps > 1);
    if (sha) lf_stage_end(&s, p, sha);
    lf_stage_deinit(&s);
    return out;
}

static void an_expert_is_read_whichever_way_it_stands(void **state)
{
    struct fixture *f = *state;
    const uint16_t *plain = (const uint16_t *)(const void *)(f->data + PLAIN_BYTES / 2);
    const uint8_t *blocks = f->data + PLAIN_BYTES + BLOCKS_BYTES / 2;
    const uint8_t *scales = f->data + PLAIN_BYTES + BLOCKS_BYTES + SCALES_BYTES / 2;
    uint16_t *rows = read_all(f, &f->rows, NULL), *columns = read_all(f, &f->columns, NULL);
    uint16_t *mxfp4 = read_all(f, &f->mxfp4, NULL), *want = malloc((size_t)ROWS * N_IN * sizeof(*want));
    assert_non_null(want);
    assert_memory_equal(rows, plain, (size_t)ROWS * N_IN * sizeof(*rows));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t k = 0; k < N_IN; k++) want[r * N_IN + k] = plain[k * ROWS + r];
    assert_memory_equal(columns, want, (size_t)ROWS * N_IN * sizeof(*want));
    for (size_t i = 0; i < (size_t)ROWS * N_IN; i++) {
        uint8_t code = blocks[i / 2] >> (i % 2 * 4) & 15;
        want[i] = lf_bf16_from_f32(ldexpf(lf_code_number(LF_CODE_E2M1, code), scales[i / GROUP] - 127));
    }
    assert_memory_equal(mxfp4, want, (size_t)ROWS * N_IN * sizeof(*want));
    assert_int_equal(lf_part_file_bytes(&f->columns, ROWS), PLAIN_BYTES / 2);
    assert_int_equal(lf_part_file_bytes(&f->mxfp4, ROWS), (BLOCKS_BYTES + SCALES_BYTES) / 2);
    free(rows);
    free(columns);
    free(mxfp4);
    free(want);
}

/* Rows of a part that is some rows, and some columns, of the matrix that `all` is. */
static void check_part_of(const struct fixture *f, struct lf_part p, const uint16_t *all, int row, int column)
{
    struct lf_stage s;
    struct lf_err err;
    int n = 40;
    p.n_rows = ROWS - row;
    p.tensor_row += (uint64_t)row;
    p.quantized.first = row;
    p.column = p.quantized.column = column;
    p.tensor_columns = N_IN;
    p.n_in = p.quantized.n_columns = N_IN - column;
    assert_int_equal(lf_stage_init(&s, f->dev, &f->set, 0, false, &err), LF_OK);
    assert_true(lf_stage_begin(&s, &p) >= n);
    for (int first = 0; first < 3 * n; first += n) {
        if (lf_stage_rows(&s, &p, first, n, &err) != LF_OK) fail_msg("%s", err.message);
        for (int i = 0; i < n; i++)
            assert_memory_equal(s.rows + (size_t)i * (size_t)p.n_in * sizeof(*all),
                                all + (size_t)(row + first + i) * N_IN + column, (size_t)p.n_in * sizeof(*all));
    }
    lf_stage_deinit(&s);
}

static void a_rank_reads_its_rows_and_columns_whichever_way_they_stand(void **state)
{
    struct fixture *f = *state;
    const struct lf_part *parts[] = {&f->rows, &f->columns, &f->mxfp4};
    for (size_t i = 0; i < LF_N_ELEMS(parts); i++) {
        uint16_t *all = read_all(f, parts[i], NULL);
        for (int k = 0; k < 4; k++) check_part_of(f, *parts[i], all, k % 2 * 700, k / 2 * 33 * GROUP);
        free(all);
    }
}

/* Of rows as they stand in a file, as identity.h has it. */
static void hash_plainly(const uint8_t *rows, int n_rows, size_t row_bytes, uint8_t out[LF_SHA256_BYTES])
{
    struct lf_sha256 sha;
    int n = (int)(65536 / row_bytes);
    lf_sha256_init(&sha);
    for (int row = 0; row < n_rows; row += n) {
        uint8_t piece[LF_SHA256_BYTES];
        int end = row + n < n_rows ? row + n : n_rows;
        lf_sha256(rows + (size_t)row * row_bytes, (size_t)(end - row) * row_bytes, piece);
        lf_sha256_update(&sha, piece, sizeof(piece));
    }
    lf_sha256_final(&sha, out);
}

static void the_hash_is_of_what_stands_in_the_file(void **state)
{
    struct fixture *f = *state;
    static const char types[LF_SOURCES_N + 4] = "U8\0U8"; /* of codes and scales; of the others "" */
    uint8_t want[LF_SHA256_BYTES], got[LF_SHA256_BYTES], both[2][LF_SHA256_BYTES];
    struct lf_sha256 sha;
    free(read_all(f, &f->rows, got));
    hash_plainly(f->data + PLAIN_BYTES / 2, ROWS, 2 * N_IN, want);
    assert_memory_equal(got, want, sizeof(want));
    free(read_all(f, &f->columns, got));
    hash_plainly(f->data + PLAIN_BYTES / 2, N_IN, 2 * ROWS, want);
    assert_memory_equal(got, want, sizeof(want));
    free(read_all(f, &f->mxfp4, got));
    hash_plainly(f->data + PLAIN_BYTES + BLOCKS_BYTES / 2, ROWS, (size_t)GROUPS * GROUP_BYTES, both[0]);
    hash_plainly(f->data + PLAIN_BYTES + BLOCKS_BYTES + SCALES_BYTES / 2, ROWS * GROUPS, 1, both[1]);
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, both, sizeof(both));
    lf_sha256_update(&sha, types, sizeof(types));
    lf_sha256_final(&sha, want);
    assert_memory_equal(got, want, sizeof(want));
}

static void expect_error(const struct fixture *f, const struct lf_part *p, enum lf_status want, const char *says)
{
    struct lf_stage s;
    struct lf_err err;
    assert_int_equal(lf_stage_init(&s, f->dev, &f->set, 0, false, &err), LF_OK);
    enum lf_status status = lf_stage_rows(&s, p, 0, lf_stage_begin(&s, p), &err);
    assert_int_equal(status, want);
    if (!strstr(err.message, says)) fail_msg("\"%s\" lacks \"%s\"", err.message, says);
    lf_stage_deinit(&s);
}

static void a_file_that_was_changed_is_an_error(void **state)
{
    struct fixture *f = *state;
    char path[512];
    temp_dir_path(&f->dir, "model.safetensors", path);
    assert_int_equal(truncate(path, 4096), 0);
    expect_error(f, &f->columns, LF_CORRUPT, "it was changed");
    expect_error(f, &f->mxfp4, LF_CORRUPT, "it was changed");
    temp_dir_delete(&f->dir, "model.safetensors");
    expect_error(f, &f->mxfp4, LF_NOT_FOUND, "model.safetensors");
}

/* Codes, a scale and a zero point take more than an expanded row has where that is a few columns. */
static void coded_rows_of_few_columns_have_room(void **state)
{
    struct fixture *f = *state;
    struct lf_stage s;
    struct lf_err err;
    assert_int_equal(lf_stage_init(&s, f->dev, &f->set, 0, false, &err), LF_OK);
    for (int n_in = 1; n_in <= 3 * GROUP; n_in++) {
        struct lf_part p = f->mxfp4;
        p.coded = true;
        p.n_rows = LF_STAGE_BYTES;
        p.n_in = p.quantized.n_in = n_in;
        size_t n = (size_t)lf_stage_begin(&s, &p), n_scales = n * (size_t)((n_in + GROUP - 1) / GROUP);
        assert_true(LF_ROUND_UP(n * (size_t)n_in, sizeof(float)) + n_scales * (sizeof(float) + 1) <= LF_STAGE_BYTES);
    }
    lf_stage_deinit(&s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_expert_is_read_whichever_way_it_stands),
        TEST(a_rank_reads_its_rows_and_columns_whichever_way_they_stand), TEST(the_hash_is_of_what_stands_in_the_file),
        TEST(a_file_that_was_changed_is_an_error), TEST(coded_rows_of_few_columns_have_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
