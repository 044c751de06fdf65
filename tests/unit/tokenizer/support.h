/* What the tests of tokenizers share: model directories made on the spot, and texts through a tokenizer. */
#ifndef LF_TESTS_UNIT_TOKENIZER_SUPPORT_H
#define LF_TESTS_UNIT_TOKENIZER_SUPPORT_H

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "tests/support/test.h"
#include "tokenizer/tokenizer.h"

#define FIXTURES "tests/golden/tokenizer/"

struct model_dir {
    char path[64];
};

static inline struct model_dir model_dir_make(void)
{
    struct model_dir dir = {"/tmp/lf_tokenizer_XXXXXX"};
    assert_non_null(mkdtemp(dir.path));
    return dir;
}

static inline void model_dir_write(const struct model_dir *dir, const char *name, const void *bytes, size_t n)
{
    char path[512];
    assert_int_equal(lf_path_join(path, sizeof path, dir->path, name), LF_OK);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void model_dir_text(const struct model_dir *dir, const char *name, const char *text)
{
    model_dir_write(dir, name, text, strlen(text));
}

static inline void model_dir_copy(const struct model_dir *dir, const char *name, const char *source)
{
    struct lf_buf file;
    lf_buf_init(&file, 64 << 20);
    assert_int_equal(lf_file_read(&file, source, 64 << 20, NULL), LF_OK);
    model_dir_write(dir, name, file.ptr ? file.ptr : "", file.len);
    lf_buf_deinit(&file);
}

static inline void model_dir_free(const struct model_dir *dir)
{
    char path[512];
    struct dirent *entry;
    DIR *d = opendir(dir->path);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        assert_int_equal(lf_path_join(path, sizeof path, dir->path, entry->d_name), LF_OK);
        unlink(path);
    }
    closedir(d);
    rmdir(dir->path);
}

static inline struct lf_tokenizer *open_or_fail(const char *path)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    if (lf_tokenizer_open(&tok, path, &err) != LF_OK) fail_msg("%s: %s", path, err.message);
    return tok;
}

static inline void assert_ids(const struct lf_ids *got, const int32_t *want, size_t n)
{
    assert_int_equal(got->n, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(got->ids[i], want[i]);
}

/* Encodes text and compares with the ids that follow, which end with -1. */
#define ASSERT_ENCODES(tok, text, flags, ...)                                                                          \
    do {                                                                                                               \
        const int32_t want_[] = {__VA_ARGS__};                                                                         \
        struct lf_ids got_ = {0};                                                                                      \
        size_t n_ = 0;                                                                                                 \
        while (want_[n_] >= 0) n_++;                                                                                   \
        assert_int_equal(lf_tokenizer_encode(tok, &got_, lf_str_c(text), NULL, 0, flags, 0, NULL, NULL), LF_OK);       \
        assert_ids(&got_, want_, n_);                                                                                  \
        lf_ids_deinit(&got_);                                                                                          \
    } while (0)

/* A small reproducible random sequence. */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
