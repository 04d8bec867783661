"""What an export did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional

from ._verdict import CheckResult


def listed(names: List[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@dataclass
class ExportReport:
    """What `export` wrote and what it changed on the way."""

    path: str
    nodes: int = 0
    parameters: int = 0  # trained elements
    frozen: List[str] = field(default_factory=list)  # parameters without requires_grad, which stay unchanged
    # Parameters to which no gradient flows from the loss. They stay unchanged too.
    unreached: List[str] = field(default_factory=list)
    inputs: List[str] = field(default_factory=list)
    batch_axis: Optional[str] = None  # the symbol of the first axis, or None if the batch is fixed
    exporter: str = ""  # "torchscript" or "dynamo"
    opset: int = 0
    attempts: List[str] = field(default_factory=list)  # what failed before, a line each
    changes: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    check: Optional[CheckResult] = None
    unchecked: str = ""  # why nothing was compared, although a check was wanted

    def __str__(self) -> str:
        batch = f"batch axis {self.batch_axis}" if self.batch_axis else "fixed batch"
        lines = [
            f"{self.path}: {self.nodes} nodes, {self.parameters:,} trained numbers, "
            f"inputs {', '.join(self.inputs)}, {batch}, {self.exporter} exporter, opset {self.opset}"
        ]
        if self.frozen:
            lines.append(f"  frozen: {listed(self.frozen)}")
        if self.unreached:
            lines.append(f"  not trained, since no gradient reaches them: {listed(self.unreached)}")
        lines += [f"  failed before: {attempt}" for attempt in self.attempts]
        lines += [f"  changed: {change}" for change in self.changes]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        if self.check:
            lines.append(f"  checked: {self.check}")
            lines += [f"  check: {note}" for note in self.check.notes]
        elif self.unchecked:
            lines.append(f"  not checked: {self.unchecked}")
        return "\n".join(lines)
