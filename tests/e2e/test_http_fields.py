"""Fields of vLLM's that say more of a generation: what ended it, its ids, the prompt's log-probabilities, ids of requests."""
import json

import harness
from harness import events

BOS = 256


def chunks(r):
    return [json.loads(e) for e in events(r.body) if e != "[DONE]"]


class Fields(harness.Case):
    args = ("ctx=4096",)

    def both(self, prompt, **more):
        """The one choice of /v1/completions and of /v1/chat/completions."""
        for r in (self.server.complete(prompt, **more), self.server.chat(prompt, max_tokens=64, **more)):
            self.assertEqual(r.status, 200, r.body[:300])
            yield r.json, r.json["choices"][0]

    def streams(self, prompt, **more):
        for path, body in (("/v1/completions", {"prompt": prompt, "max_tokens": 64}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], "max_tokens": 64})):
            r = self.server.stream(path, {**body, **more})
            self.assertEqual(r.status, 200, r.body[:300])
            yield path, chunks(r)

    def text(self, choice):
        return choice["text"] if "text" in choice else choice["message"]["content"]

    def test_what_ended_a_choice(self):
        for more, finish, reason in (({}, "stop", None), ({"max_tokens": 2}, "length", None), ({"stop": ["d", "c"]}, "stop", "c"),
                                     ({"stop_token_ids": [ord("b")]}, "stop", ord("b")), ({"stop": "zz"}, "stop", None)):
            r = self.server.complete("[[say=abcd]]", **more).json["choices"][0]
            self.assertEqual((r["finish_reason"], r["stop_reason"]), (finish, reason), more)
            last = chunks(self.server.stream("/v1/completions", {"prompt": "[[say=abcd]]", **more}))[-1]["choices"][0]
            self.assertEqual((last["finish_reason"], last["stop_reason"]), (finish, reason), more)
        for _, c in self.both("[[say=abcd]]", stop="bc"):
            self.assertEqual((self.text(c), c["stop_reason"]), ("a", "bc"))

    def test_the_stop_string_can_stay(self):
        for _, c in self.both("[[say=abcd]]", stop=["bc"], include_stop_str_in_output=True):
            self.assertEqual((self.text(c), c["finish_reason"], c["stop_reason"]), ("abc", "stop", "bc"))
        for path, parts in self.streams("[[say=abcd]]", stop=["bc"], include_stop_str_in_output=True):
            text = "".join(c.get("text") or c.get("delta", {}).get("content") or "" for p in parts for c in p["choices"])
            self.assertEqual(text, "abc", path)

    def test_fingerprint(self):
        for answer, _ in self.both("[[say=a]]"):
            self.assertEqual(answer["system_fingerprint"], "fp_0123456789")
        for _, parts in self.streams("[[say=a]]"):
            self.assertEqual({p["system_fingerprint"] for p in parts}, {"fp_0123456789"})

    def test_usage_in_every_chunk(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        for path, parts in self.streams("[[say=abc]]", stream_options=options):
            *each, last = [p["usage"] for p in parts]
            self.assertEqual(last["completion_tokens"], 3, path)
            seen = [u["completion_tokens"] for u in each]
            self.assertEqual((seen, seen[-1]), (sorted(seen), 3), path)
            for u in each:
                self.assertEqual((u["prompt_tokens"], u["total_tokens"]), (last["prompt_tokens"], last["prompt_tokens"] + u["completion_tokens"]))
        for path, parts in self.streams("[[say=abc]]", stream_options={"include_usage": True}):
            self.assertEqual({json.dumps(p["usage"]) for p in parts[:-1]}, {"null"}, path)
        r = self.server.stream("/v1/completions", {"prompt": "x", "stream_options": {"continuous_usage_stats": 1}})
        self.assert_error(r, 400, "invalid_value", "stream_options.continuous_usage_stats")

    def test_ids_of_the_prompt_and_of_the_answer(self):
        prompt = "[[say=abc]]"
        ids = [BOS, *prompt.encode()]
        r = self.server.complete([prompt, "[[say=d]]"], return_token_ids=True).json
        self.assertEqual([(c["prompt_token_ids"], c["token_ids"]) for c in r["choices"]],
                         [(ids, list(b"abc")), ([BOS, *b"[[say=d]]"], list(b"d"))])
        chat = self.server.chat(prompt, return_token_ids=True).json
        self.assertEqual((len(chat["prompt_token_ids"]), chat["choices"][0]["token_ids"]), (chat["usage"]["prompt_tokens"], list(b"abc")))
        self.assertNotIn("prompt_token_ids", chat["choices"][0])
        for path, parts in self.streams(prompt, return_token_ids=True):
            shown = [p.get("prompt_token_ids") or next((c.get("prompt_token_ids") for c in p["choices"]), None) for p in parts]
            self.assertEqual([x for x in shown if x], [ids if path == "/v1/completions" else chat["prompt_token_ids"]], path)
            self.assertIsNotNone(shown[0], path)
            self.assertEqual([i for p in parts for c in p["choices"] for i in c.get("token_ids", [])], list(b"abc"), path)
        self.assertNotIn("token_ids", self.server.complete(prompt).json["choices"][0])

    def test_a_list_may_begin_anywhere_in_an_answer(self):
        """An answer is made 8 KiB at a time, and one of them may end behind any byte of a list's head."""
        server = harness.Server("ctx=20000")
        self.addCleanup(server.stop)
        for n in range(7800, 8200, 6):
            r = server.complete("[[say=a]]" + "x" * n, echo=True, return_token_ids=True, max_tokens=1)
            self.assertEqual([r.body.count(x) for x in (b'"prompt_token_ids":[', b'"token_ids":[')], [1, 1], n)
            c = r.json["choices"][0]
            self.assertEqual((c["prompt_token_ids"], c["token_ids"]), ([BOS, *b"[[say=a]]", *b"x" * n], list(b"a")), n)

    def test_tokens_written_as_ids(self):
        c = self.server.complete("[[say=ab]]", logprobs=2, return_tokens_as_token_ids=True).json["choices"][0]["logprobs"]
        self.assertEqual(c["tokens"], ["token_id:97", "token_id:98"])
        self.assertEqual([list(t) for t in c["top_logprobs"]], [["token_id:97", "token_id:98"], ["token_id:98", "token_id:99"]])
        c = self.server.chat("[[say=a]]", logprobs=True, top_logprobs=1, return_tokens_as_token_ids=True).json["choices"][0]
        token = c["logprobs"]["content"][0]
        self.assertEqual((token["token"], bytes(token["bytes"])), ("token_id:97", b"token_id:97"))
        self.assertEqual([t["token"] for t in token["top_logprobs"]], ["token_id:97"])

    def test_log_probabilities_of_the_prompt(self):
        prompt = "[[say=ab]]\u00e9"
        ids = self.server.post("/tokenize", {"prompt": prompt}).json["tokens"]
        for k in (0, 1, 3, 20):
            r = self.server.complete(prompt, prompt_logprobs=k).json
            first, *rest = r["choices"][0]["prompt_logprobs"]
            self.assertIsNone(first)
            self.assertEqual(len(rest), len(ids) - 1)
            for i, (token, entry) in enumerate(zip(ids[1:], rest), 1):
                self.assertEqual(list(entry)[0], str(token))
                self.assertEqual(len(entry), max(k, 1))
                own = entry[str(token)]
                self.assertEqual(own["logprob"], -0.25 - 0.125 * (i % 5))
                self.assertEqual(own["rank"], 1 if k else 1 + i)
                self.assertEqual([e["rank"] for e in entry.values()][1:], list(range(2, k + 1)))
                if token < 128:
                    self.assertEqual(own["decoded_token"], chr(token))
        chat = self.server.chat(prompt, prompt_logprobs=1).json
        self.assertEqual(len(chat["prompt_logprobs"]), chat["usage"]["prompt_tokens"])
        self.assertNotIn("prompt_logprobs", chat["choices"][0])
        both = self.server.complete(prompt, prompt_logprobs=2, echo=True, logprobs=5, n=2).json["choices"]
        for c in both:
            self.assertEqual(len(c["prompt_logprobs"][1]), 2)
            self.assertEqual(len(c["logprobs"]["top_logprobs"][1]), 5)
        for k in (-1, 21, 1.5, True, "1"):
            self.assert_error(self.server.complete(prompt, prompt_logprobs=k), 400, "invalid_value", "prompt_logprobs")
        r = self.server.stream("/v1/completions", {"prompt": prompt, "prompt_logprobs": 1})
        self.assert_error(r, 400, "invalid_value", "prompt_logprobs")

    def test_a_long_prompt_has_them_all(self):
        r = self.server.complete("[[say=a]]" + "x" * 3000, prompt_logprobs=20, return_token_ids=True).json["choices"][0]
        self.assertEqual((len(r["prompt_logprobs"]), len(r["prompt_token_ids"])), (3010, 3010))
        self.assertEqual({len(e) for e in r["prompt_logprobs"][1:]}, {20})

    def test_a_request_has_the_id_that_its_client_gave(self):
        for headers, body, shown in (({"X-Request-Id": "from-head"}, {}, "from-head"), ({}, {"request_id": "from.body_1"}, "from.body_1"),
                                     ({"X-Request-Id": "from-head"}, {"request_id": "b" * 64}, "b" * 64)):
            r = self.server.post("/v1/completions", {"prompt": "[[say=a]]", **body}, headers=headers)
            self.assertEqual((r.headers["x-request-id"], r.json["id"]), (shown, "cmpl-" + shown))
            r = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, **body}, headers=headers)
            self.assertEqual((r.headers["x-request-id"], r.json["id"]), (shown, "chatcmpl-" + shown))
        for bad in ("", "b" * 65, "a b", "a/b", "\u00e9", 5, ["a"]):
            self.assert_error(self.server.complete("x", request_id=bad), 400, "invalid_value", "request_id")
        self.assertRegex(self.server.complete("x", max_tokens=1).json["id"], r"^cmpl-[0-9a-f]{24}$")

    def test_special_tokens_stay_where_that_is_asked_for(self):
        body = {"prompt": "a<|end|>[[say=x]]", "echo": True, "max_tokens": 1}
        ids = self.server.post("/tokenize", {"prompt": body["prompt"], "parse_special": True}).json["tokens"]
        for more, text in (({}, "a[[say=x]]x"), ({"skip_special_tokens": True}, "a[[say=x]]x"),
                           ({"skip_special_tokens": False}, "<s>a<|end|>[[say=x]]x")):
            r = self.server.post("/v1/completions", {**body, "prompt": ids, **more})
            self.assertEqual(r.json["choices"][0]["text"], text)
        prompt = "[[controls=1]][[say=x<|end|>y<|user|>]]"
        for more, text in (({}, "xy"), ({"skip_special_tokens": None}, "xy"), ({"skip_special_tokens": True}, "xy"),
                           ({"skip_special_tokens": False}, "x<|end|>y<|user|>"), ({"skip_special_tokens": False, "stop": "|>y"}, "x<|end")):
            for _, c in self.both(prompt, parse_special=False, **more):
                self.assertEqual(self.text(c), text, more)
            for path, parts in self.streams(prompt, parse_special=False, **more):
                said = "".join(c.get("text") or c.get("delta", {}).get("content") or "" for p in parts for c in p["choices"])
                self.assertEqual(said, text, (path, more))

    def template(self, messages, **more):
        return self.server.post("/apply-template", {"messages": messages, **more})

    def test_the_last_message_is_gone_on_with(self):
        user = {"role": "user", "content": "hello [[say=world]]"}
        begun = lambda text: [user, {"role": "assistant", "content": text}]
        head = self.template([user]).json["prompt"]
        for text, kept in (("Hello ", "Hello "), ("hello", "hello"), (" two\nlines", " two\nlines"), ("x\u00e9\n", "x\u00e9\n"),
                           ([{"type": "text", "text": "part"}], "part")):
            self.assertEqual(self.template(begun(text), continue_final_message=True).json["prompt"], head + kept)
        r = self.server.post("/v1/chat/completions", {"messages": begun("Hello"), "continue_final_message": True})
        self.assertEqual(r.json["choices"][0]["message"]["content"], "world")
        ids = self.server.post("/tokenize", {"messages": begun("<|end|>"), "continue_final_message": True}).json["tokens"]
        self.assertEqual(ids[-7:], list(b"<|end|>"))  # the user's text, also where it was cut
        for messages in ([user], begun(""), begun("  \n"), begun(None)):
            self.assertEqual(self.template(messages, continue_final_message=True).status, 400, messages)
        self.assert_error(self.template(begun("x"), continue_final_message=True, add_generation_prompt=True), 400, "invalid_value",
                          "continue_final_message")
        self.assertEqual(self.template(begun("x"), continue_final_message=True, add_generation_prompt=False).status, 200)

    def test_an_answer_can_begin_with_the_message_that_it_goes_on_from(self):
        user = {"role": "user", "content": "[[say=world STOP]]"}
        body = {"max_tokens": 64, "echo": True, "logprobs": True, "return_token_ids": True}
        begun = lambda content: {**body, "messages": [user, {"role": "assistant", "content": content}]}
        parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        for asked, text in (({**begun("Hello "), "continue_final_message": True}, "Hello world STOP"), (begun("Hello "), "Hello world STOP"),
                            ({**begun("STOP "), "stop": "STOP", "continue_final_message": True}, "STOP world "),
                            (begun(parts), "one\ntwoworld STOP"), (begun(""), "world STOP"), (begun("\u00e9" * 3000), "\u00e9" * 3000 + "world STOP"),
                            ({**body, "messages": [user]}, "world STOP"), ({**begun("Hello"), "echo": False}, "world STOP"),
                            ({**begun("Hello"), "echo": None}, "world STOP")):
            r = self.server.post("/v1/chat/completions", {**asked, "n": 2})
            self.assertEqual(r.status, 200, r.body[:300])
            for c in r.json["choices"]:
                self.assertEqual(c["message"]["content"], text)
                said = len(c["token_ids"])
                self.assertEqual(len(c["logprobs"]["content"]), said)
            self.assertEqual(r.json["usage"]["completion_tokens"], 2 * said)
            deltas = [c["delta"] for p in chunks(self.server.stream("/v1/chat/completions", asked)) for c in p["choices"]]
            self.assertEqual("".join(d.get("content", "") for d in deltas), text)
            self.assertEqual(text.startswith(deltas[1]["content"]), True)
        for bad in (1, "x", []):
            self.assert_error(self.server.chat("x", echo=bad), 400, "invalid_value", "echo")


if __name__ == "__main__":
    harness.main()
