"""The predictions of an exported model, and of what actrun exports of it after training: onnx's own evaluator beside
the module in evaluation mode."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, List

import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn import functional as F

from tools import BIN, needs_tools, randomize

import actc
from actc import _export


class Net(nn.Module):
    """With all that computes something else in evaluation: statistics, dropout and stochastic depth."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(8, 5))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image)
        y = self.second(x)
        if self.training:
            y = y * x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(0.7).div(0.7)
        return self.head((x + y).mean((2, 3)))


class WithLoss(nn.Module):
    """Returns a dict of its loss and its predictions, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> Any:
        logits = self.net(image)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def names(values: Any) -> List[str]:
    return [value.name for value in values]


def trained(model: Path) -> onnx.ModelProto:
    """What actrun exports after a step that changes nothing but the running statistics."""
    plan, out = model.with_suffix(".plan"), model.with_suffix(".trained.onnx")
    subprocess.run([f"{BIN}/actc", model, "-o", plan, "--report=none"], check=True, capture_output=True)
    run = [f"{BIN}/actrun", plan, "--batch=4", "--steps=1", "--lr=0", f"--export-onnx={out}"]
    subprocess.run(run, check=True, capture_output=True)
    return onnx.load(out)


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("returns_loss", [False, True])
def test_the_trained_model_predicts_without_labels(tmp_path: Path, exporter: str, returns_loss: bool) -> None:
    image, labels = torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])
    model = randomize(WithLoss() if returns_loss else Net())
    inputs = {"image": image, "labels": labels} if returns_loss else image
    loss = None if returns_loss else "cross-entropy"
    actc.export(model, inputs, tmp_path / "m.onnx", loss, check=True, bin_dir=BIN, exporter=exporter)
    exported = onnx.load(tmp_path / "m.onnx")
    assert names(exported.graph.output) == ["loss", "predictions"]

    assert exported.graph.output[1].type.tensor_type.shape.dim[0].dim_param in ("", "N")

    result = trained(tmp_path / "m.onnx")
    onnx.checker.check_model(result)
    assert names(result.graph.input) == ["image"]
    assert names(result.graph.output) == ["predictions"]
    state = {tensor.name: torch.tensor(onnx.numpy_helper.to_array(tensor)) for tensor in result.graph.initializer}
    stored = {name: state[name] if name in state else old for name, old in model.state_dict().items()}
    model.load_state_dict(stored)
    net = model.net if isinstance(model, WithLoss) else model
    more = torch.randn(6, 3, 8, 8)  # another batch than any before
    with torch.no_grad():
        expected = net.eval()(more)
    (predicted,) = ReferenceEvaluator(result).run(None, {"image": more.numpy()})
    torch.testing.assert_close(torch.tensor(predicted), expected)


class Given(nn.Linear):
    """Its predictions are an input or a parameter."""

    def __init__(self, which: int) -> None:
        super().__init__(8, 3)
        self.which = which

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(super().forward(x), y)
        return {"loss": loss, "logits": (y, self.bias)[self.which]}


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("which", [0, 1])
def test_predictions_that_have_a_name_already(tmp_path: Path, exporter: str, which: int) -> None:
    inputs = (torch.randn(4, 8), torch.randn(4, 3))
    actc.export(Given(which), inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN, exporter=exporter)
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert names(graph.input) == ["x", "y"]
    assert set(names(graph.initializer)) >= {"weight", "bias"}
    assert names(graph.output) == ["loss", "predictions"]


class Odd(WithLoss):
    """Returns the loss, and something that no exporter has."""

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> Any:
        logits = self.net(image)
        return {"loss": F.cross_entropy(logits, labels), "logits": torch.linalg.svdvals(logits).expand(4, -1)}


class Svd(nn.Linear):
    """Predicts what no exporter has."""

    def __init__(self) -> None:
        super().__init__(8, 8)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(super().forward(image)).flatten(1)


class Branches(WithLoss):
    """TorchScript's exporter cannot follow its code, nor can dynamo's."""

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> Any:
        if not torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.jit.is_tracing():
            raise ValueError("no example")
        return super().forward(image, labels)


@pytest.mark.parametrize(
    "model, exporter, runs",
    [(Odd, "torchscript", 2), (Odd, "dynamo", 1)]  # TorchScript's leaves out what the loss does not need
    + [(model, exporter, 1) for model in (Branches, Svd) for exporter in ("torchscript", "dynamo")],
)
def test_the_loss_alone_is_tried_where_that_may_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Any, exporter: str, runs: int
) -> None:
    ran, plain = [], _export.run_exporter
    monkeypatch.setattr(_export, "run_exporter", lambda *args: ran.append(1) or plain(*args))
    image, labels = torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])
    if model is Svd:  # with a loss of its predictions
        inputs, loss = image, "mse"
    else:
        inputs, loss = {"image": image, "labels": labels}, None
    options = {"exporter": exporter, "dynamic_batch": False, "check": False, "opset": 20}
    if runs == 2:
        actc.export(model(), inputs, tmp_path / "m.onnx", loss, **options)
        assert names(onnx.load(tmp_path / "m.onnx").graph.output) == ["loss"]
    else:
        with pytest.raises(actc.ExportError):
            actc.export(model(), inputs, tmp_path / "m.onnx", loss, **options)
    assert len(ran) == runs


@needs_tools
def test_a_loss_alone_stays(tmp_path: Path) -> None:
    class Alone(WithLoss):
        def forward(self, image: torch.Tensor, labels: torch.Tensor) -> Any:
            return super().forward(image, labels)["loss"]

    inputs = {"image": torch.randn(4, 3, 8, 8), "labels": torch.tensor([0, 1, 2, 3])}
    actc.export(Alone(), inputs, tmp_path / "m.onnx", check=False)
    assert names(onnx.load(tmp_path / "m.onnx").graph.output) == ["loss"]
    assert names(trained(tmp_path / "m.onnx").graph.output) == ["loss"]


def test_an_input_may_have_the_name(tmp_path: Path) -> None:
    class Judge(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, predictions: torch.Tensor) -> torch.Tensor:
            return self.layer(predictions)

    for exporter in ("torchscript", "dynamo"):
        actc.export(Judge(), torch.randn(4, 3), tmp_path / "m.onnx", "mse", check=False, exporter=exporter)
        graph = onnx.load(tmp_path / "m.onnx").graph
        assert names(graph.output) == ["loss", "act_predictions"]
        assert names(graph.input) == ["predictions", "label"]


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_runtimes_take_sums_of_booleans(tmp_path: Path, exporter: str) -> None:
    """Models of transformers count the tokens of a mask so. ONNX's CumSum takes numbers alone."""

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            counts = (x > 0).cumsum(-1) + (x > 1).cumsum(1, dtype=torch.int32)
            return self.layer(x) * counts + (x < 1).cumsum(1, dtype=torch.float32)

    x, model = torch.randn(4, 6), randomize(Counted())
    actc.export(model, x, tmp_path / "m.onnx", "mse", check=True, bin_dir=BIN, exporter=exporter)
    result = trained(tmp_path / "m.onnx")
    makers = {name: node.op_type for node in result.graph.node for name in node.output}
    summed = [makers[node.input[0]] for node in result.graph.node if node.op_type == "CumSum"]
    assert summed == ["Cast"] * 3
    (predicted,) = ReferenceEvaluator(result).run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.tensor(predicted), model(x).detach())
