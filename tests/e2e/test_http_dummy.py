"""A model of which only config.json is there: served, run, planned, tokenized and load-tested on random weights."""
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading

import harness

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


class Shape(harness.Case):
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lf_shape_")
        with open("demo/model/config.json") as f:
            cls.config = json.load(f)
        with open(os.path.join(cls.dir, "config.json"), "w") as f:
            json.dump(cls.config, f)
        cls.args = ("--model", cls.dir, "--load", "dummy", "--ctx", "4096", "--model-id", "shape")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.dir)

    def command(self, *args, stdin=None):
        return subprocess.run([self.server.program, *args], input=stdin, capture_output=True, text=True, timeout=120 * harness.SLOW)

    def test_answers_that_are_no_text_have_no_format(self):
        for field, value in (("response_format", {"type": "json_object"}), ("guided_regex", "a"), ("guided_choice", ["a"])):
            r = self.server.post(TEXT, {"prompt": "1 2 3", "max_tokens": 2, field: value})
            self.assert_error(r, 400, "unsupported_parameter", field)
        self.assertEqual(self.server.post(TEXT, {"prompt": "1 2 3", "max_tokens": 2, "response_format": {"type": "text"}}).status, 200)
        r = self.command("run", "--model", self.dir, "--load", "dummy", "--regex", "a", "1 2 3")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("no format can be given", r.stderr)

    def check_automatic_splits(self, plan):
        status, _, p = plan("--gpu-memory", "80G", "--gpus", "4", "--parallel", "auto")
        self.assertEqual((status, p["ranks"], p["split"]["tp"], p["split"]["cp"]), (0, 4, 4, 1))
        splits = {(s["tp"], s["cp"]): s for s in p["splits"]}
        self.assertEqual(len(splits), 8)
        one, two, three, four = (splits[n, 1] for n in (1, 2, 3, 4))
        contexts = splits[1, 4]
        self.assertIn("32 query heads", three["why_not"])
        self.assertTrue(one["fits"] and two["fits"] and four["fits"])
        self.assertGreater(one["needed_bytes"], 1.9 * two["needed_bytes"])
        self.assertGreater(one["token_seconds"], two["token_seconds"])
        self.assertGreater(two["first_token_seconds"], four["first_token_seconds"])
        self.assertGreater(four["first_token_seconds"], contexts["first_token_seconds"])
        self.assertGreater(contexts["token_seconds"], splits[2, 2]["token_seconds"])
        self.assertGreater(splits[2, 2]["token_seconds"], four["token_seconds"])
        self.assertGreater(contexts["needed_bytes"], 2 * four["needed_bytes"])  # its weights are whole
        named = plan("--gpu-memory", "80G", "--parallel", "tp=4")[2]
        self.assertEqual({k: p[k] for k in named}, named)  # what was chosen is what its name has
        small = plan("--gpu-memory", "20G", "--gpus", "2", "--parallel", "auto")[2]
        self.assertEqual([s["fits"] for s in small["splits"]], [False, True, False])
        self.assertEqual(small["split"], {"tp": 2, "cp": 1, "reason": "tp=2: no other one fits"})
        unknown = plan("--gpu-memory", "80G", "--gpu-sms", "108", "--gpus", "2", "--parallel", "auto")[2]
        self.assertEqual(unknown["split"]["tp"], 1)
        self.assertNotIn("token_seconds", unknown["splits"][0])
        kept = plan("--gpu-memory", "80G", "--gpus", "2", "--parallel", "auto", "--cache-memory", "8G")[2]
        self.assertEqual([s["fits"] for s in kept["splits"]], [True, True, True])  # it is the host's memory, for all of them
        self.assertEqual(kept["cache_memory_bytes"], 8 << 30)
        little = plan("--gpu-memory", "80G", "--gpus", "2", "--parallel", "auto", "--cache-memory", "10M")[2]
        self.assertIn("hold no block of 16777216 bytes (128 tokens)", little["splits"][2]["why_not"])  # cp=2, and no other
        self.assertEqual([s.get("fits") for s in little["splits"]], [True, True, None])
        longer = plan("--gpu-memory", "80G", "--gpus", "4", "--parallel", "auto", "--max-position", "1M", "--ctx", "1M")[2]
        self.assertEqual([s.get("fits") for s in longer["splits"]], [False, True, False, None, True, True, True, True])
        document = plan("--gpu-memory", "80G", "--gpus", "8", "--parallel", "auto", "--max-position", "1M", "--ctx", "1M")[2]
        self.assertEqual((document["split"]["tp"], document["split"]["cp"], document["context_ranks"]), (2, 4, 4))
        whole = plan("--gpu-memory", "80G", "--parallel", "tp=2,cp=4", "--max-position", "1M", "--ctx", "1M")[2]
        self.assertEqual({k: document[k] for k in whole}, whole)
        with tempfile.TemporaryDirectory(prefix="lf_shape_") as dir:  # what contexts are not divided with is passed by
            with open("tests/bench/shapes/llama-3.1-8b/config.json") as f:
                shape = json.load(f)
            with open(os.path.join(dir, "config.json"), "w") as f:
                json.dump({**shape, "torch_dtype": "float16"}, f)
            args = ("plan", "--model", dir, "--load", "dummy", "--gpu-memory", "80G", "--gpus", "2", "--parallel", "auto")
            self.assertIn("\n  Not cp=2: attention on a GPU: stripe 0 of 2 with activations of type f16; contexts are "
                          "divided with bf16.\n", self.command(*args).stdout)

    def check_forecasts(self, plan):
        longer = ("--gpu-memory", "80G", "--max-position", "1M", "--ctx", "1M")
        p = plan(*longer, "--forecast", "64")[2]
        self.assertEqual([r["gpus"] for r in p["forecast"]], [1, 2, 4, 8, 16, 32, 64])
        self.assertEqual([r["fits"] for r in p["forecast"]], [False] + 6 * [True])
        rows = p["forecast"][1:]
        self.assertTrue(all(r["tp"] * r["cp"] == r["gpus"] and r["tp"] <= 8 for r in rows))
        for few, many in zip(rows, rows[1:]):
            self.assertLess(many["first_token_seconds"], few["first_token_seconds"])
            self.assertGreater(many["exchange_seconds"] / many["first_token_seconds"],
                               few["exchange_seconds"] / few["first_token_seconds"])
        planned = plan(*longer, "--gpus", "8", "--parallel", "auto")[2]  # of one host with longer steps, that is
        split = next(s for s in planned["splits"] if (s["tp"], s["cp"]) == (rows[2]["tp"], rows[2]["cp"]))
        self.assertAlmostEqual(split["token_seconds"], rows[2]["token_seconds"])
        self.assertAlmostEqual(split["first_token_seconds"] / rows[2]["first_token_seconds"], 1, delta=0.01)
        args = ("plan", "--model", "tests/bench/shapes/llama-3.1-8b", "--load", "dummy", *longer, "--forecast", "2")
        text = self.command(*args).stdout
        self.assertIn("More than 8 GPUs do not run\ntogether: a forecast", text)
        self.assertIn("\n      1 does not fit\n      2 tp=2 ", text)
        for more in (("--chunk", "512"), ("--memory", "20G"), ("--kv-tokens", "1K"), ("--max-seqs", "8"), ("--concurrency", "8")):
            r = self.command(*args, *more)
            self.assertEqual((r.returncode, r.stdout), (2, ""), more)
            self.assertIn("expected it without --memory, --kv-tokens, --chunk", r.stderr)
        r = self.command(*args[:-2], "--forecast", "2", "--ctx", "auto")
        self.assertEqual(r.returncode, 2)
        self.assertIn("expected a number of them", r.stderr)

    def test_a_gpu_that_is_not_here_is_planned_for(self):
        def plan(*args):
            r = self.command("plan", "--model", "tests/bench/shapes/llama-3.1-8b", "--load", "dummy", "--ctx", "128K", "--json",
                             *args)
            return r.returncode, r.stderr, json.loads(r.stdout or "null")

        status, message, p = plan("--gpu-memory", "80G")
        if p is None:
            self.assertEqual(status, 2)
            return self.assertIn("no GPU backend", message)
        self.assertEqual((status, p["fits"], p["device_is_described"], p["kv_dtype"]), (0, True, True, "bf16"))
        self.assertIn("80.00 GiB, 132 multiprocessors", p["device"])
        self.assertEqual(p["context_bytes"] + p["available_bytes"], 80 << 30)
        self.assertEqual((p["concurrent_requests"], p["host_bytes"]), (3, 0))
        more = plan("--gpu-memory", "80G", "--gpu-sms", "264")[2]
        self.assertGreater(more["attention_bytes"], 1.5 * p["attention_bytes"])
        self.assertEqual(more["weight_bytes"], p["weight_bytes"])
        status, _, p = plan("--gpu-memory", "20G")
        self.assertEqual((status, p["fits"]), (2, False))
        self.assertIn("--ctx", p["advice"])
        plain = plan("--gpu-memory", "80G")[2]
        for format in ("fp8", "int4"):
            status, _, p = plan("--gpu-memory", "80G", "--quantize", format)
            self.assertEqual(status, 0)
            self.assertLess(p["weight_bytes"], {"fp8": 0.6, "int4": 0.4}[format] * plain["weight_bytes"])
        self.check_automatic_splits(plan)
        self.check_forecasts(plan)
        below = plan("--gpu-memory", "80G", "--cache-memory", "32G", "--cache-dir", "/nowhere")[2]
        self.assertEqual((below["cache_memory_bytes"], below["cache_memory_tokens"]), (32 << 30, (32 << 30) // (128 << 10)))
        self.assertGreater(below["disk_index_bytes"], 0)
        self.assertEqual(below["total_bytes"], plain["total_bytes"])  # it is not the GPU's
        status, message, p = plan("--gpu-memory", "80G", "--cache-memory", "8388607")
        self.assertEqual((status, p), (2, None))
        self.assertIn("8388607 bytes hold no block of 8388608 bytes", message)
        status, message, p = plan("--gpu-memory", "80")
        self.assertEqual((status, p), (2, None))
        self.assertIn("80 bytes", message)

    def test_heads_that_no_gpu_kernel_takes_are_told_by_plan(self):
        with tempfile.TemporaryDirectory(prefix="lf_shape_") as dir:
            for heads, status, answer in ((128, 0, "Fits"), (129, 2, "129 query heads share a KV head; at most 128 may")):
                shape = {**self.config, "num_attention_heads": heads, "num_key_value_heads": 1, "head_dim": 32}
                with open(os.path.join(dir, "config.json"), "w") as f:
                    json.dump(shape, f)
                r = self.command("plan", "--model", dir, "--load", "dummy", "--gpu-memory", "80G")
                if "no GPU backend" in r.stderr:
                    status, answer = 2, "no GPU backend"
                self.assertEqual(r.returncode, status, r.stderr)
                self.assertIn(answer, r.stdout + r.stderr)

    def test_a_prompt_of_ids_and_the_same_as_text_have_one_answer(self):
        body = {"max_tokens": 12, "temperature": 0, "ignore_eos": True, "logprobs": 2}
        a = self.server.complete([17, 4, 256], **{**body, "logprobs": None}).json
        b = self.server.complete("17 4\n256 ", **{**body, "logprobs": None}).json
        self.assertEqual(a["choices"], b["choices"])
        self.assertEqual((a["usage"]["prompt_tokens"], a["usage"]["completion_tokens"]), (3, 12))
        ids = [int(word) for word in a["choices"][0]["text"].split(" ")[1:]]
        self.assertEqual(len(ids), 12)
        self.assertTrue(all(0 <= i < self.config["vocab_size"] for i in ids))
        scored = self.server.complete([17, 4, 256], **body).json["choices"][0]["logprobs"]
        self.assertEqual([int(t) for t in scored["tokens"]], ids)

    def test_a_stream_is_the_same_answer_with_an_event_for_each_token(self):
        body = {"prompt": "17 4 256", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
        whole = self.server.complete(**body).json["choices"][0]["text"]
        parts = [json.loads(e)["choices"][0]["text"] for e in harness.events(self.server.stream(TEXT, body).body)[:-1]]
        self.assertEqual("".join(parts), whole)
        self.assertGreaterEqual(len([p for p in parts if p]), 2)

    def test_an_answer_goes_on_where_the_last_one_ended(self):
        body = {"temperature": 0, "ignore_eos": True}
        whole = self.server.complete("17 4 256", max_tokens=12, **body).json["choices"][0]["text"]
        first = self.server.complete("17 4 256", max_tokens=5, **body).json["choices"][0]["text"]
        rest = self.server.complete("17 4 256" + first, max_tokens=7, **body).json["choices"][0]["text"]
        self.assertEqual(first + rest, whole)
        echo = self.server.complete("17 4 256", max_tokens=5, echo=True, **body).json["choices"][0]["text"]
        self.assertEqual(echo, "17 4 256" + first)

    def test_texts_that_are_no_ids_are_refused_with_what_was_expected(self):
        for text in ("Hello", "17 4096", "17,4", "-1", "1.5"):
            r = self.server.complete(text)
            self.assert_error(r, 400, None, "prompt")
            self.assertIn("token ids from 0 to 4095", r.error["message"])
        self.assert_error(self.server.complete([17, 4096]), 400, None, "prompt")

    def test_chat_is_refused_by_name(self):
        self.assert_error(self.server.chat("17 4 256"), 400, "no_chat_template", "messages")
        self.assert_error(self.server.post("/apply-template", {"messages": [{"role": "user", "content": "1"}]}), 400,
                          "no_chat_template", "messages")

    def test_tokens_there_and_back(self):
        r = self.server.post("/tokenize", {"prompt": "0 17  4095"}).json
        self.assertEqual((r["tokens"], r["count"]), ([0, 17, 4095], 3))
        self.assertEqual(self.server.post("/detokenize", {"tokens": [0, 17, 4095]}).json, {"prompt": "0 17 4095"})
        self.assert_error(self.server.post("/tokenize", {"prompt": "one"}), 400)

    def test_a_stop_string_is_found(self):
        body = {"prompt": "17 4 256", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
        whole = self.server.complete(**body).json["choices"][0]["text"]
        stop = whole.split(" ")[4]
        c = self.server.complete(**body, stop=[" " + stop + " "]).json["choices"][0]
        self.assertEqual((c["text"], c["finish_reason"]), (whole[:whole.index(" " + stop + " ")], "stop"))

    def test_the_load_test_runs_against_it(self):
        r = self.command("load", "--url", f"http://127.0.0.1:{self.server.port}", "--concurrency", "1,4", "--lengths", "64,1K",
                         "--output-tokens", "8", "--rounds", "2")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stdout.splitlines()[0], "shape over 1 rank")
        rows = [line.split() for line in r.stdout.splitlines()[2:]]
        self.assertEqual([(x[0], x[1], x[2], x[3]) for x in rows],
                         [("1", "64", "2", "0"), ("1", "1024", "2", "0"), ("4", "64", "8", "0"), ("4", "1024", "8", "0")])

    def test_a_server_that_is_another_program_may_not_say_what_it_is(self):
        class Nothing(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_error(404)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as other:
            threading.Thread(target=other.serve_forever).start()
            r = self.command("load", "--url", f"http://127.0.0.1:{other.server_port}", "--concurrency", "1", "--lengths", "64",
                             "--rounds", "1")
            other.shutdown()
        self.assertEqual(r.stdout.splitlines()[0], "a server that does not say over how many ranks")
        self.assertEqual(r.stdout.splitlines()[2].split()[:4], ["1", "64", "0", "1"])
        self.assertEqual(r.returncode, 1)

    def test_the_other_commands_take_it(self):
        model = ("--model", self.dir, "--load", "dummy")
        r = self.command("plan", *model, "--ctx", "4K", "--json")
        self.assertEqual((r.returncode, json.loads(r.stdout)["ctx"]), (0, 4096))
        r = self.command("run", *model, "--max-tokens", "6", "17 4 256")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(len(r.stdout.split()), 6)
        again = self.command("run", *model, "--max-tokens", "6", "--document", "-", "256", stdin="17 4\n")
        self.assertEqual(again.stdout, r.stdout)
        r = self.command("tokenize", *model, "17 4 256")
        self.assertEqual((r.returncode, r.stdout), (0, '17\t"17"\n4\t"4"\n256\t"256"\n'))
        r = self.command("tokenize", *model, "--decode", "17", "4")
        self.assertEqual((r.returncode, r.stdout), (0, "17 4\n"))

    def test_the_plan_says_what_each_op_takes(self):
        model = ("plan", "--model", self.dir, "--load", "dummy", "--ctx", "4K", "--json")
        plan = json.loads(self.command(*model, "--ops").stdout)
        self.assertEqual([s["tokens"] for s in plan["steps"]], [plan["chunk"], 1])
        kinds = [{r["op"] for r in s["rows"]} for s in plan["steps"]]
        self.assertIn("gemm_gate_mul", kinds[0])
        for step in plan["steps"]:
            self.assertEqual(step["kv_len"], 4096)
            self.assertEqual(sum(r["weight_bytes"] for r in step["rows"]), plan["weight_bytes"])
            self.assertTrue(all("seconds" not in r for r in step["rows"]))
        profile = json.loads(self.command(*model, "--profile", "--no-fusion").stdout)
        for step, other in zip(profile["steps"], plan["steps"]):
            self.assertFalse({"gemm_gate_mul", "gemm_rope_append"} & {r["op"] for r in step["rows"]})
            self.assertTrue(all(r["seconds"] > 0 for r in step["rows"]) and step["step_seconds"] > 0)
            self.assertEqual(sum(r["weight_bytes"] for r in step["rows"]), plan["weight_bytes"])
            # what is fused is the same work, with less of it moved
            self.assertGreater(sum(r["bytes"] for r in step["rows"]), sum(r["bytes"] for r in other["rows"]))
            dense = lambda s: sum(r["flops"] for r in s["rows"] if "gemm" in r["op"] or r["op"] == "attention")
            self.assertEqual(dense(step), dense(other))
        text = self.command(*model[:-1], "--profile").stdout
        self.assertIn("The step as a whole", text)
        r = self.command(*model[:-1], "--ops", "--memory", "1M")
        self.assertEqual(r.returncode, 2)
        self.assertIn("Does not fit", r.stdout)

    def test_answers_are_the_same_without_fusions(self):
        run = ("run", "--model", self.dir, "--load", "dummy", "--max-tokens", "20", "17 4 256 9 9 3")
        self.assertEqual(self.command(*run).stdout, self.command(*run, "--no-fusion").stdout)

    def test_without_dummy_weights_what_is_missing_is_named(self):
        for command in (("serve", "--port", "0"), ("run", "17"), ("tokenize", "17")):
            r = self.command(command[0], "--model", self.dir, *command[1:])
            self.assertEqual(r.returncode, 2)
            self.assertIn("tokenizer.json", r.stderr)
            self.assertIn("--load dummy", r.stderr)
        r = self.command("plan", "--model", self.dir)
        self.assertEqual(r.returncode, 2)
        self.assertIn("safetensors", r.stderr)

    def test_the_seed_decides_the_weights(self):
        answers = [self.command("run", "--model", self.dir, "--load", "dummy", "--max-tokens", "8", "--seed", seed, "5 6 7").stdout
                   for seed in ("1", "1", "2")]
        self.assertEqual(answers[0], answers[1])
        self.assertNotEqual(answers[0], answers[2])


if __name__ == "__main__":
    harness.main()
