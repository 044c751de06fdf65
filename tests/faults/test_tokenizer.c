/* The allocation sweep over tokenizers: opening each kind, encoding, decoding, and the door to the C++ library, where
 * std::bad_alloc must become a status.
 *
 * What goes through that library is swept by single refusals: it lives on the shim's reserve after the first, and does
 * not survive when that is refused as well. */
#include "core/file.h"
#include "tests/faults/sweep.h"
#include "tests/support/temp_dir.h"
#include "tokenizer/aho_corasick.h"
#include "tokenizer/hf/regex.h"
#include "tokenizer/spm/sp_shim.h"
#include "tokenizer/tokenizer.h"

#define FIXTURES "tests/golden/tokenizer/"

static const char text[] = "Hi  the <s> king's\n\t\xc3\xa9\xcc\x81 1234 \xe4\xb8\xad\xf0\x9f\xa6\x99 </s>.";

static enum lf_status open_tokenizer(const void *ctx)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    enum lf_status status = lf_tokenizer_open(&tok, ctx, &err);
    if (status != LF_OK && (tok != NULL || err.message[0] == 0)) return LF_CORRUPT; /* which the sweep refuses */
    lf_tokenizer_close(tok);
    return status;
}

static enum lf_status encode_and_decode(const void *ctx)
{
    struct lf_ids ids = {0};
    struct lf_buf out;
    struct lf_text_span span = {3, 9};
    lf_buf_init(&out, 1 << 20);
    enum lf_status status =
        lf_tokenizer_encode(ctx, &ids, lf_str_c(text), &span, 1, LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS, 0, NULL, NULL);
    if (status == LF_OK) status = lf_tokenizer_decode(ctx, &out, ids.ids, ids.n, true, NULL, NULL);
    lf_buf_deinit(&out);
    lf_ids_deinit(&ids);
    return status;
}

static void every_kind_opens_and_encodes(void **state)
{
    (void)state;
    static const char *const kinds[] = {"like-deepseek", "like-falcon", "like-gpt2",   "like-llama2",
                                        "like-llama3",   "like-qwen",   "like-tekken", "like-metaspace",
                                        "like-words",    "sp-bpe",      "sp-suffix",   "sp-unigram"};
    for (size_t i = 0; i < LF_N_ELEMS(kinds); i++) {
        char path[128], name[128];
        struct lf_tokenizer *tok = NULL;
        snprintf(path, sizeof path, FIXTURES "%s", kinds[i]);
        snprintf(name, sizeof name, "open %s", kinds[i]);
        sweep_ways(name, open_tokenizer, path, 20, strncmp(kinds[i], "sp-", 3) == 0 ? 1 : 2);
        assert_int_equal(lf_tokenizer_open(&tok, path, NULL), LF_OK);
        snprintf(name, sizeof name, "encode and decode with %s", kinds[i]);
        sweep(name, encode_and_decode, tok, 3);
        lf_tokenizer_close(tok);
    }
}

/* The strings and lists of a tokenizer lie in blocks, of 4 KiB for what is kept, of 16 KiB for the configuration. A
 * text before them moves them through the end of one: most of a block of n bytes, and 16 bytes more for each i. */
struct padded {
    struct temp_dir dir;
    char path[64];
    struct lf_buf text;
};

enum { PAD_VARIANTS = 48 };

static void pad(struct padded *p, const char *head, int block, int i, const char *tail)
{
    lf_buf_clear(&p->text);
    lf_buf_cstr(&p->text, head);
    for (int k = block - 16 * (PAD_VARIANTS - i); k > 0; k--) lf_buf_char(&p->text, 'x');
    lf_buf_cstr(&p->text, tail);
}

static enum lf_status open_padded(const void *ctx)
{
    return open_tokenizer(((const struct padded *)ctx)->path);
}

static void pad_kept(void *ctx, int i)
{
    struct padded *p = ctx;
    pad(p,
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{\"type\":\"Sequence\","
        "\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"z\"},\"content\":\"",
        4096, i,
        "\"},{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"q+\"},"
        "\"content\":\"q\"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"y\"},"
        "\"content\":\" \"},{\"type\":\"Metaspace\",\"replacement\":\"_\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1}]},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"_\":1},\"merges\":[]},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}},"
        "{\"Sequence\":{}},{\"SpecialToken\":{\"id\":\"s\"}}],\"special_tokens\":{\"s\":{\"ids\":[4]}}}}");
    temp_dir_write(&p->dir, "tokenizer.json", p->text.ptr, p->text.len);
}

static void pad_configuration(void *ctx, int i)
{
    struct padded *p = ctx;
    pad(p, "", 16 * 1024, i, "");
    temp_dir_write(&p->dir, "chat_template.jinja", p->text.ptr, p->text.len);
}

static void any_part_of_a_tokenizer_is_the_last_there_is_memory_for(void **state)
{
    (void)state;
    struct padded p = {.dir = temp_dir_make()};
    lf_buf_init(&p.text, 1 << 20);
    temp_dir_write_text(&p.dir, "tokenizer_config.json",
                        "{\"added_tokens_decoder\":{\"7\":{\"content\":\"[7]\"}},\"bos_token\":\"<s>\","
                        "\"eos_token\":{\"content\":\"<s>\"},\"tokenizer_class\":\"T\"}");
    temp_dir_write_text(&p.dir, "special_tokens_map.json", "{\"additional_special_tokens\":[\"[7]\"]}");
    snprintf(p.path, sizeof p.path, "%s", p.dir.path);
    sweep_variants("tokenizer.json: every text", open_padded, pad_kept, &p, PAD_VARIANTS);
    sweep_variants("configuration: every text", open_padded, pad_configuration, &p, PAD_VARIANTS);
    temp_dir_write_text(&p.dir, "tokenizer_config.json", "{}");
    temp_dir_write_text(&p.dir, "added_tokens.json", "{\"[8]\":8,\"[9]\":9}");
    sweep_variants("added_tokens.json: every text", open_padded, pad_configuration, &p, PAD_VARIANTS);
    lf_buf_deinit(&p.text);
    temp_dir_remove(&p.dir);
}

static enum lf_status open_library(const void *ctx)
{
    const struct lf_buf *file = ctx;
    static const enum lf_status statuses[] = {
        [LF_SP_OK] = LF_OK, [LF_SP_REFUSED] = LF_INVALID, [LF_SP_NO_MEMORY] = LF_NO_MEMORY};
    struct lf_sp *sp = NULL;
    struct lf_sp_piece piece;
    char message[64] = "";
    enum lf_sp_status status = lf_sp_open(&sp, file->ptr, file->len, message, sizeof message);
    if (status == LF_SP_OK) status = lf_sp_get(sp, 3, &piece);
    lf_sp_close(sp);
    return statuses[status];
}

static void exceptions_end_at_the_door(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sp-bpe", "sp-unigram"};
    for (size_t i = 0; i < LF_N_ELEMS(kinds); i++) {
        char path[128], name[128];
        struct lf_buf file;
        lf_buf_init(&file, 1 << 20);
        snprintf(path, sizeof path, FIXTURES "%s/tokenizer.model", kinds[i]);
        snprintf(name, sizeof name, "the library with %s", kinds[i]);
        assert_int_equal(lf_file_read(&file, path, 1 << 20, NULL), LF_OK);
        sweep_ways(name, open_library, &file, 20, 1);
        lf_buf_deinit(&file);
    }
}

static enum lf_status match(const void *ctx)
{
    struct lf_regex *regex = NULL;
    struct lf_regex_work work = {0};
    struct lf_regex_walk walk = lf_regex_walk_init(lf_str_c(text));
    struct lf_err err = {0};
    bool found = true;
    enum lf_status status = lf_regex_compile(&regex, lf_str_c(ctx), &err);
    while (status == LF_OK && found) status = lf_regex_next(regex, &work, &walk, &found);
    lf_regex_work_deinit(&work);
    lf_regex_free(regex);
    return status;
}

static void patterns(void **state)
{
    (void)state;
    sweep("a pattern", match, "'(?:[sdmt]|ll)| ?\\p{L}+| ?\\p{N}+|\\s+(?!\\S)|\\s+", 2);
    sweep("a pattern with classes", match, "[\\u4e00-\\u9fff\\-]+|(?i:'S)|[^\\r\\n\\p{L}]?\\p{L}{1,3}", 2);
}

static enum lf_status build_set(const void *ctx)
{
    struct lf_aho aho;
    struct lf_err err = {0};
    uint32_t nested = 0;
    enum lf_status status = lf_aho_build(&aho, ctx, 3, &err);
    if (status == LF_OK) status = lf_aho_nested(&aho, &nested, &err);
    if (status == LF_OK && nested != 2) status = LF_CORRUPT; /* which the sweep refuses */
    lf_aho_deinit(&aho);
    return status;
}

static void sets_of_texts(void **state)
{
    (void)state;
    const struct lf_trie_entry entries[] = {{LF_STR("a"), 0}, {LF_STR("ab"), 1}, {LF_STR("b"), 2}};
    sweep("a set of texts", build_set, entries, 6);
}

static void vocabulary_and_merges(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    temp_dir_write_text(&d, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"<s>\":4}");
    temp_dir_write_text(&d, "merges.txt", "#version: 0.2\na b\n");
    temp_dir_write_text(&d, "tokenizer_config.json", "{\"tokenizer_class\":\"Qwen2Tokenizer\",\"eos_token\":\"<s>\"}");
    sweep("open vocab.json and merges.txt", open_tokenizer, d.path, 20);
    temp_dir_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test(sets_of_texts),
        cmocka_unit_test(vocabulary_and_merges),
        cmocka_unit_test(exceptions_end_at_the_door),
        cmocka_unit_test(every_kind_opens_and_encodes),
        cmocka_unit_test(any_part_of_a_tokenizer_is_the_last_there_is_memory_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
