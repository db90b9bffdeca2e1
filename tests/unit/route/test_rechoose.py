"""A policy with weights looks again with its own eyes."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from dure.route import chain, rechoose
from dure.route.reroute import Settings
from dure.route.situation import Candidate, Situation, Waiting
from tests.unit.route.situations import ONE_GPU, light, situation

CARBON = partial(chain.choose, settings=chain.Settings(per_carbon=1e6, watts={"t4": 70.0, "cpu": 10.0}))
NEVER_CPU = partial(chain.choose, settings=chain.Settings(per_cost=1e9, price_per_hour={"t4": 1.0, "cpu": 100.0}))


def waiting_job(moves: int = 0) -> tuple[Situation, Candidate]:
    job = replace(light(), moves=moves)
    seen = situation(gpu_waiting=12)
    lane = seen.lanes["gpu"]
    entered = Waiting(job.name, ONE_GPU, 26.0, job.created_s)
    return replace(seen, lanes={**seen.lanes, "gpu": replace(lane, waiting=(*lane.waiting, entered))}), job


def test_a_waiting_job_follows_what_its_policy_weighs() -> None:
    seen, job = waiting_job()
    [move] = rechoose.plan((job,), seen, CARBON).moves
    assert (move.to_queue, move.because[:5]) == ("user-cpu", "least")
    assert rechoose.plan((job,), seen, NEVER_CPU).moves == ()


def test_it_moves_only_so_often_and_only_for_a_gain() -> None:
    seen, job = waiting_job(moves=3)
    assert rechoose.plan((job,), seen, CARBON, Settings(most_moves=3)).moves == ()
    seen, job = waiting_job()
    assert rechoose.plan((job,), seen, CARBON, Settings(gain_s=1e12)).moves == ()


def test_one_that_stays_does_not_keep_those_behind_it() -> None:
    seen, job = waiting_job()
    tired = replace(job, name="tired", moves=3, created_s=1.0)
    [move] = rechoose.plan((tired, job), seen, CARBON, Settings(most_moves=3)).moves
    assert move.job == job.name
