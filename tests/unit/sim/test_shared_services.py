"""Warm machines that several services share: taken, replaced, given back, and never more than there are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dure.sim.serving.service import Engine, Promise, Reading, Requests
from dure.sim.serving.shared import WarmPool, play_together


def test_a_taken_machine_is_warm_again_after_a_boot() -> None:
    pool = WarmPool(2, boot_s=150.0, warm_s=20.0)
    assert pool.take(3, 10.0) == 2
    assert pool.take(1, 139.0) == 0
    assert pool.take(1, 140.0) == 1


def test_a_machine_that_is_given_back_is_warm_at_once() -> None:
    pool = WarmPool(1, boot_s=150.0, warm_s=20.0)
    pool.take(1, 0.0)
    pool.give(1, 5.0)
    assert pool.take(1, 5.0) == 1


@given(st.integers(0, 5), st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.floats(0.0, 100.0)), max_size=20))
def test_a_pool_never_lends_more_than_it_has(size: int, acts: list[tuple[bool, int, float]]) -> None:
    pool, now_s = WarmPool(size, boot_s=150.0, warm_s=20.0), 0.0
    for take, count, later_s in acts:
        now_s += later_s
        if take:
            assert pool.take(count, now_s) <= min(count, size)
        else:
            pool.give(count, now_s)
        assert len(pool.slots) == size


class Jump:
    """From one replica to three after a minute."""

    def decide(self, reading: Reading) -> int:
        return 3 if reading.now_s >= 60.0 else 1


def test_warm_machines_make_a_jump_hurt_less_and_are_paid_for() -> None:
    at = np.concatenate([np.arange(0, 60, 1.0), np.arange(60, 400, 0.25)])
    stream = Requests(at, np.full(len(at), 1500), np.full(len(at), 40), 400.0)

    def played(pool: WarmPool | None) -> tuple[float, float]:
        found = play_together([stream], [Jump()], 150.0, Engine(), Promise(), pool, warm_up_s=0.0, most=4)
        return found.miss_rate, found.gpu_hours

    cold, warm = played(None), played(WarmPool(2, 150.0, 20.0))
    assert warm[0] < cold[0]
    assert warm[1] > cold[1]
