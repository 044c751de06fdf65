"""LangChain: ChatOpenAI, and with a second argument ChatAnthropic."""
import sys

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from langgraph.prebuilt import create_react_agent

import scenes
from cell import Person, Target, Team, cell, main, same

ANTHROPIC = len(sys.argv) > 2 and sys.argv[2] == "anthropic"
Target.drops_bounds = ANTHROPIC


def model(t, **more):
    if ANTHROPIC:
        return ChatAnthropic(model=t.model, base_url=t.base, api_key="none", max_retries=0, max_tokens=2000, **more)
    return ChatOpenAI(model=t.model, base_url=t.url, api_key="none", max_retries=0, max_tokens=2000, **more)


@tool
def get_weather(city: str, unit: str) -> str:
    """The weather in a city."""
    return scenes.RESULT[city]


ROME = ("get_weather", {"city": "Rome", "unit": "celsius"})
OSLO = ("get_weather", {"city": "Oslo", "unit": "celsius"})


def called(m):
    return [(c["name"], c["args"]) for c in m.tool_calls]


def added(chunks):
    total = None
    for c in chunks:
        total = c if total is None else total + c
    return total


def text_of(m):
    return m.text if isinstance(m.text, str) else m.text()


@cell("invoke", "plain")
def invoke(t):
    m = model(t).invoke("Scene plain")
    t.same(text_of(m), scenes.PLAIN)
    assert m.usage_metadata["output_tokens"] > 0


@cell("invoke", "plain", stream=True)
def stream(t):
    m = added(model(t, **({} if ANTHROPIC else {"stream_usage": True})).stream("Scene plain"))
    t.same(text_of(m), scenes.PLAIN)
    assert m.usage_metadata["output_tokens"] > 0


@cell("ainvoke", "plain")
async def ainvoke(t):
    t.same(text_of(await model(t).ainvoke("Scene plain")), scenes.PLAIN)


@cell("temperature, top_p, stop", "plain")
def options(t):
    if ANTHROPIC:
        m = model(t, temperature=0.5, top_p=0.9, top_k=20, stop=["zzz"]).invoke("Scene plain")
    else:
        m = model(t, temperature=0.5, top_p=0.9, stop=["zzz"], seed=3, n=1, presence_penalty=0.1,
                  frequency_penalty=0.1).invoke("Scene plain")
    t.same(text_of(m), scenes.PLAIN)


def structured(method, text, feature_needs, **more):
    def whole(t):
        t.person(model(t).with_structured_output(t.Person, method=method, **more).invoke(text))

    def streamed(t):
        last = None
        for last in model(t).with_structured_output(t.Person, method=method, **more).stream(text):
            pass
        t.person(last)
    strict = ", strict" if more.get("strict") else ""
    cell(f"with_structured_output {method}{strict}", feature_needs)(whole)
    cell(f"with_structured_output {method}{strict}", feature_needs, stream=True)(streamed)


structured("json_schema", "Scene json", "schema")
structured("function_calling", "Scene person", "tools")
if not ANTHROPIC:
    structured("json_schema", "Scene json", "schema", strict=True)
    structured("function_calling", "Scene person", "tools", strict=True)

    @cell("with_structured_output json_mode", "exact")
    def json_mode(t):
        t.person(model(t).with_structured_output(t.Person, method="json_mode").invoke("Scene json, as JSON"))

    @cell("completions", "plain")
    def completions(t):
        m = OpenAI(model=t.model, base_url=t.url, api_key="none", max_retries=0, max_tokens=9)
        assert m.invoke("Scene plain")

    @cell("completions", "plain", stream=True)
    def completions_stream(t):
        m = OpenAI(model=t.model, base_url=t.url, api_key="none", max_retries=0, max_tokens=9)
        assert "".join(m.stream("Scene plain"))


@cell("bind_tools", "tools")
def bind_tools(t):
    m, messages = model(t).bind_tools([get_weather]), [HumanMessage("Scene weather")]
    said = m.invoke(messages)
    same(called(said), [ROME])
    messages += [said, ToolMessage(get_weather.invoke(said.tool_calls[0]["args"]),
                                   tool_call_id=said.tool_calls[0]["id"])]
    same(text_of(m.invoke(messages)), scenes.WEATHER)


@cell("bind_tools", "tools", stream=True)
def bind_tools_stream(t):
    same(called(added(model(t).bind_tools([get_weather]).stream("Scene weather"))), [ROME])


@cell("bind_tools, parallel", "parallel")
def bind_parallel(t):
    same(called(model(t).bind_tools([get_weather]).invoke("Scene both")), [ROME, OSLO])


@cell("bind_tools, parallel", "parallel", stream=True)
def bind_parallel_stream(t):
    same(called(added(model(t).bind_tools([get_weather]).stream("Scene both"))), [ROME, OSLO])


@cell("bind_tools, tool_choice any", "tools")
def bind_any(t):
    same(called(model(t).bind_tools([get_weather], tool_choice="any").invoke("Scene weather")), [ROME])


@cell("bind_tools, tool_choice by name", "tools")
def bind_named(t):
    same(called(model(t).bind_tools([get_weather], tool_choice="get_weather").invoke("Scene weather")), [ROME])


@cell("bind_tools, strict", "tools")
def bind_strict(t):
    same(called(model(t).bind_tools([get_weather], strict=True).invoke("Scene weather")), [ROME])


@cell("bind_tools, no parallel", "tools")
def bind_single(t):
    same(called(model(t).bind_tools([get_weather], parallel_tool_calls=False).invoke("Scene weather")), [ROME])


@cell("agent loop", "tools")
def agent(t):
    out = create_react_agent(model(t), [get_weather]).invoke({"messages": [("user", "Scene weather")]})
    same(text_of(out["messages"][-1]), scenes.WEATHER)


@cell("agent loop", "tools", stream=True)
def agent_stream(t):
    text = ""
    for chunk, _ in create_react_agent(model(t), [get_weather]).stream({"messages": [("user", "Scene weather")]},
                                                                       stream_mode="messages"):
        if chunk.__class__.__name__ == "AIMessageChunk":
            text += text_of(chunk)
    same(text, scenes.WEATHER)


@cell("agent loop, parallel", "parallel")
def agent_parallel(t):
    out = create_react_agent(model(t), [get_weather]).invoke({"messages": [("user", "Scene both")]})
    same(text_of(out["messages"][-1]), scenes.BOTH)


@cell("create_agent", "tools")
def new_agent(t):
    out = create_agent(model(t), [get_weather], system_prompt="Be kind.").invoke({"messages": [("user", "Scene steps")]})
    same(text_of(out["messages"][-1]), scenes.BOTH)


@cell("create_agent", "tools", stream=True)
def new_agent_stream(t):
    text = ""
    for chunk, _ in create_agent(model(t), [get_weather]).stream({"messages": [("user", "Scene steps")]},
                                                                 stream_mode="messages"):
        if chunk.__class__.__name__ == "AIMessageChunk":
            text += text_of(chunk)
    same(text, scenes.BOTH)


@cell("create_agent, ToolStrategy", "tools")
def agent_tool_strategy(t):
    out = create_agent(model(t), [get_weather], response_format=ToolStrategy(Person)).invoke(
        {"messages": [("user", "Scene person")]})
    t.person(out["structured_response"])


@cell("create_agent, ProviderStrategy", "exact")
def agent_provider_strategy(t):
    out = create_agent(model(t), [], response_format=ProviderStrategy(Person)).invoke(
        {"messages": [("user", "Scene json")]})
    t.person(out["structured_response"])


@cell("with_structured_output json_schema, nested", "exact")
def structured_team(t):
    same(model(t).with_structured_output(Team, method="json_schema").invoke("Scene team").model_dump(), scenes.TEAM)


if ANTHROPIC:
    @cell("thinking", "reason")
    def thinking(t):
        m = model(t, thinking={"type": "enabled", "budget_tokens": 1024}).invoke("Scene think")
        same(m.content[0]["type"], "thinking")
        same((m.content[0]["thinking"].strip(), text_of(m).strip()), (scenes.THOUGHT, "It is 42."))

    @cell("thinking, agent loop", "think")
    def thinking_agent(t):
        out = create_react_agent(model(t, thinking={"type": "enabled", "budget_tokens": 1024}), [get_weather]).invoke(
            {"messages": [("user", "Scene consider")]})
        same(text_of(out["messages"][-1]).strip(), scenes.WEATHER)
else:
    @cell("reasoning_effort", "reason")
    def effort(t):
        same(text_of(model(t, reasoning_effort="low").invoke("Scene think")).strip(), "It is 42.")


if __name__ == "__main__":
    main("langchain-anthropic" if ANTHROPIC else "langchain-openai")
