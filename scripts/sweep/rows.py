"""What a row of the sweep is: one architecture, how to build it small, and the loss it trains with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Tuple

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 4


@dataclass(frozen=True)
class Row:
    """One architecture. Its key is `library/family`."""

    library: str  # torch, torch.nn, or the package that has the model
    family: str  # the row of the table; for timm the module, for transformers the model type
    model: str  # the variant: a function of the library, or a class
    size: Tuple[int, ...] = (64,)  # extents of an image, of a clip, of a spectrogram; tokens
    options: Dict[str, Any] = field(default_factory=dict)  # for the builder or the config
    feed: str = ""  # what forward is given; empty: by the library

    @property
    def key(self) -> str:
        return f"{self.library}/{self.family}"


class WithLoss(nn.Module):
    """forward(*inputs, *labels) -> the loss. Integer labels: cross entropy. Others: squared
    distance."""

    def __init__(self, net: nn.Module, names: Tuple[str, ...], by_name: bool) -> None:
        super().__init__()
        self.net = net
        self.names = names
        self.by_name = by_name

    def outputs(self, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        made = self.net(**dict(zip(self.names, inputs))) if self.by_name else self.net(*inputs)
        return tuple(float_outputs(made))

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        count = len(self.names)
        total = None
        for output, label in zip(self.outputs(*tensors[:count]), tensors[count:]):
            if label.dtype == torch.int64:
                part = F.cross_entropy(output.reshape(-1, output.shape[-1]), label.reshape(-1))
            else:
                part = (output - label).square().mean()
            total = part if total is None else total + part
        return total


def float_outputs(made: Any) -> list:
    """The tensors of a model's result that a loss may read: the logits, else at most two. Caches of
    keys and values are none."""
    if isinstance(made, torch.Tensor):
        return [made]
    if hasattr(made, "keys"):
        if getattr(made, "logits", None) is not None:
            return float_outputs(made["logits"])
        if getattr(made, "image_embeds", None) is not None and getattr(made, "text_embeds", None) is not None:
            return [made["text_embeds"], made["image_embeds"]]
        made = [made[k] for k in made.keys() if k not in ("past_key_values", "cache_params", "state")]
    found = []
    for part in made if isinstance(made, (list, tuple)) else ():
        found += float_outputs(part) if not isinstance(part, torch.Tensor) else [part]
    return [t for t in found if t.is_floating_point()][:2]


def labels(outputs: Tuple[torch.Tensor, ...], classes: bool) -> Tuple[torch.Tensor, ...]:
    """Random labels: classes of the last axis where the model's result is a score of each class."""
    if classes and len(outputs) == 1 and outputs[0].ndim in (2, 3):
        return (torch.randint(0, outputs[0].shape[-1], outputs[0].shape[:-1]),)
    return tuple(torch.randn(output.shape) for output in outputs)


def without_randomness(net: nn.Module) -> None:
    """No dropout and no drop path: then a step can be compared with autograd."""
    for module in net.modules():
        for name in (
            "p",
            "drop_prob",
            "drop_rate",
            "dropout",
            "dropout_prob",
            "attention_dropout",
            "layerdrop",
            "activation_dropout",
            "attn_dropout_p",
            "stochastic_depth_prob",
        ):
            if isinstance(getattr(module, name, None), float) and re.search("p$|drop", name):
                setattr(module, name, 0.0)


def randomize(net: nn.Module) -> None:
    """Gives values that show a missing term: no scale is 1, no bias and no table is 0."""
    with torch.no_grad():
        for p in net.parameters():
            if p.is_floating_point() and (p.ndim <= 1 or p.numel() > 1 and p.std() < 1e-3):
                p.add_(0.1 * torch.randn_like(p))
        for name, b in net.named_buffers():
            if name.endswith("running_mean"):
                b.copy_(0.1 * torch.randn_like(b))
