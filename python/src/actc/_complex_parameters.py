"""Complex parameters as real ones, which is how PyTorch's optimizers see them."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator

import torch
from torch import nn


def _reader(name: str) -> property:
    return property(lambda module: torch.view_as_complex(module._parameters[name]))


@contextlib.contextmanager
def real_parameters(model: nn.Module) -> Iterator[None]:
    """While it lasts, a complex parameter is a real one of its name, in the same memory, with one more axis: of the
    real and the imaginary part. The module's code still reads the complex one."""
    reals: Dict[int, nn.Parameter] = {}  # one for a parameter that several modules share
    changed = []
    for m in model.modules():
        found = {name: p for name, p in m._parameters.items() if p is not None and p.is_complex()}
        if not found:
            continue
        kind: Any = type(m)
        changed.append((m, kind, found))
        for name, p in found.items():
            if id(p) not in reals:
                reals[id(p)] = nn.Parameter(torch.view_as_real(p.detach()), p.requires_grad)
            m._parameters[name] = reals[id(p)]
        # A property comes before what the module has as attributes.
        m.__class__ = type(kind.__name__, (kind,), {name: _reader(name) for name in found})
    try:
        yield
    finally:
        for m, kind, found in changed:
            m.__class__ = kind
            m._parameters.update(found)
