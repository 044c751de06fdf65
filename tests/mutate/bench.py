"""Where faults are planted: a copy of the tree beside a copy of its finished build, both in one folder.

Nothing is configured or made there: the build's own compile and link commands are run, one file and one program at a
time, with the tree's path replaced. So a fault costs one compiler run and the linking of the programs that contain the
file, and the source tree is never written to."""
import collections
import glob
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

GIB = 1 << 30
CASE_FAILED = b"[  FAILED  ]"  # as cmocka says it
FAR = 3  # Bench.reaching: the whole program, and what compares its numbers


Took = collections.namedtuple("Took", "cpu wall")  # seconds: of the processor, of its children too, and on the clock


class Test:
    """One ctest entry: what it runs, and which programs of the build it needs."""

    def __init__(self, entry, root, new_root):
        moved = lambda s: s.replace(root, new_root)
        properties = {p["name"]: p["value"] for p in entry["properties"]}
        self.name = entry["name"]
        self.command = [moved(x) for x in entry["command"]]
        self.cwd = moved(properties.get("WORKING_DIRECTORY", new_root))
        self.environment = dict(moved(x).split("=", 1) for x in properties.get("ENVIRONMENT", []))
        words = self.command + list(self.environment.values())
        self.programs = sorted({w for w in words if w.startswith(new_root + "/build/") and os.access(w, os.X_OK)
                                and os.path.isfile(w)})


def copy_tree(root, to):
    """Tracked and new files, those that are the same left alone; what is gone from the tree goes from the copy."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                           capture_output=True).stdout.decode().split("\0")
    wanted = {n for n in names if n and os.path.isfile(os.path.join(root, n))}
    for name in sorted(wanted):
        a, b = os.path.join(root, name), os.path.join(to, name)
        os.makedirs(os.path.dirname(b), exist_ok=True)
        if not os.path.exists(b) or open(a, "rb").read() != open(b, "rb").read():
            shutil.copy2(a, b)
    for where, folders, files in os.walk(to):
        if where == to:
            folders[:] = [f for f in folders if f not in ("build", ".git")]
        for name in files:
            if os.path.relpath(os.path.join(where, name), to) not in wanted:
                os.unlink(os.path.join(where, name))


class Bench:
    def __init__(self, root, build, where):
        self.root, self.build = root, os.path.join(root, build)
        self.tree = os.path.join(where, "tree")
        self.new_build = os.path.join(self.tree, build)
        os.makedirs(self.tree, exist_ok=True)
        copy_tree(root, self.tree)
        shutil.rmtree(self.new_build, ignore_errors=True)
        skipped = shutil.ignore_patterns("*.d", "Testing", "*.log", "CMakeCache.txt")
        shutil.copytree(self.build, self.new_build, ignore=skipped, symlinks=True)
        self.commands = {}
        for entry in json.load(open(os.path.join(self.build, "compile_commands.json"))):
            if entry["file"].startswith(root + "/"):
                self.commands[os.path.relpath(entry["file"], root)] = entry
        self.links = {}
        for path in glob.glob(self.new_build + "/**/link.txt", recursive=True):
            command = open(path).read().splitlines()
            target = re.search(r" -o (\S+)", command[0])
            if target:
                cwd = path.split("/CMakeFiles/")[0]
                self.links[os.path.normpath(os.path.join(cwd, target.group(1)))] = (command[0], cwd)
        self.symbols = {}
        self.tests = self.read_tests()

    def read_tests(self):
        text = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], check=True,
                              capture_output=True).stdout
        tests = [Test(e, self.root, self.tree) for e in json.loads(text)["tests"] if "command" in e]
        return [t for t in tests if t.programs and all(p in self.links for p in t.programs)]

    # ---- one file ----

    def object_of(self, path):
        """The object file in the copy, and the archive that holds it."""
        entry = self.commands[path]
        out = re.search(r" -o (\S+)", entry["command"]).group(1)
        cwd = entry["directory"].replace(self.root, self.tree)
        library = re.search(r"CMakeFiles/(\w+)\.dir/", out).group(1)
        return os.path.join(cwd, out), os.path.join(cwd, f"lib{library}.a")

    def compile(self, path, out):
        """Without debug information, so that two files that mean the same are the same. Whether it compiled."""
        entry = self.commands[path]
        words = shlex.split(entry["command"].replace(self.root, self.tree))
        words[words.index("-o") + 1] = out
        words = [w for w in words if w not in ("-g", "-g3", "-Werror")] + ["-w", "-g0"]
        done = subprocess.run(words, cwd=entry["directory"].replace(self.root, self.tree), capture_output=True)
        return done.returncode == 0

    def archive(self, path):
        """Puts the file's object into its library."""
        out, library = self.object_of(path)
        subprocess.run(["ar", "r", library, out], check=True, capture_output=True)

    def link(self, program):
        command, cwd = self.links[program]
        subprocess.run(shlex.split(command), cwd=cwd, check=True, capture_output=True)

    # ---- which tests reach a file ----

    def defined(self, path):
        if path not in self.symbols:
            text = subprocess.run(["nm", "--defined-only", path], capture_output=True).stdout.decode()
            self.symbols[path] = {w[2] for w in map(str.split, text.splitlines()) if len(w) == 3 and w[1] in "TDRB"}
        return self.symbols[path]

    def contains(self, program, path):
        """An archive's member is linked whole or not at all: one of its symbols tells."""
        own = self.defined(self.object_of(path)[0])
        return bool(own & self.defined(program))

    def reaching(self, path):
        """Tests whose programs contain the file: first those named after it, then those of its folder, then all."""
        folder, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]

        def distance(t):
            where, _, name = t.name.partition("/")[2].rpartition("/")
            near = where != "" and (folder + "/").startswith(where + "/")
            if near and (name == stem or name.startswith(stem) or stem.startswith(name)):
                return 0
            if near or t.name.startswith("e2e/http") and folder.startswith("server/http"):
                return 1
            return 2 if t.name.startswith(("unit/", "fuzz/", "sim/")) else FAR
        found = [t for t in self.tests if any(self.contains(p, path) for p in t.programs)]
        return sorted(((distance(t), t) for t in found), key=lambda pair: (pair[0], pair[1].name))

    # ---- running ----

    def run(self, test, most):
        """("passed" | "failed" | "hung", Took). It hangs where it takes more than this; it has failed as soon as it says so
        of one of its cases. All that it started has ended afterwards."""
        def limits():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (GIB, GIB))
            resource.setrlimit(resource.RLIMIT_AS, (12 * GIB, 12 * GIB))
            resource.setrlimit(resource.RLIMIT_CPU, (int(most.cpu) + 1, int(most.cpu) + 1))
        began = time.monotonic()
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen(test.command, cwd=test.cwd, env={**os.environ, **test.environment}, preexec_fn=limits,
                                 stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
            result = None
            while not result:
                pid, status, usage = os.wait4(p.pid, os.WNOHANG)
                wall = time.monotonic() - began
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    over = code in (-signal.SIGXCPU, -signal.SIGKILL)
                    result = "passed" if code in (0, 77) else "hung" if over else "failed"
                elif CASE_FAILED in os.pread(out.fileno(), GIB, 0):
                    result = "failed"
                elif wall > most.wall:
                    result = "hung"
                else:
                    time.sleep(min(0.02 + wall / 50, 0.5))
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if not pid:
                _, _, usage = os.wait4(p.pid, 0)
            p.returncode = 0  # waited for
        return result, Took(usage.ru_utime + usage.ru_stime, wall)
