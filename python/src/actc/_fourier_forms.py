"""Discrete Fourier transforms as products with matrices of cosines and sines, for TorchScript's exporter."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
from torch.nn import functional as F

from ._complex import Complex, parts_of


def _parts(x: Any, dim: int) -> Tuple[Any, Any]:
    """Real and imaginary part, with this axis as the last."""
    re, im = parts_of(x)
    return re.transpose(dim, -1), None if im is None else im.transpose(dim, -1)


def _fitted(x: Any, n: int) -> Any:
    """The last axis, cut to n elements or filled with zeros."""
    if x is None or int(x.shape[-1]) == n:
        return x
    return x[..., :n] if int(x.shape[-1]) > n else F.pad(x, (0, n - int(x.shape[-1])))


def _scale(norm: Optional[str], n: int, inverse: bool) -> float:
    full = "backward" if inverse else "forward"
    return 1 / math.sqrt(n) if norm == "ortho" else 1 / n if (norm or "backward") == full else 1.0


def _matrices(rows: int, columns: int, n: int, like: torch.Tensor) -> Any:
    """Cosine and sine of 2 pi i k / n."""
    # The product's remainder keeps angles exact.
    turns = torch.arange(rows)[:, None] * torch.arange(columns) % n
    angles = turns.double() * (2 * math.pi / n)
    return (part.to(like.dtype).to(like.device) for part in (angles.cos(), angles.sin()))


def _complex_transform(x: Any, n: Optional[int], dim: int, norm: Optional[str], inverse: bool, half: bool) -> Complex:
    re, im = _parts(x, dim)
    n = int(re.shape[-1]) if n is None else n
    re, im = _fitted(re, n), _fitted(im, n)
    cosine, sine = _matrices(n, n // 2 + 1 if half else n, n, re)
    scale = _scale(norm, n, inverse)
    cosine, sine = cosine * scale, sine * (scale if inverse else -scale)
    if im is None:
        made = re @ cosine, re @ sine
    else:
        made = re @ cosine - im @ sine, re @ sine + im @ cosine
    return Complex(*(part.transpose(dim, -1) for part in made))


def _one(inverse: bool, half: bool = False) -> Callable[..., Any]:
    def function(input: Any, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Any:
        return _complex_transform(input, n, dim, norm, inverse, half)

    return function


_fft, _ifft, _rfft = _one(False), _one(True), _one(False, half=True)


def _irfft(input: Any, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> torch.Tensor:
    """Of the first half of a spectrum whose second half is its conjugate."""
    re, im = _parts(input, dim)
    n = 2 * (int(re.shape[-1]) - 1) if n is None else n
    half = n // 2 + 1
    cosine, sine = _matrices(half, n, n, re)
    twice = torch.full((half, 1), 2 * _scale(norm, n, True), dtype=re.dtype, device=re.device)
    twice[0] /= 2
    if n % 2 == 0:
        twice[-1] /= 2
    y: torch.Tensor = _fitted(re, half) @ (cosine * twice)
    if im is not None:
        y = y - _fitted(im, half) @ (sine * twice)
    return y.transpose(dim, -1)


def _several(
    first: Callable[..., Any], others: Callable[..., Any], axes: Optional[Sequence[int]]
) -> Callable[..., Any]:
    """Along several axes: `others` along all but the last, and `first` along that. A half is taken of a real tensor,
    so that comes before them, and made whole again at the end."""

    def function(
        input: Any,
        s: Optional[Sequence[int]] = None,
        dim: Optional[Sequence[int]] = axes,
        norm: Optional[str] = None,
    ) -> Any:
        rank = len(input.shape)
        along = list(dim) if dim is not None else list(range(0 if s is None else rank - len(s), rank))
        lengths = list(s) if s is not None else [None] * len(along)
        steps = [(others, axis, n) for axis, n in zip(along[:-1], lengths[:-1])]
        last = (first, along[-1], lengths[-1])
        for transform, axis, n in [*steps, last] if first is _irfft else [last, *steps]:
            input = transform(input, None if n == -1 else n, axis, norm)
        return input

    return function


FOURIER: Dict[str, Callable[..., Any]] = {
    "fft": _fft,
    "ifft": _ifft,
    "rfft": _rfft,
    "irfft": _irfft,
    "fftn": _several(_fft, _fft, None),
    "ifftn": _several(_ifft, _ifft, None),
    "rfftn": _several(_rfft, _fft, None),
    "irfftn": _several(_irfft, _ifft, None),
    "fft2": _several(_fft, _fft, (-2, -1)),
    "ifft2": _several(_ifft, _ifft, (-2, -1)),
    "rfft2": _several(_rfft, _fft, (-2, -1)),
    "irfft2": _several(_irfft, _ifft, (-2, -1)),
}
