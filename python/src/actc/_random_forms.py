"""Random operators that PyTorch's TorchScript exporter lacks, as ONNX nodes. They draw anew in each step."""

from __future__ import annotations

from typing import Any

from ._forms import constant, number, rank_of


def feature_dropout(g: Any, x: Any, probability: Any, train: Any) -> Any:
    """torch.nn.Dropout1d to 3d: drops whole channels, by a Dropout of ones [N, C, 1, ...]."""
    if not number(train, "a mode of dropout"):
        return x
    p = number(probability, "a probability of dropout")
    image = g.op("Slice", g.op("Shape", x), constant(g, [0]), constant(g, [2]), constant(g, [0]))
    sizes = g.op("Concat", image, constant(g, [1] * (rank_of(x) - 2)), axis_i=0)
    one = g.op("Expand", constant(g, 1.0), sizes)
    kept, _ = g.op("Dropout", one, constant(g, p), constant(g, True), outputs=2)
    return g.op("Mul", x, kept)


def exponential(g: Any, x: Any, rate: Any, _: Any = None) -> Any:
    """torch.Tensor.exponential_: -log(1 - u) / rate, where u is uniform in [0, 1)."""
    u = g.op("RandomUniformLike", x)
    log = g.op("Log", g.op("Sub", constant(g, 1.0), u))
    return g.op("Div", g.op("Neg", log), constant(g, number(rate, "a rate")))


def uniform(g: Any, x: Any, low: Any, high: Any, _: Any = None) -> Any:
    """torch.Tensor.uniform_."""
    return g.op("RandomUniformLike", x, low_f=number(low, "a bound"), high_f=number(high, "a bound"))
