"""Structured output that is made to cost much: each of them is refused with 400 or answered, soon."""
import json

import harness
import hostile_schemas as hostile

TEXT = "/v1/completions"
CODES = {"invalid_schema", "unsupported_schema", "schema_too_large", "invalid_value"}
SECONDS = 1.0  # of one request, compiled and answered with a few tokens


class Hostile(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "2048", "--kv-tokens", "32K")

    def ask(self, name, field, value, want):
        body = {"prompt": "In the", "max_tokens": 4, "temperature": 1, "seed": 1, field: value}
        with harness.within(SECONDS, name):
            r = self.server.post(TEXT, body)
        self.assertIn(r.status, (200, 400), (name, r.body[:300]))
        if r.status == 400:
            self.assertIn(want, ("refused", "either"), (name, r.body[:300]))
            if r.error["code"] != "invalid_json":  # JSON that is deeper than any may be
                self.assertIn(r.error["code"], CODES, (name, r.body[:300]))
                self.assertTrue(r.error["param"].startswith(field), r.error)
                self.assertTrue(r.error["message"].startswith(field + ":"), r.error)
        else:
            self.assertIn(want, ("answered", "either"), (name, r.body[:300]))
            self.assertIn(r.json["choices"][0]["finish_reason"], ("stop", "length"))
        return r.status

    def test_each_is_refused_or_answered_soon(self):
        rows = ([("guided_json", *row) for row in hostile.schemas()] + [("guided_regex", *row) for row in hostile.patterns()]
                + [("guided_choice", *row) for row in hostile.choices()])
        self.assertGreaterEqual(len(rows), 60)
        seen = {200: 0, 400: 0}
        for field, name, value, want in rows:
            with self.subTest(f"{field}: {name}"):
                seen[self.ask(name, field, value, want)] += 1
        self.assertGreater(seen[200], 15)
        self.assertGreater(seen[400], 30)

    def test_a_schema_in_a_text_costs_as_much(self):
        for name, value, want in hostile.schemas():
            if name.startswith(("doubling", "a product", "a reference to itself", "an enum past")):
                with self.subTest(name):
                    self.ask(name, "guided_json", json.dumps(value), want)


if __name__ == "__main__":
    harness.main()
