"""The named losses: those of `actc --loss`, which are means over the batch like PyTorch's defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Callable, Dict, List, Sequence, Tuple, Union

import torch
from torch import nn
from torch.nn import functional as F

from ._errors import ExportError
from ._inputs import Inputs

#: (outputs of the model, *labels) -> scalar
LossFunction = Callable[..., torch.Tensor]
Loss = Union[str, nn.Module, LossFunction, None]

# Losses are written out where TorchScript's exporter cannot export PyTorch's own: it does not know
# broadcast_tensors.
def _l1(outputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return (outputs - label).abs().mean()


def _mse(outputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    difference = outputs - label
    return (difference * difference).mean()


def _smooth_l1(outputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    distance = (outputs - label).abs()
    return torch.where(distance < 1, 0.5 * distance * distance, distance - 0.5).mean()


def _bce_with_logits(outputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return (F.softplus(outputs) - outputs * label).mean()


def _token_cross_entropy(outputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), label.reshape(-1))


LOSSES: Dict[str, LossFunction] = {
    "cross-entropy": F.cross_entropy,
    "token-cross-entropy": _token_cross_entropy,
    "mse": _mse,
    "l1": _l1,
    "smooth-l1": _smooth_l1,
    "bce-with-logits": _bce_with_logits,
}


def _parts(outputs: Any) -> List[Tuple[str, Any]]:
    """What a model returned, by name where the parts have names."""
    if isinstance(outputs, Mapping):
        return [(str(name), part) for name, part in outputs.items()]
    if dataclasses.is_dataclass(outputs) and not isinstance(outputs, type):
        return [(f.name, getattr(outputs, f.name)) for f in dataclasses.fields(outputs)]
    if isinstance(outputs, (tuple, list)):
        return list(zip(getattr(outputs, "_fields", map(str, range(len(outputs)))), outputs))
    return [("", outputs)]


def _is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() == 1


def returned_loss(outputs: Any) -> Tuple[torch.Tensor, str]:
    """The loss in what a model returns, and what it is called there: `loss`, else the first number."""
    parts = _parts(outputs)
    for name, part in [p for p in parts if p[0] == "loss"] + parts[:1]:
        if _is_scalar(part):
            return part, name
    shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
    raise ExportError(
        f"the loss is {shape}, not one number",
        "pass loss=..., a function of outputs and labels; or labels=... where the model makes its loss of them",
    )


def predictions(outputs: Any) -> Tuple[torch.Tensor, str]:
    """The tensor in what a model returns that a named loss reads, and what it is called there:
    `logits`, `out`, else the first tensor that is no scalar."""
    parts = _parts(outputs)
    for name, part in [p for p in parts if p[0] in ("logits", "out")] + parts:
        if isinstance(part, torch.Tensor) and part.is_floating_point() and part.ndim > 0:
            return part, name
    raise ExportError(
        f"the model returns {type(outputs).__name__}, and a named loss takes one tensor",
        "pass a function of outputs and labels as the loss, and example labels",
    )


class ModelWithLoss(nn.Module):
    """The model and its loss as one module: forward(*tensors of the inputs, *labels) -> scalar loss.

    With `loss` None the loss is in what the model returns. With `predicts`, which is for models
    that a step found to predict something, forward returns the loss and that.
    """

    def __init__(self, model: nn.Module, loss: Loss, inputs: Inputs) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs
        self.reads = ""  # name of the part of the model's result that the loss reads, if it has parts
        self.predicts = False
        self.finished = False  # whether forward came to its end
        self.predicted = False  # whether what the model returned has a tensor beside the loss
        self.named = isinstance(loss, str)
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise ExportError(f"no loss is called {loss!r}", "one of " + ", ".join(LOSSES) + ", or a function")
            self.loss: Any = LOSSES[loss]
        else:
            self.loss = loss

    def outputs(self, tensors: Sequence[torch.Tensor]) -> Any:
        args, kwargs = self.inputs.arguments(tensors)
        return self.model(*args, **kwargs)

    def forward(self, *tensors: torch.Tensor) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
        count = len(self.inputs.names)
        outputs, labels = self.outputs(tensors[:count]), tensors[count:]
        loss = self._loss_of(outputs, labels)
        try:
            predicted, _ = predictions(outputs)
            self.predicted = self.loss is not None or predicted.numel() > 1
        except ExportError:
            self.predicted = False
        self.finished = True
        return (loss, predicted) if self.predicts and self.predicted else loss

    def _loss_of(self, outputs: Any, labels: Sequence[torch.Tensor]) -> torch.Tensor:
        if self.loss is None:
            result, self.reads = returned_loss(outputs)
            return result.reshape(())
        if self.named:
            outputs, self.reads = predictions(outputs)
        elif isinstance(self.loss, nn.modules.loss._Loss) and not isinstance(outputs, torch.Tensor):
            outputs, self.reads = predictions(outputs)
        return returned_loss(self.loss(outputs, *labels))[0].reshape(())
