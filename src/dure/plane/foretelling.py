"""What is said of each workload is kept beside it, once while it waits and once while it runs.

Called by the loop in every cycle. When the workload has ended, `etas` holds the outcome against what was said: that
is how ranges learn to hold. Looks once in an hour of the fleet's clock, and only where somebody is new.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dure.model.eta import Foretold
from dure.model.report import Report
from dure.model.units import DAY_S, HOUR_S, Instant
from dure.model.workload import Phase, WorkloadType
from dure.place.eta import outlooks
from dure.plane.apply import Draft
from dure.plane.etas import LEARNED_FROM, past_of, situation_of
from dure.plane.observe import Observer

# Fewer than people get to see: what is kept are three points.
_SAMPLES = 24


class Foretelling:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._looked_s: Instant | None = None

    def act(self, drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant) -> None:
        if self._looked_s is not None and now_s - self._looked_s < HOUR_S:
            return
        fresh = [draft for draft in drafts if _unsaid(draft)]
        if not fresh:
            return
        self._looked_s = now_s
        records = [draft.record for draft in drafts if not draft.status.phase.ended]
        snapshot = self._observer.snapshot(now_s, records, reports)
        past = past_of(self._observer.store.list_workloads(ended=True, since_s=now_s - DAY_S, most=LEARNED_FROM))
        found = outlooks(situation_of(snapshot), past, snapshot.seed, _SAMPLES)
        for draft in fresh:
            outlook = found.get(draft.before.name)
            if outlook is not None and (outlook.start or outlook.finish):
                said = Foretold(now_s, outlook.start, outlook.finish)
                draft.status = replace(draft.status, foretold=(*draft.status.foretold, said))


def _unsaid(draft: Draft) -> bool:
    status = draft.status
    if status.phase.waits:
        return not status.foretold
    if status.phase is not Phase.RUNNING or draft.before.spec.type is WorkloadType.SERVING:
        return False
    return all(said.start is not None for said in status.foretold)
