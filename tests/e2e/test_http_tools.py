"""Tools and reasoning: definitions and results through the model's template, and what comes of its answers, whole and as
a stream, in both forms that have them. The model's part is scripted; its template is tests/golden/chat's calls.jinja."""
import json
import os

import harness
from harness import events
from test_http_messages import named_events

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "chat")
TEMPLATE = os.path.join(GOLDEN, "templates", "calls.jinja")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": SCHEMA}} for name in ("weather", "zeit")]
BLOCK_TOOLS = [{"name": t["function"]["name"], "description": "d", "input_schema": SCHEMA} for t in TOOLS]
CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
THINK = "<think>\nhm, \"日本\"?\n</think>\n\n"
ROME, OSLO = '{"city": "Rome"}', '{"city": "\\u00d8slo", "n": [1, {"a": "}"}]}'


class Sum:
    """What a chat's stream adds up to."""

    def __init__(self, body):
        got = events(body)
        assert got[-1] == "[DONE]", got[-1]
        self.message, self.finish, self.usage = {"content": "", "reasoning_content": "", "reasoning": ""}, None, None
        self.calls = []
        for event in map(json.loads, got[:-1]):
            self.usage = event.get("usage") or self.usage
            for choice in event["choices"]:
                assert self.finish is None
                self.finish = choice["finish_reason"]
                self.add(choice["delta"])

    def add(self, delta):
        for name in self.message:
            self.message[name] += delta.get(name) or ""
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(self.calls) and call["type"] == "function", call
                self.calls.append({"id": call["id"], "type": "function", "function": {"name": call["function"]["name"], "arguments": ""}})
            self.calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]


class Blocks:
    """What a message's stream adds up to. Where the answer was cut, so may an input be: it stays the text that came."""

    def __init__(self, body, is_cut=False):
        self.blocks, self.inputs, self.stop, is_open = [], {}, None, False
        for e in named_events(body):
            if e["type"] == "content_block_start":
                assert not is_open and e["index"] == len(self.blocks), e
                is_open = True
                self.blocks.append(e["content_block"])
            elif e["type"] == "content_block_stop":
                assert is_open and e["index"] == len(self.blocks) - 1, e
                is_open = False
            elif e["type"] == "content_block_delta":
                assert is_open and e["index"] == len(self.blocks) - 1, e
                self.add(self.blocks[-1], e["delta"])
            elif e["type"] == "message_delta":
                assert not is_open
                self.stop, self.usage = e["delta"], e["usage"]
        for i, text in self.inputs.items():
            self.blocks[i]["input"] = text if is_cut else json.loads(text)

    def add(self, block, delta):
        if delta["type"] == "input_json_delta":
            i = len(self.blocks) - 1
            self.inputs[i] = self.inputs.get(i, "") + delta["partial_json"]
            return
        name = delta["type"][:-len("_delta")]
        block[name] = block.get(name, "") + delta[name]


def unlike_ids(blocks):
    return [{**b, **{name: "" for name in ("id", "signature") if name in b}} for b in blocks]


class Tools(harness.Case):
    args = ["template=" + TEMPLATE]

    def chat(self, say, **more):
        return {"messages": [{"role": "user", "content": f"[[say={say}]]"}], "max_tokens": 900, "tools": TOOLS, **more}

    def both(self, say, **more):
        """The whole answer's choice; its stream says the same."""
        whole = self.server.post(CHAT, self.chat(say, **more))
        self.assertEqual(whole.status, 200, whole.body)
        choice = whole.json["choices"][0]
        stream = Sum(self.server.stream(CHAT, self.chat(say, stream_options={"include_usage": True}, **more)).body)
        message = choice["message"]
        for name, text in stream.message.items():
            self.assertEqual(message.get(name) or "", text, name)
        self.assertEqual(len(message.get("tool_calls", [])), len(stream.calls))
        for a, b in zip(message.get("tool_calls", []), stream.calls):
            self.assertEqual((a["type"], a["function"]), (b["type"], b["function"]))
        self.assertEqual(choice["finish_reason"], stream.finish)
        for name in ("completion_tokens", "completion_tokens_details"):
            self.assertEqual(whole.json["usage"][name], stream.usage[name])
        return whole.json

    def both_messages(self, say, **more):
        body = {"model": "fake", "max_tokens": 900, "messages": [{"role": "user", "content": f"[[say={say}]]"}],
                "tools": BLOCK_TOOLS, **more}
        whole = self.server.post(MESSAGES, body)
        self.assertEqual(whole.status, 200, whole.body)
        m = whole.json
        stream = Blocks(self.server.stream(MESSAGES, body).body)
        self.assertEqual(unlike_ids(m["content"]), unlike_ids(stream.blocks))
        self.assertEqual({"stop_reason": m["stop_reason"], "stop_sequence": m["stop_sequence"]}, stream.stop)
        self.assertEqual(m["usage"]["output_tokens"], stream.usage["output_tokens"])
        return m

    def test_a_call(self):
        answer = self.both(CALL % ("weather", ROME))
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        message = choice["message"]
        self.assertIsNone(message["content"])
        self.assertNotIn("reasoning_content", message)
        call, = message["tool_calls"]
        self.assertRegex(call["id"], r"^[0-9A-Za-z]{9}$")
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "weather"))
        self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Rome"})

    def test_reasoning_text_and_calls(self):
        say = THINK + "Let me look.\n" + CALL % ("weather", ROME) + "\n" + CALL % ("zeit", OSLO)
        answer = self.both(say)
        message = answer["choices"][0]["message"]
        self.assertEqual(message["reasoning_content"], 'hm, "日本"?')
        self.assertEqual(message["reasoning"], message["reasoning_content"])
        self.assertEqual(message["content"].strip(), "Let me look.")
        self.assertEqual([json.loads(c["function"]["arguments"]) for c in message["tool_calls"]], [json.loads(ROME), json.loads(OSLO)])
        self.assertEqual(len({c["id"] for c in message["tool_calls"]}), 2)
        n = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
        self.assertTrue(10 <= n < answer["usage"]["completion_tokens"] - 60, n)

    def test_what_is_no_call_stays_text(self):
        for say in ('<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call>', "<tool_call>hm", "a <b> c", "<tool_call>\n[1] "):
            free = {"messages": [{"role": "user", "content": f"[[free=1]][[say={say}]]"}]}
            message = self.both(say, **free)["choices"][0]["message"]
            self.assertEqual((message["content"], message.get("tool_calls")), (say, None))

    def test_without_tools_or_with_none_a_call_is_text(self):
        say = CALL % ("weather", ROME)
        for more in ({"tools": []}, {"tools": None}, {"tool_choice": "none"}):
            choice = self.both(say, **more)["choices"][0]
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (say, "stop"))

    def test_reasoning_alone(self):
        answer = self.both(THINK + "Yes.", tools=None)
        self.assertEqual(answer["choices"][0]["message"], {"role": "assistant", "content": "Yes.", "refusal": None,
                                                           "reasoning_content": 'hm, "日本"?', "reasoning": 'hm, "日本"?'})
        hidden = self.both(THINK + "Yes.", include_reasoning=False)
        self.assertEqual(hidden["choices"][0]["message"], {"role": "assistant", "content": "Yes.", "refusal": None})
        self.assertGreater(hidden["usage"]["completion_tokens_details"]["reasoning_tokens"], 10)
        cut = self.both(THINK, max_tokens=12)
        self.assertEqual((cut["choices"][0]["message"]["content"], cut["choices"][0]["finish_reason"]), (None, "length"))

    def test_a_call_that_is_cut(self):
        choice = self.both(CALL % ("weather", ROME), max_tokens=60)["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        call, = choice["message"]["tool_calls"]
        self.assertTrue(ROME.startswith(call["function"]["arguments"]) and len(call["function"]["arguments"]) < len(ROME))

    def test_n_stops_and_logprobs_beside_calls(self):
        body = self.chat("x " + CALL % ("weather", ROME), n=3)
        choices = self.server.post(CHAT, body).json["choices"]
        self.assertEqual([len(c["message"]["tool_calls"]) for c in choices], [1, 1, 1])
        self.assertEqual(len({c["message"]["tool_calls"][0]["id"] for c in choices}), 3)
        answer = self.both("ab STOP " + CALL % ("weather", ROME), stop=["STOP"])
        self.assertEqual(answer["choices"][0]["message"]["content"], "ab ")
        answer = self.both(CALL % ("weather", ROME), stop=["Ro"])  # also within a call, as it is written
        self.assertEqual(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].strip(), '{"city": "')
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")  # the call is not whole: nobody is to make it
        answer = self.both(CALL % ("weather", ROME) + " STOP", stop=["STOP"])
        self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls")
        answer = self.both(THINK + "ab" + CALL % ("weather", ROME), logprobs=True, top_logprobs=1)
        self.assertEqual(len(answer["choices"][0]["logprobs"]["content"]), answer["usage"]["completion_tokens"])

    def test_definitions_and_results_reach_the_template(self):
        golden = json.load(open(os.path.join(GOLDEN, "templates.json")))
        n = 0
        for case in golden["cases"]:
            if case["template"] != "calls.jinja" or case["expected"] is None or case["extra"]:
                continue
            messages = json.loads(json.dumps(golden["conversations"][case["conversation"]]))
            for m in messages:
                for call in m.get("tool_calls", []):
                    call["function"]["arguments"] = json.dumps(call["function"]["arguments"])  # as clients send them
            body = {"messages": messages, "add_generation_prompt": case["add_generation_prompt"]}
            if case["tools"]:
                body["tools"] = golden["tools"]
            r = self.server.post("/apply-template", body)
            self.assertEqual((r.status, r.json.get("prompt")), (200, case["expected"]))
            n += 1
        self.assertGreater(n, 10)
        r = self.server.post("/apply-template", {**self.chat("x"), "max_tokens": None, "reasoning_effort": "high"})
        self.assertIn("\nEffort: high<|end|>", r.json["prompt"])
        r = self.server.post("/apply-template", {**self.chat("x"), "chat_template_kwargs": {"enable_thinking": False}})
        self.assertTrue(r.json["prompt"].endswith("<|assistant|><think>\n\n</think>\n\n"))

    def test_an_effort_turns_thinking_on_or_off(self):
        closed = "<|assistant|><think>\n\n</think>\n\n"
        rows = [({"reasoning_effort": "none"}, True), ({"reasoning_effort": "low"}, False), ({"reasoning_effort": None}, False),
                ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, False),
                ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}}, True)]
        for more, is_closed in rows:
            r = self.server.post("/apply-template", {**self.chat("x"), **more})
            self.assertEqual((r.status, r.json["prompt"].endswith(closed)), (200, is_closed), more)
        # a thought that the template has closed is not looked for
        message = self.both("Yes.</think>", reasoning_effort="none")["choices"][0]["message"]
        self.assertNotIn("reasoning_content", message)

    def test_thinking_that_the_template_has_closed(self):
        message = self.both("Yes.</think>", chat_template_kwargs={"enable_thinking": False})["choices"][0]["message"]
        self.assertNotIn("reasoning_content", message)

    def test_refusals(self):
        function = TOOLS[0]["function"]
        rows = [
            ({"tools": {}}, "tools"),
            ({"tools": [1]}, "tools[0]"),
            ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
            ({"tools": [{"type": "function"}]}, "tools[0].function"),
            ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
            ({"tools": [{"type": "function", "function": {"name": "x" * 257}}]}, "tools[0].function.name"),
            ({"tools": TOOLS * 2}, "tools[2].function.name"),
            ({"tools": [{"type": "function", "function": {**function, "parameters": 1}}]}, "tools[0].function.parameters"),
            ({"tools": [{"type": "function", "function": {**function, "strict": 1}}]}, "tools[0].function.strict"),
            ({"tools": [{"type": "function", "function": {**function, "description": 1}}]}, "tools[0].function.description"),
            ({"tool_choice": "maybe"}, "tool_choice"),
            ({"tool_choice": 1}, "tool_choice"),
            ({"tool_choice": {"type": "custom"}}, "tool_choice.type"),
            ({"tool_choice": {"type": "function", "function": {"name": "nobody"}}}, "tool_choice.function.name"),
            ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "x"}}}, "tool_choice.allowed_tools.mode"),
            ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}, "tool_choice.allowed_tools.tools"),
            ({"tools": [], "tool_choice": "required"}, "tool_choice"),
            ({"functions": [function]}, "functions"),
            ({"function_call": {"name": "x"}}, "function_call"),
            ({"reasoning_effort": "huge"}, "reasoning_effort"),
            ({"include_reasoning": "no"}, "include_reasoning"),
            ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
            ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
        ]
        for more, param in rows:
            r = self.server.post(CHAT, self.chat("x", **more))
            self.assertEqual((r.status, r.error["param"]), (400, param), (more, r.body))

    # ---- Anthropic's form ----

    def test_blocks(self):
        say = THINK + "Let me look.\n" + CALL % ("weather", ROME) + "\n" + CALL % ("zeit", OSLO)
        m = self.both_messages(say, thinking={"type": "enabled", "budget_tokens": 2000})
        self.assertEqual([b["type"] for b in m["content"]], ["thinking", "text", "tool_use", "tool_use"])
        self.assertEqual(m["stop_reason"], "tool_use")
        thinking, text, call, other = m["content"]
        self.assertEqual(thinking["thinking"], 'hm, "日本"?')
        self.assertRegex(thinking["signature"], "^[0-9A-Za-z]{9}$")
        self.assertEqual(text["text"].strip(), "Let me look.")
        self.assertRegex(call["id"], "^[0-9A-Za-z]{9}$")
        self.assertEqual((call["name"], call["input"], other["input"]), ("weather", json.loads(ROME), json.loads(OSLO)))

    def test_blocks_that_are_cut(self):
        m = self.both_messages(CALL % ("weather", ROME), max_tokens=20)
        self.assertEqual(m["stop_reason"], "max_tokens")
        body = {"model": "fake", "max_tokens": 60, "tools": BLOCK_TOOLS,
                "messages": [{"role": "user", "content": f"[[say={CALL % ('weather', ROME)}]]"}]}
        whole = self.server.post(MESSAGES, body).json
        self.assertEqual([(b["type"], b["input"]) for b in whole["content"]], [("tool_use", {})])
        empty = self.both_messages("")
        self.assertEqual((empty["content"], empty["stop_reason"]), ([{"type": "text", "text": ""}], "end_turn"))

    def test_tool_choice_of_messages(self):
        say = CALL % ("weather", ROME)
        self.assertEqual(self.both_messages(say, tool_choice={"type": "none"})["content"], [{"type": "text", "text": say}])
        rows = [({"tool_choice": {"type": "any"}, "tools": []}, "tool_choice"),
                ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
                ({"tool_choice": {"type": "owl"}}, "tool_choice.type"),
                ({"tool_choice": "auto"}, "tool_choice"),
                ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
                ({"tools": [{"name": ""}]}, "tools[0].name"),
                ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
                ({"thinking": {"type": "often"}}, "thinking.type"),
                ({"thinking": {"type": "adaptive", "display": 1}}, "thinking.display")]
        for more, name in rows:
            body = {"model": "fake", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "tools": BLOCK_TOOLS, **more}
            r = self.server.post(MESSAGES, body)
            self.assertEqual((r.status, r.json["type"]), (400, "error"), (more, r.body))
            self.assertTrue(r.json["error"]["message"].startswith(name + ":"), r.body)

    def conversation(self, say):
        """A round trip in both forms: the same to the template."""
        chat = [{"role": "system", "content": "s1\ns2"}, {"role": "user", "content": "ask"},
                {"role": "assistant", "content": "a", "reasoning_content": "t", "tool_calls": [
                    {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": json.dumps({"i": i})}} for i, n in enumerate(("weather", "zeit"))]},
                {"role": "tool", "tool_call_id": "c1", "name": "zeit", "content": "noon\nsharp"},
                {"role": "tool", "tool_call_id": "c0", "name": "weather", "content": "grey"},
                {"role": "user", "content": f"[[say={say}]]"}]
        blocks = [{"role": "user", "content": [{"type": "text", "text": "ask", "cache_control": {"type": "ephemeral"}}]},
                  {"role": "assistant", "content": [
                      {"type": "thinking", "thinking": "t", "signature": "abc"}, {"type": "redacted_thinking", "data": "xyz"},
                      {"type": "text", "text": "a"}] + [{"type": "tool_use", "id": f"c{i}", "name": n, "input": {"i": i}} for i, n in enumerate(("weather", "zeit"))]},
                  {"role": "user", "content": [
                      {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "noon"}, {"type": "text", "text": "sharp"}]},
                      {"type": "tool_result", "tool_use_id": "c0", "content": "grey", "is_error": False},
                      {"type": "text", "text": f"[[say={say}]]"}]}]
        return chat, {"system": [{"type": "text", "text": "s1"}, {"type": "text", "text": "s2"}], "messages": blocks, "tools": BLOCK_TOOLS}

    def test_a_round_trip_is_the_same_in_both_forms(self):
        chat, messages = self.conversation("Grey at noon.")
        prompt = self.server.post("/tokenize", {"messages": chat, "tools": TOOLS, "chat_template_kwargs": {"enable_thinking": False}}).json
        r = self.server.post(MESSAGES + "/count_tokens", {"model": "fake", **messages})
        self.assertEqual((r.status, r.json), (200, {"input_tokens": prompt["count"]}))
        m = self.server.post(MESSAGES, {"model": "fake", "max_tokens": 99, **messages}).json
        self.assertEqual(m["content"], [{"type": "text", "text": "Grey at noon."}])
        # what the one has read the other finds in the cache: the texts are the same to the last block of it
        used = self.server.post(CHAT, {"messages": chat, "tools": TOOLS, "chat_template_kwargs": {"enable_thinking": False}}).json["usage"]
        self.assertEqual(used["prompt_tokens"], prompt["count"])
        self.assertEqual(used["prompt_tokens_details"]["cached_tokens"], (prompt["count"] - 1) // 64 * 64)

    def test_a_result_that_is_an_error_says_so(self):
        use = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather", "input": {}}]}]
        count = lambda **block: self.server.post(MESSAGES + "/count_tokens", {"model": "fake", "tools": BLOCK_TOOLS, "messages": [
            *use, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", **block}]}]})
        length = lambda **block: count(**block).json["input_tokens"]
        for content, said in (("grey", "Error: grey"), ("", "Error"), (None, "Error"), ("error: no such place", None), ("ERROR", None), ("Erro", "Error: Erro"),
                              ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "Error: a\nb")):
            plain = length(content=content)
            self.assertEqual(length(content=content, is_error=True), length(content=said or content), content)
            self.assertEqual(plain, length(content=content, is_error=False))
            self.assertEqual(plain, length(content=content, is_error=None))
        # the same to the last block of the cache
        ask = lambda **block: self.server.post(MESSAGES, {"model": "fake", "max_tokens": 5, "tools": BLOCK_TOOLS, "messages": [
            *use, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", **block}, {"type": "text", "text": "y" * 200}]}]}).json["usage"]
        ask(content="Error: far away")
        again = ask(content="far away", is_error=True)
        self.assertLess(again["input_tokens"], 64)
        for bad in (1, "true", []):
            r = count(content="x", is_error=bad)
            self.assertEqual(r.status, 400)
            self.assertTrue(r.json["error"]["message"].startswith("messages[2].content[0].is_error:"), r.body)

    def test_a_thread_is_refused_as_the_client_understands_it(self):
        r = self.server.post(MESSAGES, {"model": "fake", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}],
                                        "thread": {"type": "create"}})
        self.assertEqual(r.status, 400)
        self.assertEqual(r.json["error"]["details"], {"error_code": "thread_unsupported_request", "unsupported": ["thread"]})

    def test_members_of_tools_that_are_refused(self):
        """What would change who calls a tool, or what the model is shown of it; neutral values pass."""
        def ask(**more):
            return self.server.post(MESSAGES, {"model": "fake", "max_tokens": 5, **more,
                                               "messages": [{"role": "user", "content": "[[say=ok]]"}]})
        rows = [
            ({"tools": [{**BLOCK_TOOLS[0], "input_examples": [{"city": "Rome"}]}]}, "tools[0].input_examples"),
            ({"tools": [BLOCK_TOOLS[1], {**BLOCK_TOOLS[0], "defer_loading": True}]}, "tools[1].defer_loading"),
            ({"tools": [{**BLOCK_TOOLS[0], "allowed_callers": ["code_execution_20260120"]}]}, "tools[0].allowed_callers"),
            ({"output_config": {"task_budget": {"type": "tokens", "total": 20000}}}, "output_config.task_budget"),
        ]
        for more, name in rows:
            r = ask(**more)
            self.assertEqual(r.status, 400, (more, r.body))
            self.assertTrue(r.json["error"]["message"].startswith(name + ":"), r.body)
        passes = {"input_examples": [], "defer_loading": False, "allowed_callers": ["code_execution_20260120", "direct"],
                  "eager_input_streaming": True, "cache_control": {"type": "ephemeral"}}
        self.assertEqual(ask(tools=[{**BLOCK_TOOLS[0], **passes}]).status, 200)

    def test_blocks_that_are_refused(self):
        def user(*blocks):
            return [{"role": "user", "content": list(blocks)}]
        use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather", "input": {}}]}
        result = {"type": "tool_result", "tool_use_id": "a"}
        rows = [
            (user({"type": "image", "source": {}}), "messages[0].content[0].type"),
            (user({"type": "text"}), "messages[0].content[0].text"),
            (user(), "messages[0].content"),
            ([{"role": "user"}], "messages[0].content"),
            ([{"role": "tool", "content": "x"}], "messages[0].role"),
            ([{"role": "system", "content": [{"type": "image"}]}], "messages[0].content"),
            (user(result), "messages[0].content[0].tool_use_id"),
            (user({"type": "text", "text": "x"}) + [use] + user({**result, "tool_use_id": "b"}), "messages[2].content[0].tool_use_id"),
            (user({"type": "text", "text": "x"}) + [use] + user({**result, "content": [{"type": "image"}]}), "messages[2].content[0].content"),
            (user({"type": "text", "text": "x"}) + [use] + user({**result, "content": 5}), "messages[2].content[0].content"),
            ([{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}]}], "messages[0].content[0].input"),
            ([{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "", "input": {}}]}], "messages[0].content[0].name"),
            ([{"role": "assistant", "content": [{"type": "tool_result"}]}], "messages[0].content[0].type"),
            ([{"role": "assistant", "content": [{**use["content"][0], "caller": {"type": "code_execution_20250825", "tool_id": "x"}}]}],
             "messages[0].content[0].caller.type"),
        ]
        for messages, name in rows:
            r = self.server.post(MESSAGES, {"model": "fake", "max_tokens": 5, "messages": messages})
            self.assertEqual((r.status, r.json["type"]), (400, "error"), (messages, r.body))
            self.assertTrue(r.json["error"]["message"].startswith(name + ":"), r.body)


class WithoutTools(harness.Case):
    """A template that knows neither tools nor thinking."""

    def test_all_of_it_is_refused(self):
        rows = [({"tools": TOOLS}, "tools"), ({"chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs")]
        for more, param in rows:
            r = self.server.chat("x", **more)
            self.assertEqual((r.status, r.error["param"]), (400, param), r.body)
        calls = [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]
        r = self.server.post(CHAT, {"messages": calls})
        self.assertEqual((r.status, r.error["param"]), (400, "messages[0].tool_calls"))
        for more in ({"thinking": {"type": "adaptive"}}, {"tools": BLOCK_TOOLS}):
            r = self.server.post(MESSAGES, {"model": "fake", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], **more})
            self.assertEqual(r.status, 400, r.body)
        self.assertEqual(self.server.chat("[[say=ok]]", reasoning_effort="low", tools=[]).status, 200)
        self.assertEqual(self.server.chat("[[say=ok]]", chat_template_kwargs={"enable_thinking": False}).status, 200)


class Kept(harness.Case):
    """--reasoning none: it stays in the text."""
    args = ["template=" + TEMPLATE, "no_reasoning=1"]

    def test_reasoning_stays_in_the_text(self):
        m = self.server.chat(f"[[say={THINK}Yes.]]", max_tokens=200).json
        self.assertEqual(m["choices"][0]["message"]["content"], THINK + "Yes.")
        self.assertNotIn("completion_tokens_details", m["usage"])


class KeptControl(harness.Case):
    """The same where the markers are control tokens: masks of calls let the model reason all the same."""
    args = ["template=" + TEMPLATE, "no_reasoning=1", "control=<think>", "control=</think>"]

    def test_reasoning_may_come_before_a_call(self):
        for choice in ("auto", "required"):
            r = self.server.chat(f"[[say={THINK}{CALL % ('weather', ROME)}]]", max_tokens=300, tools=TOOLS, tool_choice=choice)
            self.assertEqual(r.status, 200, (choice, r.body))
            calls = r.json["choices"][0]["message"]["tool_calls"]
            self.assertEqual([c["function"] for c in calls], [{"name": "weather", "arguments": ROME}])

    def test_control_tokens_that_are_no_markers_can_stay_in_the_text(self):
        for skip, between in ((True, ""), (False, "<|end|>")):
            say = f"{THINK}So.<|end|>{CALL % ('weather', ROME)}"
            r = self.server.chat(f"[[free=1]][[controls=1]][[say={say}]]", max_tokens=300, tools=TOOLS, skip_special_tokens=skip).json
            message = r["choices"][0]["message"]
            self.assertEqual(message["content"], THINK + "So." + between)
            self.assertEqual([c["function"] for c in message["tool_calls"]], [{"name": "weather", "arguments": ROME}])


class SplitControl(harness.Case):
    """Reasoning is split off, and its markers are control tokens."""
    args = ["template=" + TEMPLATE, "control=<think>", "control=</think>"]

    def test_control_tokens_that_are_no_markers_stay_in_the_part_in_which_they_came(self):
        say = "[[controls=1]][[say=<think>\nh<|end|>m\n</think>\n\nSo<|user|>.]]"
        for skip, content, reasoning in ((True, "So.", "hm"), (False, "So<|user|>.", "h<|end|>m")):
            body = {"messages": [{"role": "user", "content": say}], "max_tokens": 99, "skip_special_tokens": skip}
            message = self.server.post(CHAT, body).json["choices"][0]["message"]
            stream = Sum(self.server.stream(CHAT, {**body, "stream_options": {"include_usage": True}}).body).message
            for got in (message, stream):
                self.assertEqual((got["content"], got["reasoning_content"]), (content, reasoning))


if __name__ == "__main__":
    harness.main()
