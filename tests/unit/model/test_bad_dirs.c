/* Model directories that are wrong in one way each: every one is refused, with a message that names the file or the
 * option, within a second, and nothing is left behind. A good directory bent at random must at least not crash. */
#include "core/clock.h"
#include "core/log.h"
#include "tests/support/model_dir.h"
#include "tests/support/model_rig.h"

enum { MIN_REFUSED = 300, N_RANDOM = 1500, MAX_MS = 1000 };

static struct {
    int n_refused;
    int64_t slowest_ns;
} totals;

static enum lf_status open_model(const struct temp_dir *d, struct lf_err *err)
{
    struct model_rig rig;
    struct model_rig_opts opts = {
        .dir = d->path, .max_isa = -1, .n_threads = 1, .ctx = 64, .chunk = 8, .max_seqs = 1, .kv_dtype = LF_BF16};
    *err = (struct lf_err){LF_OK, ""};
    enum lf_status status = model_rig_open(&rig, &opts, err);
    if (status == LF_OK) model_rig_close(&rig);
    return status;
}

/* what: for the message of a failing test. */
static void expect_refused(const struct temp_dir *d, const char *what)
{
    struct lf_err err;
    int64_t start = lf_clock_ns();
    enum lf_status status = open_model(d, &err);
    int64_t ns = lf_clock_ns() - start;
    if (status == LF_OK) fail_msg("%s: accepted", what);
    if (status != LF_CORRUPT && status != LF_UNSUPPORTED && status != LF_NOT_FOUND && status != LF_LIMIT &&
        status != LF_INVALID)
        fail_msg("%s: %s, %s", what, lf_status_name(status), err.message);
    /* names the directory (or a file in it) and says more than that */
    if (!strstr(err.message, d->path) || strlen(err.message) < strlen(d->path) + 10) {
        fail_msg("%s: says only \"%s\"", what, err.message);
    }
    totals.n_refused++;
    if (ns > totals.slowest_ns) totals.slowest_ns = ns;
}

static struct temp_dir good_dir(void)
{
    struct temp_dir d = temp_dir_make();
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    config_write(&c, &d);
    model_dir_write(&m, &d);
    return d;
}

static void the_directory_that_is_bent_below_is_good(void **state)
{
    (void)state;
    struct lf_err err;
    struct temp_dir d = good_dir();
    if (open_model(&d, &err) != LF_OK) fail_msg("%s", err.message);
    temp_dir_remove(&d);
}

static void with_config(const char *key, const char *value)
{
    char what[128];
    struct temp_dir d = good_dir();
    struct config_text c = config_llama();
    config_set(&c, key, value);
    config_write(&c, &d);
    snprintf(what, sizeof(what), "%s = %s", key, value ? value : "missing");
    expect_refused(&d, what);
    temp_dir_remove(&d);
}

static void numbers_of_the_configuration_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const keys[] = {"hidden_size",         "intermediate_size", "num_hidden_layers",
                                       "num_attention_heads", "vocab_size",        "max_position_embeddings"};
    static const char *const values[] = {NULL,
                                         "null",
                                         "\"64\"",
                                         "[]",
                                         "{}",
                                         "true",
                                         "-1",
                                         "0",
                                         "1.5",
                                         "1e30",
                                         "1e-3",
                                         "9223372036854775808",
                                         "-9223372036854775809"};
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) with_config(keys[k], values[v]);
    }
    for (size_t v = 2; v < sizeof(values) / sizeof(values[0]); v++) {
        with_config("num_key_value_heads", values[v]);
        with_config("head_dim", values[v]);
    }
    static const char *const eps[] = {NULL, "null", "0", "-1", "2", "\"1e-5\"", "[]", "true"};
    for (size_t v = 0; v < sizeof(eps) / sizeof(eps[0]); v++) with_config("rms_norm_eps", eps[v]);
}

static void a_configuration_that_contradicts_the_tensors_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
    } rows[] = {{"hidden_size", "128"},
                {"hidden_size", "63"},
                {"intermediate_size", "97"},
                {"intermediate_size", "95"},
                {"num_hidden_layers", "3"},
                {"num_hidden_layers", "1024"},
                {"num_attention_heads", "4"},
                {"num_attention_heads", "1"},
                {"num_key_value_heads", "2"},
                {"vocab_size", "51"},
                {"vocab_size", "49"},
                {"head_dim", "48"},
                {"attention_bias", "true"},
                {"mlp_bias", "true"},
                {"vocab_size", "4194304"},
                {"hidden_size", "1048576"},
                {"intermediate_size", "1048576"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) with_config(rows[i].key, rows[i].value);
    with_config("architectures", "[\"Qwen2ForCausalLM\"]");
    with_config("architectures", "[\"Qwen3ForCausalLM\"]");
    with_config("model_type", "\"mistral\"");
}

static void broken_text_of_the_configuration_is_refused(void **state)
{
    (void)state;
    struct temp_dir d = good_dir();
    char path[512], text[2048], what[64];
    temp_dir_path(&d, "config.json", path);
    FILE *f = fopen(path, "rb");
    size_t n = fread(text, 1, sizeof(text), f);
    fclose(f);
    for (size_t cut = 0; cut < n; cut += 7) {
        temp_dir_write(&d, "config.json", text, cut);
        snprintf(what, sizeof(what), "config.json cut at %zu", cut);
        expect_refused(&d, what);
    }
    static const char bad[] = {'\0', '\x01', '\x7f', '\xff', '\xc0'};
    for (size_t at = 0; at < n; at += 23) {
        char copy[2048];
        memcpy(copy, text, n);
        copy[at] = bad[at % sizeof(bad)];
        if (copy[at] == '\x7f') copy[at] = '\x02'; /* DEL may stand in a string */
        temp_dir_write(&d, "config.json", copy, n);
        snprintf(what, sizeof(what), "config.json with a bad byte at %zu", at);
        expect_refused(&d, what);
    }
    temp_dir_write_text(&d, "config.json", "[]");
    expect_refused(&d, "config.json is a list");
    temp_dir_delete(&d, "config.json");
    expect_refused(&d, "no config.json");
    temp_dir_remove(&d);
}

enum bend { ABSENT, RENAMED, INTEGER, FLOAT8, ONE_ROW_MORE, ONE_COLUMN_LESS, MORE_RANK, LESS_RANK, TWICE, N_BENDS };

/* Bends tensor i of a good list; false where that bend says nothing of it. */
static bool bend(struct model_dir *m, int i, enum bend how)
{
    struct model_tensor *t = &m->tensors[i];
    switch (how) {
    case ABSENT:
        t->absent = true;
        return true;
    case RENAMED:
        t->name[strlen(t->name) - 1] = 'x';
        return true;
    case INTEGER:
        t->dtype = "I32";
        return true;
    case FLOAT8:
        t->dtype = "F8_E4M3";
        t->elem_bytes = 1;
        return true;
    case ONE_ROW_MORE:
        t->shape[0]++;
        return true;
    case ONE_COLUMN_LESS:
        t->shape[t->rank - 1]--;
        return true;
    case MORE_RANK:
        t->shape[t->rank++] = 1;
        return true;
    case LESS_RANK:
        if (t->rank < 2) return false;
        t->shape[0] *= t->shape[1];
        t->rank = 1;
        return true;
    case TWICE:
        m->tensors[m->n++] = *t;
        return true;
    case N_BENDS:
        break;
    }
    return false;
}

static void a_wrong_tensor_is_refused_whichever_it_is(void **state)
{
    (void)state;
    struct temp_dir d = good_dir();
    const int n = model_dir_llama().n;
    for (int i = 0; i < n; i++) {
        for (enum bend how = 0; how < N_BENDS; how++) {
            struct model_dir m = model_dir_llama();
            char what[160];
            if (!bend(&m, i, how)) continue;
            model_dir_write(&m, &d);
            snprintf(what, sizeof(what), "%s bent by %d", m.tensors[i].name, (int)how);
            expect_refused(&d, what);
        }
    }
    temp_dir_remove(&d);
}

static void tensors_that_would_take_part_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "model.layers.0.self_attn.q_proj.bias",        "model.layers.1.self_attn.q_norm.weight",
        "model.layers.0.mlp.experts.0.up_proj.weight", "model.layers.1.self_attn.q_proj.weight_scale",
        "model.layers.0.self_attn.q_proj.lora_A",      "model.layers.01.mlp.up_proj.weight"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct temp_dir d = good_dir();
        struct model_dir m = model_dir_llama();
        model_dir_add(&m, names[i], 64, 0);
        model_dir_write(&m, &d);
        expect_refused(&d, names[i]);
        temp_dir_remove(&d);
    }
}

static void tensors_of_other_use_are_let_pass(void **state)
{
    (void)state;
    struct lf_err err;
    struct temp_dir d = good_dir();
    struct model_dir m = model_dir_llama();
    lf_log_set_level(LF_LOG_ERROR);
    model_dir_add(&m, "model.layers.0.self_attn.rotary_emb.inv_freq", 16, 0);
    model_dir_add(&m, "model.layers.2.mlp.up_proj.weight", 96, 64); /* behind the last layer: a draft head */
    model_dir_add(&m, "value_head.weight", 1, 64);
    model_dir_write(&m, &d);
    if (open_model(&d, &err) != LF_OK) fail_msg("%s", err.message);
    temp_dir_remove(&d);
}

static size_t read_weights(const struct temp_dir *d, char **out)
{
    char path[512];
    temp_dir_path(d, "model.safetensors", path);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    *out = malloc(n + 64);
    assert_int_equal(fread(*out, 1, n, f), n);
    fclose(f);
    return n;
}

static void files_of_another_length_are_refused(void **state)
{
    (void)state;
    struct temp_dir d = good_dir();
    char *bytes, what[64];
    size_t n = read_weights(&d, &bytes);
    for (int i = 0; i < 24; i++) {
        size_t cut = i < 12 ? (size_t)i : n - 1 - (size_t)(i - 12) * (n / 13);
        temp_dir_write(&d, "model.safetensors", bytes, cut);
        snprintf(what, sizeof(what), "weights cut at %zu of %zu", cut, n);
        expect_refused(&d, what);
    }
    memset(bytes + n, 0, 64);
    for (size_t more = 1; more <= 64; more *= 4) {
        temp_dir_write(&d, "model.safetensors", bytes, n + more);
        expect_refused(&d, "weights with more behind them");
    }
    for (int shift = 0; shift < 64; shift += 5) {
        char copy[8];
        memcpy(copy, bytes, 8);
        copy[shift / 8] = (char)(copy[shift / 8] ^ (1 << shift % 8));
        struct lf_buf bent;
        lf_buf_init(&bent, n + 1);
        lf_buf_append(&bent, copy, 8);
        lf_buf_append(&bent, bytes + 8, n - 8);
        temp_dir_write(&d, "model.safetensors", bent.ptr, bent.len);
        snprintf(what, sizeof(what), "length of the header with bit %d turned", shift);
        expect_refused(&d, what);
        lf_buf_deinit(&bent);
    }
    free(bytes);
    temp_dir_remove(&d);
}

/* The good model in two shards, with the index as given. */
static void with_index(const char *index, const char *drop, const char *what)
{
    struct temp_dir d = good_dir();
    struct model_dir m = model_dir_llama();
    temp_dir_delete(&d, "model.safetensors");
    model_dir_write_part(&m, &d, "a.safetensors", 0, 2);
    model_dir_write_part(&m, &d, "b.safetensors", 1, 2);
    if (drop) temp_dir_delete(&d, drop);
    temp_dir_write_text(&d, "model.safetensors.index.json", index);
    if (what) {
        expect_refused(&d, what);
    } else {
        struct lf_err err;
        if (open_model(&d, &err) != LF_OK) fail_msg("%s", err.message);
    }
    temp_dir_remove(&d);
}

/* An index in which tensor `i` stands under `file`, or not at all where that is NULL. */
static void make_index(struct lf_buf *out, int i, const char *file)
{
    struct model_dir m = model_dir_llama();
    const char *comma = "";
    lf_buf_clear(out);
    lf_buf_printf(out, "{\"weight_map\":{");
    for (int k = 0; k < m.n; k++) {
        const char *in = k % 2 ? "b.safetensors" : "a.safetensors";
        if (k == i) in = file;
        if (!in) continue;
        lf_buf_printf(out, "%s\"%s\":\"%s\"", comma, m.tensors[k].name, in);
        comma = ",";
    }
    lf_buf_printf(out, "}}");
}

static void a_wrong_index_is_refused(void **state)
{
    (void)state;
    struct lf_buf index;
    lf_buf_init(&index, 1 << 16);
    make_index(&index, -1, NULL);
    with_index(index.ptr, NULL, NULL);
    with_index(index.ptr, "a.safetensors", "a shard is missing");
    with_index(index.ptr, "b.safetensors", "a shard is missing");
    static const char *const files[] = {NULL, "b.safetensors", "c.safetensors",  "../a.safetensors", "/dev/null", "",
                                        "..", "config.json",   "./a.safetensors"};
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        for (int i = 0; i < 20; i += 6) {
            make_index(&index, i, files[f]);
            with_index(index.ptr, NULL, files[f] ? files[f] : "a tensor is not in the index");
        }
    }
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "null",
                                        "{\"weight_map\":1}",
                                        "{\"weight_map\":{\"a\":1}}",
                                        "{\"weight_map\":{\"a\":null}}",
                                        "{\"weight_map\":{}}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) with_index(texts[i], NULL, texts[i]);
    lf_buf_deinit(&index);
}

/* Single bytes of headers and configuration changed at random: refused or, where the change says nothing, opened. */
static void random_changes_do_no_harm(void **state)
{
    (void)state;
    struct temp_dir d = good_dir();
    char path[512], config[2048], *bytes;
    size_t n = read_weights(&d, &bytes);
    uint64_t header_len = 0;
    for (int i = 7; i >= 0; i--) header_len = header_len << 8 | (unsigned char)bytes[i];
    temp_dir_path(&d, "config.json", path);
    FILE *f = fopen(path, "rb");
    size_t n_config = fread(config, 1, sizeof(config), f);
    fclose(f);
    lf_log_set_level(LF_LOG_ERROR);
    for (uint64_t i = 0; i < N_RANDOM; i++) {
        static const char alphabet[] = "0123456789{}[]\",:-.eE aZ\\\n";
        struct lf_err err;
        bool in_config = i % 3 == 0;
        char *text = in_config ? config : bytes;
        size_t at = in_config ? lf_random64(1, i) % n_config : 8 + lf_random64(1, i) % header_len;
        char old = text[at];
        text[at] = alphabet[lf_random64(2, i) % (sizeof(alphabet) - 1)];
        temp_dir_write(&d, in_config ? "config.json" : "model.safetensors", text, in_config ? n_config : n);
        enum lf_status status = open_model(&d, &err);
        if (status != LF_OK && strlen(err.message) < 20) fail_msg("says only \"%s\"", err.message);
        text[at] = old;
        if (in_config) temp_dir_write(&d, "config.json", text, n_config);
        if (!in_config && i % 3 == 2) temp_dir_write(&d, "model.safetensors", text, n);
    }
    free(bytes);
    temp_dir_remove(&d);
}

static void more_than_300_were_refused_each_within_a_second(void **state)
{
    (void)state;
    print_message("%d directories refused, the slowest in %.1f ms\n", totals.n_refused,
                  (double)totals.slowest_ns / 1e6);
    assert_true(totals.n_refused >= MIN_REFUSED);
    assert_true(totals.slowest_ns < (int64_t)MAX_MS * LF_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_directory_that_is_bent_below_is_good),
        cmocka_unit_test(numbers_of_the_configuration_that_are_none_are_refused),
        cmocka_unit_test(a_configuration_that_contradicts_the_tensors_is_refused),
        cmocka_unit_test(broken_text_of_the_configuration_is_refused),
        cmocka_unit_test(a_wrong_tensor_is_refused_whichever_it_is),
        cmocka_unit_test(tensors_that_would_take_part_are_refused),
        cmocka_unit_test(tensors_of_other_use_are_let_pass),
        cmocka_unit_test(files_of_another_length_are_refused),
        cmocka_unit_test(a_wrong_index_is_refused),
        cmocka_unit_test(random_changes_do_no_harm),
        cmocka_unit_test(more_than_300_were_refused_each_within_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
