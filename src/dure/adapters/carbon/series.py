"""`CarbonPort` over a table with one column per grid (g/kWh), from CSV, Parquet or an HTTP source of JSON."""

from __future__ import annotations

from dure.adapters.series import Source, stepped
from dure.model.tariff import CarbonSeries
from dure.model.units import HOUR_S, Instant


class SeriesCarbon:
    """`columns` maps a grid to its column, where the names differ. A grid without figures is unknown throughout."""

    def __init__(self, source: Source, grids: tuple[str, ...], columns: dict[str, str] | None = None) -> None:
        self._source = source
        self._grids = tuple(sorted(set(grids)))
        self._columns = columns or {}

    def fetch_carbon(self, since_s: Instant, until_s: Instant) -> tuple[CarbonSeries, ...]:
        start_s = since_s // HOUR_S * HOUR_S
        table = self._source.table()
        steps = max(0, int((until_s - start_s + HOUR_S - 1) // HOUR_S))
        return tuple(
            CarbonSeries(
                grid,
                start_s,
                (None,) * steps
                if table is None
                else stepped(table, self._columns.get(grid, grid), start_s, start_s + steps * HOUR_S, HOUR_S),
            )
            for grid in self._grids
        )

    def revision(self) -> Instant:
        """When the source was last read."""
        table = self._source.table()
        return -1.0 if table is None else table.fetched_s
