"""Long benchmarks: a progress bar on standard error, and a file of finished cells to go on from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from dure.model.errors import InvalidInput

Item = TypeVar("Item")
Cell = TypeVar("Cell", bound=msgspec.Struct)


def cells(wanted: Sequence[Item], title: str) -> Iterator[Item]:
    """Each wanted cell in turn, with a bar on standard error."""
    from rich.console import Console
    from rich.progress import track

    console = Console(file=sys.stderr)
    yield from track(wanted, description=title, console=console, transient=True, disable=len(wanted) < 2)


class _Line(msgspec.Struct, frozen=True):
    setting: str
    key: str
    cell: msgspec.Raw


class Journal(Generic[Cell]):
    """Finished cells, one JSON line each; lines of other settings are kept unused, a torn last line is dropped."""

    def __init__(self, path: Path | None, kind: type[Cell], setting: str) -> None:
        self._path = path
        self._setting = setting
        self._known: dict[str, Cell] = {}
        if path is None or not path.exists():
            return
        whole, newline, torn = path.read_bytes().rpartition(b"\n")
        if torn:
            path.write_bytes(whole + newline)
        for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
            try:
                entry = msgspec.json.decode(line, type=_Line)
                if entry.setting == setting:
                    self._known[entry.key] = msgspec.json.decode(entry.cell, type=kind)
            except msgspec.DecodeError as error:
                remedy = "Give another --resume file."
                raise InvalidInput(f"not a finished cell: {error}", where=f"{path}:{number}", remedy=remedy) from None

    def get(self, key: str) -> Cell | None:
        return self._known.get(key)

    def add(self, key: str, cell: Cell) -> None:
        self._known[key] = cell
        if self._path is None:
            return
        entry = _Line(self._setting, key, msgspec.Raw(msgspec.json.encode(cell)))
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")
