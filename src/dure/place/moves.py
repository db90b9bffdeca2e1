"""Which running workloads should change their home, and which must leave spot while there is still time.

Called by `plane.moving` now and then. Three rules: the saving on the work that is left, the move itself counted, must
pass a threshold of the bill of staying; serving changes clusters only (its next home warms up beside it); training
needs checkpoints to move at. A first look at prices alone keeps nearly everybody out of the exact comparison. A
workload on spot whose deadline leaves just enough time for a home that is not taken back leaves whatever it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from dure.model.bill import Bill
from dure.model.decision import Move
from dure.model.demand import Demand
from dure.model.money import show
from dure.model.policy import Verb
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, WHOLE_MILLI, Instant, Micros, Seconds
from dure.model.workload import Phase, WorkloadRecord, WorkloadType
from dure.place.bill import Quote, move_price, quote, run_time
from dure.place.candidate import Candidate, Cycle, device_need
from dure.place.hours import spans
from dure.place.option import Home, Option
from dure.place.plan import placement_of
from dure.place.settings import PlaceSettings, settings_of
from dure.place.spot import Rent, SpotView, must_rent

# Prices and grids are compared over this long ahead in the first look.
_AHEAD_S = 6.0 * HOUR_S
# A workload that should be done within this long is left alone.
_TOO_SHORT_S = 1800.0
# A reclaim with less than this chance in what is left is no reason to leave.
_UNLIKELY = 0.1
# This part of a pool that cannot grow stays free for newcomers.
_KEPT_FREE = 0.25


class _Rate(NamedTuple):
    cluster: str
    pool: str
    class_name: str
    micros: float


def moves(
    snapshot: Snapshot, most: int, besides: frozenset[str] = frozenset(), *, guard_only: bool = False
) -> tuple[Move, ...]:
    """At most `most`, the largest saving first, for others than `besides`; every one fits beside the others.

    `guard_only` leaves savings alone: prices are what they were at the last look.
    """
    settled = [record for record in snapshot.records if movable(record) and record.name not in besides]
    if guard_only:
        settings = settings_of(snapshot.policy(Verb.PLACE))
        settled = [record for record in settled if leaves_spot(record, snapshot, settings)]
    if most <= 0 or not settled:
        return ()
    cycle = Cycle(snapshot, (), all_bills=True)
    rates = _rates(cycle)
    worth = [
        record
        for record in settled
        if leaves_spot(record, snapshot, cycle.settings)
        or (not cools(record, snapshot.now_s, cycle.settings) and _promising(record, rates, cycle.settings))
    ]
    found = [plan for record in worth if (plan := best_move(cycle, record)) is not None]
    found.sort(key=lambda plan: (-plan[0].saving, plan[0].workload))
    chosen: list[Move] = []
    by_name = {record.name: record for record in worth}
    for move, candidate in found:
        record = by_name[move.workload]
        if len(chosen) < most and cycle.now_clash(record, candidate) is None:
            cycle.take(record, candidate, move.placement.bill)
            chosen.append(move)
    return tuple(chosen)


def movable(record: WorkloadRecord) -> bool:
    """Runs, is not on its way already, and has something to go on from."""
    status, spec = record.status, record.spec
    if status.phase is not Phase.RUNNING or status.leaving_s is not None or status.incoming or status.moving_to:
        return False
    return spec.type is WorkloadType.SERVING or spec.checkpoint_s > 0


def cools(record: WorkloadRecord, now_s: Instant, settings: PlaceSettings) -> bool:
    moved_s = record.status.moved_s
    return moved_s is not None and now_s - moved_s < settings.move_cooldown_h * HOUR_S


def best_move(cycle: Cycle, record: WorkloadRecord, part: float = 1.0) -> tuple[Move, Candidate] | None:
    """The best move of one running workload if its saving passes `part` of the threshold, or the guard demands it."""
    stay = _staying(cycle, record)
    home = record.status.placement
    if stay is None or home is None:
        return None
    forced = leaves_spot(record, cycle.snapshot, cycle.settings)
    wanted = frozenset() if forced else _wanted_classes(cycle.snapshot)

    def worth_asking(option: Option, demand: Demand) -> bool:
        if not _allowed(record, option):
            return False
        if forced:
            return option.pool.capacity is not Capacity.SPOT
        # Scarce room is for those who come: what one who runs saves by it, the next one pays.
        return option.pool.class_name not in wanted and _plenty(option, demand)

    others = [one for one in cycle.candidates(record, worth_asking) if one.quote and not one.now_clash]
    if not others:
        return None
    priced = [(_with_move(cycle, record, one), one) for one in others]
    bill, best = min(priced, key=lambda pair: (pair[0].total, pair[0].carbon_g, pair[1].where))
    saving = stay.bill(0).total - bill.total
    needed = part * cycle.settings.move_threshold * max(0, stay.bill(0).total)
    if not forced and (saving <= needed or saving <= 0 or cools(record, cycle.snapshot.now_s, cycle.settings)):
        return None
    why = _guarded(best) if forced else _because(best, saving)
    return Move(record.name, placement_of(record, best, bill, cycle.snapshot), saving, why), best


def _plenty(option: Option, demand: Demand) -> bool:
    """Whether a part of the pool stays free after the move, or more of it can be had."""
    pool = option.pool
    left = pool.free_milli - device_need(option, demand)
    return pool.nodes_max > pool.nodes or left >= _KEPT_FREE * pool.devices * WHOLE_MILLI


def _wanted_classes(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(
        accepted.name
        for record in snapshot.records
        if record.status.phase.waits and not record.status.moving_to
        for accepted in record.spec.classes
    )


def leaves_spot(record: WorkloadRecord, snapshot: Snapshot, settings: PlaceSettings) -> bool:
    """The deadline guard: with one more look, a loss there would leave too little time elsewhere."""
    home, spec = record.status.placement, record.spec
    if home is None or home.capacity is not Capacity.SPOT or spec.deadline_s is None:
        return False
    if spec.type is WorkloadType.SERVING:
        return False
    left_s = record.status.submitted_s + spec.deadline_s - snapshot.now_s
    speed = spec.speed_on(home.class_name) or 1.0
    work_s = settings.careful * run_time(spec, speed, record.status.done_s)
    tariff = next((one for one in snapshot.tariffs if (one.cluster, one.pool) == (home.cluster, home.pool)), None)
    if tariff is None or tariff.reclaim_per_hour * work_s / HOUR_S < _UNLIKELY:
        return False
    if left_s < work_s:
        # Too late by any home of this speed: leaving would only add a restart.
        return False
    restart_s = snapshot.catalogue.load_s(spec.model) + _slowest_boot(snapshot)
    view = SpotView(left_s, work_s, True, Rent.SPOT, restart_s, look_s=spec.checkpoint_s, price=1.0)
    return must_rent(view)


def _slowest_boot(snapshot: Snapshot) -> Seconds:
    return max((pool.boot_s for pool in snapshot.pools if pool.capacity is not Capacity.SPOT), default=0.0)


def _allowed(record: WorkloadRecord, option: Option) -> bool:
    home = record.status.placement
    assert home is not None
    if record.spec.type is WorkloadType.SERVING:
        return option.pool.cluster != home.cluster
    return option.where != f"{home.cluster}/{home.pool}"


def _staying(cycle: Cycle, record: WorkloadRecord) -> Quote | None:
    """The bill of going on where it is, from now."""
    home, spec, now_s = record.status.placement, record.spec, cycle.snapshot.now_s
    own = next(
        (one for one in cycle.world.homes if home and (one.pool.cluster, one.pool.name) == (home.cluster, home.pool)),
        None,
    )
    if own is None or home is None or not own.cluster.reachable:
        return None
    speed = spec.speed_on(own.pool.class_name) or 1.0
    if spec.type is not WorkloadType.SERVING and run_time(spec, speed, record.status.done_s) < _TOO_SHORT_S:
        return None
    option = Option(
        own.cluster, own.pool, own.tariff, own.profile, own.series, own.unknown_g_per_kwh, speed, now_s, spec.size
    )
    starts = np.array([now_s])
    submitted_s = record.status.submitted_s
    return quote(spec, option, cycle.snapshot, cycle.settings, submitted_s, starts, done_s=record.status.done_s)


def _with_move(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> Bill:
    """The bill there with the move: the new home loads while, for a serving, the old one is still paid."""
    load_s = cycle.snapshot.catalogue.load_s(record.spec.model)
    idle_s = load_s + (candidate.option.pool.boot_s if candidate.option.start_s > cycle.snapshot.now_s else 0.0)
    cost: Micros = move_price(record.spec, candidate.option, idle_s, cycle.snapshot.rates)
    return msgspec.structs.replace(candidate.bill(0), migration=cost)


def _rates(cycle: Cycle) -> list[_Rate]:
    """What a device-hour costs in each pool over the next hours, power and carbon included."""
    return [
        _Rate(home.pool.cluster, home.pool.name, home.pool.class_name, _rate(home, cycle.snapshot))
        for home in cycle.world.homes
        if home.cluster.reachable
    ]


def _rate(home: Home, snapshot: Snapshot) -> float:
    ahead = spans(np.array([snapshot.now_s]), _AHEAD_S)
    price = float(home.series.price.over(ahead)[0]) / ahead.hours if home.series.price else 0.0
    kwh = home.profile.peak_w * home.cluster.pue / 1000
    power = float(home.series.electricity.over(ahead)[0]) / ahead.hours if home.series.electricity else 0.0
    grams, _ = home.series.carbon.mean(ahead, home.unknown_g_per_kwh)
    rented = snapshot.rates.convert(round(price + kwh * power), home.tariff.currency)
    return rented + kwh * float(grams[0]) / 1000 * snapshot.carbon_micros_per_kg


def _promising(record: WorkloadRecord, rates: Sequence[_Rate], settings: PlaceSettings) -> bool:
    """Whether any pool is cheaper for the same work by the threshold."""
    home, spec = record.status.placement, record.spec
    if home is None:
        return False
    own = next((one for one in rates if (one.cluster, one.pool) == (home.cluster, home.pool)), None)
    if own is None:
        return False
    speeds = {accepted.name: accepted.speed for accepted in spec.classes if accepted.speed > 0}
    most = own.micros / speeds.get(own.class_name, 1.0) * (1.0 - settings.move_threshold)
    return any(one.micros / speeds[one.class_name] < most for one in rates if one.class_name in speeds)


def _because(candidate: Candidate, saving: Micros) -> Verdict:
    return Verdict(candidate.where, Reason.MOVED, detail=f"saves {show(saving)} with the move counted")


def _guarded(candidate: Candidate) -> Verdict:
    return Verdict(candidate.where, Reason.DEADLINE_AT_RISK, detail="a reclaim now would make it late")
