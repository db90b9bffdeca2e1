"""The queues over time: who waited, how long those who got in had waited, how many got in. Pure.

A tenant is a queue: it is its workloads that wait for each other. Everything follows from the journal (through
`past.Journey`) and the records, so it reaches back to the first line of the journal, whenever somebody asks.
Cost: O(waits log waits + tenants x steps).
"""

from __future__ import annotations

import bisect
import heapq
import math
import statistics
from collections.abc import Callable, Iterable

import msgspec

from dure.model.units import HOUR_S, Instant, Seconds
from dure.model.workload import WorkloadRecord, WorkloadStatus

Homes = Callable[[str, Instant, Instant], Iterable[tuple[Instant, bool]]]


class QueuePoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tenant's queue in one step of time that begins at `at_s`.

    `waiting` and `oldest_s` (how long the oldest has waited) are as of the step's end. `waited_s` is the median
    wait of those who got a home within it; None where nobody did, which is not the same as no wait.
    """

    tenant: str
    at_s: Instant
    waiting: int
    oldest_s: Seconds
    admitted: int
    admitted_per_hour: float
    waited_s: Seconds | None = None


class Wait(msgspec.Struct, frozen=True):
    """A stretch in which a workload waited; `admitted` says whether a home ended it."""

    tenant: str
    since_s: Instant
    until_s: Instant
    admitted: bool


def waits(records: Iterable[WorkloadRecord], homes: Homes) -> Iterable[Wait]:
    """`homes` answers when a workload got and lost its home between two moments, in order."""
    for record in records:
        status, tenant = record.status, record.spec.tenant
        ended = status.finished_s if status.phase.ended else None
        until_s = math.inf if ended is None else ended
        since_s: Instant | None = status.submitted_s
        for at_s, housed in tuple(homes(record.name, status.submitted_s, until_s)) or _remembered(status):
            if housed and since_s is not None:
                yield Wait(tenant, since_s, at_s, admitted=True)
                since_s = None
            elif not housed and since_s is None:
                since_s = at_s
        if since_s is not None:
            yield Wait(tenant, since_s, until_s, admitted=False)


def _remembered(status: WorkloadStatus) -> Iterable[tuple[Instant, bool]]:
    """Of one whose lines the journal no longer has: what its record still knows."""
    began = [status.placement.decided_s] if status.placement else []
    began += [status.started_s] if status.started_s is not None else []
    if began:
        yield max(status.submitted_s, min(began)), True


def queue_points(
    found: Iterable[Wait], tenants: Iterable[str], since_s: Instant, until_s: Instant, step_s: Seconds
) -> tuple[QueuePoint, ...]:
    """For every tenant and step, by tenant and time; the last step ends at `until_s`, which is now or before."""
    steps = max(0, math.ceil((until_s - since_s) / step_s))
    ends = [min(since_s + (index + 1) * step_s, until_s) for index in range(steps)]
    by_tenant: dict[str, list[Wait]] = {tenant: [] for tenant in tenants}
    for one in found:
        by_tenant.setdefault(one.tenant, []).append(one)
    return tuple(
        point for tenant, mine in sorted(by_tenant.items()) for point in _points(tenant, mine, since_s, ends, step_s)
    )


def _points(
    tenant: str, mine: list[Wait], since_s: Instant, ends: list[Instant], step_s: Seconds
) -> Iterable[QueuePoint]:
    mine.sort(key=lambda one: one.since_s)
    let_in: list[list[Seconds]] = [[] for _ in ends]
    for one in mine:
        index = int((one.until_s - since_s) // step_s) if one.admitted else -1
        if 0 <= index < len(ends) and one.until_s <= ends[-1]:
            let_in[index].append(one.until_s - one.since_s)
    for index, (end_s, (waiting, oldest_s)) in enumerate(zip(ends, _lengths(mine, ends), strict=True)):
        begin_s, got = since_s + index * step_s, let_in[index]
        yield QueuePoint(
            tenant,
            begin_s,
            waiting,
            oldest_s,
            len(got),
            len(got) * HOUR_S / (end_s - begin_s),
            statistics.median(got) if got else None,
        )


def _lengths(mine: list[Wait], ends: list[Instant]) -> Iterable[tuple[int, Seconds]]:
    """How many waited at each of these moments, and how long the oldest had; `mine` is sorted by its beginnings."""
    over = sorted(one.until_s for one in mine)
    heap: list[tuple[Instant, Instant]] = []
    begun = 0
    for end_s in ends:
        while begun < len(mine) and mine[begun].since_s <= end_s:
            heapq.heappush(heap, (mine[begun].since_s, mine[begun].until_s))
            begun += 1
        while heap and heap[0][1] <= end_s:
            heapq.heappop(heap)
        yield begun - bisect.bisect_right(over, end_s), end_s - heap[0][0] if heap else 0.0
