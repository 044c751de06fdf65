#include "model/export.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/limits.h"
#include "model/program.h"
#include "model/programs.h"
#include "model/weights.h"

enum { OTHER_FILE_BYTES = 1 << 30, SHARD_NAME_BYTES = 64 };
static const char weight[] = ".weight";

struct export
{
    const struct lf_export_opts *opts;
    struct lf_format format;
    struct lf_tensor_set set;
    bool *quantized; /* [set.n_tensors] owned */
    struct lf_threads *threads;
    struct lf_quantizer quantizer;
    struct lf_export_progress progress;
    char folder[PATH_MAX]; /* where all is written; "": not made */
    struct lf_buf index;   /* the weight_map so far */
    uint64_t total_bytes;
};

/* ---- which tensors ---- */

static enum lf_status check_tensor(const struct export *x, const struct lf_tensor *t, struct lf_err *err)
{
    int len = (int)LF_MIN(t->name.len, (size_t)100);
    if (t->rank != 2 || !lf_str_ends(t->name, lf_str_c(weight)))
        return lf_fail(
            err, LF_UNSUPPORTED,
            "tensor %.*s is no matrix of one module, which compressed-tensors quantizes (of experts each one's "
            "matrices are); --quantize loads it",
            len, t->name.ptr);
    int multiple = x->format.group > 0 ? x->format.group : 1;
    if (t->shape[1] % (uint64_t)multiple != 0)
        return lf_fail(err, LF_UNSUPPORTED, "tensor %.*s has rows of %" PRIu64 ", which groups of %d do not divide",
                       len, t->name.ptr, t->shape[1], multiple);
    return LF_OK;
}

static enum lf_status choose(struct export *x, const struct lf_hparams *hp, struct lf_device *dev, struct lf_err *err)
{
    struct lf_program program;
    struct lf_weight_layout *layout = NULL;
    LF_TRY(lf_program_record(&program, hp, err));
    x->quantized = calloc((size_t)x->set.n_tensors + 1, sizeof(*x->quantized));
    enum lf_status status = x->quantized ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for a list of tensors");
    if (status == LF_OK) status = lf_weight_layout_make(&layout, hp, &program, &x->set, x->opts->code, dev, err);
    if (status == LF_OK) lf_weight_layout_quantized(layout, x->quantized);
    for (int i = 0; i < x->set.n_tensors && status == LF_OK; i++) {
        x->progress.total += x->set.tensors[i].n_bytes;
        if (x->quantized[i]) status = check_tensor(x, &x->set.tensors[i], err);
    }
    lf_weight_layout_free(layout);
    lf_program_deinit(&program);
    return status;
}

/* ---- files ---- */

static enum lf_status write_file(const char *folder, const char *name, const struct lf_buf *text, struct lf_err *err)
{
    char path[PATH_MAX];
    if (text->status != LF_OK) return lf_fail(err, text->status, "no memory for %s", name);
    if (lf_path_join(path, sizeof(path), folder, name) != LF_OK)
        return lf_fail(err, LF_LIMIT, "%s/%s: the path is too long", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        if (fd >= 0) close(fd);
        return lf_fail(err, LF_IO, "cannot make %s: %s", path, strerror(errno));
    }
    bool is_good = fwrite(text->ptr, 1, text->len, file) == text->len && fflush(file) == 0 && fsync(fd) == 0;
    is_good &= fclose(file) == 0;
    return is_good ? LF_OK : lf_fail(err, LF_IO, "cannot write %s: %s", path, strerror(errno));
}

/* Of a file that is neither config.json nor weights: whether it belongs to the model's texts. */
static bool comes_along(struct lf_str name)
{
    static const char *const ends[] = {".json", ".jinja", ".txt", ".model", ".tiktoken"};
    bool is_known = lf_str_starts(name, LF_STR("LICENSE"));
    for (size_t i = 0; i < LF_N_ELEMS(ends); i++) is_known |= lf_str_ends(name, lf_str_c(ends[i]));
    return is_known && name.ptr[0] != '.' && !lf_str_eq(name, LF_STR("config.json")) &&
           !lf_str_ends(name, LF_STR(".index.json"));
}

static enum lf_status copy_file(const struct export *x, const char *name, struct lf_err *err)
{
    struct lf_buf text;
    lf_buf_init(&text, OTHER_FILE_BYTES);
    enum lf_status status = lf_file_read_in(&text, x->opts->dir, name, OTHER_FILE_BYTES, err);
    if (status == LF_OK) status = write_file(x->folder, name, &text, err);
    lf_buf_deinit(&text);
    return status;
}

static enum lf_status copy_others(const struct export *x, struct lf_err *err)
{
    enum lf_status status = LF_OK;
    DIR *dir = opendir(x->opts->dir);
    if (!dir) return lf_fail(err, LF_IO, "cannot read %s: %s", x->opts->dir, strerror(errno));
    for (struct dirent *e = readdir(dir); e && status == LF_OK; e = readdir(dir)) {
        struct stat st;
        bool is_file = fstatat(dirfd(dir), e->d_name, &st, 0) != 0 || S_ISREG(st.st_mode);
        if (is_file && comes_along(lf_str_c(e->d_name))) status = copy_file(x, e->d_name, err);
    }
    closedir(dir);
    return status;
}

/* ---- config.json ---- */

static void write_weights(struct lf_buf *out, const struct lf_format *f)
{
    lf_buf_printf(out,
                  "\"weights\": {\"num_bits\": %d, \"type\": \"%s\", \"symmetric\": true, \"strategy\": \"%s\", "
                  "\"group_size\": ",
                  f->code == LF_CODE_I4 ? 4 : 8, f->code == LF_CODE_E4M3 ? "float" : "int",
                  f->group > 0 ? "group" : "channel");
    if (f->group > 0)
        lf_buf_printf(out, "%d", f->group);
    else
        lf_buf_cstr(out, "null");
    lf_buf_cstr(out, ", \"dynamic\": false, \"observer\": \"minmax\"}");
}

/* Modules of matrices that stay plain; and the head, which may be a copy that no file has. */
static void write_ignored(struct lf_buf *out, const struct export *x)
{
    lf_buf_cstr(out, "\"lm_head\"");
    for (int i = 0; i < x->set.n_tensors; i++) {
        const struct lf_tensor *t = &x->set.tensors[i];
        if (x->quantized[i] || t->rank != 2 || !lf_str_ends(t->name, lf_str_c(weight))) continue;
        struct lf_str module = lf_str_from(t->name.ptr, t->name.len - (sizeof(weight) - 1));
        if (lf_str_eq(module, LF_STR("lm_head"))) continue;
        lf_buf_cstr(out, ", ");
        lf_json_write_string(out, module);
    }
}

/* The value of quantization_config. */
static void write_quantization(struct lf_buf *out, const struct export *x)
{
    bool is_float = x->format.code == LF_CODE_E4M3;
    lf_buf_printf(out,
                  "{\"quant_method\": \"compressed-tensors\", \"format\": \"%s\", "
                  "\"quantization_status\": \"compressed\",\n    \"config_groups\": {\"group_0\": {\"targets\": "
                  "[\"Linear\"], ",
                  is_float ? "float-quantized" : "pack-quantized");
    write_weights(out, &x->format);
    lf_buf_cstr(out, is_float ? ", \"input_activations\": {\"num_bits\": 8, \"type\": \"float\", \"symmetric\": true, "
                                "\"strategy\": \"token\", \"dynamic\": true}"
                              : ", \"input_activations\": null");
    lf_buf_cstr(out, ", \"output_activations\": null}},\n    \"ignore\": [");
    write_ignored(out, x);
    lf_buf_cstr(out, "]}");
}

/* The text as it is, with one member more before its last brace; or, where there is one already that says nothing
 * (null, {}), with its value. */
static void add_quantization(struct lf_buf *out, const struct export *x, struct lf_str text, struct lf_json_value have)
{
    size_t end = text.len;
    if (lf_json_type(have) != LF_JSON_NONE) {
        struct lf_str old = lf_json_raw(have);
        end = (size_t)(old.ptr - text.ptr);
        lf_buf_append(out, text.ptr, end);
        write_quantization(out, x);
        lf_buf_append(out, old.ptr + old.len, text.len - end - old.len);
        return;
    }
    while (end > 0 && text.ptr[end - 1] != '}') end--;
    if (end > 0) end--;
    while (end > 0 && strchr(" \t\r\n", text.ptr[end - 1])) end--;
    lf_buf_append(out, text.ptr, end);
    lf_buf_cstr(out, ",\n  \"quantization_config\": ");
    write_quantization(out, x);
    lf_buf_cstr(out, "\n}\n");
}

static enum lf_status write_config(const struct export *x, struct lf_err *err)
{
    struct lf_buf config, out;
    struct lf_json json = {0};
    lf_buf_init(&config, LF_JSON_FILE_BYTES);
    lf_buf_init(&out, 2 * (size_t)LF_JSON_FILE_BYTES);
    enum lf_status status = lf_file_read_in(&config, x->opts->dir, "config.json", LF_JSON_FILE_BYTES, err);
    struct lf_str text = lf_str_without_bom(lf_buf_view(&config));
    if (status == LF_OK) status = lf_json_parse(&json, text, &lf_json_limits_file, err);
    if (status == LF_OK) {
        add_quantization(&out, x, text, lf_json_get(lf_json_root(&json), "quantization_config"));
        status = write_file(x->folder, "config.json", &out, err);
    }
    lf_json_deinit(&json);
    lf_buf_deinit(&config);
    lf_buf_deinit(&out);
    return status;
}

/* ---- shards ---- */

/* Names that any reader looks for, whatever those of the files are, which may lie in folders. */
static void name_shard(char out[SHARD_NAME_BYTES], int file_idx, int n_files)
{
    if (n_files == 1)
        snprintf(out, SHARD_NAME_BYTES, "model.safetensors");
    else
        snprintf(out, SHARD_NAME_BYTES, "model-%05d-of-%05d.safetensors", file_idx + 1, n_files);
}

static void add_to_index(struct export *x, const struct lf_export_shard *shard, const char *file)
{
    for (int i = 0; i < shard->n_entries; i++) {
        struct lf_buf name;
        lf_buf_init(&name, LF_SAFETENSORS_HEADER_BYTES);
        lf_export_entry_name(&shard->entries[i], &name);
        if (x->index.len > 0) lf_buf_cstr(&x->index, ",\n    ");
        lf_json_write_string(&x->index, lf_buf_view(&name));
        lf_buf_cstr(&x->index, ": ");
        lf_json_write_string(&x->index, lf_str_c(file));
        lf_buf_deinit(&name);
    }
    x->total_bytes += shard->data_bytes;
}

static enum lf_status write_shard(struct export *x, int file_idx, struct lf_err *err)
{
    struct lf_export_shard shard = {0};
    char path[PATH_MAX], name[SHARD_NAME_BYTES];
    name_shard(name, file_idx, x->set.n_files);
    enum lf_status status = lf_export_shard_make(&shard, &x->format, &x->set, file_idx, x->quantized, err);
    if (status == LF_OK && lf_path_join(path, sizeof(path), x->folder, name) != LF_OK)
        status = lf_fail(err, LF_LIMIT, "%s/%s: the path is too long", x->folder, name);
    if (status == LF_OK)
        status = lf_export_shard_write(&shard, &x->set, file_idx, path, x->threads, &x->quantizer, &x->progress, err);
    if (status == LF_OK) add_to_index(x, &shard, name);
    lf_export_shard_deinit(&shard);
    return status;
}

static enum lf_status write_index(const struct export *x, struct lf_err *err)
{
    struct lf_buf out;
    lf_buf_init(&out, x->index.len + 1024);
    lf_buf_printf(&out, "{\"metadata\": {\"total_size\": %" PRIu64 "},\n  \"weight_map\": {\n    ", x->total_bytes);
    lf_buf_append(&out, x->index.ptr, x->index.len);
    lf_buf_cstr(&out, "}}\n");
    if (x->index.status != LF_OK) out.status = x->index.status;
    enum lf_status status = write_file(x->folder, "model.safetensors.index.json", &out, err);
    lf_buf_deinit(&out);
    return status;
}

/* ---- the folder ---- */

static enum lf_status make_folder(struct export *x, struct lf_err *err)
{
    struct stat st;
    char name[PATH_MAX];
    size_t len = strlen(x->opts->out);
    while (len > 1 && x->opts->out[len - 1] == '/') len--;
    if (snprintf(name, sizeof(name), "%.*s", (int)len, x->opts->out) >= (int)sizeof(name))
        return lf_fail(err, LF_LIMIT, "--out: the path is too long");
    if (lstat(name, &st) == 0) /* of a link itself, which a slash behind its name would follow */
        return lf_fail(err, LF_INVALID, "--out %s is there already: expected a name that is free", x->opts->out);
    if (snprintf(x->folder, sizeof(x->folder), "%s.XXXXXX", name) >= (int)sizeof(x->folder) || !mkdtemp(x->folder)) {
        x->folder[0] = '\0';
        return lf_fail(err, LF_IO, "cannot make a folder beside %s: %s", x->opts->out, strerror(errno));
    }
    mode_t mask = umask(0);
    (void)umask(mask);
    return chmod(x->folder, 0777 & ~mask) == 0 ? LF_OK : lf_fail(err, LF_IO, "%s: %s", x->folder, strerror(errno));
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        if (e->d_name[0] != '.') (void)unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    (void)rmdir(folder);
}

static bool sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_good = fd >= 0 && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return is_good;
}

/* The folder that a folder of mkdtemp stands in, into parent. */
static void name_parent(const char *folder, char parent[PATH_MAX])
{
    const char *slash = strrchr(folder, '/');
    if (!slash)
        snprintf(parent, PATH_MAX, ".");
    else
        snprintf(parent, PATH_MAX, "%.*s", (int)LF_MAX(slash - folder, 1), folder);
}

/* Names it, once what stands in it is on the disk, and puts the name there too. */
static enum lf_status name_folder(struct export *x, struct lf_err *err)
{
    char parent[PATH_MAX];
    name_parent(x->folder, parent);
    if (!sync_folder(x->folder) || rename(x->folder, x->opts->out) != 0)
        return lf_fail(err, LF_IO, "cannot name %s %s: %s", x->folder, x->opts->out, strerror(errno));
    x->folder[0] = '\0'; /* it has its name, and all of it is there */
    if (!sync_folder(parent))
        return lf_fail(err, LF_IO, "%s stands, but %s cannot be synchronized: %s", x->opts->out, parent,
                       strerror(errno));
    return LF_OK;
}

static enum lf_status write_all(struct export *x, struct lf_err *err)
{
    LF_TRY(make_folder(x, err));
    for (int i = 0; i < x->set.n_files; i++) LF_TRY(write_shard(x, i, err));
    if (x->set.n_files > 1) LF_TRY(write_index(x, err));
    LF_TRY(copy_others(x, err));
    LF_TRY(write_config(x, err));
    return name_folder(x, err);
}

enum lf_status lf_export(const struct lf_hparams *hp, struct lf_device *dev, const struct lf_export_opts *opts,
                         struct lf_err *err)
{
    struct export x = {.opts = opts,
                       .format = lf_quantize_format(opts->code),
                       .threads = lf_device_threads(dev),
                       .progress = {.call = opts->progress, .ctx = opts->progress_ctx}};
    LF_TRY(lf_tensor_set_open(&x.set, opts->dir, err));
    lf_buf_init(&x.index, LF_SAFETENSORS_HEADER_BYTES);
    enum lf_status status = choose(&x, hp, dev, err);
    if (status == LF_OK) status = write_all(&x, err);
    if (status != LF_OK && x.folder[0]) remove_folder(x.folder);
    lf_buf_deinit(&x.index);
    lf_quantizer_deinit(&x.quantizer);
    free(x.quantized);
    lf_tensor_set_close(&x.set);
    return status;
}
