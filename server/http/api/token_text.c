#include "server/http/api/token_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/json.h"

enum { TOKEN_TEXT_BYTES = 64 * 1024, LIST_BYTES = 64 * 1024 * 1024 };

/* What could not be kept in a buffer on the way must not go missing silently. */
static void pass_loss(struct lf_buf *out, const struct lf_buf *from)
{
    if (from->status != LF_OK) out->status = from->status;
}

/* ---- log-probabilities ---- */

/* The shortest decimal that reads back as the same float. JSON has no infinity: OpenAI writes -9999 for "never". */
static void write_logprob(struct lf_buf *out, float x)
{
    char text[32];
    if (!(x > -9999.0f)) x = -9999.0f;
    if (x > 0) x = 0;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (!(strtof(text, NULL) < x) && !(strtof(text, NULL) > x)) break;
    }
    lf_buf_cstr(out, text);
}

/* A token as log-probabilities name it. */
static void token_name(struct lf_buf *out, const struct lf_logprob_text *lp, int32_t id)
{
    if (lp->as_ids)
        lf_buf_printf(out, "token_id:%d", (int)id);
    else
        lf_token_bytes(out, lp->tok, id, false);
}

static void separate(struct lf_buf *out)
{
    if (out->len) lf_buf_char(out, ',');
}

/* "token":…,"logprob":…,"bytes":[…] */
static void write_chat_token(struct lf_buf *out, struct lf_str bytes, float logprob)
{
    lf_buf_cstr(out, "\"token\":");
    lf_json_write_string(out, bytes);
    lf_buf_cstr(out, ",\"logprob\":");
    write_logprob(out, logprob);
    lf_buf_cstr(out, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.len; i++) lf_buf_printf(out, "%s%d", i ? "," : "", (int)(unsigned char)bytes.ptr[i]);
    lf_buf_char(out, ']');
}

static void add_chat(struct lf_logprob_text *lp, const struct lf_sampled *sampled)
{
    struct lf_buf *out = &lp->list[0], bytes;
    lf_buf_init(&bytes, TOKEN_TEXT_BYTES);
    token_name(&bytes, lp, sampled->id);
    separate(out);
    lf_buf_char(out, '{');
    write_chat_token(out, lf_buf_view(&bytes), sampled->logprob);
    lf_buf_cstr(out, ",\"top_logprobs\":[");
    for (int i = 0; i < sampled->n_top && i < lp->n_top; i++) {
        pass_loss(out, &bytes);
        lf_buf_clear(&bytes);
        token_name(&bytes, lp, sampled->top_ids[i]);
        lf_buf_cstr(out, i ? ",{" : "{");
        write_chat_token(out, lf_buf_view(&bytes), sampled->top_logprobs[i]);
        lf_buf_char(out, '}');
    }
    lf_buf_cstr(out, "]}");
    pass_loss(out, &bytes);
    lf_buf_deinit(&bytes);
}

/* A token's text as completions show it: bytes that are no text as OpenAI writes them, `bytes:\xe4\xb8`. */
static void completion_text(struct lf_buf *out, const struct lf_logprob_text *lp, int32_t id)
{
    struct lf_buf bytes;
    lf_buf_init(&bytes, TOKEN_TEXT_BYTES);
    token_name(&bytes, lp, id);
    if (lf_utf8_valid(lf_buf_view(&bytes))) {
        lf_buf_str(out, lf_buf_view(&bytes));
    } else {
        lf_buf_cstr(out, "bytes:");
        for (size_t i = 0; i < bytes.len; i++) lf_buf_printf(out, "\\x%02x", (unsigned)(unsigned char)bytes.ptr[i]);
    }
    pass_loss(out, &bytes);
    lf_buf_deinit(&bytes);
}

/* One object of top_logprobs: names are texts, and no name comes twice although two tokens may read the same. */
struct top_object {
    struct lf_buf *out;
    struct lf_buf names[LF_TOP_LOGPROBS_N + 1];
    int n;
};

static void add_top(struct top_object *top, const struct lf_logprob_text *lp, int32_t id, float logprob)
{
    struct lf_buf *name = &top->names[top->n];
    lf_buf_init(name, TOKEN_TEXT_BYTES);
    completion_text(name, lp, id);
    pass_loss(top->out, name);
    bool known = false;
    for (int i = 0; i < top->n && !known; i++) known = lf_str_eq(lf_buf_view(name), lf_buf_view(&top->names[i]));
    if (known) {
        lf_buf_deinit(name);
        return;
    }
    if (top->n++) lf_buf_char(top->out, ',');
    lf_json_write_string(top->out, lf_buf_view(name));
    lf_buf_char(top->out, ':');
    write_logprob(top->out, logprob);
}

static void add_completion(struct lf_logprob_text *lp, const struct lf_sampled *sampled, int32_t id, int64_t offset)
{
    struct lf_buf text, *list = lp->list;
    lf_buf_init(&text, TOKEN_TEXT_BYTES);
    completion_text(&text, lp, id);
    for (int i = 0; i < LF_LOGPROB_LISTS_N; i++) separate(&list[i]);
    lf_json_write_string(&list[LF_LOGPROB_TOKENS], lf_buf_view(&text));
    pass_loss(&list[LF_LOGPROB_TOKENS], &text);
    lf_buf_printf(&list[LF_LOGPROB_OFFSETS], "%lld", (long long)offset);
    lf_buf_deinit(&text);
    if (!sampled) {
        lf_buf_cstr(&list[LF_LOGPROB_VALUES], "null");
        lf_buf_cstr(&list[LF_LOGPROB_TOP], "null");
        return;
    }
    write_logprob(&list[LF_LOGPROB_VALUES], sampled->logprob);
    struct top_object top = {.out = &list[LF_LOGPROB_TOP]};
    lf_buf_char(top.out, '{');
    for (int i = 0; i < sampled->n_top && i < lp->n_top; i++)
        add_top(&top, lp, sampled->top_ids[i], sampled->top_logprobs[i]);
    add_top(&top, lp, sampled->id, sampled->logprob);
    lf_buf_char(top.out, '}');
    for (int i = 0; i < top.n; i++) lf_buf_deinit(&top.names[i]);
}

/* "17":{"logprob":…,"rank":…,"decoded_token":…} */
static void write_known(struct lf_buf *out, const struct lf_tokenizer *tok, int32_t id, float logprob, int rank)
{
    struct lf_buf bytes;
    lf_buf_init(&bytes, TOKEN_TEXT_BYTES);
    lf_token_bytes(&bytes, tok, id, false);
    lf_buf_printf(out, "\"%d\":{\"logprob\":", (int)id);
    write_logprob(out, logprob);
    lf_buf_printf(out, ",\"rank\":%d,\"decoded_token\":", rank);
    lf_json_write_string(out, lf_buf_view(&bytes));
    lf_buf_char(out, '}');
    pass_loss(out, &bytes);
    lf_buf_deinit(&bytes);
}

void lf_prompt_logprob_write(struct lf_buf *out, const struct lf_tokenizer *tok, const struct lf_sampled *sampled,
                             int n_top)
{
    if (!sampled) {
        lf_buf_cstr(out, "null");
        return;
    }
    n_top = n_top < sampled->n_top ? n_top : sampled->n_top;
    lf_buf_char(out, '{');
    write_known(out, tok, sampled->id, sampled->logprob, sampled->rank);
    for (int i = 0; i < n_top; i++) {
        if (sampled->top_ids[i] == sampled->id) continue;
        lf_buf_char(out, ',');
        write_known(out, tok, sampled->top_ids[i], sampled->top_logprobs[i], i + 1);
    }
    lf_buf_char(out, '}');
}

void lf_logprob_text_init(struct lf_logprob_text *lp, const struct lf_tokenizer *tok, enum lf_logprob_form form,
                          int n_top, struct lf_text_memory *memory)
{
    *lp = (struct lf_logprob_text){.tok = tok, .form = form, .n_top = n_top};
    for (int i = 0; i < LF_LOGPROB_LISTS_N; i++) lf_buf_init_in(&lp->list[i], LIST_BYTES, memory);
}

void lf_logprob_text_deinit(struct lf_logprob_text *lp)
{
    for (int i = 0; i < LF_LOGPROB_LISTS_N; i++) lf_buf_deinit(&lp->list[i]);
}

void lf_logprob_text_clear(struct lf_logprob_text *lp)
{
    for (int i = 0; i < LF_LOGPROB_LISTS_N; i++) lf_buf_clear(&lp->list[i]);
    lp->n = 0;
}

void lf_logprob_text_add(struct lf_logprob_text *lp, const struct lf_sampled *sampled, int32_t id, int64_t offset)
{
    if (lp->form == LF_LOGPROBS_CHAT)
        add_chat(lp, sampled);
    else
        add_completion(lp, sampled, id, offset);
    lp->n++;
}

int lf_logprob_n_lists(enum lf_logprob_form form)
{
    return form == LF_LOGPROBS_CHAT ? 1 : LF_LOGPROB_LISTS_N;
}

const char *lf_logprob_list_head(enum lf_logprob_form form, int list)
{
    static const char *const heads[] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                        "],\"text_offset\":["};
    return form == LF_LOGPROBS_CHAT ? "{\"content\":[" : heads[list];
}

const char *lf_logprob_end(enum lf_logprob_form form)
{
    return form == LF_LOGPROBS_CHAT ? "],\"refusal\":null}" : "]}";
}

void lf_logprob_text_write(struct lf_buf *out, const struct lf_logprob_text *lp)
{
    for (int i = 0; i < lf_logprob_n_lists(lp->form); i++) {
        lf_buf_cstr(out, lf_logprob_list_head(lp->form, i));
        lf_buf_str(out, lf_buf_view(&lp->list[i]));
        if (lp->list[i].status != LF_OK) out->status = lp->list[i].status;
    }
    lf_buf_cstr(out, lf_logprob_end(lp->form));
}
