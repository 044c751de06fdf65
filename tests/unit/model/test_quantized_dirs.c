/* Quantized checkpoints that are wrong in one way each: every one is refused within a second, with a message that names
 * the directory and says what is wrong; and values that are odd but right are opened. The good ones are those of
 * tests/golden/model. */
#include <math.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "model/safetensors.h"
#include "tests/support/by_field.h"
#include "tests/support/model_rig.h"
#include "tests/support/temp_dir.h"

enum { MIN_REFUSED = 400, MIN_FIELDS = 4000, MAX_MS = 1000, TENSORS_N = 96, DATA_BYTES = 1 << 20 };

#define GOOD "tests/golden/model/data/quantized/"

static struct {
    int n_refused, n_opened;
    int64_t slowest_ns;
} totals;

/* ---- a checkpoint in memory ---- */

struct tensor {
    char name[96];
    const char *dtype;
    int rank;
    uint64_t shape[3];
    size_t offset, n_bytes; /* in data */
    bool absent;
};

struct checkpoint {
    struct tensor tensors[TENSORS_N];
    int n;
    size_t n_data;
    char data[DATA_BYTES];
    char config[8192];
};

static void read_text(const char *dir, const char *name, char *out, size_t size)
{
    char path[256];
    struct lf_buf text;
    struct lf_err err;
    assert_int_equal(lf_path_join(path, sizeof(path), dir, name), LF_OK);
    lf_buf_init(&text, size - 1);
    assert_int_equal(lf_file_read(&text, path, size - 1, &err), LF_OK);
    memcpy(out, text.ptr, text.len);
    out[text.len] = 0;
    lf_buf_deinit(&text);
}

static struct checkpoint *read_checkpoint(const char *name)
{
    struct lf_tensor_set set;
    struct lf_err err;
    char dir[256];
    struct checkpoint *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    snprintf(dir, sizeof(dir), GOOD "%s", name);
    if (lf_tensor_set_open(&set, dir, &err) != LF_OK) fail_msg("%s", err.message);
    FILE *f = fopen(set.files[0].path, "rb");
    assert_non_null(f);
    for (int i = 0; i < set.n_tensors; i++) {
        const struct lf_tensor *t = &set.tensors[i];
        struct tensor *to = &c->tensors[c->n++];
        assert_true(c->n < TENSORS_N && t->rank <= 3 && c->n_data + t->n_bytes <= DATA_BYTES);
        snprintf(to->name, sizeof(to->name), "%.*s", (int)t->name.len, t->name.ptr);
        to->dtype = t->dtype_name;
        to->rank = t->rank;
        for (int k = 0; k < t->rank; k++) to->shape[k] = t->shape[k];
        to->offset = c->n_data;
        to->n_bytes = (size_t)t->n_bytes;
        assert_int_equal(fseek(f, (long)t->offset, SEEK_SET), 0);
        assert_int_equal(fread(c->data + to->offset, 1, to->n_bytes, f), to->n_bytes);
        c->n_data += to->n_bytes;
    }
    fclose(f);
    lf_tensor_set_close(&set);
    read_text(dir, "config.json", c->config, sizeof(c->config));
    return c;
}

static size_t elem_bytes(const char *dtype)
{
    return strstr(dtype, "64") ? 8 : strstr(dtype, "32") ? 4 : strstr(dtype, "16") ? 2 : 1;
}

/* The tensors as they are now: what a shape asks for beyond the data is zeros. */
static void write_checkpoint(const struct checkpoint *c, const struct temp_dir *d)
{
    struct lf_buf header, data;
    const char *comma = "{";
    lf_buf_init(&header, 1 << 20);
    lf_buf_init(&data, 1 << 22);
    for (int i = 0; i < c->n; i++) {
        const struct tensor *t = &c->tensors[i];
        size_t n = elem_bytes(t->dtype), start = data.len;
        if (t->absent) continue;
        for (int k = 0; k < t->rank; k++) n *= (size_t)t->shape[k];
        lf_buf_append(&data, c->data + t->offset, LF_MIN(n, t->n_bytes));
        for (size_t k = t->n_bytes; k < n; k++) lf_buf_char(&data, 0);
        lf_buf_printf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", comma, t->name, t->dtype);
        for (int k = 0; k < t->rank; k++) lf_buf_printf(&header, "%s%d", k ? "," : "", (int)t->shape[k]);
        lf_buf_printf(&header, "],\"data_offsets\":[%zu,%zu]}", start, data.len);
        comma = ",";
    }
    lf_buf_char(&header, '}');
    assert_true(header.status == LF_OK && data.status == LF_OK);
    size_t n = 8 + header.len + data.len;
    char *bytes = calloc(1, n);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(header.len >> (8 * i) & 0xff);
    memcpy(bytes + 8, header.ptr, header.len);
    memcpy(bytes + 8 + header.len, data.ptr, data.len);
    temp_dir_write(d, "model.safetensors", bytes, n);
    temp_dir_write_text(d, "config.json", c->config);
    free(bytes);
    lf_buf_deinit(&header);
    lf_buf_deinit(&data);
}

static enum lf_status open_dir(const struct temp_dir *d, struct lf_err *err)
{
    struct model_rig rig;
    struct model_rig_opts opts = {
        .dir = d->path, .max_isa = -1, .n_threads = 1, .ctx = 64, .chunk = 8, .max_seqs = 1, .kv_dtype = LF_BF16};
    *err = (struct lf_err){LF_OK, ""};
    int64_t start = lf_clock_ns();
    enum lf_status status = model_rig_open(&rig, &opts, err);
    totals.slowest_ns = LF_MAX(totals.slowest_ns, lf_clock_ns() - start);
    if (status == LF_OK) model_rig_close(&rig);
    return status;
}

/* says: a word of the message; NULL: any will do. */
static void expect_refused(const struct checkpoint *c, const char *what, const char *says)
{
    struct lf_err err;
    struct temp_dir d = temp_dir_make();
    write_checkpoint(c, &d);
    enum lf_status status = open_dir(&d, &err);
    if (status != LF_CORRUPT && status != LF_UNSUPPORTED && status != LF_LIMIT)
        fail_msg("%s: %s, \"%s\"", what, lf_status_name(status), err.message);
    if (says && !strstr(err.message, says)) fail_msg("%s: \"%s\" lacks \"%s\"", what, err.message, says);
    if (strlen(err.message) < 20) fail_msg("%s: says only \"%s\"", what, err.message);
    totals.n_refused++;
    temp_dir_remove(&d);
}

static void expect_opened(const struct checkpoint *c, const char *what)
{
    struct lf_err err;
    struct temp_dir d = temp_dir_make();
    write_checkpoint(c, &d);
    if (open_dir(&d, &err) != LF_OK) fail_msg("%s: %s", what, err.message);
    totals.n_opened++;
    temp_dir_remove(&d);
}

/* ---- tensors ---- */

static const char *const models[] = {
    "fp8-block-f32",          "fp8-tensor-bf16",   "fp8-experts-whole-bf16", "ct-fp8-channel-bf16", "ct-int8-asym-bf16",
    "ct-w4-group64-asym-f32", "ct-w8-group32-f32", "ct-mxfp4-f32",           "ct-nvfp4-f32",        "gptq-f16",
    "gptq-v2-order-f32",      "awq-f16",           "modelopt-nvfp4-f32",     "qwen3.5-fp8-f32"};

/* Whether the tensor is one of several of a quantized matrix: it has a sibling of scales, or is that. */
static bool is_quantized(const struct checkpoint *c, int i)
{
    const char *name = c->tensors[i].name, *dtype = c->tensors[i].dtype;
    bool is_scale = strstr(name, "scale") != NULL && !strstr(name, "input_scale") && !strstr(name, "activation");
    return is_scale || strcmp(dtype, "I32") == 0 || elem_bytes(dtype) == 1;
}

enum bend { ABSENT, RENAMED, OTHER_TYPE, ONE_MORE, ONE_LESS, MORE_RANK, TURNED, N_BENDS };

static bool bend(struct tensor *t, enum bend how)
{
    uint64_t rows = t->shape[0];
    bool is_optional = strstr(t->name, "weight_shape") || strstr(t->name, "g_idx");
    switch (how) {
    case ABSENT:
        t->absent = true;
        return !is_optional;
    case RENAMED:
        t->name[strlen(t->name) - 1] = 'q';
        return true;
    case OTHER_TYPE:
        t->dtype = elem_bytes(t->dtype) == 1   ? "BOOL"
                   : elem_bytes(t->dtype) == 2 ? "I16"
                   : elem_bytes(t->dtype) == 4 ? "U32"
                                               : "U64";
        return true;
    case ONE_MORE:
        if (t->rank == 0) return false;
        t->shape[0]++;
        return true;
    case ONE_LESS:
        if (t->rank == 0 || t->shape[t->rank - 1] < 2) return false;
        t->shape[t->rank - 1]--;
        return true;
    case MORE_RANK:
        if (t->rank > 2) return false;
        t->shape[t->rank++] = 2;
        return true;
    case TURNED:
        if (t->rank < 2 || t->shape[0] == t->shape[1] || t->shape[0] == 1 || t->shape[1] == 1) return false;
        t->shape[0] = t->shape[1];
        t->shape[1] = rows;
        return true;
    case N_BENDS:
        break;
    }
    return false;
}

static void a_wrong_tensor_is_refused_whichever_it_is(void **state)
{
    (void)state;
    for (size_t m = 0; m < LF_N_ELEMS(models); m++) {
        struct checkpoint *c = read_checkpoint(models[m]);
        for (int i = 0; i < c->n; i++) {
            for (enum bend how = 0; how < N_BENDS && is_quantized(c, i); how++) {
                struct tensor old = c->tensors[i];
                char what[256];
                snprintf(what, sizeof(what), "%s: %s bent by %d", models[m], old.name, (int)how);
                if (bend(&c->tensors[i], how)) expect_refused(c, what, NULL);
                c->tensors[i] = old;
            }
        }
        expect_opened(c, models[m]);
        free(c);
    }
}

static struct tensor *find(struct checkpoint *c, const char *end)
{
    for (int i = 0; i < c->n; i++)
        if (lf_str_ends(lf_str_c(c->tensors[i].name), lf_str_c(end))) return &c->tensors[i];
    fail_msg("%s", end);
    return NULL;
}

/* The first and the last element of a tensor of numbers. */
static void put_number(struct checkpoint *c, const struct tensor *t, float x)
{
    size_t size = elem_bytes(t->dtype);
    char raw[4];
    if (size == 1) raw[0] = isnan(x) ? (char)(strcmp(t->dtype, "U8") == 0 ? 255 : 127) : 0;
    if (size == 2) lf_from_f32(raw, strcmp(t->dtype, "F16") == 0 ? LF_F16 : LF_BF16, &x, 1);
    if (size == 4) memcpy(raw, &x, sizeof(x));
    memcpy(c->data + t->offset, raw, size);
    memcpy(c->data + t->offset + t->n_bytes - size, raw, size);
}

static void scales_that_are_no_numbers_are_refused_and_odd_ones_are_not(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f}, odd[] = {0, -0.5f, 1e-7f};
    for (size_t m = 0; m < LF_N_ELEMS(models); m++) {
        struct checkpoint *c = read_checkpoint(models[m]);
        for (int i = 0; i < c->n; i++) {
            struct tensor *t = &c->tensors[i];
            static char old[DATA_BYTES];
            char what[256];
            if (!is_quantized(c, i) || !strstr(t->name, "scale")) continue;
            memcpy(old, c->data + t->offset, t->n_bytes);
            bool is_byte = elem_bytes(t->dtype) == 1,
                 is_factor = strstr(t->name, "scale_2") || strstr(t->name, "global");
            snprintf(what, sizeof(what), "%s: %s", models[m], t->name);
            for (size_t k = 0; k < LF_N_ELEMS(bad) && (!is_byte || k == 0); k++) {
                put_number(c, t, bad[k]);
                /* dividing by much is no error */
                if (!is_factor || k < 3)
                    expect_refused(c, what, is_factor ? "no factor" : "a scale is no finite number");
            }
            for (size_t k = 0; k < LF_N_ELEMS(odd) && !is_byte && !is_factor; k++) {
                put_number(c, t, odd[k]);
                expect_opened(c, what);
            }
            memcpy(c->data + t->offset, old, t->n_bytes);
        }
        free(c);
    }
}

static void codes_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    static const char *const of_fp8[] = {"fp8-block-f32", "fp8-tensor-bf16", "ct-fp8-channel-bf16", "qwen3.5-fp8-f32"};
    for (size_t m = 0; m < LF_N_ELEMS(of_fp8); m++) {
        struct checkpoint *c = read_checkpoint(of_fp8[m]);
        for (int i = 0; i < c->n; i++) {
            struct tensor *t = &c->tensors[i];
            if (strcmp(t->dtype, "F8_E4M3") != 0) continue;
            char old = c->data[t->offset + t->n_bytes - 1];
            c->data[t->offset + t->n_bytes - 1] = (char)(i % 2 ? 0xff : 0x7f);
            expect_refused(c, t->name, "a code is NaN");
            c->data[t->offset + t->n_bytes - 1] = old;
        }
        free(c);
    }
}

static void put_int(struct checkpoint *c, const struct tensor *t, int i, int32_t x)
{
    memcpy(c->data + t->offset + (size_t)i * sizeof(x), &x, sizeof(x));
}

static void groups_of_columns_are_checked(void **state)
{
    (void)state;
    static const int32_t bad[] = {-1, 2, 1000000, INT32_MIN, INT32_MAX};
    struct checkpoint *c = read_checkpoint("gptq-v2-order-f32");
    struct tensor *t = find(c, "q_proj.g_idx");
    for (size_t i = 0; i < LF_N_ELEMS(bad); i++) {
        put_int(c, t, (int)i * 7, bad[i]);
        expect_refused(c, "g_idx", "in group");
        put_int(c, t, (int)i * 7, 0);
        expect_opened(c, "g_idx");
    }
    t->absent = true;
    expect_refused(c, "no g_idx", "q_proj.g_idx is missing");
    free(c);
    c = read_checkpoint("gptq-f16");
    put_int(c, find(c, "q_proj.g_idx"), 0, 1);
    expect_refused(c, "g_idx", "says nothing of act-order");
    put_int(c, find(c, "q_proj.g_idx"), 0, 0);
    put_int(c, find(c, "o_proj.qzeros"), 1, 0x77777767);
    expect_refused(c, "qzeros", "a zero point is not in the middle");
    free(c);
}

static void the_shape_that_is_said_once_more_is_checked(void **state)
{
    (void)state;
    struct checkpoint *c = read_checkpoint("ct-w4-group64-asym-f32");
    const struct tensor *t = find(c, "q_proj.weight_shape");
    for (int i = 0; i < 4; i++) {
        static char old[8];
        memcpy(old, c->data + t->offset + 4 * i, 4);
        put_int(c, t, i, 77);
        expect_refused(c, "weight_shape", "weight_shape says");
        memcpy(c->data + t->offset + 4 * i, old, 4);
    }
    free(c);
}

/* Some write it in four bytes each. */
static void a_shape_in_four_bytes_is_read(void **state)
{
    (void)state;
    struct checkpoint *c = read_checkpoint("ct-w4-group64-asym-f32");
    for (int i = 0; i < c->n; i++) {
        struct tensor *t = &c->tensors[i];
        int64_t shape[2];
        if (!lf_str_ends(lf_str_c(t->name), LF_STR(".weight_shape"))) continue;
        memcpy(shape, c->data + t->offset, sizeof(shape));
        t->dtype = "I32";
        t->n_bytes = 8;
        put_int(c, t, 0, (int32_t)shape[0]);
        put_int(c, t, 1, (int32_t)shape[1]);
    }
    expect_opened(c, "weight_shape of I32");
    put_int(c, find(c, "q_proj.weight_shape"), 1, 77);
    expect_refused(c, "weight_shape of I32", "weight_shape says");
    free(c);
}

/* A matrix that is there in two forms, and one that the list of ignored modules names. */
static void names_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    for (size_t m = 0; m < LF_N_ELEMS(models); m++) {
        struct checkpoint *c = read_checkpoint(models[m]);
        struct tensor *t = &c->tensors[c->n];
        bool is_same_name = strstr(models[m], "fp8") || strstr(models[m], "int8") || strstr(models[m], "modelopt");
        *t = (struct tensor){.dtype = "F32", .rank = 2, .shape = {64, 64}, .n_bytes = 64 * 64 * 4};
        snprintf(t->name, sizeof(t->name), "model.layers.0.self_attn.o_proj.%s", is_same_name ? "qweight" : "weight");
        c->n++;
        expect_refused(c, models[m], NULL);
        free(c);
    }
}

/* ---- config.json ---- */

/* The configuration with the first `from` in it replaced. */
static void replace(struct checkpoint *c, const char *from, const char *to)
{
    char old[sizeof(c->config)];
    memcpy(old, c->config, sizeof(old));
    const char *at = strstr(old, from);
    if (!at) fail_msg("%s is not in %s", from, old);
    snprintf(c->config, sizeof(c->config), "%.*s%s%s", (int)(at - old), old, to, at + strlen(from));
}

/* All experts in one tensor, in a type that is no plain one: only FP8 and int8 have names for its scales. */
static void experts_in_one_tensor_are_refused_where_the_format_has_no_names_for_them(void **state)
{
    (void)state;
    static const char *const of[] = {"\"quant_method\": \"gptq\", \"bits\": 4, \"x\": 1",
                                     "\"quant_method\": \"awq\", \"bits\": 4, \"x\": 1",
                                     "\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", \"x\": 1"};
    for (size_t i = 0; i < LF_N_ELEMS(of); i++) {
        struct checkpoint *c = read_checkpoint("fp8-experts-whole-bf16");
        for (int k = 0; k < c->n; k++) {
            struct tensor *t = &c->tensors[k];
            bool is_scale = strstr(t->name, "_scale_inv") != NULL;
            if (is_scale) t->absent = true;
            /* all else is plain: only the experts are not */
            if (is_scale || strcmp(t->dtype, "F8_E4M3") != 0 || strstr(t->name, ".experts.")) continue;
            t->dtype = "BF16";
        }
        replace(c, "\"quant_method\": \"fp8\"", of[i]);
        expect_refused(c, of[i], "experts");
        free(c);
    }
}

static void a_configuration_that_contradicts_the_tensors_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *from, *to, *says;
    } rows[] = {
        {"gptq-f16", "\"bits\": 4", "\"bits\": 3", "bits is 3"},
        {"gptq-f16", "\"bits\": 4", "\"bits\": 8", "has shape"},
        {"gptq-f16", "\"bits\": 4", "\"bits\": null", "bits is missing"},
        {"gptq-f16", "\"group_size\": 32", "\"group_size\": 64", "has shape"},
        {"gptq-f16", "\"group_size\": 32", "\"group_size\": -1", "has shape"},
        {"gptq-f16", "\"group_size\": 32", "\"group_size\": 0", "group_size is 0"},
        {"gptq-f16", "\"group_size\": 32", "\"group_size\": \"32\"", "group_size is a string"},
        {"gptq-f16", "\"checkpoint_format\": \"gptq\"", "\"checkpoint_format\": \"gptq_v2\"", "zero point"},
        {"gptq-f16", "\"checkpoint_format\": \"gptq\"", "\"checkpoint_format\": \"marlin\"", "marlin is not"},
        {"gptq-f16", "\"checkpoint_format\": \"gptq\"", "\"is_marlin_format\": true", "Marlin"},
        {"gptq-f16", "\"desc_act\": false", "\"desc_act\": 1", "desc_act"},
        {"gptq-f16", "\"quant_method\": \"gptq\"", "\"quant_method\": \"awq\"", "qweight"},
        {"gptq-f16", "\"quant_method\": \"gptq\"", "\"quant_method\": \"fp8\"", "is missing, and so is"},
        {"gptq-f16", "\"sym\": true", "\"dynamic\": {\"-:.*o_proj\": {}}", "dynamic leaves it out"},
        {"gptq-f16", "\"sym\": true", "\"dynamic\": {\"+:.*o_proj\": {\"bits\": 8}}", "has shape"},
        {"gptq-f16", "\"sym\": true", "\"dynamic\": {\"+:(\": {}}", "no pattern"},
        {"gptq-f16", "\"sym\": true", "\"dynamic\": []", "dynamic is an array"},
        {"gptq-dynamic-f32", "\"bits\": 8", "\"bits\": 4", "has shape"},
        {"gptq-dynamic-f32", "-:.*q_proj", "-:.*k_proj", "leaves it out"},
        {"awq-f16", "\"version\": \"gemm\"", "\"version\": \"gemv\"", "version gemv"},
        {"awq-f16", "\"bits\": 4", "\"bits\": 8", "4 is"},
        {"awq-f16", "\"group_size\": 32", "\"group_size\": 128", "has shape"},
        {"awq-f16", "\"zero_point\": true", "\"zero_point\": false", "zero point"},
        {"awq-f16", "\"modules_to_not_convert\": null", "\"modules_to_not_convert\": [\"model.layers.0.mlp\"]",
         "leaves it out"},
        {"awq-f16", "\"modules_to_not_convert\": null", "\"modules_to_not_convert\": [1]", "expected names"},
        {"awq-f16", "\"modules_to_not_convert\": null", "\"modules_to_not_convert\": [\"\"]", "empty name"},
        {"awq-f16", "\"modules_to_not_convert\": null", "\"modules_to_not_convert\": {}", "expected an array"},
        {"awq-f16", "\"modules_to_not_convert\": null", "\"modules_to_not_convert\": [\"(a+)+$|((((.*)*)*)*)*b\"]",
         "takes too long"},
        {"fp8-block-f32", "\"fmt\": \"e4m3\"", "\"fmt\": \"e5m2\"", "fmt e5m2"},
        {"fp8-block-f32", "\"weight_block_size\": [", "\"weight_block_size\": [128, ", "two numbers"},
        {"fp8-block-f32", "\"weight_block_size\": [", "\"x\": [", "has shape"},
        {"fp8-block-f32", "[\n   128,", "[\n   64,", "has shape"},
        {"fp8-block-f32", "[\n   128,", "[\n   0,", "weight_block_size is 0"},
        {"fp8-block-f32", "[\n   128,", "[\n   -128,", "weight_block_size is -128"},
        {"fp8-block-f32", "mlp.down_proj", "self_attn.q_proj", "leaves it out"},
        {"fp8-block-f32", "\"quant_method\": \"fp8\"", "\"quant_method\": \"fbgemm_fp8\"", "has shape"},
        {"ct-w4-group64-asym-f32", "\"num_bits\": 4", "\"num_bits\": 8", "has shape"},
        {"ct-w4-group64-asym-f32", "\"num_bits\": 4", "\"num_bits\": 2", "of 2 bits"},
        {"ct-w4-group64-asym-f32", "\"group_size\": 64", "\"group_size\": 32", "has shape"},
        {"ct-w4-group64-asym-f32", "\"strategy\": \"group\"", "\"strategy\": \"channel\"", "has shape"},
        {"ct-w4-group64-asym-f32", "\"strategy\": \"group\"", "\"strategy\": \"token\"", "strategy token"},
        {"ct-w4-group64-asym-f32", "\"symmetric\": false", "\"symmetric\": true", "zero point"},
        {"ct-w4-group64-asym-f32", "\"actorder\": null", "\"actorder\": \"group\"", "g_idx is missing"},
        {"ct-w4-group64-asym-f32", "\"type\": \"int\"", "\"type\": \"float\"", "(float)"},
        {"ct-w4-group64-asym-f32", "\"dynamic\": false", "\"dynamic\": true", "dynamic"},
        {"ct-w4-group64-asym-f32", "pack-quantized", "marlin-24", "format marlin-24"},
        {"ct-w4-group64-asym-f32", "\"compressed\"", "\"initialized\"", "quantization_status initialized"},
        {"ct-w4-group64-asym-f32", "\"Linear\"", "\"re:.*mlp.*\"", "no group of targets"},
        {"ct-w4-group64-asym-f32", "\"lm_head\"", "\"re:.*o_proj\"", "ignore leaves it out"},
        {"ct-w4-group64-asym-f32", "\"lm_head\"", "\"re:(\"", "no pattern"},
        {"ct-w4-group64-asym-f32", "\"kv_cache_scheme\": null",
         "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}", "sparse-24-bitmask"},
        {"ct-w4-group64-asym-f32", "\"kv_cache_scheme\": null",
         "\"transform_config\": {\"config_groups\": {\"u\": {\"type\": \"hadamard\"}}}", "transforms"},
        {"ct-w4-group64-asym-f32", "\"config_groups\": {", "\"config_groups\": 1, \"x\": {",
         "config_groups is a number"},
        {"ct-mxfp4-f32", "\"group_size\": 32", "\"group_size\": 16", "expected 32"},
        {"ct-nvfp4-f32", "\"group_size\": 16", "\"group_size\": 32", "expected 16"},
        {"ct-fp8-channel-bf16", "\"strategy\": \"channel\"", "\"strategy\": \"tensor\"", "has shape"},
        {"ct-fp8-channel-bf16", "\"strategy\": \"channel\"", "\"strategy\": \"block\"", "block_structure is not"},
        {"ct-fp8-channel-bf16", "\"symmetric\": true", "\"symmetric\": false", "not symmetric"},
        {"ct-int8-asym-bf16", "\"symmetric\": false", "\"symmetric\": true", "zero point"},
        {"modelopt-nvfp4-f32", "\"quant_algo\": \"NVFP4\"", "\"quant_algo\": \"FP8\"", "of type U8, expected F8_E4M3"},
        {"modelopt-nvfp4-f32", "\"quant_algo\": \"NVFP4\"", "\"quant_algo\": \"W4A8_AWQ\"", "quant_algo W4A8_AWQ"},
        {"modelopt-nvfp4-f32", "lm_head*", "*o_proj", "leaves it out"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct checkpoint *c = read_checkpoint(rows[i].model);
        char what[256];
        snprintf(what, sizeof(what), "%s: %s", rows[i].model, rows[i].to);
        replace(c, rows[i].from, rows[i].to);
        expect_refused(c, what, rows[i].says);
        free(c);
    }
}

struct field {
    const struct checkpoint *c;
    struct temp_dir dir;
    int n_refused, n_opened;
};

/* Only what is changed in quantization_config: the rest is test_by_field's. */
static void with_field(void *ctx, struct lf_str text)
{
    struct field *f = ctx;
    struct lf_err err;
    char copy[8192];
    const char *start = strstr(f->c->config, "quantization_config");
    if (text.len < (size_t)(start - f->c->config) ||
        memcmp(text.ptr, f->c->config, (size_t)(start - f->c->config)) != 0)
        return;
    snprintf(copy, sizeof(copy), "%.*s", (int)text.len, text.ptr);
    temp_dir_write_text(&f->dir, "config.json", copy);
    enum lf_status status = open_dir(&f->dir, &err);
    f->n_refused += status != LF_OK;
    f->n_opened += status == LF_OK;
    if (status == LF_NO_MEMORY || (status != LF_OK && strlen(err.message) < 20))
        fail_msg("\"%s\": %s", err.message, copy);
}

static void every_field_of_quantization_config(void **state)
{
    (void)state;
    static const char *const no_lists[2] = {"", ""};
    int n = 0;
    for (size_t m = 0; m < LF_N_ELEMS(models); m++) {
        struct checkpoint *c = read_checkpoint(models[m]);
        struct field f = {.c = c, .dir = temp_dir_make()};
        write_checkpoint(c, &f.dir);
        by_field(lf_str_c(c->config), no_lists, with_field, &f);
        print_message("%s: %d changes refused, %d opened\n", models[m], f.n_refused, f.n_opened);
        assert_true(f.n_refused > 0 && f.n_opened > 0);
        n += f.n_refused + f.n_opened;
        temp_dir_remove(&f.dir);
        free(c);
    }
    assert_true(n >= MIN_FIELDS);
}

static void more_than_400_were_refused_each_within_a_second(void **state)
{
    (void)state;
    print_message("%d directories refused, %d opened, the slowest in %.1f ms\n", totals.n_refused, totals.n_opened,
                  (double)totals.slowest_ns / 1e6);
    assert_true(totals.n_refused >= MIN_REFUSED);
    assert_true(totals.slowest_ns < (int64_t)MAX_MS * LF_NS_PER_MS * SLOWNESS);
}

int main(void)
{
    lf_log_set_level(LF_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_tensor_is_refused_whichever_it_is),
        cmocka_unit_test(scales_that_are_no_numbers_are_refused_and_odd_ones_are_not),
        cmocka_unit_test(codes_that_are_no_numbers_are_refused),
        cmocka_unit_test(groups_of_columns_are_checked),
        cmocka_unit_test(the_shape_that_is_said_once_more_is_checked),
        cmocka_unit_test(a_shape_in_four_bytes_is_read),
        cmocka_unit_test(names_that_contradict_each_other_are_refused),
        cmocka_unit_test(experts_in_one_tensor_are_refused_where_the_format_has_no_names_for_them),
        cmocka_unit_test(a_configuration_that_contradicts_the_tensors_is_refused),
        cmocka_unit_test(every_field_of_quantization_config),
        cmocka_unit_test(more_than_400_were_refused_each_within_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
