"""Buffers that forward changes: a graph begins with the values from before the export, and computes with those that a
step makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import actc
from tools import BIN, needs_tools

LIMIT = 1e-5


def discriminator(norm: Any) -> nn.Module:
    return nn.Sequential(norm(nn.Conv2d(3, 4, 3)), nn.LeakyReLU(0.2), nn.Flatten(), norm(nn.Linear(64, 1)))


class Adversary(nn.Module):
    """Runs its network twice, so the second run begins with the vectors of the first one."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.net = discriminator(norm)

    def forward(self, real: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        return F.softplus(-self.net(real)).mean() + F.softplus(self.net(made)).mean()


class Quantized(nn.Module):
    """Rows of a codebook, which are moving means of what chooses them. Their loss reads the new ones."""

    def __init__(self, _: Any) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Linear(4, 6)
        self.register_buffer("size", torch.ones(8))
        self.register_buffer("total", torch.randn(8, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = self.encode(x)
        chosen = F.one_hot(torch.cdist(z, self.total / self.size[:, None]).argmin(1), 8).to(z.dtype)
        with torch.no_grad():
            self.size.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
            self.total.mul_(0.9).add_(chosen.t() @ z, alpha=0.1)
        row = chosen @ (self.total / self.size[:, None])
        return F.mse_loss(self.decode(z + (row - z).detach()), y) + 0.25 * F.mse_loss(z, row.detach())


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize(
    "model, norm, shape",
    [
        pytest.param(Adversary, nn.utils.spectral_norm, (3, 6, 6), id="spectral_norm"),
        pytest.param(Adversary, nn.utils.parametrizations.spectral_norm, (3, 6, 6), id="parametrized"),
        pytest.param(Quantized, None, (6,), id="codebook"),
    ],
)
def test_a_step_changes_buffers(tmp_path: Path, model: Any, norm: Any, shape: Any, exporter: str) -> None:
    torch.manual_seed(1)
    module, inputs = model(norm), (torch.randn(4, *shape), torch.randn(4, *shape))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    report = actc.export(module, inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN, exporter=exporter)
    assert report.check is not None and report.check.gradient_error <= LIMIT, str(report)
    assert any("a step in PyTorch changes" in warning for warning in report.warnings)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
