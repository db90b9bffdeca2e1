"""Decide: every waiting workload gets a home, or waits for a better hour, or is held with its reasons.

`place` is what the plane, the embedded world, `sim` and `whatif` call; `options_for` answers `plan` and `why` for one
workload. Fairness says who gets in, the solver says where and when, and a last look at whole nodes makes
sure that what starts now really fits.
"""

from __future__ import annotations

import msgspec
import numpy as np

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.decision import Decision, Hold, Place
from dure.model.demand import Demand
from dure.model.money import show
from dure.model.policy import Verb
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.units import HOUR_S, Instant
from dure.model.workload import Placement, Workload, WorkloadRecord
from dure.place.agree import agreed
from dure.place.batch import Batch, Choice, batch_of, dispute_of, wishes
from dure.place.candidate import Candidate, Cycle
from dure.place.crowd import queue_of
from dure.place.option import Option
from dure.place.preempt import with_preemption
from dure.place.reclaim import reclaims
from dure.place.settings import settings_of
from dure.place.spot_rule import ruled

WAITS_ON_PURPOSE = (Reason.WAITING_FOR_CHEAPER_HOUR, Reason.WAITING_FOR_GREENER_HOUR, Reason.STANDS_ASIDE)


class Offer(msgspec.Struct, frozen=True):
    """An option with its bill, or the verdict that rules it out."""

    option: Option
    bill: Bill
    demand: Demand
    clash: Verdict | None


def place(snapshot: Snapshot) -> tuple[Decision, ...]:
    """A Place or a Hold for every workload that waits, in the order in which they were let in; then who leaves."""
    decisions = _decided(snapshot)
    if not any(isinstance(one, Hold) for one in decisions) or not settings_of(snapshot.policy(Verb.PLACE)).preempt:
        return decisions
    return with_preemption(snapshot, decisions, _decided)


def _decided(snapshot: Snapshot) -> tuple[Decision, ...]:
    waiting = tuple(record for record in snapshot.records if record.status.phase.waits)
    if not waiting:
        return ()
    policy = snapshot.policy(Verb.PLACE)
    if policy.paused:
        return tuple(_paused(record, policy.name) for record in sorted(waiting, key=lambda one: one.name))
    sleeping = {record.uid for record in waiting if _sleeps(record, snapshot.now_s)}
    asleep = tuple(_asleep(record) for record in waiting if record.uid in sleeping)
    awake = tuple(record for record in waiting if record.uid not in sleeping) if sleeping else waiting
    cycle = Cycle(snapshot, awake)
    arrived = _arrived(cycle, awake)
    awake = tuple(record for record in awake if record.name not in arrived) if arrived else awake
    queue = queue_of(cycle, awake)
    batch = _with_spot_rule(cycle, batch_of(cycle, queue.looked, queue.behind))
    chosen = wishes(cycle, batch)
    if chosen is None:
        chosen = solved(cycle, batch)
    decisions = tuple(_decision(cycle, batch, job, chosen[job]) for job in batch.order)
    behind = tuple(hold for tail in queue.tails for hold in _held_behind(cycle, tail))
    return (*arrived.values(), *decisions, *behind, *asleep, *reclaims(snapshot, decisions))


def _with_spot_rule(cycle: Cycle, batch: Batch) -> Batch:
    """Those with a deadline and checkpoints go on spot, wait for it or go elsewhere as `spot_rule` says."""
    pairs = zip(batch.records, batch.candidates, strict=True)
    return msgspec.structs.replace(batch, candidates=tuple(ruled(cycle, record, found) for record, found in pairs))


def _held_behind(cycle: Cycle, tail: tuple[WorkloadRecord, ...]) -> list[Hold]:
    """All of a tail hear what keeps its first one out, once the room is given away."""
    verdicts = held(cycle, tail[0], tuple(cycle.candidates(tail[0])))
    return [Hold(record.name, verdicts) for record in tail]


def _arrived(cycle: Cycle, waiting: tuple[WorkloadRecord, ...]) -> dict[str, Place]:
    """Those in the middle of a move get the home that they left for, while it still has room."""
    found: dict[str, Place] = {}
    for record in waiting:
        if record.status.moving_to:
            candidates = tuple(cycle.candidates(record))
            meant = [one for one in candidates if one.where == record.status.moving_to and one.quote is not None]
            if meant and cycle.now_clash(record, meant[0]) is None:
                found[record.name] = placed(cycle, record, candidates, meant[0])
    return found


def options_for(snapshot: Snapshot, record: WorkloadRecord) -> tuple[Offer, ...]:
    """Every option of one workload on its own: what would be chosen first, then the possible ones by what they cost.

    A pool appears once for now and once more for a later hour that would be cheaper.
    """
    cycle = Cycle(snapshot, (record,), all_bills=True)
    offers: list[tuple[tuple[bool, float, str, Instant], Offer]] = []
    for candidate in ruled(cycle, record, tuple(cycle.candidates(record))):
        offers += _offers(cycle, candidate)
    offers.sort(key=lambda pair: pair[0])
    return tuple(offer for _, offer in offers)


def _sleeps(record: WorkloadRecord, now_s: Instant) -> bool:
    """Waits on purpose for a better hour, and this hour was already looked at."""
    again_s = record.status.look_again_s
    if again_s is None or now_s >= again_s:
        return False
    return any(verdict.reason in WAITS_ON_PURPOSE for verdict in record.status.held)


def _asleep(record: WorkloadRecord) -> Hold:
    return Hold(record.name, record.status.held, until_s=record.status.look_again_s)


def _offers(cycle: Cycle, candidate: Candidate) -> list[tuple[tuple[bool, float, str, Instant], Offer]]:
    if candidate.quote is None:
        rank = (True, 0.0, candidate.where, 0.0)
        return [(rank, Offer(candidate.option, Bill(), candidate.demand, candidate.clash))]
    steer = cycle.steer(candidate)
    shown = {0}
    if len(steer) > 1 and (later := 1 + int(steer[1:].argmin())) and steer[later] < steer[0]:
        shown.add(later)
    found = []
    for at in sorted(shown):
        clash = candidate.now_clash if at == 0 else None
        option = msgspec.structs.replace(candidate.option, start_s=float(candidate.quote.starts[at]))
        rank = (clash is not None, float(steer[at]), candidate.where, option.start_s)
        found.append((rank, Offer(option, candidate.bill(at), candidate.demand, clash)))
    return found


def solved(cycle: Cycle, batch: Batch) -> tuple[Choice | None, ...]:
    """One choice per workload for a batch in which not all wishes go together."""
    dispute = dispute_of(cycle, batch)
    inst, order = dispute.instance, np.array(batch.order, np.int64)
    solver = cycle.settings.solver(len(batch.records), inst.options)
    found = agreed(inst, order, solver, cycle.snapshot.seed)
    return tuple(dispute.choices[option] if option >= 0 else None for option in found.tolist())


def _decision(cycle: Cycle, batch: Batch, job: int, choice: Choice | None) -> Decision:
    record, candidates = batch.records[job], batch.candidates[job]
    if choice is None:
        return Hold(record.name, held(cycle, record, candidates))
    candidate = candidates[choice.candidate]
    if choice.start > 0:
        return _waits(cycle, record, candidates, candidate, choice.start)
    clash = cycle.now_clash(record, candidate)
    if clash is not None:
        # The solver counts devices; whole nodes may be more broken up than that.
        other = _next_best(cycle, record, candidates)
        if other is None:
            return Hold(record.name, held(cycle, record, candidates))
        candidate = other
    return placed(cycle, record, candidates, candidate)


def _next_best(cycle: Cycle, record: WorkloadRecord, candidates: tuple[Candidate, ...]) -> Candidate | None:
    fitting = [
        candidate
        for candidate in candidates
        if candidate.quote is not None and cycle.now_clash(record, candidate) is None
    ]
    return min(fitting, key=lambda one: (cycle.steer(one)[0], one.where), default=None)


def placed(cycle: Cycle, record: WorkloadRecord, candidates: tuple[Candidate, ...], candidate: Candidate) -> Place:
    bill = candidate.bill(0)
    others = tuple(_not_taken(other, own, bill) for other, own in _by_cost(candidates) if other is not candidate)
    cycle.take(record, candidate, bill)
    return Place(record.name, placement_of(record, candidate, bill, cycle.snapshot), others)


def _waits(
    cycle: Cycle, record: WorkloadRecord, candidates: tuple[Candidate, ...], candidate: Candidate, at: int
) -> Hold:
    """Held on purpose: a later hour is cheaper or greener, or room is expected then."""
    assert candidate.quote is not None
    then, start_s = candidate.bill(at), float(candidate.quote.starts[at])
    possible = [one for one in candidates if one.quote is not None and one.now_clash is None]
    if not possible:
        # Room may come back before the hour it is expected: no sleep.
        return Hold(record.name, held(cycle, record, candidates))
    instead = min(possible, key=lambda one: (cycle.steer(one)[0], one.where))
    now = instead.bill(0)
    greener = now.carbon - then.carbon > now.direct + now.energy - then.direct - then.energy
    reason = Reason.WAITING_FOR_GREENER_HOUR if greener else Reason.WAITING_FOR_CHEAPER_HOUR
    hour = int(start_s // HOUR_S % 24)
    verdict = Verdict(
        candidate.where,
        reason,
        f"{_outlay(candidate, at)} from {hour:02d}:00 UTC",
        f"{_outlay(instead, 0)} if started now",
    )
    # Prices and grids are new every hour: that is when it is worth looking again.
    next_hour_s = (cycle.snapshot.now_s // HOUR_S + 1) * HOUR_S
    return Hold(record.name, (verdict,), until_s=min(start_s, next_hour_s))


def _outlay(candidate: Candidate, at: int) -> str:
    """What the choice compares: a node that has to be booted counts with its rest."""
    spent, rest = candidate.bill(at).outlay, candidate.opening(at)
    return f"{show(spent + rest)} with the rest of a new node" if rest else show(spent)


def held(cycle: Cycle, record: WorkloadRecord, candidates: tuple[Candidate, ...]) -> tuple[Verdict, ...]:
    """One verdict per pool: what rules it out, or that others come first there."""
    verdicts = []
    for candidate in candidates:
        clash = candidate.clash or cycle.now_clash(record, candidate)
        fair = Verdict(candidate.where, Reason.FAIR_SHARE, "its turn", f"others come first on {candidate.where}")
        verdicts.append(clash or fair)
    return tuple(verdicts)


def _by_cost(candidates: tuple[Candidate, ...]) -> list[tuple[Candidate, Bill]]:
    """Each with its bill if started now, the cheapest first; those that are ruled out last."""
    priced = [(one, one.bill(0)) for one in candidates if one.quote is not None]
    priced.sort(key=lambda pair: (pair[1].total, pair[1].carbon_g, pair[0].where))
    return priced + [(one, Bill()) for one in candidates if one.quote is None]


def _not_taken(other: Candidate, own: Bill, best: Bill) -> Verdict:
    if (clash := other.clash or other.now_clash) is not None:
        return clash
    more = own.total - best.total
    told = "more" if more >= 0 else "less, but others need the room there more"
    return Verdict(other.where, None, detail=f"{show(abs(more))} {told}")


def placement_of(record: WorkloadRecord, candidate: Candidate, bill: Bill, snapshot: Snapshot) -> Placement:
    pool = candidate.option.pool
    return Placement(
        workload=record.name,
        generation=record.status.generation + 1,
        cluster=pool.cluster,
        pool=pool.name,
        class_name=pool.class_name,
        mode=mode_of(record.spec, candidate),
        capacity=pool.capacity,
        replicas=candidate.option.replicas,
        decided_s=snapshot.now_s,
        start_s=candidate.option.start_s,
        bill=bill,
    )


def mode_of(spec: Workload, candidate: Candidate) -> ShareMode:
    """The mode that the plane expects; the agent may choose another that the pool offers."""
    if candidate.demand.whole:
        return ShareMode.EXCLUSIVE
    wanted = [mode for mode in candidate.option.pool.share if not spec.share or mode in spec.share]
    return next((mode for mode in wanted if mode is not ShareMode.EXCLUSIVE), ShareMode.EXCLUSIVE)


def _paused(record: WorkloadRecord, policy: str) -> Hold:
    return Hold(record.name, (Verdict("place", Reason.POLICY_PAUSED, "a running policy", f"{policy} is paused"),))
