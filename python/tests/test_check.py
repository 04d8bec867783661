"""What the check finds, and that it raises no false alarm; which exporter is tried after which."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.reference
import pytest
import torch
from tools import BIN, needs_tools
from torch import nn
from torch.nn import functional as F

import actc
from actc import _export, _exporters


def more(x: torch.Tensor) -> torch.Tensor:
    """The same number, with a gradient that PyTorch makes larger. Exporters drop hooks, so in the exported
    graph the gradient is right."""
    same = x * 1
    if same.requires_grad:
        same.register_hook(lambda gradient: 1.5 * gradient)
    return same


class Block(nn.Module):
    def __init__(self, channels: int, wrong: bool) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.c2, self.b2 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(x + self.b2(self.c2(more(y) if self.wrong else y)))


class Deep(nn.Module):
    """Normalizes over 2 values of a channel at the end, for a batch of 2."""

    def __init__(self, wrong: bool = False, blocks: int = 6, zero: bool = False) -> None:
        super().__init__()
        parts = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
        for i in range(blocks):
            parts += [Block(16, wrong and i == blocks // 2)] + ([nn.MaxPool2d(2)] if i in (1, 3) else [])
        self.body, self.head = nn.Sequential(*parts), nn.Linear(16, 4)
        if zero:
            for part in parts:
                if isinstance(part, Block):
                    nn.init.zeros_(part.b2.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3)))


def deep(tmp_path: Path, **options: object) -> actc.ExportReport:
    torch.manual_seed(3)
    model, x = Deep(**options), torch.randn(2, 3, 10, 10)
    return actc.export(model, x, tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN, exporter="torchscript")


@needs_tools
@pytest.mark.parametrize("zero", [False, True])
def test_normalization_over_two_values_raises_no_alarm(tmp_path: Path, zero: bool) -> None:
    report = deep(tmp_path, zero=zero)
    assert report.check is not None and report.check.conclusive, str(report)
    assert report.check.gradient_error <= report.check.limit <= actc._verdict.POWER


@needs_tools
@pytest.mark.parametrize("zero", [False, True])
def test_a_wrong_factor_is_found(tmp_path: Path, zero: bool) -> None:
    """Also in a branch whose gradients are 0 at its initial values."""
    with pytest.raises(actc.ExportError) as caught:
        deep(tmp_path, wrong=True, zero=zero)
    text = str(caught.value)
    assert (
        "does not compute what the module does" in text
        and "limit" in text
        and "PyTorch's own float32 gradients by" in text
    )
    assert not (tmp_path / "m.onnx").exists()


class Stops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x)
        with torch.no_grad():
            size = x.abs().mean()
        return self.b(x * x.detach() / size)


@torch.no_grad()
def frozen(x: torch.Tensor) -> torch.Tensor:
    return x.square().max(-1).values


class Targets(Stops):
    """A target by the same weights, and a number by no_grad() as a decorator, in two further forms."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(False):
            target = self.b(self.a(x)).softmax(-1)
            with torch.enable_grad():
                again = self.b(self.a(x))
            part, _ = self.a(x).chunk(2, -1)
        return self.b(self.a(x)) * target * part + again * frozen(self.a(x))[:, None]


class Checkpointed(Stops):
    """A reentrant checkpoint runs forward under PyTorch's own no_grad(). TorchScript's exporter fails."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.utils.checkpoint.checkpoint(lambda y: self.a(y).tanh(), self.a(x), use_reentrant=True))


@needs_tools
@pytest.mark.parametrize(
    "model, exporter",
    [(model, exporter) for model in (Stops, Targets) for exporter in ("torchscript", "dynamo")]
    + [(Checkpointed, "dynamo")],
)
def test_no_grad_is_in_the_graph(tmp_path: Path, model: type, exporter: str) -> None:
    before = [(kind.__enter__, kind.__exit__) for kind in (torch.no_grad, torch.set_grad_enabled)]
    x, path = torch.randn(4, 6), tmp_path / "m.onnx"
    report = actc.export(model(), x, path, "cross-entropy", check=True, bin_dir=BIN, exporter=exporter)
    assert report.batch_axis and report.check is not None and report.check.conclusive
    assert before == [(kind.__enter__, kind.__exit__) for kind in (torch.no_grad, torch.set_grad_enabled)]


@needs_tools
def test_old_exporters_that_drop_a_stop_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_export, _exporters):
        monkeypatch.setattr(module, "DYNAMO_KEEPS_DETACH", False)
    with pytest.raises(actc.ExportError, match="does not compute") as caught:
        actc.export(
            Stops(), torch.randn(4, 6), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN, exporter="dynamo"
        )
    assert "drops detach() and no_grad()" in caught.value.hint


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_detach_is_in_the_graph(tmp_path: Path, exporter: str) -> None:
    class Detaches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x)
            return self.b(x * x.detach().tanh())

    path = tmp_path / "m.onnx"
    detach = torch.Tensor.detach
    x = torch.randn(4, 6)
    report = actc.export(Detaches(), x, path, "cross-entropy", check=True, bin_dir=BIN, exporter=exporter)
    assert report.batch_axis and report.check is not None and report.check.conclusive
    assert torch.Tensor.detach is detach
    # Readers that know nothing of it have its definition.
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnx.reference.ReferenceEvaluator(onnx.load(path))
    inputs = {"x": torch.randn(2, 6).numpy(), "label": torch.tensor([0, 2]).numpy()}
    assert session.run(None, inputs)[0] > 0


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_binary_cross_entropy_of_sure_predictions_has_a_gradient(tmp_path: Path, exporter: str) -> None:
    class Sure(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 3)
            self.a.bias.data[1] = 200  # a sigmoid of 1, whose logarithm of 1 - p has no slope

        def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return F.binary_cross_entropy(torch.sigmoid(self.a(x)), label)

    label = torch.tensor([[0.0, 1.0, 1.0]]).repeat(4, 1)
    inputs = {"x": torch.randn(4, 6), "label": label}
    report = actc.export(Sure(), inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN, exporter=exporter)
    assert report.check is not None and report.check.conclusive


class Small(nn.Module):
    def __init__(self, random: str = "") -> None:
        super().__init__()
        self.a, self.b, self.random, self.drop = nn.Linear(6, 8), nn.Linear(8, 3), random, nn.Dropout(0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.a(x))
        if self.random == "module":
            x = self.drop(x)
        elif self.random == "function":
            x = F.dropout(x, 0.4)
        return self.b(x if self.random != "wrong" else more(x))


@needs_tools
@pytest.mark.parametrize("random", ["module", "function"])
def test_random_networks_are_compared_without_their_random_numbers(tmp_path: Path, random: str) -> None:
    model = Small(random)
    report = actc.export(model, torch.randn(4, 6), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN)
    assert report.check is not None and report.check.random and report.check.compared == 4, str(report)
    assert report.check.gradient_error <= 1e-5 and "were off for the comparison" in str(report)
    assert model.drop.p == 0.4 and "Dropout" in {
        n.op_type for n in actc._check.onnx.load(tmp_path / "m.onnx").graph.node
    }


@needs_tools
def test_a_module_that_cannot_run_in_float64_is_compared_in_float32(tmp_path: Path) -> None:
    class Single(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x.float())

    report = actc.export(Single(), torch.randn(4, 6), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN)
    assert report.check is not None and report.check.gradient_error <= 1e-5 and "float32, since" in str(report)


class LogNdtr(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.special.log_ndtr(self.a(x)))


@needs_tools
def test_the_dynamo_exporter_follows(tmp_path: Path) -> None:
    """TorchScript's exporter has no log_ndtr."""
    report = actc.export(LogNdtr(), torch.randn(4, 6), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN)
    assert (report.exporter, report.opset, report.batch_axis) == ("dynamo", 18, "N")
    assert (
        len(report.attempts) == 1
        and report.attempts[0].startswith("torchscript, opset 17: ")
        and "log_ndtr" in report.attempts[0]
    )
    assert "dynamo exporter, opset 18" in str(report) and "failed before: torchscript" in str(report)


@needs_tools
@pytest.mark.parametrize("fault", ["refused", "wrong"])
def test_what_actc_refuses_or_computes_wrongly_is_exported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    plain = _exporters._torchscript

    def torchscript(module, tensors, names, file, attempt) -> None:
        plain(module, tensors, names, file, attempt)
        graph = actc._check.onnx.load(file)
        node = next(n for n in graph.graph.node if n.op_type == "Erf")
        node.op_type = "NoSuchOperator" if fault == "refused" else "Tanh"
        actc._check.onnx.save(graph, file)

    monkeypatch.setattr(_exporters, "_torchscript", torchscript)
    report = actc.export(Small(), torch.randn(4, 6), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN)
    assert report.exporter == "dynamo"
    assert ("NoSuchOperator" if fault == "refused" else "does not compute") in report.attempts[0]


class Loop(nn.Module):
    """Reads as many samples as the example has, in any exported graph."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([(i + 1) * self.a(x[i]) for i in range(x.shape[0])])


@needs_tools
def test_a_graph_of_one_batch_does_not_pass_for_one_of_any(tmp_path: Path) -> None:
    torch.manual_seed(2)
    x, y = torch.randn(4, 6), torch.randn(4, 3)
    loss = lambda out, label: (out.sum(0) * label.mean(0)).sum() ** 2  # takes any number of samples
    report = actc.export(Loop(), x, tmp_path / "m.onnx", loss, labels=y, check=True, bin_dir=BIN)
    assert report.batch_axis is None and any("batch is fixed" in w for w in report.warnings), str(report)
    assert "right at a batch of 4 and not of 5" in report.attempts[0] and report.attempts[1].startswith(
        "dynamo, opset 18: "
    )
    with pytest.raises(actc.ExportError, match="not of 5"):
        actc.export(Loop(), x, tmp_path / "n.onnx", loss, labels=y, check=True, bin_dir=BIN, dynamic_batch=True)


def test_every_attempt_is_told(tmp_path: Path) -> None:
    class Svd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(self.a(x).reshape(-1, 3, 1)).expand(-1, 3)

    with pytest.raises(actc.ExportError) as caught:
        actc.export(Svd(), torch.randn(4, 6), tmp_path / "m.onnx", "mse", check=False, dynamic_batch=True)
    assert [a.partition(":")[0] for a in caught.value.attempts] == [
        "torchscript, opset 17",
        "dynamo, opset 18",
        "torchscript, opset 20",
    ]
    assert all("\n" not in a and a in str(caught.value) for a in caught.value.attempts) and caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_check_without_the_tools_is_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    made = lambda check: actc.export(  # noqa: E731
        nn.Linear(4, 3), torch.randn(2, 4), tmp_path / "m.onnx", "cross-entropy", check=check, exporter="torchscript"
    )
    assert "  not checked: actc and actrun were not found; put them on PATH" in str(made("auto"))
    assert "not checked" not in str(made(False))
