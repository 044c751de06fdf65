"""Bytes that prefill attention moves, counted by ncu, beside what theory says; one causal sequence of each length.

    python3 tests/bench/hbm/attn_hbm.py [--lib attn.so] [--csv out.csv]

Compulsory: queries, keys, values and output once. L2 to SM, theory: each tile of 128 packed rows reads the keys and
values it sees. Unfused: scores and weights written and read in 16 bits, 8 · N² · heads bytes.
"""
import argparse
import csv
import io
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gpu"))
import attn_kernels as c  # noqa: E402

HEADS, KV_HEADS, DIM = 32, 8, 128
LENGTHS = [1024 << i for i in range(8)]
METRICS = ["dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_op_read.sum", "gpu__time_duration.sum"]


def child(lib):
    lib = c.library(lib)
    for n in LENGTHS:
        store = c.Store([n], None, HEADS, KV_HEADS, DIM, n_layers=1, layer=0, plain=True)
        c.Step(lib, store, [(0, n, n, False)], lse=False, overlaps=True, prefill="prefill_sm90").run()


def count(lib):
    """[{metric: value}] in the order of LENGTHS; bytes, sectors, nanoseconds."""
    out = subprocess.run(["ncu", "--csv", "--print-units", "base", "--cache-control", "all", "--clock-control", "none",
                          "-k", "regex:attn_prefill", "--metrics", ",".join(METRICS), sys.executable, os.path.abspath(__file__),
                          "--child", lib], capture_output=True, text=True, check=True).stdout
    lines = [x for x in out.splitlines() if x.startswith('"')]
    runs = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        runs.setdefault(int(row["ID"]), {})[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return [runs[i] for i in sorted(runs)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", help="shared library of the kernels; else LF_ATTN_SO, or built")
    p.add_argument("--csv")
    p.add_argument("--commit", default="")
    p.add_argument("--child", help="library; what ncu watches")
    a = p.parse_args()
    if a.child:
        return child(a.child)
    lib = a.lib or os.environ.get("LF_ATTN_SO") or c.build()
    stamp, rows = c.stamp(a.commit), []
    for n, m in zip(LENGTHS, count(lib)):
        compulsory = (2 * HEADS + 2 * KV_HEADS) * n * DIM * 2
        l2_theory = HEADS * n * (n / 2 + 64) / 128 * 2 * DIM * 2
        row = [n, compulsory, int(m[METRICS[0]]), int(m[METRICS[1]]), int(l2_theory), int(m[METRICS[2]]) * 32,
               8 * n * n * HEADS, "%.1f" % (m[METRICS[3]] / 1e3)]
        rows.append([*stamp.values(), *row])
        print("%7d  compulsory %8.1f MB  DRAM read %9.1f write %8.1f  L2 theory %10.0f read %10.0f  unfused %9.0f MB" %
              (n, *(x / 1e6 for x in row[1:7])), flush=True)
    if a.csv:
        with open(a.csv, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow([*stamp, "tokens", "compulsory_bytes", "dram_read", "dram_write", "l2_theory_bytes", "l2_read",
                        "unfused_bytes", "us"])
            w.writerows(rows)
    return None


if __name__ == "__main__":
    main()
