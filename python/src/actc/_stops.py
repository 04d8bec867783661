"""Where forward stops the gradient. An exported graph tells of detach(), and not of no_grad()."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, List, Sequence

import torch
from torch.overrides import TorchFunctionMode

# Folders of code that is not the model's: PyTorch's and ours.
LIBRARY = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, torch.__file__))


def _place() -> str:
    """The file and line of the model's code that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(LIBRARY):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class GradientStops(TorchFunctionMode):
    """`places`: calls of detach() and calculations under no_grad() with tensors that have a
    gradient, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.places: List[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        reads = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        what = "detach()" if getattr(func, "__name__", "") in ("detach", "detach_") else ""
        result = func(*args, **(kwargs or {}))
        if not what and not torch.is_grad_enabled() and isinstance(result, torch.Tensor) and result.is_floating_point():
            what = "no_grad()"
        if reads and what:
            place = f"{what} at {_place()}"
            if place not in self.places:
                self.places.append(place)
        return result
