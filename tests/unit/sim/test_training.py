"""Training jobs in rounds: profiles are read between the measured points, no device is given twice, all end."""

from __future__ import annotations

import math

import pytest

from dure.sim.training.cluster import Job, Kind, Rule, Submitted, replay
from dure.sim.training.profile import Application, Epochs, Step, Steps
from dure.sim.training.rules import Gavel, Ours, fifo, srtf, tiresias

KINDS = (Kind("slow", 2, 4), Kind("fast", 1, 4))


def steps(seconds: float) -> Steps:
    shapes = [(1, 1), (1, 2), (1, 4), (2, 8)]
    return Steps(
        Step(nodes, replicas, batch, seconds * (0.5 + batch / 64), 0.01 * nodes)
        for nodes, replicas in shapes
        for batch in (8, 16, 32, 64)
    )


def application() -> Application:
    epochs = Epochs(progress=(1000.0, 2000.0, 3000.0), square=(1.0, 1.0, 1.0), variance=(20.0, 20.0, 20.0))
    return Application(
        {"slow": steps(2.0), "fast": steps(0.5)}, {32: epochs, 256: epochs}, count=3, restart_s=30.0, slower=1.0
    )


def jobs(count: int, *, elastic: bool) -> list[Job]:
    app = application()
    return [
        Job(Submitted(f"job{index}", 200.0 * index, "app", 2 if index % 2 else 4, 64), app, elastic=elastic)
        for index in range(count)
    ]


def test_what_was_not_measured_is_interpolated_and_what_does_not_fit_is_unknown() -> None:
    known = steps(1.0)
    assert known.at(1, 3, 16)[0] == pytest.approx(0.75)
    assert math.isnan(known.at(1, 2, 128)[0])


def test_a_larger_batch_gets_further_in_a_step_but_less_than_in_proportion() -> None:
    gain = application().gain(256)
    assert 1.0 < gain[0] < 8.0


def test_more_devices_are_faster_with_the_batch_size_that_suits_them() -> None:
    app = application()
    one, four = app.best_pace("slow", 1, 1), app.best_pace("slow", 1, 4)
    assert one is not None
    assert four is not None
    assert four[0] > one[0]


@pytest.mark.parametrize("name", ["fifo", "srtf", "tiresias", "gavel", "ours", "elastic"])
def test_every_job_ends_and_no_device_is_given_twice(name: str) -> None:
    known: dict[str, Rule] = {"fifo": fifo, "srtf": srtf, "tiresias": tiresias, "gavel": Gavel(60.0)}
    inner = known.get(name) or Ours(0.5)
    here = jobs(8, elastic=name == "elastic")

    def watched(active, kinds, now_s):  # type: ignore[no-untyped-def]
        wanted = inner(active, kinds, now_s)
        for kind in kinds:
            assert sum(devices for own, devices in wanted.values() if own == kind.name) <= kind.total
        return wanted

    replay(here, KINDS, watched, round_s=60.0)
    assert all(job.end_s is not None and job.end_s > job.spec.at_s for job in here)


def test_elastic_jobs_are_done_sooner_than_rigid_ones() -> None:
    means = []
    for elastic in (False, True):
        here = jobs(8, elastic=elastic)
        replay(here, KINDS, Ours(0.5), round_s=60.0)
        means.append(sum((job.end_s or 0.0) - job.spec.at_s for job in here))
    assert means[1] < means[0]
