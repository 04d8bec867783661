"""Special functions of torch.special that no exporter has: series and polynomials of elementary functions."""

from __future__ import annotations

import math
from typing import Tuple

import torch

Tensor = torch.Tensor

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
_SHIFT = 6  # to where the series is exact


def lgamma(x: Tensor) -> Tensor:
    """The logarithm of |gamma(x)| by Stirling's series, which Gamma(y) = Gamma(y + 1) / y makes exact, and by the
    reflection below 1/2."""
    y = torch.where(x < 0.5, 1 - x, x)
    small = y < _SHIFT
    near = torch.where(small, y, torch.ones_like(y))
    factors = near
    for i in range(1, _SHIFT):
        factors = factors * (near + i)
    z = torch.where(small, y + _SHIFT, y)
    inverse = 1 / z
    square, series = inverse * inverse, torch.zeros_like(z)
    for term in reversed(_STIRLING):
        series = series * square + term
    far = (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + series * inverse
    y = torch.where(small, far - factors.log(), far)
    part = x - x.floor()  # sin(pi x) has the size of sin of the fraction
    sine = (math.pi * torch.where(x < 0.5, part, torch.full_like(part, 0.5))).sin()
    return torch.where(x < 0.5, math.log(math.pi) - sine.log() - y, y)


_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240)


def digamma(x: Tensor) -> Tensor:
    """The derivative of lgamma, likewise."""
    y = torch.where(x < 0.5, 1 - x, x)
    small = y < _SHIFT
    near = torch.where(small, y, torch.ones_like(y))
    shift = sum((1 / (near + i) for i in range(1, _SHIFT)), 1 / near)
    z = torch.where(small, y + _SHIFT, y)
    inverse = 1 / z
    square, series = inverse * inverse, torch.zeros_like(z)
    for term in reversed(_BERNOULLI):
        series = series * square + term
    far = z.log() - 0.5 * inverse - series * square
    y = torch.where(small, far - shift, far)
    angle = math.pi * torch.where(x < 0.5, x - x.floor(), torch.full_like(x, 0.5))
    return torch.where(x < 0.5, y - math.pi * angle.cos() / angle.sin(), y)


# Coefficients of M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011).
_CENTER: Tuple[float, ...] = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
)
_CENTER += (-0.00417768164, 0.246640727, 1.50140941)
_TAIL: Tuple[float, ...] = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
)
_TAIL += (0.00943887047, 1.00167406, 2.83297682)


def erfinv(x: Tensor) -> Tensor:
    w = -((1 - x) * (1 + x)).log()
    center = w < 5
    a, b = torch.where(center, w, torch.ones_like(w)) - 2.5, torch.where(center, torch.ones_like(w), w).sqrt() - 3
    near, far = torch.full_like(w, _CENTER[0]), torch.full_like(w, _TAIL[0])
    for c, t in zip(_CENTER[1:], _TAIL[1:]):
        near, far = near * a + c, far * b + t
    return torch.where(center, near, far) * x


def atan2(y: Tensor, other: Tensor) -> Tensor:
    """Both exporters write the arc tangent of y / x and turn it by pi: to -pi where y is 0 and x below 0, and with a
    gradient of NaN where x is 0. Here the angle is a constant, and its gradient (x, -y) / (x^2 + y^2) is added."""
    a, b = y.detach(), other.detach()
    left, below = (torch.where(t == 0, 1 / t, t) < 0 for t in (b, a))  # 1 / t has the sign of a zero
    nowhere = (a == 0) & (b == 0)
    size = torch.where(nowhere, torch.ones_like(a * b), a * a + b * b)
    turn = torch.atan(a.abs() / torch.where(nowhere, torch.ones_like(a * b), b.abs()))
    turn = torch.where(left, math.pi - turn, turn)
    return torch.where(below, -turn, turn) + (b * y - a * other) / size
