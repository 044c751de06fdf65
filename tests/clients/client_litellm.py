"""LiteLLM, with its providers openai/ and anthropic/."""
import json
import sys

import litellm

import scenes
from cell import cell, main, same

ANTHROPIC = len(sys.argv) > 2 and sys.argv[2] == "anthropic"
litellm.suppress_debug_info = True
litellm.telemetry = False
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
                   "required": ["city", "unit"]}}}
THINK = {"thinking": {"type": "enabled", "budget_tokens": 1024},
         "allowed_openai_params": ["thinking"]} if ANTHROPIC else {}
ROME = ("get_weather", {"city": "Rome", "unit": "celsius"})
OSLO = ("get_weather", {"city": "Oslo", "unit": "celsius"})


def ask(t, text, messages=None, **more):
    return litellm.completion(model=("anthropic/" if ANTHROPIC else "openai/") + t.model,
                              api_base=t.base if ANTHROPIC else t.url, api_key="none", max_tokens=2000,
                              messages=messages or [{"role": "user", "content": text}], num_retries=0, **more)


def called(m):
    return [(c.function.name, json.loads(c.function.arguments)) for c in m.tool_calls or []]


def built(stream):
    return litellm.stream_chunk_builder(list(stream)).choices[0].message


@cell("completion", "plain")
def completion(t):
    r = ask(t, "Scene plain", temperature=0.5, top_p=0.9, stop=["zzz"])
    t.same(r.choices[0].message.content, scenes.PLAIN)
    assert r.usage.completion_tokens > 0


@cell("completion", "plain", stream=True)
def completion_stream(t):
    t.same(built(ask(t, "Scene plain", stream=True, stream_options={"include_usage": True})).content, scenes.PLAIN)


@cell("acompletion", "plain")
async def acompletion(t):
    r = await litellm.acompletion(model=("anthropic/" if ANTHROPIC else "openai/") + t.model, api_key="none",
                                  api_base=t.base if ANTHROPIC else t.url, max_tokens=200,
                                  messages=[{"role": "user", "content": "Scene plain"}])
    t.same(r.choices[0].message.content, scenes.PLAIN)


@cell("drop_params", "plain")
def drop_params(t):
    r = ask(t, "Scene plain", drop_params=True, seed=1, user="u", presence_penalty=0.1, frequency_penalty=0.1,
            logit_bias={}, service_tier="auto")
    t.same(r.choices[0].message.content, scenes.PLAIN)


# For names that it does not know its Anthropic provider makes a tool of the schema.
SCHEMA = ("Scene schema tool", "tools") if ANTHROPIC else ("Scene json", "schema")


@cell("response_format with pydantic", SCHEMA[1])
def response_format(t):
    t.person(json.loads(ask(t, SCHEMA[0], response_format=t.Person).choices[0].message.content))


@cell("response_format with pydantic", SCHEMA[1], stream=True)
def response_format_stream(t):
    t.person(json.loads(built(ask(t, SCHEMA[0], response_format=t.Person, stream=True)).content))


@cell("response_format json_schema", SCHEMA[1])
def json_schema(t):
    schema = {**t.Person.model_json_schema(), "additionalProperties": False}
    r = ask(t, SCHEMA[0], response_format={"type": "json_schema", "json_schema": {
        "name": "person", "strict": True, "schema": schema}})
    t.person(json.loads(r.choices[0].message.content))


@cell("response_format json_object", "exact")
def json_object(t):
    r = ask(t, "Scene json, as JSON", response_format={"type": "json_object"})
    t.person(json.loads(r.choices[0].message.content))


@cell("tools", "tools")
def tools(t):
    m = ask(t, "Scene weather", tools=[TOOL]).choices[0].message
    same(called(m), [ROME])
    messages = [{"role": "user", "content": "Scene weather"}, m,
                {"role": "tool", "tool_call_id": m.tool_calls[0].id, "name": "get_weather",
                 "content": scenes.RESULT["Rome"]}]
    same(ask(t, "", messages, tools=[TOOL]).choices[0].message.content, scenes.WEATHER)


@cell("tools", "tools", stream=True)
def tools_stream(t):
    same(called(built(ask(t, "Scene weather", tools=[TOOL], stream=True))), [ROME])


@cell("tools, several rounds", "tools")
def rounds(t):
    messages, asked = [{"role": "user", "content": "Scene steps"}], []
    while (m := ask(t, "", messages, tools=[TOOL]).choices[0].message).tool_calls:
        asked += called(m)
        messages += [m] + [{"role": "tool", "tool_call_id": c.id, "name": "get_weather", "content":
                            scenes.RESULT[json.loads(c.function.arguments)["city"]]} for c in m.tool_calls]
    same((asked, m.content), ([ROME, OSLO], scenes.BOTH))


@cell("parallel tools", "parallel")
def parallel(t):
    same(called(ask(t, "Scene both", tools=[TOOL], parallel_tool_calls=True).choices[0].message), [ROME, OSLO])


@cell("parallel tools", "parallel", stream=True)
def parallel_stream(t):
    same(called(built(ask(t, "Scene both", tools=[TOOL], stream=True))), [ROME, OSLO])


@cell("tool_choice required", "tools")
def required(t):
    same(called(ask(t, "Scene weather", tools=[TOOL], tool_choice="required").choices[0].message), [ROME])


@cell("tool_choice by name", "tools")
def named(t):
    r = ask(t, "Scene weather", tools=[TOOL], tool_choice={"type": "function", "function": {"name": "get_weather"}})
    same(called(r.choices[0].message), [ROME])


@cell("tool_choice none", "tools")
def none(t):
    same(ask(t, "Scene plain", tools=[TOOL], tool_choice="none").choices[0].message.content, scenes.PLAIN)


@cell("reasoning", "reason")
def reasoning(t):
    m = ask(t, "Scene think", **THINK
            ).choices[0].message
    same((m.content.strip(), m.reasoning_content.strip()), ("It is 42.", scenes.THOUGHT))


@cell("reasoning", "reason", stream=True)
def reasoning_stream(t):
    m = built(ask(t, "Scene think", stream=True,
                  **THINK))
    same((m.content.strip(), m.reasoning_content.strip()), ("It is 42.", scenes.THOUGHT))


@cell("reasoning_effort", "reason")
def effort(t):
    same(ask(t, "Scene think", reasoning_effort="low", allowed_openai_params=["reasoning_effort"]
             ).choices[0].message.content.strip(), "It is 42.")


if __name__ == "__main__":
    main("litellm-anthropic" if ANTHROPIC else "litellm-openai")
