/* A small model directory made in C: a list of tensors that a test may bend before it is written. */
#ifndef LF_TESTS_SUPPORT_MODEL_DIR_H
#define LF_TESTS_SUPPORT_MODEL_DIR_H

#include "core/dtype.h"
#include "core/mix.h"
#include "tests/support/config_text.h"
#include "tests/support/tensor_file.h"

enum { MODEL_TENSORS_N = 64 };

struct model_tensor {
    char name[96];
    const char *dtype; /* as the format spells it */
    size_t elem_bytes;
    int rank;
    int shape[4];
    bool absent;
    const char *values_of; /* has the values of the tensor of this name, or of those of several with '|' between them,
                              in equal shares, one behind the other; NULL: its own */
};

struct model_dir {
    struct model_tensor tensors[MODEL_TENSORS_N];
    int n;
};

static inline struct model_tensor *model_dir_add(struct model_dir *m, const char *name, int rows, int cols)
{
    assert_true(m->n < MODEL_TENSORS_N);
    struct model_tensor *t = &m->tensors[m->n++];
    *t = (struct model_tensor){.dtype = "F32", .elem_bytes = 4, .rank = cols ? 2 : 1, .shape = {rows, cols}};
    snprintf(t->name, sizeof(t->name), "%s", name);
    return t;
}

/* The tensors of config_llama(): hidden 64, 2 layers, 2 heads of 32, 1 KV head, intermediate 96, vocabulary 50. */
static inline struct model_dir model_dir_llama(void)
{
    static const struct {
        const char *name;
        int rows, cols;
    } layer[] = {{"input_layernorm.weight", 64, 0},   {"post_attention_layernorm.weight", 64, 0},
                 {"self_attn.q_proj.weight", 64, 64}, {"self_attn.k_proj.weight", 32, 64},
                 {"self_attn.v_proj.weight", 32, 64}, {"self_attn.o_proj.weight", 64, 64},
                 {"mlp.gate_proj.weight", 96, 64},    {"mlp.up_proj.weight", 96, 64},
                 {"mlp.down_proj.weight", 64, 96}};
    struct model_dir m = {.n = 0};
    model_dir_add(&m, "model.embed_tokens.weight", 50, 64);
    model_dir_add(&m, "lm_head.weight", 50, 64);
    model_dir_add(&m, "model.norm.weight", 64, 0);
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < sizeof(layer) / sizeof(layer[0]); i++) {
            char name[96];
            snprintf(name, sizeof(name), "model.layers.%d.%s", l, layer[i].name);
            model_dir_add(&m, name, layer[i].rows, layer[i].cols);
        }
    }
    return m;
}

static inline size_t model_tensor_elems(const struct model_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->shape[i];
    return n;
}

/* Element i of a tensor as a float: what model_dir_write puts there (exact in every type). */
static inline float model_tensor_value(const char *name, size_t i)
{
    uint64_t key = strlen(name);
    for (const char *c = name; *c; c++) key = key * 31 + (unsigned char)*c;
    return (float)((int)(lf_random64(key, i) % 15) - 7) / 32.0f;
}

/* Name number i of a list with '|' between names. */
static inline void model_name_of(const char *names, size_t i, char out[96])
{
    for (; i > 0; i--) names = strchr(names, '|') + 1;
    snprintf(out, 96, "%.*s", (int)strcspn(names, "|"), names);
}

static inline void model_tensor_bytes(const struct model_tensor *t, struct lf_buf *out)
{
    const char *names = t->values_of ? t->values_of : t->name;
    size_t n = model_tensor_elems(t), n_names = 1;
    for (const char *c = names; *c; c++) n_names += *c == '|';
    for (size_t i = 0; i < n; i++) {
        char raw[8] = {0}, name[96];
        model_name_of(names, i / (n / n_names), name);
        float x = model_tensor_value(name, i % (n / n_names));
        enum lf_dtype dtype = strcmp(t->dtype, "F32") == 0 ? LF_F32 : (strcmp(t->dtype, "F16") == 0 ? LF_F16 : LF_BF16);
        if (t->elem_bytes == lf_dtype_bytes(dtype)) lf_from_f32(raw, dtype, &x, 1);
        if (t->elem_bytes == 1) raw[0] = (char)(126 + (int)(32 * x)); /* small as a scale of MXFP4 too */
        lf_buf_append(out, raw, t->elem_bytes);
    }
}

/* Tensors i with i % n_parts == part as one file. */
static inline void model_dir_write_part(const struct model_dir *m, const struct temp_dir *d, const char *file, int part,
                                        int n_parts)
{
    struct lf_buf header, data;
    lf_buf_init(&header, 1 << 24);
    lf_buf_init(&data, 1 << 28);
    const char *comma = "{";
    for (int i = part; i < m->n; i += n_parts) {
        const struct model_tensor *t = &m->tensors[i];
        size_t start = data.len;
        if (t->absent) continue;
        model_tensor_bytes(t, &data);
        lf_buf_printf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", comma, t->name, t->dtype);
        for (int k = 0; k < t->rank; k++) lf_buf_printf(&header, "%s%d", k ? "," : "", t->shape[k]);
        lf_buf_printf(&header, "],\"data_offsets\":[%zu,%zu]}", start, data.len);
        comma = ",";
    }
    lf_buf_cstr(&header, *comma == '{' ? "{}" : "}");
    size_t n = 8 + header.len + data.len;
    char *bytes = calloc(1, n);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(header.len >> (8 * i) & 0xff);
    memcpy(bytes + 8, header.ptr, header.len);
    memcpy(bytes + 8 + header.len, data.ptr, data.len);
    temp_dir_write(d, file, bytes, n);
    free(bytes);
    lf_buf_deinit(&header);
    lf_buf_deinit(&data);
}

static inline void model_dir_write(const struct model_dir *m, const struct temp_dir *d)
{
    model_dir_write_part(m, d, "model.safetensors", 0, 1);
}

#endif
