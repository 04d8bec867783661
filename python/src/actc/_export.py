"""A torch.nn.Module as an ONNX graph that trains.

The plain exporters have problems that are solved here:

* The dynamo exporter's optimizer folds BatchNorm into convolutions, and eval-mode exports lose
  Dropout. Here the model is traced in training mode and nothing is folded.
* Tracing runs the model once, which updates the running statistics of its BatchNorm layers. Here
  the statistics from before the trace are written, and put back into the module.
* A label, a loss and the gradient's path to every parameter are part of the graph. Names are the
  module's own.
* Each exporter fails on some models. Here the next one follows.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple, Union

import onnx
import torch
from torch import nn

from ._calm import calm, same_after
from ._check import check_step
from ._complex_parameters import real_parameters
from ._errors import ExportError, WrongStep, first_line
from ._exporters import BATCH, DYNAMO_KEEPS_DETACH, Attempt, attempts, run_exporter, worth_trying
from ._graph import mark_kinds, rename, restore_statistics, save, verify
from ._inputs import inputs_of, label_names, labels_of
from ._losses import Loss, ModelWithLoss, predictions
from ._modes import begin_training, changed_buffers, check_momentum, in_evaluation
from ._reference import public_names, step
from ._report import ExportReport, listed
from ._tools import NO_TOOLS

# Of one error. A model in another number format has them by the hundred.
MOST_CAUSES = 8


def export(
    model: nn.Module,
    inputs: Any,
    path: Union[str, "os.PathLike[str]"],
    loss: Loss = None,
    labels: Union[torch.Tensor, Sequence[torch.Tensor], None] = None,
    input_names: Optional[Sequence[str]] = None,
    dynamic_batch: Union[bool, str] = "auto",
    opset: int = 17,
    exporter: str = "auto",
    check: Union[bool, str] = "auto",
    bin_dir: Optional[str] = None,
) -> ExportReport:
    """Writes `model` with its loss as an ONNX training graph for actc.

    model: in training mode, in which parts that are in evaluation mode stay so; or in evaluation
        mode, from which all of it is taken by model.train(). It is left as it was, including its
        running statistics. Parameters without requires_grad, and those that no gradient reaches,
        are marked so that actc does not train them.
    inputs: example inputs: a tensor, a tuple of positional arguments, or a dict of keyword
        arguments, which are the names of the graph's inputs. Arguments may be tuples, lists and
        dicts of tensors. What is no tensor (bool, int, None) is a constant of the graph. The first
        axis of each tensor is the batch.
    loss: a name ("cross-entropy", "token-cross-entropy", "mse", "l1", "smooth-l1", "bce-with-logits"), a
        module or function (outputs, *labels) -> scalar, or None if the model itself returns its
        loss: alone, as `.loss` or ["loss"], or first of several.
    labels: example labels. They are further inputs of the graph: `label`, or `label_0`,
        `label_1`... By default random classes, or zeros of the shape that a named loss takes.
    input_names: of the tensors in `inputs`, in order. By default the names of forward's parameters.
    dynamic_batch: True: the graph takes any batch. False: the example's alone. "auto": any, or if no
        exporter manages that, the example's, with a warning.
    opset: of the first attempt.
    exporter: "torchscript", "dynamo", or "auto", which tries them in turn until one makes a file
        that passes the check.
    check: with True, compiles with actc, runs one step, and compares loss and gradients with
        autograd. It is an error if actc and actrun are not found. "auto" checks only if they are
        found. False does not check.
    bin_dir: where actc and actrun are. By default they are looked for on PATH.

    Errors: ExportError, with a hint and what each attempt said. Then nothing is left at `path`.
    """
    path = os.fspath(path)
    tried = attempts(exporter, opset, dynamic_batch)
    given = inputs_of(model, inputs, input_names)
    with same_after(model), real_parameters(model):
        begin_training(model)
        check_momentum(model)
        wrapped = ModelWithLoss(model, loss, given)
        targets = labels_of(labels) if labels is not None else _labels(wrapped, loss, given.tensors)
        job = _Job(wrapped, given.tensors + targets, given.names + label_names(len(targets)), path)
        if not job.look(dynamic_batch):
            tried = attempts(exporter, opset, False)
        try:
            return job.run(tried, check, bin_dir, dynamic_batch == "auto")
        except BaseException:
            for leftover in (path, path + ".data"):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(leftover)
            raise


@dataclass
class _Job:
    """An export whose arguments are known."""

    wrapped: ModelWithLoss
    tensors: Tuple[torch.Tensor, ...]
    names: List[str]
    path: str

    def look(self, dynamic_batch: Union[bool, str]) -> bool:
        """Runs PyTorch's step, which tells what trains. Returns whether any batch is to be tried."""
        named = [(f"input {n}", t) for n, t in zip(self.names, self.tensors)]
        named += [(f"parameter {n}", p) for n, p in public_names(self.wrapped).items()]
        other = [
            f"{name} is {t.dtype}"
            for name, t in named
            if t.dtype != torch.float32 and (t.is_floating_point() or t.is_complex())
        ]
        if other:
            most = other[:MOST_CAUSES] + [f"and {len(other) - MOST_CAUSES} more"] * (len(other) > MOST_CAUSES)
            raise ExportError("actc trains in float32:", "model.float(), and inputs likewise", most)
        batches = sorted({tensor.shape[0] for tensor in self.tensors if tensor.ndim > 0})
        several = f"the example inputs have batches of {', '.join(map(str, batches))}" if len(batches) != 1 else ""
        hint = "their first axes must agree, or pass dynamic_batch=False"
        if several and dynamic_batch is True:
            raise ExportError(several, hint)
        try:
            with calm(self.wrapped), changed_buffers(self.wrapped) as self.changed:
                self.reached = step(self.wrapped, self.tensors).gradients
        except ExportError:
            raise
        except Exception as error:
            if several and dynamic_batch:
                raise ExportError(f"{several}; PyTorch says: {first_line(error)}", hint) from error
            raise ExportError(f"PyTorch cannot run a step of the model: {first_line(error)}") from error
        if not self.reached:
            raise ExportError(
                "no parameter's gradient comes from the loss", "is requires_grad set, and forward without no_grad()?"
            )
        return not several and dynamic_batch is not False

    def run(
        self, tried: List[Attempt], check: Union[bool, str], bin_dir: Optional[str], open_batch: bool
    ) -> ExportReport:
        said: List[str] = []
        failed: List[Tuple[Attempt, Exception]] = []
        for attempt in tried:
            if not worth_trying(attempt, failed):
                continue
            report = ExportReport(self.path, exporter=attempt.exporter, opset=attempt.opset, attempts=said)
            try:
                self._write(attempt, self.path, report)
                if check is not False:
                    export = lambda path, attempt=attempt: self._write(attempt, path, ExportReport(path))  # noqa: E731
                    report.check = check_step(
                        self.wrapped,
                        dict(zip(self.names, self.tensors)),
                        self.path,
                        bin_dir,
                        required=check is True,
                        export=export,
                    )
                    if report.check is None:
                        report.unchecked = NO_TOOLS
            except Exception as error:
                if isinstance(error, ExportError) and "were not found" in error.message:
                    raise
                failed.append((attempt, error))
                said.append(f"{attempt}: {error.message if isinstance(error, ExportError) else first_line(error)}")
                continue
            if open_batch and not attempt.any_batch:
                report.warnings.append("the batch is fixed, since no exporter manages any batch")
            return report
        hints = [e.hint for _, e in failed if isinstance(e, ExportError) and e.hint]
        hint = hints[0] if hints else _way_out(said)
        wrong = {attempt.exporter for attempt, e in failed if isinstance(e, WrongStep)}
        if "dynamo" in wrong and not DYNAMO_KEEPS_DETACH:
            hint = "before PyTorch 2.8 the dynamo exporter drops detach() and no_grad()"
        kind = WrongStep if all(isinstance(e, WrongStep) for _, e in failed) else ExportError
        raise kind("no attempt made a file that can be trained:", hint, said) from failed[-1][1]

    def _write(self, attempt: Attempt, path: str, report: ExportReport) -> None:
        """The exporter's graph, completed, at `path`."""
        state = {name: buffer.detach().clone() for name, buffer in self.wrapped.model.named_buffers()}
        graph, report.warnings = self._exported(attempt)
        report.inputs = [i.name for i in graph.graph.input]
        report.batch_axis = BATCH if attempt.any_batch else None
        report.changes.append("traced in training mode, nothing folded: BatchNorm and Dropout are as in the module")
        still = in_evaluation(self.wrapped)
        if still:
            report.warnings.append(f"in evaluation mode, and so written: {still}")
        if self.changed:
            changed = listed(self.changed)
            report.warnings.append(
                f"a step in PyTorch changes {changed}; every step of the graph begins with the present values"
            )
        if self.wrapped.reads:
            report.changes.append(f"the loss reads {self.wrapped.reads} of what the model returns")
        rename(graph.graph, self.wrapped)
        restore_statistics(graph.graph, state, report)
        mark_kinds(graph.graph, self.wrapped, set(self.reached))
        verify(graph.graph, self.wrapped, self.reached, report)
        for name, parameter in public_names(self.wrapped).items():
            if name in self.reached:
                report.parameters += parameter.numel()
            else:
                (report.unreached if parameter.requires_grad else report.frozen).append(name)
        save(graph, path, report)

    def _exported(self, attempt: Attempt) -> Tuple[onnx.ModelProto, List[str]]:
        """With the predictions as a second output, unless the exporter manages the loss alone."""
        for self.wrapped.predicts in [True, False] if self.wrapped.predicted else [False]:
            self.wrapped.finished = False
            try:
                with same_after(self.wrapped):
                    return run_exporter(self.wrapped, self.tensors, self.names, attempt)
            except Exception as error:
                if not (self.wrapped.predicts and self._fails_by_predictions(error, attempt)):
                    raise
            finally:
                self.wrapped.predicts = False
        raise AssertionError

    def _fails_by_predictions(self, error: Exception, attempt: Attempt) -> bool:
        """May the exporter manage the loss alone? Not if it fails at the Python code, which is the same. Not if it fails
        at an operator that is there in both cases: the dynamo exporter writes what no output needs, too, and a named
        loss is computed from the predictions."""
        same = attempt.exporter == "dynamo" and isinstance(error, torch.onnx.errors.OnnxExporterError)
        return self.wrapped.finished and not self.wrapped.named and not same


def _way_out(said: Sequence[str]) -> str:
    of_matrices = re.search(r"aten(?:::|\.)_?(linalg_\w+)", "\n".join(said))
    if of_matrices:
        name = of_matrices.group(1).replace("_", ".", 1)
        return f"no exporter has {name}: compute it before the model, as an input (python/README.md, Matrices)"
    return "an operator without an ONNX form, or Python code that tracing cannot follow"


def _labels(wrapped: ModelWithLoss, loss: Loss, tensors: Tuple[torch.Tensor, ...]) -> Tuple[torch.Tensor, ...]:
    """Random classes, or zeros, of the shape that a named loss takes."""
    if not isinstance(loss, str):
        return ()
    try:
        with torch.no_grad(), same_after(wrapped):
            outputs, _ = predictions(wrapped.outputs(tensors))
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"PyTorch cannot run the model: {first_line(error)}") from error
    if loss == "token-cross-entropy":
        return (torch.randint(0, outputs.shape[-1], tuple(outputs.shape[:-1])),)
    if loss != "cross-entropy":
        return (torch.zeros_like(outputs),)
    classes = outputs.shape[1] if outputs.ndim > 1 else 1
    return (torch.randint(0, classes, (outputs.shape[0],) + tuple(outputs.shape[2:])),)
