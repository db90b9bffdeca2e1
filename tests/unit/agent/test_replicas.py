"""Deployments follow their traffic: scaled, or left to a pool; one that fails does not hold back the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.agent.replicas import ReplicaKeeper
from dure.cli.scale_replicas import read_services
from dure.model.errors import InvalidInput, NotFound
from dure.model.pulse import Pulse, Scaling
from dure.scale.reallocation import Held
from dure.scale.scaled import Scaled, Weights


class Levers:
    """Deployments whose pods are ready at once."""

    def __init__(self, **replicas: int) -> None:
        self.replicas, self.wanted = dict(replicas), dict[str, int]()

    def fetch(self, name: str) -> Held:
        if name not in self.replicas:
            raise NotFound(f"no deployment '{name}'")
        return Held(self.replicas[name], self.replicas[name], self.replicas[name])

    def scale(self, name: str, replicas: int) -> None:
        self.replicas[name] = replicas

    def write_wanted(self, name: str, replicas: int) -> None:
        self.wanted[name] = replicas


class Traffic:
    """Requests at a rate that may change; `None` is nobody who answers."""

    def __init__(self) -> None:
        self.now_s, self.asked, self.rate = 0.0, 0, 0.0
        self.silent = False

    def pulse(self, _name: str, _service: Scaled) -> Pulse | None:
        if self.silent:
            return None
        return Pulse(self.now_s, self.asked, self.asked * 1000, self.asked, self.asked * 200)

    def run(self, keeper: ReplicaKeeper, seconds: float, rate: float) -> None:
        for _ in range(int(seconds / 15.0)):
            self.now_s += 15.0
            self.asked += int(rate * 15.0)
            keeper.turn(self.now_s)


def test_a_deployment_follows_its_traffic_up_and_down_within_its_bounds() -> None:
    levers, traffic, told = Levers(chat=2), Traffic(), list[str]()
    keeper = ReplicaKeeper({"chat": Scaled(2, 6, boot=60.0, carries=2.0)}, levers, traffic.pulse, tell=told.append)
    traffic.run(keeper, 300.0, 7.5)
    assert levers.replicas["chat"] == 4
    traffic.run(keeper, 300.0, 40.0)
    assert levers.replicas["chat"] == 6
    traffic.run(keeper, 3 * 3600.0, 1.0)
    assert levers.replicas["chat"] == 2
    assert told[0].startswith("chat: 2 -> 4 by 'serving': DemandAbove: demand fills")


def test_what_tokens_weigh_may_be_given_instead_of_requests() -> None:
    levers, traffic = Levers(chat=2), Traffic()
    service = Scaled(1, 20, boot=60.0, weights=Weights(prompt=0.0004, output=0.0, request=0.02))
    traffic.run(ReplicaKeeper({"chat": service}, levers, traffic.pulse), 300.0, 7.5)
    assert levers.replicas["chat"] == 4


def test_a_service_of_a_pool_only_says_what_it_wants() -> None:
    levers, traffic = Levers(chat=2), Traffic()
    keeper = ReplicaKeeper({"chat": Scaled(1, 9, boot=60.0, carries=2.0, pool=True)}, levers, traffic.pulse)
    traffic.run(keeper, 300.0, 7.5)
    assert (levers.replicas, levers.wanted) == ({"chat": 2}, {"chat": 4})


def test_engines_that_fall_silent_are_told_once_and_replicas_stay() -> None:
    levers, traffic, told = Levers(chat=2), Traffic(), list[str]()
    keeper = ReplicaKeeper({"chat": Scaled(1, 9, boot=60.0, carries=2.0)}, levers, traffic.pulse, tell=told.append)
    traffic.run(keeper, 300.0, 7.5)
    traffic.silent = True
    traffic.run(keeper, 900.0, 40.0)
    assert levers.replicas["chat"] == 4
    traffic.silent = False
    traffic.run(keeper, 60.0, 7.5)
    said = [line for line in told if line.startswith("chat is scaled by ")]
    assert len(said) == 2
    assert said[0].startswith("chat is scaled by HPA's rules: serving metrics are ")
    assert said[1] == "chat is scaled by its serving metrics again"


def test_one_that_is_not_there_does_not_hold_back_the_others() -> None:
    levers, traffic = Levers(chat=2), Traffic()
    services = {"gone": Scaled(carries=2.0), "chat": Scaled(1, 9, boot=60.0, carries=2.0)}
    keeper = ReplicaKeeper(services, levers, traffic.pulse)
    traffic.run(keeper, 300.0, 7.5)
    gone, chat = keeper.turn(traffic.now_s + 15.0)
    assert gone.error == "no deployment 'gone'"
    assert chat.replicas == 4


def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text("services: {chat: {min: 3, max: 2}}")
    with pytest.raises(InvalidInput, match="1 <= min <= max"):
        read_services(path)
    path.write_text("services: {chat: {minimum: 3}}")
    with pytest.raises(InvalidInput):
        read_services(path)
    path.write_text("namespace: serving\nservices: {chat: {min: 3, max: 8, scaling: keda}}")
    assert read_services(path).services["chat"].scaling is Scaling.KEDA
