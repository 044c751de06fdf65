"""Errors: one shape on every route, and the status that says whose fault it is."""
import json

import harness
from harness import read_response


class Errors(harness.Case):
    args = ("max_body_bytes=100000", "queue_n=1", "max_seqs=1", "n_blocks=64", "ctx=2048")

    def test_unknown_routes_are_404(self):
        for path in ("//", "/v1", "/v1/", "/v1/completions/", "/v1/completions/x", "/V1/models", "/metrics/", "//livez",
                     "/livez%20", "/%2e%2e/etc/passwd", "/v1/chat/completionsx", "/v1%2Fmodels"):
            for method in ("GET", "POST", "PUT", "OPTIONS"):
                r = self.server.request(method, path, {} if method == "POST" else None)
                self.assert_error(r, 404, "unknown_route", None)

    def test_what_others_offer_is_404_that_says_so(self):
        for path, what in (("/v1/embeddings", "embeddings"), ("/v1/rerank", "reranking"), ("/rerank", "reranking"),
                           ("/v1/audio/speech", "audio"), ("/v1/images/generations", "images"), ("/v1/files", "files"),
                           ("/v1/files/file-1", "files"), ("/v1/batches", "batches"), ("/v1/fine_tuning/jobs", "fine-tuning")):
            for method in ("GET", "POST"):
                r = self.server.request(method, path, {} if method == "POST" else None)
                self.assert_error(r, 404, "unknown_route", None)
                self.assertIn(f"does not offer {what},", r.error["message"])
        self.assertNotIn("offer", self.server.get("/v1/embedding").error["message"])

    def test_wrong_methods_are_405_with_allow(self):
        for path, method, allow in (("/v1/completions", "GET", "POST, OPTIONS"), ("/v1/models", "POST", "GET, HEAD, OPTIONS"),
                                    ("/livez", "DELETE", "GET, HEAD, OPTIONS"), ("/tokenize", "PUT", "POST, OPTIONS"),
                                    ("/metrics", "PATCH", "GET, HEAD, OPTIONS"), ("/v1/completions", "TRACE", "POST, OPTIONS"),
                                    ("/v1/completions", "BREW", "POST, OPTIONS"), ("/ping", "PUT", "GET, HEAD, POST, OPTIONS"),
                                    ("/version", "POST", "GET, HEAD, OPTIONS"), ("/", "POST", "GET, HEAD, OPTIONS"), ("/v1/documents", "PUT", "GET, HEAD, OPTIONS"),
                                    ("/v1/documents/a", "POST", "GET, HEAD, PUT, DELETE, OPTIONS"),
                                    ("/v1/documents/a/pin", "GET", "POST, OPTIONS"), ("/v1/documents/a/unpin", "PUT", "POST, OPTIONS")):
            r = self.server.request(method, path, {} if method == "POST" else None)
            self.assert_error(r, 405, "method_not_allowed")
            self.assertEqual(r.headers["allow"], allow)

    def test_head_is_get_without_a_body(self):
        for path in ("/livez", "/readyz", "/health", "/ping", "/version", "/v1/models", "/v1/documents", "/metrics", "/v1/capacity",
                     "/", "/page/page.js"):
            r = self.server.request("HEAD", path)
            self.assertEqual((r.status, r.body), (200, b""))
            self.assertGreater(int(r.headers["content-length"]), 0)
        self.assertEqual(self.server.request("HEAD", "/nothing").status, 404)
        self.assertEqual(self.server.request("HEAD", "/v1/completions").status, 405)

    def test_options_tells_the_methods(self):
        r = self.server.request("OPTIONS", "/v1/completions")
        self.assertEqual((r.status, r.body, r.headers["allow"]), (204, b"", "POST, OPTIONS"))
        self.assertTrue(r.headers["x-request-id"])

    def test_every_body_has_to_be_json_by_name(self):
        body = b'{"prompt":"x"}'
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "multipart/form-data"):
            r = self.server.request("POST", "/v1/completions", body, {"Content-Type": kind})
            self.assert_error(r, 415, "unsupported_media_type")
        r = self.server.request("POST", "/v1/completions", body)
        self.assert_error(r, 415)
        for kind in ("application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"):
            r = self.server.request("POST", "/v1/completions", body, {"Content-Type": kind})
            self.assertEqual(r.status, 200)

    def test_a_compressed_body_is_refused_by_name(self):
        for encoding, status in (("gzip", 415), ("br", 415), ("identity", 200), ("Identity", 200)):
            r = self.server.request("POST", "/v1/completions", b'{"prompt":"x"}',
                                    {"Content-Type": "application/json", "Content-Encoding": encoding})
            self.assertEqual(r.status, status)

    def test_a_body_at_the_limit_is_read_and_one_byte_more_is_413(self):
        fill = 100000 - len(json.dumps({"prompt": "x", "user": ""}))
        self.assertEqual(self.server.post("/v1/completions", {"prompt": "x", "user": "y" * fill}).status, 200)
        self.assert_error(self.server.post("/v1/completions", {"prompt": "x", "user": "y" * (fill + 1)}), 413)

    def test_413_reaches_a_client_that_sends_everything_first_and_keeps_its_connection(self):
        c = self.server.connect()
        for size in (100001, 250000, 390000):
            r = self.server.request("POST", "/v1/completions", b"x" * size, {"Content-Type": "application/json"}, connection=c)
            self.assert_error(r, 413, "body_too_large")
        self.assertEqual(self.server.get("/livez", connection=c).status, 200)
        c.close()

    def test_413_at_once_where_the_length_is_hopeless_or_the_client_waits(self):
        head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for extra in ("Content-Length: 99999999999\r\n\r\n", "Content-Length: 200000\r\nExpect: 100-continue\r\n\r\n"):
            with self.server.socket((head + extra).encode()) as s:
                self.assert_error(read_response(s), 413)

    def test_a_chunked_body_past_the_limit_is_413(self):
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"2710\r\n" + b" " * 10000 + b"\r\n"
        with self.server.socket(head + piece * 11 + b"0\r\n\r\n") as s:
            self.assert_error(read_response(s), 413)

    def test_a_chunked_body_without_end_is_cut(self):
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"2710\r\n" + b" " * 10000 + b"\r\n"
        with self.server.socket(head) as s:
            with self.assertRaises(OSError):
                for _ in range(10000):
                    s.sendall(piece)
        self.assertLess(self.server.metric("text_memory_used_bytes"), 2e6)

    def test_expect_100_continue_is_honoured(self):
        body = b'{"prompt":"[[say=yes]]"}'
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n").encode()
        with self.server.socket(head) as s:
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 100"))
            s.sendall(body)
            self.assertEqual(read_response(s).json["choices"][0]["text"], "yes")

    def test_invalid_json_is_400(self):
        for body in (b"", b"{", b"[1]", b'"x"', b"null", b"{} {}", b'{"a":1,"a":2}', b'{"prompt":"\xff"}',
                     b'{"prompt":"\\u0000"}', b'{"prompt":"\\ud800"}', b'{"temperature":1e999}', b'{"n":01}', b"{'a':1}",
                     b'{"prompt":NaN}', b"[" * 100, b'{"a":' * 65 + b"1" + b"}" * 65, b"\xef\xbb\xbf{}", b'{"a":"\t"}'):
            r = self.server.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            self.assert_error(r, 400, "invalid_json", None)

    def test_errors_name_no_path_pointer_or_version(self):
        r = self.server.request("POST", "/v1/completions", b'{"prompt":', {"Content-Type": "application/json"})
        for word in (".c:", "0x", "/server", "libmicrohttpd", "longflash/"):
            self.assertNotIn(word, r.body.decode())
        self.assertNotIn("server", r.headers)

    def test_a_full_queue_is_429_with_retry_after(self):
        held = [self.server.socket() for _ in range(2)]
        body = json.dumps({"prompt": "x [[step_ms=50]]", "max_tokens": 500}).encode()
        for i, s in enumerate(held):
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
            name = ("num_requests_running", "num_requests_waiting")[i]
            self.assertTrue(harness.wait_until(lambda: self.server.metric(name) == 1))
        for stream in (False, True):
            r = self.server.complete("x", stream=stream)
            self.assert_error(r, 429, "queue_full", None)
            self.assertTrue(1 <= int(r.headers["retry-after"]) <= 60)
        for s in held:
            s.close()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("num_requests_running") == 0))
        self.assertEqual(self.server.metric("admission_rejections_total", 'reason="queue_requests"'), 2)

    def test_the_engine_s_errors_are_500_and_a_deadline_ends_an_answer(self):
        self.assert_error(self.server.complete("[[fail_at=3]]"), 500, "engine_failed")
        r = self.server.complete("[[timeout_at=3]]", max_tokens=50)
        self.assertEqual((r.status, r.json["choices"][0]["finish_reason"]), (200, "length"))
        self.assertEqual(r.json["usage"]["completion_tokens"], 3)

    def test_an_unknown_model_is_404(self):
        for path, rest in (("/v1/completions", {"prompt": "x"}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                           ("/tokenize", {"prompt": "x"})):
            self.assert_error(self.server.post(path, {"model": "gpt-4", **rest}), 404, "model_not_found", "model")
            self.assertEqual(self.server.post(path, {"model": "fake", **rest}).status, 200)
            self.assertEqual(self.server.post(path, {"model": None, **rest}).status, 200)

    def test_request_ids_are_echoed_only_where_plain(self):
        for sent, echoed in (("abc-1.2_Z", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("a\"b", False),
                             ("é", False)):
            r = self.server.get("/livez", headers={"X-Request-ID": sent.encode("utf-8")})
            self.assertEqual(r.headers["x-request-id"] == sent, echoed)
        ids = {self.server.get("/livez").headers["x-request-id"] for _ in range(20)}
        self.assertEqual(len(ids), 20)


if __name__ == "__main__":
    harness.main()
