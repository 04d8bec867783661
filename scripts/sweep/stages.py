"""What is done with one row by one exporter: export, two steps at L3, one step at L0 against autograd."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import time
import warnings
from typing import Any, Dict, Tuple

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


def run(row: Row, exporter: str, tools: str, folder: str, limit_s: float) -> Dict[str, Any]:
    """The row's result. `stage` is the one that failed, or "done"; `error` says why."""
    from build import build

    result: Dict[str, Any] = {"row": row.key, "model": row.model, "exporter": exporter, "stage": "build", "seconds": {}}
    path = os.path.join(folder, "model.onnx")
    start = time.time()

    def next_stage(name: str) -> None:
        nonlocal start
        result["seconds"][result["stage"]] = round(time.time() - start, 1)
        result["stage"], start = name, time.time()

    try:
        module, tensors, names = build(row)
        result["parameters"] = sum(p.numel() for p in module.parameters())
        next_stage("export")
        _export(module, tensors, names, path, exporter, result)
        next_stage("compile L3")
        plan = os.path.join(folder, "plan")
        _tool([os.path.join(tools, "actc"), path, "-O", "L3", "-o", plan, f"--batch={BATCH}", "--report=none"], limit_s)
        next_stage("train L3")
        _train(module, tensors, names, plan, tools, folder, limit_s, result)
        next_stage("check L0")
        outer = Outer(module).train()
        check = actc.check_step(outer, dict(zip(names, tensors)), path, tools, required=True)
        result["check"] = {"loss_error": check.loss_error, "gradient_error": check.gradient_error, "worst": check.worst,
                           "compared": check.compared, "random": check.random}
        if check.random:
            raise RuntimeError("the model draws random numbers, so that gradients cannot be compared")
        next_stage("done")
    except Exception as error:  # whatever a library raises is this row's result
        text = str(error).strip() or repr(error)
        result["error"] = f"{type(error).__name__}: {text}"[:2000]
        result["seconds"][result["stage"]] = round(time.time() - start, 1)
    return result


def _export(module: nn.Module, tensors: Tuple[torch.Tensor, ...], names: Tuple[str, ...], path: str, exporter: str, result: Dict[str, Any]) -> None:
    if exporter == "torchscript":
        report = actc.export(module, tensors, path, input_names=names, check=False)
        result["nodes"], result["warnings"] = report.nodes, report.warnings[:5]
        return
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        state = {name: b.clone() for name, b in module.named_buffers()}
        program = torch.onnx.export(module, tensors, dynamo=True, optimize=False, opset_version=18, input_names=names,
                                    output_names=["loss"], verbose=False,
                                    dynamic_shapes=[tuple({0: torch.export.Dim("N", min=1)} for _ in tensors)])
        program.save(path)
        with torch.no_grad():
            for name, b in module.named_buffers():
                b.copy_(state[name])
    result["nodes"] = len(program.model_proto.graph.node)


def _tool(command: list, limit_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line]
        first = next((i for i, line in enumerate(lines) if "error:" in line), max(0, len(lines) - 3))
        raise RuntimeError(" | ".join(lines[first : first + 3]) or f"exit status {done.returncode}")


def _train(module: nn.Module, tensors: Tuple[torch.Tensor, ...], names: Tuple[str, ...], plan: str, tools: str,
           folder: str, limit_s: float, result: Dict[str, Any]) -> None:
    """Two steps on the example batch. The measured peak must be the planned one, and the losses
    numbers."""
    from safetensors.torch import save_file

    inputs, report = os.path.join(folder, "inputs"), os.path.join(folder, "run.json")
    save_file({n: t.detach().clone().contiguous() for n, t in zip(names, tensors)}, inputs)
    _tool([os.path.join(tools, "actrun"), plan, f"--batch={BATCH}", f"--inputs={inputs}", "--steps=2", "--lr=0.001",
           "--threads=1", f"--report-json={report}"], limit_s)
    with open(report) as file:
        measured = json.load(file)
    result["losses"] = measured["losses"]
    result["peak_bytes"], result["planned_peak_bytes"] = measured["peak_bytes"], measured["planned_peak_bytes"]
    if measured["peak_bytes"] != measured["planned_peak_bytes"]:
        raise RuntimeError(f"the peak is {measured['peak_bytes']} bytes, planned were {measured['planned_peak_bytes']}")
    if not all(isinstance(loss, (int, float)) and abs(loss) < 1e30 for loss in measured["losses"]):
        raise RuntimeError(f"losses are {measured['losses']}")
