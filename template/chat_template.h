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
/* Whether the template looks at a variable of that name: one without `tools` has nothing to do with tools. */
bool lf_chat_template_uses(const struct lf_chat_template *t, const char *variable);

/* A call that the assistant made. Templates get its arguments as a value, not as the text of one. */
struct lf_chat_call {
    struct lf_json_value more; /* the call as it came, but for the arguments; or NONE: it is made of the next two */
    struct lf_str id, name;
    struct lf_json_value arguments; /* an object; NONE: an empty one */
};

/* One message. Role, content and the other texts are any text in UTF-8; where they are given they take the place of
 * what `more` has under these names, as calls do of tool_calls, and its other members are passed through in their
 * order. All of it is the user's. */
struct lf_chat_message {
    struct lf_str role;    /* ptr NULL: as in more */
    struct lf_str content; /* where has_content; else as in more */
    bool has_content;
    struct lf_str reasoning_content, tool_call_id, name; /* ptr NULL: as in more */
    const struct lf_chat_call *calls;                    /* [n_calls] */
    size_t n_calls;
    bool without_calls;        /* more has tool_calls, which are none: templates that look for the name do not see it */
    struct lf_json_value more; /* the message as it came, or NONE (a zeroed one) */
};

/* A tool that the model may call, in the form that templates know: {"type": "function", "function": {…}}. */
struct lf_chat_tool {
    struct lf_str name, description; /* description.ptr NULL: none */
    struct lf_json_value parameters; /* NONE: none */
};

/* A variable of the template: a text, or true or false. */
struct lf_chat_variable {
    const char *name;
    struct lf_str text; /* ptr NULL: it is `on` */
    bool on;
};

struct lf_chat_render_params {
    const struct lf_chat_message *messages; /* [n_messages] */
    size_t n_messages;
    struct lf_json_value tools;            /* array, or NONE */
    const struct lf_chat_tool *made_tools; /* [n_made_tools]: instead, where they came in another form */
    size_t n_made_tools;
    const struct lf_chat_variable *variables; /* [n_variables] */
    size_t n_variables;
    struct lf_json_value extra; /* object with further template variables (chat_template_kwargs), or NONE; they go
                                   before the variables */
    bool add_generation_prompt;
    struct lf_str bos_token, eos_token;
    int64_t now_unix_s;   /* for strftime_now */
    struct lf_work *work; /* may be NULL: who may end the render, and where all of its memory comes from */
};

/* The name of one of them that they cannot have, for it is said otherwise; NULL: there is none. Render refuses it. */
const char *lf_chat_template_taken(struct lf_json_value extra);

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
