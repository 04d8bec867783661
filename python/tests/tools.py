"""Where the built tools are, for the tests that run them (ACT_BIN is their folder)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Dict, List, Set

import onnx
import pytest
import torch
from torch import nn

from actc._tools import _read, _write

# Tests compare numbers, so kernels are chosen in a fixed order and not by time.
os.environ.setdefault("ACT_TUNE", "off")
BIN = os.environ.get("ACT_BIN", str(Path(__file__).resolve().parents[2] / "build" / "bin"))
# Float32 through up to fifty layers, summed in another order. A wrong gradient is off by 1e-2 and
# more.
LIMIT = 2e-4
needs_tools = pytest.mark.skipif(
    not os.access(os.path.join(BIN, "actrun"), os.X_OK), reason="actc and actrun are not built"
)


def randomize(model: nn.Module) -> nn.Module:
    """Gives the model values that show a missing term."""
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim <= 1:
                p.add_(0.1 * torch.randn_like(p))
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.copy_(torch.randn_like(b))
    return model


def trained(model: Path, batch: int) -> Set[str]:
    """Names of what the tools train, with no flags but the batch."""
    plan, step = model.with_suffix(".plan"), model.with_suffix(".step")
    subprocess.run([f"{BIN}/actc", model, "-O", "L0", "-o", plan, f"--batch={batch}"], check=True, capture_output=True)
    subprocess.run(
        [f"{BIN}/actrun", plan, f"--batch={batch}", "--steps=1", f"--dump-step={step}"], check=True, capture_output=True
    )
    return {name[len("grad.") :] for name in _read(str(step)) if name.startswith("grad.")}


def losses_at_rest(model: Path, batch: int, steps: int, seed: int) -> List[float]:
    """The losses of steps on one random batch whose updates change nothing."""
    plan, inputs, report = (model.with_suffix(suffix) for suffix in (".plan", ".inputs", ".json"))
    subprocess.run([f"{BIN}/actc", model, "-O", "L3", "-o", plan, f"--batch={batch}"], check=True, capture_output=True)
    graph = onnx.load(model).graph
    torch.manual_seed(0)
    tensors = {
        i.name: torch.randn(batch, *(d.dim_value for d in i.type.tensor_type.shape.dim[1:]))
        if i.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        else torch.zeros(batch, dtype=torch.int64)
        for i in graph.input
    }
    _write(str(inputs), {name: t.numpy() for name, t in tensors.items()})
    subprocess.run(
        [f"{BIN}/actrun", plan, f"--batch={batch}", f"--inputs={inputs}", f"--steps={steps}", "--lr=0"]
        + [f"--seed={seed}", f"--report-json={report}"],
        check=True,
        capture_output=True,
    )
    return json.loads(report.read_text())["losses"]


def evaluated(model: Path, data: Dict[str, torch.Tensor]) -> float:
    """The loss of an evaluation of these samples."""
    plan, samples, report = (model.with_suffix(suffix) for suffix in (".plan", ".safetensors", ".json"))
    subprocess.run([f"{BIN}/actc", model, "-O", "L0", "-o", plan, "--batch=4"], check=True, capture_output=True)
    _write(str(samples), {name: t.numpy() for name, t in data.items()})
    subprocess.run(
        [f"{BIN}/actrun", plan, f"--data={samples}", f"--eval-data={samples}", "--epochs=1", "--lr=0"]
        + [f"--report-json={report}"],
        check=True,
        capture_output=True,
    )
    return json.loads(report.read_text())["evaluations"][0]["loss"]
