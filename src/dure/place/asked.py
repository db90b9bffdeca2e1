"""Which of those who run are asked whether they stand aside, and what each would be if it had stopped.

Called by `rearrange`. Training and batch that may be interrupted and may wait, with checkpoints and enough slack: who
could not be in time after an interruption by a slow run is not asked, so that nobody is made late. Not those on
spot (nobody can promise it spot later, and its own rule decides there), nor an elastic gang at another size than its
smallest, nor anybody soon after a move. The first look is by rough prices, and keeps nearly everybody out of the
plan: a fleet in which nobody is in a hurry pays for no more. O(running x _HURRIED). Under `always` all are asked who
are in somebody's way, or for whom any start is cheaper: O(kinds of running x waiting).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, Instant, Milli, Seconds
from dure.model.workload import Phase, Placement, WorkloadRecord
from dure.place.bill import run_time
from dure.place.candidate import may_wait
from dure.place.filters import static_clash
from dure.place.hours import spans
from dure.place.instance import Floats
from dure.place.moves import cools, movable
from dure.place.option import Home, Option, options, world_of
from dure.place.room import PoolRoom
from dure.place.settings import HALF, PlaceSettings, StandAside
from dure.place.spans import expected_end, past_help

# One that should be done within this long is left alone.
_TOO_SHORT_S: Seconds = 1800.0
# Nobody is asked for the sake of those who can wait for longer than this: room may come free by itself.
SOON_S: Seconds = 3 * HOUR_S
# In a long queue the first look is at so many, those with the earliest deadlines.
_HURRIED = 100


def asked_of(
    snapshot: Snapshot, able: Sequence[WorkloadRecord], waiting: Sequence[WorkloadRecord], settings: PlaceSettings
) -> list[WorkloadRecord]:
    """Those of `able` for whom it may be worth while: others would be late behind them, or a much cheaper hour is
    ahead where they are. The most work left first."""
    look = _Look(snapshot, settings)
    if settings.stand_aside is StandAside.ALWAYS:
        wanted = _wanted(able, waiting)
        found = [one for one in able if one.uid in wanted or look.is_cheaper_anywhere(one)]
        return sorted(found, key=lambda one: (-_work_left(one), one.name))
    hurried = [one for one in waiting if one.spec.deadline_s is not None and not past_help(one, snapshot.now_s)]
    hurried = sorted(hurried, key=lambda one: (_due(one), one.name))[:_HURRIED]
    found = [one for one in able if look.in_the_way(one, hurried) or look.is_cheaper_later(one)]
    return sorted(found, key=lambda one: (-_work_left(one), one.name))


def hosts_of(
    snapshot: Snapshot,
    able: Sequence[WorkloadRecord],
    new: Sequence[tuple[WorkloadRecord, Placement]],
    settings: PlaceSettings,
) -> list[WorkloadRecord]:
    """Those of `able` who run where one of `new` would rather be than in the home that it was given: devices cost
    less there. The most work left first."""
    look = _Look(snapshot, settings)
    found = [
        one for one in able if any(comes_first(guest, one) and look.is_dearer(guest, at, one) for guest, at in new)
    ]
    return sorted(found, key=lambda one: (-_work_left(one), one.name))


def comes_first(guest: WorkloadRecord, runner: WorkloadRecord) -> bool:
    """Whether the runner may be asked to leave for it. Nobody pays for another tenant, but for a higher priority."""
    one, other = guest.spec, runner.spec
    return one.priority > other.priority or (one.priority == other.priority and one.tenant == other.tenant)


def may_be_asked(record: WorkloadRecord, snapshot: Snapshot, settings: PlaceSettings) -> bool:
    spec, home = record.spec, record.status.placement
    if home is None or spec.deadline_s is None or not spec.interruptible or not may_wait(record):
        return False
    if not movable(record) or home.capacity is Capacity.SPOT or home.replicas != spec.size_on(home.class_name):
        return False
    if not _is_known(snapshot, home) or cools(record, snapshot.now_s, settings):
        return False
    return (
        _run_s(record, home.class_name) >= _TOO_SHORT_S and latest_start(record, snapshot, settings) > snapshot.now_s
    )


def latest_start(
    record: WorkloadRecord, snapshot: Snapshot, settings: PlaceSettings, others: Sequence[Option] = ()
) -> Instant:
    """By when one that stands aside must be planned to go on, even if its run is a slow one: within half of its
    slack, so that it may wait for as long again in a home like its present one, or, by the policy, later if it could
    still start then in one of `others`, which have plenty of room."""
    spec, home = record.spec, record.status.placement
    assert home is not None
    assert spec.deadline_s is not None
    due_s, again_s = record.status.submitted_s + spec.deadline_s, interruption(record, snapshot)
    left_s = _run_s(record, home.class_name) + again_s
    found = [settings.latest_start(snapshot.now_s, due_s, left_s, safe=False)]
    for other in others if settings.slack_share > HALF else ():
        left_s = _run_s(record, other.pool.class_name) + again_s + other.pool.boot_s
        found.append(settings.latest_start(snapshot.now_s, due_s, left_s, safe=True))
    return max(found)


def stopped(record: WorkloadRecord, snapshot: Snapshot) -> WorkloadRecord:
    """As if it waited. What an interruption costs is work done again: in its bill, its room and its deadline."""
    done_s = record.status.done_s - interruption(record, snapshot)
    status = replace(record.status, phase=Phase.PENDING, placement=None, held=(), done_s=done_s)
    return replace(record, status=status)


def interruption(record: WorkloadRecord, snapshot: Snapshot) -> Seconds:
    """Of the next run that does no new work: loading, and half a checkpoint interval done again."""
    return snapshot.catalogue.load_s(record.spec.model) + record.spec.checkpoint_s / 2


def _is_known(snapshot: Snapshot, home: Placement) -> bool:
    cluster, where = snapshot.cluster(home.cluster), (home.cluster, home.pool)
    if cluster is None or not cluster.reachable:
        return False
    reported = any((pool.cluster, pool.name) == where for pool in snapshot.pools)
    return reported and any((tariff.cluster, tariff.pool) == where for tariff in snapshot.tariffs)


def _work_left(record: WorkloadRecord) -> float:
    """Device-seconds on the first accepted class."""
    spec = record.spec
    return spec.demand.device_milli * spec.size * max(0.0, spec.duration_s - record.status.done_s)


def _due(record: WorkloadRecord) -> Instant:
    return record.status.submitted_s + (record.spec.deadline_s or 0.0)


class _Look:
    """A first look by rough prices: of device-hours, what running costs and being late, no terms of a bill."""

    def __init__(self, snapshot: Snapshot, settings: PlaceSettings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.world = world_of(snapshot, settings.horizon_h)
        self.homes = {(home.pool.cluster, home.pool.name): home for home in self.world.homes}
        self.rooms = {(pool.cluster, pool.name): PoolRoom(pool) for pool in snapshot.pools}
        self._sums: dict[tuple[str, str], Floats] = {}
        self._others: dict[str, float] = {}

    def in_the_way(self, runner: WorkloadRecord, waiting: Sequence[WorkloadRecord]) -> bool:
        """Whether those who wait (by deadline) lose more than the runner's interruption costs: by being late in its
        place, one behind the other once it has ended, or by what they pay elsewhere instead."""
        home, end_s = runner.status.placement, expected_end(runner, 1.0, self.snapshot.now_s)
        assert home is not None
        assert end_s is not None
        where, width = (home.cluster, home.pool), runner.spec.demand.device_milli * home.replicas
        rate, lost = float(self._sum(where)[1]), 0.0
        for guest in waiting:
            need, run_s = _need(guest, runner, self.rooms[where], width), _run_s(guest, home.class_name)
            latest_s = _due(guest) - self.settings.duration_high * run_s
            if need and latest_s < self.snapshot.now_s + SOON_S:
                end_s += run_s * min(1.0, need / width)
                late = self.settings.late_hour_factor * max(0.0, end_s - _due(guest))
                lost += min(late * need * rate, self._elsewhere(guest) - run_s * need * rate)
        left_s = self.settings.move_threshold * _run_s(runner, home.class_name) + interruption(runner, self.snapshot)
        return lost > width * left_s * rate

    def is_cheaper_later(self, record: WorkloadRecord) -> bool:
        """Whether a later start where it is would cost less by the threshold, the interruption left out."""
        home = record.status.placement
        assert home is not None
        sums = self._sum((home.cluster, home.pool))
        hours = max(1, min(len(sums) - 2, round(_run_s(record, home.class_name) / HOUR_S)))
        runs = sums[hours:] - sums[:-hours]
        return bool(runs[1:].min() < (1.0 - self.settings.move_threshold) * runs[0])

    def is_cheaper_anywhere(self, record: WorkloadRecord) -> bool:
        """Whether any start, here later or anywhere else, would cost less by the threshold, the interruption and all
        that a move costs left out."""
        home, spec = record.status.placement, record.spec
        assert home is not None
        stay = self._least(record, (home.cluster, home.pool), home.class_name, now=True)
        return any(
            self._least(record, where, other.pool.class_name) < (1.0 - self.settings.move_threshold) * stay
            for where, other in self.homes.items()
            if spec.speed_on(other.pool.class_name) and other.pool.capacity is not Capacity.SPOT
        )

    def is_dearer(self, guest: WorkloadRecord, given: Placement, host: WorkloadRecord) -> bool:
        """Whether the home that was given to the guest costs it more than the host's would."""
        home = host.status.placement
        assert home is not None
        if not guest.spec.speed_on(home.class_name) or (given.cluster, given.pool) not in self.homes:
            return False
        there = self._least(guest, (home.cluster, home.pool), home.class_name, now=True)
        return there < self._least(guest, (given.cluster, given.pool), given.class_name, now=True)

    def _least(self, record: WorkloadRecord, where: tuple[str, str], class_name: str, *, now: bool = False) -> float:
        """What the rest costs there from now on, or from the cheapest hour on."""
        sums, devices = self._sum(where), record.spec.size_on(class_name)
        hours = max(1, min(len(sums) - 2, round(_run_s(record, class_name) / HOUR_S)))
        runs = sums[hours:] - sums[:-hours]
        return devices * float(runs[0] if now else runs.min())

    def _elsewhere(self, guest: WorkloadRecord) -> float:
        """What it costs where it could start now and is not lost, in the units of `in_the_way`; nothing found:
        infinite."""
        known = self._others.get(guest.uid)
        if known is None:
            open_now = (
                option
                for option in options(guest.spec, self.world, self.snapshot.now_s)
                if option.pool.capacity is not Capacity.SPOT and self._takes(option, guest)
            )
            known = self._others[guest.uid] = min(
                (
                    float(self._sum((option.pool.cluster, option.pool.name))[1])
                    * _run_s(guest, option.pool.class_name)
                    * guest.spec.demand.device_milli
                    * option.replicas
                    for option in open_now
                ),
                default=float("inf"),
            )
        return known

    def _takes(self, option: Option, guest: WorkloadRecord) -> bool:
        room = self.rooms[option.pool.cluster, option.pool.name]
        if not option.speed or room.fitting(guest.spec.demand) < option.replicas:
            return False
        return static_clash(guest.spec, option, guest.spec.demand, self.snapshot) is None

    def _sum(self, where: tuple[str, str]) -> Floats:
        """What a device costs from now until each hour ahead."""
        if where not in self._sums:
            rates = _rates(self.homes[where], self.snapshot, self.settings.horizon_h)
            self._sums[where] = np.concatenate(([0.0], np.cumsum(rates)))
        return self._sums[where]


def _wanted(able: Sequence[WorkloadRecord], waiting: Sequence[WorkloadRecord]) -> set[str]:
    """Those whose class somebody wants who comes first: nobody else can have a guest, whatever anything costs."""
    known: dict[tuple[str, str, int], bool] = {}
    found: set[str] = set()
    for one in able:
        home = one.status.placement
        assert home is not None
        kind = (home.class_name, one.spec.tenant, one.spec.priority)
        if kind not in known:
            known[kind] = any(guest.spec.speed_on(home.class_name) and comes_first(guest, one) for guest in waiting)
        if known[kind]:
            found.add(one.uid)
    return found


def _need(guest: WorkloadRecord, runner: WorkloadRecord, room: PoolRoom, width: Milli) -> Milli:
    """What the guest lacks in the runner's pool and would have if the runner left; 0 if that is not so."""
    spec, class_name = guest.spec, room.pool.class_name
    if not spec.speed_on(class_name) or not comes_first(guest, runner):
        return 0
    size = spec.size_on(class_name)
    need = spec.demand.device_milli * size
    return need if need <= room.free_milli + width and room.fitting(spec.demand) < size else 0


def _run_s(record: WorkloadRecord, class_name: str) -> Seconds:
    return run_time(record.spec, record.spec.speed_on(class_name) or 1.0, record.status.done_s)


def _rates(home: Home, snapshot: Snapshot, hours: int) -> Floats:
    """Of each hour ahead, power and carbon included."""
    each = spans((snapshot.now_s // HOUR_S + np.arange(hours, dtype=np.float64)) * HOUR_S, HOUR_S)
    price = home.series.price.over(each) if home.series.price else np.zeros(hours)
    kwh = home.profile.peak_w * home.cluster.pue / 1000
    power = home.series.electricity.over(each) if home.series.electricity else np.zeros(hours)
    grams, _ = home.series.carbon.mean(each, home.unknown_g_per_kwh)
    rate = snapshot.rates.convert(1_000_000, home.tariff.currency) / 1_000_000
    return np.asarray((price + kwh * power) * rate + kwh * grams / 1000 * snapshot.carbon_micros_per_kg)
