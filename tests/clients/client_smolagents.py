"""smolagents: its agents that call tools and that write code, on OpenAI's chat."""
import json

import smolagents

import scenes
from cell import cell, main, same


@smolagents.tool
def get_weather(city: str, unit: str) -> str:
    """The weather in a city.

    Args:
        city: the city's name
        unit: celsius or fahrenheit
    """
    return scenes.RESULT[city]


def model(t, **more):
    return smolagents.OpenAIModel(model_id=t.model, api_base=t.url, api_key="none", max_tokens=2000, **more)


def ask(text):
    return [smolagents.models.ChatMessage(role=smolagents.models.MessageRole.USER,
                                          content=[{"type": "text", "text": text}])]


@cell("generate", "plain")
def generate(t):
    t.same(model(t).generate(ask("Scene plain")).content, scenes.PLAIN)


@cell("generate", "plain", stream=True)
def generate_stream(t):
    t.same("".join(d.content or "" for d in model(t).generate_stream(ask("Scene plain"))), scenes.PLAIN)


def run(t, agent, text):
    return agent.run(text)


@cell("ToolCallingAgent", "tools")
def tool_agent(t):
    a = smolagents.ToolCallingAgent(tools=[get_weather], model=model(t), max_steps=3, verbosity_level=0)
    same(a.run("Scene agent"), scenes.WEATHER)


@cell("ToolCallingAgent", "tools", stream=True)
def tool_agent_stream(t):
    a = smolagents.ToolCallingAgent(tools=[get_weather], model=model(t), max_steps=3, verbosity_level=0,
                                    stream_outputs=True)
    same(a.run("Scene agent"), scenes.WEATHER)


@cell("CodeAgent", "exact")
def code_agent(t):
    a = smolagents.CodeAgent(tools=[get_weather], model=model(t), max_steps=2, verbosity_level=0)
    same(a.run("Scene code"), 42)


@cell("CodeAgent", "exact", stream=True)
def code_agent_stream(t):
    a = smolagents.CodeAgent(tools=[get_weather], model=model(t), max_steps=2, verbosity_level=0, stream_outputs=True)
    same(a.run("Scene code"), 42)


@cell("CodeAgent with structured outputs", "schema")
def code_structured(t):
    if not t.exact:
        m = model(t).generate(ask("Scene step"), response_format=smolagents.models.CODEAGENT_RESPONSE_FORMAT)
        if m.raw.choices[0].finish_reason != "length":  # its schema does not bound them
            assert set(json.loads(m.content)) == {"thought", "code"}
        return
    a = smolagents.CodeAgent(tools=[get_weather], model=model(t), max_steps=2, verbosity_level=0,
                             use_structured_outputs_internally=True)
    same(a.run("Scene step"), 42)


if __name__ == "__main__":
    main("smolagents")
