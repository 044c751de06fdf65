"""Keys, tenants, the Host allow-list and CORS."""
import os
import signal
import tempfile

import harness


class Keys(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.file = tempfile.NamedTemporaryFile("w", delete=False)
        cls.file.write("# keys\nsk-one\n\n  sk-two  \n")
        cls.file.close()
        cls.args = (f"api_keys_file={cls.file.name}", "api_keys_env=sk-three,sk-four", "per_tenant_n=2")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        os.unlink(cls.file.name)

    def status(self, key, path="/v1/models"):
        headers = {} if key is None else {"Authorization": key}
        return self.server.get(path, headers=headers)

    def test_every_key_opens_every_route_and_nothing_else_does(self):
        for key in ("one", "two", "three", "four"):
            self.assertEqual(self.status(f"Bearer sk-{key}").status, 200)
            self.assertEqual(self.status(f"bearer   sk-{key}").status, 200)
        bodies = set()
        for key in (None, "", "Bearer", "Bearer ", "Bearer sk-on", "Bearer sk-onee", "Bearer SK-ONE", "sk-one", "Basic sk-one",
                    "Bearer sk-one,sk-two", "Bearer # keys", "Bearer " + "x" * 5000, "Bearer sk-one sk-two"):
            r = self.status(key)
            self.assert_error(r, 401, "invalid_api_key", None)
            self.assertEqual(r.headers["www-authenticate"], "Bearer")
            bodies.add(r.body)
        self.assertEqual(len(bodies), 1)

    def test_only_health_and_the_page_are_open(self):
        for path in ("/livez", "/readyz", "/health", "/ping", "/", "/page/page.js"):
            self.assertEqual(self.status(None, path).status, 200)
        for path in ("/v1/models", "/v1/documents", "/v1/models/fake", "/metrics", "/v1/capacity", "/version", "/openapi.json"):
            self.assertEqual(self.status(None, path).status, 401)
            self.assertEqual(self.status("Bearer sk-one", path).status, 200)
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/detokenize", "/apply-template"):
            self.assert_error(self.server.post(path, {}), 401)
        for method in ("GET", "PUT", "DELETE"):
            self.assert_error(self.server.request(method, "/v1/documents/a", {} if method == "PUT" else None), 401)
        for path in ("/v1/documents/a/pin", "/v1/documents/a/unpin"):
            self.assert_error(self.server.post(path, {}), 401)
        # a key is asked for before the body's kind or size says anything
        self.assert_error(self.server.request("POST", "/tokenize", b"x"), 401)

    def test_the_prefix_cache_is_each_tenant_s_own(self):
        prompt = "[[say=x]]" + "abc" * 100
        def cached(key, **more):
            r = self.server.post("/v1/completions", {"prompt": prompt, **more}, headers={"Authorization": f"Bearer {key}"})
            return r.json["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached("sk-one"), 0)
        self.assertEqual(cached("sk-one"), 256)
        self.assertEqual(cached("sk-two"), 0)
        self.assertEqual(cached("sk-one", cache_salt="x"), 0)
        self.assertEqual(cached("sk-two", cache_salt="x"), 0)
        self.assertEqual(cached("sk-two", cache_salt="x"), 256)

    def test_in_flight_requests_are_limited_per_key(self):
        ask = lambda key, **more: self.server.post("/v1/completions", {"prompt": "x", **more},
                                                   headers={"Authorization": f"Bearer {key}"})
        self.assert_error(ask("sk-one", n=3), 429, "rate_limit_exceeded")
        # the two choices that had been taken in are cancelled, and gone a step later
        self.assertTrue(harness.wait_until(lambda: ask("sk-one", n=2).status == 200))
        self.assert_error(ask("sk-one", prompt=["x"] * 33), 400, "too_many_choices")
        self.assertTrue(harness.wait_until(lambda: ask("sk-one").status == 200))

    def test_sighup_reads_the_keys_again(self):
        text = open(self.file.name).read()
        try:
            open(self.file.name, "w").write("sk-new\n")
            self.server.process.send_signal(signal.SIGHUP)
            self.assertTrue(harness.wait_until(lambda: self.status("Bearer sk-new").status == 200))
            self.assertEqual(self.status("Bearer sk-one").status, 401)
            self.assertEqual(self.status("Bearer sk-three").status, 200)
            open(self.file.name, "w").write("bad key\n")  # refused whole: the old ones stay
            self.server.process.send_signal(signal.SIGHUP)
            self.assertFalse(harness.wait_until(lambda: self.status("Bearer sk-new").status != 200, 0.3))
        finally:
            open(self.file.name, "w").write(text)
            self.server.process.send_signal(signal.SIGHUP)
        self.assertTrue(harness.wait_until(lambda: self.status("Bearer sk-one").status == 200))


class Hosts(harness.Case):
    args = ("allowed_host=proxy.example",)

    def test_on_loopback_only_its_names_and_the_list_are_served(self):
        for host in ("localhost", "localhost:8080", "127.0.0.1", "127.1.2.3:1", "[::1]:80", "LOCALHOST", "proxy.example",
                     "proxy.example:443"):
            self.assertEqual(self.server.get("/livez", headers={"Host": host}).status, 200, host)
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil", "0.0.0.0", "[::2]", "proxy.example.evil",
                     "127.0.0.1@evil"):
            self.assert_error(self.server.get("/livez", headers={"Host": host}), 403, "host_not_allowed")


    def test_the_host_of_a_target_in_absolute_form_counts_instead(self):
        for host, path, status in (("localhost", "/livez", 200), ("proxy.example:80", "/v1/models/fake", 200), ("[::1]", "/livez?x=1", 200),
                                   ("localhost", "", 200), ("localhost", "/nothing", 404), ("evil.example", "/livez", 403),
                                   ("localhost.evil", "/livez", 403), ("localhost@evil", "/livez", 400), ("", "/livez", 400)):
            r = self.server.get(f"http://{host}{path}", headers={"Host": "evil.example"})  # RFC 9112, 3.2.2: to be ignored
            self.assertEqual(r.status, status, (host, path))
        self.assert_error(self.server.get("http://evil.example/livez"), 403, "host_not_allowed")
        body = {"prompt": "[[say=ok]]"}
        self.assertEqual(self.server.post("http://localhost/v1/completions", body).json["choices"][0]["text"], "ok")


class AnyHost(harness.Case):
    args = ("host=0.0.0.0",)

    def test_not_on_loopback_any_name_is_served(self):
        self.assertEqual(self.server.get("/livez", headers={"Host": "model.example"}).status, 200)


class NoCors(harness.Case):
    def test_cors_is_off_by_default(self):
        for method in ("GET", "OPTIONS"):
            r = self.server.request(method, "/v1/models", headers={"Origin": "http://a.example",
                                                                   "Access-Control-Request-Method": "POST"})
            self.assertFalse([h for h in r.headers if h.startswith("access-control")])


class Cors(harness.Case):
    args = ("cors=https://a.example", "cors=http://b.example:8080")

    def test_listed_origins_are_let_in_and_no_others(self):
        for origin, ok in (("https://a.example", 1), ("http://b.example:8080", 1), ("http://a.example", 0), ("null", 0),
                           ("https://a.example.evil", 0), ("http://b.example", 0)):
            r = self.server.request("OPTIONS", "/v1/chat/completions",
                                    headers={"Origin": origin, "Access-Control-Request-Method": "POST",
                                             "Access-Control-Request-Headers": "authorization,content-type"})
            self.assertEqual(r.status, 204)
            self.assertEqual(r.headers.get("access-control-allow-origin"), origin if ok else None)
            self.assertEqual("access-control-allow-headers" in r.headers, bool(ok))
            for path in ("/v1/models", "/nothing"):
                r = self.server.get(path, headers={"Origin": origin})
                self.assertEqual(r.headers.get("access-control-allow-origin"), origin if ok else None)
                if ok:
                    self.assertEqual(r.headers["vary"], "Origin")
            r = self.server.stream("/v1/completions", {"prompt": "x"}, {"Origin": origin})
            self.assertEqual(r.headers.get("access-control-allow-origin"), origin if ok else None)


class BadKeys(harness.unittest.TestCase):
    def test_a_key_file_that_cannot_be_used_is_refused_at_the_start(self):
        with tempfile.NamedTemporaryFile("w") as f:
            for text in ("", "# nothing\n", "a b\n", "x" * 513 + "\n", "ké\n"):
                f.seek(0)
                f.truncate()
                f.write(text)
                f.flush()
                with self.assertRaises(RuntimeError):
                    harness.Server(f"api_keys_file={f.name}")
        for arg in ("api_keys_file=/nowhere", "api_keys_env=,", "host=256.1.1.1", "port=70000"):
            with self.assertRaises(RuntimeError):
                harness.Server(arg)


if __name__ == "__main__":
    harness.main()
