"""openai-python's responses: create, stream, parse, tools in several rounds, reasoning."""
import json

import openai

import scenes
from cell import cell, main, same

WEATHER_TOOL = {"type": "function", "name": "get_weather", "description": "The weather in a city.", "strict": False,
                "parameters": {"type": "object", "properties": {"city": {"type": "string"},
                                                                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
                               "required": ["city", "unit"], "additionalProperties": False}}
ROME = ("get_weather", {"city": "Rome", "unit": "celsius"})
OSLO = ("get_weather", {"city": "Oslo", "unit": "celsius"})


def client(t):
    return openai.OpenAI(base_url=t.url, api_key="none", max_retries=0, timeout=60)


def create(t, text, **more):
    return client(t).responses.create(model=t.model, input=text, max_output_tokens=2000, temperature=0, **more)


def called(r):
    return [(i.name, json.loads(i.arguments)) for i in r.output if i.type == "function_call"]


def thought(r):
    return "".join(c.text for i in r.output if i.type == "reasoning" for c in i.content or [])


def end_of(stream):
    """The response at the end of a stream, whose deltas add up to it."""
    texts, last = {}, None
    for e in stream:
        if e.type in ("response.output_text.delta", "response.function_call_arguments.delta", "response.reasoning_text.delta"):
            texts[e.output_index] = texts.get(e.output_index, "") + e.delta
        last = e
    assert last.type in ("response.completed", "response.incomplete"), last.type
    for i, item in enumerate(last.response.output):
        same(item.arguments if item.type == "function_call" else item.content[0].text, texts.get(i, ""))
    return last.response


@cell("create", "plain")
def plain(t):
    r = create(t, "Scene plain", instructions="Be kind.")
    t.same(r.output_text, scenes.PLAIN)
    assert r.status in ("completed", "incomplete") and r.usage.output_tokens > 0


@cell("create", "plain", stream=True)
def plain_stream(t):
    t.same(end_of(create(t, "Scene plain", stream=True)).output_text, scenes.PLAIN)


@cell("stream()", "plain", stream=True)
def stream_helper(t):
    with client(t).responses.stream(model=t.model, input="Scene plain", max_output_tokens=200, temperature=0) as s:
        text = "".join(e.delta for e in s if e.type == "response.output_text.delta")
        t.same(s.get_final_response().output_text, text)
    t.same(text, scenes.PLAIN)


@cell("parse()", "schema")
def parse(t):
    r = client(t).responses.parse(model=t.model, input="Scene json", text_format=t.Person, max_output_tokens=2000)
    t.person(r.output_parsed)


@cell("parse()", "schema", stream=True)
def parse_stream(t):
    with client(t).responses.stream(model=t.model, input="Scene json", text_format=t.Person, max_output_tokens=2000) as s:
        for _ in s:
            pass
        t.person(s.get_final_response().output_parsed)


@cell("tools, and their outputs", "tools")
def tools(t):
    r = create(t, "Scene weather", tools=[WEATHER_TOOL])
    same(called(r), [ROME])
    call = [i for i in r.output if i.type == "function_call"][0]
    items = [{"role": "user", "content": "Scene weather"}, *r.output,
             {"type": "function_call_output", "call_id": call.call_id, "output": scenes.RESULT["Rome"]}]
    same(create(t, items, tools=[WEATHER_TOOL]).output_text, scenes.WEATHER)


@cell("tools", "tools", stream=True)
def tools_stream(t):
    same(called(end_of(create(t, "Scene weather", tools=[WEATHER_TOOL], stream=True))), [ROME])


@cell("tool_choice", "tools")
def choices(t):
    for choice in ("required", {"type": "function", "name": "get_weather"},
                   {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]}):
        same(called(create(t, "Scene weather", tools=[WEATHER_TOOL], tool_choice=choice)), [ROME])


@cell("parallel tools", "parallel")
def parallel(t):
    same(called(create(t, "Scene both", tools=[WEATHER_TOOL])), [ROME, OSLO])


@cell("parallel tools", "parallel", stream=True)
def parallel_stream(t):
    same(called(end_of(create(t, "Scene both", tools=[WEATHER_TOOL], stream=True))), [ROME, OSLO])


@cell("previous_response_id, retrieve, delete", "tools")
def stored(t):
    first = create(t, "Scene weather", tools=[WEATHER_TOOL])
    output = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": scenes.RESULT["Rome"]}
    second = create(t, [output], tools=[WEATHER_TOOL], previous_response_id=first.id)
    same(second.output_text, scenes.WEATHER)
    r = client(t).responses
    same(r.retrieve(second.id).output_text, scenes.WEATHER)
    r.delete(second.id)
    try:
        create(t, [output], previous_response_id=second.id)
    except openai.NotFoundError as e:
        same(e.code, "previous_response_not_found")
    else:
        raise AssertionError("a deleted response is there")


@cell("reasoning", "reason")
def reasoning(t):
    r = create(t, "Scene think", reasoning={"effort": "low", "summary": "auto"})
    same((thought(r).strip(), r.output_text.strip()), (scenes.THOUGHT, "It is 42."))
    assert r.usage.output_tokens_details.reasoning_tokens > 0


@cell("reasoning", "reason", stream=True)
def reasoning_stream(t):
    r = end_of(create(t, "Scene think", stream=True))
    same((thought(r).strip(), r.output_text.strip()), (scenes.THOUGHT, "It is 42."))


@cell("reasoning, then tools", "think")
def reasoning_tools(t):
    r = create(t, "Scene consider", tools=[WEATHER_TOOL], include=["reasoning.encrypted_content"])
    same((thought(r).strip(), called(r)), ("I need the weather.", [ROME]))


@cell("errors", "plain")
def errors(t):
    for more, param in (({"truncation": "auto"}, "truncation"), ({"tools": [{"type": "web_search"}]}, "tools[0].type")):
        try:
            create(t, "Scene plain", **more)
        except openai.BadRequestError as e:
            same(e.param, param)
        else:
            raise AssertionError(f"{more} was taken")


if __name__ == "__main__":
    main("openai-python-responses")
