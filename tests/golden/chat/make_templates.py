#!/usr/bin/env python3
"""Makes templates.json: conversations through the templates of this folder, and what Jinja2 renders (null: it fails)."""
import json
import os

from hf_jinja import NOW_UNIX, render

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather \"now\" & <here>", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["city"]}, "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "zeit", "description": "Uhrzeit für Zürich", "parameters": {}}},
]
ASK = {"role": "user", "content": "What is <|done|> in [ASK]?"}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2.5}}}]}
RESULT = {"role": "tool", "content": "{\"sky\": \"grey\"}", "tool_call_id": "abcdef123", "name": "get_weather"}
CONVERSATIONS = {
    "one": [ASK],
    "system": [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": "Hi "},
               {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "日本語 <|end|>"}],
    "tools": [{"role": "system", "content": "Use tools."}, ASK, CALL, RESULT],
    "after tools": [ASK, CALL, RESULT, dict(RESULT, content="second"), {"role": "assistant", "content": "Grey."},
                    {"role": "user", "content": "Thanks"}],
    "two calls": [ASK, dict(CALL, tool_calls=CALL["tool_calls"] * 2)],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "nice?"}]}],
    "thoughts": [ASK, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, {"role": "user", "content": "Sure?"},
                 {"role": "assistant", "content": "<think>\nonce more\n</think>\n\nYes!"}],
    "kept thoughts": [ASK, dict(CALL, content="I look.", reasoning_content="\nKöln, then.\n"), RESULT,
                      {"role": "assistant", "content": "Grey.", "reasoning_content": "so"}, ASK,
                      {"role": "assistant", "content": None, "reasoning_content": "again", "tool_calls": [
                          {"type": "function", "function": {"name": "zeit", "arguments": {
                              "text": "a <b>\n\"c\"", "n": 3, "ok": True, "none": None, "list": [1, "é"], "empty": {}}}}]}, RESULT],
    "wrong turns": [ASK, ASK],
    "wrong role": [{"role": "narrator", "content": "Once"}],
    "empty": [{"role": "user", "content": ""}],
}


def main():
    cases = []
    for name in sorted(os.listdir(os.path.join(HERE, "templates"))):
        with open(os.path.join(HERE, "templates", name), encoding="utf-8", newline="") as file:
            source = file.read()
        for title, messages in CONVERSATIONS.items():
            for tools, prompt, extra in ((None, True, {}), (TOOLS, True, {"enable_thinking": True, "preserve_thinking": True}), (TOOLS, True, {"enable_thinking": False, "date_string": "1 May"}), (None, False, {})):
                text = render(source, messages, tools, prompt, bos_token="<s>", eos_token="</s>", **extra)
                cases.append({"template": name, "conversation": title, "tools": tools is not None,
                              "add_generation_prompt": prompt, "extra": extra, "expected": text})
    document = {"now": NOW_UNIX, "bos_token": "<s>", "eos_token": "</s>", "tools": TOOLS, "conversations": CONVERSATIONS}
    with open(os.path.join(HERE, "templates.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(document, ensure_ascii=False)[:-1] + ',\n"cases": [\n')
        file.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
        file.write("\n]}\n")
    print(len(cases), "cases,", sum(c["expected"] is None for c in cases), "of them fail")


if __name__ == "__main__":
    main()
