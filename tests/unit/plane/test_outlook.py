"""When the plane decides again: whenever somebody's answer may have changed, and not otherwise."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.accelerator import ShareMode
from dure.model.cluster import VNodePool
from dure.model.demand import Demand
from dure.model.report import Observed, Report
from dure.model.tariff import Capacity
from dure.model.tenant import Tenant
from dure.model.weights import Weights
from dure.model.workload import (
    AcceptedClass,
    Phase,
    Placement,
    SpeedUp,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)
from dure.plane.outlook import LOOK_S, Outlook, Rules, calls_for_decision, outlook

RULES: Rules = ((Tenant("vision"),), (), Weights())
POOL = VNodePool("seoul", "t4", "t4", Capacity.OWNED, nodes=2, nodes_max=2, free_whole=(2, 1), free_milli=3000)
NOW_S = 36_000.0


def waiting(uid: str = "u", accepts: str = "t4") -> WorkloadRecord:
    spec = Workload(uid, "vision", WorkloadType.BATCH, (AcceptedClass(accepts),), Demand(devices=2))
    return WorkloadRecord(uid, spec, WorkloadStatus(phase=Phase.HELD))


def look(
    *records: WorkloadRecord,
    pool: VNodePool = POOL,
    now_s: float = NOW_S,
    rules: Rules = RULES,
    heard_s: float = NOW_S,
) -> Outlook:
    return outlook(records or (waiting(),), [Report("seoul", heard_s, "v", (pool,), ())], rules, now_s, 900.0)


def test_the_first_look_decides_and_an_unchanged_world_does_not() -> None:
    assert calls_for_decision(None, look())
    assert not calls_for_decision(look(), look(now_s=NOW_S + 30))


def test_nobody_waits_nothing_to_decide() -> None:
    runs = msgspec.structs.replace(waiting(), status=WorkloadStatus(phase=Phase.RUNNING))
    assert not calls_for_decision(None, look(runs))


@pytest.mark.parametrize(
    "changes",
    [
        {"free_whole": (2, 2)},
        {"free_whole": (2, 1, 1)},
        {"free_milli": 3100},
        {"largest_memory_mib": 1},
        {"largest_compute_milli": 1},
        {"free_cpu_milli": 1},
        {"nodes_max": 3},
        {"free_whole": (3,), "free_milli": 2000},
    ],
)
def test_room_that_grew_anywhere_is_worth_a_look(changes: dict[str, object]) -> None:
    assert calls_for_decision(look(), look(pool=msgspec.structs.replace(POOL, **changes)))


def test_room_that_a_gang_between_two_sizes_was_promised_grows_when_it_has_sat_down() -> None:
    """The devices that a report counts as free are as many before and after; what others may have is not."""
    spec = Workload(
        "g", "vision", WorkloadType.TRAINING, (AcceptedClass("t4"),), Demand(devices=1), gang=1,
        speedups=(SpeedUp(2, 1.8),), checkpoint_s=10.0,
    )  # fmt: skip
    home = Placement("g", 3, "seoul", "t4", "t4", ShareMode.EXCLUSIVE, Capacity.OWNED, replicas=2, decided_s=0.0)
    begins = WorkloadRecord("g", spec, WorkloadStatus(phase=Phase.STARTING, started_s=1.0, placement=home))
    runs = msgspec.structs.replace(begins, status=msgspec.structs.replace(begins.status, phase=Phase.RUNNING))

    def at(gang: WorkloadRecord, bound: int) -> Outlook:
        seen = Observed("g", "g", 3, pods=2, bound=bound)
        return outlook((waiting(), gang), [Report("seoul", NOW_S, "v", (POOL,), (seen,))], RULES, NOW_S, 900.0)

    leaving, seated = at(begins, bound=0), at(runs, bound=2)
    assert leaving.rooms["seoul", "t4"].free_milli == 1000
    assert calls_for_decision(leaving, seated)
    assert not calls_for_decision(seated, at(runs, bound=2))


def test_room_that_shrank_is_not_but_is_remembered() -> None:
    less = msgspec.structs.replace(POOL, free_whole=(1,), free_milli=1000)
    shrunk = look(pool=less)
    assert not calls_for_decision(look(), shrunk)
    assert calls_for_decision(shrunk, look())


def test_room_on_a_class_that_nobody_waits_for_is_not_looked_at() -> None:
    more = msgspec.structs.replace(POOL, free_milli=4000)
    assert not calls_for_decision(look(waiting(accepts="h100")), look(waiting(accepts="h100"), pool=more))


def test_a_new_workload_new_rules_a_lost_cluster_and_a_new_hour_are_looked_at() -> None:
    before = look()
    assert calls_for_decision(before, look(waiting(), waiting("v")))
    assert calls_for_decision(before, look(rules=((Tenant("vision", weight=2),), (), Weights())))
    assert calls_for_decision(before, look(heard_s=NOW_S - 1000))
    assert calls_for_decision(look(now_s=NOW_S - 1), look())


def test_everybody_is_looked_at_now_and_then() -> None:
    first = look()
    idle = look(now_s=NOW_S + LOOK_S / 2).after(first, looked=False)
    assert not calls_for_decision(first, idle)
    assert calls_for_decision(idle, look(now_s=NOW_S + LOOK_S))
