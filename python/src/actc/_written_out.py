"""Functions of PyTorch that its exporters drop a part of or refuse, in functions that they keep."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Iterator, Optional, Sequence, Union

import torch
from torch.nn import functional as F

from ._ctc import exported_ctc_loss
from ._functions import replacements
from ._layer_forms import adaptive_max_pool, alpha_dropout, fold, lstm, normalize, packed
from ._loss_forms import LOSSES, reduced

_cross_entropy = F.cross_entropy
_binary_cross_entropy = F.binary_cross_entropy
_attention = F.scaled_dot_product_attention
_embedding_bag = F.embedding_bag
_avg_pool2d: Callable[..., torch.Tensor] = F.avg_pool2d
_gaussian_nll_loss = F.gaussian_nll_loss
_nll_loss = F.nll_loss


def _exported_cross_entropy(
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
    CrossEntropyLoss). TorchScript's exporter refuses smoothing, and the dynamo exporter drops it.

    Labels that are a probability of each class are written out, too: ONNX's operator knows classes
    alone, and both exporters give it the probabilities all the same."""
    e = label_smoothing
    if outputs.ndim >= 2 and size_average is None and reduce is None and label.is_floating_point():
        return _cross_entropy_of_probabilities(outputs, label, weight, reduction, e)
    if e == 0 or outputs.ndim < 2 or size_average is not None or reduce is not None:
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


def _cross_entropy_of_probabilities(
    outputs: torch.Tensor, share: torch.Tensor, weight: Optional[torch.Tensor], reduction: str, e: float
) -> torch.Tensor:
    if e > 0:
        share = share * (1 - e) + e / outputs.shape[1]
    weighted = share * F.log_softmax(outputs, 1)
    if weight is not None:
        weighted = weighted * weight.reshape((1, -1) + (1,) * (outputs.ndim - 2))
    loss = -weighted.sum(1)
    return reduced(loss, reduction)


def _exported_binary_cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    size_average: Optional[bool] = None,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
) -> torch.Tensor:
    """F.binary_cross_entropy with PyTorch's own gradient, (p - y) / max(p (1 - p), 1e-12). That of the
    logarithms, which the dynamo exporter writes, is 0 times infinity where p is 0 or 1. TorchScript's
    exporter refuses the function."""
    if size_average is not None or reduce is not None or target.requires_grad:
        return _binary_cross_entropy(input, target, weight, size_average, reduce, reduction)
    p = input.detach()
    value = -(target * p.log().clamp(min=-100) + (1 - target) * (1 - p).log().clamp(min=-100))
    slope = (p - target) / (p * (1 - p)).clamp(min=1e-12)
    loss = value + slope * (input - p)
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction)


def _exported_nll_loss(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """F.nll_loss of a product with one, which actc drops. TorchScript's exporter makes one loss of it and of the log
    softmax before it; where a transposition of the model's is between the two, it takes a wrong tensor for the
    scores."""
    return _nll_loss(input * 1.0, *args, **kwargs)


def _exported_gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: Union[float, torch.Tensor],
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """F.gaussian_nll_loss without the question whether a variance is negative, which the dynamo exporter
    cannot answer. The gradient passes the lower limit of variances, as PyTorch's does."""
    if not isinstance(var, torch.Tensor) or reduction not in ("none", "mean", "sum"):
        return _gaussian_nll_loss(input, target, var, full, eps, reduction)
    if var.ndim == input.ndim - 1:
        var = var.unsqueeze(-1)
    var = var + (var.clamp(min=eps) - var).detach()
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


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
        if enable_gqa and torch._C._is_tracing():  # TorchScript's exporter lacks it
            key, value = (x.repeat_interleave(query.size(-3) // x.size(-3), -3) for x in (key, value))
            enable_gqa = False
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


def _exported_embedding_bag(
    input: torch.Tensor,
    weight: torch.Tensor,
    offsets: Optional[torch.Tensor] = None,
    max_norm: Optional[float] = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Optional[torch.Tensor] = None,
    include_last_offset: bool = False,
    padding_idx: Optional[int] = None,
) -> torch.Tensor:
    """F.embedding_bag of bags [N, L] of one length, as a lookup [N, L, D] and a reduction. Both exporters
    write a loop over the bags. Bags of other forms are left to them."""
    bags = input.ndim == 2 and offsets is None and max_norm is None and not scale_grad_by_freq
    if not bags or (padding_idx is not None and mode == "max"):
        return _embedding_bag(
            input,
            weight,
            offsets,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            include_last_offset,
            padding_idx,
        )
    rows = F.embedding(input, weight)
    if mode == "max":
        return rows.max(1).values
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    if padding_idx is None:
        return rows.sum(1) if mode == "sum" else rows.mean(1)
    counts = (input != padding_idx % weight.shape[0]).to(rows.dtype)[..., None]
    total = (rows * counts).sum(1)
    return total if mode == "sum" else total / counts.sum(1).clamp(min=1)


def _exported_avg_pool2d(
    input: torch.Tensor,
    kernel_size: Union[int, Sequence[int]],
    stride: Union[None, int, Sequence[int]] = None,
    padding: Union[int, Sequence[int]] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Optional[int] = None,
) -> torch.Tensor:
    """F.avg_pool2d with the divisor as a factor: both exporters drop it."""
    if divisor_override is None or ceil_mode:  # in ceil mode windows differ in what they divide by
        return _avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    window = kernel_size**2 if isinstance(kernel_size, int) else math.prod(kernel_size)
    return _avg_pool2d(input, kernel_size, stride, padding) * (window / divisor_override)


_WRITTEN_OUT = {
    "ctc_loss": exported_ctc_loss,
    "cross_entropy": _exported_cross_entropy,
    "binary_cross_entropy": _exported_binary_cross_entropy,
    "scaled_dot_product_attention": _exported_attention,
    "embedding_bag": _exported_embedding_bag,
    "alpha_dropout": alpha_dropout(channels=False),
    "avg_pool2d": _exported_avg_pool2d,
    "feature_alpha_dropout": alpha_dropout(channels=True),
    "gaussian_nll_loss": _exported_gaussian_nll_loss,
    **{f"adaptive_max_pool{axes}d": adaptive_max_pool(axes) for axes in (1, 2, 3)},
}


@contextlib.contextmanager
def written_out(exporter: str) -> Iterator[None]:
    """While it lasts, the functions that this exporter lacks, or drops a part of, export whole."""
    of_torchscript = (
        {**LOSSES, "fold": fold, "normalize": normalize, "nll_loss": _exported_nll_loss}
        if exporter == "torchscript"
        else {}
    )
    functions = {**_WRITTEN_OUT, **of_torchscript}
    changes = [(F, name, function) for name, function in functions.items()] + replacements(exporter)
    layers = {"lstm": lstm}
    if exporter == "torchscript":
        of_torch: Any = torch._VF
        others = {name: getattr(of_torch, name) for name in ("gru", "rnn_tanh", "rnn_relu")}
        layers = {name: packed(layer) for name, layer in {**layers, **others}.items()}
    changes += [(torch._VF, name, layer) for name, layer in layers.items()]
    changes += [(torch, name, _WRITTEN_OUT[name]) for name in ("alpha_dropout", "feature_alpha_dropout")]
    originals = [(owner, name, vars(owner).get(name)) for owner, name, _ in changes]
    for owner, name, function in changes:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in originals:
            if function is None:  # inherited
                delattr(owner, name)
            else:
                setattr(owner, name, function)
