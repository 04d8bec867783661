"""Runs the ONNX graph of a golden case by the functions that PyTorch's modules call."""
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

from modules import Call, find_modules


def _ints(tensor):
    return [int(i) for i in tensor.flatten().tolist()]


def _symmetric(attributes):
    """ONNX's pads are of all axes' begins, then of their ends."""
    pads = attributes.get("pads", [0, 0, 0, 0])
    half = len(pads) // 2
    assert pads[:half] == pads[half:], "these pads are not a module's"
    return pads[:half]


def _conv(a, x, weight, bias=None):
    return F.conv2d(x, weight, bias, a.get("strides", 1), _symmetric(a), a.get("dilations", 1),
                    a.get("group", 1))


def _conv_transpose(a, x, weight, bias=None):
    return F.conv_transpose2d(x, weight, bias, a.get("strides", 1), _symmetric(a), a.get("output_padding", 0),
                              a.get("group", 1), a.get("dilations", 1))


def _batch_norm(a, x, weight, bias, mean, variance):
    assert a["training_mode"] == 1
    return F.batch_norm(x, mean, variance, weight, bias, True, 1 - a["momentum"], a["epsilon"])


def _gemm(a, x, weight, bias):
    assert a.get("alpha", 1) == 1 and a.get("beta", 1) == 1 and a.get("transA", 0) == 0
    return F.linear(x, weight, bias) if a.get("transB", 0) else torch.addmm(bias, x, weight)


def _attention(a, q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def _lstm(a, x, weights, recurrent, biases, lengths, h0, c0):
    """ONNX orders gates i, o, f, c, and PyTorch i, f, c, o."""
    def reorder(t):
        i, o, f, c = t[0].chunk(4)
        return torch.cat([i, f, c, o])

    bias, recurrent_bias = biases.chunk(2, dim=1)
    parameters = [reorder(t) for t in (weights, recurrent, bias, recurrent_bias)]
    x = x.to(parameters[0].dtype)
    y, h, c = torch._VF.lstm(x, (h0.to(x.dtype), c0.to(x.dtype)), parameters, True, 1, 0.0, True, False, False)
    return y.unsqueeze(1), h, c


def _embedding(table, index):
    """ONNX does not say which row is for padding. nn.Embedding starts it, and no other, at 0."""
    empty = (table == 0).all(1).nonzero()
    return F.embedding(index, table, padding_idx=empty.item() if empty.numel() == 1 else None)


def _gather(a, x, index):
    axis = a.get("axis", 0)
    if x.is_floating_point() and x.dim() == 2 and axis == 0:
        return _embedding(x, index)
    index = index.where(index >= 0, index + x.shape[axis])
    if index.dim() == 0:
        return x.select(axis, index.item())
    return x.index_select(axis, index.flatten()).reshape(x.shape[:axis] + index.shape + x.shape[axis + 1:])


def _reshape(a, x, shape):
    sizes = _ints(shape)
    if not a.get("allowzero", 0):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def _slice(a, x, starts, ends, axes=None, steps=None):
    axes = _ints(axes) if axes is not None else range(starts.numel())
    steps = _ints(steps) if steps is not None else [1] * starts.numel()
    for start, end, axis, step in zip(_ints(starts), _ints(ends), axes, steps):
        slices = [slice(None)] * x.dim()
        slices[axis] = slice(start, end, step)
        x = x[tuple(slices)]
    return x


def _unsqueeze(a, x, axes):
    for axis in sorted(i % (x.dim() + axes.numel()) for i in _ints(axes)):
        x = x.unsqueeze(axis)
    return x


def _flatten(a, x):
    axis = a.get("axis", 1)
    rows = 1
    for size in x.shape[:axis]:
        rows *= size
    return x.reshape(rows, -1)


def _layer_norm(a, x, weight, bias):
    assert a.get("axis", -1) == -1
    return F.layer_norm(x, weight.shape, weight, bias, a["epsilon"])


def _max_pool(a, x):
    return F.max_pool2d(x, a["kernel_shape"], a["strides"], _symmetric(a), a.get("dilations", 1),
                        bool(a.get("ceil_mode")))


def _average_pool(a, x):
    return F.avg_pool2d(x, a["kernel_shape"], a["strides"], _symmetric(a), bool(a.get("ceil_mode")),
                        bool(a.get("count_include_pad")))


def _div(a, x, y):
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _dropout(a, x, ratio, training):
    assert ratio.item() == 0, "golden cases drop nothing"
    return x


def _gather_nd(a, x, index):
    return x[tuple(index.unbind(-1))]


TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}
OPS = {
    "Add": lambda a, x, y: x + y,
    "And": lambda a, x, y: x & y,
    "Attention": _attention,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": lambda a, x: x if x.is_floating_point() and a["to"] == 1 else x.to(TYPES[a["to"]]),
    "CastLike": lambda a, x, y: x.to(y.dtype),
    "Clip": lambda a, x, low, high: F.hardtanh(x, low.item(), high.item()),
    "Concat": lambda a, *parts: torch.cat(parts, a["axis"]),
    "ConstantOfShape": lambda a, shape: a["value"].reshape(()).expand(_ints(shape)),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "CumSum": lambda a, x, axis: x.cumsum(axis.item()),
    "Div": _div,
    "Dropout": _dropout,
    "Equal": lambda a, x, y: x == y,
    "Expand": lambda a, x, shape: x.expand(torch.broadcast_shapes(x.shape, _ints(shape))),
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": lambda a, x, index: x.gather(a["axis"], index),
    "GatherND": _gather_nd,
    "Gelu": lambda a, x: F.gelu(x),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda a, x: F.adaptive_avg_pool2d(x, 1),
    "GreaterOrEqual": lambda a, x, y: x >= y,
    "Identity": lambda a, x: x,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "LessOrEqual": lambda a, x, y: x <= y,
    "Linear": lambda a, x, weight, bias=None: F.linear(x, weight, bias),
    "MatMul": lambda a, x, y: torch.matmul(x, y),
    "Max": lambda a, x, y: torch.maximum(x, y),
    "MaxPool": _max_pool,
    "Mod": lambda a, x, y: x.remainder(y),
    "Mul": lambda a, x, y: x * y,
    "Not": lambda a, x: ~x,
    "Pow": lambda a, x, y: torch.pow(x, y.item()),
    "Range": lambda a, start, end, step: torch.arange(start.item(), end.item(), step.item()),
    "Relu": lambda a, x: F.relu(x),
    "Reshape": _reshape,
    "SequenceAt": lambda a, parts, i: parts[i.item()],
    "Shape": lambda a, x: torch.tensor(x.shape),
    "Slice": _slice,
    "Softmax": lambda a, x: F.softmax(x, a["axis"]),
    "SoftmaxCrossEntropyLoss": lambda a, x, label: F.cross_entropy(
        x, label, ignore_index=a["ignore_index"], reduction=a["reduction"].decode()),
    "SplitToSequence": lambda a, x, size: x.split(size.item(), a["axis"]),
    "Sqrt": lambda a, x: x.sqrt(),
    "Squeeze": lambda a, x, axes: x.squeeze(_ints(axes)),
    "Sub": lambda a, x, y: x - y,
    "Tanh": lambda a, x: x.tanh(),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Unsqueeze": _unsqueeze,
    "Where": lambda a, condition, x, y: torch.where(condition, x, y),
}


class TorchGraph:
    """A model whose parameters, buffers and other float32 tensors have `dtype`. `parameters` and `buffers` have
    the names of the file."""

    def __init__(self, path, parameter_names, dtype):
        graph = onnx.load(path).graph
        self.dtype = dtype
        self.parameters, self.buffers, self.constants, calls = {}, {}, {}, []
        for initializer in graph.initializer:
            tensor = self._tensor(initializer)
            if initializer.name in parameter_names:
                self.parameters[initializer.name] = tensor.requires_grad_()
            elif initializer.name.endswith((".running_mean", ".running_var")):
                self.buffers[initializer.name] = tensor
            else:
                self.constants[initializer.name] = tensor
        for node in graph.node:
            values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            values = {k: self._tensor(v) if isinstance(v, onnx.TensorProto) else v for k, v in values.items()}
            if node.op_type == "Constant":
                (value,) = values.values()  # value, value_int, value_floats ...
                self.constants[node.output[0]] = self._cast(torch.as_tensor(value))
            else:
                calls.append(Call(node.op_type, list(node.input), list(node.output), values))
        assert set(self.parameters) == set(parameter_names), "a parameter is missing in the file"
        self.calls = find_modules(calls, self.constants, self.parameters)

    def _tensor(self, proto):
        return self._cast(torch.tensor(numpy_helper.to_array(proto)))

    def _cast(self, tensor):
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def loss(self, inputs):
        values = {name: self._cast(tensor) for name, tensor in inputs.items()}
        values.update(self.constants, **self.parameters, **self.buffers)
        for call in self.calls:
            results = OPS[call.op](call.attributes, *(values[name] if name else None for name in call.inputs))
            values.update(zip(call.outputs, results if call.op == "LSTM" else [results]))
        return values["loss"]
