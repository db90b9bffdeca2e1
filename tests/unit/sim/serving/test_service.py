"""The modelled service: nothing is lost, load hurts, draining is graceful, runs repeat exactly."""

from __future__ import annotations

import numpy as np
import pytest

from dure.sim.serving import kernel as k
from dure.sim.serving.arrivals import from_hour, from_rates
from dure.sim.serving.frontier import envelope, hours_at, misses_at
from dure.sim.serving.profile import capacity, early, weights
from dure.sim.serving.run import play
from dure.sim.serving.scalers import HpaScaler, KedaScaler, OracleScaler
from dure.sim.serving.service import Engine, Promise, Requests, Service


def stream(rate: float, seconds: int, seed: int = 1) -> Requests:
    rng = np.random.default_rng(seed)
    context = rng.integers(50, 2000, 500)
    output = rng.integers(1, 300, 500)
    return from_rates(np.ones(seconds), context, output, rate, seed)


def run_fixed(requests: Requests, replicas: int, **options: str) -> Service:
    service = Service(requests, Engine(), Promise(), 30.0, limit=16, **options)  # type: ignore[arg-type]  # two words
    service.start_with(replicas)
    while service.now_s < requests.horizon_s:
        service.advance(5.0)
    return service


@pytest.mark.parametrize("router", ["requests", "tokens"])
@pytest.mark.parametrize("order", ["arrival", "deadline", "fewest-late"])
def test_every_request_is_answered_once_and_the_cache_is_empty_afterwards(router: str, order: str) -> None:
    service = run_fixed(stream(6.0, 300), 3, router=router, order=order)
    outcome = service.outcome()
    assert outcome.requests == len(service.qf)
    assert np.all(service.qf[:, k.DONE] >= service.qf[:, k.FIRST])
    assert np.all(service.qf[:, k.FIRST] > service.qf[:, k.ARRIVAL])
    assert int(service.ri[:, k.LOAD].sum()) == 0
    assert int(service.ri[:, k.KV].sum()) == 0
    assert int(service.ri[:, k.WAITING].sum()) == 0


def test_too_few_replicas_miss_more() -> None:
    requests = stream(8.0, 300)
    assert run_fixed(requests, 1).outcome().miss_rate > run_fixed(requests, 8).outcome().miss_rate


def test_under_overload_deadline_order_saves_requests() -> None:
    requests = stream(8.0, 300)
    plain = run_fixed(requests, 2, order="arrival").outcome()
    smart = run_fixed(requests, 2, order="deadline").outcome()
    assert smart.ttft_misses < plain.ttft_misses


def test_where_long_prompts_stand_aside_fewer_are_late() -> None:
    requests = stream(8.0, 300)
    order = run_fixed(requests, 2, order="deadline")
    fewest = run_fixed(requests, 2, order="fewest-late")
    assert fewest.outcome().ttft_misses < 0.8 * order.outcome().ttft_misses


def test_without_overload_nobody_stands_aside() -> None:
    requests = stream(4.0, 300)
    plain = run_fixed(requests, 8, order="arrival")
    fewest = run_fixed(requests, 8, order="fewest-late")
    assert (plain.outcome().ttft_misses, fewest.outcome().ttft_misses) == (0, 0)
    assert np.array_equal(plain.qf, fewest.qf)


def test_a_full_cache_preempts_and_still_finishes() -> None:
    requests = Requests(np.linspace(0, 1, 60), np.full(60, 700), np.full(60, 900), 60.0)
    service = Service(requests, Engine(cache_tokens=20_000), Promise(), 30.0, limit=2)
    service.start_with(1)
    while service.now_s < 60.0:
        service.advance(5.0)
    assert service.outcome().preempted > 0
    assert np.all(service.qf[:, k.DONE] > 0)


def test_work_that_was_thrown_away_counts_again_for_the_router() -> None:
    requests = Requests(np.linspace(0, 1, 60), np.full(60, 700), np.full(60, 900), 60.0)
    service = Service(requests, Engine(cache_tokens=20_000), Promise(), 30.0, "tokens", limit=2)
    service.start_with(1)
    while service.now_s < 60.0:
        service.advance(5.0)
        assert service.rf[0, k.WORK] > -1e-9
    assert service.outcome().preempted > 0
    assert service.rf[0, k.WORK] == pytest.approx(0.0, abs=1e-9)


def test_draining_finishes_what_was_begun() -> None:
    service = run_fixed(stream(4.0, 60), 4)
    service.resize(1)
    assert int(np.count_nonzero(service.ri[:, k.STATE] == k.DRAINING)) == 3
    service.outcome()
    assert int(np.count_nonzero(service.ri[:, k.STATE])) == 1


def test_a_booting_replica_is_billed_but_serves_nothing() -> None:
    requests = stream(1.0, 60)
    service = Service(requests, Engine(), Promise(), 1000.0, limit=4)
    service.start_with(1)
    service.resize(3)
    reading = service.advance(10.0)
    assert (reading.ready, reading.booting, reading.billed) == (1, 2, 3)


def test_same_stream_and_scaler_give_the_same_outcome() -> None:
    requests = stream(5.0, 600)
    outcomes = [
        play(requests, HpaScaler("cache", 0.2, 16), 30.0, Engine(), Promise(), warm_up_s=60.0, most=16)
        for _ in range(2)
    ]
    assert outcomes[0] == outcomes[1]


def test_utilisation_drives_a_decode_bound_service_to_its_cap() -> None:
    requests = stream(12.0, 600)
    outcome = play(requests, KedaScaler("utilization", 0.5, 16), 20.0, Engine(), Promise(), warm_up_s=60.0, most=16)
    assert outcome.gpu_hours == pytest.approx(16 * 540 / 3600, rel=0.05)


def test_the_oracle_with_more_room_misses_less() -> None:
    requests = stream(8.0, 900)
    tight, roomy = (
        play(requests, OracleScaler(requests, Engine(), 60.0, load), 60.0, Engine(), Promise(), most=16, warm_up_s=60)
        for load in (1.3, 0.5)
    )
    assert roomy.miss_rate <= tight.miss_rate
    assert roomy.gpu_hours > tight.gpu_hours


def test_streams_repeat_for_a_seed_and_differ_between_seeds() -> None:
    at = np.sort(np.random.default_rng(3).uniform(0, 600, 800))
    tokens = np.full(800, 100)
    first, again, other = (from_hour(at, tokens, tokens, 1, 2.0, 0.5, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.arrival_s, again.arrival_s)
    assert not np.array_equal(first.arrival_s[:100], other.arrival_s[:100])
    assert np.all(np.diff(first.arrival_s) >= 0)


def test_curves_are_compared_at_equal_cost() -> None:
    curve = [(10.0, 0.1), (20.0, 0.01), (15.0, 0.2)]
    assert envelope(curve) == [(10.0, 0.1), (20.0, 0.01)]
    assert misses_at(curve, 15.0) == pytest.approx(0.0316, rel=0.01)
    assert hours_at(curve, 0.0316) == pytest.approx(15.0, rel=0.01)
    assert hours_at(curve, 0.001) is None


def test_a_replica_of_a_service_with_long_prompts_carries_less() -> None:
    rng = np.random.default_rng(4)
    at = np.sort(rng.uniform(0, 600, 400))
    chat = Requests(at, rng.integers(100, 800, 400), rng.integers(100, 400, 400), 600.0)
    code = Requests(at, rng.integers(1500, 6000, 400), rng.integers(5, 40, 400), 600.0)
    carried = [capacity(requests, Engine(), Promise()) for requests in (chat, code)]
    assert carried[1] < 0.8 * carried[0]


def test_what_tokens_weigh_holds_for_mixes_that_were_not_played() -> None:
    """Half chat and half code were seen; what a replica carries of either alone follows within a tenth."""
    rng = np.random.default_rng(4)
    at = np.sort(rng.uniform(0, 600, 4000))
    long = rng.uniform(size=4000) < 0.5
    context = np.where(long, rng.integers(1200, 2400, 4000), rng.integers(500, 1200, 4000))
    output = np.where(long, rng.integers(60, 160, 4000), rng.integers(150, 350, 4000))
    work = weights(Requests(at, context, output, 600.0), Engine(), Promise())
    engine, nominal = Engine(), []
    for of in (long, ~long):
        carried = capacity(Requests(at[of], context[of], output[of], 600.0), engine, Promise())
        computed = engine.prefill_s * context[of] + engine.decode_s * output[of] + engine.request_s
        rate = carried / float(computed.mean())
        weighed = work.prefill_s * context[of] + work.decode_s * output[of] + work.request_s
        assert rate * float(weighed.mean()) == pytest.approx(1.0, rel=0.1)
        nominal.append(carried)
    assert nominal[0] < 0.85 * nominal[1], "what is computed says nothing of the sort"


def test_requests_that_are_all_alike_can_be_weighed() -> None:
    alike = Requests(np.arange(50.0), np.full(50, 1000), np.full(50, 1), 50.0)
    work = weights(alike, Engine(), Promise())
    assert min(work.prefill_s, work.decode_s) >= 0.0
    each_s = 1000 * work.prefill_s + work.decode_s + work.request_s
    assert each_s == pytest.approx(0.171 / capacity(alike, Engine(), Promise()), rel=0.05)


def test_a_profile_sees_only_what_has_already_come() -> None:
    requests = stream(4.0, 300)
    seen = early(requests, 60.0)
    assert 0 < len(seen.arrival_s) < len(requests.arrival_s)
    assert float(seen.arrival_s[-1]) < 60.0
