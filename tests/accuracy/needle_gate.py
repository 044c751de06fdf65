#!/usr/bin/env python3
"""Whether an FP8 cache still finds what is hidden in a document: a grid of depth, length and kind of question, for the
cache in bf16 and in FP8, and for one of plain E4M3 codes, with a scale of 1, as programs have it that bring no scales.

    needle_gate.py                                                           the demo model on a CPU, up to 16K tokens
    needle_gate.py --both "--device cuda:0" --lengths 1K:12,4K:5,16K:5,32K:5,64K:5,128K:5 --csv gate.csv

A document has ten places, each a needle (a code) and a fact of another kind; a question asks for each, and one for what is
not there (tasks.py). Beside the right answers of each cell stands the divergence KL(bf16 || other) in nats at a position,
along the answer that the bf16 cache gave. Exits with 1 where the FP8 cache loses more than --points of 100 right answers at
any length: FP8 is a default only where it does not. Options are those of compare.py, whose parts this is made of.

It needs a build with tests; $LF_ACCURACY_DRIVER and $LF_ACCURACY_SCALE_ONE are the two programs. Standard library only."""
import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare  # noqa: E402
import tasks  # noqa: E402

SCALE_ONE = compare.DRIVER + "_scale_one"
KINDS, TENTHS = ("needle", "fact", "absent"), 10


def make_documents(args):
    """(label of the length, question) of each answer, and the driver's lines."""
    lines, asked = [], []
    for label, tokens, n in compare.parse_lengths(args.lengths):
        for i in range(n):
            task, questions = tasks.document(tokens, args.seed + i, args.chars_per_token)
            lines.append(task)
            asked += [(label, q) for q in questions]
    return lines, asked


def answers(args, folder, lines, n):
    """Of the three caches, by name: the driver's results."""
    task_path, file = os.path.join(folder, "tasks"), os.path.join(folder, "reference")
    with open(task_path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    scale_one = argparse.Namespace(**{**vars(args), "driver": args.scale_one})
    return {
        "bf16": compare.run_driver(args, args.model, "--kv-dtype bf16", ["record", file, str(args.top)], task_path, n),
        "fp8": compare.run_driver(args, args.model, "--kv-dtype fp8", ["compare", file], task_path, n),
        "e4m3, scale 1": compare.run_driver(scale_one, args.model, "--kv-dtype fp8", ["compare", file], task_path, n),
    }


def cell_of(question):
    return question.kind, "" if question.depth is None else int(question.depth * TENTHS)


def grid(asked, results):
    """A row for each length, kind, depth in tenths, and cache."""
    rows = []
    for length, kind, tenth in dict.fromkeys((length, *cell_of(q)) for length, q in asked):
        here = [i for i, (l, q) in enumerate(asked) if l == length and cell_of(q) == (kind, tenth)]
        for cache, got in results.items():
            kl = [x for i in here for x in got[i]["kl"]]
            rows.append({"length": length, "kind": kind, "depth": "" if tenth == "" else tenth / TENTHS, "cache": cache,
                         "questions": len(here), "right": sum(asked[i][1].is_right(got[i]["answer"]) for i in here),
                         "tokens": round(compare.mean([got[i]["tokens"] for i in here])), "positions": len(kl),
                         "kl_mean": compare.mean(kl), "kl_max": max(kl)})
    return rows


def right(rows, cache, **where):
    """(right answers, questions, mean KL) of a cache in all cells that are so."""
    mine = [r for r in rows if r["cache"] == cache and all(r[k] == v for k, v in where.items())]
    n = sum(r["positions"] for r in mine)
    kl = sum(r["kl_mean"] * r["positions"] for r in mine) / n if n else 0
    return sum(r["right"] for r in mine), sum(r["questions"] for r in mine), kl


def in_order(rows, key):
    return list(dict.fromkeys(r[key] for r in rows))


def print_tables(rows):
    caches, lengths = in_order(rows, "cache"), in_order(rows, "length")
    lines = []
    for length in lengths:
        for kind in KINDS:
            of = [right(rows, cache, length=length, kind=kind) for cache in caches]
            if of[0][1] > 0:
                lines.append([length, kind, str(of[0][1]), *(str(x[0]) for x in of), *("%.1e" % x[2] for x in of[1:])])
    compare.print_table(["length", "kind", "questions", *caches, *(f"KL, {c}" for c in caches[1:])], lines)
    print(f"Needles found by depth: {'; '.join(caches)}\n")
    lines = []
    for tenth in range(TENTHS):
        of = [[right(rows, c, length=n, kind="needle", depth=tenth / TENTHS) for c in caches] for n in lengths]
        lines.append([f"{10 * tenth}%", *("; ".join(str(x[0]) for x in cell) + f" of {cell[0][1]}" for cell in of)])
    compare.print_table(["depth from", *lengths], lines)


def judge(args, rows):
    """What the FP8 cache loses beyond the bound, in words."""
    for length in in_order(rows, "length"):
        before, n, _ = right(rows, "bf16", length=length)
        after = right(rows, "fp8", length=length)[0]
        if 100 * (before - after) > args.points * n:
            yield f"{length}: {after} of {n} right with an FP8 cache, {before} with bf16; {args.points:g} points may be lost"


def read_arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", default=os.path.join(tasks.ROOT, "demo", "model"), help="(default: the demo model)")
    ap.add_argument("--both", default="", help="options of all configurations")
    ap.add_argument("--lengths", default="1K:12,4K:5,16K:2", help="documents, LENGTH:COUNT (default %(default)s)")
    ap.add_argument("--points", type=float, default=1, help="of 100 right answers, that FP8 may lose at a length (default 1)")
    ap.add_argument("--top", type=int, default=1024, help="likeliest tokens that are kept apart (default 1024)")
    ap.add_argument("--max-tokens", type=int, default=64, help="of an answer (default 64)")
    ap.add_argument("--chars-per-token", type=float, default=3.5, help="to cut documents to a length (default 3.5)")
    ap.add_argument("--seed", type=int, default=1, help="of the documents (default 1)")
    ap.add_argument("--csv", help="also write the grid here")
    ap.add_argument("--driver", default=os.environ.get("LF_ACCURACY_DRIVER", compare.DRIVER))
    ap.add_argument("--scale-one", default=os.environ.get("LF_ACCURACY_SCALE_ONE", SCALE_ONE), metavar="DRIVER")
    return ap.parse_args()


def main():
    args = read_arguments()
    try:
        lines, asked = make_documents(args)
        if not lines:
            raise ValueError("nothing to ask: --lengths is empty")
        with tempfile.TemporaryDirectory(prefix="needles") as folder:
            rows = grid(asked, answers(args, folder, lines, len(asked)))
        print_tables(rows)
        compare.write_results(argparse.Namespace(csv=args.csv, json=None), rows)
    except (compare.Failure, OSError, ValueError) as e:
        sys.exit(f"needle_gate.py: {e}")
    return compare.say_past(judge(args, rows))


if __name__ == "__main__":
    sys.exit(main())
