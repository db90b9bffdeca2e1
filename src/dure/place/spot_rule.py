"""Spot, wait or on-demand for a workload with a deadline: the question of `spot.choose` put from a snapshot.

Called by `plan` for those who wait and by `moves` for those who run. On-demand is the cheapest home that is not taken
back and has room; the market is all spot pools that could take the workload (`spot_market`); what is safe of the work
is what was last reported of its checkpoints, and the next look is the plane's. Speaks of workloads with a deadline
and checkpoints alone (`candidate.governed`): others are left to the bill, as are those for whom there is no on-demand
to fall back on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial

import msgspec
import numpy as np
from msgspec.structs import replace

from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.spell import PoolSpells
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, Instant, Seconds
from dure.model.workload import Phase, WorkloadRecord
from dure.place.bill import Quote, quote, run_time
from dure.place.candidate import Candidate, Cycle, governed, plenty
from dure.place.option import Option
from dure.place.settings import PlaceSettings
from dure.place.spot import LOOK_S, Rent, Seen, SpotView, choose, may_launch_spot, must_rent
from dure.place.spot_market import History, history, market, pick

# A pool that has just lost its last node is asked for another one after this long.
RETRY_S: Seconds = 1800.0
# Spot that costs more than this part of on-demand is not worth waiting for or hopping to.
_CHEAPER = 0.85
# Prices are compared in such steps, so that equal questions share a table.
_STEP = 0.05
# A reclaim with less than this chance in what is left is no reason to leave.
_UNLIKELY = 0.1
_NO_ROOM = (Reason.NO_CAPACITY, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE)


class Ruling(msgspec.Struct, frozen=True, dict=True):
    """What to rent until the next look, and the figures that say so. `spot` is where, empty while there is none.

    `rent` is worked out when it is first asked for: of many nobody wants to know, as there is nowhere to go.
    """

    view: SpotView
    seen: Seen
    spot: str
    safe: str
    settled: Rent | None = None

    @cached_property
    def rent(self) -> Rent:
        return choose(self.view, self.seen) if self.settled is None else self.settled

    @property
    def wish(self) -> str:
        match self.rent:
            case Rent.SPOT:
                return "takes spot"
            case Rent.ON_DEMAND:
                return "pays in full"
            case Rent.IDLE:
                return "waits for spot"

    @property
    def sentence(self) -> str:
        view, seen = self.view, self.seen
        slack = f"slack {_hours(view.slack_s)} of {_hours(view.left_s)} until its deadline"
        price = f"spot at {100 * view.price:.0f} % of {self.safe}"
        if must_rent(view):
            need_s = view.restart_s + view.look_s
            return f"{slack}, a start on {self.safe} and one more look take {_hours(need_s)}"
        if not view.up:
            back_h = (seen.age_h + seen.grain_h) / max(seen.back, 1e-9)
            return f"{slack}, {price}, none for {seen.age_h:.1f} h, expected back in {back_h:.1f} h"
        return f"{slack}, {price}, up for {seen.age_h:.1f} h, a loss expected in {1 / seen.ends_per_h:.1f} h"


def spot_ruling(snapshot: Snapshot, record: WorkloadRecord) -> Ruling | None:
    """What the rule says now of one that waits or runs, for those who ask why; nothing where it is silent."""
    cycle = Cycle(snapshot, (record,), all_bills=True)
    if not governed(record, cycle.settings) or record.status.phase not in (Phase.PENDING, Phase.HELD, Phase.RUNNING):
        return None
    if record.status.placement is None:
        return waiting_rule(cycle, record, cycle.candidates(record))
    home = home_of(cycle, record)
    return None if home is None else running_rule(cycle, record, home, staying(cycle, record, home))


def ruled(cycle: Cycle, record: WorkloadRecord, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The candidates of one who waits, those that the rule is against with its reason."""
    if not governed(record, cycle.settings):
        return candidates
    candidates = tuple(_now_or_not(cycle, record, one) if _is_spot(one) else one for one in candidates)
    ruling = waiting_rule(cycle, record, candidates)
    if ruling is None:
        return candidates
    match ruling.rent:
        case Rent.SPOT:
            judged = partial(_for_spot, cycle, record, ruling)
        case Rent.ON_DEMAND:
            judged = partial(_for_on_demand, ruling)
        case Rent.IDLE:
            judged = partial(_for_waiting, ruling)
    return tuple(one if one.quote is None else judged(one) for one in candidates)


def waiting_rule(cycle: Cycle, record: WorkloadRecord, candidates: Sequence[Candidate]) -> Ruling | None:
    if not governed(record, cycle.settings):
        return None
    spots = [one for one in candidates if _is_spot(one) and _takes_part(cycle, record, one)]
    safe = cheapest_safe(candidates)
    if not spots or safe is None or safe.quote is None:
        return None
    ruling = _rule(cycle, record, spots, safe.option, safe.quote, Rent.IDLE)
    return _unless_it_may_wait(cycle, record, ruling, safe.option, safe.demand, safe.settings)


def running_rule(cycle: Cycle, record: WorkloadRecord, home: Option, stay: Quote) -> Ruling | None:
    """For one that runs in `home`; nothing where it can only stay."""
    if home.pool.capacity is Capacity.SPOT:
        candidates = cycle.candidates(record)
        safe = cheapest_safe(candidates)
        if safe is None or safe.quote is None or nobody_takes_it(cycle, record, home):
            return None
        spots = [
            one
            for one in candidates
            if one.where == home.where or (_is_spot(one) and _takes_part(cycle, record, one))
        ]
        return _rule(cycle, record, spots, safe.option, safe.quote, Rent.SPOT, home, stay)
    spots = cycle.candidates(record, lambda option, _: option.pool.capacity is Capacity.SPOT and option.speed > 0)
    spots = [one for one in spots if _takes_part(cycle, record, one)]
    if not spots:
        return None
    ruling = _rule(cycle, record, spots, home, stay, Rent.ON_DEMAND)
    return _unless_it_may_wait(cycle, record, ruling, home, spots[0].demand, spots[0].settings)


def short_of_slack(record: WorkloadRecord, cycle: Cycle, home: Option) -> bool:
    """Whether one that runs on spot needs to be looked at: with much slack it stays, as `spot.choose` says."""
    boot_s = max((one.pool.boot_s for one in cycle.world.homes if one.pool.capacity is not Capacity.SPOT), default=0)
    view = _view(cycle, record, home, Rent.SPOT, cycle.snapshot.catalogue.load_s(record.spec.model) + boot_s, 0.0)
    return not view.at_ease


def nobody_takes_it(cycle: Cycle, record: WorkloadRecord, home: Option) -> bool:
    """The tariff says that a reclaim in what is left is unlikely, and none was seen."""
    work_s = cycle.settings.careful * run_time(record.spec, home.speed, record.status.done_s)
    seen = _history(cycle, home, record.status.submitted_s)
    return home.tariff.reclaim_per_hour * work_s / HOUR_S < _UNLIKELY and seen.losses == 0


def is_down(cycle: Cycle, record: WorkloadRecord, where: tuple[str, str]) -> bool:
    """Whether the pool's last node was lost and none has come since."""
    began_s = record.status.submitted_s
    return history(_watched(cycle, where, began_s), began_s).down


def home_of(cycle: Cycle, record: WorkloadRecord) -> Option | None:
    """Where it is, as an option from now on; nothing where its pool is unknown or away."""
    home, spec = record.status.placement, record.spec
    own = next(
        (one for one in cycle.world.homes if home and (one.pool.cluster, one.pool.name) == (home.cluster, home.pool)),
        None,
    )
    if own is None or not own.cluster.reachable:
        return None
    speed = spec.speed_on(own.pool.class_name) or 1.0
    return Option(
        own.cluster, own.pool, own.tariff, own.profile, own.series, own.unknown_g_per_kwh, speed,
        cycle.snapshot.now_s, spec.size_on(own.pool.class_name),
    )  # fmt: skip


def staying(cycle: Cycle, record: WorkloadRecord, home: Option) -> Quote:
    """The bill of going on where it is, from now."""
    status, starts = record.status, np.array([cycle.snapshot.now_s])
    return quote(record.spec, home, cycle.snapshot, cycle.settings, status.submitted_s, starts, done_s=status.done_s)


def cheapest_safe(candidates: Sequence[Candidate]) -> Candidate | None:
    """The home to fall back on: not taken back, with room now."""
    safe = [one for one in candidates if not _is_spot(one) and one.quote is not None and one.now_clash is None]
    return min(safe, key=lambda one: (_cost(one.quote), one.where), default=None)


def learned_rework(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> Candidate:
    """A spot candidate whose expected rework follows from what was seen of its pool, not from its tariff."""
    assert candidate.quote is not None
    seen = _history(cycle, candidate.option, record.status.submitted_s).seen(cycle.snapshot.now_s, up=True)
    lost_h = (_restart_s(cycle, record, candidate.option) + record.spec.checkpoint_s / 2) / HOUR_S
    quote = candidate.quote
    spent = quote.direct + quote.energy + quote.carbon
    return replace(candidate, quote=replace(quote, rework=spent * seen.ends_per_h * lost_h))


def _rule(
    cycle: Cycle, record: WorkloadRecord, spots: Sequence[Candidate], safe: Option, stay: Quote, running: Rent,
    home: Option | None = None, there: Quote | None = None,
) -> Ruling | None:  # fmt: skip
    now_s, began_s = cycle.snapshot.now_s, record.status.submitted_s
    pools = [_history(cycle, one.option, began_s) for one in spots]
    own = next((index for index, one in enumerate(spots) if home is not None and one.where == home.where), -1)
    up = [index == own or is_open(cycle, record, one) for index, one in enumerate(spots)]
    restart_s = _restart_s(cycle, record, safe)
    lost_h = (restart_s + record.spec.checkpoint_s / 2) / HOUR_S
    prices = [_cost(there if index == own else one.quote) / _cost(stay) for index, one in enumerate(spots)]
    seen = [pool.seen(now_s, is_up) for pool, is_up in zip(pools, up, strict=True)]
    at = own if own >= 0 else pick(seen, up, prices, lost_h)
    price = _rounded(prices[at] if at >= 0 else min(prices))
    if running is Rent.SPOT:
        # Where it runs it leaves by this rule for its deadline alone; for a saving it moves as all others do.
        price = min(price, _CHEAPER)
    view = replace(_view(cycle, record, safe, running, restart_s, price), up=at >= 0)
    if view.left_s < view.work_s:
        # Too late by any home of this speed: leaving would only add a restart.
        return None
    told = market(pools, up, at, now_s)
    if price > _CHEAPER:
        # Hardly a saving: the bill says which is cheaper, as long as spot may be begun at all.
        return None if may_launch_spot(view) else Ruling(view, told, "", safe.where, Rent.ON_DEMAND)
    return Ruling(view, told, spots[at].where if at >= 0 else "", safe.where)


def _view(
    cycle: Cycle, record: WorkloadRecord, safe: Option, running: Rent, restart_s: Seconds, price: float
) -> SpotView:
    work_s, left_s = _times(cycle, record, safe)
    return SpotView(left_s, work_s, True, running, restart_s, LOOK_S, price)


def may_take(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> bool:
    """Whether it could begin on this spot candidate now and be done there in time."""
    needed_s, left_s = _times(cycle, record, candidate.option)
    return needed_s <= left_s and is_open(cycle, record, candidate)


def _now_or_not(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> Candidate:
    """Spot now or not at all: whether there will be any in a later hour nobody knows, and to wait is the rule's to
    say. Nor spot on which the work would not be done in time even if it were never lost."""
    if candidate.quote is None:
        return candidate
    needed_s, left_s = _times(cycle, record, candidate.option)
    if needed_s <= left_s:
        return replace(candidate, quote=candidate.quote.first())
    found = f"its deadline is in {_hours(left_s)}"
    clash = Verdict(candidate.where, Reason.DEADLINE_AT_RISK, f"{_hours(needed_s)} of work there", found)
    return replace(candidate, quote=None, clash=clash)


def _times(cycle: Cycle, record: WorkloadRecord, option: Option) -> tuple[Seconds, Seconds]:
    """What the work would take there, and what is left."""
    spec, status = record.spec, record.status
    assert spec.deadline_s is not None
    needed_s = cycle.settings.careful * run_time(spec, option.speed, status.done_s)
    return needed_s, status.submitted_s + spec.deadline_s - cycle.snapshot.now_s


def _takes_part(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> bool:
    """Whether a spot pool is part of the market: it has something, or is down. One that is full of others is not."""
    if candidate.clash is not None and candidate.clash.reason not in _NO_ROOM:
        return False
    needed_s, left_s = _times(cycle, record, candidate.option)
    if needed_s > left_s:
        return False
    return is_open(cycle, record, candidate) or _history(cycle, candidate.option, record.status.submitted_s).down


def is_open(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> bool:
    """Whether there is something to be had: room on a node, or one that can be asked for with hope."""
    if candidate.quote is None or candidate.now_clash is not None:
        return False
    option = candidate.option
    room = cycle.rooms[option.pool.cluster, option.pool.name]
    if room.spare_booted(candidate.demand, option.replicas) is None:
        return True
    past = _history(cycle, option, record.status.submitted_s)
    if not _watched(cycle, _pool_of(option), record.status.submitted_s).asks:
        return False
    return not past.down or cycle.snapshot.now_s - past.downs[-1].begin_s >= RETRY_S


def _history(cycle: Cycle, option: Option, began_s: Instant) -> History:
    return history(_watched(cycle, _pool_of(option), began_s), began_s)


def _pool_of(option: Option) -> tuple[str, str]:
    return option.pool.cluster, option.pool.name


def _watched(cycle: Cycle, where: tuple[str, str], began_s: Instant) -> PoolSpells:
    """What was seen of the pool; nothing where its cluster does not tell."""
    return cycle.spells.get(where) or PoolSpells(*where, since_s=began_s, asks=True)


def _restart_s(cycle: Cycle, record: WorkloadRecord, option: Option) -> Seconds:
    return cycle.snapshot.catalogue.load_s(record.spec.model) + option.pool.boot_s


def _unless_it_may_wait(
    cycle: Cycle, record: WorkloadRecord, ruling: Ruling | None, safe: Option, demand: Demand, settings: PlaceSettings
) -> Ruling | None:
    """On-demand instead of waiting for one that must not, that would be late if its run is a slow one, or whose home
    to fall back on may fill up meanwhile."""
    # While spot is up nobody waits for it.
    if ruling is None or ruling.view.up or ruling.rent is not Rent.IDLE:
        return ruling
    view = ruling.view
    slow_s = settings.duration_high * run_time(record.spec, safe.speed, record.status.done_s)
    waited_s = cycle.snapshot.now_s - record.status.submitted_s
    in_time = not settings.longest_wait_h or waited_s < settings.longest_wait_h * HOUR_S
    slowly = view.left_s - slow_s >= view.restart_s + view.look_s
    waits = record.spec.deferrable and in_time and slowly and plenty(safe, demand)
    return ruling if waits else replace(ruling, settled=Rent.ON_DEMAND)


def _cost(quote: Quote | None) -> float:
    """Of all the work that is left, if started now; rework and penalties are what the rule weighs itself."""
    if quote is None:
        return float("inf")
    return max(1.0, float(quote.direct[0] + quote.energy[0] + quote.carbon[0]) + quote.traffic)


def _rounded(price: float) -> float:
    return max(_STEP, math.ceil(price / _STEP - 1e-9) * _STEP) if price < 1.0 else price


def _is_spot(candidate: Candidate) -> bool:
    return candidate.option.pool.capacity is Capacity.SPOT


def _for_spot(cycle: Cycle, record: WorkloadRecord, ruling: Ruling, candidate: Candidate) -> Candidate:
    if not _is_spot(candidate):
        told = Verdict(candidate.where, Reason.SPOT_FIRST, detail=ruling.sentence)
    elif is_open(cycle, record, candidate):
        return learned_rework(cycle, record, candidate)
    else:
        told = candidate.now_clash or Verdict(candidate.where, Reason.NO_CAPACITY, "a node", "its last one was lost")
    return replace(candidate, barred=told, now_clash=told)


def _for_on_demand(ruling: Ruling, candidate: Candidate) -> Candidate:
    if _is_spot(candidate):
        return replace(
            candidate, quote=None, clash=Verdict(candidate.where, Reason.DEADLINE_AT_RISK, detail=ruling.sentence)
        )
    assert candidate.quote is not None
    # By the guard there is no later hour.
    return replace(candidate, quote=candidate.quote.first()) if must_rent(ruling.view) else candidate


def _for_waiting(ruling: Ruling, candidate: Candidate) -> Candidate:
    return replace(
        candidate, quote=None, clash=Verdict(candidate.where, Reason.WAITING_FOR_SPOT, detail=ruling.sentence)
    )


def _hours(seconds: Seconds) -> str:
    return f"{seconds / HOUR_S:.1f} h"
