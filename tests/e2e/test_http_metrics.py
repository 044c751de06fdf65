"""The whole of /metrics, read as Prometheus and OpenMetrics read it: no family under two names, none twice. And what
docs/operations.md says of it: each family, and no other."""
import os
import re
import time

import harness

SUFFIXES = {"counter": ["_total", "_created"], "gauge": [], "histogram": ["_bucket", "_sum", "_count", "_created"]}
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$')


BARE = ("process_", "longflash_build_info")  # names without a prefix: every program's, and which program it is


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
            self.assertTrue(name.startswith((self.prefix,) + BARE), name)
            self.assertIn(kind, SUFFIXES, name)
            self.assertTrue(samples or name.startswith(self.prefix + "key_"), name)  # no key has a name here
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


    def value(self, name, label=""):
        families = parse(self.server.get("/metrics").body.decode())
        family = next(f for f in (name, name.rpartition("_")[0]) if f in families)
        return sum(float(v) for s, labels, v in families[family][1] if s == name and label in labels)

    def test_labels_come_from_the_program_alone(self):
        self.server.complete("[[say=abc]]", user="q7k-user", model="q7k-model", cache_salt="q7k-salt", request_id="q7k-id")
        self.server.get("/q7k-path?q7k=1", headers={"X-Request-Id": "q7k-header"})
        self.assertNotIn("q7k", self.server.get("/metrics").body.decode())

    def test_answers_of_which_there_was_none_are_counted_as_well(self):
        for status in ("2xx", "3xx", "4xx", "5xx"):
            self.assertEqual(self.server.metric("http_requests_total", f'route="/detokenize",status="{status}"'), 0)

    def test_the_methods_of_a_path_are_counted_together(self):
        before = self.server.metric("http_requests_total", 'route="/v1/documents/",status="4xx"')
        for method in ("GET", "DELETE"):
            self.assertEqual(self.server.request(method, "/v1/documents/none").status, 404)
        self.assertEqual(self.server.metric("http_requests_total", 'route="/v1/documents/",status="4xx"'), before + 2)

    def test_what_a_request_asked_for_is_counted(self):
        n, top = self.prefix + "request_params_n", self.prefix + "request_params_max_tokens"
        before = self.value(n + "_count"), self.value(n + "_sum"), self.value(top + "_count"), self.value(top + "_sum")
        self.server.complete("[[say=abc]]", n=3, max_tokens=5)
        after = self.value(n + "_count"), self.value(n + "_sum"), self.value(top + "_count"), self.value(top + "_sum")
        self.assertEqual([b - a for a, b in zip(before, after)], [1, 3, 3, 15])

    def test_the_cache_is_counted_in_tokens(self):
        queries, hits = self.prefix + "prefix_cache_queries_total", self.prefix + "prefix_cache_hits_total"
        prompt = "[[say=abc]]" + "x" * 190
        first = self.value(queries), self.value(hits)
        self.server.complete(prompt)
        second = self.value(queries), self.value(hits)
        self.server.complete(prompt)
        third = self.value(queries), self.value(hits)
        self.assertEqual((second[0] - first[0], second[1] - first[1]), (len(prompt) + 1, 0))  # and BOS
        self.assertEqual((third[0] - second[0], third[1] - second[1]), (len(prompt) + 1, 192))
        self.assertEqual(self.value(self.prefix + "num_preemptions_total"), 0)

    def test_what_does_not_change_stands_in_labels(self):
        cache = self.prefix + "cache_config_info"
        self.assertEqual(self.value(cache, 'block_size="64",cache_dtype="f32",enable_prefix_caching="True"'), 1)
        self.assertEqual(self.value(cache, 'num_gpu_blocks="4096"'), 1)
        self.assertEqual(self.value("longflash_build_info", 'version="9.8.7",commit="0123abc"'), 1)

    def test_the_process_is_measured(self):
        pid = self.server.process.pid
        with open(f"/proc/{pid}/statm") as f:
            resident = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        shown = self.value("process_resident_memory_bytes")
        self.assertTrue(resident / 2 < shown < resident * 2, (resident, shown))
        self.assertTrue(0 < self.value("process_cpu_seconds_total") < 3600)
        self.assertTrue(time.time() - 3600 < self.value("process_start_time_seconds") < time.time() + 1)
        self.assertTrue(3 < self.value("process_open_fds") < self.value("process_max_fds"))


class OwnNames(Exposition, harness.Case):
    prefix = "longflash:"

    def test_the_documents_explain_each_family_and_no_other(self):
        page = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "operations.md")
        with open(page, encoding="utf-8") as f:
            rows = re.findall(r"^\| `(\w+)` \| (\w+) \|.*\| (.+) \|$", f.read(), re.M)
        families = parse(self.server.get("/metrics").body.decode())
        there = sorted((name.removeprefix(self.prefix), kind) for name, (kind, _) in families.items())
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
