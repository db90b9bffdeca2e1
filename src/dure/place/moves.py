"""Which running workloads should change their home, and which must leave spot while there is still time.

Called by `plane.moving` now and then. Three rules: the saving on the work that is left, the move itself counted, must
pass a threshold of the bill of staying; serving changes clusters only (its next home warms up beside it); training
needs checkpoints to move at. A first look at prices alone keeps nearly everybody out of the exact comparison.

Between spot and what is not taken back `spot_rule` decides for those with a deadline: who is on spot leaves it in
time whatever that costs; who is not goes to spot for any saving, since the rule has counted launches and losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from dure.model.bill import Bill
from dure.model.decision import Hold, Move
from dure.model.demand import Demand
from dure.model.money import show
from dure.model.policy import Verb
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, Instant, Micros
from dure.model.workload import Phase, WorkloadRecord, WorkloadType
from dure.place.bill import Quote, move_price
from dure.place.candidate import Candidate, Cycle, governed, plenty
from dure.place.hours import spans
from dure.place.option import Home, Option
from dure.place.plan import placement_of
from dure.place.settings import PlaceSettings, settings_of
from dure.place.spot import Rent
from dure.place.spot_rule import (
    Ruling,
    home_of,
    is_down,
    learned_rework,
    may_take,
    running_rule,
    short_of_slack,
    staying,
)

# Prices and grids are compared over this long ahead in the first look.
_AHEAD_S = 6.0 * HOUR_S
# A workload that should be done within this long is left alone.
_TOO_SHORT_S = 1800.0
# For a first look at whether anything at all is saved.
_ANY = PlaceSettings(move_threshold=0.0)


class _Rate(NamedTuple):
    cluster: str
    pool: str
    class_name: str
    micros: float
    spot: bool = False


def changes(
    snapshot: Snapshot, most: int, besides: frozenset[str] = frozenset(), *, rule_only: bool = False
) -> tuple[Move | Hold, ...]:
    """At most `most`, those with a deadline at risk first, then by their saving, for others than `besides`; every one
    fits beside the others. Last come those who should stop and wait for spot.

    `rule_only` leaves all to the rule of spot: prices are what they were at the last look, or nobody asked for more.
    """
    settings = settings_of(snapshot.policy(Verb.PLACE))
    market = any(pool.capacity is Capacity.SPOT for pool in snapshot.pools)
    settled = [
        record
        for record in snapshot.records
        if movable(record) and record.name not in besides and not (rule_only and not governed(record, settings))
    ]
    if most <= 0 or not settled or (rule_only and not market):
        return ()
    cycle = Cycle(snapshot, (), all_bills=True)
    rates, wanted = _rates(cycle), _wanted_classes(snapshot) if rule_only else frozenset()
    worth = [
        record
        for record in settled
        if (market and _ruled(cycle, record, rates, wanted))
        or not (
            rule_only
            or cools(record, snapshot.now_s, cycle.settings)
            or not _promising(record, rates, cycle.settings)
        )
    ]
    stands = {record.name: stand_of(cycle, record) for record in worth}
    plans = (best_move(cycle, record, rule_only=rule_only, stand=stands[record.name]) for record in worth)
    found = [plan for plan in plans if plan is not None]
    found.sort(key=lambda plan: (not _at_risk(plan[0]), -plan[0].saving, plan[0].workload))
    chosen: list[Move] = []
    by_name = {record.name: record for record in worth}
    for move, candidate in found:
        record = by_name[move.workload]
        if len(chosen) < most and cycle.now_clash(record, candidate) is None:
            cycle.take(record, candidate, move.placement.bill)
            chosen.append(move)
    moved = {move.workload for move in chosen}
    waits = [gives_up(record, stands[record.name]) for record in worth if market and record.name not in moved]
    return (*chosen, *[one for one in waits if one is not None][: most - len(chosen)])


def movable(record: WorkloadRecord) -> bool:
    """Runs, is not on its way already, and has something to go on from."""
    status, spec = record.status, record.spec
    if status.phase is not Phase.RUNNING or status.leaving_s is not None or status.incoming or status.moving_to:
        return False
    return spec.type is WorkloadType.SERVING or spec.checkpoint_s > 0


def cools(record: WorkloadRecord, now_s: Instant, settings: PlaceSettings) -> bool:
    moved_s = record.status.moved_s
    return moved_s is not None and now_s - moved_s < settings.move_cooldown_h * HOUR_S


class Stand(NamedTuple):
    """Where a running workload is, what going on there costs, and what the rule of spot says about it."""

    home: Option
    stay: Quote
    ruling: Ruling | None


def stand_of(cycle: Cycle, record: WorkloadRecord) -> Stand | None:
    """Nothing where its pool is unknown or away."""
    home = home_of(cycle, record)
    if home is None:
        return None
    stay = staying(cycle, record, home)
    return Stand(home, stay, running_rule(cycle, record, home, stay) if governed(record, cycle.settings) else None)


def best_move(
    cycle: Cycle, record: WorkloadRecord, part: float = 1.0, *, stand: Stand | None, rule_only: bool = False
) -> tuple[Move, Candidate] | None:
    """The best move of one running workload if its saving passes `part` of the threshold, or the rule asks for it."""
    if stand is None:
        return None
    home, stay, ruling = stand
    on_spot = home.pool.capacity is Capacity.SPOT
    if ruling is not None and on_spot and ruling.rent is Rent.ON_DEMAND:
        return _cheapest(cycle, record, stand, _off_spot(cycle, record), leaves=True)
    by_rule = rule_only or stay.run_s < _TOO_SHORT_S
    if ruling is not None and not on_spot and ruling.view.up:
        # Whether there is anything to win is sooner known than what the rule says.
        hop = _cheapest(cycle, record, stand, _onto_spot(cycle, record))
        if (hop is not None or not by_rule) and ruling.rent is Rent.SPOT:
            return hop
    if by_rule or cools(record, cycle.snapshot.now_s, cycle.settings):
        return None
    found = _cheapest(cycle, record, stand, _elsewhere(cycle, record, on_spot))
    needed = part * cycle.settings.move_threshold * max(0, stay.bill(0).total)
    return found if found is not None and found[0].saving > needed else None


def move_to(cycle: Cycle, record: WorkloadRecord, where: str) -> tuple[Move, Candidate] | None:
    """The move of one running workload to this very pool, if there is room now and it saves anything."""
    stand = stand_of(cycle, record)
    if stand is None:
        return None
    return _cheapest(cycle, record, stand, _open(cycle, record, lambda option, _: option.where == where))


def _off_spot(cycle: Cycle, record: WorkloadRecord) -> list[Candidate]:
    return _open(cycle, record, lambda option, _: option.pool.capacity is not Capacity.SPOT)


def _onto_spot(cycle: Cycle, record: WorkloadRecord) -> list[Candidate]:
    wanted = _wanted_classes(cycle.snapshot)
    found = _open(
        cycle,
        record,
        lambda option, _: option.pool.capacity is Capacity.SPOT and option.pool.class_name not in wanted,
    )
    return [learned_rework(cycle, record, one) for one in found if may_take(cycle, record, one)]


def _elsewhere(cycle: Cycle, record: WorkloadRecord, on_spot: bool) -> list[Candidate]:
    """Scarce room is for those who come: what one who runs saves by it, the next one pays."""
    wanted, any_spot = _wanted_classes(cycle.snapshot), on_spot or not governed(record, cycle.settings)

    def roomy(option: Option, demand: Demand) -> bool:
        allowed = any_spot or option.pool.capacity is not Capacity.SPOT
        return allowed and option.pool.class_name not in wanted and plenty(option, demand)

    return _open(cycle, record, roomy)


def _open(cycle: Cycle, record: WorkloadRecord, worth_asking: Callable[[Option, Demand], bool]) -> list[Candidate]:
    """Other homes that would take it now."""
    found = cycle.candidates(record, lambda option, demand: _allowed(record, option) and worth_asking(option, demand))
    return [one for one in found if one.quote and not one.now_clash]


def _cheapest(
    cycle: Cycle, record: WorkloadRecord, stand: Stand, others: Sequence[Candidate], *, leaves: bool = False
) -> tuple[Move, Candidate] | None:
    """The move to the cheapest of them, if it saves anything; who `leaves` goes whatever that costs."""
    if not others:
        return None
    priced = [(_with_move(cycle, record, one), one) for one in others]
    bill, best = min(priced, key=lambda pair: (pair[0].total, pair[0].carbon_g, pair[1].where))
    saving = stand.stay.bill(0).total - bill.total
    if saving <= 0 and not leaves:
        return None
    why = _because(best, saving, leaves, stand.ruling)
    return Move(record.name, placement_of(record, best, bill, cycle.snapshot), saving, why), best


def gives_up(record: WorkloadRecord, stand: Stand | None) -> Hold | None:
    """Whether one that pays for a home that is not taken back should rather wait for spot: it has so much slack."""
    if stand is None or stand.home.pool.capacity is Capacity.SPOT:
        return None
    # While spot is up nobody waits for it.
    if stand.ruling is None or stand.ruling.view.up or stand.ruling.rent is not Rent.IDLE:
        return None
    return Hold(record.name, (Verdict(stand.home.where, Reason.WAITING_FOR_SPOT, detail=stand.ruling.sentence),))


def _ruled(cycle: Cycle, record: WorkloadRecord, rates: Sequence[_Rate], wanted: frozenset[str]) -> bool:
    """Whether the rule of spot might want it elsewhere: on spot with little slack, or off it and spot is cheaper and
    not `wanted` by those who wait, or gone and worth waiting for."""
    home = home_of(cycle, record)
    if home is None or not governed(record, cycle.settings):
        return False
    if home.pool.capacity is Capacity.SPOT:
        return short_of_slack(record, cycle, home)
    if not _promising(record, [one for one in rates if one.spot or _is_home(one, record)], _ANY):
        return False
    accepted = {one.name for one in record.spec.classes if one.speed > 0}
    return any(
        one.class_name not in wanted or is_down(cycle, record, (one.cluster, one.pool))
        for one in rates
        if one.spot and one.class_name in accepted
    )


def _is_home(rate: _Rate, record: WorkloadRecord) -> bool:
    home = record.status.placement
    return home is not None and (rate.cluster, rate.pool) == (home.cluster, home.pool)


def _at_risk(move: Move) -> bool:
    return move.reason.reason is Reason.DEADLINE_AT_RISK


def _wanted_classes(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(
        accepted.name
        for record in snapshot.records
        if record.status.phase.waits and not record.status.moving_to
        for accepted in record.spec.classes
    )


def _allowed(record: WorkloadRecord, option: Option) -> bool:
    home = record.status.placement
    assert home is not None
    if record.spec.type is WorkloadType.SERVING:
        return option.pool.cluster != home.cluster
    return option.where != f"{home.cluster}/{home.pool}"


def _with_move(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> Bill:
    """The bill there with the move: the new home loads while, for a serving, the old one is still paid."""
    load_s = cycle.snapshot.catalogue.load_s(record.spec.model)
    idle_s = load_s + (candidate.option.pool.boot_s if candidate.option.start_s > cycle.snapshot.now_s else 0.0)
    cost: Micros = move_price(record.spec, candidate.option, idle_s, cycle.snapshot.rates)
    return msgspec.structs.replace(candidate.bill(0), migration=cost)


def _rates(cycle: Cycle) -> list[_Rate]:
    """What a device-hour costs in each pool over the next hours, power and carbon included."""
    return [
        _Rate(
            home.pool.cluster,
            home.pool.name,
            home.pool.class_name,
            _rate(home, cycle.snapshot),
            home.pool.capacity is Capacity.SPOT,
        )
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


def _because(candidate: Candidate, saving: Micros, leaves: bool, ruling: Ruling | None) -> Verdict:
    if leaves and ruling is not None:
        return Verdict(candidate.where, Reason.DEADLINE_AT_RISK, detail=ruling.sentence)
    told = f"; {ruling.sentence}" if ruling is not None else ""
    return Verdict(candidate.where, Reason.MOVED, detail=f"saves {show(saving)} with the move counted{told}")
