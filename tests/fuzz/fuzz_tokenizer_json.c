/* Fuzzing tokenizer.json and what stands beside it: tokenizer.json, tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json, and a text to encode, NULs between them. */
#include "tests/fuzz/use_tokenizer.h"

static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                    "added_tokens.json"};
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
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        struct lf_str part = fuzz_part(&data, &size);
        if (i > 0 && part.len == 0) part = LF_STR("{}");
        fuzz_dir_put(dir, names[i], part);
    }
    if (lf_tokenizer_open(&tok, dir, &err) == LF_OK) {
        fuzz_use_tokenizer(tok, lf_str_from((const char *)data, size));
        lf_tokenizer_close(tok);
    } else {
        LF_ASSERT(err.message[0] != 0 && tok == NULL);
    }
    return 0;
}
