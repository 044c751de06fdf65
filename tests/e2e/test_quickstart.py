"""The options of quickstart.sh, as far as they go without building: its tools are not in the PATH of these runs."""
import os
import subprocess
import tempfile
import unittest

SCRIPT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "quickstart.sh"))


class Quickstart(unittest.TestCase):
    def run_with(self, *args):
        with tempfile.TemporaryDirectory() as tools:
            for name in ("cat", "dirname"):
                os.symlink(f"/usr/bin/{name}", os.path.join(tools, name))
            return subprocess.run(["/bin/sh", SCRIPT, *args], env={"PATH": tools}, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=30)

    def test_help_is_shown_wherever_it_stands(self):
        page = self.run_with("--help")
        self.assertEqual((page.returncode, page.stderr), (0, ""))
        for option in ("--once", "--full", "--port", "--help"):
            self.assertIn(option, page.stdout)
        for args in (["-h"], ["help"], ["--once", "--help"], ["--port", "1", "--full", "-h"]):
            r = self.run_with(*args)
            self.assertEqual((r.returncode, r.stdout, r.stderr), (0, page.stdout, ""), args)

    def test_what_is_no_option_is_refused_by_name(self):
        for args, what in ((["--bogus"], "--bogus"), (["--once", "extra"], "extra"), (["--port"], "--port")):
            r = self.run_with(*args)
            self.assertEqual((r.returncode, r.stdout), (1, ""), args)
            self.assertIn(what, r.stderr)


if __name__ == "__main__":
    unittest.main()
