"""Steps that engineers write in a forward: losses of pairs, distributions, estimators of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict

import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tools import BIN, needs_tools, randomize

import actc


class Net(nn.Module):
    """Two linear layers and what a test does with them."""

    def __init__(self, step: Callable[..., torch.Tensor], **parts: Any) -> None:
        super().__init__()
        self.step, self.a, self.b = step, nn.Linear(6, 8), nn.Linear(8, 4)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.step(self, x, y)


def _export(step: Any, path: Path, exporter: str, **parts: Any) -> actc.ExportReport:
    """Checked, with one exporter and for any batch."""
    torch.manual_seed(0)
    inputs = (torch.randn(4, 6), torch.tensor([0, 1, 1, 3]))
    model = step if isinstance(step, nn.Module) else randomize(Net(step, **parts))
    report = actc.export(model, inputs, path, exporter=exporter, dynamic_batch=True, check=True, bin_dir=BIN)
    assert report.check is not None and report.check.conclusive and report.check.gradient_error <= 1e-4, str(report)
    return report


def _hardest_pairs(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The distance of each sample to itself is 0, where the root has no slope."""
    z = net.b(net.a(x).tanh())
    d, same = torch.cdist(z, z), y[:, None] == y
    return F.relu((d * same).amax(1) - (d + 9 * same).amin(1) + 0.3).mean()


def _reparametrized(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As the actor of soft actor-critic."""
    mean, scale = net.b(net.a(x)).chunk(2, -1)
    d = torch.distributions.Normal(mean, F.softplus(scale))
    action = d.rsample()
    return (d.log_prob(action) - (1 - action.tanh() ** 2).log()).sum(-1).mean()


def _drawn(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What is drawn without rsample has no gradient."""
    d = torch.distributions.Normal(net.b(net.a(x)), 0.5)
    return -(d.log_prob(d.sample()) * x[:, :4]).mean()


def _gumbel(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (net.b(F.gumbel_softmax(net.a(x), tau=0.7, hard=True)) * x[:, :4]).mean()


def _nll_of_moved_classes(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    scores = torch.stack([net.b(net.a(x)), net.b(net.a(x + 1))], 1)  # [N,2,classes]
    lost = F.nll_loss(scores.log_softmax(-1).transpose(1, 2), torch.stack([y, y], 1), reduction="none")
    return (lost * torch.tensor([1.0, 0.5])).mean()


def _spread_of_chosen(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    chosen = net.b(net.a(x))[y > 0]
    return chosen.std() + chosen.mean() * chosen.var(unbiased=False)


STEPS: Dict[str, Callable[..., torch.Tensor]] = {
    "hardest pairs": _hardest_pairs,
    "reparametrized": _reparametrized,
    "drawn": _drawn,
    "gumbel": _gumbel,
    "nll of moved classes": _nll_of_moved_classes,
    "spread of what a mask selects": _spread_of_chosen,
}


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", STEPS)
def test_steps(tmp_path: Path, name: str, exporter: str) -> None:
    _export(STEPS[name], tmp_path / "m.onnx", exporter)


@needs_tools
def test_a_power_method_has_no_gradient(tmp_path: Path) -> None:
    """spectral_norm's vectors are far from those of the largest singular value here, so a gradient through them would
    show. The second call begins with the vectors of the first one."""

    def step(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return net.b(net.a(x)).square().mean() - net.b(net.a(x.flip(1))).sin().mean()

    torch.manual_seed(0)
    net = Net(step)
    net.a = nn.utils.parametrizations.spectral_norm(net.a)
    with torch.no_grad():
        for vector in net.a.parametrizations.weight[0].buffers():
            vector.copy_(F.normalize(torch.randn_like(vector), dim=0))
    report = _export(net, tmp_path / "m.onnx", "dynamo")
    assert any("changes a.parametrizations.weight.0._u" in line for line in report.warnings), str(report)


@needs_tools
@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True),
        nn.GRU(6, 5, batch_first=True),
        nn.RNN(6, 5, batch_first=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_last_states_of_packed_sequences(tmp_path: Path, layer: nn.RNNBase) -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = layer, nn.Linear(5, 3)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            states = self.layer(packed)[1]
            return self.head((states[0] if isinstance(states, tuple) else states)[-1])

    inputs = (torch.randn(4, 7, 6), torch.tensor([3, 7, 1, 5]))
    report = actc.export(
        Classifier(), inputs, tmp_path / "m.onnx", "cross-entropy",
        exporter="torchscript", dynamic_batch=True, check=True, bin_dir=BIN,
    )  # fmt: skip
    assert report.check is not None and report.check.gradient_error <= 1e-4, str(report)


@needs_tools
def test_quantization_in_training(tmp_path: Path) -> None:
    def step(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.fake_quantize_per_tensor_affine(net.a(x), 0.02, 3, -40, 40)
        return F.cross_entropy(net.b(z), y)

    for exporter in ("torchscript", "dynamo"):
        _export(step, tmp_path / "m.onnx", exporter)


@needs_tools
def test_attention_after_a_sum(tmp_path: Path) -> None:
    """TorchScript's exporter does not know the extents of a sum of an input's lookup and a parameter, by which the
    attention is cut into heads."""

    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.column = nn.Embedding(9, 8), nn.Parameter(torch.randn(3, 8))
            self.block, self.head = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), nn.Linear(24, 4)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.block(self.embed(tokens) + self.column).flatten(1))

    report = actc.export(
        randomize(Columns()), torch.randint(0, 9, (4, 3)), tmp_path / "m.onnx", "cross-entropy",
        exporter="torchscript", dynamic_batch=True, check=True, bin_dir=BIN,
    )  # fmt: skip
    assert report.check is not None and report.check.gradient_error <= 1e-4, str(report)


@needs_tools
def test_inputs_may_be_called_as_values_are(tmp_path: Path) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 4)

        def forward(self, cat: torch.Tensor, linear: torch.Tensor) -> torch.Tensor:
            return self.head(torch.cat([cat, linear], 1))

    inputs = (torch.randn(4, 5), torch.randn(4, 3))
    report = actc.export(
        Table(), inputs, tmp_path / "m.onnx", "cross-entropy", exporter="dynamo", check=True, bin_dir=BIN
    )
    assert report.inputs == ["cat", "linear", "label"] and report.batch_axis == "N", str(report)
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"))


@needs_tools
def test_labels_of_tokens_by_default(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11))
    report = actc.export(
        model, torch.randint(0, 11, (2, 7)), tmp_path / "m.onnx", "token-cross-entropy", check=True, bin_dir=BIN
    )
    label = onnx.load(tmp_path / "m.onnx").graph.input[1]
    assert label.name == "label" and label.type.tensor_type.elem_type == onnx.TensorProto.INT64, str(report)
    assert [d.dim_value for d in label.type.tensor_type.shape.dim][1:] == [7]


@needs_tools
def test_a_backward_of_ones_own_is_told(tmp_path: Path) -> None:
    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.sign()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient

    with pytest.raises(actc.ExportError, match="torch.autograd.Function"):
        _export(lambda net, x, y: net.b(Sign.apply(net.a(x))).square().mean(), tmp_path / "m.onnx", "auto")


@needs_tools
def test_the_causes_of_a_refusal_are_told(tmp_path: Path) -> None:
    def step(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = net.b(net.a(x))
        return z.mean() * torch.unique(z.detach()).mean() * torch.unique(x).sum()

    several = r"2 nodes cannot be imported: node '.*' \(Unique\): .*; node '.*' \(Unique\)"
    with pytest.raises(actc.ExportError, match=several):
        _export(step, tmp_path / "m.onnx", "torchscript")
