"""Is it worth deciding again? A held workload's answer can only get better when something has got better.

`loop` takes an Outlook in every turn and compares it with the last one. Room that shrank, a workload that left the
queue and progress of running ones change no answer; room that grew on a class that someone waits for, a new or
awakened workload, new rules, a cluster that came or went, a new hour do.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dure.model.cluster import VNodePool
from dure.model.policy import Policy
from dure.model.report import Report
from dure.model.tenant import Tenant
from dure.model.units import HOUR_S, Instant, Seconds
from dure.model.weights import Weights
from dure.model.workload import WorkloadRecord
from dure.plane.promised import pools_left

# Some reasons fade without any of the above (a quota that others lend): everybody is looked at this often.
LOOK_S: Seconds = 600.0

Rules = tuple[tuple[Tenant, ...], tuple[Policy, ...], Weights]


class Outlook(msgspec.Struct, frozen=True):
    """What the answers to those who wait depend on. `rooms` holds the pools of the classes that they accept, as they
    are offered: room that a gang between two sizes had been promised grows when it has sat down."""

    waiting: frozenset[str]
    away: frozenset[str]
    rules: Rules
    rooms: dict[tuple[str, str], VNodePool]
    now_s: Instant
    looked_s: Instant

    def after(self, before: Outlook | None, looked: bool) -> Outlook:
        """The one to compare with next time; it remembers when a decision was last made."""
        if looked or before is None:
            return self
        return msgspec.structs.replace(self, looked_s=before.looked_s)


def outlook(
    records: Sequence[WorkloadRecord],
    reports: Sequence[Report],
    rules: Rules,
    now_s: Instant,
    away_s: Seconds,
) -> Outlook:
    waiting = [record for record in records if record.status.phase.waits]
    accepted = {accepted.name for record in waiting for accepted in record.spec.classes}
    return Outlook(
        waiting=frozenset(record.uid for record in waiting),
        away=frozenset(report.cluster for report in reports if now_s - report.at_s > away_s),
        rules=rules,
        rooms={
            (pool.cluster, pool.name): pool for pool in pools_left(records, reports) if pool.class_name in accepted
        },
        now_s=now_s,
        looked_s=now_s,
    )


def calls_for_decision(before: Outlook | None, after: Outlook) -> bool:
    """Whether somebody's answer may differ from the one given at `before`."""
    if not after.waiting:
        return False
    if before is None or after.waiting - before.waiting or after.rules != before.rules or after.away != before.away:
        return True
    if after.now_s // HOUR_S != before.looked_s // HOUR_S or after.now_s - before.looked_s >= LOOK_S:
        return True
    return any(_grew(before.rooms.get(key), pool) for key, pool in after.rooms.items())


def _grew(before: VNodePool | None, after: VNodePool) -> bool:
    """Whether anything that could not be placed there might be placed now."""
    if before is None:
        return True
    if any(now > then for now, then in zip(_room(after), _room(before), strict=True)):
        return True
    longer = len(after.free_whole) > len(before.free_whole)
    return longer or any(now > then for now, then in zip(after.free_whole, before.free_whole, strict=False))


def _room(pool: VNodePool) -> tuple[int, ...]:
    return (
        pool.nodes_max - pool.nodes,
        pool.nodes_ready,
        pool.free_milli,
        pool.largest_memory_mib,
        pool.largest_compute_milli,
        pool.largest_bandwidth_milli,
        pool.free_cpu_milli,
        pool.free_host_memory_mib,
        pool.largest_cpu_milli,
        pool.largest_host_memory_mib,
    )
