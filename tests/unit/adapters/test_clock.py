from __future__ import annotations

import threading

import pytest

from dure.adapters.clock import RealClock, ScaledClock, VirtualClock
from dure.model.errors import InvalidInput


def test_virtual_time_stands_still_until_it_is_told_to_move() -> None:
    clock = VirtualClock(100.0)
    assert clock.now() == 100.0
    clock.advance(160.0)
    assert clock.now() == 160.0


def test_virtual_time_never_goes_back() -> None:
    clock = VirtualClock(100.0)
    clock.advance(100.0)
    with pytest.raises(InvalidInput, match="cannot go back"):
        clock.advance(99.0)


def test_a_waiter_wakes_when_virtual_time_passes_its_moment() -> None:
    clock, woken = VirtualClock(0.0), []
    waiter = threading.Thread(target=lambda: woken.append(clock.wait(60.0)))
    waiter.start()
    # However the threads interleave, time moves on until the waiter has begun to wait and is through.
    while waiter.is_alive():
        clock.advance(clock.now() + 60.0)
        waiter.join(0.001)
    assert woken == [True]


@pytest.mark.parametrize("clock", [VirtualClock(0.0), ScaledClock(0.001, 0.0), RealClock()])
def test_stopping_a_clock_lets_every_waiter_go(clock: VirtualClock | ScaledClock | RealClock) -> None:
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(clock.wait(3600.0)))
    waiter.start()
    clock.stop()
    waiter.join(60.0)
    assert woken == [False]
    assert clock.wait(3600.0) is False


def test_scaled_time_starts_where_it_was_saved_and_runs_forward() -> None:
    clock = ScaledClock(60.0, 5_000.0)
    first = clock.now()
    assert first >= 5_000.0
    assert clock.wait(0.06)
    assert clock.now() >= first + 0.06


def test_scaled_time_stands_still_once_stopped() -> None:
    clock = ScaledClock(1e6, 0.0)
    clock.stop()
    assert clock.now() == clock.now()


def test_a_clock_that_stands_or_runs_backwards_is_refused() -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        ScaledClock(0.0, 0.0)


def test_a_clock_on_a_leash_waits_for_the_loop() -> None:
    clock = ScaledClock(1e9, 1_000.0, leash_s=120.0)
    clock.wait(1e6)
    assert clock.now() == clock.now() == 1_120.0
    assert clock.beat() == 1_120.0
    clock.wait(1e6)
    assert clock.now() == 1_240.0
