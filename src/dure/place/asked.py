"""Which of those who run are asked whether they stand aside, and what each would be if it had stopped.

Called by `rearrange`. Training and batch that may be interrupted and may wait, with checkpoints and enough slack: who
could not be in time after an interruption by a slow run is not asked, so nobody in time is made late. Not those on
spot (nobody can promise it spot later, and its own rule decides there), nor an elastic gang at another size than its
smallest, nor anybody soon after a move. The first look is at classes and prices alone. O(running x pools).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, Instant, Seconds
from dure.model.workload import Phase, Placement, WorkloadRecord
from dure.place.bill import run_time
from dure.place.candidate import may_wait
from dure.place.hours import spans
from dure.place.instance import Floats
from dure.place.moves import cools, movable
from dure.place.option import Home, world_of
from dure.place.settings import PlaceSettings

# One that should be done within this long is left alone.
_TOO_SHORT_S: Seconds = 1800.0


def asked_of(
    snapshot: Snapshot, able: Sequence[WorkloadRecord], waiting: Sequence[WorkloadRecord], settings: PlaceSettings
) -> list[WorkloadRecord]:
    """Those of `able` who stand where somebody who waits might want to be, or all if one of them has a much cheaper
    hour ahead; the most work left first."""
    wanted = {accepted.name for one in waiting for accepted in one.spec.classes}
    found = [one for one in able if one.status.placement is not None and one.status.placement.class_name in wanted]
    if not found and _cheaper_ahead(snapshot, able, settings):
        found = list(able)
    return sorted(found, key=lambda one: (-_work_left(one), one.name))


def may_be_asked(record: WorkloadRecord, snapshot: Snapshot, settings: PlaceSettings) -> bool:
    spec, home = record.spec, record.status.placement
    if home is None or spec.deadline_s is None or not spec.interruptible or not may_wait(record):
        return False
    if not movable(record) or home.capacity is Capacity.SPOT or home.replicas != spec.size_on(home.class_name):
        return False
    if not _is_known(snapshot, home) or cools(record, snapshot.now_s, settings):
        return False
    left_s = run_time(spec, spec.speed_on(home.class_name) or 1.0, record.status.done_s)
    return left_s >= _TOO_SHORT_S and latest_start(record, snapshot, settings) > snapshot.now_s


def latest_start(record: WorkloadRecord, snapshot: Snapshot, settings: PlaceSettings) -> Instant:
    """By when one that stands aside must be planned to go on: after half of its slack, so that it may wait for as
    long again and would still be in time in a home like its present one, even if its run is a slow one."""
    spec, home = record.spec, record.status.placement
    assert home is not None
    assert spec.deadline_s is not None
    left_s = run_time(spec, spec.speed_on(home.class_name) or 1.0, record.status.done_s)
    again_s = settings.duration_high * (left_s + interruption(record, snapshot))
    return (snapshot.now_s + record.status.submitted_s + spec.deadline_s - again_s) / 2


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


def _cheaper_ahead(snapshot: Snapshot, able: Sequence[WorkloadRecord], settings: PlaceSettings) -> bool:
    """Whether a later start of one of them would cost less by the threshold, room and interruption left out."""
    hours = settings.horizon_h
    homes = [
        home
        for home in world_of(snapshot, hours).homes
        if home.cluster.reachable and home.pool.capacity is not Capacity.SPOT
    ]
    known = {(home.pool.cluster, home.pool.name): index for index, home in enumerate(homes)}
    table = [np.concatenate(([0.0], np.cumsum(_rates(home, snapshot, hours)))) for home in homes]
    return any(_saves_later(one, homes, known, table, settings) for one in able)


def _saves_later(
    record: WorkloadRecord, homes: Sequence[Home], known: dict[tuple[str, str], int], table: Sequence[Floats],
    settings: PlaceSettings,
) -> bool:  # fmt: skip
    home, spec = record.status.placement, record.spec
    own = known.get((home.cluster, home.pool)) if home is not None else None
    if own is None:
        return False
    stay = _runs(record, homes[own], table[own])[0]
    for other, running in zip(homes, table, strict=True):
        if spec.speed_on(other.pool.class_name):
            later = _runs(record, other, running)[1:]
            if len(later) and later.min() < (1.0 - settings.move_threshold) * stay:
                return True
    return False


def _runs(record: WorkloadRecord, home: Home, running: Floats) -> Floats:
    """What the rest of it costs a device there from each full hour on; of a rest beyond the table its mean."""
    rest_h = run_time(record.spec, record.spec.speed_on(home.pool.class_name) or 1.0, record.status.done_s) / HOUR_S
    hours = max(1, min(len(running) - 1, round(rest_h)))
    return np.asarray((running[hours:] - running[:-hours]) / hours * rest_h)


def _rates(home: Home, snapshot: Snapshot, hours: int) -> Floats:
    """What a device-hour costs there in each hour ahead, power and carbon included."""
    each = spans((snapshot.now_s // HOUR_S + np.arange(hours, dtype=np.float64)) * HOUR_S, HOUR_S)
    price = home.series.price.over(each) if home.series.price else np.zeros(hours)
    kwh = home.profile.peak_w * home.cluster.pue / 1000
    power = home.series.electricity.over(each) if home.series.electricity else np.zeros(hours)
    grams, _ = home.series.carbon.mean(each, home.unknown_g_per_kwh)
    rate = snapshot.rates.convert(1_000_000, home.tariff.currency) / 1_000_000
    return np.asarray((price + kwh * power) * rate + kwh * grams / 1000 * snapshot.carbon_micros_per_kg)
