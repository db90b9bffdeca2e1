"""Who of those who run should stand aside: they are asked together with those who wait, in one plan.

Called by `plane.moving`, once an hour and again before anything is done. The world is copied as if all who are asked
had stopped; there each of them may stay, go on elsewhere, or go on later (`aside.rearranged`). Room that somebody is
leaving counts as free, so nobody leaves for one who gets it anyway. Under `standAside: always` also those take part
who have just come and were given a dearer home: they wait for one who makes room for them (`way_for`).
O(one decision).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from dure.model.decision import Hold, Move
from dure.model.money import show
from dure.model.policy import Verb
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, Instant, Seconds
from dure.model.workload import Phase, Placement, WorkloadRecord, WorkloadType
from dure.place.adapt import congestion_at
from dure.place.aside import Standing, rearranged, with_stays
from dure.place.asked import asked_of, comes_first, hosts_of, latest_start, may_be_asked, stopped
from dure.place.batch import WAITING, Batch, Choice, dispute_of
from dure.place.bill import Quote, data_price, quote
from dure.place.candidate import Candidate, Cycle, may_wait, plenty, resources
from dure.place.crowd import queue_of
from dure.place.fairness import fair_order
from dure.place.instance import HELD, NONE, ROW, START, Floats, Instance, Longs, spread
from dure.place.moves import move_to
from dure.place.settings import StandAside, settings_of
from dure.place.spans import claim_of, past_help
from dure.place.spot_rule import home_of, ruled
from dure.place.vacated import room_without, usage_without

# Who stands aside is not looked at again before those for whom it does have sat down.
SEATING_S: Seconds = 900.0
# After its checkpoint, until its room is free.
LEAVING_S: Seconds = 300.0
# Of its price; as much as a policy charges for waiting unless it is told otherwise.
_DAY = 0.1
_NOT_HERE = Verdict("", Reason.MOVE_NOT_WORTH_IT, detail="to stop and go on at once in the same place")
_SCARCE = Verdict("", Reason.NO_CAPACITY, detail="what is left there is for those who come")


def rearrangement(
    snapshot: Snapshot,
    most: int,
    besides: frozenset[str] = frozenset(),
    *,
    among: frozenset[str] | None = None,
    part: float = 1.0,
) -> tuple[Move | Hold, ...]:
    """A Move or a Hold for each of at most `most` who should not stay where they are: others than `besides`, and of
    `among` alone where that is given. So large a `part` of the threshold is asked of them."""
    plan = _plan_of(snapshot, most, besides, among=among)
    return plan.decisions(part * plan.cycle.settings.move_threshold)[0] if plan is not None else ()


class Way(NamedTuple):
    """Who of those who run should not stay, and who waits until they have left."""

    leaving: tuple[Move | Hold, ...]
    guests: tuple[Hold, ...]


def way_for(snapshot: Snapshot, most: int, besides: frozenset[str], new: Mapping[str, Placement]) -> Way:
    """At most `most` others than `besides` who should make room for some of `new`. Those wait in the snapshot and
    could start at once in these homes, as all of them do who are no guests."""
    plan = _plan_of(snapshot, most, besides, new=new)
    if plan is None:
        return Way((), ())
    leaving, hosts = plan.decisions(plan.cycle.settings.move_threshold)
    guests = {}
    for name, host in hosts.items():
        hold = plan.guest(name, host) if name in new else None
        if hold is not None:
            guests[name] = hold
    served = {host.name for name, host in hosts.items() if name in guests}
    return Way(tuple(one for one in leaving if one.workload in served), tuple(guests.values()))


def _plan_of(
    snapshot: Snapshot,
    most: int,
    besides: frozenset[str],
    *,
    among: frozenset[str] | None = None,
    new: Mapping[str, Placement] | None = None,
) -> _Plan | None:
    settings = settings_of(snapshot.policy(Verb.PLACE))
    if most <= 0:
        return None
    able = [
        one
        for one in snapshot.records
        if one.name not in besides and (among is None or one.name in among) and may_be_asked(one, snapshot, settings)
    ]
    if not able:
        return None
    waiting = [one for one in snapshot.records if one.status.phase.waits and not one.status.moving_to]
    if new is not None:
        given = [(one, new[one.name]) for one in waiting if one.name in new]
        asked = hosts_of(snapshot, able, given, settings)
    else:
        asked = able if among is not None else asked_of(snapshot, able, waiting, settings)
    if not asked:
        return None
    asked = asked[:most]
    classes = {home.class_name for one in asked if (home := one.status.placement) is not None}
    rivals = [one for one in waiting if any(accepted.name in classes for accepted in one.spec.classes)]
    return _Plan(snapshot, asked, rivals)


class _Stay(NamedTuple):
    """One who runs: which job and row of the plan it is, what going on costs by the bill and in the choice."""

    record: WorkloadRecord
    job: int
    row: int
    quote: Quote
    cost: float


class _Plan:
    """One plan for those who are `asked` and those who wait, on a copy of the snapshot in which the asked have
    stopped. Job by job: `found` is what each should do, `otherwise` what they would if all who run stayed."""

    def __init__(
        self, snapshot: Snapshot, asked: Sequence[WorkloadRecord], waiting: Sequence[WorkloadRecord]
    ) -> None:
        self.real = snapshot
        self.runs = {one.uid: one for one in asked}
        patient, idle = tuple(map(_patient, waiting)), tuple(stopped(one, snapshot) for one in asked)
        self.cycle = Cycle(_vacated(snapshot, asked, {one.uid: one for one in (*patient, *idle)}), (*patient, *idle))
        _give_away(self.cycle, snapshot)
        looked = queue_of(self.cycle, patient).looked
        records = tuple(sorted((*looked, *idle), key=lambda one: (one.status.submitted_s, one.name, one.uid)))
        candidates = tuple(self._candidates(one) for one in records)
        self.batch = Batch(records, candidates, self._fair_order(records))
        self.dispute = dispute_of(self.cycle, self.batch)
        self.stays = [self._stay(self.runs[one.uid], job) for job, one in enumerate(records) if one.uid in self.runs]
        self.instance, self.stay = self._with_stays(_unhurried(self.dispute.instance, records, snapshot.now_s))

    def decisions(self, threshold: float) -> tuple[tuple[Move | Hold, ...], dict[str, WorkloadRecord]]:
        """What each does who should not stay, and by name of those who wait whose place they are to have."""
        found = self._asked(self.instance, threshold)
        leaving = [one for one in self.stays if found[one.job] not in (HELD, self.stay[one.job])]
        if not leaving:
            return (), {}
        otherwise = self._asked(_all_stay(self.instance, self.stay), 0.0)
        now = Cycle(self.real, (), all_bills=True)
        told: list[Move | Hold] = []
        hosts: dict[str, WorkloadRecord] = {}
        for one in leaving:
            made = self._decision(one, found, otherwise, threshold, now)
            if made is not None:
                told.append(made)
                hosts |= {self.batch.records[job].name: one.record for job in self._guests(one, found, otherwise)}
        return tuple(told), hosts

    def guest(self, name: str, host: WorkloadRecord) -> Hold | None:
        """One who has just come waits until its host has had time for a checkpoint and for leaving. Not if it may not
        wait that long, or if the home that it has now might be gone by then."""
        record = next(one for one in self.real.records if one.name == name)
        now_s, home = self.real.now_s, host.status.placement
        assert home is not None
        until_s = now_s + host.spec.checkpoint_s + LEAVING_S
        cycle = Cycle(self.real, (record,))
        candidates = [one for one in cycle.candidates(record) if one.quote is not None]
        here = next((one for one in candidates if one.where == f"{home.cluster}/{home.pool}"), None)
        open_now = [one for one in candidates if one.now_clash is None]
        instead = min(open_now, key=lambda one: (cycle.steer(one)[0], one.where), default=None)
        if here is None or instead is None or not may_wait(record) or not plenty(instead.option, instead.demand):
            return None
        assert instead.quote is not None
        if instead.quote.starts[-1] < until_s:
            return None
        verdict = Verdict(
            here.where,
            Reason.WAITING_FOR_CHEAPER_HOUR,
            f"{show(here.bill(0).outlay)} on {here.where}",
            f"{show(instead.bill(0).outlay)} if started now on {instead.where}",
            f"{host.name} makes room" if host.spec.tenant == record.spec.tenant else "room is made for it",
        )
        return Hold(name, (verdict,), until_s=until_s)

    def _asked(self, inst: Instance, threshold: float) -> Longs:
        order = np.array(self.batch.order, np.int64)
        standing = Standing(self.stay, np.full(inst.jobs, NONE, np.int64), order)
        solver = self.cycle.settings.solver(inst.jobs, inst.options)
        return rearranged(inst, standing, threshold, solver, self.real.seed)

    def _decision(
        self, one: _Stay, found: Longs, otherwise: Longs, threshold: float, now: Cycle
    ) -> Move | Hold | None:
        choice = self._choice(found[one.job])
        candidate = self.batch.candidates[one.job][choice.candidate]
        if choice.start == 0:
            made = move_to(now, one.record, candidate.where)
            if made is not None:
                now.take(one.record, made[1], made[0].placement.bill)
            return made[0] if made is not None else None
        assert candidate.quote is not None
        guests = self._guests(one, found, otherwise)
        stay = one.quote.bill(0).total
        more = candidate.bill(choice.start).total - stay
        if guests:
            worth = any(comes_first(self.batch.records[job], one.record) for job in guests)
        else:
            # Room that should come free has been promised to nobody: it must be able to wait for as long again.
            soon = candidate.quote.starts[choice.start] <= latest_start(one.record, self.real, self.cycle.settings)
            here = self.cycle.rows[_pool_of(candidate)] == one.row
            always = self.cycle.settings.stand_aside is StandAside.ALWAYS
            worth = more <= -threshold * stay and bool(soon) and (here or always)
        return self._aside(one, candidate, choice.start, guests) if worth else None

    def _guests(self, one: _Stay, found: Longs, otherwise: Longs) -> list[int]:
        """Who of those who wait starts in its place now, and would not if it stayed."""
        row, start = self.instance.option[found, ROW] == one.row, self.instance.option[found, START] == 0
        return np.flatnonzero(row & start & (found >= 0) & (self.stay < 0) & (found != otherwise)).tolist()

    def _aside(self, one: _Stay, candidate: Candidate, at: int, guests: Sequence[int]) -> Hold:
        assert candidate.quote is not None
        start_s, now_s = float(candidate.quote.starts[at]), self.real.now_s
        home = one.record.status.placement
        assert home is not None
        verdict = Verdict(
            f"{home.cluster}/{home.pool}",
            Reason.STANDS_ASIDE,
            f"{show(candidate.bill(at).outlay)} from {int(start_s // HOUR_S % 24):02d}:00 UTC on {candidate.where}",
            f"{show(one.quote.bill(0).outlay)} if it went on here",
            _told([self.batch.records[job] for job in guests], one.record.spec.tenant),
        )
        again_s = min(start_s, (now_s // HOUR_S + 1) * HOUR_S)
        return Hold(one.record.name, (verdict,), until_s=max(again_s, now_s + SEATING_S))

    def _choice(self, option: int) -> Choice:
        """Of the options before staying was put among them."""
        return self.dispute.choices[option - int((self.stay[(self.stay >= 0)] < option).sum())]

    def _candidates(self, record: WorkloadRecord) -> tuple[Candidate, ...]:
        found = ruled(self.cycle, record, tuple(self.cycle.candidates(record)))
        runs = self.runs.get(record.uid)
        if runs is None:
            return found
        roomy = [one.option for one in found if one.quote is not None and self._roomy(one)]
        safe = [one for one in roomy if one.pool.capacity is not Capacity.SPOT]
        latest_s = latest_start(runs, self.real, self.cycle.settings, safe)
        return tuple(self._elsewhere(runs, one, latest_s) for one in found)

    def _elsewhere(self, record: WorkloadRecord, candidate: Candidate, latest_s: Instant) -> Candidate:
        """Data is brought along; at once it goes only where there is plenty of room, as in any move, and later only
        within its share of its slack."""
        home, pool = record.status.placement, candidate.option.pool
        assert home is not None
        priced = candidate.quote
        if priced is None:
            return candidate
        priced = priced.first(max(1, int(np.searchsorted(priced.starts, latest_s, side="right"))))
        moved = data_price(record.spec, candidate.option, self.real.rates) if pool.cluster != home.cluster else 0
        candidate = replace(candidate, quote=replace(priced, traffic=priced.traffic + moved))
        if (pool.cluster, pool.name) == (home.cluster, home.pool):
            return replace(candidate, now_clash=_NOT_HERE)
        return candidate if self._roomy(candidate) else replace(candidate, now_clash=_SCARCE)

    def _roomy(self, candidate: Candidate) -> bool:
        """As things are, with those who are asked where they are."""
        pool = candidate.option.pool
        real = next(one for one in self.real.pools if (one.cluster, one.name) == (pool.cluster, pool.name))
        return plenty(replace(candidate.option, pool=real), candidate.demand)

    def _fair_order(self, records: Sequence[WorkloadRecord]) -> tuple[int, ...]:
        """Those who wait, by what everybody holds now."""
        claims = [claim_of(job, one, self.real.now_s) for job, one in enumerate(records) if one.uid not in self.runs]
        usage = {used.tenant: used for used in self.real.usage}
        return tuple(fair_order(claims, self.cycle.tenants, usage, self.cycle.totals))

    def _stay(self, record: WorkloadRecord, job: int) -> _Stay:
        cycle, home = self.cycle, home_of(self.cycle, record)
        assert home is not None
        own = next(one for one in self.batch.candidates[job] if one.where == home.where)
        starts = np.array([self.real.now_s])
        status = record.status
        priced = quote(record.spec, home, self.real, own.settings, status.submitted_s, starts, done_s=status.done_s)
        weights = self.real.weights
        steer = priced.steer(weights, congestion_at(weights, own.crowd, starts), own.settings, self.real.now_s)
        return _Stay(record, job, cycle.rows[home.pool.cluster, home.pool.name], priced, float(steer[0]))

    def _with_stays(self, made: Instance) -> tuple[Instance, Longs]:
        """To stay always fits, whatever quotas and figures of reports have become since."""
        now_s, base_h = self.real.now_s, int(self.real.now_s // HOUR_S)
        rows, needs = [], []
        for number, one in enumerate(self.stays):
            home = one.record.status.placement
            assert home is not None
            hours = min(made.hours, math.ceil((now_s + one.quote.run_s) / HOUR_S) - base_h)
            quota = self.dispute.quotas.get((one.record.spec.tenant, home.class_name), NONE)
            rows.append((one.row, quota, 0, max(1, hours), len(made.need) + number))
            needs.append(resources(one.record.spec.demand, home.replicas))
        wider = replace(made, need=np.concatenate((made.need, np.array(needs, np.int32))))
        jobs, cost = np.array([one.job for one in self.stays]), np.array([one.cost for one in self.stays])
        hold = made.hold.copy()
        hold[jobs] = np.maximum(hold[jobs], WAITING * np.abs(cost) + 1.0)
        grown, stay = with_stays(replace(wider, hold=hold), jobs, np.array(rows, np.int32), cost)
        return replace(grown, capacity=np.maximum(grown.capacity, spread(grown, stay))), stay


def _vacated(snapshot: Snapshot, asked: Sequence[WorkloadRecord], others: dict[str, WorkloadRecord]) -> Snapshot:
    """Without those who are leaving, and with `others` instead of those of the same uid."""
    leaving = [one for one in snapshot.records if one.status.leaving_s is not None and one.status.placement]
    gone: dict[tuple[str, str], list[WorkloadRecord]] = {}
    for one in (*asked, *leaving):
        if (home := one.status.placement) is not None:
            gone.setdefault((home.cluster, home.pool), []).append(one)
    out = {one.uid for one in leaving}
    return replace(
        snapshot,
        pools=tuple(
            room_without(pool, gone.get((pool.cluster, pool.name), ()), snapshot.catalogue) for pool in snapshot.pools
        ),
        usage=tuple(usage_without(used, asked) for used in snapshot.usage),
        records=tuple(others.get(one.uid, one) for one in snapshot.records if one.uid not in out),
    )


def _give_away(cycle: Cycle, snapshot: Snapshot) -> None:
    """Room that no report shows taken yet: of those who were just placed, and of those on their way to a new home."""
    for one in snapshot.records:
        home, where = one.status.placement, one.status.moving_to
        if one.status.phase is Phase.PLACED and home is not None and one.status.leaving_s is None:
            where = f"{home.cluster}/{home.pool}"
        cluster, _, pool = where.partition("/")
        if where and (room := cycle.rooms.get((cluster, pool))) is not None:
            room.take(one.spec.demand, home.replicas if home is not None else one.spec.size)


def _patient(record: WorkloadRecord) -> WorkloadRecord:
    """With later hours to choose among if it has a deadline: what waiting costs it is in its bill."""
    spec = record.spec
    if spec.deferrable or spec.deadline_s is None or spec.type is WorkloadType.SERVING:
        return record
    return replace(record, spec=replace(spec, deferrable=True))


def _unhurried(made: Instance, records: Sequence[WorkloadRecord], now_s: float) -> Instance:
    """Who has no deadline to lose pays no more by waiting than the charge for a day of it."""
    hold = made.hold.copy()
    for job, one in enumerate(records):
        cost = made.cost[made.first[job] : made.first[job + 1]]
        if len(cost) and (one.spec.deadline_s is None or past_help(one, now_s)):
            hold[job] = cost.min() + _DAY * abs(cost.min()) + 1.0
    return replace(made, hold=hold)


def _all_stay(made: Instance, stay: Longs) -> Instance:
    """The same, with anything but staying out of the question for those who run."""
    cost: Floats = made.cost.copy()
    out = np.repeat(stay >= 0, np.diff(made.first))
    out[stay[stay >= 0]] = False
    cost[out] += 1e6 * (1.0 + np.abs(made.cost).max())
    return replace(made, cost=cost)


def _pool_of(candidate: Candidate) -> tuple[str, str]:
    return candidate.option.pool.cluster, candidate.option.pool.name


def _told(guests: Sequence[WorkloadRecord], tenant: str) -> str:
    """For whom; other tenants' workloads have no names here."""
    names = sorted(one.name for one in guests if one.spec.tenant == tenant)
    others = len(guests) - len(names)
    parts = names[:3]
    if len(names) > 3:
        parts.append(f"{len(names) - 3} more")
    if others:
        parts.append(f"{others} of other tenants")
    return f"makes room for {', '.join(parts)}" if parts else "a later hour is cheaper for it"
