"""Functions of torch that an exporter lacks, in functions that it has.

A form that has no answer for its arguments returns NotImplemented. Then PyTorch's function gets them, and the error is
what the exporter says."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence, Union

import torch
from torch.nn import functional as F

Tensor = torch.Tensor


def _scan(combine: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    """combine(x[0], ..., x[i]) for every i, in as many steps as the extent has bits."""
    extent, step = int(x.shape[dim]), 1
    while step < extent:
        later = combine(x.narrow(dim, 0, extent - step), x.narrow(dim, step, extent - step))
        x = torch.cat([x.narrow(dim, 0, step), later], dim)
        step *= 2
    return x


def _places(x: Tensor, dim: int) -> Tensor:
    """0, 1, ... along an axis, in the shape of x."""
    shape = [1] * x.ndim
    shape[dim] = -1
    return torch.arange(int(x.shape[dim]), device=x.device).reshape(shape).expand_as(x)


def cumprod(x: Tensor, dim: int, *, dtype: Optional[torch.dtype] = None) -> Tensor:
    return _scan(torch.mul, x if dtype is None else x.to(dtype), dim)


def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    return _scan(logaddexp, x, dim)


def last_of(later_wins: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """torch.cummax and torch.cummin."""

    def function(x: Tensor, dim: int) -> Any:
        extent, step, values, places = int(x.shape[dim]), 1, x.detach(), _places(x, dim)
        while step < extent:
            pairs = [(t.narrow(dim, 0, extent - step), t.narrow(dim, step, extent - step)) for t in (values, places)]
            wins = later_wins(pairs[0][1], pairs[0][0])
            values, places = (
                torch.cat([t.narrow(dim, 0, step), torch.where(wins, late, early)], dim)
                for t, (early, late) in zip((values, places), pairs)
            )
            step *= 2
        # Each gradient goes to the element that was chosen.
        made = torch.return_types.cummax if later_wins is torch.ge else torch.return_types.cummin
        return made((x.gather(dim, places), places))

    return function


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, places = x.topk(k, dim, largest=False, sorted=True)
    values, places = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return torch.return_types.kthvalue((values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim)))


def median(x: Tensor, dim: Optional[int] = None, keepdim: bool = False) -> Any:
    if dim is None:
        return kthvalue(x.flatten(), (x.numel() + 1) // 2, 0)[0]
    return torch.return_types.median(tuple(kthvalue(x, (int(x.shape[dim]) + 1) // 2, dim, keepdim)))


def quantile(
    x: Tensor,
    q: Union[float, Tensor],
    dim: Optional[int] = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    if isinstance(q, Tensor) or dim is None or interpolation != "linear":
        return NotImplemented
    ordered, last = x.sort(dim)[0], int(x.shape[dim]) - 1
    below = min(int(q * last), last)
    share = q * last - below
    y = ordered.narrow(dim, below, 1)
    if share > 0:
        y = y + share * (ordered.narrow(dim, below + 1, 1) - y)
    return y if keepdim else y.squeeze(dim)


def copysign(x: Tensor, other: Union[float, Tensor]) -> Tensor:
    if not isinstance(other, Tensor):
        return x.abs() * math.copysign(1.0, other)
    other = other.detach()
    negative = torch.where(other == 0, 1 / other, other) < 0  # of zeros 1 / x tells
    return torch.where(negative, -x.abs(), x.abs())


def hypot(x: Tensor, other: Tensor) -> Tensor:
    return (x * x + other * other).sqrt()


def cov(x: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    if fweights is not None or aweights is not None or x.ndim != 2:
        return NotImplemented
    x = x - x.mean(1, keepdim=True)
    return x @ x.t() / max(x.shape[1] - correction, 0)


def cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    distances: Tensor = torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), ord=p, dim=-1)
    return distances


def corrcoef(x: Tensor) -> Any:
    if x.ndim != 2:
        return NotImplemented
    x = x - x.mean(1, keepdim=True)
    x = x / x.square().sum(1, keepdim=True).sqrt()
    return (x @ x.t()).clamp(-1, 1)


def dist(x: Tensor, other: Tensor, p: float = 2) -> Tensor:
    distance: Tensor = torch.linalg.vector_norm((x - other).flatten(), ord=p)
    return distance


def entr(x: Tensor) -> Tensor:
    return torch.where(x < 0, torch.full_like(x, -math.inf), -xlogy(x, x))


def isclose(x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    if equal_nan:
        return NotImplemented
    return (x == other) | ((x - other).abs() <= atol + rtol * other.abs())


def addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    return x + value * (a / b)


def addr(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * x + alpha * (a[:, None] * b)


def count_nonzero(x: Tensor, dim: Any = None) -> Tensor:
    return (x != 0).sum() if dim is None else (x != 0).sum(dim)


def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    rank, extent = x.ndim + 1, int(x.shape[-1])
    size, before = extent + abs(offset), max(offset, 0)
    padded = F.pad(x, (before, size - extent - before))  # by columns
    places = torch.arange(size, device=x.device)
    on = places[None, :] - places[:, None] == offset
    y = torch.where(on, padded.unsqueeze(-2), torch.zeros((), dtype=x.dtype, device=x.device))
    return y.movedim((-2, -1), (dim1 % rank, dim2 % rank))


def fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Any:
    if x.ndim != 2 or wrap:
        return NotImplemented
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    return x.masked_fill_(rows[:, None] == columns, fill_value)


def logaddexp(x: Tensor, other: Tensor) -> Tensor:
    return torch.logsumexp(torch.stack(torch.broadcast_tensors(x, other), -1), -1)  # type: ignore[no-untyped-call]


def logaddexp2(x: Tensor, other: Tensor) -> Tensor:
    return logaddexp(x * math.log(2), other * math.log(2)) / math.log(2)


def heaviside(x: Tensor, values: Tensor) -> Tensor:
    return torch.where(x == 0, values, (x > 0).to(x.dtype))


def inner(x: Tensor, other: Tensor) -> Tensor:
    if x.ndim == 0 or other.ndim == 0:
        return x * other
    product: Tensor = torch.tensordot(x, other, dims=([-1], [-1]))
    return product


def kron(x: Tensor, other: Tensor) -> Tensor:
    rank = max(x.ndim, other.ndim)
    a = x.reshape((1,) * (rank - x.ndim) + tuple(x.shape))
    b = other.reshape((1,) * (rank - other.ndim) + tuple(other.shape))
    left = a.reshape([n for extent in a.shape for n in (extent, 1)])
    right = b.reshape([n for extent in b.shape for n in (1, extent)])
    return (left * right).reshape([m * n for m, n in zip(a.shape, b.shape)])


def matrix_power(x: Tensor, n: int) -> Any:
    if n < 1:
        return NotImplemented
    result: Optional[Tensor] = None
    while n:
        if n & 1:
            result = x if result is None else result @ x
        n >>= 1
        x = x @ x if n else x
    return result


def nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Optional[torch.dtype] = None) -> Tensor:
    x = torch.where(x.isnan(), torch.zeros_like(x), x)
    x = x if dtype is None else x.to(dtype)
    return x.sum() if dim is None else x.sum(dim, keepdim)


def nanmean(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Optional[torch.dtype] = None) -> Tensor:
    found = (~x.isnan()).to(x.dtype)
    return nansum(x, dim, keepdim, dtype=dtype) / (found.sum() if dim is None else found.sum(dim, keepdim))


def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    others = [i for i in range(x.ndim) if i != dim % x.ndim]
    norm = torch.linalg.vector_norm(x, ord=p, dim=others, keepdim=True)
    return x * torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), torch.ones_like(norm))


def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    k %= 4
    if k == 2:
        return x.flip(tuple(dims))
    if k == 1:
        return x.flip((dims[1],)).transpose(*dims)
    return x.transpose(*dims).flip((dims[1],)) if k == 3 else x.clone()


def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    at = index % int(x.shape[dim])
    return slice_scatter(x, src.unsqueeze(dim), dim, at, at + 1)


def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: Optional[int] = None, end: Optional[int] = None, step: int = 1
) -> Tensor:
    extent = int(x.shape[dim])
    first, last, _ = slice(start, end, step).indices(extent)
    if step != 1:
        return x.index_copy(dim, torch.arange(first, last, step, device=x.device), src)
    last = max(first, last)
    parts = [x.narrow(dim, 0, first), src, x.narrow(dim, last, extent - last)]
    return torch.cat([part for part, n in zip(parts, (first, last - first, extent - last)) if n], dim)


def sinc(x: Tensor) -> Tensor:
    angle = math.pi * torch.where(x == 0, torch.ones_like(x), x)
    return torch.where(x == 0, torch.ones_like(x), angle.sin() / angle)


def take_along_dim(x: Tensor, indices: Tensor, dim: Optional[int] = None) -> Tensor:
    if dim is None:
        return x.flatten().gather(0, indices.flatten())
    dim %= x.ndim

    def wide(t: Tensor, other: Tensor) -> Tensor:
        stays = [i == dim or t.shape[i] != 1 for i in range(t.ndim)]
        return t.expand([-1 if stay else n for stay, n in zip(stays, other.shape)])

    return wide(x, indices).gather(dim, wide(indices, x))


def trace(x: Tensor) -> Tensor:
    return x.diagonal().sum()


def trapezoid(y: Tensor, x: Optional[Tensor] = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    extent = int(y.shape[dim])
    means = (y.narrow(dim, 0, extent - 1) + y.narrow(dim, 1, extent - 1)) * 0.5
    if x is None:
        return means.sum(dim) * dx
    if x.ndim == 1:
        shape = [1] * y.ndim
        shape[dim] = extent
        x = x.reshape(shape)
    return (means * (x.narrow(dim, 1, extent - 1) - x.narrow(dim, 0, extent - 1))).sum(dim)


def trunc(x: Tensor) -> Tensor:
    return x.sign() * x.abs().floor()


def xlogy(x: Union[float, Tensor], other: Union[float, Tensor]) -> Any:
    if not isinstance(x, Tensor) or not isinstance(other, Tensor):
        return NotImplemented
    none = (x == 0) & (other <= 0)
    return torch.where(none, torch.zeros_like(x), x * torch.where(none, torch.ones_like(other), other).log())


def frac(x: Tensor) -> Tensor:
    return x - trunc(x)
