/* config.json as a list of keys and values that a test changes. */
#ifndef LF_TESTS_SUPPORT_CONFIG_TEXT_H
#define LF_TESTS_SUPPORT_CONFIG_TEXT_H

#include "tests/support/temp_dir.h"

enum { CONFIG_KEYS_N = 48 };

struct config_text {
    struct {
        const char *key, *value; /* value: JSON text; NULL: not written */
    } rows[CONFIG_KEYS_N];
    int n;
};

/* Replaces or adds a key; NULL leaves it out. */
static inline void config_set(struct config_text *c, const char *key, const char *value)
{
    int i = 0;
    while (i < c->n && strcmp(c->rows[i].key, key) != 0) i++;
    assert_true(i < CONFIG_KEYS_N);
    c->rows[i].key = key;
    c->rows[i].value = value;
    if (i == c->n) c->n++;
}

/* A small model that is right in every key. */
static inline struct config_text config_good(const char *architecture, const char *model_type)
{
    struct config_text c = {.n = 0};
    config_set(&c, "architectures", architecture);
    config_set(&c, "model_type", model_type);
    config_set(&c, "hidden_act", "\"silu\"");
    config_set(&c, "hidden_size", "64");
    config_set(&c, "intermediate_size", "96");
    config_set(&c, "num_hidden_layers", "2");
    config_set(&c, "num_attention_heads", "2");
    config_set(&c, "num_key_value_heads", "1");
    config_set(&c, "head_dim", "32");
    config_set(&c, "vocab_size", "50");
    config_set(&c, "max_position_embeddings", "256");
    config_set(&c, "rms_norm_eps", "1e-5");
    config_set(&c, "tie_word_embeddings", "false");
    config_set(&c, "torch_dtype", "\"float32\"");
    config_set(&c, "bos_token_id", "1");
    config_set(&c, "eos_token_id", "2");
    return c;
}

static inline struct config_text config_llama(void)
{
    return config_good("[\"LlamaForCausalLM\"]", "\"llama\"");
}

/* Qwen3.5: of every four layers three are gated delta nets. */
static inline struct config_text config_delta_net(void)
{
    struct config_text c = config_good("[\"Qwen3_5ForCausalLM\"]", "\"qwen3_5_text\"");
    config_set(&c, "num_hidden_layers", "8");
    config_set(&c, "linear_num_key_heads", "2");
    config_set(&c, "linear_num_value_heads", "4");
    config_set(&c, "linear_key_head_dim", "16");
    config_set(&c, "linear_value_head_dim", "8");
    config_set(&c, "linear_conv_kernel_dim", "4");
    return c;
}

/* As a file of the directory. */
static inline void config_write(const struct config_text *c, const struct temp_dir *d)
{
    struct lf_buf out;
    lf_buf_init(&out, 1 << 20);
    const char *comma = "{";
    for (int i = 0; i < c->n; i++) {
        if (!c->rows[i].value) continue;
        lf_buf_printf(&out, "%s\"%s\":%s", comma, c->rows[i].key, c->rows[i].value);
        comma = ",";
    }
    lf_buf_char(&out, '}');
    assert_int_equal(out.status, LF_OK);
    temp_dir_write(d, "config.json", out.ptr, out.len);
    lf_buf_deinit(&out);
}

#endif
