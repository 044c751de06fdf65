"""/v1/responses: items in, items out, whole and as a stream that adds up to the whole, and its refusals."""
import concurrent.futures
import json
import os
import re
import time

import harness

URL = "/v1/responses"
TEMPLATE = os.path.join(os.path.dirname(__file__), "..", "golden", "chat", "templates", "calls.jinja")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "name": name, "description": "d", "parameters": SCHEMA, "strict": False} for name in ("weather", "zeit")]
CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
THINK = "<think>\nhm, \"日本\"?\n</think>\n\n"
ROME, OSLO = '{"city": "Rome"}', '{"city": "\\u00d8slo", "n": [1, {"a": "}"}]}'
DELTAS = {"response.output_text.delta": "message", "response.reasoning_text.delta": "reasoning",
          "response.function_call_arguments.delta": "function_call"}


def read_events(data):
    """The events, numbered as they come; each has the name of its type, and there is nothing else."""
    out = []
    for block in data.decode().split("\n\n")[:-1]:
        m = re.fullmatch(r"event: ([\w.]+)\ndata: ([^\n]*)", block)
        assert m, f"not an event: {block!r}"
        e = json.loads(m.group(2))
        assert e["type"] == m.group(1) and e["sequence_number"] == len(out), block
        out.append(e)
    return out


def text_of(item):
    return item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]


class Stream:
    """Follows a stream of a response as a client does; what it adds up to is what its last event says."""

    def __init__(self, data):
        self.events = read_events(data)
        kinds = [e["type"] for e in self.events]
        assert kinds[:2] == ["response.created", "response.in_progress"], kinds
        self.first, self.last = self.events[0]["response"], self.events[-1]
        assert self.first == self.events[1]["response"] and self.first["status"] == "in_progress" and self.first["output"] == []
        self.items, self.texts, self.is_open = [], [], False
        for e in self.events[2:-1]:
            self.take(e)
        self.response = self.last["response"]
        assert not self.is_open and self.response["output"] == self.items, (self.response["output"], self.items)
        assert [text_of(i) for i in self.items] == self.texts

    def take(self, e):
        kind = e["type"]
        if kind == "response.output_item.added":
            assert not self.is_open and e["output_index"] == len(self.items) and e["item"]["status"] == "in_progress", e
            self.is_open, self.item, self.text, self.done = True, e["item"], "", None
            assert self.item.get("content", []) == [] and self.item.get("arguments", "") == ""
            return
        assert self.is_open and e["output_index"] == len(self.items), e
        if kind == "response.output_item.done":
            assert self.done is not None and {**e["item"], "content": 0, "arguments": 0, "status": 0} == \
                {**self.item, "content": 0, "arguments": 0, "status": 0}, e
            self.items.append(e["item"])
            self.texts.append(self.text)
            self.is_open = False
            return
        assert e["item_id"] == self.item["id"], e
        if kind in DELTAS:
            assert DELTAS[kind] == self.item["type"] and self.done is None, e
            self.text += e["delta"]
        elif kind.endswith(("_text.done", "_arguments.done")):
            self.done = e["arguments"] if "arguments" in e else e["text"]
            assert self.done == self.text, e
        elif kind == "response.content_part.added":
            assert e["part"]["text"] == "" and e["content_index"] == 0, e
        else:
            assert kind == "response.content_part.done" and e["part"]["text"] == self.text, e


def unlike(response):
    """Without what two answers of the same differ in: ids, times, what came from the cache."""
    r = json.loads(re.sub(r"(resp|msg|rs|fc)_[0-9a-f]{24}", r"\1", json.dumps(response)))
    for item in r["output"]:
        item.pop("call_id", None)
    for name in ("created_at", "timings"):
        r.pop(name)
    r["usage"].pop("input_tokens_details")
    return r


class Base(harness.Case):
    def both(self, body):
        """The whole response; its stream says the same, byte for byte."""
        r = self.server.post(URL, body)
        self.assertEqual(r.status, 200, r.body)
        sent = self.server.stream(URL, body)
        self.assertTrue(sent.headers["content-type"].startswith("text/event-stream"))
        stream = Stream(sent.body)
        self.assertEqual(stream.last["type"], "response." + r.json["status"])
        self.assertEqual(unlike(stream.response), unlike(r.json))
        self.assertEqual(list(stream.response), list(r.json))
        return r.json

    def assert_refused(self, body, status, param, code=None, text=""):
        r = self.server.post(URL, body)
        self.assertEqual((r.status, r.error["param"]), (status, param), (body, r.body))
        self.assertIn(text, r.error["message"])
        if code:
            self.assertEqual(r.error["code"], code)


class Responses(Base):
    def test_an_answer(self):
        r = self.both({"model": "fake", "input": "[[say=Hello \u2028日本\"]]", "max_output_tokens": 64, "metadata": {"a": "b\u2028\n"},
                       "temperature": 0.5, "instructions": "be\nbrief"})
        self.assertRegex(r["id"], "^resp_[0-9a-f]{24}$")
        self.assertEqual((r["object"], r["status"], r["model"], r["error"], r["incomplete_details"]),
                         ("response", "completed", "fake", None, None))
        self.assertEqual(r["output"], [{"id": "msg_" + r["id"][5:] + "_0", "type": "message", "role": "assistant", "status": "completed",
                                        "content": [{"type": "output_text", "text": "Hello \u2028日本\"", "annotations": [], "logprobs": []}]}])
        self.assertEqual((r["metadata"], r["temperature"], r["instructions"]), ({"a": "b\u2028\n"}, 0.5, "be\nbrief"))
        self.assertEqual((r["tools"], r["tool_choice"], r["truncation"], r["max_output_tokens"]), ([], "auto", "disabled", 64))
        messages = [{"role": "system", "content": "be\nbrief"}, {"role": "user", "content": "[[say=Hello \u2028日本\"]]"}]
        usage = self.server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 64}).json["usage"]
        self.assertEqual((r["usage"]["input_tokens"], r["usage"]["output_tokens"]), (usage["prompt_tokens"], usage["completion_tokens"]))
        self.assertEqual(r["usage"]["total_tokens"], usage["total_tokens"])
        self.assertGreater(r["timings"]["decode_ms"], 0)

    def test_an_answer_that_is_cut(self):
        r = self.both({"input": "x", "max_output_tokens": 3})
        self.assertEqual((r["status"], r["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        self.assertEqual(([i["status"] for i in r["output"]], r["usage"]["output_tokens"]), (["incomplete"], 3))

    def test_items_are_what_messages_are(self):
        def n(items, **more):
            r = self.server.post(URL, {"input": items, "max_output_tokens": 9, **more})
            self.assertEqual(r.status, 200, r.body)
            return r.json["usage"]["input_tokens"]

        def chat(*messages):
            return self.server.post("/tokenize", {"messages": [{"role": role, "content": text} for role, text in messages]}).json["count"]
        self.assertEqual(n("a b"), chat(("user", "a b")))
        self.assertEqual(n([{"role": "user", "content": "a b"}], instructions="s"), chat(("system", "s"), ("user", "a b")))
        self.assertEqual(n([{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "s"}]},
                            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]),
                         chat(("system", "s"), ("user", "a\nb")))
        said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "c", "annotations": []}]}
        self.assertEqual(n([{"role": "user", "content": "a"}, said, {"role": "user", "content": "d"}]),
                         chat(("user", "a"), ("assistant", "c"), ("user", "d")))
        # what is thought and not shown is no message
        self.assertEqual(n([{"role": "user", "content": "a"}, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}, said,
                            {"role": "user", "content": "d"}]), chat(("user", "a"), ("assistant", "c"), ("user", "d")))

    def test_documents(self):
        self.assertEqual(self.server.request("PUT", "/v1/documents/minutes", {"text": "The code is 48213."}).status, 202)
        self.assertTrue(harness.wait_until(lambda: self.server.get("/v1/documents/minutes").json["state"] == "ready"))
        for part in ({"type": "input_file", "file_id": "minutes"}, {"type": "document", "name": "minutes"}):
            r = self.both({"input": [{"role": "user", "content": [part, {"type": "input_text", "text": "[[say=ok]]"}]}], "max_output_tokens": 9})
            self.assertEqual(text_of(r["output"][0]), "ok")
        missing = [{"role": "user", "content": [{"type": "input_file", "file_id": "other"}]}]
        self.assert_refused({"input": missing}, 404, "input[0].content.file_id", "document_not_found")
        for part, param in (({"type": "input_file", "file_data": "data:…"}, "file_data"), ({"type": "input_file", "file_url": "http://x"}, "file_url"),
                            ({"type": "input_file"}, "file_id")):
            self.assert_refused({"input": [{"role": "user", "content": [part]}]}, 400, "input[0].content." + param)
        self.assertEqual(self.server.request("DELETE", "/v1/documents/minutes").status, 200)

    def test_refusals(self):
        user = {"role": "user", "content": "x"}
        rows = [
            ({}, "input"), ({"input": []}, "input"), ({"input": 1}, "input"), ({"input": [1]}, "input[0]"),
            ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"), ({"input": [{"role": "user"}]}, "input[0].content"),
            ({"input": [user, {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[1].content"),
            ({"input": [{"role": "assistant", "content": [{"type": "input_file", "file_id": "x"}]}]}, "input[0].content"),
            ({"input": [user, {"type": "item_reference", "id": "msg_1"}]}, "input[1].type"),
            ({"input": [user, {"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[1].call_id"),
            ({"input": [{"type": "reasoning", "summary": []}]}, "input"),
            ({"input": "x", "instructions": 1}, "instructions"),
            ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"), ({"input": "x", "temperature": 2.5}, "temperature"),
            ({"input": "x", "top_p": "a"}, "top_p"), ({"input": "x", "stream": 1}, "stream"),
            ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"), ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
            ({"input": "x", "tools": TOOLS}, "tools"), ({"input": "x", "tools": [{**TOOLS[0], "defer_loading": True}]}, "tools[0].defer_loading"),
            ({"input": "x", "tool_choice": "required"}, "tool_choice"),
            ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format.type"), ({"input": "x", "text": {"verbosity": "low"}}, "text.verbosity"),
            ({"input": "x", "text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
            ({"input": "x", "text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
            ({"input": "x", "text": {"format": {"type": "json_object", "schema": {}}}}, "text.format.schema"),
            ({"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": 1}}}, "text.format.strict"),
            ({"input": "x", "reasoning": {"effort": "huge"}}, "reasoning.effort"), ({"input": "x", "reasoning": {"mode": "pro"}}, "reasoning.mode"),
            ({"input": "x", "speculate": 17}, "speculate"), ({"input": "x", "speculate": "on"}, "speculate"),
            ({"input": "x", "metadata": {"a": 1}}, "metadata"), ({"input": "x", "metadata": {"a": "b" * 513}}, "metadata"),
            ({"input": "x", "metadata": {str(i): "b" for i in range(17)}}, "metadata"),
            ({"input": "x", "include": ["message.output_text.logprobs"]}, "include"), ({"input": "x", "include": 1}, "include"),
            ({"input": "x", "truncation": "auto"}, "truncation"), ({"input": "x", "background": True}, "background"),
            ({"input": "x", "conversation": "c"}, "conversation"), ({"input": "x", "store": 1}, "store"), ({"input": "x", "prompt": {"id": "p"}}, "prompt"),
            ({"input": "x", "messages": [user]}, "messages"), ({"input": "x", "max_tokens": 5}, "max_tokens"),
            ({"input": "x", "seed": 1}, "seed"), ({"input": "x", "stop": ["a"]}, "stop"), ({"input": "x", "lora": "a"}, "lora"),
            ({"input": "x", "max_output_tokens": 1000000}, "input"), ({"input": "x" * 30000}, "input"),
        ]
        for body, param in rows:
            with self.subTest(body=body):
                self.assert_refused(body, 400, param)
        self.assert_refused({"input": "x", "model": "other"}, 404, "model", "model_not_found")
        self.assert_refused({"input": [user] * 2049}, 400, "input", "too_many_messages")
        self.assertEqual(self.server.post(URL, {"input": [user] * 2, "max_output_tokens": 1}).status, 200)

    def test_what_clients_send_along(self):
        r = self.server.post(URL, {"input": "[[say=ok]]", "truncation": "disabled", "background": False, "store": None, "user": "u",
                                   "service_tier": "auto", "include": ["reasoning.encrypted_content"], "parallel_tool_calls": None,
                                   "previous_response_id": None, "text": {"verbosity": "medium"}, "top_logprobs": 0, "max_tool_calls": 3,
                                   "stream_options": {"include_obfuscation": False}, "prompt_cache_key": "k", "tools": [],
                                   "reasoning": {"effort": None, "summary": "auto"}, "speculate": "auto", "max_output_tokens": 9})
        self.assertEqual((r.status, text_of(r.json["output"][0])), (200, "ok"))


class Stored(Base):
    args = ["api_keys_env=one,two", "response_memory_bytes=4000000"]

    def request(self, method, path, body=None, key="one"):
        return self.server.request(method, path, body, headers={"Authorization": "Bearer " + key})

    def create(self, text, key="one", status=200, **more):
        r = self.request("POST", URL, {"input": text, "max_output_tokens": 9, **more}, key)
        self.assertEqual(r.status, status, r.body)
        return r.json

    def assert_gone(self, id, key="one"):
        for method in ("GET", "DELETE"):
            r = self.request(method, URL + "/" + id, key=key)
            self.assertEqual((r.status, r.error["code"]), (404, "response_not_found"), r.body)
        r = self.request("POST", URL, {"input": "x", "previous_response_id": id}, key)
        self.assertEqual((r.status, r.error["param"], r.error["code"]), (404, "previous_response_id", "previous_response_not_found"))

    def test_what_was_answered_is_shown_again(self):
        r = self.create("[[say=Hello \u2028日本]]", metadata={"a": "b"})
        self.assertTrue(r["store"])
        self.assertEqual(self.request("GET", URL + "/" + r["id"]).json, r)
        sent = self.server.stream(URL, {"input": "[[say=Hello]]", "max_output_tokens": 3}, headers={"Authorization": "Bearer one"})
        streamed = Stream(sent.body).response
        self.assertEqual(self.request("GET", URL + "/" + streamed["id"]).json, streamed)
        self.assert_gone(r["id"], "two")
        d = self.request("DELETE", URL + "/" + r["id"])
        self.assertEqual((d.status, d.json), (200, {"id": r["id"], "object": "response", "deleted": True}))
        self.assert_gone(r["id"])
        self.assert_gone("resp_" + "0" * 24)
        self.assertEqual(self.request("PUT", URL + "/" + r["id"], {}).status, 405)

    def test_what_is_not_to_be_stored_is_not(self):
        r = self.create("[[say=ok]]", store=False)
        self.assertFalse(r["store"])
        self.assert_gone(r["id"])
        failed = self.server.stream(URL, {"input": "x [[fail_at=2]]"}, headers={"Authorization": "Bearer one"})
        last = read_events(failed.body)[-1]
        self.assertEqual((last["type"], last["response"]["status"]), ("response.failed", "failed"))
        self.assertIn(last["response"]["error"]["code"], ("server_error", "invalid_prompt"))
        self.assert_gone(last["response"]["id"])

    def test_a_conversation_goes_on(self):
        def chat(*messages):
            body = {"messages": [{"role": role, "content": text} for role, text in messages]}
            return self.request("POST", "/tokenize", body).json["count"]
        first = self.create("[[say=one]]", instructions="be brief")
        said = [("user", "[[say=one]]"), ("assistant", "one")]
        second = self.create([{"role": "user", "content": [{"type": "input_text", "text": "[[say=two]]"}]}], previous_response_id=first["id"])
        said.append(("user", "[[say=two]]"))
        self.assertEqual((second["usage"]["input_tokens"], second["previous_response_id"]), (chat(*said), first["id"]))
        said.append(("assistant", text_of(second["output"][0])))
        # the first may go: who went on from it has it still
        self.assertEqual(self.request("DELETE", URL + "/" + first["id"]).status, 200)
        third = self.create("x", previous_response_id=second["id"], instructions="s")
        self.assertEqual(third["usage"]["input_tokens"], chat(("system", "s"), *said, ("user", "x")))
        other = self.create("y", previous_response_id=second["id"], store=False)  # and another way from there
        self.assertEqual(other["usage"]["input_tokens"], chat(*said, ("user", "y")))
        self.create("x", key="two", status=404, previous_response_id=second["id"])
        self.create("x", status=400, previous_response_id=1)

    def test_a_conversation_has_no_more_values_than_a_body(self):
        many = [{"role": "user", "content": "x"}, {"type": "reasoning", "summary": [["a"]] * 65000}]
        first = self.create(many)
        second = self.create(many, previous_response_id=first["id"])
        r = self.create("x", status=400, previous_response_id=second["id"])
        self.assertEqual((r["error"]["param"], r["error"]["code"]), ("previous_response_id", "too_many_messages"))
        self.create("x", previous_response_id=first["id"])

    def test_a_conversation_has_as_many_items_as_a_request(self):
        r = self.create([{"role": "user", "content": "x"}] * 2045 + [{"role": "user", "content": "[[say=ok]]"}])
        self.assertEqual(self.create("x", previous_response_id=r["id"], max_output_tokens=1)["status"], "incomplete")  # 2048
        r = self.create([{"role": "user", "content": "y"}] * 2047, max_output_tokens=1)
        self.assertEqual(self.create("x", previous_response_id=r["id"], status=400)["error"]["code"], "too_many_messages")

    def test_what_goes_while_it_is_gone_on_from_was_there_or_was_not(self):
        seen = set()

        def go_on(n):
            first = self.create("[[say=one]]")["id"]
            sent = pool.submit(self.server.stream, URL, {"input": "[[step_ms=2]][[say=two]]", "previous_response_id": first},
                               headers={"Authorization": "Bearer one"})
            time.sleep(n % 8 / 1000)
            gone = list(pool.map(lambda _: self.request("DELETE", URL + "/" + first).status, range(3)))
            self.assertEqual(sorted(gone), [200, 404, 404])
            r = sent.result()
            if r.status == 200:
                self.assertEqual(text_of(Stream(r.body).response["output"][0]), "two")
            else:
                self.assert_error(r, 404, "previous_response_not_found")
            seen.add(r.status)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for n in range(40):
                go_on(n)
        self.assertIn(200, seen)

    def test_the_memory_is_bounded_and_who_fills_it_loses_his_own(self):
        def filling(n):  # what is no message to the model, and stored with the others
            return [{"role": "user", "content": "[[say=ok]]"}, {"type": "reasoning", "summary": [], "encrypted_content": "x" * n}]
        mine = self.create("[[say=ok]]", key="two")
        ids = [self.create(filling(100000))["id"] for _ in range(80)]  # twice what there is room for
        self.assert_gone(ids[0])
        for key, id in (("one", ids[-1]), ("one", ids[-5]), ("two", mine["id"])):
            self.assertEqual(self.request("GET", URL + "/" + id, key=key).status, 200)
        r = self.create(filling(2100000))  # no room even so: nothing is pushed out for it
        self.assertFalse(r["store"])
        self.assert_gone(r["id"])
        self.assertEqual(self.request("GET", URL + "/" + ids[-1]).status, 200)

    def test_the_number_is_bounded(self):
        first, *_, last = [self.create("x", max_output_tokens=1)["id"] for _ in range(1025)]
        self.assert_gone(first)
        self.assertEqual(self.request("GET", URL + "/" + last).status, 200)


class Unstored(Base):
    args = ["response_memory_bytes=0"]

    def test_nothing_is_stored(self):
        r = self.both({"input": "[[say=ok]]", "max_output_tokens": 9})
        self.assertFalse(r["store"])
        self.assertEqual(self.server.get(URL + "/" + r["id"]).status, 404)
        self.assert_refused({"input": "x", "previous_response_id": r["id"]}, 404, "previous_response_id", "previous_response_not_found")


class Formats(Base):
    args = ["template=" + TEMPLATE]

    def ask(self, say, **more):
        return {"input": f"[[say={say}]]", "max_output_tokens": 900, "tools": TOOLS, **more}

    def test_reasoning_text_and_calls(self):
        r = self.both(self.ask(THINK + "Let me look.\n" + CALL % ("weather", ROME) + "\n" + CALL % ("zeit", OSLO)))
        self.assertEqual([i["type"] for i in r["output"]], ["reasoning", "message", "function_call", "function_call"])
        thought, text, call, other = r["output"]
        self.assertEqual((thought["summary"], thought["content"]), ([], [{"type": "reasoning_text", "text": 'hm, "日本"?'}]))
        self.assertEqual(text_of(text).strip(), "Let me look.")
        self.assertRegex(call["call_id"], "^[0-9A-Za-z]{9}$")
        self.assertEqual((call["name"], json.loads(call["arguments"])), ("weather", json.loads(ROME)))
        self.assertEqual((other["name"], json.loads(other["arguments"])), ("zeit", json.loads(OSLO)))
        self.assertEqual({i["status"] for i in r["output"]}, {"completed"})
        self.assertEqual(len({i["id"] for i in r["output"]} | {call["call_id"], other["call_id"]}), 6)
        self.assertGreater(r["usage"]["output_tokens_details"]["reasoning_tokens"], 5)
        self.assertEqual(r["tools"], TOOLS)

    def test_a_call_that_is_cut(self):
        r = self.both(self.ask(CALL % ("weather", ROME), max_output_tokens=60))
        self.assertEqual((r["status"], r["output"][-1]["status"]), ("incomplete", "incomplete"))
        self.assertTrue(ROME.startswith(r["output"][0]["arguments"]) and len(r["output"][0]["arguments"]) < len(ROME))

    def test_which_tool_is_called(self):
        one = {"type": "function", "name": "zeit"}
        for choice in ("required", one, {"type": "allowed_tools", "mode": "required", "tools": [one]}):
            r = self.both(self.ask(CALL % ("zeit", ROME), tool_choice=choice))
            self.assertEqual(([i["type"] for i in r["output"]], r["output"][0]["name"], r["tool_choice"]), (["function_call"], "zeit", choice))
        r = self.both(self.ask(CALL % ("zeit", ROME), tool_choice="none"))
        self.assertEqual([text_of(i) for i in r["output"]], [CALL % ("zeit", ROME)])
        for choice, param in (("maybe", "tool_choice"), ({"type": "custom"}, "tool_choice.type"), ({"type": "function"}, "tool_choice.name"),
                              ({"type": "function", "name": "x"}, "tool_choice.name"), ({"type": "allowed_tools"}, "tool_choice.mode"),
                              ({"type": "allowed_tools", "mode": "auto", "tools": []}, "tool_choice.tools"),
                              ({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "x"}]}, "tool_choice.tools[0].name")):
            self.assert_refused(self.ask("x", tool_choice=choice), 400, param)

    def test_a_conversation_with_tools(self):
        """The items that came back, and the outputs, are to the template what a chat's messages are."""
        call = {"id": "fc_1", "type": "function_call", "call_id": "abcdefghi", "name": "weather", "arguments": ROME, "status": "completed"}
        items = [{"role": "user", "content": "[[say=ok]]"},
                 {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                 {"role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
                 call, {**call, "call_id": "b", "name": "zeit"},
                 {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "noon"}]},
                 {"type": "function_call_output", "call_id": "abcdefghi", "output": "sunny"}]
        calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": ROME}} for i, name in (("abcdefghi", "weather"), ("b", "zeit"))]
        messages = [{"role": "user", "content": "[[say=ok]]"},
                    {"role": "assistant", "content": "Let me look.", "reasoning_content": "hm", "tool_calls": calls},
                    {"role": "tool", "tool_call_id": "b", "name": "zeit", "content": "noon"},
                    {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "sunny"}]
        tools = [{"type": "function", "function": {k: t[k] for k in ("name", "description", "parameters")}} for t in TOOLS]
        chat = self.server.post("/tokenize", {"messages": messages, "tools": tools}).json["count"]
        r = self.both({"input": items, "tools": TOOLS, "max_output_tokens": 20})
        self.assertEqual(r["usage"]["input_tokens"], chat)
        # and so when it goes on from what was stored
        asked = self.ask(THINK + "Let me look." + CALL % ("weather", ROME))
        stored = self.server.post(URL, asked).json
        output = {"type": "function_call_output", "call_id": stored["output"][-1]["call_id"], "output": "sunny"}
        more = {"tools": TOOLS, "max_output_tokens": 9}
        by_id = self.server.post(URL, {"previous_response_id": stored["id"], "input": [output], **more})
        by_items = self.server.post(URL, {"input": [{"role": "user", "content": asked["input"]}, *stored["output"], output], **more})
        self.assertEqual((by_id.status, by_id.json["usage"]["input_tokens"]), (200, by_items.json["usage"]["input_tokens"]))
        for change, param in (({"arguments": "{"}, "arguments"), ({"arguments": {}}, "arguments"), ({"name": ""}, "name"), ({"call_id": 1}, "call_id")):
            self.assert_refused({"input": [items[0], {**call, **change}]}, 400, "input[1]." + param)

    def test_formats(self):
        schema = {"type": "object", "properties": {"a": {"enum": ["b"]}}, "required": ["a"], "additionalProperties": False}
        for form in ({"type": "json_schema", "name": "n", "schema": schema, "strict": True}, {"type": "json_object"}):
            r = self.both({"input": '[[say={"a":"b"}]]', "text": {"format": form}, "max_output_tokens": 99})
            self.assertEqual((text_of(r["output"][-1]), r["text"]), ('{"a":"b"}', {"format": form}))
        self.assert_refused({"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"not": {}}}}}, 400,
                            "text.format.schema")


if __name__ == "__main__":
    harness.main()
