"""Rows of diffusers, segmentation_models_pytorch and monai: the network, its inputs, and whether it scores classes."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch import nn

from rows import BATCH, Row
from rows_diffusers import MODELS, Input

Built = Tuple[nn.Module, Dict[str, torch.Tensor], bool]


class Given(nn.Module):
    """The network with some of its arguments given: those that do not differ from sample to sample."""

    def __init__(self, net: nn.Module, given: Dict[str, Any]) -> None:
        super().__init__()
        self.net = net
        self.numbers = {name: value for name, value in given.items() if not isinstance(value, torch.Tensor)}
        self.tensors = [name for name, value in given.items() if isinstance(value, torch.Tensor)]
        for name in self.tensors:
            self.register_buffer(name, given[name])

    def forward(self, **inputs: torch.Tensor) -> Any:
        return self.net(**inputs, **self.numbers, **{name: getattr(self, name) for name in self.tensors})


def _input(kind: Input) -> torch.Tensor:
    if kind == "step":
        return torch.randint(0, 1000, (BATCH,))
    if kind == "share":
        return torch.rand(BATCH)
    if kind == "class":
        return torch.randint(0, 10, (BATCH,))
    if kind[0] == "ones":
        return torch.ones(BATCH, kind[1], dtype=torch.int64)
    return torch.randn(BATCH, *kind)


def diffusers(row: Row) -> Built:
    import diffusers as library

    net = getattr(library, row.model)(**row.options)
    _, _, kinds = MODELS[row.family]
    given = {name: kind[1] for name, kind in kinds.items() if kind[0] == "is"}
    for name, kind in kinds.items():
        if kind[0] == "positions":
            given[name] = torch.arange(float(kind[1]))[:, None].repeat(1, 3)
    inputs = {name: _input(kind) for name, kind in kinds.items() if name not in given}
    return (Given(net, given) if given else net), inputs, False


def smp(row: Row) -> Built:
    import segmentation_models_pytorch as library

    return getattr(library, row.model)(**row.options), {"image": torch.randn(BATCH, 3, *row.size * 2)}, False


def monai(row: Row) -> Built:
    from monai.networks import nets

    axes = row.options.get("spatial_dims", 3)
    inputs = {"volume": torch.randn(BATCH, row.options.get("in_channels", 1), *row.size * axes)}
    if row.family == "diffusion_unet":
        inputs["timesteps"] = _input("step")
    return getattr(nets, row.model)(**row.options), inputs, True
