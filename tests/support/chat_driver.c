/* Chat templates on a pipe, for comparison with other implementations, and their speed.
 *
 *   chat_driver < requests > answers
 *   chat_driver time TEMPLATE      milliseconds for one message of 600,000 bytes and for 2,048 messages, best of five
 *
 * A request is one line of JSON: template, messages, tools, extra, add_generation_prompt, bos_token, eos_token, now. An
 * answer is one line: {"text", "spans": [[first, length] …]} or {"status", "error"}. */
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/file.h"
#include "tests/support/chat_messages.h"
#include "template/chat_template.h"

enum { MAX_TEXT = 1 << 28 };

static struct lf_buf string_of(struct lf_json_value v)
{
    struct lf_buf buf;
    lf_buf_init(&buf, MAX_TEXT);
    if (!lf_json_is_absent(v) && !lf_json_string(v, &buf)) exit(3);
    return buf;
}

static void write_answer(struct lf_buf *out, enum lf_status status, const struct lf_chat_text *text,
                         const struct lf_err *err)
{
    if (status != LF_OK) {
        lf_buf_printf(out, "{\"status\":\"%s\",\"error\":", lf_status_name(status));
        lf_json_write_string(out, lf_str_c(err->message));
    } else {
        lf_buf_cstr(out, "{\"text\":");
        lf_json_write_string(out, lf_buf_view(&text->text));
        lf_buf_cstr(out, ",\"spans\":[");
        for (size_t i = 0; i < text->n_user_spans; i++) {
            lf_buf_printf(out, "%s[%zu,%zu]", i ? "," : "", text->user_spans[i].first, text->user_spans[i].len);
        }
        lf_buf_cstr(out, "]");
    }
    lf_buf_cstr(out, "}\n");
}

static void answer(struct lf_json_value request)
{
    struct lf_buf source = string_of(lf_json_get(request, "template")),
                  bos = string_of(lf_json_get(request, "bos_token")),
                  eos = string_of(lf_json_get(request, "eos_token")), out;
    struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_get(request, "messages")),
                                      .tools = lf_json_get(request, "tools"), .extra = lf_json_get(request, "extra"),
                                      .bos_token = lf_buf_view(&bos), .eos_token = lf_buf_view(&eos)};
    (void)lf_json_bool(lf_json_get(request, "add_generation_prompt"), &p.add_generation_prompt);
    (void)lf_json_int64(lf_json_get(request, "now"), &p.now_unix_s);
    struct lf_chat_template *t = NULL;
    struct lf_chat_text text = {0};
    struct lf_err err = {0};
    enum lf_status status = lf_chat_template_create(&t, lf_buf_view(&source), &err);
    if (status == LF_OK) status = lf_chat_template_render(t, &text, &p, &err);
    lf_buf_init(&out, MAX_TEXT);
    write_answer(&out, status, &text, &err);
    fwrite(out.ptr, 1, out.len, stdout);
    fflush(stdout);
    lf_chat_text_deinit(&text);
    lf_chat_template_destroy(t);
    lf_buf_deinit(&out);
    lf_buf_deinit(&source);
    lf_buf_deinit(&bos);
    lf_buf_deinit(&eos);
}

static int run_pipe(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        struct lf_json json;
        struct lf_err err;
        if (lf_json_parse(&json, lf_str_from(line, (size_t)n), &lf_json_limits_file, &err) != LF_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 3;
        }
        answer(lf_json_root(&json));
        lf_json_deinit(&json);
    }
    free(line);
    return 0;
}

/* n messages by turns, each of so many bytes. */
static void make_messages(struct lf_buf *out, size_t n, size_t n_bytes)
{
    static const char sentence[] = "It was the best of times, it was the worst of times. ";
    lf_buf_init(out, MAX_TEXT);
    lf_buf_cstr(out, "[");
    for (size_t i = 0; i < n; i++) {
        lf_buf_printf(out, "%s{\"role\":\"%s\",\"content\":\"", i ? "," : "", i % 2 ? "assistant" : "user");
        for (size_t k = 0; k < n_bytes; k++) lf_buf_char(out, sentence[k % (sizeof(sentence) - 1)]);
        lf_buf_cstr(out, "\"}");
    }
    lf_buf_cstr(out, "]");
}

static void time_render(const struct lf_chat_template *t, size_t n, size_t n_bytes)
{
    struct lf_buf text;
    struct lf_json json;
    struct lf_err err;
    make_messages(&text, n, n_bytes);
    if (lf_json_parse(&json, lf_buf_view(&text), &lf_json_limits_file, &err) != LF_OK) exit(3);
    struct lf_chat_render_params p = {CHAT_MESSAGES(lf_json_root(&json)), .add_generation_prompt = true,
                                      .bos_token = LF_STR("<s>"), .eos_token = LF_STR("</s>")};
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct lf_chat_text out = {0};
        int64_t begin = lf_clock_ns();
        if (lf_chat_template_render(t, &out, &p, &err) != LF_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(3);
        }
        int64_t took = lf_clock_ns() - begin;
        if (took < best) best = took;
        lf_chat_text_deinit(&out);
    }
    printf("%zu messages of %zu bytes: %.2f ms\n", n, n_bytes, (double)best / LF_NS_PER_MS);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
}

static int run_time(const char *path)
{
    struct lf_buf source;
    struct lf_chat_template *t = NULL;
    struct lf_err err;
    lf_buf_init(&source, LF_TEMPLATE_SOURCE_BYTES);
    if (lf_file_read(&source, path, LF_TEMPLATE_SOURCE_BYTES, &err) != LF_OK ||
        lf_chat_template_create(&t, lf_buf_view(&source), &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    time_render(t, 1, 600000);
    time_render(t, LF_MESSAGES_N, 200);
    lf_chat_template_destroy(t);
    lf_buf_deinit(&source);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "time") == 0) return run_time(argv[2]);
    return run_pipe();
}
