/* What an answer may be: reasoning, then text or calls, from the same rows that the parser reads (answer_impl.h).
 *
 *     REQUIRED    reasoning?  run (after run)*
 *     AUTO        reasoning?  (text-up-to-open run)*  text-without-open
 *     run         open head call (between next call)* close
 *
 * Where models call in the middle of their reasoning (calls_end_think) it may also end so: what follows is then the
 * rest of the answer behind its first run.
 *
 * The white space is what the templates write, so that a call is spelled as the model has learned it. Where the model
 * may write a marker as a token or as text, both may come: the parser reads both. */
#include "core/check.h"
#include "core/work.h"
#include "template/answer/answer_grammar.h"

enum { ARENA_BYTES = 16 * 1024, ARENA_CEILING = 16 * 1024 * 1024 };

static struct lf_grammar_part repeat(struct lf_answer_builder *b, struct lf_grammar_part part, uint32_t min,
                                     uint32_t max)
{
    return lf_answer_part_repeat(b, part, min, max);
}

static struct lf_grammar_part text_part(struct lf_answer_builder *b, const char *text)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_text(&list, text);
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

static struct lf_grammar_part either(struct lf_answer_builder *b, struct lf_grammar_part x, struct lf_grammar_part y)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_part(&list, x);
    lf_answer_list_part(&list, y);
    return lf_answer_list_end(&list, LF_PART_ALTERNATIVE);
}

/* ---- calls ---- */

static struct lf_grammar_part arguments(struct lf_answer_builder *b, const struct lf_tool *tool)
{
    struct lf_json_value none = {0};
    return lf_answer_part_schema(b, tool, tool->strict ? tool->schema : none);
}

static void list_object(struct lf_answer_list *list, const struct lf_tool *tool)
{
    const struct lf_answer_format *f = list->builder->format;
    lf_answer_list_text(list, "{");
    if (f->id_key) {
        lf_answer_list_text(list, "\"");
        lf_answer_list_text(list, f->id_key);
        lf_answer_list_text(list, "\": \"");
        lf_answer_list_part(list, lf_answer_part_regex("[0-9]{1,4}"));
        lf_answer_list_text(list, "\", ");
    }
    lf_answer_list_text(list, "\"");
    lf_answer_list_text(list, f->name_key);
    lf_answer_list_text(list, "\": \"");
    lf_answer_list_str(list, tool->name);
    lf_answer_list_text(list, "\", \"");
    lf_answer_list_text(list, f->arguments_key);
    lf_answer_list_text(list, "\": ");
    lf_answer_list_part(list, arguments(list->builder, tool));
    lf_answer_list_text(list, "}");
}

static void list_step(struct lf_answer_list *list, const struct lf_answer_step *step, const struct lf_tool *tool)
{
    switch (step->kind) {
    case LF_STEP_LITERAL:
    case LF_STEP_SPACE:
    case LF_STEP_UNTIL:
        lf_answer_list_text(list, step->text);
        break;
    case LF_STEP_DIGITS:
        lf_answer_list_part(list, lf_answer_part_regex("[0-9]{1,4}"));
        break;
    case LF_STEP_NAME:
        lf_answer_list_str(list, tool->name);
        break;
    case LF_STEP_ARGUMENTS:
        lf_answer_list_part(list, arguments(list->builder, tool));
        break;
    case LF_STEP_OBJECT:
        list_object(list, tool);
        break;
    case LF_STEP_PARAMETERS:
        lf_answer_list_parameters(list, tool);
        break;
    case LF_STEP_GEMMA:
        lf_answer_list_gemma(list, tool);
        break;
    case LF_STEP_PYTHON:
        lf_answer_list_python(list, tool);
        break;
    case LF_STEP_END:
        break;
    }
}

/* One call of any of the tools. */
static struct lf_grammar_part call(struct lf_answer_builder *b)
{
    struct lf_answer_list tools = lf_answer_list_begin(b);
    for (size_t i = 0; i < b->rules->n_tools && b->status == LF_OK; i++) {
        struct lf_answer_list list = lf_answer_list_begin(b);
        for (const struct lf_answer_step *step = b->format->call; step->kind != LF_STEP_END; step++)
            list_step(&list, step, &b->rules->tools[i]);
        lf_answer_list_part(&tools, lf_answer_list_end(&list, LF_PART_SEQUENCE));
    }
    return lf_answer_list_end(&tools, LF_PART_ALTERNATIVE);
}

/* What stands behind the marker that opens calls. */
static void list_calls(struct lf_answer_list *list)
{
    struct lf_answer_builder *b = list->builder;
    const struct lf_answer_format *f = b->format;
    for (const struct lf_answer_step *step = f->head; step->kind != LF_STEP_END; step++) list_step(list, step, NULL);
    lf_answer_list_part(list, call(b));
    if (b->rules->parallel && (f->between || f->next)) {
        struct lf_answer_list more = lf_answer_list_begin(b);
        lf_answer_list_text(&more, f->between);
        lf_answer_list_text(&more, f->next);
        if (f->next && f->call[0].kind == LF_STEP_SPACE) /* as JSON is written behind a comma, by templates too */
            lf_answer_list_part(&more, repeat(b, text_part(b, " "), 0, 1));
        lf_answer_list_part(&more, call(b));
        lf_answer_list_part(list, repeat(b, lf_answer_list_end(&more, LF_PART_SEQUENCE), 0, 0));
    }
    lf_answer_list_text(list, f->close_lead);
    lf_answer_list_text(list, f->close);
}

static struct lf_grammar_part run_of_calls(struct lf_answer_builder *b)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    if (b->format->bare) {
        lf_answer_list_part(&list, repeat(b, text_part(b, b->format->open), 0, 1));
    } else {
        lf_answer_list_text(&list, b->format->open);
    }
    list_calls(&list);
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* One call or more, and nothing else. */
static struct lf_grammar_part required(struct lf_answer_builder *b)
{
    const struct lf_answer_format *f = b->format;
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_part(&list, run_of_calls(b));
    if (b->rules->parallel && !f->between && !f->next) {
        struct lf_answer_list more = lf_answer_list_begin(b);
        lf_answer_list_text(&more, f->call_after);
        lf_answer_list_part(&more, run_of_calls(b));
        lf_answer_list_part(&list, repeat(b, lf_answer_list_end(&more, LF_PART_SEQUENCE), 0, 0));
    }
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* Text with runs of calls behind markers in it, without end or none. */
static void list_text_and_runs(struct lf_answer_list *list, bool may_call)
{
    struct lf_answer_builder *b = list->builder;
    if (may_call) {
        struct lf_answer_list calls = lf_answer_list_begin(b);
        lf_answer_list_part(&calls, lf_answer_part_until(b, b->format->open));
        list_calls(&calls);
        uint32_t most = b->rules->parallel ? 0 : 1;
        lf_answer_list_part(list, repeat(b, lf_answer_list_end(&calls, LF_PART_SEQUENCE), 0, most));
    }
    lf_answer_list_part(list, lf_answer_part_free(b, b->format->open, NULL));
}

static struct lf_grammar_part text_and_marked_calls(struct lf_answer_builder *b)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    list_text_and_runs(&list, true);
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* Llama's calls have no marker that tells them from an answer in JSON, or in brackets. Where a tool is strict, an
 * answer that begins as the template writes a call is one (in brackets: as any name would); so text is what leaves that
 * beginning, or the marker, at some letter or ends in it. */
static struct lf_grammar_part text_or_bare_calls(struct lf_answer_builder *b)
{
    static const char no_object[] = "[^{<]|\\{[^\"]|\\{\"[^n]|\\{\"n[^a]|\\{\"na[^m]|\\{\"nam[^e]|\\{\"name[^\"]|"
                                    "\\{\"name\"[^:]|\\{\"name\":[^ ]|\\{\"name\": [^\"]|<[^|]|<\\|[^p]|<\\|p[^y]";
    static const char object_ends[] = "(\\{(\"(n(a(m(e(\"(: ?)?)?)?)?)?)?)?|<\\|?)?";
    static const char no_list[] = "[^\\[<]|\\[[^A-Za-z_ \\n]|<[^|]|<\\|[^p]|<\\|p[^y]", list_ends[] = "(\\[|<\\|?)?";
    bool is_object = b->format->bare == '{';
    struct lf_answer_list text = lf_answer_list_begin(b);
    lf_answer_list_part(&text, lf_answer_part_regex(is_object ? no_object : no_list));
    lf_answer_list_part(&text, text_and_marked_calls(b));
    struct lf_grammar_part longer = lf_answer_list_end(&text, LF_PART_SEQUENCE);
    return either(b, required(b), either(b, longer, lf_answer_part_regex(is_object ? object_ends : list_ends)));
}

/* Text with calls in it. */
static struct lf_grammar_part text_and_calls(struct lf_answer_builder *b)
{
    bool any_strict = false;
    for (size_t i = 0; i < b->rules->n_tools; i++) any_strict = any_strict || b->rules->tools[i].strict;
    return b->format->bare && any_strict ? text_or_bare_calls(b) : text_and_marked_calls(b);
}

/* ---- reasoning ---- */

enum reasoning {
    REASONING_NONE,
    REASONING_MAY, /* the model may begin it */
    REASONING_OPEN /* the prompt has opened it */
};

static enum reasoning reasoning_of(const struct lf_answer_builder *b)
{
    bool is_closed;
    if (!b->format->think) return REASONING_NONE;
    if (lf_answer_prompt_opens(b->format, b->rules->prompt_end, &is_closed)) return REASONING_OPEN;
    return !is_closed && b->rules->reasoning ? REASONING_MAY : REASONING_NONE;
}

/* Reasoning that comes first: the rest of what the prompt has opened, or all of it where the model may. ends_in_calls:
 * it has no calls in it, for these would end it. */
static void list_reasoning(struct lf_answer_list *list, enum reasoning reasoning, bool ends_in_calls)
{
    struct lf_answer_builder *b = list->builder;
    const struct lf_answer_format *f = b->format;
    struct lf_answer_list block = lf_answer_list_begin(b);
    if (reasoning != REASONING_OPEN) lf_answer_list_text(&block, f->think);
    if (ends_in_calls) {
        lf_answer_list_part(&block, lf_answer_part_free(b, f->think_end, f->open));
        lf_answer_list_text(&block, f->think_end);
    } else {
        lf_answer_list_part(&block, lf_answer_part_until(b, f->think_end));
    }
    lf_answer_list_part(&block, repeat(b, text_part(b, "\n"), 0, 2));
    struct lf_grammar_part part = lf_answer_list_end(&block, LF_PART_SEQUENCE);
    lf_answer_list_part(list, reasoning == REASONING_OPEN ? part : repeat(b, part, 0, 1));
}

/* Reasoning that calls end, and what may come behind them. */
static struct lf_grammar_part reasoning_and_calls(struct lf_answer_builder *b, enum reasoning reasoning, bool may_talk)
{
    const struct lf_answer_format *f = b->format;
    struct lf_answer_list list = lf_answer_list_begin(b);
    if (reasoning != REASONING_OPEN) lf_answer_list_text(&list, f->think);
    lf_answer_list_part(&list, lf_answer_part_free(b, f->think_end, f->open));
    if (may_talk && !b->rules->content) {
        lf_answer_list_part(&list, run_of_calls(b));
        list_text_and_runs(&list, b->rules->parallel);
    } else {
        lf_answer_list_part(&list, required(b));
    }
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* ---- messages with headers (gpt-oss) ---- */

/* A message that another one follows. */
static struct lf_grammar_part channel_message(struct lf_answer_builder *b, const char *header)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_text(&list, header);
    lf_answer_list_part(&list, lf_answer_part_until(b, "<|end|>"));
    lf_answer_list_text(&list, "<|start|>assistant");
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

static struct lf_grammar_part channel_call(struct lf_answer_builder *b)
{
    struct lf_answer_list tools = lf_answer_list_begin(b);
    for (size_t i = 0; i < b->rules->n_tools && b->status == LF_OK; i++) {
        struct lf_answer_list list = lf_answer_list_begin(b);
        lf_answer_list_text(&list, "<|channel|>commentary to=functions.");
        lf_answer_list_str(&list, b->rules->tools[i].name);
        lf_answer_list_text(&list, " <|constrain|>json<|message|>");
        lf_answer_list_part(&list, arguments(b, &b->rules->tools[i]));
        lf_answer_list_part(&tools, lf_answer_list_end(&list, LF_PART_SEQUENCE));
    }
    return lf_answer_list_end(&tools, LF_PART_ALTERNATIVE);
}

static struct lf_grammar_part channel_text(struct lf_answer_builder *b)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_text(&list, "<|channel|>final<|message|>");
    lf_answer_list_part(&list, b->rules->content ? *b->rules->content : lf_answer_part_free(b, NULL, NULL));
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* A token that ends a call ends the answer, so there is one of them. */
static struct lf_grammar_part channels(struct lf_answer_builder *b, bool may_call, bool may_talk)
{
    struct lf_answer_list list = lf_answer_list_begin(b), before = lf_answer_list_begin(b);
    if (b->rules->reasoning) lf_answer_list_part(&before, channel_message(b, "<|channel|>analysis<|message|>"));
    if (may_talk) lf_answer_list_part(&before, channel_message(b, "<|channel|>commentary<|message|>"));
    struct lf_grammar_part messages = lf_answer_list_end(&before, LF_PART_ALTERNATIVE);
    if (messages.n_parts) lf_answer_list_part(&list, repeat(b, messages, 0, 0));
    if (may_call && may_talk) {
        lf_answer_list_part(&list, either(b, channel_text(b), channel_call(b)));
    } else {
        lf_answer_list_part(&list, may_call ? channel_call(b) : channel_text(b));
    }
    return lf_answer_list_end(&list, LF_PART_SEQUENCE);
}

/* ---- the whole ---- */

static struct lf_grammar_part whole(struct lf_answer_builder *b, bool may_call)
{
    const struct lf_answer_rules *r = b->rules;
    bool may_talk = !may_call || r->choice != LF_TOOL_CHOICE_REQUIRED;
    if (b->format->is_channels) return channels(b, may_call, may_talk);
    enum reasoning reasoning = reasoning_of(b);
    bool ends_in_calls = reasoning != REASONING_NONE && may_call && b->format->calls_end_think;
    struct lf_answer_list list = lf_answer_list_begin(b);
    if (reasoning != REASONING_NONE) list_reasoning(&list, reasoning, ends_in_calls);
    if (!may_call) {
        lf_answer_list_part(&list, *r->content);
    } else if (!may_talk) {
        lf_answer_list_part(&list, required(b));
    } else if (r->content) {
        lf_answer_list_part(&list, either(b, *r->content, required(b)));
    } else {
        lf_answer_list_part(&list, text_and_calls(b));
    }
    struct lf_grammar_part part = lf_answer_list_end(&list, LF_PART_SEQUENCE);
    return ends_in_calls ? either(b, part, reasoning_and_calls(b, reasoning, may_talk)) : part;
}

enum lf_status lf_answer_format_grammar(struct lf_grammar **out, const struct lf_answer_format *format,
                                        const struct lf_answer_rules *rules, struct lf_work *work, struct lf_err *err)
{
    bool may_call = rules->choice != LF_TOOL_CHOICE_NONE && rules->n_tools > 0 && lf_answer_format_has_tools(format);
    struct lf_answer_builder b = {.format = format, .rules = rules, .err = err};
    struct lf_grammar *grammar = NULL;
    enum lf_status status = LF_OK;
    if (may_call || rules->content) {
        lf_arena_init_in(&b.arena, ARENA_BYTES, ARENA_CEILING, lf_work_memory(work));
        struct lf_grammar_part root = whole(&b, may_call);
        status = b.status == LF_OK ? lf_grammar_of_parts(&grammar, &root, work, err) : b.status;
        if (b.status == LF_NO_MEMORY) lf_fail(err, LF_NO_MEMORY, "no memory for the grammar of the tools");
        if (b.status == LF_LIMIT)
            lf_fail(err, LF_LIMIT, "the schemas of the tools take more than %d bytes in the form of calls",
                    ARENA_CEILING);
        lf_arena_deinit(&b.arena);
    }
    if (status == LF_OK) *out = grammar;
    return status;
}
