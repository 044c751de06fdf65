/* Model directories whose tokenizer is wrong in one way each: refused, with a message that says which way; and good
 * files bent at random, which must at least not crash. */
#include "tests/unit/tokenizer/sp_model.h"
#include "tests/unit/tokenizer/support.h"
#include "tokenizer/detok.h"

#define MODEL(vocab, merges) "{\"model\": {\"type\": \"BPE\", \"vocab\": " vocab ", \"merges\": " merges "}}"
#define WITH(part)           "{" part ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}"

static void expect_refused(const struct model_dir *dir, enum lf_status want, const char *says)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    double start = cpu_seconds();
    enum lf_status status = lf_tokenizer_open(&tok, dir->path, &err);
    if (status != want || !strstr(err.message, says))
        fail_msg("wanted %s with \"%s\", got %s: %s", lf_status_name(want), says, lf_status_name(status),
                 status == LF_OK ? "" : err.message);
    assert_null(tok);
    assert_true(cpu_seconds() - start < 1.0 * SLOWNESS);
}

static void test_wrong_tokenizer_json(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum lf_status status;
        const char *says;
    } cases[] = {
        {"", LF_CORRUPT, "tokenizer.json"},
        {"[]", LF_CORRUPT, "an object is expected"},
        {"{\"model\": ", LF_CORRUPT, "tokenizer.json"},
        {"{}", LF_UNSUPPORTED, "model"},
        {"{\"model\": {\"type\": \"WordPiece\"}}", LF_UNSUPPORTED, "WordPiece"},
        {"{\"model\": {\"type\": \"WordLevel\"}}", LF_UNSUPPORTED, "WordLevel"},
        {"{\"model\": {\"type\": \"BPE\"}}", LF_CORRUPT, "model.vocab"},
        {MODEL("{}", "[]"), LF_CORRUPT, "model.vocab"},
        {MODEL("{\"a\": 0, \"a\": 1}", "[]"), LF_CORRUPT, "tokenizer.json"},
        {MODEL("{\"a\": 0, \"b\": 0}", "[]"), LF_CORRUPT, "token id 0 is given twice"},
        {MODEL("{\"a\": -1}", "[]"), LF_CORRUPT, "the id of \"a\""},
        {MODEL("{\"a\": 4294967296}", "[]"), LF_CORRUPT, "the id of \"a\""},
        {MODEL("{\"a\": \"0\"}", "[]"), LF_CORRUPT, "the id of \"a\""},
        {MODEL("{\"a\": 1.5}", "[]"), LF_CORRUPT, "the id of \"a\""},
        {MODEL("{\"\": 0}", "[]"), LF_CORRUPT, "empty text"},
        {MODEL("{\"a\": 0}", "{}"), LF_CORRUPT, "model.merges"},
        {MODEL("{\"a\": 0}", "[\"a b\"]"), LF_CORRUPT, "not in the vocabulary"},
        {MODEL("{\"a\": 0}", "[\"a a\"]"), LF_CORRUPT, "not in the vocabulary"},
        {MODEL("{\"a\": 0, \"aa\": 1}", "[\"aa\"]"), LF_CORRUPT, "two tokens are expected"},
        {MODEL("{\"a\": 0, \"aa\": 1}", "[\"a a a\"]"), LF_CORRUPT, "two tokens are expected"},
        {MODEL("{\"a\": 0, \"aa\": 1}", "[[\"a\"]]"), LF_CORRUPT, "two tokens are expected"},
        {MODEL("{\"a\": 0, \"aa\": 1}", "[[\"a\", 1]]"), LF_CORRUPT, "two tokens are expected"},
        {MODEL("{\"a\": 0, \"aa\": 1}", "[1]"), LF_CORRUPT, "two tokens are expected"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\"}}", LF_CORRUPT,
         "unk_token"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}}", LF_UNSUPPORTED,
         "dropout"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"end_of_word_suffix\": \"</w>\"}}",
         LF_UNSUPPORTED, "end_of_word_suffix"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"continuing_subword_prefix\": "
         "\"##\"}}",
         LF_UNSUPPORTED, "continuing_subword_prefix"},
        {WITH("\"normalizer\": {\"type\": \"Precompiled\"}"), LF_UNSUPPORTED, "Precompiled"},
        {WITH("\"normalizer\": {\"type\": \"BertNormalizer\"}"), LF_UNSUPPORTED, "BertNormalizer"},
        {WITH("\"normalizer\": {\"type\": \"Sequence\"}"), LF_CORRUPT, "a list is expected"},
        {WITH("\"normalizer\": {\"type\": \"Prepend\"}"), LF_CORRUPT, "prepend"},
        {WITH("\"normalizer\": {\"type\": \"Replace\", \"content\": \"\"}"), LF_CORRUPT, "pattern"},
        {WITH("\"normalizer\": {\"type\": \"Replace\", \"content\": \"\", \"pattern\": {\"String\": \"\"}}"),
         LF_CORRUPT, "empty"},
        {WITH("\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}"), LF_UNSUPPORTED, "BertPreTokenizer"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": 1}"), LF_CORRUPT, "a list is expected"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Other\"}"), LF_UNSUPPORTED, "Other"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"(a\"}}"),
         LF_UNSUPPORTED, "(a"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"x\"}"),
         LF_UNSUPPORTED, "prepend_scheme"},
        {WITH("\"decoder\": {\"type\": \"CTC\"}"), LF_UNSUPPORTED, "CTC"},
        {WITH("\"decoder\": {\"type\": \"Sequence\"}"), LF_CORRUPT, "a list is expected"},
        {WITH("\"decoder\": {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"), LF_UNSUPPORTED,
         "Strip"},
        {WITH("\"post_processor\": {\"type\": \"RobertaProcessing\"}"), LF_UNSUPPORTED, "RobertaProcessing"},
        {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}"), LF_CORRUPT,
         "no place for the text"},
        {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
              "\"x\"}}]}"),
         LF_CORRUPT, "does not define"},
        {WITH(
             "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\"}}],"
             " \"special_tokens\": {\"x\": {\"ids\": [77]}}}"),
         LF_CORRUPT, "an id without a token"},
        {WITH("\"added_tokens\": [{\"content\": \"x\"}]"), LF_CORRUPT, "added token \"x\""},
        {WITH("\"added_tokens\": [{\"id\": 1}]"), LF_CORRUPT, "content"},
        {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"\"}]"), LF_CORRUPT, "empty text"},
        {WITH("\"added_tokens\": [{\"id\": 0, \"content\": \"x\"}]"), LF_CORRUPT, "token id 0 is given twice"},
        {WITH("\"added_tokens\": [{\"id\": 3, \"content\": \"a\"}]"), LF_CORRUPT, "has the ids 0 and 3"},
        {WITH("\"added_tokens\": [{\"id\": 99999999, \"content\": \"x\"}]"), LF_CORRUPT, "an id from 0"},
        {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"x\", \"special\": 1}]"), LF_CORRUPT, "special"},
    };
    struct model_dir dir = model_dir_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_dir_text(&dir, "tokenizer.json", cases[i].text);
        expect_refused(&dir, cases[i].status, cases[i].says);
    }
    model_dir_free(&dir);
}

static void test_wrong_configuration(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {"tokenizer_config.json", "{", "tokenizer_config.json"},
        {"tokenizer_config.json", "3", "an object is expected"},
        {"tokenizer_config.json", "{\"legacy\": 1}", "legacy"},
        {"tokenizer_config.json", "{\"add_bos_token\": \"yes\"}", "add_bos_token"},
        {"tokenizer_config.json", "{\"bos_token\": 1}", "special token"},
        {"tokenizer_config.json", "{\"bos_token\": {}}", "content"},
        {"tokenizer_config.json", "{\"chat_template\": 1}", "chat_template"},
        {"tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\"}]}", "chat_template"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}", "added_tokens_decoder"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"9999999999\": {\"content\": \"a\"}}}", "bad id"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"999999999\": {\"content\": \"zz\"}}}", "out of range"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"7\": {\"content\": \"<s>\"}}}", "has the ids"},
        {"special_tokens_map.json", "{\"eos_token\": []}", "special_tokens_map.json"},
        {"added_tokens.json", "{\"x\": -1}", "added_tokens.json"},
        {"added_tokens.json", "{\"x\": \"1\"}", "added_tokens.json"},
        {"chat_template.json", "[]", "chat_template.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_dir dir = model_dir_make();
        model_dir_copy(&dir, "tokenizer.model", FIXTURES "sp-bpe/tokenizer.model");
        model_dir_text(&dir, cases[i].name, cases[i].text);
        expect_refused(&dir, LF_CORRUPT, cases[i].says);
        model_dir_free(&dir);
    }
}

static void expect_model_refused(struct lf_buf *model, enum lf_status want, const char *says)
{
    struct model_dir dir = model_dir_make();
    model_dir_write(&dir, "tokenizer.model", lf_buf_view(model).ptr, model->len);
    expect_refused(&dir, want, says);
    model_dir_free(&dir);
    lf_buf_deinit(model);
}

static void test_wrong_tokenizer_model(void **state)
{
    (void)state;
    static char long_text[16 << 20];
    const float infinite = (float)1e39;
    struct lf_buf m = start_model(false);
    expect_model_refused(&m, LF_CORRUPT, "no pieces");
    m = start_model(false);
    lf_buf_cstr(&m, "this is no model");
    expect_model_refused(&m, LF_CORRUPT, "tokenizer.model");
    m = start_model(false);
    put_piece(&m, LF_STR("a"), 0, 1);
    expect_model_refused(&m, LF_CORRUPT, "sentencepiece");
    m = start_model(true);
    put_piece(&m, LF_STR(""), 0, 1);
    expect_model_refused(&m, LF_CORRUPT, "empty text");
    m = start_model(true);
    put_piece(&m, LF_STR("a\0b"), 0, 1);
    expect_model_refused(&m, LF_CORRUPT, "NUL");
    m = start_model(true);
    put_piece(&m, LF_STR("\xff"), 0, 1);
    expect_model_refused(&m, LF_CORRUPT, "not valid UTF-8");
    m = start_model(true);
    memset(long_text, 'a', sizeof long_text);
    put_piece(&m, lf_str_from(long_text, sizeof long_text), 0, 1);
    expect_model_refused(&m, LF_CORRUPT, "16777216 bytes");
    m = start_model(true);
    put_piece(&m, lf_str_from(long_text, LF_TOKEN_BYTES + 1), 0, 1);
    expect_model_refused(&m, LF_CORRUPT, "bytes");
    m = start_model(true);
    put_piece(&m, LF_STR("a"), 0, 1);
    put_piece(&m, LF_STR("a"), 0, 1);
    expect_model_refused(&m, LF_CORRUPT, "sentencepiece");
    m = start_model(true);
    put_piece(&m, LF_STR("a"), infinite, 1);
    expect_model_refused(&m, LF_CORRUPT, "score of piece 1");
    m = start_model(true);
    put_piece(&m, LF_STR("a"), 0, 9);
    expect_model_refused(&m, LF_CORRUPT, "unknown type 9");
    m = start_model(true);
    put_piece(&m, LF_STR("a"), 0, 1);
    put_trainer(&m, 3);
    expect_model_refused(&m, LF_UNSUPPORTED, "model type 3");
    m = start_model(true);
    put_piece(&m, LF_STR("a"), 0, 1);
    put_piece(&m, LF_STR("ab"), 0, 5);
    put_trainer(&m, 2);
    expect_model_refused(&m, LF_UNSUPPORTED, "UNUSED");
    m = start_model(true);
    put_piece(&m, LF_STR("<0x41>"), 0, 6);
    expect_model_refused(&m, LF_CORRUPT, "sentencepiece");
    m = start_model(true);
    put_piece(&m, LF_STR("a"), 0, 1);
    put_rules(&m, (const uint32_t[]){0}, 1, LF_STR("x"), 400);
    expect_model_refused(&m, LF_CORRUPT, "normalization rules");
    m = start_model(true);
    put_piece(&m, LF_STR("a"), 0, 1);
    put_rules(&m, (const uint32_t[]){0}, 1, LF_STR("\xff"), 4);
    expect_model_refused(&m, LF_CORRUPT, "not valid UTF-8");
}

static void test_longest_allowed_piece(void **state)
{
    (void)state;
    static char long_text[LF_TOKEN_BYTES + 1];
    struct model_dir dir = model_dir_make();
    struct lf_buf m = start_model(true);
    memset(long_text, 'a', sizeof long_text - 1);
    put_piece(&m, lf_str_from(long_text, LF_TOKEN_BYTES), -1, 1);
    put_piece(&m, LF_STR("a"), -2, 1);
    model_dir_write(&dir, "tokenizer.model", m.ptr, m.len);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    lf_tokenizer_close(tok);
    lf_buf_deinit(&m);
    model_dir_free(&dir);
}

/* A model of n pieces, each the beginning of the next. */
static void test_so_many_pieces_begin_with_one_another(void **state)
{
    (void)state;
    char text[LF_UNIGRAM_NESTED_N + 1];
    memset(text, 'a', sizeof text);
    for (int more = 0; more < 2; more++) {
        struct lf_buf m = start_model(true);
        for (size_t n = 1; n <= (size_t)(LF_UNIGRAM_NESTED_N + more); n++)
            put_piece(&m, lf_str_from(text, n), -(float)n, 1);
        put_trainer(&m, 1);
        if (more) {
            expect_model_refused(&m, LF_UNSUPPORTED, "513 pieces begin with one another, at most 512 are allowed");
            continue;
        }
        struct model_dir dir = model_dir_make();
        model_dir_write(&dir, "tokenizer.model", m.ptr, m.len);
        lf_tokenizer_close(open_or_fail(dir.path));
        model_dir_free(&dir);
        lf_buf_deinit(&m);
    }
}

/* A trie that leads from an a back to itself: rules for any number of them, of which so many are followed. */
static void test_rules_of_so_many_bytes(void **state)
{
    (void)state;
    uint32_t units['a' + 1] = {['a'] = 'a' << 10 | 1 << 8 | 'a'};
    char text[LF_CHARSMAP_KEY_BYTES + 1];
    struct model_dir dir = model_dir_make();
    struct lf_buf m = start_model(true);
    put_piece(&m, LF_STR("x"), -1, 1);
    put_rules(&m, units, 'a' + 1, LF_STR("x\0"), sizeof units);
    model_dir_write(&dir, "tokenizer.model", m.ptr, m.len);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    struct lf_ids ids = {0}, one = {0};
    struct lf_err err = {0};
    memset(text, 'a', sizeof text);
    assert_int_equal(lf_tokenizer_encode(tok, &one, LF_STR("x"), NULL, 0, 0, 0, NULL, NULL), LF_OK);
    assert_int_equal(
        lf_tokenizer_encode(tok, &ids, lf_str_from(text, LF_CHARSMAP_KEY_BYTES), NULL, 0, 0, 0, NULL, &err), LF_OK);
    assert_ids(&ids, one.ids, one.n); /* one rule took them all */
    ids.n = 0;
    assert_int_equal(
        lf_tokenizer_encode(tok, &ids, lf_str_from(text, LF_CHARSMAP_KEY_BYTES + 1), NULL, 0, 0, 0, NULL, &err),
        LF_CORRUPT);
    assert_non_null(strstr(err.message, "more than 256 bytes"));
    lf_ids_deinit(&ids);
    lf_ids_deinit(&one);
    lf_tokenizer_close(tok);
    lf_buf_deinit(&m);
    model_dir_free(&dir);
}

/* Tries whose steps lead out of the table, or whose values lead out of the texts, mean nothing and harm nothing. */
static void test_rules_that_lead_astray(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct model_dir dir = model_dir_make();
    for (int round = 0; round < 300; round++) {
        uint32_t units[64];
        for (int i = 0; i < 64; i++) {
            uint32_t r = next_random(&seed);
            /* small offsets and the labels of letters, so that walks go on for some steps */
            units[i] = r % 4 == 0 ? r * 2654435761u : (r % 64) << 10 | (r >> 8 & 1) << 8 | (r >> 9) % 128;
        }
        struct lf_buf m = start_model(true);
        put_piece(&m, LF_STR("a"), -1, 1);
        put_rules(&m, units, 64, LF_STR("x\0yy\0"), sizeof units);
        model_dir_write(&dir, "tokenizer.model", m.ptr, m.len);
        struct lf_tokenizer *tok = open_or_fail(dir.path);
        struct lf_ids ids = {0};
        char text[64];
        for (int i = 0; i < 63; i++) text[i] = (char)(next_random(&seed) % 127 + 1);
        assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_from(text, 63), NULL, 0, 0, 0, NULL, NULL), LF_OK);
        lf_ids_deinit(&ids);
        lf_tokenizer_close(tok);
        lf_buf_deinit(&m);
    }
    model_dir_free(&dir);
}

static void expect_growth_refused(struct model_dir *dir)
{
    static char text[100000];
    memset(text, 'a', sizeof text);
    struct lf_tokenizer *tok = open_or_fail(dir->path);
    struct lf_ids ids = {0};
    struct lf_err err = {0};
    double start = cpu_seconds();
    enum lf_status status = lf_tokenizer_encode(tok, &ids, lf_str_from(text, sizeof text), NULL, 0, 0, 0, NULL, &err);
    if (status != LF_CORRUPT || !strstr(err.message, "00000 bytes of text become more than 16 times"))
        fail_msg("%s: %s", lf_status_name(status), err.message);
    assert_true(cpu_seconds() - start < 1.0 * SLOWNESS);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
    model_dir_free(dir);
}

/* Writes a tokenizer of one letter whose `part`, "normalizer" or "decoder", makes a thousand letters of each, eight
 * times over. */
static void put_growing_rules(const struct model_dir *dir, const char *part)
{
    struct lf_buf json;
    lf_buf_init(&json, 1 << 20);
    lf_buf_printf(&json, "{\"%s\": {\"type\": \"Sequence\", \"%ss\": [", part, part);
    for (int i = 0; i < 8; i++) {
        lf_buf_printf(&json, "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"",
                      i ? "," : "");
        for (int k = 0; k < 1000; k++) lf_buf_char(&json, 'a');
        lf_buf_cstr(&json, "\"}");
    }
    lf_buf_cstr(&json, "]}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}");
    model_dir_write(dir, "tokenizer.json", json.ptr, json.len);
    lf_buf_deinit(&json);
}

/* Rules that make a thousand letters of one, and a thousand of each of these, would take all memory there is. */
static void test_rules_that_grow_the_text(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    put_growing_rules(&dir, "normalizer");
    expect_growth_refused(&dir);

    dir = model_dir_make();
    struct lf_buf json;
    lf_buf_init(&json, 1 << 20);
    lf_buf_cstr(&json, "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [");
    for (int i = 0; i < 15; i++) /* a letter that is not ASCII becomes two of them, a space the first */
        lf_buf_printf(&json, "%s{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"use_regex\": false}",
                      i ? "," : "");
    lf_buf_cstr(&json, "]}, \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": "
                       "\"\\u00e9\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}");
    model_dir_write(&dir, "tokenizer.json", json.ptr, json.len);
    lf_buf_deinit(&json);
    expect_growth_refused(&dir);

    char rule[1000];
    uint32_t units['a' + 1] = {0};
    units['a'] = 'a' | 1u << 8 | 1u << 10; /* a leaf, one place from it: what "a" becomes is the text at 0 */
    memset(rule, 'a', sizeof rule);
    rule[sizeof rule - 1] = '\0';
    struct lf_buf m = start_model(true);
    put_piece(&m, LF_STR("a"), -1, 1);
    put_rules(&m, units, 'a' + 1, lf_str_from(rule, sizeof rule), sizeof units);
    dir = model_dir_make();
    model_dir_write(&dir, "tokenizer.model", m.ptr, m.len);
    lf_buf_deinit(&m);
    expect_growth_refused(&dir);
}

/* The same on the way back: a token's text is bounded by what the caller has room for, and says that it is not whole.
 */
static void test_replacements_that_grow_a_token(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    struct lf_buf out;
    lf_buf_init(&out, 1 << 20);
    put_growing_rules(&dir, "decoder");
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    struct lf_detok detok;
    double start = cpu_seconds();
    lf_detok_init(&detok, tok, false, false);
    lf_detok_push(&detok, 0, &out);
    assert_int_not_equal(out.status, LF_OK);
    assert_true(cpu_seconds() - start < 1.0 * SLOWNESS);
    lf_tokenizer_close(tok);
    lf_buf_deinit(&out);
    model_dir_free(&dir);
}

/* What a bent file still opens as must encode and decode without a crash. */
static void use(const struct lf_tokenizer *tok)
{
    struct lf_ids ids = {0};
    struct lf_buf text;
    lf_buf_init(&text, 1 << 20);
    struct lf_str sample = LF_STR("The king said: <s> caf\xc3\xa9 \xe4\xb8\xad 1234  \n\xf0\x9f\xa6\x99 <|im_start|>");
    enum lf_status status =
        lf_tokenizer_encode(tok, &ids, sample, NULL, 0, LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS, 0, NULL, NULL);
    if (status == LF_OK) {
        status = lf_tokenizer_decode(tok, &text, ids.ids, ids.n, true, NULL, NULL);
        assert_int_equal(status, LF_OK);
        assert_true(lf_utf8_valid(lf_buf_view(&text)));
    }
    lf_buf_deinit(&text);
    lf_ids_deinit(&ids);
}

static void bend(const char *source, const char *name, int rounds)
{
    struct model_dir dir = model_dir_make();
    struct lf_buf file, bent;
    uint64_t seed = 17;
    lf_buf_init(&file, 1 << 20);
    lf_buf_init(&bent, 1 << 20);
    assert_int_equal(lf_file_read(&file, source, 1 << 20, NULL), LF_OK);
    for (int round = 0; round < rounds; round++) {
        lf_buf_clear(&bent);
        lf_buf_str(&bent, lf_buf_view(&file));
        if (round % 4 == 0) bent.len = next_random(&seed) % (bent.len + 1);
        for (uint32_t i = 0; i < 1 + next_random(&seed) % 4 && bent.len > 0; i++)
            bent.ptr[next_random(&seed) % bent.len] = (char)next_random(&seed);
        model_dir_write(&dir, name, bent.ptr, bent.len);
        struct lf_tokenizer *tok = NULL;
        struct lf_err err = {0};
        enum lf_status status = lf_tokenizer_open(&tok, dir.path, &err);
        if (status == LF_OK) use(tok);
        if (status != LF_OK) assert_true(strlen(err.message) > 10);
        lf_tokenizer_close(tok);
    }
    lf_buf_deinit(&bent);
    lf_buf_deinit(&file);
    model_dir_free(&dir);
}

/* A rule for "a" whose text begins inside of a code point, and one for the first byte of "\xc3\xa9": neither applies,
 * or the encoders would be given text that is not valid UTF-8. */
static void test_rules_over_parts_of_code_points_do_not_apply(void **state)
{
    (void)state;
    uint32_t units[164] = {0x60u << 10};
    units[0x60 ^ 'a'] = 'a' | 1u << 8 | 3u << 10; /* its leaf is unit 2 */
    units[2] = 1u << 31 | 1;                      /* the second byte of the texts */
    units[0x60 ^ 0xc3] = 0xc3 | 1u << 8 | 160u << 10;
    units[3] = 1u << 31 | 3; /* the empty text */
    struct model_dir dir = model_dir_make();
    struct lf_ids ids[2] = {{0}, {0}};
    for (int with_rules = 0; with_rules < 2; with_rules++) {
        struct lf_buf m = start_model(true);
        put_piece(&m, LF_STR("a"), -1, 1);
        put_piece(&m, LF_STR("\xc3\xa9"), -1, 1);
        if (with_rules) put_rules(&m, units, 164, LF_STR("\xc3\xa9\0"), sizeof units);
        model_dir_write(&dir, "tokenizer.model", m.ptr, m.len);
        struct lf_tokenizer *tok = open_or_fail(dir.path);
        struct lf_str text = LF_STR("a\xc3\xa9za\xc3\xa9");
        assert_int_equal(lf_tokenizer_encode(tok, &ids[with_rules], text, NULL, 0, 0, 0, NULL, NULL), LF_OK);
        lf_tokenizer_close(tok);
        lf_buf_deinit(&m);
    }
    assert_true(ids[0].n >= 5);
    assert_ids(&ids[1], ids[0].ids, ids[0].n);
    lf_ids_deinit(&ids[0]);
    lf_ids_deinit(&ids[1]);
    model_dir_free(&dir);
}

static void test_bent_files(void **state)
{
    (void)state;
    bend(FIXTURES "sp-bpe/tokenizer.model", "tokenizer.model", 600);
    bend(FIXTURES "sp-unigram/tokenizer.model", "tokenizer.model", 600);
    bend(FIXTURES "like-words/tokenizer.json", "tokenizer.json", 600);
    bend(FIXTURES "like-llama2/tokenizer.json", "tokenizer.json", 300);
}

static void test_a_directory_without_a_tokenizer(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    expect_refused(&dir, LF_NOT_FOUND, "neither tokenizer.json nor tokenizer.model");
    model_dir_free(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_tokenizer_json),
        cmocka_unit_test(test_wrong_configuration),
        cmocka_unit_test(test_wrong_tokenizer_model),
        cmocka_unit_test(test_longest_allowed_piece),
        cmocka_unit_test(test_so_many_pieces_begin_with_one_another),
        cmocka_unit_test(test_rules_of_so_many_bytes),
        cmocka_unit_test(test_rules_that_lead_astray),
        cmocka_unit_test(test_rules_that_grow_the_text),
        cmocka_unit_test(test_replacements_that_grow_a_token),
        cmocka_unit_test(test_rules_over_parts_of_code_points_do_not_apply),
        cmocka_unit_test(test_bent_files),
        cmocka_unit_test(test_a_directory_without_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
