"""Where forward stops the gradient: detach() and no_grad()."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import Any, Callable, Iterator, List, Sequence

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ._complex import Complex

_LIBRARY = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, torch.__file__))


_IN_THE_MODELS_PLACE = tuple(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    for name in (
        "_written_out.py",
        "_function_forms.py",
        "_layer_forms.py",
        "_loss_forms.py",
        "_quantized_forms.py",
        "_special_forms.py",
    )
)
# Of PyTorch: layers and functions that a model is made of. Gradients end there as the documentation says: in the
# power method of spectral_norm, in gumbel_softmax, in what distributions draw.
_OF_LAYERS = tuple(os.path.join(os.path.dirname(torch.__file__), part) + os.sep for part in ("nn", "distributions"))


def of_library(file: str) -> bool:
    """Whether code of this file is not the model's, but PyTorch's or ours."""
    return os.path.abspath(file).startswith(_LIBRARY)


def ends_no_gradient(file: str) -> bool:
    """Whether detach() and no_grad() in this file belong to the machinery that runs a model. What is written out stands
    for the model's code."""
    path = os.path.abspath(file)
    return path.startswith(_LIBRARY) and not path.startswith(_OF_LAYERS) and path not in _IN_THE_MODELS_PLACE


def _of_model(frame: Any) -> bool:
    """Whether the block that is entered is the model's: written in its code, or a decorator of what it
    calls. PyTorch has blocks that end no gradient: reentrant checkpoints run forward in one."""
    while frame.f_back is not None and frame.f_code.co_filename.endswith(os.path.join("utils", "_contextlib.py")):
        frame = frame.f_back
    return not ends_no_gradient(frame.f_code.co_filename)


class _NoGradStops(TorchFunctionMode):
    """What is calculated under no_grad() from tensors that have a gradient goes through `stop`."""

    def __init__(self, stop: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.stop = stop

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        read: List[Any] = [*args, *(kwargs or {}).values()]
        read += [x for group in read if isinstance(group, (list, tuple)) for x in group]
        if torch.is_grad_enabled() or not any(isinstance(x, torch.Tensor) and x.requires_grad for x in read):
            return result
        if not isinstance(result, (tuple, list)):
            return self._stopped(result)
        return type(result)([self._stopped(x) for x in result])  # a named tuple of PyTorch keeps its names

    def _stopped(self, x: Any) -> Any:
        stops = isinstance(x, Complex) or isinstance(x, torch.Tensor) and x.is_floating_point()
        return self.stop(x) if stops and not x.requires_grad else x


@contextlib.contextmanager
def no_grad_stops(module: nn.Module, stop: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """While it lasts, module.forward calls `stop` where no_grad() cuts a gradient off. Exporters trace
    operators, and drop the mode in which they ran.

    The mode that does it is entered with no_grad() alone: under it, warnings do not name the model's
    lines."""
    inner, running = module.forward, False
    originals = {kind: (kind.__enter__, kind.__exit__) for kind in (torch.no_grad, torch.set_grad_enabled)}
    entered: List[Any] = []  # a mode for each block that runs; None where gradients are on

    @functools.wraps(inner)
    def forward(*tensors: torch.Tensor) -> Any:
        nonlocal running
        running = True
        try:
            with torch.enable_grad():
                return inner(*tensors)
        finally:
            running = False

    def patch(kind: Any) -> None:
        enter, leave = originals[kind]

        def __enter__(block: Any) -> Any:
            enter(block)
            stops = running and not torch.is_grad_enabled() and _of_model(sys._getframe(1))
            entered.append(_NoGradStops(stop) if stops else None)
            if entered[-1]:
                entered[-1].__enter__()

        def __exit__(block: Any, *error: Any) -> Any:
            mode = entered.pop()
            if mode:
                mode.__exit__(*error)
            return leave(block, *error)

        kind.__enter__, kind.__exit__ = __enter__, __exit__

    module.forward = forward
    for kind in originals:
        patch(kind)
    try:
        yield
    finally:
        del module.forward
        for kind, (enter, leave) in originals.items():
            kind.__enter__, kind.__exit__ = enter, leave  # type: ignore[method-assign]
