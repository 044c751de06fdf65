/* Every field of the files of a tokenizer with every kind of value in its place, and a template broken at every byte:
 * each is opened and then works, or is refused with a message. */
#include "core/json.h"
#include "tests/support/by_field.h"
#include "tests/unit/tokenizer/support.h"
#include "template/chat_template.h"

struct tally {
    struct model_dir dir;
    const char *name; /* of the file that is changed */
    int n_open, n_refused;
};

/* Opens it, and if it opens, encodes and decodes. */
static void try_it(struct tally *t)
{
    static const char text[] = "Hi <mask> the king's\n 12 \xe4\xb8\xad q u--x";
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    enum lf_status status = lf_tokenizer_open(&tok, t->dir.path, &err);
    if (status != LF_OK) {
        t->n_refused++;
        if (tok || !err.message[0] || status == LF_NO_MEMORY) fail_msg("%s: %s", lf_status_name(status), err.message);
        return;
    }
    struct lf_ids ids = {0};
    struct lf_buf out;
    struct lf_text_span span = {3, 4};
    t->n_open++;
    lf_buf_init(&out, 1 << 20);
    status =
        lf_tokenizer_encode(tok, &ids, lf_str_c(text), &span, 1, LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS, 0, NULL, &err);
    if (status == LF_OK) status = lf_tokenizer_decode(tok, &out, ids.ids, ids.n, true, NULL, &err);
    if (status != LF_OK && status != LF_LIMIT && status != LF_INVALID && status != LF_CORRUPT &&
        status != LF_UNSUPPORTED)
        fail_msg("%s: %s", lf_status_name(status), err.message);
    lf_buf_deinit(&out);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
}

static void changed(void *ctx, struct lf_str text)
{
    struct tally *t = ctx;
    model_dir_write(&t->dir, t->name, text.ptr, text.len);
    try_it(t);
}

static const char *const long_lists[2] = {"vocab", "merges"};

static void every_field_of_tokenizer_json(void **state)
{
    (void)state;
    static const char *const kinds[] = {"like-deepseek", "like-falcon", "like-gpt2",      "like-llama2", "like-llama3",
                                        "like-qwen",     "like-tekken", "like-metaspace", "like-words"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (SLOWNESS > 1 && i % 4) continue;
        struct tally t = {.dir = model_dir_make(), .name = "tokenizer.json"};
        char path[200];
        struct lf_buf file;
        lf_buf_init(&file, 1 << 24);
        (void)snprintf(path, sizeof path, FIXTURES "%s/tokenizer.json", kinds[i]);
        assert_int_equal(lf_file_read(&file, path, 1 << 24, NULL), LF_OK);
        int n = by_field(lf_buf_view(&file), long_lists, changed, &t);
        print_message("%s: %d changes, %d opened, %d refused\n", kinds[i], n, t.n_open, t.n_refused);
        assert_true(n > 1000 && t.n_refused > n / 10 && t.n_open > n / 10);
        lf_buf_deinit(&file);
        model_dir_free(&t.dir);
    }
}

static void every_field_of_the_files_beside_it(void **state)
{
    (void)state;
    static const char config[] =
        "{\"added_tokens_decoder\": {\"3\": {\"content\": \"<a>\", \"lstrip\": true, \"rstrip\": false,"
        " \"normalized\": false, \"single_word\": true, \"special\": true}}, \"bos_token\": {\"content\": \"<s>\"},"
        " \"eos_token\": \"</s>\", \"unk_token\": \"<unk>\", \"pad_token\": null, \"add_bos_token\": true,"
        " \"add_eos_token\": false, \"add_prefix_space\": true, \"tokenizer_class\": \"LlamaTokenizer\","
        " \"additional_special_tokens\": [\"<b>\", {\"content\": \"<c>\"}], \"extra_special_tokens\": {\"i\": \"<d>\"},"
        " \"legacy\": false, \"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}]}";
    static const char map[] = "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\","
                              " \"additional_special_tokens\": [\"<b>\"]}";
    static const char added[] = "{\"<e>\": 400, \"<f>\": 401}";
    static const struct {
        const char *name, *text;
    } files[] = {{"tokenizer_config.json", config}, {"special_tokens_map.json", map}, {"added_tokens.json", added}};
    static const char *const models[][2] = {{"tokenizer.model", FIXTURES "sp-bpe/tokenizer.model"},
                                            {"tokenizer.json", FIXTURES "like-llama3/tokenizer.json"}};
    for (size_t m = 0; m < 2; m++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            struct tally t = {.dir = model_dir_make(), .name = files[i].name};
            model_dir_copy(&t.dir, models[m][0], models[m][1]);
            int n = by_field(lf_str_c(files[i].text), long_lists, changed, &t);
            print_message("%s: %d changes, %d opened, %d refused\n", t.name, n, t.n_open, t.n_refused);
            assert_true(n >= 100 && t.n_open > 0);
            model_dir_free(&t.dir);
        }
    }
}

/* A template with every statement and form of expression. */
static const char rich[] =
    "{%- set a, b = 1, (2, 3) -%}{% set c %}x{% endset %}{% set ns = namespace(n=0x1f, m=1_0, f=1.5e3) %}"
    "{% for k, v in {'k': [1, 2], \"l\": ()}.items() if k is string and not v is none %}{{ loop.index }}"
    "{% if k == 'k' %}{% continue %}{% elif v[0:1] is defined %}{% break %}{% else %}z{% endif %}{% else %}none"
    "{% endfor %}{% macro m(p, q=2, r='\\n\\u00e9\\x41\\101') %}{{ p ~ q }}{{ caller() }}{% endmacro %}"
    "{% call m(1, q=3) %}in{% endcall %}{% filter upper|trim %}up{% endfilter %}{% with w = 1, x = 2 %}{{ w + x }}"
    "{% endwith %}{# note #}{% raw %}{{ raw }}{% endraw %}{{ (a - 1) * 2 / 3 // 1 % 5 ** 2 if a else -b }}"
    "{{ [1, 2,][-1], 'a' 'b', a not in [1], 1 < 2 <= 3 != 4, ns.n|default(1, true)|abs }}"
    "{{ 'x'.replace('x', *['y'], **{}) is eq 'y' }}{{ b[0] is divisibleby(2) or true }}{% set ns.n = 2 %}"
    "{% generation %}g{% endgeneration %}{% do 1 %}{{ ns['n'] }}{{ a[::2] if a is iterable }}{{- 'end' -}}";

static bool parses(const char *source, size_t len)
{
    struct lf_chat_template *t = NULL;
    struct lf_err err = {0};
    enum lf_status status = lf_chat_template_create(&t, lf_str_from(source, len), &err);
    if (status != LF_OK && (t || !err.message[0] || status == LF_NO_MEMORY)) fail_msg("%s", lf_status_name(status));
    lf_chat_template_destroy(t);
    return status == LF_OK;
}

static void a_template_broken_at_every_byte(void **state)
{
    (void)state;
    static const char *const pieces[] = {"$", "'", "{%",  "%}",   "}}",   "{{ ",   ")",    "]",
                                         ":", ",", " 1 ", " if ", "\"\\", " not ", "\xff", "(",
                                         "[", "|", ".",   "{",    " in ", " is ",  "="};
    int n = 0, n_refused = 0;
    for (size_t at = 0; at <= sizeof rich - 1; at += SLOWNESS > 1 ? 5 : 1) {
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            for (size_t cut = 0; cut < 3; cut++, n++) { /* put in, in place of a byte, and nothing behind it */
                char source[sizeof rich + 16];
                size_t rest = cut < 2 ? at + cut : sizeof rich - 1;
                int len = snprintf(source, sizeof source, "%.*s%s%s", (int)at, rich, pieces[p],
                                   rest < sizeof rich ? rich + rest : "");
                n_refused += !parses(source, (size_t)len);
            }
        }
    }
    print_message("%d templates, %d refused\n", n, n_refused);
    assert_true(n > 50000 / (SLOWNESS > 1 ? 5 : 1) - 100 && n_refused > n / 2 && n_refused < n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_tokenizer_json),
        cmocka_unit_test(every_field_of_the_files_beside_it),
        cmocka_unit_test(a_template_broken_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
