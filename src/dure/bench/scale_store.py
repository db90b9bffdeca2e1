"""Finished cells of a long benchmark in a JSON-lines file, so that it can be resumed."""

from __future__ import annotations

import json
from pathlib import Path

from dure.bench.result import Cell, Row
from dure.model.errors import InvalidInput


class Store:
    """Rows by their key columns; without a path it only remembers for this run."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        if path is not None and path.is_file():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                try:
                    stored = json.loads(line)
                    self.rows[stored["key"]] = stored["row"]
                except (json.JSONDecodeError, KeyError, TypeError) as error:
                    raise InvalidInput(
                        "not a line of this benchmark", where=f"{path}:{number}", remedy="Name a new file."
                    ) from error

    def find(self, key: dict[str, Cell]) -> Row | None:
        return self.rows.get(json.dumps(key, sort_keys=True))

    def keep(self, row: dict[str, Cell]) -> Row:
        """Store a row; its key columns are those that were asked for, so results may be added freely."""
        key = json.dumps({name: row[name] for name in KEYS}, sort_keys=True)
        self.rows[key] = row
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "row": row}) + "\n")
        return row


KEYS = ("input", "seed", "policy", "signal", "knob", "router", "order", "hours")
