"""PyTorch's two exporters, called so that the graph trains, and the order in which they are tried."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence, Tuple, Union

import onnx
import torch
from torch import nn
from torch.distributions import Distribution
from torch.jit._trace import TracerWarning

from ._complex import Complex, complex_as_pairs
from ._errors import ExportError, WrongStep
from ._graph import name_inputs, name_outputs
from ._losses import ModelWithLoss
from ._stops import ends_no_gradient, no_grad_stops, of_library
from ._symbolics import STOP, more_operators
from ._written_out import written_out

EXPORTERS = ("auto", "torchscript", "dynamo")
DYNAMO_MIN_OPSET = 18
TORCHSCRIPT_MAX_OPSET = 20
BATCH = "N"
INPUT = "act_input_"  # inputs of the dynamo exporter's graph, before they get their names
OUTPUT = "act_predictions"  # the second output, before it gets its name


@dataclass(frozen=True)
class Attempt:
    exporter: str
    opset: int
    any_batch: bool

    def __str__(self) -> str:
        return f"{self.exporter}, opset {self.opset}" + ("" if self.any_batch else ", fixed batch")


def attempts(exporter: str, opset: int, dynamic_batch: Union[bool, str]) -> List[Attempt]:
    """What is tried, in order: TorchScript's exporter, the dynamo exporter, TorchScript's with the
    highest opset; then the first two for the example's batch alone, if that was left open."""
    if exporter not in EXPORTERS:
        raise ExportError(f"no exporter is called {exporter!r}", "one of " + ", ".join(EXPORTERS))
    if dynamic_batch not in (True, False, "auto"):
        raise ExportError(f"dynamic_batch is {dynamic_batch!r}", 'one of True, False, "auto"')
    tried = []
    for any_batch in {True: [True], False: [False], "auto": [True, False]}[dynamic_batch]:
        if exporter != "dynamo":
            tried.append(Attempt("torchscript", min(opset, TORCHSCRIPT_MAX_OPSET), any_batch))
        if exporter != "torchscript":
            tried.append(Attempt("dynamo", max(opset, DYNAMO_MIN_OPSET), any_batch))
        if exporter != "dynamo" and opset < TORCHSCRIPT_MAX_OPSET:
            tried.append(Attempt("torchscript", TORCHSCRIPT_MAX_OPSET, any_batch))
    return tried


def worth_trying(attempt: Attempt, failed: Sequence[Tuple[Attempt, Exception]]) -> bool:
    """Can `attempt` give another answer than those before it? A higher opset does if the exporter
    complained about the opset. A fixed batch does not if the exporter lacks an operator, or if the
    step was wrong."""
    mine = [(a, error) for a, error in failed if a.exporter == attempt.exporter]
    if any(a.any_batch == attempt.any_batch for a, _ in mine):
        return any(
            a.any_batch == attempt.any_batch and not isinstance(e, ExportError) and "opset" in str(e) for a, e in mine
        )
    final = [isinstance(e, WrongStep) or re.search("not supported|unsupported", str(e), re.IGNORECASE) for _, e in mine]
    return not final or not all(final)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing is printed, by Python, by loggers, or by PyTorch's C++ (it prints whole graphs)."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(fd, os.dup(fd)) for fd in (1, 2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd, _ in kept:
            os.dup2(nothing, fd)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(nothing)
        logging.disable(level)


@contextlib.contextmanager
def _unasked() -> Iterator[None]:
    """Distributions do not ask whether their arguments are valid, which would be a branch on data."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _define_stop(model: onnx.ModelProto) -> None:
    """To other readers than actc a stop is an ONNX function: its operand."""
    if any((node.domain, node.op_type) == STOP for node in model.graph.node):
        identity = onnx.helper.make_node("Identity", ["x"], ["y"])
        standard = [entry for entry in model.opset_import if not entry.domain]
        model.functions.append(onnx.helper.make_function(*STOP, ["x"], ["y"], [identity], standard))
        model.ir_version = max(model.ir_version, 8)  # the first that has functions


DYNAMO_KEEPS_DETACH = hasattr(torch.onnx, "ops")  # from PyTorch 2.8 on
_tensor_detach = torch.Tensor.detach


def _traced_detach(x: torch.Tensor) -> torch.Tensor:
    """Tensor.detach() of the model's own code as a node that the dynamo exporter keeps."""
    if ends_no_gradient(sys._getframe(1).f_code.co_filename) or not (x.is_floating_point() or isinstance(x, Complex)):
        return _tensor_detach(x)
    return _stop_node(x)


def _stop_node(x: torch.Tensor) -> torch.Tensor:
    if isinstance(x, Complex):
        return Complex(_stop_node(x.re), _stop_node(x.im))
    stopped: torch.Tensor = torch.onnx.ops.symbolic("::".join(STOP), (x,), dtype=x.dtype, shape=x.shape, version=1)
    return stopped


@contextlib.contextmanager
def _stops_in_dynamo(module: nn.Module) -> Iterator[None]:
    """The dynamo exporter, too, drops Tensor.detach() and no_grad()."""
    if not DYNAMO_KEEPS_DETACH:
        yield
        return
    setattr(torch.Tensor, "detach", _traced_detach)
    try:
        with no_grad_stops(module, _stop_node):
            yield
    finally:
        setattr(torch.Tensor, "detach", _tensor_detach)


def _output_names(module: ModelWithLoss) -> List[str]:
    return ["loss", OUTPUT] if module.predicts else ["loss"]


def _torchscript(
    module: ModelWithLoss, tensors: Tuple[torch.Tensor, ...], names: List[str], file: str, attempt: Attempt
) -> None:
    axes = {name: {0: BATCH} for name, tensor in zip(names, tensors) if tensor.ndim > 0}
    with more_operators(attempt.opset), no_grad_stops(module, torch.Tensor.detach):
        torch.onnx.export(
            module,
            tensors,
            file,
            dynamo=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            opset_version=attempt.opset,
            input_names=names,
            output_names=_output_names(module),
            dynamic_axes=axes if attempt.any_batch else {},
        )


def _dynamo(
    module: ModelWithLoss, tensors: Tuple[torch.Tensor, ...], names: List[str], file: str, attempt: Attempt
) -> None:
    shapes: Dict[str, Any] = {}
    if attempt.any_batch:
        batch = torch.export.Dim(BATCH)
        # forward(*tensors) has one parameter, a tuple.
        shapes = {"dynamic_shapes": {"tensors": tuple({0: batch} if t.ndim > 0 else None for t in tensors)}}
    # The optimizer of this exporter folds BatchNormalization into convolutions. An input that is called as a value of
    # the graph is, "cat" or "add_1", would make two of that name: these get their names at the end.
    with _stops_in_dynamo(module):
        torch.onnx.export(
            module,
            tensors,
            file,
            dynamo=True,
            optimize=False,
            opset_version=attempt.opset,
            input_names=[f"{INPUT}{i}" for i in range(len(names))],
            output_names=_output_names(module),
            **shapes,
        )


def run_exporter(
    module: ModelWithLoss, tensors: Tuple[torch.Tensor, ...], names: List[str], attempt: Attempt
) -> Tuple[onnx.ModelProto, List[str]]:
    """The graph, in training mode and unfolded, and what tracing could not follow.

    module: forward(*tensors) -> loss, and predictions.
    Errors: whatever the exporter raises.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        file = os.path.join(folder, "model.onnx")
        with _silent(), written_out(attempt.exporter), complex_as_pairs(module), _unasked():
            (_dynamo if attempt.exporter == "dynamo" else _torchscript)(module, tensors, names, file, attempt)
        graph: onnx.ModelProto = onnx.load(file)
    if attempt.exporter == "dynamo":
        name_inputs(graph.graph, names)
    name_outputs(graph.graph)
    _define_stop(graph)
    return graph, _lines(caught)


def _lines(caught: Sequence[warnings.WarningMessage]) -> List[str]:
    lines: List[str] = []
    for warning in caught:
        if not issubclass(warning.category, TracerWarning) or of_library(warning.filename):
            continue  # PyTorch's own modules and ours branch on shapes alone
        text = str(warning.message).strip().splitlines()[0]
        place = f"{os.path.basename(warning.filename)}:{warning.lineno}: " if warning.filename else ""
        if f"{place}{text}" not in lines:
            lines.append(f"{place}{text}")
    return lines
