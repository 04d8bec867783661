"""Random operators that PyTorch's TorchScript exporter lacks, as ONNX nodes. They draw anew in each step."""

from __future__ import annotations

import math
from typing import Any, Tuple

from ._forms import constant, number, rank_of

# What torch.nn.AlphaDropout puts in the place of what it drops: SELU's value far below 0.
_DROPPED = -1.7580993408473766


def _kept(g: Any, x: Any, probability: Any, channels: bool) -> Tuple[Any, float]:
    """1 / (1 - p) where an element of x stays, else 0: a Dropout of ones [x's extents], or [N, C, 1, ...] for whole
    channels. Also p."""
    p = number(probability, "a probability of dropout")
    if channels:
        image = g.op("Slice", g.op("Shape", x), constant(g, [0]), constant(g, [2]), constant(g, [0]))
        sizes = g.op("Concat", image, constant(g, [1] * (rank_of(x) - 2)), axis_i=0)
    else:
        sizes = g.op("Shape", x)
    one = g.op("Expand", constant(g, 1.0), sizes)
    kept, _ = g.op("Dropout", one, constant(g, p), constant(g, True), outputs=2)
    return kept, p


def feature_dropout(g: Any, x: Any, probability: Any, train: Any) -> Any:
    """torch.nn.Dropout1d to 3d: drops whole channels."""
    if not number(train, "a mode of dropout"):
        return x
    return g.op("Mul", x, _kept(g, x, probability, channels=True)[0])


def _alpha_dropout(g: Any, x: Any, probability: Any, train: Any, channels: bool) -> Any:
    if not number(train, "a mode of dropout"):
        return x
    kept, p = _kept(g, x, probability, channels)
    if p == 1:
        return g.op("Mul", x, constant(g, 0.0))
    # x where it is kept, else _DROPPED, scaled and shifted so that a normal distribution stays one.
    scale = 1 / math.sqrt((1 - p) * (1 + p * _DROPPED**2))
    mask = g.op("Mul", kept, constant(g, scale * (1 - p)))
    return g.op(
        "Add", g.op("Mul", mask, g.op("Sub", x, constant(g, _DROPPED))), constant(g, scale * _DROPPED * (1 - p))
    )


def alpha_dropout(g: Any, x: Any, probability: Any, train: Any) -> Any:
    """torch.nn.AlphaDropout."""
    return _alpha_dropout(g, x, probability, train, channels=False)


def feature_alpha_dropout(g: Any, x: Any, probability: Any, train: Any) -> Any:
    """torch.nn.FeatureAlphaDropout: drops whole channels."""
    return _alpha_dropout(g, x, probability, train, channels=True)


def exponential(g: Any, x: Any, rate: Any, _: Any = None) -> Any:
    """torch.Tensor.exponential_: -log(1 - u) / rate, where u is uniform in [0, 1)."""
    u = g.op("RandomUniformLike", x)
    log = g.op("Log", g.op("Sub", constant(g, 1.0), u))
    return g.op("Div", g.op("Neg", log), constant(g, number(rate, "a rate")))


def uniform(g: Any, x: Any, low: Any, high: Any, _: Any = None) -> Any:
    """torch.Tensor.uniform_."""
    return g.op("RandomUniformLike", x, low_f=number(low, "a bound"), high_f=number(high, "a bound"))
