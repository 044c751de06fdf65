/* The parts are written as transformers converts the classes (convert_slow_tokenizer.py: GPT2Converter,
 * Qwen2Converter); added tokens come from tokenizer_config.json as always. */
#include "tokenizer/vocab_merges.h"

#include "core/check.h"
#include "core/file.h"

/* Of Qwen2: contractions, words, single digits, punctuation, line ends, spaces. */
#define QWEN2_PATTERN                                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"  \
    "\\s+(?!\\S)|\\s+"

static const struct {
    const char *class_name;
    bool composed;       /* NFC first */
    const char *pattern; /* splits before the bytes; NULL: as GPT-2 does */
} classes[] = {
    {"GPT2Tokenizer", false, NULL},
    {"GPT2TokenizerFast", false, NULL},
    {"Qwen2Tokenizer", true, QWEN2_PATTERN},
    {"Qwen2TokenizerFast", true, QWEN2_PATTERN},
};

static void write_splitting(struct lf_buf *out, size_t class_idx, bool prefix_space)
{
    const char *pattern = classes[class_idx].pattern;
    if (classes[class_idx].composed) lf_buf_cstr(out, "\"normalizer\":{\"type\":\"NFC\"},");
    lf_buf_cstr(out, "\"pre_tokenizer\":");
    if (pattern) {
        lf_buf_cstr(out, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        lf_json_write_string(out, lf_str_c(pattern));
        lf_buf_cstr(out, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    lf_buf_printf(out, "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":%s}%s,",
                  prefix_space ? "true" : "false", pattern ? "false" : "true", pattern ? "]}" : "");
    lf_buf_cstr(out, "\"decoder\":{\"type\":\"ByteLevel\"},");
}

/* A line each, "left right", after a line that names the version. */
static void write_merges(struct lf_buf *out, struct lf_str text)
{
    const char *comma = "";
    bool first = true;
    lf_buf_cstr(out, ",\"merges\":[");
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len, skip = end ? len + 1 : len;
        struct lf_str line = lf_str_from(text.ptr, len > 0 && text.ptr[len - 1] == '\r' ? len - 1 : len);
        bool counts = line.len > 0 && !(first && lf_str_starts(line, LF_STR("#version")));
        if (counts) {
            lf_buf_cstr(out, comma);
            lf_json_write_string(out, line);
            comma = ",";
        }
        first = false;
        text = lf_str_from(text.ptr + skip, text.len - skip);
    }
    lf_buf_char(out, ']');
}

static enum lf_status find_class(size_t *out, struct lf_str name, struct lf_err *err)
{
    for (size_t i = 0; i < LF_N_ELEMS(classes); i++) {
        if (!lf_str_eq(name, lf_str_c(classes[i].class_name))) continue;
        *out = i;
        return LF_OK;
    }
    if (name.len == 0) /* as if there were no tokenizer */
        return lf_fail(err, LF_NOT_FOUND,
                       "no tokenizer_class says how vocab.json and merges.txt are to be read; expected tokenizer.json");
    return lf_fail(err, LF_UNSUPPORTED,
                   "vocab.json and merges.txt of tokenizer_class \"%.*s\" are not read (of GPT2Tokenizer and "
                   "Qwen2Tokenizer they are); expected tokenizer.json",
                   (int)LF_MIN(name.len, 60u), name.len ? name.ptr : "");
}

/* On its own, so that it is one value, and errors name its own bytes. */
static enum lf_status check_vocab(struct lf_str text, struct lf_err *err)
{
    struct lf_json json = {0};
    enum lf_status status = lf_json_parse(&json, text, &lf_json_limits_file, err);
    if (status == LF_INVALID) status = LF_CORRUPT;
    if (status == LF_OK && lf_json_type(lf_json_root(&json)) != LF_JSON_OBJECT)
        status = lf_fail(err, LF_CORRUPT, "an object is expected");
    lf_json_deinit(&json);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "vocab.json");
}

enum lf_status lf_vocab_merges_read(struct lf_buf *out, const char *dir, const struct lf_tokenizer_config *config,
                                    struct lf_err *err)
{
    struct lf_buf vocab, merges;
    size_t class_idx = 0;
    enum lf_status status;
    lf_buf_init(&vocab, LF_JSON_FILE_BYTES);
    lf_buf_init(&merges, LF_JSON_FILE_BYTES);
    LF_TRY_GOTO(lf_file_read_in(&vocab, dir, "vocab.json", LF_JSON_FILE_BYTES, err), done);
    LF_TRY_GOTO(lf_file_read_in(&merges, dir, "merges.txt", LF_JSON_FILE_BYTES, err), done);
    LF_TRY_GOTO(find_class(&class_idx, config->class_name, err), done);
    LF_TRY_GOTO(check_vocab(lf_str_without_bom(lf_buf_view(&vocab)), err), done);
    lf_buf_char(out, '{');
    write_splitting(out, class_idx, config->add_prefix_space == LF_ANSWER_YES);
    lf_buf_cstr(out, "\"model\":{\"type\":\"BPE\",\"vocab\":");
    lf_buf_str(out, lf_str_without_bom(lf_buf_view(&vocab)));
    write_merges(out, lf_str_without_bom(lf_buf_view(&merges)));
    lf_buf_cstr(out, "}}");
    status = out->status == LF_OK ? LF_OK : lf_fail(err, out->status, "vocab.json and merges.txt are too large");
done:
    lf_buf_deinit(&vocab);
    lf_buf_deinit(&merges);
    return status;
}
