"""What is done with one row by one exporter: export, two steps at L3, one step at L0 against autograd."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from typing import Any, Dict, List, Tuple, Union

import torch
from torch import nn

import actc
from rows import BATCH, Row

EXPORTERS = ("torchscript", "dynamo")


class Outer(nn.Module):
    """check_step takes names without their first part."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.model(*tensors)


def run(row: Row, exporter: str, tools: str, folder: str, limit_s: float, keep: str = "") -> Dict[str, Any]:
    """The row's result: with any batch, or with the example's alone where any batch is refused."""
    result = _run(row, exporter, tools, folder, limit_s, "auto", keep)
    if result["stage"] != "compile L3" or result["batch"] is None:
        return result
    fixed = _run(row, exporter, tools, folder, limit_s, False, "")
    if fixed["stage"] != "done":
        return result
    return {**fixed, "any_batch": result["error"]}


def _run(
    row: Row, exporter: str, tools: str, folder: str, limit_s: float, dynamic_batch: Union[bool, str], keep: str
) -> Dict[str, Any]:
    """`stage` is the one that failed, or "done"; `error` says why. `batch` is the graph's symbol,
    None if it takes the example's alone.

    keep: folder for files of models that fail."""
    from build_row import build

    result: Dict[str, Any] = {"row": row.key, "model": row.model, "exporter": exporter, "stage": "build", "seconds": {}}
    path = os.path.join(folder, "model.onnx")
    start = time.time()

    def next_stage(name: str) -> None:
        nonlocal start
        result["seconds"][result["stage"]] = round(time.time() - start, 1)
        result["stage"], start = name, time.time()

    try:
        module, tensors, names = build(row)
        next_stage("export")

        def export(file: str) -> actc.ExportReport:
            return actc.export(
                module, tensors, file, input_names=names, exporter=exporter, dynamic_batch=dynamic_batch, check=False
            )

        report = export(path)
        result.update(
            nodes=report.nodes,
            parameters=report.parameters,
            unreached=len(report.unreached),
            batch=report.batch_axis,
            opset=report.opset,
            attempts=report.attempts,
            warnings=report.warnings[:5],
        )
        next_stage("compile L3")
        plan = os.path.join(folder, "plan")
        batch = [f"--batch={BATCH}"] if report.batch_axis else []
        _tool([os.path.join(tools, "actc"), path, "-O", "L3", "-o", plan, *batch, "--report=none"], limit_s)
        next_stage("train L3")
        _train(tensors, names, plan, tools, folder, limit_s, batch, result)
        next_stage("check L0")
        check = actc.check_step(
            Outer(module).train(), dict(zip(names, tensors)), path, tools, required=True, export=export
        )
        result["check"] = vars(check)
        next_stage("done")
    except subprocess.TimeoutExpired:
        result.update(stage="process", error=f"more than {limit_s} seconds")
    except Exception as error:  # whatever a library raises is this row's result
        text = str(error).strip() or repr(error)
        text = re.sub(r"(/[\w.+-]+)+/", "", text)  # folders of this machine
        result["error"] = f"{type(error).__name__}: {text}"[:600]
        result["seconds"][result["stage"]] = round(time.time() - start, 1)
        if keep and os.path.exists(path):
            shutil.copy(path, os.path.join(keep, f"{row.key}.{exporter}.onnx".replace("/", "_").replace(" ", "_")))
    return result


def _tool(command: List[str], limit_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line]
        first = next((i for i, line in enumerate(lines) if "error:" in line), max(0, len(lines) - 3))
        raise RuntimeError(" | ".join(lines[first : first + 3]) or f"exit status {done.returncode}")


def _train(
    tensors: Tuple[torch.Tensor, ...],
    names: Tuple[str, ...],
    plan: str,
    tools: str,
    folder: str,
    limit_s: float,
    batch: List[str],
    result: Dict[str, Any],
) -> None:
    """Two steps on the example batch. The measured peak must be the planned one, and the losses
    numbers."""
    from safetensors.torch import save_file

    inputs, report = os.path.join(folder, "inputs"), os.path.join(folder, "run.json")
    save_file({n: t.detach().clone().contiguous() for n, t in zip(names, tensors)}, inputs)
    _tool(
        [
            os.path.join(tools, "actrun"),
            plan,
            *batch,
            f"--inputs={inputs}",
            "--steps=2",
            "--lr=0.001",
            "--threads=1",
            f"--report-json={report}",
        ],
        limit_s,
    )
    with open(report) as file:
        measured = json.load(file)
    result["losses"] = measured["losses"]
    result["peak_bytes"], result["planned_peak_bytes"] = measured["peak_bytes"], measured["planned_peak_bytes"]
    if measured["peak_bytes"] != measured["planned_peak_bytes"]:
        raise RuntimeError(f"the peak is {measured['peak_bytes']} bytes, planned were {measured['planned_peak_bytes']}")
    if not all(isinstance(loss, (int, float)) and abs(loss) < 1e30 for loss in measured["losses"]):
        raise RuntimeError(f"losses are {measured['losses']}")
