"""Dure's serving policy and its forecast: floors, holds, distrust, determinism."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dure.scale.forecast import Forecaster, ForecastSettings
from dure.scale.serving import Seen, ServingPolicy, ServingSettings, WorkModel
from dure.scale.signals import SIGNALS, fitting, query


def seen(arrivals: int, target: int, waiting: int = 0) -> Seen:
    return Seen(arrivals, arrivals * 1000, waiting, waiting * 1000.0, arrivals, arrivals * 200, target)


def play(policy: ServingPolicy, rates: list[int], target: int = 1) -> list[int]:
    counts = []
    for rate in rates:
        target = policy.step(seen(rate, target)).replicas
        counts.append(target)
    return counts


def test_more_arrivals_mean_more_replicas_and_fewer_mean_fewer_after_the_hold() -> None:
    settings = ServingSettings(boot_s=60.0, forecast=False, hold_s=60.0, burst_hold_s=60.0)
    counts = play(ServingPolicy(settings, WorkModel()), [10] * 20 + [100] * 20 + [10] * 40)
    assert counts[19] < counts[39]
    assert counts[45] == counts[39]
    assert counts[-1] == counts[19]


def test_a_bursty_service_keeps_its_replicas_over_a_pause() -> None:
    bursts = ([0] * 30 + [100] * 6) * 12 + [0] * 40
    counts = play(ServingPolicy(ServingSettings(boot_s=60.0, forecast=False), WorkModel()), bursts)
    assert counts[-1] == counts[-41], "the pause changes nothing"
    assert counts[-1] >= 0.75 * max(counts)


def test_waiting_work_raises_the_wish() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=60.0, forecast=False), WorkModel())
    calm = policy.step(seen(10, 1)).replicas
    assert policy.step(seen(10, calm, waiting=500)).replicas > calm


def test_the_range_is_kept() -> None:
    settings = ServingSettings(boot_s=60.0, min_replicas=2, max_replicas=5, forecast=False)
    counts = play(ServingPolicy(settings, WorkModel()), [0] * 10 + [10_000] * 10, target=2)
    assert min(counts) == 2
    assert max(counts) == 5


def test_a_forecast_of_a_ramp_is_ahead_of_the_demand() -> None:
    rates = [int(40 + 0.5 * step) for step in range(700)]
    settings = ServingSettings(boot_s=150.0, hold_s=60.0, quantile=0.9)
    with_floor = play(ServingPolicy(settings, WorkModel()), rates)
    without = play(ServingPolicy(ServingSettings(boot_s=150.0, hold_s=60.0, forecast=False), WorkModel()), rates)
    assert with_floor[-1] > without[-1]


def test_a_forecast_never_removes_replicas_that_demand_still_needs() -> None:
    rates = [int(200 - 0.2 * step) for step in range(700)]
    settings = ServingSettings(boot_s=150.0, hold_s=30.0, quantile=0.5, load=1.0)
    policy = ServingPolicy(settings, WorkModel())
    target = 60
    for rate in rates:
        wish = policy.step(seen(rate, target))
        target = wish.replicas
        assert target >= math.floor(wish.demand)


def test_a_forecast_that_does_harm_switches_itself_off_and_says_so() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=60.0, distrust=0.0, trust=0.0), WorkModel())
    wishes, target = [], 10
    for step in range(400):
        wishes.append(policy.step(seen(50 + (step * 7919) % 40, target)))
        target = wishes[-1].replicas
    assert not wishes[-1].forecast_on
    assert wishes[-1].floor == 0.0
    assert any(wish.reason == "SteadyForecastOff" for wish in wishes)


def test_too_little_history_is_not_trusted() -> None:
    forecaster = Forecaster(ForecastSettings(horizon_s=150.0))
    assert not forecaster.feed(10.0, 0.9).trusted


def test_the_wider_quantile_is_never_lower() -> None:
    rng = np.random.default_rng(7)
    series = 10 + 3 * np.sin(np.arange(1500) / 60) + rng.normal(0, 0.5, 1500)
    low, high = (Forecaster(ForecastSettings(horizon_s=100.0)) for _ in range(2))
    pairs = [(low.feed(float(v), 0.6), high.feed(float(v), 0.95)) for v in series]
    assert all(a.quantile <= b.quantile + 1e-9 for a, b in pairs)


def test_same_input_gives_the_same_wishes() -> None:
    rates = [30 + (step * 31) % 17 for step in range(300)]
    first, second = (play(ServingPolicy(ServingSettings(boot_s=60.0), WorkModel()), rates) for _ in range(2))
    assert first == second


def test_a_signal_that_saturates_early_is_called_useless() -> None:
    load = np.linspace(0.05, 1.0, 200)
    fits = {
        fit.signal: fit
        for fit in fitting(load, {"utilization": 1 - np.exp(-load * 12), "cache": load**1.5, "clock": np.ones(200)})
    }
    assert fits["utilization"].verdict == "saturates below half load"
    assert fits["cache"].verdict == "follows load"
    assert fits["clock"].verdict == "does not move"


@pytest.mark.parametrize("name", sorted(SIGNALS))
def test_every_signal_has_a_query_for_exactly_its_pods(name: str) -> None:
    text = query(SIGNALS[name], "search", "chat-7b", "3g.20gb")
    assert 'namespace="search"' in text
    assert 'pod=~"chat-7b-[a-z0-9]+-[a-z0-9]+"' in text
    assert 'GPU_I_PROFILE="3g.20gb"' in text


def swinging(period: int, count: int) -> list[int]:
    return [int(60 + 50 * math.sin(2 * math.pi * step / period)) for step in range(count)]


def test_demand_that_swings_faster_than_a_boot_is_not_followed() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=150.0), WorkModel())
    counts = play(policy, swinging(60, 720))
    assert policy.memory.lasting
    assert max(counts[-120:]) - min(counts[-120:]) <= 1


def test_demand_that_swings_slower_than_a_boot_is_followed() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=20.0), WorkModel())
    counts = play(policy, swinging(240, 720))
    assert not policy.memory.lasting
    assert max(counts[-240:]) - min(counts[-240:]) > 10


def test_a_lasting_level_still_gives_way_to_a_surge() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=150.0), WorkModel())
    counts = play(policy, [*swinging(60, 720), *[400] * 12])
    assert counts[-1] > 1.5 * max(counts[-120:-12])


def test_small_swings_are_followed_however_fast() -> None:
    policy = ServingPolicy(ServingSettings(boot_s=150.0), WorkModel())
    play(policy, [int(300 + 40 * math.sin(2 * math.pi * step / 60)) for step in range(720)])
    assert not policy.memory.lasting


def test_without_its_forecast_demand_keeps_the_margin_of_as_now() -> None:
    rates = [60 + (step * 7919) % 40 for step in range(500)]
    off = ServingSettings(boot_s=60.0, distrust=0.0, trust=0.0)
    guarded, bare = ServingPolicy(off, WorkModel()), ServingPolicy(ServingSettings(60.0, forecast=False), WorkModel())
    counts, plain = play(guarded, rates), play(bare, rates)
    assert not guarded.forecast_on
    assert sum(counts[-100:]) > sum(plain[-100:])
