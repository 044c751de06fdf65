/* The allocation sweep over models, the KV cache and the engine. */
#include "core/log.h"
#include "kv/tiers/disk_store.h"
#include "kv/tiers/disk_walk.h"
#include "model/generation_config.h"
#include "model/safetensors.h"
#include "server/engine/engine.h"
#include "tests/faults/sweep.h"
#include "tests/support/model_dir.h"
#include "tests/support/model_rig.h"
#include "tests/support/tensor_file.h"
#include "tests/unit/server/engine/fake_backend.h"

#define FIXTURES "tests/golden/model/data/"

static const char *const models[] = {
    "llama-f32",          "llama-bf16-tied",        "llama-f16-sharded",   "llama3-f32",     "mistral-window-f32",
    "qwen2-windows-bf16", "qwen3-layer-types-bf16", "phi3-longrope-bf16",  "smollm3-f32",    "olmo2-f32",
    "olmo3-typed-bf16",   "glm4-biases-bf16",       "granite-f32",         "ministral3-f32", "qwen3-moe-f32",
    "mixtral-whole-bf16", "gemma3-vision-bf16",     "gemma4-experts-bf16", "gpt-oss-mxfp4",  "gpt-oss-f32",
    "gemma4-shared-f32",  "gemma4-inputs-f32",      "qwen3-next-f32",      "qwen3.5-bf16",   "qwen3.5-moe-bf16",
};

struct named {
    struct temp_dir dir;
    struct lf_buf text;
};

enum { NAMES_VARIANTS = 32 };

static enum lf_status open_headers(const void *ctx)
{
    struct lf_tensor_set set = {0};
    struct lf_err err;
    enum lf_status status = lf_tensor_set_open(&set, ctx, &err);
    lf_tensor_set_close(&set);
    return status;
}

/* Names of tensors and files share blocks of 64 KiB: a long first name moves the others through the end of one. */
static void pad_names(void *ctx, int i)
{
    struct named *n = ctx;
    lf_buf_clear(&n->text);
    lf_buf_cstr(&n->text, "{\"");
    for (int k = 64 * 1024 - 16 * (NAMES_VARIANTS - i); k > 0; k--) lf_buf_char(&n->text, 'x');
    lf_buf_cstr(&n->text, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    for (int k = 0; k < 4; k++)
        lf_buf_printf(&n->text, ",\"\\u006%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", k);
    lf_buf_char(&n->text, '}');
    tensor_file_write(&n->dir, "1.safetensors", n->text.ptr, 0);
    lf_buf_clear(&n->text);
    lf_buf_cstr(&n->text, "{\"weight_map\":{\"");
    for (int k = 64 * 1024 - 16 * (NAMES_VARIANTS - i); k > 0; k--) lf_buf_char(&n->text, 'x');
    lf_buf_cstr(&n->text, "\":\"1.safetensors\"");
    for (int k = 0; k < 4; k++) lf_buf_printf(&n->text, ",\"\\u006%d\":\"1.s\\u0061fetensors\"", k);
    lf_buf_cstr(&n->text, "}}");
    temp_dir_write(&n->dir, "model.safetensors.index.json", n->text.ptr, n->text.len);
}

static enum lf_status open_names(const void *ctx)
{
    return open_headers(((const struct named *)ctx)->dir.path);
}

static void any_name_of_a_tensor_is_the_last_there_is_memory_for(void **state)
{
    (void)state;
    struct named n = {.dir = temp_dir_make()};
    lf_buf_init(&n.text, 1 << 20);
    sweep_variants("headers: every name", open_names, pad_names, &n, NAMES_VARIANTS);
    lf_buf_deinit(&n.text);
    temp_dir_remove(&n.dir);
}

static enum lf_status read_hparams(const void *ctx)
{
    struct lf_hparams hp = {0};
    struct lf_err err;
    enum lf_status status = lf_hparams_read(&hp, ctx, &err);
    lf_hparams_deinit(&hp);
    return status;
}

static enum lf_status load_model(const void *ctx)
{
    struct model_rig rig;
    struct lf_err err;
    struct model_rig_opts opts = {.dir = ctx,
                                  .load = LF_LOAD_FILES,
                                  .max_isa = -1,
                                  .n_threads = 2,
                                  .ctx = 128,
                                  .chunk = 32,
                                  .max_seqs = 2,
                                  .max_out = 2,
                                  .kv_dtype = LF_F32,
                                  .hash_weights = true,
                                  .cache_groups = true};
    enum lf_status status = model_rig_open(&rig, &opts, &err);
    model_rig_close(&rig);
    return status;
}

static void models_of_every_family(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(models); i++) {
        char dir[128], name[128];
        snprintf(dir, sizeof dir, FIXTURES "%s", models[i]);
        snprintf(name, sizeof name, "headers of %s", models[i]);
        sweep(name, open_headers, dir, 4);
        snprintf(name, sizeof name, "config of %s", models[i]);
        sweep(name, read_hparams, dir, 3);
        snprintf(name, sizeof name, "load %s", models[i]);
        sweep(name, load_model, dir, 20);
    }
}

static enum lf_status read_sampling(const void *ctx)
{
    struct lf_sampling_defaults defaults;
    struct lf_err err;
    return lf_generation_config_read(&defaults, ctx, &err);
}

/* One that says that its head is its embedding, and brings it all the same. */
static void a_tied_head_that_is_there(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct config_text c = config_llama();
    struct model_dir m = model_dir_llama();
    config_set(&c, "tie_word_embeddings", "true");
    m.tensors[1].values_of = m.tensors[0].name;
    config_write(&c, &d);
    model_dir_write(&m, &d);
    temp_dir_write_text(&d, "generation_config.json", "{\"temperature\":0.6,\"top_k\":20,\"eos_token_id\":[2,3]}");
    sweep("sampling defaults", read_sampling, d.path, 2);
    sweep("a tied head that is there", load_model, d.path, 20);
    temp_dir_remove(&d);
}

/* ---- KV cache and engine ---- */

struct cache {
    struct lf_device *dev;
    struct lf_kv_cache kv;
};

static const struct lf_kv_cache_opts kv_opts = {
    .dtype = LF_F32, .n_blocks = 8, .n_layers = 1, .n_kv_heads = 1, .head_dim = 2, .prefix_cache = true};
static const struct lf_engine_opts engine_opts = {
    .ctx = 256, .chunk = 64, .max_seqs = 4, .max_out = 4, .queue_n = 8, .step_ms = 5, .watchdog_s = 30};

static enum lf_status open_device(const void *ctx)
{
    struct lf_device_opts opts = {.name = "cpu", .n_threads = *(const int *)ctx, .max_isa = -1};
    struct lf_device *dev = NULL;
    struct lf_err err;
    enum lf_status status = lf_device_open(&dev, &opts, &err);
    lf_device_close(dev);
    return status;
}

static enum lf_status open_cache(const void *ctx)
{
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_kv_cache_opts o = kv_opts;
    struct cache c = {0};
    struct lf_err err;
    o.prefix_cache = ctx != NULL;
    enum lf_status status = lf_device_open(&c.dev, &opts, &err);
    if (status == LF_OK) status = lf_kv_cache_open(&c.kv, c.dev, &o, &err);
    lf_kv_cache_close(&c.kv);
    lf_device_close(c.dev);
    return status;
}

static enum lf_status run_engine(const void *ctx)
{
    struct lf_kv_cache *kv = (struct lf_kv_cache *)(uintptr_t)ctx;
    struct fake_backend model = {0};
    struct lf_engine_backend backend = {.ctx = &model,
                                        .launch = fake_launch,
                                        .sample = fake_sample_step,
                                        .wait = fake_wait_step,
                                        .n_vocab = FAKE_VOCAB,
                                        .eos_ids = fake_eos,
                                        .n_eos = 1};
    const int32_t prompt[] = {1, 2, 3};
    struct lf_gen_params params = {.prompt = prompt,
                                   .n_prompt = 3,
                                   .max_tokens = 2,
                                   .ignore_eos = true,
                                   .sampling = {.top_p = 1, .repetition_penalty = 1, .n_logprobs = -1},
                                   .n_prompt_logprobs = -1};
    struct lf_engine *engine = NULL;
    struct lf_request *req = NULL;
    struct lf_request_state st;
    struct lf_err err;
    int retry;
    enum lf_status status = lf_engine_create(&engine, &backend, kv, &engine_opts, &err);
    if (status == LF_OK) status = lf_engine_submit(engine, &params, &req, &retry, &err);
    for (int i = 0; status == LF_OK && i < 10000; i++) {
        lf_request_snapshot(req, &st);
        if (st.finish != LF_FINISH_NONE) break;
        lf_clock_sleep_ms(1);
    }
    if (status == LF_OK && st.finish != LF_FINISH_LENGTH) status = LF_TIMEOUT;
    if (req) lf_request_put(req);
    lf_engine_destroy(engine);
    return status;
}

static void device_cache_and_engine(void **state)
{
    (void)state;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct cache c = {0};
    int one = 1, two = 2;
    sweep("device with one thread", open_device, &one, 1);
    sweep("device with two threads", open_device, &two, 2);
    sweep("KV cache", open_cache, NULL, 2);
    sweep("KV cache with prefix cache", open_cache, &one, 4);
    assert_int_equal(lf_device_open(&c.dev, &opts, NULL), LF_OK);
    assert_int_equal(lf_kv_cache_open(&c.kv, c.dev, &kv_opts, NULL), LF_OK);
    sweep("engine, and a request through it", run_engine, &c.kv, 8);
    lf_kv_cache_close(&c.kv);
    lf_device_close(c.dev);
}

/* ---- blocks on disk ---- */

enum { DISK_BLOCK_BYTES = 4096 };

static const uint8_t disk_identity[LF_SHA256_BYTES] = {1};
static const struct lf_disk_kind disk_kind = {.name = "full", .block_bytes = DISK_BLOCK_BYTES, .share = 1};

static enum lf_status open_disk(struct lf_disk_store *store, const char *dir, struct lf_err *err)
{
    struct lf_disk_store_opts opts = {.dir = dir,
                                      .about = "a model",
                                      .identity = disk_identity,
                                      .budget_bytes = (uint64_t)8 * (DISK_BLOCK_BYTES + LF_DISK_RECORD_BYTES),
                                      .kinds = &disk_kind,
                                      .n_kinds = 1};
    return lf_disk_store_open(store, &opts, err);
}

static enum lf_status open_store(const void *ctx)
{
    struct lf_disk_store store = {0};
    struct lf_err err;
    enum lf_status status = open_disk(&store, ctx, &err);
    lf_disk_store_close(&store);
    return status;
}

static bool is_seen(void *ctx, const struct lf_disk_found *found)
{
    *(uint32_t *)ctx += found->n_listed - found->n_broken;
    return true;
}

static enum lf_status walk_store(const void *ctx)
{
    struct lf_err err;
    uint32_t n_whole = 0;
    enum lf_status status = lf_disk_walk(ctx, true, is_seen, &n_whole, &err);
    return status == LF_OK && n_whole != 1 ? LF_INVALID : status; /* an answer is the right one */
}

/* Writes a block into the store that open_store has made. */
static void put_block(const char *dir)
{
    _Alignas(LF_DISK_ALIGN_BYTES) static uint8_t bytes[DISK_BLOCK_BYTES];
    static const int32_t ids[LF_KV_BLOCK_TOKENS];
    struct lf_disk_block block = {.ids = ids, .bytes = bytes};
    struct lf_disk_store store = {0};
    uint32_t n_listed;
    assert_int_equal(open_disk(&store, dir, NULL), LF_OK);
    assert_int_equal(lf_disk_table_put(store.tables[0], &block, 1, &n_listed, NULL), LF_OK);
    lf_disk_store_close(&store);
}

static void blocks_on_disk(void **state)
{
    (void)state;
    struct temp_dir dir = temp_dir_make();
    sweep("a store of blocks on disk", open_store, dir.path, 6);
    put_block(dir.path);
    sweep("the same from outside", walk_store, dir.path, 4);
    temp_dir_remove_tree(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_cache_and_engine),
        cmocka_unit_test(models_of_every_family),
        cmocka_unit_test(blocks_on_disk),
        cmocka_unit_test(a_tied_head_that_is_there),
        cmocka_unit_test(any_name_of_a_tensor_is_the_last_there_is_memory_for),
    };
    lf_log_set_level(LF_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
