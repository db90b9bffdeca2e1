"""Expected start and finish of everything that waits or runs: records as `place.eta` wants them.

Called by the desk for `get`, `why`, `status` and the API, and by `foretelling`. What workloads of this fleet took
against their estimates in the last week says how long work takes; what came of what was foretold says how wide ranges
must be. A serving has a start and no finish.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dure.model.answer import Upcoming
from dure.model.eta import Eta
from dure.model.snapshot import Snapshot
from dure.model.units import WHOLE_MILLI, Instant
from dure.model.workload import Phase, WorkloadRecord, WorkloadType
from dure.place.bill import run_time
from dure.place.calibrate import Told, taught
from dure.place.eta import Book, Coming, Going, Situation, etas
from dure.place.trust import Past

# So many forecasts of each kind are held against what came of them: each costs some tens of microseconds.
_TAUGHT_BY = 1_000
# Of so many that ended last it is learnt how long work takes; more would tell hardly more.
LEARNED_FROM = 5_000


def etas_of(snapshot: Snapshot, past: Sequence[WorkloadRecord]) -> dict[str, Eta]:
    book = book_of((*past, *snapshot.records), snapshot.now_s)
    return etas(situation_of(snapshot), past_of(past), book, snapshot.seed)


def upcoming(records: Sequence[WorkloadRecord], found: dict[str, Eta], most: int) -> tuple[Upcoming, ...]:
    """Who should start next of those who wait, then who should end next of those who run."""
    known = [(record, eta) for record in records if (eta := found.get(record.name)) is not None]
    waiting = [Upcoming(record.name, eta) for record, eta in known if record.status.phase.waits]
    running = [Upcoming(record.name, eta) for record, eta in known if not record.status.phase.waits and eta.finish]
    waiting.sort(key=lambda one: (one.eta.start.middle_s, one.workload))
    running.sort(key=lambda one: (one.eta.finish.middle_s if one.eta.finish else 0.0, one.workload))
    return (*waiting[:most], *running[:most])


def situation_of(snapshot: Snapshot) -> Situation:
    capacity = {
        f"{pool.cluster}/{pool.name}": max(pool.nodes, pool.nodes_max) * pool.devices_per_node * WHOLE_MILLI
        for pool in snapshot.pools
    }
    now_s = snapshot.now_s
    running = [_going(record, now_s) for record in snapshot.records if record.status.placement is not None]
    waiting = [_coming(record, snapshot) for record in snapshot.records if record.status.placement is None]
    return Situation(running, waiting, capacity, now_s)


def past_of(ended: Iterable[WorkloadRecord]) -> list[Past]:
    """Real over estimated run time of those that were done, oldest first."""
    found = []
    for record in sorted(ended, key=lambda one: one.status.finished_s or 0.0):
        status, home = record.status, record.status.placement
        if status.phase is Phase.DONE and home and status.started_s and status.finished_s and record.spec.duration_s:
            speed = record.spec.speed_on(home.class_name) or 1.0
            took_s = (status.finished_s - status.started_s) * speed
            estimate_s = record.spec.duration_s / speed
            found.append(Past(_group(record), took_s / record.spec.duration_s, estimate_s, status.started_s))
    return found


def book_of(records: Iterable[WorkloadRecord], now_s: Instant) -> Book:
    """Everything that was foretold against what came of it, the newest of each kind."""
    start: list[Told] = []
    finish: list[Told] = []
    running: list[Told] = []
    for record in records:
        status = record.status
        if status.phase in (Phase.FAILED, Phase.CANCELLED):
            continue
        ended_s = status.finished_s if status.phase is Phase.DONE else None
        for said in status.foretold:
            if said.start is not None:
                start.append(Told(said.asked_s, said.start, status.started_s))
            if said.finish is not None:
                (running if said.start is None else finish).append(Told(said.asked_s, said.finish, ended_s))
    return Book(*(taught(_newest(kind), now_s) for kind in (start, finish, running)))


def _newest(told: list[Told]) -> list[Told]:
    return sorted(told, key=lambda one: one.asked_s)[-_TAUGHT_BY:]


def _going(record: WorkloadRecord, now_s: Instant) -> Going:
    home, spec, status = record.status.placement, record.spec, record.status
    assert home is not None
    begun_s = status.started_s if status.started_s is not None else max(now_s, home.start_s)
    speed = spec.speed_on(home.class_name) or 1.0
    return Going(
        record.name, run_time(spec, speed), max(0.0, now_s - begun_s), spec.demand.device_milli * home.replicas,
        f"{home.cluster}/{home.pool}", _group(record), spec.type is not WorkloadType.SERVING,
    )  # fmt: skip


def _coming(record: WorkloadRecord, snapshot: Snapshot) -> Coming:
    spec = record.spec
    speeds = {one.name: one.speed for one in spec.classes}
    pools = [pool for pool in snapshot.pools if pool.class_name in speeds]
    pools.sort(key=lambda pool: (-speeds[pool.class_name], pool.cluster, pool.name))
    best = speeds[pools[0].class_name] if pools else 1.0
    return Coming(
        record.name, run_time(spec, best, record.status.done_s), spec.demand.device_milli * spec.size,
        tuple(f"{pool.cluster}/{pool.name}" for pool in pools), _group(record),
        spec.type is not WorkloadType.SERVING, record.status.look_again_s or 0.0,
    )  # fmt: skip


def _group(record: WorkloadRecord) -> str:
    """Whose work it is, of which kind and about how wide: such work is alike."""
    return f"{record.spec.tenant}/{record.spec.type}/{record.spec.size.bit_length()}"
