"""A placement policy of the fleet's owner: it picks among what is possible, everything else stays as it is.

Called by `plane.deciding` with the owner's function. The function sees one waiting workload at a time, in the order
in which fairness lets them in, with the homes that have room for it at that moment; it answers one of them or None.
So it cannot overcommit, break a quota or place what may not go there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dure.model.decision import Decision, Hold
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.workload import WorkloadRecord
from dure.place.batch import batch_of
from dure.place.candidate import Candidate, Cycle
from dure.place.plan import held, placed

Pick = Callable[[Snapshot, WorkloadRecord, Sequence[Candidate]], Candidate | None]


def place_by(pick: Pick, snapshot: Snapshot) -> tuple[Decision, ...]:
    """A Place or a Hold for every workload that waits."""
    waiting = tuple(record for record in snapshot.records if record.status.phase.waits)
    if not waiting:
        return ()
    cycle = Cycle(snapshot, waiting)
    batch = batch_of(cycle, waiting)
    return tuple(_decision(pick, cycle, batch.records[job], batch.candidates[job]) for job in batch.order)


def _decision(pick: Pick, cycle: Cycle, record: WorkloadRecord, candidates: tuple[Candidate, ...]) -> Decision:
    possible = [one for one in candidates if one.quote is not None and cycle.now_clash(record, one) is None]
    if not possible:
        return Hold(record.name, held(cycle, record, candidates))
    chosen = pick(cycle.snapshot, record, tuple(possible))
    if chosen is None:
        where = f"{len(possible)} possible homes"
        return Hold(record.name, (Verdict(where, Reason.POLICY_WAITS, "one that the policy takes", "it took none"),))
    if not any(chosen is one for one in possible):
        raise ValueError(f"the policy answered {chosen!r} for {record.name}, which is none of the possible homes")
    return placed(cycle, record, candidates, chosen)
