"""The program killed at each of its calls that change the disk while it keeps a document: what is listed is whole, the
same question has the same answer, and what was whole before is found. tests/support/kill_at.c makes the kills."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness

PRELOAD = os.environ.get("LF_KILL_AT_SO", "")
WORDS = {"old": "And it came to pass in those days that the people went up to the hill. ",
         "new": "The keeper of the gate wrote down whoever came in from the sea that year. "}
N_TOKENS = 64 * 4
QUESTION = "Who?"


class Kills(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not harness.Program.program or not PRELOAD:
            raise unittest.SkipTest("no program in the environment")
        cls.folder = tempfile.TemporaryDirectory(prefix="lf_kills_")
        cls.addClassCleanup(cls.folder.cleanup)
        for name, words in WORDS.items():
            with open(cls.at(name), "w") as f:
                f.write(words * (N_TOKENS // 16))
        # a directory with room for one of the documents, which has the old one
        cls.full = cls.at("full")
        cls.truth = {name: cls.done(cls.run_once(name)) for name in WORDS}
        assert cls.done(cls.run_once("old", cls.full)) == cls.truth["old"]
        cls.n_kept = cls.found(cls.full)["blocks"]
        assert cls.n_kept >= 4, cls.n_kept

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    @staticmethod
    def done(r):
        assert r.returncode == 0, r.stderr
        return r.stdout

    @classmethod
    def command(cls, *args, kill=None, how="before"):
        """kill: at which call, None: without counting."""
        env = dict(os.environ)
        if kill is not None:
            env.update(LD_PRELOAD=PRELOAD, LF_KILL_AT=str(kill), LF_KILL_HOW=how, LF_KILL_COUNT=cls.at("count"))
        return subprocess.run([harness.Program.program, *args], env=env, capture_output=True, text=True, timeout=60)

    @classmethod
    def run_once(cls, name, folder=None, **kill):
        kept = ("--cache-dir", folder, "--cache-disk", "1200K") if folder else ()
        return cls.command("run", "--document", cls.at(name), "--max-tokens", "6", *kept, QUESTION, **kill)

    @classmethod
    def found(cls, folder):
        """What is in a directory: no block that is listed is broken, whatever the records of others are."""
        r = cls.command("documents", "verify", "--json", "--cache-dir", folder)
        found = json.loads(r.stdout) if r.stdout else []
        assert all(f.get("broken", 0) == 0 for f in found), r.stdout
        return found[0] if found else {"blocks": 0, "bad_records": 0}

    def n_calls(self, run):
        """Of a whole run."""
        self.assertEqual(run(0, "before").returncode, 0)
        with open(self.at("count")) as f:
            return int(f.read())

    def sweep(self, how, run, check):
        """run(kill, how) is killed at each of its calls; check() looks at what is left."""
        n, n_killed = self.n_calls(run), 0
        self.assertGreater(n, 4)
        for kill in range(1, n + 1):
            with self.subTest(kill=kill, how=how, of=n):
                r = run(kill, how)
                # where fewer batches were written there are fewer calls than the first time
                self.assertIn(r.returncode, (0, -signal.SIGKILL), r.stderr)
                n_killed += r.returncode != 0
                check()
        self.assertGreater(n_killed, n * 2 // 3)

    def fresh(self, copy=None):
        folder = self.at("cache")
        shutil.rmtree(folder, ignore_errors=True)
        if copy:
            shutil.copytree(copy, folder)
        return folder

    def test_a_directory_that_is_being_made(self):
        folder, restored = self.at("cache"), []

        def check():
            n = self.found(folder)["blocks"] if os.path.isdir(folder) else 0
            r = self.run_once("new", folder)
            self.assertEqual(self.done(r), self.truth["new"])
            self.assertEqual("from the disk" in r.stderr, n > 0)
            restored.append(n)
        self.sweep("before", lambda kill, how: self.run_once("new", self.fresh(), kill=kill, how=how), check)
        self.assertEqual(min(restored), 0)
        self.assertGreaterEqual(max(restored), 4)

    def test_blocks_that_take_the_place_of_others(self):
        folder, asked = self.at("cache"), []

        def check():
            left = self.found(folder)
            self.assertLessEqual(left["bad_records"], 1)
            for name in asked:
                self.assertEqual(self.done(self.run_once(name, folder)), self.truth[name])
            self.found(folder)
        for how, asked[:] in (("before", ["old", "new"]), ("half", ["new"])):
            self.sweep(how, lambda kill, how: self.run_once("new", self.fresh(self.full), kill=kill, how=how), check)

    def test_an_import(self):
        folder, path = self.at("cache"), self.at("stream")
        self.done(self.command("documents", "export", path, "--cache-dir", self.full))

        def run(kill, how):
            os.mkdir(self.fresh())
            return self.command("documents", "import", path, "--all", "--cache-dir", folder, kill=kill, how=how)

        def check():
            self.assertLessEqual(self.found(folder)["blocks"], self.n_kept)
            self.done(self.command("documents", "import", path, "--all", "--cache-dir", folder))
            self.assertEqual(self.found(folder)["blocks"], self.n_kept)
        for how in ("before", "half"):
            self.sweep(how, run, check)
        r = self.run_once("old", folder)
        self.assertEqual(self.done(r), self.truth["old"])
        self.assertIn("from the disk", r.stderr)

    def test_an_export_is_there_whole_or_not_at_all(self):
        path = self.at("export")
        for kill in (1, 2):  # its sync, and its new name
            r = self.command("documents", "export", path, "--cache-dir", self.full, kill=kill)
            self.assertEqual(r.returncode, -signal.SIGKILL)
            self.assertFalse(os.path.exists(path))
        self.done(self.command("documents", "export", path, "--cache-dir", self.full))
        self.assertEqual(os.listdir(self.folder.name).count("export.part"), 0)


if __name__ == "__main__":
    unittest.main()
