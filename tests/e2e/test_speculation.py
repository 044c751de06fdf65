"""Speculation from the prompt (server/engine/speculation.h): answers have the same bytes with and without it, whatever is
asked for and whoever is beside them; and what is said of it adds up."""
import concurrent.futures
import json
import os
import subprocess
import tempfile
import unittest

import harness
from kept_answers import with_texts
from test_http_calls import directory_with_template
from test_states import CONFIG as STATES

CHAT, TEXT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
FACTS = ("The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun. The director of the Silent River is Otto Krast. "
         "And it came to pass in those days that the people went up to the hill and sat there until the evening. ") * 6
QUOTE = {"messages": [{"role": "user", "content": FACTS + "\n\nWhat is the access code for Marrow Hill?"}], "max_tokens": 60}
ON = {"prompt": FACTS, "max_tokens": 120, "ignore_eos": True}  # long, and it repeats itself
SHOWN = {"return_token_ids": True, "temperature": 0}
DRAWN = {"return_token_ids": True, "temperature": 0.8, "seed": 11}

PEOPLE = "; ".join(f"{name} lives in {place} and is {age} years old" for name, place, age in
                   (("Anna Vell", "Dorrun", 41), ("Otto Krast", "Silent River", 63), ("Mira Holt", "Marrow Hill", 29), ("Jon Sarn", "Ketterby", 35)))
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 30}, "lives_in": {"type": "string", "maxLength": 30},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 150}},
          "required": ["name", "lives_in", "age"], "additionalProperties": False}
LIST = {"messages": [{"role": "user", "content": f"{PEOPLE}. List these people as JSON."}], "max_tokens": 200, "response_format": {
    "type": "json_schema", "json_schema": {"name": "people", "strict": True, "schema": {"type": "array", "items": PERSON, "minItems": 3, "maxItems": 4}}}}
CALL = {"messages": [{"role": "user", "content": f"{PEOPLE}. Note each of these people."}], "max_tokens": 200, "tool_choice": "required",
        "tools": [{"type": "function", "function": {"name": "note", "parameters": PERSON, "strict": True}}]}

# what is asked, and whether it is quoted for sure
ASKS = {
    "greedy chat": (CHAT, {**QUOTE, **SHOWN, "logprobs": True, "top_logprobs": 3}, True),
    "greedy text": (TEXT, {**ON, **SHOWN, "logprobs": 3}, True),
    "sampled chat": (CHAT, {**QUOTE, **DRAWN, "logprobs": True, "top_logprobs": 2}, True),
    "sampled text": (TEXT, {**ON, **DRAWN, "logprobs": 2}, False),
    "penalties": (CHAT, {**QUOTE, **DRAWN, "presence_penalty": 0.3, "frequency_penalty": 0.2, "repetition_penalty": 1.05,
                         "logprobs": True}, True),
    "greedy with penalties": (CHAT, {**QUOTE, **SHOWN, "frequency_penalty": 0.5, "repetition_penalty": 1.1}, True),
    "stop strings": (CHAT, {**QUOTE, **SHOWN, "stop": ["48", "zzz"], "logprobs": True}, True),
    "two choices": (CHAT, {**QUOTE, **DRAWN, "n": 2, "logprobs": True}, False),  # side by side, a slow step leaves no room
    "several prompts": (TEXT, {**ON, **SHOWN, "prompt": [FACTS, FACTS + "The access code", "In the"], "max_tokens": 40}, False),
    "few tokens, which repeat": (TEXT, {**ON, **DRAWN, "allowed_token_ids": [300, 301], "logprobs": 2}, True),
    "other logits": (TEXT, {**ON, **DRAWN, "top_k": 4, "top_p": 0.9, "min_p": 0.01, "logit_bias": {"300": 2, "301": -5}}, False),
    "a shortest length": (CHAT, {**QUOTE, **SHOWN, "min_tokens": 50}, True),
    "an echo": (TEXT, {**ON, **SHOWN, "prompt": FACTS + "The access code", "echo": True, "logprobs": 1, "max_tokens": 20}, False),
    "the prompt's probabilities": (TEXT, {**ON, **SHOWN, "prompt": FACTS + "The access code", "prompt_logprobs": 1, "max_tokens": 20}, False),
    "a regex": (CHAT, {**QUOTE, **SHOWN, "guided_regex": "The access code for Marrow Hill is [0-9]{5}\\.", "logprobs": True}, True),
    "a schema": (CHAT, {**LIST, **SHOWN, "logprobs": True, "top_logprobs": 3}, True),
    "a schema, sampled": (CHAT, {**LIST, **DRAWN, "logprobs": True, "frequency_penalty": 0.1, "repetition_penalty": 1.02}, True),
    "a schema, two choices": (CHAT, {**LIST, **DRAWN, "n": 2, "max_tokens": 90}, False),
    "JSON, beside bad words": (CHAT, {**LIST, **DRAWN, "response_format": {"type": "json_object"}, "bad_words": ["Anna", "\"age\""],
                                      "max_tokens": 120}, False),
    "bad words": (CHAT, {**QUOTE, **SHOWN, "bad_words": ["zzz", "8", " lives"], "logprobs": True}, False),
    "a shortest length under a regex": (TEXT, {**ON, **DRAWN, "guided_regex": "(And it came to pass|in those days|[ ,.])*", "min_tokens": 40,
                                               "ignore_eos": False, "max_tokens": 80}, False),
    "one token": (TEXT, {**ON, **SHOWN, "max_tokens": 1}, False),
}
# where nothing is proposed
NEVER = {
    "switched off": (CHAT, {**QUOTE, **SHOWN, "speculate": "off"}),
    "switched off by a boolean": (CHAT, {**QUOTE, **SHOWN, "speculate": False}),
    "none": (CHAT, {**QUOTE, **SHOWN, "speculate": 0}),
}


# There a step of more than 16 tokens, which one that reads prompts beside answers is, has other bits (ARCHITECTURE.md):
# answers may differ where several run at once, with speculation and without.
MAY_DIFFER_TOGETHER = os.environ.get("LONGFLASH_DEVICE", "cpu") != "cpu"


def details(reply):
    return reply["usage"].get("completion_tokens_details", {})


class Speculation(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "4096", "--speculate", "off")

    def ask(self, path, body, **more):
        r = self.server.post(path, {**body, **more})
        self.assertEqual(r.status, 200, r.body[:300])
        return r.json

    def answer(self, path, body, **more):
        """What must be the same to the byte."""
        reply = self.ask(path, body, **more)
        return json.dumps([reply["choices"], reply.get("prompt_token_ids"), reply["usage"]["completion_tokens"]])

    def streamed(self, path, body, **more):
        """Of each choice: its text, its ids, its log-probabilities, why it ended. How it is cut into events may differ."""
        got = harness.events(self.server.stream(path, {**body, **more}).body)
        self.assertEqual(got[-1], "[DONE]")
        out = {}
        for event in map(json.loads, got[:-1]):
            for c in event["choices"]:
                one = out.setdefault(c["index"], {"text": "", "ids": [], "logprobs": [], "end": None})
                one["text"] += c["text"] if path == TEXT else c["delta"].get("content") or ""
                one["ids"] += c.get("token_ids") or []
                for name, values in sorted((c["logprobs"] or {}).items()):
                    one["logprobs"] += [] if values is None else [(name, v) for v in values]
                if c["finish_reason"]:
                    one["end"] = (c["finish_reason"], c["stop_reason"])
        for one in out.values():
            one["logprobs"].sort(key=lambda pair: pair[0])  # stable: each list by itself, in its order
        return json.dumps([out[i] for i in sorted(out)])

    def test_answers_have_the_same_bytes(self):
        for name, (path, body, quotes) in ASKS.items():
            if MAY_DIFFER_TOGETHER and name == "several prompts":
                continue
            expected = self.answer(path, body, speculate="off")
            for how in ("auto", 1, 8, 16):
                with self.subTest(what=name, speculate=how):
                    self.assertEqual(self.answer(path, body, speculate=how), expected)
            with self.subTest(what=name):
                n_accepted = details(self.ask(path, body, speculate=8)).get("accepted_prediction_tokens", 0)
                self.assertGreaterEqual(n_accepted, 1 if quotes else 0)

    def test_so_have_streams(self):
        for name, (path, body, _) in ASKS.items():
            if "prompt_logprobs" in body or (MAY_DIFFER_TOGETHER and name == "several prompts"):
                continue
            expected = self.streamed(path, body, speculate="off")
            for how in ("auto", 8):
                with self.subTest(what=name, speculate=how):
                    self.assertEqual(self.streamed(path, body, speculate=how), expected)

    @unittest.skipIf(MAY_DIFFER_TOGETHER, "steps of more than 16 tokens")
    def test_so_have_four_at_once(self):
        expected = {name: self.answer(path, body, speculate="off") for name, (path, body, _) in ASKS.items()}
        for ways in (["auto"] * 4, [8] * 4, ["off", "auto", 3, 16]):
            rows = [(name, ways[i % 4]) for i, name in enumerate(ASKS)] + [("greedy chat", how) for how in ways]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                got = list(pool.map(lambda row: self.answer(*ASKS[row[0]][:2], speculate=row[1]), rows))
            for (name, how), answer in zip(rows, got):
                self.assertEqual(answer, expected[name], (name, how, ways))

    def test_so_have_four_at_once_of_cached_prompts(self):
        """On any device: of each prompt one token is computed, so that no step has more than 16 with what is tried."""
        reply = self.ask(TEXT, {"prompt": FACTS, "max_tokens": 1, "return_token_ids": True})
        ids = reply.get("prompt_token_ids") or reply["choices"][0]["prompt_token_ids"]
        n = (len(ids) - 8) // 64 * 64 + 1
        bodies = [{**ON, **SHOWN, "logprobs": 3}, {**ON, **DRAWN, "temperature": 0.3, "logprobs": 2},
                  {**ON, **SHOWN, "frequency_penalty": 0.2, "repetition_penalty": 1.05},
                  {**ON, **DRAWN, "guided_regex": "((Anna Vell|Otto Krast|[a-z]{1,9})[ ,.])*", "bad_words": [" code"]}]
        for i, body in enumerate(bodies):
            body["prompt"] = ids[i:i + n]
            self.ask(TEXT, {**body, "max_tokens": 1})
        expected = [self.answer(TEXT, body, speculate="off") for body in bodies]
        for ways in (["off"] * 4, ["auto"] * 4, [3] * 4, [16] * 4, [8, "off", "auto", 2]):
            n_accepted = 0
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                got = list(pool.map(lambda row: self.ask(TEXT, row[0], speculate=row[1]), zip(bodies, ways)))
            for i, reply in enumerate(got):
                self.assertEqual(reply["usage"]["prompt_tokens_details"]["cached_tokens"], n - 1)
                answer = json.dumps([reply["choices"], reply.get("prompt_token_ids"), reply["usage"]["completion_tokens"]])
                self.assertEqual(answer, expected[i], (i, ways))
                n_accepted += details(reply).get("accepted_prediction_tokens", 0)
            if 16 in ways or 3 in ways:  # how many there are depends on what the demo says, and that on the machine
                self.assertGreater(n_accepted, 0, ways)

    def test_so_have_calls(self):
        """By the template of test_http_calls; nothing but the grammar makes the demo's answers calls."""
        with directory_with_template(thinks=False) as dir:
            server = harness.Program("--model", dir, "--ctx", "4096", "--max-seqs", "1", "--speculate", "8")
            n_accepted = 0
            for how in (SHOWN, DRAWN, {**DRAWN, "seed": 5, "frequency_penalty": 0.2, "tool_choice": "auto"}):
                off, on, auto = (server.post(CHAT, {**CALL, **how, "speculate": s}).json for s in ("off", 8, "auto"))
                for reply in (off, on, auto):  # whose ids are new with each call
                    for call in reply["choices"][0]["message"].get("tool_calls") or []:
                        del call["id"]
                self.assertEqual(on["choices"], off["choices"])
                self.assertEqual(auto["choices"], off["choices"])
                n_accepted += details(on).get("accepted_prediction_tokens", 0)
            self.assertGreater(n_accepted, 0)
            self.assertEqual(server.stop(), 0)

    def test_an_answer_may_end_anywhere_in_what_was_proposed(self):
        path, body, _ = ASKS["greedy chat"]
        ids = self.ask(path, body)["choices"][0]["token_ids"]
        self.assertGreater(len(ids), 10)
        for k in range(len(ids)):
            for end in ({"max_tokens": k + 1}, {"stop_token_ids": [ids[k]]}, {"min_tokens": k + 1, "stop_token_ids": [ids[k]]}):
                with self.subTest(end=end):
                    self.assertEqual(self.answer(path, {**body, **end}, speculate=16), self.answer(path, {**body, **end}))

    def test_usage_timings_and_metrics_agree(self):
        counted = lambda: [self.server.metric(f"speculative_tokens_{what}_total") for what in ("proposed", "accepted")]
        before, sums = counted(), [0, 0]
        for path, body, _ in (ASKS[name] for name in ("greedy chat", "greedy text", "sampled chat", "a shortest length", "few tokens, which repeat")):
            reply = self.ask(path, body, speculate=8)
            d, t = details(reply), reply["timings"]
            n_accepted, n_rejected = d["accepted_prediction_tokens"], d["rejected_prediction_tokens"]
            self.assertEqual(d["reasoning_tokens"], 0)
            self.assertEqual((t["proposed_tokens"], t["accepted_tokens"]), (n_accepted + n_rejected, n_accepted))
            self.assertLess(n_accepted, reply["usage"]["completion_tokens"])
            sums = [sums[0] + n_accepted + n_rejected, sums[1] + n_accepted]
        self.assertGreater(sums[1], 10)
        self.assertEqual([after - first for after, first in zip(counted(), before)], sums)

    def test_a_streams_usage_has_them_too(self):
        path, body, _ = ASKS["greedy chat"]
        whole = self.ask(path, body, speculate=8)
        r = self.server.stream(path, {**body, "speculate": 8, "stream_options": {"include_usage": True}})
        last = json.loads(harness.events(r.body)[-2])
        self.assertEqual(details(last), details(whole))
        self.assertEqual([last["timings"][name] for name in ("proposed_tokens", "accepted_tokens")],
                         [whole["timings"][name] for name in ("proposed_tokens", "accepted_tokens")])

    def test_other_apis_ask_for_it_too(self):
        text = QUOTE["messages"][0]["content"]
        bodies = {RESPONSES: {"input": text, "max_output_tokens": 60, "temperature": 0},
                  MESSAGES: {"messages": QUOTE["messages"], "max_tokens": 60, "temperature": 0}}
        for path, body in bodies.items():
            texts = lambda r: [part["text"] for part in (r["output"][0]["content"] if path == RESPONSES else r["content"])]
            off, on = self.ask(path, body), self.ask(path, body, speculate=8)
            self.assertNotIn("proposed_tokens", off["timings"])
            self.assertGreater(on["timings"]["accepted_tokens"], 0)
            self.assertEqual(texts(on), texts(off))

    def test_what_a_client_predicts_is_tried(self):
        """The answer itself, with parts of it changed, and what has nothing to do with it; whatever --speculate says."""
        for name in ("greedy chat", "sampled chat", "penalties", "stop strings", "two choices"):
            path, body, _ = ASKS[name]
            body = {**body, "messages": [{"role": "user", "content": "Tell me of the hill and the river."}]}
            reply = self.ask(path, body)
            text, n = reply["choices"][0]["message"]["content"], reply["usage"]["completion_tokens"]
            half = text[:len(text) // 2]
            for what, content in (("itself", text), ("parts", [{"type": "text", "text": text}]), ("changed", half + " Otherwise " + text[len(half):]),
                                  ("long", text * 8), ("other", FACTS), ("nothing", "")):
                with self.subTest(what=name, predicted=what):
                    predicted = {"prediction": {"type": "content", "content": content}}
                    self.assertEqual(self.ask(path, body, **predicted)["choices"], reply["choices"])
                    got = self.ask(path, body, **predicted, speculate=8)  # auto tries nothing where steps take their time
                    self.assertEqual(got["choices"], reply["choices"])
                    if what in ("itself", "parts", "long") and name == "greedy chat":
                        self.assertGreater(details(got).get("accepted_prediction_tokens", 0), n // 2)
                    off = self.ask(path, body, **predicted, speculate="off")
                    self.assertEqual((off["choices"], details(off)), (reply["choices"], {}))

    def test_a_prediction_is_no_longer_than_a_context(self):
        path, body, _ = ASKS["greedy chat"]
        for content, status in (("hill " * 4000, 200), ("hill " * 200_000, 400)):  # a token a word
            r = self.server.post(path, {**body, "prediction": {"type": "content", "content": content}})
            self.assertEqual(r.status, status, r.body[:300])
        self.assertEqual(r.error["param"], "prediction")
        self.assertIn("more than 4096 tokens", r.error["message"])

    def test_any_text_may_be_predicted(self):
        path, body, _ = ASKS["greedy chat"]
        reply = self.ask(path, body)
        for content in ("</s>", "<|im_end|>" * 50, "é日本 😀\n\n", "\x01"):
            self.assertEqual(self.ask(path, body, prediction={"type": "content", "content": content})["choices"], reply["choices"])

    def test_without_the_field_the_option_holds(self):
        path, body, _ = ASKS["greedy chat"]
        self.assertEqual(details(self.ask(path, body)), {})
        self.assertEqual(details(self.ask(path, body, speculate=None)), {})
        server = harness.Program("--ctx", "4096", "--max-seqs", "1", "--speculate", "8")
        expected = self.ask(path, body)
        reply = server.post(path, body).json
        self.assertGreater(details(reply)["accepted_prediction_tokens"], 0)
        self.assertEqual(reply["choices"], expected["choices"])
        for what, (at, asked) in NEVER.items():
            never = server.post(at, asked).json
            self.assertEqual(details(never), {}, what)
            self.assertEqual(never["choices"], self.ask(at, asked)["choices"], what)
        self.assertEqual(server.stop(), 0)

    def run_command(self, *args):
        return subprocess.run([self.server.program, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120 * harness.SLOW)

    def test_the_command_line_has_it_too(self):
        ask = ("run", "--model", "demo/model", "--temperature", "0", "--max-tokens", "60")
        off, on = (self.run_command(*ask, "--speculate", how, QUOTE["messages"][0]["content"]) for how in ("off", "8"))
        self.assertEqual((off.returncode, on.returncode), (0, 0), on.stderr)
        self.assertEqual(on.stdout, off.stdout)
        self.assertNotIn("proposed", off.stderr)
        self.assertRegex(on.stderr, r", [1-9]\d* of \d+ proposed tokens came")

    def test_a_server_for_few_has_rows_for_what_is_proposed(self):
        """Rows of logits of a step: as many as requests run, or those of one proposal if these are more."""
        for n, how, rows in ((1, "8", 17), (1, "auto", 17), (1, "off", 1), (16, "8", 17), (16, "off", 16), (17, "8", 17), (20, "auto", 20)):
            with self.subTest(max_seqs=n, speculate=how):
                r = self.run_command("plan", "--model", "demo/model", "--ctx", "4096", "--max-seqs", str(n), "--speculate", how)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertRegex(r.stdout, rf"(?m)^ *logits .* {rows} row{'s' if rows > 1 else ''}$")

    def test_what_would_have_no_effect_is_refused(self):
        """For a model with states."""
        with tempfile.TemporaryDirectory(prefix="lf_speculation_") as dir:
            model = os.path.join(dir, "model")
            with_texts(model, STATES)
            for how, status in (("auto", 2), ("8", 2), ("off", 0)):
                r = self.run_command("plan", "--model", model, "--load", "dummy", "--ctx", "4096", "--speculate", how)
                self.assertEqual(r.returncode, status, r.stderr)
                self.assertEqual("--speculate: not implemented for models with states" in r.stderr, status == 2)


if __name__ == "__main__":
    harness.main()
