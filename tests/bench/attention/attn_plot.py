"""Draws the lines of attn_bench.py's CSV as an SVG: TFLOP/s over the length, one panel for each head_dim.

    python3 tests/bench/attention/attn_plot.py results/prefill_h100.csv results/prefill_h100.svg
"""
import csv
import sys

PANELS = [("d64", "head_dim 64, 32/32 heads"), ("d128", "head_dim 128, 32/8 heads"), ("d256", "head_dim 256, 8/8 heads")]
LINES = [("ours", "LongFlash", "#c0392b"), ("cudnn", "cuDNN", "#2c6fbb"), ("fa2", "FlashAttention-2", "#2e8b57"),
         ("unfused", "unfused", "#888888")]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP, TOP_RATE = 290, 260, 46, 46, 44, 40, 900


def panel(rows, case, title, x0, out):
    points = {name: sorted((int(r["keys"]), float(r["tflops"])) for r in rows
                           if r["case"] == case and r["implementation"] == name) for name, _, _ in LINES}
    lengths = sorted({n for line in points.values() for n, _ in line})

    def x(n):
        return x0 + WIDTH * lengths.index(n) / (len(lengths) - 1)

    def y(rate):
        return TOP + HEIGHT * (1 - rate / TOP_RATE)

    out.append('<text x="%d" y="%d" text-anchor="middle" font-weight="bold">%s</text>' % (x0 + WIDTH / 2, TOP - 12, title))
    for rate in range(0, TOP_RATE + 1, 100):
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e4e4e4"/>' % (x0, x0 + WIDTH, y(rate), y(rate)))
        if x0 == LEFT:
            out.append('<text x="%d" y="%.1f" text-anchor="end">%d</text>' % (x0 - 6, y(rate) + 4, rate))
    for n in lengths:
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%dK</text>' % (x(n), TOP + HEIGHT + 16, n // 1024))
    for name, _, color in LINES:
        if not points[name]:
            continue
        path = " ".join("%.1f,%.1f" % (x(n), y(rate)) for n, rate in points[name])
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (path, color))
        out += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (x(n), y(rate), color) for n, rate in points[name]]


def main(source, target):
    with open(source, newline="") as f:
        rows = list(csv.DictReader(f))
    width = LEFT + len(PANELS) * (WIDTH + GAP) + 10
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">' %
           (width, TOP + HEIGHT + BOTTOM), '<rect width="100%" height="100%" fill="white"/>']
    for i, (case, title) in enumerate(PANELS):
        panel(rows, case, title, LEFT + i * (WIDTH + GAP), out)
    for i, (_, label, color) in enumerate(LINES):
        at = LEFT + i * 150
        out.append('<rect x="%d" y="%d" width="14" height="4" fill="%s"/>' % (at, TOP + HEIGHT + 30, color))
        out.append('<text x="%d" y="%d">%s</text>' % (at + 20, TOP + HEIGHT + 36, label))
    out.append('<text x="%d" y="%d" text-anchor="end">causal prefill, bf16, TFLOP/s over tokens; %s, %s</text>' %
               (width - 12, TOP + HEIGHT + 36, rows[0]["gpu"], rows[0]["date"]))
    out.append("</svg>")
    with open(target, "w") as f:
        f.write("\n".join(out) + "\n")


main(*sys.argv[1:3])
