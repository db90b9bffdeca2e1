"""Deployments that share nodes: who rises takes warm ones, placeholders ask for more, and nothing is done blindly."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.agent.warm import ShareKeeper
from dure.cli.scale_replicas import read_services
from dure.model.errors import InvalidInput, NotFound
from dure.model.pulse import Pulse
from dure.scale.reallocation import Held
from dure.scale.scaled import Scaled, Share

SHARE = Share(("chat", "code"), "spare", boot=120.0, start=15.0, safety=1.0, most=12)
SERVICES = {"chat": Scaled(1, 10, carries=2.0), "code": Scaled(1, 10, carries=2.0)}


class Nodes:
    """A cluster with so many nodes, one pod each: replicas push placeholders aside; a waiting one boots a node."""

    def __init__(self, nodes: int, **replicas: int) -> None:
        self.nodes, self.replicas = nodes, dict(replicas)
        self.acts: list[tuple[str, int]] = []

    def fetch(self, name: str) -> Held:
        if name not in self.replicas:
            raise NotFound(f"no deployment '{name}'")
        count = self.replicas[name]
        used = sum(count for other, count in self.replicas.items() if other != "spare")
        ready = count if name != "spare" else max(min(count, self.nodes - used), 0)
        return Held(count, ready, count)

    def scale(self, name: str, replicas: int) -> None:
        self.acts.append((name, replicas))
        self.replicas[name] = replicas

    def booted(self) -> None:
        self.nodes = max(self.nodes, sum(self.replicas.values()))


class Traffic:
    def __init__(self) -> None:
        self.now_s, self.asked = 0.0, {"chat": 0, "code": 0}
        self.silent: str | None = None

    def pulse(self, name: str, _service: Scaled) -> Pulse | None:
        asked = self.asked[name]
        return None if name == self.silent else Pulse(self.now_s, asked, asked * 1000, asked, asked * 200)

    def run(self, keeper: ShareKeeper, nodes: Nodes, seconds: float, chat: float, code: float) -> None:
        for turn in range(int(seconds / 15.0)):
            self.now_s += 15.0
            self.asked["chat"] += int(chat * 15.0)
            self.asked["code"] += int(code * 15.0)
            keeper.turn(self.now_s)
            used = nodes.replicas["chat"] + nodes.replicas["code"]
            assert used <= max(nodes.nodes, 2), "replicas only on nodes that are there"
            if turn % 8 == 7:
                nodes.booted()


def test_who_rises_takes_what_the_other_leaves_and_no_node_is_asked_for() -> None:
    nodes, traffic, told = Nodes(8, chat=5, code=3, spare=0), Traffic(), list[str]()
    keeper = ShareKeeper(SHARE, SERVICES, nodes, traffic.pulse, tell=told.append)
    traffic.run(keeper, nodes, 3600.0, 8.0, 2.0)
    many = dict(nodes.replicas)
    most = nodes.nodes
    traffic.run(keeper, nodes, 3600.0, 2.0, 8.0)
    assert many["chat"] > many["code"]
    assert nodes.replicas["code"] > nodes.replicas["chat"]
    assert nodes.nodes <= most + 2
    assert any(line.startswith("code: ") for line in told)


def test_for_what_is_not_there_placeholders_are_asked_for_first() -> None:
    nodes, traffic = Nodes(4, chat=2, code=2, spare=0), Traffic()
    keeper = ShareKeeper(SHARE, SERVICES, nodes, traffic.pulse)
    traffic.run(keeper, nodes, 60.0, 8.0, 2.0)
    assert nodes.replicas["spare"] > 0
    traffic.run(keeper, nodes, 600.0, 8.0, 2.0)
    assert nodes.replicas["chat"] >= 4
    assert sum(nodes.replicas.values()) <= SHARE.most


def test_a_restart_in_a_lull_lets_nothing_go_before_it_has_seen_for_as_long_as_needs_are_remembered() -> None:
    nodes, traffic = Nodes(8, chat=5, code=2, spare=1), Traffic()
    traffic.run(ShareKeeper(SHARE, SERVICES, nodes, traffic.pulse), nodes, 225.0, 0.2, 0.2)
    assert nodes.replicas["chat"] + nodes.replicas["code"] == 8
    traffic.run(ShareKeeper(SHARE, SERVICES, nodes, traffic.pulse), nodes, 225.0, 0.2, 0.2)
    assert nodes.replicas["chat"] + nodes.replicas["code"] == 8, "restarted again"
    keeper = ShareKeeper(SHARE, SERVICES, nodes, traffic.pulse)
    traffic.run(keeper, nodes, 600.0, 0.2, 0.2)
    assert nodes.replicas["chat"] + nodes.replicas["code"] < 4


def test_while_one_of_them_is_silent_nothing_is_changed() -> None:
    nodes, traffic = Nodes(8, chat=5, code=3, spare=0), Traffic()
    keeper = ShareKeeper(SHARE, SERVICES, nodes, traffic.pulse)
    traffic.run(keeper, nodes, 600.0, 4.0, 4.0)
    before = list(nodes.acts)
    traffic.silent = "code"
    traffic.run(keeper, nodes, 600.0, 16.0, 4.0)
    assert nodes.acts == before


def test_a_look_without_leave_changes_nothing_and_a_deployment_that_is_gone_is_told() -> None:
    nodes, traffic = Nodes(8, chat=5, code=3, spare=0), Traffic()
    keeper = ShareKeeper(SHARE, SERVICES, nodes, traffic.pulse)
    assert keeper.turn(0.0, apply=False) is None
    traffic.now_s, traffic.asked = 15.0, {"chat": 200, "code": 30}
    found = keeper.turn(15.0, apply=False)
    assert found is not None
    assert found.replicas["chat"][0] == 5
    assert nodes.acts == []
    del nodes.replicas["spare"]
    gone = keeper.turn(30.0)
    assert gone is not None
    assert "spare" in gone.error


@pytest.mark.parametrize(
    "share",
    [
        "{services: [chat, gone], placeholders: spare}",
        "{services: [chat], placeholders: spare}",
        "{services: [chat, chat], placeholders: spare}",
        "{services: [chat, code], placeholders: chat}",
        "{services: [chat, code], placeholders: spare, start: 200}",
        "{services: [chat, code], placeholders: spare, most: 1}",
        "{services: [chat, rules], placeholders: spare}",
    ],
)
def test_a_share_that_cannot_be_is_refused(tmp_path: Path, share: str) -> None:
    path = tmp_path / "services.yaml"
    services = "services:\n  chat: {carries: 2}\n  code: {carries: 2}\n  rules: {carries: 2, scaling: hpa}\n"
    path.write_text(services + "share: {services: [chat, code], placeholders: spare}\n")
    assert read_services(path).share is not None
    path.write_text(f"{services}share: {share}\n")
    with pytest.raises(InvalidInput):
        read_services(path)
