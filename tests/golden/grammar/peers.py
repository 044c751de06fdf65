#!/usr/bin/env python3
"""Which schemas of the JSON-Schema-Test-Suite and of schemas.json the grammar library compiles and llguidance does not, and the
reverse, with the reasons, as a table in Markdown. Where both or one compile, the suite's instances say whether what is
compiled is right: an invalid instance that can be reached is an answer that breaks the schema. Opt-in; needs llguidance,
numpy and the suite (suite.py says where from), in an environment of its own.

    peers.py build/release/tests/golden/grammar/grammar_check jsonschema-*/json/tests/draft2020-12"""
import collections
import json
import os
import re
import sys

import suite


class Guidance:
    def __init__(self):
        import llguidance

        class Tokenizer:
            eos_token_id, bos_token_id, special_token_ids = 256, None, [256]
            tokens = [bytes([i]) for i in range(256)] + [b"<end>"]

            def __call__(self, text):
                return []

        self.llguidance = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))
        self.grammar = None

    def compile(self, schema):
        """The error; empty: it is compiled."""
        try:
            self.grammar = self.llguidance.LLMatcher.grammar_from_json_schema(schema, defaults={"whitespace_flexible": False})
            m = self.matcher()
            return m.get_error() if m.is_error() else ""
        except ValueError as e:
            return str(e)

    def matcher(self):
        return self.llguidance.LLMatcher(self.tokenizer, self.grammar, log_level=0)

    def takes(self, text):
        m, data = self.matcher(), list(text.encode("utf-8"))
        return m.validate_tokens(data) == len(data) and m.consume_tokens(data) and m.is_accepting()


def short(reason):
    """A reason without what is this schema's own."""
    reason = reason.split("\n")[0].split("\": ", 1)[-1] if reason.startswith("refused") else reason.split("\n")[0]
    reason = re.sub(r"^refused \d+ ", "", reason)
    reason = re.sub(r"branches \d+ and \d+", "two branches", reason)
    reason = re.sub(r"^(JSON Schema:|Error:)\s*", "", reason)
    return re.sub(r"\s+", " ", reason)[:90].replace("|", "\\|")


def groups(folder):
    for path in suite.files_of(folder):
        for group in json.load(open(path, encoding="utf-8")):
            yield group["schema"], group["tests"]
    here = os.path.dirname(os.path.abspath(__file__))
    for schema in json.load(open(os.path.join(here, "schemas.json"), encoding="utf-8")):
        yield schema, []


def wrong_ones(takes, tests):
    """Valid instances out of reach, invalid ones in reach."""
    lost = [t for t in tests if t["valid"] and not any(takes(s) for s in suite.spellings(t["data"]))]
    let_in = [t for t in tests if not t["valid"] and any(takes(s) for s in suite.spellings(t["data"]))]
    return len(lost), len(let_in)


def rows(title, reasons):
    print(f"\n| {title} | schemas |\n|---|---|")
    for reason, n in sorted(reasons.items(), key=lambda x: (-x[1], x[0])):
        print(f"| {reason} | {n} |")


def main():
    ours, theirs = suite.Checker(sys.argv[1]), Guidance()
    only_ours, only_theirs = collections.Counter(), collections.Counter()
    n = collections.Counter()
    for schema, tests in groups(sys.argv[2]):
        answer = ours.ask("S", suite.dumps(schema))
        none = "nothing can match" in answer
        compiled, reason = answer == "ok" or none, theirs.compile(schema)
        n[compiled, not reason] += 1
        if compiled and reason:
            only_ours[short(reason)] += 1
        if not compiled and not reason:
            only_theirs[short(answer)] += 1
        if compiled:
            lost, let_in = wrong_ones(lambda text: not none and ours.ask("T", text) == "1", tests)
            n["ours lost"] += lost
            n["ours let in"] += let_in
        if not reason:
            lost, let_in = wrong_ones(theirs.takes, tests)
            n["theirs lost"] += lost
            n["theirs let in"] += let_in
            n["theirs wrong"] += not compiled and let_in > 0
    print(f"{n[True, True]} schemas are compiled by both, {n[True, False]} by this alone, {n[False, True]} by llguidance alone, "
          f"{n[False, False]} by neither. Of the suite's instances under what each compiles: this lets in {n['ours let in']} invalid "
          f"ones and cannot write {n['ours lost']} valid ones; llguidance {n['theirs let in']} and {n['theirs lost']}. Of the schemas "
          f"that llguidance alone compiles, {n['theirs wrong']} let an invalid instance in.")
    rows("llguidance compiles it, this does not: why", only_theirs)
    rows("this compiles it, llguidance does not: why", only_ours)


if __name__ == "__main__":
    main()
