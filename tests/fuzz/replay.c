/* main of a driver that is built without libFuzzer: gives it every file of the directories named, once.
 *
 * Each file is copied to a block of exactly its size, so that a sanitizer sees a read past its end. A directory without
 * files is a failure: a replay of nothing proves nothing. */
#include <dirent.h>
#include <errno.h>

#include "core/file.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_BYTES = 64 * 1024 * 1024 };

static void run(const char *path)
{
    struct lf_buf file;
    struct lf_err err;
    lf_buf_init(&file, INPUT_BYTES);
    if (lf_file_read(&file, path, INPUT_BYTES, &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(2);
    }
    uint8_t *exact = malloc(file.len ? file.len : 1);
    LF_ASSERT(exact != NULL);
    if (file.len) memcpy(exact, file.ptr, file.len);
    size_t n = file.len;
    lf_buf_deinit(&file);
    printf("%s (%zu bytes)\n", path, n);
    fflush(stdout); /* the last line is the input that ended the program */
    LF_ASSERT(LLVMFuzzerTestOneInput(exact, n) == 0);
    free(exact);
}

static int run_all(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) {
        fprintf(stderr, "%s: %s\n", dir, strerror(errno));
        exit(2);
    }
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[1024];
        if (e->d_name[0] == '.') continue;
        LF_ASSERT(lf_path_join(path, sizeof path, dir, e->d_name) == LF_OK);
        run(path);
        n++;
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) n += run_all(argv[i]);
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
