"""The scripts of examples/ as their readers run them, against the program on the demo model. Those that need more than
curl and Python's standard library (docker.sh, openai_client.py) are opt-in and only compiled here."""
import csv
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "examples")
FACT, QUESTION = "The access code for Marrow Hill is 48213.", "What is the access code for Marrow Hill?"
FILLER = "And it came to pass in those days that the people went up to the hill and sat there until the evening."

# Stands in for pdftotext where poppler-utils is not installed: the lines of a PDF whose streams are not compressed.
PDFTOTEXT = r"""#!{python}
import re, sys
source, target = [a for a in sys.argv[1:] if a not in ("-enc", "UTF-8")]
shown = re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj", open(source, "rb").read())
text = "\n".join(re.sub(rb"\\(.)", rb"\1", s).decode("latin-1") for s in shown)
(sys.stdout if target == "-" else open(target, "w", encoding="utf-8")).write(text + "\n")
"""


def write_pdf(path, lines):
    """A PDF of one page, after the objects of ISO 32000-1, annex H.3, with a table of where each begins."""
    shown = "\n".join(f"({line}) Tj T*" for line in lines)
    stream = f"BT /F1 10 Tf 12 TL 40 800 Td\n{shown}\nET"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
               "/Resources << /Font << /F1 5 0 R >> >> >>",
               f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    out += (f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n")
    with open(path, "wb") as f:
        f.write(out.encode("latin-1"))


def read_yaml(text):
    """Maps and lists of words, two more spaces for each that lies in another: what compose.yaml needs of YAML, and
    nothing else."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]

    def read(at, depth):
        """(what lies at this depth from line `at` on, the line behind it)"""
        out = [] if at < len(lines) and lines[at].startswith(" " * depth + "- ") else {}
        while at < len(lines) and (m := re.fullmatch(rf" {{{depth}}}(- )?(?:(\w+):(?: (?=\S))?)?(\S*)", lines[at])):
            dash, key, value = m.groups()
            if isinstance(out, list) != bool(dash):
                raise ValueError(lines[at])
            at += 1
            if dash:
                out.append((lines[at - 1].strip()[2:]).strip('"'))
            elif value:
                out[key] = value
            else:
                out[key], at = read(at, depth + 2)
        return out, at

    out, end = read(0, 0)
    if end < len(lines):
        raise ValueError(lines[end])
    return out


class Examples(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "8192", "--kv-tokens", "32K")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_example(self, name, *args, stdin=None, expect=0, **environment):
        env = {**os.environ, "LONGFLASH_URL": f"http://127.0.0.1:{self.server.port}",
               "LONGFLASH": os.path.abspath(self.server.program), **environment}
        r = subprocess.run([os.path.join(EXAMPLES, name), *args], env=env, cwd=self.folder.name, text=True,
                           input=stdin or "", capture_output=True, timeout=120 * harness.SLOW)
        self.assertEqual(r.returncode, expect, r.stdout + r.stderr)
        return r

    def test_curl_shows_the_answer_in_each_form(self):
        whole, rest = self.run_example("curl.sh").stdout.split("== streamed", 1)
        streamed, anthropic = rest.split("== Anthropic's form\n", 1)
        answer = json.loads(whole[whole.index("{"):])["choices"][0]["message"]["content"]
        self.assertEqual(answer, FACT)
        got = harness.events(streamed[streamed.index("data:"):].encode())
        self.assertEqual(got[-1], "[DONE]")
        choices = [c for e in got[:-1] for c in json.loads(e)["choices"]]
        self.assertEqual("".join(c["delta"].get("content", "") for c in choices), FACT)
        self.assertGreater(json.loads(got[-2])["usage"]["total_tokens"], 0)
        self.assertEqual(json.loads(anthropic)["content"][0]["text"], FACT)

    def test_a_conversation_goes_on_about_a_document_with_a_name(self):
        with open(self.path("my.txt"), "w", encoding="utf-8") as f:
            f.write(" ".join([FILLER] * 20 + [FACT] + [FILLER] * 20))
        r = self.run_example("conversation.sh", "my.txt", QUESTION, QUESTION)
        reading, first, second = re.split(r"== the (?:first|second) question\n", r.stdout)
        self.assertIn('"state":"ready"', reading)
        for text, part in ((first, "in"), (second, "again")):
            self.assertIn(FACT, json.loads(text.splitlines()[0])["output"][0]["content"][0]["text"], part)
        tokens = json.loads(reading[reading.rindex('data: {"object"') + 6:].splitlines()[0])["tokens"]
        usage = json.loads(second.splitlines()[0])["usage"]
        self.assertGreaterEqual(usage["input_tokens_details"]["cached_tokens"], tokens // 64 * 64)
        self.assertIn('"deleted":true', second)

    def test_curl_fails_where_the_server_refuses(self):
        r = self.run_example("curl.sh", LONGFLASH_URL=f"http://127.0.0.1:{self.server.port}/nowhere", expect=22)
        self.assertNotIn(FACT, r.stdout)

    def test_a_document_is_read_with_progress_and_again_from_the_cache(self):
        document = " ".join([FILLER] * 20 + [FACT] + [FILLER] * 20)
        with open(self.path("my.txt"), "w", encoding="utf-8") as f:
            f.write(document)
        r = self.run_example("document.py", "--document", "my.txt", "--question", QUESTION)
        self.assertEqual(r.stdout.strip(), FACT)
        seen = [tuple(map(int, m)) for m in re.findall(r"read (\d+) of (\d+) tokens, (\d+) of them", r.stderr)]
        self.assertLess(seen[0][0], seen[0][1])  # a step may have ended before the first look
        self.assertEqual(seen[0][2], 0)
        self.assertEqual(seen[-1][0], seen[-1][1])
        again = self.run_example("document.py", "--document", "-", "--question", QUESTION, stdin=document)
        self.assertEqual(again.stdout, r.stdout)
        self.assertGreater(int(re.findall(r"(\d+) of them", again.stderr)[-1]), seen[-1][1] // 2)

    def test_a_document_that_is_too_long_is_told_in_the_servers_words(self):
        r = self.run_example("document.py", "--document", "-", "--question", QUESTION, stdin=FILLER * 600, expect=1)
        self.assertRegex(r.stderr, r"^400: .*8192")
        self.assertEqual(r.stdout, "")

    def test_questions_about_a_pdf(self):
        write_pdf(self.path("my.pdf"), [FILLER] * 3 + [FACT] + [FILLER] * 3)
        tools = os.environ["PATH"]
        if not shutil.which("pdftotext"):
            with open(self.path("pdftotext"), "w", encoding="utf-8") as f:
                f.write(PDFTOTEXT.replace("{python}", sys.executable))
            os.chmod(self.path("pdftotext"), stat.S_IRWXU)
            tools = self.folder.name + os.pathsep + tools
        r = self.run_example("pdf.sh", "my.pdf", QUESTION, QUESTION, PATH=tools)
        self.assertEqual(r.stdout.splitlines(), [QUESTION, FACT, QUESTION, FACT])
        self.run_example("pdf.sh", "my.pdf", expect=2)

    def test_load_prints_and_writes_what_it_measured(self):
        r = self.run_example("load.sh", "--concurrency", "1,2", "--lengths", "128", "--output-tokens", "4", "--rounds", "1")
        self.assertIn("ttft p50", r.stdout)
        with open(self.path("load.csv"), encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([(x["concurrency"], x["prompt_tokens"], x["ok"], x["failed"]) for x in rows],
                         [("1", "128", "1", "0"), ("2", "128", "2", "0")])

    def test_those_that_are_opt_in_are_well_formed(self):
        for name in ("docker.sh", "replicas/run.sh"):
            subprocess.run(["sh", "-n", os.path.join(EXAMPLES, name)], check=True)
        with open(os.path.join(EXAMPLES, "openai_client.py"), encoding="utf-8") as f:
            compile(f.read(), "openai_client.py", "exec")

    def test_the_compose_file_keeps_the_documents_where_the_image_lets_it(self):
        with open(os.path.join(EXAMPLES, "compose.yaml"), encoding="utf-8") as f:
            compose = read_yaml(f.read())
        with open(os.path.join(ROOT, "Dockerfile"), encoding="utf-8") as f:
            dockerfile = f.read()
        service, user = compose["services"]["longflash"], re.search(r"^USER (\d+):(\d+)$", dockerfile, re.M)
        owned = re.search(r"^RUN install -d -m 700 -o (\d+) -g (\d+) (\S+)$", dockerfile, re.M)
        self.assertEqual(owned.groups()[:2], user.groups())
        (volume, place), = [mount.split(":") for mount in service["volumes"]]
        self.assertEqual((place, service["environment"]["LONGFLASH_CACHE_DIR"]), (owned.group(3), owned.group(3)))
        self.assertIn(volume, compose["volumes"])
        self.assertTrue(os.path.exists(os.path.join(EXAMPLES, service["build"], "Dockerfile")))
        self.assertEqual((service["read_only"], service["cap_drop"]), ("true", ["ALL"]))
        r = subprocess.run([self.server.program, "plan", "--ctx", "8192", "--json"], env={**os.environ, **service["environment"]},
                           cwd=ROOT, text=True, capture_output=True, timeout=60 * harness.SLOW)
        self.assertEqual(r.returncode, 0, r.stderr)  # it would refuse a setting that it does not know
        self.assertEqual(json.loads(r.stdout)["disk_bytes"], 64 << 30)

    def test_each_script_can_be_run_and_is_listed(self):
        with open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8") as f:
            listed = set(re.findall(r"^\| \[(\S+)\]", f.read(), re.M))
        there = {os.path.relpath(os.path.join(where, name), EXAMPLES) for where, _, names in os.walk(EXAMPLES) for name in names
                 if name.endswith((".sh", ".py", ".yaml"))}
        self.assertEqual(listed, there)
        for name in there - {"compose.yaml"}:
            self.assertTrue(os.access(os.path.join(EXAMPLES, name), os.X_OK), name)


if __name__ == "__main__":
    unittest.main(verbosity=1)
