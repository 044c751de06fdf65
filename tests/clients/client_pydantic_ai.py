"""pydantic-ai: its model of OpenAI's chat and its model of Anthropic's messages."""
import sys

from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput

import scenes
from cell import Target, cell, main, same

ANTHROPIC = len(sys.argv) > 2 and sys.argv[2] == "anthropic"
Target.drops_bounds = ANTHROPIC


def model(t):
    if ANTHROPIC:
        import anthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
        client = anthropic.AsyncAnthropic(base_url=t.base, api_key="none", max_retries=0)
        return AnthropicModel(t.model, provider=AnthropicProvider(anthropic_client=client),
                              profile={"supports_json_schema_output": True})  # it knows that of Anthropic's names only
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    return OpenAIChatModel(t.model, provider=OpenAIProvider(base_url=t.url, api_key="none"))


def agent(t, **more):
    return Agent(model(t), model_settings={"max_tokens": 2000}, retries=0, **more)


def weather_agent(t, **more):
    a = agent(t, **more)

    @a.tool_plain
    def get_weather(city: str, unit: str) -> str:
        """The weather in a city.

        Args:
            city: the city's name
            unit: celsius or fahrenheit
        """
        return scenes.RESULT[city]
    return a


@cell("run", "plain")
async def run(t):
    r = await agent(t).run("Scene plain")
    t.same(r.output, scenes.PLAIN)


@cell("run", "plain", stream=True)
async def run_stream(t):
    async with agent(t).run_stream("Scene plain") as r:
        t.same("".join([p async for p in r.stream_text(delta=True)]), scenes.PLAIN)


@cell("instructions and settings", "plain" if ANTHROPIC else "two systems")
async def settings(t):
    a = Agent(model(t), instructions="Be kind.", system_prompt="You are old.")
    r = await a.run("Scene plain", model_settings={"max_tokens": 200, "temperature": 0.5, "top_p": 0.9, "seed": 1,
                                                   "stop_sequences": ["zzz"], "parallel_tool_calls": True})
    t.same(r.output, scenes.PLAIN)


@cell("output_type by tool", "tools")
async def output_tool(t):
    t.person((await agent(t, output_type=t.Person).run("Scene result")).output)


@cell("output_type by tool", "tools", stream=True)
async def output_tool_stream(t):
    async with agent(t, output_type=t.Person).run_stream("Scene result") as r:
        t.person(await r.get_output())


@cell("output_type by ToolOutput, strict", "tools")
async def output_strict(t):
    t.person((await agent(t, output_type=ToolOutput(t.Person, name="Person", strict=True)).run("Scene person")).output)


@cell("output_type by NativeOutput", "schema")
async def output_native(t):
    t.person((await agent(t, output_type=NativeOutput(t.Person)).run("Scene json")).output)


@cell("output_type by NativeOutput", "schema", stream=True)
async def output_native_stream(t):
    async with agent(t, output_type=NativeOutput(t.Person)).run_stream("Scene json") as r:
        t.person(await r.get_output())


@cell("output_type by PromptedOutput", "exact")
async def output_prompted(t):
    t.person((await agent(t, output_type=PromptedOutput(t.Person)).run("Scene json")).output)


@cell("tools", "tools")
async def tools(t):
    same((await weather_agent(t).run("Scene weather")).output, scenes.WEATHER)


@cell("tools", "tools", stream=True)
async def tools_stream(t):
    async with weather_agent(t).run_stream("Scene weather") as r:
        same(await r.get_output(), scenes.WEATHER)


@cell("tools, several rounds", "tools")
async def rounds(t):
    same((await weather_agent(t).run("Scene steps")).output, scenes.BOTH)


@cell("parallel tools", "parallel")
async def parallel(t):
    same((await weather_agent(t).run("Scene both")).output, scenes.BOTH)


@cell("tools and output_type", "tools")
async def both(t):
    t.person((await weather_agent(t, output_type=t.Person).run("Scene result")).output)


@cell("thinking", "reason")
async def thinking(t):
    a = agent(t)
    more = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}} if ANTHROPIC else {}
    r = await a.run("Scene think", model_settings={"max_tokens": 2000, **more})
    same(r.output.strip(), "It is 42.")
    parts = [p for m in r.all_messages() for p in m.parts if p.part_kind == "thinking"]
    same([p.content.strip() for p in parts], [scenes.THOUGHT])
    again = await a.run("Scene think", message_history=r.all_messages(), model_settings={"max_tokens": 2000, **more})
    same(again.output.strip(), "It is 42.")


@cell("thinking, then tools", "think")
async def thinking_tools(t):
    more = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}} if ANTHROPIC else {}
    r = await weather_agent(t).run("Scene consider", model_settings={"max_tokens": 2000, **more})
    same(r.output.strip(), scenes.WEATHER)


if __name__ == "__main__":
    main("pydantic-ai-anthropic" if ANTHROPIC else "pydantic-ai-openai")
