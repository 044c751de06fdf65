"""Structured output on the demo model: what is asked for is what comes, however the model would like to answer. It knows no
JSON at all, so whatever parses does so by construction."""
import concurrent.futures
import json
import math
import os
import re
import subprocess
import tempfile
import time

import harness
import json_check
from harness import events

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SHORT = {"type": "string", "maxLength": 12}
PERSON = {"type": "object", "properties": {"name": SHORT, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                                           "tags": {"type": "array", "items": SHORT, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}
SCHEMAS = [
    PERSON,
    {"type": "array", "items": {"type": "number", "minimum": -5, "maximum": 5}, "minItems": 2, "maxItems": 4},
    {"enum": ["a", "b c", 1, 2.5, None, True, {"x": [1]}]},
    {"type": ["integer", "null"], "minimum": 10, "maximum": 2000, "multipleOf": 7},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,5}( [0-9]{2})?$"},
    {"type": "object", "properties": {"on": {"type": "string", "format": "date"}, "id": {"type": "string", "format": "uuid"}},
     "required": ["on", "id"], "additionalProperties": False},
    {"anyOf": [{"type": "object", "properties": {"ok": {"const": True}}, "required": ["ok"], "additionalProperties": False},
               {"type": "array", "prefixItems": [{"type": "integer", "minimum": 0, "maximum": 9}, SHORT], "items": False, "minItems": 2}]},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "additionalProperties": False, "required": ["v"], "properties": {
        "v": {"type": "integer", "minimum": 0, "maximum": 99},
        "kids": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/leaf"}}}}, "leaf": {"type": "boolean"}}},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}, "minProperties": 1,
     "additionalProperties": False},
    {"allOf": [{"type": "string", "minLength": 3}, {"type": "string", "maxLength": 5}]},
    {"type": "object", "properties": {"link": {"type": "string", "format": "uri", "maxLength": 40},
                                      "code": {"type": "string", "pattern": r"^\S+$", "minLength": 3, "maxLength": 9},
                                      "count": {"type": "integer", "format": "int32", "nullable": True}},
     "required": ["link", "code", "count"], "additionalProperties": False},
]


def json_schema(schema, **more):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}}


def body_of(path, **more):
    start = {"prompt": "In the beginning"} if path == TEXT else {"messages": [{"role": "user", "content": "Who is it?"}]}
    return {**start, "max_tokens": 300, "temperature": 1.4, **more}


class Structured(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "4096", "--kv-tokens", "128K")

    def choices(self, path, **more):
        """(text, finish_reason) of each choice, whole or streamed."""
        body = body_of(path, **more)
        r = self.server.post(path, body)
        self.assertEqual(r.status, 200, (body, r.body[:300]))
        if not body.get("stream"):
            return [(c["text"] if path == TEXT else c["message"]["content"], c["finish_reason"]) for c in r.json["choices"]]
        texts, ends = {}, {}
        got = events(r.body)
        self.assertEqual(got[-1], "[DONE]")
        for e in got[:-1]:
            for c in json.loads(e)["choices"]:
                piece = c["text"] if path == TEXT else c["delta"].get("content", "")
                texts[c["index"]] = texts.get(c["index"], "") + piece
                ends[c["index"]] = c["finish_reason"]
        return [(texts[i], ends[i]) for i in sorted(texts)]

    def text(self, path, **more):
        text, finish = self.choices(path, **more)[0]
        self.assertEqual(finish, "stop", (more, text))
        return text

    def test_no_other_tokens_than_those_that_are_allowed(self):
        ids = self.server.post("/tokenize", {"prompt": "yes no maybe, the 17", "add_special_tokens": False}).json["tokens"]
        body = {"allowed_token_ids": [*ids, ids[0]], "max_tokens": 30, "temperature": 2, "return_token_ids": True, "n": 4, "seed": 3}
        for path in (CHAT, TEXT):
            answers = [c["token_ids"] for c in self.server.post(path, body_of(path, **body)).json["choices"]]
            self.assertEqual([len(a) for a in answers], [30] * 4)  # nothing among them ends an answer
            self.assertLessEqual({i for a in answers for i in a}, set(ids))
            streamed = {i: [] for i in range(4)}
            for e in events(self.server.stream(path, body_of(path, **body)).body)[:-1]:
                for c in json.loads(e)["choices"]:
                    streamed[c["index"]] += c.get("token_ids", [])
            self.assertEqual(list(streamed.values()), answers)
        likeliest = body_of(TEXT, max_tokens=5, logprobs=20, allowed_token_ids=ids, return_tokens_as_token_ids=True)
        for top in self.server.post(TEXT, likeliest).json["choices"][0]["logprobs"]["top_logprobs"]:
            self.assertEqual(set(top), {f"token_id:{i}" for i in ids})
            self.assertAlmostEqual(sum(math.exp(x) for x in top.values()), 1, places=4)

    def test_allowed_tokens_and_what_they_do_not_go_with(self):
        for more in ({"guided_choice": ["a"]}, {"response_format": {"type": "json_object"}}, {"structured_outputs": {"regex": "a"}}):
            for path in (CHAT, TEXT):
                r = self.server.post(path, body_of(path, allowed_token_ids=[5], **more))
                self.assert_error(r, 400, "invalid_value", "allowed_token_ids")
        r = self.server.post(TEXT, body_of(TEXT, allowed_token_ids=[5], stop_token_ids=[5], min_tokens=1))
        self.assert_error(r, 400, "invalid_value", "allowed_token_ids")
        r = self.server.post(TEXT, body_of(TEXT, allowed_token_ids=[5], stop_token_ids=[5], min_tokens=0))
        self.assertEqual((r.status, r.json["choices"][0]["stop_reason"]), (200, 5))

    def ids(self, text):
        return self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json["tokens"]

    def test_bad_words_do_not_come(self):
        """Words of one token and of several that the answer would have; the next one comes instead, and so on."""
        body = {"max_tokens": 40, "temperature": 0, "seed": 3, "return_token_ids": True, "logprobs": 5}
        words = []
        for _ in range(6):
            answers = []
            for stream in (False, True):
                r = self.server.post(TEXT, body_of(TEXT, bad_words=words, stream=stream, **body))
                self.assertEqual(r.status, 200, r.body[:300])
                chunks = [json.loads(e) for e in events(r.body)[:-1]] if stream else [r.json]
                answers.append([t for c in chunks for choice in c["choices"] for t in choice.get("token_ids") or []])
            self.assertEqual(*answers)
            text = self.server.post("/detokenize", {"tokens": answers[0]}).json["prompt"]
            for word in words:
                for ids in (self.ids("x" + word)[1:], self.ids("x " + word.lstrip())[1:]):
                    places = [i for i in range(len(answers[0])) if answers[0][i:i + len(ids)] == ids]
                    self.assertEqual(places, [], (word, ids, text))
            found = [w for w in re.findall(r"[A-Za-z]{2,}", text) if w not in words]
            words = [*words, found[0], f" {found[-1]}"]
        self.assertGreater(len(words), 10)
        self.assertTrue(any(len(self.ids("x " + w.strip())) > 2 for w in words), words)  # one of several tokens

    def test_bad_words_hold_under_a_schema_and_say_where_nothing_is_left(self):
        for path in (CHAT, TEXT):
            for seed in range(8):
                text = self.text(path, seed=seed, bad_words=["e", "t", "a"], guided_regex="[a-z]{20,60}")
                self.assertRegex(text, "^[a-z]{20,60}$")
        nothing = body_of(TEXT, allowed_token_ids=self.ids("x the")[-1:], bad_words=["the"])
        self.assert_error(self.server.post(TEXT, nothing), 400, "invalid_value", "bad_words")
        last = json.loads(events(self.server.post(TEXT, {**nothing, "stream": True}).body)[-1])
        self.assertEqual((last["error"]["param"], last["error"]["code"]), ("bad_words", "invalid_value"))
        r = self.server.post("/v1/messages", {"model": "x", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "bad_words": ["x"]})
        self.assertEqual((r.status, "bad_words" in r.json["error"]["message"]), (400, True))

    def test_answers_parse_and_meet_the_schema(self):
        for i, schema in enumerate(SCHEMAS):
            for path in (CHAT, TEXT):
                for text, finish in self.choices(path, n=4, seed=i, **json_schema(schema)):
                    self.assertEqual(finish, "stop", (schema, text))
                    self.assertTrue(json_check.meets(json.loads(text), schema), (schema, text))
                    self.assertEqual(text, text.strip())

    def test_values_differ_and_the_check_can_fail(self):
        texts = {t for seed in range(8) for t, _ in self.choices(CHAT, n=4, seed=seed, **json_schema(PERSON))}
        self.assertGreater(len(texts), 5)
        self.assertFalse(json_check.meets({"name": "x"}, PERSON))
        self.assertFalse(json_check.meets({"name": "x" * 13, "age": 5}, PERSON))

    def test_strict_closes_objects(self):
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "maxProperties": 2}
        bias = {"logit_bias": {str(i): 20 for i in self.server.post("/tokenize", {"prompt": ",", "add_special_tokens": False}).json["tokens"]}}
        strict = [self.text(CHAT, seed=s, **json_schema(schema, strict=True), **bias) for s in range(4)]
        self.assertEqual({tuple(json.loads(t)) for t in strict}, {("a",)})

    def test_a_cut_answer_is_the_beginning_of_a_valid_one(self):
        for schema in SCHEMAS[:2]:
            for path in (CHAT, TEXT):
                whole = self.text(path, seed=5, **json_schema(schema))
                for n in (1, 2, 3):
                    text, finish = self.choices(path, seed=5, max_tokens=n, **json_schema(schema))[0]
                    self.assertEqual(finish, "length")
                    self.assertTrue(whole.startswith(text) and len(text) < len(whole), (whole, text))

    def test_regex_choice_and_json_object(self):
        for pattern in (r"[a-f]{4}-\d{2,3}", r"(yes|no), (yes|no)", r" ?[A-Z]\w{1,6}\.", r"é{2}[日本]+?x", r"\d+\.\d\d €"):
            for path in (CHAT, TEXT):
                text = self.text(path, guided_regex=pattern, seed=3)
                self.assertTrue(re.fullmatch(pattern, text), (pattern, text))
                self.assertEqual(self.text(path, structured_outputs={"regex": pattern}, seed=3), text)
        options = ["red", "green", "greenish blue", " é", "\"x\""]
        for path in (CHAT, TEXT):
            seen = {t for s in range(3) for t, _ in self.choices(path, guided_choice=options, seed=s, n=4)}
            self.assertLessEqual(seen, set(options))
            for only in options:
                self.assertEqual(self.text(path, guided_choice=[only]), only)
        # an answer that goes on from a text: there the mark of a word's beginning is a space
        more = {"messages": [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "I think"}],
                "logit_bias": {str(i): 100 for i in self.server.post("/tokenize", {"prompt": "no", "add_special_tokens": False}).json["tokens"]}}
        self.assertEqual(self.text(CHAT, continue_final_message=True, guided_choice=["no"], **more), "no")
        self.assertEqual(self.text(CHAT, continue_final_message=True, guided_choice=[" no"], **more), " no")
        ids = self.server.post("/tokenize", {"prompt": '"}', "add_special_tokens": False}).json["tokens"]
        for asked in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
            value = json.loads(self.text(CHAT, logit_bias={str(i): 30 for i in ids}, seed=1, **asked))
            self.assertIsInstance(value, dict)

    def test_all_names_of_a_schema_are_one(self):
        texts = {self.text(CHAT, seed=9, **asked) for asked in (
            json_schema(PERSON), {"guided_json": PERSON}, {"guided_json": json.dumps(PERSON)}, {"json_schema": PERSON},
            {"structured_outputs": {"json": PERSON}}, {"response_format": {"type": "json_object", "schema": PERSON}})}
        self.assertEqual(len(texts), 1)

    def test_white_space_where_it_is_allowed_and_nowhere_else(self):
        text = self.text(CHAT, seed=2, structured_outputs={"json": PERSON, "whitespace_pattern": "[ ]"})
        self.assertRegex(text, r'^\{ "name": "[^"]*", "age": \d+')
        self.assertTrue(json_check.meets(json.loads(text), PERSON))
        compact = self.text(CHAT, seed=2, structured_outputs={"json": PERSON})
        self.assertRegex(compact, r'^\{"name":"[^"]*","age":\d+')

    def test_a_stream_adds_up_to_the_answer(self):
        for path in (CHAT, TEXT):
            for asked in (json_schema(PERSON), {"guided_regex": "[é日a-c]{10,20}"}, {"guided_choice": ["one", "two"]}):
                self.assertEqual(self.choices(path, seed=4, n=4, stream=True, **asked), self.choices(path, seed=4, n=4, **asked))

    def test_an_echoed_prompt_stands_before_the_answer(self):
        text = self.text(TEXT, echo=True, guided_regex="[a-c]{3}", logprobs=1)
        self.assertRegex(text, r"^In the beginning[a-c]{3}$")

    def test_the_same_alone_together_cached_and_twice(self):
        asked = [dict(seed=i, **json_schema(SCHEMAS[i % len(SCHEMAS)])) for i in range(12)] + [{"seed": i} for i in range(4)]
        paths = [CHAT, TEXT]
        run = lambda i: self.choices(paths[i % 2], max_tokens=60, **asked[i])
        alone = [run(i) for i in range(len(asked))]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            together = list(pool.map(run, range(len(asked))))
        self.assertEqual(together, alone)
        document = "And it came to pass in those days. " * 40
        for _ in range(2):
            r = self.server.post(TEXT, {"prompt": document, "max_tokens": 60, "seed": 1, **json_schema(PERSON)}).json
            self.assertEqual(r["choices"][0]["text"], self.server.post(
                TEXT, {"prompt": document, "max_tokens": 60, "seed": 1, "cache_salt": "other", **json_schema(PERSON)}).json["choices"][0]["text"])
        self.assertGreater(r["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_log_probabilities_are_those_of_what_may_come(self):
        r = self.server.post(CHAT, body_of(CHAT, guided_regex="[ab]{8}", logprobs=True, top_logprobs=20, seed=1)).json
        content = r["choices"][0]["logprobs"]["content"]
        self.assertEqual("".join(e["token"] for e in content).lstrip(), r["choices"][0]["message"]["content"])
        for e in content:
            self.assertTrue(all(set(t["token"].lstrip()) <= set("ab") for t in e["top_logprobs"]), e)
            alive = [t["logprob"] for t in e["top_logprobs"] if t["logprob"] > -9999]
            self.assertAlmostEqual(sum(math.exp(x) for x in alive), 1, delta=0.02)
            self.assertIn(e["logprob"], alive)
        r = self.server.post(TEXT, body_of(TEXT, guided_choice=["x"], logprobs=5)).json["choices"][0]
        self.assertEqual([max(top, key=top.get) for top in r["logprobs"]["top_logprobs"]], ["x"])

    def test_a_space_that_the_client_does_not_see(self):
        """A chat's answer loses the mark of its first token: the grammar counts what is left."""
        the = self.server.post("/tokenize", {"prompt": "x the", "add_special_tokens": False}).json["tokens"][-1]
        self.assertEqual(self.text(CHAT, guided_regex="the( the)?", logit_bias={str(the): 100}), "the the")
        self.assertEqual(self.text(TEXT, guided_regex=" the( the)?", logit_bias={str(the): 100}), " the the")
        self.assertEqual(self.text(CHAT, guided_choice=["  x"]), "  x")

    def test_beside_other_fields(self):
        text, finish = self.choices(CHAT, seed=1, stop=['"age"'], **json_schema(PERSON))[0]
        self.assertTrue(finish == "stop" and text.endswith(",") and '"age"' not in text, text)
        whole = self.text(CHAT, seed=1, **json_schema(PERSON))
        for more in ({"ignore_eos": True}, {"min_tokens": 250}, {"ignore_eos": True, "min_tokens": 299},
                     {"repetition_penalty": 1.0}, {"min_p": 0.0}):
            text = self.text(CHAT, seed=1, **more, **json_schema(PERSON))
            self.assertTrue(json_check.meets(json.loads(text), PERSON), (more, text))
            if "repetition_penalty" in more or "min_p" in more:
                self.assertEqual(text, whole)
        for more in ({"temperature": 0}, {"top_k": 1}, {"presence_penalty": 2, "frequency_penalty": 2}, {"top_p": 0.1},
                     {"repetition_penalty": 5}, {"logit_bias": {str(i): -100 for i in range(300)}}):
            text = self.text(CHAT, seed=1, **more, **json_schema(PERSON))
            self.assertTrue(json_check.meets(json.loads(text), PERSON), (more, text))
        with_stop = self.server.post("/tokenize", {"prompt": "x,", "add_special_tokens": False}).json["tokens"][-1:]
        text, finish = self.choices(CHAT, seed=1, stop_token_ids=with_stop, **json_schema(PERSON))[0]
        self.assertEqual(finish, "stop")

    def test_a_schema_that_will_not_do_is_refused_before_the_prompt_is_read(self):
        r = self.server.post(TEXT, {"prompt": "In the beginning. " * 20000, **json_schema({"type": "array", "uniqueItems": True})})
        self.assert_error(r, 400, "unsupported_schema", "response_format.json_schema.schema")
        self.assertIn("uniqueItems", r.error["message"])
        r = self.server.post(TEXT, body_of(TEXT, **json_schema({"properties": {"a": {"items": {"if": {}}}}})))
        self.assertIn('"#/properties/a/items"', r.error["message"])
        self.assertIn('"if"', r.error["message"])

    def test_two_formats_at_once(self):
        r = self.server.post(CHAT, body_of(CHAT, guided_regex="a", **json_schema(PERSON)))
        self.assert_error(r, 400, "invalid_value")

    # ---- the command line ----

    def command(self, *args, stdin=b"", ok=True):
        r = subprocess.run([os.environ["LF_LONGFLASH"], *args], input=stdin, capture_output=True, timeout=120)
        self.assertEqual(r.returncode == 0, ok, (args, r.stdout, r.stderr))
        return r.stdout.decode() if ok else r.stderr.decode()

    def test_run(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(PERSON, f)
            f.flush()
            for more in ((), ("--raw",), ("--temperature", "1.5", "--seed", "7")):
                out = self.command("run", "--json-schema", f.name, *more, "Who is it?")
                self.assertTrue(json_check.meets(json.loads(out), PERSON), out)
            self.assertIn("expected one of", self.command("run", "--json-schema", f.name, "--regex", "a", "x", ok=False))
        self.assertTrue(json_check.meets(json.loads(self.command("run", "--json-schema", "-", "x", stdin=json.dumps(PERSON).encode())), PERSON))
        self.assertRegex(self.command("run", "--regex", "[a-c]{5}", "Who?"), r"^[a-c]{5}\n$")
        self.assertIn(self.command("run", "--choice", "yes", "--choice", "no way", "Who?"), ("yes\n", "no way\n"))
        self.assertEqual(self.command("run", "--choice", "no, way", "Who?"), "no, way\n")
        cut = subprocess.run([os.environ["LF_LONGFLASH"], "run", "--regex", "[a-c]{50}", "--max-tokens", "2", "Who?"], capture_output=True, timeout=120)
        self.assertIn(b"the answer was cut by --max-tokens", cut.stderr)
        self.assertIn("--regex: pattern", self.command("run", "--regex", "[", "x", ok=False))
        self.assertIn('"not"', self.command("run", "--json-schema", "-", "x", stdin=b'{"not": {}}', ok=False))
        self.assertIn("--json-schema", self.command("run", "--json-schema", "/nowhere", "x", ok=False))

    def test_load(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(PERSON, f)
            f.flush()
            url = f"http://127.0.0.1:{self.server.port}"
            args = ("load", "--url", url, "--concurrency", "4", "--lengths", "64", "--rounds", "2", "--json-schema", f.name)
            row = self.command(*args, "--output-tokens", "200").splitlines()[2].split()
            self.assertEqual(row[2:4], ["8", "0"])
            out = self.command(*args, "--output-tokens", "3")
            self.assertIn("8 of the answers were cut by --output-tokens", out)
            f.seek(0)
            f.write('{"not": {}}')
            f.truncate()
            f.flush()
            self.assertIn("no request was answered", self.command(*args, ok=False))


if __name__ == "__main__":
    harness.main()
