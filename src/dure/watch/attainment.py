"""How well promises are kept: requests answered in time, workloads done by their deadline."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dure.model.units import Instant
from dure.model.workload import Phase, Slo, WorkloadRecord, WorkloadType

P95 = 0.95


class Attainment(msgspec.Struct, frozen=True):
    """`None` where there was nothing to measure, which is not the same as 100 %."""

    requests: int = 0
    requests_good: int = 0
    deadlines: int = 0
    deadlines_met: int = 0

    @property
    def serving(self) -> float | None:
        return self.requests_good / self.requests if self.requests else None

    @property
    def deadline(self) -> float | None:
        return self.deadlines_met / self.deadlines if self.deadlines else None


def target_of(slo: Slo) -> float:
    """The part of the requests that has to be good, which is in time where a latency is promised, else answered."""
    return slo.availability if slo.availability is not None and slo.latency_p95_ms is None else P95


def attainment_of(records: Iterable[WorkloadRecord], now_s: Instant) -> Attainment:
    """A deadline counts once it has passed or the workload has ended."""
    requests = good = deadlines = met = 0
    for record in records:
        status, spec = record.status, record.spec
        if spec.type is WorkloadType.SERVING:
            if status.requests is not None and status.requests_good is not None:
                requests += status.requests
                good += status.requests_good
        elif spec.deadline_s is not None and status.phase is not Phase.CANCELLED:
            due = status.submitted_s + spec.deadline_s
            done = status.finished_s if status.phase is Phase.DONE else None
            if done is not None or now_s > due or status.phase is Phase.FAILED:
                deadlines += 1
                met += done is not None and done <= due
    return Attainment(requests, good, deadlines, met)
