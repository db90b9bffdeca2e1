"""Where the plane gets prices and carbon from: what the fleet file names, else the invented markets of the demo."""

from __future__ import annotations

from dure.adapters.carbon import SeriesCarbon
from dure.adapters.memory.carbon import MemoryCarbon
from dure.adapters.memory.prices import MemoryPrices
from dure.adapters.prices import SeriesPrices
from dure.adapters.series import Source
from dure.model.fleet import Fleet, SeriesSource
from dure.ports import CarbonPort, Clock, PricePort


def prices_of(fleet: Fleet, clock: Clock, seed: int) -> PricePort:
    named = fleet.price_source
    if named is None:
        return MemoryPrices(fleet, seed=seed)
    return SeriesPrices(_source(named, clock), fleet, capacity=named.capacity, columns=named.columns)


def carbon_of(fleet: Fleet, clock: Clock, seed: int) -> CarbonPort:
    grids = tuple(sorted({spec.info.grid for spec in fleet.clusters}))
    named = fleet.carbon_source
    if named is None:
        return MemoryCarbon(grids, seed=seed)
    return SeriesCarbon(_source(named, clock), grids, named.columns)


def _source(named: SeriesSource, clock: Clock) -> Source:
    return Source(named.where, clock, fresh_s=named.fresh_s, stale_s=named.stale_s, local=named.local)
