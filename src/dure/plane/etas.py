"""Expected start and finish of everything that waits or runs: the snapshot as `place.eta` wants it.

Called by the desk for `why` and the API. What workloads of this fleet took against their estimates in the last week
is where the ratios come from; serving never ends and has no finish.
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.model.eta import Eta
from dure.model.snapshot import Snapshot
from dure.model.workload import Phase, WorkloadRecord, WorkloadType
from dure.place.bill import run_time
from dure.place.eta import Coming, Going, etas, fresh_book, ratios_of


def etas_of(snapshot: Snapshot, past: Sequence[WorkloadRecord]) -> dict[str, Eta]:
    now_s = snapshot.now_s
    capacity = {
        f"{pool.cluster}/{pool.name}": max(pool.nodes, pool.nodes_max) * pool.devices_per_node * 1000
        for pool in snapshot.pools
    }
    finite = [one for one in snapshot.records if one.spec.type is not WorkloadType.SERVING]
    serving = [one for one in snapshot.records if one.spec.type is WorkloadType.SERVING]
    for record in serving:
        if (home := record.status.placement) is not None:
            where = f"{home.cluster}/{home.pool}"
            capacity[where] = capacity.get(where, 0) - record.spec.demand.device_milli * home.replicas
    running = [_going(record, now_s) for record in finite if record.status.placement is not None]
    waiting = [_coming(record, snapshot) for record in finite if record.status.placement is None]
    return etas(running, waiting, capacity, ratios_of(_ratios(past)), now_s, fresh_book())


def _going(record: WorkloadRecord, now_s: float) -> Going:
    home, spec, status = record.status.placement, record.spec, record.status
    assert home is not None
    begun_s = status.started_s if status.started_s is not None else max(now_s, home.start_s)
    speed = spec.speed_on(home.class_name) or 1.0
    devices = spec.demand.device_milli * home.replicas
    return Going(
        record.name, run_time(spec, speed), max(0.0, now_s - begun_s), devices, f"{home.cluster}/{home.pool}"
    )


def _coming(record: WorkloadRecord, snapshot: Snapshot) -> Coming:
    spec = record.spec
    speeds = {one.name: one.speed for one in spec.classes}
    pools = [pool for pool in snapshot.pools if pool.class_name in speeds]
    pools.sort(key=lambda pool: (-speeds[pool.class_name], pool.cluster, pool.name))
    best = speeds[pools[0].class_name] if pools else 1.0
    where = tuple(f"{pool.cluster}/{pool.name}" for pool in pools)
    return Coming(
        record.name, run_time(spec, best, record.status.done_s), spec.demand.device_milli * spec.size, where
    )


def _ratios(past: Sequence[WorkloadRecord]) -> list[float]:
    """Real over estimated run time of those that were done, oldest first."""
    found = []
    for record in sorted(past, key=lambda one: one.status.finished_s or 0.0):
        status, home = record.status, record.status.placement
        if status.phase is Phase.DONE and home and status.started_s and status.finished_s and record.spec.duration_s:
            speed = record.spec.speed_on(home.class_name) or 1.0
            found.append((status.finished_s - status.started_s) * speed / record.spec.duration_s)
    return found
