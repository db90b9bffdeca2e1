"""The queue in which everybody stayed: what no other order may fall behind, whatever arrives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.route.earliest_finish import choose
from dure.route.reroute import plan
from dure.route.situation import Figures, Lane, Situation, Waiting
from dure.route.stayed import Stayed, begun
from tests.unit.route.situations import light, situation

TIMES = st.lists(st.floats(0, 50), min_size=3, max_size=3)
ARRIVALS = st.lists(st.tuples(st.floats(0, 20), st.floats(1, 40)), max_size=12)


def served(stayed: Stayed, arrivals: list[tuple[float, float]]) -> float:
    now_s = 0.0
    for pause_s, run_s in arrivals:
        now_s += pause_s
        stayed = stayed.entered(run_s, now_s)
    return stayed.free_s[-1]


@given(TIMES, TIMES, ARRIVALS)
def test_two_queues_that_get_the_same_jobs_keep_their_distance(
    ours: list[float], theirs: list[float], arrivals: list[tuple[float, float]]
) -> None:
    here, there = Stayed(tuple(sorted(ours)), 0.0), Stayed(tuple(sorted(theirs)), 0.0)
    distance = max(0.0, there.behind_s(here.free_s, 0.0, 0.0))
    assert served(here, arrivals) <= served(there, arrivals) + distance + 1e-9


@given(TIMES, ARRIVALS, st.integers(0, 11))
def test_a_first_come_queue_without_one_of_the_jobs_is_never_behind(
    free: list[float], arrivals: list[tuple[float, float]], gone: int
) -> None:
    stayed = fewer = Stayed(tuple(sorted(free)), 0.0)
    now_s = 0.0
    for number, (pause_s, run_s) in enumerate(arrivals):
        now_s += pause_s
        stayed = stayed.entered(run_s, now_s)
        fewer = fewer if number == gone else fewer.entered(run_s, now_s)
    assert stayed.behind_s(fewer.free_s, now_s, 0.0) <= 1e-9


def test_it_knows_when_it_was_last_idle_and_what_came_since() -> None:
    stayed = begun(2, 10.0).entered(20.0, 10.0).entered(10.0, 15.0)
    assert (stayed.free_s, stayed.since_s, stayed.work_s) == ((25.0, 30.0), 10.0, 15.0)
    later = stayed.entered(4.0, 40.0)
    assert (later.free_s, later.since_s, later.work_s) == ((30.0, 44.0), 40.0, 2.0)


def test_it_was_not_idle_while_one_slot_was_busy() -> None:
    stayed = Stayed((0.0, 5.0, 50.0), 0.0, 20.0).entered(6.0, 10.0)
    assert (stayed.free_s, stayed.since_s, stayed.work_s) == ((5.0, 16.0, 50.0), 0.0, 22.0)


def test_it_begins_with_what_runs_and_waits() -> None:
    assert begun(3, 10.0, [15.0, 5.0], [7.0, 1.0]).free_s == (11.0, 15.0, 17.0)


def queue(stayed: Stayed | None) -> Situation:
    """Two slots; first come they are free after 10 and 25 s, the longest first after 10 and 20 s."""
    waiting = tuple(Waiting(f"w{n}", {"slot": 1000}, run, float(n)) for n, run in enumerate((5.0, 5.0, 20.0)))
    lane = Lane("gpu", {"slot": 2000}, (), waiting, orderable=True, stayed=stayed)
    return Situation(0.0, {"gpu": lane}, {"gpu": Figures("gpu", {"slot": 2000})})


def test_the_longest_go_first_only_if_nothing_that_may_come_makes_that_regretted() -> None:
    assert plan((), queue(Stayed((5.0, 25.0), 0.0))).orders == {}
    assert plan((), queue(Stayed((10.0, 25.0), 0.0))).orders == {"gpu": ("w2",)}
    assert plan((), queue(Stayed((9.6, 25.0), 0.0))).orders == {"gpu": ("w2",)}


@pytest.mark.parametrize(("own_s", "index"), [(0.0, 1), (200.0, 0)])
def test_a_guest_leaves_room_for_those_who_name_the_queue(own_s: float, index: int) -> None:
    seen = situation(gpu_waiting=16)
    cpu = replace(seen.lanes["cpu"], stayed=Stayed((100.0,) * 6, 100.0, own_s) if own_s else None)
    job = replace(light(), origin="gpu")
    assert choose(job, replace(seen, lanes={**seen.lanes, "cpu": cpu})).index == index


def test_whoever_names_the_queue_is_no_guest() -> None:
    seen = situation(gpu_waiting=16)
    cpu = replace(seen.lanes["cpu"], stayed=Stayed((100.0,) * 6, 100.0, 200.0))
    job = replace(light(), origin="cpu")
    assert choose(job, replace(seen, lanes={**seen.lanes, "cpu": cpu})).index == 1
