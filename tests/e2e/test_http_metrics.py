"""The whole of /metrics, read as Prometheus and OpenMetrics read it: no family under two names, none twice. And what
docs/operations.md says of it: each family, and no other."""
import os
import re

import harness

SUFFIXES = {"counter": ["_total", "_created"], "gauge": [], "histogram": ["_bucket", "_sum", "_count", "_created"]}
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$')


def parse(text):
    """{name: (type, [(sample name, labels, value)])} of an exposition, in its order; fails where it is none."""
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in families, f"{name}: declared twice"
            current, families[name] = name, [None, []]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and families[name][0] is None and not families[name][1], line
            assert kind in SUFFIXES, line
            families[name][0] = kind
        else:
            m = SAMPLE.match(line)
            assert m, line
            float(m[3])
            kind = families[current][0]
            names = [current] if kind != "histogram" else [current + s for s in SUFFIXES["histogram"][:3]]
            assert m[1] in names, f"{line}: not of {current}"
            families[current][1].append((m[1], m[2] or "", m[3]))
    return families


def family_of(name, kind):
    """As OpenMetrics calls it: a counter's samples are its family's name with _total."""
    return name[: -len("_total")] if kind == "counter" else name


def collisions(families):
    """Names that two families would have, their own or with a suffix of their type."""
    owner, found = {}, []
    for name, (kind, _) in families.items():
        family = family_of(name, kind)
        for taken in [family] + [family + s for s in SUFFIXES[kind]]:
            if owner.setdefault(taken, name) != name:
                found.append((taken, owner[taken], name))
    return found


class Exposition:
    def test_families_share_no_name(self):
        self.server.complete("[[say=abc]]")
        self.server.get("/nowhere")
        r = self.server.get("/metrics")
        families = parse(r.body.decode())
        self.assertGreater(len(families), 30)
        self.assertEqual(collisions(families), [])
        for name, (kind, samples) in families.items():
            self.assertTrue(name.startswith(self.prefix), name)
            self.assertIn(kind, SUFFIXES, name)
            self.assertTrue(samples, name)
            self.assertEqual(len({(s, labels) for s, labels, _ in samples}), len(samples), name)
            if kind == "counter":
                self.assertTrue(name.endswith("_total"), name)

    def test_histograms_add_up(self):
        self.server.complete("[[say=abc]]")
        for name, (kind, samples) in parse(self.server.get("/metrics").body.decode()).items():
            if kind != "histogram":
                continue
            counts = [float(v) for s, _, v in samples if s == name + "_bucket"]
            self.assertEqual(counts, sorted(counts), name)
            self.assertIn('le="+Inf"', [labels for s, labels, _ in samples if s == name + "_bucket"][-1])
            self.assertEqual([float(v) for s, _, v in samples if s == name + "_count"], counts[-1:], name)


class OwnNames(Exposition, harness.Case):
    prefix = "longflash:"

    def test_the_documents_explain_each_family_and_no_other(self):
        page = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "operations.md")
        with open(page, encoding="utf-8") as f:
            rows = re.findall(r"^\| `(\w+)` \| (\w+) \|.*\| (.+) \|$", f.read(), re.M)
        families = parse(self.server.get("/metrics").body.decode())
        there = sorted((name[len(self.prefix):], kind) for name, (kind, _) in families.items())
        self.assertEqual(sorted((name, kind) for name, kind, _ in rows), there)


class VllmNames(Exposition, harness.Case):
    args = ("metrics_prefix=vllm:",)
    prefix = "vllm:"


class Reader(harness.unittest.TestCase):
    def test_it_finds_what_is_wrong(self):
        head = "# HELP a_{0} x\n# TYPE a_{0} {1}\na_{0} 1\n"
        gauge, total = head.format("b", "gauge"), head.format("b_total", "counter")
        self.assertEqual(collisions(parse(gauge + head.format("c_total", "counter"))), [])
        self.assertEqual(len(collisions(parse(gauge + total))), 1)
        self.assertEqual(len(collisions(parse(total + head.format("b_created", "gauge")))), 1)
        for bad in (gauge + gauge, gauge + "a_c 1\n", "# HELP a x\n# TYPE a thing\n", gauge + 'a_b{x="} 1\n'):
            with self.assertRaises(AssertionError):
                parse(bad)


if __name__ == "__main__":
    harness.main()
