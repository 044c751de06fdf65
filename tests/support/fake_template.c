/* A double of the chat template: implements chat_template.h. It writes `<|role|>content<|end|>` for each message and
 * `<|assistant|>` at the end, and refuses where the request has a variable `raise`. */
#include <stdlib.h>

#include "core/check.h"
#include "template/chat_template.h"

bool lf_chat_template_uses(const struct lf_chat_template *t, const char *variable)
{
    (void)t;
    (void)variable;
    return false;
}

const char *lf_chat_template_taken(struct lf_json_value extra)
{
    return lf_json_type(lf_json_get(extra, "messages")) == LF_JSON_NONE ? NULL : "messages";
}

enum { SPANS_N = LF_MESSAGES_N };

static enum lf_status add_span(struct lf_chat_text *out, size_t first, size_t len)
{
    if (!out->user_spans) out->user_spans = calloc(SPANS_N, sizeof *out->user_spans);
    if (!out->user_spans) return LF_NO_MEMORY;
    out->user_spans[out->n_user_spans++] = (struct lf_text_span){first, len};
    return LF_OK;
}

enum lf_status lf_chat_template_render(const struct lf_chat_template *t, struct lf_chat_text *out,
                                       const struct lf_chat_render_params *p, struct lf_err *err)
{
    (void)t;
    if (lf_json_type(lf_json_get(p->extra, "raise")) == LF_JSON_STRING)
        return lf_fail(err, LF_INVALID, "the template says: %s", "these messages will not do");
    lf_buf_init(&out->text, LF_TEMPLATE_OUTPUT_BYTES);
    lf_buf_str(&out->text, p->bos_token);
    for (size_t i = 0; i < p->n_messages; i++) {
        const struct lf_chat_message *m = &p->messages[i];
        lf_buf_cstr(&out->text, "<|");
        lf_buf_str(&out->text, m->role);
        if (!m->role.ptr) (void)lf_json_string(lf_json_get(m->more, "role"), &out->text);
        lf_buf_cstr(&out->text, "|>");
        size_t first = out->text.len;
        lf_buf_str(&out->text, m->content);
        if (!m->has_content) (void)lf_json_string(lf_json_get(m->more, "content"), &out->text);
        LF_TRY(add_span(out, first, out->text.len - first));
        lf_buf_cstr(&out->text, "<|end|>");
    }
    if (p->add_generation_prompt) lf_buf_cstr(&out->text, "<|assistant|>");
    return out->text.status == LF_OK ? LF_OK : lf_fail(err, LF_LIMIT, "the rendered text is too long");
}

void lf_chat_text_deinit(struct lf_chat_text *t)
{
    lf_buf_deinit(&t->text);
    free(t->user_spans);
    *t = (struct lf_chat_text){0};
}
