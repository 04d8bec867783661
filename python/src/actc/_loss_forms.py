"""Losses of torch.nn.functional that TorchScript's exporter lacks, in functions that it has."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch.nn import functional as F


def reduced(loss: torch.Tensor, reduction: str) -> torch.Tensor:
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def _l1(x: torch.Tensor, y: torch.Tensor, reduction: str, weight: Optional[torch.Tensor] = None) -> Any:
    if weight is not None:
        return NotImplemented
    return reduced((x - y).abs(), reduction)


def _smooth_l1(x: torch.Tensor, y: torch.Tensor, reduction: str, beta: float = 1.0) -> torch.Tensor:
    far = (x - y).abs()
    if beta == 0:
        return reduced(far, reduction)
    return reduced(torch.where(far < beta, 0.5 / beta * far * far, far - 0.5 * beta), reduction)


def _huber(
    x: torch.Tensor, y: torch.Tensor, reduction: str, delta: float = 1.0, weight: Optional[torch.Tensor] = None
) -> Any:
    if weight is not None:
        return NotImplemented
    far = (x - y).abs()
    return reduced(torch.where(far < delta, 0.5 * far * far, delta * (far - 0.5 * delta)), reduction)


def _soft_margin(x: torch.Tensor, y: torch.Tensor, reduction: str) -> torch.Tensor:
    return reduced(F.softplus(-y * x), reduction)


def _hinge_embedding(x: torch.Tensor, y: torch.Tensor, reduction: str, margin: float = 1.0) -> torch.Tensor:
    none = torch.zeros_like(x)
    apart = torch.where(y != 1, (margin - x).clamp(min=0), none)
    return reduced(apart + torch.where(y != -1, x, none), reduction)


def _margin_ranking(
    a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, reduction: str, margin: float = 0.0
) -> torch.Tensor:
    return reduced((-y * (a - b) + margin).clamp(min=0), reduction)


def _cosine_embedding(
    a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, reduction: str, margin: float = 0.0
) -> torch.Tensor:
    least = 1e-12  # as in PyTorch
    sizes = ((a * a).sum(-1) + least) * ((b * b).sum(-1) + least)
    cosine = (a * b).sum(-1) / sizes.sqrt()
    none = torch.zeros_like(cosine)
    alike, apart = torch.where(y == 1, 1 - cosine, none), torch.where(y == -1, (cosine - margin).clamp(min=0), none)
    return reduced(alike + apart, reduction)


def _triplet_margin(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    negative: torch.Tensor,
    reduction: str,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
) -> torch.Tensor:
    near, far = F.pairwise_distance(anchor, positive, p, eps), F.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, F.pairwise_distance(positive, negative, p, eps))
    return reduced((margin + near - far).clamp(min=0), reduction)


def _poisson_nll(
    x: torch.Tensor,
    y: torch.Tensor,
    reduction: str,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
) -> torch.Tensor:
    loss = x.exp() - y * x if log_input else x - y * (x + eps).log()
    if full:  # Stirling's formula for the logarithm of y!
        above = torch.where(y > 1, y, torch.ones_like(y))
        stirling = above * above.log() - above + 0.5 * (2 * math.pi * above).log()
        loss = loss + torch.where(y > 1, stirling, torch.zeros_like(y))
    return reduced(loss, reduction)


def _multi_margin(
    x: torch.Tensor,
    y: torch.Tensor,
    reduction: str,
    p: int = 1,
    margin: float = 1.0,
    weight: Optional[torch.Tensor] = None,
) -> Any:
    if x.ndim != 2:
        return NotImplemented
    short = (margin - x.gather(1, y[:, None]) + x).clamp(min=0)
    short = short * short if p == 2 else short
    if weight is not None:
        short = short * weight[y][:, None]
    others = y[:, None] != torch.arange(x.shape[1], device=x.device)
    return reduced(torch.where(others, short, torch.zeros_like(short)).sum(1) / x.shape[1], reduction)


def _multilabel_margin(x: torch.Tensor, y: torch.Tensor, reduction: str) -> Any:
    if x.ndim != 2:
        return NotImplemented
    given = (y < 0).long().cumsum(1) == 0  # labels end at the first -1
    classes = torch.arange(x.shape[1], device=x.device)
    chosen = ((y[:, :, None] == classes) & given[:, :, None]).any(1)  # [N,C]
    short = (1 - x.gather(1, y.clamp(min=0))[:, :, None] + x[:, None, :]).clamp(min=0)  # [N,labels,C]
    counted = given[:, :, None] & ~chosen[:, None, :]
    return reduced(torch.where(counted, short, torch.zeros_like(short)).sum((1, 2)) / x.shape[1], reduction)


def _whole(name: str, form: Callable[..., Any], tensors: int) -> Callable[..., Any]:
    """The form as a function of torch.nn.functional. What it has no form for, PyTorch's function gets."""
    original = getattr(F, name)

    def loss(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(_PARAMETERS[name], args), **kwargs)
        named = {key: value for key, value in given.items() if key not in _OPERANDS and value is not None}
        reduction = named.pop("reduction", "mean")
        legacy = "size_average" in named or "reduce" in named
        operands = [given[key] for key in _PARAMETERS[name][:tensors]] if len(given) >= tensors else []
        if legacy or reduction not in ("none", "sum", "mean") or not operands:
            return original(*args, **kwargs)
        found = form(*operands, reduction, **named)
        return original(*args, **kwargs) if found is NotImplemented else found

    return loss


_OPERANDS = ("input", "target", "input1", "input2", "anchor", "positive", "negative")
_FORMS: Dict[str, Tuple[Callable[..., Any], int]] = {  # with the number of operands
    "l1_loss": (_l1, 2),
    "smooth_l1_loss": (_smooth_l1, 2),
    "huber_loss": (_huber, 2),
    "soft_margin_loss": (_soft_margin, 2),
    "hinge_embedding_loss": (_hinge_embedding, 2),
    "margin_ranking_loss": (_margin_ranking, 3),
    "cosine_embedding_loss": (_cosine_embedding, 3),
    "triplet_margin_loss": (_triplet_margin, 3),
    "poisson_nll_loss": (_poisson_nll, 2),
    "multi_margin_loss": (_multi_margin, 2),
    "multilabel_margin_loss": (_multilabel_margin, 2),
}
_PARAMETERS = {name: getattr(F, name).__code__.co_varnames for name in _FORMS}
LOSSES: Dict[str, Callable[..., Any]] = {name: _whole(name, *form) for name, form in _FORMS.items()}
