"""docs/api.md tells the truth: each example is sent to the program with the demo model and compared with what comes back,
and so are the members of timings and prompt_progress. Ids, times and rates are any, of the same type."""
import json
import os
import re
import unittest

import harness

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "api.md")
FENCED = r"\n```(%s)\n((?:(?!```).)*)\n```\n"
EXAMPLE = re.compile(r"^### (GET|POST|PUT|DELETE) (\S+) → (\d+)\n(?:" + FENCED % "json" + ")?" + FENCED % "json|text", re.M | re.S)
ROUTE = re.compile(r"^\| `(GET|POST|PUT|DELETE) (/\S*)` \|", re.M)
# test_http_metrics.py and test_http_page.py have these; /openapi.json lists, as this page does
NO_JSON = {("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/"), ("GET", "/page/ID")}
ANY = re.compile(r".*_ms$|.*_per_second$|.*_bytes$|created$|created_at$")  # numbers that differ from time to time
ID = re.compile(r"^(cmpl-|chatcmpl-|resp_|msg_)[0-9a-f]+")


def read_page():
    with open(PAGE, encoding="utf-8") as f:
        return f.read()


def examples(page):
    """Method, path, status, body, form and text of the answer."""
    found = [(m, p, int(status), body, form, answer) for m, p, status, _, body, form, answer in EXAMPLE.findall(page)]
    assert len(found) == len(re.findall(r"^### (?:GET|POST|PUT|DELETE) ", page, re.M)), "an example is not in the form that is read here"
    return found


def members(page, title):
    table = page.split(f"\n### {title}\n", 1)[1].split("|---|---|\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.M)


def shape(v, key=""):
    """The value with what may differ blanked; the order of members stays."""
    if isinstance(v, dict):
        return [(k, shape(x, k)) for k, x in v.items()]
    if isinstance(v, list):
        return [shape(x) for x in v]
    if key == "system_fingerprint" and re.fullmatch(r"fp_[0-9a-f]{10}", v):
        return "a fingerprint"
    if key == "created_at" and isinstance(v, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", v):
        return "a moment"
    if isinstance(v, str):
        return "a version" if key == "version" and re.fullmatch(r"\d+\.\d+\.\d+", v) else ID.sub(r"\1", v)
    return "a number" if ANY.match(key) and isinstance(v, (int, float)) else v


def event_shapes(text):
    """Of a stream: the name and data of each event; of progress that follows progress only the last."""
    out = []
    for event in text.strip("\n").split("\n\n"):
        m = re.fullmatch(r"(?:event: ([\w.]+)\n)?data: (.*)", event)
        data = m[2] if m[2] == "[DONE]" else json.loads(m[2])
        if out and "prompt_progress" in data and "prompt_progress" in dict(out[-1][2]):
            out.pop()
        out.append((m[1], shape(data), data if isinstance(data, dict) else {}))
    return [o[:2] for o in out]


class Examples(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "8K", "--kv-tokens", "16K", "--device", "cpu")

    ids = {}  # of the page's responses: what they are called in this run

    def ask(self, method, path, body):
        for said, real in self.ids.items():
            path, body = path.replace(said, real), body and body.replace(said, real)
        self.assertTrue(harness.wait_until(self.server.idle))
        if method == "GET" and path.startswith("/v1/documents"):
            self.assertTrue(harness.wait_until(lambda: b'"reading"' not in self.server.get(path).body))
        return self.server.request(method, path, json.loads(body) if body else None)

    def test_every_example_is_what_the_server_answers(self):
        for method, path, status, body, form, answer in examples(read_page()):
            with self.subTest(path=path, status=status, body=body):
                r = self.ask(method, path, body)
                self.assertEqual(r.status, status, r.body)
                if form == "text":
                    self.assertEqual(event_shapes(r.body.decode()), event_shapes(answer))
                else:
                    self.assertEqual(shape(r.json), shape(json.loads(answer)))
                    if r.json.get("object") == "response":
                        self.ids[json.loads(answer)["id"]] = r.json["id"]

    def test_every_endpoint_has_one(self):
        page = read_page()
        shown = {(m, p) for m, p, status, *_ in examples(page) if status in (200, 202)}
        routes = set(ROUTE.findall(page)) - NO_JSON
        self.assertGreater(len(routes), 10)
        missing = {r for r in routes if r not in shown and not any(m == r[0] and re.fullmatch(r[1].replace("ID", "[^/]+"), p) for m, p in shown)}
        self.assertEqual(missing, set())
        self.assertGreaterEqual(len([1 for *_, form, _ in examples(page) if form == "text"]), 2)
        self.assertGreaterEqual(len([1 for _, _, status, *_ in examples(page) if status == 400]), 2)

    def test_the_members_of_timings_and_progress_are_the_documented_ones(self):
        page = read_page()
        body = {"prompt": "In the beginning", "max_tokens": 2, "ignore_eos": True}
        timings = list(self.server.post("/v1/completions", body).json["timings"])
        # test_speculation has answers with proposed tokens, http_deadlines one that timed out
        self.assertEqual(members(page, "timings"), timings + ["proposed_tokens", "accepted_tokens", "timed_out"])
        r = self.server.stream("/v1/completions", {**body, "return_progress": True})
        seen = [json.loads(e)["prompt_progress"] for e in harness.events(r.body) if "prompt_progress" in e]
        self.assertGreater(len(seen), 0)
        for progress in seen:
            self.assertEqual(members(page, "prompt_progress"), list(progress))

    def test_what_is_compared_can_differ(self):
        """The comparison itself: another text, member, order or type is another shape."""
        one = {"id": "cmpl-0a", "created": 1, "text": "x", "timings": {"queue_ms": 1.5}}
        self.assertEqual(shape(one), shape({"id": "cmpl-ff", "created": 2, "text": "x", "timings": {"queue_ms": 0}}))
        for other in ({**one, "text": "y"}, {**one, "more": 1}, {**one, "id": "chatcmpl-0a"}, {**one, "created": None},
                      dict(reversed(one.items())), {**one, "timings": {"queue_ms": "1"}}):
            self.assertNotEqual(shape(one), shape(other))
        progress = 'data: {"prompt_progress":{"time_ms":1}}\n\n'
        end = "data: [DONE]\n\n"
        self.assertEqual(event_shapes(2 * progress + end), event_shapes(progress + end))
        self.assertNotEqual(event_shapes(progress + end), event_shapes(progress))


if __name__ == "__main__":
    harness.main()
