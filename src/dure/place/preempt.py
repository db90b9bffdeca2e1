"""A higher priority takes the place of lower ones: the least costly set in one pool that makes the room.

Called by `plan` after a cycle has decided, for those that it held for want of room. Nobody leaves in vain: the very
same decision is made again on a copy of the snapshot in which they have left, and counts only if it starts the
claimant there at once. While they leave, nobody of lower priority gets the room. Never taken: serving (but by
serving), other tenants' workloads that were promised devices of their own, and whoever has the same priority.
O(held x running), and at most `TRIES` decisions on copies in a cycle. The agents' packer does the same for pods
(`pack.clearing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from dure.model.cluster import VNodePool
from dure.model.decision import Decision, Hold, Place, Reclaim
from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.units import WHOLE_MILLI, Instant
from dure.model.workload import Phase, WorkloadRecord, WorkloadType
from dure.place.room import PoolRoom
from dure.place.turn import ON_PURPOSE, ROOM
from dure.place.vacated import room_without, usage_without

Decide = Callable[[Snapshot], Sequence[Decision]]

# A decision on a copy costs as much as the one before it.
TRIES = 4
_HOLDING = (Phase.PLACED, Phase.STARTING, Phase.RUNNING)
# Who has a place, by the name of the pool.
_There = dict[str, list[WorkloadRecord]]


class _Plan(NamedTuple):
    where: str
    victims: tuple[WorkloadRecord, ...]
    lost: float

    @property
    def cost(self) -> tuple[int, float, str]:
        """First how important those are who leave, then the device-seconds of work that are lost."""
        return max((one.spec.priority for one in self.victims), default=0), self.lost, self.where


def with_preemption(snapshot: Snapshot, decisions: Sequence[Decision], decide: Decide) -> tuple[Decision, ...]:
    """The same decisions, less what is kept for a higher priority, and a Reclaim for each who leaves for one."""
    holding = [one for one in snapshot.records if one.status.placement is not None and one.status.phase in _HOLDING]
    if not holding:
        return tuple(decisions)
    lowest = min(one.spec.priority for one in holding)
    records = {one.name: one for one in snapshot.records}
    claims = [
        (records[one.workload], one.verdicts)
        for one in decisions
        if isinstance(one, Hold) and one.workload in records and records[one.workload].spec.priority > lowest
    ]
    if not claims:
        return tuple(decisions)
    found: list[Reclaim] = []
    kept: dict[str, int] = {}
    tries = TRIES
    there: _There = {}
    for one in holding:
        there.setdefault(_where(one), []).append(one)
    for record, verdicts in claims:
        for plan in _plans(record, verdicts, snapshot, there, frozenset(kept))[:tries]:
            tries -= 1
            if _starts(record, plan, snapshot, there[plan.where], decide):
                kept[plan.where] = record.spec.priority
                found += [_reclaim(victim, record, plan.where) for victim in plan.victims]
                break
    return (*(_kept_for(one, kept, records) for one in decisions), *found)


def _plans(
    record: WorkloadRecord, verdicts: Sequence[Verdict], snapshot: Snapshot, there: _There, taken: frozenset[str]
) -> list[_Plan]:
    """Pools whose lower priorities would make the room, the least costly first."""
    if any(verdict.reason in ON_PURPOSE for verdict in verdicts):
        return []
    short = ({verdict.where for verdict in verdicts if verdict.reason in ROOM} - taken) & there.keys()
    walled = {tenant.name for tenant in snapshot.tenants if tenant.isolation.walls_devices}
    pools = [(pool, there[where]) for pool in snapshot.pools if (where := f"{pool.cluster}/{pool.name}") in short]
    found = (_victims(record, pool, here, walled, snapshot.now_s) for pool, here in pools)
    plans = [plan for plan in found if plan is not None]
    return sorted(plans, key=lambda one: one.cost)


def _victims(
    record: WorkloadRecord, pool: VNodePool, there: Sequence[WorkloadRecord], walled: set[str], now_s: Instant
) -> _Plan | None:
    """Whoever leaves already counts as room; the others by priority, then by work lost for each seat they free."""
    class_name, where = pool.class_name, f"{pool.cluster}/{pool.name}"
    if record.spec.speed_on(class_name) is None:
        return None
    missing = record.spec.size_on(class_name) - PoolRoom(pool).fitting(record.spec.demand)
    if missing <= 0:
        return None
    missing -= sum(_freed(one, record.spec.demand) for one in there if one.status.leaving_s is not None)
    chosen: list[tuple[WorkloadRecord, int, float]] = []
    lower = [(one, _freed(one, record.spec.demand)) for one in there if _may_go(one, record, walled)]
    if sum(seats for _, seats in lower) < missing:
        return None
    worth = [(one, seats, _lost(one, now_s)) for one, seats in lower]
    for one, seats, lost in sorted(worth, key=lambda it: (it[0].spec.priority, it[2] / max(1, it[1]), it[0].name)):
        if missing <= 0:
            break
        if seats > 0:
            chosen.append((one, seats, lost))
            missing -= seats
    # What a later, larger one made superfluous stays; the most important first.
    for it in sorted(chosen, key=lambda it: (-it[0].spec.priority, -it[2], it[0].name)):
        if missing + it[1] <= 0:
            chosen.remove(it)
            missing += it[1]
    return _Plan(where, tuple(it[0] for it in chosen), sum(it[2] for it in chosen))


def _starts(
    record: WorkloadRecord, plan: _Plan, snapshot: Snapshot, there: Sequence[WorkloadRecord], decide: Decide
) -> bool:
    """Whether it begins there now once they have left: quota, budgets and everything else asked again."""
    leaving = [one for one in there if one.status.leaving_s is not None]
    gone = (*plan.victims, *leaving)
    pools = tuple(
        room_without(pool, gone, snapshot.catalogue) if f"{pool.cluster}/{pool.name}" == plan.where else pool
        for pool in snapshot.pools
    )
    usage = tuple(usage_without(used, plan.victims) for used in snapshot.usage)
    names = {one.name for one in plan.victims}
    left = tuple(one for one in snapshot.records if one.name not in names)
    found = decide(replace(snapshot, records=left, pools=pools, usage=usage))
    mine = [one.placement for one in found if isinstance(one, Place) and one.workload == record.name]
    return any(f"{home.cluster}/{home.pool}" == plan.where for home in mine)


def _may_go(victim: WorkloadRecord, record: WorkloadRecord, walled: set[str]) -> bool:
    spec, claimant = victim.spec, record.spec
    if spec.priority >= claimant.priority or victim.status.leaving_s is not None:
        return False
    if spec.type is WorkloadType.SERVING and claimant.type is not WorkloadType.SERVING:
        return False
    return spec.tenant == claimant.tenant or spec.tenant not in walled


def _freed(victim: WorkloadRecord, demand: Demand) -> int:
    """Pods of `demand` that fit into what each of the victim's pods frees on its node."""
    home, freed = victim.status.placement, victim.spec.demand
    pods = home.replicas if home is not None else 0
    if demand.whole:
        return pods * (freed.devices // demand.devices)
    if freed.whole:
        return pods * freed.devices * (WHOLE_MILLI // max(1, demand.device_milli))
    fits = demand.memory_mib <= freed.memory_mib and demand.device_milli <= freed.device_milli
    return pods if fits else 0


def _lost(victim: WorkloadRecord, now_s: Instant) -> float:
    """Device-seconds of work that would be done again: since the last checkpoint, or since the start without them."""
    home, status = victim.status.placement, victim.status
    if home is None or status.started_s is None or victim.spec.type is WorkloadType.SERVING:
        return 0.0
    ran_s = max(0.0, now_s - status.started_s)
    again_s = min(ran_s, victim.spec.checkpoint_s) if victim.spec.checkpoint_s > 0 else ran_s
    return again_s * victim.spec.demand.device_milli / WHOLE_MILLI * home.replicas


def _where(record: WorkloadRecord) -> str:
    home = record.status.placement
    return f"{home.cluster}/{home.pool}" if home is not None else ""


def _kept_for(decision: Decision, kept: dict[str, int], records: dict[str, WorkloadRecord]) -> Decision:
    """A lower priority does not slip into room that others leave for a higher one."""
    if not isinstance(decision, Place):
        return decision
    where = f"{decision.placement.cluster}/{decision.placement.pool}"
    if where not in kept or records[decision.workload].spec.priority >= kept[where]:
        return decision
    why = Verdict(where, Reason.PREEMPTED, detail="the place is kept for a higher priority")
    return Hold(decision.workload, (why,))


def _reclaim(victim: WorkloadRecord, claimant: WorkloadRecord, where: str) -> Reclaim:
    # Read by the victim's owner, whom the other's workload does not concern; the decision itself names both.
    detail = f"a workload of priority {claimant.spec.priority} takes the place, it has {victim.spec.priority}"
    return Reclaim(victim.name, claimant.spec.tenant, claimant.name, Verdict(where, Reason.PREEMPTED, detail=detail))
