/* What is kept on disk under an identity is read by whoever has the same one. So everything that a block's bytes depend
 * on makes another one, and nothing else does. */
#include "core/check.h"
#include "model/identity.h"
#include "tests/support/model_dir.h"
#include "tests/support/model_rig.h"

/* A model's directory and what opens it. */
struct fixture {
    struct temp_dir dir;
    struct config_text config;
    struct model_dir model;
    struct model_rig_opts opts;
    uint8_t first[LF_SHA256_BYTES]; /* identity before anything was changed */
};

static struct model_rig_opts plain_opts(const char *dir)
{
    return (struct model_rig_opts){.dir = dir,
                                   .max_isa = -1,
                                   .n_threads = 2,
                                   .ctx = 64,
                                   .chunk = 16,
                                   .max_seqs = 1,
                                   .kv_dtype = LF_BF16,
                                   .program = "1.2.3 abc",
                                   .hash_weights = true};
}

/* False where the machine has not that instruction set. */
static bool identify(const struct fixture *f, uint8_t out[LF_SHA256_BYTES])
{
    struct model_rig rig;
    struct lf_err err;
    enum lf_status status = model_rig_open(&rig, &f->opts, &err);
    if (status == LF_UNSUPPORTED) return false;
    if (status != LF_OK) fail_msg("%s", err.message);
    lf_model_identity(rig.model, out);
    model_rig_close(&rig);
    return true;
}

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.dir = temp_dir_make(), .config = config_llama(), .model = model_dir_llama()};
    f.opts = plain_opts(f.dir.path);
    config_write(&f.config, &f.dir);
    model_dir_write(&f.model, &f.dir);
    assert_true(identify(&f, f.first));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_remove(&f->dir);
    return 0;
}

static void expect_same(const struct fixture *f)
{
    uint8_t now[LF_SHA256_BYTES];
    assert_true(identify(f, now));
    assert_memory_equal(now, f->first, sizeof(now));
}

static void expect_other(const struct fixture *f)
{
    uint8_t now[LF_SHA256_BYTES];
    assert_true(identify(f, now));
    assert_memory_not_equal(now, f->first, sizeof(now));
}

static void the_same_model_has_the_same_identity_with_any_number_of_threads(void **state)
{
    struct fixture *f = *state;
    expect_same(f);
    for (f->opts.n_threads = 1; f->opts.n_threads <= 5; f->opts.n_threads++) expect_same(f);
    f->opts.ctx = 128; /* sizes of the server are none of the model's */
    f->opts.max_seqs = 3;
    expect_same(f);
}

/* Turns one bit of model.safetensors. */
static void flip(const struct fixture *f, uint64_t offset, int bit)
{
    char path[512];
    uint8_t byte;
    temp_dir_path(&f->dir, "model.safetensors", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= (uint8_t)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static void one_flipped_bit_in_any_tensor_makes_another_identity(void **state)
{
    struct fixture *f = *state;
    struct lf_tensor_set set;
    assert_int_equal(lf_tensor_set_open(&set, f->dir.path, NULL), LF_OK);
    assert_int_equal(set.n_tensors, f->model.n);
    for (int i = 0; i < set.n_tensors; i++) {
        const struct lf_tensor *t = &set.tensors[i];
        uint64_t last = t->offset + t->n_bytes - 1, within = t->offset + lf_random64(3, (uint64_t)i) % t->n_bytes;
        const uint64_t at[] = {t->offset, within, last};
        for (int k = 0; k < 3; k++) {
            flip(f, at[k], (i + k) % 8);
            expect_other(f);
            flip(f, at[k], (i + k) % 8);
        }
    }
    expect_same(f);
    lf_tensor_set_close(&set);
}

/* The same shapes: this is what the hash of the bytes is for. */
static void without_the_hash_a_fine_tune_looks_the_same(void **state)
{
    struct fixture *f = *state;
    uint8_t before[LF_SHA256_BYTES], after[LF_SHA256_BYTES];
    f->opts.hash_weights = false;
    assert_true(identify(f, before));
    flip(f, 4000, 0); /* past the header, which ends before */
    assert_true(identify(f, after));
    assert_memory_equal(before, after, sizeof(after));
    assert_memory_not_equal(before, f->first, sizeof(before));
    f->opts.hash_weights = true;
    expect_other(f);
}

static void swap_tensors(struct model_dir *m, int a, int b)
{
    struct model_tensor swap = m->tensors[a];
    m->tensors[a] = m->tensors[b];
    m->tensors[b] = swap;
}

static void the_order_of_the_tensors_in_the_file_does_not_matter(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < f->model.n / 2; i++) swap_tensors(&f->model, i, f->model.n - 1 - i);
    model_dir_write(&f->model, &f->dir);
    expect_same(f);
}

static void the_names_of_a_bare_checkpoint_do_not_matter(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < f->model.n; i++) {
        char *name = f->model.tensors[i].name, whole[96];
        memcpy(whole, name, sizeof(whole));
        if (strncmp(whole, "model.", 6) == 0) memmove(name, whole + 6, strlen(whole + 6) + 1);
    }
    for (int i = 0; i < f->model.n; i++) { /* with the values that they had */
        static char names[MODEL_TENSORS_N][128];
        snprintf(names[i], sizeof(names[i]), "%s%s", i == 1 ? "" : "model.", f->model.tensors[i].name);
        f->model.tensors[i].values_of = names[i];
    }
    model_dir_write(&f->model, &f->dir);
    expect_same(f);
}

static void write_shards(const struct fixture *f, int n_shards)
{
    struct lf_buf index;
    lf_buf_init(&index, 1 << 16);
    lf_buf_cstr(&index, "{\"weight_map\":{");
    for (int i = 0; i < f->model.n; i++)
        lf_buf_printf(&index, "%s\"%s\":\"%d.safetensors\"", i ? "," : "", f->model.tensors[i].name, i % n_shards);
    lf_buf_cstr(&index, "}}");
    temp_dir_write(&f->dir, "model.safetensors.index.json", index.ptr, index.len);
    lf_buf_deinit(&index);
    for (int i = 0; i < n_shards; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%d.safetensors", i);
        model_dir_write_part(&f->model, &f->dir, name, i, n_shards);
    }
}

static void how_the_tensors_are_sharded_does_not_matter(void **state)
{
    struct fixture *f = *state;
    temp_dir_delete(&f->dir, "model.safetensors");
    for (int n = 1; n <= 4; n++) {
        write_shards(f, n);
        expect_same(f);
    }
}

/* Values of the test are exact in all types: the numbers are the same, the bytes are not. */
static void the_same_numbers_in_another_type_are_another_model(void **state)
{
    struct fixture *f = *state;
    uint8_t shas[2][LF_SHA256_BYTES];
    static const char *const types[] = {"BF16", "F16"};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < f->model.n; k++) {
            f->model.tensors[k].dtype = types[i];
            f->model.tensors[k].elem_bytes = 2;
        }
        model_dir_write(&f->model, &f->dir);
        expect_other(f);
        assert_true(identify(f, shas[i]));
    }
    assert_memory_not_equal(shas[0], shas[1], sizeof(shas[0]));
}

static void two_tensors_that_change_their_places_are_another_model(void **state)
{
    struct fixture *f = *state;
    struct model_tensor *gate = &f->model.tensors[9], *up = &f->model.tensors[10];
    assert_string_equal(gate->name, "model.layers.0.mlp.gate_proj.weight");
    assert_string_equal(up->name, "model.layers.0.mlp.up_proj.weight");
    gate->values_of = "model.layers.0.mlp.up_proj.weight";
    up->values_of = "model.layers.0.mlp.gate_proj.weight";
    model_dir_write(&f->model, &f->dir);
    expect_other(f);
}

static void another_configuration_is_another_model(void **state)
{
    struct fixture *f = *state;
    static const char *const changes[][2] = {
        {"rope_theta", "20000.0"},
        {"rms_norm_eps", "1e-6"},
        {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2.0}"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(changes); i++) {
        struct config_text c = config_llama();
        config_set(&c, changes[i][0], changes[i][1]);
        config_write(&c, &f->dir);
        expect_other(f);
    }
    config_write(&f->config, &f->dir);
    expect_same(f);
}

static void dummy_weights_are_told_apart_by_their_seed(void **state)
{
    struct fixture *f = *state;
    uint8_t shas[2][LF_SHA256_BYTES];
    f->opts.load = LF_LOAD_DUMMY;
    for (int i = 0; i < 2; i++) {
        f->opts.seed = 7 + (uint64_t)i;
        expect_other(f);
        assert_true(identify(f, shas[i]));
    }
    assert_memory_not_equal(shas[0], shas[1], sizeof(shas[0]));
    f->opts.seed = 7;
    assert_true(identify(f, shas[1]));
    assert_memory_equal(shas[0], shas[1], sizeof(shas[0]));
}

static void a_quantized_model_is_another_one_in_each_format(void **state)
{
    struct fixture *f = *state;
    uint8_t shas[2][LF_SHA256_BYTES];
    static const enum lf_code codes[2] = {LF_CODE_I8, LF_CODE_I4};
    for (int i = 0; i < 2; i++) {
        f->opts.quantize = codes[i];
        expect_other(f);
        assert_true(identify(f, shas[i]));
    }
    assert_memory_not_equal(shas[0], shas[1], sizeof(shas[0]));
    f->opts.quantize = LF_CODE_NONE;
    expect_same(f);
}

static void another_type_of_the_cache_is_another_identity(void **state)
{
    struct fixture *f = *state;
    f->opts.kv_dtype = LF_F32;
    expect_other(f);
}

static void every_instruction_set_is_another_identity(void **state)
{
    struct fixture *f = *state;
    uint8_t shas[LF_ISA_AMX + 1][LF_SHA256_BYTES];
    int n = 0;
    for (f->opts.max_isa = LF_ISA_C; f->opts.max_isa <= LF_ISA_AMX; f->opts.max_isa++)
        n += identify(f, shas[n]) ? 1 : 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) assert_memory_not_equal(shas[i], shas[k], sizeof(shas[0]));
    assert_memory_equal(shas[n - 1], f->first, sizeof(f->first)); /* the best, asked for by name */
}

/* longrope has other keys where the context is longer than what the model was trained on; a fusion on a CPU has none.
 */
static void a_context_whose_angles_are_others_is_another_identity(void **state)
{
    (void)state;
    uint8_t of[3][LF_SHA256_BYTES];
    static const int contexts[] = {64, 128, 32};
    for (int i = 0; i < 3; i++) {
        struct model_rig rig;
        struct lf_err err;
        struct model_rig_opts opts = plain_opts("tests/golden/model/data/phi3-longrope-bf16");
        opts.ctx = contexts[i];
        opts.chunk = 16;
        opts.no_fusion = i == 1;
        assert_int_equal(model_rig_open(&rig, &opts, &err), LF_OK);
        lf_model_identity(rig.model, of[i]);
        model_rig_close(&rig);
    }
    assert_memory_equal(of[0], of[1], LF_SHA256_BYTES); /* both longer than 32 */
    assert_memory_not_equal(of[0], of[2], LF_SHA256_BYTES);
}

static void stretch(struct lf_hparams *hp)
{
    hp->stretch.max_position = hp->max_positions = 1024;
}

static void stretch_by_yarn(struct lf_hparams *hp)
{
    stretch(hp);
    hp->ropes[0].kind = LF_ROPE_YARN;
    hp->ropes[0].original_max_positions = 256;
    hp->ropes[0].factor = 4;
}

/* Both have the configuration of the fixture, byte by byte. */
static void positions_behind_the_models_own_are_another_identity(void **state)
{
    struct fixture *f = *state;
    uint8_t plain[LF_SHA256_BYTES], yarn[LF_SHA256_BYTES];
    f->opts.change = stretch;
    expect_other(f);
    assert_true(identify(f, plain));
    f->opts.change = stretch_by_yarn;
    expect_other(f);
    assert_true(identify(f, yarn));
    assert_memory_not_equal(plain, yarn, sizeof(yarn));
}

static void another_program_is_another_identity(void **state)
{
    struct fixture *f = *state;
    f->opts.program = "1.2.4 abc";
    expect_other(f);
    f->opts.program = NULL;
    expect_other(f);
}

/* ---- the hash of a tensor ---- */

/* As the header says it, by another way: one piece after the other. */
static void hash_plainly(const uint8_t *rows, int n_rows, size_t row_bytes, uint8_t out[LF_SHA256_BYTES])
{
    struct lf_sha256 sha;
    int n = row_bytes > 65536 ? 1 : (int)(65536 / row_bytes);
    lf_sha256_init(&sha);
    for (int row = 0; row < n_rows; row += n) {
        uint8_t piece[LF_SHA256_BYTES];
        int end = row + n < n_rows ? row + n : n_rows;
        lf_sha256(rows + (size_t)row * row_bytes, (size_t)(end - row) * row_bytes, piece);
        lf_sha256_update(&sha, piece, sizeof(piece));
    }
    lf_sha256_final(&sha, out);
}

static void hash_in_calls(struct lf_threads *threads, const uint8_t *rows, int n_rows, size_t row_bytes, int at_once,
                          uint8_t out[LF_SHA256_BYTES])
{
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    for (int row = 0; row < n_rows; row += at_once)
        lf_hash_rows(&sha, threads, rows + (size_t)row * row_bytes, LF_MIN(at_once, n_rows - row), row_bytes);
    lf_sha256_final(&sha, out);
}

static void a_tensor_has_one_hash_however_it_is_read(void **state)
{
    (void)state;
    enum { BYTES = 12 << 20 };
    static const size_t row_bytes[] = {2, 130, 8192, 65536, 65538, 200000};
    uint8_t *rows = malloc(BYTES), want[LF_SHA256_BYTES], got[LF_SHA256_BYTES];
    assert_non_null(rows);
    for (size_t i = 0; i < BYTES; i++) rows[i] = (uint8_t)lf_random64(11, i);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        struct lf_threads *threads;
        assert_int_equal(lf_threads_create(&threads, n_threads, NULL), LF_OK);
        for (size_t i = 0; i < LF_N_ELEMS(row_bytes); i++) {
            int n_rows = (int)(BYTES / row_bytes[i]) - 1, piece = lf_hash_piece_rows(row_bytes[i]);
            hash_plainly(rows, n_rows, row_bytes[i], want);
            const int at_once[] = {n_rows, piece, 3 * piece};
            for (int k = 0; k < 3; k++) {
                hash_in_calls(threads, rows, n_rows, row_bytes[i], at_once[k], got);
                assert_memory_equal(got, want, sizeof(want));
            }
        }
        lf_threads_destroy(threads);
    }
    free(rows);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_same_model_has_the_same_identity_with_any_number_of_threads),
        TEST(one_flipped_bit_in_any_tensor_makes_another_identity),
        TEST(without_the_hash_a_fine_tune_looks_the_same),
        TEST(the_order_of_the_tensors_in_the_file_does_not_matter),
        TEST(the_names_of_a_bare_checkpoint_do_not_matter),
        TEST(how_the_tensors_are_sharded_does_not_matter),
        TEST(the_same_numbers_in_another_type_are_another_model),
        TEST(two_tensors_that_change_their_places_are_another_model),
        TEST(another_configuration_is_another_model),
        TEST(dummy_weights_are_told_apart_by_their_seed),
        TEST(a_quantized_model_is_another_one_in_each_format),
        TEST(another_type_of_the_cache_is_another_identity),
        TEST(every_instruction_set_is_another_identity),
        TEST(positions_behind_the_models_own_are_another_identity),
        TEST(another_program_is_another_identity),
        cmocka_unit_test(a_context_whose_angles_are_others_is_another_identity),
        cmocka_unit_test(a_tensor_has_one_hash_however_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
