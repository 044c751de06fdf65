"""/v1/messages: the same generation in Anthropic's form, whole and as a stream, and its refusals."""
import json
import re

import harness

URL = "/v1/messages"


def body(text, **more):
    return {"model": "fake", "max_tokens": 64, "messages": [{"role": "user", "content": text}], **more}


def named_events(data):
    """(name, value) of each event; the name must be the value's type."""
    out = []
    for block in data.decode().split("\n\n")[:-1]:
        m = re.fullmatch(r"event: (\w+)\ndata: ([^\n]*)", block)
        if not m:
            raise AssertionError(f"not an event: {block!r}")
        out.append(json.loads(m.group(2)))
        if out[-1]["type"] != m.group(1):
            raise AssertionError(block)
    return out


class Messages(harness.Case):
    def ask(self, text, **more):
        return self.server.post(URL, body(text, **more))

    def assert_refused(self, r, status, kind, part):
        self.assertEqual(r.status, status, r.body)
        self.assertEqual((r.json["type"], r.json["error"]["type"]), ("error", kind))
        self.assertIn(part, r.json["error"]["message"])

    def test_a_whole_answer(self):
        r = self.ask("[[say=Hello 日本]]")
        m = r.json
        self.assertEqual((r.status, m["type"], m["role"], m["model"]), (200, "message", "assistant", "fake"))
        self.assertTrue(m["id"].startswith("msg_"))
        self.assertEqual(m["content"], [{"type": "text", "text": "Hello 日本"}])
        self.assertEqual((m["stop_reason"], m["stop_sequence"]), ("end_turn", None))
        chat = self.server.chat("[[say=Hello 日本]]", max_tokens=64).json["usage"]
        self.assertEqual(m["usage"]["input_tokens"] + m["usage"]["cache_read_input_tokens"], chat["prompt_tokens"])
        self.assertEqual(m["usage"]["output_tokens"], chat["completion_tokens"])

    def test_why_it_stopped(self):
        self.assertEqual(self.ask("x", max_tokens=3).json["stop_reason"], "max_tokens")
        m = self.ask("[[say=one two three]]", stop_sequences=["zzz", "two"]).json
        self.assertEqual((m["stop_reason"], m["stop_sequence"]), ("stop_sequence", "two"))
        self.assertEqual(m["content"][0]["text"], "one ")

    def test_a_stream_adds_up_to_the_whole(self):
        for more in ({}, {"stop_sequences": ["wor"]}, {"max_tokens": 4}):
            whole = self.ask("[[say=Hello wonderful world 日本]]", **more).json
            r = self.server.stream(URL, body("[[say=Hello wonderful world 日本]]", **more))
            self.assertTrue(r.headers["content-type"].startswith("text/event-stream"))
            events = named_events(r.body)
            kinds = [e["type"] for e in events]
            self.assertEqual(kinds[:2], ["message_start", "content_block_start"])
            self.assertEqual(kinds[-3:], ["content_block_stop", "message_delta", "message_stop"])
            self.assertEqual(set(kinds[2:-3]), {"content_block_delta"})
            text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
            self.assertEqual(text, whole["content"][0]["text"])
            last = events[-2]
            self.assertEqual(last["delta"], {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]})
            self.assertEqual(last["usage"]["output_tokens"], whole["usage"]["output_tokens"])

    def test_system_and_blocks(self):
        plain = self.ask("[[say=ok]]", system="be brief").json
        blocks = self.server.post(URL, {
            "model": "fake", "max_tokens": 64, "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "[[say=ok]]"}]}]}).json
        self.assertEqual(plain["content"], blocks["content"])
        without = self.ask("[[say=ok]]").json
        n = lambda m: m["usage"]["input_tokens"] + m["usage"]["cache_read_input_tokens"]
        self.assertEqual(n(plain), n(blocks))
        self.assertGreater(n(plain), n(without))

    def test_a_system_message_stands_where_it_came(self):
        said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        asked = [{"role": "user", "content": "[[say=ok]]"}]
        chat = self.server.post("/tokenize", {"messages": [*said, {"role": "system", "content": "be\nbrief"}, *asked]}).json["count"]
        for content in ("be\nbrief", [{"type": "text", "text": "be"}, {"type": "text", "text": "brief", "cache_control": None}]):
            messages = {"model": "fake", "messages": [*said, {"role": "system", "content": content}, *asked]}
            self.assertEqual(self.server.post(URL + "/count_tokens", messages).json, {"input_tokens": chat})
            self.assertEqual(self.server.post(URL, {**messages, "max_tokens": 9}).json["content"][0]["text"], "ok")

    def test_it_goes_on_from_a_last_message_of_the_assistants(self):
        begun = body("[[say= world]]")
        begun["messages"].append({"role": "assistant", "content": [{"type": "text", "text": "Hello"}]})
        m = self.server.post(URL, begun).json
        self.assertEqual(m["content"], [{"type": "text", "text": " world"}])
        whole = self.server.post(URL + "/count_tokens", begun).json["input_tokens"]
        self.assertEqual(m["usage"]["input_tokens"] + m["usage"]["cache_read_input_tokens"], whole)
        # as the template writes the beginning of an answer, and then the text; it is not closed
        asked = self.server.post(URL + "/count_tokens", body("[[say= world]]")).json["input_tokens"]
        self.assertEqual(whole, asked + 1)

    def test_refusals_have_its_form(self):
        self.assert_refused(self.server.post(URL, {"model": "fake", "max_tokens": 5}), 400, "invalid_request_error", "messages")
        no_length = body("x")
        del no_length["max_tokens"]
        self.assert_refused(self.server.post(URL, no_length), 400, "invalid_request_error", "max_tokens")
        self.assert_refused(self.ask("x", tools=[{"name": "f"}]), 400, "invalid_request_error", "tools")
        self.assert_refused(self.ask("x", thinking={"type": "enabled", "budget_tokens": 9}), 400, "invalid_request_error", "thinking")
        self.assertEqual(self.ask("[[say=ok]]", thinking={"type": "disabled"}, metadata={"user_id": "u"}).status, 200)
        for chats in ({"seed": 1}, {"stop": ["a"]}, {"cache_salt": "a"}, {"lora": "a"}, {"response_format": {"type": "json_object"}},
                      {"enable_thinking": False}, {"guided_json": {}}, {"n": 2}):
            self.assert_refused(self.ask("x", **chats), 400, "invalid_request_error", *chats)
        self.assertEqual(self.ask("[[say=ok]]", n=1, stop=[], presence_penalty=0, user="u", nobody_knows_this=1).status, 200)
        self.assertEqual(self.ask("[[say=ok]]", speculate=16).status, 200)
        self.assert_refused(self.ask("x", speculate=17), 400, "invalid_request_error", "speculate")
        self.assert_refused(self.ask("x", model="other"), 404, "not_found_error", "other")
        self.assert_refused(self.ask("x", temperature=1.5), 400, "invalid_request_error", "temperature")
        self.assert_refused(self.ask([{"type": "image", "source": {}}]), 400, "invalid_request_error", "text")
        last = body("x")
        for text in ("", " \n", [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]):
            last = body("x")
            last["messages"].append({"role": "assistant", "content": text})
            self.assert_refused(self.server.post(URL, last), 400, "invalid_request_error", "messages")
        last["messages"][1]["role"] = "tool"
        self.assert_refused(self.server.post(URL, last), 400, "invalid_request_error", "messages[1].role")
        self.assert_refused(self.server.post(URL, b"{"), 415, "invalid_request_error", "Content-Type")
        self.assert_refused(self.server.post(URL, b"{", headers={"Content-Type": "application/json"}), 400, "invalid_request_error", "JSON")
        self.assert_refused(self.server.get(URL), 405, "invalid_request_error", "POST")

    def test_an_error_in_a_stream(self):
        events = named_events(self.server.stream(URL, body("x [[fail_at=2]]")).body)
        self.assertEqual((events[-1]["type"], events[-1]["error"]["type"]), ("error", "api_error"))


class Keys(harness.Case):
    args = ("api_keys_env=secret",)

    def test_its_clients_send_x_api_key(self):
        for headers, status in (({"x-api-key": "secret"}, 200), ({"Authorization": "Bearer secret"}, 200),
                                ({"x-api-key": "other"}, 401), ({"x-api-key": "secret", "Authorization": "Bearer no"}, 401),
                                ({}, 401)):
            r = self.server.post(URL, body("[[say=ok]]"), headers={"anthropic-version": "2023-06-01", **headers})
            self.assertEqual(r.status, status, headers)
            if status == 401:
                self.assertEqual(r.json["error"]["type"], "authentication_error")
                for way in ("Authorization: Bearer KEY", "x-api-key: KEY"):
                    self.assertIn(way, r.json["error"]["message"])


if __name__ == "__main__":
    harness.main()
