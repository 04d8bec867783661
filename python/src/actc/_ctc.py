"""The connectionist temporal classification loss in functions that exporters keep."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

_ctc_loss = F.ctc_loss
# The logarithm of a probability of 0. A true infinity would make NaNs of gradients.
NEVER = -1e30


def exported_ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """F.ctc_loss of log_probs [T, N, C] that are a log-softmax, and of targets [N, S]: the forward
    variables of A. Graves et al., Connectionist Temporal Classification, 2006, section 4.1, a step
    of the graph for each of the T. Other forms of the targets are left to the exporter, which has no
    form of any.

    Where no path fits, the loss is -NEVER instead of infinity, and its gradient is not 0."""
    if targets.ndim != 2 or log_probs.ndim != 3:
        return _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
    device = log_probs.device
    steps = torch.as_tensor(input_lengths, device=device)
    labels = torch.as_tensor(target_lengths, device=device)
    # A blank before each label and one at the end. What pads the targets may be no label.
    blanks = torch.full_like(targets, blank)
    targets = torch.where(torch.arange(targets.shape[1], device=device) < labels[:, None], targets, blanks)
    path = torch.cat([torch.stack([blanks, targets], 2).flatten(1), blanks[:, :1]], 1)
    emitted = log_probs.gather(2, path[None].expand(log_probs.shape[0], -1, -1))
    places = torch.arange(path.shape[1], device=device)
    # A path may leave out a blank between labels that differ.
    differ = torch.cat([torch.zeros_like(path[:, :2], dtype=torch.bool), path[:, 2:] != path[:, :-2]], 1)
    skips = differ & (path != blank)
    forward = torch.where(places < 2, emitted[0], NEVER)
    for t in range(1, log_probs.shape[0]):
        before = F.pad(forward, (2, 0), value=NEVER)
        ways = torch.stack([forward, before[:, 1:-1], torch.where(skips, before[:, :-2], NEVER)], 2)
        forward = torch.where((t < steps)[:, None], torch.logsumexp(ways, 2) + emitted[t], forward)
    ends = (places == 2 * labels[:, None]) | (places == 2 * labels[:, None] - 1)
    loss = -torch.logsumexp(torch.where(ends, forward, NEVER), 1)
    if zero_infinity:
        loss = torch.where(loss > -NEVER / 2, 0.0, loss)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else (loss / labels.clamp(min=1)).mean()
