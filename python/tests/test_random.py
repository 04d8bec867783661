"""Random numbers that a model draws itself, in forward."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
import torch
from torch import nn

import actc
from actc._calm import draws
from tools import BIN, evaluated, losses_at_rest, needs_tools


class Mean(nn.Module):
    """The mean of what a function makes of ones."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.scale * torch.ones_like(x)).mean() + 0 * x.mean()


def assigned(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[torch.rand_like(x) < 0.3] = 0.0
    return x


def twice(x: torch.Tensor) -> torch.Tensor:
    mask = torch.rand_like(x) < 0.3
    return x.masked_fill(mask, 0.0) * (1 - mask.float())


# 0.7 of the ones stay. 2,560 draws are 5 deviations from it once in a million.
@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize(
    "masked",
    [
        pytest.param(lambda x: x.masked_fill(torch.rand_like(x) < 0.3, 0.0), id="masked_fill"),
        pytest.param(lambda x: torch.where(torch.rand_like(x) < 0.7, x, 0 * x), id="where"),
        pytest.param(lambda x: x * (~(torch.rand_like(x) < 0.3)), id="not"),
        pytest.param(lambda x: x * (torch.rand_like(x) > 0.3).float(), id="greater"),
        pytest.param(lambda x: x * ((torch.rand_like(x) < 0.4) | (torch.rand_like(x) < 0.5)), id="or"),
        pytest.param(assigned, id="assigned"),
        pytest.param(twice, id="as a flag and as a number"),
        pytest.param(lambda x: x * torch.bernoulli(torch.full_like(x, 0.7)), id="bernoulli"),
        pytest.param(lambda x: x.masked_fill(torch.bernoulli(x.detach() * 0.3).bool(), 0.0), id="bernoulli of data"),
    ],
)
def test_masks_of_random_numbers(tmp_path: Path, masked, exporter: str) -> None:
    file = tmp_path / "m.onnx"
    actc.export(Mean(masked), torch.randn(4, 10), file, loss=None, bin_dir=BIN, exporter=exporter)
    loss = losses_at_rest(file, batch=256, steps=1, seed=1)[0]
    assert abs(float(loss) - 0.7) < 5 * (0.7 * 0.3 / 2560) ** 0.5


class Thinned(nn.Module):
    """The mean square of a channel's mean, of ones of which a layer drops some. A channel that is not dropped as a whole
    would have another square."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.scale * torch.ones_like(x)).mean(2).square().mean() + 0 * x.mean()


# 2,560 channels, and 5 deviations as above. In evaluation the layer is the identity.
@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize(
    "layer, pixels", [(nn.Dropout1d(0.3), 4), (nn.AlphaDropout(0.3), 1), (nn.FeatureAlphaDropout(0.3), 4)], ids=str
)
def test_dropout_of_channels_and_of_selu(tmp_path: Path, layer: nn.Module, pixels: int, exporter: str) -> None:
    dropped, kept = layer(torch.ones(1, 100, 1)).unique().double().square().tolist()
    model = Thinned(layer)
    actc.export(model, torch.randn(4, 10, pixels), tmp_path / "m.onnx", loss=None, bin_dir=BIN, exporter=exporter)
    loss = losses_at_rest(tmp_path / "m.onnx", batch=256, steps=1, seed=1)[0]
    assert abs(float(loss) - (0.7 * kept + 0.3 * dropped)) < 5 * abs(kept - dropped) * (0.7 * 0.3 / 2560) ** 0.5
    assert evaluated(tmp_path / "m.onnx", {"x": torch.randn(8, 10, pixels)}) == pytest.approx(1, rel=1e-6)  # float32's


def mixed(x: torch.Tensor) -> torch.Tensor:
    """Mixup: each sample with another one."""
    order, share = torch.randperm(x.shape[0]), torch.rand(x.shape[0], 1)
    return share * x + (1 - share) * x[order]


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_mixup_is_compared(tmp_path: Path, exporter: str) -> None:
    class Mixed(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return mixed(super().forward(x))

    report = actc.export(
        Mixed(6, 3), torch.randn(4, 6), tmp_path / "m.onnx", "cross-entropy", exporter=exporter, bin_dir=BIN
    )
    assert report.check is not None and report.check.random and report.check.conclusive, str(report)
    assert report.batch_axis == "N"


# The samples' numbers are 0 to 255. That all of them are drawn is what makes the sum of squares; the sum of products
# with their own places is that of independent ones: mean 255^2 / 4 and deviation 255^2 / 12 over the root of 255.
@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_permutations(tmp_path: Path, exporter: str) -> None:
    class Products(nn.Module):
        def __init__(self, power: int) -> None:
            super().__init__()
            self.scale, self.power = nn.Parameter(torch.ones(())), power

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            places = (x[:, 0] * 0 + 1).cumsum(0) - 1
            order = torch.randperm(x.shape[0])
            with_them = places[order] if self.power == 1 else order.float()
            return self.scale * (with_them * (places if self.power == 1 else with_them)).mean()

    losses = []
    for power in (1, 2):
        file = tmp_path / f"m{power}.onnx"
        actc.export(Products(power), torch.randn(4, 2), file, loss=None, check=False, exporter=exporter)
        losses.append([float(loss) for loss in losses_at_rest(file, batch=256, steps=2, seed=1)])
    products, squares = losses
    assert squares == pytest.approx([255 * 511 / 6] * 2, rel=1e-6)  # float32's
    assert products[0] != products[1]
    assert all(abs(p - 255**2 / 4) < 5 * 255**2 / 12 / 255**0.5 for p in products)


class Coin(nn.Module):
    """Either of two losses, by one random number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean() * (torch.rand(()) < 0.5)


def test_two_equal_losses_do_not_hide_random_numbers() -> None:
    module, x = Coin(), torch.ones(1)
    for seed in range(10):
        torch.manual_seed(seed)
        assert draws(module, lambda: module(x))
    assert not draws(nn.Identity(), lambda: x.mean())
