"""What an agent's report means for a workload's record: one pure function, repeatable at will.

A placement is taken back in two steps: first it leaves (the agent no longer sees it as desired and deletes it), then,
when a later report shows nothing of it, the workload waits again. So it never has two homes at once.
"""

from __future__ import annotations

import msgspec

from dure.model.reason import Reason, Verdict
from dure.model.report import Observed, Report
from dure.model.units import Instant
from dure.model.workload import Phase, Placement, Workload, WorkloadRecord, WorkloadStatus, WorkloadType

# An unbound placement is taken back after this long beyond its planned start.
PATIENCE_S = 600.0
MAX_RESTARTS = 5


def fold(record: WorkloadRecord, report: Report | None, seen: Observed | None, now_s: Instant) -> WorkloadStatus:
    """The record's next status given its cluster's newest report and what that says of it; no news, same status."""
    status, placement = record.status, record.status.placement
    if status.phase.ended or placement is None or report is None:
        return status
    if status.leaving_s is not None:
        return _left(status, report) if seen is None and report.at_s > status.leaving_s else status
    if seen is None or seen.generation != placement.generation:
        return status
    if status.phase is Phase.RUNNING and _same(status, seen):
        return status
    return _progress(record.spec, status, placement, seen, now_s)


def _same(status: WorkloadStatus, seen: Observed) -> bool:
    """Whether a running workload goes on as it was last seen, as nearly all do nearly always."""
    quiet = not (seen.succeeded or seen.failed or seen.lost or status.message or status.held)
    return (
        quiet
        and seen.ready == status.ready > 0
        and status.started_s is not None
        and seen.done_s <= status.done_s
        and (seen.saved_s is None or seen.saved_s == status.saved_s)
        and _sum(status.requests_before, seen.requests) == status.requests
        and _sum(status.requests_good_before, seen.requests_good) == status.requests_good
        and seen.waiting == status.waiting
    )


def _progress(
    spec: Workload, status: WorkloadStatus, placement: Placement, seen: Observed, now_s: Instant
) -> WorkloadStatus:
    status = msgspec.structs.replace(
        status,
        ready=seen.ready,
        started_s=status.started_s if status.started_s is not None else seen.started_s,
        done_s=max(status.done_s, seen.done_s),
        saved_s=seen.saved_s,
        requests=_sum(status.requests_before, seen.requests),
        requests_good=_sum(status.requests_good_before, seen.requests_good),
        waiting=seen.waiting,
    )
    if spec.type is not WorkloadType.SERVING and seen.succeeded >= placement.replicas:
        return _ended(status, Phase.DONE, seen)
    if seen.failed and not seen.lost and status.restarts >= MAX_RESTARTS:
        return _ended(status, Phase.FAILED, seen)
    if seen.lost or seen.failed:
        return leave(status, now_s, seen.lost or seen.message or "a pod failed", _code(seen.lost), restart=True)
    if seen.ready:
        return msgspec.structs.replace(status, phase=Phase.RUNNING, message="", held=())
    if seen.bound:
        return msgspec.structs.replace(status, phase=Phase.STARTING, message=seen.message, held=())
    if now_s > max(placement.start_s, placement.decided_s) + PATIENCE_S:
        return leave(status, now_s, seen.message or "found no room in its cluster", Reason.NO_CAPACITY)
    return msgspec.structs.replace(status, message=seen.message)


def _sum(before: int | None, here: int | None) -> int | None:
    """What is known of both homes; unknown when nothing is."""
    return before if here is None else here + (before or 0)


def leave(
    status: WorkloadStatus, now_s: Instant, message: str, reason: Reason | None, *, restart: bool = False
) -> WorkloadStatus:
    """Take the placement back; it is gone once the agent has confirmed it."""
    where = f"{status.placement.cluster}/{status.placement.pool}" if status.placement else ""
    held = (Verdict(where, reason, detail=message),) if reason else ()
    return msgspec.structs.replace(
        status, leaving_s=now_s, message=message, held=held, ready=0, waiting=None, restarts=status.restarts + restart
    )


def _code(lost: str) -> Reason | None:
    """The reason code that stands before the colon, if it is one of ours."""
    code = lost.partition(":")[0]
    return Reason(code) if code in set(Reason) else None


def _left(status: WorkloadStatus, report: Report) -> WorkloadStatus:
    """Who stood aside knows for how long."""
    phase = Phase.PENDING if status.look_again_s is None else Phase.HELD
    return msgspec.structs.replace(status, phase=phase, placement=None, leaving_s=None, billed_until_s=report.at_s)


def _ended(status: WorkloadStatus, phase: Phase, seen: Observed) -> WorkloadStatus:
    return msgspec.structs.replace(
        status, phase=phase, finished_s=seen.finished_s, ready=0, waiting=None, held=(), message=seen.message
    )
