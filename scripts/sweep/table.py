#!/usr/bin/env python3
"""Writes docs/models.md from the results of sweep.py.

table.py results.jsonl >docs/models.md"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import textwrap
from typing import Any, Dict, List, Tuple

from sweep import ROWS, read_results

EXPORTERS = ("torchscript", "dynamo")
NAMES = {"torchscript": "TorchScript", "dynamo": "dynamo"}
LIBRARIES = ("torchvision", "timm", "transformers", "diffusers", "smp", "monai", "peft", "torch.nn", "torch")
PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "transformers",
    "diffusers",
    "segmentation_models_pytorch",
    "monai",
    "peft",
    "onnx",
    "onnxscript",
)
Results = Dict[Tuple[str, str], Dict[str, Any]]  # by row and exporter

STAGES = ("build", "process", "export", "compile L3", "train L3", "check L0", "done")
# What a cell of the table says where a stage failed.
KINDS = {
    "process": "not finished",
    "export": "not exported",
    "compile L3": "refused",
    "train L3": "fails",
    "check L0": "differs",
}
# Errors whose texts hold names and numbers of one model, and what they have in common.
CAUSES = (
    (
        r"output size that are not factor of input size",
        "PyTorch's exporter: an adaptive pool whose output does not divide its input",
    ),
    (
        r"export of operator (\w+), input size not accessible",
        r"PyTorch's exporter: `\1` needs sizes that it does not know",
    ),
    (r"operator '?(aten::\w+)'?.*(not supported|unsupported)", r"PyTorch's exporter: no ONNX form of `\1`"),
    (r"No ONNX function found for.*?(aten\.[\w.]+)", r"PyTorch's exporter: no ONNX form of `\1`"),
    (r"operators that are not supported: .*?\((\w+)\) of domain", r"no operator of ours: \1"),
    (r"\((\w+)\): the operator is not supported", r"no operator of ours: \1"),
    (r"GuardOnDataDependent|data-dependent|Could not guard", "PyTorch's exporter: Python code that branches on data"),
    (r"more than [\d.]+ seconds", "it took longer than the limit of the sweep"),
    (r"the process died: (-?\d+)", r"its process ended with \1: a crash, or too little memory"),
)


def read(path: str) -> Tuple[Results, Dict[str, List[str]]]:
    """The last result of each row and exporter, and the families of each library. Both without rows that
    PyTorch itself could not run."""
    found = read_results(path)
    broken = {
        row
        for (row, _), entry in found.items()
        if entry["stage"] == "build" or "PyTorch cannot run a step" in entry.get("error", "")
    }
    results = {key: entry for key, entry in found.items() if key[0] not in broken}
    keys = sorted({row.key for row in ROWS} | {row for row, _ in results})
    return results, {
        lib: [key.split("/", 1)[1] for key in keys if key.startswith(lib + "/") and key not in broken]
        for lib in LIBRARIES
    }


def cause(error: str) -> str:
    for pattern, text in CAUSES:
        match = re.search(pattern, error, re.S)
        if match:
            return match.expand(text)
    text = re.sub(r"no attempt made a file that can be trained:\s*", "", re.sub(r"^\w+: ", "", error))
    text = re.sub(
        r"(actc|actrun): error: |/\S*\.onnx: |node '[^']*' \((\w+)\)(?=:)|node '[^']*' ?", lambda m: m[2] or "", text
    )
    text = re.sub(r"\[[N\d,]+\]", "", text)  # shapes
    text = re.sub(r"^(torchscript|dynamo), opset \d+(, fixed batch)?: ", "PyTorch's exporter: ", text)
    return text.splitlines()[0].split(" | ")[0].split(" This is step ")[0].strip()[:200]


class Reasons:
    """Causes with numbers, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self.numbers: Dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)

    def lines(self) -> List[str]:
        return [
            line
            for text, n in self.numbers.items()
            for line in textwrap.wrap(f"{n}. {text}", 120, subsequent_indent=" " * (len(str(n)) + 2))
        ]


def cell(entry: Dict[str, Any] | None, reasons: Reasons) -> str:
    if entry is None:
        return "not tried"
    if entry["stage"] != "done":
        return f"{KINDS[entry['stage']]} ({reasons.number(cause(entry.get('error', '')))})"
    if not entry["conclusive"]:
        return "not comparable"
    if entry["batch"] is None:
        why = entry.get("any_batch") or next(iter(entry.get("attempts", [])), "")
        return f"fixed batch ({reasons.number(cause(why))})" if why else "fixed batch"
    return "works"


def numbers(results: Results, families: Dict[str, List[str]]) -> List[str]:
    lines = [
        "| library | exporter | tried | finished | exported | compile | train as planned | match | of finished "
        "| of exported |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for library in LIBRARIES:
        for exporter in EXPORTERS:
            entries = [e for (row, by), e in results.items() if row.startswith(library + "/") and by == exporter]
            finished = [e for e in entries if e["stage"] != "process"]
            passed = [STAGES.index(e["stage"]) for e in finished]
            counts = [len(finished), *(sum(stage > least for stage in passed) for least in (2, 3, 4))]
            counts.append(sum(e["stage"] == "done" and e["conclusive"] for e in finished))
            rates = [f"{100 * counts[4] / part:.0f} %" if part else "" for part in counts[:2]]
            tried = f"{len(entries)} of {len(families[library])}"
            lines.append(f"| {library} | {NAMES[exporter]} | " + " | ".join([tried, *map(str, counts), *rates]) + " |")
    return lines


def families(results: Results, library: str, names: List[str], reasons: Reasons) -> List[str]:
    """Families that work, and those that were not tried, as lists, all others as a table."""
    lists = {
        ("works", "works"): "Work with both exporters",
        ("works", "not tried"): "Work with TorchScript; dynamo was not tried",
        ("not tried", "works"): "Work with dynamo; TorchScript was not tried",
        ("not tried", "not tried"): "Not tried",
    }
    of_torch = library in ("torch", "torch.nn")  # there an exporter's reason is the row itself
    if of_torch:
        lists[("works", "not exported")] = "Work with TorchScript; dynamo does not export them"
        lists[("not exported", "works")] = "Work with dynamo; TorchScript does not export them"
        lists[("not exported", "not exported")] = "No exporter writes them"

    def text(entry: Dict[str, Any] | None) -> str:
        if of_torch and entry is not None and entry["stage"] == "export":
            return KINDS["export"]
        return cell(entry, reasons)

    cells = {
        name: tuple(text(results.get((f"{library}/{name}", exporter))) for exporter in EXPORTERS) for name in names
    }
    lines = []
    for texts, title in lists.items():
        names = [name for name, found in cells.items() if found == texts]
        if names:
            lines += textwrap.wrap(f"{title} ({len(names)}): {', '.join(names)}.", 120, break_on_hyphens=False) + [""]
    others = [f"| {name} | {texts[0]} | {texts[1]} |" for name, texts in cells.items() if texts not in lists]
    return lines + ["| family | TorchScript | dynamo |", "|---|---|---|", *others] if others else lines[:-1]


INTRO = """\
Which architectures, layers and functions the two exporters of PyTorch write in a form that `actc` trains. `make sweep`
writes this page; `rows_*.py` in `scripts/sweep` say what each row is, and `make sweep SWEEP='--again .'` repeats what
failed.

{versions}

A row is one family: its smallest variant, often with fewer layers, random weights that hide no term (no scale is 1, no
bias 0), in training mode without Dropout and drop path, with a batch of 4. A row of torch.nn or torch is a layer, a
loss or a function after a scale and a shift that train. "Works" says four things:

* the helper (`python/README.md`) exports it with any batch;
* `actc -O L3` compiles it;
* `actrun` trains two steps, and the measured peak is the planned one, to the byte;
* the loss and every gradient of a step at L0 are those of PyTorch. The yardstick is PyTorch in float64, and the limit
  is what PyTorch's own float32 is off by (`python/README.md` has the rule).

None of this depends on the processor but the time. The numbers in brackets are those of the reasons below.

| a cell | says |
|---|---|
| works | all four |
| fixed batch | all four, for the batch of the example alone; the reason is why any batch fails |
| not exported | PyTorch's exporter fails, with any batch and with the example's |
| refused | `actc` refuses the file |
| fails, differs | the third or the fourth thing does not hold |
| not comparable | nothing failed, but PyTorch's float32 is so far off float64 that a wrong gradient might not show |
| not finished | the row took more time or memory than it may |"""

COLUMNS = """\
Each column counts the rows that got so far, with any batch or with a fixed one. "Tried" is of the rows that PyTorch
itself can run as the sweep builds them. A row that is not finished says nothing about the model. The last two columns
are the parts of the finished and of the exported rows that match; a row that is not exported fails in PyTorch."""


def ages(results: Results) -> str:
    """Which builds of the tools the results are of. The last line of the file is of the newest one."""
    builds = [entry.get("tools", "") for entry in results.values()]
    newest, unknown = builds.count(builds[-1]), builds.count("")
    before = len(builds) - newest - unknown
    return textwrap.fill(
        f"Of the {len(builds)} results, {newest} are of the newest build of the tools, {before} of builds just before it, "
        f"and {unknown} of earlier ones that are not named.",
        120,
    )


def main() -> None:
    results, names = read(sys.argv[1])
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    reasons = Reasons()
    lines = [
        "# Models",
        INTRO.format(versions=textwrap.fill(f"Libraries: {versions}.", 120, break_on_hyphens=False)),
        "",
        "## Numbers",
        COLUMNS,
        ages(results),
        "",
        *numbers(results, names),
    ]
    for library in LIBRARIES:
        lines += ["", f"## {library}", *families(results, library, names[library], reasons)]
    print("\n".join([*lines, "", "## Reasons", *reasons.lines()]))


if __name__ == "__main__":
    main()
