"""Nobody can tell by the clock what others have read: texts of another key's, in memory, on disk and by name, against
texts of nobody's, in random order, compared by rank (Mann and Whitney). What is one's own is told apart at once, by
the same test."""
import os
import random
import tempfile
import time
import unittest

import harness

N_TEXTS = 24 if harness.SLOW == 1 else 12  # of each kind: of fewer no rank is off by MOST_Z
N_NAMES = 300 if harness.SLOW == 1 else 60
CHARACTERS = 2000  # some 600 tokens: 50 ms and more to read, a few to find
MOST_Z = 4.0  # by chance once in 16,000 runs


def z_of(a, b):
    """How many standard deviations the ranks of a's values among both are off; without ties, as these times are."""
    ranks = {i: rank for rank, (_, i) in enumerate(sorted((v, i) for i, v in enumerate(a + b)), 1)}
    u = sum(ranks[i] for i in range(len(a))) - len(a) * (len(a) + 1) / 2
    return (u - len(a) * len(b) / 2) / (len(a) * len(b) * (len(a) + len(b) + 1) / 12) ** 0.5


class Foreign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not harness.Program.program:
            raise unittest.SkipTest("no program in the environment")
        with open("demo/document.txt", encoding="utf-8") as f:
            cls.whole = f.read()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lf_foreign_")
        self.addCleanup(self.folder.cleanup)
        with open(self.at("keys"), "w") as f:
            f.write("sk-owner\nsk-other\n")
        self.rng = random.Random(11)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def start(self):
        server = harness.Program("--ctx", "2K", "--kv-tokens", "80K", "--device", "cpu", "--api-keys-file", self.at("keys"),
                                 "--cache-dir", self.at("cache"), "--cache-disk", "600M")
        self.addCleanup(server.stop)
        return server

    def text(self, number):
        at = number * 3989 % (len(self.whole) - CHARACTERS)
        return f"{number}. " + self.whole[at:at + CHARACTERS]

    def ask(self, server, key, number, connection=None):
        """(seconds to the first token, of how many tokens the server says that it had them)"""
        began = time.monotonic()
        r = server.post("/v1/completions", {"prompt": self.text(number), "max_tokens": 1, "temperature": 0},
                        headers={"Authorization": f"Bearer {key}"}, connection=connection)
        took = time.monotonic() - began
        self.assertEqual(r.status, 200, r.body)
        return took, r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def times(self, server, numbers):
        """{number: seconds} of the other key, in random order on one connection."""
        connection, out = server.connect(), {}
        order = list(numbers)
        self.rng.shuffle(order)
        for number in order:
            out[number], n_cached = self.ask(server, "sk-other", number, connection)
            self.assertEqual(n_cached, 0)
        connection.close()
        return out

    def check(self, server, foreign, nobodys):
        for number in range(3):  # what is first is slower
            self.ask(server, "sk-other", 9000 + number)
        took = self.times(server, [*foreign, *nobodys])
        z = z_of([took[i] for i in foreign], [took[i] for i in nobodys])
        self.assertLess(abs(z), MOST_Z, f"foreign {sorted(took[i] for i in foreign)}, nobody's {sorted(took[i] for i in nobodys)}")
        own = [self.ask(server, "sk-other", i)[0] for i in foreign]
        self.assertLess(z_of(own, [took[i] for i in nobodys]), -MOST_Z if len(own) > 12 else -3)

    def test_what_another_key_has_in_memory(self):
        server = self.start()
        foreign, nobodys = range(N_TEXTS), range(100, 100 + N_TEXTS)
        for i in foreign:
            self.ask(server, "sk-owner", i)
        self.assertGreater(self.ask(server, "sk-owner", 0)[1], 256)
        self.check(server, foreign, nobodys)

    def test_what_another_key_has_on_disk(self):
        server = self.start()
        foreign, nobodys = range(N_TEXTS), range(100, 100 + N_TEXTS)
        for i in foreign:
            self.ask(server, "sk-owner", i)
        self.assertEqual(server.stop(), 0)
        server = self.start()
        self.check(server, foreign, nobodys)
        self.assertGreater(self.ask(server, "sk-owner", 0)[1], 256)  # it was there all the time

    def test_a_name_of_another_keys(self):
        server, headers = self.start(), {key: {"Authorization": f"Bearer sk-{key}"} for key in ("owner", "other")}
        r = server.request("PUT", "/v1/documents/plan?wait=true", self.text(1).encode(),
                           {"Content-Type": "text/plain", **headers["owner"]})
        self.assertEqual(r.status, 200, r.body)
        took, connection = {"plan": [], "plot": []}, server.connect()
        not_found = server.get("/v1/documents/plan", headers=headers["other"]).body
        for name in self.rng.sample(sorted(took) * N_NAMES, 2 * N_NAMES):
            began = time.monotonic()
            r = server.get(f"/v1/documents/{name}", headers=headers["other"], connection=connection)
            took[name].append(time.monotonic() - began)
            self.assertEqual((r.status, r.body.replace(b"plot", b"plan")), (404, not_found))
        connection.close()
        self.assertLess(abs(z_of(took["plan"], took["plot"])), MOST_Z)
        self.assertEqual(server.get("/v1/documents/plan", headers=headers["owner"]).status, 200)


if __name__ == "__main__":
    unittest.main()
