"""Names for the plain numbers of the vocabulary, and the few conversions between them.

A unit stands in the type or at the end of the name: `_s` seconds, `_mib`, `_milli` (thousandths of one
device or core), `_micros` (1e-6 of a currency unit), `_g`, `_wh`, `_w`. Instants are seconds since 1970 UTC.
"""

from __future__ import annotations

from typing import TypeAlias

Instant: TypeAlias = float
Seconds: TypeAlias = float
MiB: TypeAlias = int
Milli: TypeAlias = int
Micros: TypeAlias = int
Grams: TypeAlias = float
WattHours: TypeAlias = float

HOUR_S = 3600
DAY_S = 86_400
WEEK_H = 168
MIB_PER_GIB = 1024
WHOLE_MILLI = 1000
MICROS = 1_000_000

# 1970-01-01 was a Thursday; weeks of tariffs begin on Monday 00:00 UTC.
_EPOCH_HOURS_INTO_WEEK = 72


def hour_of_week(at_s: Instant) -> int:
    """0 is Monday 00:00-01:00 UTC, 167 is Sunday 23:00-24:00 UTC."""
    return (int(at_s // HOUR_S) + _EPOCH_HOURS_INTO_WEEK) % WEEK_H


def gib(mib: MiB) -> str:
    """`18432 -> '18 GiB'`, `4864 -> '4.75 GiB'`."""
    return f"{mib / MIB_PER_GIB:.6g} GiB"


def percent(milli: Milli) -> str:
    return f"{milli / 10:g} %"
