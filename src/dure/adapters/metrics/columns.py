"""Samples of one metric as three columns, in bytes: who (number of the series), when, how much.

Called by the store alone. Fresh columns are plain, so that writing costs nothing; kept ones are sorted by series
and time, their bytes transposed (the first bytes of all numbers, then the second ...) and deflated, which brings
the regular times of a scrape to almost nothing. Invariant: what was packed comes out the same to the last bit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
# Level 1 is five times as fast as the usual one and a tenth larger on counters and gauges.
_LEVEL = 1


class Columns(NamedTuple):
    series: Ints
    at_s: Floats
    value: Floats

    def where(self, chosen: NDArray[np.bool_]) -> Columns:
        return self if bool(chosen.all()) else Columns(self.series[chosen], self.at_s[chosen], self.value[chosen])

    def cut(self, begin: int, end: int) -> Columns:
        return Columns(self.series[begin:end], self.at_s[begin:end], self.value[begin:end])

    def ordered(self) -> Columns:
        order = np.lexsort((self.at_s, self.series))
        return Columns(self.series[order], self.at_s[order], self.value[order])


class Rolled(NamedTuple):
    """One step of one metric: a row of the columns for each series that had a sample in it."""

    series: Ints
    counts: Floats
    total: Floats
    low: Floats
    high: Floats


NOTHING = Columns(np.empty(0, np.int32), np.empty(0), np.empty(0))


def plain(columns: Columns) -> bytes:
    return columns.series.tobytes() + columns.at_s.tobytes() + columns.value.tobytes()


def read_plain(data: bytes) -> Columns:
    count = len(data) // 20
    return Columns(
        np.frombuffer(data, np.int32, count),
        np.frombuffer(data, np.float64, count, 4 * count),
        np.frombuffer(data, np.float64, count, 12 * count),
    )


def deflate(columns: Columns) -> bytes:
    return zlib.compress(b"".join(_transposed(column) for column in columns), _LEVEL)


def inflate(data: bytes) -> Columns:
    body = zlib.decompress(data)
    count = len(body) // 20
    series = _back(body[: 4 * count], 4).view(np.int32)
    floats = (_back(body[begin : begin + 8 * count], 8).view(np.float64) for begin in (4 * count, 12 * count))
    return Columns(series, *floats)


def deflate_rolled(rolled: Rolled) -> bytes:
    return zlib.compress(b"".join(_transposed(column) for column in rolled), _LEVEL)


def inflate_rolled(data: bytes) -> Rolled:
    body = zlib.decompress(data)
    count = len(body) // 36
    series = _back(body[: 4 * count], 4).view(np.int32)
    begins = range(4 * count, 36 * count, 8 * count) if count else (0, 0, 0, 0)
    floats = (_back(body[begin : begin + 8 * count], 8).view(np.float64) for begin in begins)
    return Rolled(series, *floats)


def joined(parts: Iterable[Columns]) -> Columns:
    found = list(parts)
    if len(found) == 1:
        return found[0]
    return Columns(*(np.concatenate(column) for column in zip(*found, strict=True))) if found else NOTHING


def rolled_up(columns: Columns) -> Rolled:
    """One line for each series; `columns` are ordered and lie within one step."""
    series, begins = np.unique(columns.series, return_index=True)
    counts = np.diff(np.append(begins, len(columns.series))).astype(np.float64)
    value = columns.value
    return Rolled(
        series, counts, np.add.reduceat(value, begins), np.minimum.reduceat(value, begins),
        np.maximum.reduceat(value, begins),
    )  # fmt: skip


def coarser(parts: Iterable[Rolled]) -> Rolled:
    """Several fine steps as one coarse step."""
    series, count, total, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    numbers, place = np.unique(series, return_inverse=True)
    most = np.full(len(numbers), -np.inf)
    least = np.full(len(numbers), np.inf)
    np.maximum.at(most, place, high)
    np.minimum.at(least, place, low)
    counts, totals = np.bincount(place, count, len(numbers)), np.bincount(place, total, len(numbers))
    return Rolled(numbers, counts.astype(np.float64), totals.astype(np.float64), least, most)


def _transposed(column: Ints | Floats) -> bytes:
    width = column.itemsize
    return np.ascontiguousarray(column).view(np.uint8).reshape(-1, width).T.tobytes()


def _back(body: bytes, width: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.frombuffer(body, np.uint8).reshape(width, -1).T).reshape(-1)
