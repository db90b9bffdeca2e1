"""For a workload that waits: which pool of each cluster is nearest to taking it, by figures of this moment.

Called by `answers`. The reasons that a record keeps are those of the last change of mind; their numbers may be old,
so the same question is asked again of the present snapshot where it can be.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dure.model.answer import Line, line
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.workload import WorkloadRecord
from dure.place import options_for

# How far a pool is from taking the workload: it would and waits for its turn; room is short; the device does not do;
# it may not go there; nobody knows. What is not named here is as far as a device that does not do.
_STEPS: tuple[tuple[Reason, ...], ...] = (
    (
        Reason.WAITING_FOR_CHEAPER_HOUR,
        Reason.WAITING_FOR_GREENER_HOUR,
        Reason.WAITING_FOR_SPOT,
        Reason.STANDS_ASIDE,
        Reason.SPOT_FIRST,
        Reason.WAITING_FOR_EVICTION,
    ),
    (
        Reason.FAIR_SHARE,
        Reason.TURN_OF_ANOTHER,
        Reason.QUOTA_EXCEEDED,
        Reason.BUDGET_EXCEEDED,
        Reason.CARBON_BUDGET_EXCEEDED,
    ),
    (Reason.FRAGMENTED, Reason.GANG_INCOMPLETE),
    (Reason.NO_CAPACITY,),
    (Reason.HOST_TOO_SMALL, Reason.MEMORY_TOO_SMALL, Reason.COMPUTE_TOO_SMALL, Reason.BANDWIDTH_TOO_SMALL),
    (Reason.SHARE_MODE_NOT_OFFERED, Reason.ISOLATION_TIER),
    (Reason.CLASS_NOT_ACCEPTED,),
    (Reason.REGION_NOT_ALLOWED, Reason.DATA_TOO_FAR),
    (Reason.CLUSTER_UNREACHABLE, Reason.STALE_FIGURES),
)
_STEP = {reason: step for step, reasons in enumerate(_STEPS) for reason in reasons}
_UNNAMED = 4


def held_lines(record: WorkloadRecord, snapshot: Snapshot) -> tuple[Line, ...]:
    """A line for each pool that was looked at; the nearest of each cluster first, and marked."""
    verdicts = _refreshed(record, snapshot)
    nearest = _nearest(verdicts, snapshot)
    first = [replace(line(verdict), nearest=True) for verdict in nearest]
    if (kept := snapshot.turns.get(record.name)) is not None:
        first.insert(0, Line(kept, "its turn: what comes free there is kept for it", nearest=True))
    return (*first, *(line(verdict) for verdict in verdicts if verdict not in nearest))


def _refreshed(record: WorkloadRecord, snapshot: Snapshot) -> list[Verdict]:
    """The record's reasons, with the numbers of now where a pool still refuses for the same reason."""
    alone = replace(record, status=replace(record.status, placement=None))
    clashes = [offer.clash for offer in options_for(snapshot, alone) if offer.clash is not None]
    now = {(clash.where, clash.reason): clash for clash in clashes}
    return [now.get((verdict.where, verdict.reason), verdict) for verdict in record.status.held]


def _nearest(verdicts: Iterable[Verdict], snapshot: Snapshot) -> list[Verdict]:
    free = {f"{pool.cluster}/{pool.name}": pool.free_milli for pool in snapshot.pools}

    def distance(verdict: Verdict) -> tuple[int, int, str]:
        step = _STEP.get(verdict.reason, _UNNAMED) if verdict.reason is not None else _UNNAMED
        return step, -free.get(verdict.where, 0), verdict.where

    best: dict[str, Verdict] = {}
    for verdict in sorted(verdicts, key=distance):
        best.setdefault(verdict.where.partition("/")[0], verdict)
    return list(best.values())
