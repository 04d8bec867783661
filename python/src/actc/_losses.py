"""The named losses: those of `actc --loss`, which are means over the batch like PyTorch's defaults."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Tuple, Union

import torch
from torch import nn
from torch.nn import functional as F

from ._errors import ExportError

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


def _smoothed_cross_entropy(loss: nn.CrossEntropyLoss, outputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """nn.CrossEntropyLoss with label smoothing e and classes as labels: (1 - e) nll + e / C sum over
    the classes of -log p. Both are weighted and averaged as in PyTorch (its documentation of
    CrossEntropyLoss)."""
    exact = F.cross_entropy(outputs, label, loss.weight, ignore_index=loss.ignore_index)
    log_p = F.log_softmax(outputs, 1)
    valid = (label != loss.ignore_index).to(outputs.dtype)
    if loss.weight is None:
        total, uniform = valid.sum(), -log_p.sum(1)
    else:
        shape = (1, -1) + (1,) * (outputs.ndim - 2)
        total = (loss.weight[label.clamp(min=0)] * valid).sum()
        uniform = -(log_p * loss.weight.reshape(shape)).sum(1)
    e = loss.label_smoothing
    return (1 - e) * exact + e / outputs.shape[1] * (uniform * valid).sum() / total


LOSSES: Dict[str, LossFunction] = {
    "cross-entropy": F.cross_entropy,
    "mse": _mse,
    "l1": _l1,
    "smooth-l1": _smooth_l1,
    "bce-with-logits": _bce_with_logits,
}


class ModelWithLoss(nn.Module):
    """The model and its loss as one module: forward(*inputs, *labels) -> scalar loss.

    With `loss` None the model's own result must be the loss.
    """

    def __init__(self, model: nn.Module, loss: Loss, inputs: int) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise ExportError(f"no loss is called {loss!r}", "one of " + ", ".join(LOSSES) + ", or a function")
            self.loss: Any = LOSSES[loss]
        elif isinstance(loss, nn.CrossEntropyLoss) and loss.label_smoothing > 0 and loss.reduction == "mean":
            self.loss = partial(_smoothed_cross_entropy, loss)
        else:
            self.loss = loss

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        outputs = self.model(*tensors[: self.inputs])
        labels: Tuple[torch.Tensor, ...] = tensors[self.inputs :]
        result: torch.Tensor = outputs if self.loss is None else self.loss(outputs, *labels)
        if not isinstance(result, torch.Tensor) or result.numel() != 1:
            shape = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
            raise ExportError(f"the loss is {shape}, not one number", "pass loss=..., a function of outputs and labels")
        return result.reshape(())
