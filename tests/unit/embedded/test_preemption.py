"""A full fleet and a workload of higher priority: it runs soon, and those who made room go on afterwards."""

from __future__ import annotations

import pytest

from dure.model.catalogue import Catalogue
from dure.model.decision import Reclaim
from dure.model.fleet import Fleet
from dure.model.reason import Reason
from dure.model.units import HOUR_S
from dure.model.workload import Phase
from tests.unit.embedded.test_world import Turner, batch

A100 = "{name: a100-80gb-sxm, speed: 1.0}"


@pytest.mark.parametrize("crash", [False, True])
def test_an_urgent_workload_takes_the_place_of_a_lower_one_which_is_done_later(
    small_fleet: Fleet, known: Catalogue, crash: bool
) -> None:
    turner = Turner(small_fleet, known)
    kept = "  checkpoint: 10min\n"
    low = [batch(f"low{n}", duration="3h", demand="{devices: 4}", extra=kept, classes=A100) for n in range(2)]
    turner.world.submit(low)
    turner.run(HOUR_S / 2)
    assert turner.phases() == {Phase.RUNNING: 2}
    turner.world.submit([batch("urgent", demand="{devices: 4}", extra="  priority: 50\n", classes=A100)])
    turner.run(60.0)
    if crash:
        turner.crash()
    turner.run(540.0)
    assert turner.store.fetch_workload("urgent").status.phase is Phase.RUNNING
    [made_room] = [
        entry.decision for entry in turner.store.list_journal(limit=1000) if isinstance(entry.decision, Reclaim)
    ]
    assert (made_room.claimant, made_room.reason.reason) == ("urgent", Reason.PREEMPTED)
    told = turner.world.desk.why(made_room.workload)
    assert told.phase is Phase.HELD
    turner.run(5 * HOUR_S, step_s=60.0)
    assert turner.phases() == {Phase.DONE: 3}
    victim = turner.store.fetch_workload(made_room.workload)
    assert victim.status.done_s >= 3 * HOUR_S - 1
