"""Which parts of a module are in training mode, and which in evaluation mode."""

from __future__ import annotations

from typing import List

import torch
from torch import nn

from ._calm import BatchNorm
from ._report import listed

PREFIX = "model."  # of names in ModelWithLoss
Norm = (BatchNorm, nn.modules.instancenorm._InstanceNorm)
Drop = nn.modules.dropout._DropoutNd


def begin_training(model: nn.Module) -> None:
    """The modes that an epoch of training begins with. A module in evaluation mode is one that nobody has put into
    training mode yet. In one in training mode, teachers and normalizations may have been put into evaluation mode since,
    and stay so. A module with a train() of its own keeps parts of it in evaluation mode by that."""
    if not model.training:
        model.train()
    for module in model.modules():
        if (
            module.training
            and type(module).train is not nn.Module.train
            and not isinstance(module, torch.jit.ScriptModule)
        ):
            module.train()


def in_evaluation(wrapped: nn.Module) -> str:
    """The layers in evaluation mode for which that makes a difference; empty if there are none."""
    found: List[str] = []
    for name, m in wrapped.named_modules():
        if not m.training and (
            (isinstance(m, Norm) and m.running_mean is not None) or (isinstance(m, Drop) and m.p > 0)
        ):
            found.append(name.removeprefix(PREFIX))
    return listed(found)
