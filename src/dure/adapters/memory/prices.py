"""Prices of the embedded world: the fleet's own tariffs, with spot prices that wander a little from hour to hour.

Demo data. A price is a pure function of pool, hour and seed, so that a restart or a replay sees the same market.
"""

from __future__ import annotations

from msgspec.structs import replace

from dure.adapters.memory import chance
from dure.model.fleet import Fleet
from dure.model.tariff import Tariff, Weekly
from dure.model.units import HOUR_S, Instant

# The slow part turns over about twice a day, the fast one every three hours.
_SLOW_H, _SLOW_PART = 11.0, 0.24
_FAST_H, _FAST_PART = 3.0, 0.08


class MemoryPrices:
    """`PricePort`. `walk` switches the wandering off for tests and for owners who know their tariffs."""

    def __init__(self, fleet: Fleet, *, seed: int = 0, walk: bool = True) -> None:
        tariffs = (pool.tariff for cluster in fleet.clusters for pool in cluster.pools)
        self._tariffs = tuple(sorted(tariffs, key=lambda tariff: (tariff.cluster, tariff.pool)))
        self._seed = seed
        self._walk = walk
        self._known: tuple[int, tuple[Tariff, ...]] | None = None

    def fetch_tariffs(self, at_s: Instant) -> tuple[Tariff, ...]:
        hour = int(at_s // HOUR_S)
        known = self._known
        if known is None or known[0] != hour:
            known = self._known = (hour, tuple(self._at(tariff, hour) for tariff in self._tariffs))
        return known[1]

    def _at(self, tariff: Tariff, hour: int) -> Tariff:
        if tariff.spot is None or not self._walk:
            return tariff
        factor = spot_factor(tariff.cluster, tariff.pool, hour, self._seed)
        return replace(tariff, spot=Weekly(tuple(round(value * factor) for value in tariff.spot.values)))


def spot_factor(cluster: str, pool: str, hour: int, seed: int) -> float:
    """Around one, between 0.84 and 1.16."""
    slow = chance.smooth(seed, hour / _SLOW_H, "spot slow", cluster, pool)
    fast = chance.smooth(seed, hour / _FAST_H, "spot fast", cluster, pool)
    return 1 + _SLOW_PART * (slow - 0.5) + _FAST_PART * (fast - 0.5)
