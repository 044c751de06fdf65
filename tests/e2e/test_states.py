"""A model of whose layers three in four have a state instead of keys (gated delta nets; its weights are random): documents
are found where a copy of the state was kept, the answers are the same alone, together, from the cache, beside what pushes
it out, and from disk after a restart. The plan says what states take, and the server takes as much."""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

import harness
from kept_answers import DEMO, KeptAnswers, with_texts

EVERY = 8192  # tokens from one snapshot to the next, whatever the prompt
LENGTHS = (40, 65, 1000, 3000)

CONFIG = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_act": "silu", "hidden_size": 128,
          "intermediate_size": 256, "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
          "vocab_size": 4096, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
          "torch_dtype": "bfloat16", "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 32,
          "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "bos_token_id": 1, "eos_token_id": 2}
STATE_BYTES = 8 * 32 * 32 * 4 + 3 * (2 * 4 * 32 + 8 * 32) * 4  # of a layer: S in fp32, the convolution's last three inputs
BLOCK_BYTES = 2 * 2 * 2 * 64 * 32 * 2                          # two layers of attention
SLOT_BYTES = -(-6 * STATE_BYTES // BLOCK_BYTES) * BLOCK_BYTES


class Case(harness.Case):
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lf_states_")
        cls.model = os.path.join(cls.dir, "model")
        with_texts(cls.model, CONFIG)
        cls.args = cls.options(*cls.more)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.dir)

    @classmethod
    def options(cls, *more):
        return ("--model", cls.model, "--load", "dummy", "--seed", "7", "--ctx", "4096", *more)

    def start(self, *more):
        server = harness.Program(*self.options(*more))
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def plan(self, *more):
        options = [o for o in self.options(*more) if o not in ("--seed", "7")]
        r = subprocess.run([harness.Program.program, "plan", *options, "--json"], capture_output=True, text=True, timeout=60)
        return json.loads(r.stdout) if r.stdout else r.stderr


class Answers(KeptAnswers, Case):
    LENGTHS = LENGTHS
    more = ("--prefix-cache", "off")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.learn(cls.server)

    def test_from_the_cache_and_together(self):
        for chunk in ("64", "512"):
            server = self.start("--chunk", chunk, "--max-seqs", "8", "--kv-tokens", "16K")
            n_hits = 0
            for i, length in enumerate(LENGTHS):
                self.assertEqual(self.check(server, i), 0)
                self.assertEqual(self.check(server, i), (length - 1) // 64 * 64)  # its end is kept
                # Another question behind the same text, which nobody has marked: a state cannot be cut there.
                self.assertEqual(self.check(server, i, 1), (length - 20) // 64 * 64 if (length - 20) // 64 == (length - 1) // 64 else 0)
                n_hits += (length > 64) + ((length - 20) // 64 == (length - 1) // 64 > 0)
            self.assertEqual(server.metric("snapshots_hit_total"), n_hits)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda k: self.check(server, k % len(LENGTHS), k // len(LENGTHS) % 2), range(16)))
            self.assertTrue(harness.wait_until(server.idle))
            self.assertEqual(server.metric("state_slots_used"), 0)

    def test_beside_what_pushes_it_out(self):
        server = self.start("--kv-tokens", "4096", "--chunk", "64", "--max-seqs", "4", "--snapshots", "1")
        for round in range(3):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda k: self.check(server, k % len(LENGTHS), round % 2), range(8)))
        self.assertTrue(harness.wait_until(server.idle))
        self.assertGreater(server.metric("snapshots_evicted_total") + server.metric("snapshots_skipped_total"), 0)

    def test_from_disk(self):
        more = ("--cache-dir", os.path.join(self.dir, "cache"), "--cache-disk", "60M", "--kv-tokens", "8K")
        server, last = self.start(*more), len(LENGTHS) - 1
        kept = lambda: server.get("/v1/capacity").json["disk"]["kept"]
        self.check(server, last)
        # blocks of prompt and answer, and the snapshot at the prompt's end
        n = (LENGTHS[last] + 69) // 64 + SLOT_BYTES // BLOCK_BYTES
        self.assertTrue(harness.wait_until(lambda: kept() >= n), (kept(), n))
        self.assertEqual(server.stop(), 0)
        server = self.start(*more)
        self.assertEqual(self.check(server, last), (LENGTHS[last] - 1) // 64 * 64)
        self.assertEqual(server.metric("prompt_tokens_by_source_total", 'source="external_kv_transfer"'), (LENGTHS[last] - 1) // 64 * 64)


class Documents(Case):
    more = ("--kv-tokens", "64K", "--max-seqs", "6")

    def ask(self, parts):
        """(the answer, tokens of the prompt, of these from the cache)"""
        r = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": parts}], "max_tokens": 8,
                                                      "temperature": 0, "ignore_eos": True})
        self.assertEqual(r.status, 200, r.body)
        usage = r.json["usage"]
        return r.json["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def test_questions_find_the_end_of_a_document(self):
        with open(os.path.join(DEMO, "document.txt"), encoding="utf-8") as f:
            text = f.read()
        self.server.request("PUT", "/v1/documents/report?wait=true", text[:6000].encode(), {"Content-Type": "text/plain"}, timeout=100)
        n = self.server.get("/v1/documents/report").json["tokens"]
        inline = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text[1:6000]}}
        for document, n_first in (({"type": "document", "name": "report"}, n // 64 * 64), (inline, 0)):
            for i in range(3):
                question = f"{i} " + text[20000 * i:20000 * i + 3000]
                _, n_prompt, n_cached = self.ask([document, {"type": "text", "text": question}])
                self.assertGreater(n_prompt - n, 500)
                self.assertEqual(n_cached, n // 64 * 64 if i else n_first, (document["type"], i))

    def test_load_finds_all_that_can_be_found(self):
        for _ in range(2):
            r = subprocess.run([harness.Program.program, "load", "--url", f"http://127.0.0.1:{self.server.port}", "--documents", "5",
                                "--lengths", "700", "--concurrency", "3", "--rounds", "5", "--output-tokens", "4"],
                               capture_output=True, text=True, timeout=300)
            self.assertEqual(r.returncode, 0, r.stderr)
            rate = re.search(r"hit rate: ([\d.]+)% of the (\d+) tokens", r.stdout)
            self.assertTrue(rate, r.stdout)
            self.assertEqual(rate[1], "100.0", r.stdout)
            self.assertGreater(int(rate[2]), 15 * 640)

    def test_the_server_holds_what_the_plan_says(self):
        plan, capacity = self.plan(*self.more), self.server.get("/v1/capacity").json
        states = capacity["states"]
        self.assertEqual((states["layers"], states["slot_bytes"]), (6, SLOT_BYTES))
        self.assertEqual([plan[k] for k in ("state_layers", "state_slot_bytes", "state_slots", "snapshots")],
                         [states[k] for k in ("layers", "slot_bytes", "slots", "snapshots")])
        self.assertEqual((states["sequence_slots"], states["snapshots"]), (6 + 1, 64 * 1024 // EVERY + 7))
        self.assertEqual(states["slots"], states["sequence_slots"] + states["snapshots"])
        self.assertEqual(capacity["plan"]["kv_bytes"], plan["kv_bytes"] + plan["state_bytes"])
        self.assertEqual(plan["kv_bytes"], 1024 * BLOCK_BYTES)
        self.assertEqual(self.server.metric("state_slots"), states["slots"])

    def test_a_disk_holds_snapshots_beside_blocks(self):
        plan = self.plan(*self.more, "--cache-dir", os.path.join(self.dir, "nothing"), "--cache-disk", "64M")
        n_blocks, slot_blocks = 64 * 2**20 // (BLOCK_BYTES + 512), SLOT_BYTES // BLOCK_BYTES
        expected = n_blocks * 64 * EVERY / (EVERY + 64 * slot_blocks)
        self.assertLess(abs(plan["disk_tokens"] - expected), 0.01 * expected)

    def test_it_takes_what_the_plan_says(self):
        """With many slots, so that a slot more or less would show; texts are a ceiling, and count as far as they are there."""
        more = (*self.more, "--snapshots", "2000")
        plan, server = self.plan(*more), self.start(*more)
        planned = plan["total_bytes"] - plan["text_bytes"]
        self.assertGreater(plan["state_bytes"], 0.7 * planned)
        with open(f"/proc/{server.process.pid}/status") as f:
            resident = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))
        if harness.SLOW == 1:
            self.assertLess(abs(resident - planned), 0.01 * planned, (resident, planned))

    def test_records_of_slots_are_in_the_plan(self):
        """More snapshots than there is memory for, so that what the engine keeps of them is far more than a start differs by."""
        some, many = (self.plan(*self.more, "--snapshots", n, "--memory", "1G") for n in ("1", "65536"))
        self.assertEqual((some["snapshots"], many["snapshots"]), (1, 65536))
        self.assertGreater(many["host_bytes"] - some["host_bytes"], 65535 * 32)

    def test_fewer_run_where_their_states_would_take_much(self):
        texts = ("--max-body", "1M", "--text-memory", "64M")
        whole = self.plan("--kv-tokens", "4096", *texts)
        self.assertEqual((whole["max_seqs"], whole["max_seqs_before"]), (64, 0))
        fixed = whole["total_bytes"] - whole["kv_bytes"] - whole["state_bytes"]
        memory = ("--memory", str(fixed + 100 * SLOT_BYTES), *texts)
        p = self.plan(*memory)
        self.assertTrue(p["fits"] and p["max_seqs_before"] == 64 and 15 <= p["max_seqs"] <= 25, p)
        self.assertFalse(self.plan(*memory, "--max-seqs", "64")["fits"])
        self.assertRegex(self.plan(*memory, "--max-seqs", "64")["advice"], r"--max-seqs \d+ fits")
        self.assertIn("--prefix-cache is off", self.plan("--snapshots", "3", "--prefix-cache", "off"))


if __name__ == "__main__":
    harness.main()
