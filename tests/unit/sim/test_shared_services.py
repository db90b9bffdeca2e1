"""Machines that several services share: taken warm, given back, booted, let go, and every one of them paid for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dure.scale.demand import Seen, WorkModel
from dure.scale.serving import ServingSettings
from dure.scale.warm import LOAD_S, Division, Machines, WarmPolicy, WarmSettings, asleep
from dure.sim.serving import kernel as k
from dure.sim.serving.scalers import DureScaler
from dure.sim.serving.service import Engine, Promise, Requests, Service
from dure.sim.serving.shared import SharedMachines, Together, alive, play_apart, play_shared_machines


def stream(rates: list[float], seconds: float, seed: int) -> Requests:
    """Each rate for so long, in requests per second."""
    rng = np.random.default_rng(seed)
    parts = [np.sort(rng.uniform(0.0, seconds, round(rate * seconds))) + seconds * i for i, rate in enumerate(rates)]
    at = np.concatenate(parts)
    return Requests(at, np.full(len(at), 1000), np.full(len(at), 100), seconds * len(rates))


def fleet(first: int, second: int) -> SharedMachines:
    services = [Service(stream([0.5], 600.0, seed), Engine(), Promise(), 20.0, limit=8) for seed in (1, 2)]
    for service, replicas in zip(services, (first, second), strict=True):
        service.start_with(replicas)
    return SharedMachines(services, boot_s=150.0, warm_s=20.0)


def test_a_replica_that_is_given_back_leaves_a_warm_machine_that_another_service_takes() -> None:
    shared = fleet(3, 1)
    shared.advance(5.0)
    shared.resize((1, 1), 4)
    while shared.machines.leaving:
        shared.advance(5.0)
    assert shared.machines == Machines(free=2)
    shared.resize((1, 3), 4)
    assert shared.machines == Machines(free=0)
    shared.advance(20.0)
    assert shared.advance(5.0)[1].ready == 3, "ready after the warm start"


def test_nobody_gets_a_machine_that_is_not_there_and_one_is_booted() -> None:
    shared = fleet(1, 1)
    shared.advance(5.0)
    shared.resize((1, 2), 3)
    assert [alive(service) for service in shared.services] == [1, 1]
    assert shared.machines == Machines(free=0, booting=1)
    shared.advance(125.0)
    assert shared.machines.free == 0
    shared.advance(10.0)
    assert shared.machines == Machines(free=1)


def test_machines_that_boot_are_called_off_before_warm_ones_are_let_go() -> None:
    shared = fleet(3, 1)
    shared.resize((2, 1), 6)
    while shared.machines.leaving:
        shared.advance(5.0)
    assert shared.machines == Machines(free=1, booting=2)
    shared.resize((2, 1), 4)
    assert shared.machines == Machines(free=1, booting=0)
    shared.resize((2, 1), 3)
    assert shared.machines == Machines(free=0, booting=0)


def test_every_machine_is_paid_for_idle_or_not() -> None:
    shared = fleet(2, 1)
    shared.resize((2, 1), 5)
    shared.advance(10.0)
    assert shared.gpu_s == 50.0


def test_services_that_rise_in_turn_need_fewer_machines_when_they_share_them() -> None:
    """One rises when the other falls, in twenty minutes: together they always need the same."""
    swing = [9.0 + 6.0 * math.sin(minute / 6.4) for minute in range(120)]
    streams = [stream(swing, 60.0, 1), stream([18.0 - rate for rate in swing], 60.0, 2)]
    work = WorkModel(0.0003, 0.001, 0.02)
    policy = WarmPolicy(WarmSettings(150.0, safety=1.0), (work, work))
    shared = play_shared_machines(streams, policy, Engine(), Promise(), most=24)
    scalers = [DureScaler(ServingSettings(150.0, safety=1.0, max_replicas=24), work, 200.0) for _ in streams]
    apart = play_apart(streams, scalers, 150.0, Engine(), Promise(), most=24)
    assert shared.gpu_hours < 0.9 * apart.gpu_hours
    assert shared.miss_rate < 0.01


def busy(drain_s: float | None, replicas: int = 3) -> Service:
    """Every replica with a dozen long answers in the making, and some requests that wait."""
    at = np.sort(np.random.default_rng(5).uniform(0.0, 8.0, 40))
    requests = Requests(at, np.full(40, 1500), np.full(40, 600), 60.0)
    service = Service(requests, Engine(), Promise(), 3.0, "tokens", limit=8, drain_s=drain_s)
    service.start_with(replicas)
    service.advance(10.0)
    return service


def test_what_is_left_after_a_bounded_drain_is_computed_again_elsewhere() -> None:
    moved, stayed = busy(2.0), busy(None)
    for service in (moved, stayed):
        service.resize(2)
        service.advance(3.0)
    assert np.count_nonzero(moved.ri[:, k.STATE]) == 2, "its machine is free"
    assert np.count_nonzero(stayed.ri[:, k.STATE]) == 3, "it still serves"
    assert moved.cnt[k.MOVED] > 0
    assert stayed.cnt[k.MOVED] == 0
    for service in (moved, stayed):
        service.outcome()
        assert np.all(service.qf[:, k.DONE] > 0.0)
        assert service.cnt[k.DONE_N] == 40, "each is answered once"
        assert not service.ri[:, k.LOAD].any()
        assert service.ri[:, k.WAITING].sum() == service.cnt[k.WAIT_TOKENS] == 0
        assert not service.ri[:, k.KV].any(), "no more is freed than was taken"
        assert np.abs(service.rf[:, k.WORK]).max() < 1e-9


def test_a_request_that_is_moved_is_charged_for_its_prompt_and_for_what_it_had_said() -> None:
    service = busy(0.0)
    service.resize(2)
    service.advance(0.2)
    moved = service.qi[:, k.CUR_CONTEXT] > service.qi[:, k.CONTEXT]
    assert np.count_nonzero(moved) == service.cnt[k.MOVED] > 0
    made = service.qi[moved, k.CUR_CONTEXT] - service.qi[moved, k.CONTEXT]
    assert np.all(made >= 1)
    assert np.all(made < service.qi[moved, k.OUTPUT])


def test_nothing_is_moved_where_nobody_else_is_ready() -> None:
    service = busy(0.0, replicas=1)
    service.resize(0)
    service.advance(5.0)
    assert service.cnt[k.MOVED] == 0
    assert service.ri[0, k.STATE] == k.DRAINING
    while service.ri[0, k.STATE] != k.FREE:
        service.advance(5.0)
    assert service.cnt[k.DONE_N] == 40, "it finished what it had"


def test_what_has_not_begun_leaves_at_once() -> None:
    at = np.linspace(0.0, 0.1, 60)
    requests = Requests(at, np.full(60, 3000), np.full(60, 20), 60.0)
    service = Service(requests, Engine(), Promise(), 3.0, "tokens", limit=8, drain_s=30.0)
    service.start_with(2)
    service.advance(1.0)
    tokens = service.cnt[k.WAIT_TOKENS]
    service.resize(1)
    left = int(np.flatnonzero(service.ri[:, k.STATE] == k.DRAINING)[0])
    assert service.ri[left, k.WAITING] == 0
    assert service.cnt[k.WAIT_TOKENS] == tokens, "all of them wait at the other"
    arrivals, q = [], service.ri[1 - left, k.HEAD]
    while q >= 0:
        arrivals.append(service.qf[q, k.ARRIVAL])
        q = service.qi[q, k.NEXT]
    assert len(arrivals) == service.ri[1 - left, k.WAITING] > 20
    assert arrivals == sorted(arrivals)


class Watched(WarmPolicy):
    """Says what it was shown, so that a test can look at it."""

    def step(self, seen: Sequence[Seen], machines: Machines) -> Division:
        division = super().step(seen, machines)
        given = sum(division.replicas)
        assert given <= sum(one.target for one in seen) + machines.free
        assert min(division.replicas) >= 1
        return division


def taking_turns(settings: WarmSettings) -> Together:
    """Bursts of a minute that go from one service to the other and back; together they always need the same."""
    high, low = 36.0, 9.0
    turns = [high if minute % 2 else low for minute in range(120)]
    streams = [stream(turns, 60.0, 1), stream([high + low - rate for rate in turns], 60.0, 2)]
    work = WorkModel(0.0003, 0.001, 0.02)
    policy = Watched(settings, (work, work))
    return play_shared_machines(streams, policy, Engine(), Promise(), most=48, way=("tokens", "fewest-late"))


def handed_over_s(settings: WarmSettings) -> float:
    """Seconds until a machine whose requests have long answers to give serves the other service."""
    giver = busy(settings.drain_s)
    taker = Service(stream([0.5], 600.0, 2), Engine(), Promise(), settings.warm_s, limit=8)
    taker.start_with(1)
    taker.advance(10.0)
    shared = SharedMachines([giver, taker], settings.boot_s, settings.warm_s)
    while shared.advance(1.0)[1].ready < 2:
        shared.resize((2, 2), 4)
        assert shared.machines.booting == 0
    return taker.now_s - 11.0


def test_a_machine_changes_hands_in_the_drain_the_sleep_and_the_wake_up() -> None:
    woken = asleep(150.0, loading_s=LOAD_S)
    assert woken.drain_s is not None
    assert handed_over_s(woken) <= woken.drain_s + woken.warm_s + 2.0
    assert handed_over_s(WarmSettings(150.0)) > 30.0


def test_the_same_run_twice_is_the_same() -> None:
    first, second = (taking_turns(asleep(150.0, 1.0, loading_s=LOAD_S)) for _ in range(2))
    assert first == second
