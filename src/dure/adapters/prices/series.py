"""`PricePort` that lays a series over the fleet's tariffs: one column per 'cluster/pool', price per device and hour.

The price of the hour holds for all hours to come (today's price is as good a forecast of tomorrow's as any we have
measured); where the series has nothing for the last `stale_s`, the tariff of the fleet file stands.
"""

from __future__ import annotations

from bisect import bisect_right

from msgspec.structs import replace

from dure.adapters.series import Source, Table
from dure.model.fleet import Fleet
from dure.model.tariff import Capacity, Tariff, Weekly
from dure.model.units import MICROS, Instant, Seconds


class SeriesPrices:
    """`capacity` is the kind of price that the series holds; `columns` maps 'cluster/pool' to its column."""

    def __init__(
        self, source: Source, fleet: Fleet, *, capacity: Capacity = Capacity.SPOT,
        columns: dict[str, str] | None = None, stale_s: Seconds = 2 * 86_400.0,
    ) -> None:  # fmt: skip
        tariffs = (pool.tariff for cluster in fleet.clusters for pool in cluster.pools)
        self._tariffs = tuple(sorted(tariffs, key=lambda tariff: (tariff.cluster, tariff.pool)))
        self._source, self._capacity, self._columns, self._stale_s = source, capacity, columns or {}, stale_s

    def fetch_tariffs(self, at_s: Instant) -> tuple[Tariff, ...]:
        table = self._source.table()
        if table is None:
            return self._tariffs
        return tuple(self._laid_over(tariff, table, at_s) for tariff in self._tariffs)

    def _laid_over(self, tariff: Tariff, table: Table, at_s: Instant) -> Tariff:
        name = f"{tariff.cluster}/{tariff.pool}"
        price = latest(table, self._columns.get(name, name), at_s, self._stale_s)
        if price is None:
            return tariff
        weekly = Weekly((round(price * MICROS),))
        match self._capacity:
            case Capacity.SPOT:
                return replace(tariff, spot=weekly)
            case Capacity.ON_DEMAND:
                return replace(tariff, on_demand=weekly)
            case Capacity.OWNED:
                return replace(tariff, owned=weekly)


def latest(table: Table, column: str, at_s: Instant, stale_s: Seconds) -> float | None:
    """The last known value at or before `at_s`, unless it is older than `stale_s`."""
    values = table.columns.get(column, ())
    for index in range(bisect_right(table.times, at_s) - 1, -1, -1):
        if at_s - table.times[index] > stale_s:
            return None
        if index < len(values) and values[index] is not None:
            return values[index]
    return None
