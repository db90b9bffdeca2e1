"""Whether what Dure predicts still comes true: durations, costs, throughput under sharing (eq. 1).

Ratios actual/predicted as logarithms, so that twice and half are equally far off. A slow drift shows in the bias, a
sudden one in a two-sided CUSUM over the values in the order in which they came. Called by the API for the drift page
and by the report. Cost: O(pairs).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from dure.model.units import Instant, Micros
from dure.model.workload import Phase, Placement, Workload, WorkloadRecord, WorkloadType

# CUSUM in units of the usual spread: what is let pass at every step, and where it is an alarm.
SLACK, LIMIT = 0.5, 8.0
# Fewer pairs than this say nothing.
ENOUGH = 8


class Pair(NamedTuple):
    """What was predicted and what came, at the moment it was known; `group` is the model or class it is about."""

    at_s: Instant
    group: str
    predicted: float
    actual: float


class Drift(msgspec.Struct, frozen=True, omit_defaults=True):
    """`bias` 0.1: it takes 10 % more than predicted (median). `error`: median distance either way.

    `since_s` is when the errors changed, where they did; `now` is the bias since then.
    """

    what: str
    group: str
    pairs: int
    bias: float
    error: float
    within_20: float
    since_s: Instant | None = None
    now: float | None = None


def drift(what: str, pairs: Iterable[Pair]) -> tuple[Drift, ...]:
    """One line for each group, the furthest off first."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.predicted > 0 and pair.actual > 0:
            groups.setdefault(pair.group, []).append(pair)
    found = [_one(what, name, sorted(mine)) for name, mine in groups.items()]
    return tuple(sorted(found, key=lambda one: (-abs(one.bias), one.group)))


def durations(records: Iterable[WorkloadRecord]) -> Iterable[Pair]:
    """Of what ran to its end in one go on one class: later homes would mix two predictions."""
    for record in _whole(records):
        speed = record.spec.speed_on(record.home.class_name)
        if speed and record.spec.duration_s > 0:
            actual = record.finished_s - record.started_s
            yield Pair(record.finished_s, record.group, record.spec.duration_s / speed, actual)


def costs(records: Iterable[WorkloadRecord]) -> Iterable[Pair]:
    """The bill that was expected at the decision against what was charged in the end."""
    for record in _whole(records):
        # Rent and power; penalties that never came are not part of what is charged.
        expected = record.home.bill.direct + record.home.bill.energy
        yield Pair(record.finished_s, record.group, float(expected), float(record.spent_micros))


class _Whole(NamedTuple):
    spec: Workload
    home: Placement
    started_s: Instant
    finished_s: Instant
    spent_micros: Micros

    @property
    def group(self) -> str:
        return f"{self.spec.model or self.spec.type.value} on {self.home.class_name}"


def _whole(records: Iterable[WorkloadRecord]) -> Iterable[_Whole]:
    for record in records:
        spec, status = record.spec, record.status
        if status.phase is not Phase.DONE or spec.type is WorkloadType.SERVING:
            continue
        if status.restarts or status.moved_s is not None or status.placement is None:
            continue
        if status.started_s is not None and status.finished_s is not None:
            yield _Whole(spec, status.placement, status.started_s, status.finished_s, status.spent_micros)


def _one(what: str, group: str, pairs: Sequence[Pair]) -> Drift:
    logs = [math.log(pair.actual / pair.predicted) for pair in pairs]
    middle = statistics.median(logs)
    error = statistics.median(abs(one) for one in logs)
    near = sum(abs(math.expm1(one)) <= 0.2 for one in logs) / len(logs)
    turned = _turned(logs) if len(logs) >= 2 * ENOUGH else None
    if turned is None:
        return Drift(what, group, len(logs), math.expm1(middle), math.expm1(error), near)
    now = math.expm1(statistics.median(logs[turned:]))
    return Drift(what, group, len(logs), math.expm1(middle), math.expm1(error), near, pairs[turned].at_s, now)


def _turned(logs: Sequence[float]) -> int | None:
    """Where the errors left what they were in the first half, if they did: the start of the CUSUM that alarmed."""
    usual = logs[: len(logs) // 2]
    centre = statistics.median(usual)
    spread = max(1.4826 * statistics.median(abs(one - centre) for one in usual), 0.02)
    for sign in (1, -1):
        total, begin = 0.0, 0
        for index, one in enumerate(logs):
            # Clipped: one wild value is not a drift.
            total += min(3.0, sign * (one - centre) / spread) - SLACK
            if total <= 0:
                total, begin = 0.0, index + 1
            elif total > LIMIT:
                return begin
    return None
