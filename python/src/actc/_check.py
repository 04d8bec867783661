"""One training step by actc and actrun, compared with PyTorch's autograd."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import nn

from ._errors import ExportError

SAFETENSORS = {"F32": np.float32, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_, "U8": np.uint8}


@dataclass
class CheckResult:
    """Relative errors (2-norms) of a step, compared with autograd in float32."""

    loss: float  # actrun's loss
    loss_error: float
    # Error of the worst parameter, relative to the norm of all gradients together.
    gradient_error: float
    worst: str  # name of that parameter
    compared: int
    random: bool  # the model draws random numbers: only checked that the loss is finite

    def __str__(self) -> str:
        if self.random:
            return f"loss {self.loss:.6g}, finite; the model has Dropout, so that gradients differ from run to run"
        return (
            f"loss {self.loss:.6g} (off by {self.loss_error:.1e}), {self.compared} gradients, "
            f"worst {self.gradient_error:.1e} of the gradient's norm ({self.worst})"
        )


def _write(path: str, tensors: Dict[str, np.ndarray]) -> None:
    """The safetensors format: 8 bytes of header length, a JSON header, the data."""
    kinds = {np.dtype(v): k for k, v in SAFETENSORS.items()}
    header, offset, blobs = {}, 0, []
    for name, array in tensors.items():
        data = np.ascontiguousarray(array)
        header[name] = {"dtype": kinds[data.dtype], "shape": list(data.shape), "data_offsets": [offset, offset + data.nbytes]}
        offset += data.nbytes
        blobs.append(data.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def _read(path: str) -> Dict[str, np.ndarray]:
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        data: np.ndarray = np.frombuffer(content[8 + length + first : 8 + length + last], SAFETENSORS[entry["dtype"]])
        tensors[name] = data.reshape(entry["shape"])
    return tensors


def _tool(name: str, bin_dir: Optional[str]) -> Optional[str]:
    if bin_dir:
        path = os.path.join(bin_dir, name)
        return path if os.access(path, os.X_OK) else None
    return shutil.which(name)


def _run(command: List[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line]
        message = next((line for line in lines if "error:" in line), lines[-1] if lines else f"exit status {done.returncode}")
        hint = next((line.partition("hint:")[2].strip() for line in lines if line.startswith("hint:")), "")
        raise ExportError(f"{os.path.basename(command[0])} refuses the exported model: {message}", hint)


def _is_random(module: nn.Module) -> bool:
    """Does the module draw random numbers in training? This runs it twice to find out."""
    return any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in module.modules())


def check_step(
    module: nn.Module,
    inputs: Dict[str, torch.Tensor],
    path: str,
    bin_dir: Optional[str] = None,
    required: bool = True,
    limit: float = 1e-3,
) -> Optional[CheckResult]:
    """Compiles the model at `path` with actc at L0, runs one step with actrun, and compares the
    step with autograd.

    module: forward(*inputs) -> loss, in training mode.
    limit: of the errors. Float32 in another order of additions is off by 1e-6 to 1e-4 in deep
        models, a wrong gradient by 1e-2 and more.

    Returns None if the tools are not found and `required` is False.
    """
    tools: Tuple[Optional[str], Optional[str]] = (_tool("actc", bin_dir), _tool("actrun", bin_dir))
    if tools[0] is None or tools[1] is None:
        if required:
            raise ExportError("actc and actrun were not found", "put them on PATH, or pass bin_dir=")
        return None
    module.zero_grad()
    tensors = list(inputs.values())
    loss = module(*tensors)
    again = module(*tensors)
    loss.backward()
    batch = tensors[0].shape[0]
    with tempfile.TemporaryDirectory() as folder:
        data, plan, step = (os.path.join(folder, name) for name in ("inputs", "plan", "step"))
        _write(data, {name: t.detach().cpu().numpy() for name, t in inputs.items()})
        _run([tools[0], path, "-O", "L0", "-o", plan, "--optimizer=sgd", f"--batch={batch}", "--report=none"])
        _run([tools[1], plan, f"--batch={batch}", f"--inputs={data}", "--steps=1", "--lr=0", f"--dump-step={step}"])
        got = _read(step)
    expected = float(loss.detach())
    mine = float(got["loss"].reshape(-1)[0])
    random = _is_random(module) or float(again.detach()) != expected
    if not np.isfinite(mine):
        raise ExportError(f"the loss of the exported model is {mine}; PyTorch's is {expected:.6g}")
    if random:
        return CheckResult(mine, 0.0, 0.0, "", 0, True)
    gradients = {n.partition(".")[2]: p.grad for n, p in module.named_parameters() if p.grad is not None}
    total = float(np.sqrt(sum(float(g.double().pow(2).sum()) for g in gradients.values()))) or 1.0
    worst, error, compared = "", 0.0, 0
    for name, gradient in gradients.items():
        key = "grad." + name
        if key not in got:
            raise ExportError(f"the exported model has no gradient for parameter {name}")
        off = float(np.linalg.norm(got[key].reshape(-1).astype(np.float64) - gradient.double().cpu().numpy().reshape(-1))) / total
        compared += 1
        if not off <= error:
            worst, error = name, off
    loss_error = abs(mine - expected) / max(abs(expected), 1e-12)
    result = CheckResult(mine, loss_error, error, worst, compared, False)
    module.zero_grad()
    if not max(loss_error, error) <= limit:
        raise ExportError(
            f"the exported model does not compute what the module does: {result}",
            "Python code that depends on data is not in a traced graph; see the warnings of check=False",
        )
    return result
