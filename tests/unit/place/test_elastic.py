"""Devices among elastic jobs: never more than there are, nobody worse than it need be, more for those who use it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dure.place.elastic import Choice, Wish, shares


@st.composite
def wishes(draw: st.DrawFn) -> list[Wish]:
    found = []
    for _ in range(draw(st.integers(0, 8))):
        base = draw(st.floats(100, 1e5))
        power = draw(st.floats(0.2, 1.0))
        kinds = draw(st.lists(st.integers(0, 1), min_size=1, max_size=2, unique=True))
        speed = {kind: draw(st.floats(0.3, 3.0)) for kind in kinds}
        found.append(
            Wish(
                tuple(Choice(kind, size, base / speed[kind] / size**power) for kind in kinds for size in (1, 2, 4, 8))
            )
        )
    return found


@settings(max_examples=80)
@given(wishes(), st.tuples(st.integers(0, 16), st.integers(0, 16)), st.sampled_from([0.3, 0.5, 1.0]))
def test_never_more_than_there_is_and_nothing_useful_left_over(
    jobs: list[Wish], capacity: tuple[int, int], fairness: float
) -> None:
    chosen = shares(jobs, capacity, fairness)
    assert len(chosen) == len(jobs)
    free = list(capacity)
    for job, at in zip(jobs, chosen, strict=True):
        if at >= 0:
            free[job.choices[at].kind] -= job.choices[at].devices
    assert min(free) >= 0
    for job, at in zip(jobs, chosen, strict=True):
        if at < 0:
            assert all(one.devices > free[one.kind] for one in job.choices)


def test_a_job_that_does_not_speed_up_leaves_the_rest_to_one_that_does() -> None:
    flat = Wish(tuple(Choice(0, size, 1000.0) for size in (1, 2, 4)))
    steep = Wish(tuple(Choice(0, size, 1000.0 / size) for size in (1, 2, 4)))
    chosen = shares([flat, steep], [5])
    assert [job.choices[at].devices for job, at in zip([flat, steep], chosen, strict=True)] == [1, 4]


def test_when_not_all_can_run_the_shortest_do() -> None:
    jobs = [Wish((Choice(0, 2, seconds),)) for seconds in (9000.0, 100.0, 500.0)]
    assert shares(jobs, [4], 1.0) == (-1, 0, 0)


def test_each_goes_where_it_is_fastest_while_there_is_room() -> None:
    jobs = [Wish((Choice(0, 1, 100.0), Choice(1, 1, 50.0))), Wish((Choice(0, 1, 50.0), Choice(1, 1, 100.0)))]
    assert shares(jobs, [1, 1]) == (1, 0)
