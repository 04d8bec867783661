"""Variances and deviations of all elements of a tensor."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import torch

Tensor = torch.Tensor


def _spread(x: Tensor, correction: float) -> Tuple[Tensor, Tensor]:
    """Variance and mean of all elements, which are counted: a mask may have chosen them, and then an exporter's number
    of elements has no ONNX form."""
    count = (x == x).to(x.dtype).sum()
    mean = x.sum() / count
    distance = x - mean
    return (distance * distance).sum() / (count - correction), mean


def _of_all(given: Sequence[Any], named: Dict[str, Any]) -> Optional[float]:
    """The correction of a variance of all elements; None if it is of some axes."""
    if len(given) > 1 or (given and not isinstance(given[0], bool)) or named.get("dim") is not None:
        return None
    if named.get("keepdim"):
        return None
    unbiased = given[0] if given else named.get("unbiased", True)
    correction = named.get("correction", 1.0 if unbiased else 0.0)
    return 1.0 if correction is None else float(correction)


def var(x: Tensor, *given: Any, **named: Any) -> Any:
    correction = _of_all(given, named)
    return NotImplemented if correction is None or x.is_complex() else _spread(x, correction)[0]


def std(x: Tensor, *given: Any, **named: Any) -> Any:
    variance = var(x, *given, **named)
    if variance is NotImplemented:
        return variance
    none = variance == 0  # where the gradient is 0, as in PyTorch
    return torch.where(none, torch.zeros_like(variance), torch.where(none, torch.ones_like(variance), variance).sqrt())
