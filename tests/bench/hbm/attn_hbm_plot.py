"""Draws the bytes that prefill attention moves beside theory, from the CSV file of attn_hbm.py, as an SVG.

    python3 tests/bench/hbm/attn_hbm_plot.py results/attn_h100.csv results/attn_h100.svg

Both axes are logarithmic. Python's standard library only.
"""
import csv
import math
import sys

LINES = [("unfused, theory", "#888888", "4 3", lambda r: r["unfused_bytes"]),
         ("L2 to SM, theory", "#2c6fbb", "4 3", lambda r: r["l2_theory_bytes"]),
         ("L2 read", "#2c6fbb", "", lambda r: r["l2_read"]),
         ("DRAM read and written", "#c0392b", "", lambda r: r["dram_read"] + r["dram_write"]),
         ("each byte once", "#c0392b", "4 3", lambda r: r["compulsory_bytes"])]
UNITS = [(1e6, "1 MB"), (1e7, "10 MB"), (1e8, "100 MB"), (1e9, "1 GB"), (1e10, "10 GB"), (1e11, "100 GB"), (1e12, "1 TB"),
         (1e13, "10 TB")]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 520, 320, 62, 40, 170, 34


def draw(rows, gpu, date):
    tokens = [r["tokens"] for r in rows]

    def x(n):
        return LEFT + WIDTH * math.log(n / tokens[0]) / math.log(tokens[-1] / tokens[0])

    def y(n_bytes):
        return TOP + HEIGHT * (1 - math.log10(n_bytes / UNITS[0][0]) / math.log10(UNITS[-1][0] / UNITS[0][0]))

    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">'
           % (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM), '<rect width="100%" height="100%" fill="white"/>',
           '<text x="%d" y="20" font-weight="bold">bytes of one causal sequence, head_dim 128, 32/8 heads, bf16</text>' % LEFT,
           '<text x="%d" y="20" text-anchor="end">%s, %s</text>' % (LEFT + WIDTH + RIGHT - 10, gpu, date)]
    for n_bytes, label in UNITS:
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e4e4e4"/>' % (LEFT, LEFT + WIDTH, y(n_bytes), y(n_bytes)))
        out.append('<text x="%d" y="%.1f" text-anchor="end">%s</text>' % (LEFT - 6, y(n_bytes) + 4, label))
    for n in tokens:
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%dK</text>' % (x(n), TOP + HEIGHT + 20, n // 1024))
    for name, color, dash, bytes_of in LINES:
        points = " ".join("%.1f,%.1f" % (x(r["tokens"]), y(bytes_of(r))) for r in rows)
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>' % (points, color, dash))
        end = y(bytes_of(rows[-1])) + (9 if name == "L2 read" else 0 if dash == "" or "L2" not in name else -5)
        out.append('<text x="%d" y="%.1f" fill="%s">%s</text>' % (LEFT + WIDTH + 8, end + 4, color, name))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    with open(sys.argv[1]) as f:
        text = list(csv.DictReader(f))
    rows = [{k: float(v) for k, v in r.items() if k not in ("date", "gpu", "driver", "commit")} for r in text]
    with open(sys.argv[2], "w") as f:
        f.write(draw(rows, text[0]["gpu"], text[0]["date"]))


main()
