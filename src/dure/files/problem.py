"""What is wrong in a file, where, and what would be right.

Readers collect problems instead of stopping at the first one; `InvalidFile` carries them all to the command
line and the REST API, which show it as any other `InvalidInput`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec

from dure.model.errors import InvalidInput

MAX_SHOWN = 20
_LONGEST_FOUND = 60


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """`where` is file:line:column, `path` the way of keys to the value."""

    where: str
    path: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.path}: {self.message}" if self.path else f"{self.where}: {self.message}"
        return f"{text}\n  {self.remedy}" if self.remedy else text


class InvalidFile(InvalidInput):
    """One or more problems of the input, in the order of the text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first, *rest = self.problems
        message = f"{first.path}: {first.message}" if first.path else first.message
        super().__init__(message, where=first.where, remedy=first.remedy)
        self.rest = tuple(rest)

    def __str__(self) -> str:
        shown = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        left = len(self.problems) - len(shown)
        if left:
            shown.append(f"and {left} more problem{'s' if left > 1 else ''}")
        return "\n".join(shown)


def nearest_of(word: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known word, or nothing when none is near."""
    close = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.6)
    return f"Did you mean '{close[0]}'?" if close else ""


def shown(found: object) -> str:
    """A value as an error message quotes it: short and on one line."""
    text = repr(found) if isinstance(found, str) else str(found)
    text = text.replace("\n", " ")
    return text if len(text) <= _LONGEST_FOUND else f"{text[: _LONGEST_FOUND - 3]}..."
