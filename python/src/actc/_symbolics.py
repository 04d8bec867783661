"""Operators that PyTorch's TorchScript exporter lacks, or writes wrong, as ONNX nodes."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional

import onnx
import torch

from ._errors import ExportError

STOP = ("act", "StopGradient")  # domain and name


def _constant(g: Any, value: Any) -> Any:
    return g.op("Constant", value_t=torch.tensor(value))


def _known(value: Any) -> Optional[torch.Tensor]:
    """The value of a constant; None if it depends on data."""
    node = value.node()
    if node.kind() not in ("onnx::Constant", "prim::Constant"):
        return None
    return torch.as_tensor(node.t("value") if node.kindOf("value") == "t" else node.i("value"))


def _number(value: Any, of: str) -> int:
    known = _known(value)
    if known is None:
        raise ExportError(f"{of} that depends on data has no ONNX form")
    return int(known)


def _rank(x: Any) -> int:
    rank = x.type().dim()
    if rank is None:
        raise ExportError("a tensor of unknown rank has no ONNX form here")
    return int(rank)


def _extent(g: Any, x: Any, axis: int) -> Any:
    return g.op("Gather", g.op("Shape", x), _constant(g, axis), axis_i=0)


def _diff(g: Any, x: Any, n: Any, axis: Any, prepend: Any, append: Any) -> Any:
    """torch.diff, the differences of neighbours along an axis, which the exporter lacks."""
    if _number(n, "an order of torch.diff") != 1:
        raise ExportError("torch.diff of another order than 1 has no ONNX form")
    along = _number(axis, "an axis of torch.diff")
    parts = [part for part in (prepend, x, append) if not part.node().mustBeNone()]
    joined = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=along)
    upper = g.op("Slice", joined, _constant(g, [1]), _constant(g, [2**63 - 1]), _constant(g, [along]))
    lower = g.op("Slice", joined, _constant(g, [0]), _constant(g, [-1]), _constant(g, [along]))
    return g.op("Sub", upper, lower)


def _expm1(g: Any, x: Any) -> Any:
    """torch.expm1, which the exporter lacks. (e^x - 1) / (e^x + 1) is tanh(x / 2), so this form is exact where e^x - 1
    would cancel."""
    half = g.op("Mul", x, _constant(g, 0.5))
    return g.op("Mul", g.op("Tanh", half), g.op("Add", g.op("Exp", x), _constant(g, 1.0)))


def _linspace(g: Any, start: Any, end: Any, steps: Any, *_: Any) -> Any:
    """torch.linspace in float32. The exporter divides by steps - 1, so its form of one number, which is `start`, is
    NaN: 0 / 0 in an image of one row."""

    def real(x: Any) -> Any:
        return g.op("Cast", x, to_i=onnx.TensorProto.FLOAT)

    zero, one = _constant(g, 0), _constant(g, 1)
    gaps = g.op("Max", g.op("Sub", steps, one), one)
    step = g.op("Div", g.op("Sub", real(end), real(start)), real(gaps))
    return g.op("Add", g.op("Mul", real(g.op("Range", zero, steps, one)), step), real(start))


def _repeat_interleave(g: Any, x: Any, repeats: Any, axis: Any = None, _: Any = None) -> Any:
    """torch.repeat_interleave. The exporter counts a negative axis from the front, and changes the constant that other
    nodes read too: an -1 of torch.expand becomes 3."""
    counts = _known(repeats)
    if counts is None and _rank(repeats) > 0:
        raise ExportError("torch.repeat_interleave with counts that depend on data has no ONNX form")
    if axis is None or axis.node().mustBeNone():
        x, along = g.op("Reshape", x, _constant(g, [-1])), 0
    else:
        along = _number(axis, "an axis of torch.repeat_interleave") % _rank(x)
    if counts is None or counts.numel() == 1:
        times = repeats if counts is None else _constant(g, int(counts))
        end = g.op("Mul", _extent(g, x, along), times)
        places = g.op("Div", g.op("Range", _constant(g, 0), end, _constant(g, 1)), times)
    else:
        places = g.op("Constant", value_t=torch.repeat_interleave(torch.arange(counts.numel()), counts))
    return g.op("Gather", x, places, axis_i=along)


def _unfold(g: Any, x: Any, axis: Any, size: Any, step: Any) -> Any:
    """torch.Tensor.unfold: windows along an axis, whose elements become the last axis. The exporter puts the windows of
    a negative axis in the wrong place."""
    rank = _rank(x)
    along = _number(axis, "an axis of torch.Tensor.unfold") % rank
    length, stride = _number(size, "a length of windows"), _number(step, "a step of windows")
    end = g.op("Sub", _extent(g, x, along), _constant(g, length - 1))
    starts = g.op("Reshape", g.op("Range", _constant(g, 0), end, _constant(g, stride)), _constant(g, [-1, 1]))
    places = g.op("Add", starts, g.op("Constant", value_t=torch.arange(length)))
    order = list(range(rank + 1))
    order.append(order.pop(along + 1))
    return g.op("Transpose", g.op("Gather", x, places, axis_i=along), perm_i=order)


def _detach(g: Any, x: Any) -> Any:
    """Tensor.detach(), which the TorchScript exporter drops. What has no gradient needs no stop."""
    if x.type().scalarType() != "Float":
        return x
    return g.op("::".join(STOP), x).setType(x.type())


_OURS = {
    "aten::detach": _detach,
    "aten::diff": _diff,
    "aten::expm1": _expm1,
    "aten::linspace": _linspace,
    "aten::repeat_interleave": _repeat_interleave,
    "aten::unfold": _unfold,
}


@contextlib.contextmanager
def more_operators(opset: int) -> Iterator[None]:
    """TorchScript's exporter has them at this opset."""
    for name, write in _OURS.items():
        torch.onnx.register_custom_op_symbolic(name, write, opset)
    try:
        yield
    finally:
        for name in _OURS:
            torch.onnx.unregister_custom_op_symbolic(name, opset)
