/* The formats: a row for each family of models, from what its chat template writes. docs/models.md lists them.
 *
 * Rows are tried from the first to the last, so what shows more stands before what shows less. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

#define LITERAL(s)                                                                                                     \
    {                                                                                                                  \
        LF_STEP_LITERAL, s                                                                                             \
    }
#define SPACE(s)                                                                                                       \
    {                                                                                                                  \
        LF_STEP_SPACE, s                                                                                               \
    }
#define NAME                                                                                                           \
    {                                                                                                                  \
        LF_STEP_NAME, NULL                                                                                             \
    }
#define ARGUMENTS                                                                                                      \
    {                                                                                                                  \
        LF_STEP_ARGUMENTS, NULL                                                                                        \
    }
#define OBJECT                                                                                                         \
    {                                                                                                                  \
        LF_STEP_OBJECT, NULL                                                                                           \
    }

/* <think>\n … \n</think>\n\n, as Qwen3 and most others have it */
#define THINK .think = "<think>", .think_end = "</think>", .think_lead = "\n", .think_tail = "\n", .think_after = "\n\n"

const struct lf_answer_format lf_answer_formats[] = {
    {.name = "hermes",
     .shows = {"<tool_call>", "\"arguments"},
     THINK,
     .open = "<tool_call>",
     .call_tail = "\n",
     .call_after = "\n",
     .head = {SPACE("\n")},
     .call = {OBJECT},
     .close = "</tool_call>",
     .close_lead = "\n",
     .name_key = "name",
     .arguments_key = "arguments",
     .controls = {"<think>", "</think>", "<tool_call>", "</tool_call>"}},
    {.name = "think", .shows = {"</think>"}, THINK, .controls = {"<think>", "</think>"}},
    {.name = "plain"},
};
const int lf_answer_n_formats = LF_N_ELEMS(lf_answer_formats);

const struct lf_answer_format *lf_answer_format_at(int i)
{
    return i >= 0 && i < lf_answer_n_formats ? &lf_answer_formats[i] : NULL;
}

static bool shows(const struct lf_answer_format *format, struct lf_str source)
{
    for (size_t i = 0; i < LF_N_ELEMS(format->shows) && format->shows[i]; i++)
        if (lf_str_find(source, lf_str_c(format->shows[i])) < 0) return false;
    return true;
}

const struct lf_answer_format *lf_answer_format_of_template(struct lf_str source)
{
    const struct lf_answer_format *format = lf_answer_formats;
    while (!shows(format, source)) format++; /* the last one, plain, asks for nothing */
    return format;
}

const struct lf_answer_format *lf_answer_format_by_name(struct lf_str name)
{
    for (int i = 0; i < lf_answer_n_formats; i++)
        if (lf_str_eq(name, lf_str_c(lf_answer_formats[i].name))) return &lf_answer_formats[i];
    return NULL;
}

const char *lf_answer_format_name(const struct lf_answer_format *format)
{
    return format->name;
}

bool lf_answer_format_has_tools(const struct lf_answer_format *format)
{
    return format->call[0].kind != LF_STEP_END;
}

bool lf_answer_format_has_reasoning(const struct lf_answer_format *format)
{
    return format->think != NULL;
}
