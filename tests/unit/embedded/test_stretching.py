"""Elastic gangs in the live loop: they grow into free devices at a checkpoint and end sooner; others keep theirs."""

from __future__ import annotations

from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import ScaleReplicas
from dure.model.units import HOUR_S
from dure.model.workload import Phase, SpeedUp
from tests.unit.embedded.test_moves import TWINS, job
from tests.unit.embedded.test_world import Turner

SPEEDS = (SpeedUp(2, 1.0), SpeedUp(4, 1.8), SpeedUp(6, 2.4))


def turner(known: Catalogue) -> Turner:
    return Turner(read_text(TWINS, "twins").fleets[0], known)


def sizes(world: Turner, name: str) -> list[int]:
    journal = world.store.list_journal(workload=name, limit=1000)
    return [entry.decision.after for entry in journal if isinstance(entry.decision, ScaleReplicas)]


def test_a_gang_with_measured_speeds_grows_into_free_devices_and_ends_sooner(known: Catalogue) -> None:
    ends = {}
    for speedups in ((), SPEEDS):
        world = turner(known)
        world.world.submit([job("grow", gang=2, speedups=speedups, duration_s=8 * HOUR_S)])
        world.run(16 * HOUR_S, step_s=60.0)
        record = world.store.fetch_workload("grow")
        assert record.status.phase is Phase.DONE
        ends[bool(speedups)] = (record.status.finished_s or 0.0) - record.status.submitted_s
        assert sizes(world, "grow") == ([6] if speedups else [])
    assert ends[True] < 0.75 * ends[False]


def test_no_work_is_lost_by_growing(known: Catalogue) -> None:
    world = turner(known)
    world.world.submit([job("grow", gang=2, speedups=SPEEDS, duration_s=8 * HOUR_S)])
    done = 0.0
    for _ in range(40):
        world.run(300.0, step_s=60.0)
        now = world.store.fetch_workload("grow").status.done_s
        assert now >= done
        done = now
    assert sizes(world, "grow") == [6]


def test_a_gang_does_not_grow_into_what_others_wait_for(known: Catalogue) -> None:
    world = turner(known)
    world.world.submit([job(f"full{index}", gang=1, duration_s=30 * HOUR_S) for index in range(14)])
    world.world.submit([job("grow", gang=2, speedups=SPEEDS, duration_s=20 * HOUR_S)])
    world.run(HOUR_S / 2, step_s=60.0)
    world.world.submit([job(f"more{index}", gang=1) for index in range(4)])
    world.run(3 * HOUR_S, step_s=60.0)
    assert sizes(world, "grow") == []
