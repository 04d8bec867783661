"""Changes to a module for the time of a check, which are undone after it."""

from __future__ import annotations

import contextlib
import math
import pickle
import random
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ._layer_forms import even_gumbel_softmax
from ._maker_forms import backwards

BatchNorm = nn.modules.batchnorm._BatchNorm
# Distance by which `moved` changes a parameter, in parts of its numbers' size. More would drown
# what depends on initial values; less leaves the gradients of branches that begin at 0 too small.
MOVE = 0.1
# Numbers of a vector (biases, scales) may all be 0. They move as if they were of this size.
VECTOR_SIZE = 0.5
# How often a model that draws random numbers runs again, at most, to see whether they change its loss. A coin that
# decides between two losses falls as often on one side in one of 256 models.
AGAIN = 8


@contextlib.contextmanager
def same_after(module: nn.Module, parameters: bool = False) -> Iterator[None]:
    """Restores buffers, modes of training and, if asked for, parameters."""
    kept: List[Tuple[torch.Tensor, torch.Tensor]] = [(b, b.detach().clone()) for b in module.buffers()]
    if parameters:
        kept += [(p, p.detach().clone()) for p in module.parameters()]
    training = {m: m.training for m in module.modules()}
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
        for m, mode in training.items():
            m.training = mode


def probabilities(m: nn.Module) -> List[str]:
    """Attributes of a module, without those of its parts, that are the probability of dropping something: `p` of
    Dropout and StochasticDepth, and whatever has "drop" in its name."""
    found = []
    for name, value in list(vars(m).items()):
        drops = "drop" in name.lower() or (name == "p" and "drop" in type(m).__name__.lower())
        drops |= name == "p" and "stochastic" in type(m).__name__.lower()
        if drops and isinstance(value, float) and 0 < value <= 1:
            found.append(name)
    return found


def _drops(module: nn.Module) -> List[Tuple[Any, str]]:
    return [(m, name) for m in module.modules() for name in probabilities(m)]


class _Fixed(TorchFunctionMode):
    """Functions that draw random numbers give fixed ones."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in (
            "dropout",
            "dropout1d",
            "dropout2d",
            "dropout3d",
            "alpha_dropout",
            "feature_alpha_dropout",
            "feature_dropout",
        ):
            return args[0] if args else kwargs["input"]
        if name in ("dropout_", "alpha_dropout_"):
            return args[0]
        if name == "scaled_dot_product_attention":
            if len(args) > 4:
                args = (*args[:4], 0.0, *args[5:])
            kwargs.pop("dropout_p", None)
        elif name == "bernoulli_":
            return args[0].fill_(1)
        elif name == "bernoulli":
            return torch.ones_like(args[0])
        elif name in ("uniform_", "normal_", "exponential_"):
            return args[0].fill_(0.5)
        elif name == "normal" and args and isinstance(args[0], torch.Tensor):
            # Distributions draw so while they are traced, and by normal_ else.
            deviation = args[1] if len(args) > 1 else kwargs.get("std", 1.0)
            return args[0] + 0.5 * deviation
        elif name == "gumbel_softmax":
            return even_gumbel_softmax(*args, **kwargs)
        elif name in ("rand", "randn", "rand_like", "randn_like"):
            # Not 0 or 1: a factor of 0 would hide a gradient.
            return func(*args, **kwargs).detach().fill_(0.5)
        return func(*args, **kwargs)


def _generators(module: nn.Module) -> List[Any]:
    """The states of what a model may draw from."""
    cards = {p.device for p in module.parameters() if p.device.type == "cuda"}
    states = [state.tolist() for state in (torch.get_rng_state(), *map(torch.cuda.get_rng_state, cards))]
    return [random.getstate(), pickle.dumps(np.random.get_state()), *states]


def draws(module: nn.Module, run: Callable[[], torch.Tensor]) -> bool:
    """Does `run` give another loss when it is run again? It runs twice, and more often if it draws random numbers."""
    if _drops(module):
        return True
    losses: List[float] = []
    before = _generators(module)
    while len(losses) < (2 if before == _generators(module) else AGAIN + 1):
        with torch.no_grad(), same_after(module):
            losses.append(float(run()))
        if losses[-1] != losses[0]:
            return not math.isnan(losses[0])
    return False


@contextlib.contextmanager
def calm(module: nn.Module, functions: bool = False) -> Iterator[None]:
    """Switches off Dropout, stochastic depth and the like: all probabilities of dropping are 0.

    functions: functions with which forward draws are replaced too (F.dropout with a constant).
    """
    changed: List[Tuple[Any, str, Any]] = [(m, name, 0.0) for m, name in _drops(module)]
    changed += [(torch, "randperm", backwards)] if functions else []
    originals = [(m, name, getattr(m, name)) for m, name, _ in changed]
    try:
        for m, name, value in changed:
            setattr(m, name, value)
        with _Fixed() if functions else contextlib.nullcontext():
            yield
    finally:
        for m, name, value in originals:
            setattr(m, name, value)


def move(module: nn.Module, seed: int) -> None:
    """Changes every parameter a little. Then vectors that are all 0 or 1 (scales of normalizations,
    biases, layers that begin at 0) show what their gradient rules do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            if not p.is_floating_point() or p.numel() == 0:
                continue
            size = float(p.double().pow(2).mean().sqrt())
            if p.ndim <= 1 or size == 0:
                size = max(size, VECTOR_SIZE)
            change = (torch.randn(p.shape, generator=generator) * MOVE * size).to(p)
            if p.ndim > 1:
                # An embedding's row for padding, the zeros of a pruned weight: these stay.
                change *= (p != 0).to(p) if bool((p != 0).any()) else 1
            p.add_(change)


def condition(norms: Sequence[BatchNorm], module: nn.Module, tensors: Sequence[torch.Tensor]) -> Dict[BatchNorm, float]:
    """Sets the epsilon of each normalization to the mean variance of its channels in forward(*tensors).

    Normalization over few values divides by deviations that may be tiny, and its gradient is what a
    cancellation leaves. Both multiply rounding errors, layer by layer. With an epsilon of the size
    of the variance neither does, and every term of its gradient is as large as the others.

    Returns the epsilons from before.
    """
    before = {norm: norm.eps for norm in norms}
    last: Dict[BatchNorm, float] = {}

    def hook(norm: Any, args: Tuple[Any, ...]) -> None:
        if norm not in last:  # a layer that is used twice has one epsilon
            axes = [i for i in range(args[0].ndim) if i != 1]
            variance = float(args[0].detach().double().var(axes, unbiased=False).mean())
            # actc reads an attribute as its shortest decimal form.
            last[norm] = float(f"{max(variance, norm.eps):.3g}")
        norm.eps = last[norm]

    hooks = [norm.register_forward_pre_hook(hook) for norm in norms]
    try:
        with torch.no_grad(), same_after(module):
            module(*tensors)
    finally:
        for handle in hooks:
            handle.remove()
    return before
