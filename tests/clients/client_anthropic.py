"""anthropic: messages, its helpers that stream, parse and run tools, thinking, counting of tokens."""
import asyncio

import anthropic

import scenes
from cell import Target, Team, cell, main, same

Target.drops_bounds = True
WEATHER_TOOL = {"name": "get_weather", "description": "The weather in a city.", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}, "required": ["city"]}}
STRICT_TOOL = {**WEATHER_TOOL, "strict": True, "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["city", "unit"], "additionalProperties": False}}
ROME = ("get_weather", {"city": "Rome", "unit": "celsius"})
OSLO = ("get_weather", {"city": "Oslo", "unit": "celsius"})


def client(t):
    return anthropic.Anthropic(base_url=t.base, api_key="none", max_retries=0, timeout=60)


def ask(text):
    return [{"role": "user", "content": text}]


def text_of(m):
    return "".join(b.text for b in m.content if b.type == "text")


def called(m):
    return [(b.name, b.input) for b in m.content if b.type == "tool_use"]


@cell("messages", "plain")
def messages(t):
    m = client(t).messages.create(model=t.model, max_tokens=200, messages=ask("Scene plain"),
                                  system=[{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}])
    t.same((text_of(m), m.stop_reason), (scenes.PLAIN, "end_turn"))
    assert m.usage.output_tokens > 0


@cell("messages", "plain", stream=True)
def messages_stream(t):
    text, kinds = "", []
    for e in client(t).messages.create(model=t.model, max_tokens=200, messages=ask("Scene plain"), stream=True):
        kinds.append(e.type)
        if e.type == "content_block_delta":
            text += e.delta.text
        if e.type == "message_start":
            assert e.message.usage.input_tokens > 0
        if e.type == "message_delta":
            assert e.usage.output_tokens > 0
    t.same(text, scenes.PLAIN)
    same((kinds[0], kinds[-2], kinds[-1]), ("message_start", "message_delta", "message_stop"))


@cell("messages, async", "plain")
async def messages_async(t):
    async with anthropic.AsyncAnthropic(base_url=t.base, api_key="none", max_retries=0) as c:
        for m in await asyncio.gather(*(c.messages.create(model=t.model, max_tokens=200, messages=ask("Scene plain"))
                                        for _ in range(3))):
            t.same(text_of(m), scenes.PLAIN)


@cell("stream helper", "plain", stream=True)
def helper(t):
    with client(t).messages.stream(model=t.model, max_tokens=200, messages=ask("Scene plain")) as s:
        text = "".join(s.text_stream)
        m = s.get_final_message()
    t.same(text, scenes.PLAIN)
    same(text_of(m), text)


@cell("count_tokens", "plain")
def count_tokens(t):
    assert client(t).messages.count_tokens(model=t.model, messages=ask("Scene plain"), system="x").input_tokens > 0


@cell("count_tokens with tools", "tools")
def count_tools(t):
    c = client(t).messages
    bare = c.count_tokens(model=t.model, messages=ask("Scene plain")).input_tokens
    assert c.count_tokens(model=t.model, messages=ask("Scene plain"), tools=[WEATHER_TOOL]).input_tokens > bare


@cell("models", "plain")
def models(t):
    assert [m.id for m in client(t).models.list()]


@cell("errors", "plain")
def errors(t):
    try:
        client(t).messages.create(model=t.model, max_tokens=0, messages=ask("x"))
    except anthropic.BadRequestError as e:
        same(e.body["error"]["type"], "invalid_request_error")
        return
    raise AssertionError("was not refused")


@cell("parse() with pydantic", "schema")
def parse(t):
    m = client(t).messages.parse(model=t.model, max_tokens=2000, messages=ask("Scene json"), output_format=t.Person)
    t.person(m.parsed_output)


@cell("parse() with pydantic", "schema", stream=True)
def parse_stream(t):
    with client(t).messages.stream(model=t.model, max_tokens=2000, messages=ask("Scene json"), output_format=t.Person) as s:
        for _ in s:
            pass
        t.person(s.get_final_message().parsed_output)


@cell("parse() with nested pydantic", "exact")
def parse_team(t):
    m = client(t).messages.parse(model=t.model, max_tokens=2000, messages=ask("Scene team"), output_format=Team)
    same(m.parsed_output.model_dump(), scenes.TEAM)


@cell("tools", "tools")
def tools(t):
    c, conversation = client(t), ask("Scene weather: what is the weather in Rome?")
    m = c.messages.create(model=t.model, max_tokens=500, messages=conversation, tools=[WEATHER_TOOL])
    same((called(m), m.stop_reason), ([ROME], "tool_use"))
    conversation += [{"role": "assistant", "content": m.content}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": next(b.id for b in m.content if b.type == "tool_use"),
         "content": [{"type": "text", "text": scenes.RESULT["Rome"]}]}]}]
    m = c.messages.create(model=t.model, max_tokens=500, messages=conversation, tools=[WEATHER_TOOL])
    same((text_of(m), m.stop_reason), (scenes.WEATHER, "end_turn"))


@cell("tools", "tools", stream=True)
def tools_stream(t):
    with client(t).messages.stream(model=t.model, max_tokens=500, messages=ask("Scene weather"),
                                   tools=[WEATHER_TOOL]) as s:
        kinds = {e.type for e in s}
        m = s.get_final_message()
    same((called(m), m.stop_reason), ([ROME], "tool_use"))
    assert "input_json" in kinds, kinds


def after_result(t, *more):
    return client(t).messages.create(model=t.model, max_tokens=500, tools=[WEATHER_TOOL], messages=[
        *ask("Scene weather"),
        {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                                          {"type": "tool_use", "id": "a1B2c3D4e", "name": "get_weather",
                                           "input": {"city": "Rome"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a1B2c3D4e", "is_error": True,
                                      "content": "no connection; yesterday 21 degrees"}, *more]}])


@cell("tool_result that is an error", "tools")
def tool_error(t):
    same(text_of(after_result(t)), scenes.WEATHER)


@cell("tool_result, and text behind it", "asked again")
def text_behind(t):
    same(text_of(after_result(t, {"type": "text", "text": "Go on."})), scenes.WEATHER)


@cell("parallel tools", "parallel")
def parallel(t):
    c, conversation = client(t), ask("Scene both")
    m = c.messages.create(model=t.model, max_tokens=500, messages=conversation, tools=[WEATHER_TOOL])
    same(called(m), [ROME, OSLO])
    conversation += [{"role": "assistant", "content": [b.model_dump() for b in m.content]}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": b.id, "content": scenes.RESULT[b.input["city"]]}
        for b in m.content if b.type == "tool_use"]}]
    same(text_of(c.messages.create(model=t.model, max_tokens=500, messages=conversation, tools=[WEATHER_TOOL])),
         scenes.BOTH)


@cell("parallel tools", "parallel", stream=True)
def parallel_stream(t):
    with client(t).messages.stream(model=t.model, max_tokens=500, messages=ask("Scene both"),
                                   tools=[WEATHER_TOOL]) as s:
        began = [e.index for e in s if e.type == "content_block_start" and e.content_block.type == "tool_use"]
        m = s.get_final_message()
    same((called(m), m.stop_reason), ([ROME, OSLO], "tool_use"))
    same(began, [i for i, b in enumerate(m.content) if b.type == "tool_use"])


@cell("tool_choice any", "tools")
def choice_any(t):
    m = client(t).messages.create(model=t.model, max_tokens=500, messages=ask("Scene weather"), tools=[STRICT_TOOL],
                                  tool_choice={"type": "any", "disable_parallel_tool_use": True})
    same((called(m), m.stop_reason), ([ROME], "tool_use"))


@cell("tool_choice any", "tools", stream=True)
def choice_any_stream(t):
    with client(t).messages.stream(model=t.model, max_tokens=500, messages=ask("Scene weather"), tools=[STRICT_TOOL],
                                   tool_choice={"type": "any"}) as s:
        m = s.get_final_message()
    same((called(m), m.stop_reason), ([ROME], "tool_use"))


@cell("tool_choice tool", "tools")
def choice_tool(t):
    m = client(t).messages.create(model=t.model, max_tokens=500, messages=ask("Scene weather"), tools=[WEATHER_TOOL],
                                  tool_choice={"type": "tool", "name": "get_weather"})
    same(called(m), [ROME])


@cell("tool_choice none", "tools")
def choice_none(t):
    m = client(t).messages.create(model=t.model, max_tokens=500, messages=ask("Scene plain"), tools=[WEATHER_TOOL],
                                  tool_choice={"type": "none"})
    same((called(m), text_of(m)), ([], scenes.PLAIN))


@anthropic.beta_tool
def get_weather(city: str, unit: str) -> str:
    """The weather in a city.

    Args:
        city: the city's name
        unit: celsius or fahrenheit
    """
    return scenes.RESULT[city]


@cell("tool runner", "tools")
def runner(t):
    last = client(t).beta.messages.tool_runner(model=t.model, max_tokens=500, tools=[get_weather],
                                               messages=ask("Scene weather")).until_done()
    same(text_of(last), scenes.WEATHER)


@cell("tool runner, several rounds", "tools")
def runner_rounds(t):
    last = client(t).beta.messages.tool_runner(model=t.model, max_tokens=500, tools=[get_weather],
                                               messages=ask("Scene steps")).until_done()
    same(text_of(last), scenes.BOTH)


@cell("tool runner", "tools", stream=True)
def runner_stream(t):
    last = None
    for s in client(t).beta.messages.tool_runner(model=t.model, max_tokens=500, tools=[get_weather],
                                                 messages=ask("Scene weather"), stream=True):
        last = s.get_final_message()
    same(text_of(last), scenes.WEATHER)


THINK = {"type": "enabled", "budget_tokens": 1024}


@cell("thinking", ("reason", "switched"))
def thinking(t):
    c, conversation = client(t), ask("Scene think")
    m = c.messages.create(model=t.model, max_tokens=2000, messages=conversation, thinking=THINK)
    same(m.content[0].type, "thinking")
    same((m.content[0].thinking.strip(), text_of(m).strip()), (scenes.THOUGHT, "It is 42."))
    assert m.content[0].signature
    conversation += [{"role": "assistant", "content": m.content}, {"role": "user", "content": "And again: Scene think"}]
    c.messages.create(model=t.model, max_tokens=2000, messages=conversation, thinking=THINK)


@cell("thinking", ("reason", "switched"), stream=True)
def thinking_stream(t):
    with client(t).messages.stream(model=t.model, max_tokens=2000, messages=ask("Scene think"), thinking=THINK) as s:
        kinds = {e.type for e in s}
        m = s.get_final_message()
    same((m.content[0].thinking.strip(), text_of(m).strip()), (scenes.THOUGHT, "It is 42."))
    assert m.content[0].signature and {"thinking", "signature", "text"} <= kinds, kinds


@cell("thinking adaptive, effort", ("reason", "switched"))
def adaptive(t):
    m = client(t).messages.create(model=t.model, max_tokens=2000, messages=ask("Scene think"),
                                  thinking={"type": "adaptive"}, output_config={"effort": "low"})
    same(text_of(m).strip(), "It is 42.")


@cell("thinking, then tools", ("think", "switched tools"))
def thinking_tools(t):
    c, conversation = client(t), ask("Scene consider")
    m = c.messages.create(model=t.model, max_tokens=2000, messages=conversation, tools=[WEATHER_TOOL], thinking=THINK)
    same((m.content[0].type, called(m)), ("thinking", [ROME]))
    conversation += [{"role": "assistant", "content": m.content}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": m.content[-1].id, "content": scenes.RESULT["Rome"]}]}]
    m = c.messages.create(model=t.model, max_tokens=2000, messages=conversation, tools=[WEATHER_TOOL], thinking=THINK)
    same(text_of(m).strip(), scenes.WEATHER)


@cell("thinking, then tools", ("think", "switched tools"), stream=True)
def thinking_tools_stream(t):
    with client(t).messages.stream(model=t.model, max_tokens=2000, messages=ask("Scene consider"), tools=[WEATHER_TOOL],
                                   thinking=THINK) as s:
        kinds = {e.type for e in s}
        m = s.get_final_message()
    same((m.content[0].type, m.content[0].thinking.strip(), called(m), m.stop_reason),
         ("thinking", "I need the weather.", [ROME], "tool_use"))
    assert m.content[0].signature and {"thinking", "signature", "input_json"} <= kinds, kinds


@cell("count_tokens with thinking", ("reason", "switched"))
def count_thinking(t):
    c, conversation = client(t).messages, ask("Scene think")
    m = c.create(model=t.model, max_tokens=2000, messages=conversation, thinking=THINK)
    said = c.count_tokens(model=t.model, messages=conversation, thinking=THINK).input_tokens
    same(said, m.usage.input_tokens + (m.usage.cache_read_input_tokens or 0) + (m.usage.cache_creation_input_tokens or 0))


if __name__ == "__main__":
    main("anthropic")
