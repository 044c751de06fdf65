"""What `cmake --install` leaves: a program that does its work from anywhere, and what belongs to it."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

FACTS = "The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun.\n\n"
QUESTION, ANSWER = "What is the access code for Marrow Hill?", "The access code for Marrow Hill is 48213."
SCRIPT = """
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$(($# - 2))
compopt() { :; }
_longflash
printf '%s\\n' "${COMPREPLY[@]}"
"""


@unittest.skipUnless(os.environ.get("LF_BUILD"), "no build in the environment")
class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="longflash-test-")
        root = pathlib.Path(cls.folder.name)
        cls.prefix, cls.elsewhere, cls.home = root / "prefix", root / "elsewhere", os.getcwd()
        subprocess.run([os.environ["LF_CMAKE"], "--install", os.environ["LF_BUILD"], "--prefix", str(cls.prefix)],
                       check=True, stdout=subprocess.DEVNULL)
        cls.elsewhere.mkdir()
        os.chdir(cls.elsewhere)  # no demo/model here

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.home)
        cls.folder.cleanup()

    def run_it(self, *args, **more):
        return subprocess.run([str(self.prefix / "bin/longflash"), *args], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120 * harness.SLOW, **more)

    def test_everything_is_there_and_nothing_of_tests(self):
        for path in ("bin/longflash", "share/man/man1/longflash.1", "share/bash-completion/completions/longflash",
                     "share/longflash/configs/demo.json", "share/longflash/demo/model/model.safetensors",
                     "share/doc/longflash/README.md", "share/doc/longflash/docs/api.md"):
            self.assertTrue((self.prefix / path).is_file(), path)
        self.assertEqual(sorted(p.name for p in self.prefix.iterdir()), ["bin", "share"])
        self.assertEqual([p.name for p in (self.prefix / "bin").iterdir()], ["longflash"])

    def test_a_question_is_answered_by_the_demo_that_was_installed(self):
        r = self.run_it("run", FACTS + QUESTION)
        self.assertEqual((r.returncode, r.stdout), (0, ANSWER + "\n"), r.stderr)
        # the program finds it by its own place, also behind a link, not by the one it was configured for
        os.symlink(self.prefix / "bin/longflash", "link")
        r = subprocess.run(["./link", "tokenize", "--count", "a"], capture_output=True, text=True, timeout=60)
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_the_example_configuration_serves_the_demo(self):
        program, harness.Program.program = harness.Program.program, str(self.prefix / "bin/longflash")
        try:
            s = harness.Program("--config", str(self.prefix / "share/longflash/configs/demo.json"), "--ctx", "8K",
                                "--kv-tokens", "16K")
        finally:
            harness.Program.program = program
        self.assertEqual(s.get("/v1/models").json["data"][0]["id"], "demo")
        r = s.chat(FACTS + QUESTION, temperature=0)
        self.assertEqual(r.json["choices"][0]["message"]["content"], ANSWER)
        self.assertEqual(s.stop(), 0)

    def test_a_model_that_is_here_is_not_passed_over(self):
        os.makedirs("demo/model")
        try:
            r = self.run_it("plan")
            self.assertEqual(r.returncode, 2)
            self.assertIn("demo/model", r.stderr)
            self.assertNotIn(str(self.prefix), r.stderr)
        finally:
            shutil.rmtree("demo")

    def test_a_program_without_its_demo_says_what_it_looked_for(self):
        lonely = self.elsewhere / "bin"
        lonely.mkdir()
        shutil.copy(self.prefix / "bin/longflash", lonely)
        r = subprocess.run([str(lonely / "longflash"), "plan"], capture_output=True, text=True, timeout=60)
        self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1), r.stderr)
        self.assertIn("--model demo/model: No such file", r.stderr)

    def commit_of(self, source, **more):
        script = os.path.join(self.home, "server", "commit.cmake")
        subprocess.run([os.environ["LF_CMAKE"], f"-DSOURCE={source}", "-DOUT=commit.h", "-P", script], check=True,
                       cwd=self.elsewhere, env={k: v for k, v in {**os.environ, **more}.items() if v is not None})
        return re.fullmatch(r'#define LF_COMMIT "(.*)"\n', (self.elsewhere / "commit.h").read_text()).group(1)

    def test_the_commit_is_that_of_the_tree_or_what_the_packager_says_or_unknown(self):
        self.assertEqual(self.commit_of(self.elsewhere, LF_COMMIT=None), "unknown")
        self.assertEqual(self.commit_of(self.elsewhere, LF_COMMIT=""), "unknown")
        self.assertEqual(self.commit_of(self.elsewhere, LF_COMMIT='a"b'), "unknown")
        self.assertEqual(self.commit_of(self.elsewhere, LF_COMMIT="0123abc-dirty"), "0123abc-dirty")
        if shutil.which("git") and os.path.exists(os.path.join(self.home, ".git")):
            self.assertRegex(self.commit_of(self.home, LF_COMMIT=None), "^[0-9a-f]{12}(-dirty)?$")

    def complete(self, *words):
        script = self.prefix / "share/bash-completion/completions/longflash"
        r = subprocess.run(["bash", "-c", SCRIPT, "bash", str(script), *words], capture_output=True, text=True, timeout=30)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return r.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash_completes_commands_options_and_values(self):
        commands = re.findall(r"^  longflash (\w+)", self.run_it("help").stdout.split("Each command")[0], re.M)
        self.assertEqual(self.complete("longflash", ""), commands)
        self.assertEqual(self.complete("longflash", "se"), ["serve"])
        self.assertEqual(self.complete("longflash", "serve", "--max-s"), ["--max-seqs"])
        self.assertEqual(self.complete("longflash", "plan", "--drain"), [])
        self.assertEqual(self.complete("longflash", "serve", "--kv-dtype", ""), ["auto", "f32", "bf16", "fp8"])
        self.assertEqual(self.complete("longflash", "serve", "--port", ""), [])
        self.assertEqual(self.complete("longflash", "docs", "a"), ["api"])
        self.assertEqual(self.complete("longflash", "help", "tok"), ["tokenize"])
        os.mkdir("a model")
        self.assertEqual(self.complete("longflash", "serve", "--model", "a"), ["a", "model"])


if __name__ == "__main__":
    harness.main()
