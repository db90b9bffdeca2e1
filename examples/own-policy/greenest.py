"""The greenest home that costs at most a tenth more than the cheapest: a placement policy of an owner's own.

Dure calls `pick` for one waiting workload at a time, with the homes that have room for it and may take it. It answers
one of them, or None to let the workload wait. Room, quotas, budgets and regions are Dure's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.model.snapshot import Snapshot
from dure.model.workload import WorkloadRecord
from dure.place.candidate import Candidate

DEARER = 1.1


def pick(_world: Snapshot, record: WorkloadRecord, homes: Sequence[Candidate]) -> Candidate | None:
    cheapest = min(homes, key=lambda home: (home.bill(0).total, home.where))
    if record.spec.priority > 0:
        return cheapest
    allowed = [home for home in homes if home.bill(0).total <= DEARER * cheapest.bill(0).total]
    return min(allowed, key=lambda home: (home.bill(0).carbon_g, home.where))
