"""What is done to an exported graph so that it trains as the module does."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Set

import numpy as np
import onnx
import torch
from torch import nn

from ._calm import BatchNorm
from ._errors import ExportError, WrongBatch
from ._reference import public_names
from ._report import ExportReport, listed

# Larger weights go into a file of their own, since a protobuf message holds 2 GiB.
INLINE_LIMIT_BYTES = 1 << 30
# With this metadata the dynamo exporter says what a tensor is. actc trains no BUFFER and no
# CONSTANT_TENSOR.
KIND_KEY = "pkg.torch.export.graph_signature.InputSpec.kind"
# Of the running statistics of a layer in evaluation mode: actc normalizes by these, and updates nothing.
STATISTICS_KEY = "act.statistics"
PREFIX = "model."  # of names in ModelWithLoss
PREDICTIONS = "predictions"
STATISTICS = ("running_mean", "running_var")


def _rename_values(graph: onnx.GraphProto, renamed: Dict[str, str]) -> None:
    for tensors in (graph.initializer, graph.value_info, graph.input, graph.output):
        for tensor in tensors:
            tensor.name = renamed.get(tensor.name, tensor.name)
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name in renamed:
                    names[i] = renamed[name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_values(attribute.g, renamed)


def name_inputs(graph: onnx.GraphProto, names: Sequence[str]) -> None:
    """Gives the inputs these names. Another value that has one of them gets a new name."""
    taken = {t.name for t in graph.initializer} | {name for node in graph.node for name in node.output}
    renamed = {name: f"{name}_value" for name in names if name in taken}
    while taken.intersection(renamed.values()):
        renamed = {name: f"{other}_" for name, other in renamed.items()}
    renamed.update({value.name: name for value, name in zip(graph.input, names)})
    _rename_values(graph, renamed)


def name_outputs(graph: onnx.GraphProto) -> None:
    """Declares the loss as a scalar, by which actc tells it from the predictions, and gives those their name."""
    graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))
    known = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim}
    for value in graph.output[1:]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param not in known:  # TorchScript's exporter makes a name up where it does not know the extent
                dim.ClearField("dim_param")
    given = {t.name for t in graph.initializer} | {i.name for i in graph.input}
    if PREDICTIONS in given.union(*(node.output for node in graph.node)):
        return
    for value in graph.output[1:]:
        if value.name in given:  # predictions that are an input or a parameter, whose names stay
            graph.node.add(op_type="Identity", input=[value.name], output=[PREDICTIONS])
            value.name = PREDICTIONS
        else:
            _rename_values(graph, {value.name: PREDICTIONS})


def _same_numbers(tensor: onnx.TensorProto, value: torch.Tensor) -> bool:
    if tensor.data_type != onnx.TensorProto.FLOAT or list(tensor.dims) != list(value.shape):
        return False
    return bool(np.array_equal(onnx.numpy_helper.to_array(tensor), value.detach().cpu().numpy()))


def rename(graph: onnx.GraphProto, wrapped: nn.Module) -> None:
    """Gives initializers the module's own names. What several names share has the first of them; a
    parameter that the exporter gave a name of its own is found by its numbers."""
    owners = {
        **dict(wrapped.named_parameters(remove_duplicate=False)),
        **dict(wrapped.named_buffers(remove_duplicate=False)),
    }
    first: Dict[int, str] = {}
    for name, tensor in {**dict(wrapped.named_parameters()), **dict(wrapped.named_buffers())}.items():
        first.setdefault(id(tensor), name)
    taken = {t.name for t in graph.initializer} | {i.name for i in graph.input}
    renamed: Dict[str, str] = {}

    def give(old: str, new: str) -> None:
        short = new.removeprefix(PREFIX)
        if short != old and short not in taken:
            taken.add(short)
            renamed[old] = short

    for tensor in graph.initializer:
        if tensor.name in owners:
            give(tensor.name, first[id(owners[tensor.name])])
    known = {renamed.get(t.name, t.name) for t in graph.initializer}
    strangers = [t for t in graph.initializer if t.name not in owners]
    for name, parameter in public_names(wrapped).items():
        if name not in known:
            for tensor in strangers:
                if tensor.name not in renamed and _same_numbers(tensor, parameter):
                    give(tensor.name, name)
                    break
    _rename_values(graph, renamed)


def restore_statistics(graph: onnx.GraphProto, state: Dict[str, torch.Tensor], report: ExportReport) -> None:
    """Removes the statistics outputs of BatchNormalization and restores the statistics from before
    the trace. Then each step of the run makes one update, including the first step. A node without
    stored statistics (track_running_stats=False, standardized weights) stays as it is. All other
    buffers that the trace has changed are restored, too (vectors of spectral_norm, codebooks)."""
    stored = {tensor.name for tensor in graph.initializer}
    count = 0
    for node in graph.node:
        if node.op_type != "BatchNormalization" or len(node.output) < 2 or node.input[3] not in stored:
            continue
        del node.output[1:]
        for attribute in node.attribute:
            if attribute.name == "training_mode":
                attribute.i = 0
        count += 1
    for tensor in graph.initializer:
        if tensor.name not in state:
            continue
        before = onnx.numpy_helper.from_array(state[tensor.name].cpu().numpy(), tensor.name)
        if (before.data_type, before.dims) == (tensor.data_type, tensor.dims):  # else it has another form in the graph
            tensor.CopyFrom(before)
    if count:
        report.changes.append(f"running statistics of {count} BatchNorm layers are those from before the export")


def mark_kinds(graph: onnx.GraphProto, wrapped: nn.Module, reached: Set[str]) -> None:
    """Marks tensors as the dynamo exporter does: parameters that train, buffers (with parameters
    that do not train) and constants; and running statistics by which a layer in evaluation mode
    normalizes. `actc` then needs no --freeze and no --freeze-bn."""
    untrained = (set(public_names(wrapped)) - reached) | {n.removeprefix(PREFIX) for n, _ in wrapped.named_buffers()}
    stay = {
        f"{path}.{part}".removeprefix(PREFIX)
        for path, module in wrapped.named_modules()
        if isinstance(module, BatchNorm) and not module.training and module.running_mean is not None
        for part in STATISTICS
    }
    infos = {info.name: info for info in graph.value_info}
    for tensor in graph.initializer:
        kind = "PARAMETER" if tensor.name in reached else "BUFFER" if tensor.name in untrained else "CONSTANT_TENSOR"
        info = infos.get(tensor.name)
        if info is None:
            info = graph.value_info.add()
            info.CopyFrom(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        for entry in info.metadata_props:
            if entry.key == KIND_KEY:
                entry.value = kind
                break
        else:
            info.metadata_props.add(key=KIND_KEY, value=kind)
        if tensor.name in stay:
            info.metadata_props.add(key=STATISTICS_KEY, value="stored")


def batch_symbol(graph: onnx.GraphProto) -> Optional[str]:
    """Of the inputs' first axes, None if the batch is fixed."""
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        if len(dims) > 0 and dims[0].dim_param:
            return str(dims[0].dim_param)
    return None


def verify(graph: onnx.GraphProto, wrapped: nn.Module, reached: Dict[str, torch.Tensor], report: ExportReport) -> None:
    """Checks that the graph contains what training needs."""
    report.nodes = len(graph.node)
    if report.batch_axis and batch_symbol(graph) is None:
        raise WrongBatch("the exporter fixed the batch", "pass dynamic_batch=False")
    stored = {t.name for t in graph.initializer}
    # A gradient of zeros alone: only the parameter's shape is used, say.
    missing = [n for n, gradient in reached.items() if n not in stored and bool((gradient != 0).any())]
    if missing:
        raise ExportError(
            f"{len(missing)} parameters that PyTorch trains are not in the exported graph: {listed(missing)}",
            "the exporter made constants of them; forward may copy them with .item(), .numpy() or torch.tensor()",
        )
    called: Dict[str, int] = {}
    for node in graph.node:
        called[node.op_type] = called.get(node.op_type, 0) + 1
    kinds: Dict[str, List[nn.Module]] = {
        "BatchNormalization": [m for m in wrapped.modules() if isinstance(m, BatchNorm)],
        "Dropout": [m for m in wrapped.modules() if isinstance(m, nn.Dropout) and m.p > 0 and m.training],
    }
    for kind, modules in kinds.items():
        if called.get(kind, 0) < len(modules):
            layers = {"BatchNormalization": "BatchNorm"}.get(kind, kind)
            report.warnings.append(
                f"{called.get(kind, 0)} {kind} nodes of {len(modules)} {layers} layers: the others are not used"
            )


def norms_in(graph: onnx.GraphProto, wrapped: nn.Module) -> Dict[BatchNorm, List[onnx.NodeProto]]:
    """The BatchNormalization nodes of each layer, found by the tensors they read."""
    names: Dict[str, BatchNorm] = {}
    for path, module in wrapped.named_modules():
        if isinstance(module, BatchNorm):
            for part in ("weight", "running_mean"):
                names[f"{path}.{part}".removeprefix(PREFIX)] = module
    found: Dict[BatchNorm, List[onnx.NodeProto]] = {}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            norm = names.get(node.input[1], names.get(node.input[3]))
            if norm is not None:
                found.setdefault(norm, []).append(node)
    return found


def weight_bytes(graph: onnx.GraphProto) -> int:
    return sum(len(t.raw_data) for t in graph.initializer)


def save(model: onnx.ModelProto, path: str, report: ExportReport) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    if weight_bytes(model.graph) <= INLINE_LIMIT_BYTES:
        onnx.save(model, path)
        return
    data = os.path.basename(path) + ".data"
    onnx.save(model, path, save_as_external_data=True, location=data, size_threshold=1024)
    report.changes.append(f"weights are in {data}, beside the model")
