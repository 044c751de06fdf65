"""What the clients ask, and what the scripted engine answers: the same scenes for every client and family.

A user's text begins with "Scene NAME"; that is how a rule finds its answer. A rule applies where all of `when` and none
of `unless` stands in the rendered prompt; the first that applies is taken. An answer is a list of parts: ("think",
TEXT), ("say", TEXT), ("call", TOOL, ARGUMENTS); families.py writes them as a family's model would.
"""
import json
from typing import NamedTuple

PLAIN = "Hello! Gr\u00fc\u00dfe aus \u65e5\u672c: 1 < 2 & \"quotes\".\nA second line, \U0001f600."
WEATHER = "It is sunny in Rome, 21 degrees."
BOTH = "It is warmer in Rome: 21 degrees, in Oslo only 3 degrees."
RESULT = {"Rome": "sunny, 21 degrees", "Oslo": "snow, 3 degrees"}
THOUGHT = "Six sevens.\nThat is <42>, I think."
FILE = {"path": "a \"b\".py", "text": "def f():\n\treturn '<\u00e9>' \\ {\u65e5}\n", "mode": 420, "append": False}
PERSON = {"name": "Ada Lovelace", "age": 36}
CODE = "Thought: I multiply.\n<code>\nresult = 6 * 7\nfinal_answer(result)\n</code>"

TEAM = {"lead": PERSON, "others": [{"name": "Alan Turing", "age": 41}], "motto": None, "kind": "small"}
STEP = '{"thought":"I multiply.","code":"final_answer(6 * 7)"}'


class Rule(NamedTuple):
    when: list
    unless: list
    answer: list


def rule(when, answer, unless=()):
    return Rule([when] if isinstance(when, str) else list(when), list(unless), answer)


RULES = [
    rule("Scene plain", [("say", PLAIN)]),
    rule(["Scene weather", "21 degrees"], [("say", WEATHER)]),
    rule("Scene weather", [("call", "get_weather", {"city": "Rome", "unit": "celsius"})]),
    rule(["Scene both", "3 degrees"], [("say", BOTH)]),
    rule("Scene both", [("call", "get_weather", {"city": "Rome", "unit": "celsius"}),
                        ("call", "get_weather", {"city": "Oslo", "unit": "celsius"})]),
    rule(["Scene steps", "3 degrees"], [("say", BOTH)]),
    rule(["Scene steps", "21 degrees"], [("call", "get_weather", {"city": "Oslo", "unit": "celsius"})]),
    rule("Scene steps", [("call", "get_weather", {"city": "Rome", "unit": "celsius"})]),
    rule("Scene spoken", [("say", "Let me look."), ("call", "get_weather", {"city": "Rome", "unit": "celsius"})],
         unless=["21 degrees"]),
    rule("Scene spoken", [("say", WEATHER)]),
    rule("Scene think", [("think", THOUGHT), ("say", "It is 42.")]),
    rule(["Scene consider", "21 degrees"], [("think", "It is warm."), ("say", WEATHER)]),
    rule("Scene consider", [("think", "I need the weather."),
                            ("call", "get_weather", {"city": "Rome", "unit": "celsius"})]),
    rule("Scene file", [("call", "write_file", FILE)]),
    rule("Scene person", [("call", "Person", PERSON)]),
    rule("Scene partial", [("call", "PartialPerson", PERSON)]),
    rule("Scene schema tool", [("call", "json_tool_call", PERSON)]),
    rule("Scene people", [("call", "Person", PERSON), ("call", "Person", {"name": "Alan Turing", "age": 41})]),
    rule("Scene result", [("call", "final_result", PERSON)]),
    rule("Scene answer", [("call", "final_answer", {"answer": "It is 42."})]),
    rule("Scene code", [("say", CODE)]),
    rule(["Scene agent", "21 degrees"], [("call", "final_answer", {"answer": WEATHER})]),
    rule("Scene agent", [("call", "get_weather", {"city": "Rome", "unit": "celsius"})]),
    rule("Scene step", [("say", STEP)]),
    rule(["Scene handoff", "21 degrees"], [("say", WEATHER)]),
    rule(["Scene handoff", "get_weather"], [("call", "get_weather", {"city": "Rome", "unit": "celsius"})]),
    rule("Scene handoff", [("call", "transfer_to_weather", {})]),
    rule("Scene json", [("say", '{"name":"Ada Lovelace","age":36}')]),
    rule("Scene team as a tool", [("call", "Team", TEAM)]),
    rule("Scene team", [("say", json.dumps(TEAM, separators=(",", ":")))]),
    rule("Scene list", [("say", json.dumps({"tasks": [PERSON, {"name": "Alan Turing", "age": 41}]}, separators=(",", ":")))]),
    rule("Scene markdown", [("say", 'Here it is:\n```json\n{"name": "Ada Lovelace", "age": 36}\n```')]),
]


def find(prompt):
    for r in RULES:
        if all(w in prompt for w in r.when) and not any(u in prompt for u in r.unless):
            return r.answer
    return [("say", "No scene.")]
