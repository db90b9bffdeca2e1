"""What a fleet could save, from its own record: spot, consolidation, right-sizing, off-hours.

Each figure is computed from what ran and what its pools cost; where the record does not say enough there is no
figure, only the reason. Called by `dure advise`. Linear in records and pools, times the hours of a week.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from dure.model.answer import PoolStatus
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, Instant, Micros, Seconds
from dure.model.workload import Placement, WorkloadRecord

HOURS_PER_MONTH = 730
_DAY_S = 24 * HOUR_S
_LEAST_S = 1 * HOUR_S
_OFFICE = range(8, 20)
_OFF_SHARE = 1 - 5 * len(_OFFICE) / 168


class Saving(msgspec.Struct, frozen=True):
    """`micros_per_month` None: the record does not tell, and `finding` says why."""

    name: str
    micros_per_month: Micros | None
    finding: str
    plan: tuple[str, ...] = ()


class Stay(msgspec.Struct, frozen=True):
    """One workload's time in a pool; `devices` of it."""

    record: WorkloadRecord
    home: Placement
    start_s: Instant
    end_s: Instant
    devices: float

    @property
    def hours(self) -> float:
        return (self.end_s - self.start_s) / HOUR_S


def savings(
    pools: Sequence[PoolStatus],
    records: Iterable[WorkloadRecord],
    now_s: Instant,
    offsets_h: Mapping[str, float] | None = None,
) -> list[Saving]:
    """In the order of the usual checklist. `offsets_h` are hours from UTC by cluster."""
    stays = _stays(records, now_s)
    span_s = _span_s(stays, now_s)
    if span_s < _LEAST_S:
        unknown = f"the record covers {span_s / 60:.0f} min; an hour is needed"
        return [Saving(name, None, unknown) for name in ("spot", "consolidation", "right-sizing", "off-hours")]
    return [
        _spot(pools, stays, span_s),
        _consolidation(pools, stays),
        _right_sizing(pools, stays, span_s),
        _off_hours(pools, stays, span_s, offsets_h or {}),
    ]


def recorded_s(records: Iterable[WorkloadRecord], now_s: Instant) -> Seconds:
    """How long the record is that a month is projected from."""
    return _span_s(_stays(records, now_s), now_s)


def _stays(records: Iterable[WorkloadRecord], now_s: Instant) -> list[Stay]:
    return [stay for record in records if (stay := _stay(record, now_s)) is not None]


def _span_s(stays: Sequence[Stay], now_s: Instant) -> Seconds:
    return now_s - min((stay.start_s for stay in stays), default=now_s)


def _stay(record: WorkloadRecord, now_s: Instant) -> Stay | None:
    status = record.status
    if status.placement is None or status.started_s is None:
        return None
    end_s = min(status.finished_s or now_s, now_s)
    devices = record.spec.demand.device_milli / 1000 * max(1, status.placement.replicas)
    return Stay(record, status.placement, status.started_s, max(end_s, status.started_s), devices)


def _price(pools: Sequence[PoolStatus], cluster: str, pool: str) -> Micros | None:
    return next((each.price_micros for each in pools if (each.cluster, each.name) == (cluster, pool)), None)


def _monthly(micros: float, span_s: Seconds) -> Micros:
    return round(micros * HOURS_PER_MONTH * HOUR_S / span_s)


def _spot(pools: Sequence[PoolStatus], stays: Sequence[Stay], span_s: Seconds) -> Saving:
    """Interruptible work on on-demand nodes, at the spot price of their class, with this fleet's own rework."""
    spots = [pool for pool in pools if pool.capacity is Capacity.SPOT and pool.price_micros is not None]
    if not spots:
        return Saving("spot", None, "no pool of the fleet has a spot price")
    ran = [stay for stay in stays if stay.home.capacity is Capacity.SPOT]
    hours = sum(stay.hours for stay in ran)
    reclaims = sum(stay.record.status.restarts for stay in ran) / hours if hours else 0.0
    saved, moved = 0.0, []
    for stay in stays:
        if stay.home.capacity is not Capacity.ON_DEMAND or not stay.record.spec.interruptible:
            continue
        now = _price(pools, stay.home.cluster, stay.home.pool)
        offers = [pool.price_micros for pool in spots if pool.class_name == stay.home.class_name]
        if now is None or not offers:
            continue
        rework = reclaims * max(stay.record.spec.checkpoint_s, 60.0) / 2 / HOUR_S
        gain = now - min(offer for offer in offers if offer is not None) * (1 + rework)
        if gain > 0:
            saved += gain * stay.devices * stay.hours
            moved.append(stay.record.name)
    finding = (
        f"{len(moved)} interruptible workloads ran on demand where a spot pool of their class exists; "
        f"this fleet's spot runs were interrupted {reclaims:.3f} times an hour"
    )
    plan = tuple(f"let '{name}' use spot: it is interruptible already" for name in sorted(moved)[:3])
    return Saving("spot", _monthly(saved, span_s), finding, plan)


def _consolidation(pools: Sequence[PoolStatus], stays: Sequence[Stay]) -> Saving:
    """Rented nodes beyond the most that was ever in use."""
    saved, plan, idle = 0, [], 0
    for pool in _rented(pools):
        keep = _nodes(pool, _peak(_in(stays, pool)))
        spare = pool.nodes - keep
        if spare > 0 and pool.price_micros:
            idle += spare
            saved += spare * (pool.devices // pool.nodes) * pool.price_micros
            plan.append(
                f"{pool.cluster}/{pool.name}: {pool.nodes} nodes, at most {keep} were needed; set nodes to {keep}"
            )
    return Saving("consolidation", saved * HOURS_PER_MONTH, f"{idle} rented nodes were never needed", tuple(plan))


def _right_sizing(pools: Sequence[PoolStatus], stays: Sequence[Stay], span_s: Seconds) -> Saving:
    """The same work on the accepted class whose device-hour costs least for its speed."""
    saved, plan = 0.0, []
    for stay in stays:
        spec = stay.record.spec
        speed, now = spec.speed_on(stay.home.class_name), _price(pools, stay.home.cluster, stay.home.pool)
        if not speed or now is None:
            continue
        offers = [
            (pool.price_micros / accepted.speed, f"{pool.cluster}/{pool.name}")
            for accepted in spec.classes
            for pool in pools
            if pool.class_name == accepted.name and pool.price_micros is not None and accepted.speed > 0
            if pool.capacity is stay.home.capacity
        ]
        best, where = min(offers, default=(now / speed, ""))
        gain = (now / speed - best) * speed * stay.devices * stay.hours
        if gain > 0:
            saved += gain
            plan.append((gain, f"'{stay.record.name}' costs {1 - best / (now / speed):.0%} less per work on {where}"))
    best_first = tuple(text for _, text in sorted(plan, key=lambda each: (-each[0], each[1]))[:3])
    return Saving("right-sizing", _monthly(saved, span_s), f"{len(plan)} workloads ran on a dearer class", best_first)


def _off_hours(
    pools: Sequence[PoolStatus], stays: Sequence[Stay], span_s: Seconds, offsets_h: Mapping[str, float]
) -> Saving:
    """Rented nodes that only the working day needs."""
    if span_s < _DAY_S:
        return Saving("off-hours", None, f"the record covers {span_s / HOUR_S:.0f} h; a day is needed")
    saved, plan = 0.0, []
    for pool in _rented(pools):
        inside = _in(stays, pool)
        off = [cut for stay in inside for cut in _off_parts(stay, offsets_h.get(pool.cluster, 0.0))]
        day, night = _nodes(pool, _peak(inside)), _nodes(pool, _peak(off))
        if day > night and pool.price_micros:
            saved += (day - night) * (pool.devices // pool.nodes) * pool.price_micros * _OFF_SHARE
            plan.append(
                f"{pool.cluster}/{pool.name}: {night} instead of {day} nodes from 20:00 to 08:00 and at weekends"
            )
    finding = f"{len(plan)} rented pools need fewer nodes outside of working hours"
    return Saving("off-hours", round(saved * HOURS_PER_MONTH), finding, tuple(plan))


def _rented(pools: Sequence[PoolStatus]) -> list[PoolStatus]:
    return [pool for pool in pools if pool.capacity is not Capacity.OWNED and pool.nodes > 0]


def _in(stays: Sequence[Stay], pool: PoolStatus) -> list[Stay]:
    return [stay for stay in stays if (stay.home.cluster, stay.home.pool) == (pool.cluster, pool.name)]


def _nodes(pool: PoolStatus, devices: float) -> int:
    return min(pool.nodes, math.ceil(devices / max(1, pool.devices // pool.nodes) - 1e-9))


def _peak(stays: Iterable[Stay]) -> float:
    """The most devices in use at one moment; an end comes before a start at the same instant."""
    changes = [(stay.start_s, 1, stay.devices) for stay in stays] + [(stay.end_s, 0, -stay.devices) for stay in stays]
    most = used = 0.0
    for _, _, change in sorted(changes):
        used += change
        most = max(most, used)
    return most


def _off_parts(stay: Stay, offset_h: float) -> list[Stay]:
    """The hours of a stay that lie outside of working hours, local time."""
    parts = []
    first, last = int(stay.start_s // HOUR_S), math.ceil(stay.end_s / HOUR_S)
    # A week tells all: the pattern of hours repeats.
    for hour in range(first, min(last, first + 168)):
        local = hour + offset_h
        # The epoch began on a Thursday.
        weekday = int(local // 24 + 3) % 7
        if weekday >= 5 or int(local % 24) not in _OFFICE:
            start_s, end_s = max(stay.start_s, hour * HOUR_S), min(stay.end_s, (hour + 1) * HOUR_S)
            parts.append(msgspec.structs.replace(stay, start_s=start_s, end_s=end_s))
    return parts
