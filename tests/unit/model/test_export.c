/* Checkpoints that are written again with quantized matrices: their tensors, their configuration, and that there is all
 * of it or nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/quant.h"
#include "model/export.h"
#include "tests/support/config_read.h"
#include "tests/support/model_dir.h"

struct fixture {
    struct temp_dir from, to; /* `to` has the folder that is made, "out" */
    char out[512];
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_err err;
};

/* The linker sends the program's calls here: a system that writes so many bytes at a time, and is interrupted. */
static size_t most_at_once = SIZE_MAX;
static int n_writes;
ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset);

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    if (most_at_once < SIZE_MAX && n_writes++ % 5 == 3) {
        errno = EINTR;
        return -1;
    }
    return __real_pwrite(fd, bytes, LF_MIN(n, most_at_once), offset);
}

/* The same in several files. */
static void write_shards(const struct model_dir *m, const struct temp_dir *d, int n_parts)
{
    struct lf_buf index;
    lf_buf_init(&index, 1 << 20);
    lf_buf_cstr(&index, "{\"weight_map\":{");
    for (int part = 0; part < n_parts; part++) {
        char file[64];
        snprintf(file, sizeof(file), "model-%05d-of-%05d.safetensors", part + 1, n_parts);
        model_dir_write_part(m, d, file, part, n_parts);
        for (int i = part; i < m->n; i += n_parts)
            lf_buf_printf(&index, "%s\"%s\":\"%s\"", i > 0 ? "," : "", m->tensors[i].name, file);
    }
    lf_buf_cstr(&index, "}}");
    temp_dir_write(d, "model.safetensors.index.json", index.ptr, index.len);
    lf_buf_deinit(&index);
}

static void fixture_open(struct fixture *f, const struct config_text *c, const struct model_dir *m, int n_parts)
{
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 2, .max_isa = -1};
    *f = (struct fixture){.from = temp_dir_make(), .to = temp_dir_make()};
    snprintf(f->out, sizeof(f->out), "%s/out", f->to.path);
    config_write(c, &f->from);
    if (n_parts > 1)
        write_shards(m, &f->from, n_parts);
    else
        model_dir_write(m, &f->from);
    assert_int_equal(lf_device_open(&f->dev, &opts, &f->err), LF_OK);
    assert_int_equal(lf_hparams_read(&f->hp, f->from.path, &f->err), LF_OK);
}

static enum lf_status export(struct fixture *f, enum lf_code code) {
    struct lf_export_opts opts = {.dir = f->from.path, .out = f->out, .code = code};
    return lf_export(&f->hp, f->dev, &opts, &f->err);
}

static void fixture_close(struct fixture *f)
{
    lf_hparams_deinit(&f->hp);
    lf_device_close(f->dev);
    temp_dir_remove(&f->from);
    temp_dir_remove_tree(&f->to);
}

/* Bytes of a tensor of the set; the caller's. */
static uint8_t *bytes_of(const struct lf_tensor_set *set, const char *name, const char *dtype, int rank, int n0, int n1)
{
    struct lf_err err;
    const struct lf_tensor *t = lf_tensor_find(set, lf_str_c(name));
    uint64_t size;
    int fd;
    if (!t) fail_msg("no tensor %s", name);
    assert_string_equal(t->dtype_name, dtype);
    assert_int_equal(t->rank, rank);
    assert_int_equal(t->shape[0], n0);
    if (rank > 1) assert_int_equal(t->shape[1], n1);
    uint8_t *bytes = malloc((size_t)t->n_bytes);
    assert_non_null(bytes);
    assert_int_equal(lf_file_open(&fd, &size, set->files[t->file_idx].path, &err), LF_OK);
    assert_int_equal(lf_file_pread(fd, bytes, (size_t)t->n_bytes, t->offset, "", &err), LF_OK);
    close(fd);
    return bytes;
}

/* The codes and scales of a matrix that model_dir wrote. */
static void quantized(const struct lf_format *f, const char *name, int n_out, int n_in, uint8_t *codes, float *scales)
{
    float row[128];
    for (int r = 0; r < n_out; r++) {
        for (int k = 0; k < n_in; k++) row[k] = model_tensor_value(name, (size_t)(r * n_in + k));
        assert_true(lf_quantize_rows(f, 1, n_in, row, codes + r * n_in, scales + r * lf_format_n_groups(f, n_in)));
    }
}

static void check_scales(const struct lf_tensor_set *set, const char *module, const float *scales, int n_out, int n)
{
    char name[128];
    snprintf(name, sizeof(name), "%s.weight_scale", module);
    uint16_t *have = (void *)bytes_of(set, name, "BF16", 2, n_out, n);
    for (int i = 0; i < n_out * n; i++) assert_true(lf_f32_from_bf16(have[i]) == scales[i]);
    free(have);
}

/* Code k of a row of pack-quantized: `bits` of word k / (32 / bits), less the offset. */
static int code_at(const uint8_t *words, int bits, int i)
{
    uint32_t word;
    int of_word = 32 / bits;
    memcpy(&word, words + 4 * (i / of_word), 4);
    return (int)(word >> i % of_word * bits & ((1u << bits) - 1)) - (1 << (bits - 1));
}

static void check_packed(const struct lf_tensor_set *set, enum lf_code code, const char *module, int n_out, int n_in)
{
    char name[128], original[128];
    uint8_t codes[96 * 128];
    float scales[96 * 4];
    struct lf_format f = lf_quantize_format(code);
    int bits = code == LF_CODE_I4 ? 4 : 8;
    snprintf(original, sizeof(original), "%s.weight", module);
    quantized(&f, original, n_out, n_in, codes, scales);
    snprintf(name, sizeof(name), "%s.weight_packed", module);
    uint8_t *packed = bytes_of(set, name, "I32", 2, n_out, n_in * bits / 32);
    for (int i = 0; i < n_out * n_in; i++)
        assert_int_equal(code_at(packed, bits, i), code == LF_CODE_I4 ? codes[i] - LF_I4_ZERO : (int8_t)codes[i]);
    free(packed);
    check_scales(set, module, scales, n_out, lf_format_n_groups(&f, n_in));
    snprintf(name, sizeof(name), "%s.weight_shape", module);
    int64_t *shape = (void *)bytes_of(set, name, "I64", 1, 2, 0);
    assert_true(shape[0] == n_out && shape[1] == n_in);
    free(shape);
    assert_null(lf_tensor_find(set, lf_str_c(original)));
}

static void check_plain(const struct lf_tensor_set *set, const char *name, int rank, int n0, int n1)
{
    float *have = (void *)bytes_of(set, name, "F32", rank, n0, n1);
    for (int i = 0; i < n0 * LF_MAX(n1, 1); i++) assert_true(have[i] == model_tensor_value(name, (size_t)i));
    free(have);
}

static void matrices_are_packed_and_others_stay(void **state)
{
    (void)state;
    static const enum lf_code codes[] = {LF_CODE_I4, LF_CODE_I8};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        struct lf_tensor_set set;
        struct config_text c = config_llama();
        struct model_dir m = model_dir_llama();
        fixture_open(&f, &c, &m, i == 0 ? 1 : 3); /* one file, or several with an index */
        if (export(&f, codes[i]) != LF_OK) fail_msg("%s", f.err.message);
        if (lf_tensor_set_open(&set, f.out, &f.err) != LF_OK) fail_msg("%s", f.err.message);
        assert_int_equal(set.n_files, i == 0 ? 1 : 3);
        assert_int_equal(set.n_tensors, m.n + 2 * 2 * 7); /* three for one, of seven matrices of two layers */
        check_packed(&set, codes[i], "model.layers.0.self_attn.q_proj", 64, 64);
        check_packed(&set, codes[i], "model.layers.1.self_attn.v_proj", 32, 64);
        check_packed(&set, codes[i], "model.layers.1.mlp.down_proj", 64, 96);
        check_plain(&set, "model.embed_tokens.weight", 2, 50, 64);
        check_plain(&set, "lm_head.weight", 2, 50, 64);
        check_plain(&set, "model.layers.1.input_layernorm.weight", 1, 64, 0);
        lf_tensor_set_close(&set);
        fixture_close(&f);
    }
}

static void writes_that_are_cut_short_go_on_where_they_were(void **state)
{
    most_at_once = 777;
    matrices_are_packed_and_others_stay(state);
    most_at_once = SIZE_MAX;
    assert_true(n_writes > 100);
}

static void fp8_has_a_scale_for_each_row(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_tensor_set set;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    struct lf_format format = lf_quantize_format(LF_CODE_E4M3);
    uint8_t codes[64 * 96];
    float scales[64];
    fixture_open(&f, &c, &m, 1);
    if (export(&f, LF_CODE_E4M3) != LF_OK) fail_msg("%s", f.err.message);
    if (lf_tensor_set_open(&set, f.out, &f.err) != LF_OK) fail_msg("%s", f.err.message);
    quantized(&format, "model.layers.0.mlp.down_proj.weight", 64, 96, codes, scales);
    uint8_t *have = bytes_of(&set, "model.layers.0.mlp.down_proj.weight", "F8_E4M3", 2, 64, 96);
    assert_memory_equal(have, codes, sizeof(codes));
    free(have);
    check_scales(&set, "model.layers.0.mlp.down_proj", scales, 64, 1);
    lf_tensor_set_close(&set);
    fixture_close(&f);
}

/* A matrix is read and written a few MiB at a time. */
static void matrices_of_several_reads_are_whole(void **state)
{
    (void)state;
    enum { ROWS = 16512, COLUMNS = 64 }; /* more than 4 MiB of floats */
    static uint8_t codes[ROWS * COLUMNS];
    static float scales[ROWS];
    struct fixture f;
    struct lf_tensor_set set;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    struct lf_format format = lf_quantize_format(LF_CODE_E4M3);
    config_set(&c, "intermediate_size", "16512");
    for (int i = 0; i < m.n; i++)
        for (int k = 0; k < m.tensors[i].rank; k++)
            if (m.tensors[i].shape[k] == 96) m.tensors[i].shape[k] = ROWS;
    fixture_open(&f, &c, &m, 1);
    if (export(&f, LF_CODE_E4M3) != LF_OK) fail_msg("%s", f.err.message);
    if (lf_tensor_set_open(&set, f.out, &f.err) != LF_OK) fail_msg("%s", f.err.message);
    quantized(&format, "model.layers.1.mlp.up_proj.weight", ROWS, COLUMNS, codes, scales);
    uint8_t *have = bytes_of(&set, "model.layers.1.mlp.up_proj.weight", "F8_E4M3", 2, ROWS, COLUMNS);
    assert_memory_equal(have, codes, sizeof(codes));
    free(have);
    check_scales(&set, "model.layers.1.mlp.up_proj", scales, ROWS, 1);
    lf_tensor_set_close(&set);
    fixture_close(&f);
}

static void check_group(struct lf_json_value q, const char *format, const char *strategy)
{
    struct lf_json_value group = lf_json_get(lf_json_get(q, "config_groups"), "group_0");
    struct lf_json_value weights = lf_json_get(group, "weights");
    assert_true(lf_json_string_is(lf_json_get(q, "quant_method"), "compressed-tensors"));
    assert_true(lf_json_string_is(lf_json_get(q, "format"), format));
    assert_true(lf_json_string_is(lf_json_get(weights, "strategy"), strategy));
    assert_true(lf_json_string_is(lf_json_first(lf_json_get(group, "targets")), "Linear"));
    assert_true(lf_json_string_is(lf_json_first(lf_json_get(q, "ignore")), "lm_head"));
    assert_int_equal(lf_json_len(lf_json_get(q, "ignore")), 2); /* and the embedding */
}

static void the_configuration_gets_one_member_more(void **state)
{
    (void)state;
    static const struct {
        enum lf_code code;
        const char *format, *strategy;
    } rows[] = {{LF_CODE_I4, "pack-quantized", "group"},
                {LF_CODE_I8, "pack-quantized", "group"},
                {LF_CODE_E4M3, "float-quantized", "channel"}};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct fixture f;
        struct config_text c = config_llama();
        struct model_dir m = model_dir_llama();
        struct lf_buf before, after;
        struct lf_json json;
        fixture_open(&f, &c, &m, 1);
        if (export(&f, rows[i].code) != LF_OK) fail_msg("%s", f.err.message);
        lf_buf_init(&before, 1 << 20);
        lf_buf_init(&after, 1 << 20);
        assert_int_equal(lf_file_read_in(&before, f.from.path, "config.json", 1 << 20, &f.err), LF_OK);
        assert_int_equal(lf_file_read_in(&after, f.out, "config.json", 1 << 20, &f.err), LF_OK);
        assert_memory_equal(before.ptr, after.ptr, before.len - 1);
        if (lf_json_parse(&json, lf_buf_view(&after), &lf_json_limits_file, &f.err) != LF_OK)
            fail_msg("%s", f.err.message);
        check_group(lf_json_get(lf_json_root(&json), "quantization_config"), rows[i].format, rows[i].strategy);
        lf_json_deinit(&json);
        lf_buf_deinit(&before);
        lf_buf_deinit(&after);
        fixture_close(&f);
    }
}

/* A member that says nothing gets a value: a name twice is no JSON. */
static void a_member_that_says_nothing_is_taken_over(void **state)
{
    (void)state;
    static const char *const values[] = {"null", "{}", "false"};
    for (size_t i = 0; i < LF_N_ELEMS(values); i++) {
        struct fixture f;
        struct lf_hparams hp = {0};
        struct config_text c = config_llama();
        struct model_dir m = model_dir_llama();
        config_set(&c, "quantization_config", values[i]);
        fixture_open(&f, &c, &m, 1);
        if (export(&f, LF_CODE_E4M3) != LF_OK) fail_msg("%s", f.err.message);
        if (lf_hparams_read(&hp, f.out, &f.err) != LF_OK) fail_msg("%s", f.err.message);
        assert_non_null(hp.quantization);
        lf_hparams_deinit(&hp);
        fixture_close(&f);
    }
}

/* One file that the index names otherwise, which nobody would look for without it. */
static void files_get_names_that_are_looked_for(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_tensor_set set;
    char from[512], to[512];
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    fixture_open(&f, &c, &m, 1);
    snprintf(from, sizeof(from), "%s/model.safetensors", f.from.path);
    snprintf(to, sizeof(to), "%s/model-00001-of-00001.safetensors", f.from.path);
    assert_int_equal(rename(from, to), 0);
    struct lf_buf index;
    lf_buf_init(&index, 1 << 20);
    for (int i = 0; i < m.n; i++)
        lf_buf_printf(&index, "%s\"%s\":\"model-00001-of-00001.safetensors\"", i ? "," : "{\"weight_map\":{",
                      m.tensors[i].name);
    lf_buf_cstr(&index, "}}");
    temp_dir_write(&f.from, "model.safetensors.index.json", index.ptr, index.len);
    lf_buf_deinit(&index);
    if (export(&f, LF_CODE_I4) != LF_OK) fail_msg("%s", f.err.message);
    if (lf_tensor_set_open(&set, f.out, &f.err) != LF_OK) fail_msg("%s", f.err.message);
    lf_tensor_set_close(&set);
    fixture_close(&f);
}

static int n_files(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void texts_come_along_and_other_weights_do_not(void **state)
{
    (void)state;
    static const char *const names[] = {"tokenizer.json",    "chat_template.jinja", "vocab.txt",
                                        "pytorch_model.bin", ".hidden.json",        "README.md"};
    struct fixture f;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    fixture_open(&f, &c, &m, 1);
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) temp_dir_write(&f.from, names[i], "{}", 2);
    if (export(&f, LF_CODE_I8) != LF_OK) fail_msg("%s", f.err.message);
    assert_int_equal(n_files(f.out), 2 + 3); /* config.json and weights, and the first three */
    assert_int_equal(n_files(f.to.path), 1);
    fixture_close(&f);
}

static void expect_nothing(struct fixture *f, enum lf_code code, enum lf_status status, const char *says)
{
    assert_int_equal(export(f, code), status);
    if (!strstr(f->err.message, says)) fail_msg("\"%s\" lacks \"%s\"", f->err.message, says);
    assert_int_equal(n_files(f->to.path), 0);
    fixture_close(f);
}

static void what_cannot_be_written_leaves_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    fixture_open(&f, &c, &m, 1);
    struct lf_tensor_set set;
    assert_int_equal(lf_tensor_set_open(&set, f.from.path, &f.err), LF_OK);
    const struct lf_tensor *t = lf_tensor_find(&set, LF_STR("model.layers.1.mlp.up_proj.weight"));
    FILE *file = fopen(set.files[0].path, "r+b");
    const float bad = NAN;
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)t->offset, SEEK_SET), 0);
    assert_int_equal(fwrite(&bad, sizeof(bad), 1, file), 1);
    assert_int_equal(fclose(file), 0);
    lf_tensor_set_close(&set);
    expect_nothing(&f, LF_CODE_I4, LF_CORRUPT, "model.layers.1.mlp.up_proj.weight has an element");
}

/* Bytes of the largest file in it. */
static size_t largest_file(const char *folder)
{
    size_t most = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        struct stat st;
        assert_int_equal(fstatat(dirfd(dir), e->d_name, &st, 0), 0);
        if (S_ISREG(st.st_mode)) most = LF_MAX(most, (size_t)st.st_size);
    }
    closedir(dir);
    return most;
}

/* A disk that takes no more, at any byte of the largest file: of its header, of codes, of scales, of the last one. */
static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    enum { CUTS = 24 };
    struct fixture f;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    fixture_open(&f, &c, &m, 1);
    assert_int_equal(export(&f, LF_CODE_I8), LF_OK);
    size_t most = largest_file(f.out);
    temp_dir_remove_tree(&f.to);
    f.to = temp_dir_make();
    snprintf(f.out, sizeof(f.out), "%s/out", f.to.path);
    signal(SIGXFSZ, SIG_IGN); /* so that writes fail */
    for (size_t i = 0; i < CUTS; i++) {
        struct rlimit before, limit;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = i * (most - 1) / (CUTS - 1);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        enum lf_status status = export(&f, LF_CODE_I8);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, LF_IO);
        assert_int_equal(n_files(f.to.path), 0);
    }
    assert_int_equal(export(&f, LF_CODE_I8), LF_OK);
    signal(SIGXFSZ, SIG_DFL);
    fixture_close(&f);
}

static void groups_that_do_not_divide_a_row_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    config_set(&c, "intermediate_size", "80");
    for (int i = 0; i < m.n; i++)
        for (int k = 0; k < 2; k++)
            if (m.tensors[i].shape[k] == 96) m.tensors[i].shape[k] = 80;
    fixture_open(&f, &c, &m, 1);
    expect_nothing(&f, LF_CODE_I4, LF_UNSUPPORTED, "down_proj.weight has rows of 80, which groups of 32 do not divide");
}

static void what_is_there_stays(void **state)
{
    (void)state;
    struct fixture f;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    fixture_open(&f, &c, &m, 1);
    assert_int_equal(mkdir(f.out, 0755), 0);
    assert_int_equal(export(&f, LF_CODE_I4), LF_INVALID);
    assert_non_null(strstr(f.err.message, "is there already"));
    assert_int_equal(n_files(f.out), 0);
    assert_int_equal(n_files(f.to.path), 1);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_are_packed_and_others_stay),
        cmocka_unit_test(matrices_of_several_reads_are_whole),
        cmocka_unit_test(writes_that_are_cut_short_go_on_where_they_were),
        cmocka_unit_test(fp8_has_a_scale_for_each_row),
        cmocka_unit_test(the_configuration_gets_one_member_more),
        cmocka_unit_test(a_member_that_says_nothing_is_taken_over),
        cmocka_unit_test(files_get_names_that_are_looked_for),
        cmocka_unit_test(texts_come_along_and_other_weights_do_not),
        cmocka_unit_test(what_cannot_be_written_leaves_nothing),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(groups_that_do_not_divide_a_row_are_refused),
        cmocka_unit_test(what_is_there_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
