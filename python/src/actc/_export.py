"""A torch.nn.Module as an ONNX graph that trains.

The plain exporters have problems that are solved here:

* The dynamo exporter's optimizer folds BatchNorm into convolutions, and eval-mode exports lose
  Dropout. Here the model is traced in training mode and nothing is folded.
* Tracing runs the model once, which updates the running statistics of its BatchNorm layers. Here
  the statistics from before the trace are written, and put back into the module.
* A label, a loss and the gradient's path to every parameter are part of the graph. Names are the
  module's own.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import onnx
import torch
from torch import nn
from torch.jit._trace import TracerWarning

from ._check import CheckResult, check_step
from ._errors import ExportError
from ._losses import Loss, ModelWithLoss

PREFIX = "model."  # prefix of names in ModelWithLoss
# Larger weights go into a file of their own, since a protobuf message holds 2 GiB.
INLINE_LIMIT_BYTES = 1 << 30
BUFFER_KEY = "pkg.torch.export.graph_signature.InputSpec.kind"
STATISTICS = ("running_mean", "running_var")


@dataclass
class ExportReport:
    """What `export` wrote and what it changed on the way."""

    path: str
    nodes: int
    parameters: int  # trained elements
    frozen: List[str]  # parameters without requires_grad, which stay unchanged
    inputs: List[str]
    batch_axis: Optional[str]  # the symbol of the first axis, or None if the batch is fixed
    changes: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    check: Optional[CheckResult] = None

    def __str__(self) -> str:
        batch = f"batch axis {self.batch_axis}" if self.batch_axis else "fixed batch"
        lines = [
            f"{self.path}: {self.nodes} nodes, {self.parameters:,} trained numbers, inputs {', '.join(self.inputs)}, {batch}"
        ]
        if self.frozen:
            lines.append(f"  frozen: {', '.join(self.frozen)}")
        lines += [f"  changed: {change}" for change in self.changes]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        if self.check:
            lines.append(f"  checked: {self.check}")
        return "\n".join(lines)


def export(
    model: nn.Module,
    example_inputs: Union[torch.Tensor, Sequence[torch.Tensor]],
    path: Union[str, "os.PathLike[str]"],
    loss: Loss = None,
    labels: Union[torch.Tensor, Sequence[torch.Tensor], None] = None,
    input_names: Optional[Sequence[str]] = None,
    dynamic_batch: bool = True,
    opset: int = 17,
    check: Union[bool, str] = "auto",
    bin_dir: Optional[str] = None,
) -> ExportReport:
    """Writes `model` with its loss as an ONNX training graph for actc.

    model: in any mode. It is left as it was, including its running statistics.
    example_inputs: arguments for model(*example_inputs). The first axis of each is the batch.
    loss: a name ("cross-entropy", "mse", "l1", "smooth-l1", "bce-with-logits"), a module or
        function (outputs, *labels) -> scalar, or None if the model itself returns its loss.
    labels: example labels. They are further inputs of the graph: `label`, or `label_0`,
        `label_1`... By default random classes, or zeros of the shape that a named loss takes.
    input_names: of the example inputs. By default the names of forward's parameters.
    check: with True, compiles with actc, runs one step, and compares loss and gradients with
        autograd. It is an error if actc and actrun are not found. "auto" checks only if they are
        found. False does not check.
    bin_dir: where actc and actrun are. By default they are looked for on PATH.

    Errors: ExportError, with a hint. Then nothing is left at `path`.
    """
    inputs = _tensors(example_inputs)
    state = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    training = {name: module.training for name, module in model.named_modules()}
    path = os.fspath(path)
    report = ExportReport(path, 0, 0, [], [], None)
    try:
        model.train()
        targets = _labels(model, inputs, loss, labels)
        _restore(model, state)
        wrapped = ModelWithLoss(model, loss, len(inputs))
        names = _names(model, inputs, input_names) + _label_names(len(targets))
        graph = _trace(wrapped, inputs + targets, names, dynamic_batch, opset, report)
        _restore(model, state)
        _rename(graph, report)
        _restore_statistics(graph, state, report)
        _mark_frozen(graph, model, report)
        _verify(graph, model, report)
        _save(graph, path, report)
        if check is not False:
            report.check = check_step(wrapped, dict(zip(names, inputs + targets)), path, bin_dir, required=check is True)
            _restore(model, state)
    except BaseException:
        for leftover in (path, path + ".data"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(leftover)
        raise
    finally:
        _restore(model, state)
        for name, module in model.named_modules():
            module.training = training[name]
    return report


def _tensors(value: Union[torch.Tensor, Sequence[torch.Tensor]]) -> Tuple[torch.Tensor, ...]:
    tensors = (value,) if isinstance(value, torch.Tensor) else tuple(value)
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise ExportError(f"an example input is {type(tensor).__name__}, not a tensor", "pass a tuple of tensors")
    if not tensors:
        raise ExportError("there are no example inputs")
    return tensors


def _labels(model: nn.Module, inputs: Tuple[torch.Tensor, ...], loss: Loss, labels: Any) -> Tuple[torch.Tensor, ...]:
    if labels is not None:
        return _tensors(labels)
    if not isinstance(loss, str):
        return ()
    with torch.no_grad():
        outputs = model(*inputs)
    if not isinstance(outputs, torch.Tensor):
        raise ExportError(
            f"the model returns {type(outputs).__name__}, and loss {loss!r} takes one tensor",
            "pass a function of outputs and labels as the loss, and example labels",
        )
    if loss != "cross-entropy":
        return (torch.zeros_like(outputs),)
    classes = outputs.shape[1] if outputs.ndim > 1 else 1
    return (torch.randint(0, classes, (outputs.shape[0],) + tuple(outputs.shape[2:])),)


def _names(model: nn.Module, inputs: Sequence[torch.Tensor], given: Optional[Sequence[str]]) -> List[str]:
    if given is not None:
        if len(given) != len(inputs):
            raise ExportError(f"{len(given)} input names for {len(inputs)} example inputs")
        return list(given)
    import inspect

    names = [
        p.name
        for p in inspect.signature(model.forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(len(inputs))]


def _label_names(count: int) -> List[str]:
    return ["label"] if count == 1 else [f"label_{i}" for i in range(count)]


def _restore(model: nn.Module, state: Dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(state[name])


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _diff(g: Any, x: Any, n: Any, axis: Any, prepend: Any, append: Any) -> Any:
    """torch.diff, the differences of neighbours along an axis, which the TorchScript exporter
    lacks."""

    def constant(value: int) -> Any:
        return g.op("Constant", value_t=torch.tensor([value]))

    def known(value: Any) -> int:
        node = value.node()
        return int(node.t("value") if node.kindOf("value") == "t" else node.i("value"))

    if known(n) != 1:
        raise ExportError("torch.diff of another order than 1 has no ONNX form")
    along = known(axis)
    parts = [part for part in (prepend, x, append) if not part.node().mustBeNone()]
    joined = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=along)
    upper = g.op("Slice", joined, constant(1), constant(2**63 - 1), constant(along))
    lower = g.op("Slice", joined, constant(0), constant(-1), constant(along))
    return g.op("Sub", upper, lower)


@contextlib.contextmanager
def _more_operators(opset: int) -> Iterator[None]:
    torch.onnx.register_custom_op_symbolic("aten::diff", _diff, opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::diff", opset)


def _trace(
    wrapped: nn.Module,
    tensors: Tuple[torch.Tensor, ...],
    names: List[str],
    dynamic_batch: bool,
    opset: int,
    report: ExportReport,
) -> onnx.ModelProto:
    """The exporter's graph, in training mode, unfolded. What tracing could not follow is in
    report.warnings."""
    report.inputs = names
    batches = {tensor.shape[0] for tensor in tensors if tensor.ndim > 0}
    axes = {name: {0: "N"} for name, tensor in zip(names, tensors) if tensor.ndim > 0} if dynamic_batch else {}
    if axes and len(batches) != 1:
        raise ExportError(
            f"the example inputs have batches of {', '.join(map(str, sorted(batches)))}",
            "their first axes must agree, or pass dynamic_batch=False",
        )
    report.batch_axis = "N" if axes else None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        file = os.path.join(folder, "model.onnx")
        try:
            with _silent(), _more_operators(opset):
                torch.onnx.export(
                    wrapped,
                    tensors,
                    file,
                    dynamo=False,
                    training=torch.onnx.TrainingMode.TRAINING,
                    do_constant_folding=False,
                    opset_version=opset,
                    input_names=names,
                    output_names=["loss"],
                    dynamic_axes=axes,
                )
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(
                f"PyTorch's exporter failed: {str(error).strip().splitlines()[0] if str(error).strip() else error!r}",
                "an operator without an ONNX form, or Python code that tracing cannot follow",
            ) from error
        graph: onnx.ModelProto = onnx.load(file)
    for warning in caught:
        if issubclass(warning.category, TracerWarning):
            text = str(warning.message).strip().splitlines()[0]
            place = f"{os.path.basename(warning.filename)}:{warning.lineno}: " if warning.filename else ""
            message = f"{place}{text}"
            if message not in report.warnings:
                report.warnings.append(message)
    report.changes.append("traced in training mode, nothing folded: BatchNorm and Dropout are as in the module")
    return graph


def _rename(graph: onnx.ModelProto, report: ExportReport) -> None:
    """Gives initializers the module's own names."""
    taken = {t.name for t in graph.graph.initializer} | {i.name for i in graph.graph.input}
    renamed = {}
    for tensor in graph.graph.initializer:
        short = tensor.name[len(PREFIX) :] if tensor.name.startswith(PREFIX) else tensor.name
        if short != tensor.name and short not in taken:
            renamed[tensor.name] = short
            tensor.name = short
    for node in graph.graph.node:
        for i, name in enumerate(node.input):
            if name in renamed:
                node.input[i] = renamed[name]


def _restore_statistics(graph: onnx.ModelProto, state: Dict[str, torch.Tensor], report: ExportReport) -> None:
    """Removes the statistics outputs of BatchNormalization and restores the statistics from before
    the trace. Then each step of the run makes one update, including the first step. A node without
    stored statistics (track_running_stats=False, standardized weights) stays as it is."""
    stored = {tensor.name for tensor in graph.graph.initializer}
    count = 0
    for node in graph.graph.node:
        if node.op_type != "BatchNormalization" or len(node.output) < 2 or node.input[3] not in stored:
            continue
        del node.output[1:]
        for attribute in node.attribute:
            if attribute.name == "training_mode":
                attribute.i = 0
        count += 1
    for tensor in graph.graph.initializer:
        if tensor.name.endswith(STATISTICS) and tensor.name in state:
            tensor.CopyFrom(onnx.numpy_helper.from_array(state[tensor.name].cpu().numpy(), tensor.name))
    if count:
        report.changes.append(f"running statistics of {count} BatchNorm layers are those from before the export")


def _mark_frozen(graph: onnx.ModelProto, model: nn.Module, report: ExportReport) -> None:
    """Marks parameters without requires_grad as the dynamo exporter marks buffers, which actc does
    not train."""
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    trained = 0
    for tensor in graph.graph.initializer:
        if tensor.name in frozen:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            entry = info.metadata_props.add()
            entry.key, entry.value = BUFFER_KEY, "BUFFER"
            graph.graph.value_info.append(info)
            report.frozen.append(tensor.name)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            trained += parameter.numel()
    report.parameters = trained
    if frozen:
        report.changes.append(f"{len(report.frozen)} parameters without requires_grad are marked as not trained")


def _verify(graph: onnx.ModelProto, model: nn.Module, report: ExportReport) -> None:
    """Checks that the graph contains what training needs."""
    report.nodes = len(graph.graph.node)
    stored = {t.name for t in graph.graph.initializer}
    missing = [n for n, p in model.named_parameters() if p.requires_grad and n not in stored]
    if missing:
        raise ExportError(
            f"{len(missing)} parameters do not reach the loss: {', '.join(missing[:5])}",
            "set requires_grad_(False) on parameters that the loss does not use",
        )
    called: Dict[str, int] = {}
    for node in graph.graph.node:
        called[node.op_type] = called.get(node.op_type, 0) + 1
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if called.get("BatchNormalization", 0) < len(norms):
        report.warnings.append(
            f"{called.get('BatchNormalization', 0)} BatchNormalization nodes of {len(norms)} BatchNorm layers: the others are not used"
        )
    drops = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p > 0]
    if called.get("Dropout", 0) < len(drops):
        report.warnings.append(f"{called.get('Dropout', 0)} Dropout nodes of {len(drops)} Dropout layers: the others are not used")


def _save(graph: onnx.ModelProto, path: str, report: ExportReport) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    size = sum(len(t.raw_data) for t in graph.graph.initializer)
    if size <= INLINE_LIMIT_BYTES:
        onnx.save(graph, path)
        return
    data = os.path.basename(path) + ".data"
    onnx.save(graph, path, save_as_external_data=True, location=data, size_threshold=1024)
    report.changes.append(f"weights are in {data}, beside the model")
