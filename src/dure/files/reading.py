"""One document being read: where it is from, and what is wrong with it so far.

Shapes and checks report here instead of raising, so that all problems of a file are told at once.
"""

from __future__ import annotations

import re
from typing import Any

from dure.files.problem import Problem, shown
from dure.files.yaml import Value

# The mark of a value that could not be read; the reason is among the problems.
BROKEN: Any = object()


class Reading:
    """One document being read: where it is from, what is wrong with it so far."""

    def __init__(self, where: str, root: Value) -> None:
        self.where = where
        self.root = root
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def wrong(self, value: Value, path: str, message: str, remedy: str = "") -> Any:
        """Note a problem and answer the mark of a broken value."""
        self.problems.append(Problem(self.place(value.line, value.column), path, message, remedy))
        return BROKEN

    def at(self, path: str, message: str, remedy: str = "", warn: bool = False) -> None:
        """Note a problem of meaning at the deepest part of `path` that the document has."""
        line, column = locate(self.root, path)
        problem = Problem(self.place(line, column), path, message, remedy)
        (self.warnings if warn else self.problems).append(problem)

    def place(self, line: int, column: int) -> str:
        return f"{self.where}:{line}:{column}" if line else self.where


def locate(root: Value, path: str) -> tuple[int, int]:
    """Line and column of the value at `path`, or of the deepest one on the way there."""
    here = root
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(here.data, dict) and step in here.data:
            here = here.data[step]
        elif isinstance(here.data, list) and step.isdecimal() and int(step) < len(here.data):
            here = here.data[int(step)]
        else:
            break
    return here.line, here.column


def found_kind(value: Value) -> str:
    match value.data:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value.data).lower()
        case str() | int() | float():
            return shown(value.data)
