"""Functions of torch.linalg in a forward: a step of each model is autograd's, with both exporters and for any batch."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tools import BIN, needs_tools, randomize

import actc


class Net(nn.Module):
    """Makes a matrix of each sample, and has one of its own."""

    def __init__(self, step: Callable[[Net, torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.step, self.layer = step, nn.Linear(6, 9)
        self.own = nn.Parameter(torch.eye(4) + 0.3 * torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step(self, x, self.layer(x).reshape(-1, 3, 3))


def _volume(net: Net, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return torch.linalg.det(m).square().mean() + torch.det(net.own) + torch.logdet(net.own @ net.own.T + torch.eye(4))


def _flow(net: Net, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """A channel mixing of a normalizing flow (Glow): the likelihood counts the logarithm of its determinant."""
    z = x[:, :4] @ net.own
    return z.square().mean() - torch.linalg.slogdet(net.own).logabsdet + torch.slogdet(m)[1].mean()


def _gaussian(net: Net, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    factor = m.tril(-1) + torch.diag_embed(F.softplus(m.diagonal(dim1=-2, dim2=-1)))
    d = torch.distributions.MultivariateNormal(x[:, :3], scale_tril=factor)
    return -d.log_prob(x[:, 3:]).mean()


def _covariance(net: Net, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    factor = torch.linalg.cholesky(m @ m.mT + torch.eye(3))
    return torch.cholesky_solve(x[:, :3, None], factor).square().mean() + factor.diagonal(dim1=-2, dim2=-1).log().mean()


def _ridge(net: Net, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """A layer that solves for its weights."""
    weights = torch.linalg.solve(m.mT @ m + torch.eye(3), m.mT @ x[:, :3, None])
    return (x[:, None, :3] @ weights).square().mean()


def _camera(net: Net, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """Rays through pixels. The first pivot is 0 in the first sample."""
    pose = m - torch.diag_embed(torch.cat([m[:1, 0, :1], 0 * m[:1, 0, 1:]], 1)) * (x[:, :1, None] == x[0, 0])
    rays = torch.linalg.inv(pose) @ x[:, :3, None]
    return rays.tanh().mean() + torch.inverse(net.own).square().mean()


def _triangle(net: Net, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve_triangular(m.triu(1) + 2 * torch.eye(3), x[:, :3, None], upper=True).square().mean()


STEPS: Dict[str, Callable[[Net, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "volume": _volume,
    "flow": _flow,
    "gaussian": _gaussian,
    "covariance": _covariance,
    "ridge": _ridge,
    "camera": _camera,
    "triangle": _triangle,
}


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", STEPS)
def test_steps(tmp_path: Path, name: str, exporter: str) -> None:
    torch.manual_seed(0)
    model, x = randomize(Net(STEPS[name])), torch.randn(4, 6)
    report = actc.export(model, x, tmp_path / "m.onnx", exporter=exporter, dynamic_batch=True, check=True, bin_dir=BIN)
    assert report.check is not None and report.check.conclusive, str(report)
    assert report.check.gradient_error <= 1e-4, str(report)


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_what_is_not_written_is_named(tmp_path: Path, exporter: str) -> None:
    model = Net(lambda net, x, m: torch.linalg.eigvalsh(m).sum())
    with pytest.raises(actc.ExportError) as refused:
        actc.export(model, torch.randn(4, 6), tmp_path / "m.onnx", check=False, exporter=exporter)
    assert "no exporter has linalg.eig" in refused.value.hint, str(refused.value)
