"""Room that is given away although no report shows it taken yet.

An agent's report is a moment old, and a gang that takes another size is nowhere for a while: its old members have
ended and the new ones are not seated. Called by `stretching` for everybody's promises and by `observe`, which keeps
what a gang between two sizes comes back to out of what others are offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from dure.model.cluster import VNodePool
from dure.model.report import Report
from dure.model.workload import Phase, WorkloadRecord
from dure.place.room import PoolRoom

Where = tuple[str, str]


def between_sizes(record: WorkloadRecord) -> bool:
    """Whether this is an elastic gang that has run and is now beginning anew."""
    status = record.status
    return bool(record.spec.speedups) and status.phase is Phase.STARTING and status.started_s is not None


def rooms_left(records: Iterable[WorkloadRecord], reports: Sequence[Report]) -> dict[Where, PoolRoom]:
    """The booted room of each pool, less what these records were promised and do not hold yet."""
    rooms = {
        (pool.cluster, pool.name): PoolRoom(replace(pool, nodes_max=pool.nodes))
        for report in reports
        for pool in report.pools
    }
    seen = {(report.cluster, one.uid): one for report in reports for one in report.observed}
    for record in records:
        home, status = record.status.placement, record.status
        if home is None or status.phase.ended or status.leaving_s is not None:
            continue
        room, here = rooms.get((home.cluster, home.pool)), seen.get((home.cluster, record.uid))
        # Members of an earlier generation hold what those of the next will sit on.
        shown = here.bound + here.succeeded if here is not None else 0
        if room is not None and shown < home.replicas:
            room.take(record.spec.demand, home.replicas - shown)
    return rooms


def pools_left(records: Iterable[WorkloadRecord], reports: Sequence[Report]) -> tuple[VNodePool, ...]:
    """The pools as reported, less what gangs between two sizes come back to."""
    coming = [record for record in records if between_sizes(record)]
    pools = (pool for report in reports for pool in report.pools)
    if not coming:
        return tuple(pools)
    rooms = rooms_left(coming, reports)
    homes = {(one.status.placement.cluster, one.status.placement.pool) for one in coming if one.status.placement}
    return tuple(
        _less(pool, rooms[pool.cluster, pool.name]) if (pool.cluster, pool.name) in homes else pool for pool in pools
    )


def _less(pool: VNodePool, room: PoolRoom) -> VNodePool:
    return replace(
        pool,
        free_whole=tuple(sorted((free for free in room.free if free), reverse=True)),
        free_milli=max(0, room.free_milli),
        free_cpu_milli=max(0, room.cpu_milli),
        free_host_memory_mib=max(0, room.host_memory_mib),
    )
