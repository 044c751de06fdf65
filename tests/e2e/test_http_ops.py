"""Models, tokens, health, metrics and capacity."""
import json
import os
import re
import signal
import time

import harness


PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "api.md")


class Ops(harness.Case):
    args = ("model_id=org/demo \"x\"", "ctx=4096")

    def test_openapi_has_every_route_and_field_of_the_page(self):
        d = self.server.get("/openapi.json").json
        with open(PAGE, encoding="utf-8") as f:
            page = f.read()
        self.assertEqual(d["openapi"], "3.1.0")
        said = {(m, p.replace("/ID", "/{id}")) for m, p in re.findall(r"^\| `(GET|POST|PUT|DELETE) (/\S*)` \|", page, re.M)}
        operations = {(m.upper(), p): o for p, methods in d["paths"].items() for m, o in methods.items()}
        self.assertEqual(set(operations) - {("POST", "/ping")}, said)
        self.assertEqual(len({o["operationId"] for o in operations.values()}), len(operations))
        for (method, path), o in operations.items():
            if method == "GET" and "{id}" not in path:
                self.assertEqual(self.server.get(path).status, 200, path)
            self.assertEqual(set(o["responses"]), {"2XX", "4XX", "5XX"})
            self.assertEqual(["id"] if "{id}" in path else [], [p["name"] for p in o["parameters"] if p["in"] == "path"])
            table = re.search(r"\n## %s %s\n\n.*?\|---\|\n(.*?)\n\n" % (method, re.escape(path).replace(r"\{id\}", "ID")), page, re.S)
            self.assertEqual(table is not None, "requestBody" in o, (method, path))
            if table:
                fields = o["requestBody"]["content"]["application/json"]["schema"]["properties"]
                self.assertEqual(list(fields), re.findall(r"^\| `(\w+)` \|", table.group(1), re.M))
        chat = operations["POST", "/v1/chat/completions"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
        self.assertEqual((chat["temperature"]["type"], chat["temperature"]["maximum"]), (["number", "null"], 2))
        codes = d["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]["enum"]
        self.assertIn(self.server.complete("x", temperature=9).error["code"], codes)
        self.assertEqual((operations["GET", "/livez"]["security"], operations["GET", "/"]["parameters"]), ([], []))
        self.assertEqual(len(operations["GET", "/v1/models"]["security"]), 3)

    def test_models(self):
        r = self.server.get("/v1/models").json
        self.assertEqual(r["object"], "list")
        m = r["data"][0]
        self.assertEqual((m["id"], m["object"], m["created"], m["owned_by"], m["max_model_len"]),
                         ('org/demo "x"', "model", 1700000000, "longflash", 4096))
        self.assertEqual((m["type"], m["display_name"], m["created_at"], m["lifecycle"], m["weight_format"]),
                         ("model", 'org/demo "x"', "2023-11-14T22:13:20Z", "active", "bf16"))
        self.assertEqual((r["has_more"], r["first_id"], r["last_id"]), (False, 'org/demo "x"', 'org/demo "x"'))
        self.assertEqual(self.server.get("/v1/models/org%2Fdemo%20%22x%22").json, m)
        self.assertEqual(self.server.get("/v1/models/org/demo%20%22x%22").json, m)
        for path in ("/v1/models/other", "/v1/models/", "/v1/models/org"):
            self.assert_error(self.server.get(path), 404, "model_not_found")
        for path in ("/v1/models/%00", "/v1/models/%zz", "/v1/models/%4"):
            self.assert_error(self.server.get(path), 404)

    def test_any_other_name_is_refused_with_those_there_are(self):
        r = self.server.complete("x", model="other")
        self.assert_error(r, 404, "model_not_found", "model")
        self.assertIn('"other" does not exist here. There is "org/demo "x"";', r.error["message"])

    def test_version(self):
        self.assertEqual(self.server.get("/version").json, {"version": "9.8.7"})

    def test_tokenize_and_back(self):
        text = "Hello the 日本 é \u2028 \"x\""
        r = self.server.post("/tokenize", {"prompt": text}).json
        self.assertEqual(r["count"], len(r["tokens"]))
        self.assertEqual(r["max_model_len"], 4096)
        self.assertEqual(r["tokens"][:3], [256, 265, 264])
        self.assertEqual(self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json["tokens"], r["tokens"][1:])
        self.assertEqual(self.server.post("/tokenize", {"content": text}).json, r)
        self.assertEqual(self.server.post("/detokenize", {"tokens": r["tokens"][1:]}).json, {"prompt": text})
        self.assertEqual(self.server.post("/detokenize", {"tokens": r["tokens"]}).json, {"prompt": "<s>" + text})
        self.assertEqual(self.server.post("/detokenize", {"tokens": []}).json, {"prompt": ""})
        self.assertEqual(self.server.post("/tokenize", {"prompt": "", "add_special_tokens": False}).json["tokens"], [])
        for body in ({}, {"tokens": "x"}, {"tokens": [1.5]}, {"tokens": [-1]}, {"tokens": [10**6]}, {"tokens": None}):
            self.assert_error(self.server.post("/detokenize", body), 400, None, "tokens")
        for body in ({}, {"prompt": ["x"]}, {"prompt": 5}, {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}):
            self.assert_error(self.server.post("/tokenize", body), 400)

    def test_apply_template(self):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        text = self.server.post("/apply-template", {"messages": messages}).json["prompt"]
        self.assertEqual(text, "<s><|system|>s<|end|><|user|>u<|end|><|assistant|>")
        ids = self.server.post("/tokenize", {"messages": messages}).json["tokens"]
        self.assertEqual(self.server.post("/tokenize", {"prompt": text, "parse_special": True,
                                                        "add_special_tokens": False}).json["tokens"], ids)
        self.assert_error(self.server.post("/apply-template", {}), 400, "missing_parameter", "messages")

    def test_health(self):
        for path in ("/livez", "/readyz", "/health", "/ping"):
            r = self.server.get(path)
            self.assertEqual((r.status, r.json), (200, {"status": "ok"}))

    def test_ping_takes_a_post_with_any_body(self):
        c = self.server.connect()
        for body, headers in ((b"", {}), (b"x" * 100000, {"Content-Type": "text/plain"}), (b"{}", {})):
            r = self.server.request("POST", "/ping", body, headers, connection=c)
            self.assertEqual((r.status, r.json), (200, {"status": "ok"}))
        self.assertEqual(self.server.get("/livez", connection=c).status, 200)
        c.close()

    def test_capacity(self):
        r = self.server.get("/v1/capacity").json
        for key in ("max_model_len", "running", "waiting", "waiting_tokens", "largest_context_now", "blocks", "memory",
                    "disk", "plan", "prefill_tokens_per_second", "decode_tokens_per_second"):
            self.assertIn(key, r)
        self.assertEqual(r["blocks"]["total"], r["blocks"]["used"] + r["blocks"]["cached"] + r["blocks"]["free"])

    def test_metrics_are_prometheus_text(self):
        self.server.complete("[[say=abc]]")
        r = self.server.get("/metrics")
        self.assertEqual(r.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        seen = {}
        for line in r.body.decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, seen)
                seen[name] = kind
            elif not line.startswith("#"):
                m = re.match(r'((?:[a-z_]+:)?[a-z0-9_]+)(\{[a-z_]+="(?:[^"\\]|\\.)*"(?:,[a-z_]+="(?:[^"\\]|\\.)*")*\})? [-+0-9.e]+$', line)
                self.assertTrue(m, line)
                base = re.sub(r"_(bucket|sum|count)$", "", m.group(1))
                self.assertTrue(m.group(1) in seen or seen.get(base) == "histogram", line)
        for name, kind in {"num_requests_running": "gauge", "num_requests_waiting": "gauge", "kv_cache_usage_perc": "gauge",
                           "prompt_tokens_total": "counter", "prompt_tokens_by_source_total": "counter",
                           "generation_tokens_total": "counter", "request_success_total": "counter",
                           "time_to_first_token_seconds": "histogram", "inter_token_latency_seconds": "histogram",
                           "e2e_request_latency_seconds": "histogram", "request_queue_time_seconds": "histogram",
                           "request_prefill_time_seconds": "histogram", "request_decode_time_seconds": "histogram",
                           "request_prompt_tokens": "histogram", "request_generation_tokens": "histogram",
                           "iteration_tokens_total": "histogram", "admission_rejections_total": "counter"}.items():
            self.assertEqual(seen.get("longflash:" + name), kind, name)
        self.assertIn('le="3600"', r.body.decode())
        self.assertIn('model_name="org/demo \\"x\\""', r.body.decode())
        self.assertGreaterEqual(self.server.metric("request_success_total", 'finished_reason="stop"'), 1)
        self.assertGreaterEqual(self.server.metric("http_requests_total", 'route="/v1/completions",status="2xx"'), 1)

    def test_labels_never_come_from_requests(self):
        self.server.get("/wibble-wobble?x=wibble-wobble")
        self.server.complete("wibble-wobble", user="wibble-wobble")
        self.assertNotIn(b"wibble-wobble", self.server.get("/metrics").body)

    def test_nothing_of_a_request_is_logged(self):
        s = harness.Server()
        s.complete("secret-prompt", user="secret-user")
        s.post("/v1/completions", {"prompt": "secret-prompt", "temperature": "secret-value"},
               headers={"Authorization": "Bearer secret-key"})
        self.assertEqual(s.stop(), 0)
        self.assertNotIn(b"secret", s.stderr)


class Aliases(harness.Case):
    args = ("model_id=demo", "model_alias=gpt-4", "model_alias=org/other")

    def test_each_name_is_listed_and_taken_and_the_first_answers(self):
        listed = self.server.get("/v1/models").json["data"]
        self.assertEqual([m["id"] for m in listed], ["demo", "gpt-4", "org/other"])
        self.assertEqual([{**m, "id": "demo", "display_name": "demo"} for m in listed], [listed[0]] * 3)
        self.assertEqual(self.server.get("/v1/models").json["last_id"], "org/other")
        for name in ("demo", "gpt-4", "org/other"):
            self.assertEqual(self.server.get("/v1/models/" + name).json["id"], name)
            self.assertEqual(self.server.complete("[[say=abc]]", model=name).json["model"], "demo")
            self.assertEqual(self.server.chat("[[say=abc]]", model=name).json["model"], "demo")

    def test_a_refusal_names_them_all(self):
        for r in (self.server.complete("x", model="*"), self.server.get("/v1/models/*")):
            self.assert_error(r, 404, "model_not_found", "model")
            self.assertIn('There is "demo", "gpt-4", "org/other"; see', r.error["message"])


class AnyName(harness.Case):
    args = ("model_id=demo", "model_alias=gpt-4", "model_alias=*")

    def test_any_name_is_taken_and_the_star_is_not_listed(self):
        self.assertEqual([m["id"] for m in self.server.get("/v1/models").json["data"]], ["demo", "gpt-4"])
        for name in ("demo", "gpt-4", "claude-x", "*", "a/b", "\u2028"):
            self.assertEqual(self.server.complete("[[say=abc]]", model=name).json["model"], "demo")
        for path, name in (("gpt-4", "gpt-4"), ("claude-x", "demo"), ("*", "demo")):
            self.assertEqual(self.server.get("/v1/models/" + path).json["id"], name)


class ManyNames(harness.Case):
    args = ("model_id=" + "m" * 255, *(f"model_alias={i}" + "n" * 254 for i in range(8)))

    def test_a_refusal_names_as_many_as_a_message_holds(self):
        self.assert_error(self.server.complete("x", model="y" * 1000), 404, "model_not_found", "model")
        message = self.server.complete("x", model="y" * 1000).error["message"]
        self.assertLess(len(message), 512)
        self.assertTrue(message.endswith(" and more; see /v1/models."), message)
        self.assertEqual(len(self.server.get("/v1/models").json["data"]), 9)


class VllmNames(harness.Case):
    args = ("metrics_prefix=vllm:",)

    def test_the_prefix(self):
        text = self.server.get("/metrics").body.decode()
        self.assertIn("\nvllm:num_requests_running{", text)
        self.assertNotIn("longflash:", text)


class Lifecycle(harness.unittest.TestCase):
    def test_loading_is_503_with_progress_and_then_ready(self):
        s = harness.Server("loading_ms=1500")
        self.assertEqual(s.get("/livez").status, 200)
        seen = []
        while (r := s.get("/readyz")).status == 503:
            self.assertEqual(r.error["code"], "loading")
            seen.append(r.error["progress"])
            for path in ("/v1/models", "/metrics"):
                x = s.get(path)
                self.assertTrue(x.status == 503 and x.error["code"] == "loading" and "retry-after" in x.headers or x.status == 200)
            time.sleep(0.05)
        self.assertEqual(seen, sorted(seen))
        self.assertTrue(0 <= seen[0] < seen[-1] <= 1)
        self.assertEqual(s.complete("[[say=x]]").status, 200)
        self.assertEqual(s.stop(), 0)

    def test_draining_finishes_what_runs_and_takes_nothing_new(self):
        s = harness.Server()
        c = s.connect()
        c.request("POST", "/v1/completions", json.dumps({"prompt": "[[say=abcdefghij]] [[step_ms=100]]", "stream": True}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        r.readline()
        s.process.send_signal(signal.SIGTERM)
        self.assertTrue(harness.wait_until(lambda: s.get("/readyz").status == 503))
        self.assertEqual(s.get("/readyz").error["code"], "draining")
        self.assertEqual(s.get("/livez").status, 200)
        x = s.complete("x")
        self.assertEqual((x.status, x.error["code"]), (503, "draining"))
        self.assertTrue(r.read().endswith(b"data: [DONE]\n\n"))
        self.assertEqual(s.process.wait(10), 0)
        s.stop()
        c.close()

    def test_a_second_sigterm_ends_it_now_with_streams_open(self):
        s = harness.Server()
        socks = []
        for i in range(20):
            body = json.dumps({"prompt": "x [[step_ms=20]]" + "[[prefill_ms=9999]]" * (i % 2), "max_tokens": 4000, "stream": i % 4 > 1})
            socks.append(s.socket(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                  f"Content-Length: {len(body)}\r\n\r\n{body}".encode()))
        self.assertTrue(harness.wait_until(lambda: s.metric("num_requests_running") == 20))
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with harness.within(3, "ending"):
            self.assertEqual(s.stop(), 0)
        for x in socks:
            x.close()

    def test_a_dead_engine_is_told_by_health_and_by_every_request(self):
        s = harness.Server()
        self.assertEqual(s.complete("x [[die_at=2]]").status, 500)
        for path in ("/livez", "/readyz", "/health", "/ping"):
            r = s.get(path)
            self.assertEqual((r.status, r.error["code"]), (503, "engine_failed"))
        r = s.complete("x")
        self.assertEqual((r.status, r.error["code"]), (503, "engine_failed"))
        self.assertEqual(s.stop(), 0)

    def test_a_port_in_use_is_refused(self):
        s = harness.Server()
        with self.assertRaises(RuntimeError) as e:
            harness.Server(f"port={s.port}")
        self.assertIn("in use", str(e.exception))
        self.assertEqual(s.stop(), 0)


if __name__ == "__main__":
    harness.main()
