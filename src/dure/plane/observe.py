"""From the ports to one Snapshot: the only place where the plane looks at the world before it decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterInfo
from dure.model.fleet import Fleet
from dure.model.report import Report
from dure.model.snapshot import Snapshot
from dure.model.tariff import CarbonSeries
from dure.model.units import DAY_S, HOUR_S, Grams, Instant, Micros
from dure.model.weights import WEIGHTS_SETTING, Weights
from dure.model.workload import WorkloadRecord
from dure.plane.outlook import Rules
from dure.plane.promised import pools_left
from dure.plane.spells import Spells
from dure.plane.turns import kept_turns
from dure.ports import CarbonPort, PricePort, StorePort
from dure.watch.usage import usage_of

# A cluster whose agent has not reported for this long is taken as away.
AWAY_S = 900.0
CARBON_BEFORE_S = DAY_S
CARBON_AHEAD_S = 3 * DAY_S


class Observer:
    """Reads the store and the series; holds only what the fleet file says."""

    def __init__(
        self,
        store: StorePort,
        fleet: Fleet,
        catalogue: Catalogue,
        prices: PricePort,
        carbon: CarbonPort,
        seed: int = 0,
    ) -> None:
        self.store = store
        self.fleet = fleet
        self.catalogue = catalogue
        self.prices = prices
        self.carbon = carbon
        self.seed = seed
        self.spells = Spells(store)
        self._series: tuple[tuple[int, Instant], tuple[CarbonSeries, ...]] | None = None

    def snapshot(self, now_s: Instant, records: Sequence[WorkloadRecord], reports: Sequence[Report]) -> Snapshot:
        """The world as of `now_s`, with the records as the loop has just folded them."""
        seen = {report.cluster: report for report in reports}
        tenants, policies, weights = self.rules()
        month = month_totals(self.store, now_s)
        return Snapshot(
            now_s=now_s,
            seed=self.seed,
            catalogue=self.catalogue,
            rates=self.fleet.rates,
            carbon_micros_per_kg=self.fleet.carbon_micros_per_kg,
            clusters=tuple(
                sorted((_info(one.info, seen, now_s) for one in self.fleet.clusters), key=lambda info: info.name)
            ),
            pools=pools_left(records, reports),
            tariffs=self.prices.fetch_tariffs(now_s),
            carbon=self.carbon_around(now_s),
            tenants=tenants,
            usage=usage_of((tenant.name for tenant in tenants), records, month),
            records=tuple(records),
            policies=policies,
            weights=weights,
            spells=self.spells.of(reports, now_s),
            turns={kept.room.workload: f"{kept.cluster}/{kept.room.pool}" for kept in kept_turns(self.store)},
        )

    def rules(self) -> Rules:
        """What people have set, and the weights that were learned."""
        return self.store.list_tenants(), self.store.list_policies(), _weights(self.store)

    def carbon_around(self, now_s: Instant) -> tuple[CarbonSeries, ...]:
        """Asked for once an hour, and when the source has been read again: a grid may change within the hour."""
        hour = int(now_s // HOUR_S)
        seen = hour, self.carbon.revision()
        if self._series is None or self._series[0] != seen:
            begin_s = float(hour * HOUR_S)
            self._series = seen, self.carbon.fetch_carbon(begin_s - CARBON_BEFORE_S, begin_s + CARBON_AHEAD_S)
        return self._series[1]


def _info(info: ClusterInfo, seen: dict[str, Report], now_s: Instant) -> ClusterInfo:
    report = seen.get(info.name)
    observed_s = report.at_s if report else 0.0
    return msgspec.structs.replace(info, observed_s=observed_s, reachable=now_s - observed_s <= AWAY_S)


def month_totals(store: StorePort, now_s: Instant) -> dict[str, tuple[Micros, Grams]]:
    """What each tenant has been charged since the first of the month (UTC)."""
    first = datetime.fromtimestamp(now_s, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    totals: dict[str, tuple[Micros, Grams]] = {}
    for charge in store.list_charges(int(first.timestamp() // DAY_S), int(now_s // DAY_S) + 1):
        micros, grams = totals.get(charge.tenant, (0, 0.0))
        totals[charge.tenant] = (micros + charge.micros, grams + charge.carbon_mg / 1000)
    return totals


def _weights(store: StorePort) -> Weights:
    kept = store.fetch_setting(WEIGHTS_SETTING)
    return _decoded(kept) if kept else Weights()


@lru_cache(maxsize=4)
def _decoded(kept: str) -> Weights:
    """They change once an hour and are asked for in every turn."""
    return msgspec.json.decode(kept, type=Weights)
