"""Carbon intensity of the embedded world: one invented hourly series per grid, marked as demo data.

Shaped like real grids (a steady one with nuclear and coal, one with a deep solar valley, a clean one of water
power, ...) but measured nowhere. A value is a pure function of grid, hour and seed; a grid that is not in the table
is unknown, which is `None` and never zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import msgspec

from dure.adapters.memory import chance
from dure.model.tariff import CarbonSeries
from dure.model.units import HOUR_S, Instant


class Grid(msgspec.Struct, frozen=True):
    """g/kWh: a mean, the depth of the noon valley, the height of the evening, the width of the weather's noise."""

    mean: float
    solar: float
    evening: float
    weather: float
    weekend: float
    utc_offset_h: float


_GRIDS: dict[str, Grid] = {
    "AU-NSW": Grid(640, 210, 70, 60, 20, 10),
    "DE": Grid(360, 130, 45, 130, 40, 1),
    "FR": Grid(48, 10, 8, 14, 6, 1),
    "GB": Grid(190, 45, 40, 110, 20, 0),
    "IE": Grid(310, 20, 40, 150, 20, 0),
    "IN": Grid(690, 140, 40, 30, 10, 5.5),
    "JP": Grid(470, 95, 25, 30, 20, 9),
    "KR": Grid(425, 24, 12, 14, 12, 9),
    "NO": Grid(28, 0, 3, 6, 1, 1),
    "SE": Grid(25, 2, 3, 8, 2, 1),
    "SG": Grid(470, 8, 6, 6, 4, 8),
    "TW": Grid(500, 45, 15, 20, 15, 8),
    "US-CAL": Grid(270, 190, 75, 35, 15, -8),
    "US-MIDA": Grid(390, 25, 20, 35, 15, -5),
    "US-NW": Grid(310, 150, 55, 90, 15, -8),
    "US-TEX": Grid(390, 120, 45, 130, 15, -6),
}
_WEATHER_H = 9.0


class MemoryCarbon:
    """`CarbonPort` for the grids of a fleet."""

    def __init__(self, grids: Iterable[str], *, seed: int = 0) -> None:
        self._grids = tuple(sorted(set(grids)))
        self._seed = seed

    def fetch_carbon(self, since_s: Instant, until_s: Instant) -> tuple[CarbonSeries, ...]:
        first, last = int(since_s // HOUR_S), math.ceil(until_s / HOUR_S)
        return tuple(
            CarbonSeries(
                grid=grid,
                start_s=float(first * HOUR_S),
                g_per_kwh=tuple(intensity(grid, hour, self._seed) for hour in range(first, last)),
                demo=True,
            )
            for grid in self._grids
        )

    def revision(self) -> Instant:
        """What is invented for an hour stays."""
        return 0.0


@functools.lru_cache(maxsize=1 << 16)
def intensity(grid: str, hour: int, seed: int) -> float | None:
    """g/kWh in this hour since 1970 UTC; `None` for a grid that the demo does not know."""
    shape = _GRIDS.get(grid)
    if shape is None:
        return None
    local_h = hour + 0.5 + shape.utc_offset_h
    day_h = local_h % 24
    sun = max(0.0, math.sin(math.pi * (day_h - 6.5) / 12)) ** 1.5 if 6.5 < day_h < 18.5 else 0.0
    evening = math.exp(-(((day_h - 19.5) / 2.2) ** 2))
    # Day 0 of the epoch was a Thursday.
    weekend = shape.weekend if int(local_h // 24) % 7 in (2, 3) else 0.0
    weather = chance.smooth(seed, hour / _WEATHER_H, "weather", grid) - 0.5
    value = shape.mean + shape.solar * (0.25 - sun) + shape.evening * evening + shape.weather * weather - weekend
    return round(max(5.0, value), 1)
