"""Parts of a module in evaluation mode, as teachers and frozen normalizations are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tools import BIN, needs_tools, randomize

import actc


def body(dropout: float = 0.3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(dropout), nn.Conv2d(8, 5, 3)
    )


class Distilled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = body(), body()
        self.teacher.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = self.teacher(x).mean((2, 3)).softmax(-1)
        return F.kl_div(self.student(x).mean((2, 3)).log_softmax(-1), wanted, reduction="batchmean")


class KeepsStatistics(nn.Module):
    """As detectors are trained on top of a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.body = body(0.0)

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).mean((2, 3)).square().mean()


def _export(model: nn.Module, path: Path, exporter: str) -> actc.ExportReport:
    """The check is at the example's batch, whose statistics are not the stored ones."""
    report = actc.export(randomize(model), torch.randn(4, 3, 8, 8), path, exporter=exporter, check=True, bin_dir=BIN)
    assert report.check is not None and report.check.conclusive and report.check.gradient_error <= 1e-4, str(report)
    return report


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_a_teacher_in_evaluation_mode_stays_so(tmp_path: Path, exporter: str) -> None:
    model = Distilled()
    model.teacher.eval()
    report = _export(model, tmp_path / "m.onnx", exporter)
    assert any("teacher.1, teacher.3" in line for line in report.warnings), str(report)
    assert model.training and model.student.training and not model.teacher.training


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_train_of_the_module_decides(tmp_path: Path, exporter: str) -> None:
    """Its scale and shift train, by the stored statistics."""
    report = _export(KeepsStatistics(), tmp_path / "m.onnx", exporter)
    assert not report.frozen and any("body.1" in line for line in report.warnings), str(report)


class DropPath(nn.Module):
    """As timm has it."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_prob = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (torch.rand(x.shape[0], 1, 1) >= self.drop_prob) if self.training else x


class StochasticDepth(nn.Module):
    """As torchvision has it."""

    def __init__(self) -> None:
        super().__init__()
        self.p, self.mode = 0.1, "row"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.bernoulli(torch.full((x.shape[0], 1, 1), 1 - self.p)) if self.training else x


class Recurrent(nn.LSTM):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)[0]


class Attends(nn.MultiheadAttention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x, x, x, need_weights=False)[0]


@pytest.mark.parametrize(
    "layer",
    [
        nn.Dropout(0.3),
        nn.Dropout1d(0.3),
        nn.AlphaDropout(0.3),
        nn.FeatureAlphaDropout(0.3),
        nn.RReLU(),
        DropPath(),
        StochasticDepth(),
        Recurrent(4, 4, num_layers=2, dropout=0.3),
        Attends(4, 2, dropout=0.3),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_every_kind_of_dropout_in_evaluation_mode_is_named(tmp_path: Path, layer: nn.Module) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.layer = nn.Linear(4, 4), layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.first(x)).square().mean()

    model = Model()
    model.layer.eval()
    report = actc.export(model, torch.randn(4, 3, 4), tmp_path / "m.onnx", loss=None, check=False)
    assert "in evaluation mode, and so written: layer" in report.warnings, str(report)
    model.layer.train()
    report = actc.export(model, torch.randn(4, 3, 4), tmp_path / "m.onnx", loss=None, check=False)
    assert report.warnings == [], str(report)


def test_statistics_over_all_steps_are_refused(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None))
    file = tmp_path / "m.onnx"
    with pytest.raises(actc.ExportError, match=r"momentum=None, .*: 1\nhint: .*a momentum"):
        actc.export(model, torch.randn(4, 4), file, "mse", check=False)
    assert not file.exists() and model.training
    # What does not change has no momentum, and neither has what is not kept.
    model[1].eval()
    actc.export(model, torch.randn(4, 4), file, "mse", check=False)
    model[1] = nn.BatchNorm1d(4, momentum=None, track_running_stats=False)
    actc.export(model, torch.randn(4, 4), file, "mse", check=False)


@needs_tools
def test_a_module_in_evaluation_mode_is_put_into_training_mode(tmp_path: Path) -> None:
    model = Distilled().eval()
    report = _export(model, tmp_path / "m.onnx", "torchscript")
    assert report.warnings == [] and not model.training, str(report)
