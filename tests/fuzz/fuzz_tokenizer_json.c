/* Fuzzing tokenizer.json and what stands beside it: tokenizer.json, tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json, and a text to encode, NULs between them. */
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                        "added_tokens.json"};
    const char *dir = fuzz_dir(names, LF_N_ELEMS(names));
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        struct lf_str part = fuzz_part(&data, &size);
        if (i > 0 && part.len == 0) part = LF_STR("{}");
        fuzz_dir_write(dir, names[i], part);
    }
    fuzz_open_tokenizer(dir, lf_str_from((const char *)data, size));
    return 0;
}
