#!/usr/bin/env python3
"""Lines and branches that the tests reached, folder by folder, from a build with -DLF_COVERAGE=ON:

    cmake --preset coverage && cmake --build build/coverage -j2
    ctest --test-dir build/coverage -L 'unit|golden|sim|fuzz' -j2
    python3 tests/coverage.py build/coverage              the table
    python3 tests/coverage.py build/coverage tokenizer/   the same for each file below, with the lines not reached
    python3 tests/coverage.py build/coverage --require parsers=95
                                                          each file of a group, and exit status 1 where the group's
                                                          branches are taken to less than this share; with --missed
                                                          also the branches that were not

A branch is one outcome of a condition, as gcov counts them; those of LF_ASSERT are left out, since no test may reach
them."""
import collections
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ["core", "device", "tokenizer", "template", "grammar", "kv", "attention", "model", "server/engine", "server/http", "server"]


# What reads bytes that others wrote. Not the evaluation of templates (the rest of jinja_*): it reads a tree of our own.
GROUPS = {
    "parsers": ["core/json.c", "core/json_read.c", "core/str.c", "model/safetensors.c", "model/hparams.c",
                "model/arch/experts.c", "model/formats/awq.c", "model/formats/compressed_tensors.c", "model/formats/fp4.c",
                "model/formats/fp8.c", "model/formats/gptq.c", "model/formats/modelopt.c", "model/formats/modules.c",
                "model/formats/packing.c", "model/formats/quantization.c", "model/formats/quantized.c", "model/unpack.c",
                "grammar/compilation.c", "grammar/dfa.c", "grammar/free_text.c", "grammar/json_string.c", "grammar/nfa.c",
                "grammar/number.c", "grammar/regex.c", "grammar/schema.c", "grammar/schema_array.c", "grammar/schema_common.c",
                "grammar/schema_expand.c", "grammar/schema_format.c", "grammar/schema_object.c", "grammar/schema_scalar.c",
                "grammar/schema_value.c",
                "tokenizer/hf/added.c", "tokenizer/hf/bpe_open.c", "tokenizer/config.c", "tokenizer/hf/hf_decoder.c",
                "tokenizer/hf/hf_open.c", "template/answer/answer_channels.c", "template/answer/answer_gemma.c",
                "template/answer/answer_object.c", "template/answer/answer_out.c", "template/answer/answer_parameters.c",
                "template/answer/answer_parser.c", "template/answer/answer_steps.c", "template/answer/answer_value.c",
                "template/answer/json_scan.c", "template/jinja/jinja_lex.c", "template/jinja/jinja_parse.c",
                "template/jinja/jinja_parse_expr.c", "tokenizer/hf/normalize.c", "tokenizer/hf/pretokenize.c",
                "tokenizer/hf/regex_rewrite.c", "tokenizer/spm/spm_open.c", "tokenizer/spm/spm_proto.c", "tokenizer/vocab.c"],
}


def data_files(build):
    for where, _, names in os.walk(build):
        for name in sorted(names):
            if name.endswith(".gcda"):
                yield os.path.abspath(os.path.join(where, name))


def read(build):
    """{path: ({line: count}, {(line, index): count})} of our own .c and .cc files."""
    files = collections.defaultdict(lambda: (collections.Counter(), collections.Counter()))
    for data in data_files(build):
        out = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", data], capture_output=True,
                             cwd=os.path.dirname(data), check=True).stdout
        where = data.split("/CMakeFiles/")[0]  # the compiler ran there: a compiler cache makes names relative to it
        for text in out.splitlines():
            for f in json.loads(text)["files"]:
                path = os.path.relpath(os.path.join(where, f["file"]), ROOT)
                if path.startswith(("..", "tests/")) or not path.endswith((".c", ".cc")):
                    continue
                lines, branches = files[path]
                for line in f["lines"]:
                    lines[line["line_number"]] += line["count"]
                    for i, b in enumerate(line["branches"]):
                        if not b.get("throw"):
                            branches[line["line_number"], i] += b["count"]
    return files


def without_asserts(path, branches):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read().splitlines()
    return {k: n for k, n in branches.items() if "LF_ASSERT(" not in text[k[0] - 1]}


def folder_of(path):
    return next((f for f in FOLDERS if path.startswith(f + "/")), os.path.dirname(path))


def share(counts):
    return 100.0 * sum(n > 0 for n in counts) / len(counts) if counts else 100.0


def missed(lines):
    """Ranges of lines that were not reached: "12-15, 20"."""
    out = []
    for line in sorted(n for n, count in lines.items() if count == 0):
        if out and line <= out[-1][1] + 2:
            out[-1][1] = line
        else:
            out.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def where(path, taken):
    """A branch that was not taken: its line, which of the line's outcomes, and the line's text."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read().splitlines()
    for line in sorted({k[0] for k, n in taken.items() if n == 0}):
        outcomes = [n for k, n in sorted(taken.items()) if k[0] == line]
        missing = ",".join(str(i) for i, n in enumerate(outcomes) if n == 0)
        print(f"  {path}:{line}: {missing} of {len(outcomes)}: {text[line - 1].strip()}")


def require(files, rule, show_missed):
    """Whether a group's branches are taken to the share that a rule "group=percent" asks for."""
    name, _, percent = rule.partition("=")
    everything = []
    for path in GROUPS[name]:
        if path not in files:
            sys.exit(f"{name}: {path} was not run at all")
        taken = without_asserts(path, files[path][1])
        everything += taken.values()
        print(f"{path}: {len(taken)} branches, {share(taken.values()):.1f}% taken")
        if show_missed:
            where(path, taken)
    is_share = share(everything)
    enough = is_share >= float(percent)
    print(f"{name}: {is_share:.1f}% of branches ({sum(n > 0 for n in everything)} of {len(everything)}), {percent}% are required"
          f"{'' if enough else ': TOO FEW'}")
    return enough


def main():
    files = read(sys.argv[1])
    if not files:
        sys.exit(f"{sys.argv[1]}: no .gcda in it: build with -DLF_COVERAGE=ON and run the tests")
    if len(sys.argv) > 3 and sys.argv[2] == "--require":
        sys.exit(0 if require(files, sys.argv[3], "--missed" in sys.argv) else 1)
    if len(sys.argv) > 2:
        for path in sorted(p for p in files if p.startswith(sys.argv[2])):
            lines, branches = files[path]
            print(f"{path}: {share(lines.values()):.1f}% of lines, "
                  f"{share(without_asserts(path, branches).values()):.1f}% of branches; not reached: {missed(lines)}")
        return
    print("| folder | lines | reached | branches | taken |\n|---|---|---|---|---|")
    totals = [], []
    for folder in FOLDERS:
        lines, branches = [], []
        for path in files:
            if folder_of(path) == folder:
                lines += files[path][0].values()
                branches += without_asserts(path, files[path][1]).values()
        totals[0].extend(lines)
        totals[1].extend(branches)
        print(f"| {folder} | {len(lines)} | {share(lines):.1f}% | {len(branches)} | {share(branches):.1f}% |")
    print(f"| all | {len(totals[0])} | {share(totals[0]):.1f}% | {len(totals[1])} | {share(totals[1]):.1f}% |")


if __name__ == "__main__":
    main()
