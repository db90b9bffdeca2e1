"""What people do without Dure: every workload goes to the first place on a fixed list, at once, and stays there.

The list is the workload's own order of classes, then the order of clusters in the fleet file. No waiting for a better
hour, no spot, no moves, no learning. `dure report` replays a stretch of time with it and with Dure's own placement,
so that a saving is measured and not claimed. Same filters, quotas and packing as Dure: only the choice differs.
Cost: O(waiting x pools).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from dure.model.decision import Decision, Hold
from dure.model.fleet import Fleet
from dure.model.policy import Policy, Verb
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.workload import WorkloadRecord
from dure.place.candidate import Candidate, Cycle
from dure.place.plan import held, placed

_STILL: dict[str, float | int | str] = {"movesAtOnce": 0, "learning": "off", "spot": False}


def fixed_fleet(fleet: Fleet) -> Fleet:
    """The fleet with moves, learning and spot switched off."""
    kept = tuple(policy for policy in fleet.policies if policy.verb is not Verb.PLACE)
    return replace(fleet, policies=(*kept, Policy("fixed", Verb.PLACE, settings=dict(_STILL))))


def fixed(fleet: Fleet) -> Callable[[Snapshot], Sequence[Decision]]:
    """The placement by list for this fleet, to be handed to a plane in place of `place`."""
    order = {spec.info.name: index for index, spec in enumerate(fleet.clusters)}

    def decide(snapshot: Snapshot) -> Sequence[Decision]:
        waiting = tuple(record for record in snapshot.records if record.status.phase.waits)
        if not waiting:
            return ()
        cycle = Cycle(snapshot, waiting)
        come = sorted(waiting, key=lambda one: (-one.spec.priority, one.status.submitted_s, one.name))
        return tuple(_decision(cycle, record, order) for record in come)

    return decide


def _decision(cycle: Cycle, record: WorkloadRecord, order: dict[str, int]) -> Decision:
    candidates = tuple(cycle.candidates(record))
    classes = {accepted.name: index for index, accepted in enumerate(record.spec.classes)}

    def rank(one: Candidate) -> tuple[int, int, str]:
        option = one.option
        return classes.get(option.pool.class_name, 99), order.get(option.cluster.name, 99), one.where

    for candidate in sorted(candidates, key=rank):
        rented = candidate.option.pool.capacity is not Capacity.SPOT
        if rented and candidate.quote is not None and cycle.now_clash(record, candidate) is None:
            return placed(cycle, record, candidates, candidate)
    return Hold(record.name, held(cycle, record, candidates))
