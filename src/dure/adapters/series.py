"""Time series from files and HTTP, for prices and carbon: parse once, cache, know how old a figure is.

A source answers rows of (instant, column -> value or None). Blank, missing and non-numeric cells are None: unknown is
carried, never turned into zero. CSV (plain or gzipped), JSON lists of objects, Parquet where pyarrow is installed.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import math
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dure.adapters.outside import MAX_BYTES, fetch
from dure.model.errors import InvalidInput, NotFound, Temporary
from dure.model.units import Instant, Seconds
from dure.ports import Clock

if TYPE_CHECKING:
    import httpx

TIME_COLUMNS = ("datetime_utc", "datetime", "timestamp", "time", "date")
# A source that has failed is left alone for this long: nobody should wait for it in every turn.
RETRY_S = 60.0


class Table(msgspec.Struct, frozen=True):
    """Rows in order of time; `fetched_s` is when they were read."""

    times: tuple[Instant, ...]
    columns: dict[str, tuple[float | None, ...]]
    fetched_s: Instant


class Source:
    """One file or URL with a cache: read again after `fresh_s`; on failure the old figures serve until `stale_s`."""

    def __init__(
        self, where: str, clock: Clock, *, fresh_s: Seconds = 3600.0, stale_s: Seconds = 6 * 3600.0,
        headers: Mapping[str, str] | None = None, client: httpx.Client | None = None, local: bool = False,
    ) -> None:  # fmt: skip
        self.where, self._clock, self._fresh_s, self._stale_s = where, clock, fresh_s, stale_s
        self._headers = dict(headers or {})
        self._client, self._local = client, local
        self._kept: Table | None = None
        self._failed_s: Instant | None = None

    def table(self) -> Table | None:
        """The newest figures; None while there are none to believe and the source does not answer.

        A file that was never there, or figures that cannot be read at first sight, are the owner's to mend: raised.
        """
        now_s = self._clock.now()
        if self._kept is not None and now_s - self._kept.fetched_s < self._fresh_s:
            return self._kept
        if self._failed_s is None or now_s - self._failed_s >= RETRY_S:
            try:
                self._kept, self._failed_s = _parsed(self.where, self._read(), now_s), None
                return self._kept
            except (Temporary, NotFound, InvalidInput) as error:
                if self._kept is None and not isinstance(error, Temporary):
                    raise
                self._failed_s = now_s
        return self._kept if self._kept is not None and now_s - self._kept.fetched_s <= self._stale_s else None

    def _read(self) -> bytes:
        if not self.where.startswith(("http://", "https://")):
            path = Path(self.where)
            if not path.is_file():
                raise NotFound(
                    f"no such file: {path}", remedy="Give a .csv, .csv.gz, .json or .parquet file or a URL."
                )
            return path.read_bytes()
        if self._client is None:
            return fetch(self.where, self._headers, local=self._local)
        # Most fleets read files, and a simulation should not wait for a client that it never uses.
        import httpx

        try:
            answer = self._client.get(self.where, headers=self._headers)
        except httpx.HTTPError as error:
            raise Temporary(f"{type(error).__name__}: {error}", where=self.where) from error
        if answer.status_code >= 400:
            raise Temporary(f"answered {answer.status_code}", where=self.where, remedy="Check the address and token.")
        return answer.content


# Cells beyond the last name of a table's head.
_SPARE = ""


def instant(text: str | float) -> Instant:
    """ISO 8601 (UTC unless it says otherwise) or seconds since 1970."""
    if isinstance(text, (int, float)):
        return float(text)
    try:
        return float(text)
    except ValueError:
        pass
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _parsed(where: str, body: bytes, now_s: Instant) -> Table:
    rows = _rows(where, body)
    if not rows:
        raise InvalidInput("has no rows", where=where)
    column = next((name for name in TIME_COLUMNS if name in rows[0]), None)
    if column is None:
        raise InvalidInput(
            "has no column with the time", where=where, remedy=f"Name it one of: {', '.join(TIME_COLUMNS)}"
        )
    try:
        timed = sorted(((instant(row[column]), row) for row in rows), key=lambda pair: pair[0])
    except (LookupError, ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"a time is not readable or missing: {error}", where=where) from error
    if not all(map(math.isfinite, (at for at, _ in timed))):
        raise InvalidInput("a time is not a number", where=where)
    names = sorted({name for row in rows for name in row} - {column, _SPARE})
    columns = {name: tuple(number(row.get(name)) for _, row in timed) for name in names}
    return Table(tuple(at for at, _ in timed), columns, now_s)


def number(cell: object) -> float | None:
    """A finite number, or None for everything else."""
    if cell is None or isinstance(cell, bool):
        return None
    try:
        value = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return value if value == value and abs(value) != float("inf") else None


def _rows(where: str, body: bytes) -> list[dict[str, Any]]:
    name = where.lower().split("?", 1)[0]
    if name.endswith(".parquet"):
        return _parquet(where, body)
    if name.endswith(".gz"):
        body, name = _unzipped(where, body), name.removesuffix(".gz")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"is not UTF-8 text: {error}", where=where) from error
    if name.endswith(".csv"):
        return _csv(where, text)
    return _json(where, text)


def _csv(where: str, text: str) -> list[dict[str, Any]]:
    try:
        return [dict(row) for row in csv.DictReader(io.StringIO(text), restkey=_SPARE)]
    except csv.Error as error:
        raise InvalidInput(f"is not CSV: {error}", where=where) from error


def _json(where: str, text: str) -> list[dict[str, Any]]:
    """A list of objects, or an object with such a list under data, history, forecast or prices."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"is not JSON, or too deep: {error}", where=where) from error
    if isinstance(found, dict):
        found = next((found[key] for key in ("data", "history", "forecast", "prices") if key in found), None)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InvalidInput("holds no list of objects", where=where, remedy="Expected [{time, value...}, ...].")
    return found


def _unzipped(where: str, body: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
            found = packed.read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidInput(f"is not a gzip file: {error}", where=where) from error
    if len(found) > MAX_BYTES:
        raise InvalidInput(f"is larger than {MAX_BYTES // 2**20} MiB once unpacked", where=where)
    return found


def _parquet(where: str, body: bytes) -> list[dict[str, Any]]:
    if importlib.util.find_spec("pyarrow") is None:
        raise InvalidInput(
            "is Parquet, which needs pyarrow", where=where, remedy="Install pyarrow beside Dure, or give a CSV file."
        )
    parquet = importlib.import_module("pyarrow.parquet")
    return list(parquet.read_table(io.BytesIO(body)).to_pylist())


def stepped(table: Table, column: str, since_s: Instant, until_s: Instant, step_s: int) -> tuple[float | None, ...]:
    """The column on a regular grid: the mean of what falls into each step, None where nothing does."""
    steps = max(0, int((until_s - since_s + step_s - 1) // step_s))
    sums, counts = [0.0] * steps, [0] * steps
    for at, value in zip(table.times, table.columns.get(column, ()), strict=False):
        index = int((at - since_s) // step_s)
        if value is not None and 0 <= index < steps:
            sums[index] += value
            counts[index] += 1
    return tuple(total / count if count else None for total, count in zip(sums, counts, strict=True))
