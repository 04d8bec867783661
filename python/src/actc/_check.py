"""One training step by actc and actrun, compared with PyTorch's in float64 (_verdict.py)."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import onnx
import torch
from torch import nn

from ._calm import calm, condition, draws, move, same_after
from ._errors import ExportError, WrongBatch, WrongStep, first_line
from ._graph import INLINE_LIMIT_BYTES, batch_symbol, norms_in, weight_bytes
from ._reference import float32_steps, float64_step, loss_of, public_names
from ._tools import Tools, find_tools, run_step
from ._verdict import MULTIPLE, CheckResult, Comparison, Step, compare, distance, limits

OWN = "the model's own values"
MOVED = "moved parameters"
CONDITIONED = "moved parameters and large epsilons of BatchNorm"
# Comparisons at moved parameters before a step counts as wrong. A rounding error that switches a
# ReLU, in actrun and in none of PyTorch's steps, is an accident; a wrong rule shows every time.
DRAWS = 3

# Relative, of the loss at another batch. A batch that became a constant changes a mean over samples
# by a part of 1 / batch; rounding is 1e-6.
OTHER_BATCH_LIMIT = 1e-4

HINT = (
    "not in an exported graph: what Python code decides by data, and backward() of a torch.autograd.Function "
    "(for a straight-through estimator, write y.detach() + x - x.detach())"
)


def batch_of(graph: onnx.GraphProto, tensors: Sequence[torch.Tensor]) -> Optional[int]:
    """The example's batch, None if that of the graph is fixed."""
    return next((int(t.shape[0]) for t in tensors if t.ndim > 0), None) if batch_symbol(graph) else None


def _step_of(got: Dict[str, np.ndarray], reference: Step) -> Step:
    """actrun's step, with the gradients that the reference has."""
    gradients, missing = {}, []
    for name, gradient in reference.gradients.items():
        key = "grad." + name
        if key in got:
            gradients[name] = torch.from_numpy(got[key].astype(np.float64)).reshape(gradient.shape)
        elif not bool((gradient != 0).any()):
            gradients[name] = torch.zeros_like(gradient)
        else:
            missing.append(name)
    if missing:
        raise WrongStep(
            f"the exported model has no gradient for {len(missing)} parameters: {', '.join(missing[:6])}", HINT
        )
    return Step(float(got["loss"].reshape(-1)[0]), gradients)


def compare_steps(
    wrapped: nn.Module, tensors: Sequence[torch.Tensor], got: Dict[str, np.ndarray]
) -> Tuple[Optional[Comparison], str]:
    """actrun's step beside PyTorch's at the module's present values. With a note where the reference
    is not float64's; without a comparison where PyTorch's step is not finite."""
    reference, reason = float64_step(wrapped, tensors)
    note, mine = "", None
    if reference is None:
        note = f"the reference is PyTorch in float32, since the module does not run in float64 ({reason})"
        mine = float32_steps(wrapped, tensors)
        reference = mine.pop(0)
    if not math.isfinite(reference.loss) or not math.isfinite(reference.norm()):
        return None, note
    off = distance(_step_of(got, reference), reference)
    result = compare(reference, off, limits(reference, []))
    if mine is not None or not result.within:
        noise = [distance(s, reference) for s in (float32_steps(wrapped, tensors) if mine is None else mine)]
        if mine is not None:
            # The reference has errors of the same size: a distance of two float32 steps.
            for d in noise:
                d.loss, d.overall = 2 * d.loss, 2 * d.overall
                d.parameters = {n: 2 * v for n, v in d.parameters.items()}
        result = compare(reference, off, limits(reference, noise))
    return result, note


@contextlib.contextmanager
def moved(
    wrapped: nn.Module, tensors: Sequence[torch.Tensor], model: onnx.ModelProto, seed: int
) -> Iterator[onnx.ModelProto]:
    """The module with moved parameters and conditioned normalizations, and a graph that is changed
    alike."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    found = norms_in(other.graph, wrapped)
    with contextlib.ExitStack() as undo:
        undo.enter_context(same_after(wrapped, parameters=True))
        move(wrapped, seed)
        for norm, epsilon in condition(list(found), wrapped, tensors).items():
            undo.callback(setattr, norm, "eps", epsilon)
        for norm, nodes in found.items():
            for node in nodes:
                for attribute in [a for a in node.attribute if a.name == "epsilon"]:
                    node.attribute.remove(attribute)
                node.attribute.append(onnx.helper.make_attribute("epsilon", norm.eps))
        values = public_names(wrapped)
        for tensor in other.graph.initializer:
            if tensor.name in values:
                tensor.CopyFrom(onnx.numpy_helper.from_array(values[tensor.name].detach().cpu().numpy(), tensor.name))
        yield other


def moved_step(
    wrapped: nn.Module,
    tensors: Sequence[torch.Tensor],
    model: onnx.ModelProto,
    names: Sequence[str],
    tools: Tools,
    seed: int,
) -> Optional[Comparison]:
    """As compare_steps, at moved parameters."""
    inputs = dict(zip(names, tensors))
    with moved(wrapped, tensors, model, seed) as other, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "moved.onnx")
        onnx.save(other, path)
        return compare_steps(wrapped, tensors, run_step(tools, path, inputs, batch_of(other.graph, tensors)))[0]


def _check_other_batch(
    wrapped: nn.Module, tensors: Sequence[torch.Tensor], path: str, names: Sequence[str], tools: Tools, limit: float
) -> None:
    """Compares the loss for one sample more. A graph that claims to take any batch may have the
    example's in it, as the bound of a Python loop."""
    batch = batch_of(onnx.load(path, load_external_data=False).graph, tensors)
    if batch is None:
        return
    larger = [torch.cat([t, t[:1]]) if t.ndim > 0 else t for t in tensors]
    try:
        single = loss_of(wrapped, larger, False)
        reference = loss_of(wrapped, larger, True)
    except Exception:
        return  # the module takes no other batch, or does not run in float64
    limit = max(limit, OTHER_BATCH_LIMIT, MULTIPLE * abs(single - reference) / max(abs(reference), 1e-12))
    try:
        mine = float(run_step(tools, path, dict(zip(names, larger)), batch + 1)["loss"].reshape(-1)[0])
        said = f"its loss is {mine:.6g} and PyTorch's {reference:.6g}"
        right = abs(mine - reference) <= limit * max(abs(reference), 1e-12)
    except ExportError as error:
        right, said = False, error.message
    if not right and math.isfinite(reference):
        raise WrongBatch(
            f"the exported model is right at a batch of {batch} and not of {batch + 1}: {said}",
            "pass dynamic_batch=False",
        )


def _judge(
    wrapped: nn.Module,
    tensors: Sequence[torch.Tensor],
    path: str,
    names: Sequence[str],
    tools: Tools,
    got: Dict[str, np.ndarray],
) -> CheckResult:
    """Own values first. If they leave something open, up to DRAWS comparisons at moved parameters:
    the step is wrong if all of them say so, and right if one does that has the power to tell."""
    own, note = compare_steps(wrapped, tensors, got)
    notes = [note] if note else []
    loss = float(got["loss"].reshape(-1)[0])
    others: List[Comparison] = []
    values = MOVED
    if own is None or not (own.within and own.limits.powerful and own.limits.zeros == 0):
        model = onnx.load(path)
        if weight_bytes(model.graph) <= INLINE_LIMIT_BYTES:
            values = CONDITIONED if norms_in(model.graph, wrapped) else MOVED
            for seed in range(1, DRAWS + 1):
                comparison = moved_step(wrapped, tensors, model, names, tools, seed)
                if comparison is None:
                    break  # not finite, as where a parameter must be positive
                others.append(comparison)
                if comparison.within:
                    break
    last = others[-1] if others else own
    if last is None:
        return CheckResult(loss, 0.0, 0.0, "", 0, conclusive=False, notes=notes + ["PyTorch's own step is not finite"])
    if not last.within:
        # The sharper of the two says more.
        values, worse = (OWN, own) if own is not None and not own.within and own.limits.powerful else (values, last)
        always = f"; likewise at {len(others)} sets of {MOVED}" if worse is own and others else ""
        raise WrongStep(f"the exported model does not compute what the module does: at {values} {worse}{always}", HINT)
    _check_other_batch(wrapped, tensors, path, names, tools, own.limits.loss if own else 0.0)
    if own is not None and not own.within:
        notes.append(f"at {OWN} {own}. That is a rounding error's work, as other values show")
    if not last.limits.powerful:
        notes.append("PyTorch's own float32 steps differ so much here that a wrong gradient could go unseen")
    return CheckResult(
        loss, last.got.loss, last.got.overall, last.worst, len(last.got.parameters),
        limit=last.limits.overall, float32_error=last.limits.float32, conclusive=last.limits.powerful,
        values=OWN if last is own else values, notes=notes,
    )  # fmt: skip


def check_step(
    module: nn.Module,
    inputs: Dict[str, torch.Tensor],
    path: str,
    bin_dir: Optional[str] = None,
    required: bool = True,
    export: Optional[Callable[[str], None]] = None,
) -> Optional[CheckResult]:
    """Compiles the model at `path` with actc at L0, runs one step with actrun, and compares it with
    PyTorch's step in float64.

    module: forward(*inputs) -> loss, in training mode. It is left as it was.
    inputs: by their names in the graph.
    export: writes the module as it is now to another path. It is called if the module draws random
        numbers, after these are switched off: the step of that file is what is compared. Without
        it only the loss of such a module is looked at.

    Returns None if the tools are not found and `required` is False.
    Errors: ExportError, also if the step is not PyTorch's.
    """
    tools = find_tools(bin_dir, required)
    if tools is None:
        return None
    names, tensors = list(inputs), list(inputs.values())
    batch = batch_of(onnx.load(path, load_external_data=False).graph, tensors)
    got = run_step(tools, path, inputs, batch)
    loss = float(got["loss"].reshape(-1)[0])

    def run() -> torch.Tensor:
        result: torch.Tensor = module(*tensors)
        return result

    random = draws(module, run)
    if not math.isfinite(loss):
        with torch.no_grad(), same_after(module):
            raise ExportError(f"the loss of the exported model is {loss}; PyTorch's is {float(run()):.6g}")
    if not random:
        return _judge(module, tensors, path, names, tools, got)
    for functions in (False, True):
        with calm(module, functions), tempfile.TemporaryDirectory() as folder:
            if export is None or draws(module, run):
                continue
            quiet = os.path.join(folder, "quiet.onnx")
            try:
                export(quiet)
            except Exception as error:
                failed = f"without random numbers the model was not exported: {first_line(error)}"
                return CheckResult(loss, 0.0, 0.0, "", 0, random=True, conclusive=False, notes=[failed])
            result = _judge(module, tensors, quiet, names, tools, run_step(tools, quiet, inputs, batch))
            result.random = True
            result.notes.insert(
                0, "Dropout and other random numbers were off for the comparison, in an export of its own"
            )
            return result
    return CheckResult(loss, 0.0, 0.0, "", 0, random=True, conclusive=False, notes=["the model draws random numbers"])
