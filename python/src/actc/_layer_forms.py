"""Layers that an exporter lacks, in functions that it has."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch
from torch.nn import functional as F

_lstm = torch._VF.lstm


def adaptive_max_pool(axes: int) -> Callable[..., Any]:
    """F.adaptive_max_pool1d to 3d of windows that are not of one length: exporters have those of one. Each window is a
    pool of its own, and the last axis is the first that is reduced. So of equal elements the one is chosen that
    PyTorch chooses, which its gradient goes to: exporters write max() as one that shares it among them."""
    original, pool_of = getattr(F, f"adaptive_max_pool{axes}d"), getattr(F, f"max_pool{axes}d")

    def pool(input: torch.Tensor, output_size: Union[int, Sequence[Any]], return_indices: bool = False) -> Any:
        given = [output_size] * axes if isinstance(output_size, int) else list(output_size)
        extents = [int(n) for n in input.shape[-axes:]]
        counts = [n if count is None else int(count) for n, count in zip(extents, given)]
        if return_indices or len(counts) != axes or all(n % count == 0 for n, count in zip(extents, counts)):
            return original(input, output_size, return_indices)
        for axis in range(-1, -axes - 1, -1):
            n, count = extents[axis], counts[axis]
            windows = [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
            parts = []
            for begin, end in windows:
                kernel = [1] * axes
                kernel[axis] = end - begin
                parts.append(pool_of(input.narrow(axis, begin, end - begin), kernel))
            input = torch.cat(parts, axis)
        return input

    return pool


def pairwise_distance(
    x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> torch.Tensor:
    """torch.pairwise_distance. TorchScript's exporter adds eps to p and not to the difference. So where rows are equal,
    its root has an infinite slope."""
    distance: torch.Tensor = torch.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)
    return distance


def _steps(
    x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, weights: Sequence[torch.Tensor], backwards: bool
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One direction of a layer: x [T, N, I] -> the states h of all steps, the last h, the last c."""
    of_input, of_state, *biases, projection = weights
    gates = x @ of_input.t()
    for bias in biases:
        gates = gates + bias
    made: List[torch.Tensor] = []
    steps = range(int(x.shape[0]))
    for t in reversed(steps) if backwards else steps:
        i, f, new, o = (gates[t] + h @ of_state.t()).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * new.tanh()
        h = (o.sigmoid() * c.tanh()) @ projection.t()
        made.append(h)
    return torch.stack(made[::-1] if backwards else made), h, c


def lstm(*args: Any) -> Any:
    """torch.lstm of one whose states are projected (nn.LSTM with proj_size), as steps. Others are left to the
    exporters, which drop the projection or refuse it."""
    x, states, weights, biased, layers, dropout, training, both_ways, batch_first = (*args, *[None] * 9)[:9]
    if not isinstance(weights, (list, tuple)) or not isinstance(biased, bool):
        return _lstm(*args)
    directions = 2 if both_ways else 1
    each = 5 if biased else 3
    if len(weights) != layers * directions * each:
        return _lstm(*args)
    x = x.transpose(0, 1) if batch_first else x
    last_h, last_c = [], []
    for layer in range(layers):
        made = []
        for direction in range(directions):
            at = layer * directions + direction
            mine = weights[at * each : (at + 1) * each]
            y, h, c = _steps(x, states[0][at], states[1][at], mine, direction == 1)
            made.append(y)
            last_h.append(h)
            last_c.append(c)
        x = torch.cat(made, -1) if both_ways else made[0]
        if layer + 1 < layers and dropout > 0:
            x = F.dropout(x, dropout, training)
    return (x.transpose(0, 1) if batch_first else x), torch.stack(last_h), torch.stack(last_c)


def packed(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.lstm, gru or rnn of packed sequences, for TorchScript's exporter. That ends in an error of C++ where the
    results of all steps are not padded again, because a model wants the last states alone. Here they are, and 0 of them
    is added."""

    def layer(*args: Any) -> Any:
        result = original(*args)
        if not torch._C._is_tracing() or len(args) < 2 or not isinstance(args[1], torch.Tensor):
            return result
        if args[1].dtype != torch.int64 or args[1].ndim != 1:  # no sizes of batches, but the first states
            return result
        steps, _ = torch._VF._pad_packed_sequence(result[0], args[1], False, 0.0, -1)
        return (result[0], result[1] + steps[:1, :1, :1].detach() * 0, *result[2:])

    return layer


# What torch.nn.AlphaDropout puts in the place of what it drops: SELU's value far below 0.
_DROPPED = -1.7580993408473766


def alpha_dropout(channels: bool) -> Callable[..., torch.Tensor]:
    """F.alpha_dropout, and F.feature_alpha_dropout of whole channels. Its mask is a Dropout of ones: 1 / (1 - p) where
    an element stays, else 0, and 1 in actc's graph of evaluation. There the result is the operand itself. So actc needs
    to know these three values apart, which the exporters' own forms do not tell."""
    original: Callable[..., torch.Tensor] = F.feature_alpha_dropout if channels else F.alpha_dropout

    def function(input: torch.Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> torch.Tensor:
        if not 0 <= p <= 1 or (channels and input.ndim < 2):
            return original(input, p, training, inplace)
        if not training or p == 0:
            return input
        if p == 1:
            y = F.dropout(input, p, True)
        else:
            like = input[(slice(None),) * 2 + (slice(0, 1),) * (input.ndim - 2)] if channels else input
            mask = F.dropout(torch.ones_like(like), p, True)
            most = 1 / (1 - p)
            evaluates = mask * (most - mask) * (1 / (most - 1))  # 1 in evaluation, 0 for the masks of training
            # x where it stays, else _DROPPED, scaled and shifted so that a normal distribution stays one.
            scale = 1 / math.sqrt((1 - p) * (1 + p * _DROPPED**2))
            kept = scale * (1 - p)
            factor = kept * mask + (1 - kept) * evaluates
            shift = kept * _DROPPED * (1 - mask)
            y = input * factor + shift
        return input.copy_(y) if inplace else y

    return function


def threshold(input: torch.Tensor, threshold: float, value: float, inplace: bool = False) -> Any:
    if inplace:
        return NotImplemented
    return torch.where(input > threshold, input, torch.full_like(input, value))


def bilinear(
    input1: torch.Tensor, input2: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None
) -> torch.Tensor:
    y = torch.einsum("...i,kij,...j->...k", input1, weight, input2)
    return y if bias is None else y + bias


def channel_shuffle(input: torch.Tensor, groups: int) -> torch.Tensor:
    split = input.reshape((input.shape[0], groups, -1) + tuple(input.shape[2:]))
    return split.transpose(1, 2).reshape(input.shape)


_normalize = F.normalize


def normalize(
    input: torch.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """F.normalize into a given tensor, as the power method of spectral_norm uses it, in place of a division into it."""
    y = _normalize(input, p, dim, eps)
    return y if out is None else out.copy_(y)


_fold = F.fold


def _pair(x: Union[int, Sequence[Any]]) -> Tuple[int, int]:
    first, second = (x, x) if isinstance(x, int) else x
    return int(first), int(second)


def fold(
    input: torch.Tensor,
    output_size: Union[int, Sequence[Any]],
    kernel_size: Union[int, Sequence[Any]],
    dilation: Union[int, Sequence[Any]] = 1,
    padding: Union[int, Sequence[Any]] = 0,
    stride: Union[int, Sequence[Any]] = 1,
) -> torch.Tensor:
    """F.fold, the sum of blocks at their places in an image, as one addition by known indices. The exporter has it from
    opset 18 on, and there not where the image's size is that of another tensor."""
    if input.ndim != 3:
        return _fold(input, *map(_pair, (output_size, kernel_size, dilation, padding, stride)))
    (height, width), kernel, edge = _pair(output_size), _pair(kernel_size), _pair(padding)
    padded = (height + 2 * edge[0], width + 2 * edge[1])
    places = []  # along each axis: those of each element of the kernel in each block
    for extent, size, step, apart in zip(padded, kernel, _pair(stride), _pair(dilation)):
        starts = range(0, extent - apart * (size - 1), step)
        places.append([[start + apart * i for start in starts] for i in range(size)])
    index = [y * padded[1] + x for rows in places[0] for columns in places[1] for y in rows for x in columns]
    channels = int(input.shape[1]) // (kernel[0] * kernel[1])
    image = input.new_zeros((input.shape[0], channels, padded[0] * padded[1]))
    blocks = input.reshape((input.shape[0], channels, len(index)))
    image = image.index_add(2, torch.tensor(index, device=input.device), blocks)
    image = image.reshape((input.shape[0], channels, *padded))
    return image[:, :, edge[0] : edge[0] + height, edge[1] : edge[1] + width]


def even_gumbel_softmax(
    logits: torch.Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> torch.Tensor:
    """F.gumbel_softmax with noise that is 0.5 everywhere, which a softmax does not see."""
    soft = (logits / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return torch.zeros_like(soft).scatter(dim, index, 1.0) - soft.detach() + soft
