"""Who is late anyway fills what the others leave: the shortest first, each at the least price + delay."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.bench.demand import running_sum
from dure.bench.place_late import fill
from dure.bench.place_ours import jointly
from dure.bench.replay import Fleet, Jobs
from dure.place.settings import PlaceSettings

FACTOR = PlaceSettings().late_hour_factor


def jobs_of(*rows: tuple[int, int, int, int]) -> Jobs:
    arrival, length, width, latest = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Jobs(arrival, length, width, latest)


def filled(jobs: Jobs, price: list[list[float]], slot: int, devices: int = 1) -> list[tuple[int, int]]:
    steer = np.array(price)
    free = np.full(steer.shape, devices, np.int32)
    region, start = fill(free, running_sum(steer), slot, jobs, np.arange(len(jobs.arrival)), FACTOR)
    return list(zip(region.tolist(), start.tolist(), strict=True))


def test_of_two_late_ones_the_shorter_runs_first() -> None:
    jobs = jobs_of((0, 6, 1, 0), (1, 2, 1, 1))
    assert filled(jobs, [[1.0] * 40], slot=2) == [(0, 4), (0, 2)]


def test_a_late_one_waits_for_a_price_that_is_worth_more_than_the_delay_and_no_longer() -> None:
    """A run of ten slots that starts three slots late is charged 1.9 times its price."""
    job = jobs_of((0, 10, 1, 0))
    assert filled(job, [[5.0] * 3 + [1.0] * 60], slot=0) == [(0, 3)], "19 instead of 22"
    assert filled(job, [[3.0] * 3 + [1.0] * 60], slot=0) == [(0, 0)], "16 instead of 19"
    assert filled(job, [[4.0] * 40, [1.2] * 40], slot=0) == [(1, 0)], "elsewhere at once"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_late_ones_never_take_more_than_there_is_nor_begin_before_now(data: st.DataObject) -> None:
    count, slot = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 5))
    rows = [(0, data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3)), 0) for _ in range(count)]
    price = np.array(
        data.draw(st.lists(st.lists(st.floats(0.1, 9.0), min_size=8, max_size=8), min_size=2, max_size=2))
    )
    steer = np.tile(price, 20)
    free = np.full(steer.shape, 3, np.int32)
    free[:, slot : slot + 4] = data.draw(st.integers(0, 3))
    jobs, before = jobs_of(*rows), free.copy()
    region, start = fill(free, running_sum(steer), slot, jobs, np.arange(count), FACTOR)
    assert free.min() >= 0
    assert start.min() >= slot
    for at in range(count):
        before[region[at], start[at] : start[at] + jobs.length[at]] -= jobs.width[at]
    assert np.array_equal(before, free)


def test_one_that_is_late_makes_room_for_those_who_come_and_can_be_in_time() -> None:
    """One device. The third loses its deadline at once; the fourth comes while it waits and has no slack."""
    jobs = jobs_of((0, 4, 1, 0), (0, 4, 1, 4), (0, 4, 1, 2), (6, 2, 1, 8))
    fleet = Fleet(np.ones((1, 60)), np.ones((1, 60)), 1)
    found = jointly(jobs, fleet, 0.0, PlaceSettings(), 1)
    assert found.start.tolist() == [0, 4, 10, 8]
    assert found.missed == 1
