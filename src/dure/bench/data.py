"""Where the public data is: `DURE_DATA`, or `../shared/data` beside the checkout. Nothing of it ships with Dure."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from dure.model.errors import InvalidInput, NotFound

_ROOT = Path(__file__).resolve().parents[3]


def data_dir() -> Path | None:
    """The data folder if there is one."""
    named = os.environ.get("DURE_DATA")
    folder = Path(named) if named else _ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def data_file(relative: str) -> Path:
    """One file of the public data, plain or gzipped; `NotFound` tells how to get it."""
    folder = data_dir()
    for candidate in (relative, f"{relative}.gz"):
        if folder is not None and (folder / candidate).is_file():
            return folder / candidate
    raise NotFound(
        f"public data file '{relative}' is not there",
        where=str(folder or "DURE_DATA"),
        remedy="Set DURE_DATA to the folder that holds it; 'dure data list' names the public source of each.",
    )


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a `.csv` or `.csv.gz` file with a header line."""
    if not path.is_file():
        raise NotFound(f"no such file: {path}", remedy="Give the path of a .csv or .csv.gz file.")
    try:
        with _opened(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            yield from csv.DictReader(text)
    except (gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"not a readable CSV file: {error}", where=str(path)) from error


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]
