/* The formats: a row for each family of models, from what its chat template writes. docs/models.md lists them.
 *
 * Rows are tried from the first to the last, so what shows more stands before what shows less. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

/* clang-format off */
#define LITERAL(s) {LF_STEP_LITERAL, s}
#define SPACE(s)   {LF_STEP_SPACE, s}
#define UNTIL(s)   {LF_STEP_UNTIL, s}
#define DIGITS     {LF_STEP_DIGITS, "0"}
#define NAME       {LF_STEP_NAME, NULL}
#define ARGUMENTS  {LF_STEP_ARGUMENTS, NULL}
#define OBJECT     {LF_STEP_OBJECT, NULL}
#define PARAMETERS {LF_STEP_PARAMETERS, NULL}
#define GEMMA      {LF_STEP_GEMMA, NULL}
#define PYTHON     {LF_STEP_PYTHON, NULL}

/* <think>\n … \n</think>\n\n, as Qwen3 and most others have it; and without newlines of its own. */
#define THINK .think = "<think>", .think_end = "</think>", .think_lead = "\n", .think_tail = "\n", .think_after = "\n\n"
#define THINK_CLOSE .think = "<think>", .think_end = "</think>"
#define NAMED(name, arguments) .name_key = name, .arguments_key = arguments

const struct lf_answer_format lf_answer_formats[] = {
    {.name = "gpt_oss",
     .shows = {"<|channel|>", "<|message|>", "analysis"},
     .is_channels = true,
     .controls = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"}},
    {.name = "gemma4",
     .shows = {"<|tool_call>", "<tool_call|>"},
     .think = "<|channel>thought", .think_end = "<channel|>", .think_lead = "\n",
     .open = "<|tool_call>",
     .call = {LITERAL("call:"), NAME, GEMMA},
     .close = "<tool_call|>",
     .sorts_names = true,
     .controls = {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|\"|>"}},

    /* XML parameters */
    {.name = "qwen3_xml",
     .shows = {"<tool_call>", "<function=", "<parameter="},
     THINK, .calls_end_think = true,
     .open = "<tool_call>", .call_tail = "\n\n", .call_after = "\n",
     .head = {SPACE("\n")},
     .call = {LITERAL("<function="), NAME, LITERAL(">"), SPACE("\n"), PARAMETERS},
     .close = "</tool_call>", .close_lead = "\n",
     .parameters = {.key_open = "<parameter=", .key_close = ">", .value_lead = "\n", .value_tail = "\n",
                    .value_close = "</parameter>", .between = "\n", .end = "</function>"},
     .controls = {"<think>", "</think>", "<tool_call>", "</tool_call>"}},
    {.name = "glm",
     .shows = {"<tool_call>", "<arg_key>", "<arg_value>"},
     .think = "<think>", .think_end = "</think>", .think_lead = "\n", .think_tail = "\n", .think_after = "\n",
     .open = "<tool_call>", .call_tail = "\n", .call_after = "\n",
     .call = {NAME, SPACE(""), PARAMETERS},
     .parameters = {.key_open = "<arg_key>", .key_close = "</arg_key>", .value_open = "<arg_value>",
                    .value_close = "</arg_value>", .end = "</tool_call>"},
     .controls = {"<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                  "</arg_value>"}},
    {.name = "minimax_m2",
     .shows = {"<minimax:tool_call>"},
     THINK,
     .open = "<minimax:tool_call>", .call_tail = "\n", .call_after = "\n",
     .head = {SPACE("\n")},
     .call = {LITERAL("<invoke name=\""), NAME, LITERAL("\">"), SPACE("\n"), PARAMETERS},
     .between = "\n", .close = "</minimax:tool_call>", .close_lead = "\n",
     .parameters = {.key_open = "<parameter name=\"", .key_close = "\">", .value_close = "</parameter>",
                    .between = "\n", .end = "</invoke>"},
     .controls = {"<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>"}},
    {.name = "deepseek_v4",
     .shows = {"｜DSML｜"},
     THINK_CLOSE,
     .open = "<｜DSML｜tool_calls>", .call_tail = "\n\n",
     .head = {SPACE("\n")},
     .call = {LITERAL("<｜DSML｜invoke name=\""), NAME, LITERAL("\">"), SPACE("\n"), PARAMETERS},
     .between = "\n", .close = "</｜DSML｜tool_calls>", .close_lead = "\n",
     .parameters = {.key_open = "<｜DSML｜parameter name=\"", .key_close = "\" string=\"true\">",
                    .key_close_json = "\" string=\"false\">", .value_close = "</｜DSML｜parameter>",
                    .between = "\n", .end = "</｜DSML｜invoke>"},
     .controls = {"<think>", "</think>", "｜DSML｜"}},

    /* a name, then JSON */
    {.name = "deepseek_r1",
     .shows = {"<｜tool▁calls▁begin｜>", "```json"},
     THINK,
     .open = "<｜tool▁calls▁begin｜>", .call_tail = "\n\n",
     .call = {LITERAL("<｜tool▁call▁begin｜>"), LITERAL("function"), LITERAL("<｜tool▁sep｜>"), NAME, SPACE("\n"),
              LITERAL("```json"), SPACE("\n"), ARGUMENTS, SPACE("\n"), LITERAL("```"), LITERAL("<｜tool▁call▁end｜>")},
     .between = "\n", .close = "<｜tool▁calls▁end｜>",
     .controls = {"<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
                  "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}},
    {.name = "deepseek_v31",
     .shows = {"<｜tool▁calls▁begin｜>"},
     THINK_CLOSE,
     .open = "<｜tool▁calls▁begin｜>",
     .call = {LITERAL("<｜tool▁call▁begin｜>"), NAME, LITERAL("<｜tool▁sep｜>"), ARGUMENTS,
              LITERAL("<｜tool▁call▁end｜>")},
     .between = "", .close = "<｜tool▁calls▁end｜>",
     .controls = {"<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
                  "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}},
    {.name = "kimi_k2",
     .shows = {"<|tool_calls_section_begin|>"},
     THINK_CLOSE,
     .open = "<|tool_calls_section_begin|>",
     .call = {LITERAL("<|tool_call_begin|>"), LITERAL("functions."), NAME, LITERAL(":"), DIGITS,
              LITERAL("<|tool_call_argument_begin|>"), ARGUMENTS, LITERAL("<|tool_call_end|>")},
     .between = "", .close = "<|tool_calls_section_end|>",
     .controls = {"<think>", "</think>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
                  "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"}},
    {.name = "mistral_args",
     .shows = {"[TOOL_CALLS]", "[ARGS]"},
     .think = "[THINK]", .think_end = "[/THINK]",
     .open = "[TOOL_CALLS]",
     .call = {NAME, LITERAL("["), UNTIL("ARGS]"), ARGUMENTS},
     .controls = {"[THINK]", "[/THINK]", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}},
    {.name = "apertus",
     .shows = {"<|tools_prefix|>", "<|tools_suffix|>"},
     .think = "<|inner_prefix|>", .think_end = "<|inner_suffix|>",
     .open = "<|tools_prefix|>",
     .head = {LITERAL("[")},
     .call = {SPACE(""), LITERAL("{\""), NAME, LITERAL("\":"), SPACE(" "), ARGUMENTS, SPACE(""), LITERAL("}")},
     .next = ",", .between = "", .close = "]<|tools_suffix|>",
     .controls = {"<|inner_prefix|>", "<|inner_suffix|>", "<|tools_prefix|>", "<|tools_suffix|>"}},

    /* one JSON object, or a list of them */
    {.name = "mistral",
     .shows = {"[TOOL_CALLS]"},
     .think = "[THINK]", .think_end = "[/THINK]",
     .open = "[TOOL_CALLS]",
     .head = {SPACE(""), LITERAL("[")},
     .call = {SPACE(""), OBJECT},
     .next = ",", .close = "]",
     NAMED("name", "arguments"),
     .controls = {"[THINK]", "[/THINK]", "[TOOL_CALLS]"}},
    {.name = "nemotron",
     .shows = {"<TOOLCALL>"},
     THINK,
     .open = "<TOOLCALL>", .call_tail = "\n",
     .head = {LITERAL("[")},
     .call = {SPACE(""), OBJECT},
     .next = ",", .close = "]</TOOLCALL>",
     NAMED("name", "arguments"),
     .controls = {"<think>", "</think>", "<TOOLCALL>", "</TOOLCALL>"}},
    {.name = "command",
     .shows = {"<|START_ACTION|>"},
     .think = "<|START_THINKING|>", .think_end = "<|END_THINKING|>",
     .open = "<|START_ACTION|>",
     .head = {LITERAL("[")},
     .call = {SPACE("\n    "), OBJECT},
     .next = ",", .close = "]<|END_ACTION|>", .close_lead = "\n",
     NAMED("tool_name", "parameters"), .id_key = "tool_call_id",
     .controls = {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>"}},
    {.name = "granite",
     .shows = {"<|tool_call|>", "JSON list"},
     THINK,
     .open = "<|tool_call|>",
     .head = {SPACE(""), LITERAL("[")},
     .call = {SPACE(""), OBJECT},
     .next = ",", .close = "]",
     NAMED("name", "arguments"),
     .controls = {"<think>", "</think>", "<|tool_call|>"}},
    {.name = "gigachat",
     .shows = {"<|function_call|>", "\"arguments"},
     .open = "<|function_call|>",
     .head = {SPACE("")},
     .call = {OBJECT},
     NAMED("name", "arguments"),
     .controls = {"<|function_call|>"}},
    {.name = "hermes",
     .shows = {"<tool_call>", "\"arguments"},
     THINK,
     .open = "<tool_call>", .call_tail = "\n", .call_after = "\n",
     .head = {SPACE("\n")},
     .call = {OBJECT},
     .close = "</tool_call>", .close_lead = "\n",
     NAMED("name", "arguments"),
     .controls = {"<think>", "</think>", "<tool_call>", "</tool_call>"}},
    /* calls as in Python; then Llama's objects again, which show less */
    {.name = "lfm2",
     .shows = {"<|tool_call_start|>", "<|tool_call_end|>"},
     THINK,
     .open = "<|tool_call_start|>",
     .head = {LITERAL("[")},
     .call = {SPACE(""), NAME, PYTHON},
     .next = ",", .between = "", .close = "]<|tool_call_end|>",
     .controls = {"<think>", "</think>", "<|tool_call_start|>", "<|tool_call_end|>"}},
    {.name = "pythonic",
     .shows = {"[func_name1(params_name1=params_value1"},
     .open = "<|python_start|>", .bare = '[',
     .head = {SPACE(""), LITERAL("[")},
     .call = {SPACE(""), NAME, PYTHON},
     .next = ",", .between = "", .close = "]",
     .controls = {"<|python_start|>"}},
    {.name = "llama3",
     .shows = {"<|start_header_id|>", "\"parameters\": "},
     THINK,
     .open = "<|python_tag|>", .bare = '{',
     .head = {SPACE("")},
     .call = {SPACE(""), OBJECT},
     .next = ";",
     NAMED("name", "parameters"),
     .controls = {"<think>", "</think>", "<|python_tag|>"}},

    {.name = "think", .shows = {"</think>"}, THINK, .controls = {"<think>", "</think>"}},
    {.name = "plain"},
};
/* clang-format on */
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

enum lf_status lf_answer_format_find(const struct lf_answer_format **out, struct lf_str name, struct lf_err *err)
{
    const struct lf_answer_format *format = lf_answer_format_by_name(name);
    struct lf_buf names;
    if (format) {
        *out = format;
        return LF_OK;
    }
    lf_buf_init(&names, LF_ERR_MESSAGE_BYTES / 2);
    for (int i = 0; lf_answer_format_at(i); i++)
        lf_buf_printf(&names, "%s%s", i ? ", " : "", lf_answer_format_name(lf_answer_format_at(i)));
    enum lf_status status = lf_fail(err, LF_INVALID, "\"%.*s\" is none: expected one of %s", (int)LF_MIN(name.len, 60u),
                                    name.ptr, lf_buf_view(&names).ptr);
    lf_buf_deinit(&names);
    return status;
}

const char *lf_answer_format_name(const struct lf_answer_format *format)
{
    return format->name;
}

bool lf_answer_format_has_tools(const struct lf_answer_format *format)
{
    return format->is_channels || format->call[0].kind != LF_STEP_END;
}

bool lf_answer_format_has_reasoning(const struct lf_answer_format *format)
{
    return format->is_channels || format->think != NULL;
}

bool lf_answer_format_shows_reasoning(const struct lf_answer_format *format, struct lf_str source)
{
    if (format->is_channels || !format->think) return format->is_channels;
    return lf_str_find(source, lf_str_c(format->think)) >= 0 || lf_str_find(source, lf_str_c(format->think_end)) >= 0;
}
