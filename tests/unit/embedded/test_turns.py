"""A gang among single ones that never stop coming: it gets its turn, also over a crash and in a torn pool."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.catalogue import Catalogue
from dure.model.fleet import Fleet
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.workload import Phase, Workload
from dure.plane.turns import kept_turns
from tests.unit.embedded.test_world import Turner, batch

A100 = "{name: a100-80gb-sxm, speed: 1.0}"


def single(number: int) -> Workload:
    minutes = (65, 95, 40, 120, 80)[number % 5]
    return batch(f"single-{number:03}", duration=f"{minutes}min", classes=A100)


def gang(nodes: int) -> Workload:
    made = batch("gang", duration="1h", demand="{devices: 4}", extra=f"  gang: {nodes}\n", classes=A100)
    return msgspec.structs.replace(made, tenant="search")


def crowded(turner: Turner, wide: Workload, hours: float, *, crash: bool = False) -> None:
    """More single ones than there is room for, for hours; the gang comes in the first of them."""
    turner.world.submit([single(number) for number in range(8)])
    turner.run(600.0)
    turner.world.submit([wide])
    for number in range(8, 8 + int(hours * 8)):
        turner.world.submit([single(number)])
        turner.run(450.0, step_s=75.0)
        if crash and number == 30:
            turner.crash()


@pytest.mark.parametrize("crash", [False, True])
def test_a_gang_that_needs_the_whole_pool_starts(small_fleet: Fleet, known: Catalogue, crash: bool) -> None:
    turner = Turner(small_fleet, known)
    crowded(turner, gang(2), 7.0, crash=crash)
    assert turner.store.fetch_workload("gang").status.phase is Phase.DONE
    assert "gang" not in {kept.room.workload for kept in kept_turns(turner.store)}
    others = [record.status for record in turner.store.list_workloads() if record.name != "gang"]
    told = {verdict.reason for status in others for verdict in status.held}
    assert sum(status.phase is Phase.DONE for status in others) >= 30
    assert told <= {Reason.NO_CAPACITY, Reason.CLASS_NOT_ACCEPTED, Reason.TURN_OF_ANOTHER}


def test_one_that_needs_a_whole_node_gets_it_although_free_devices_lie_apart(
    small_fleet: Fleet, known: Catalogue
) -> None:
    turner = Turner(small_fleet, known)
    crowded(turner, gang(1), 5.0)
    assert turner.store.fetch_workload("gang").status.phase is Phase.DONE


def test_without_turns_it_waits_for_as_long_as_others_come(small_fleet: Fleet, known: Catalogue) -> None:
    still = Policy("no-turns", Verb.PLACE, settings={"turnAfterH": 0.0})
    turner = Turner(msgspec.structs.replace(small_fleet, policies=(still,)), known)
    crowded(turner, gang(2), 7.0)
    assert turner.store.fetch_workload("gang").status.phase is Phase.HELD
