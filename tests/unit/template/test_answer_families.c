/* How each family of models writes its calls and its reasoning; test_answer_format.c has what all of them share. */
#include "tests/unit/template/answer_rig.h"

static void xml_calls(void **state)
{
    static const struct answer_case cases[] = {
        {"qwen3_xml", NULL,
         "I "
         "look.\n<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</"
         "parameter>\n"
         "<parameter=options>\n{\"a\": [1, "
         "\"x\"]}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get>\n"
         "</function>\n</tool_call>",
         "T(I look.)C(weather)A({\"city\": \"Rome\", \"days\": 3, \"options\": {\"a\": [1, \"x\"]}})EC(get)A({})E"},
        /* Qwen3.5's template has an empty line before the first call, and any number of newlines is text but these */
        {"qwen3_xml", "<think>\n\n</think>\n\n", "I look.\n\n\n<tool_call>\n<function=get>\n</function>\n</tool_call>",
         "T(I look.\n)C(get)A({})E"},
        {"qwen3_xml", "<think>\n", "a\n</think>\n\nI look.\n\n<tool_call>\n<function=get>\n</function>\n</tool_call>",
         "R(a)T(I look.)C(get)A({})E"},
        /* strings stay strings, and are escaped; what is no JSON is a string; words of Python */
        {"qwen3_xml", NULL,
         "<tool_call><function=weather><parameter=city>5</parameter><parameter=note>\n\n a \"b\"\\\t<\n\n</parameter>"
         "<parameter=days>three\n</parameter><parameter=options>True</parameter><parameter=new>True</parameter>"
         "</function></tool_call>",
         "C(weather)A({\"city\": \"5\", \"note\": \"\\n a \\\"b\\\"\\\\\\u0009<\\n\", \"days\": \"three\", "
         "\"options\": true, "
         "\"new\": \"True\"})E"},
        {"qwen3_xml", NULL,
         "<tool_call><function=weather><parameter=note></para</parameter></parameter>\n</function></tool_call>",
         "C(weather)A({\"note\": \"</para\")T(</parameter>\n</function></tool_call>)"},
        {"qwen3_xml", NULL, "<tool_call>\n<function=weather_to>", "T(<tool_call>\n<function=weather_to>)"},
        {"qwen3_xml", NULL, "<tool_call>\n<function=weather>\nno", "T(<tool_call>\n<function=weather>\nno)"},
        {"qwen3_xml", NULL, "<tool_call>\n<function=weather>\n<parameter=city>\nRo\n</para",
         "C(weather)A({\"city\": \"Ro)"},
        {"qwen3_xml", NULL, "<tool_call>\n<function=weather>\n<parameter=days>\n3", "C(weather)A({\"days\": )"},
        {"glm", "<think>",
         "\nrain\n</think>\nI "
         "look.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>"
         "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>get</tool_call>",
         "R(rain)T(I look.)C(weather)A({\"city\": \"Rome\", \"days\": 3})EC(get)A({})E"},
        {"glm", "</think>", "<tool_call>weather<arg_key>ci\"ty</arg_key><arg_value>é</arg_value></tool_call>",
         "C(weather)A({\"ci\\\"ty\": \"é\"})E"},
        {"glm", NULL, "<tool_call>weather is fine</tool_call>", "T(<tool_call>weather is fine</tool_call>)"},
        {"minimax_m2", "<think>\n",
         "a\n</think>\n\nb\n<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Rome</parameter>\n"
         "<parameter name=\"days\">3</parameter>\n</invoke>\n<invoke name=\"get\">\n</invoke>\n</minimax:tool_call>",
         "R(a)T(b)C(weather)A({\"city\": \"Rome\", \"days\": 3})EC(get)A({})E"},
        {"deepseek_v4", "<think>",
         "a</think>b\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" "
         "string=\"true\">Rome"
         "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"note\" string=\"false\">[1]</｜DSML｜parameter>\n"
         "<｜DSML｜parameter name=\"days\" string=\"true\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
         "<｜DSML｜invoke name=\"get\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
         "R(a)T(b)C(weather)A({\"city\": \"Rome\", \"note\": [1], \"days\": \"3\"})EC(get)A({})E"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

/* Values as their types have it: a string stays one, whatever it looks like; what may be a string or something else is
 * that something where it is JSON of it. */
static void values_are_of_the_types_of_their_schema(void **state)
{
#define OPEN        "<tool_call>\n<function=typed>\n"
#define VALUE(p, v) "<parameter=" p ">\n" v "\n</parameter>\n"
#define CLOSE       "</function>\n</tool_call>"
    static const struct answer_case cases[] = {
        {"qwen3_xml", NULL,
         OPEN VALUE("text", "5") VALUE("maybe", "5") VALUE("either", "5") VALUE("n", "5") VALUE("any", "5") CLOSE,
         "C(typed)A({\"text\": \"5\", \"maybe\": \"5\", \"either\": 5, \"n\": 5, \"any\": 5})E"},
        {"qwen3_xml", NULL,
         OPEN VALUE("text", "null") VALUE("maybe", "null") VALUE("either", "null") VALUE("list", "null") CLOSE,
         "C(typed)A({\"text\": \"null\", \"maybe\": null, \"either\": \"null\", \"list\": null})E"},
        {"qwen3_xml", NULL,
         OPEN VALUE("text", "None") VALUE("maybe", " None ") VALUE("either", "None") VALUE("list", "None") CLOSE,
         "C(typed)A({\"text\": \"None\", \"maybe\": null, \"either\": \"None\", \"list\": null})E"},
        {"qwen3_xml", NULL,
         OPEN VALUE("text", "true") VALUE("maybe", "true") VALUE("either", "True") VALUE("ok", "True") CLOSE,
         "C(typed)A({\"text\": \"true\", \"maybe\": \"true\", \"either\": \"True\", \"ok\": true})E"},
        /* a string's own quotes; and those of one that other JSON stands beside */
        {"qwen3_xml", NULL,
         OPEN VALUE("text", "\"a\"") VALUE("maybe", "\"a\"") VALUE("either", "\"5\"") VALUE("any", "\"a\"") CLOSE,
         "C(typed)A({\"text\": \"\\\"a\\\"\", \"maybe\": \"\\\"a\\\"\", \"either\": \"5\", \"any\": \"a\"})E"},
        {"qwen3_xml", NULL,
         OPEN VALUE("maybe", "{\"a\": 1}\n[2]") VALUE("either", "[1]") VALUE("list", "[1, {\"a\": -2.5e3}]") CLOSE,
         "C(typed)A({\"maybe\": \"{\\\"a\\\": 1}\\n[2]\", \"either\": \"[1]\", \"list\": [1, {\"a\": -2.5e3}]})E"},
        {"qwen3_xml", NULL, OPEN VALUE("maybe", "") VALUE("either", "") VALUE("any", " \n no") VALUE("n", "") CLOSE,
         "C(typed)A({\"maybe\": \"\", \"either\": \"\", \"any\": \" \\n no\", \"n\": \"\"})E"},
        {"qwen3_xml", NULL, OPEN VALUE("maybe", "nullable\n") VALUE("either", "-") VALUE("n", "many") CLOSE,
         "C(typed)A({\"maybe\": \"nullable\\n\", \"either\": \"-\", \"n\": \"many\"})E"},
        /* what cannot be anything but a string goes out as it comes */
        {"qwen3_xml", NULL, OPEN "<parameter=maybe>\nRo", "C(typed)A({\"maybe\": \"Ro)"},
        {"qwen3_xml", NULL, OPEN "<parameter=maybe>\nnul", "C(typed)A({\"maybe\": )"},
        {"glm", NULL, "<tool_call>typed<arg_key>maybe</arg_key><arg_value>5</arg_value></tool_call>",
         "C(typed)A({\"maybe\": \"5\"})E"},
        {"minimax_m2", NULL,
         "<minimax:tool_call>\n<invoke name=\"typed\">\n<parameter "
         "name=\"maybe\">5</parameter>\n</invoke>\n</minimax:tool_call>",
         "C(typed)A({\"maybe\": \"5\"})E"},
        /* the model says itself what it is */
        {"deepseek_v4", NULL,
         "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"typed\">\n<｜DSML｜parameter name=\"maybe\" string=\"false\">"
         "\"a\"</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
         "C(typed)A({\"maybe\": \"a\"})E"},
    };
#undef OPEN
#undef VALUE
#undef CLOSE
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

/* Qwen3.5 and 3.6 call a tool while they reason, now and then, and leave the reasoning open. */
static void a_call_ends_the_reasoning_that_it_stands_in(void **state)
{
    static const struct answer_case cases[] = {
        {"qwen3_xml", "<think>\n", "Rome then.\n<tool_call>\n<function=get>\n</function>\n</tool_call>",
         "R(Rome then.)C(get)A({})E"},
        {"qwen3_xml", "<think>\n",
         "<tool_call>\n<function=get>\n</function>\n</tool_call>\n<tool_call>\n<function=get>\n</function>\n</"
         "tool_call>",
         "C(get)A({})EC(get)A({})E"},
        {"qwen3_xml", NULL, "<think>\na\n<tool_call>\n<function=get>\n</function>\n</tool_call>\nb",
         "R(a)C(get)A({})ET(b)"},
        {"qwen3_xml", "<think>\n", "a\n<tool_call>\n<function=weather>\n<parameter=city>\nRo",
         "R(a)C(weather)A({\"city\": \"Ro)"},
        {"qwen3_xml", "<think>\n", "a\n<tool_call>\n<function=get>\n</function>\n</tool_call>\n</think>\n\nb</think>",
         "R(a)C(get)A({})ET(b</think>)"},
        /* talk about calls is no call */
        {"qwen3_xml", "<think>\n", "in <tool_call> tags, <tool_call>\n<function=none>\n</think>\n\nb",
         "R(in <tool_call> tags, <tool_call>\n<function=none>)T(b)"},
        /* other families close their reasoning */
        {"deepseek_v31", "<think>", "a<｜tool▁calls▁begin｜></think>b", "R(a<｜tool▁calls▁begin｜>)T(b)"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

static void calls_of_a_name_and_json(void **state)
{
    static const struct answer_case cases[] = {
        {"deepseek_r1", "<think>\n",
         "a\n</think>\n\nb\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" ROME
         "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{}\n```<｜tool▁call▁end｜>"
         "<｜tool▁calls▁end｜>",
         "R(a)T(b)C(weather)A(" ROME ")EC(get)A({})E"},
        {"deepseek_v31", "<think></think>",
         "b<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" ROME
         "<｜tool▁call▁end｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>c",
         "T(b)C(weather)A(" ROME ")EC(get)A({})ET(c)"},
        {"deepseek_v31", NULL,
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call",
         "C(get)A({})E"},
        {"kimi_k2", NULL,
         "b<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>" ROME
         "<|tool_call_end|><|tool_call_begin|>functions.get:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_"
         "calls_section_end|>",
         "T(b)C(weather)A(" ROME ")EC(get)A({})E"},
        {"kimi_k2", NULL,
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.rain:0<|tool_call_argument_begin|>{}",
         "T(<|tool_calls_section_begin|><|tool_call_begin|>functions.rain:0<|tool_call_argument_begin|>{})"},
        {"mistral_args", NULL,
         "[THINK]a[/THINK]b[TOOL_CALLS]weather[ARGS]" ROME "[TOOL_CALLS]get[CALL_ID]a1b2c3d4e[ARGS]{}",
         "R(a)T(b)C(weather)A(" ROME ")EC(get)A({})E"},
        {"mistral_args", NULL, "[TOOL_CALLS]getting[ARGS]{}", "T([TOOL_CALLS]getting[ARGS]{})"},
        {"apertus", NULL,
         "<|inner_prefix|>a<|inner_suffix|>b<|tools_prefix|>[{\"weather\": " ROME "}, {\"get\": {}}]<|tools_suffix|>",
         "R(a)T(b)C(weather)A(" ROME ")EC(get)A({})E"},
        {"gemma4", "<|channel>thought\n<channel|>",
         "<|tool_call>call:weather{city:<|\"|>Rome <\"{}<|\"|>,days:3,options:{a:[<|\"|>x<|\"|>,true,-1.5,[]],<|\"|>b "
         "c<|\"|>:None}}"
         "<tool_call|><|tool_call>call:get{}<tool_call|>",
         "C(weather)A({\"city\":\"Rome <\\\"{}\",\"days\":3,\"options\":{\"a\":[\"x\",true,-1.5,[]],\"b "
         "c\":\"None\"}})EC(get)A({})E"},
        {"gemma4", "model\n", "<|channel>thought\na\n<channel|>b", "R(a\n)T(b)"},
        {"gemma4", NULL, "<|tool_call>call:get{ a:[ 1, {<|\"|>k<|\"|>:[[2] ]} ] , b: <|\"|>x<|\"|>}<tool_call|>",
         "C(get)A({\"a\":[1,{\"k\":[[2]]}],\"b\":\"x\"})E"},
        {"gemma4", NULL, "<|tool_call>call:get{<|\"|>a<|\"|>x}", "C(get)A({\"a\")T(x})"},
        {"gemma4", NULL, "<|tool_call>call:get{a:1,}<tool_call|>", "C(get)A({\"a\":1,)T(}<tool_call|>)"},
        {"gemma4", NULL, "<|tool_call>call:get{a:[1}<tool_call|>", "C(get)A({\"a\":[1)T(}<tool_call|>)"},
        {"gemma4", NULL, "<|tool_call>call:get{a:,}", "C(get)A({\"a\":)T(,})"},
        {"gemma4", NULL, "<|tool_call>call:get{a:[,]}", "C(get)A({\"a\":[)T(,]})"},
        {"gemma4", NULL, "<|tool_call>call:get{<|a", "C(get)A({)T(<|a)"},
        {"gemma4", NULL, "<|tool_call>call:get{{}", "C(get)A({)T({})"},
        {"gemma4", NULL, "<|tool_call>call:get(a=1)", "T(<|tool_call>call:get(a=1))"},
        {"deepseek_v31", NULL, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>[]",
         "T(<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>[])"},
        {"deepseek_v31", NULL, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"a\":oh",
         "C(get)A({\"a\":)T(oh)"},
        {"gemma4", NULL, "<|tool_call>call:get{a}<tool_call|>", "C(get)A({\"a)T(}<tool_call|>)"},
        {"gemma4", NULL, "<|tool_call>call:get{a:<|\"|>x<|\"", "C(get)A({\"a\":\"x)"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

static void calls_as_json_objects(void **state)
{
    static const struct answer_case cases[] = {
        {"mistral", NULL,
         "b[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": " ROME
         ", \"id\": \"abcdefghi\"}, {\"name\": \"get\", \"arguments\": {}}]",
         "T(b)C(weather)A(" ROME ")EC(get)A({})E"},
        {"mistral", NULL, "[TOOL_CALLS][]", "T([TOOL_CALLS][])"},
        /* what begins like another call, directly behind one, and is none, is text from its { on */
        {"hermes", NULL, "<tool_call>{\"name\": \"get\", \"arguments\": {}}{\"name\": \"rain\", \"arguments\": {}}",
         "C(get)A({})ET({\"name\": \"rain\", \"arguments\": {}})"},
        {"gigachat", NULL, "<|function_call|>{\"name\": \"get\", \"arguments\": {}} {1}", "C(get)A({})ET( {1})"},
        {"mistral", NULL, "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {}}, {\"name\": \"no\"}]",
         "C(get)A({})ET(, {\"name\": \"no\"}])"},
        {"nemotron", "<think>\n",
         "a\n</think>\n\n<TOOLCALL>[{\"name\": \"weather\", \"arguments\": " ROME
         "}, {\"name\": \"get\", \"arguments\": {}}]</TOOLCALL>\n",
         "R(a)C(weather)A(" ROME ")EC(get)A({})ET(\n)"},
        {"command", NULL,
         "<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
         "\"weather\", "
         "\"parameters\": " ROME
         "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"get\", \"parameters\": {}}\n]<|END_ACTION|>",
         "R(a)C(weather)A(" ROME ")EC(get)A({})E"},
        {"granite", NULL, "<|tool_call|>[{\"name\": \"weather\", \"arguments\": " ROME "}]", "C(weather)A(" ROME ")E"},
        {"gigachat", NULL, "<|function_call|>{\"name\": \"weather\", \"arguments\": " ROME "}",
         "C(weather)A(" ROME ")E"},
        {"llama3", NULL, "{\"name\": \"weather\", \"parameters\": " ROME "}", "C(weather)A(" ROME ")E"},
        {"llama3", NULL,
         "<|python_tag|>{\"type\": \"function\", \"name\": \"weather\", \"parameters\": " ROME
         "}; {\"name\": \"get\", \"parameters\": {}}",
         "C(weather)A(" ROME ")EC(get)A({})E"},
        /* behind a call nothing is at the beginning any more */
        {"llama3", NULL, "{\"name\": \"get\", \"parameters\": {\"a\"{\"name\": \"get\", \"parameters\": {}}",
         "C(get)A({\"a\")T({\"name\": \"get\", \"parameters\": {}})"},
        {"llama3", NULL, "{\"answer\": 42}", "T({\"answer\": 42})"},
        {"llama3", NULL, "{\"name\": \"Ada\", \"age\": 36}", "T({\"name\": \"Ada\", \"age\": 36})"},
        {"llama3", NULL, "Here: {\"name\": \"get\", \"parameters\": {}}",
         "T(Here: {\"name\": \"get\", \"parameters\": {}})"},
        {"llama3", NULL, "<|python_tag|>print(1)", "T(<|python_tag|>print(1))"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

static void messages_with_headers(void **state)
{
    static const struct answer_case cases[] = {
        {"gpt_oss", "<|start|>assistant",
         "<|channel|>analysis<|message|>Why?<|end|><|start|>assistant<|channel|>final<|message|>So.\n",
         "R(Why?)T(So.\n)"},
        {"gpt_oss", "<|start|>assistant",
         "<|channel|>analysis<|message|>a < b<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
         "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" ROME "<|call|>",
         "R(a < b)T(I look.)C(weather)A(" ROME ")E"},
        {"gpt_oss", NULL, " to=functions.get<|channel|>commentary json<|message|>{}", "C(get)A({})E"},
        {"gpt_oss", NULL,
         "<|channel|>commentary to=functions.get<|message|> {\"a\": 1}<|call|><|start|>assistant to=functions.get_time"
         "<|channel|>commentary<|message|>{}<|call|>",
         "C(get)A({\"a\": 1})EC(get_time)A({})E"},
        {"gpt_oss", NULL, "<|channel|>commentary to=functions.rain<|message|>{}<|call|>",
         "T(<|channel|>commentary to=functions.rain<|message|>{})"},
        {"gpt_oss", NULL, "<|channel|>commentary to=functions.get<|message|>no<|end|>",
         "T(<|channel|>commentary to=functions.get<|message|>no)"},
        {"gpt_oss", NULL, "<|channel|>commentary to=functions.get<|message|>{\"a\": oh<|end|>",
         "C(get)A({\"a\": )T(oh)"},
        {"gpt_oss", NULL, "<|channel|>commentary to=functions.get<|message|>{\"a\": \"x", "C(get)A({\"a\": \"x)"},
        {"gpt_oss", NULL, "<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>", "R(a)T(b)"},
        {"gpt_oss", NULL, "No header <|at all", "T(No header <|at all)"},
        {"gpt_oss", NULL, "<|channel|>anal", ""},
        {"gpt_oss", NULL, "<|channel|>commentary to=functions.get<|message|>{} \nand<|end|>", "C(get)A({})ET(and)"},
        {"gpt_oss", NULL, "<|channel|>final<|message|>a<|start|>assistant<|channel|>final<|message|>b", "T(ab)"},
        {"gpt_oss", NULL, " to", "T( to)"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

/* -- What arguments may hold -- */

/* JSON as a program that asked for it may send it: quotes, backslashes, newlines, tabs, letters of all kinds, markers'
 * own characters; and the same as a model writes it where its format has no JSON. */
#define FILE_JSON                                                                                                      \
    "{\"note\": \"a \\\"b\\\".py\", \"city\": \"def f():\\n\\treturn '<é>' \\\\ {日}\\n\", \"days\": 420, "          \
    "\"options\": false}"
#define FILE_TEXT "def f():\n\treturn '<é>' \\ {日}\n"

static void arguments_keep_what_they_hold(void **state)
{
    static const char made[] =
        "C(weather)A({\"note\": \"a \\\"b\\\".py\", \"city\": \"def f():\\n\\u0009return '<é>' \\\\ {日}\\n\", "
        "\"days\": 420, \"options\": false})E";
    static const char as_written[] = "C(weather)A(" FILE_JSON ")E";
    static const struct answer_case cases[] = {
        {"hermes", NULL, "<tool_call>\n{\"name\": \"weather\", \"arguments\": " FILE_JSON "}\n</tool_call>",
         as_written},
        {"llama3", NULL, "{\"name\": \"weather\", \"parameters\": " FILE_JSON "}", as_written},
        {"mistral", NULL, "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": " FILE_JSON "}]", as_written},
        {"mistral_args", NULL, "[TOOL_CALLS]weather[ARGS]" FILE_JSON, as_written},
        {"gpt_oss", NULL,
         "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" FILE_JSON "<|call|>", as_written},
        {"deepseek_v31", NULL,
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" FILE_JSON
         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         as_written},
        {"kimi_k2", NULL,
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>" FILE_JSON
         "<|tool_call_end|><|tool_calls_section_end|>",
         as_written},
        {"qwen3_xml", NULL,
         "<tool_call>\n<function=weather>\n<parameter=note>\na \"b\".py\n</parameter>\n<parameter=city>\n" FILE_TEXT
         "\n</parameter>\n<parameter=days>\n420\n</parameter>\n<parameter=options>\nFalse\n</parameter>\n</"
         "function>\n</tool_call>",
         made},
        {"glm", NULL,
         "<tool_call>weather\n<arg_key>note</arg_key>\n<arg_value>a "
         "\"b\".py</arg_value>\n<arg_key>city</arg_key>\n<arg_value>" FILE_TEXT
         "</arg_value>\n<arg_key>days</arg_key>\n<arg_value>420</arg_value>\n<arg_key>options</"
         "arg_key>\n<arg_value>false</arg_value>\n</tool_call>",
         made},
        {"minimax_m2", NULL,
         "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"note\">a \"b\".py</parameter>\n<parameter "
         "name=\"city\">" FILE_TEXT "</parameter>\n<parameter name=\"days\">420</parameter>\n<parameter "
         "name=\"options\">false</parameter>\n</invoke>\n</minimax:tool_call>",
         made},
        {"gemma4", NULL,
         "<|tool_call>call:weather{note:<|\"|>a \"b\".py<|\"|>,city:<|\"|>" FILE_TEXT
         "<|\"|>,days:420,options:false}<tool_call|>",
         "C(weather)A({\"note\":\"a \\\"b\\\".py\",\"city\":\"def f():\\n\\u0009return '<é>' \\\\ "
         "{日}\\n\",\"days\":420,\"options\":false})E"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

static void calls_as_in_python(void **state)
{
    static const struct answer_case cases[] = {
        {"lfm2", NULL,
         "<think>\na\n</think>\n\nb<|tool_call_start|>[weather(city=\"Rome\", days=3), get()]<|tool_call_end|>c",
         "R(a)T(b)C(weather)A({\"city\": \"Rome\", \"days\": 3})EC(get)A({})ET(c)"},
        {"pythonic", NULL, "[weather(city='Rome'), get( )]", "C(weather)A({\"city\": \"Rome\"})EC(get)A({})E"},
        {"pythonic", NULL, "<|python_start|>[ get (a=1)]", "T(<|python_start|>[ get (a=1)])"},
        {"pythonic", NULL, "<|python_start|> [ get(a = 1 , b= 2 , ) , get(\n c=3)\n]",
         "C(get)A({\"a\": 1, \"b\": 2})EC(get)A({\"c\": 3})E"},
        /* literals, nested */
        {"pythonic", NULL,
         "[get(a=True, b=False, c=None, d=-1.5e3, e=[1, [], {}, 'x',], f={'k': [True], \"l\": {\"m\": null}, }, "
         "g=Rome, h=[])]",
         "C(get)A({\"a\": true, \"b\": false, \"c\": null, \"d\": -1.5e3, \"e\": [1, [], {}, \"x\"], "
         "\"f\": {\"k\": [true], \"l\": {\"m\": null}}, \"g\": \"Rome\", \"h\": []})E"},
        /* escapes: Python's, JSON's pairs, what is none */
        {"pythonic", NULL,
         "[get(a='\\n\\t\\\\\\'\\\"\\/\\x41\\u00e9\\U0001F600\\ud83d\\ude00\\d\\\n', "
         "b=\"\\ud83dx\\ude00\\ud83d\\ud83d\\ude00\\0\\U00110000\")]",
         "C(get)A({\"a\": \"\\n\\u0009\\\\'\\\"/Aé😀😀\\\\d\", \"b\": \"�x��😀\\ufffd�\"})E"},
        /* texts between quotes as they are: a quote that nothing can follow is a part of them */
        {"lfm2", NULL, "<|tool_call_start|>[get(a='it's \"so\"\n', b={'k's': 'v's'}, c='')]<|tool_call_end|>",
         "C(get)A({\"a\": \"it's \\\"so\\\"\\n\", \"b\": {\"k's\": \"v's\"}, \"c\": \"\"})E"},
        {"pythonic", NULL, "[get(a='b' , c=' ' )]", "C(get)A({\"a\": \"b\", \"c\": \" \"})E"},
        {"pythonic", NULL, "[get(a='b' c')]", "C(get)A({\"a\": \"b' c\"})E"},
        /* no calls: nothing is lost */
        {"pythonic", NULL, "[1] is the source", "T([1] is the source)"},
        {"pythonic", NULL, "[get(\"x\")]", "T([get(\"x\")])"},
        {"pythonic", NULL, "[get(a b)]", "T([get(a b)])"},
        {"pythonic", NULL, "[get(a b=1)]", "T([get(a b=1)])"},
        {"pythonic", NULL, "[get(,)]", "T([get(,)])"},
        {"pythonic", NULL, "[rain(a=1)]", "T([rain(a=1)])"},
        {"pythonic", NULL, "[get", "T([get)"},
        {"pythonic", NULL, "[get(a", "T([get(a)"},
        {"pythonic", NULL, "See [get(a=1)]", "T(See [get(a=1)])"},
        {"lfm2", NULL, "[get(a=1)]", "T([get(a=1)])"},
        /* cut, or no more of a call */
        {"pythonic", NULL, "[get(a=\"x", "C(get)A({\"a\": \"x)"},
        {"pythonic", NULL, "[get(a=Tru", "C(get)A({\"a\": )"},
        {"pythonic", NULL, "[get(a=1", "C(get)A({\"a\": )"},
        {"pythonic", NULL, "[get(a=1)", "C(get)A({\"a\": 1})E"},
        {"pythonic", NULL, "[get(a=1) and more", "C(get)A({\"a\": 1})ET( and more)"},
        {"pythonic", NULL, "[get(a=f(1))]", "C(get)A({\"a\": )T(f(1))])"},
        {"pythonic", NULL, "[get(a=(1, 2))]", "C(get)A({\"a\": )T((1, 2))])"},
        {"pythonic", NULL, "[get(a=1, 2)]", "C(get)A({\"a\": 1)T(2)])"},
        {"pythonic", NULL, "[get(a=[1}]", "C(get)A({\"a\": [)T(1}])"},
        {"pythonic", NULL, "[get(a=[,])]", "C(get)A({\"a\": [)T(,])])"},
        {"pythonic", NULL, "[get(a={1: 2})]", "C(get)A({\"a\": {)T(1: 2})])"},
        {"pythonic", NULL, "[get(a={'k', 1})]", "C(get)A({\"a\": {\"k', 1})])"},
        {"pythonic", NULL, "[get(a=\"\\xg\")]", "C(get)A({\"a\": \")T(g\")])"},
        {"pythonic", NULL, "[get(a=,)]", "C(get)A({\"a\": )T(,)])"},
    };
    (void)state;
    run_cases(cases, LF_N_ELEMS(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xml_calls),
        cmocka_unit_test(values_are_of_the_types_of_their_schema),
        cmocka_unit_test(a_call_ends_the_reasoning_that_it_stands_in),
        cmocka_unit_test(calls_of_a_name_and_json),
        cmocka_unit_test(calls_as_json_objects),
        cmocka_unit_test(calls_as_in_python),
        cmocka_unit_test(messages_with_headers),
        cmocka_unit_test(arguments_keep_what_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
