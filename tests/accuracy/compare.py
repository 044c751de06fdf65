#!/usr/bin/env python3
"""What a setting costs in accuracy: configurations B of a model against configuration A of it.

    compare.py                                                       the demo model against itself: all divergences are 0
    compare.py --b "--kv-dtype f32" --lengths 1K:16,16K:4            its KV cache in fp32 against bf16
    compare.py --model DIR --a "" --b "--quantize int8" --b "--quantize int4" --csv cost.csv
    compare.py --model DIR --model-b DIR-FP8 --both "--device cuda:0"    a quantized checkpoint against the one it is of

--a and --b are options of `longflash run`, --both those of all sides. It measures

  texts        --windows pieces of each --text, --tokens long: the distributions of the last --scored positions of each
  documents    of each of --lengths (LENGTH:COUNT) so many documents: questions about facts in them, needles
               at ten depths, and one question about what is not there; the distributions along A's own answer
  answers      the greedy answer of each side: right where it holds the value that was hidden in the document

and prints of each the divergence KL(A || B) in nats at a position, how often both find the same token the likeliest, the
answers that are right, and how many of A's right ones B has lost, and won. Where a vocabulary has more than --top
tokens, all but A's likeliest are taken as one, and the divergence is at most that of the whole.

It needs a build with tests (--driver, or $LF_ACCURACY_DRIVER). A and B run one after the other; between them stands
a file of --top · 8 bytes for each position, in the system's folder for temporary files, or in that of --keep. Python's
standard library only."""
import argparse
import csv
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tasks  # noqa: E402

DRIVER = os.path.join(tasks.ROOT, "build/release/tests/accuracy/accuracy_driver")


class Failure(Exception):
    """What the driver refused, or what it did not print."""


class Group:
    """A row of the table: the results, in the driver's order, of tasks of one kind."""

    def __init__(self, name, length=None, questions=None):
        self.name, self.length, self.questions = name, length, questions


def parse_size(text):
    unit = {"K": 1024, "M": 1 << 20}.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def parse_lengths(text):
    """[(label, tokens, documents)] of "1K:16,16K:4"."""
    out = []
    for part in filter(None, text.split(",")):
        label, _, n = part.partition(":")
        out.append((label, parse_size(label), int(n or 1)))
        if out[-1][1] < 1 or out[-1][2] < 1:
            raise ValueError(f"--lengths {part}: expected LENGTH:COUNT, both above 0")
    return out


def make_tasks(args):
    """Lines for the driver, and of each line that it will print the group and, of documents, the question."""
    lines, owners = [], []
    for name in args.text if args.windows else []:
        label, text = tasks.read_text(name)
        group = Group(label)
        found = tasks.windows(text, args.windows, args.tokens, args.scored)
        lines += found
        owners += [(group, None)] * len(found)
    for label, tokens, n in parse_lengths(args.lengths):
        groups = {kind: Group(kind, label) for kind in ("fact", "needle", "absent")}
        for i in range(n):
            task, questions = tasks.document(tokens, args.seed + i, args.chars_per_token)
            lines.append(task)
            owners += [(groups[q.kind], q) for q in questions]
    return lines, owners


def run_driver(args, model, options, what, task_path, n_lines):
    """The lines that it prints, parsed."""
    command = [args.driver, "--model", model, "--max-tokens", str(args.max_tokens), *shlex.split(args.both),
               *shlex.split(options), *what]
    out = []
    with open(task_path, "rb") as stdin, \
            subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            out.append(json.loads(line))
            if sys.stderr.isatty():
                print(f"\r{len(out)} of {n_lines}  ", end="", file=sys.stderr)
        message = run.stderr.read().strip()
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    if run.returncode != 0 or len(out) != n_lines:
        raise Failure(f"{shlex.join(command[:-len(what)])}: {message or 'no message'} ({len(out)} of {n_lines} results)")
    return out


def quantile(values, q):
    """The least value that a share q of them does not exceed."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def mean(values):
    return math.fsum(values) / len(values)


def summarize(group, pairs):
    """The row of a group: pairs are (question, A's result, B's result)."""
    kl = [x for _, _, b in pairs for x in b["kl"]]
    same = [x for _, _, b in pairs for x in b["same"]]
    row = {"what": group.name, "length": group.length or "", "n": len(pairs),
           "tokens": round(mean([a["tokens"] for _, a, _ in pairs])), "positions": len(kl), "kl_mean": mean(kl),
           "kl_99": quantile(kl, .99), "kl_max": max(kl), "same_top": mean(same)}
    if group.length is None:
        for side, i in (("a", 1), ("b", 2)):
            row["perplexity_" + side] = math.exp(mean([x for pair in pairs for x in pair[i]["nll"]]))
        return row
    right = [(q.is_right(a["answer"]), q.is_right(b["answer"])) for q, a, b in pairs]
    row.update(right_a=sum(a for a, _ in right), right_b=sum(b for _, b in right),
               lost=sum(a and not b for a, b in right), won=sum(b and not a for a, b in right))
    return row


def table_line(row):
    def exact(key):
        return str(row[key]) if key in row else ""
    def real(key, form):
        return form % row[key] if key in row else ""
    return [f"{row['what']} {row['length']}".strip(), exact("n"), exact("tokens"), exact("positions"),
            real("kl_mean", "%.2e"), real("kl_99", "%.2e"), real("kl_max", "%.2e"), "%.2f%%" % (100 * row["same_top"]),
            real("perplexity_a", "%.4g"), real("perplexity_b", "%.4g"), exact("right_a"), exact("right_b"), exact("lost"),
            exact("won")]


def print_table(head, lines):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def print_needles(pairs):
    """Right answers of both sides by depth and length; nothing where no document was asked about."""
    lengths = list(dict.fromkeys(group.length for group, q, _, _ in pairs if q and q.kind == "needle"))
    lines = []
    for tenth in range(10) if lengths else []:
        line = [f"{10 * tenth}–{10 * tenth + 10}%"]
        for length in lengths:
            cell = [(q.is_right(a["answer"]), q.is_right(b["answer"])) for group, q, a, b in pairs if q and
                    q.kind == "needle" and group.length == length and int(q.depth * 10) == tenth]
            line.append(f"{sum(a for a, _ in cell)}, {sum(b for _, b in cell)} of {len(cell)}" if cell else "")
        lines.append(line)
    if lines:
        print("Needles that A and B found, by depth:\n")
        print_table(["depth", *lengths], lines)


def report(name, owners, a, b):
    """Prints what B costs; the rows."""
    pairs = [(*owner, x, y) for owner, x, y in zip(owners, a, b)]
    groups = list(dict.fromkeys(group for group, _ in owners))
    rows = [summarize(g, [p[1:] for p in pairs if p[0] is g]) for g in groups]
    print(f"B: {name}\n")
    print_table(["what", "n", "tokens", "positions", "KL mean", "KL 99%", "KL max", "top 1 alike", "perplexity A", "B",
                 "right A", "right B", "lost", "won"], [table_line(row) for row in rows])
    print_needles(pairs)
    sys.stdout.flush()
    return [{"b": name, **row} for row in rows]


def label_of(model, options, both):
    return " ".join(filter(None, [os.path.relpath(model) if os.path.isdir(model) else model, both, options]))


def record(args, folder, task_path, n_lines):
    """A's results; its distributions are in the file "reference" of the folder. Where it was kept, it is not run."""
    kept_path = os.path.join(folder, "a.json")
    mine = {"a": label_of(args.model, args.a, args.both), "top": args.top, "max_tokens": args.max_tokens}
    if os.path.exists(kept_path):
        with open(kept_path, encoding="utf-8") as f:
            kept = json.load(f)
        if kept["of"] != mine or len(kept["results"]) != n_lines:
            raise ValueError(f"--keep {folder} is of {kept['of']} with {len(kept['results'])} results, "
                             f"expected {mine} with {n_lines}")
        return kept["results"]
    what = ["record", os.path.join(folder, "reference"), str(args.top)]
    results = run_driver(args, args.model, args.a, what, task_path, n_lines)
    with open(kept_path, "w", encoding="utf-8") as f:
        json.dump({"of": mine, "results": results}, f)
    return results


def measure(args, folder):
    """All rows of all B. folder: for files."""
    lines, owners = make_tasks(args)
    if not lines:
        raise ValueError("nothing to measure: --windows is 0 and --lengths is empty")
    rows, model_b, name_a = [], args.model_b or args.model, label_of(args.model, args.a, args.both)
    task_path = os.path.join(folder, "tasks")
    with open(task_path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"A: {name_a}", flush=True)
    a = record(args, folder, task_path, len(owners))
    for options in args.b or [""]:
        b = run_driver(args, model_b, options, ["compare", os.path.join(folder, "reference")], task_path, len(owners))
        rows += report(label_of(model_b, options, args.both), owners, a, b)
    return [{"a": name_a, **row} for row in rows]


def write_results(args, rows):
    if args.csv:
        names = list(dict.fromkeys(name for row in rows for name in row))
        with open(args.csv, "w", newline="", encoding="utf-8") as f:
            writer = csv.DictWriter(f, names)
            writer.writeheader()
            writer.writerows(rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
            f.write("\n")


def judge(args, rows):
    """What is past the bounds that were given, in words."""
    for row in rows:
        where = f"{row['b']}, {row['what']} {row['length']}".strip()
        if args.max_kl is not None and row["kl_mean"] > args.max_kl:
            yield f"{where}: a mean KL of {row['kl_mean']:.3g}, {args.max_kl:g} at most"
    for b in dict.fromkeys(row["b"] for row in rows):
        lost = sum(row.get("right_a", 0) - row.get("right_b", 0) for row in rows if row["b"] == b)
        if args.max_lost is not None and lost > args.max_lost:
            yield f"{b}: {lost} right answers fewer than A, {args.max_lost} at most"


def say_past(past):
    """Says which bounds were passed; the exit status."""
    past = list(past)
    for line in past:
        print(line, file=sys.stderr)
    return 1 if past else 0


def read_arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", default=os.path.join(tasks.ROOT, "demo", "model"), help="(default: the demo model)")
    ap.add_argument("--model-b", help="another checkpoint with the same tokenizer (default: that of --model)")
    ap.add_argument("--a", default="", help="options of configuration A (default: none)")
    ap.add_argument("--b", action="append", help="options of configuration B; may be given several times (default: none)")
    ap.add_argument("--both", default="", help="options of all configurations")
    ap.add_argument("--lengths", default="1K:16,16K:4,64K:1,128K:1", help="documents, LENGTH:COUNT (default %(default)s); "
                    "'' for none")
    ap.add_argument("--windows", type=int, default=512, help="of each text (default 512); 0 for none")
    ap.add_argument("--tokens", type=int, default=512, help="of a window (default 512)")
    ap.add_argument("--scored", type=int, default=64, help="positions at a window's end (default 64)")
    ap.add_argument("--text", action="append", help="a file, plain or .gz, books (demo/train/books.txt.gz) or docs (this "
                    "repository's); may be given several times (default books, docs)")
    ap.add_argument("--top", type=int, default=1024, help="A's likeliest tokens that are kept apart (default 1024)")
    ap.add_argument("--max-tokens", type=int, default=64, help="of an answer (default 64)")
    ap.add_argument("--chars-per-token", type=float, default=3.5, help="to cut documents to a length (default 3.5)")
    ap.add_argument("--seed", type=int, default=1, help="of the documents (default 1)")
    ap.add_argument("--max-kl", type=float, help="exit with 1 where the mean of a row is more")
    ap.add_argument("--max-lost", type=int, help="exit with 1 where so many more of B's answers are wrong than of A's")
    ap.add_argument("--keep", metavar="FOLDER", help="what A said is kept here, and taken from here the next time")
    ap.add_argument("--csv", help="also write the rows here")
    ap.add_argument("--json", help="and here")
    ap.add_argument("--driver", default=os.environ.get("LF_ACCURACY_DRIVER", DRIVER))
    args = ap.parse_args()
    args.text = args.text or ["books", "docs"]
    return args


def main():
    args = read_arguments()
    try:
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
            rows = measure(args, args.keep)
        else:
            with tempfile.TemporaryDirectory(prefix="accuracy") as folder:
                rows = measure(args, folder)
        write_results(args, rows)
    except (Failure, OSError, ValueError) as e:
        sys.exit(f"compare.py: {e}")
    return say_past(judge(args, rows))


if __name__ == "__main__":
    sys.exit(main())
