#include "tests/accuracy/tasks.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"
#include "template/chat_template.h"

enum { TEXT_BYTES = 256 * 1024 * 1024 };

/* ---- tokens ---- */

static enum lf_status encode_plain(const struct lf_runtime *rt, struct lf_ids *out, struct lf_str text,
                                   struct lf_err *err)
{
    return lf_tokenizer_encode(rt->tok, out, text, NULL, 0, LF_ENCODE_BOS_EOS, 0, NULL, err);
}

static enum lf_status encode_chat(const struct lf_runtime *rt, struct lf_ids *out, struct lf_str text,
                                  struct lf_err *err)
{
    struct lf_chat_message message = {.role = LF_STR("user"), .content = text, .has_content = true};
    struct lf_chat_text rendered = {0};
    struct lf_chat_render_params params = {.messages = &message,
                                           .n_messages = 1,
                                           .add_generation_prompt = true,
                                           .bos_token = lf_tokenizer_bos_text(rt->tok),
                                           .eos_token = lf_tokenizer_eos_text(rt->tok),
                                           .now_unix_s = lf_clock_unix_s()};
    LF_TRY(lf_chat_template_render(rt->chat, &rendered, &params, err));
    enum lf_status status = lf_tokenizer_encode(rt->tok, out, lf_buf_view(&rendered.text), rendered.user_spans,
                                                rendered.n_user_spans, LF_ENCODE_SPECIALS, 0, NULL, err);
    lf_chat_text_deinit(&rendered);
    return status;
}

static struct lf_str without_end(struct lf_str text)
{
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == ' ')) text.len--;
    return text;
}

static enum lf_status encode_question(const struct lf_runtime *rt, struct lf_ids *out, struct lf_str document,
                                      struct lf_json_value question, struct lf_err *err)
{
    bool is_chat = rt->chat && !rt->config->raw;
    struct lf_buf text;
    lf_buf_init(&text, TEXT_BYTES);
    lf_buf_str(&text, without_end(document));
    lf_buf_cstr(&text, is_chat ? "\n\n" : "\n\nQuestion: ");
    bool is_text = lf_json_string(question, &text);
    if (!is_chat) lf_buf_cstr(&text, "\nAnswer:");
    enum lf_status status = text.status;
    if (!is_text)
        status = lf_fail(err, LF_INVALID, "a question is %s, expected a string", lf_json_type_name(question));
    else if (status != LF_OK)
        status = lf_fail(err, status, "the document is too long for memory");
    else
        status = (is_chat ? encode_chat : encode_plain)(rt, out, lf_buf_view(&text), err);
    lf_buf_deinit(&text);
    return status;
}

/* ---- tasks ---- */

static enum lf_status make_prompts(struct task *task, size_t n, struct lf_err *err)
{
    task->prompts = calloc(n, sizeof(*task->prompts));
    if (!task->prompts) return lf_fail(err, LF_NO_MEMORY, "no memory for prompts");
    task->n_prompts = (int)n;
    return LF_OK;
}

static enum lf_status read_text(struct task *task, const struct lf_runtime *rt, struct lf_json_value root,
                                struct lf_str text, struct lf_err *err)
{
    int64_t n = 0, n_scored = 0;
    if (!lf_json_int64(lf_json_get(root, "tokens"), &n) || !lf_json_int64(lf_json_get(root, "scored"), &n_scored) ||
        n_scored < 1 || n <= n_scored || n > INT32_MAX)
        return lf_fail(err, LF_INVALID, "a text needs tokens and scored, the second above 0 and below the first");
    LF_TRY(make_prompts(task, 1, err));
    LF_TRY(encode_plain(rt, task->prompts, text, err));
    if (task->prompts->n < (size_t)n)
        return lf_fail(err, LF_INVALID, "a text has %zu tokens, expected %lld at least", task->prompts->n,
                       (long long)n);
    task->prompts->n = (size_t)n;
    task->n_scored = (int)n_scored;
    return LF_OK;
}

static int n_common(const struct lf_ids *a, const struct lf_ids *b)
{
    int n = 0, most = (int)LF_MIN(a->n, b->n);
    while (n < most && a->ids[n] == b->ids[n]) n++;
    return n;
}

/* Whole blocks, and of no prompt all: its last token gives the first of an answer. */
static int n_shared(const struct task *task)
{
    int n = (int)task->prompts[0].n - 1;
    for (int i = 1; i < task->n_prompts; i++) {
        n = LF_MIN(n, n_common(&task->prompts[0], &task->prompts[i]));
        n = LF_MIN(n, (int)task->prompts[i].n - 1);
    }
    return n - n % LF_KV_BLOCK_TOKENS;
}

static enum lf_status read_questions(struct task *task, const struct lf_runtime *rt, struct lf_json_value root,
                                     struct lf_str document, struct lf_err *err)
{
    struct lf_json_value questions = lf_json_get(root, "questions");
    int i = 0;
    if (lf_json_len(questions) == 0 || lf_json_type(questions) != LF_JSON_ARRAY)
        return lf_fail(err, LF_INVALID, "a document needs questions, a list of strings");
    LF_TRY(make_prompts(task, lf_json_len(questions), err));
    for (struct lf_json_value it = lf_json_first(questions); lf_json_more(questions, it);
         it = lf_json_next(questions, it)) {
        LF_TRY(encode_question(rt, &task->prompts[i], document, it, err));
        if (task->prompts[i++].n == 0) return lf_fail(err, LF_INVALID, "a prompt is empty");
    }
    task->n_shared = n_shared(task);
    return LF_OK;
}

static enum lf_status read_task(struct task *task, const struct lf_runtime *rt, struct lf_json_value root,
                                struct lf_err *err)
{
    struct lf_buf text;
    lf_buf_init(&text, TEXT_BYTES);
    enum lf_status status;
    if (lf_json_string(lf_json_get(root, "text"), &text))
        status = read_text(task, rt, root, lf_buf_view(&text), err);
    else if (lf_json_string(lf_json_get(root, "document"), &text))
        status = read_questions(task, rt, root, lf_buf_view(&text), err);
    else
        status = lf_fail(err, LF_INVALID, "a task has neither text nor document");
    lf_buf_deinit(&text);
    return status;
}

static void task_deinit(struct task *task)
{
    for (int i = 0; i < task->n_prompts; i++) lf_ids_deinit(&task->prompts[i]);
    free(task->prompts);
}

static enum lf_status push(struct task_list *list, const struct task *task, struct lf_err *err)
{
    if (list->n == list->cap) {
        int cap = LF_MAX(64, 2 * list->cap);
        struct task *more = realloc(list->tasks, (size_t)cap * sizeof(*more));
        if (!more) return lf_fail(err, LF_NO_MEMORY, "no memory for tasks");
        list->tasks = more;
        list->cap = cap;
    }
    list->tasks[list->n++] = *task;
    for (int i = 0; i < task->n_prompts; i++) list->longest = LF_MAX(list->longest, (int)task->prompts[i].n);
    return LF_OK;
}

enum lf_status task_list_add(struct task_list *list, const struct lf_runtime *rt, struct lf_str line,
                             struct lf_err *err)
{
    struct lf_json doc = {0};
    struct task task = {0};
    enum lf_status status = lf_json_parse(&doc, line, &lf_json_limits_request, err);
    if (status == LF_OK) status = read_task(&task, rt, lf_json_root(&doc), err);
    if (status == LF_OK) status = push(list, &task, err);
    if (status != LF_OK) task_deinit(&task);
    lf_json_deinit(&doc);
    return status;
}

void task_list_deinit(struct task_list *list)
{
    for (int i = 0; i < list->n; i++) task_deinit(&list->tasks[i]);
    free(list->tasks);
    *list = (struct task_list){0};
}
