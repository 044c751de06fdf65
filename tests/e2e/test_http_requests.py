"""Requests: every field with its range, null as its default, what is refused by name."""
import json
import re
import urllib.parse

import harness

CHAT = {"messages": [{"role": "user", "content": "[[say=ok]][[free=1]]"}]}
TEXT = {"prompt": "[[say=ok]][[free=1]]"}

# name: (values taken, values refused), for both endpoints
RANGES = {
    "temperature": ([0, 0.5, 2, 2.0, 1e-3], [-0.1, 2.1, "1", True, [], 1e300]),
    "top_p": ([0, 0.5, 1], [-0.01, 1.01, "x"]),
    "min_p": ([0, 0.5, 1], [-0.01, 1.01, {}]),
    "top_k": ([-1, 0, 1, 50, 3.0], [-2, 1.5, "5", 1e18]),
    "presence_penalty": ([-2, 0, 2], [-2.1, 2.1, "x"]),
    "frequency_penalty": ([-2, 0, 2], [-2.1, 2.1, False]),
    "repetition_penalty": ([0.01, 1, 1.5, 100], [0, -1, 101]),
    "n": ([1, 2, 8], [0, -1, 1.5, "1", 9, 129]),
    "max_tokens": ([1, 100, 1e2], [-1, 1.5, "1", 2**63]),
    "max_completion_tokens": ([1, 100], [-1, 1.5, "1"]),
    "min_tokens": ([0, 1, 3], [-1, 1.5]),
    "seed": ([0, -1, 2**63 - 1, -2**63, 5.0], [2**63, 1.5, "1"]),
    "ignore_eos": ([False], [0, "true"]),
    "stream": ([False], [1, "true"]),
    "return_progress": ([True, False], [1]),
    "priority": ([0, -5, 100], [1.5, 10**9, "x"]),
    "speculate": (["auto", "off", True, False, 0, 8, 16], [17, -1, 2.5, "on", "8", [], {}]),
    "cache_salt": (["a", "x" * 256], ["", "x" * 257, 5]),
    "stop": (["a", ["a"], ["a"] * 4, [], "x" * 256, ["é"]], ["", [""], ["a"] * 5, [1], 5, "x" * 257, {"a": 1}]),
    "stop_token_ids": ([[], [1, 2], [0] * 64], [[-1], [100000], [1.5], ["1"], 1, [0] * 65]),
    "logit_bias": ([{}, {"5": 100, "6": -100}, {"7": 0.5}, {str(i): 0 for i in range(270)}],
                   [{"5": 101}, {"5": -101}, {"x": 1}, {"-1": 1}, {"100000": 1}, {"5": "1"}, [], {"05": 1}, {"": 1},
                    {str(i): 0 for i in range(301)}]),
    "user": (["x"], []),
    "metadata": ([{"a": "b"}], []),
    "store": ([True], []),
    "stream_options": ([], [{"include_usage": True}, {}, 5]),
    "model": (["fake", ""], [5]),
    "response_format": ([{"type": "text"}, {"type": "json_object"},
                         {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "object"}}}],
                        [{"type": "json_schema", "json_schema": {}}, {"type": "grammar"}, {}, 1]),
    "tool_choice": (["none"], ["required", "any", {"type": "function"}]),
    "tools": ([[]], [[{"type": "function", "function": {"name": "f"}}], 1]),
    "functions": ([[]], [[{"name": "f"}]]),
    "function_call": (["none"], ["auto"]),
    "modalities": ([["text"]], [["text", "audio"], ["audio"], "text"]),
    "audio": ([], [{"voice": "x"}]),
    "prediction": ([{"type": "content", "content": c} for c in ("x", "", "é" * 900, [], [{"type": "text", "text": "x"}] * 2)],
                   ["x", 5, [], {}, {"type": "content"}, {"type": "text", "content": "x"}, {"type": "content", "content": 5},
                    {"type": "content", "content": ["x"]}, {"type": "content", "content": [{"type": "image_url"}]},
                    {"type": "content", "content": [{"type": "text"}]}, {"type": "content", "content": "é" * 9000}]),
    "web_search_options": ([], [{}]),
    "reasoning_effort": ([], ["huge", 5]),
    "suffix": ([""], ["x"]),
    "use_beam_search": ([False], [True]),
    "length_penalty": ([1, 1.0], [2]),
    "guided_json": ([{}, {"type": "object"}, "{}", True], [{"type": "x"}, {"not": {}}, "{", 5, []]),
    "json_schema": ([{"type": "object"}], [{"not": {}}, 5]),
    "guided_regex": (["a*"], ["a**b(", "[", 5]),
    "guided_choice": ([["a", "b"]], [[], "a", [1], {"a": 1}]),
    "guided_whitespace_pattern": ([" ?"], [5]),
    "guided_grammar": ([], ["root ::= x"]),
    "grammar": ([""], ["root ::= x"]),
    "structured_outputs": ([{"json": {}}, {"regex": "a"}, {"choice": ["a"]}, {"json_object": True}, {}],
                           [{"grammar": "x"}, {"structural_tag": "x"}, {"json": {}, "regex": "a"}, {"json": 5}, 5]),
    "num_predict": ([], [5]),
    "system": ([""], ["be brief"]),
    "enable_thinking": ([], [True, False]),
    "thinking": ([], [{"type": "enabled"}]),
    "lora": ([[]], [[{"id": 0, "scale": 1}]]),
    "options": ([{}], [{"num_predict": 5}]),
    "keep_alive": (["5m", 0], []),
    "truncate_prompt_tokens": ([], [5]),
    "prompt_logprobs": ([0, 20], [-1, 21]),
    "skip_special_tokens": ([True], [5]),
    "include_stop_str_in_output": ([False, True], [1]),
    "return_token_ids": ([False, True], [1]),
    "request_id": (["a-b_c.1"], ["a b", 5]),
    "allowed_token_ids": ([[5], [5, 5, 6]], [[], [-1], [100000], ["5"], [1.5], 5, "5", {"5": 1}]),
    "bad_words": ([[], ["x"], [" x", "\n", "<|end|>"]], [[""], [5], "x", ["x" * 1025], {"x": 1}]),
    "bad_words_ids": ([[]], [[[5]]]),
    "n_predict": ([], [5]),
    "max_new_tokens": ([], [5]),
    "mirostat": ([0], [2]),
    "repeat_penalty": ([1, 1.0], [1.1]),
    "no_repeat_ngram_size": ([0], [3]),
    "dynatemp_range": ([0, 0.0], [0.5]),
    "top_n_sigma": ([0], [1]),
    "n_probs": ([0], [5]),
    "num_beams": ([1], [4]),
    "samplers": ([[]], [["top_k"]]),
    "stop_sequences": ([[]], [["x"]]),
    "logits_processors": ([[]], [["x"]]),
}

def saying(name, value, base):
    """The scripted answer is one that the field asks for."""
    text = json.dumps({name: value})
    answer = "ok"
    if re.search('"(guided_)?(regex|choice)"', text):
        answer = "a"
    elif value is not None and name != "guided_whitespace_pattern" and "json" in text:
        answer = "{}"
    return json.loads(json.dumps(base).replace("[[say=ok]]", f"[[say={answer}]]"))


class Requests(harness.Case):
    args = ("ctx=2048",)

    def send(self, body):
        return self.server.post("/v1/chat/completions" if "messages" in body else "/v1/completions", body)

    def test_ranges(self):
        c = self.server.connect()
        for name, (good, bad) in RANGES.items():
            for base in (CHAT, TEXT):
                if name in ("suffix",) and base is CHAT:
                    continue
                path = "/v1/chat/completions" if base is CHAT else "/v1/completions"
                if name == "prediction" and base is TEXT:
                    good, bad = [], good + bad
                for value in [*good, None]:
                    r = self.server.post(path, {**saying(name, value, base), name: value}, connection=c)
                    self.assertEqual(r.status, 200, (name, value, r.body[:300]))
                for value in bad:
                    r = self.server.post(path, {**base, name: value}, connection=c)
                    self.assertNotEqual(r.status, 200, (name, value))
                    self.assert_error(r, 404 if name == "model" and isinstance(value, str) else 400)
                    self.assertTrue(r.error["param"].startswith(name), (name, value, r.error))
        c.close()

    def test_every_optional_field_may_be_null_at_once(self):
        for base in (CHAT, TEXT):
            self.assertEqual(self.send({**base, **{name: None for name in RANGES}, "logprobs": None, "echo": None,
                                        "top_logprobs": None, "best_of": None}).status, 200)

    def test_fields_of_one_endpoint_only(self):
        for value, ok in ((0, 1), (5, 1), (20, 1), (21, 0), (-1, 0), (1.5, 0), (True, 0), ("1", 0)):
            self.assertEqual(self.send({**TEXT, "logprobs": value}).status, 200 if ok else 400)
        for value, ok in ((True, 1), (False, 1), (1, 0)):
            self.assertEqual(self.send({**CHAT, "logprobs": value}).status, 200 if ok else 400)
        for value, ok in ((0, 1), (20, 1), (21, 0), (-1, 0)):
            self.assertEqual(self.send({**CHAT, "logprobs": True, "top_logprobs": value}).status, 200 if ok else 400)
        self.assert_error(self.send({**CHAT, "top_logprobs": 2}), 400, "invalid_value", "top_logprobs")
        for value, ok in ((True, 1), (False, 1), (1, 0)):
            for base in (TEXT, CHAT):
                self.assertEqual(self.send({**base, "echo": value}).status, 200 if ok else 400)
        for n, best_of, ok in ((1, 1, 1), (2, 2, 1), (1, 2, 0), (2, 1, 0)):
            for base in (TEXT, CHAT):
                self.assertEqual(self.send({**base, "n": n, "best_of": best_of}).status, 200 if ok else 400)
        for value, ok in ((False, 1), (True, 0)):
            r = self.server.post("/tokenize", {"prompt": "x", "with_pieces": value})
            self.assertEqual(r.status, 200 if ok else 400)

    def test_lengths_that_contradict_each_other(self):
        self.assert_error(self.send({**TEXT, "max_tokens": 5, "max_completion_tokens": 6}), 400, None, "max_tokens")
        self.assertEqual(self.send({**TEXT, "max_tokens": 5, "max_completion_tokens": 5}).status, 200)
        self.assert_error(self.send({**TEXT, "max_tokens": 5, "min_tokens": 6}), 400, None, "min_tokens")
        self.assert_error(self.send({**CHAT, "max_tokens": 0}), 400, None, "max_tokens")
        self.assert_error(self.send({**CHAT, "max_completion_tokens": 0}), 400, None, "max_completion_tokens")
        self.assertEqual(self.send({**TEXT, "max_tokens": 0}).status, 200)

    def test_stream_options_only_with_stream(self):
        self.assertEqual(self.send({**TEXT, "stream": True, "stream_options": {"include_usage": True}}).status, 200)
        self.assertEqual(self.send({**TEXT, "stream": True, "stream_options": {"include_usage": None}}).status, 200)
        self.assert_error(self.send({**TEXT, "stream": True, "stream_options": {"include_usage": 1}}), 400, None,
                          "stream_options.include_usage")
        self.assert_error(self.send({**TEXT, "stream_options": {"include_usage": True}}), 400, None, "stream_options")

    def test_unknown_fields_are_ignored_and_counted(self):
        before = self.server.metric("http_unknown_fields_total")
        self.assertEqual(self.send({**TEXT, "wibble": 1, "Temperature": 99, "x" * 300: None}).status, 200)
        self.assertEqual(self.server.metric("http_unknown_fields_total"), before + 3)

    def test_a_model_that_is_not_there_is_named_beside_the_one_that_is(self):
        for name in ("gpt-9", "x/y\u202ez", "m" * 500):
            r = self.server.get("/v1/models/" + urllib.parse.quote(name))
            self.assert_error(r, 404, "model_not_found", "model")
            self.assertIn('"%s' % name[:100].replace("\u202e", "?"), r.error["message"])
            self.assertIn('"fake"', r.error["message"])
            self.assertLess(len(r.error["message"]), 300)

    def test_forms_of_a_prompt(self):
        say = list(b"[[say=ok]]")
        for prompt, n in (("[[say=ok]]", 1), (["[[say=ok]]"], 1), (say, 1), ([say], 1), (["[[say=ok]]"] * 3, 3),
                          ([say, say], 2)):
            r = self.send({"prompt": prompt})
            self.assertEqual(r.status, 200)
            self.assertEqual([c["text"] for c in r.json["choices"]], ["ok"] * n)
            self.assertEqual([c["index"] for c in r.json["choices"]], list(range(n)))
        for prompt in ([], [[]], ["x", 1], ["x", [1]], [1, "x"], [[1], "x"], [1.5], [-1], [100000], [[100000]], [None],
                       [True], 5, True, {"a": 1}, [["x"]], [[[1]]], ["x"] * 1025):
            r = self.send({"prompt": prompt})
            self.assert_error(r, 400, None, "prompt")
        self.assert_error(self.send({}), 400, "missing_parameter", "prompt")
        self.assert_error(self.send({"prompt": None}), 400, "missing_parameter", "prompt")
        self.assertEqual(self.send({"prompt": ""}).status, 200)  # the beginning-of-text token
        self.assert_error(self.send({"prompt": "", "add_special_tokens": False}), 400, "empty_prompt", "prompt")

    def test_several_prompts_with_several_choices_are_numbered_by_prompt(self):
        r = self.send({"prompt": ["[[say=a]]", "[[say=b]]"], "n": 3})
        self.assertEqual([(c["index"], c["text"]) for c in r.json["choices"]], list(enumerate("aaabbb")))
        self.assertEqual(self.send({"prompt": ["x"] * 64}).status, 200)
        self.assert_error(self.send({"prompt": ["x"] * 513, "n": 2}), 400, "too_many_choices", "n")

    def test_a_thousand_prompts_are_one_request(self):
        prompts = [f"[[say=<{i}>]]" for i in range(1024)]
        whole = self.send({"prompt": prompts})
        self.assertEqual(whole.status, 200, whole.body[:300])
        self.assertEqual([(c["index"], c["text"]) for c in whole.json["choices"]], [(i, f"<{i}>") for i in range(1024)])
        texts = [""] * 1024
        for e in harness.events(self.server.stream("/v1/completions", {"prompt": prompts}).body)[:-1]:
            for c in json.loads(e)["choices"]:
                texts[c["index"]] += c["text"]
        self.assertEqual(texts, [f"<{i}>" for i in range(1024)])

    def test_lists_of_ids_are_as_long_as_the_body(self):
        """262,144 numbers: more than there may be values of other kinds in a request."""
        r = self.send({"prompt": [[97] * 16384] * 16})
        self.assert_error(r, 400, "context_length_exceeded", "prompt")
        self.assertEqual(r.error["n_prompt_tokens"], 16384)

    def test_messages(self):
        user = {"role": "user", "content": "[[say=ok]]"}
        good = [
            [user],
            [{"role": "system", "content": "s"}, user],
            [{"role": "developer", "content": "s"}, user],
            [user, {"role": "assistant", "content": "a"}, {"role": "tool", "content": "t", "tool_call_id": "1"}],
            [{"role": "user", "content": [{"type": "text", "text": "[[say="}, {"type": "text", "text": "ok]]"}]}],
            [user, {"role": "assistant", "content": None, "tool_calls": []}],
            [user, {"role": "assistant", "tool_calls": []}],
            [{**user, "name": "bob", "wibble": [1, {"a": "\""}]}],
            [{"role": "user", "content": ""}] * 100 + [user],
            [{"role": "user", "content": []}, user],
        ]
        bad = [
            None, [], "x", [1], ["x"], [{}], [{"content": "x"}], [{"role": "user"}], [{"role": "robot", "content": "x"}],
            [{"role": 1, "content": "x"}], [{"role": "user", "content": 5}], [{"role": "user", "content": None}],
            [{"role": "user", "content": {"type": "text", "text": "x"}}], [{"role": "user", "content": ["x"]}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            [{"role": "user", "content": [{"type": "input_audio"}]}], [{"role": "user", "content": [{"type": "text"}]}],
            [{"role": "user", "content": [{"text": "x"}]}], [user, None],
        ]
        for messages in good:
            self.assertEqual(self.send({"messages": messages}).status, 200, messages)
        for messages in bad:
            r = self.send({"messages": messages})
            self.assert_error(r, 400)
            self.assertTrue(r.error["param"].startswith("messages"), r.error)
        self.assertEqual(self.send({"messages": [{"role": "user", "content": ""}] * 100 + [user] * 3}).status, 200)
        self.assert_error(self.send({"messages": [{"role": "user", "content": ""}] * 2049}), 400, "too_many_messages")

    def test_2048_messages_are_taken(self):
        r = self.server.post("/apply-template", {"messages": [{"role": "user", "content": ""}] * 2048})
        self.assertEqual(r.json["prompt"].count("<|user|>"), 2048)

    def test_developer_and_parts_reach_the_template_in_a_form_that_it_knows(self):
        r = self.server.post("/apply-template", {"messages": [
            {"role": "developer", "content": "be\u2028brief"},
            {"role": "user", "content": [{"type": "text", "text": "a\"b"}, {"type": "text", "text": "c\\n\u00e9"}]}]})
        self.assertEqual(r.json["prompt"], "<s><|system|>be\u2028brief<|end|><|user|>a\"b\nc\\n\u00e9<|end|><|assistant|>")
        r = self.server.post("/apply-template", {"messages": [{"role": "user", "content": "x"}],
                                                 "add_generation_prompt": False})
        self.assertEqual(r.json["prompt"], "<s><|user|>x<|end|>")

    def test_a_template_s_refusal_is_the_client_s_fault(self):
        r = self.send({**CHAT, "chat_template_kwargs": {"raise": "x"}})
        self.assert_error(r, 400, "invalid_value", "messages")
        self.assertIn("these messages will not do", r.error["message"])
        for name in ("chat_template", "documents"):
            self.assert_error(self.send({**CHAT, name: "{{ x }}"}), 400, "unsupported_parameter", name)
        self.assert_error(self.send({**CHAT, "chat_template_kwargs": []}), 400, None, "chat_template_kwargs")

    def test_special_tokens_in_content_are_ordinary_text(self):
        r = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "</s><|user|>"}]})
        ids = r.json["tokens"]
        self.assertEqual(ids[0], 256)
        self.assertEqual(sum(i == 259 for i in ids), 1)  # the template's own <|user|>
        self.assertNotIn(257, ids)

    def test_special_tokens_in_a_prompt_are_recognized_unless_told_otherwise(self):
        for name in ("prompt", "content"):
            self.assertEqual(self.server.post("/tokenize", {name: "</s>"}).json["tokens"], [256, 257])
            self.assertNotIn(257, self.server.post("/tokenize", {name: "</s>", "parse_special": False}).json["tokens"])
        for special, n in ((None, 2), (True, 2), (False, 5)):
            r = self.send({"prompt": "</s>", "parse_special": special, "max_tokens": 1})
            self.assertEqual(r.json["usage"]["prompt_tokens"], n)

    def test_too_long_is_400_with_the_numbers(self):
        r = self.server.complete("a" * 2000, max_tokens=512)
        self.assert_error(r, 400, "context_length_exceeded", "prompt")
        self.assertEqual(r.error["message"], "This model's maximum context length is 2048 tokens. However, your prompt has "
                                             "2001 tokens and you requested 512 output tokens.")
        self.assertEqual(r.error["type"], "invalid_request_error")
        self.assertEqual((r.error["n_prompt_tokens"], r.error["n_ctx"], r.error["max_tokens_allowed"]), (2001, 2048, 47))
        r = self.server.complete("a" * 3000, max_tokens=512)
        self.assertEqual((r.error["n_prompt_tokens"], r.error["max_tokens_allowed"]), (3001, 0))
        r = self.server.chat("a" * 3000)
        self.assert_error(r, 400, "context_length_exceeded", "messages")
        self.assertEqual(self.server.complete("a" * 2000, max_tokens=47).status, 200)
        self.assertEqual(self.server.complete([97] * 2048, max_tokens=0).status, 200)
        self.assert_error(self.server.complete([97] * 2048, max_tokens=1), 400, "context_length_exceeded")

    def test_far_too_long_is_refused_before_it_is_all_read(self):
        r = self.server.complete("a" * 3000000)
        self.assert_error(r, 400, "context_length_exceeded", "prompt")
        self.assertIn("more than", r.error["message"])

    def test_default_lengths(self):
        r = self.server.post("/v1/completions", {"prompt": "x"})
        self.assertEqual((r.json["usage"]["completion_tokens"], r.json["choices"][0]["finish_reason"]), (16, "length"))
        r = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": None})
        self.assertEqual(r.json["usage"]["completion_tokens"], 16)
        r = self.server.chat("a" * 2000)
        self.assertEqual(r.json["usage"]["total_tokens"], 2048)

    def test_json_limits(self):
        deep = "[" * 62 + "]" * 62
        body = '{"prompt":"[[say=ok]]","metadata":{"a":%s}}'
        ask = lambda text: self.server.request("POST", "/v1/completions", text.encode(), {"Content-Type": "application/json"})
        self.assertEqual(ask(body % deep).status, 200)
        self.assert_error(ask(body % ("[" + deep + "]")), 400, "invalid_json")
        many = "[" + ",".join(["null"] * 249000) + "]"
        self.assertEqual(ask(body % many).status, 200)
        self.assert_error(ask(body % ("[" + ",".join(["null"] * 250001) + "]")), 400, "invalid_json")

    def test_lists_of_ids_of_any_length_that_fits_the_body(self):
        r = self.send({"prompt": [[97] * 16384] * 16, "max_tokens": 1})
        self.assert_error(r, 400, "context_length_exceeded", "prompt")
        r = self.server.post("/detokenize", {"tokens": [97] * 300000})
        self.assertEqual(len(r.json["prompt"]), 300000)

    def test_escapes_and_names_in_any_writing(self):
        r = self.server.request("POST", "/v1/completions", rb' { "\u0070rompt" : "[[say=\u00e9\ud83d\ude00]]" , "max_tokens":1e1 } ',
                                {"Content-Type": "application/json"})
        self.assertEqual(json.loads(r.body)["choices"][0]["text"], "é😀")


if __name__ == "__main__":
    harness.main()
