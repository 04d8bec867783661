"""The forms of our own that operators have in TorchScript's files (_symbolics.py), against autograd."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tools import BIN, LIMIT, losses_at_rest, needs_tools, randomize

import actc


class Places(nn.Module):
    """Adds to each pixel where it is, as detectors do. An axis may have one pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        rows, columns = (torch.linspace(0.5, n - 0.25, n) for n in image.shape[2:])
        return self.head((torch.sin(image + rows[:, None]) * columns).mean((2, 3)))


class Windows(nn.Module):
    """Repeats elements of several axes and cuts windows, as models of tokens and of series do. An axis and the extent
    that Tensor.expand keeps are the same constant -1."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(6))
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [N,8,3]
        twice = (x * self.scale[:3]).repeat_interleave(2, dim=-1)  # [N,8,6]
        rows = torch.arange(6).unsqueeze(0).expand(x.shape[0], -1)
        twice = torch.expm1(twice * self.scale + 0.1 * rows[:, None])
        uneven = twice.repeat_interleave(torch.tensor([1, 0, 2, 1, 1, 3]), dim=2).repeat_interleave(3, dim=1)
        series = (
            uneven + x.repeat_interleave(3).reshape(x.shape[0], 9, 8).transpose(1, 2).repeat_interleave(3, 1)[..., :8]
        )
        series = series.repeat_interleave(2, dim=0)
        return self.head(series.unfold(-2, 4, 5)).mean((1, 2)).unfold(-1, 3, 1)[::2].sum(-1)


class Moved(nn.Module):
    """Moves axes by negative numbers, whose extents a later operator needs, and enlarges an image by its centers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, image: torch.Tensor) -> torch.Tensor:  # [N,4,6,8]
        y = (image.movedim(1, -1) * self.scale).movedim(-1, 1)
        y = F.pixel_unshuffle(y.movedim((2, 3), (-1, -2)), 2)  # [N,16,4,3]
        larger = F.interpolate(y, scale_factor=(1.5, 2.0), mode="nearest-exact")
        smaller = F.interpolate(y.flatten(2), size=5, mode="nearest-exact")
        halves = image.unflatten(1, (2, -1))  # [N,2,2,6,8]
        pairs = halves.reshape(*halves.shape[:-1], -1, 2)  # as rotary embeddings do
        y = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(4) * self.scale.repeat(2)
        larger = larger * torch.arange(36.0).cos().reshape(6, 6)
        return larger.square().mean() + smaller.sin().mean() + y.exp().mean()


class Folded(nn.Module):
    """Blocks of an image, changed, and added at their places in an image of the size of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 18)

    def forward(self, image: torch.Tensor) -> torch.Tensor:  # [N,2,7,9]
        blocks = F.unfold(image, (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 3))
        blocks = self.layer(blocks.transpose(1, 2)).transpose(1, 2)
        size = tuple(image.shape[-2:])
        return F.fold(blocks, size, (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 3)).sin().mean((2, 3))


class Pooled(nn.Module):
    """Means of windows that do not divide the image, and of some that do."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, line: torch.Tensor, image: torch.Tensor, space: torch.Tensor) -> torch.Tensor:
        pooled = (
            F.adaptive_avg_pool1d(line, 4),
            F.adaptive_avg_pool1d(line, 9),
            F.adaptive_avg_pool2d(image, (5, 3)),
            F.adaptive_avg_pool2d(image, (2, 7)),
            F.adaptive_avg_pool2d(F.adaptive_avg_pool2d(image, (3, 5)), (2, 1)),
            F.adaptive_avg_pool3d(space, (2, 3, 4)),
            F.adaptive_avg_pool3d(space, 1),
        )
        return sum((p * p + p).flatten(1).cumsum(1).sum(1) for p in pooled).mean() * self.scale.sum()


class Written(nn.Module):
    """Functions that the TorchScript exporter lacks or writes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm((3, 4), eps=1e-3)
        self.plain = nn.RMSNorm(4, elementwise_affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [N,5,12]
        y = self.norm(x.reshape(-1, 5, 3, 4))
        y = y.index_add(-2, torch.tensor([0, 2, 0, 0]), y[:, :, [0, 1, 2, 1]], alpha=0.5)
        return F.softplus(self.plain(y), beta=3, threshold=1.5).mean(2).index_add(1, torch.tensor([4, 4]), x[:, :2, :4])


class Distances(nn.Module):
    """Distances of rows, some of which are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [N,5,4]
        y = self.layer(x)
        z = torch.cat([y[:, :2].detach(), x[:, 2:]], 1)
        return F.pairwise_distance(y, z).mean() + nn.PairwiseDistance(3, 1e-3, keepdim=True)(z, y).square().mean()


class Lacked(nn.Module):
    """What the TorchScript exporter lacks and ONNX has, and functions of which it has other forms."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(3, affine=True)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, image: torch.Tensor) -> torch.Tensor:  # [N,3,6,8]
        y = self.norm(image) * self.scale
        y = y.sinh() + torch.cosh(y) + y.asinh() + (y.abs() + 1.5).acosh() + (y.tanh() * 0.9).atanh()
        y = torch.hypot(y, image) + y.cummax(2).values + torch.exp2(y * 0.1) + torch.fft.rfft(y).abs().mean()
        smaller = F.interpolate(y, (4, 3), mode="bilinear", antialias=True)
        larger = F.interpolate(smaller, (9, 7), mode="bicubic", antialias=True)
        return F.huber_loss(larger.quantile(0.4, 3), larger.amin(2).sum(2, keepdim=True)) + y.square().mean()


@needs_tools
@pytest.mark.parametrize(
    "name, model, inputs, options",
    [
        ("lacked", Lacked, (torch.randn(4, 3, 6, 8),), {"loss": None, "dynamic_batch": True}),
        ("folded", Folded, (torch.randn(4, 2, 7, 9),), {"loss": "cross-entropy", "dynamic_batch": True}),
        ("distances", Distances, (torch.randn(4, 5, 4),), {"loss": None, "dynamic_batch": True}),
        ("places", Places, (torch.randn(4, 3, 1, 6),), {"loss": "cross-entropy"}),
        (
            "pooled",
            Pooled,
            (torch.randn(4, 2, 9), torch.randn(4, 3, 6, 7), torch.randn(4, 2, 5, 7, 4)),
            {"loss": None, "dynamic_batch": True},
        ),
        (
            "written",
            Written,
            (torch.randn(4, 5, 12),),
            {"loss": "mse", "labels": torch.randn(4, 5, 4), "dynamic_batch": True},
        ),
        (
            "written, opset 20",
            Written,
            (torch.randn(4, 5, 12),),
            {"loss": "mse", "labels": torch.randn(4, 5, 4), "opset": 20},
        ),
        ("moved", Moved, (torch.randn(4, 4, 6, 8),), {"loss": None, "dynamic_batch": True}),
        (
            "windows",
            Windows,
            (torch.randn(4, 8, 3),),
            {"loss": "cross-entropy", "dynamic_batch": True},
        ),
    ],
)
def test_step_is_autograds(tmp_path: Path, name: str, model, inputs, options) -> None:
    report = actc.export(
        randomize(model()), inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN, exporter="torchscript", **options
    )
    assert report.check is not None and not report.check.random
    assert max(report.check.loss_error, report.check.gradient_error) <= LIMIT, str(report)


class Drawn(nn.Module):
    """The mean of numbers that one of PyTorch's functions draws in place."""

    def __init__(self, function: str, *args: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.function, self.args = function, args

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * getattr(torch.empty_like(x), self.function)(*self.args).mean() + 0 * x.mean()


# The mean and the deviation are those of the distribution. 2,560 draws are 5 deviations from it once in a million.
@needs_tools
@pytest.mark.parametrize(
    "function, args, mean, deviation",
    [
        ("uniform_", (-1.0, 3.0), 1.0, 4 / 12**0.5),
        ("exponential_", (0.5,), 2.0, 2.0),
        ("normal_", (3.0, 2.0), 3.0, 2.0),
    ],
)
def test_numbers_drawn_in_place(tmp_path: Path, function: str, args, mean: float, deviation: float) -> None:
    actc.export(Drawn(function, *args), torch.randn(4, 10), tmp_path / "m.onnx", loss=None, bin_dir=BIN)
    loss = losses_at_rest(tmp_path / "m.onnx", batch=256, steps=1, seed=1)[0]
    assert abs(float(loss) - mean) < 5 * deviation / 2560**0.5
