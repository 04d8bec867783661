#!/usr/bin/env python3
"""Draws docs/memory_over_step.svg: the memory of one training step, node by node, at several levels.

    memory_picture.py [--bin build/bin] [--model models/zoo/resnet152.onnx] [--batch 512] [--levels L0,L3,L4]
        [--out FILE]

The numbers are the `timeline` of `actc --report-json`; no step runs. The steps of the levels differ
in their number of nodes. So that the curves can be compared, the forward pass has the same width at
every level, and so has the backward pass."""

import argparse
import json
import math
import os
import subprocess
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
GIB = 2**30
WIDTH, HEIGHT, TOP, BOTTOM, COLUMNS = 800, 390, 66, 322, 150
STYLE = """
  text { font: 13px sans-serif; fill: #24292f; } .title { font-size: 16px; font-weight: bold; }
  .peak { font-weight: bold; }
  .card { fill: #ffffff; stroke: #d0d7de; } .grid { stroke: #d8dee4; }
  .axis { stroke: #57606a; } .middle { text-anchor: middle; }
  .end { text-anchor: end; } .line { fill: none; stroke-width: 2; } .area { opacity: .14; }
  .l0 { stroke: #b35900; } .a0 { fill: #b35900; } .l1 { stroke: #0969da; } .a1 { fill: #0969da; }
  .l2 { stroke: #1a7f37; } .a2 { fill: #1a7f37; } .l3 { stroke: #8250df; } .a3 { fill: #8250df; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .card { fill: #0d1117; stroke: #30363d; }
    .grid { stroke: #30363d; } .axis { stroke: #8b949e; }
    .l0 { stroke: #ffa657; } .a0 { fill: #ffa657; } .l1 { stroke: #58a6ff; } .a1 { fill: #58a6ff; }
    .l2 { stroke: #56d364; } .a2 { fill: #56d364; } .l3 { stroke: #bc8cff; } .a3 { fill: #bc8cff; }
  }
"""


def columns(timeline):
    """The most live bytes in each of COLUMNS parts of the forward pass, then of the backward pass."""
    backward = next(i for i, (node, _) in enumerate(timeline) if node.split()[0].endswith("Grad"))
    highest = []
    for first, nodes in ((0, backward), (backward, len(timeline) - backward)):
        for k in range(COLUMNS):
            begin = first + k * nodes // COLUMNS
            end = max(begin + 1, first + (k + 1) * nodes // COLUMNS)
            highest.append(max(live for _, live in timeline[begin:end]))
    return highest


class Panel:
    def __init__(self, title, left, right, top_value, tick):
        self.title, self.left, self.right, self.top_value, self.tick = title, left, right, top_value, tick

    def y(self, value):
        return BOTTOM - (BOTTOM - TOP) * value / self.top_value

    def axes(self):
        middle = (self.left + self.right) / 2
        svg = [f'<text x="{self.left}" y="{TOP - 14}">{self.title}</text>']
        for value in range(0, math.floor(self.top_value) + 1, self.tick):
            svg.append(
                f'<line class="{"grid" if value else "axis"}" x1="{self.left}" x2="{self.right}" '
                f'y1="{self.y(value):.1f}" y2="{self.y(value):.1f}"/>'
                f'<text class="end" x="{self.left - 7}" y="{self.y(value) + 4.5:.1f}">{value}</text>'
            )
        svg.append(f'<line class="axis" x1="{self.left}" x2="{self.left}" y1="{TOP}" y2="{BOTTOM}"/>')
        svg.append(
            f'<line class="axis" stroke-dasharray="3 4" x1="{middle}" x2="{middle}" y1="{TOP}" y2="{BOTTOM + 8}"/>'
        )
        for x, text in ((0.25, "forward pass"), (0.75, "backward pass, update")):
            at = self.left + x * (self.right - self.left)
            svg.append(f'<text class="middle" x="{at:.1f}" y="{BOTTOM + 19}">{text}</text>')
        return svg

    def points(self, values):
        step = (self.right - self.left) / (len(values) - 1)
        return " ".join(f"{self.left + i * step:.1f},{self.y(v):.1f}" for i, v in enumerate(values))

    def line(self, number, values):
        return f'<polyline class="line l{number}" points="{self.points(values)}"/>'

    def area(self, number, values):
        corners = f"{self.left},{BOTTOM} {self.points(values)} {self.right},{BOTTOM}"
        return f'<polygon class="area a{number}" points="{corners}"/>'


def draw(title, levels):
    """levels: (name, peak in GiB, live GiB by column), the one with the highest peak first."""
    highest, second = levels[0][1], levels[1][1]
    wide = Panel("live memory, GiB", 52, 398, 10 * math.ceil(highest / 10), 10)
    close = Panel("the same from 0 to %d GiB" % math.ceil(second * 1.2), 446, 782, math.ceil(second * 1.2), 1)
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<clipPath id="close"><rect x="{close.left}" y="{TOP}" width="{close.right - close.left}"'
        f' height="{BOTTOM - TOP}"/></clipPath>',
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6"/>',
        f'<text class="title" x="18" y="28">{title}</text>',
    ]
    svg += wide.axes() + close.axes()
    for number, (_, _, values) in enumerate(levels):
        svg += [wide.area(number, values), wide.line(number, values)]
        svg.append('<g clip-path="url(#close)">' + close.line(number, values) + "</g>")
    x = 18
    for number, (name, peak, _) in enumerate(levels):
        svg.append(
            f'<line class="line l{number}" x1="{x}" x2="{x + 26}" y1="{HEIGHT - 22}" y2="{HEIGHT - 22}"'
            ' style="stroke-width:4"/>'
            f'<text class="peak" x="{x + 34}" y="{HEIGHT - 17}">{name}: peak {peak:.1f} GiB</text>'
        )
        x += 175
    svg.append(f'<text class="end" x="{WIDTH - 18}" y="{HEIGHT - 17}">horizontal: nodes in execution order</text>')
    return "\n".join(svg + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "zoo", "resnet152.onnx"))
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--levels", default="L0,L3,L4", help="the first is the one with the highest peak; at most four")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "memory_over_step.svg"))
    args = parser.parse_args()
    levels = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.levels.split(","):
            file = os.path.join(folder, "report.json")
            subprocess.run(
                [
                    os.path.join(args.bin, "actc"),
                    args.model,
                    "-O",
                    name,
                    f"--batch={args.batch}",
                    "--report=none",
                    f"--report-json={file}",
                ],
                check=True,
            )
            with open(file) as report:
                numbers = json.load(report)
            levels.append((name, numbers["peak_bytes"] / GIB, [live / GIB for live in columns(numbers["timeline"])]))
    network = os.path.splitext(os.path.basename(args.model))[0]
    with open(args.out, "w") as file:
        file.write(draw(f"Memory over one training step of {network}, batch {args.batch}", levels))


if __name__ == "__main__":
    main()
