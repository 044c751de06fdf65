"""The program itself on the demo model: what the doubles cannot show."""
import concurrent.futures
import csv
import json
import os
import random
import re
import socket
import struct
import subprocess
import threading
import time

import harness
from harness import events

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
FACTS = ("The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun. The director of the Silent River is Otto Krast. ")
FILLER = "And it came to pass in those days that the people went up to the hill and sat there until the evening. "


class Model(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "8192")

    def ask(self, question, document=FACTS, **more):
        return self.server.chat(f"{document}\n\n{question}", max_tokens=40, temperature=0, **more)

    def text(self, path, body):
        """The answer's text, streamed or not."""
        r = self.server.post(path, body)
        self.assertEqual(r.status, 200, r.body[:300])
        if not body.get("stream"):
            return [c["text"] if path == TEXT else c["message"]["content"] for c in r.json["choices"]]
        out = {}
        got = events(r.body)
        self.assertEqual(got[-1], "[DONE]")
        for e in got[:-1]:
            for c in json.loads(e)["choices"]:
                out[c["index"]] = out.get(c["index"], "") + (c["text"] if path == TEXT else c["delta"].get("content", ""))
        return [out[i] for i in sorted(out)]

    def test_a_question_about_a_document_is_answered(self):
        r = self.ask("What is the access code for Marrow Hill?", FACTS + FILLER * 60)
        self.assertEqual(r.json["choices"][0]["message"]["content"], "The access code for Marrow Hill is 48213.")
        self.assertEqual(r.json["choices"][0]["finish_reason"], "stop")
        u = r.json["usage"]
        self.assertEqual(u["total_tokens"], u["prompt_tokens"] + u["completion_tokens"])

    def test_a_stream_adds_up_to_the_answer(self):
        message = {"messages": [{"role": "user", "content": FACTS + "\n\nWhere does Anna Vell live?"}], "max_tokens": 60}
        cases = [(CHAT, {**message, "temperature": 0}), (CHAT, {**message, "temperature": 1.5, "seed": 5, "n": 3}),
                 (TEXT, {"prompt": FACTS, "max_tokens": 80, "temperature": 1, "seed": 7}),
                 (TEXT, {"prompt": FACTS, "max_tokens": 80, "temperature": 1, "seed": 7, "stop": ["the", "e "]}),
                 (TEXT, {"prompt": ["é日本", "The"], "max_tokens": 40, "temperature": 1.9, "seed": 1, "echo": True, "n": 2,
                         "logit_bias": {str(i): 5 for i in range(200, 250)}})]
        for path, body in cases:
            self.assertEqual(self.text(path, {**body, "stream": True}), self.text(path, body), body)

    def test_the_same_seed_is_the_same_answer_and_another_is_not(self):
        body = {"prompt": "In the", "max_tokens": 40, "temperature": 1.5}
        a, b, c = (self.text(TEXT, {**body, "seed": s}) for s in (1, 1, 2))
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)
        many = self.text(TEXT, {**body, "n": 4, "seed": 1})
        self.assertEqual(many[0], a[0])
        self.assertEqual(len(set(many)), 4)
        self.assertEqual(len(set(self.text(TEXT, {**body, "n": 4}))), 4)

    def test_an_answer_is_the_same_alone_and_among_sixteen(self):
        bodies = [{"prompt": FILLER * (i + 1) + FACTS, "max_tokens": 30, "temperature": 1, "seed": i} for i in range(16)]
        alone = [self.text(TEXT, b) for b in bodies]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            together = list(pool.map(lambda b: self.text(TEXT, b), bodies))
        self.assertEqual(together, alone)

    def test_the_cache_is_counted_and_changes_nothing(self):
        document = FILLER * 40 + FACTS
        first = self.ask("Who is the director of the Silent River?", document, cache_salt="count")
        again = self.ask("Who is the director of the Silent River?", document, cache_salt="count")
        other = self.ask("Who is the director of the Silent River?", document, cache_salt="other")
        cached = lambda r: r.json["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual((cached(first), cached(other)), (0, 0))
        self.assertGreater(cached(again), 500)
        self.assertEqual(cached(again) % 64, 0)
        self.assertEqual(first.json["choices"], again.json["choices"])
        self.assertEqual(again.json["timings"]["cached_tokens"], cached(again))

    def test_a_conversation_goes_on_in_the_order_in_which_it_was_held(self):
        def respond(text, **more):
            r = self.server.post("/v1/responses", {"input": text, "max_output_tokens": 30, "temperature": 0, **more})
            self.assertEqual(r.status, 200, r.body[:300])
            return r.json
        turns = [FACTS + FILLER * 4 + "Who is the director?", FILLER * 5 + "Where does Anna Vell live?"]
        first = respond(turns[0])
        second = respond(turns[1], previous_response_id=first["id"])
        asked = [{"role": "user", "content": turns[0]}, *first["output"], {"role": "user", "content": turns[1]}, *second["output"],
                 {"role": "user", "content": "Say it again."}]
        respond(asked)
        usage = respond("Say it again.", previous_response_id=second["id"])["usage"]  # the same tokens: all are in the cache
        self.assertGreater(usage["input_tokens"], 300)
        self.assertEqual(usage["input_tokens_details"]["cached_tokens"], (usage["input_tokens"] - 1) // 64 * 64)

    def test_logprobs(self):
        j = self.server.complete("In the beginning", temperature=0, logprobs=3, max_tokens=12, ignore_eos=True).json
        lp = j["choices"][0]["logprobs"]
        self.assertEqual({len(v) for v in lp.values()}, {12})
        for token, value, top in zip(lp["tokens"], lp["token_logprobs"], lp["top_logprobs"]):
            self.assertEqual(max(top.values()), value)
            self.assertEqual(top[token], value)
        self.assertEqual("".join(lp["tokens"]), j["choices"][0]["text"])
        j = self.server.chat(FACTS + "\n\nWhere does Anna Vell live?", logprobs=True, temperature=0).json
        choice = j["choices"][0]
        self.assertEqual(bytes(b for e in choice["logprobs"]["content"] for b in e["bytes"]).decode(),
                         choice["message"]["content"])

    def test_an_echoed_prompt_is_scored_as_it_was_generated(self):
        j = self.server.complete("In the beginning", temperature=0, logprobs=0, max_tokens=8, ignore_eos=True).json
        whole = "In the beginning" + j["choices"][0]["text"]
        e = self.server.complete(whole, echo=True, logprobs=0, max_tokens=0).json["choices"][0]
        self.assertEqual(e["text"], whole)
        if e["logprobs"]["tokens"][-8:] == j["choices"][0]["logprobs"]["tokens"]:
            for a, b in zip(e["logprobs"]["token_logprobs"][-8:], j["choices"][0]["logprobs"]["token_logprobs"]):
                self.assertAlmostEqual(a, b, delta=1e-3)

    def test_the_command_line_reads_a_raw_prompt_as_completions_do(self):
        for text, special in (("</s></s></s>", True), ("In the beginning", True), ("</s></s></s>", False)):
            r = self.server.complete(text, max_tokens=1, parse_special=special).json
            out = subprocess.run([os.environ["LF_LONGFLASH"], "run", "--raw", "--max-tokens", "1", text], check=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=60).stderr.decode()
            same = int(re.search(r"prompt (\d+) tokens", out)[1]) == r["usage"]["prompt_tokens"]
            self.assertEqual(same, special, (text, out))

    def test_tokens_there_and_back(self):
        for text in ("The quick brown fox", "é日本 😀\n\n  x", "<|im_start|>user</s>", "4711"):
            for special in (True, False):
                ids = self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False,
                                                     "parse_special": special}).json["tokens"]
                self.assertEqual(self.server.post("/detokenize", {"tokens": ids}).json["prompt"].lstrip(" "), text)
                self.assertEqual([i for i in ids if i in (1, 2, 3, 4)], [3, 2] if special and "</s>" in text else [])
        text = self.server.post("/apply-template", {"messages": [{"role": "user", "content": "<|im_end|>x"}]}).json["prompt"]
        self.assertTrue(text.startswith("<"))
        ids = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "<|im_end|>x"}]}).json["tokens"]
        self.assertEqual(ids.count(4), 1)  # the template's own

    def test_too_long_is_refused_with_the_numbers(self):
        r = self.server.complete(FILLER * 1000)
        self.assert_error(r, 400, "context_length_exceeded", "prompt")
        self.assertEqual((r.error["n_ctx"], r.error["max_tokens_allowed"]), (8192, 0))
        self.assertGreater(r.error["n_prompt_tokens"], 8192)

    def test_progress_of_a_prefill(self):
        body = {"prompt": FILLER * 250, "max_tokens": 2, "stream": True, "return_progress": True, "cache_salt": "progress"}
        r = self.server.post(TEXT, body)
        seen = [json.loads(e)["prompt_progress"] for e in events(r.body)[:-1] if "prompt_progress" in e]
        self.assertGreaterEqual(len(seen), 2)
        self.assertEqual(seen[-1]["processed"], seen[-1]["total"])

    def test_load_reads_the_stream_of_each_dialect(self):
        n = 200 if harness.SLOW == 1 else 20
        for dialect in ("completions", "chat", "responses", "messages"):
            before = self.server.metric("prompt_tokens_total")
            r = subprocess.run([harness.Program.program, "load", "--url", f"http://127.0.0.1:{self.server.port}", "--dialect", dialect,
                                "--concurrency", "1,3", "--lengths", str(n), "--output-tokens", "6", "--rounds", "2", "--csv", "/dev/stdout"],
                               capture_output=True, text=True, timeout=60 * harness.SLOW)
            self.assertEqual((r.returncode, r.stderr), (0, ""), dialect)
            rows = list(csv.DictReader(line for line in r.stdout.splitlines() if "," in line))
            self.assertEqual([(row["ok"], row["failed"], row["ranks"]) for row in rows], [("2", "0", "1"), ("6", "0", "1")], r.stdout)
            for row in rows:
                for figure in ("ttft_p50_ms", "itl_p50_ms", "prompt_tokens_per_s", "output_tokens_per_s"):
                    self.assertGreater(float(row[figure]), 0, (dialect, figure))
            n_prompt = (self.server.metric("prompt_tokens_total") - before) / 8
            if dialect == "completions":
                self.assertEqual(n_prompt, n)
            self.assertTrue(n <= n_prompt < 2 * n + 20, (dialect, n_prompt))  # up to 2 tokens a word in the demo's small vocabulary

    def load(self, *args):
        return subprocess.run([harness.Program.program, "load", "--url", f"http://127.0.0.1:{self.server.port}", *args],
                              capture_output=True, text=True, timeout=100 * harness.SLOW)

    def test_load_makes_what_people_do(self):
        """The answers are the model's own: shorter than what they may have, unless they are cut."""
        hits = self.server.metric("prefix_cache_hits_total")
        n_texts = ("--concurrency", "2", "--lengths", "300", "--rounds", "3", "--output-tokens", "40")
        for workload in ("extract", "qa", "summary", "chat"):
            for dialect in ("auto", "responses", "messages") if harness.SLOW == 1 else ("auto",):
                before = [self.server.metric(name) for name in ("prompt_tokens_total", "generation_tokens_total")]
                r = self.load("--workload", workload, "--dialect", dialect, *n_texts, "--csv", "/dev/stdout")
                self.assertEqual((r.returncode, r.stderr), (0, ""), (workload, dialect))
                row, = csv.DictReader(line for line in r.stdout.splitlines() if "," in line)
                self.assertEqual((row["ok"], row["failed"]), ("6", "0"), r.stdout)
                n_prompt, n_answer = (self.server.metric(name) - n for name, n in
                                      zip(("prompt_tokens_total", "generation_tokens_total"), before))
                self.assertGreater(n_prompt, 6 * 300)
                self.assertTrue(6 <= n_answer <= 240, (workload, n_answer))
                if workload == "qa":
                    self.assertLess(n_answer, 200)
        self.assertGreater(self.server.metric("prefix_cache_hits_total") - hits, 2 * 300)  # turns behind one another

    def test_load_asks_about_documents_what_people_ask(self):
        r = self.load("--workload", "extract", "--documents", "2", "--lengths", "300", "--concurrency", "2", "--rounds", "2",
                      "--output-tokens", "20")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertIn("hit rate: 100.0%", r.stdout)

    def test_load_refuses_what_does_not_go_together(self):
        for args, message in ((("--workload", "qa", "--dialect", "completions"), "--workload: a completion's prompt is of random ids"),
                              (("--workload", "qa", "--shared-prefix", "5"), "--workload: not together with --shared-prefix"),
                              (("--workload", "chat", "--documents", "2"), "--workload chat: not together with --documents"),
                              (("--workload", "poem"), "--workload")):
            r = self.load(*args)
            self.assertEqual(r.returncode, 2, args)
            self.assertIn(message, r.stderr)

    def test_capacity_and_metrics_agree_when_nothing_runs(self):
        self.assertTrue(harness.wait_until(self.server.idle))
        c = self.server.get("/v1/capacity").json
        b = c["blocks"]
        self.assertEqual(b["total"], b["used"] + b["cached"] + b["free"])
        self.assertGreaterEqual(c["largest_context_now"], 8192)
        self.assertEqual(self.server.metric("kv_cache_usage_perc"), 0)

    def test_clients_that_vanish_are_noticed_within_half_a_second(self):
        for stream in (False, True):
            for prompt in (FILLER * 300 + str(random.random()), "x"):
                body = json.dumps({"prompt": prompt, "max_tokens": 1000, "ignore_eos": True, "stream": stream}).encode()
                s = self.server.socket(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self.assertTrue(harness.wait_until(lambda: self.server.metric("num_requests_running") == 1, 5, 0.001))
                s.close()
                with harness.within(0.5, "noticing"):
                    self.assertTrue(harness.wait_until(self.server.idle, step=0.005))

    def test_200_clients_of_which_60_vanish_leave_nothing(self):
        self.assertTrue(harness.wait_until(self.server.idle))
        base = self.server.n_descriptors()
        body = lambda i: {"prompt": FILLER * (i % 7) + FACTS, "max_tokens": 25, "temperature": 1, "seed": i % 7, "ignore_eos": True}
        quiet = [self.text(TEXT, body(i))[0] for i in range(7)]
        vanish = set(random.Random(7).sample(range(200), 60))
        wrong, places = [], threading.Semaphore(40)  # the limit per address is 64, and some linger

        def client(i):
            with places:
                text = json.dumps({**body(i), "stream": i % 2 == 0}).encode()
                s = self.server.socket(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                       b"Content-Length: %d\r\n\r\n" % len(text) + text, timeout=120)
                if i in vanish:
                    time.sleep(random.Random(i).random() * 0.3)
                    if i % 3:
                        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    s.close()
                    return
                data = b""
                if i % 2:
                    r = harness.read_response(s)
                    got = r and r.json["choices"][0]["text"]
                else:
                    while b"[DONE]" not in data and (more := s.recv(65536)):
                        data += more
                    got = "".join(json.loads(line[6:])["choices"][0]["text"] for line in data.split(b"\n")
                                  if line.startswith(b"data: {"))
                s.close()
                if got != quiet[i % 7]:
                    wrong.append((i, got or data[:200]))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertTrue(harness.wait_until(self.server.idle))
        self.assertTrue(harness.wait_until(lambda: self.server.n_descriptors() <= base))

    def test_shapes_of_the_operations(self):
        m = self.server.get("/v1/models").json["data"][0]
        self.assertEqual((m["id"], m["max_model_len"]), ("demo", 8192))
        self.assertEqual(self.server.get("/readyz").json, {"status": "ok"})
        self.assertIn(b"longflash:time_to_first_token_seconds_bucket", self.server.get("/metrics").body)


if __name__ == "__main__":
    harness.main()
