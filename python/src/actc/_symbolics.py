"""Operators that PyTorch's TorchScript exporter lacks, or writes wrong, as ONNX nodes."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Iterator

import onnx
import torch
from torch.onnx import JitScalarType

from . import _image_forms, _random_forms
from ._errors import ExportError
from ._forms import constant, extent, integer, integers, known_or_none, number, rank_of, value_of, vector

STOP = ("act", "StopGradient")  # domain and name


def _adaptive_avg_pool(g: Any, x: Any, output_size: Any) -> Any:
    """torch.nn.functional.adaptive_avg_pool1d to 3d. The exporter lacks those whose windows are not of one length. A
    window's mean along an axis of n elements is a row of a matrix [windows, n]."""
    counts = integers(output_size, "an output size of an adaptive pool")
    if all(count == 1 for count in counts):
        return g.op("GlobalAveragePool", x)
    of_x = x.type()
    sizes = of_x.varyingSizes() or []
    first, extents = sizes[: -len(counts)], sizes[-len(counts) :]
    if len(extents) < len(counts) or None in extents or first.count(None) > 1:
        raise ExportError("an adaptive pool of an image of unknown extents has no ONNX form")
    if all(n % count == 0 for n, count in zip(extents, counts)):
        lengths = [n // count for n, count in zip(extents, counts)]
        return g.op("AveragePool", x, kernel_shape_i=lengths, strides_i=lengths)
    images = [-1 if n is None else n for n in first]
    for axis, (n, count) in enumerate(zip(extents, counts)):
        means = torch.zeros(count, n)
        for i in range(count):
            begin, end = i * n // count, -(-(i + 1) * n // count)
            means[i, begin:end] = 1 / (end - begin)
        # The axes before this one have their windows, the axes after it their elements.
        apart = [*images, math.prod(counts[:axis]), n, math.prod(extents[axis + 1 :])]
        x = g.op("MatMul", g.op("Constant", value_t=means), g.op("Reshape", x, constant(g, apart)))
    # The exporter does not follow extents through a Reshape of a batch that it does not know.
    return g.op("Reshape", x, constant(g, images + counts)).setType(of_x.with_sizes(first + counts))


def _cumsum(g: Any, x: Any, axis: Any, dtype: Any) -> Any:
    """torch.cumsum. The exporter leaves sums of booleans as they are, which ONNX's operator does not take: then
    runtimes refuse the trained model."""
    kind = None if dtype.node().mustBeNone() else JitScalarType(integer(dtype, "a type of torch.cumsum")).onnx_type()
    if kind is None and x.type().scalarType() == "Bool":
        kind = onnx.TensorProto.INT64
    if kind is not None:
        x = g.op("Cast", x, to_i=kind)
    return g.op("CumSum", x, constant(g, integer(axis, "an axis of torch.cumsum")))


def _diff(g: Any, x: Any, n: Any, axis: Any, prepend: Any, append: Any) -> Any:
    """torch.diff, the differences of neighbours along an axis, which the exporter lacks."""
    if integer(n, "an order of torch.diff") != 1:
        raise ExportError("torch.diff of another order than 1 has no ONNX form")
    along = integer(axis, "an axis of torch.diff")
    parts = [part for part in (prepend, x, append) if not part.node().mustBeNone()]
    joined = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=along)
    upper = g.op("Slice", joined, constant(g, [1]), constant(g, [2**63 - 1]), constant(g, [along]))
    lower = g.op("Slice", joined, constant(g, [0]), constant(g, [-1]), constant(g, [along]))
    return g.op("Sub", upper, lower)


def _expm1(g: Any, x: Any) -> Any:
    """torch.expm1, which the exporter lacks. (e^x - 1) / (e^x + 1) is tanh(x / 2), so this form is exact where e^x - 1
    would cancel."""
    half = g.op("Mul", x, constant(g, 0.5))
    return g.op("Mul", g.op("Tanh", half), g.op("Add", g.op("Exp", x), constant(g, 1.0)))


def _index_add(g: Any, x: Any, axis: Any, index: Any, other: Any, alpha: Any = None) -> Any:
    """torch.index_add. The exporter keeps one of several additions to a place."""
    rank = rank_of(x)
    along = integer(axis, "an axis of torch.index_add") % rank
    if g.opset < 16:
        raise ExportError("torch.index_add has no ONNX form before opset 16", "opset=17")
    if alpha is not None and not alpha.node().mustBeNone() and value_of(alpha) != 1:
        other = g.op("Mul", other, g.op("CastLike", alpha, other))
    aligned = g.op("Reshape", index, constant(g, [-1 if i == along else 1 for i in range(rank)]))
    places = g.op("Expand", aligned, g.op("Shape", other))
    return g.op("ScatterElements", x, places, other, axis_i=along, reduction_s="add")


def _instance_norm(
    g: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, of_input: Any, momentum: Any, epsilon: Any, _: Any
) -> Any:
    """torch.instance_norm by the statistics of each image, which the exporter refuses for a batch that it does not
    know."""
    channels = (x.type().varyingSizes() or [None, None])[1]
    if not integer(of_input, "a choice of statistics") or channels is None:
        raise ExportError("torch.instance_norm by running statistics, or of unknown channels, has no ONNX form here")
    scale, shift = (
        g.op("Constant", value_t=torch.full((channels,), value)) if given.node().mustBeNone() else given
        for given, value in ((weight, 1.0), (bias, 0.0))
    )
    return g.op("InstanceNormalization", x, scale, shift, epsilon_f=number(epsilon, "an epsilon of a norm"))


def _linspace(g: Any, start: Any, end: Any, steps: Any, *_: Any) -> Any:
    """torch.linspace in float32. The exporter divides by steps - 1, so its form of one number, which is `start`, is
    NaN: 0 / 0 in an image of one row."""

    def real(x: Any) -> Any:
        return g.op("Cast", x, to_i=onnx.TensorProto.FLOAT)

    zero, one = constant(g, 0), constant(g, 1)
    gaps = g.op("Max", g.op("Sub", steps, one), one)
    step = g.op("Div", g.op("Sub", real(end), real(start)), real(gaps))
    return g.op("Add", g.op("Mul", real(g.op("Range", zero, steps, one)), step), real(start))


def _movedim(g: Any, x: Any, source: Any, destination: Any) -> Any:
    """torch.movedim. The exporter leaves negative axes in a Transpose, and takes extents from their places."""
    rank = rank_of(x)
    moved, places = (
        [axis % rank for axis in integers(axes, "an axis of torch.movedim")] for axes in (source, destination)
    )
    others = iter(axis for axis in range(rank) if axis not in moved)
    return g.op("Transpose", x, perm_i=[moved[places.index(i)] if i in places else next(others) for i in range(rank)])


def _repeat_interleave(g: Any, x: Any, repeats: Any, axis: Any = None, _: Any = None) -> Any:
    """torch.repeat_interleave. The exporter counts a negative axis from the front, and changes the constant that other
    nodes read too: an -1 of torch.expand becomes 3."""
    counts = value_of(repeats)
    if counts is None and rank_of(repeats) > 0:
        raise ExportError("torch.repeat_interleave with counts that depend on data has no ONNX form")
    if axis is None or axis.node().mustBeNone():
        x, along = g.op("Reshape", x, constant(g, [-1])), 0
    else:
        along = integer(axis, "an axis of torch.repeat_interleave") % rank_of(x)
    if counts is None or counts.numel() == 1:
        times = repeats if counts is None else constant(g, int(counts))
        end = g.op("Mul", extent(g, x, along), times)
        places = g.op("Div", g.op("Range", constant(g, 0), end, constant(g, 1)), times)
    else:
        places = g.op("Constant", value_t=torch.repeat_interleave(torch.arange(counts.numel()), counts))
    return g.op("Gather", x, places, axis_i=along)


def _rms_norm(g: Any, x: Any, extents: Any, weight: Any, epsilon: Any) -> Any:
    """torch.rms_norm, which the exporter lacks: x / sqrt(mean(x^2) + epsilon) * weight."""
    known = value_of(extents)  # else a list of values
    count = len(list(extents.node().inputs())) if known is None else known.numel()
    axes = list(range(-count, 0))
    squares = g.op("Mul", x, x)
    if g.opset < 18:
        mean = g.op("ReduceMean", squares, axes_i=axes, keepdims_i=1)
    else:
        mean = g.op("ReduceMean", squares, constant(g, axes), keepdims_i=1)
    none = epsilon.node().mustBeNone()
    least = torch.finfo(torch.float32).eps if none else number(epsilon, "an epsilon of torch.rms_norm")
    y = g.op("Div", x, g.op("Sqrt", g.op("Add", mean, constant(g, least))))
    return y if weight.node().mustBeNone() else g.op("Mul", y, weight)


def _softplus(g: Any, x: Any, beta: Any, threshold: Any) -> Any:
    """torch.nn.functional.softplus: log(1 + e^(beta x)) / beta, and x where beta x is above the threshold, which the
    exporter drops."""
    scale, most = number(beta, "a beta of softplus"), number(threshold, "a threshold of softplus")
    scaled = x if scale == 1 else g.op("Mul", x, constant(g, scale))
    y = g.op("Softplus", scaled)
    y = y if scale == 1 else g.op("Div", y, constant(g, scale))
    if math.exp(-most) < 2**-24 * most:  # both are x to float32's precision
        return y
    return g.op("Where", g.op("Greater", scaled, constant(g, most)), x, y)


def _unflatten(g: Any, x: Any, axis: Any, sizes: Any) -> Any:
    """torch.Tensor.unflatten. The exporter loses track of the batch behind it, and later takes the example's."""
    along = integer(axis, "an axis of torch.unflatten") % rank_of(x)
    parts = known_or_none(sizes)  # one is a value of the graph where it is an extent that the exporter does not know
    extents = x.type().varyingSizes() or [None] * rank_of(x)
    shape, whole = g.op("Shape", x), extents[along]
    before = g.op("Slice", shape, constant(g, [0]), constant(g, [along]), constant(g, [0]))
    after = g.op("Slice", shape, constant(g, [along + 1]), constant(g, [2**63 - 1]), constant(g, [0]))
    y = g.op("Reshape", x, g.op("Concat", before, vector(g, sizes), after, axis_i=0))
    others = [part for part in parts if part is not None and part != -1]
    rest = whole // math.prod(others) if whole and None not in parts else None  # what a -1 stands for
    made = [rest if part == -1 else part for part in parts]
    return y.setType(x.type().with_sizes(extents[:along] + made + extents[along + 1 :]))


def _unfold(g: Any, x: Any, axis: Any, size: Any, step: Any) -> Any:
    """torch.Tensor.unfold: windows along an axis, whose elements become the last axis. The exporter puts the windows of
    a negative axis in the wrong place."""
    rank = rank_of(x)
    along = integer(axis, "an axis of torch.Tensor.unfold") % rank
    length, stride = integer(size, "a length of windows"), integer(step, "a step of windows")
    end = g.op("Sub", extent(g, x, along), constant(g, length - 1))
    starts = g.op("Reshape", g.op("Range", constant(g, 0), end, constant(g, stride)), constant(g, [-1, 1]))
    places = g.op("Add", starts, g.op("Constant", value_t=torch.arange(length)))
    order = list(range(rank + 1))
    order.append(order.pop(along + 1))
    return g.op("Transpose", g.op("Gather", x, places, axis_i=along), perm_i=order)


def _same(name: str) -> Any:
    """A function of one operand that ONNX has and the exporter lacks."""
    return lambda g, x: g.op(name, x)


def _copy(g: Any, x: Any, source: Any, _: Any = None) -> Any:
    """torch.Tensor.copy_ into all of x, from a tensor of its type: the exporter has the form that changes x alone."""
    if source.type().scalarType() != x.type().scalarType():
        raise ExportError("torch.Tensor.copy_ into a tensor of another type has no ONNX form here")
    return g.op("Expand", source, g.op("Shape", x)).setType(x.type())


def _detach(g: Any, x: Any) -> Any:
    """Tensor.detach(), which the TorchScript exporter drops. What has no gradient needs no stop."""
    if x.type().scalarType() != "Float":
        return x
    return g.op("::".join(STOP), x).setType(x.type())


_OURS = {
    **{f"aten::{name.lower()}": _same(name) for name in ("Acosh", "Asinh", "Atanh", "Cosh", "Sinh")},
    "aten::_upsample_bicubic2d_aa": _image_forms.upsample_antialiased("cubic"),
    "aten::_upsample_bilinear2d_aa": _image_forms.upsample_antialiased("linear"),
    "aten::_upsample_nearest_exact1d": _image_forms.upsample_nearest_exact,
    "aten::_upsample_nearest_exact2d": _image_forms.upsample_nearest_exact,
    "aten::_upsample_nearest_exact3d": _image_forms.upsample_nearest_exact,
    "aten::adaptive_avg_pool1d": _adaptive_avg_pool,
    "aten::adaptive_avg_pool2d": _adaptive_avg_pool,
    "aten::adaptive_avg_pool3d": _adaptive_avg_pool,
    "aten::copy": _copy,
    "aten::cumsum": _cumsum,
    "aten::detach": _detach,
    "aten::diff": _diff,
    "aten::expm1": _expm1,
    "aten::exponential": _random_forms.exponential,
    "aten::feature_dropout": _random_forms.feature_dropout,
    "aten::index_add": _index_add,
    "aten::instance_norm": _instance_norm,
    "aten::linspace": _linspace,
    "aten::movedim": _movedim,
    "aten::repeat_interleave": _repeat_interleave,
    "aten::rms_norm": _rms_norm,
    "aten::sgn": _same("Sign"),
    "aten::softplus": _softplus,
    "aten::unflatten": _unflatten,
    "aten::unfold": _unfold,
    "aten::uniform": _random_forms.uniform,
    "torchvision::deform_conv2d": _image_forms.deform_conv,
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
