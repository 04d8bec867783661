"""Where the built tools are, for the tests that run them (ACT_BIN is their folder)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Set

import pytest
import torch
from torch import nn

BIN = os.environ.get("ACT_BIN", str(Path(__file__).resolve().parents[2] / "build" / "bin"))
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
    from actc._tools import _read

    return {name[len("grad.") :] for name in _read(str(step)) if name.startswith("grad.")}
