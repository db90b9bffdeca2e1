"""How long work that runs should still take, whether a deadline can still be kept, and what fairness is told of it.

Called by everything in `place` that looks at one workload before it has been priced. By its estimate, no quantiles.
"""

from __future__ import annotations

from dure.model.units import Instant
from dure.model.workload import WorkloadRecord, WorkloadType
from dure.place.bill import run_time
from dure.place.fairness import Claim


def past_help(record: WorkloadRecord, now_s: Instant) -> bool:
    """Whether its deadline is lost even if it started now, by its estimate, on the fastest class it accepts."""
    spec = record.spec
    if spec.deadline_s is None or spec.type is WorkloadType.SERVING:
        return False
    fastest = max(one.speed for one in spec.classes) * max((step.speed for step in spec.speedups), default=1.0)
    left_s = max(0.0, spec.duration_s - record.status.done_s) / fastest
    return now_s + left_s > record.status.submitted_s + spec.deadline_s


def expected_end(record: WorkloadRecord, slow: float, now_s: Instant) -> Instant | None:
    """When a placed workload should be gone, a slow run assumed; None for serving, which stays.

    What is done was safe at the last checkpoint, so what is left is counted from there and not from the start.
    """
    home, status = record.status.placement, record.status
    if home is None or record.spec.type is WorkloadType.SERVING:
        return None
    speed = record.spec.speed_on(home.class_name) or 1.0
    since_s = status.started_s if status.started_s is not None else home.start_s
    if status.done_s > 0.0:
        since_s = max(since_s, now_s - record.spec.checkpoint_s)
    return since_s + slow * run_time(record.spec, speed, status.done_s)


def claim_of(index: int, record: WorkloadRecord, now_s: Instant) -> Claim:
    """A waiting workload as fairness sees it."""
    spec = record.spec
    return Claim(
        index, record.name, spec.tenant, spec.priority, record.status.submitted_s, spec.classes[0].name,
        spec.demand.device_milli * spec.size, past_help(record, now_s),
    )  # fmt: skip
