#!/usr/bin/env python3
"""Writes docs/models.md from the results of sweep.py.

    table.py results.jsonl >docs/models.md"""

from __future__ import annotations

import collections
import importlib.metadata
import json
import re
import sys
from typing import Any, Dict, List, Tuple

EXPORTERS = ("torchscript", "dynamo")
# What a cell of the table says for each stage that failed. Models that the row itself cannot build
# are not listed.
KINDS = {"export": "not exported", "compile L3": "refused", "train L3": "fails", "check L0": "differs", "process": "not finished"}
# Errors whose texts hold names and numbers of one model, and what they have in common.
CAUSES = (
    (r"output size that are not factor of input size", "an adaptive pool whose output does not divide its input"),
    (r"operator '?(aten::\w+)'?.*(not supported|unsupported)", r"no ONNX form of `\1`"),
    (r"GuardOnDataDependent|data-dependent|Could not guard", "Python code that branches on data"),
    (r"No ONNX function found for.*?(aten\.[\w.]+)", r"no ONNX form of `\1`"),
    (r"draws random numbers", "it draws random numbers beside dropout, so that steps cannot be compared"),
    (r"more than [\d.]+ seconds", "it took longer than the limit"),
)


def read(path: str) -> Dict[Tuple[str, str], Dict[str, Any]]:
    """The last result of each row and exporter."""
    found = {}
    with open(path) as file:
        for line in file:
            entry = json.loads(line)
            found[entry["row"], entry["exporter"]] = entry
    return found


def cause(error: str) -> str:
    for pattern, text in CAUSES:
        match = re.search(pattern, error, re.S)
        if match:
            return match.expand(text)
    text = re.sub(r"^\w+: ", "", error.splitlines()[0])
    text = re.sub(r"(actc|actrun): error: |/\S*\.onnx: |node '[^']*' ?|PyTorch's exporter failed: ", "", text)
    return text.split(" | ")[0].replace("|", "\\|")[:140]


def cell(entry: Dict[str, Any] | None) -> str:
    if entry is None:
        return "not tried"
    if entry["stage"] == "done":
        return "works" if entry.get("batch", "N") else "works, with a fixed batch"
    return f"{KINDS.get(entry['stage'], entry['stage'])}: {cause(entry.get('error', ''))}"


def numbers(results: Dict[Tuple[str, str], Dict[str, Any]]) -> List[str]:
    lines = ["| library | exporter | families | exported | compile | two steps, peak as planned | match autograd |", "|---|---|---|---|---|---|---|"]
    order = ["build", "process", "export", "compile L3", "train L3", "check L0", "done"]
    for library in ("torchvision", "timm", "transformers"):
        for exporter in EXPORTERS:
            stages = [order.index(e["stage"]) for (row, by), e in results.items() if row.startswith(library + "/") and by == exporter]
            tried = [s for s in stages if s > 0]
            counts = [sum(s > least for s in tried) for least in (2, 3, 4, 5)]
            lines.append(f"| {library} | {exporter} | {len(tried)} | " + " | ".join(map(str, counts)) + " |")
    return lines


def families(results: Dict[Tuple[str, str], Dict[str, Any]], library: str) -> List[str]:
    """Those that work with every exporter as a list, all others as a table."""
    rows = collections.defaultdict(dict)
    for (row, exporter), entry in results.items():
        if row.startswith(library + "/") and entry["stage"] != "build":
            rows[row.split("/", 1)[1]][exporter] = entry
    cells = {name: tuple(cell(by.get(exporter)) for exporter in EXPORTERS) for name, by in rows.items()}
    good = [name for name, texts in cells.items() if set(texts) == {"works"}]
    lines = [f"Work with both exporters ({len(good)}): " + ", ".join(sorted(good)) + ".", "", "| family | TorchScript | dynamo |", "|---|---|---|"]
    lines += [f"| {name} | {a} | {b} |" for name, (a, b) in sorted(cells.items()) if name not in good]
    return lines


def wrap(text: str, width: int = 120) -> str:
    import textwrap

    return text if text.startswith("|") else textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    results = read(sys.argv[1])
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "torchvision", "timm", "transformers", "onnx"))
    lines = [
        "# Models",
        "Which architectures the two exporters of PyTorch write in a form that actc trains. "
        "Written by `make sweep`; its rows are in `scripts/sweep`.",
        "",
        f"Versions: {versions}. Each family is its smallest variant, cut in depth and size, with random weights and a batch of four of any "
        "size (`N`). \"Works\" says that the helper of `python/README.md` exports it, that a plan at L3 trains two steps whose measured peak is "
        "the planned one, and that loss and gradients of a step at L0 are those of PyTorch's autograd. Dropout and drop path are off.",
        "",
        *numbers(results),
    ]
    for library in ("torchvision", "timm", "transformers"):
        lines += ["", f"## {library}", *families(results, library)]
    print("\n".join(map(wrap, lines)))


if __name__ == "__main__":
    main()
