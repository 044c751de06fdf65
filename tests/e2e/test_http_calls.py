"""Calls by the real engine: the demo model, which has never seen a tool, with the template of tests/golden/chat in its
directory. Nothing but the masks makes its answers calls, so what comes of them shows that they hold."""
import json
import os
import tempfile

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
COLOURS = ["red", "green"]
STRICT = {"type": "object", "properties": {"colour": {"enum": COLOURS}, "n": {"type": "integer", "minimum": 1, "maximum": 9}},
          "required": ["colour", "n"], "additionalProperties": False}


def tool(name, strict=True, parameters=STRICT):
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}


def directory_with_template(thinks=True):
    """The demo model's directory, but for its chat template."""
    out = tempfile.TemporaryDirectory()
    source = os.path.join(ROOT, "demo", "model")
    for name in os.listdir(source):
        os.symlink(os.path.join(source, name), os.path.join(out.name, name))
    path = os.path.join(out.name, "tokenizer_config.json")
    config = json.load(open(path))
    with open(os.path.join(ROOT, "tests", "golden", "chat", "templates", "calls.jinja"), encoding="utf-8") as file:
        config["chat_template"] = file.read()
    if not thinks:
        config["chat_template"] = config["chat_template"].replace("<think>", "").replace("</think>", "")
    os.unlink(path)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return out


class Calls(harness.Case):
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.folder = directory_with_template()
        cls.args = ["--model", cls.folder.name, "--ctx", "4K"]
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_a_document_is_read_behind_its_tools(self):
        tools = [tool("pick"), tool("drop", strict=False)]
        with open(os.path.join(ROOT, "demo", "document.txt"), encoding="utf-8") as f:
            body = {"text": f.read(3000), "tools": tools}
        r = self.server.request("PUT", "/v1/documents/tools?wait=true", body, timeout=200)
        self.assertEqual(r.status, 200, r.body)
        doc = self.server.get("/v1/documents/tools").json
        self.assertEqual(self.server.request("PUT", "/v1/documents/tools", body).status, 200)  # the same
        self.assertEqual(self.server.request("PUT", "/v1/documents/tools", {"text": body["text"]}).status, 409)
        content = [{"type": "document", "name": "tools"}, {"type": "text", "text": "Which?"}]
        for given, cached in ((tools, doc["tokens"] // 64 * 64), ([tool("other")], 0)):
            r = self.server.post(CHAT, {"messages": [{"role": "user", "content": content}], "tools": given, "max_tokens": 4})
            self.assertEqual(r.status, 200, r.body)
            got = r.json["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.assertTrue(got == cached if cached else got < 256, (got, cached))
        for bad in (5, [{}], [tool("a"), tool("a")]):
            r = self.server.request("PUT", "/v1/documents/b", {"text": "x", "tools": bad})
            self.assertEqual((r.status, r.json["error"]["param"].split("[")[0].split(".")[0]), (400, "tools"), r.body)

    def ask(self, seed, **more):
        r = self.server.post(CHAT, {"messages": [{"role": "user", "content": "Which?"}], "max_tokens": 200, "seed": seed,
                                    "temperature": 2, "tools": [tool("pick"), tool("drop")], **more})
        self.assertEqual(r.status, 200, r.body)
        return r.json["choices"][0]

    def check_strict(self, call):
        value = json.loads(call["function"]["arguments"])
        self.assertEqual(sorted(value), ["colour", "n"])
        self.assertTrue(value["colour"] in COLOURS and value["n"] in range(1, 10), value)

    def test_required(self):
        names = set()
        for seed in range(12):
            choice = self.ask(seed, tool_choice="required", parallel_tool_calls=False, chat_template_kwargs={"enable_thinking": False})
            self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
            call, = choice["message"]["tool_calls"]
            names.add(call["function"]["name"])
            self.check_strict(call)
        self.assertEqual(names, {"pick", "drop"})

    def test_one_by_name(self):
        for choice in ({"type": "function", "function": {"name": "drop"}},
                       {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "drop"}}]}}):
            for seed in range(4):
                got = self.ask(seed, tool_choice=choice, parallel_tool_calls=False, chat_template_kwargs={"enable_thinking": False})
                self.assertEqual([c["function"]["name"] for c in got["message"]["tool_calls"]], ["drop"])

    def test_several_calls_and_loose_arguments(self):
        for seed in range(4):
            got = self.ask(seed, tools=[tool("pick", strict=False, parameters={})], tool_choice="required", max_tokens=300,
                           chat_template_kwargs={"enable_thinking": False})
            calls = got["message"]["tool_calls"]
            whole = calls if got["finish_reason"] == "tool_calls" else calls[:-1]
            for call in whole:
                self.assertIsInstance(json.loads(call["function"]["arguments"]), dict)

    def test_any_of_messages(self):
        for more in ({"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}, {"tool_choice": {"type": "tool", "name": "pick"}}):
            r = self.server.post(MESSAGES, {"model": "any", "max_tokens": 200, "messages": [{"role": "user", "content": "x"}],
                                            "tools": [{"name": "pick", "input_schema": STRICT, "strict": True}], **more})
            self.assertEqual(r.status, 404)
            r = self.server.post(MESSAGES, {"max_tokens": 200, "messages": [{"role": "user", "content": "x"}],
                                            "tools": [{"name": "pick", "input_schema": STRICT, "strict": True}], **more})
            self.assertEqual((r.status, r.json["stop_reason"]), (200, "tool_use"), r.body)
            block, = r.json["content"]
            self.assertEqual((block["type"], block["name"]), ("tool_use", "pick"))
            self.assertIn(block["input"]["colour"], COLOURS)

    def test_a_format_behind_reasoning_and_beside_tools(self):
        schema = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": STRICT}}
        for seed in range(4):
            got = self.ask(seed, tools=None, response_format=schema, chat_template_kwargs={"enable_thinking": False})
            self.assertEqual(got["finish_reason"], "stop")
            self.assertIn(json.loads(got["message"]["content"])["colour"], COLOURS)
            got = self.ask(seed, response_format=schema, parallel_tool_calls=False, chat_template_kwargs={"enable_thinking": False})
            if got["finish_reason"] == "tool_calls":
                self.check_strict(got["message"]["tool_calls"][0])
            else:
                self.assertIn(json.loads(got["message"]["content"])["colour"], COLOURS)
        r = self.server.post(MESSAGES, {"max_tokens": 200, "messages": [{"role": "user", "content": "x"}],
                                        "output_config": {"format": {"type": "json_schema", "schema": STRICT}}})
        self.assertIn(json.loads(r.json["content"][0]["text"])["colour"], COLOURS, r.body)

    def test_an_answer_that_has_begun_does_not_think_any_more(self):
        ids = self.server.post("/tokenize", {"prompt": "<", "add_special_tokens": False}).json["tokens"]
        r = self.server.post(CHAT, {"messages": [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "I say"}],
                                    "continue_final_message": True, "max_tokens": 200,
                                    "logit_bias": {str(i): 100 for i in ids}, "guided_json": STRICT})
        self.assertIn(json.loads(r.json["choices"][0]["message"]["content"] or "null")["colour"], COLOURS, r.body)

    def test_schemas_that_will_not_do(self):
        bad = {"type": "object", "properties": {"x": {"not": {}}}}
        body = {"messages": [{"role": "user", "content": "x"}], "tools": [tool("pick", parameters=bad)]}
        r = self.server.post(CHAT, body)
        self.assertEqual((r.status, r.error["param"]), (400, "tools"), r.body)
        self.assertIn("pick", r.error["message"])
        r = self.server.post(CHAT, {**body, "tools": [tool("pick", strict=False, parameters=bad)], "max_tokens": 5})
        self.assertEqual(r.status, 200, r.body)
        r = self.server.post(CHAT, {**body, "tools": [tool("pick")], "response_format": {
            "type": "json_schema", "json_schema": {"name": "x", "schema": bad}}})
        self.assertEqual((r.status, r.error["param"]), (400, "response_format.json_schema.schema"), r.body)


class CallsWithoutThinking(harness.Case):
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.folder = directory_with_template(thinks=False)
        cls.args = ["--model", cls.folder.name, "--ctx", "4K"]
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_a_model_that_does_not_think_is_not_led_into_it_by_a_format(self):
        ids = self.server.post("/tokenize", {"prompt": "<", "add_special_tokens": False}).json["tokens"]
        r = self.server.post(CHAT, {"messages": [{"role": "user", "content": "Which?"}], "max_tokens": 200,
                                    "logit_bias": {str(i): 100 for i in ids}, "guided_json": STRICT})
        self.assertIn(json.loads(r.json["choices"][0]["message"]["content"] or "null")["colour"], COLOURS, r.body)


if __name__ == "__main__":
    harness.main()
