"""Machines that several services share: taken warm, given back, booted, let go, and every one of them paid for."""

from __future__ import annotations

import math

import numpy as np

from dure.scale.demand import WorkModel
from dure.scale.serving import ServingSettings
from dure.scale.warm import Machines, WarmPolicy, WarmSettings
from dure.sim.serving.scalers import DureScaler
from dure.sim.serving.service import Engine, Promise, Requests, Service
from dure.sim.serving.shared import SharedMachines, alive, play_apart, play_shared_machines


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
