/* The same sweep over the operating system's answers: the k-th open or read of a model directory's files fails, is
 * interrupted, comes back short, or finds the file cut. What fails must be said as what it was, and a file that is
 * optional is not taken for missing because it could not be opened. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/check.h"
#include "core/log.h"
#include "model/safetensors.h"
#include "server/config.h"
#include "tests/support/model_rig.h"
#include "tests/support/test.h"
#include "tokenizer/tokenizer.h"

enum fault { FAULT_NONE, FAULT_EIO, FAULT_EMFILE, FAULT_EINTR, FAULT_CUT, FAULT_SHORT };

static enum fault fault;
static long fault_in; /* the k-th call from here on meets it; 0: none */
static long n_met;
static const char *under = ""; /* files whose path begins so; the device also looks at /sys, and can do without */

/* The linker sends the program's calls here. */
ssize_t __real_pread(int fd, void *dst, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

static bool meets(bool is_open)
{
    if (is_open != (fault == FAULT_EMFILE) || fault_in == 0 || --fault_in > 0) return false;
    n_met++;
    return true;
}

ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset)
{
    if (fault == FAULT_SHORT) {
        n_met++;
        return __real_pread(fd, dst, n > 1 ? n / 2 : n, offset);
    }
    if (!meets(false)) return __real_pread(fd, dst, n, offset);
    if (fault == FAULT_CUT) return 0;
    errno = fault == FAULT_EINTR ? EINTR : EIO;
    return -1;
}

int __wrap_open(const char *path, int flags, ...)
{
    bool ours = strncmp(path, under, strlen(under)) == 0;
    if (!ours || !meets(true)) return __real_open(path, flags); /* nothing here creates a file */
    errno = EMFILE;
    return -1;
}

/* ---- the work ---- */

typedef enum lf_status work_fn(const char *path, struct lf_err *err);

static enum lf_status open_tokenizer(const char *path, struct lf_err *err)
{
    struct lf_tokenizer *tok = NULL;
    enum lf_status status = lf_tokenizer_open(&tok, path, err);
    lf_tokenizer_close(tok);
    return status;
}

static enum lf_status open_headers(const char *path, struct lf_err *err)
{
    struct lf_tensor_set set = {0};
    enum lf_status status = lf_tensor_set_open(&set, path, err);
    lf_tensor_set_close(&set);
    return status;
}

static enum lf_status load_model(const char *path, struct lf_err *err)
{
    struct model_rig rig;
    const struct model_rig_opts opts = {.dir = path,
                                        .load = LF_LOAD_FILES,
                                        .max_isa = -1,
                                        .n_threads = 1,
                                        .ctx = 128,
                                        .chunk = 32,
                                        .max_seqs = 2,
                                        .max_out = 2,
                                        .kv_dtype = LF_F32};
    enum lf_status status = model_rig_open(&rig, &opts, err);
    model_rig_close(&rig);
    return status;
}

static enum lf_status read_config(const char *path, struct lf_err *err)
{
    char env_config[512];
    char *const env[] = {env_config, NULL};
    struct lf_config config = {0};
    snprintf(env_config, sizeof env_config, "LONGFLASH_CONFIG=%s", path);
    enum lf_status status = lf_config_read(&config, LF_COMMAND_SERVE, 0, NULL, env, err);
    lf_config_deinit(&config);
    return status;
}

/* ---- the sweep ---- */

/* Number of calls that the fault can meet. */
static long sweep(const char *name, work_fn *work, const char *path, enum fault kind, enum lf_status want)
{
    for (long k = 1;; k++) {
        struct lf_err err = {0};
        fault = kind;
        fault_in = k;
        under = path;
        n_met = 0;
        enum lf_status status = work(path, &err);
        fault = FAULT_NONE;
        if (n_met == 0 || kind == FAULT_SHORT) {
            if (status != LF_OK) fail_msg("%s: %s", name, err.message);
            return kind == FAULT_SHORT ? n_met : k - 1;
        }
        if (status != want)
            fail_msg("%s: fault %d at call %ld: status %s (%s)", name, kind, k, lf_status_name(status), err.message);
        if (want != LF_OK) assert_true(err.message[0] != 0);
    }
}

static const struct {
    const char *name, *path;
    work_fn *work;
} works[] = {
    {"tokenizer.json", "tests/golden/tokenizer/like-llama3", open_tokenizer},
    {"tokenizer.model", "tests/golden/tokenizer/sp-bpe", open_tokenizer},
    {"a tokenizer with its settings", "demo/model", open_tokenizer},
    {"headers", "tests/golden/model/data/llama-f32", open_headers},
    {"headers of shards", "tests/golden/model/data/llama-f16-sharded", open_headers},
    {"a model", "tests/golden/model/data/llama-f32", load_model},
    {"a model of shards", "tests/golden/model/data/llama-f16-sharded", load_model},
    {"settings", "configs/demo.json", read_config},
};

static void a_read_that_fails_is_an_io_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(works); i++)
        assert_true(sweep(works[i].name, works[i].work, works[i].path, FAULT_EIO, LF_IO) >= 1);
}

static void an_open_without_descriptors_is_an_io_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(works); i++)
        assert_true(sweep(works[i].name, works[i].work, works[i].path, FAULT_EMFILE, LF_IO) >= 1);
}

static void a_file_that_was_cut_is_corrupt(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(works); i++)
        assert_true(sweep(works[i].name, works[i].work, works[i].path, FAULT_CUT, LF_CORRUPT) >= 1);
}

static void interrupted_and_short_reads_go_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(works); i++) {
        assert_true(sweep(works[i].name, works[i].work, works[i].path, FAULT_EINTR, LF_OK) >= 1);
        assert_true(sweep(works[i].name, works[i].work, works[i].path, FAULT_SHORT, LF_OK) >= 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_that_fails_is_an_io_error),
        cmocka_unit_test(an_open_without_descriptors_is_an_io_error),
        cmocka_unit_test(a_file_that_was_cut_is_corrupt),
        cmocka_unit_test(interrupted_and_short_reads_go_on),
    };
    lf_log_set_level(LF_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
