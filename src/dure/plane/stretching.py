"""Elastic gangs: training that declares its speed by size grows into free devices and shrinks when others need them.

Called by the loop in every cycle. A gang takes another size just after a checkpoint, as a new generation of the same
home that begins from there; in that moment `place.elastic` shares what its pool's elastic gangs hold and what is free
among them. Sizes are never below the gang. What lies above is lent: whoever is held for want of room on the pool gets
it back, and nothing grows into what was promised to others. Nothing is kept here, so a new leader goes on at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.reason import Reason
from dure.model.report import Report
from dure.model.units import WHOLE_MILLI, Instant, Seconds
from dure.model.workload import Phase, SpeedUp, WorkloadType
from dure.place.bill import run_time
from dure.place.elastic import Choice, Wish, disturbed_s, shares
from dure.place.room import PoolRoom
from dure.plane.apply import Draft
from dure.plane.billing import billed
from dure.plane.observe import Observer
from dure.plane.promised import Where, between_sizes, rooms_left

# A gang that has found no room for its new size for this long takes what there is; long before patience ends.
STUCK_S: Seconds = 120.0
_ROOM = (Reason.NO_CAPACITY, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE)
_GROWS, _SHRINKS = "devices of its pool are free", "others on its pool gain more by them"
_WANTED, _STUCK = "others wait for devices of its pool", "the room it was to grow into is taken"


class Stretching:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def act(self, drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant) -> None:
        elastic = [draft for draft in drafts if _elastic(draft)]
        ripe = [draft for draft in elastic if _runs(draft) and draft.status.done_s > draft.before.status.done_s]
        stuck = [draft for draft in elastic if _stuck(draft, reports, now_s)]
        if not ripe and not stuck:
            return
        waiting = {draft.before.uid for draft in stuck}
        rooms = rooms_left((draft.record for draft in drafts if draft.before.uid not in waiting), reports)
        for draft in stuck:
            _resize(draft, _fitting(draft, rooms[_where(draft)]), _STUCK, now_s)
        sizes = self._sizes(ripe, elastic, drafts, rooms, now_s)
        other = [draft for draft in ripe if draft.before.uid in sizes]
        if other:
            billed(other, self._observer.snapshot(now_s, (), reports), every_s=0.0)
        for draft in other:
            _resize(draft, *sizes[draft.before.uid], now_s)

    def _sizes(
        self, ripe: Sequence[Draft], elastic: Sequence[Draft], drafts: Sequence[Draft], rooms: dict[Where, PoolRoom],
        now_s: Instant,
    ) -> dict[str, tuple[int, str]]:  # fmt: skip
        """Another size, and why, for those of `ripe` that should have one and for whom there is room now."""
        running = [draft for draft in elastic if _runs(draft)]
        lent: dict[Where, int] = {}
        for draft in running:
            lent[_where(draft)] = lent.get(_where(draft), 0) + _devices(draft, _size(draft) - draft.before.spec.gang)
        wanted = _wanted(drafts, rooms, lent)
        found: dict[str, tuple[int, str]] = {}
        for where in sorted({_where(draft) for draft in ripe} & rooms.keys()):
            here = [draft for draft in running if _where(draft) == where]
            chosen = self._shared(here, rooms[where], wanted.get(where, 0), now_s)
            for draft, size in zip(here, chosen, strict=True):
                if draft not in ripe or size == _size(draft):
                    continue
                more = size - _size(draft)
                if more < 0:
                    found[draft.before.uid] = size, _WANTED if wanted.get(where) else _SHRINKS
                elif _fits(draft, more, rooms[where]):
                    # Two that come to a checkpoint together must not grow into the same devices.
                    rooms[where].take(draft.before.spec.demand, more)
                    found[draft.before.uid] = size, _GROWS
        return found

    def _shared(self, here: Sequence[Draft], room: PoolRoom, wanted: int, now_s: Instant) -> list[int]:
        """The size that each gang of one pool should have when `wanted` devices are for others."""
        least = sum(_devices(draft, draft.before.spec.gang) for draft in here)
        held = sum(_devices(draft, _size(draft)) for draft in here)
        steps = [_steps(draft) for draft in here]
        wishes = [
            Wish(tuple(self._choice(draft, step, now_s) for step in sizes), least=0)
            for draft, sizes in zip(here, steps, strict=True)
        ]
        chosen = shares(wishes, [max(least, held + max(0, sum(room.free)) - wanted)])
        return [sizes[max(0, at)].replicas for sizes, at in zip(steps, chosen, strict=True)]

    def _choice(self, draft: Draft, step: SpeedUp, now_s: Instant) -> Choice:
        """A size that is another costs a start from the checkpoint. Every generation was a start."""
        left_s, devices = _left_s(draft) / step.speed, _devices(draft, step.replicas)
        if step.replicas == _size(draft):
            return Choice(0, devices, left_s)
        status = draft.status
        load_s = self._observer.catalogue.load_s(draft.before.spec.model)
        age_s = now_s - (now_s if status.started_s is None else status.started_s)
        return Choice(0, devices, disturbed_s(left_s, load_s, age_s, max(0, status.generation - 1)))


def _elastic(draft: Draft) -> bool:
    spec, status = draft.before.spec, draft.status
    if not spec.speedups or spec.type is WorkloadType.SERVING or spec.checkpoint_s <= 0:
        return False
    return status.placement is not None and status.leaving_s is None and not status.moving_to


def _runs(draft: Draft) -> bool:
    return draft.status.phase is Phase.RUNNING


def _stuck(draft: Draft, reports: Sequence[Report], now_s: Instant) -> bool:
    """Whether its cluster has known the larger size for a while and seated nobody."""
    home, uid = draft.status.placement, draft.before.uid
    if home is None or home.replicas <= draft.before.spec.gang or not between_sizes(draft.record):
        return False
    report = next((one for one in reports if one.cluster == home.cluster), None)
    seen = next((one for one in report.observed if one.uid == uid), None) if report is not None else None
    waits = seen is not None and seen.generation == home.generation and seen.pods > 0 and seen.bound == 0
    return waits and now_s - home.decided_s >= STUCK_S


def _wanted(drafts: Sequence[Draft], rooms: dict[Where, PoolRoom], lent: dict[Where, int]) -> dict[Where, int]:
    """Devices of each pool that are for those who are held for want of room there, if what is lent would do."""
    left = {where: max(0, sum(rooms[where].free)) + more for where, more in lent.items() if where in rooms}
    names = {rooms[where].where: where for where in left}
    wanted: dict[Where, int] = {}
    for draft in sorted((draft for draft in drafts if draft.status.phase.waits), key=_urgency):
        spec = draft.before.spec
        need = -(-spec.demand.device_milli * spec.size // WHOLE_MILLI)
        here = (names[one.where] for one in draft.status.held if one.reason in _ROOM and one.where in names)
        where = next((one for one in here if left[one] >= need), None)
        if where is not None:
            left[where] -= need
            wanted[where] = wanted.get(where, 0) + need
    return wanted


def _urgency(draft: Draft) -> tuple[int, Instant, str]:
    return -draft.before.spec.priority, draft.status.submitted_s, draft.before.name


def _steps(draft: Draft) -> list[SpeedUp]:
    """The gang itself, then every larger size that was measured."""
    gang = draft.before.spec.gang
    larger = sorted((one for one in draft.before.spec.speedups if one.replicas > gang), key=lambda one: one.replicas)
    return [SpeedUp(gang, 1.0), *larger]


def _fits(draft: Draft, more: int, room: PoolRoom) -> bool:
    demand = draft.before.spec.demand
    if demand.cpu_milli * more > room.cpu_milli or demand.host_memory_mib * more > room.host_memory_mib:
        return False
    return room.clash(demand, more, room.pool.largest_memory_mib) is None


def _fitting(draft: Draft, room: PoolRoom) -> int:
    """The largest size for which there is room, taken at once; the gang itself waits where there is none for it."""
    smaller = [step.replicas for step in _steps(draft) if step.replicas < _size(draft)]
    size = max((one for one in smaller if _fits(draft, one, room)), default=smaller[0])
    room.take(draft.before.spec.demand, size)
    return size


def _size(draft: Draft) -> int:
    home = draft.status.placement
    return home.replicas if home is not None else draft.before.spec.gang


def _devices(draft: Draft, replicas: int) -> int:
    return replicas * max(1, draft.before.spec.demand.devices)


def _left_s(draft: Draft) -> Seconds:
    home = draft.status.placement
    speed = (draft.before.spec.speed_on(home.class_name) if home else None) or 1.0
    return run_time(draft.before.spec, speed, draft.status.done_s)


def _where(draft: Draft) -> Where:
    home = draft.status.placement
    assert home is not None
    return home.cluster, home.pool


def _resize(draft: Draft, replicas: int, why: str, now_s: Instant) -> None:
    """Begun again from the checkpoint; patience with its cluster begins anew too."""
    home, status = draft.status.placement, draft.status
    assert home is not None
    decision = ScaleReplicas(draft.before.name, home.replicas, replicas, why)
    generation = status.generation + 1
    placement = replace(home, replicas=replicas, generation=generation, decided_s=now_s)
    draft.status = replace(status, phase=Phase.STARTING, ready=0, placement=placement, generation=generation)
    draft.entries += (JournalEntry(0, now_s, "", decision, draft.before.spec.tenant, home.cluster),)
