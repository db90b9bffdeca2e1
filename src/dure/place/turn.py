"""Who has waited for long keeps a turn: room that comes free is for him, and others go round it.

Called by `Cycle` once. Without it a gang of sixteen devices does not start while single ones come: every device that
is given back goes at once to whoever fits into it, and fairness, which let the gang choose first, has done nothing. A
pool keeps one turn, for the first by fairness of those whom the last cycle held for want of room there. Whoever comes
after him gets room in that pool if he should be gone before the other can start (backfilling with one reservation,
as EASY does it), or if enough for the other is left besides. O(waiting log waiting + running).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dure.model.cluster import VNodePool
from dure.model.once import once
from dure.model.policy import Verb
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.units import HOUR_S, WHOLE_MILLI, Instant, Milli, Seconds
from dure.model.workload import Workload, WorkloadRecord
from dure.place.fairness import Claim, class_totals, fair_order
from dure.place.settings import settings_of
from dure.place.spans import claim_of, expected_end

ROOM = (Reason.NO_CAPACITY, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE)
# Also one that another's turn kept out wants room: it is the next, and says so without a decision in between.
WANTS_ROOM = (*ROOM, Reason.TURN_OF_ANOTHER)
ON_PURPOSE = (
    Reason.WAITING_FOR_CHEAPER_HOUR,
    Reason.WAITING_FOR_GREENER_HOUR,
    Reason.WAITING_FOR_SPOT,
    Reason.STANDS_ASIDE,
)
# Somebody who should have ended already is expected to go on for so long.
_OVERDUE_S: Seconds = 600.0


class Turn(NamedTuple):
    """`devices` of the pool are for this claim, which should start at `start_s`; `torn`: they are free, but not
    together."""

    claim: Claim
    cluster: str
    pool: str
    devices: int
    start_s: Instant
    torn: bool

    @property
    def where(self) -> str:
        return f"{self.cluster}/{self.pool}"


@once
def turns_of(snapshot: Snapshot) -> dict[tuple[str, str], Turn]:
    """The turns that are kept now, by pool; looked for once in a cycle."""
    found: dict[tuple[str, str], Turn] = {}
    settings = settings_of(snapshot.policy(Verb.PLACE))
    since_s = snapshot.now_s - settings.turn_after_h * HOUR_S
    patient = [one for one in snapshot.records if _lacks_room(one) and one.status.submitted_s <= since_s]
    if settings.turn_after_h <= 0.0 or not patient:
        return found
    claims = [claim_of(index, record, snapshot.now_s) for index, record in enumerate(patient)]
    pools = {f"{pool.cluster}/{pool.name}": pool for pool in snapshot.pools}
    ending = _ending(snapshot, settings.careful)
    for index in _in_order(claims, snapshot):
        record = patient[index]
        short = {verdict.where for verdict in record.status.held if verdict.reason in WANTS_ROOM}
        free = [pool for where in short if (pool := pools.get(where)) and (pool.cluster, pool.name) not in found]
        made = [_turn(claims[index], record.spec, pool, ending, snapshot.now_s) for pool in free]
        kept = [turn for turn in made if turn is not None]
        if kept:
            # Where it has it already: what others have left for it there would be lost.
            before = snapshot.turns.get(record.name)
            best = min(kept, key=lambda one: (one.where != before, one.start_s, one.torn, one.where))
            found[best.cluster, best.pool] = best
        if len(found) == len(pools):
            break
    return found


def _in_order(claims: Sequence[Claim], snapshot: Snapshot) -> list[int]:
    """By fairness, but whoever has a turn keeps it: two that take it from each other would both never start."""
    tenants = {tenant.name: tenant for tenant in snapshot.tenants}
    usage = {used.tenant: used for used in snapshot.usage}
    fair = fair_order(claims, tenants, usage, class_totals(snapshot.pools))
    return sorted(fair, key=lambda index: (-claims[index].priority, claims[index].name not in snapshot.turns))


def _lacks_room(record: WorkloadRecord) -> bool:
    """Held for want of whole devices and for nothing that it chose itself."""
    if not record.status.phase.waits or not record.spec.demand.whole:
        return False
    reasons = {verdict.reason for verdict in record.status.held}
    return not reasons.isdisjoint(WANTS_ROOM) and reasons.isdisjoint(ON_PURPOSE)


def _ending(snapshot: Snapshot, slow: float) -> dict[tuple[str, str], list[tuple[Instant, Milli]]]:
    """Who should leave each pool when, and with how much of its devices."""
    found: dict[tuple[str, str], list[tuple[Instant, Milli]]] = {}
    for record in snapshot.records:
        home, end_s = record.status.placement, expected_end(record, slow, snapshot.now_s)
        if home is not None and end_s is not None:
            gone_s = max(end_s, snapshot.now_s + _OVERDUE_S)
            milli = record.spec.demand.device_milli * home.replicas
            found.setdefault((home.cluster, home.pool), []).append((gone_s, milli))
    return found


def _turn(
    claim: Claim, spec: Workload, pool: VNodePool, ending: Mapping[tuple[str, str], Sequence[tuple[Instant, Milli]]],
    now_s: Instant,
) -> Turn | None:  # fmt: skip
    """When so many devices should be free there; None if that is not to be foreseen."""
    each, size, nodes = spec.demand.devices, spec.size_on(pool.class_name), max(pool.nodes, pool.nodes_max)
    if pool.devices_per_node // each * nodes < size:
        return None
    devices = each * size
    bootable = max(0, pool.nodes_max - pool.nodes) * pool.devices_per_node
    if sum(pool.free_whole) + bootable >= devices:
        return Turn(claim, pool.cluster, pool.name, devices, now_s, torn=True)
    free = pool.free_milli + bootable * WHOLE_MILLI
    for end_s, milli in sorted(ending.get((pool.cluster, pool.name), ())):
        free += milli
        if free >= devices * WHOLE_MILLI:
            return Turn(claim, pool.cluster, pool.name, devices, end_s, torn=False)
    return None
