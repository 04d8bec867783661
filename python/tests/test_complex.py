"""Complex numbers as pairs of real tensors (_complex.py), against PyTorch's."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, List, Tuple

import onnx
import pytest
import torch
from torch import nn

from tools import BIN, LIMIT, needs_tools

import actc
from actc._complex import Complex, complex_as_pairs

Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Applied(nn.Module):
    """A function of two complex tensors [N,5,3] and a real one of this shape, as a real tensor."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(6, 15), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x).reshape(-1, 5, 3)
        z, w = torch.view_as_complex(torch.stack([y, y.flip(2)], -1)), torch.polar(y * y + 1, y)
        found = self.function(z, w, y)
        return torch.view_as_real(found) if found.is_complex() else found


class Rotary(nn.Module):
    """Queries and keys that turn with their place. The turns are a buffer or a plain attribute."""

    def __init__(self, buffer: bool) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(12), 100.0 ** -torch.arange(0, 1, 0.25))
        turns = torch.polar(torch.ones_like(angles), angles)
        self.register_buffer("scale", torch.ones(1))
        if buffer:
            self.register_buffer("turns", turns)
        else:
            self.turns = turns
        self.register_buffer("shift", torch.zeros(1))
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def turned(self, x: torch.Tensor) -> torch.Tensor:  # [N,T,2,8]
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        shape = [extent if axis in (1, pairs.ndim - 1) else 1 for axis, extent in enumerate(pairs.shape)]
        return torch.view_as_real(pairs * self.turns[: x.shape[1]].view(*shape)).flatten(3).type_as(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [N,T,16]
        self.turns = self.turns.to(x.device)
        query, key = (self.turned(layer(x).view(*x.shape[:2], 2, 8)) for layer in (self.query, self.key))
        return (query.transpose(1, 2) @ key.permute(0, 2, 3, 1)).softmax(-1).mean(1)


def _without_gradient(z: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        square = z * z
    return z * square


def _imaginary_alone_trains(z: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    made = torch.complex(torch.ones(3, dtype=y.dtype), y)
    assert (
        made.requires_grad and made.is_complex() and not made.is_floating_point() and made.dtype == y.dtype.to_complex()
    )
    assert made.shape == z.shape and made.size(-1) == 3 and len(made) == len(y)
    return made * 2


def _assigned(z: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Views see what is written, copies and operands do not."""
    made = torch.zeros(z.shape[0], 5, 4, dtype=z.dtype) + torch.ones(5, 4, dtype=z.dtype)
    view, copy = made[:, 1:3], made * 2
    made[:, :2, -3:] = z[:, :2] * w[:, 2:4]
    made[:, 2] = 0.5 - 1j
    made[..., 0] = y[..., 0]
    whole = torch.complex(y, y.exp())
    whole[:, 0] = 3
    return torch.cat([made, view * 1j, copy], 1)[..., :3] * torch.cat([whole, y, y[:, :2]], 1)


FUNCTIONS: List[Function] = [
    _assigned,
    lambda z, w, y: torch.einsum("bij,bkj->bik", z, w) * torch.einsum("bij->b", y)[:, None, None],
    lambda z, w, y: z * w * y * 0.5 * 1j,
    lambda z, w, y: torch.mul(y, z) @ w.transpose(1, 2) @ w,
    lambda z, w, y: z / w + w / y.exp() + w / 2 + 1 / (z * z.conj() + 3) + w.reciprocal(),
    lambda z, w, y: z**3 - torch.square(w) + z.pow(1),
    lambda z, w, y: 2 - z + (w + 1) - (0.5 - 2j) + y,
    lambda z, w, y: torch.exp(z) + torch.exp(1j * w),
    lambda z, w, y: torch.where(y > 0, z, 0.5) + z.masked_fill(y > 0.1, 2),
    lambda z, w, y: torch.cat([z, y, w], 1).unsqueeze(1).expand(-1, 2, -1, -1).flatten(1, 2),
    lambda z, w, y: torch.stack([z, w], 2).sum(dim=2, dtype=z.dtype).to(w.dtype)[:, [0, 3], None],
    lambda z, w, y: z.split([1, 4], 1)[1] + w.unbind(1)[0][:, None] + [*z][0][1:],
    lambda z, w, y: z.real * w.imag,
    lambda z, w, y: -z * w.detach() + torch.zeros_like(w),
    lambda z, w, y: z * z.abs() + w.angle(),
    lambda z, w, y: torch.add(z, w, alpha=2 - 1j) + w.to(y.dtype),  # no forms here
    _imaginary_alone_trains,
]


def step(model: nn.Module, x: torch.Tensor) -> Tuple[torch.Tensor, ...]:
    y = model(x)
    return (y, *torch.autograd.grad(y.sin().sum(), list(model.parameters())))


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions_are_pytorchs(number: int) -> None:
    torch.manual_seed(number)
    model, x = Applied(FUNCTIONS[number]).double(), torch.randn(4, 6, dtype=torch.float64)
    expected = step(model, x)
    with complex_as_pairs(model):
        torch.testing.assert_close(step(model, x), expected)


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("buffer", [True, False])
def test_rotary_embeddings_train(tmp_path: Path, exporter: str, buffer: bool) -> None:
    torch.manual_seed(0)
    model = Rotary(buffer)
    names, turns = list(model.state_dict()), model.turns
    report = actc.export(
        model,
        torch.randn(4, 6, 16),
        tmp_path / "m.onnx",
        "mse",
        labels=torch.randn(4, 6, 6),
        exporter=exporter,
        dynamic_batch=True,
        check=True,
        bin_dir=BIN,
    )
    assert max(report.check.loss_error, report.check.gradient_error) <= LIMIT, str(report)
    assert list(model.state_dict()) == names and model.turns is turns


class Spectral(nn.Module):
    """A layer of a Fourier neural operator: complex parameters for the lowest frequencies, one of them in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Parameter(0.3 * torch.randn(2, 3, 3, 2, dtype=torch.cfloat))
        self.others = nn.ParameterList([nn.Parameter(0.3 * torch.randn(2, 3, 3, 2, dtype=torch.cfloat))])
        self.lift = nn.Linear(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [N,8,6]
        found = torch.fft.rfft2(self.lift(x.unsqueeze(-1)).permute(0, 3, 1, 2))
        kept = torch.zeros(x.shape[0], 3, 8, 4, dtype=torch.cfloat, device=x.device)
        kept[:, :, :3, :2] = torch.einsum("bixy,ioxy->boxy", found[:, :, :3, :2], self.low)
        kept[:, :, -3:, :2] = torch.einsum("bixy,ioxy->boxy", found[:, :, -3:, :2], self.others[0])
        return torch.fft.irfft2(kept, s=(8, 6)).square().mean((2, 3))


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_complex_parameters_train(tmp_path: Path, exporter: str) -> None:
    torch.manual_seed(0)
    model = Spectral()
    before, kind = dict(model.named_parameters()), type(model)
    options = {"exporter": exporter, "dynamic_batch": True, "check": True, "bin_dir": BIN}
    report = actc.export(model, torch.randn(4, 8, 6), tmp_path / "m.onnx", "cross-entropy", **options)
    assert report.check.compared == 4 and report.check.gradient_error <= LIMIT, str(report)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "m.onnx").graph.initializer}
    for name in ("low", "others.0"):
        assert (stored[name] == torch.view_as_real(before[name].detach()).numpy()).all()
    after = dict(model.named_parameters())
    assert type(model) is kind and all(after[name] is p for name, p in before.items()) and after["low"].is_complex()


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("function", [_without_gradient, lambda z, w, y: z * w.detach()])
def test_gradients_stop(tmp_path: Path, exporter: str, function: Function) -> None:
    options = {"exporter": exporter, "dynamic_batch": True, "check": True, "bin_dir": BIN}
    torch.manual_seed(0)
    report = actc.export(Applied(function), torch.randn(4, 6), tmp_path / "m.onnx", "mse", **options)
    assert report.check.gradient_error <= LIMIT, str(report)
    assert "StopGradient" in {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}


def _filled(z: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first = (z * 1)[:, 0]
    first *= 2
    return first


@pytest.mark.parametrize(
    "function, message",
    [
        (_filled, "complex numbers changed in place are not supported: mul_"),
        (lambda z, w, y: z * w.cumprod(0), "'aten::view_as_complex' to ONNX opset version 17 is not supported"),
        (lambda z, w, y: torch.fft.hfft(y), "'aten::fft_hfft' to ONNX opset version 17 is not supported"),
    ],
)
def test_errors_say_what_is_not_supported(tmp_path: Path, function: Function, message: str) -> None:
    polar, model = torch.polar, Applied(function)
    with pytest.raises(actc.ExportError) as raised:
        actc.export(model, torch.randn(4, 6), tmp_path / "m.onnx", "mse", exporter="torchscript", check=False)
    assert message in str(raised.value)
    assert torch.polar is polar and not list(tmp_path.iterdir())


def test_shared_tensors_are_one_pair() -> None:
    model = nn.Sequential(Rotary(True), Rotary(False))
    model[1].turns = model[0].turns
    with complex_as_pairs(model):
        assert isinstance(model[0].turns, Complex) and model[0].turns is model[1].turns
        assert [name for name, _ in model.named_buffers()] == ["0.scale", "0.shift", "1.scale", "1.shift"]


def test_lists_of_a_module_hold_pairs_and_afterwards_what_they_held() -> None:
    model = Rotary(True)
    held = model.tables = [{"turns": (model.turns, 3)}, model.turns.real]
    with complex_as_pairs(model):
        (pair, number), real = model.tables[0]["turns"], model.tables[1]
        assert pair is model.turns and isinstance(pair, Complex) and number == 3 and type(real) is torch.Tensor
    assert model.tables is held and held[0]["turns"][0].is_complex()
