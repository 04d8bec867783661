"""Functions of torch that make tensors of numbers alone, in functions that exporters have."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch

Tensor = torch.Tensor


def randperm(n: int, *, dtype: torch.dtype = torch.int64, device: Any = None, **_: Any) -> Tensor:
    return torch.rand(n, device=device).argsort().to(dtype)


def hamming_window(
    length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Optional[torch.dtype] = None,
    device: Any = None,
    **_: Any,
) -> Tensor:
    """The dynamo exporter writes ONNX's HammingWindow, whose alpha is 25 / 46."""
    places = torch.arange(length, dtype=dtype or torch.get_default_dtype(), device=device)
    window = alpha - beta * (places * (2 * math.pi / max(length if periodic else length - 1, 1))).cos()
    return window if length > 1 else torch.ones_like(window)


def backwards(n: int, *, dtype: torch.dtype = torch.int64, device: Any = None, **_: Any) -> Tensor:
    """In the place of torch.randperm where a model may draw nothing. No number stays where it is, but one in the
    middle."""
    return torch.arange(n, dtype=dtype, device=device).flip(0)
