"""Functions of PyTorch that its exporters drop a part of or refuse, in functions that they keep."""

from __future__ import annotations

import contextlib
import math
from typing import Iterator, Optional

import torch
from torch.nn import functional as F

_cross_entropy = F.cross_entropy
_attention = F.scaled_dot_product_attention


def _smoothed_cross_entropy(
    outputs: torch.Tensor,
    label: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    size_average: Optional[bool] = None,
    ignore_index: int = -100,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """F.cross_entropy with label smoothing e and classes as labels: (1 - e) nll + e / C sum over the
    classes of -log p. Both are weighted and averaged as in PyTorch (its documentation of
    CrossEntropyLoss). TorchScript's exporter refuses smoothing, and the dynamo exporter drops it."""
    e = label_smoothing
    if e == 0 or label.is_floating_point() or outputs.ndim < 2 or size_average is not None or reduce is not None:
        return _cross_entropy(outputs, label, weight, size_average, ignore_index, reduce, reduction, e)
    exact = _cross_entropy(outputs, label, weight, ignore_index=ignore_index, reduction=reduction)
    log_p = F.log_softmax(outputs, 1)
    valid = (label != ignore_index).to(outputs.dtype)
    if weight is None:
        uniform = -log_p.sum(1) * valid
    else:
        uniform = -(log_p * weight.reshape((1, -1) + (1,) * (outputs.ndim - 2))).sum(1) * valid
    if reduction == "sum":
        uniform = uniform.sum()
    elif reduction == "mean":
        total = valid.sum() if weight is None else (weight[label.clamp(min=0)] * valid).sum()
        uniform = uniform.sum() / total
    return (1 - e) * exact + e / outputs.shape[1] * uniform


def _exported_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """F.scaled_dot_product_attention. With dropout it is written out as PyTorch documents it: both
    exporters write a dropout that is not active.

    Without dropout the result is copied. PyTorch's kernels differ in the order of its axes in memory.
    The dynamo exporter traces a view of it with the order of one kernel, and refuses that view when it
    decomposes the operator (pytorch issue 136543). A copy has one order."""
    if dropout_p == 0:
        options = {"enable_gqa": True} if enable_gqa else {}  # versions before 2.5 lack it
        result = _attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **options)
        return result.clone(memory_format=torch.contiguous_format)
    if enable_gqa:
        key, value = (x.repeat_interleave(query.size(-3) // x.size(-3), -3) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    if is_causal:
        rows, columns = (torch.arange(x.size(-2), device=x.device) for x in (query, key))
        attn_mask = columns <= rows[:, None]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = query.new_zeros(()).masked_fill(~attn_mask, -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    return F.dropout(F.softmax(scores, -1), dropout_p, training=True) @ value


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """While it lasts, F.cross_entropy and F.scaled_dot_product_attention export whole."""
    F.cross_entropy, F.scaled_dot_product_attention = _smoothed_cross_entropy, _exported_attention
    try:
        yield
    finally:
        F.cross_entropy, F.scaled_dot_product_attention = _cross_entropy, _attention
