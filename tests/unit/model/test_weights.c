#include <math.h>

#include "core/check.h"
#include "core/log.h"
#include "model/arch/arch.h"
#include "model/dummy.h"
#include "model/programs.h"
#include "model/weights.h"
#include "tests/support/model_dir.h"

/* A directory, read as far as its layout. */
struct fixture {
    struct temp_dir dir;
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_programs programs;
    struct lf_tensor_set set;
    struct lf_weight_layout *layout;
};

static void set_dtypes(struct model_dir *m, const char *dtype, size_t elem_bytes)
{
    for (int i = 0; i < m->n; i++) {
        m->tensors[i].dtype = dtype;
        m->tensors[i].elem_bytes = elem_bytes;
    }
}

static void fixture_open(struct fixture *f, const struct config_text *c, const struct model_dir *m)
{
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 2, .max_isa = -1};
    f->dir = temp_dir_make();
    config_write(c, &f->dir);
    if (m) model_dir_write(m, &f->dir);
    assert_int_equal(lf_device_open(&f->dev, &opts, &err), LF_OK);
    assert_int_equal(lf_hparams_read(&f->hp, f->dir.path, &err), LF_OK);
    f->set = (struct lf_tensor_set){0};
    if (m) assert_int_equal(lf_tensor_set_open(&f->set, f->dir.path, &err), LF_OK);
    assert_int_equal(lf_programs_make(&f->programs, &f->hp, lf_device_ops(f->dev), false, &err), LF_OK);
    enum lf_status status = lf_weight_layout_make(&f->layout, &f->hp, &f->programs.recorded, m ? &f->set : NULL,
                                                  LF_CODE_NONE, f->dev, &err);
    if (status != LF_OK) fail_msg("%s", err.message);
}

static void fixture_close(struct fixture *f)
{
    lf_weight_layout_free(f->layout);
    lf_tensor_set_close(&f->set);
    lf_programs_deinit(&f->programs);
    lf_hparams_deinit(&f->hp);
    lf_device_close(f->dev);
    temp_dir_remove(&f->dir);
}

/* The slot whose first part is the tensor of that name; NULL: there is none. */
static const struct lf_weight *slot(const struct fixture *f, const struct lf_weights *w, const char *name)
{
    const struct lf_program *p = &f->programs.recorded;
    for (int i = 0; i < p->n_slots; i++) {
        char have[128];
        const char *pattern = p->slots[i].parts[0].pattern, *mark = strchr(pattern, '#');
        if (mark)
            snprintf(have, sizeof(have), "%.*s%d%s%s", (int)(mark - pattern), pattern, p->slots[i].layer, mark + 1,
                     p->slots[i].suffix);
        else
            snprintf(have, sizeof(have), "%s%s", pattern, p->slots[i].suffix);
        if (strcmp(have, name) == 0) return &w->of[i];
    }
    return NULL;
}

static void check_rows(struct fixture *f, const struct lf_weight *w, int row_first, const char *name, int n_rows)
{
    static float row[256];
    assert_true(w->n_in <= 256 && row_first + n_rows <= w->n_out);
    for (int r = 0; r < n_rows; r++) {
        lf_device_ops(f->dev)->weight_row(f->dev, w, row_first + r, row);
        for (int k = 0; k < w->n_in; k++) {
            float want = model_tensor_value(name, (size_t)r * (size_t)w->n_in + (size_t)k);
            if (fabsf(row[k] - want) > 0) fail_msg("%s: row %d, column %d", name, r, k);
        }
    }
}

static void check_vector(const float *v, const char *name, int n)
{
    for (int i = 0; i < n; i++) assert_true(fabsf(v[i] - model_tensor_value(name, (size_t)i)) <= 0);
}

struct progress {
    uint64_t done, total;
    int n_calls;
};

static void note_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct progress *p = ctx;
    assert_true(done > p->done && done <= total);
    assert_true(p->n_calls == 0 || total == p->total);
    *p = (struct progress){done, total, p->n_calls + 1};
}

static void check_loading(const char *dtype, size_t elem_bytes, enum lf_dtype want)
{
    struct fixture f;
    struct lf_weights w;
    struct lf_err err;
    struct progress progress = {0};
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    set_dtypes(&m, dtype, elem_bytes);
    fixture_open(&f, &c, &m);
    struct lf_model_opts opts = {.dir = f.dir.path, .progress = note_progress, .progress_ctx = &progress};
    assert_int_equal(lf_weights_load(&w, f.dev, f.layout, &opts, &err), LF_OK);
    assert_int_equal(slot(&f, &w, "model.embed_tokens.weight")->format.dtype, want);
    check_rows(&f, slot(&f, &w, "model.embed_tokens.weight"), 0, "model.embed_tokens.weight", 50);
    check_rows(&f, slot(&f, &w, "lm_head.weight"), 0, "lm_head.weight", 50);
    check_vector(slot(&f, &w, "model.norm.weight")->data, "model.norm.weight", 64);
    const struct lf_weight *qkv = slot(&f, &w, "model.layers.1.self_attn.q_proj.weight");
    const struct lf_weight *gate_up = slot(&f, &w, "model.layers.1.mlp.gate_proj.weight");
    assert_int_equal(qkv->n_out, 128);
    check_rows(&f, qkv, 0, "model.layers.1.self_attn.q_proj.weight", 64);
    check_rows(&f, qkv, 64, "model.layers.1.self_attn.k_proj.weight", 32);
    check_rows(&f, qkv, 96, "model.layers.1.self_attn.v_proj.weight", 32);
    check_rows(&f, slot(&f, &w, "model.layers.1.self_attn.o_proj.weight"), 0, "model.layers.1.self_attn.o_proj.weight",
               64);
    check_rows(&f, gate_up, 0, "model.layers.1.mlp.gate_proj.weight", 96);
    check_rows(&f, gate_up, 96, "model.layers.1.mlp.up_proj.weight", 96);
    check_rows(&f, slot(&f, &w, "model.layers.1.mlp.down_proj.weight"), 0, "model.layers.1.mlp.down_proj.weight", 64);
    check_vector(slot(&f, &w, "model.layers.0.input_layernorm.weight")->data, "model.layers.0.input_layernorm.weight",
                 64);
    check_vector(slot(&f, &w, "model.layers.1.post_attention_layernorm.weight")->data,
                 "model.layers.1.post_attention_layernorm.weight", 64);
    assert_null(slot(&f, &w, "model.layers.1.self_attn.q_proj.bias"));
    assert_null(slot(&f, &w, "model.layers.1.self_attn.q_norm.weight"));
    assert_true(progress.n_calls > 0 && progress.done == progress.total);
    assert_int_equal(lf_device_allocated_bytes(f.dev), lf_weight_layout_bytes(f.layout));
    lf_weights_unload(&w, f.dev);
    assert_int_equal(lf_device_allocated_bytes(f.dev), 0);
    fixture_close(&f);
}

static void every_tensor_arrives_at_its_place(void **state)
{
    (void)state;
    check_loading("F32", 4, LF_F32);
    check_loading("F16", 2, LF_F16);
    check_loading("BF16", 2, LF_BF16);
}

static void norms_may_be_float_beside_half_matrices(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_weights w;
    struct lf_err err;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    set_dtypes(&m, "BF16", 2);
    for (int i = 0; i < m.n; i++) {
        if (m.tensors[i].rank != 1) continue;
        m.tensors[i].dtype = "F32";
        m.tensors[i].elem_bytes = 4;
    }
    fixture_open(&f, &c, &m);
    struct lf_model_opts opts = {.dir = f.dir.path};
    assert_int_equal(lf_weights_load(&w, f.dev, f.layout, &opts, &err), LF_OK);
    check_vector(slot(&f, &w, "model.norm.weight")->data, "model.norm.weight", 64);
    check_rows(&f, slot(&f, &w, "model.layers.0.mlp.down_proj.weight"), 0, "model.layers.0.mlp.down_proj.weight", 64);
    lf_weights_unload(&w, f.dev);
    fixture_close(&f);
}

/* ---- what becomes of rows and elements on their way ---- */

enum { ORDERED = 96, ALTERNATING = 70, ODD_IN = 3 * 1024 }; /* bytes of a row: chunks of staging end within a head */

static void record_ordered(struct lf_recorder *r)
{
    struct lf_slot_part turned = {.pattern = "model.layers.#.turned",
                                  .n_rows = 4 * ORDERED,
                                  .order = LF_ROWS_DEINTERLEAVE_HEAD,
                                  .head_dim = ORDERED,
                                  .rotary_dim = 40},
                        plain = {.pattern = "model.layers.#.plain", .n_rows = 5},
                        apart = {
                            .pattern = "model.layers.#.apart", .n_rows = ALTERNATING, .order = LF_ROWS_DEINTERLEAVE};
    (void)lf_rec_linear(r, 0, &(struct lf_linear_opts){.parts = {plain, turned, apart}, .n_in = ODD_IN, .bias = true});
    (void)lf_rec_vector_plus(r, 0, "model.layers.#.plus_norm", 100, 1.5f);
}

/* The row of a tensor that row r of the part is, from the definition. */
static int ordered_row(int r)
{
    int head = r / ORDERED * ORDERED, i = r % ORDERED;
    return i < 20 ? head + 2 * i : i < 40 ? head + 2 * (i - 20) + 1 : r;
}

static int alternating_row(int r)
{
    return r < ALTERNATING / 2 ? 2 * r : 2 * (r - ALTERNATING / 2) + 1;
}

static float element(const float *stored, const char *name, size_t i)
{
    return stored ? stored[i] : model_tensor_value(name, i);
}

/* n rows of w from row_first on are those of the tensor that source names; stored: what the tensor holds, NULL for
 * model_tensor_value. */
static void check_order(struct fixture *f, const struct lf_weight *w, int row_first, const char *name, int n,
                        int (*source)(int), const float *stored)
{
    static float row[ODD_IN];
    for (int r = 0; r < n; r++) {
        const float *got = row;
        if (w->n_in > 1)
            lf_device_ops(f->dev)->weight_row(f->dev, w, row_first + r, row);
        else
            got = (const float *)w->data + row_first + r;
        for (int k = 0; k < w->n_in; k++) {
            float want = element(stored, name, (size_t)source(r) * (size_t)w->n_in + (size_t)k);
            if (fabsf(got[k] - want) > 0) fail_msg("%s: row %d, column %d", name, r, k);
        }
    }
}

static int as_stored(int r)
{
    return r;
}

/* The slots of record_ordered alone. files: NULL: dummy weights, whose rows are asked for by name. */
static void check_orders(const struct model_dir *files)
{
    static const struct {
        const char *name;
        int first, n;
        int (*source)(int);
    } parts[] = {{"model.layers.0.plain", 0, 5, as_stored},
                 {"model.layers.0.turned", 5, 4 * ORDERED, ordered_row},
                 {"model.layers.0.apart", 5 + 4 * ORDERED, ALTERNATING, alternating_row}};
    struct fixture f;
    struct lf_weights w;
    struct lf_err err;
    struct config_text c = config_llama();
    const struct lf_arch arch = {.name = "Ordered", .record = record_ordered};
    config_set(&c, "torch_dtype", "\"float32\"");
    fixture_open(&f, &c, NULL);
    if (files) model_dir_write(files, &f.dir);
    if (files) assert_int_equal(lf_tensor_set_open(&f.set, f.dir.path, &err), LF_OK);
    f.hp.arch = &arch;
    lf_weight_layout_free(f.layout);
    lf_programs_deinit(&f.programs);
    f.programs = (struct lf_programs){0};
    assert_int_equal(lf_program_record(&f.programs.recorded, &f.hp, &err), LF_OK);
    assert_int_equal(
        lf_weight_layout_make(&f.layout, &f.hp, &f.programs.recorded, files ? &f.set : NULL, LF_CODE_NONE, f.dev, &err),
        LF_OK);
    struct lf_model_opts opts = {.dir = f.dir.path, .load = files ? LF_LOAD_FILES : LF_LOAD_DUMMY, .dummy_seed = 5};
    assert_int_equal(lf_weights_load(&w, f.dev, f.layout, &opts, &err), LF_OK);
    for (size_t i = 0; i < 2 * LF_N_ELEMS(parts); i++) { /* the matrix, then its bias */
        char name[64];
        bool is_bias = i >= LF_N_ELEMS(parts);
        int k = (int)(i % LF_N_ELEMS(parts)), n_in = is_bias ? 1 : ODD_IN;
        snprintf(name, sizeof(name), "%s%s", parts[k].name, is_bias ? ".bias" : ".weight");
        float *stored = files ? NULL : malloc((size_t)parts[k].n * (size_t)n_in * sizeof(float));
        if (stored) lf_dummy_fill(stored, LF_F32, name, 5, n_in, 0, parts[k].n);
        check_order(&f, &w.of[is_bias], parts[k].first, name, parts[k].n, parts[k].source, stored);
        free(stored);
    }
    for (int i = 0; i < 100; i++) {
        float want = files ? model_tensor_value("model.layers.0.plus_norm.weight", (size_t)i) : 1.0f;
        assert_true(fabsf(((const float *)w.of[2].data)[i] - (want + 1.5f)) <= 0);
    }
    lf_weights_unload(&w, f.dev);
    fixture_close(&f);
}

static void rows_are_put_in_the_order_of_their_slot(void **state)
{
    (void)state;
    struct model_dir m = {0};
    model_dir_add(&m, "model.layers.0.plain.weight", 5, ODD_IN);
    model_dir_add(&m, "model.layers.0.turned.weight", 4 * ORDERED, ODD_IN);
    model_dir_add(&m, "model.layers.0.apart.weight", ALTERNATING, ODD_IN);
    model_dir_add(&m, "model.layers.0.plain.bias", 5, 0);
    model_dir_add(&m, "model.layers.0.turned.bias", 4 * ORDERED, 0);
    model_dir_add(&m, "model.layers.0.apart.bias", ALTERNATING, 0);
    model_dir_add(&m, "model.layers.0.plus_norm.weight", 100, 0);
    check_orders(&m);
    check_orders(NULL);
}

static void a_tied_head_shares_the_bytes_of_the_embedding(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_weights w;
    struct lf_err err;
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    fixture_open(&f, &c, &m);
    uint64_t untied = lf_weight_layout_bytes(f.layout);
    fixture_close(&f);
    config_set(&c, "tie_word_embeddings", "true");
    model_dir_add(&m, "model.layers.0.self_attn.rotary_emb.inv_freq", 16, 0); /* says nothing new either */
    m.tensors[1].values_of = "model.embed_tokens.weight";
    for (int i = 0; i < 2; i++) {
        m.tensors[1].absent = i == 1;
        fixture_open(&f, &c, &m);
        assert_true(lf_weight_layout_bytes(f.layout) < untied && lf_weight_layout_tied(f.layout));
        struct lf_model_opts opts = {.dir = f.dir.path};
        assert_int_equal(lf_weights_load(&w, f.dev, f.layout, &opts, &err), LF_OK);
        assert_ptr_equal(slot(&f, &w, "lm_head.weight")->data, slot(&f, &w, "model.embed_tokens.weight")->data);
        check_rows(&f, slot(&f, &w, "lm_head.weight"), 0, "model.embed_tokens.weight", 50);
        lf_weights_unload(&w, f.dev);
        fixture_close(&f);
    }
}

static void a_head_that_differs_from_the_embedding_is_used_although_the_configuration_ties_them(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        struct lf_weights w;
        struct lf_err err;
        struct config_text c = config_llama();
        struct model_dir m = model_dir_llama();
        config_set(&c, "tie_word_embeddings", "true");
        if (i == 1) { /* the same numbers in another type */
            m.tensors[1].values_of = "model.embed_tokens.weight";
            m.tensors[1].dtype = "F16";
            m.tensors[1].elem_bytes = 2;
        }
        fixture_open(&f, &c, &m);
        assert_false(lf_weight_layout_tied(f.layout));
        struct lf_model_opts opts = {.dir = f.dir.path};
        assert_int_equal(lf_weights_load(&w, f.dev, f.layout, &opts, &err), LF_OK);
        assert_ptr_not_equal(slot(&f, &w, "lm_head.weight")->data, slot(&f, &w, "model.embed_tokens.weight")->data);
        check_rows(&f, slot(&f, &w, "lm_head.weight"), 0, i == 1 ? "model.embed_tokens.weight" : "lm_head.weight", 50);
        check_rows(&f, slot(&f, &w, "model.embed_tokens.weight"), 0, "model.embed_tokens.weight", 50);
        lf_weights_unload(&w, f.dev);
        fixture_close(&f);
    }
}

static void a_checkpoint_of_the_bare_model_has_names_without_a_prefix(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_weights w;
    struct lf_err err;
    static char names[MODEL_TENSORS_N][96];
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    for (int i = 0; i < m.n; i++) {
        snprintf(names[i], sizeof(names[i]), "%s", m.tensors[i].name);
        m.tensors[i].values_of = names[i];
        if (strncmp(names[i], "model.", 6) == 0)
            snprintf(m.tensors[i].name, sizeof(m.tensors[i].name), "%s", names[i] + 6);
    }
    fixture_open(&f, &c, &m);
    struct lf_model_opts opts = {.dir = f.dir.path};
    assert_int_equal(lf_weights_load(&w, f.dev, f.layout, &opts, &err), LF_OK);
    check_rows(&f, slot(&f, &w, "model.embed_tokens.weight"), 0, "model.embed_tokens.weight", 50);
    check_rows(&f, slot(&f, &w, "lm_head.weight"), 0, "lm_head.weight", 50);
    check_rows(&f, slot(&f, &w, "model.layers.1.mlp.down_proj.weight"), 0, "model.layers.1.mlp.down_proj.weight", 64);
    check_vector(slot(&f, &w, "model.norm.weight")->data, "model.norm.weight", 64);
    lf_weights_unload(&w, f.dev);
    fixture_close(&f);
    /* what is no part of the family is still seen */
    model_dir_add(&m, "layers.1.self_attn.sinks", 2, 0);
    f.dir = temp_dir_make();
    config_write(&c, &f.dir);
    model_dir_write(&m, &f.dir);
    struct lf_device_opts dev = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_weights_size size;
    opts.dir = f.dir.path;
    assert_int_equal(lf_device_open(&f.dev, &dev, &err), LF_OK);
    assert_int_equal(lf_hparams_read(&f.hp, f.dir.path, &err), LF_OK);
    assert_int_equal(lf_weights_measure(&size, &f.hp, &opts, f.dev, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "layers.1.self_attn.sinks is no part"));
    lf_hparams_deinit(&f.hp);
    lf_device_close(f.dev);
    temp_dir_remove(&f.dir);
}

static void a_file_that_changes_while_it_is_read_is_an_error(void **state)
{
    (void)state;
    static const long sizes[] = {0, 100, 5000, -1};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        struct lf_weights w;
        struct lf_err err;
        struct config_text c = config_llama();
        struct model_dir m = model_dir_llama();
        char path[512];
        fixture_open(&f, &c, &m);
        temp_dir_path(&f.dir, "model.safetensors", path);
        if (sizes[i] >= 0) assert_int_equal(truncate(path, sizes[i]), 0);
        struct lf_model_opts opts = {.dir = f.dir.path};
        if (sizes[i] < 0) temp_dir_delete(&f.dir, "model.safetensors");
        enum lf_status status = lf_weights_load(&w, f.dev, f.layout, &opts, &err);
        assert_int_equal(status, sizes[i] < 0 ? LF_NOT_FOUND : LF_CORRUPT);
        assert_non_null(strstr(err.message, "model.safetensors"));
        assert_int_equal(lf_device_allocated_bytes(f.dev), 0);
        fixture_close(&f);
    }
}

static void load_dummy(struct lf_weights *w, struct fixture *f, uint64_t seed)
{
    struct lf_err err;
    struct lf_model_opts opts = {.dir = f->dir.path, .load = LF_LOAD_DUMMY, .dummy_seed = seed};
    assert_int_equal(lf_weights_load(w, f->dev, f->layout, &opts, &err), LF_OK);
}

static void dummy_weights_depend_on_name_and_seed_and_keep_the_size_of_their_input(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"\"float32\"", "\"float16\"", "\"bfloat16\""};
    for (int t = 0; t < 3; t++) {
        struct fixture f;
        struct lf_weights a, b, other;
        static float row[256], same[256], differs[256];
        struct config_text c = config_llama();
        config_set(&c, "torch_dtype", dtypes[t]);
        config_set(&c, "attention_bias", "true");
        fixture_open(&f, &c, NULL);
        load_dummy(&a, &f, 1);
        load_dummy(&b, &f, 1);
        load_dummy(&other, &f, 2);
        double square = 0, mean = 0;
        int n_equal = 0;
        for (int r = 0; r < 64; r++) {
            const struct lf_ops *ops = lf_device_ops(f.dev);
            ops->weight_row(f.dev, slot(&f, &a, "model.layers.1.mlp.down_proj.weight"), r, row);
            ops->weight_row(f.dev, slot(&f, &b, "model.layers.1.mlp.down_proj.weight"), r, same);
            ops->weight_row(f.dev, slot(&f, &other, "model.layers.1.mlp.down_proj.weight"), r, differs);
            assert_memory_equal(row, same, 96 * sizeof(float));
            for (int k = 0; k < 96; k++) {
                square += (double)row[k] * (double)row[k];
                mean += (double)row[k];
                n_equal += fabsf(row[k] - differs[k]) <= 0;
            }
        }
        double rms = sqrt(square / (64 * 96)) * sqrt(96.0);
        assert_true(rms > 0.7 && rms < 1.42 && fabs(mean / (64 * 96)) < 0.01);
        assert_true(n_equal < 64 * 96 / 50);
        const float *norm = slot(&f, &a, "model.norm.weight")->data;
        const float *bias = slot(&f, &a, "model.layers.0.self_attn.q_proj.bias")->data;
        assert_true(fabsf(norm[3] - 1.0f) <= 0);
        assert_true(fabsf(bias[5]) > 0.01f && fabsf(bias[5]) < 0.04f);
        lf_weights_unload(&a, f.dev);
        lf_weights_unload(&b, f.dev);
        lf_weights_unload(&other, f.dev);
        fixture_close(&f);
    }
}

/* As files would be: coded where there are kernels, plain what a configuration leaves out. */
static void dummy_weights_are_quantized_as_the_configuration_says(void **state)
{
    (void)state;
    struct fixture f;
    struct lf_weights a, b, other;
    float row[96], same[96], differs[96];
    struct config_text c = config_llama();
    config_set(&c, "quantization_config",
               "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"sym\":true,\"desc_act\":false}");
    fixture_open(&f, &c, NULL);
    const struct lf_ops *ops = lf_device_ops(f.dev);
    load_dummy(&a, &f, 1);
    load_dummy(&b, &f, 1);
    load_dummy(&other, &f, 2);
    double square = 0, mean = 0;
    int n_equal = 0;
    const struct lf_weight *down = slot(&f, &a, "model.layers.1.mlp.down_proj.weight");
    assert_int_equal(down->format.code, LF_CODE_I4);
    assert_int_equal(slot(&f, &a, "model.embed_tokens.weight")->format.code, LF_CODE_NONE);
    assert_int_equal(slot(&f, &a, "model.norm.weight")->format.code, LF_CODE_NONE);
    assert_int_equal(slot(&f, &a, "lm_head.weight")->format.code, LF_CODE_NONE);
    for (int r = 0; r < 64; r++) {
        ops->weight_row(f.dev, down, r, row);
        ops->weight_row(f.dev, slot(&f, &b, "model.layers.1.mlp.down_proj.weight"), r, same);
        ops->weight_row(f.dev, slot(&f, &other, "model.layers.1.mlp.down_proj.weight"), r, differs);
        assert_memory_equal(row, same, sizeof(row));
        for (int k = 0; k < 96; k++) {
            square += (double)row[k] * (double)row[k];
            mean += (double)row[k];
            n_equal += fabsf(row[k] - differs[k]) <= 0;
        }
    }
    double rms = sqrt(square / (64 * 96)) * sqrt(96.0);
    assert_true(rms > 0.7 && rms < 1.42 && fabs(mean / (64 * 96)) < 0.02);
    assert_true(n_equal < 64 * 96 / 8); /* one in sixteen by chance */
    lf_weights_unload(&a, f.dev);
    lf_weights_unload(&b, f.dev);
    lf_weights_unload(&other, f.dev);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_arrives_at_its_place),
        cmocka_unit_test(norms_may_be_float_beside_half_matrices),
        cmocka_unit_test(rows_are_put_in_the_order_of_their_slot),
        cmocka_unit_test(a_tied_head_shares_the_bytes_of_the_embedding),
        cmocka_unit_test(a_head_that_differs_from_the_embedding_is_used_although_the_configuration_ties_them),
        cmocka_unit_test(a_checkpoint_of_the_bare_model_has_names_without_a_prefix),
        cmocka_unit_test(a_file_that_changes_while_it_is_read_is_an_error),
        cmocka_unit_test(dummy_weights_depend_on_name_and_seed_and_keep_the_size_of_their_input),
        cmocka_unit_test(dummy_weights_are_quantized_as_the_configuration_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
