"""Values of a graph of PyTorch's TorchScript exporter, for forms of operators that it lacks."""

from __future__ import annotations

from typing import Any, List, Optional

import torch

from ._errors import ExportError


def constant(g: Any, value: Any) -> Any:
    return g.op("Constant", value_t=torch.tensor(value))


def value_of(value: Any) -> Optional[torch.Tensor]:
    """The value of a constant; None if it depends on data."""
    node = value.node()
    if node.kind() not in ("onnx::Constant", "prim::Constant"):
        return None
    if not node.hasAttribute("value"):
        return None
    kind = node.kindOf("value")
    return torch.as_tensor(getattr(node, kind)("value"))


def number(value: Any, of: str) -> float:
    known = value_of(value)
    if known is None:
        raise ExportError(f"{of} that depends on data has no ONNX form")
    return float(known)


def integer(value: Any, of: str) -> int:
    return int(number(value, of))


def rank_of(x: Any) -> int:
    rank = x.type().dim()
    if rank is None:
        raise ExportError("a tensor of unknown rank has no ONNX form here")
    return int(rank)


def extent(g: Any, x: Any, axis: int) -> Any:
    return g.op("Gather", g.op("Shape", x), constant(g, axis), axis_i=0)


def numbers(values: Any, of: str) -> List[float]:
    node = values.node()
    if node.kind() == "prim::ListConstruct":
        return [number(value, of) for value in node.inputs()]
    known = value_of(values)
    if known is None:
        raise ExportError(f"{of} that depends on data has no ONNX form")
    return [float(value) for value in known.reshape(-1)]


def integers(values: Any, of: str) -> List[int]:
    return [int(value) for value in numbers(values, of)]


def known_or_none(values: Any) -> List[Optional[int]]:
    """The whole numbers of a list, None for each that depends on data or on the batch."""
    if values.node().kind() != "prim::ListConstruct":
        return list(integers(values, "a list"))
    found = [value_of(value) for value in values.node().inputs()]
    return [None if value is None else int(value) for value in found]


def vector(g: Any, values: Any) -> Any:
    """A list of whole numbers as one tensor."""
    if values.node().kind() != "prim::ListConstruct":
        return constant(g, integers(values, "a list"))
    known = known_or_none(values)
    parts = [
        g.op("Reshape", value, constant(g, [1])) if number is None else constant(g, [number])
        for value, number in zip(values.node().inputs(), known)
    ]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=0)
