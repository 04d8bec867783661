"""Example inputs of any structure as a list of named tensors, which are the inputs of the graph."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn

from ._errors import ExportError


@dataclasses.dataclass(frozen=True)
class _Slot:
    """The place of a tensor in a structure of inputs."""

    index: int


def _map(value: Any, name: str, leaf: Callable[[Any, str], Any]) -> Any:
    """The structure again with `leaf(value, name)` in the place of everything that is no container.
    Elements of a container add `_0`, `_1`... or their key to its name."""
    if isinstance(value, (torch.Tensor, _Slot)):
        return leaf(value, name)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _map(getattr(value, f.name), f"{name}_{f.name}", leaf) for f in dataclasses.fields(value)}
        return type(value)(**fields)
    if isinstance(value, Mapping):
        pairs = {key: _map(item, f"{name}_{key}", leaf) for key, item in value.items()}
        return pairs if type(value) is dict else type(value)(pairs)  # type: ignore[call-arg]
    if isinstance(value, (tuple, list)):
        items = [_map(item, f"{name}_{i}", leaf) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return leaf(value, name)


class Inputs:
    """Arguments of a model. `names` and `tensors` are the tensors in them; what is no tensor (bool,
    int, str, None) is a constant."""

    def __init__(self, args: Sequence[Any], kwargs: Dict[str, Any], positions: Sequence[str]) -> None:
        self.names: List[str] = []
        self.tensors: Tuple[torch.Tensor, ...] = ()
        found: List[torch.Tensor] = []

        def take(value: Any, name: str) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            self.names.append(name)
            found.append(value.detach())
            return _Slot(len(found) - 1)

        self._args = [_map(value, name, take) for value, name in zip(args, positions)]
        self._kwargs = {name: _map(value, name, take) for name, value in kwargs.items()}
        self.tensors = tuple(found)

    def arguments(self, tensors: Sequence[torch.Tensor]) -> Tuple[List[Any], Dict[str, Any]]:
        """The model's arguments with other tensors."""

        def put(value: Any, _: str) -> Any:
            return tensors[value.index] if isinstance(value, _Slot) else value

        return [_map(v, "", put) for v in self._args], {k: _map(v, "", put) for k, v in self._kwargs.items()}


def _positions(model: nn.Module, count: int) -> List[str]:
    """Names of forward's first parameters."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(model.forward).parameters.values() if p.kind in kinds]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]


def inputs_of(model: nn.Module, given: Any, names: Optional[Sequence[str]]) -> Inputs:
    """A tensor, a tuple or list of positional arguments, or a dict of keyword arguments."""
    if isinstance(given, Mapping):
        inputs = Inputs((), dict(given), ())
    else:
        args = (given,) if isinstance(given, torch.Tensor) else given
        if not isinstance(args, (tuple, list)):
            raise ExportError(
                f"the example inputs are {type(args).__name__}",
                "pass a tensor, a tuple of positional arguments, or a dict of keyword arguments",
            )
        inputs = Inputs(args, {}, _positions(model, len(args)))
    if not inputs.tensors:
        raise ExportError("there are no tensors in the example inputs")
    if names is not None:
        if len(names) != len(inputs.tensors):
            raise ExportError(f"{len(names)} input names for {len(inputs.tensors)} example inputs")
        inputs.names = list(names)
    twice = sorted({name for name in inputs.names if inputs.names.count(name) > 1})
    if twice:
        raise ExportError(f"several inputs are called {', '.join(twice)}", "pass input_names=")
    return inputs


def labels_of(given: Any) -> Tuple[torch.Tensor, ...]:
    labels = (given,) if isinstance(given, torch.Tensor) else tuple(given)
    for label in labels:
        if not isinstance(label, torch.Tensor):
            raise ExportError(
                f"an example label is {type(label).__name__}, not a tensor", "pass a tensor or a tuple of tensors"
            )
    return labels


def label_names(count: int) -> List[str]:
    return ["label"] if count == 1 else [f"label_{i}" for i in range(count)]
