/* Files of a tokenizer: what each setting does to a text, bounds at and past the mark, and long values in messages. */
#include "tests/unit/tokenizer/support.h"
#include "tokenizer/vocab.h"

#define VOCAB "{\"a\":0,\"b\":1,\"ab\":2,\" \":3,\"<s>\":4,\"</s>\":5,\"<x>\":6}"
#define PARTS(parts)                                                                                                   \
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true},{\"id\":5,\"content\":\"</"                    \
    "s>\",\"special\":true},"                                                                                          \
    "{\"id\":6,\"content\":\"<x>\",\"special\":true}]," parts "\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB           \
    ",\"merges\":[\"a b\"]}}"

static void expect_refused(const struct model_dir *dir, enum lf_status want, const char *says)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    enum lf_status status = lf_tokenizer_open(&tok, dir->path, &err);
    if (status != want || !strstr(err.message, says))
        fail_msg("wanted %s with \"%s\", got %s: %s", lf_status_name(want), says, lf_status_name(status), err.message);
    assert_null(tok);
}

/* The file with so much text in place of "@". */
static void write_with(const struct model_dir *dir, const char *name, const char *text, const char *what, size_t n)
{
    struct lf_buf file;
    lf_buf_init(&file, 64 << 20);
    const char *at = strchr(text, '@');
    assert_non_null(at);
    lf_buf_append(&file, text, (size_t)(at - text));
    for (size_t i = 0; i < n; i++) lf_buf_cstr(&file, what);
    lf_buf_cstr(&file, at + 1);
    assert_int_equal(file.status, LF_OK);
    model_dir_write(dir, name, file.ptr, file.len);
    lf_buf_deinit(&file);
}

static void long_values_are_shown_up_to_a_bound(void **state)
{
    (void)state;
#define BPE(parts) "{\"model\":{\"type\":\"BPE\"," parts "}}"
    static const struct {
        const char *text;
        enum lf_status status;
        const char *head, *tail; /* of the message, around 64 bytes */
    } cases[] = {
        {"{\"model\":{\"type\":\"@\"}}", LF_UNSUPPORTED, "model \"", "\" is not implemented (BPE is)"},
        {BPE("\"end_of_word_suffix\":\"@\""), LF_UNSUPPORTED, "end_of_word_suffix \"", "\" is not"},
        {BPE("\"vocab\":{\"@\":-1}"), LF_CORRUPT, "the id of \"", "\" shall be a number"},
        {BPE("\"vocab\":{\"a\":0},\"merges\":[\"@\"]"), LF_CORRUPT, "not ", ""},
        {BPE("\"vocab\":{\"a\":0},\"merges\":[\"a @\"]"), LF_CORRUPT, "merge 0 (a ", ""},
        {PARTS("\"normalizer\":{\"type\":\"@\"},"), LF_UNSUPPORTED, "normalizer \"", "\" is not"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"@\"},"), LF_UNSUPPORTED, "pre-tokenizer \"", "\" is not"},
        {PARTS("\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"@\"},"), LF_UNSUPPORTED, "split behavior \"",
         "\" is not"},
        {PARTS("\"decoder\":{\"type\":\"@\"},"), LF_UNSUPPORTED, "decoder \"", "\" is not"},
        {PARTS("\"post_processor\":{\"type\":\"@\"},"), LF_UNSUPPORTED, "post_processor \"", "\" is not"},
        {"{\"added_tokens\":[{\"content\":\"@\",\"id\":-1}]}", LF_CORRUPT, "added token \"", "\": an id from 0"},
    };
    struct model_dir dir = model_dir_make();
    char says[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool after_a = strstr(cases[i].head, "(a ") != NULL; /* which are two of the 64 */
        write_with(&dir, "tokenizer.json", cases[i].text, "#", 200);
        snprintf(says, sizeof says, "%s%.*s", cases[i].head, after_a ? 62 : 64,
                 "################################################################");
        expect_refused(&dir, cases[i].status, says);
        struct lf_err err = {0};
        struct lf_tokenizer *tok = NULL;
        assert_int_equal(lf_tokenizer_open(&tok, dir.path, &err), cases[i].status);
        const char *behind = strstr(err.message, says) + strlen(says);
        if (behind[0] == '#' || strncmp(behind, cases[i].tail, strlen(cases[i].tail)) != 0) fail_msg("%s", err.message);
    }
    model_dir_free(&dir);
}

/* n steps of one kind, behind a first one, in a sequence. */
static void expect_steps(const char *part, const char *list, const char *first, const char *step, size_t n,
                         enum lf_status want, const char *says)
{
    struct model_dir dir = model_dir_make();
    char text[1000];
    snprintf(text, sizeof text, PARTS("\"%s\":{\"type\":\"Sequence\",\"%s\":[%s@]},"), part, list, first);
    write_with(&dir, "tokenizer.json", text, step, n);
    if (want == LF_OK) {
        lf_tokenizer_close(open_or_fail(dir.path));
    } else {
        expect_refused(&dir, want, says);
    }
    model_dir_free(&dir);
}

static void so_many_steps(void **state)
{
    (void)state;
    expect_steps("normalizer", "normalizers", "{\"type\":\"NFC\"}", ",{\"type\":\"NFC\"}", 15, LF_OK, "");
    expect_steps("normalizer", "normalizers", "{\"type\":\"NFC\"}", ",{\"type\":\"NFC\"}", 16, LF_LIMIT,
                 "more than 16 normalizers");
    static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\"}";
    char more[100];
    snprintf(more, sizeof more, ",%s", replace);
    expect_steps("decoder", "decoders", replace, more, 7, LF_OK, "");
    expect_steps("decoder", "decoders", replace, more, 8, LF_LIMIT, "more than 8 replacements");
    static const char metaspace[] = "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}";
    expect_steps("decoder", "decoders", metaspace, more, 6, LF_OK, ""); /* it is two */
    expect_steps("decoder", "decoders", metaspace, more, 7, LF_LIMIT, "more than 8 replacements");
    snprintf(more, sizeof more, ",%s", metaspace);
    expect_steps("decoder", "decoders", replace, more, 4, LF_LIMIT, "more than 8 replacements");
    expect_steps("decoder", "decoders", "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}",
                 more, 4, LF_LIMIT, "more than 8 replacements");
}

/* Each kind of pre-tokenizer takes so many places of 32. */
static void so_many_pre_tokenizers(void **state)
{
    (void)state;
    static const struct {
        const char *step;
        size_t places;
    } kinds[] = {
        {"{\"type\":\"Digits\"}", 1},
        {"{\"type\":\"Digits\",\"individual_digits\":true}", 1},
        {"{\"type\":\"Whitespace\"}", 1},
        {"{\"type\":\"WhitespaceSplit\"}", 1},
        {"{\"type\":\"Punctuation\"}", 1},
        {"{\"type\":\"Split\",\"behavior\":\"removed\",\"pattern\":{\"String\":\"a\"}}", 1},
        {"{\"type\":\"ByteLevel\"}", 3},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", 2},
        {"{\"type\":\"ByteLevel\",\"use_regex\":false}", 2},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}", 1},
        {"{\"type\":\"Metaspace\",\"replacement\":\"_\"}", 3},
        {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}", 2},
        {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"split\":false}", 2},
        {"{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false,\"split\":false}", 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t n = 32 - kinds[i].places; n <= 32; n++) {
            bool fits = n + kinds[i].places <= 32;
            struct model_dir dir = model_dir_make();
            struct lf_buf steps;
            lf_buf_init(&steps, 1 << 16);
            for (size_t k = 0; k < n; k++) lf_buf_cstr(&steps, "{\"type\":\"Digits\"},");
            lf_buf_cstr(&steps, kinds[i].step);
            write_with(&dir, "tokenizer.json",
                       PARTS("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[@]},"), steps.ptr, 1);
            if (fits) {
                lf_tokenizer_close(open_or_fail(dir.path));
            } else {
                expect_refused(&dir, LF_LIMIT, "more than 32 pre-tokenizers");
            }
            lf_buf_deinit(&steps);
            model_dir_free(&dir);
        }
    }
}

static void one_letter_stands_for_a_space(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "__", "\xc3\xa9_"};
    struct model_dir dir = model_dir_make();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_with(&dir, "tokenizer.json", PARTS("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"@\"},"),
                   bad[i], 1);
        expect_refused(&dir, LF_CORRUPT, "pre-tokenizer Metaspace: replacement: one letter is expected, not ");
        write_with(&dir, "tokenizer.json", PARTS("\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"@\"},"), bad[i],
                   1);
        expect_refused(&dir, LF_CORRUPT, "decoder Metaspace: replacement: one letter is expected, not ");
    }
    model_dir_free(&dir);
}

/* The pieces that a way to split makes of "aba", as ids: "ab" is a token, and a merge, where nothing splits it. */
static void expect_split(const char *pre_tokenizer, const char *text, const int32_t *want)
{
    struct model_dir dir = model_dir_make();
    write_with(&dir, "tokenizer.json", PARTS("\"pre_tokenizer\":@,"), pre_tokenizer, 1);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    struct lf_ids got = {0};
    size_t n = 0;
    while (want[n] >= 0) n++;
    assert_int_equal(lf_tokenizer_encode(tok, &got, lf_str_c(text), NULL, 0, 0, 0, NULL, NULL), LF_OK);
    if (got.n != n || (n > 0 && memcmp(got.ids, want, n * sizeof *want) != 0))
        fail_msg("%s: %zu ids instead of %zu, or others", pre_tokenizer, got.n, n);
    lf_ids_deinit(&got);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

static void behaviors_of_a_split(void **state)
{
    (void)state;
    static const struct {
        const char *names[2];
        int32_t want[6]; /* of "abb ab", split at each b */
    } cases[] = {
        {{"Removed", "removed"}, {0, 3, 0, -1}}, /* "a", " a": a space and a letter never merge */
        {{"Isolated", "isolated"}, {0, 1, 1, 3, 0, 1}},
        {{"MergedWithPrevious", "merged_with_previous"}, {2, 1, 3, 2, -1}},
        {{"MergedWithNext", "merged_with_next"}, {0, 1, 1, 3, 0, 1}},
        {{"Contiguous", "contiguous"}, {0, 1, 1, 3, 0, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; k < 2; k++) {
            char step[200];
            int32_t want[7] = {-1, -1, -1, -1, -1, -1, -1};
            for (int j = 0; j < 6 && cases[i].want[j] >= 0; j++) want[j] = cases[i].want[j];
            snprintf(step, sizeof step, "{\"type\":\"Split\",\"behavior\":\"%s\",\"pattern\":{\"String\":\"b\"}}",
                     cases[i].names[k]);
            expect_split(step, "abb ab", want);
        }
    }
    expect_split("null", "abb ab", (const int32_t[]){2, 1, 3, 2, -1});
}

/* Marks within a merge join what would else be words of their own. */
static void a_mark_within_a_merge_is_seen(void **state)
{
    (void)state;
    static const char file[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u2581\":0,\"a\":1,\"\\u2581a\":2@},\"merges\":[\"\\u2581 a\"%s]}}";
    char text[400];
    struct model_dir dir = model_dir_make();
    snprintf(text, sizeof text, file, "");
    write_with(&dir, "tokenizer.json", text, "", 1);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    ASSERT_ENCODES(tok, "a a a", 0, 1, 2, 2, -1);
    lf_tokenizer_close(tok);
    /* and with a merge of the mark and what is before it, which comes first */
    write_with(&dir, "tokenizer.json",
               "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"},"
               "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u2581\":0,\"a\":1,\"\\u2581a\":2,\"a\\u2581\":3@},"
               "\"merges\":[\"a \\u2581\",\"\\u2581 a\"]}}",
               "", 1);
    tok = open_or_fail(dir.path);
    ASSERT_ENCODES(tok, "a a a", 0, 3, 3, 1, -1);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

/* What stands around a text: the template of tokenizer.json, over which tokenizer_config.json decides. */
static void tokens_around_a_text(void **state)
{
    (void)state;
#define ID(id, name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEXT         "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
    static const char specials[] = "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[4],\"tokens\":[\"<s>\"]},"
                                   "\"</s>\":{\"id\":\"</s>\",\"ids\":[5],\"tokens\":[\"</s>\"]},"
                                   "\"two\":{\"id\":\"two\",\"ids\":[6,4],\"tokens\":[\"<x>\",\"<s>\"]}}";
    static const struct {
        const char *single, *config;
        int32_t want[6]; /* around and with "a", which is 0; ends with -1 */
    } cases[] = {
        {TEXT, "{}", {0, -1}},
        {ID(4, "<s>") "," TEXT, "{}", {4, 0, -1}},
        {ID(4, "<s>") "," TEXT "," ID(5, "</s>"), "{}", {4, 0, 5, -1}},
        {ID(4, "two") "," TEXT "," ID(5, "two"), "{}", {6, 4, 0, 6, 4, -1}},
        {TEXT, "{\"add_bos_token\":true,\"add_eos_token\":true}", {4, 0, 5, -1}},
        {TEXT, "{\"add_bos_token\":false,\"add_eos_token\":false}", {0, -1}},
        {ID(4, "<s>") "," TEXT "," ID(5, "</s>"), "{\"add_bos_token\":true,\"add_eos_token\":true}", {4, 0, 5, -1}},
        {ID(4, "<s>") "," TEXT "," ID(5, "</s>"), "{\"add_bos_token\":false,\"add_eos_token\":false}", {0, -1}},
        {ID(4, "two") "," TEXT "," ID(5, "</s>"), "{\"add_bos_token\":false,\"add_eos_token\":true}", {6, 4, 0, 5, -1}},
        {ID(4, "two") "," TEXT "," ID(5, "two"), "{\"add_bos_token\":true,\"add_eos_token\":false}", {4, 0, 6, 4, -1}},
        {ID(4, "two") "," TEXT "," ID(5, "two"), "{\"add_eos_token\":true}", {6, 4, 0, 5, -1}},
    };
    struct model_dir dir = model_dir_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char post[1000], config[300];
        snprintf(post, sizeof post, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s],%s},",
                 cases[i].single, specials);
        write_with(&dir, "tokenizer.json", PARTS("@"), post, 1);
        snprintf(config, sizeof config, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"%s%s",
                 cases[i].config[1] == '}' ? "" : ",", cases[i].config + 1);
        model_dir_text(&dir, "tokenizer_config.json", config);
        struct lf_tokenizer *tok = open_or_fail(dir.path);
        struct lf_ids got = {0};
        size_t n = 0;
        while (n < 6 && cases[i].want[n] >= 0) n++;
        assert_int_equal(lf_tokenizer_encode(tok, &got, LF_STR("a"), NULL, 0, LF_ENCODE_BOS_EOS, 0, NULL, NULL), LF_OK);
        if (got.n != n || memcmp(got.ids, cases[i].want, n * sizeof *got.ids) != 0) fail_msg("case %zu", i);
        lf_ids_deinit(&got);
        lf_tokenizer_close(tok);
    }
    /* what is no token cannot be put anywhere */
    write_with(&dir, "tokenizer.json", PARTS("@"), "", 1);
    model_dir_text(&dir, "tokenizer_config.json",
                   "{\"bos_token\":\"<none>\",\"eos_token\":\"<none>\",\"add_bos_token\":true,\"add_eos_token\":true}");
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    ASSERT_ENCODES(tok, "a", LF_ENCODE_BOS_EOS, 0, -1);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

static void a_text_has_one_template_around_it(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    static const char one[] =
        "{\"type\":\"TemplateProcessing\",\"single\":[" ID(4, "<s>") "," TEXT "],"
                                                                     "\"special_tokens\":{\"<s>\":{\"ids\":[4]}}}";
    static const char none[] = "{\"type\":\"TemplateProcessing\",\"single\":[" TEXT "]}";
    char post[1000];
    snprintf(post, sizeof post, "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[%s,%s]},", one, one);
    write_with(&dir, "tokenizer.json", PARTS("@"), post, 1);
    expect_refused(&dir, LF_UNSUPPORTED, "post_processor \"TemplateProcessing\", twice, is not implemented");
    snprintf(post, sizeof post,
             "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[%s,{\"type\":\"ByteLevel\"},%s]},", none, one);
    write_with(&dir, "tokenizer.json", PARTS("@"), post, 1);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    ASSERT_ENCODES(tok, "a", LF_ENCODE_BOS_EOS, 4, 0, -1);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

/* Names are looked for among all that the template defines: so there are so many, and the work stays small. */
static void a_template_has_so_many_tokens(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    struct lf_buf post;
    lf_buf_init(&post, 32 << 20);
    for (int n = LF_TOKENS_AROUND_N; n <= LF_TOKENS_AROUND_N + 1; n++) {
        lf_buf_clear(&post);
        lf_buf_cstr(&post, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
        for (int i = 0; i < n; i++) lf_buf_cstr(&post, ID(4, "<s>") ",");
        lf_buf_cstr(&post, TEXT "],\"special_tokens\":{\"<s>\":{\"ids\":[4]}}},");
        write_with(&dir, "tokenizer.json", PARTS("@"), post.ptr, 1);
        if (n == LF_TOKENS_AROUND_N) {
            struct lf_tokenizer *tok = open_or_fail(dir.path);
            struct lf_ids ids = {0};
            assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR("a"), NULL, 0, LF_ENCODE_BOS_EOS, 0, NULL, NULL),
                             LF_OK);
            assert_int_equal(ids.n, n + 1);
            lf_ids_deinit(&ids);
            lf_tokenizer_close(tok);
        } else {
            expect_refused(&dir, LF_LIMIT, "the template has more than 64 tokens");
        }
    }
    /* a hundred thousand names of nothing, each among a hundred thousand */
    lf_buf_clear(&post);
    lf_buf_cstr(&post, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    for (int i = 0; i < 100000; i++) lf_buf_cstr(&post, ID(4, "x99999") ",");
    lf_buf_cstr(&post, TEXT "],\"special_tokens\":{\"x0\":{}");
    for (int i = 1; i < 100000; i++) lf_buf_printf(&post, ",\"x%d\":{\"ids\":[]}", i);
    lf_buf_cstr(&post, "}},");
    write_with(&dir, "tokenizer.json", PARTS("@"), post.ptr, 1);
    double start = cpu_seconds();
    expect_refused(&dir, LF_LIMIT, "the template names more than 128 tokens");
    assert_true(cpu_seconds() - start < 2.0 * SLOWNESS);
    lf_buf_deinit(&post);
    model_dir_free(&dir);
}

static void steps_of_a_decoder_come_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *decoders;
        enum lf_status status;
        const char *says;
    } cases[] = {
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", LF_OK, ""},
        {"{\"type\":\"Strip\",\"content\":\" \",\"start\":1},{\"type\":\"Fuse\"}", LF_UNSUPPORTED,
         "\"Strip\" in this place"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":1}", LF_UNSUPPORTED,
         "\"Strip\" in this place"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1},{\"type\":\"Strip\",\"content\":\" "
         "\",\"start\":1}",
         LF_UNSUPPORTED, "\"Strip\" in this place"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\"\",\"start\":1}", LF_CORRUPT, "one letter"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\"aaaaaaaaa\",\"start\":1}", LF_CORRUPT, "one letter"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":-1}", LF_CORRUPT, "a number of them"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1025}", LF_CORRUPT, "a number of them"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1024}", LF_OK, ""},
        {"{\"type\":\"Fuse\"},{\"type\":\"Fuse\"}", LF_UNSUPPORTED, "\"Fuse\" behind Fuse"},
        {"{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"}", LF_UNSUPPORTED, "behind ByteFallback"},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"\"}", LF_UNSUPPORTED, "with a regex"},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}", LF_CORRUPT, "it is empty"},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}},{\"type\":\"Fuse\"}", LF_CORRUPT, "Replace: content"},
    };
    struct model_dir dir = model_dir_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_with(&dir, "tokenizer.json", PARTS("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[@]},"),
                   cases[i].decoders, 1);
        if (cases[i].status == LF_OK) {
            lf_tokenizer_close(open_or_fail(dir.path));
        } else {
            expect_refused(&dir, cases[i].status, cases[i].says);
        }
    }
    model_dir_free(&dir);
}

/* White space at the ends of a text, on either side, and a text of nothing else. */
static void strip_takes_the_sides_that_are_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *normalizer, *text;
        int32_t want[6];
    } cases[] = {
        {"{\"type\":\"Strip\"}", "  a  ", {0, -1}},
        {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", "  a  ", {0, 3, 3, -1}},
        {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", "  a  ", {3, 3, 0, -1}},
        {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":false}", " a ", {3, 0, 3, -1}},
        {"{\"type\":\"Strip\"}", " \xc2\xa0\xe3\x80\x80", {-1}},
        {"{\"type\":\"Strip\",\"strip_left\":false}", " \xc2\xa0\xe3\x80\x80", {-1}},
        {"{\"type\":\"Strip\"}",
         "\xe3\x80\x80"
         "ab\xc2\xa0",
         {2, -1}},
        {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"},{\"type\":\"Prepend\",\"prepend\":\"b\"}]}",
         "  ",
         {-1}},
        {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"},{\"type\":\"Prepend\",\"prepend\":\"b\"}]}",
         " a",
         {1, 0, -1}},
        {"{\"type\":\"Lowercase\"}", "AB", {2, -1}},
    };
    struct model_dir dir = model_dir_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_with(&dir, "tokenizer.json", PARTS("\"normalizer\":@,"), cases[i].normalizer, 1);
        struct lf_tokenizer *tok = open_or_fail(dir.path);
        struct lf_ids got = {0};
        size_t n = 0;
        while (cases[i].want[n] >= 0) n++;
        assert_int_equal(lf_tokenizer_encode(tok, &got, lf_str_c(cases[i].text), NULL, 0, 0, 0, NULL, NULL), LF_OK);
        if (got.n != n || (n > 0 && memcmp(got.ids, cases[i].want, n * sizeof *got.ids) != 0))
            fail_msg("case %zu: %zu ids", i, got.n);
        lf_ids_deinit(&got);
        lf_tokenizer_close(tok);
    }
    model_dir_free(&dir);
}

/* An added token is looked for in the normalized text, so in its own normalized form: that has a bound as well. */
static void added_tokens_are_normalized_to_a_bound(void **state)
{
    (void)state;
    static const char file[] =
        "{\"added_tokens\":[{\"id\":7,\"content\":\"aa\",\"normalized\":true},{\"id\":8,\"content\":\"b\","
        "\"normalized\":true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\","
        "\"pattern\":{"
        "\"String\":\"a\"},\"content\":\"@\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"\"}]},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"c\":0},\"merges\":[]}}";
    struct model_dir dir = model_dir_make();
    struct lf_buf text;
    lf_buf_init(&text, 1 << 16);
    for (size_t i = 0; i < LF_TOKEN_BYTES; i++) lf_buf_char(&text, 'c');
    write_with(&dir, "tokenizer.json", file, "c", LF_TOKEN_BYTES / 2);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    ASSERT_ENCODES(tok, text.ptr, 0, 7, -1);
    ASSERT_ENCODES(tok, "aa", 0, 7, -1);
    ASSERT_ENCODES(tok, "bcb", 0, 0, -1); /* what is normalized away is met nowhere */
    lf_tokenizer_close(tok);
    write_with(&dir, "tokenizer.json", file, "c", LF_TOKEN_BYTES / 2 + 1);
    expect_refused(&dir, LF_CORRUPT, "added token 7 has a text of 4098 bytes, at most 4096 are expected");
    lf_buf_deinit(&text);
    model_dir_free(&dir);
}

/* Where tokens of several kinds begin at one place the longest is taken, of those that may stand there. */
static void the_longest_added_token_is_taken(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    model_dir_text(&dir, "tokenizer.json",
                   "{\"added_tokens\":[{\"id\":10,\"content\":\"ab\",\"normalized\":false},{\"id\":11,\"content\":"
                   "\"abab\",\"special\":true},"
                   "{\"id\":12,\"content\":\"aba\",\"single_word\":true,\"normalized\":false},{\"id\":13,\"content\":"
                   "\"bb\",\"special\":true},"
                   "{\"id\":14,\"content\":\"bbb\",\"normalized\":false},{\"id\":15,\"content\":\"\\u00e9\\u00e9\","
                   "\"single_word\":true,\"normalized\":false}],"
                   "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\" \":3,\"\\u00e9\":4},\"merges\":[]}}");
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    ASSERT_ENCODES(tok, "abab", LF_ENCODE_SPECIALS, 11, -1);
    ASSERT_ENCODES(tok, "abab", 0, 10, 10, -1);
    ASSERT_ENCODES(tok, "aba", LF_ENCODE_SPECIALS, 12, -1);
    ASSERT_ENCODES(tok, "aba b", 0, 12, 3, 1, -1);
    ASSERT_ENCODES(tok, "baba", 0, 1, 10, 0, -1);
    ASSERT_ENCODES(tok, "bbb", LF_ENCODE_SPECIALS, 14, -1);
    ASSERT_ENCODES(tok, "bb b", LF_ENCODE_SPECIALS, 13, 3, 1, -1);
    ASSERT_ENCODES(tok, "bbb", 0, 14, -1);
    ASSERT_ENCODES(tok, "\xc3\xa9\xc3\xa9 a\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9", 0, 15, 3, 0, 4, 4, 3, 15, -1);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

/* Of a token that several files name the first counts, and each file may bring more. */
static void files_of_a_directory_complete_one_another(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    write_with(&dir, "tokenizer.json", PARTS("@"), "", 1);
    model_dir_text(&dir, "tokenizer_config.json", "{\"bos_token\":\"<x>\",\"pad_token\":\"\"}");
    model_dir_text(&dir, "special_tokens_map.json", "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"}}");
    model_dir_text(&dir, "added_tokens.json", "{\"[more]\":9}");
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    assert_int_equal(lf_tokenizer_find(tok, LF_STR("[more]")), 9);
    ASSERT_ENCODES(tok, "a[more]", LF_ENCODE_SPECIALS, 0, 9, -1);
    lf_tokenizer_close(tok);
    model_dir_text(
        &dir, "tokenizer_config.json",
        "{\"added_tokens_decoder\":{\"7\":{\"content\":\"[seven]\"}},\"add_bos_token\":true,\"bos_token\":\"<x>\"}");
    tok = open_or_fail(dir.path); /* which says more than added_tokens.json, so that is left out */
    assert_int_equal(lf_tokenizer_find(tok, LF_STR("[more]")), -1);
    ASSERT_ENCODES(tok, "a[seven]", LF_ENCODE_BOS_EOS, 6, 0, 7, -1);
    lf_tokenizer_close(tok);
    static const char *const bad[] = {"1/", "/1", "1:", ":", " 1", "-1", "1.0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char says[100];
        write_with(&dir, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"@\":{\"content\":\"x\"}}}", bad[i], 1);
        snprintf(says, sizeof says, "added_tokens_decoder: \"%s\" is no id", bad[i]);
        expect_refused(&dir, LF_CORRUPT, says);
    }
    write_with(&dir, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"@\":{\"content\":\"x\"}}}", "", 1);
    expect_refused(&dir, LF_CORRUPT, "added_tokens_decoder: bad id");
    model_dir_free(&dir);
}

static void a_path_that_is_too_long_is_said_so(void **state)
{
    (void)state;
    char path[4200];
    memset(path, '/', sizeof path);
    for (size_t n = 4096 - 30; n < 4096; n++) {
        struct lf_tokenizer *tok = NULL;
        struct lf_err err = {0};
        path[n] = 0;
        bool fits = n + strlen("special_tokens_map.json") < 4096; /* the longest name of all */
        assert_int_equal(lf_tokenizer_open(&tok, path, &err), fits ? LF_NOT_FOUND : LF_LIMIT);
        if (!fits) assert_non_null(strstr(err.message, " is too long"));
        path[n] = '/';
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_values_are_shown_up_to_a_bound),
        cmocka_unit_test(so_many_steps),
        cmocka_unit_test(so_many_pre_tokenizers),
        cmocka_unit_test(one_letter_stands_for_a_space),
        cmocka_unit_test(behaviors_of_a_split),
        cmocka_unit_test(a_mark_within_a_merge_is_seen),
        cmocka_unit_test(tokens_around_a_text),
        cmocka_unit_test(a_text_has_one_template_around_it),
        cmocka_unit_test(a_template_has_so_many_tokens),
        cmocka_unit_test(steps_of_a_decoder_come_in_order),
        cmocka_unit_test(strip_takes_the_sides_that_are_asked_for),
        cmocka_unit_test(added_tokens_are_normalized_to_a_bound),
        cmocka_unit_test(the_longest_added_token_is_taken),
        cmocka_unit_test(files_of_a_directory_complete_one_another),
        cmocka_unit_test(a_path_that_is_too_long_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
