"""A cell of the table: one feature of one client, whole or as a stream, against one server.

A client's file has a function for each; run.py starts the file with a list of servers and reads a line of JSON for each
cell that was run.
"""
import asyncio
import inspect
import json
import os
import re
import sys
import time
import traceback
import typing
import warnings

import pydantic

import scenes

warnings.filterwarnings("ignore")
LIMIT_S = float(os.environ.get("LF_CELL_SECONDS", "90"))
CELLS = []


class Cell(typing.NamedTuple):
    feature: str
    stream: bool
    needs: tuple
    run: object


def cell(feature, needs, stream=False):
    """needs: what a server must have for it, one of these: "plain", "schema", "exact" (answers of the scenes), "tools",
    "parallel", "reason", "think" (and tools), "switched" and "switched tools" (the same where a variable of the
    template asks for it)."""
    def put(f):
        CELLS.append(Cell(feature, stream, (needs,) if isinstance(needs, str) else needs, f))
        return f
    return put


class Target:
    """The server that a cell asks. `exact`: its answers are those of scenes.py; else any that the request allows."""

    drops_bounds = False  # of the client

    def __init__(self, proxy, name, exact, model="fake", switch=""):
        self.name, self.exact, self.model, self.switch = name, exact, model, switch
        self.proxy, self.cell = proxy, ""

    @property
    def base(self):
        return f"http://127.0.0.1:{self.proxy}/{self.name}/{self.cell}"

    @property
    def url(self):
        return self.base + "/v1"

    @property
    def thinking(self):
        """What asks an OpenAI client's model to reason, where it does not by itself."""
        return {"extra_body": {"chat_template_kwargs": {self.switch: True}}} if self.switch else {}

    @property
    def Person(self):
        return Person if self.exact else ListedPerson if self.drops_bounds else BoundedPerson

    def same(self, got, want):
        if self.exact and got != want:
            raise AssertionError(f"expected {want!r}, got {got!r}")

    def person(self, got):
        """An extracted person: of the type that was asked for, and here the one of the scene."""
        if isinstance(got, pydantic.BaseModel):
            got = got.model_dump()
        assert isinstance(got, dict) and isinstance(got["name"], str) and type(got["age"]) is int, repr(got)
        self.same({"name": got["name"], "age": got["age"]}, scenes.PERSON)


def same(got, want):
    if got != want:
        raise AssertionError(f"expected {want!r}, got {got!r}")


class Person(pydantic.BaseModel):
    """A person."""
    name: str
    age: int


class Team(pydantic.BaseModel):
    """A team."""
    lead: Person
    others: list[Person]
    motto: typing.Optional[str]
    kind: typing.Literal["small", "large"]


def bounded_person():
    """The same where the model's answers end only by chance: its schema bounds them."""
    class Person(pydantic.BaseModel):
        """A person."""
        model_config = pydantic.ConfigDict(extra="forbid")
        name: str = pydantic.Field(max_length=40)
        age: int = pydantic.Field(ge=0, le=150)
    return Person


def listed_person():
    """The same for clients that take bounds out of a schema, and check them when the answer is there."""
    class Person(pydantic.BaseModel):
        """A person."""
        model_config = pydantic.ConfigDict(extra="forbid")
        name: typing.Literal["Ada Lovelace", "Alan Turing", "Grace Hopper"]
        age: int
    return Person


BoundedPerson, ListedPerson = bounded_person(), listed_person()


def get_weather(city: str, unit: str = "celsius") -> str:
    """The weather in a city.

    Args:
        city: the city's name
        unit: celsius or fahrenheit
    """
    return scenes.RESULT[city]


async def _limited(coroutine):
    return await asyncio.wait_for(coroutine, LIMIT_S)


def run_one(c, target):
    began = time.monotonic()
    try:
        if inspect.iscoroutinefunction(c.run):
            asyncio.run(_limited(c.run(target)))
        else:
            c.run(target)
        return {"ok": True, "seconds": time.monotonic() - began}
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(e.__traceback__)
        ours = [f for f in last if os.path.dirname(f.filename).endswith("clients")]
        where = f"{os.path.basename(ours[-1].filename)}:{ours[-1].lineno}" if ours else "?"
        return {"ok": False, "error": f"{where} {type(e).__name__}: {str(e)[:1500]}",
                "seconds": time.monotonic() - began}


def main(client):
    plan = json.loads(sys.argv[1])
    client = plan.get("client") or client
    rows = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a client prints itself
    only = set(plan.get("only") or [])
    for n, c in enumerate(CELLS):
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{client}.{c.feature}{'.stream' if c.stream else ''}")
        if only and not any(o in name for o in only):
            continue
        for t in plan["targets"]:
            target = Target(plan["proxy"], t["name"], t["exact"], t.get("model", "fake"), t.get("switch", ""))
            target.cell = name
            row = {"client": client, "feature": c.feature, "stream": c.stream, "target": t["name"], "cell": name}
            if not set(c.needs) & set(t["has"]):
                row["na"] = c.needs[0]
            else:
                row.update(run_one(c, target))
            print(json.dumps(row), file=rows, flush=True)
