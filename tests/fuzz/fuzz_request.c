/* Fuzzing what becomes of a request body: JSON, the table of fields, messages, tools, the template, token ids.
 *
 * The first byte says which endpoint, of OpenAI's or Anthropic's, and in which format the model's answers are, or that
 * a document is put or a response asked for; the rest is the body. There is a document called a. A refusal must say
 * why, with a status of 4xx or 503; what is accepted must lie within the limits that the engine is promised, and of
 * what it asks its answer to be a grammar is made, and answered at random. */
#include "server/documents/documents.h"
#include "server/http/api/dialect.h"
#include "server/http/api/messages.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/prompts.h"
#include "server/http/api/v1_documents.h"
#include "tests/fuzz/use_grammar.h"
#include "template/answer/answer_rows.h"
#include "template/chat_template.h"

static const char template_source[] =
    "{{ bos_token }}{% for t in tools or [] %}{{ t | tojson }}{{ t.function.name }}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}{% if m.name %}{{ m.name }}{% endif %}"
    "{{ m.reasoning_content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}{% endfor %}{{ m.tool_call_id }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{{ thinking }}{{ reasoning_effort }}{{ enable_thinking }}"
    "{% endif %}";

enum { CTX = 512, MAX_CHOICES = 4, N_ENDPOINTS = 7, RESPONSES = 240, PUT_DOCUMENT = 255 };

static const uint8_t tenant[LF_SHA256_BYTES] = {1};
static struct lf_documents *documents;

static void put_document(void)
{
    const struct lf_documents_opts opts = {.n_most = 4, .bytes_most = 1 << 20};
    const struct lf_document_content content = {LF_STR(" a text <|im_end|> of a document\n"), LF_STR("system"),
                                                LF_STR("")};
    const struct lf_document_put put = {.key = {tenant, LF_STR("a"), 1}, .content = &content};
    struct lf_document *doc = NULL;
    uint64_t left;
    LF_ASSERT(lf_documents_create(&documents, &opts, NULL) == LF_OK);
    LF_ASSERT(lf_documents_put(documents, &put, &doc, &left) == LF_DOCUMENT_NEW);
    lf_document_unref(documents, doc);
}

static struct lf_prompt_source source = {.ctx = CTX};

static void open_source(void)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_chat_template *chat = NULL;
    LF_ASSERT(lf_tokenizer_open(&tok, LF_SOURCE_DIR "/tests/golden/tokenizer/sp-bpe", NULL) == LF_OK);
    LF_ASSERT(lf_chat_template_create(&chat, lf_str_c(template_source), NULL) == LF_OK);
    source.tok = tok;
    source.chat = chat;
    put_document();
}

static void check_refusal(const struct lf_api_err *err)
{
    struct lf_buf out;
    struct lf_json doc = {0};
    LF_ASSERT((err->status >= 400 && err->status < 500) || err->status == 503);
    LF_ASSERT(err->message[0] != 0);
    lf_buf_init(&out, 64 * 1024);
    lf_api_err_write(&out, err);
    LF_ASSERT(lf_json_parse(&doc, lf_buf_view(&out), &lf_json_limits_request, NULL) == LF_OK);
    lf_json_deinit(&doc);
    lf_buf_deinit(&out);
}

static void check_ask(const struct lf_ask *ask, int n_vocab)
{
    LF_ASSERT(ask->n >= 1 && ask->n <= MAX_CHOICES);
    LF_ASSERT(ask->n_stops <= LF_STOP_N && ask->n_stop_tokens <= LF_STOP_TOKENS_N);
    LF_ASSERT(ask->sampling.n_bias <= LF_LOGIT_BIAS_N && ask->sampling.top_k >= 0);
    LF_ASSERT(ask->sampling.temperature >= 0 && ask->sampling.temperature <= 2);
    for (int i = 0; i < ask->n_stops; i++)
        LF_ASSERT(ask->stops[i].len > 0 && ask->stops[i].len <= LF_STOP_BYTES && lf_utf8_valid(ask->stops[i]));
    for (int i = 0; i < ask->n_stop_tokens; i++) LF_ASSERT(ask->stop_tokens[i] >= 0 && ask->stop_tokens[i] < n_vocab);
    for (int i = 0; i < ask->sampling.n_bias; i++)
        LF_ASSERT(ask->sampling.bias[i].id >= 0 && ask->sampling.bias[i].id < n_vocab);
}

static void check_messages(const struct lf_ask *ask)
{
    for (size_t i = 0; i < ask->n_messages; i++) {
        const struct lf_chat_message *m = &ask->messages[i];
        LF_ASSERT(lf_json_type(m->more) == LF_JSON_OBJECT || (m->role.ptr && m->has_content));
        LF_ASSERT(!m->has_content || lf_utf8_valid(m->content));
        LF_ASSERT(m->n_calls <= LF_MESSAGE_CALLS_N);
        for (size_t k = 0; k < m->n_calls; k++)
            LF_ASSERT(lf_json_is_absent(m->calls[k].arguments) ||
                      lf_json_type(m->calls[k].arguments) == LF_JSON_OBJECT);
    }
}

static void check_documents(const struct lf_ask *ask)
{
    LF_ASSERT(ask->n_documents <= LF_ASK_DOCUMENTS_N);
    for (size_t i = 0; i < ask->n_documents; i++) {
        const struct lf_ask_document *d = &ask->documents[i];
        LF_ASSERT(d->message < ask->n_messages);
        struct lf_str content = ask->messages[d->message].content;
        LF_ASSERT(d->text.len <= d->end && d->end <= content.len);
        LF_ASSERT(lf_str_eq(lf_str_from(content.ptr + d->end - d->text.len, d->text.len), d->text));
    }
}

static void check_tools(const struct lf_ask *ask)
{
    LF_ASSERT(ask->n_tools <= LF_TOOLS_N);
    LF_ASSERT(ask->n_tools || ask->tool_choice == LF_TOOL_CHOICE_NONE);
    for (size_t i = 0; i < ask->n_tools; i++) {
        LF_ASSERT(ask->tools[i].name.len >= 1 && ask->tools[i].name.len <= LF_TOOL_NAME_BYTES);
        LF_ASSERT(lf_utf8_valid(ask->tools[i].name));
    }
}

static void check_nothing(void *ctx, struct lf_str answer)
{
    (void)ctx, (void)answer;
}

/* As generate.c makes it: of the format alone, or with calls and reasoning around it. */
static void make_grammar(struct lf_ask *ask, const struct lf_answer_format *answers, struct lf_str prompt_end,
                         struct lf_work *work)
{
    struct lf_grammar *g = NULL;
    struct lf_grammar_part content;
    struct lf_err why = {0};
    struct lf_answer_rules rules = {.prompt_end = prompt_end,
                                    .reasoning = true,
                                    .tools = ask->tools,
                                    .n_tools = ask->n_tools,
                                    .choice = ask->tool_choice,
                                    .parallel = ask->parallel_tool_calls};
    enum lf_status status = lf_format_grammar(&g, &ask->format, work, &why);
    fuzz_check_compiled(status, &why);
    if (g) fuzz_answer_at_random(g, work, ask->n_messages, false, check_nothing, NULL);
    lf_grammar_unref(g);
    if (ask->format.kind != LF_FORMAT_TEXT) {
        LF_ASSERT(lf_format_part(&content, &ask->format, &ask->arena) == LF_OK);
        rules.content = &content;
    }
    status = lf_answer_format_grammar(&g, answers, &rules, work, &why);
    fuzz_check_compiled(status, &why);
    if (status != LF_OK || !g) return;
    fuzz_answer_at_random(g, work, ask->n_tools, true, check_nothing, NULL);
    lf_grammar_unref(g);
}

static void read_prompts(struct lf_ask *ask, const struct lf_ask_limits *limits, struct lf_work *work)
{
    struct lf_prompts prompts;
    struct lf_api_err err = {0};
    const int n_vocab = limits->n_vocab;
    if (lf_prompts_read(&prompts, ask, &source, &err) != LF_OK) {
        check_refusal(&err);
        return;
    }
    LF_ASSERT(prompts.n >= 1 && prompts.n <= LF_PROMPTS_N);
    for (int i = 0; i < prompts.n; i++)
        for (size_t k = 0; k < prompts.items[i].ids.n; k++)
            LF_ASSERT(prompts.items[i].ids.ids[k] >= 0 && prompts.items[i].ids.ids[k] < n_vocab);
    if (ask->messages) make_grammar(ask, limits->answers, prompts.items[0].end, work);
    lf_prompts_deinit(&prompts);
}

/* As which endpoint's. */
static enum lf_status read_body(struct lf_ask *ask, uint8_t which, enum lf_ask_kind *kind, const struct lf_json *body,
                                const struct lf_ask_limits *limits, struct lf_api_err *err)
{
    static const enum lf_ask_kind kinds[] = {LF_ASK_COMPLETION, LF_ASK_CHAT, LF_ASK_TOKENIZE, LF_ASK_DETOKENIZE,
                                             LF_ASK_TEMPLATE};
    const size_t n_kinds = LF_N_ELEMS(kinds);
    if (which == PUT_DOCUMENT) return lf_document_parse(ask, body, limits, err);
    *kind = LF_ASK_CHAT;
    if (which >= RESPONSES) return lf_dialect_responses.parse(ask, body, limits, err);
    which %= N_ENDPOINTS;
    if (which == n_kinds) return lf_dialect_messages.parse(ask, body, limits, err);
    if (which > n_kinds) return lf_dialect_count_tokens.parse(ask, body, limits, err);
    *kind = kinds[which];
    return lf_ask_read(ask, *kind, body, limits, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lf_json body = {0};
    struct lf_ask ask;
    struct lf_api_err err = {0};
    if (size == 0) return 0;
    if (!source.tok) open_source();
    enum lf_ask_kind kind = LF_ASK_CHAT;
    struct lf_str text = lf_str_from((const char *)data + 1, size - 1);
    if (lf_json_parse(&body, text, &lf_json_limits_request, NULL) != LF_OK) return 0;
    const struct lf_ask_limits limits = {.max_choices = MAX_CHOICES,
                                         .n_vocab = lf_tokenizer_n_vocab(source.tok),
                                         .template = {.has_tools = true, .has_calls = true, .has_thinking = true},
                                         .documents = documents,
                                         .tenant = tenant,
                                         .document_bytes = 1000,
                                         .answers = lf_answer_format_at(data[0] / N_ENDPOINTS % lf_answer_n_formats)};
    struct lf_work work = fuzz_work(data, size);
    if (read_body(&ask, data[0], &kind, &body, &limits, &err) == LF_OK) {
        check_ask(&ask, limits.n_vocab);
        check_messages(&ask);
        check_tools(&ask);
        check_documents(&ask);
        if (kind != LF_ASK_DETOKENIZE && data[0] != PUT_DOCUMENT) read_prompts(&ask, &limits, &work);
    } else {
        check_refusal(&err);
    }
    lf_ask_deinit(&ask);
    lf_json_deinit(&body);
    return 0;
}
