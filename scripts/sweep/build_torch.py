"""A row of torch or torch.nn as a module with its loss, and its example inputs."""

from __future__ import annotations

from typing import Tuple, Union

import torch
from torch import nn

from rows import BATCH, Row, float_outputs, randomize
from rows_functions import FUNCTIONS
from rows_layers import LAYERS, LOSSES, Apply

LABELS = {  # from the extents of the predictions
    "like": lambda size: torch.randn(BATCH, *size),
    "unit": lambda size: torch.rand(BATCH, *size),
    "sign": lambda size: torch.where(torch.randn(BATCH, *size) > 0, 1.0, -1.0),
    "share": lambda size: torch.randn(BATCH, *size).softmax(1),
    "class": lambda size: torch.randint(0, size[0], (BATCH, *size[1:])),
    "first class": lambda size: torch.randint(0, size[0] - 1, (BATCH,)),
    "labels": lambda size: torch.tensor([1, 3, -1, 0, 0]).repeat(BATCH, 1),  # up to the first -1
    "transcript": lambda size: torch.randint(1, size[-1], (BATCH, 3)),
}


class Scaled(nn.Module):
    """The layer after x * scale + shift of each float input, so that its own gradient counts."""

    def __init__(self, layer: nn.Module, sizes: Tuple[Tuple[int, ...], ...], loss: bool) -> None:
        super().__init__()
        self.layer = layer
        self.scales = nn.ParameterList([1 + 0.3 * torch.randn(size) for size in sizes])
        self.shifts = nn.ParameterList([0.3 * torch.randn(size) for size in sizes])
        self.loss = loss

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        scaled = [x * scale + shift for x, scale, shift in zip(inputs, self.scales, self.shifts)]
        made = self.layer(*scaled, *inputs[len(scaled) :])
        if self.loss:
            return made
        # The distance from numbers that differ, so that exchanged elements show.
        first = float_outputs(made)[0]
        return ((first - _target(first.shape[1:])) ** 2).mean()


def _target(size: Tuple[int, ...]) -> torch.Tensor:
    return torch.arange(torch.Size(size).numel()).cos().reshape(size)


def build_torch(row: Row) -> Tuple[nn.Module, Tuple[torch.Tensor, ...], Tuple[str, ...]]:
    """As build_row.build."""
    extents: Tuple[Union[str, Tuple[int, ...]], ...] = ((5, 6),)
    label: Tuple[torch.Tensor, ...] = ()
    if row.library == "torch":
        layer: nn.Module = Apply(FUNCTIONS[row.family])
    elif row.family in LAYERS:
        maker, *extents = LAYERS[row.family]
        layer = maker()
    else:
        maker, size, kind = LOSSES[row.family]
        layer, extents, label = maker(), (size,), (LABELS[kind](size),)
    randomize(layer)
    floats = tuple(size for size in extents if size != "tokens")
    inputs = tuple(torch.randn(BATCH, *size) for size in floats) or (torch.randint(0, 11, (BATCH, 7)),)
    module = Scaled(layer, floats, bool(label)).train()
    names = tuple(f"input_{i}" for i in range(len(inputs))) + ("label",) * len(label)
    return module, inputs + label, names
