"""Errors, by the exit codes of the program."""
from __future__ import annotations

from typing import Any, Optional


class BoxcarError(Exception):
    """An error, with the program's text. `document` is its output for programs, if there was any."""

    def __init__(self, text: str, document: Optional[dict[str, Any]] = None):
        super().__init__(text)
        self.document = document


class CannotRun(BoxcarError):
    """The job does not fit, or no plan was found (exit code 1)."""


class BadInput(BoxcarError, ValueError):
    """A key, a value or a file is wrong (exit code 2)."""


class Fault(BoxcarError):
    """A fault while running (exit code 3, or a signal)."""


by_exit_code: dict[int, type[BoxcarError]] = {1: CannotRun, 2: BadInput, 3: Fault}
for _kind in (BoxcarError, *by_exit_code.values()):
    _kind.__module__ = "boxcar"  # as messages name them
