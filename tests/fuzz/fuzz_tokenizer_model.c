/* Fuzzing tokenizer.model, a sentencepiece model in protobuf: our reading of it, and the library behind the shim, which
 * also judges it. The whole input is the file. */
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tokenizer.model"};
    const char *dir = fuzz_dir(names, LF_N_ELEMS(names));
    fuzz_dir_write(dir, names[0], lf_str_from((const char *)data, size));
    fuzz_open_tokenizer(dir, LF_STR("\xe2\x96\x81the \xe2\x96\x81\xe2\x96\x81king zz\xef\xac\x81\xcc\x88"));
    return 0;
}
