"""Everything in a store as one file, and back into an empty one; also from one kind of database to the other.

Rows as they are, read in one transaction, so that the copy is of one moment and the audit log in it still holds.
Lines of JSON in gzip: the schema first, then each row after the name of its table, at the end how many there were.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, LargeBinary, Table, func, select, text

from dure.adapters.store import tables as t
from dure.adapters.store.connect import HEAD
from dure.adapters.store.sql import SqlStore
from dure.model.errors import Conflict, InvalidInput

BATCH = 1000
_ENCODER = msgspec.json.Encoder()
# Whoever leads when it is restored is elected anew.
_LEFT_OUT = frozenset({"lease"})


class _First(msgspec.Struct, frozen=True, tag="dure-backup"):
    schema: str


class _Row(msgspec.Struct, frozen=True, tag="row"):
    table: str
    row: dict[str, Any]


class _Last(msgspec.Struct, frozen=True, tag="end"):
    rows: int


def backup(store: SqlStore, path: Path) -> int:
    """Write the file whole or not at all; answers the number of rows."""
    beside = path.with_suffix(path.suffix + ".new")
    count = 0
    with _one_moment(store) as db, gzip.open(beside, "wb", compresslevel=6) as file:
        if db.dialect.name == "postgresql":
            # Reading takes as long as it takes, and holds nobody up.
            db.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        file.write(_ENCODER.encode(_First(HEAD)) + b"\n")
        for table in _tables():
            for row in db.execution_options(yield_per=BATCH).execute(select(table)):
                file.write(
                    _ENCODER.encode(
                        _Row(str(table.name), {str(name): value for name, value in row._asdict().items()})
                    )
                    + b"\n"
                )
                count += 1
        file.write(_ENCODER.encode(_Last(count)) + b"\n")
    beside.chmod(0o600)
    beside.replace(path)
    return count


def restore(store: SqlStore, path: Path) -> int:
    """Into a store that holds nothing yet; all rows or none."""
    with store.engine.begin() as db:
        if db.execute(select(func.count()).select_from(t.workloads)).scalar_one():
            raise Conflict("this store is not empty", remedy="Restore into a new database or state folder.")
        for table in reversed(_tables()):
            db.execute(table.delete())
        count = 0
        known = {table.name: table for table in _tables()}
        held: dict[str, list[dict[str, Any]]] = {}
        for one in _read(path):
            if one.table not in known:
                raise InvalidInput(f"this version knows no table '{one.table[:80]}'", where=str(path))
            rows = held.setdefault(one.table, [])
            rows.append(_plain(known[one.table], one.row))
            count += 1
            if len(rows) == BATCH:
                db.execute(known[one.table].insert(), held.pop(one.table))
        for name, rows in held.items():
            db.execute(known[name].insert(), rows)
        _go_on_counting(db)
    return count


def _read(path: Path) -> Iterator[_Row]:
    decoder = msgspec.json.Decoder(_First | _Row | _Last)
    count, ended = 0, False
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file):
                one = decoder.decode(line)
                if (number == 0) != isinstance(one, _First) or ended:
                    raise InvalidInput("this is not a backup of Dure", where=str(path))
                match one:
                    case _First(schema) if schema != HEAD:
                        raise InvalidInput(
                            f"the backup is of schema {schema}, this version writes {HEAD}",
                            where=str(path),
                            remedy="Restore it with the version that made it, then upgrade.",
                        )
                    case _Row():
                        count += 1
                        yield one
                    case _Last(rows):
                        ended = rows == count
                    case _:
                        continue
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"this is not a whole backup: {error}", where=str(path)) from error
    if not ended:
        raise InvalidInput("the backup is cut off or rows are missing", where=str(path))


def _plain(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: base64.b64decode(value) if isinstance(table.c[name].type, LargeBinary) else value
        for name, value in row.items()
    }


def _tables() -> list[Table]:
    return [table for table in t.metadata.sorted_tables if table.name not in _LEFT_OUT]


def _one_moment(store: SqlStore) -> Any:
    if store.engine.dialect.name == "sqlite":
        return store.engine.execution_options(reads=True).begin()
    return store.engine.execution_options(isolation_level="REPEATABLE READ").begin()


def _go_on_counting(db: Connection) -> None:
    """SQLite goes on by itself; PostgreSQL's sequences do not know of rows that were given their number."""
    if db.dialect.name == "sqlite":
        return
    for table in ("journal", "events"):
        db.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'seq'), max(seq)) FROM {table} HAVING count(*) > 0"
            )
        )
