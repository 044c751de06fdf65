"""openai-python: chat and completions, the helpers that parse and stream, every form of tool_choice."""
import asyncio
import json

import openai

import scenes
from cell import Person, Team, cell, main, same

WEATHER_TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "the city's name"},
                                                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
                   "required": ["city", "unit"], "additionalProperties": False}}}
STRICT_TOOL = {"type": "function", "function": {**WEATHER_TOOL["function"], "strict": True}}
FILE_TOOL = {"type": "function", "function": {
    "name": "write_file", "description": "Writes a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"},
                                                    "mode": {"type": "integer"}, "append": {"type": "boolean"}},
                   "required": ["path", "text", "mode", "append"]}}}
NO_ARGUMENTS = {"type": "function", "function": {"name": "now"}}


def client(t):
    return openai.OpenAI(base_url=t.url, api_key="none", max_retries=0, timeout=60)


def ask(text):
    return [{"role": "user", "content": text}]


def collect(stream):
    """What the chunks of one choice add up to: text, calls by index, finish_reason, how many had a role."""
    text, calls, finish, roles, thought = "", {}, None, 0, ""
    for chunk in stream:
        for choice in chunk.choices:
            d = choice.delta
            roles += d.role is not None
            text += d.content or ""
            thought += getattr(d, "reasoning_content", None) or getattr(d, "reasoning", None) or ""
            for c in d.tool_calls or []:
                if c.index not in calls:
                    assert c.id and c.type == "function" and c.function.name, f"a call begins with {c!r}"
                    calls[c.index] = [c.function.name, c.function.arguments or "", c.id]
                else:
                    assert not c.function.name and not c.id, f"a call goes on with {c!r}"
                    calls[c.index][1] += c.function.arguments
            finish = choice.finish_reason or finish
    same(sorted(calls), list(range(len(calls))))
    same(roles, 1)
    same(len({c[2] for c in calls.values()}), len(calls))
    return text, [(c[0], json.loads(c[1])) for _, c in sorted(calls.items())], finish, thought


def called(message):
    return [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []]


ROME = ("get_weather", {"city": "Rome", "unit": "celsius"})
OSLO = ("get_weather", {"city": "Oslo", "unit": "celsius"})


@cell("chat", "plain")
def chat(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene plain"), max_tokens=200, temperature=0)
    t.same(r.choices[0].message.content, scenes.PLAIN)
    assert r.choices[0].finish_reason in ("stop", "length") and r.usage.completion_tokens > 0


@cell("chat", "plain", stream=True)
def chat_stream(t):
    s = client(t).chat.completions.create(model=t.model, messages=ask("Scene plain"), max_tokens=200, stream=True,
                                          temperature=0, stream_options={"include_usage": True})
    text, calls, finish, _ = collect(s)
    t.same(text, scenes.PLAIN)
    assert finish in ("stop", "length") and not calls


@cell("chat, usage", "plain", stream=True)
def chat_usage(t):
    ask_all = {"model": t.model, "messages": ask("Scene plain"), "max_tokens": 200, "temperature": 0}
    whole = client(t).chat.completions.create(**ask_all).usage
    chunks = list(client(t).chat.completions.create(**ask_all, stream=True, stream_options={"include_usage": True}))
    same([c.usage is not None for c in chunks], [False] * (len(chunks) - 1) + [True])
    last = chunks[-1].usage
    same((chunks[-1].choices, last.prompt_tokens, last.completion_tokens, last.total_tokens),
         ([], whole.prompt_tokens, whole.completion_tokens, whole.total_tokens))


@cell("chat, async", "plain")
async def chat_async(t):
    async with openai.AsyncOpenAI(base_url=t.url, api_key="none", max_retries=0) as c:
        rs = await asyncio.gather(*(c.chat.completions.create(model=t.model, messages=ask("Scene plain"),
                                                              max_tokens=200) for _ in range(4)))
    for r in rs:
        t.same(r.choices[0].message.content, scenes.PLAIN)


@cell("chat, async", "plain", stream=True)
async def chat_async_stream(t):
    async with openai.AsyncOpenAI(base_url=t.url, api_key="none", max_retries=0) as c:
        s = await c.chat.completions.create(model=t.model, messages=ask("Scene plain"), max_tokens=200, stream=True)
        text = "".join([c.choices[0].delta.content or "" async for c in s])
    t.same(text, scenes.PLAIN)


@cell("chat, n and logprobs", "plain")
def logprobs(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene plain"), max_tokens=9, n=2, logprobs=True,
                                          top_logprobs=3, seed=1)
    same(len(r.choices), 2)
    for c in r.choices:
        assert all(len(e.top_logprobs) >= 3 for e in c.logprobs.content), c


@cell("completions", "plain")
def completions(t):
    r = client(t).completions.create(model=t.model, prompt="Scene plain", max_tokens=8, logprobs=2)
    assert r.choices[0].text and r.choices[0].logprobs.tokens


@cell("completions", "plain", stream=True)
def completions_stream(t):
    s = client(t).completions.create(model=t.model, prompt="Scene plain", max_tokens=8, stream=True)
    assert "".join(c.choices[0].text for c in s if c.choices)


@cell("models", "plain")
def models(t):
    ids = [m.id for m in client(t).models.list()]
    assert ids and client(t).models.retrieve(ids[0]).id == ids[0]


@cell("errors", "plain")
def errors(t):
    try:
        client(t).chat.completions.create(model=t.model, messages=ask("x"), temperature=7)
    except openai.BadRequestError as e:
        same(e.param, "temperature")
        assert e.code and e.type and e.message
        return
    raise AssertionError("was not refused")


@cell("parse() with pydantic", "schema")
def parse(t):
    r = client(t).chat.completions.parse(model=t.model, messages=ask("Scene json"), response_format=t.Person,
                                         max_tokens=2000)
    t.person(r.choices[0].message.parsed)


@cell("parse() with pydantic", "schema", stream=True)
def parse_stream(t):
    with client(t).chat.completions.stream(model=t.model, messages=ask("Scene json"), response_format=t.Person,
                                           max_tokens=2000) as s:
        kinds = [e.type for e in s]
        t.person(s.get_final_completion().choices[0].message.parsed)
    assert "content.delta" in kinds and "content.done" in kinds, set(kinds)


@cell("response_format json_object", "schema")
def json_object(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene json"), max_tokens=2000,
                                          response_format={"type": "json_object"})
    assert r.choices[0].finish_reason == "length" or isinstance(json.loads(r.choices[0].message.content), dict)


@cell("response_format json_schema, not strict", "schema")
def json_schema(t):
    r = client(t).chat.completions.create(
        model=t.model, messages=ask("Scene json"), max_tokens=2000,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": t.Person.model_json_schema()}})
    t.person(json.loads(r.choices[0].message.content))


@cell("parse() with nested pydantic", "exact")
def parse_team(t):
    r = client(t).chat.completions.parse(model=t.model, messages=ask("Scene team"), response_format=Team)
    same(r.choices[0].message.parsed.model_dump(), scenes.TEAM)


@cell("tools", "tools")
def tools(t):
    c, messages = client(t), ask("Scene weather: what is the weather in Rome?")
    r = c.chat.completions.create(model=t.model, messages=messages, tools=[WEATHER_TOOL])
    m = r.choices[0].message
    same((called(m), r.choices[0].finish_reason, m.content), ([ROME], "tool_calls", None))
    messages += [m, {"role": "tool", "tool_call_id": m.tool_calls[0].id, "content": scenes.RESULT["Rome"]}]
    r = c.chat.completions.create(model=t.model, messages=messages, tools=[WEATHER_TOOL])
    same((r.choices[0].message.content, r.choices[0].finish_reason), (scenes.WEATHER, "stop"))
    assert not r.choices[0].message.tool_calls


@cell("tools", "tools", stream=True)
def tools_stream(t):
    c, messages = client(t), ask("Scene weather: what is the weather in Rome?")
    text, calls, finish, _ = collect(c.chat.completions.create(model=t.model, messages=messages, tools=[WEATHER_TOOL],
                                                               stream=True))
    same((text, calls, finish), ("", [ROME], "tool_calls"))


def answer_calls(messages, calls):
    """The conversation goes on with an assistant's calls (name, arguments, id) and their results."""
    messages.append({"role": "assistant", "content": None, "tool_calls": [
        {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}} for n, a, i in calls]})
    messages += [{"role": "tool", "tool_call_id": i, "content": scenes.RESULT[a["city"]]} for _, a, i in calls]


@cell("tools, several rounds", "tools")
def rounds(t):
    messages, asked = ask("Scene steps"), []
    while True:
        m = client(t).chat.completions.create(model=t.model, messages=messages, tools=[WEATHER_TOOL]).choices[0].message
        if not m.tool_calls:
            break
        asked += called(m)
        answer_calls(messages, [(c.function.name, json.loads(c.function.arguments), c.id) for c in m.tool_calls])
    same((asked, m.content), ([ROME, OSLO], scenes.BOTH))


@cell("tools, several rounds", "tools", stream=True)
def rounds_stream(t):
    messages, asked = ask("Scene steps"), []
    while True:
        text, calls, finish, _ = collect(client(t).chat.completions.create(
            model=t.model, messages=messages, tools=[WEATHER_TOOL], stream=True))
        if finish != "tool_calls":
            break
        asked += calls
        answer_calls(messages, [(n, a, f"call00{len(asked)}x{i}") for i, (n, a) in enumerate(calls)])
    same((asked, text, finish), ([ROME, OSLO], scenes.BOTH, "stop"))


@cell("tools, text before", "tools")
def spoken(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene spoken"), tools=[WEATHER_TOOL])
    same(called(r.choices[0].message), [ROME])
    assert (r.choices[0].message.content or "").strip() in ("Let me look.", ""), r.choices[0].message.content


@cell("tools, no call", "tools")
def no_call(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene plain"), tools=[WEATHER_TOOL])
    same((called(r.choices[0].message), r.choices[0].message.content), ([], scenes.PLAIN))


@cell("tools, no call", "tools", stream=True)
def no_call_stream(t):
    s = client(t).chat.completions.create(model=t.model, messages=ask("Scene plain"), tools=[WEATHER_TOOL], stream=True)
    same(collect(s)[:3], (scenes.PLAIN, [], "stop"))


@cell("parallel tools", "parallel")
def parallel(t):
    c, messages = client(t), ask("Scene both")
    r = c.chat.completions.create(model=t.model, messages=messages, tools=[WEATHER_TOOL], parallel_tool_calls=True)
    m = r.choices[0].message
    same(called(m), [ROME, OSLO])
    messages.append(m)
    for call in m.tool_calls:
        city = json.loads(call.function.arguments)["city"]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": scenes.RESULT[city]})
    r = c.chat.completions.create(model=t.model, messages=messages, tools=[WEATHER_TOOL])
    same(r.choices[0].message.content, scenes.BOTH)


@cell("parallel tools", "parallel", stream=True)
def parallel_stream(t):
    s = client(t).chat.completions.create(model=t.model, messages=ask("Scene both"), tools=[WEATHER_TOOL], stream=True)
    same(collect(s)[1:3], ([ROME, OSLO], "tool_calls"))


@cell("parallel_tool_calls false", "tools")
def one_at_a_time(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene weather"), tools=[WEATHER_TOOL],
                                          parallel_tool_calls=False)
    same(called(r.choices[0].message), [ROME])


@cell("arguments with quotes and lines", "tools")
def hard(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene file"), tools=[WEATHER_TOOL, FILE_TOOL])
    same(called(r.choices[0].message), [("write_file", scenes.FILE)])


@cell("arguments with quotes and lines", "tools", stream=True)
def hard_stream(t):
    s = client(t).chat.completions.create(model=t.model, messages=ask("Scene file"), tools=[WEATHER_TOOL, FILE_TOOL],
                                          stream=True)
    same(collect(s)[1], [("write_file", scenes.FILE)])


@cell("tool_choice none", "tools")
def choice_none(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene plain"), tools=[WEATHER_TOOL],
                                          tool_choice="none")
    same((called(r.choices[0].message), r.choices[0].message.content), ([], scenes.PLAIN))


def chosen(t, choice, tools=None, stream=False):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene weather"),
                                          tools=tools or [WEATHER_TOOL, FILE_TOOL], tool_choice=choice, stream=stream)
    if stream:
        same(collect(r)[1], [ROME])
    else:
        same((called(r.choices[0].message), r.choices[0].finish_reason in ("tool_calls", "stop")), ([ROME], True))


BY_NAME = {"type": "function", "function": {"name": "get_weather"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [BY_NAME]}}


@cell("tool_choice auto", "tools")
def choice_auto(t):
    chosen(t, "auto")


@cell("tool_choice required", "tools")
def choice_required(t):
    chosen(t, "required")


@cell("tool_choice required", "tools", stream=True)
def choice_required_stream(t):
    chosen(t, "required", stream=True)


@cell("tool_choice by name", "tools")
def choice_named(t):
    chosen(t, BY_NAME)


@cell("tool_choice by name", "tools", stream=True)
def choice_named_stream(t):
    chosen(t, BY_NAME, stream=True)


@cell("tool_choice allowed_tools", "tools")
def choice_allowed(t):
    chosen(t, ALLOWED)


@cell("strict tools", "tools")
def strict(t):
    chosen(t, "auto", [STRICT_TOOL])


@cell("strict tools", "tools", stream=True)
def strict_stream(t):
    chosen(t, "auto", [STRICT_TOOL], stream=True)


@cell("tools without parameters", "tools")
def bare_tool(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene weather"), tools=[WEATHER_TOOL,
                                                                                              NO_ARGUMENTS])
    same(called(r.choices[0].message), [ROME])


@cell("stream helper with tools", "tools", stream=True)
def stream_tools(t):
    tool = openai.pydantic_function_tool(Person)
    with client(t).chat.completions.stream(model=t.model, messages=ask("Scene person"), tools=[tool]) as s:
        kinds = {e.type for e in s}
        call = s.get_final_completion().choices[0].message.tool_calls[0]
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds, kinds
    t.person(call.function.parsed_arguments)


@cell("parse() with pydantic tools", "tools")
def parse_tools(t):
    r = client(t).chat.completions.parse(model=t.model, messages=ask("Scene person"),
                                         tools=[openai.pydantic_function_tool(Person)])
    t.person(r.choices[0].message.tool_calls[0].function.parsed_arguments)


@cell("parse() with nested pydantic tools", "tools")
def parse_team_tool(t):
    r = client(t).chat.completions.parse(model=t.model, messages=ask("Scene team as a tool"),
                                         tools=[openai.pydantic_function_tool(Team)])
    same(r.choices[0].message.tool_calls[0].function.parsed_arguments.model_dump(), scenes.TEAM)


@cell("reasoning", ("reason", "switched"))
def reasoning(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene think"), **t.thinking)
    m = r.choices[0].message
    same((m.content.strip(), m.reasoning_content.strip()), ("It is 42.", scenes.THOUGHT))
    assert r.usage.completion_tokens_details.reasoning_tokens > 0


@cell("reasoning", ("reason", "switched"), stream=True)
def reasoning_stream(t):
    s = client(t).chat.completions.create(model=t.model, messages=ask("Scene think"), stream=True, **t.thinking)
    text, _, _, thought = collect(s)
    same((text.strip(), thought.strip()), ("It is 42.", scenes.THOUGHT))


@cell("reasoning, then tools", ("think", "switched tools"))
def reasoning_tools(t):
    r = client(t).chat.completions.create(model=t.model, messages=ask("Scene consider"), tools=[WEATHER_TOOL], **t.thinking)
    m = r.choices[0].message
    same((called(m), m.reasoning_content.strip()), ([ROME], "I need the weather."))


@cell("reasoning, then tools", ("think", "switched tools"), stream=True)
def reasoning_tools_stream(t):
    s = client(t).chat.completions.create(model=t.model, messages=ask("Scene consider"), tools=[WEATHER_TOOL],
                                          stream=True, **t.thinking)
    _, calls, _, thought = collect(s)
    same((calls, thought.strip()), ([ROME], "I need the weather."))


if __name__ == "__main__":
    main("openai-python")
