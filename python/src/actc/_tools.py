"""actc and actrun as processes, and the safetensors files in between."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Dict, List, Optional

import numpy as np
import torch

from ._errors import ExportError

MOST_CAUSES = 2  # of one refusal that are told
SAFETENSORS = {"F32": np.float32, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_, "U8": np.uint8}


@dataclass(frozen=True)
class Tools:
    actc: str
    actrun: str


PLACES = "put them on PATH, or pass bin_dir= (--bin=FOLDER)"
NO_TOOLS = f"actc and actrun were not found; {PLACES}"


def find_tools(bin_dir: Optional[str], required: bool) -> Optional[Tools]:
    """In `bin_dir`, else on PATH."""
    found = []
    for name in ("actc", "actrun"):
        path = os.path.join(bin_dir, name) if bin_dir else shutil.which(name)
        if path and os.access(path, os.X_OK):
            found.append(path)
    if len(found) == 2:
        return Tools(*found)
    if required:
        raise ExportError("actc and actrun were not found", PLACES)
    return None


def _write(path: str, tensors: Dict[str, np.ndarray]) -> None:
    """The safetensors format: 8 bytes of header length, a JSON header, the data."""
    kinds = {np.dtype(v): k for k, v in SAFETENSORS.items()}
    header, offset, blobs = {}, 0, []
    for name, array in tensors.items():
        data = np.ascontiguousarray(array)
        if data.dtype not in kinds:
            raise ExportError(f"input {name} is {data.dtype}", "pass float32, int64, int32, uint8 or bool")
        # ascontiguousarray makes a vector of a scalar.
        header[name] = {
            "dtype": kinds[data.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + data.nbytes],
        }
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


def _run(command: List[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line]
        message = next(
            (line for line in lines if "error:" in line), lines[-1] if lines else f"exit status {done.returncode}"
        )
        hint = next((line.partition("hint:")[2].strip() for line in lines if line.startswith("hint:")), "")
        if message.endswith(":"):  # the causes are the lines that follow
            causes = [line.strip() for line in lines[lines.index(message) + 1 :] if line.startswith("  ")]
            message += " " + "; ".join(causes[:MOST_CAUSES]) + (" ..." if len(causes) > MOST_CAUSES else "")
        # "actc: error: FILE: what": the file is a temporary one, or the one that is being made.
        what = message.partition("error: ")[2].replace(f"{command[1]}: ", "") or message
        raise ExportError(f"{os.path.basename(command[0])} refuses the exported model: {what}", hint)


def run_step(tools: Tools, model: str, inputs: Dict[str, torch.Tensor], batch: Optional[int]) -> Dict[str, np.ndarray]:
    """One step at L0, without an update: `loss`, and `grad.NAME` for each parameter.

    batch: None if that of the model is fixed.
    """
    size = [f"--batch={batch}"] if batch is not None else []
    with tempfile.TemporaryDirectory() as folder:
        data, plan, step = (os.path.join(folder, name) for name in ("inputs", "plan", "step"))
        _write(data, {name: t.detach().cpu().numpy() for name, t in inputs.items()})
        _run([tools.actc, model, "-O", "L0", "-o", plan, "--optimizer=sgd", "--report=none", *size])
        _run(
            [tools.actrun, plan, f"--inputs={data}", "--tune=off", "--steps=1", "--lr=0", f"--dump-step={step}", *size]
        )
        return _read(step)
