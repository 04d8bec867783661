"""torch.linalg's functions of small matrices that no exporter has, row by row.

Larger matrices are left to PyTorch's function, which the exporter then refuses."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch

Tensor = torch.Tensor

# A graph has some twenty nodes for each row.
MOST_ROWS = 64


def _rows(a: Tensor) -> int:
    return int(a.shape[-1])


def _eye(a: Tensor) -> Tensor:
    return torch.eye(_rows(a), dtype=a.dtype, device=a.device)


def slogdet(a: Tensor) -> Any:
    """By the determinant, so the logarithm ends where that leaves the range of its type."""
    determinant = torch.linalg.det(a)
    made: Any = torch.return_types.linalg_slogdet  # type: ignore[attr-defined]
    return made((determinant.sign(), determinant.abs().log()))


def cholesky(a: Tensor, *, upper: bool = False) -> Any:
    """Column by column. A matrix that is not positive definite gives NaN, where PyTorch has an error."""
    n = _rows(a)
    if n > MOST_ROWS:
        return NotImplemented
    a = (a + a.transpose(-1, -2)) / 2  # PyTorch's gradient is symmetric
    done: Optional[Tensor] = None  # [.., n, k]: the columns so far
    for k in range(n):
        column = a[..., k : k + 1]
        if done is not None:
            column = column - done @ done[..., k : k + 1, :].transpose(-1, -2)
        below = column[..., k:, :]
        column = below / below[..., :1, :].sqrt()
        if k > 0:
            column = torch.cat([torch.zeros_like(a[..., :k, :1]), column], -2)
        done = column if done is None else torch.cat([done, column], -1)
    assert done is not None
    return done.transpose(-1, -2) if upper else done


def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    n = _rows(a)
    if n > MOST_ROWS:
        return NotImplemented
    if not left:
        a, b, upper = a.transpose(-1, -2), b.transpose(-1, -2), not upper
        turned = solve_triangular(a, b, upper=upper, unitriangular=unitriangular)
        return turned.transpose(-1, -2)
    x: Optional[Tensor] = None
    for i in reversed(range(n)) if upper else range(n):
        row = b[..., i : i + 1, :]
        if x is not None:
            row = row - a[..., i : i + 1, slice(i + 1, n) if upper else slice(0, i)] @ x
        if not unitriangular:
            row = row / a[..., i : i + 1, i : i + 1]
        x = row if x is None else torch.cat([row, x] if upper else [x, row], -2)
    return x


def _solved(a: Tensor, b: Tensor) -> Tensor:
    """x with a x = b, by elimination with partial pivoting. a: [.., n, n], b: [.., n, k]"""
    pivots: List[Tuple[Tensor, Tensor]] = []  # rows of an upper triangle, each from its diagonal on, and of b
    for rows in range(_rows(a), 1, -1):
        places = torch.arange(rows, device=a.device)
        chosen = (places == a[..., 0].detach().abs().argmax(-1, keepdim=True)).to(a.dtype).unsqueeze(-1)
        of_a, of_b = (chosen * a).sum(-2, keepdim=True), (chosen * b).sum(-2, keepdim=True)
        pivots.append((of_a, of_b))
        # The first row takes the place of the one that was chosen.
        a, b = a + chosen * (a[..., :1, :] - of_a), b + chosen * (b[..., :1, :] - of_b)
        a, b = a[..., 1:, :], b[..., 1:, :]
        factor = a[..., :1] / of_a[..., :1]
        a, b = (a - factor * of_a)[..., 1:], b - factor * of_b
    x = b / a
    for of_a, of_b in reversed(pivots):
        x = torch.cat([(of_b - of_a[..., 1:] @ x) / of_a[..., :1], x], -2)
    return x


def inverse(a: Tensor) -> Any:
    return _solved(a, _eye(a)) if 0 < _rows(a) <= MOST_ROWS else NotImplemented


def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Any:
    if not 0 < _rows(a) <= MOST_ROWS:
        return NotImplemented
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape)
    if vector:
        return _solved(a, b.unsqueeze(-1)).squeeze(-1)
    if left:
        return _solved(a, b)
    return _solved(a.transpose(-1, -2), b.transpose(-1, -2)).transpose(-1, -2)


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Any:
    if _rows(factor) > MOST_ROWS:
        return NotImplemented
    lower = factor.transpose(-1, -2) if upper else factor
    return solve_triangular(lower.transpose(-1, -2), solve_triangular(lower, b, upper=False), upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Any:
    return cholesky_solve(_eye(factor), factor, upper)
