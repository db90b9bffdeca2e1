"""A long queue is decided by its heads: of many that are alike only as many are looked at as could be let in.

Called by `plan` before anything is priced. Two workloads are kin when the same room decides about both. Of kin the
earlier submitted goes first, so whoever stands behind more of them than the fleet has room for cannot be let in
whatever is chosen; all of those get one answer. A queue that is no crowd is left as it is. O(waiting) for
the grouping, everything dear only for the heads. Not for use where somebody later in a queue may overtake kin.
"""

from __future__ import annotations

import msgspec

from dure.model.demand import on_class
from dure.model.units import WHOLE_MILLI, Instant, Milli
from dure.model.workload import WorkloadRecord
from dure.place.candidate import Cycle, may_wait
from dure.place.spans import past_help

# So few are quickly decided as they are.
CROWD = 200
# Some of every kin are looked at even where there is no room at all: they may take back what was lent.
LEAST = 16

Behind = dict[tuple[str, str], Milli]
_Records = tuple[WorkloadRecord, ...]


class Queue(msgspec.Struct, frozen=True):
    """`looked` are decided one by one. Each of `tails` is kin that stands behind them, in its order."""

    looked: _Records
    tails: tuple[_Records, ...] = ()

    @property
    def behind(self) -> Behind:
        """What the tails would take of the class that they like best, by tenant and class."""
        wanted: Behind = {}
        for tail in self.tails:
            spec = tail[0].spec
            key = spec.tenant, spec.classes[0].name
            wanted[key] = wanted.get(key, 0) + spec.demand.device_milli * spec.size * len(tail)
        return wanted


def queue_of(cycle: Cycle, waiting: _Records) -> Queue:
    if len(waiting) <= CROWD:
        return Queue(waiting)
    kin: dict[tuple[object, ...], list[WorkloadRecord]] = {}
    for record in waiting:
        kin.setdefault(_kin(record, cycle.snapshot.now_s), []).append(record)
    looked: list[WorkloadRecord] = []
    tails: list[_Records] = []
    for alike in kin.values():
        most = max(LEAST, _room_for(cycle, alike[0])) if len(alike) > LEAST else len(alike)
        if len(alike) > most:
            alike.sort(key=lambda one: (one.status.submitted_s, one.name, one.uid))
            tails.append(tuple(alike[most:]))
        looked += alike[:most]
    return Queue(tuple(looked), tuple(tails))


def _kin(record: WorkloadRecord, now_s: Instant) -> tuple[object, ...]:
    """Equal for those whom the same room suits, whoever of them comes first. How long they take does not matter
    where they can only start now."""
    spec = record.spec
    when = (spec.duration_s, spec.deadline_s, record.status.done_s) if may_wait(record) else ()
    return (
        spec.tenant, spec.priority, spec.type, spec.classes, spec.demand, spec.size, spec.regions, spec.share,
        spec.model, spec.dataset, spec.dataset_mib, spec.slo, when, past_help(record, now_s),
    )  # fmt: skip


def _room_for(cycle: Cycle, record: WorkloadRecord) -> int:
    """So many like this one fit at most: now, or in all hours to come for one that may wait."""
    spec, hours = record.spec, cycle.settings.horizon_h
    reference = cycle.snapshot.catalogue.accelerator(spec.classes[0].name)
    later, fitting = may_wait(record), 0
    for home in cycle.world.homes:
        pool = home.pool
        if spec.speed_on(pool.class_name) is None:
            continue
        need = on_class(spec.demand, home.profile, reference).device_milli * spec.size
        room = cycle.rooms[pool.cluster, pool.name].free_milli
        if later:
            room = max(room, max(pool.devices, pool.nodes_max * pool.devices_per_node) * WHOLE_MILLI) * hours
        # One that takes whatever is left counts as a thousandth.
        fitting += max(0, room) // max(1, need)
    return fitting
