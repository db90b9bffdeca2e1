"""Safe changes as edits of the text, so that comments, order, line ends and style of everything else stay.

An edit that does not find exactly what it expects is left out: better an unfixed trap than a broken file. JSON stays
JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from dure.manifest.rule import Edit, Remove, Replace, SetKey

_SCALAR = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^\s#,\[\]{}][^#,\[\]{}\n]*?)(?=\s*(?:$|[,\]}]|\s#))""")


def edited(text: str, edits: Iterable[Edit]) -> tuple[str, int]:
    """The text with all edits that could be made, and their number. Later places first, so that positions hold."""
    lines = text.split("\n")
    quoted = _is_json(text)
    placed = sorted({_place(edit): edit for edit in edits}.items(), key=lambda each: each[0], reverse=True)
    made = sum(_apply(lines, edit, quoted) for _, edit in placed)
    after = "\n".join(lines)
    return (text, 0) if quoted and not _is_json(after) else (after, made)


def _place(edit: Edit) -> tuple[int, int, str]:
    document = edit.document
    places = document.keys if isinstance(edit, Remove) else document.values
    line, column = places.get(edit.path, (0, 0))
    return line, column, edit.key if isinstance(edit, SetKey) else ""


def _apply(lines: list[str], edit: Edit, quoted: bool) -> bool:
    line, column, _ = _place(edit)
    if not 0 < line <= len(lines):
        return False
    if isinstance(edit, SetKey):
        return _set_key(lines, edit, line - 1, column - 1, quoted)
    if isinstance(edit, Replace):
        return _replace(lines, edit, line - 1, column - 1, quoted)
    return _remove(lines, edit, line - 1, column - 1)


def _set_key(lines: list[str], edit: SetKey, row: int, column: int, quoted: bool) -> bool:
    rest = lines[row][column:]
    entry = f"{json.dumps(edit.key)}: {_as_json(edit.value)}" if quoted else f"{edit.key}: {edit.value}"
    found = edit.document.at(edit.path)
    if rest.startswith("{"):
        after = rest[1:].lstrip(" \t")
        more = "" if not found else ", " if after.strip() else ","
        lines[row] = f"{lines[row][: column + 1]}{entry}{more}{after}"
        return True
    first = next(iter(found), "") if isinstance(found, dict) else ""
    if not first or not rest.lstrip("\"'").startswith(str(first)):
        return False
    lines[row] = lines[row][:column] + entry + "\r" * rest.endswith("\r")
    lines.insert(row + 1, " " * column + rest)
    return True


def _replace(lines: list[str], edit: Replace, row: int, column: int, quoted: bool) -> bool:
    found = _SCALAR.match(lines[row], column)
    if found is None or found[1][0] in "|>&*!":
        return False
    value = _as_json(edit.value) if quoted else edit.value
    lines[row] = lines[row][:column] + value + lines[row][found.end(1) :]
    return True


def _remove(lines: list[str], edit: Remove, row: int, column: int) -> bool:
    key = str(edit.path[-1])
    value_row, value_column = (place - 1 for place in edit.document.values.get(edit.path, (0, 0)))
    if value_row != row or not lines[row][column:].lstrip("\"'").startswith(key):
        return False
    found = _SCALAR.match(lines[row], value_column)
    if _in_braces(lines, edit):
        return found is not None and found[1][0] not in "&*!" and _cut(lines, row, column, found.end(1))
    if lines[row][:column].strip() or found is None or found[1][0] in "|>&*!":
        return False
    del lines[row]
    return True


def _in_braces(lines: list[str], edit: Remove) -> bool:
    row, column = edit.document.values.get(edit.path[:-1], (0, 0))
    return row > 0 and lines[row - 1][column - 1 : column] == "{"


def _cut(lines: list[str], row: int, begin: int, end: int) -> bool:
    """Take an entry out of a mapping in braces, and one of the commas around it."""
    before, after = lines[row][:begin], lines[row][end:]
    if after.lstrip().startswith(","):
        after = after.lstrip()[1:].lstrip(" \t")
    elif before.rstrip().endswith(","):
        before = before.rstrip()[:-1]
    elif not before.strip() and row > 0 and lines[row - 1].rstrip().endswith(","):
        previous = lines[row - 1].rstrip()
        lines[row - 1] = previous[:-1] + "\r" * lines[row - 1].endswith("\r")
    if (before + after).strip():
        lines[row] = before + after
    else:
        del lines[row]
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _as_json(value: str) -> str:
    """A YAML scalar of a rule as JSON: what is neither JSON already nor quoted is text."""
    if _is_json(value):
        return value
    return json.dumps(value[1:-1].replace("''", "'") if value[:1] == "'" else value)
