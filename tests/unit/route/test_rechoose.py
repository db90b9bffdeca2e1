"""A policy with weights looks again with its own eyes."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from dure.route import chain, rechoose
from dure.route.forecast import NEVER
from dure.route.reroute import Settings
from dure.route.situation import Candidate, Choice, Lane, Offer, Situation, Waiting
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


def offered(score: float | None = None, finish_s: float | None = None, refused: str = "") -> Offer:
    return Offer("q", "c", finish_s, finish_s, score, refused)


def moved(here: Offer, there: Offer, **rule: float) -> bool:
    """Whether a policy that answers these offers moves the job; it is second 100."""
    seen, job = waiting_job()
    choice = Choice(1, "r", "so", (here, there))
    return rechoose.plan((job,), seen, lambda *_: choice, Settings(**{"gain": 0.0, **rule})).moves != ()  # type: ignore[arg-type]


def test_a_gain_is_counted_by_score_where_there_is_one_else_by_the_end() -> None:
    assert moved(offered(score=10.0), offered(score=9.5))
    assert not moved(offered(score=10.0), offered(score=9.6))
    assert moved(offered(finish_s=110.0), offered(finish_s=109.5))
    assert not moved(offered(finish_s=110.0), offered(finish_s=109.6))
    assert not moved(offered(score=10.0, finish_s=500.0), offered(score=9.9, finish_s=1.0))
    assert not moved(offered(), offered(finish_s=1.0)), "nobody knows what it would gain"
    assert not moved(offered(finish_s=500.0), offered())
    assert moved(offered(refused="stopped"), offered())


def test_a_gain_is_a_share_of_the_time_to_the_end_as_well() -> None:
    assert moved(offered(finish_s=200.0), offered(finish_s=190.0), gain=0.1)
    assert not moved(offered(finish_s=200.0), offered(finish_s=191.0), gain=0.1)
    assert moved(offered(score=100.0), offered(score=90.0), gain=0.1)
    assert not moved(offered(score=100.0), offered(score=91.0), gain=0.1)


def test_a_move_tells_both_ends_and_who_moves_is_seen_by_those_who_follow() -> None:
    seen, job = waiting_job()
    late = replace(job, name="late", created_s=101.0)
    lane = seen.lanes["gpu"]
    entered = Waiting("late", ONE_GPU, 26.0, 101.0)
    seen = replace(seen, lanes={**seen.lanes, "gpu": replace(lane, waiting=(*lane.waiting, entered))})
    asked: list[tuple[str, list[str], list[str]]] = []

    def light_in(lane: Lane) -> list[str]:
        return [one.name for one in lane.waiting if one.name in {"light", "late"}]

    def choose(one: Candidate, now: Situation) -> Choice:
        asked.append((one.name, light_in(now.lanes["gpu"]), light_in(now.lanes["cpu"])))
        return Choice(1, "r", "so", (offered(finish_s=300.0), offered(finish_s=150.0)))

    first, second = rechoose.plan((late, job), seen, choose).moves
    assert asked == [("light", ["late"], []), ("late", [], ["light"])]
    assert (first.job, second.job) == ("light", "late")
    assert (first.from_queue, first.to_queue, first.to_class) == ("user-gpu", "user-cpu", "cpu")
    assert (first.before_s, first.after_s, first.because) == (300.0, 150.0, "so")


def test_ends_that_nobody_knows_are_never() -> None:
    seen, job = waiting_job()
    choice = Choice(1, "r", "so", (offered(refused="stopped"), offered()))
    [move] = rechoose.plan((job,), seen, lambda *_: choice).moves
    assert (move.before_s, move.after_s) == (NEVER, NEVER)
