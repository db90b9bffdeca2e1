"""Safe changes as edits of the text, so that comments, order and style of everything else stay.

An edit that does not find exactly what it expects is left out: better an unfixed trap than a broken file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dure.manifest.rule import Edit, Remove, Replace, SetKey

_SCALAR = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^\s#,\[\]{}][^#,\[\]{}\n]*?)(?=\s*(?:$|[,\]}]|\s#))""")


def edited(text: str, edits: Iterable[Edit]) -> tuple[str, int]:
    """The text with all edits that could be made, and their number. Later places first, so that positions hold."""
    lines = text.split("\n")
    placed = sorted({_place(edit): edit for edit in edits}.items(), key=lambda each: each[0], reverse=True)
    made = sum(_apply(lines, edit) for _, edit in placed)
    return "\n".join(lines), made


def _place(edit: Edit) -> tuple[int, int, str]:
    document = edit.document
    places = document.keys if isinstance(edit, Remove) else document.values
    line, column = places.get(edit.path, (0, 0))
    return line, column, edit.key if isinstance(edit, SetKey) else ""


def _apply(lines: list[str], edit: Edit) -> bool:
    line, column, _ = _place(edit)
    if not 0 < line <= len(lines):
        return False
    if isinstance(edit, SetKey):
        return _set_key(lines, edit, line - 1, column - 1)
    if isinstance(edit, Replace):
        return _replace(lines, edit, line - 1, column - 1)
    return _remove(lines, edit, line - 1, column - 1)


def _set_key(lines: list[str], edit: SetKey, row: int, column: int) -> bool:
    rest = lines[row][column:]
    entry = f"{edit.key}: {edit.value}"
    if rest.startswith("{"):
        more = "" if rest[1:].lstrip().startswith("}") else ", "
        lines[row] = f"{lines[row][: column + 1]}{entry}{more}{rest[1:].lstrip()}"
        return True
    found = edit.document.at(edit.path)
    first = next(iter(found), "") if isinstance(found, dict) else ""
    if not first or not rest.lstrip("\"'").startswith(str(first)):
        return False
    lines[row] = lines[row][:column] + entry
    lines.insert(row + 1, " " * column + rest)
    return True


def _replace(lines: list[str], edit: Replace, row: int, column: int) -> bool:
    found = _SCALAR.match(lines[row], column)
    if found is None or found[1][0] in "|>&*!":
        return False
    lines[row] = lines[row][:column] + edit.value + lines[row][found.end(1) :]
    return True


def _remove(lines: list[str], edit: Remove, row: int, column: int) -> bool:
    key = str(edit.path[-1])
    value_row = edit.document.values.get(edit.path, (0, 0))[0] - 1
    if lines[row][:column].strip() or value_row != row or not lines[row][column:].lstrip("\"'").startswith(key):
        return False
    value = lines[row][column:].partition(":")[2].strip()
    if not value or value[0] in "|>&[{":
        return False
    del lines[row]
    return True
