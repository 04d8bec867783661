"""Which parts of a module are in training mode, which in evaluation mode, and what a step changes in it."""

from __future__ import annotations

import contextlib
from typing import Iterator, List

import torch
from torch import nn

from ._calm import BatchNorm, probabilities
from ._errors import ExportError
from ._report import listed

PREFIX = "model."  # of names in ModelWithLoss
Norm = (BatchNorm, nn.modules.instancenorm._InstanceNorm)
Drop = nn.modules.dropout._DropoutNd


def begin_training(model: nn.Module) -> None:
    """The modes that an epoch of training begins with. A module in evaluation mode is one that nobody has put into
    training mode yet. In one in training mode, teachers and normalizations may have been put into evaluation mode
    since, and stay so. A module with a train() of its own keeps parts of it in evaluation mode by that."""
    if not model.training:
        model.train()
    for module in model.modules():
        if (
            module.training
            and type(module).train is not nn.Module.train
            and not isinstance(module, torch.jit.ScriptModule)
        ):
            module.train()


def _differs_in_evaluation(m: nn.Module) -> bool:
    if isinstance(m, Norm):
        return m.running_mean is not None
    if isinstance(m, nn.RReLU):
        return m.lower != m.upper
    return bool(probabilities(m)) or (isinstance(m, Drop) and m.p > 0)


def in_evaluation(wrapped: nn.Module) -> str:
    """The layers in evaluation mode for which that makes a difference, as far as their attributes tell; empty if there
    are none."""
    named = wrapped.named_modules()
    return listed([name.removeprefix(PREFIX) for name, m in named if not m.training and _differs_in_evaluation(m)])


def check_momentum(model: nn.Module) -> None:
    """Errors: a BatchNorm whose running statistics are the mean over all steps. ONNX has one momentum for all of
    them, and the exporters write that of the next step: 1 at first, with which a step forgets all before it."""
    found = [
        name or type(m).__name__
        for name, m in model.named_modules()
        if isinstance(m, BatchNorm) and m.training and m.running_mean is not None and m.momentum is None
    ]
    if found:
        raise ExportError(
            f"momentum=None, the mean over all steps, has no ONNX form: {listed(found)}",
            "give these normalizations a momentum, as 0.1",
        )


@contextlib.contextmanager
def changed_buffers(wrapped: nn.Module) -> Iterator[List[str]]:
    """While it lasts, a call of the module adds the buffers to the list that it changed: all but a normalization's
    statistics, which actc updates too."""
    statistics = {id(b) for m in wrapped.modules() if isinstance(m, BatchNorm) for b in m.buffers()}
    before = {n: (b, b.detach().clone()) for n, b in wrapped.named_buffers() if id(b) not in statistics}
    found: List[str] = []

    def compare(*_: object) -> None:
        now = dict(wrapped.named_buffers())
        for name, (buffer, value) in before.items():
            public = name.removeprefix(PREFIX)
            if public not in found and not torch.equal(now.get(name, buffer), value):
                found.append(public)

    handle = wrapped.register_forward_hook(compare)
    try:
        yield found
    finally:
        handle.remove()
