"""The error that every function here raises."""

from __future__ import annotations

import re
from typing import Sequence

_SUMMARY = "## Exception summary"  # the heading before the cause


class ExportError(Exception):
    """A model cannot be exported as asked. `hint` says what to do, `attempts` what each exporter
    that was tried said, a line each. Both are part of the text."""

    def __init__(self, message: str, hint: str = "", attempts: Sequence[str] = ()) -> None:
        lines = [message] + [f"  {attempt}" for attempt in attempts] + ([f"hint: {hint}"] if hint else [])
        super().__init__("\n".join(lines))
        self.message = message
        self.hint = hint
        self.attempts = list(attempts)


class WrongStep(ExportError):
    """A step of the exported model is not the module's."""


class WrongBatch(ExportError):
    """The exported model is right for the example's batch alone."""


def first_line(error: BaseException, limit: int = 300) -> str:
    """What an error says, in one line of at most `limit` characters. The dynamo exporter's errors
    begin with the step that failed and hold the cause in a summary at their end: that line has both.
    """
    lines = [line.strip() for line in re.sub("\x1b\\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
    text = lines[0] if lines else repr(error)
    if _SUMMARY in lines[:-1]:
        cause = re.sub(r"^<class '(?:[\w.]*\.)?(\w+)'>: ", r"\1: ", lines[lines.index(_SUMMARY) + 1])
        text = f"{text.split(' This is step ')[0].rstrip('. ')}: {cause}"
    return text if len(text) <= limit else text[: limit - 3] + "..."
