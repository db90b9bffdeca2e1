"""Borrowed quota goes back while it is in use: who has to leave so that an owner gets what is its own.

Called by `plan` after a cycle has decided. A workload that waits for room although its tenant is inside its own quota
may take back what others run beyond theirs: the least important borrowers of one pool, as few as make the room, and
none at all when they would not make it. Serving is never taken, and nobody is pushed under its own quota.
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.model.decision import Decision, Hold, Reclaim
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tenant import Tenant
from dure.model.units import WHOLE_MILLI, Instant, Milli, Seconds
from dure.model.workload import Phase, WorkloadRecord, WorkloadType

# An owner waits this long before others have to go: what ends by itself need not be stopped.
GRACE_S: Seconds = 300.0
_ROOM = (Reason.NO_CAPACITY, Reason.FRAGMENTED, Reason.FAIR_SHARE, Reason.GANG_INCOMPLETE)


def reclaims(snapshot: Snapshot, decisions: Sequence[Decision]) -> tuple[Reclaim, ...]:
    """One Reclaim per workload that has to leave, in the order of those who wait for it."""
    return tuple(_Books(snapshot).all_of(decisions))


class _Books:
    def __init__(self, snapshot: Snapshot) -> None:
        self.now_s: Instant = snapshot.now_s
        self.records = {record.name: record for record in snapshot.records}
        self.tenants = {tenant.name: tenant for tenant in snapshot.tenants}
        self.pools = {f"{pool.cluster}/{pool.name}": pool for pool in snapshot.pools}
        self.free = {where: pool.free_milli for where, pool in self.pools.items()}
        self.held = {
            (usage.tenant, name): milli for usage in snapshot.usage for name, milli in usage.device_milli.items()
        }
        self.gone: set[str] = set()

    def all_of(self, decisions: Sequence[Decision]) -> list[Reclaim]:
        found: list[Reclaim] = []
        for decision in decisions:
            if isinstance(decision, Hold) and decision.workload in self.records:
                found += self._for(self.records[decision.workload], decision.verdicts)
        return found

    def _for(self, record: WorkloadRecord, verdicts: Sequence[Verdict]) -> list[Reclaim]:
        if self.now_s - record.status.submitted_s < GRACE_S:
            return []
        plans = [
            plan
            for verdict in verdicts
            if verdict.reason in _ROOM and verdict.where in self.pools
            if (plan := self._victims(record, verdict.where))
        ]
        if not plans:
            return []
        where, leaving = min(plans, key=lambda plan: (len(plan[1]), plan[0]))
        self._book(record, where, leaving)
        return [_reclaim(victim, record, where) for victim in leaving]

    def _victims(self, record: WorkloadRecord, where: str) -> tuple[str, list[WorkloadRecord]] | None:
        """Who would have to leave this pool; nothing where the claim is not covered or the room would not do."""
        class_name = self.pools[where].class_name
        wanted = record.spec.demand.device_milli * record.spec.size
        mine = self._tenant(record)
        quota = mine.quota.get(class_name)
        held = self.held.get((mine.name, class_name), 0)
        if quota is None or held + wanted > quota * WHOLE_MILLI or record.spec.speed_on(class_name) is None:
            return None
        missing = wanted - self.free[where]
        over: dict[str, Milli] = {}
        leaving: list[WorkloadRecord] = []
        for victim in self._borrowers(where, mine.name):
            if missing <= 0:
                break
            owner = self._tenant(victim)
            beyond = over.setdefault(
                owner.name, self.held.get((owner.name, class_name), 0) - owner.quota[class_name] * WHOLE_MILLI
            )
            size = _size(victim)
            if size <= beyond:
                over[owner.name] -= size
                missing -= size
                leaving.append(victim)
        return (where, leaving) if missing <= 0 and leaving else None

    def _borrowers(self, where: str, lender: str) -> list[WorkloadRecord]:
        class_name = self.pools[where].class_name
        there = [
            record
            for record in self.records.values()
            if (home := record.status.placement) is not None
            and f"{home.cluster}/{home.pool}" == where
            and record.status.phase in (Phase.PLACED, Phase.STARTING, Phase.RUNNING)
            and record.status.leaving_s is None
            and record.name not in self.gone
            and record.spec.type is not WorkloadType.SERVING
            and record.spec.tenant != lender
            and class_name in self._tenant(record).quota
        ]
        return sorted(
            there, key=lambda one: (one.spec.priority, not one.spec.interruptible, one.status.done_s, one.name)
        )

    def _book(self, record: WorkloadRecord, where: str, leaving: list[WorkloadRecord]) -> None:
        class_name = self.pools[where].class_name
        for victim in leaving:
            self.gone.add(victim.name)
            self.free[where] += _size(victim)
            self.held[victim.spec.tenant, class_name] -= _size(victim)
        wanted = record.spec.demand.device_milli * record.spec.size
        self.free[where] -= wanted
        key = (record.spec.tenant, class_name)
        self.held[key] = self.held.get(key, 0) + wanted

    def _tenant(self, record: WorkloadRecord) -> Tenant:
        return self.tenants.get(record.spec.tenant, Tenant(record.spec.tenant))


def _size(record: WorkloadRecord) -> Milli:
    home = record.status.placement
    return record.spec.demand.device_milli * (home.replicas if home else 0)


def _reclaim(victim: WorkloadRecord, claimant: WorkloadRecord, where: str) -> Reclaim:
    owner = claimant.spec.tenant
    # Read by the victim's owner, whom the other's workload does not concern; the decision itself names both.
    detail = "the tenant who lent it the quota takes it back"
    return Reclaim(victim.name, owner, claimant.name, Verdict(where, Reason.QUOTA_RECLAIMED, detail=detail))
