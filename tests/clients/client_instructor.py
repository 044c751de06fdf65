"""instructor: every mode that the chat API and the messages API have."""
import sys
import typing

import instructor

from cell import Person, cell, main, same

ANTHROPIC = len(sys.argv) > 2 and sys.argv[2] == "anthropic"
if ANTHROPIC:
    import anthropic
else:
    import openai


def client(t, mode):
    if ANTHROPIC:
        return instructor.from_anthropic(anthropic.Anthropic(base_url=t.base, api_key="none", max_retries=0), mode=mode)
    return instructor.from_openai(openai.OpenAI(base_url=t.url, api_key="none", max_retries=0), mode=mode)


def ask(text):
    return {"messages": [{"role": "user", "content": text}], "max_retries": 1, "max_tokens": 2000}


def mode_cells(mode, text, needs, partial_text=None):
    name = mode.name.removeprefix("ANTHROPIC_")

    def whole(t):
        t.person(client(t, mode).chat.completions.create(model=t.model, response_model=t.Person, **ask(text)))

    def partial(t):
        last = None
        for last in client(t, mode).chat.completions.create_partial(model=t.model, response_model=t.Person,
                                                                    **ask(partial_text or text)):
            pass
        t.person(last)
    cell(name, needs)(whole)
    cell(name, needs, stream=True)(partial)


M = instructor.Mode
if ANTHROPIC:
    mode_cells(M.ANTHROPIC_TOOLS, "Scene person", "tools", "Scene partial")
    mode_cells(M.ANTHROPIC_JSON, "Scene json", "exact")
    if hasattr(M, "ANTHROPIC_REASONING_TOOLS"):
        mode_cells(M.ANTHROPIC_REASONING_TOOLS, "Scene person", "tools", "Scene partial")
else:
    mode_cells(M.TOOLS, "Scene person", "tools", "Scene partial")
    mode_cells(M.TOOLS_STRICT, "Scene person", "tools", "Scene partial")
    mode_cells(M.FUNCTIONS, "Scene person", "tools", "Scene partial")
    mode_cells(M.JSON, "Scene json", "exact")
    mode_cells(M.JSON_O1, "Scene json", "exact")
    mode_cells(M.JSON_SCHEMA, "Scene json", "schema")
    mode_cells(M.MD_JSON, "Scene markdown", "exact")


@cell("PARALLEL_TOOLS", "parallel")
def parallel(t):
    mode = M.ANTHROPIC_PARALLEL_TOOLS if ANTHROPIC else M.PARALLEL_TOOLS
    people = list(client(t, mode).chat.completions.create(model=t.model, response_model=typing.Iterable[Person],
                                                          **ask("Scene people")))
    same([p.name for p in people], ["Ada Lovelace", "Alan Turing"])


@cell("create_iterable", "parallel", stream=True)
def iterable(t):
    mode = M.ANTHROPIC_JSON if ANTHROPIC else M.JSON
    people = list(client(t, mode).chat.completions.create_iterable(model=t.model, response_model=Person,
                                                                   **ask("Scene list")))
    same([p.name for p in people], ["Ada Lovelace", "Alan Turing"])


if __name__ == "__main__":
    main("instructor-anthropic" if ANTHROPIC else "instructor-openai")
