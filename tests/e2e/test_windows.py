"""A model most of whose layers see the last 200 tokens alone (its weights are random): what is behind them is let go, and
the answers are the same, alone, together, from the cache, beside documents that push it out, and from disk after a
restart. The plan says what that saves, and the server holds as much."""
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from kept_answers import ASK, DEMO, KeptAnswers, with_texts

WINDOW, LAYERS, FULL = 200, 12, 2
LENGTHS = (40, 199, 1000, 3000)


def config(window):
    return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "hidden_size": 128,
            "intermediate_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 32, "vocab_size": 500, "max_position_embeddings": 16384, "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
            "tie_word_embeddings": True, "use_sliding_window": window, "sliding_window": WINDOW if window else None,
            "max_window_layers": 0,
            "layer_types": ["full_attention" if not window or i % 6 == 5 else "sliding_attention" for i in range(LAYERS)]}


class Windows(KeptAnswers, harness.Case):
    LENGTHS = LENGTHS
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lf_windows_")
        for name, window in (("windows", True), ("full", False)):
            os.mkdir(os.path.join(cls.dir, name))
            with open(os.path.join(cls.dir, name, "config.json"), "w") as f:
                json.dump(config(window), f)
        cls.args = cls.options("windows", "--seed", "7", "--prefix-cache", "off")
        super().setUpClass()
        cls.learn(cls.server)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.dir)

    @classmethod
    def options(cls, name, *more):
        return ("--model", os.path.join(cls.dir, name), "--load", "dummy", "--ctx", "4096", *more)

    def start(self, *more):
        server = harness.Program(*self.options("windows", "--seed", "7", *more))
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def plan(self, name, *more):
        args = [harness.Program.program, "plan", *self.options(name, *more), "--json"]
        return json.loads(subprocess.run(args, capture_output=True, text=True, timeout=60).stdout)

    def test_from_the_cache_and_together(self):
        for chunk in ("64", "512"):
            server = self.start("--chunk", chunk, "--max-seqs", "8", "--kv-tokens", "16K")
            for i, length in enumerate(LENGTHS):
                self.assertEqual(self.check(server, i), 0)
                self.assertEqual(self.check(server, i), (length - 1) // 64 * 64)
                self.assertEqual(self.check(server, i, 1), (length - 20) // 64 * 64)  # another question
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda k: self.check(server, k % len(LENGTHS), k // len(LENGTHS) % 2), range(16)))
            self.assertTrue(harness.wait_until(server.idle))

    def test_beside_what_pushes_it_out(self):
        server = self.start("--kv-tokens", "4096", "--chunk", "64", "--max-seqs", "4")
        for round in range(3):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda k: self.check(server, k % len(LENGTHS), round % 2), range(8)))
        self.assertTrue(harness.wait_until(server.idle))

    def test_from_disk(self):
        more = ("--cache-dir", os.path.join(self.dir, "cache"), "--cache-disk", "60M", "--kv-tokens", "8K")
        server, last = self.start(*more), len(LENGTHS) - 1
        kept = lambda: server.get("/v1/capacity").json["disk"]["kept"]
        self.check(server, last)
        # the full layers' blocks, and of windows those that are seen from the prompt's end at least
        n_full, n_seen = (LENGTHS[last] + 70) // 64, WINDOW // 64
        n_groups = len(server.get("/v1/capacity").json["groups"])
        self.assertTrue(harness.wait_until(lambda: kept() >= n_full + (n_groups - 1) * n_seen), kept())
        self.assertLess(kept(), n_groups * n_full)  # and not all of them
        self.assertEqual(server.stop(), 0)
        server = self.start(*more)
        n = self.check(server, last, 1)
        self.assertEqual(n, (LENGTHS[last] - 20) // 64 * 64)
        self.assertEqual(server.metric("prompt_tokens_by_source_total", 'source="external_kv_transfer"'), n)

    def test_the_plan_says_what_windows_save(self):
        chunk = ("--chunk", "512", "--kv-tokens", "4096")
        windows, full = self.plan("windows", *chunk), self.plan("full", *chunk)
        self.assertEqual([g["window"] for g in windows["kv_groups"]], [0] + 5 * [WINDOW])
        self.assertEqual([g["layers"] for g in windows["kv_groups"]], 6 * [FULL])
        self.assertEqual(windows["kv_request_blocks"], 64 + 5 * (4 + 2))  # of 4,096 tokens; a window of 200
        self.assertEqual(windows["kv_step_blocks"], 5 * 512 // 64)
        self.assertEqual((full["kv_request_blocks"], full["kv_step_blocks"]), (64, 0))
        self.assertEqual(windows["kv_block_bytes"] * 6, full["kv_block_bytes"])
        self.assertEqual(windows["kv_bytes"], (64 + 30 + 40) * windows["kv_block_bytes"])
        memory = ("--memory", "500M")
        more, less = self.plan("windows", *memory), self.plan("full", *memory)
        self.assertGreater(more["kv_tokens"], 3 * less["kv_tokens"])
        self.assertGreaterEqual(more["concurrent_requests"], 3 * less["concurrent_requests"])

    def test_the_server_holds_what_the_plan_says(self):
        server = self.start("--kv-tokens", "4096", "--chunk", "512")
        plan, capacity = self.plan("windows", "--kv-tokens", "4096", "--chunk", "512"), server.get("/v1/capacity").json
        self.assertEqual(capacity["blocks"]["total"], plan["kv_blocks"])
        self.assertEqual(capacity["largest_context_now"], 4096)
        self.assertEqual([(g["window"], g["layers"], g["request_blocks"]) for g in capacity["groups"]],
                         [(g["window"], g["layers"], g["request_blocks"]) for g in plan["kv_groups"]])
        self.assertEqual(capacity["plan"]["kv_bytes"], plan["kv_bytes"])
        r = server.post("/v1/completions", {"prompt": [5] * 4026, **ASK})  # all of ctx
        self.assertEqual((r.status, r.json["usage"]["total_tokens"]), (200, 4096))


class Documents(harness.Case):
    """Of such a model, whose texts are texts."""
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lf_windows_")
        with_texts(os.path.join(cls.dir, "model"), config(True))
        cls.args = ("--model", os.path.join(cls.dir, "model"), "--load", "dummy", "--ctx", "8K", "--kv-tokens", "16K")
        super().setUpClass()
        with open(os.path.join(DEMO, "document.txt"), encoding="utf-8") as f:
            text = f.read()
        cls.text, cls.questions = text[:6000], [f"{i} " + text[20000 * i:20000 * i + 8000] for i in range(1, 4)]

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.dir)

    def n_same(self, parts):
        """Tokens of the full blocks that all prompts with these parts before a text have."""
        ids = [self.server.post("/tokenize", {"messages": [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]})
               .json["tokens"] for text in ("1 x", "2 x")]
        return len(os.path.commonprefix(ids)) // 64 * 64

    def ask(self, parts):
        """(the answer, tokens of the prompt, of these from the cache)"""
        r = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": parts}], "max_tokens": 8,
                                                      "temperature": 0, "ignore_eos": True})
        self.assertEqual(r.status, 200, r.body)
        usage = r.json["usage"]
        return r.json["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def test_long_questions_behind_a_document_find_its_end(self):
        self.server.request("PUT", "/v1/documents/report?wait=true", self.text.encode(), {"Content-Type": "text/plain"}, timeout=100)
        n = self.server.get("/v1/documents/report").json["tokens"]
        inline = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": self.text[1:]}}
        for document, n_first in (({"type": "document", "name": "report"}, n // 64 * 64), (inline, 0)):
            for i, question in enumerate(self.questions):
                _, n_prompt, n_cached = self.ask([document, {"type": "text", "text": question}])
                self.assertGreater(n_prompt - n, 1024 + WINDOW + 128)
                self.assertEqual(n_cached, n // 64 * 64 if i else n_first, (document["type"], i))

    def test_the_end_of_each_of_several_is_found(self):
        text = lambda t: {"type": "text", "text": t}
        first, second = [{"type": "document", "source": {"type": "text", "data": f"{i} {self.text[:4000]}"}} for i in "ab"]
        one, two = self.n_same([first]), self.n_same([first, second])
        self.assertGreater(two, one + WINDOW + 128)
        got = [self.ask(parts)[2] for parts in ([first, second, text(self.questions[0])], [first, second, text(self.questions[1])],
                                                [first, text(self.questions[2])])]
        self.assertLess(got[0], 64)
        self.assertEqual(got[1:], [two, one])


class Alone(harness.Case):
    """Where all layers have windows no request is too long for the cache, and little of a document is pinned."""
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lf_windows_")
        with_texts(os.path.join(cls.dir, "alone"), {**config(True), "layer_types": LAYERS * ["sliding_attention"]})
        cls.args = ("--model", os.path.join(cls.dir, "alone"), "--load", "dummy", "--ctx", "4096", "--chunk", "512", "--kv-tokens", "16K")
        super().setUpClass()
        with open(os.path.join(DEMO, "document.txt"), encoding="utf-8") as f:
            cls.text = f.read()[:10000]

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.dir)

    @staticmethod
    def complete(server, n_prompt, max_tokens):
        return server.post("/v1/completions", {"prompt": [5] * n_prompt, "max_tokens": max_tokens, "ignore_eos": True})

    def test_a_request_may_be_longer_than_all_blocks(self):
        blocks = self.server.get("/v1/capacity").json["blocks"]
        self.assertLess(blocks["total"] * 64, 3000)
        r = self.complete(self.server, 4086, 10)
        self.assertEqual((r.status, r.json["usage"]["total_tokens"]), (200, 4096), r.body)
        self.assert_error(self.complete(self.server, 4086, 11), 400, "context_length_exceeded")

    def test_a_document_is_pinned_in_few_blocks(self):
        server, url = self.server, "/v1/documents/report"
        r = server.request("PUT", url + "?wait=true", self.text.encode(), {"Content-Type": "text/plain"}, timeout=100)
        self.assertEqual(harness.events(r.body)[-1], "[DONE]", r.body)
        n, half = server.get(url).json["tokens"] // 64, server.get("/v1/capacity").json["blocks"]["total"] // 2
        self.assertGreater(n, half)
        r = server.post(url + "/pin", {"tier": "device"})
        self.assertEqual(r.status, 200, r.body)
        # what is counted: all that is seen from its last block, and that one; what is held may be one fewer
        n_counted = n - (64 * (n - 1) - WINDOW + 1) // 64
        pinned = lambda: server.metric("kv_blocks_pinned")
        self.assertTrue(harness.wait_until(lambda: n_counted - 1 <= pinned() <= n_counted), pinned())
        # others are as large, until half of the cache is
        for i in range(1, half // n_counted + 1):
            server.request("PUT", f"{url}{i}?wait=true", f"{i} {self.text}".encode(), {"Content-Type": "text/plain"}, timeout=100)
            r = server.post(f"{url}{i}/pin", {"tier": "device"})
            self.assertEqual(r.status, 507 if (i + 1) * n_counted > half else 200, (i, n_counted, half, r.body))
        self.assert_error(r, 507, "pins_full", "tier")
        self.assertIn(f"there is room for {half % n_counted} blocks of {half}", r.error["message"])


if __name__ == "__main__":
    harness.main()
