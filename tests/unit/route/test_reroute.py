"""Jobs that wait change queues when the backlog gains, and only so often."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.route.backlog import Backlog
from dure.route.forecast import crowding, forecast
from dure.route.reroute import Settings, plan
from dure.route.situation import Candidate, Figures, Lane, Order, Running, Situation, Waiting
from dure.route.stayed import Stayed
from tests.unit.route.situations import CPU, FOUR_CPU, ONE_GPU, light, situation


def with_light(count: int) -> tuple[Situation, tuple[object, ...]]:
    seen = situation(gpu_waiting=12)
    jobs = tuple(light(name=f"l{n}", created_s=90.0 + n) for n in range(count))
    lane = seen.lanes["gpu"]
    entered = tuple(Waiting(job.name, ONE_GPU, 26.0, job.created_s) for job in jobs)
    return replace(seen, lanes={**seen.lanes, "gpu": replace(lane, waiting=(*lane.waiting, *entered))}), jobs


def test_a_long_backlog_sends_light_jobs_elsewhere_with_a_reason() -> None:
    seen, jobs = with_light(8)
    made = plan(jobs, seen).moves  # type: ignore[arg-type]
    assert 1 <= len(made) <= 6
    assert all(move.to_queue == "user-cpu" and "there instead of" in move.because for move in made)
    assert len({move.job for move in made}) == len(made)


def test_nothing_moves_when_nothing_is_gained() -> None:
    seen = situation(gpu_waiting=0, gpu_running=0)
    job = light()
    lane = replace(seen.lanes["gpu"], waiting=(Waiting(job.name, ONE_GPU, 26.0, 100.0),))
    assert plan((job,), replace(seen, lanes={**seen.lanes, "gpu": lane})).moves == ()


def test_a_job_that_moved_often_stays() -> None:
    seen, jobs = with_light(8)
    tired = tuple(replace(job, moves=3) for job in jobs)  # type: ignore[type-var]
    assert plan(tired, seen, Settings(most_moves=3)).moves == ()  # type: ignore[arg-type]


def test_a_search_without_effort_left_moves_nobody() -> None:
    seen, jobs = with_light(8)
    assert plan(jobs, seen, Settings(effort=40)).moves != plan(jobs, seen).moves  # type: ignore[arg-type]
    assert plan(jobs, seen, Settings(effort=-1)).moves == ()  # type: ignore[arg-type]


def test_nothing_moves_to_a_queue_that_is_stopped() -> None:
    seen, jobs = with_light(8)
    stopped = {**seen.figures, "cpu": Figures("cpu", {CPU: 24_000}, active=False)}
    assert plan(jobs, replace(seen, figures=stopped)).moves == ()  # type: ignore[arg-type]


def test_the_order_of_the_input_does_not_matter() -> None:
    seen, jobs = with_light(8)
    assert plan(jobs, seen) == plan(tuple(reversed(jobs)), seen)  # type: ignore[arg-type]


def one_lane(runs: tuple[float, ...], *, orderable: bool, ranks: tuple[int, ...] = ()) -> Situation:
    """Two slots and nothing that could move."""
    given = (*ranks, *(0,) * len(runs))
    jobs = [Waiting(f"w{n}", {"slot": 1000}, run, float(n), rank=given[n]) for n, run in enumerate(runs)]
    lane = Lane("gpu", {"slot": 2000}, (), tuple(sorted(jobs, key=Order.AS_IT_STANDS.rank)), orderable=orderable)
    return Situation(10.0, {"gpu": lane}, {"gpu": Figures("gpu", {"slot": 2000})})


def test_the_longest_go_first_where_that_ends_the_backlog_sooner() -> None:
    made = plan((), one_lane((5.0, 5.0, 20.0), orderable=True))
    assert made.orders == {"gpu": ("w2",)}, "after it first come, which needs no place"
    assert made.because == "the backlog ends in 20 s instead of 25 s"


def test_the_order_stays_where_it_gains_nothing_or_is_not_ours() -> None:
    assert plan((), one_lane((5.0, 5.0, 5.0), orderable=True)).orders == {}
    assert plan((), one_lane((5.0, 5.0, 20.0), orderable=False)).orders == {}
    assert plan((), one_lane((5.0, 5.0, 20.0), orderable=True), Settings(orders=False)).orders == {}


def test_a_queue_comes_back_to_first_come_when_the_other_order_gains_nothing_any_more() -> None:
    seen = one_lane((5.0, 5.0, 5.0), orderable=True, ranks=(1, 2, 3))
    assert plan((), seen).orders == {"gpu": ()}


def test_a_queue_in_order_is_sorted_again_only_for_who_came_later() -> None:
    sorted_before = one_lane((20.0, 5.0, 5.0), orderable=True, ranks=(9, 8, 7))
    assert plan((), sorted_before).orders == {}
    came_later = one_lane((5.0, 5.0, 20.0), orderable=True, ranks=(9, 8))
    assert plan((), came_later).orders == {"gpu": ("w2",)}


def test_slots_are_levelled_where_the_longest_first_would_give_one_of_them_a_job_too_many() -> None:
    """3 + 3 and 2 + 2 + 2 end at 6; the longest first gives 3 + 2 + 2."""
    made = plan((), one_lane((2.0, 2.0, 3.0, 2.0, 3.0), orderable=True))
    assert made.orders == {"gpu": ("w2", "w0", "w1", "w4")}
    assert made.because == "the backlog ends in 6 s instead of 7 s"


def test_of_an_order_that_would_be_regretted_as_much_is_taken_as_would_not() -> None:
    """First come the two slots are free after 41 and 51 s, levelled both after 46: too late for who comes next."""
    seen = one_lane((14.0, 13.0, 20.0, 12.0, 15.0, 18.0), orderable=True)

    def orders(*free_s: float) -> dict[str, tuple[str, ...]]:
        lane = replace(seen.lanes["gpu"], stayed=Stayed(free_s, 10.0))
        return dict(plan((), replace(seen, lanes={"gpu": lane})).orders)

    assert orders(56.0, 56.0) == {"gpu": ("w2", "w5", "w4")}, "the rest as they came"
    assert orders(51.0, 61.0) == {"gpu": ("w2",)}
    assert orders(49.0, 63.0) == {}


def test_a_guest_moves_only_where_those_who_name_the_queue_keep_their_time() -> None:
    seen, jobs = with_light(8)
    guests = tuple(replace(job, origin="gpu") for job in jobs)  # type: ignore[type-var]
    assert plan(guests, seen).moves != ()  # type: ignore[arg-type]
    busy = replace(seen.lanes["cpu"], stayed=Stayed((100.0,) * 6, 100.0, work_s=500.0))
    assert plan(guests, replace(seen, lanes={**seen.lanes, "cpu": busy})).moves == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(("held", "most"), [(1, 5), (2, 4), (6, 0)])
def test_guests_leave_as_many_slots_free_as_those_hold_who_name_the_queue(held: int, most: int) -> None:
    seen, jobs = with_light(16)
    guests = tuple(replace(job, origin="gpu") for job in jobs)  # type: ignore[type-var]
    free_s = (100.0,) * (6 - held) + (101.0,) * held
    kept = replace(seen.lanes["cpu"], stayed=Stayed(free_s, 100.0))
    moved = len(plan(guests, replace(seen, lanes={**seen.lanes, "cpu": kept})).moves)  # type: ignore[arg-type]
    assert moved == most


def test_one_queue_that_falls_behind_is_enough_to_keep_the_order() -> None:
    def lane(name: str, stayed: Stayed) -> Lane:
        waiting = tuple(
            Waiting(f"{name}{n}", {"slot": 1000}, run, float(n)) for n, run in enumerate((5.0, 5.0, 20.0))
        )
        return Lane(name, {"slot": 2000}, (), waiting, orderable=True, stayed=stayed)

    def orders(second: Stayed) -> dict[str, tuple[str, ...]]:
        lanes = {"a": lane("a", Stayed((10.0, 25.0), 0.0)), "b": lane("b", second)}
        figures = {name: Figures(name, {"slot": 2000}) for name in lanes}
        return dict(plan((), Situation(0.0, lanes, figures)).orders)

    assert set(orders(Stayed((10.0, 25.0), 0.0))) == {"a", "b"}
    assert orders(Stayed((5.0, 25.0), 0.0)) == {}


def test_jobs_that_slow_each_other_down_fall_behind_sooner() -> None:
    waiting = tuple(Waiting(f"w{n}", {"slot": 1000}, 10.0, float(n)) for n in range(2))
    lane = Lane("q", {"slot": 2000}, (), waiting, 0.0, 1, 1.5, stayed=Stayed((10.0, 10.0), 0.0))
    crowded = Backlog(Situation(0.0, {"q": lane}, {}), ())
    calm = Backlog(Situation(0.0, {"q": replace(lane, slowdown=1.0)}, {}), ())
    assert calm.behind_s("q", waiting, 0.0) == 0.0
    assert crowded.behind_s("q", waiting, 0.0) == pytest.approx(5.0)


def test_a_queue_of_unlike_jobs_is_done_with_its_last() -> None:
    waiting = (Waiting("wide", {"slot": 2000}, 3.0, 1.0), Waiting("thin", {"slot": 1000}, 30.0, 2.0))
    lane = Lane("q", {"slot": 2000}, (Running("r", {"slot": 2000}, 15.0),), waiting)
    backlog = Backlog(Situation(10.0, {"q": lane}, {}), ())
    assert backlog.done_s("q", waiting) == 48.0
    assert backlog.done_s("q", ()) == 15.0


def test_two_jobs_change_places_when_neither_alone_would_help() -> None:
    """The CPU is taken by a job that loses much there, while one that loses little waits for the GPU."""
    slow, fast = light(20.0, 90.0, name="slow", created_s=1.0), light(20.0, 25.0, name="fast", created_s=2.0)
    away = replace(slow, alternatives=(slow.alternatives[1], slow.alternatives[0]))
    gpu = Lane("gpu", ONE_GPU, (), (Waiting("fast", ONE_GPU, 20.0, 2.0),))
    cpu = Lane("cpu", FOUR_CPU, (), (Waiting("slow", FOUR_CPU, 90.0, 1.0),))
    figures = {"gpu": Figures("gpu", ONE_GPU), "cpu": Figures("cpu", FOUR_CPU)}
    made = plan((away, fast), Situation(10.0, {"gpu": gpu, "cpu": cpu}, figures)).moves
    assert {(move.job, move.to_queue) for move in made} == {("slow", "user-gpu"), ("fast", "user-cpu")}


@given(
    st.lists(st.integers(1, 30), max_size=8),
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.integers(0, 3),
    st.sampled_from([1.0, 1.5]),
)
def test_slots_are_played_like_any_other_queue(
    running: list[int], waiting: list[int], quiet: int, slowdown: float
) -> None:
    held = tuple(Running(f"r{n}", {"slot": 1000}, 10.0 + run) for n, run in enumerate(running[:4]))
    jobs = tuple(Waiting(f"w{n}", {"slot": 1000}, float(run), float(n)) for n, run in enumerate(waiting))
    lane = Lane("q", {"slot": 4000}, held, jobs, 0.0, quiet, slowdown)
    ends = [span.finish_s for span in forecast(lane, 10.0).values()]
    ends += [one.until_s(10.0, crowding(lane, len(jobs))) for one in held]
    seen = Situation(10.0, {"q": lane}, {})
    assert Backlog(seen, ()).done_s("q", jobs) == pytest.approx(max(ends))


@given(st.integers(0, 10_000))
def test_a_plan_never_delays_the_end_that_is_known(seed: int) -> None:
    chance = random.Random(seed)
    jobs = tuple(
        light(float(chance.randint(5, 40)), float(chance.randint(10, 150)), name=f"l{n}", created_s=float(n))
        for n in range(chance.randint(1, 10))
    )
    waiting = tuple(Waiting(job.name, ONE_GPU, job.home.run_s, job.created_s) for job in jobs)
    seen = situation(cpu_running=chance.randint(0, 6))
    lanes = {**seen.lanes, "gpu": replace(seen.lanes["gpu"], waiting=waiting)}
    seen = replace(seen, lanes=lanes)
    before, moved = Backlog(seen, jobs), plan(jobs, seen).moves
    to = {move.job: move.alternative for move in moved}
    stay = tuple(one for one in waiting if one.name not in to)
    gone = tuple(Waiting(name, one.demand, one.run_s, seen.now_s) for name, one in sorted(to.items()))
    known = max(before.done_s("gpu", waiting), before.done_s("cpu", ()))
    assert max(before.done_s("gpu", stay), before.done_s("cpu", gone)) <= known + 1e-6


def two_queues(*runs: tuple[float, float], now_s: float = 10.0) -> tuple[tuple[Candidate, ...], Situation]:
    """One slot in each of two queues; jobs as (seconds at home, seconds elsewhere), all waiting at home."""
    jobs = tuple(light(here, there, name=f"j{n}", created_s=float(n)) for n, (here, there) in enumerate(runs))
    waiting = tuple(Waiting(job.name, ONE_GPU, job.home.run_s, job.created_s) for job in jobs)
    lanes = {"gpu": Lane("gpu", ONE_GPU, (), waiting), "cpu": Lane("cpu", FOUR_CPU)}
    return jobs, Situation(now_s, lanes, {name: Figures(name, lane.capacity) for name, lane in lanes.items()})


def test_a_move_tells_when_it_would_have_ended_and_when_it_will() -> None:
    jobs, seen = two_queues((20.0, 90.0), (20.0, 25.0))
    [move] = plan(jobs, seen).moves
    assert (move.job, move.from_queue, move.to_queue, move.to_class) == ("j1", "user-gpu", "user-cpu", "cpu")
    assert (move.before_s, move.after_s) == (50.0, 35.0)
    assert move.because == "ends in 25 s there instead of 40 s here"


def test_a_job_that_ends_later_itself_is_told_what_the_backlog_gains() -> None:
    jobs, seen = two_queues((20.0, 35.0), (20.0, 90.0), (20.0, 90.0))
    [move] = plan(jobs, seen).moves
    assert move.job == "j0"
    assert move.because == "ends in 35 s there instead of 20 s here; the backlog ends in 40 s by it"


@pytest.mark.parametrize(
    ("rule", "moves"),
    [
        (Settings(gain_s=5.0, gain=0.0), 1),
        (Settings(gain_s=5.1, gain=0.0), 0),
        (Settings(gain_s=0.0, gain=0.125), 1),
        (Settings(gain_s=0.0, gain=0.13), 0),
        (Settings(most_moves=0), 0),
        (Settings(most_moves=1), 1),
        (Settings(steps=0), 0),
    ],
)
def test_a_plan_brings_the_end_forward_by_enough_seconds_and_share_or_moves_nobody(
    rule: Settings, moves: int
) -> None:
    """Both at home end in 40 s; with the second elsewhere in 35 s."""
    jobs, seen = two_queues((20.0, 90.0), (20.0, 35.0))
    assert len(plan(jobs, seen, rule).moves) == moves


def test_jobs_of_queues_that_nobody_knows_are_left_alone() -> None:
    jobs, seen = two_queues((20.0, 90.0), (20.0, 25.0))
    lost = replace(jobs[0], name="lost", alternatives=tuple(replace(one, lane="x") for one in jobs[0].alternatives))
    assert plan((*jobs, lost), seen) == plan(jobs, seen)
