#!/usr/bin/env python3
"""Training graphs that ONNX Runtime makes of single operators, and the gradients that it computes.

    make.py [NAME...]    needs onnxruntime-training 1.19.2, torch, numpy, onnx, safetensors; the tests need none

It writes NAME.onnx for every case and numbers.safetensors beside this file. The loss of a case is the mean of
mix y y, with y the operator's result and mix a constant of mixed signs. The numbers of a case are NAME/input.X,
NAME/param.P, NAME/loss, NAME/scale (the mean of the magnitudes that the loss sums) and NAME/grad.P."""
import contextlib
import io
import os
import re
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper, parser
from onnxruntime.training import artifacts
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 3
cases = []


def case(name, body, params, inputs=None, consts=None, opset=17, seed=None, low=-1.0, high=1.0, torch=None,
    training_sums=False, batch_axis=0):
    """body: nodes in ONNX's text form, which make y of `params`, `inputs` (dims without the batch, or an array of
    integers with it) and `consts`. Elements of parameters are between low and high. torch: makes y of all of these
    in PyTorch, for operators that ONNX Runtime's CPU build has no kernel for."""
    cases.append(dict(name=name, body=body, params=params, inputs=inputs or {}, consts=consts or {}, opset=opset,
                      low=low, high=high, torch=torch, training_sums=training_sums, batch_axis=batch_axis))


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


def unary(op, low=-1.0, high=1.0, attrs="", name=None, opset=17, domain=""):
    case(name or op.lower(), f"h = Mul(x, p) \n y = {domain}{op}{attrs}(h)", {"p": [2, 3]}, {"x": [2, 3]}, low=low,
         high=high, opset=opset)


MS = "com.microsoft."
for op in "Sin Cos Tanh Erf Relu Neg Sigmoid Exp Identity Abs LeakyRelu Flatten".split():
    unary(op)
for op in "Sqrt Log Reciprocal".split():
    case(op.lower(), f"a = Exp(x) \n h = Mul(a, p) \n y = {op}(h)", {"p": [2, 3]}, {"x": [2, 3]}, low=.5, high=2)
unary("LeakyRelu", attrs="<alpha = 0.3>", name="leaky_relu_alpha")
unary("Gelu", name="gelu", domain=MS)
unary("FastGelu", name="fast_gelu", domain=MS)
unary("QuickGelu", name="quick_gelu", domain=MS, attrs="<alpha = 1.3>")
case("fast_gelu_bias", "h = Mul(x, p) \n y = com.microsoft.FastGelu(h, b)", {"p": [2, 3], "b": [3]}, {"x": [2, 3]})
case("bias_gelu", "h = Mul(x, p) \n y = com.microsoft.BiasGelu(h, b)", {"p": [2, 3], "b": [3]}, {"x": [2, 3]})
unary("Gelu", name="gelu_20", opset=20)
unary("Gelu", name="gelu_20_tanh", opset=20, attrs='<approximate = "tanh">')
for e in ("2", "3", "0.5", "-1"):
    case("pow_" + e.replace(".", "_").replace("-", "minus"), "a = Exp(x) \n h = Mul(a, p) \n y = Pow(h, e)",
         {"p": [2, 3]},
         {"x": [2, 3]}, {"e": np.float32(e)}, low=.5, high=2)
case("cast", "h = Mul(x, p) \n d = Cast<to = 11>(h) \n y = Cast<to = 1>(d)", {"p": [2, 3]}, {"x": [2, 3]})
for op in "Add Sub Mul Div".split():
    o = op.lower()
    case(o + "_both", f"h = Mul(x, p) \n g = Add(x, q) \n k = Exp(g) \n y = {op}(h, k)", {"p": [2, 3], "q": [2, 3]},
         {"x": [2, 3]})
    case(o + "_broadcast", f"h = Mul(x, p) \n k = Exp(q) \n y = {op}(h, k)", {"p": [2, 3], "q": [2, 1]},
         {"x": [2, 3]})
    case(o + "_left", f"k = Exp(x) \n h = Tanh(p) \n y = {op}(h, k)", {"p": [3]}, {"x": [2, 3]})
    case(o + "_same", f"h = Mul(x, p) \n k = Exp(h) \n y = {op}(k, k)" if op in ("Mul", "Add") else
         f"h = Mul(x, p) \n k = Exp(h) \n j = {op}(k, k) \n y = Add(j, k)", {"p": [3]}, {"x": [2, 3]})
for op in "Min Max".split():
    o = op.lower()
    case(o + "_two", f"h = Mul(x, p) \n y = {op}(h, q)", {"p": [2, 3], "q": [3]}, {"x": [2, 3]})
    case(o + "_three", f"h = Mul(x, p) \n t = Sub(x, p) \n y = {op}(h, q, t)", {"p": [2, 3], "q": [3]},
         {"x": [2, 3]})
    case(o + "_tie", f"h = Mul(x, p) \n g = Identity(h) \n y = {op}(h, g)", {"p": [2, 3]}, {"x": [2, 3]})
case("where", "c = Greater(x, q) \n h = Mul(x, p) \n k = Exp(h) \n y = Where(c, h, k)", {"p": [2, 3]},
     {"x": [2, 3]},
     {"q": f32(.1)})
for name, args, consts in (("clip", "h, lo, hi", {"lo": np.float32(-.3), "hi": np.float32(.4)}),
                           ("clip_min", "h, lo", {"lo": np.float32(-.3)}),
                           ("clip_max", "h, , hi", {"hi": np.float32(.4)})):
    case(name, f"h = Mul(x, p) \n y = Clip({args})", {"p": [2, 3]}, {"x": [2, 3]}, consts)
case("clip_none", "h = Mul(x, p) \n y = Clip(h)", {"p": [2, 3]}, {"x": [2, 3]})

for op in "ReduceSum ReduceMean ReduceL2 ReduceLogSumExp".split():
    o = re.sub(r"(?<!^)(?=[A-Z])", "_", op).lower()
    head = f"h = Mul(x, p) \n y = {op}<keepdims = "
    dims = {"p": [2, 3]}, {"x": [2, 3]}
    later = 13 if op == "ReduceSum" else 18  # axes are an input
    for keep in (0, 1):
        case(f"{o}_{keep}", f"{head}{keep}>(h, a)", *dims, {"a": i64(1)}, later)
        case(f"{o}_{keep}_12", f"{head}{keep}, axes = [1]>(h)", *dims, {}, 12)
    case(f"{o}_two", f"{head}0>(h, a)", *dims, {"a": i64(1, -1)}, later)
    if op in ("ReduceSum", "ReduceMean"):  # the builder's nodes of the others do not fit without axes
        case(f"{o}_all", f"{head}0>(h)", *dims)

case("matmul_2d", "y = MatMul(x, p)", {"p": [4, 5]}, {"x": [4]})
case("matmul_3d", "h = MatMul(x, p) \n y = MatMul(h, q)", {"p": [4, 5], "q": [5, 3]}, {"x": [2, 4]})
case("matmul_batched", "h = Mul(x, p) \n k = Add(x, q) \n t = Transpose<perm = [0, 2, 1]>(k) \n y = MatMul(h, t)",
     {"p": [2, 4], "q": [2, 4]}, {"x": [2, 4]})
case("matmul_broadcast", "h = Mul(x, r) \n y = MatMul(h, p)", {"p": [2, 4, 5], "r": [2, 3, 4]}, {"x": [2, 3, 4]})
case("matmul_one", "h = Mul(x, r) \n y = MatMul(p, h)", {"p": [2, 3], "r": [3, 4]}, {"x": [3, 4]})
for ta in (0, 1):
    for tb in (0, 1):
        case(f"gemm_{ta}{tb}", ("t = Transpose<perm = [1, 0]>(h) \n " if ta else "t = Identity(h) \n ") .join(["h = Mul(x, r) \n ", ""]) +
             f"y = Gemm<transA = {ta}, transB = {tb}, alpha = 0.8, beta = 0.6>(t, p, b)",
             {"p": [5, 4] if tb else [4, 5], "b": [5], "r": [4]}, {"x": [4]})
case("gemm_plain", "h = Mul(x, r) \n y = Gemm(h, p)", {"p": [4, 5], "r": [4]}, {"x": [4]})
case("gemm_bias_full", "h = Mul(x, r) \n y = Gemm(h, p, h)", {"p": [4, 4], "r": [4]}, {"x": [4]})
case("gemm_bias_scalar", "h = Mul(x, r) \n y = Gemm(h, p, b)", {"p": [4, 4], "r": [4], "b": [1]}, {"x": [4]})

case("concat", "h = Mul(x, p) \n k = Exp(h) \n y = Concat<axis = 1>(h, k, h)", {"p": [2, 3]}, {"x": [2, 3]})
case("concat_last", "h = Mul(x, p) \n k = Exp(h) \n y = Concat<axis = -1>(h, k)", {"p": [2, 3]}, {"x": [2, 3]})
case("concat_12", "h = Mul(x, p) \n k = Exp(h) \n y = Concat<axis = 1>(h, k)", {"p": [2, 3]}, {"x": [2, 3]},
     opset=12)
case("concat_one", "h = Mul(x, p) \n y = Concat<axis = 1>(h, x)", {"p": [2, 3]}, {"x": [2, 3]})
case("split", "h = Mul(x, p) \n a, b = Split<axis = 1>(h, s) \n c = ReduceSum<keepdims = 1>(b, ax) \n y = Mul(a, c)",
     {"p": [5, 3]}, {"x": [5, 3]}, {"s": i64(2, 3), "ax": i64(1)})
case("split_12", "h = Mul(x, p) \n a, b = Split<axis = 1, split = [2, 3]>(h) \n c = ReduceSum<keepdims = 1, axes = [1]>(b) \n y = Mul(a, c)",
     {"p": [5, 3]}, {"x": [5, 3]}, opset=12)
case("split_equal", "h = Mul(x, p) \n a, b = Split<axis = 2>(h) \n y = Mul(a, b)", {"p": [5, 4]}, {"x": [5, 4]})
case("split_18", "h = Mul(x, p) \n a, b = Split<axis = -1, num_outputs = 2>(h) \n y = Mul(a, b)", {"p": [5, 4]},
     {"x": [5, 4]}, opset=18)
case("reshape", "h = Mul(x, p) \n y = Reshape(h, s)", {"p": [2, 6]}, {"x": [2, 6]}, {"s": i64(0, 3, -1)})
case("transpose", "h = Mul(x, p) \n y = Transpose<perm = [0, 3, 1, 2]>(h)", {"p": [2, 3, 4]}, {"x": [2, 3, 4]})
case("squeeze", "h = Mul(x, p) \n y = Squeeze(h, a)", {"p": [1, 4]}, {"x": [1, 4]}, {"a": i64(1)})
case("squeeze_12", "h = Mul(x, p) \n y = Squeeze<axes = [1]>(h)", {"p": [1, 4]}, {"x": [1, 4]}, opset=12)
case("squeeze_all", "h = Mul(x, p) \n y = Squeeze(h)", {"p": [1, 4]}, {"x": [1, 4]})
case("unsqueeze", "h = Mul(x, p) \n y = Unsqueeze(h, a)", {"p": [4]}, {"x": [4]}, {"a": i64(1, -1)})
case("unsqueeze_12", "h = Mul(x, p) \n y = Unsqueeze<axes = [1]>(h)", {"p": [4]}, {"x": [4]}, opset=12)
case("expand", "h = Mul(x, p) \n y = Expand(h, s)", {"p": [1, 4]}, {"x": [1, 4]}, {"s": i64(1, 3, 4)})
case("expand_rank", "y = Expand(p, s)", {"p": [1, 4]}, {"x": [1, 4]}, {"s": i64(2, 3, 4)})
case("expand_shape", "s = Shape(x) \n h = Exp(p) \n e = Expand(h, s) \n y = Mul(e, x)", {"p": [1, 4]},
     {"x": [3, 4]})
case("tile", "h = Mul(x, p) \n y = Tile(h, r)", {"p": [2, 4]}, {"x": [2, 4]}, {"r": i64(1, 3, 2)})
case("tile_12", "h = Mul(x, p) \n y = Tile(h, r)", {"p": [2, 4]}, {"x": [2, 4]}, {"r": i64(1, 3, 2)}, opset=12)
case("flatten_2", "h = Mul(x, p) \n y = Flatten<axis = 2>(h)", {"p": [2, 3, 4]}, {"x": [2, 3, 4]})
case("slice", "h = Mul(x, p) \n y = Slice(h, s, e, a)", {"p": [5, 4]}, {"x": [5, 4]},
     {"s": i64(1), "e": i64(4), "a": i64(1)})
case("slice_steps", "h = Mul(x, p) \n y = Slice(h, s, e, a, t)", {"p": [5, 4]}, {"x": [5, 4]},
     {"s": i64(4, 1), "e": i64(-99, 99), "a": i64(1, 2), "t": i64(-2, 2)})
case("slice_plain", "y1 = Slice(p, s, e) \n y = Mul(y1, x)", {"p": [5, 4]}, {"x": [2, 3]},
     {"s": i64(1, 0), "e": i64(3, 3)})
for mode in ("constant",):
    case("pad", "h = Mul(x, p) \n y = Pad(h, w)", {"p": [2, 4]}, {"x": [2, 4]}, {"w": i64(0, 1, 2, 0, 0, 3)})
    case("pad_value", "h = Mul(x, p) \n y = Pad(h, w, v)", {"p": [2, 4]}, {"x": [2, 4]},
         {"w": i64(0, 1, 2, 0, 0, 3), "v": np.float32(.5)})
    case("pad_crop", "h = Mul(x, p) \n y = Pad(h, w)", {"p": [2, 4]}, {"x": [2, 4]}, {"w": i64(0, 1, -1, 0, 0, -1)})
case("trilu", "h = Mul(x, p) \n y = Trilu<upper = 0>(h)", {"p": [4, 4]}, {"x": [4, 4]})
case("trilu_k", "h = Mul(x, p) \n y = Trilu<upper = 1>(h, k)", {"p": [3, 4]}, {"x": [3, 4]}, {"k": np.int64(1)})

case("gather", "h = Mul(x, p) \n y = Gather<axis = 1>(h, i)", {"p": [4, 3]}, {"x": [4, 3]}, {"i": i64(2, 0, 2)})
case("gather_scalar", "h = Mul(x, p) \n y = Gather<axis = -1>(h, i)", {"p": [4, 3]}, {"x": [4, 3]},
     {"i": np.int64(1)})
case("gather_table", "y = Gather(p, i)", {"p": [5, 3]}, {"i": np.array([[0, 2], [4, 2], [1, 0]])})
case("gather_elements", "h = Mul(x, p) \n y = GatherElements<axis = 1>(h, i)", {"p": [4, 3]},
     {"x": [4, 3], "i": np.random.default_rng(1).integers(-4, 4, (3, 2, 3))})
case("gather_elements_last", "h = Mul(x, p) \n y = GatherElements<axis = -1>(h, i)", {"p": [4, 3]},
     {"x": [4, 3], "i": np.random.default_rng(2).integers(0, 3, (3, 4, 2))})
case("gather_elements_first", "y1 = GatherElements(p, i) \n y = Mul(y1, x)", {"p": [4, 3]}, {"x": [3]},
     {"i": np.array([[1, 0, 3]])})
case("gather_nd", "y = GatherND(p, i)", {"p": [4, 3, 2]}, {"i": np.random.default_rng(3).integers(0, 3, (3, 4, 2))})
case("gather_nd_batch", "h = Mul(x, p) \n y = GatherND<batch_dims = 1>(h, i)", {"p": [4, 3]},
     {"x": [4, 3], "i": np.random.default_rng(4).integers(0, 3, (3, 5, 2))})
case("scatter_elements", "h = Mul(x, p) \n g = Mul(z, q) \n y = ScatterElements<axis = 1>(h, i, g)",
     {"p": [4, 3], "q": [2, 3]},
     {"x": [4, 3], "z": [2, 3],
     "i": np.stack([np.stack([np.random.default_rng(5 + k + 7 * j).permutation(4)[:2] for k in range(3)],
     1) for j in range(3)])})
case("scatter_nd", "h = Mul(p, c) \n y1 = ScatterND(h, i, q) \n y = Mul(y1, x)", {"p": [4, 3], "q": [2, 3]},
     {"x": [4, 3]},
     {"i": np.array([[3], [1]]), "c": f32(1, 2, 3)})
case("scatter_nd_add", "h = Mul(p, c) \n y1 = ScatterND<reduction = \"add\">(h, i, q) \n y = Mul(y1, x)",
     {"p": [4, 3], "q": [2, 3]}, {"x": [4, 3]},
     {"i": np.array([[3], [1]]), "c": f32(1, 2, 3)})
case("top_k", "h = Mul(x, p) \n y, j = TopK<axis = 1>(h, k)", {"p": [5, 3]}, {"x": [5, 3]}, {"k": i64(2)})
case("top_k_last", "h = Mul(x, p) \n y, j = TopK<largest = 0>(h, k)", {"p": [5, 3]}, {"x": [5, 3]}, {"k": i64(2)})

for o, op in (("softmax", "Softmax"), ("log_softmax", "LogSoftmax")):
    case(o, f"h = Mul(x, p) \n y = {op}<axis = -1>(h)", {"p": [4, 3]}, {"x": [4, 3]})
    case(o + "_axis", f"h = Mul(x, p) \n y = {op}<axis = 1>(h)", {"p": [4, 3]}, {"x": [4, 3]})
    case(o + "_11", f"h = Mul(x, p) \n y = {op}(h)", {"p": [4, 3]}, {"x": [4, 3]}, opset=12)
    case(o + "_11_last", f"h = Mul(x, p) \n y = {op}<axis = 2>(h)", {"p": [4, 3]}, {"x": [4, 3]}, opset=12)
    case(o + "_11_rank_2", f"h = Mul(x, p) \n y = {op}<axis = 1>(h)", {"p": [4]}, {"x": [4]}, opset=12)
LABELS = {"t": np.array([2, 0, 3])}
for red in ("mean", "sum", "none"):
    case("sce_" + red, f'h = Mul(x, p) \n y, lp = SoftmaxCrossEntropyLoss<reduction = "{red}">(h, t)', {"p": [4]},
         {"x": [4], **LABELS})
case("sce_ignore", 'h = Mul(x, p) \n y, lp = SoftmaxCrossEntropyLoss<ignore_index = 3>(h, t)', {"p": [4]},
     {"x": [4], **LABELS})
case("sce_weights", 'h = Mul(x, p) \n y, lp = SoftmaxCrossEntropyLoss(h, t, w)', {"p": [4]}, {"x": [4], **LABELS},
     {"w": f32(.5, 1, 2, .7)})
case("sce_spatial", 'h = Mul(x, p) \n y, lp = SoftmaxCrossEntropyLoss(h, t)', {"p": [4, 2]},
     {"x": [4, 2], "t": np.array([[2, 1], [0, 3], [1, 1]])})

for name, k, w, attrs in (("conv", [2, 3, 6, 5], [4, 3, 3, 2], "<strides = [2, 1], pads = [1, 0, 1, 1]>"),
                          ("conv_group", [2, 4, 6, 5], [6, 2, 3, 3], "<group = 2, dilations = [2, 1]>"),
                          ("conv_depth", [2, 4, 6, 5], [4, 1, 3, 3], "<group = 4, pads = [1, 1, 1, 1]>"),
                          ("conv_1d", [2, 3, 6], [4, 3, 3], "<pads = [1, 1]>"),
                          ("conv_3d", [2, 2, 4, 3, 3], [3, 2, 2, 2, 2], "")):
    case(name, f"h = Mul(x, p) \n y = Conv{attrs}(h, w, b)", {"p": k[1:], "w": w, "b": [w[0]]}, {"x": k[1:]})
# ONNX Runtime's kernel of the gradient ignores auto_pad.
case("conv_same", 'h = Mul(x, p) \n y = Conv<auto_pad = "SAME_UPPER">(h, w, b)',
     {"p": [2, 5, 5], "w": [3, 2, 3, 3], "b": [3]}, {"x": [2, 5, 5]},
     torch=lambda t: F.conv2d(t["x"] * t["p"], t["w"], t["b"], padding=1))
case("conv_no_bias", "h = Mul(x, p) \n y = Conv(h, w)", {"p": [2, 4, 4], "w": [3, 2, 3, 3]}, {"x": [2, 4, 4]})
for name, k, w, attrs, more in (
        ("conv_transpose", [3, 4, 3], [3, 4, 3, 2], "<strides = [2, 1], pads = [1, 0, 1, 0]>",
            dict(stride=(2, 1), padding=(1, 0))),
        ("conv_transpose_group", [4, 4, 3], [4, 2, 3, 3], "<group = 2, output_padding = [1, 1], strides = [2, 2]>",
         dict(groups=2, output_padding=1, stride=2)),
        ("conv_transpose_1d", [3, 6], [3, 4, 3], "", {})):
    case(name, f"h = Mul(x, p) \n y = ConvTranspose{attrs}(h, w, b)",
         {"p": k, "w": w, "b": [w[1] * more.get("groups", 1)]}, {"x": k},
         torch=lambda t, f=F.conv_transpose1d if len(k) == 2 else F.conv_transpose2d,
         m=more: f(t["x"] * t["p"], t["w"], t["b"], **m))
case("conv_transpose_no_bias", "h = Mul(x, p) \n y = ConvTranspose(h, w)", {"p": [2, 4, 4], "w": [2, 3, 3, 3]},
     {"x": [2, 4, 4]},
     torch=lambda t: F.conv_transpose2d(t["x"] * t["p"], t["w"]))
case("max_pool", "h = Mul(x, p) \n y = MaxPool<kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0]>(h)",
     {"p": [2, 6, 6]}, {"x": [2, 6, 6]})
case("max_pool_ceil", "h = Mul(x, p) \n y = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(h)",
     {"p": [2, 5, 5]}, {"x": [2, 5, 5]})
case("max_pool_1d", "h = Mul(x, p) \n y = MaxPool<kernel_shape = [3]>(h)", {"p": [2, 6]}, {"x": [2, 6]})
# ONNX Runtime's kernel gives the gradient the shape of dY.
for name, dims, attrs, make in (
        ("average_pool_0", [2, 6, 6], "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0]",
         lambda h: F.avg_pool2d(h, (3, 2), 2, (1, 0), count_include_pad=False)),
        ("average_pool_1", [2, 6, 6],
        "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0], count_include_pad = 1",
         lambda h: F.avg_pool2d(h, (3, 2), 2, (1, 0))),
        ("average_pool_1d", [2, 6], "kernel_shape = [3]", lambda h: F.avg_pool1d(h, 3, 1)),
        ("average_pool_ceil", [2, 5, 5], "kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1",
         lambda h: F.avg_pool2d(h, 2, ceil_mode=True))):
    case(name, f"h = Mul(x, p) \n y = AveragePool<{attrs}>(h)", {"p": dims}, {"x": dims}, torch=lambda t,
         make=make: make(t["x"] * t["p"]))
case("global_average_pool", "h = Mul(x, p) \n y = GlobalAveragePool(h)", {"p": [2, 5, 4]}, {"x": [2, 5, 4]})
case("batch_norm", "h = Mul(x, p) \n y, rm, rv = BatchNormalization<training_mode = 1>(h, s, b, m, v)",
     {"p": [2, 5, 4], "s": [2], "b": [2]}, {"x": [2, 5, 4]}, {"m": f32(0, .1), "v": f32(1, .8)})
for name, axis, dims in (("layer_norm", -1, [4]), ("layer_norm_two", 1, [3, 4])):
    case(name, f"h = Mul(x, p) \n y, mu, inv = LayerNormalization<axis = {axis}>(h, s, b)",
         {"p": [3, 4], "s": dims, "b": dims}, {"x": [3, 4]})
case("rms_norm", "h = Mul(x, p) \n q = Pow(h, two) \n m = ReduceMean<axes = [-1]>(q) \n a = Add(m, e) \n r = Sqrt(a) \n d = Div(h, r) \n y = Mul(d, s)",
     {"p": [3, 4], "s": [4]}, {"x": [3, 4]}, {"two": np.float32(2), "e": np.float32(1e-5)})
case("quick_gelu_spelled", "h = Mul(x, p) \n a = Mul(h, c) \n g = Sigmoid(a) \n y = Mul(h, g)", {"p": [3, 4]},
     {"x": [3, 4]}, {"c": np.float32(1.702)})
case("scaled_sum", "h = Mul(x, p) \n a = Div(h, c) \n b = Exp(h) \n d = Div(b, e) \n y = Add(a, d)", {"p": [3, 4]},
     {"x": [3, 4]}, {"c": np.float32(2), "e": np.float32(3)},
     torch=lambda t: t["x"] * t["p"] / 2 + torch.exp(t["x"] * t["p"]) / 3)
case("scaled_sum_3", "h = Mul(x, p) \n a = Div(h, c) \n b = Exp(h) \n d = Div(b, e) \n f = Sin(h) \n g = Div(f, c) \n i = Add(a, d) \n y = Add(i, g)", {"p": [3, 4]}, {"x": [3, 4]}, {"c": np.float32(2), "e": np.float32(3)},
     torch=lambda t: t["x"] * t["p"] / 2 + torch.exp(t["x"] * t["p"]) / 3 + torch.sin(t["x"] * t["p"]) / 2)
case("gelu_spelled_bias", "m = MatMul(x, p) \n h = Add(m, b) \n a = Div(h, r) \n e = Erf(a) \n f = Add(e, one) \n g = Mul(h, f) \n y = Mul(g, half)",
     {"p": [4, 5], "b": [5]}, {"x": [4]}, {"r": np.float32(2 ** .5), "one": np.float32(1), "half": np.float32(.5)})
case("layer_norm_spelled", "h = Mul(x, p) \n m = ReduceMean<axes = [-1]>(h) \n d = Sub(h, m) \n q = Pow(d, two) \n v = ReduceMean<axes = [-1]>(q) \n a = Add(v, e) \n r = Sqrt(a) \n n = Div(d, r) \n k = Mul(n, s) \n y = Add(k, b)",
     {"p": [3, 4], "s": [4], "b": [4]}, {"x": [3, 4]}, {"two": np.float32(2), "e": np.float32(1e-5)})
case("dropout_off", "h = Mul(x, p) \n y, mask = Dropout(h, r, t)", {"p": [3, 4]}, {"x": [3, 4]},
     {"r": np.float32(.5), "t": np.bool_(False)},
     torch=lambda t: t["x"] * t["p"])  # the kernel scales by 1 / (1 - r), though nothing is dropped
for name, attrs, more in (
        ("resize_nearest", 'mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"', dict(mode="nearest")),
        ("resize_linear", 'mode = "linear"', dict(mode="bilinear")),
        ("resize_linear_corners", 'mode = "linear", coordinate_transformation_mode = "align_corners"',
        dict(mode="bilinear", align_corners=True))):
    case(name, f'h = Mul(x, p) \n y = Resize<{attrs}>(h, , s)', {"p": [2, 3, 4]}, {"x": [2, 3, 4]},
         {"s": f32(1, 1, 2, 1.5)},
         torch=lambda t, m=more: F.interpolate(t["x"] * t["p"], scale_factor=(2, 1.5), **m))
# Squeeze without axes: ONNX Runtime does not know the rank of d, and its gradients of broadcasting operators then
# compute the axes to sum over.
for op in "Add Sub Mul Div Min".split():
    k = "Identity" if op == "Min" else "Exp"
    case(f"{op.lower()}_dynamic", f"d = Squeeze(x) \n g = Mul(d, p) \n k = {k}(q) \n y = {op}(g, k)",
         {"p": [2, 3], "q": [2, 1]},
         {"x": [1, 2, 3]})
# Before opset 13 these sums are ReduceSumTraining.
case("mul_dynamic_12", "d = Squeeze(x) \n g = Mul(d, p) \n k = Exp(q) \n y = Mul(g, k)", {"p": [2, 3], "q": [2, 1]},
     {"x": [1, 2, 3]}, training_sums=True)
case("matmul_dynamic", "d = Squeeze(x) \n g = Mul(d, p) \n y = MatMul(g, q)", {"p": [2, 3], "q": [3, 4]},
     {"x": [1, 2, 3]})
case("matmul_dynamic_3d", "d = Squeeze(x) \n g = Mul(d, p) \n y = MatMul(g, q)", {"p": [2, 3], "q": [1, 3, 4]},
     {"x": [1, 2, 3]})
case("expand_dynamic", "d = Squeeze(x) \n s = Shape(d) \n e = Expand(p, s) \n y = Mul(e, d)", {"p": [2, 1]},
     {"x": [1, 2, 3]})
case("global_average_pool_dynamic", "d = Squeeze(x) \n g = Mul(d, p) \n y = GlobalAveragePool(g)", {"p": [2, 3]},
     {"x": [1, 2, 3]})
case("tile_dynamic", "d = Squeeze(x) \n g = Mul(d, p) \n y = Tile(g, t)", {"p": [2, 3]}, {"x": [1, 2, 3]},
     {"t": i64(1, 2, 2)})
case("concat_dynamic", "d = Squeeze(x) \n g = Mul(d, p) \n y = Concat<axis = 1>(g, d)", {"p": [2, 3]},
     {"x": [1, 2, 3]})
# ONNX Runtime writes ConcatTraining for the Concat that makes a shape, too.
case("concat_shape", "h = Mul(x, p) \n s = Shape(x) \n n = Slice(s, zero, one) \n r = Concat<axis = 0>(n, rest) \n y = Reshape(h, r)",
     {"p": [2, 6]}, {"x": [2, 6]}, {"zero": i64(0), "one": i64(1), "rest": i64(3, 4)})


def rnn(name, op, gates, direction="forward", extra="", bias=True, both=False, **more):
    dirs = 2 if direction == "bidirectional" else 1
    ins = "t, w, r" + (", b" if bias else ", ") + ", , h0" + (", c0" if op == "LSTM" else "")
    params = {"p": [4, 3], "w": [dirs, gates * 2, 3], "r": [dirs, gates * 2, 2]}
    params["v"] = [3, 2]
    if bias:
        params["b"] = [dirs, gates * 4]
    out = "z, y" if both else "y, z"
    case(name, 'h = Mul(x, p) \n t = Transpose<perm = [1, 0, 2]>(h) \n m = ReduceMean<axes = [1], keepdims = 0>(x) \n '
               'n = MatMul(m, v) \n h0 = Unsqueeze(n, zero) \n c0 = Sin(h0) \n '
               f'{out} = {op}<hidden_size = 2, direction = "{direction}"{extra}>({ins})', params, {"x": [4, 3]},
         {"zero": i64(0)}, opset=14, batch_axis=1 if both else 2, **more)


rnn("lstm", "LSTM", 4)
rnn("lstm_last", "LSTM", 4, both=True)
rnn("lstm_no_bias", "LSTM", 4, bias=False)
rnn("gru", "GRU", 3, extra=", linear_before_reset = 1")
rnn("refused_gru_resets_before", "GRU", 3)
rnn("gru_last", "GRU", 3, extra=", linear_before_reset = 1", both=True)


def forward_model(c, rng):
    y = "y"
    inputs = ", ".join(f"{'int64' if isinstance(d, np.ndarray) else 'float'}[{','.join(['N'] + [str(e) for e in (d.shape[1:] if isinstance(d, np.ndarray) else d)])}] {n}"
                       for n, d in c["inputs"].items())
    text = f'<ir_version: 8, opset_import: ["" : {c["opset"]}, "com.microsoft" : 1]> {c["name"]} ({inputs}) => (float[] y) {{ {c["body"]} }}'
    model = parser.parse_model(text)
    g = model.graph
    for name, dims in c["params"].items():
        g.initializer.append(numpy_helper.from_array(rng.uniform(c["low"], c["high"], dims).astype(np.float32),
            name))
    for name, value in c["consts"].items():
        g.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    for k, n in enumerate(g.node):
        n.name = f"{n.op_type.lower()}_{k}"
    return model


def unshaped(model, name):
    del model.graph.output[:]
    model.graph.output.append(helper.make_empty_tensor_value_info(name))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT


def run(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    return session.run(None, {k: v for k, v in feeds.items() if k in names})


def make(c, numbers, out):
    rng = np.random.default_rng(sum(c["name"].encode()))
    model = forward_model(c, rng)
    feeds = {n: d.astype(np.int64) if isinstance(d, np.ndarray) else rng.uniform(-1, 1,
        [BATCH] + d).astype(np.float32)
             for n, d in c["inputs"].items()}
    unshaped(model, "y")
    y = run(model, feeds)[0]
    dims = list(y.shape)
    mix = rng.uniform(.5, 2, dims[1:]) * rng.choice([-1, 1], dims[1:])
    if c["batch_axis"]:
        dims[c["batch_axis"]] = 1
        mix = rng.uniform(.5, 2, dims) * rng.choice([-1, 1], dims)
    g = model.graph
    g.initializer.append(numpy_helper.from_array(np.asarray(mix, np.float32), "mix"))
    g.node.append(helper.make_node("Mul", ["y", "mix"], ["ym"], name="mul_mix"))
    g.node.append(helper.make_node("Mul", ["ym", "y"], ["yy"], name="mul_y"))
    g.node.append(helper.make_node("ReduceMean", ["yy"], ["loss"], name="mean", keepdims=0))
    unshaped(model, "loss")
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        artifacts.generate_artifacts(model, requires_grad=list(c["params"]), artifact_directory=folder)
        trained = onnx.load(os.path.join(folder, "training_model.onnx"))
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for i in trained.graph.input:
        if i.name in feeds:
            continue
        if i.name == "lazy_reset_grad":
            feeds[i.name] = np.array([True])
        elif i.name in values:
            feeds[i.name] = values[i.name]
        else:
            feeds[i.name] = np.zeros([d.dim_value for d in i.type.tensor_type.shape.dim], np.float32)
    if c["training_sums"]:
        for n in trained.graph.node:
            if n.op_type == "ReduceSum" and len(n.input) == 2:
                n.op_type, n.domain = "ReduceSumTraining", "com.microsoft"
    full = onnx.ModelProto()
    full.CopyFrom(trained)
    params = list(c["params"])
    gradients = {n.input[0][:-len("_grad.accumulation.buffer")]: n.input[1] for n in trained.graph.node if n.op_type == "InPlaceAccumulatorV2"}
    del full.graph.output[:]
    full.graph.output.append(trained.graph.output[0])
    for p in params:
        full.graph.output.append(helper.make_empty_tensor_value_info(gradients[p]))
        full.graph.output[-1].type.tensor_type.elem_type = TensorProto.FLOAT
    found = run(full, feeds) if not c["torch"] else with_torch(c, {**feeds, **values})
    prefix = c["name"] + "/"
    for name in c["inputs"]:
        numbers[prefix + "input." + name] = feeds[name]
    numbers[prefix + "loss"] = found[0]
    numbers[prefix + "scale"] = np.asarray(np.mean(np.abs(mix * y * y)), np.float32)
    for k, p in enumerate(params):
        numbers[prefix + "param." + p] = values[p]
        numbers[prefix + "grad." + p] = np.ascontiguousarray(found[k + 1])
    del trained.graph.value_info[:]
    for n in trained.graph.node:
        n.doc_string = ""
    onnx.save(trained, os.path.join(out, c["name"] + ".onnx"))


def with_torch(c, values):
    t = {n: torch.tensor(v, dtype=torch.float64 if v.dtype == np.float32 else None) for n, v in values.items()}
    for p in c["params"]:
        t[p].requires_grad_()
    y = c["torch"](t)
    loss = (y * t["mix"] * y).mean()
    loss.backward()
    return [v.detach().numpy().astype(np.float32) for v in [loss] + [t[p].grad for p in c["params"]]]


def main():
    out = HERE
    numbers = {}
    names = set(sys.argv[1:])
    for c in cases:
        if names and c["name"] not in names:
            continue
        try:
            make(c, numbers, out)
        except Exception as e:  # noqa
            print("FAILED", c["name"], str(e).strip()[:700].replace("\n", " "), flush=True)
    save_file(numbers, os.path.join(out, "numbers.safetensors"))


main()
