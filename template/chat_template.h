/* Chat templates: the model's own Jinja template, rendered as Hugging Face's apply_chat_template does.
 *
 * A template is parsed once; rendering is read-only and may run on any thread. Budgets (limits.h: steps, output, depth,
 * range) bound time and memory of a render, so a template from an untrusted model directory cannot hang the server.
 * Everything that came from the request's messages is marked: the spans tell the tokenizer where special tokens are not
 * to be recognized. */
#ifndef LF_TEMPLATE_CHAT_TEMPLATE_H
#define LF_TEMPLATE_CHAT_TEMPLATE_H

#include "core/json.h"
#include "tokenizer/tokenizer.h"

struct lf_chat_template;

/* LF_INVALID with line and reason for a template that does not parse. source is copied. */
LF_MUST_CHECK enum lf_status lf_chat_template_create(struct lf_chat_template **out, struct lf_str source,
                                                     struct lf_err *err);
void lf_chat_template_destroy(struct lf_chat_template *t); /* accepts NULL */

/* One message. Role and content are any text in UTF-8; where they are given they take the place of what `more` has
 * under these names, and its other members (name, tool_calls …) are passed through in their order. All of it is the
 * user's. */
struct lf_chat_message {
    struct lf_str role;    /* ptr NULL: as in more */
    struct lf_str content; /* where has_content; else as in more */
    bool has_content;
    struct lf_json_value more; /* the message as it came, or NONE (a zeroed one) */
};

struct lf_chat_render_params {
    const struct lf_chat_message *messages; /* [n_messages] */
    size_t n_messages;
    struct lf_json_value tools; /* array, or NONE */
    struct lf_json_value extra; /* object with further template variables (chat_template_kwargs), or NONE */
    bool add_generation_prompt;
    struct lf_str bos_token, eos_token;
    int64_t now_unix_s;   /* for strftime_now */
    struct lf_work *work; /* may be NULL: who may end the render, and where all of its memory comes from */
};

/* What a render yields; owned, zero it first. Its memory is that of the render's work. */
struct lf_chat_text {
    struct lf_buf text;
    struct lf_text_span *user_spans; /* ascending */
    size_t n_user_spans;
    struct lf_text_memory *memory; /* borrowed */
};
void lf_chat_text_deinit(struct lf_chat_text *t);

/* LF_INVALID: the template raised an exception (its message), or the messages do not suit it; LF_LIMIT: a budget;
 * LF_NO_MEMORY; what the work says. */
LF_MUST_CHECK enum lf_status lf_chat_template_render(const struct lf_chat_template *t, struct lf_chat_text *out,
                                                     const struct lf_chat_render_params *p, struct lf_err *err);

#endif
