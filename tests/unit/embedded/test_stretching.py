"""Elastic gangs in the live loop: they grow into free devices at a checkpoint and end sooner; others keep theirs."""

from __future__ import annotations

from msgspec.structs import replace

from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import ScaleReplicas
from dure.model.units import HOUR_S
from dure.model.workload import Phase, SpeedUp
from dure.plane.promised import pools_left
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


def alone(known: Catalogue) -> Turner:
    """One cluster with sixteen devices."""
    fleet = read_text(TWINS, "twins").fleets[0]
    return Turner(replace(fleet, clusters=fleet.clusters[:1]), known)


def test_a_gang_gives_back_what_others_wait_for_and_no_more(known: Catalogue) -> None:
    world = alone(known)
    world.world.submit([job("grow", gang=2, speedups=SPEEDS, duration_s=40 * HOUR_S)])
    world.run(HOUR_S, step_s=60.0)
    assert sizes(world, "grow") == [6]
    world.world.submit([job("need", gang=4, duration_s=HOUR_S, checkpoint_s=0.0)])
    world.run(HOUR_S, step_s=60.0)
    assert sizes(world, "grow") == [6, 4]
    need = world.store.fetch_workload("need").status
    # It came in at the gang's next checkpoint, not when the gang was done.
    assert (need.started_s or 0.0) - need.submitted_s <= 25 * 60
    world.run(2 * HOUR_S, step_s=60.0)
    assert world.store.fetch_workload("need").status.phase is Phase.DONE
    assert sizes(world, "grow") == [6, 4, 6]


def test_a_gang_shrinks_no_further_than_to_itself_and_not_in_vain(known: Catalogue) -> None:
    world = alone(known)
    world.world.submit([job("grow", gang=2, speedups=SPEEDS, duration_s=40 * HOUR_S)])
    world.run(HOUR_S, step_s=60.0)
    # Fourteen of the sixteen: even the gang alone leaves only twelve.
    world.world.submit([job("vast", gang=7, duration_s=HOUR_S)])
    world.run(2 * HOUR_S, step_s=60.0)
    assert sizes(world, "grow") == [6]
    assert world.store.fetch_workload("vast").status.phase is Phase.HELD


def test_a_plane_that_dies_in_the_middle_leaves_one_gang_and_all_its_work(known: Catalogue) -> None:
    world = alone(known)
    world.world.submit([job("grow", gang=2, speedups=SPEEDS, duration_s=20 * HOUR_S)])
    done = 0.0
    for turn in range(300):
        if turn == 40:
            world.world.submit([job("need", gang=4, duration_s=HOUR_S)])
        world.run(120.0, step_s=60.0)
        world.crash()
        status = world.store.fetch_workload("grow").status
        assert status.done_s >= done
        done = status.done_s
        pods = [pod for pod in world.world.clusters["east"].fetch_state().pods if pod.workload == "grow"]
        assert len({pod.generation for pod in pods}) <= 1
    assert sizes(world, "grow")[:2] == [6, 4]
    assert world.store.fetch_workload("need").status.phase is Phase.DONE
    assert world.store.fetch_workload("grow").status.restarts == 0


def test_others_are_not_offered_what_a_gang_between_two_sizes_comes_back_to(known: Catalogue) -> None:
    world = alone(known)
    world.world.submit([job("grow", gang=2, speedups=SPEEDS, duration_s=20 * HOUR_S)])
    world.run(HOUR_S, step_s=60.0)
    record = world.store.fetch_workload("grow")
    (report,) = world.store.list_reports()
    assert pools_left([record], [report]) == report.pools
    starting = replace(record, status=replace(record.status, phase=Phase.STARTING))
    nowhere = replace(
        report,
        observed=tuple(replace(one, bound=0) for one in report.observed),
        pools=tuple(replace(pool, free_whole=(4, 4, 4, 4)) for pool in report.pools),
    )
    (pool,) = pools_left([starting], [nowhere])
    assert sum(pool.free_whole) == 16 - 12
