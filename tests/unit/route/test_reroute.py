"""Jobs that wait change queues when the backlog gains, and only so often."""

from __future__ import annotations

from msgspec.structs import replace

from dure.route.reroute import Settings, moves
from dure.route.situation import Figures, Situation, Waiting
from tests.unit.route.situations import CPU, ONE_GPU, light, situation


def with_light(count: int) -> tuple[Situation, tuple[object, ...]]:
    seen = situation(gpu_waiting=12)
    jobs = tuple(light(name=f"l{n}", created_s=90.0 + n) for n in range(count))
    lane = seen.lanes["gpu"]
    entered = tuple(Waiting(job.name, ONE_GPU, 26.0, job.created_s) for job in jobs)
    return replace(seen, lanes={**seen.lanes, "gpu": replace(lane, waiting=(*lane.waiting, *entered))}), jobs


def test_a_long_backlog_sends_light_jobs_elsewhere_with_a_reason() -> None:
    seen, jobs = with_light(8)
    made = moves(jobs, seen)  # type: ignore[arg-type]
    assert 1 <= len(made) <= 6
    assert all(move.to_queue == "user-cpu" and "there instead of" in move.because for move in made)
    assert len({move.job for move in made}) == len(made)


def test_nothing_moves_when_nothing_is_gained() -> None:
    seen = situation(gpu_waiting=0, gpu_running=0)
    job = light()
    lane = replace(seen.lanes["gpu"], waiting=(Waiting(job.name, ONE_GPU, 26.0, 100.0),))
    assert moves((job,), replace(seen, lanes={**seen.lanes, "gpu": lane})) == ()


def test_a_job_that_moved_often_stays() -> None:
    seen, jobs = with_light(8)
    tired = tuple(replace(job, moves=3) for job in jobs)  # type: ignore[type-var]
    assert moves(tired, seen, Settings(most_moves=3)) == ()  # type: ignore[arg-type]


def test_nothing_moves_to_a_queue_that_is_stopped() -> None:
    seen, jobs = with_light(8)
    stopped = {**seen.figures, "cpu": Figures("cpu", {CPU: 24_000}, active=False)}
    assert moves(jobs, replace(seen, figures=stopped)) == ()  # type: ignore[arg-type]


def test_the_order_of_the_input_does_not_matter() -> None:
    seen, jobs = with_light(8)
    assert moves(jobs, seen) == moves(tuple(reversed(jobs)), seen)  # type: ignore[arg-type]
