"""Hostile-safe YAML and JSON: text becomes `Value`s that know their line and column, or one clear error.

Only plain data is understood (the core schema of YAML 1.2: `no` is a word, not false). Built from parser events
without recursion, so depth, size and alias expansion are bounded before anything is built. Called by
`documents` and `builtin`; nothing above ever sees a YAML library.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from dure.files.problem import InvalidFile, Problem, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 5 * 1024 * 1024
MAX_DEPTH = 40
MAX_VALUES = 250_000
MAX_DIGITS = 40

Scalar: TypeAlias = str | int | float | bool | None
Data: TypeAlias = "Scalar | list[Value] | dict[str, Value]"


class Value(msgspec.Struct, frozen=True, eq=False):
    """One value of a document. `keys` holds the position of each key of a mapping; `weight` and
    `height` say how many values it expands to and how deep it goes."""

    data: Data
    line: int = 0
    column: int = 0
    weight: int = 1
    height: int = 0
    keys: dict[str, tuple[int, int]] = {}

    def plain(self) -> Any:
        """The value as ordinary Python data, without positions."""
        match self.data:
            case list():
                return [item.plain() for item in self.data]
            case dict():
                return {key: item.plain() for key, item in self.data.items()}
            case _:
                return self.data


def parse(source: bytes | str, where: str) -> list[Value]:
    """Every document of a text that is not empty. Raises `InvalidFile` with file, line and column."""
    text = _decode(source, where)
    try:
        return list(_Builder(where).documents(text))
    except InvalidFile as error:
        # JSON that YAML refuses (surrogate pairs, some escapes) is still JSON.
        if not text.lstrip().startswith(("{", "[")):
            raise
        try:
            return [from_plain(json.loads(text, object_pairs_hook=_no_twice), where)]
        except (ValueError, RecursionError):
            raise error from None


def from_json(source: bytes, where: str) -> Value:
    """One JSON object without positions; what it takes `parse` takes as well, with the same meaning."""
    # An escape may be half a character, and YAML folds some characters that JSON keeps: for `parse` to judge.
    if not source.isascii() or b"\\u" in source:
        raise _invalid(where, 0, 0, "has more than plain characters")
    try:
        data = json.loads(source, object_pairs_hook=_no_twice)
    except (ValueError, RecursionError):
        raise _invalid(where, 0, 0, "is not JSON") from None
    if not isinstance(data, dict):
        raise _invalid(where, 0, 0, "is no object")
    return from_plain(data, where)


def from_plain(data: Any, where: str, depth: int = 1) -> Value:
    """Decoded JSON as values without positions, under the same limits of depth and of numbers."""
    if depth > MAX_DEPTH:
        raise _invalid(where, 0, 0, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(data, dict):
        if wrong := next((key for key in data if not isinstance(key, str)), None):
            raise _invalid(where, 0, 0, f"a key must be text, found {shown(wrong)}")
        return Value({key: from_plain(item, where, depth + 1) for key, item in data.items()})
    if isinstance(data, list | tuple):
        return Value([from_plain(item, where, depth + 1) for item in data])
    if isinstance(data, float) and not math.isfinite(data):
        raise _invalid(where, 0, 0, f"{data} is not a number that a file may hold")
    if data is None or isinstance(data, str | int | float | bool):
        return Value(data)
    raise _invalid(where, 0, 0, f"a value of type {type(data).__name__} is not plain data")


def reads_as_text(text: str) -> bool:
    """Whether `text` written without quotes would be read as text again."""
    try:
        return isinstance(_Builder("")._resolve(text, 0, 0), str)
    except InvalidFile:
        return False


class _Open(msgspec.Struct):
    """A mapping or list that is not closed yet; `key` is the mapping's key that waits for its value."""

    anchor: str | None
    line: int
    column: int
    items: list[Value] | None
    entries: dict[str, Value]
    keys: dict[str, tuple[int, int]]
    key: str | None = None
    merges: list[Value] = []
    weight: int = 1
    height: int = 1


class _Builder:
    """Folds parser events into values with an explicit stack."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.total = 0
        self.stack: list[_Open] = []
        self.anchors: dict[str, Value] = {}
        self.root: Value | None = None

    def documents(self, text: str) -> Iterator[Value]:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(text, Loader=loader):
                yield from self._take(event, yaml)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            raise self._invalid_syntax(error.problem or "not YAML", line, column, text) from None
        except yaml.YAMLError as error:
            raise self._invalid_reader(error, text) from None

    def _take(self, event: Any, yaml: Any) -> Iterator[Value]:
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        match event:
            case yaml.ScalarEvent():
                self._scalar(event, line, column)
            case yaml.MappingStartEvent():
                self._open(event, line, column, None)
            case yaml.SequenceStartEvent():
                self._open(event, line, column, [])
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case yaml.AliasEvent():
                self._alias(event.anchor, line, column)
            case yaml.DocumentStartEvent():
                self.root = None
                self.anchors = {}
            case yaml.DocumentEndEvent():
                if self.root is not None and self.root.data is not None:
                    yield self.root

    def _scalar(self, event: Any, line: int, column: int) -> None:
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            raise self._invalid(line, column, f"the tag {shown(event.tag)} is not allowed; files hold plain data")
        plain = event.implicit[0] and not event.style and event.tag is None
        parent = self.stack[-1] if self.stack else None
        if parent is not None and parent.items is None and parent.key is None:
            self._key(parent, event.value, plain, line, column)
            return
        data = self._resolve(event.value, line, column) if plain else event.value
        self._add(Value(data, line, column), event.anchor)

    def _key(self, parent: _Open, key: str, plain: bool, line: int, column: int) -> None:
        if key in parent.keys:
            first = parent.keys[key][0]
            raise self._invalid(line, column, f"the key {shown(key)} is given twice, first in line {first}")
        if not (plain and key == "<<"):
            parent.keys[key] = (line, column)
        parent.key = "<<" if plain and key == "<<" else key

    def _open(self, event: Any, line: int, column: int, items: list[Value] | None) -> None:
        if event.tag is not None and event.tag != "!":
            raise self._invalid(line, column, f"the tag {shown(event.tag)} is not allowed; files hold plain data")
        parent = self.stack[-1] if self.stack else None
        if parent is not None and parent.items is None and parent.key is None:
            raise self._invalid(line, column, "a key must be text, found a mapping or a list")
        if len(self.stack) >= MAX_DEPTH:
            raise self._invalid(line, column, f"nested deeper than {MAX_DEPTH} levels")
        self.stack.append(_Open(event.anchor, line, column, items, {}, {}))

    def _close(self) -> None:
        done = self.stack.pop()
        if done.items is not None:
            value = Value(done.items, done.line, done.column, done.weight, done.height)
        else:
            value = Value(self._merged(done), done.line, done.column, done.weight, done.height, done.keys)
        self._add(value, done.anchor)

    def _merged(self, done: _Open) -> dict[str, Value]:
        """Keys of the mapping itself win over those that `<<` brings, the first merged over the next."""
        entries = dict(done.entries)
        for merge in done.merges:
            sources = merge.data if isinstance(merge.data, list) else [merge]
            for source in sources:
                if not isinstance(source.data, dict):
                    raise self._invalid(source.line, source.column, "'<<' takes a mapping or a list of mappings")
                for key, item in source.data.items():
                    entries.setdefault(key, item)
                    done.keys.setdefault(key, source.keys.get(key, (source.line, source.column)))
        return entries

    def _alias(self, anchor: str, line: int, column: int) -> None:
        parent = self.stack[-1] if self.stack else None
        if parent is not None and parent.items is None and parent.key is None:
            raise self._invalid(line, column, f"a key must be text, found the alias *{anchor}")
        if any(opened.anchor == anchor for opened in self.stack):
            raise self._invalid(line, column, f"the alias *{anchor} stands inside of itself")
        value = self.anchors.get(anchor)
        if value is None:
            raise self._invalid(line, column, f"the alias *{anchor} has no anchor &{anchor} before it")
        if len(self.stack) + value.height > MAX_DEPTH:
            raise self._invalid(line, column, f"nested deeper than {MAX_DEPTH} levels once *{anchor} is followed")
        self._count(value.weight, line, column)
        self._place(value)

    def _add(self, value: Value, anchor: str | None) -> None:
        self._count(1, value.line, value.column)
        if anchor:
            self.anchors[anchor] = value
        self._place(value)

    def _place(self, value: Value) -> None:
        if not self.stack:
            self.root = value
            return
        parent = self.stack[-1]
        parent.weight += value.weight
        parent.height = max(parent.height, value.height + 1)
        if parent.items is not None:
            parent.items.append(value)
        elif parent.key == "<<" and "<<" not in parent.keys:
            parent.merges = [*parent.merges, value]
            parent.key = None
        else:
            parent.entries[str(parent.key)] = value
            parent.key = None

    def _count(self, weight: int, line: int, column: int) -> None:
        """Aliases count for all that they stand for, so that a bomb is refused before anyone walks it."""
        self.total += weight
        if self.total > MAX_VALUES:
            raise self._invalid(line, column, f"more than {MAX_VALUES:,} values once aliases are followed")

    def _resolve(self, text: str, line: int, column: int) -> Scalar:
        if text in _WORDS:
            return _WORDS[text]
        if not text or text[0] not in "+-.0123456789":
            return text
        if _NOT_FINITE.fullmatch(text):
            raise self._invalid(line, column, f"{text} is not a number that a file may hold")
        if len(text) > MAX_DIGITS:
            return text
        if _INTEGER.fullmatch(text):
            return int(text)
        if not _FLOAT.fullmatch(text):
            return text
        number = float(text)
        if not math.isfinite(number):
            raise self._invalid(line, column, f"{text} is not a number that a file may hold")
        return number

    def _invalid(self, line: int, column: int, message: str, remedy: str = "") -> InvalidFile:
        return _invalid(self.where, line, column, message, remedy)

    def _invalid_syntax(self, problem: str, line: int, column: int, text: str) -> InvalidFile:
        lines = text.split("\n")
        row = lines[line - 1] if 0 < line <= len(lines) else ""
        if "\t" in row[: len(row) - len(row.lstrip())] or row[column - 1 : column] == "\t":
            return self._invalid(
                line, column, "a tab indents this line", "YAML is indented with spaces; replace the tab."
            )
        return self._invalid(line, column, f"not YAML: {problem}")

    def _invalid_reader(self, error: Exception, text: str) -> InvalidFile:
        """Characters that YAML does not allow at all."""
        position = getattr(error, "position", None)
        bad = _CONTROL.search(text)
        at = bad.start() if bad else (position if isinstance(position, int) else 0)
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        code = f"U+{ord(text[at]):04X} " if at < len(text) else ""
        return self._invalid(line, column, f"the character {code}is not allowed in YAML", "Is this a text file?")


_WORDS: dict[str, Scalar] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


def _decode(source: bytes | str, where: str) -> str:
    size = len(source)
    if size > MAX_BYTES:
        raise _invalid(
            where, 0, 0, f"{size / 2**20:.1f} MiB is too large; a file may have {MAX_BYTES // 2**20} MiB",
            "Split it into several files; every command takes -f more than once.",
        )  # fmt: skip
    if isinstance(source, str):
        return source.removeprefix("\ufeff")
    if source.startswith(_UTF16):
        raise _invalid(where, 1, 1, "the file is UTF-16 or UTF-32", "Save it as UTF-8.")
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        column = error.start - source.rfind(b"\n", 0, error.start)
        byte = source[error.start]
        raise _invalid(where, line, column, f"byte 0x{byte:02X} is not UTF-8", "Save the file as UTF-8.") from None


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is given twice")
    return made


def _invalid(where: str, line: int, column: int, message: str, remedy: str = "") -> InvalidFile:
    place = f"{where}:{line}:{column}" if line else where
    return InvalidFile([Problem(place, "", message, remedy)])
