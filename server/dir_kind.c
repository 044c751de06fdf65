/* Signs are names of files; a table says what a directory with one sign and without others is, and what to do about it.
 * Rows are in the order in which they are asked: what is sure first, "only a tokenizer" last. */
#include "server/dir_kind.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/check.h"
#include "core/file.h"

enum sign {
    NONE,
    CONFIG,
    WEIGHTS,
    SAFETENSORS,
    DIFFUSERS,
    SENTENCES,
    ADAPTER,
    GGUF,
    HUB_FOLDER,
    CONSOLIDATED,
    META,
    PICKLE,
    CHECKPOINT,
    ONNX,
    MLX,
    TENSORFLOW,
    FLAX,
    OPENVINO,
    COREML,
    TENSORRT,
    NEMO,
    SHARDED_STATE,
    TOKENIZER,
    TEKKEN,
    TIKTOKEN,
    SPIECE,
    N_SIGNS
};
_Static_assert((int)N_SIGNS <= (int)LF_DIR_SIGNS_N, "a sign more than there is room for");

/* A name has the sign of every row that it matches. */
static const struct {
    const char *pattern;
    enum sign sign;
} patterns[] = {
    {"config.json", CONFIG},
    {"model.safetensors", WEIGHTS},
    {"model.safetensors.index.json", WEIGHTS},
    {"*.safetensors", SAFETENSORS},
    {"model_index.json", DIFFUSERS},
    {"modules.json", SENTENCES},
    {"config_sentence_transformers.json", SENTENCES},
    {"adapter_config.json", ADAPTER},
    {"*.gguf", GGUF},
    {"snapshots", HUB_FOLDER},
    {"consolidated*.safetensors", CONSOLIDATED},
    {"consolidated*.pth", META},
    {"pytorch_model*.bin", PICKLE},
    {"*.pth", CHECKPOINT},
    {"*.pt", CHECKPOINT},
    {"*.ckpt", CHECKPOINT},
    {"*.onnx", ONNX},
    {"onnx", ONNX},
    {"weights*.npz", MLX},
    {"tf_model*.h5", TENSORFLOW},
    {"flax_model*.msgpack", FLAX},
    {"openvino_model*.xml", OPENVINO},
    {"*.mlpackage", COREML},
    {"*.mlmodelc", COREML},
    {"*.engine", TENSORRT},
    {"*.nemo", NEMO},
    {"*.distcp", SHARDED_STATE},
    {"global_step*", SHARDED_STATE},
    {"tokenizer.json", TOKENIZER},
    {"tokenizer.model", TOKENIZER},
    {"tokenizer_config.json", TOKENIZER},
    {"tekken.json", TEKKEN},
    {"*.tiktoken", TIKTOKEN},
    {"spiece.model", SPIECE},
    {"sentencepiece.bpe.model", SPIECE},
};

#define ORIGINAL "take the repository that it was made from, in safetensors"

/* What a directory with this sign and without the other is. */
static const struct {
    enum sign with, without;
    bool of_weights; /* says nothing where no weights are needed */
    const char *what, *instead;
} rows[] = {
    {DIFFUSERS, NONE, false, "a diffusers pipeline, which makes images or sound",
     "only models that write text are implemented"},
    {SENTENCES, NONE, false, "a sentence-transformers model, which makes embeddings",
     "only models that write text are implemented"},
    {ADAPTER, WEIGHTS, true, "an adapter (LoRA) without the model that it changes",
     "merge it into that model (merge_and_unload() of peft, then save_pretrained()) and take the result"},
    {GGUF, WEIGHTS, true, "GGUF, the format of llama.cpp", ORIGINAL},
    {HUB_FOLDER, CONFIG, false, "a model's folder of the Hugging Face cache",
     "--model takes the name of the model (org/name), or one directory below snapshots"},
    {META, WEIGHTS, true, "Meta's own format", "take the repository's files in the format of transformers"},
    {CONSOLIDATED, WEIGHTS, true, "Mistral's own format", "take the repository's files in the format of transformers"},
    {PICKLE, WEIGHTS, true, "weights as Python pickles, which may run code when they are opened and are not read",
     "convert them with from_pretrained() and save_pretrained() of transformers, which writes safetensors"},
    {SHARDED_STATE, WEIGHTS, true, "the state of a training run (DeepSpeed, FSDP)",
     "export it with the trainer's save_pretrained() or zero_to_fp32.py"},
    {ONNX, WEIGHTS, true, "ONNX", ORIGINAL},
    {MLX, WEIGHTS, true, "MLX, Apple's format", ORIGINAL},
    {OPENVINO, WEIGHTS, true, "OpenVINO", ORIGINAL},
    {COREML, WEIGHTS, true, "Core ML", ORIGINAL},
    {TENSORRT, WEIGHTS, true, "an engine of TensorRT", ORIGINAL},
    {NEMO, WEIGHTS, true, "an archive of NVIDIA NeMo", ORIGINAL},
    {TENSORFLOW, WEIGHTS, true, "weights for TensorFlow", ORIGINAL},
    {FLAX, WEIGHTS, true, "weights for Flax", ORIGINAL},
    {CHECKPOINT, WEIGHTS, true, "weights as a Python pickle, which may run code when it is opened and is not read",
     ORIGINAL},
    {SAFETENSORS, CONFIG, false, "weights without the config.json that says what they are",
     "copy config.json and the tokenizer from where they come from"},
    {SAFETENSORS, WEIGHTS, true, "weights under a name that is not looked for",
     "name it model.safetensors, or add model.safetensors.index.json"},
    {CONFIG, WEIGHTS, true, "a configuration without weights",
     "download the weights (model.safetensors, or its index and shards) and tokenizer.json; --load dummy needs "
     "neither"},
    {TOKENIZER, CONFIG, false, "a tokenizer without a model", "download config.json and the weights too"},
};

static const struct {
    enum sign sign;
    const char *text;
} tokenizers[] = {
    {TEKKEN, " (tekken.json, Mistral's own form, is not)"},
    {TIKTOKEN, " (a .tiktoken file is not; the tokenizer.json of the same model is)"},
    {SPIECE, " (under another name there is a sentencepiece model: name it tokenizer.model)"},
};

/* ---- Git LFS ---- */

/* What git leaves in a file's place where the lfs extension did not run. */
static bool is_pointer(const char *path)
{
    static const char begin[] = "version https://git-lfs";
    struct stat st;
    struct lf_buf text;
    bool found = false;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > 1024) return false;
    lf_buf_init(&text, 2048);
    if (lf_file_read(&text, path, 2048, NULL) == LF_OK) found = lf_str_starts(lf_buf_view(&text), lf_str_c(begin));
    lf_buf_deinit(&text);
    return found;
}

static void detect_pointer(struct lf_dir_kind *kind, const char *dir, const char *name)
{
    char path[PATH_MAX];
    bool weights = fnmatch("*.safetensors", name, 0) == 0;
    bool matters = weights || fnmatch("*.json", name, 0) == 0 || fnmatch("*.model", name, 0) == 0;
    if (!matters || (kind->pointer[0] && !kind->weights_pointer)) return; /* one is enough, of any other file first */
    if (lf_path_join(path, sizeof(path), dir, name) != LF_OK || !is_pointer(path)) return;
    snprintf(kind->pointer, sizeof(kind->pointer), "%s", name);
    kind->weights_pointer = weights;
}

/* ---- a directory ---- */

static void note(struct lf_dir_kind *kind, const char *name)
{
    for (size_t i = 0; i < LF_N_ELEMS(patterns); i++) {
        enum sign sign = patterns[i].sign;
        if (fnmatch(patterns[i].pattern, name, 0) != 0) continue;
        if (kind->has[sign] && strcmp(kind->name[sign], name) < 0) continue;
        kind->has[sign] = true;
        snprintf(kind->name[sign], sizeof(kind->name[sign]), "%s", name);
    }
}

/* A link that leads nowhere, as in a cache that was cleared by hand, is no file. What cannot be looked at counts as
 * being there: reading it will say why. */
static bool is_there(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    if (lf_path_join(path, sizeof(path), dir, name) != LF_OK) return false;
    return stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

enum lf_status lf_dir_kind_read(struct lf_dir_kind *out, const char *dir, struct lf_err *err)
{
    memset(out, 0, sizeof(*out));
    DIR *d = opendir(dir);
    if (!d) return lf_fail(err, LF_IO, "--model %.200s: %s", dir, strerror(errno));
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.') continue;
        out->n_entries++;
        if (!is_there(dir, e->d_name)) continue;
        note(out, e->d_name);
        detect_pointer(out, dir, e->d_name);
    }
    closedir(d);
    return LF_OK;
}

enum lf_status lf_dir_kind_check_pointers(const struct lf_dir_kind *kind, const char *dir, bool need_weights,
                                          struct lf_err *err)
{
    if (!kind->pointer[0] || (kind->weights_pointer && !need_weights)) return LF_OK;
    return lf_fail(
        err, LF_CORRUPT,
        "--model %.200s: %.100s is a Git LFS pointer, not the file; \"git lfs pull\" in that directory fetches "
        "it",
        dir, kind->pointer);
}

enum lf_status lf_dir_kind_check(const struct lf_dir_kind *kind, const char *dir, bool need_weights, struct lf_err *err)
{
    LF_TRY(lf_dir_kind_check_pointers(kind, dir, need_weights, err));
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        enum sign with = rows[i].with;
        if (!kind->has[with] || kind->has[rows[i].without] || (rows[i].of_weights && !need_weights)) continue;
        return lf_fail(err, with == CONFIG || with == TOKENIZER ? LF_NOT_FOUND : LF_UNSUPPORTED,
                       "--model %.150s holds %.80s: %s; %s", dir, kind->name[with], rows[i].what, rows[i].instead);
    }
    return LF_OK;
}

bool lf_dir_kind_has_config(const struct lf_dir_kind *kind)
{
    return kind->has[CONFIG];
}

bool lf_dir_kind_is_empty(const struct lf_dir_kind *kind)
{
    return kind->n_entries == 0;
}

const char *lf_dir_kind_tokenizer(const struct lf_dir_kind *kind)
{
    for (size_t i = 0; i < LF_N_ELEMS(tokenizers); i++)
        if (kind->has[tokenizers[i].sign]) return tokenizers[i].text;
    return "";
}

/* ---- a name ---- */

bool lf_dir_kind_is_gguf_name(const char *name)
{
    /* behind a colon stands which of a repository's files llama.cpp is to take */
    static const char *const names[] = {"*.gguf", "*-gguf", "*_gguf", "*-gguf:*", "*_gguf:*", "*-gguf@*"};
    for (size_t i = 0; i < LF_N_ELEMS(names); i++)
        if (fnmatch(names[i], name, FNM_CASEFOLD) == 0) return true;
    return false;
}

enum lf_status lf_dir_kind_of_gguf_name(const char *typed, struct lf_err *err)
{
    return lf_fail(err, LF_UNSUPPORTED,
                   "--model %.200s: no such directory, and by its name GGUF, the format of llama.cpp, which is not "
                   "read; " ORIGINAL,
                   typed);
}

/* ---- a file ---- */

enum lf_status lf_dir_kind_of_file(const char *path, const char *expected, struct lf_err *err)
{
#define BESIDE "--model takes the directory that it is in"
    static const struct {
        const char *pattern, *what, *instead;
    } files[] = {
        {"*.gguf", "GGUF, the format of llama.cpp", ORIGINAL},
        {"*.llamafile", "a llamafile", ORIGINAL},
        {"*.onnx", "ONNX", ORIGINAL},
        {"*.safetensors", "a file of weights", BESIDE},
        {"*.safetensors.index.json", "an index of weights", BESIDE},
        {"config.json", "a configuration", BESIDE},
        {"tokenizer.json", "a tokenizer", BESIDE},
        {"*.bin", "weights as a Python pickle", ORIGINAL},
        {"*.pth", "weights as a Python pickle", ORIGINAL},
        {"*.pt", "weights as a Python pickle", ORIGINAL},
        {"*.zip", "an archive", "unpack it first"},
        {"*.tar", "an archive", "unpack it first"},
        {"*.tar.*", "an archive", "unpack it first"},
        {"*.tgz", "an archive", "unpack it first"},
    };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (is_pointer(path))
        return lf_fail(err, LF_INVALID, "--model %.200s is a Git LFS pointer, and a file; " BESIDE, path);
    for (size_t i = 0; i < LF_N_ELEMS(files); i++)
        if (fnmatch(files[i].pattern, name, 0) == 0)
            return lf_fail(err, LF_INVALID, "--model %.200s is a file (%s); %s", path, files[i].what, files[i].instead);
    return lf_fail(err, LF_INVALID, "--model %.200s is a file; %s", path, expected);
#undef BESIDE
}
