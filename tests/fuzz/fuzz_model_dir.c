/* Fuzzing what a model directory says of the model: config.json, generation_config.json and
 * model.safetensors.index.json, in this order, NULs between them. One shard, s.safetensors with the tensors a and b,
 * stands in the directory. What is accepted must lie within the limits of the program. */
#include "model/generation_config.h"
#include "model/hparams.h"
#include "model/safetensors.h"
#include "tests/fuzz/fuzz.h"

static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors.index.json",
                                    "s.safetensors"};

static void put_shard(const char *dir)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                 "\"b\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[4,8]}}";
    char shard[8 + sizeof header - 1 + 8] = {0};
    shard[0] = (char)(sizeof header - 1);
    memcpy(shard + 8, header, sizeof header - 1);
    fuzz_dir_write(dir, names[3], lf_str_from(shard, sizeof shard));
}

static void check_hparams(const struct lf_hparams *hp)
{
    LF_ASSERT(hp->n_layers >= 1 && hp->n_layers <= LF_LAYERS_N && hp->hidden >= 1 && hp->hidden <= LF_HIDDEN_N);
    LF_ASSERT(hp->n_heads >= 1 && hp->n_heads <= LF_HEADS_N && hp->n_kv_heads >= 1);
    LF_ASSERT(hp->n_heads % hp->n_kv_heads == 0 && hp->head_dim >= 2 && hp->head_dim <= LF_HEAD_DIM);
    LF_ASSERT(hp->n_vocab >= 1 && hp->n_vocab <= LF_VOCAB_N && hp->intermediate >= 1);
    LF_ASSERT(hp->max_positions >= 1 && hp->max_positions <= LF_CONTEXT_TOKENS && hp->norm_eps >= 0);
    for (int i = 0; i < hp->n_layers; i++) LF_ASSERT(hp->layers[i].window >= 0);
    LF_ASSERT(hp->n_experts >= 0 && hp->n_experts <= LF_EXPERTS_N && hp->experts_per_token <= hp->n_experts);
    LF_ASSERT(hp->experts_per_token <= LF_EXPERTS_PER_TOKEN_N);
    LF_ASSERT(hp->n_eos >= 0 && hp->n_eos <= LF_EOS_IDS_N);
    for (int i = 0; i < hp->n_eos; i++) LF_ASSERT(hp->eos_ids[i] >= 0 && hp->eos_ids[i] < hp->n_vocab);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lf_hparams hp = {0};
    struct lf_tensor_set set = {0};
    struct lf_err err = {0};
    const char *dir = fuzz_dir(names, LF_N_ELEMS(names));
    put_shard(dir);
    for (size_t i = 0; i < 3; i++) fuzz_dir_write(dir, names[i], fuzz_part(&data, &size));
    if (lf_hparams_read(&hp, dir, &err) == LF_OK) {
        check_hparams(&hp);
        lf_hparams_deinit(&hp);
    } else {
        LF_ASSERT(err.message[0] != 0);
    }
    struct lf_sampling_defaults sampling;
    if (lf_generation_config_read(&sampling, dir, &err) == LF_OK) {
        LF_ASSERT(sampling.temperature >= 0 && sampling.temperature <= 2 && sampling.top_k >= 0);
        LF_ASSERT(sampling.top_p >= 0 && sampling.top_p <= 1 && sampling.min_p >= 0 && sampling.min_p <= 1);
        LF_ASSERT(sampling.repetition_penalty >= 0.01 && sampling.repetition_penalty <= 100);
    }
    if (lf_tensor_set_open(&set, dir, &err) == LF_OK) {
        for (int i = 0; i < set.n_tensors; i++) LF_ASSERT(set.tensors[i].file_idx < set.n_files);
        lf_tensor_set_close(&set);
    }
    return 0;
}
