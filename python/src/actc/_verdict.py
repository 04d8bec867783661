"""Is a step right? How far it is from PyTorch's step in float64, and how far it may be.

What a float32 step may be off by depends on the network: 1e-6 for most, 1e-2 and more where batch
normalization over a few values multiplies rounding errors, or where a rounding error switches a
ReLU. So PyTorch's own float32 steps are the yardstick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Sequence

import torch

# Limit of everything together. Rounding errors of float32 (6e-8) through a hundred layers are 1e-6
# to 3e-5 where no ReLU switches; a wrong gradient rule is off by 1e-2 and more.
FLOOR = 1e-4
# Limit of one parameter, whose few numbers average less: ten times as much.
PARAMETER_FLOOR = 1e-3
# What actrun may be off by, as a multiple of the worst of PyTorch's float32 steps. These are few,
# and the errors have heavy tails (one switched ReLU), most of all for one parameter.
MULTIPLE = 5.0
PARAMETER_MULTIPLE = 10.0
# Part of the limit of everything together by which any parameter may be off. There are parameters
# whose gradient is 0 but for rounding (a bias before a normalization).
NEGLIGIBLE = 1e-3
# A limit above this part of a gradient would let a wrong factor of 1.5 through (off by a third of
# the wrong gradient or half of the right one).
POWER = 0.25


@dataclass
class Step:
    loss: float
    gradients: Dict[str, torch.Tensor]  # float64

    def norm(self) -> float:
        return math.sqrt(sum(float(g.pow(2).sum()) for g in self.gradients.values()))


@dataclass
class Distance:
    """Of a step from the reference."""

    loss: float  # relative
    overall: float  # of all gradients together, relative to their norm
    parameters: Dict[str, float]  # of each gradient, absolute


def distance(step: Step, reference: Step) -> Distance:
    off = {name: float((step.gradients[name] - g).norm()) for name, g in reference.gradients.items()}
    total = math.sqrt(sum(d * d for d in off.values())) / (reference.norm() or 1.0)
    return Distance(abs(step.loss - reference.loss) / max(abs(reference.loss), 1e-12), total, off)


@dataclass
class Limits:
    loss: float
    overall: float
    parameters: Dict[str, float]  # absolute
    float32: float  # `overall` of the worst of PyTorch's float32 steps, 0 if there was none
    power: float  # part of the parameters in which a wrong factor would be found
    zeros: int  # parameters whose gradient is 0: what lies before a scale that begins at 0, say

    @property
    def powerful(self) -> bool:
        return self.overall <= POWER and self.power >= 0.5


def limits(reference: Step, noise: Sequence[Distance]) -> Limits:
    """noise: PyTorch's float32 steps. Without any, the limits are the floors."""
    norms = {name: float(g.norm()) for name, g in reference.gradients.items()}
    total = reference.norm()
    overall = max([FLOOR] + [MULTIPLE * d.overall for d in noise])
    relative = {n: max((d.parameters[n] / norm for d in noise), default=0.0) for n, norm in norms.items() if norm > 0}
    # A parameter of few numbers may by chance be exact in all of PyTorch's steps.
    usual = sorted(relative.values())[len(relative) // 2] if relative else 0.0
    each, found, nonzero = {}, 0, 0
    for name, norm in norms.items():
        worst = max((d.parameters[name] for d in noise), default=0.0)
        own = max(PARAMETER_FLOOR * norm, PARAMETER_MULTIPLE * max(worst, usual * norm))
        each[name] = max(own, NEGLIGIBLE * overall * total)
        nonzero += norm > 0
        found += norm > 0 and each[name] <= POWER * norm
    loss = max([FLOOR] + [MULTIPLE * d.loss for d in noise])
    return Limits(
        loss, overall, each, max((d.overall for d in noise), default=0.0), found / max(nonzero, 1), len(norms) - nonzero
    )


@dataclass
class Comparison:
    """A step of actrun beside its limits."""

    got: Distance
    limits: Limits
    worst: str  # the parameter that is furthest from its reference, in parts of its limit
    worst_off: float  # relative to its own norm
    worst_limit: float
    wrong: List[str] = field(default_factory=list)  # parameters above their limits

    @property
    def within(self) -> bool:
        return not self.wrong and self.got.overall <= self.limits.overall and self.got.loss <= self.limits.loss

    def __str__(self) -> str:
        text = (
            f"actrun's gradients are off by {self.got.overall:.1e} (limit {self.limits.overall:.1e}), "
            f"its loss by {self.got.loss:.1e} (limit {self.limits.loss:.1e})"
        )
        if self.limits.float32:
            text += f", PyTorch's own float32 gradients by {self.limits.float32:.1e}"
        if self.wrong:
            text += (
                f"; {len(self.wrong)} of {len(self.got.parameters)} parameters are above their limits, "
                f"most {self.worst}: {self.worst_off:.1e} of its gradient (limit {self.worst_limit:.1e})"
            )
        return text


def compare(reference: Step, got: Distance, allowed: Limits) -> Comparison:
    # Not `>`: a NaN is wrong.
    wrong = [n for n, off in got.parameters.items() if not off <= allowed.parameters[n]]
    parts = {n: off / (allowed.parameters[n] or 1e-300) for n, off in got.parameters.items()}
    worst = max(parts, key=lambda n: parts[n] if parts[n] == parts[n] else math.inf, default="")
    norm = float(reference.gradients[worst].norm()) or 1e-300 if worst else 1.0
    result = Comparison(
        got, allowed, worst, got.parameters.get(worst, 0.0) / norm, allowed.parameters.get(worst, 0.0) / norm
    )
    result.wrong = sorted(wrong, key=lambda n: -parts[n])
    return result


@dataclass
class CheckResult:
    """A step of the exported model beside PyTorch's in float64. Errors are relative (2-norms)."""

    loss: float  # actrun's, at the model's own values
    loss_error: float
    gradient_error: float  # of all gradients together
    worst: str  # the parameter that is nearest to its limit
    compared: int
    random: bool = False  # the model draws random numbers; the comparison was without them
    limit: float = 0.0  # of gradient_error
    float32_error: float = 0.0  # of the worst of PyTorch's float32 steps, if it was needed
    conclusive: bool = True  # False: PyTorch's own float32 steps differ so much that nothing follows
    values: str = "the model's own values"  # at which the errors above were found
    notes: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.compared:
            return f"loss {self.loss:.6g}, finite; the gradients were not compared"
        yardstick = f", PyTorch's float32 is off by {self.float32_error:.1e}" if self.float32_error else ""
        return (
            f"loss {self.loss:.6g}; at {self.values} the loss is off by {self.loss_error:.1e}, "
            f"{self.compared} gradients by {self.gradient_error:.1e} together (limit {self.limit:.1e}{yardstick}), "
            f"nearest to its limit {self.worst}"
        )
