"""Validates every answer that passed the proxy with the SDKs' own types in strict mode; extra members are listed.

    strict.py EXCHANGES     prints {"checked": N, "wrong": [...], "extra": {type: [names]}} as JSON
"""
import json
import sys

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses
import pydantic

STREAM_OF = {"/v1/chat/completions": openai.types.chat.ChatCompletionChunk, "/v1/completions": openai.types.Completion,
             "/v1/responses": openai.types.responses.ResponseStreamEvent, "/v1/messages": anthropic.types.RawMessageStreamEvent}
WHOLE_OF = {"/v1/chat/completions": openai.types.chat.ChatCompletion, "/v1/completions": openai.types.Completion,
            "/v1/responses": openai.types.responses.Response, "/v1/messages": anthropic.types.Message, "/v1/messages/count_tokens": anthropic.types.MessageTokensCount}


def extras(o, found):
    if isinstance(o, pydantic.BaseModel):
        for name in o.model_extra or {}:
            found.setdefault(type(o).__name__, set()).add(name)
        for name in type(o).model_fields:
            extras(getattr(o, name), found)
    elif isinstance(o, (list, tuple)):
        for x in o:
            extras(x, found)


def events(answer):
    """The data of a stream's events; every event is what the API's description says, and nothing else."""
    out = []
    for block in answer.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name = lines.pop(0)[len("event: "):] if lines[0].startswith("event: ") else None
        assert len(lines) == 1 and lines[0].startswith("data: "), block
        data = lines[0][len("data: "):]
        if data == "[DONE]":
            continue
        o = json.loads(data)
        assert name is None or o["type"] == name, block
        out.append(o)
    return out


def check(record, found):
    """OpenAI's streams of completions have finish_reason null until the last event, which its types leave out."""
    path = record["path"].split("?")[0]
    if record["status"] != 200:
        error = json.loads(record["answer"])
        if path.startswith("/v1/messages"):
            assert error["type"] == "error" and set(error["error"]) >= {"type", "message"}, error
        else:
            assert set(error["error"]) >= {"message", "type", "param", "code"}, error
        return
    streamed = (record["type"] or "").startswith("text/event-stream")
    kind = (STREAM_OF if streamed else WHOLE_OF).get(path)
    if kind is None:
        return
    adapter = pydantic.TypeAdapter(kind)
    if streamed and path == "/v1/completions":
        record = {**record, "answer": record["answer"].replace('"finish_reason":null', '"finish_reason":"stop"')}
    for o in events(record["answer"]) if streamed else [json.loads(record["answer"])]:
        if o.get("type") in ("ping", "error") or o.get("error"):
            continue  # an error of a stream fails its cell
        extras(adapter.validate_python(o, strict=True), found)


def main():
    wrong, found, n = {}, {}, 0
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            record = json.loads(line)
            n += 1
            try:
                check(record, found)
            except Exception as e:  # whatever it is, it belongs into the list
                text = f"{record['path']} {type(e).__name__}: {str(e)[:600]}"
                wrong.setdefault(text, []).append(f"{record['target']} {record['cell']}")
    print(json.dumps({"checked": n, "wrong": [[k, v[:5], len(v)] for k, v in wrong.items()],
                      "extra": {k: sorted(v) for k, v in found.items()}}))


if __name__ == "__main__":
    main()
