"""openai-agents in its chat mode, or with `responses` behind the plan on /v1/responses."""
import sys

import agents
import openai

import scenes
from cell import cell, main, same

agents.set_tracing_disabled(True)
MODEL = agents.OpenAIResponsesModel if "responses" in sys.argv else agents.OpenAIChatCompletionsModel


@agents.function_tool
def get_weather(city: str, unit: str) -> str:
    """The weather in a city.

    Args:
        city: the city's name
        unit: celsius or fahrenheit
    """
    return scenes.RESULT[city]


def agent(t, **more):
    client = openai.AsyncOpenAI(base_url=t.url, api_key="none", max_retries=0)
    more.setdefault("model_settings", agents.ModelSettings(max_tokens=2000))
    return agents.Agent(name="helper", instructions="Be kind.",
                        model=MODEL(model=t.model, openai_client=client), **more)


async def stream_of(a, text):
    r = agents.Runner.run_streamed(a, text)
    kinds = [e.type async for e in r.stream_events()]
    assert "raw_response_event" in kinds, set(kinds)
    return r.final_output


@cell("run", "plain")
async def run(t):
    t.same((await agents.Runner.run(agent(t), "Scene plain")).final_output, scenes.PLAIN)


@cell("run", "plain", stream=True)
async def run_stream(t):
    t.same(await stream_of(agent(t), "Scene plain"), scenes.PLAIN)


@cell("output_type", "schema")
async def output(t):
    t.person((await agents.Runner.run(agent(t, output_type=t.Person), "Scene json")).final_output)


@cell("output_type", "schema", stream=True)
async def output_stream(t):
    t.person(await stream_of(agent(t, output_type=t.Person), "Scene json"))


@cell("tools", "tools")
async def tools(t):
    same((await agents.Runner.run(agent(t, tools=[get_weather]), "Scene weather")).final_output, scenes.WEATHER)


@cell("tools", "tools", stream=True)
async def tools_stream(t):
    same(await stream_of(agent(t, tools=[get_weather]), "Scene weather"), scenes.WEATHER)


@cell("tools, several rounds", "tools")
async def rounds(t):
    same((await agents.Runner.run(agent(t, tools=[get_weather]), "Scene steps")).final_output, scenes.BOTH)


@cell("parallel tools", "parallel")
async def parallel(t):
    a = agent(t, tools=[get_weather], model_settings=agents.ModelSettings(parallel_tool_calls=True))
    same((await agents.Runner.run(a, "Scene both")).final_output, scenes.BOTH)


@cell("parallel tools", "parallel", stream=True)
async def parallel_stream(t):
    same(await stream_of(agent(t, tools=[get_weather]), "Scene both"), scenes.BOTH)


@cell("tool_choice required", "tools")
async def required(t):
    a = agent(t, tools=[get_weather], model_settings=agents.ModelSettings(tool_choice="required"))
    same((await agents.Runner.run(a, "Scene weather")).final_output, scenes.WEATHER)


@cell("tool_choice by name", "tools")
async def named(t):
    a = agent(t, tools=[get_weather], model_settings=agents.ModelSettings(tool_choice="get_weather"))
    same((await agents.Runner.run(a, "Scene weather")).final_output, scenes.WEATHER)


@cell("handoff", "tools")
async def handoff(t):
    a = agent(t, handoffs=[agents.Agent(name="Weather", handoff_description="knows the weather", tools=[get_weather],
                                        model=agent(t).model)])
    same((await agents.Runner.run(a, "Scene handoff")).final_output, scenes.WEATHER)


@cell("reasoning", "reason")
async def reasoning(t):
    a = agent(t, model_settings=agents.ModelSettings(max_tokens=2000, reasoning=openai.types.shared.Reasoning(
        effort="low")))
    same((await agents.Runner.run(a, "Scene think")).final_output.strip(), "It is 42.")


@cell("reasoning, then tools", "think", stream=True)
async def reasoning_tools(t):
    same((await stream_of(agent(t, tools=[get_weather]), "Scene consider")).strip(), scenes.WEATHER)


if __name__ == "__main__":
    main("openai-agents")
