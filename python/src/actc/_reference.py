"""PyTorch's training step: in float64, and in float32 with other rounding errors."""

from __future__ import annotations

import contextlib
import copy
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import nn

from ._calm import same_after
from ._verdict import Step


def public_names(wrapped: nn.Module) -> Dict[str, nn.Parameter]:
    """Parameters of a ModelWithLoss by their names in the model. A shared one is there once."""
    return {name.removeprefix("model."): p for name, p in wrapped.named_parameters()}


def step(wrapped: nn.Module, tensors: Sequence[torch.Tensor]) -> Step:
    """Loss and gradients. The module is left as it was."""
    kept = [(p, p.grad) for p in wrapped.parameters()]
    try:
        for p, _ in kept:
            p.grad = None
        with same_after(wrapped), torch.enable_grad():
            loss = wrapped(*tensors)
            if loss.requires_grad:
                loss.backward()
        gradients = {n: p.grad.detach().double().cpu() for n, p in public_names(wrapped).items() if p.grad is not None}
        return Step(float(loss.detach()), gradients)
    finally:
        for p, gradient in kept:
            p.grad = gradient


@contextlib.contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def float64_step(wrapped: nn.Module, tensors: Sequence[torch.Tensor]) -> Tuple[Optional[Step], str]:
    """The step of a copy in float64; None and the reason, if the module cannot do that."""
    try:
        double = copy.deepcopy(wrapped).double()
        with _default(torch.float64):  # tensors that forward makes
            return step(double, [t.double() if t.is_floating_point() else t for t in tensors]), ""
    except Exception as error:
        return None, str(error).strip().splitlines()[0] if str(error).strip() else repr(error)


def loss_of(wrapped: nn.Module, tensors: Sequence[torch.Tensor], float64: bool) -> float:
    """The loss alone. The module is left as it was."""
    module = copy.deepcopy(wrapped).double() if float64 else wrapped
    dtype = torch.float64 if float64 else torch.float32
    with torch.no_grad(), same_after(module), _default(dtype):
        return float(module(*[t.to(dtype) if t.is_floating_point() else t for t in tensors]))


def float32_steps(wrapped: nn.Module, tensors: Sequence[torch.Tensor]) -> List[Step]:
    """The plain step, one with other kernels (channels-last), and one with every parameter moved by
    about a unit in its last place, as another order of additions would move what follows."""
    steps = [step(wrapped, tensors)]
    if any(p.ndim == 4 for p in wrapped.parameters()):
        with contextlib.suppress(Exception):
            last = copy.deepcopy(wrapped).to(memory_format=torch.channels_last)
            images = [t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t for t in tensors]
            steps.append(step(last, images))
    with same_after(wrapped, parameters=True):
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for p in wrapped.parameters():
                if p.is_floating_point():
                    p.mul_((1 + torch.finfo(torch.float32).eps * torch.randn(p.shape, generator=generator)).to(p))
        steps.append(step(wrapped, tensors))
    return steps
