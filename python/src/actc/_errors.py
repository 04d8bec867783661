"""The error that every function here raises."""


class ExportError(Exception):
    """A model cannot be exported as asked. `hint` says what to do, and is part of the text."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.hint = hint
