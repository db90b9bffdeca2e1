"""The replica engine: Dure's policy while there is a pulse, HPA's rules while there is none, and it says which."""

from __future__ import annotations

import numpy as np
import pytest

from dure.model.pulse import Pulse, Scaling
from dure.scale.demand import WorkModel
from dure.scale.engines import EngineSettings, Look, ReplicaEngine
from dure.scale.serving import ServingSettings
from dure.sim.serving.scalers import DureScaler
from dure.sim.serving.service import Engine, Promise, Reading, Requests, Service

STEP_S = 5.0


class Counters:
    """What a scraper would have counted of the modelled service."""

    def __init__(self) -> None:
        self.totals = np.zeros(4, dtype=np.int64)

    def pulse(self, reading: Reading) -> Pulse:
        self.totals += (reading.arrivals, reading.arrived_context, reading.finished, reading.finished_output)
        asked, prompt, answered, output = (int(one) for one in self.totals)
        return Pulse(
            reading.now_s, asked, prompt, answered, output, reading.waiting, reading.waiting_tokens, reading.running
        )


def stream(seconds: float, seed: int = 3) -> Requests:
    """Six requests a second that become fifteen, and six again."""
    rng = np.random.default_rng(seed)
    edges = np.arange(0.0, seconds, 1.0)
    rates = np.where((edges > seconds * 0.4) & (edges < seconds * 0.7), 15.0, 6.0)
    at = np.sort(np.repeat(edges, rng.poisson(rates)) + rng.uniform(0.0, 1.0))
    context = rng.integers(200, 2000, len(at))
    output = rng.integers(20, 400, len(at))
    return Requests(at, context, output, seconds)


def test_the_live_engine_decides_what_the_benchmark_decides() -> None:
    """From counters, as they are scraped, the same number of replicas at every step as the simulator's own scaler."""
    requests, engine = stream(1500.0), Engine()
    bench = DureScaler(ServingSettings(60.0, max_replicas=100), WorkModel(), 200.0)
    live = ReplicaEngine(EngineSettings(60.0, step_s=STEP_S))
    live.decide(Look(0.0, 8, 8, Pulse(0.0, 0, 0, 0, 0)))
    service, counters = Service(requests, engine, Promise(), 60.0), Counters()
    service.start_with(8)
    targets = []
    while service.now_s < requests.horizon_s:
        reading = service.advance(STEP_S)
        verdict = live.decide(Look(reading.now_s, reading.target, reading.ready, counters.pulse(reading)))
        wanted = bench.decide(reading)
        assert verdict is not None
        assert verdict.by is Scaling.SERVING
        assert verdict.replicas == wanted
        targets.append(wanted)
        service.resize(wanted)
    assert max(targets) > min(targets), "the stream must move the replicas for this to say anything"


def steady(engine: ReplicaEngine, until_s: float, rate: float, since_s: float = 0.0, replicas: int = 2) -> int:
    """Requests at one rate, looked at every 15 s; answers the replicas that came of it."""
    asked = 0
    for at_s in np.arange(since_s, until_s, 15.0):
        asked += int(rate * 15.0)
        pulse = Pulse(float(at_s), asked, asked * 1000, asked, asked * 200)
        verdict = engine.decide(Look(float(at_s), replicas, replicas, pulse, carries=2.0))
        replicas = verdict.replicas if verdict is not None else replicas
    return replicas


def test_replicas_follow_what_one_is_known_to_carry() -> None:
    engine = ReplicaEngine(EngineSettings(60.0))
    assert steady(engine, 600.0, 9.0) == 5, "nine requests a second, two for each replica"


def test_without_a_pulse_the_lever_is_not_taken() -> None:
    engine = ReplicaEngine(EngineSettings(60.0))
    assert engine.decide(Look(0.0, 3, 3, requests=100, carries=2.0)) is None
    assert not engine.steers


def test_when_the_pulse_is_lost_hpa_goes_on_with_the_request_rate_and_says_so() -> None:
    engine = ReplicaEngine(EngineSettings(60.0, stale_s=60.0))
    replicas = steady(engine, 600.0, 4.0)
    pulse, requests = Pulse(585.0, 10, 10, 10, 10), 10_000
    found = []
    for at_s in np.arange(600.0, 900.0, 15.0):
        requests += 15 * 8
        verdict = engine.decide(Look(float(at_s), replicas, replicas, pulse, requests, carries=2.0))
        if verdict is not None and verdict.fallback:
            found.append(verdict)
            replicas = verdict.replicas
    assert found[0].by is Scaling.HPA
    assert found[0].fallback == "serving metrics are 75 s old"
    assert found[0].why.startswith("serving metrics are 75 s old; HPA rules:")
    assert replicas == 5, "eight requests a second, 80 % of two for each replica"


def test_with_nothing_left_to_count_replicas_stay_as_they_are() -> None:
    engine = ReplicaEngine(EngineSettings(60.0, stale_s=60.0))
    replicas = steady(engine, 600.0, 9.0)
    for at_s in np.arange(700.0, 2000.0, 15.0):
        verdict = engine.decide(Look(float(at_s), replicas, replicas, None, None, carries=2.0))
        assert verdict is not None
        assert (verdict.replicas, verdict.reason) == (replicas, "FailedGetExternalMetric")
        assert "nobody counts its requests" in verdict.why


def test_the_policy_has_its_lever_back_when_the_pulse_returns() -> None:
    engine = ReplicaEngine(EngineSettings(60.0, stale_s=60.0))
    replicas = steady(engine, 600.0, 9.0)
    lost = engine.decide(Look(800.0, replicas, replicas, carries=2.0))
    assert lost is not None
    assert lost.fallback
    assert steady(engine, 2000.0, 3.0, since_s=815.0, replicas=replicas) < replicas


@pytest.mark.parametrize("scaling", [Scaling.HPA, Scaling.KEDA])
def test_whoever_asks_for_hpa_or_keda_gets_it_though_there_is_a_pulse(scaling: Scaling) -> None:
    engine = ReplicaEngine(EngineSettings(60.0, scaling=scaling))
    replicas, asked = 2, 0
    for at_s in np.arange(0.0, 600.0, 15.0):
        asked += 15 * 8
        pulse = Pulse(float(at_s), asked, asked, asked, asked)
        verdict = engine.decide(Look(float(at_s), replicas, replicas, pulse, carries=2.0))
        assert verdict is not None
        assert verdict.by is scaling
        assert not verdict.fallback
        replicas = verdict.replicas
    assert replicas == 5


def test_counters_that_begin_again_are_not_taken_for_negative_demand() -> None:
    engine = ReplicaEngine(EngineSettings(60.0))
    replicas = steady(engine, 600.0, 9.0)
    assert engine.decide(Look(600.0, replicas, replicas, Pulse(600.0, 3, 3, 3, 3), carries=2.0)) is None
    again = engine.decide(Look(615.0, replicas, replicas, Pulse(615.0, 138, 138_000, 138, 27_000), carries=2.0))
    assert again is not None
    assert again.replicas == replicas


def test_what_is_remembered_does_not_grow_without_end() -> None:
    """A plane runs for months; a day and an hour of steps are all that is ever asked for."""
    engine = ReplicaEngine(EngineSettings(600.0, step_s=600.0))
    steps = 1000
    asked = 0
    for number in range(steps):
        asked += 600 * (5 + number % 7)
        at_s = number * 600.0
        engine.decide(Look(at_s, 3, 3, Pulse(at_s, asked, asked * 1000, asked, asked * 200), carries=2.0))
    forecaster = engine.policy.forecaster
    assert len(forecaster.sums) <= 2 * forecaster.longest < steps
    assert len(forecaster.said) <= 4
    assert len(engine.policy.rates) == 1


def test_looks_at_odd_moments_say_the_same_as_looks_at_even_ones() -> None:
    """Reports come when they come: demand must not depend on it, and the engine's time must be the clock's."""
    found = []
    for gap_s in (15.0, 23.0, 40.0):
        engine, replicas, at_s = ReplicaEngine(EngineSettings(60.0)), 2, 0.0
        while at_s < 3600.0:
            asked = int(at_s * 9.0)
            look = Look(at_s, replicas, replicas, Pulse(at_s, asked, asked * 1000, asked, asked * 200), carries=2.0)
            verdict = engine.decide(look)
            replicas = verdict.replicas if verdict is not None else replicas
            at_s += gap_s
        found.append((replicas, engine.policy.forecaster.judged.count))
    assert {replicas for replicas, _ in found} == {5}
    assert max(count for _, count in found) - min(count for _, count in found) <= 2


def test_requests_that_become_longer_are_no_more_requests() -> None:
    """What one replica carries is given in requests: other prompts move demand and what is carried alike."""
    engine, replicas, asked, prompt = ReplicaEngine(EngineSettings(60.0)), 2, 0, 0
    for number in range(80):
        asked, prompt = asked + 135, prompt + 135 * (1000 if number < 40 else 3000)
        pulse = Pulse(number * 15.0, asked, prompt, asked, asked * 200)
        verdict = engine.decide(Look(number * 15.0, replicas, replicas, pulse, carries=2.0))
        replicas = verdict.replicas if verdict is not None else replicas
    assert replicas == 5
