/* Fuzzing tokenizer.model, a sentencepiece model in protobuf: our reading of it, and the library behind the shim, which
 * also judges it. The whole input is the file. */
#include "tests/fuzz/use_tokenizer.h"

static const char *const names[] = {"tokenizer.model"};
static char dir[64];

static void drop_dir(void)
{
    fuzz_dir_drop(dir, names, LF_N_ELEMS(names));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    if (dir[0] == 0) {
        fuzz_dir_make(dir);
        LF_ASSERT(atexit(drop_dir) == 0);
    }
    fuzz_dir_put(dir, names[0], lf_str_from((const char *)data, size));
    if (lf_tokenizer_open(&tok, dir, &err) == LF_OK) {
        fuzz_use_tokenizer(tok, LF_STR("\xe2\x96\x81the \xe2\x96\x81\xe2\x96\x81king zz\xef\xac\x81\xcc\x88"));
        lf_tokenizer_close(tok);
    } else {
        LF_ASSERT(err.message[0] != 0 && tok == NULL);
    }
    return 0;
}
