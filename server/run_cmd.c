/* run: one answer on the terminal, without a server.
 *
 * The question (and the document before it, of a file or one that a server has kept, a blank line between them) is one
 * user message under the model's own template; without a template it is a plain text that ends in "Answer:". The
 * context is sized for this one request, so a long document runs on a small machine. */
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "grammar/grammar.h"
#include "server/auto_split.h"
#include "server/commands.h"
#include "server/engine/engine.h"
#include "server/kept_documents.h"
#include "server/run_tools.h"
#include "server/runtime.h"
#include "server/text_input.h"
#include "template/chat_template.h"
#include "tokenizer/detok.h"
#include "tokenizer/tokenizer.h"

enum {
    DOCUMENT_BYTES = 256 * 1024 * 1024,
    PROGRESS_MS = 500,
    STEP_MS = 1000 /* of the engine: nobody else waits, so a step may be as large as its rows allow */
};

#define TOO_LONG "the document is too long for memory"

struct run {
    const struct lf_config *config;
    struct lf_runtime rt;
    struct lf_ids prompt;
    bool chat;                  /* the prompt went through the template */
    struct lf_grammar *grammar; /* what the answer must be; NULL: any text */
    struct lf_run_tools tools;  /* n_tools 0: none */
    struct lf_kept_document kept;
    bool is_kept; /* the document is one that a server has kept */
};

/* ---- the prompt ---- */

/* @NAME: as the server that kept it read it, so that its blocks are found. */
static enum lf_status append_kept(struct run *r, struct lf_buf *out, struct lf_err *err)
{
    const struct lf_config *c = r->config;
    if (!c->cache_dir)
        return lf_fail(
            err, LF_INVALID,
            "--document: %.200s is a document of --cache-dir, which is not given; a file of this name: ./%.200s",
            c->document, c->document);
    enum lf_status status = lf_kept_document_read(&r->kept, c->cache_dir, c->document + 1, lf_clock_unix_s(), err);
    if (status != LF_OK) return lf_fail_within(err, status, "--document");
    r->is_kept = true;
    lf_buf_str(out, lf_buf_view(&r->kept.text));
    if (c->n_args > 0) lf_buf_cstr(out, "\n\n");
    return LF_OK;
}

/* The document and the blank line behind it. */
static enum lf_status append_document(struct run *r, struct lf_buf *out, struct lf_err *err)
{
    const struct lf_config *c = r->config;
    if (c->document && c->document[0] == '@') return append_kept(r, out, err);
    if (c->document) {
        LF_TRY(lf_text_read(out, c->document, DOCUMENT_BYTES, err));
        if (!lf_utf8_valid(lf_buf_view(out)))
            return lf_fail(err, LF_INVALID, "--document: %.200s is not a text in UTF-8", c->document);
        while (out->len > 0 && (out->ptr[out->len - 1] == '\n' || out->ptr[out->len - 1] == ' ')) out->len--;
        if (out->len == 0) return lf_fail(err, LF_INVALID, "--document: %.200s is empty", c->document);
        if (c->n_args > 0) lf_buf_cstr(out, "\n\n");
    }
    return LF_OK;
}

static enum lf_status append_question(const struct lf_config *c, struct lf_buf *out, struct lf_err *err)
{
    for (int i = 0; i < c->n_args; i++) {
        if (!lf_utf8_valid(lf_str_c(c->args[i])))
            return lf_fail(err, LF_INVALID, "the question is not a text in UTF-8");
        if (i > 0) lf_buf_char(out, ' ');
        lf_buf_cstr(out, c->args[i]);
    }
    return LF_OK;
}

static enum lf_status encode_chat(struct run *r, struct lf_str text, struct lf_err *err)
{
    struct lf_str system = r->is_kept ? lf_buf_view(&r->kept.system) : LF_STR("");
    const struct lf_chat_message messages[] = {{.role = LF_STR("system"), .content = system, .has_content = true},
                                               {.role = LF_STR("user"), .content = text, .has_content = true}};
    size_t first = system.len ? 0 : 1;
    struct lf_chat_text rendered = {0};
    struct lf_chat_render_params params = {
        .messages = messages + first,
        .n_messages = LF_N_ELEMS(messages) - first,
        .tools = r->tools.n_tools ? lf_json_root(&r->tools.doc) : (struct lf_json_value){0},
        .add_generation_prompt = true,
        .bos_token = lf_tokenizer_bos_text(r->rt.tok),
        .eos_token = lf_tokenizer_eos_text(r->rt.tok),
        .now_unix_s = r->is_kept ? r->kept.created_s : lf_clock_unix_s(),
    };
    LF_TRY(lf_chat_template_render(r->rt.chat, &rendered, &params, err));
    enum lf_status status = lf_tokenizer_encode(r->rt.tok, &r->prompt, lf_buf_view(&rendered.text), rendered.user_spans,
                                                rendered.n_user_spans, LF_ENCODE_SPECIALS, 0, NULL, err);
    if (status == LF_OK && r->tools.n_tools)
        status = lf_run_tools_begin(&r->tools, &r->grammar, lf_tokenizer_chat_template(r->rt.tok),
                                    lf_buf_view(&rendered.text), err);
    lf_chat_text_deinit(&rendered);
    return status;
}

static enum lf_status encode_prompt(struct run *r, struct lf_err *err)
{
    const struct lf_config *c = r->config;
    struct lf_buf text;
    enum lf_status status;
    lf_buf_init(&text, DOCUMENT_BYTES);
    LF_TRY_GOTO(append_document(r, &text, err), done);
    bool raw = c->raw || r->rt.id_text;
    r->chat = r->rt.chat && !raw;
    if (!r->chat && !raw) lf_buf_cstr(&text, "Question: ");
    LF_TRY_GOTO(append_question(c, &text, err), done);
    if (!r->chat && !raw) lf_buf_cstr(&text, "\nAnswer:");
    if (text.status != LF_OK) {
        status = lf_fail(err, text.status, TOO_LONG);
        goto done;
    }
    if (r->chat)
        status = encode_chat(r, lf_buf_view(&text), err);
    else /* --raw: as /v1/completions; without it the document is somebody's text, and no template's */
        status = lf_tokenizer_encode(r->rt.tok, &r->prompt, lf_buf_view(&text), NULL, 0,
                                     LF_ENCODE_BOS_EOS | (raw ? LF_ENCODE_SPECIALS : 0u), 0, NULL, err);
done:
    lf_buf_deinit(&text);
    return status;
}

/* ---- what the answer must be ---- */

static enum lf_status read_schema(struct lf_grammar **out, const char *path, struct lf_err *err)
{
    struct lf_json doc = {0};
    struct lf_buf text;
    lf_buf_init(&text, LF_GRAMMAR_SOURCE_BYTES + 1);
    enum lf_status status = lf_text_read(&text, path, LF_GRAMMAR_SOURCE_BYTES, err);
    if (status == LF_OK) status = lf_json_parse(&doc, lf_buf_view(&text), &lf_json_limits_request, err);
    if (status == LF_OK) status = lf_grammar_of_schema(out, lf_json_root(&doc), NULL, NULL, err);
    lf_json_deinit(&doc);
    lf_buf_deinit(&text);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--json-schema: %.200s", path);
}

static enum lf_status read_choices(struct lf_grammar **out, const char *const *choices, struct lf_err *err)
{
    struct lf_str texts[LF_CONFIG_LIST_N];
    size_t n = 0;
    for (; choices[n]; n++) texts[n] = lf_str_c(choices[n]);
    enum lf_status status = lf_grammar_of_choice(out, texts, n, NULL, err);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--choice");
}

static enum lf_status make_grammar(struct run *r, struct lf_err *err)
{
    const struct lf_config *c = r->config;
    int n = (c->json_schema != NULL) + (c->regex != NULL) + (c->choice != NULL) + (c->tools != NULL);
    if (n > 1)
        return lf_fail(err, LF_INVALID, "expected one of --json-schema, --regex, --choice and --tools, got %d of them",
                       n);
    if (c->tools && c->raw) return lf_fail(err, LF_INVALID, "--tools: with --raw there is no template to write them");
    if (c->tool_parser && !c->tools) return lf_fail(err, LF_INVALID, "--tool-parser: only together with --tools");
    if (c->tools) return lf_run_tools_read(&r->tools, c->tools, c->tool_parser, err);
    if (c->json_schema) return read_schema(&r->grammar, c->json_schema, err);
    if (c->choice) return read_choices(&r->grammar, c->choice, err);
    if (!c->regex) return LF_OK;
    enum lf_status status = lf_grammar_of_regex(&r->grammar, lf_str_c(c->regex), NULL, err);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--regex");
}

/* NULL where there is no grammar. */
static struct lf_vocabulary *vocabulary_of(const struct run *r)
{
    return r->chat ? r->rt.vocabulary.begins : r->rt.vocabulary.continues;
}

/* ---- generation ---- */

static void on_published(void *ctx)
{
    sem_post(ctx);
}

static void wait_published(sem_t *sem)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)PROGRESS_MS * LF_NS_PER_MS;
    until.tv_sec += until.tv_nsec / LF_NS_PER_S;
    until.tv_nsec %= LF_NS_PER_S;
    if (sem_timedwait(sem, &until) != 0) return;
    while (sem_trywait(sem) == 0) continue; /* several posts are one piece of news */
}

static void show(struct lf_buf *text)
{
    fwrite(lf_buf_view(text).ptr, 1, text->len, stdout);
    fflush(stdout);
    lf_buf_clear(text);
}

static void print_timings(const struct lf_request_state *s)
{
    double prefill_s = (double)(s->first_token_ns - s->started_ns) / LF_NS_PER_S;
    double decode_s = (double)(s->finished_ns - s->first_token_ns) / LF_NS_PER_S;
    if (s->first_token_ns == 0) return;
    fprintf(stderr, "prompt %d tokens", s->n_prompt);
    if (s->n_restored > 0) fprintf(stderr, ", %d of them from the disk,", s->n_restored);
    fprintf(stderr, " in %.2f s (%.0f tokens/s), answer %d tokens in %.2f s", prefill_s,
            prefill_s > 0 ? s->n_prompt / prefill_s : 0, s->n_tokens, decode_s);
    if (s->n_tokens > 1 && decode_s > 0) fprintf(stderr, " (%.1f tokens/s)", (s->n_tokens - 1) / decode_s);
    if (s->n_proposed > 0) fprintf(stderr, ", %d of %d proposed tokens came", s->n_accepted, s->n_proposed);
    fprintf(stderr, ", peak memory %.1f MiB\n", (double)lf_runtime_peak_bytes() / (1024.0 * 1024.0));
}

static void print_progress(const struct lf_request_state *s)
{
    if (s->n_tokens > 0 || s->n_processed >= s->n_prompt || !isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\rreading %d of %d tokens", s->n_processed, s->n_prompt);
    if (s->eta_ns > 0) fprintf(stderr, ", %.0f s to go  ", (double)s->eta_ns / LF_NS_PER_S);
}

static enum lf_status append_tokens(struct run *r, struct lf_request *req, int first, int end, struct lf_detok *detok,
                                    struct lf_buf *text)
{
    for (int i = first; i < end; i++) {
        int32_t id = lf_request_token(req, i)->id;
        if (r->tools.n_tools)
            LF_TRY(lf_run_tools_take(&r->tools, detok, id, text));
        else
            lf_detok_push(detok, id, text);
    }
    return LF_OK;
}

/* What was held back, and the end of the line. */
static enum lf_status append_end(struct run *r, struct lf_detok *detok, struct lf_buf *text)
{
    if (!r->tools.n_tools) {
        lf_detok_flush(detok, text);
        lf_buf_char(text, '\n');
        return LF_OK;
    }
    LF_TRY(lf_run_tools_end(&r->tools, detok, text));
    if (r->tools.in_line) lf_buf_char(text, '\n');
    return LF_OK;
}

static enum lf_status stream(struct run *r, struct lf_request *req, sem_t *published, struct lf_err *err)
{
    struct lf_request_state state;
    struct lf_detok detok;
    struct lf_buf text;
    int n_shown = 0;
    enum lf_status status = LF_OK;
    lf_detok_init(&detok, r->rt.tok, false, !r->chat);
    lf_buf_init(&text, DOCUMENT_BYTES);
    do {
        wait_published(published);
        lf_request_snapshot(req, &state);
        print_progress(&state);
        if (n_shown == 0 && state.n_tokens > 0 && isatty(STDERR_FILENO)) fprintf(stderr, "\r%60s\r", "");
        if (status == LF_OK) status = append_tokens(r, req, n_shown, state.n_tokens, &detok, &text);
        n_shown = state.n_tokens;
        show(&text);
    } while (state.finish == LF_FINISH_NONE);
    if (status == LF_OK) status = append_end(r, &detok, &text);
    show(&text);
    lf_buf_deinit(&text);
    print_timings(&state);
    bool cut = state.finish == LF_FINISH_LENGTH;
    if (cut && (r->tools.in_call || (r->grammar && !r->tools.n_tools)))
        fprintf(stderr, "longflash: the %s was cut by --max-tokens\n", r->tools.in_call ? "last call" : "answer");
    if (status != LF_OK) return lf_fail(err, status, "the calls of the answer could not be read");
    if (state.finish == LF_FINISH_STOP || state.finish == LF_FINISH_LENGTH) return LF_OK;
    return lf_fail(err, LF_DEVICE, "the answer broke off: %s", state.message ? state.message : "cancelled");
}

static enum lf_status generate(struct run *r, int max_tokens, struct lf_err *err)
{
    const struct lf_config *c = r->config;
    sem_t published;
    struct lf_request *req = NULL;
    int retry_after_s = 0;
    int rc = sem_init(&published, 0, 0);
    LF_ASSERT(rc == 0);
    struct lf_gen_params params = {
        .prompt = r->prompt.ids,
        .n_prompt = (int)r->prompt.n,
        .max_tokens = max_tokens,
        .grammar = r->grammar,
        .vocabulary = vocabulary_of(r),
        .speculate = c->speculate,
        .sampling = {.temperature = (float)c->temperature,
                     .top_p = 1,
                     .repetition_penalty = 1,
                     .seed = c->seed,
                     .n_logprobs = -1},
        .n_prompt_logprobs = -1,
        .salt = r->is_kept ? r->kept.tenant : NULL,
        .salt_bytes = r->is_kept ? (int)sizeof r->kept.tenant : 0,
        .notify = on_published,
        .notify_ctx = &published,
    };
    enum lf_status status = lf_engine_submit(r->rt.engine, &params, &req, &retry_after_s, err);
    if (status == LF_OK) {
        status = stream(r, req, &published, err);
        lf_request_put(req);
    }
    sem_destroy(&published);
    return status;
}

/* ---- the command ---- */

/* Sizes context and cache for this prompt, where the options leave it open. */
static enum lf_status size_context(struct run *r, struct lf_config *sized, int *max_tokens, struct lf_err *err)
{
    *sized = *r->config;
    if (sized->ctx < 0) sized->ctx = 0; /* auto: what this prompt needs */
    size_t most = (size_t)(sized->ctx ? sized->ctx : r->rt.hp.max_positions);
    if (r->prompt.n >= most)
        return lf_fail(err, LF_LIMIT, "the prompt has %zu tokens, the context is %zu%s: no room for an answer",
                       r->prompt.n, most,
                       sized->ctx && sized->ctx < r->rt.hp.max_positions ? " (--ctx)" : " and the model has no more");
    *max_tokens = (int)LF_MIN((size_t)r->config->max_tokens, most - r->prompt.n);
    if (!sized->ctx) sized->ctx = (int)r->prompt.n + *max_tokens;
    if (!sized->memory && !sized->kv_tokens) sized->kv_tokens = (uint64_t)sized->ctx;
    sized->prefix_cache = sized->cache_dir != NULL; /* one request finds nothing but what is on disk */
    sized->max_seqs = 1;
    sized->queue = 1;
    sized->step_ms = STEP_MS;
    r->rt.config = sized;
    return LF_OK;
}

static enum lf_status answer(struct run *r, struct lf_config *sized, struct lf_err *err)
{
    int max_tokens = 0;
    LF_TRY(make_grammar(r, err));
    LF_TRY(lf_runtime_open(&r->rt, r->config, true, err));
    if (r->grammar && r->rt.id_text)
        return lf_fail(err, LF_INVALID, "without a tokenizer texts are token ids, to which no format can be given");
    if (r->tools.n_tools && !(r->rt.chat && lf_chat_template_uses(r->rt.chat, "tools")))
        return lf_fail(err, LF_UNSUPPORTED, "--tools: the model's chat template has no tools");
    LF_TRY(encode_prompt(r, err));
    LF_TRY(size_context(r, sized, &max_tokens, err));
    LF_TRY(lf_auto_split_plan(&r->rt, false, err));
    if (r->grammar) LF_TRY(lf_answer_can_begin(r->grammar, vocabulary_of(r), NULL, err));
    if (!r->rt.plan.fits) return lf_fail(err, LF_NO_MEMORY, "the plan does not fit: %s", r->rt.plan.advice);
    LF_TRY(lf_runtime_load(&r->rt, NULL, NULL, err));
    LF_TRY(lf_runtime_start(&r->rt, err));
    return generate(r, max_tokens, err);
}

int lf_run_command(const struct lf_config *config)
{
    struct run r = {.config = config};
    struct lf_config sized;
    struct lf_err err = {0};
    if ((config->n_args == 0 || !*config->args[0]) && !config->document) {
        fprintf(stderr, "longflash: run: expected a question, or --document FILE and a question; see --help\n");
        return LF_EXIT_REFUSED;
    }
    lf_log_set_level((enum lf_log_level)config->log_level);
    int exit_status = answer(&r, &sized, &err) == LF_OK ? LF_EXIT_OK : lf_report(&err);
    lf_runtime_close(&r.rt);
    lf_grammar_unref(r.grammar);
    lf_run_tools_deinit(&r.tools);
    lf_kept_document_deinit(&r.kept);
    lf_ids_deinit(&r.prompt);
    return exit_status;
}
