"""The page: what is compiled in is what lies in server/http/page/, small, whole without anything from elsewhere, under a
policy that lets nothing else run, and written such that a text cannot become markup. tests/browser/ has it in a browser."""
import os
import re

import harness

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "http", "page")
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
MOST_BYTES = 100 * 1024
POLICY = {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'", "connect-src": "'self'",
          "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
# What makes markup or code of a text, and what the policy would stop anyway.
FORBIDDEN = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\b"
                       r"|new Function|setAttribute\(.style|\bstyle=|\bon[a-z]+=\"|<style|javascript:|@import")
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


def page_files():
    found = {}
    for name in sorted(os.listdir(FOLDER)):
        if os.path.splitext(name)[1] in TYPES:
            with open(os.path.join(FOLDER, name), "rb") as f:
                found[name] = f.read()
    return found


def url(name):
    return "/" if name == "index.html" else f"/page/{name}"


class Page(harness.Case):
    def test_every_file_is_there_as_it_lies_in_the_folder(self):
        files = page_files()
        self.assertGreaterEqual(len(files), 5)
        for name, text in files.items():
            r = self.server.get(url(name))
            self.assertEqual((r.status, r.body, r.headers["content-type"]), (200, text, TYPES[os.path.splitext(name)[1]]))
            self.assertEqual((r.headers["cache-control"], r.headers["x-content-type-options"]), ("no-cache", "nosniff"))
        self.assertLessEqual(sum(map(len, files.values())), MOST_BYTES)
        for path in ("/page/", "/page/index.html", "/page/nothing.js", "/page/../page.js", "/page/page.js/", "/index.html", "//", "/x"):
            self.assert_error(self.server.get(path), 404, "unknown_route")

    def test_the_policy_lets_nothing_in(self):
        for name in page_files():
            r = self.server.get(url(name))
            self.assertEqual(dict(d.strip().split(" ", 1) for d in r.headers["content-security-policy"].split(";")), POLICY)
            self.assertEqual(r.headers["referrer-policy"], "no-referrer")
        self.assertNotIn("content-security-policy", self.server.get("/livez").headers)

    def test_nothing_comes_from_elsewhere_and_no_text_becomes_markup(self):
        files = page_files()
        for name, data in files.items():
            text = data.decode().replace(SVG_NAMESPACE, "")
            self.assertIsNone(re.search(r"https?:|//[a-z0-9-]+\.[a-z]", text), name)
            self.assertIsNone(FORBIDDEN.search(text), f"{name}: {FORBIDDEN.search(text)}")
            for asked in re.findall(r"(?:href|src)=\"(/[^\"]*)\"|from \"([^\"]+)\"", text):
                path = asked[0] or asked[1]
                self.assertIn(path, [url(n) for n in files], f"{name} asks for {path}")
        self.assertIsNone(re.search(r"<script(?![^>]* src=)", files["index.html"].decode()))

    def test_it_is_asked_for_again_only_where_it_changed(self):
        tags = set()
        for name, text in page_files().items():
            tag = self.server.get(url(name)).headers["etag"]
            tags.add(tag)
            self.assertRegex(tag, r'^"[0-9a-f]{32}"$')
            for known in (tag, "W/" + tag, '"x", ' + tag, "*"):
                r = self.server.get(url(name), headers={"If-None-Match": known})
                self.assertEqual((r.status, r.body, r.headers["etag"]), (304, b"", tag))
                self.assertIn("content-security-policy", r.headers)
            r = self.server.get(url(name), headers={"If-None-Match": '"x"'})
            self.assertEqual((r.status, r.body), (200, text))
        self.assertEqual(len(tags), len(page_files()))

    def test_a_connection_goes_on_behind_it(self):
        c = self.server.connect()
        tag = self.server.get("/", connection=c).headers["etag"]
        self.assertEqual(self.server.get("/", headers={"If-None-Match": tag}, connection=c).status, 304)
        self.assertEqual(self.server.request("HEAD", "/page/page.css", connection=c).body, b"")
        self.assertEqual(self.server.get("/livez", connection=c).json, {"status": "ok"})
        c.close()

    def test_what_it_shows_of_the_memory_is_there(self):
        plan = self.server.get("/v1/capacity").json["plan"]
        self.assertEqual(set(plan), {"weights_bytes", "workspace_bytes", "kv_bytes", "host_bytes", "ranks", "context_ranks"})


class Loading(harness.Case):
    args = ("loading_ms=3000",)

    def test_it_is_there_while_the_model_is_loaded(self):
        self.assertEqual(self.server.get("/").status, 200)
        self.assert_error(self.server.get("/v1/documents"), 503, "loading")


class Without(harness.Case):
    args = ("no_page=1",)

    def test_no_page_leaves_it_out(self):
        for method, path in (("GET", "/"), ("HEAD", "/page/page.js"), ("OPTIONS", "/"), ("POST", "/")):
            self.assertEqual(self.server.request(method, path).status, 404)
        self.assert_error(self.server.get("/"), 404, "unknown_route")
        self.assertEqual(self.server.get("/livez").status, 200)


if __name__ == "__main__":
    harness.main()
