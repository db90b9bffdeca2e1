"""What a service needs and how sure that is; and replicas that stay where they are when requests wave to and fro."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from dure.scale.needs import Counted, Need, NeedSettings
from dure.scale.pools import PoolSettings, Service, shares

LOOK_S = NeedSettings().look_s
DEVICES, LEAST, MOST = 12, 1, 11


def fed(need: Need, rates: list[float], waiting: int = 0) -> Need:
    asked, at_s = 0.0, 0.0
    need.look(Counted(at_s, 0))
    for rate in rates:
        at_s, asked = at_s + LOOK_S, asked + rate * LOOK_S
        assert need.look(Counted(at_s, int(asked), waiting))
    return need


def test_the_need_is_what_came_since_the_last_look_and_what_waits() -> None:
    need = fed(Need(carries=2.0), [6.0] * 4, waiting=240)
    assert need.replicas == 3.0 + 240 / 60.0 / 2.0


def test_looks_that_come_too_soon_and_counters_that_begin_anew_say_nothing() -> None:
    need = fed(Need(carries=2.0), [6.0] * 4)
    at_s = 4 * LOOK_S
    assert not need.look(Counted(at_s + LOOK_S / 2, 1000))
    assert not need.look(Counted(at_s + LOOK_S, 3))
    assert need.replicas == 3.0
    assert need.look(Counted(at_s + 2 * LOOK_S, 3 + int(10 * LOOK_S)))
    assert need.replicas == 5.0


def test_whoever_changes_much_is_less_sure_and_calm_makes_sure_again() -> None:
    calm, waves = [8.0] * 240, [16.0 if look // 12 % 2 else 2.0 for look in range(240)]
    sure, unsure = fed(Need(2.0), calm), fed(Need(2.0), waves)
    assert unsure.error > 5 * sure.error
    assert fed(Need(2.0), [*waves, *calm, *calm]).error < unsure.error / 3


def test_longer_gaps_between_looks_tell_the_same() -> None:
    often, seldom = fed(Need(1.0), [5.0] * 200), Need(1.0)
    for look in range(51):
        seldom.look(Counted(look * 4 * LOOK_S, int(look * 4 * LOOK_S * 5.0)))
    assert abs(often.error - seldom.error) < 0.05
    assert often.replicas == seldom.replicas


class Wave:
    """Two services on twelve devices whose requests are high in turn; replicas move at every look."""

    def __init__(self, low: float, high: float, half_s: float) -> None:
        self.low, self.high, self.half_s = low, high, half_s
        self.needs = {"a": Need(1.0), "b": Need(1.0)}
        self.runs = dict.fromkeys(self.needs, DEVICES // 2)
        self.moved: list[int] = []

    def play(self, seconds: float) -> None:
        asked = dict.fromkeys(self.needs, 0.0)
        for look in itertools.count():
            at_s = look * LOOK_S
            if at_s > seconds:
                return
            for place, (name, need) in enumerate(self.needs.items()):
                up = int(at_s / self.half_s) % 2 == place
                asked[name] += LOOK_S * (self.high if up else self.low)
                need.look(Counted(at_s, int(asked[name])))
            self.moved.append(self.divide())

    def divide(self) -> int:
        services = tuple(
            Service(name, DEVICES // 2, LEAST, MOST, self.runs[name], need.wanted, 0, 0, need.replicas, need.error)
            for name, need in self.needs.items()
        )
        found = {share.service: share.after for share in shares(services, PoolSettings(elastic=0))}
        assert sum(found.values()) <= DEVICES
        assert min(found.values()) >= LEAST
        moved = abs(found["a"] - self.runs["a"])
        self.runs = found
        return moved


@settings(max_examples=60, deadline=None)
@given(st.floats(0.5, 3.0), st.floats(5.0, 10.0), st.floats(120.0, 300.0))
def test_a_wave_that_turns_within_five_minutes_is_soon_no_longer_followed(
    low: float, high: float, half_s: float
) -> None:
    wave = Wave(low, high, half_s)
    wave.play(4 * 3600.0)
    late = wave.moved[len(wave.moved) // 2 :]
    halves = len(late) * LOOK_S / half_s
    assert sum(late) <= halves, "at most one replica in each half wave, where half a dozen would follow it"


def test_a_surge_that_lasts_is_followed_and_taken_back_once() -> None:
    wave = Wave(1.5, 9.0, 1800.0)
    wave.play(1790.0)
    up = dict(wave.runs)
    assert up["a"] >= 9
    assert sum(wave.moved) == up["a"] - DEVICES // 2
