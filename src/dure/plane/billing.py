"""Charge running workloads for the time since they were last charged, with the snapshot's tariffs and grids."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dure.model.snapshot import Snapshot
from dure.model.units import Seconds
from dure.model.workload import Placement
from dure.plane.apply import BILL_EVERY_S, Draft
from dure.ports import Charge
from dure.watch.ledger import Meter, accrue


def billed(drafts: Iterable[Draft], snapshot: Snapshot, every_s: Seconds = BILL_EVERY_S) -> None:
    """Accrue every draft that was not billed for `every_s`, up to now or to its end."""
    tariffs = {(tariff.cluster, tariff.pool): tariff for tariff in snapshot.tariffs}
    series = {one.grid: one for one in snapshot.carbon}

    def meter(home: Placement) -> Meter | None:
        cluster = snapshot.cluster(home.cluster)
        tariff = tariffs.get((home.cluster, home.pool))
        if cluster is None or tariff is None:
            return None
        power = snapshot.catalogue.accelerator(home.class_name).peak_w
        return Meter(tariff, power, cluster.pue, series.get(cluster.grid), snapshot.rates)

    for draft in drafts:
        home = draft.status.placement
        if home is not None and draft.due(snapshot.now_s, every_s):
            found = meter(home)
            if found is not None:
                _charge(draft, found, home.cluster, snapshot.now_s)


def _charge(draft: Draft, meter: Meter, cluster: str, now_s: float) -> None:
    until_s = draft.status.finished_s if draft.status.phase.ended and draft.status.finished_s else now_s
    spans = accrue(draft.record, meter, until_s)
    tenant = draft.before.spec.tenant
    draft.charges += tuple(
        Charge(span.day, tenant, cluster, span.micros, round(span.carbon_g * 1000)) for span in spans
    )
    draft.status = msgspec.structs.replace(
        draft.status,
        billed_until_s=max(until_s, draft.status.billed_until_s),
        spent_micros=draft.status.spent_micros + sum(span.micros for span in spans),
        carbon_g=draft.status.carbon_g + sum(span.carbon_g for span in spans),
    )
