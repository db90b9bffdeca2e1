"""Engines that sleep in turn on machines that services share: who surges gets one in seconds, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from dure.agent.awake import AwakeKeeper
from dure.agent.warm import settings_for
from dure.cli.scale_replicas import read_services
from dure.model.errors import InvalidInput, Temporary
from dure.model.pulse import Pulse
from dure.scale.awake import EnginePod, Marks
from dure.scale.reallocation import Held
from dure.scale.scaled import Scaled, Share
from dure.scale.warm import WarmSettings, asleep
from tests.contract.fake_engines import FakeEngines

SHARE = Share(("chat", "code"), boot=120.0, safety=1.0, most=12, asleep=True, drain=30.0)
SERVICES = {"chat": Scaled(1, 10, carries=2.0), "code": Scaled(1, 10, carries=2.0)}
STEP_S, TEND_S = 5.0, 0.25


class Nodes:
    """A cluster with an engine of each service on every node; as many nodes as pods ask for, a boot later."""

    def __init__(self, nodes: int) -> None:
        self.now_s, self.asked = 10_000.0, {"chat": 0, "code": 0}
        self.replicas = {"chat": nodes, "code": nodes}
        self.pods: dict[str, EnginePod] = {}
        self.engines = FakeEngines(patience_s=0.0)
        self.told: list[str] = []
        self.cut = ""
        self.booted(nodes)
        self.keeper = self.restarted()

    def restarted(self) -> AwakeKeeper:
        self.keeper = AwakeKeeper(SHARE, SERVICES, self, self.engines, self.pulse, STEP_S, self.told.append)
        return self.keeper

    def fetch(self, name: str) -> Held:
        return Held(self.replicas[name], self.replicas[name], self.replicas[name])

    def scale(self, name: str, replicas: int) -> None:
        self.replicas[name] = replicas
        mine = sorted((one for one in self.pods.values() if one.service == name), key=lambda one: not one.marks.goes)
        for pod in mine[: max(len(mine) - replicas, 0)]:
            assert pod.marks.goes, "only such as were marked"
            assert self.engines.rests[pod.url].asleep
            del self.pods[pod.name]

    def fetch_engines(self, name: str) -> tuple[EnginePod, ...]:
        return tuple(pod for pod in self.pods.values() if pod.service == name)

    def write_marks(self, pod: str, marks: Marks) -> None:
        if self.cut:
            raise Temporary(self.cut)
        self.pods[pod] = replace(self.pods[pod], marks=marks)

    def pulse(self, name: str, _service: Scaled) -> Pulse | None:
        asked = self.asked[name]
        return Pulse(self.now_s, asked, asked * 1000, asked, asked * 200)

    def booted(self, nodes: int) -> None:
        for node in range(len(self.nodes()), nodes):
            for name in self.replicas:
                pod = EnginePod(name, f"n{node}", f"{name}-{node}", f"http://{name}-{node}", born_s=self.now_s)
                self.pods[pod.name] = pod
                self.engines.put(pod.url, asleep=True)

    def nodes(self) -> set[str]:
        return {pod.node for pod in self.pods.values()}

    def serving(self) -> Counter[str]:
        return Counter(pod.service for pod in self.pods.values() if pod.marks.serves)

    def check(self) -> None:
        for node in self.nodes():
            here = [pod for pod in self.pods.values() if pod.node == node]
            assert sum(not self.engines.rests[pod.url].asleep for pod in here) <= 1, "never two awake"
            for pod in here:
                assert not pod.marks.serves or not self.engines.rests[pod.url].asleep, "none that sleeps serves"

    def turn(self, **rates: float) -> None:
        """One look, and what is under way between it and the next."""
        for name, rate in rates.items():
            self.asked[name] += round(rate * STEP_S)
        found = self.keeper.turn(self.now_s)
        assert found is None or not found.error
        self.check()
        for tended in range(1, int(STEP_S / TEND_S)):
            if not self.keeper.tend(self.now_s + tended * TEND_S):
                break
            self.check()
        self.now_s += STEP_S

    def run(self, seconds: float, **rates: float) -> None:
        for _ in range(int(seconds / STEP_S)):
            self.turn(**rates)


def test_engines_that_start_awake_go_to_sleep_and_one_of_each_machine_serves() -> None:
    nodes = Nodes(4)
    nodes.engines.put("http://chat-0", asleep=False)
    nodes.run(60.0, chat=4.0, code=4.0)
    assert sum(nodes.serving().values()) == 4
    assert min(nodes.serving().values()) >= 1


def test_a_service_that_nobody_asks_has_its_least_from_the_beginning_and_gives_again_what_it_took() -> None:
    nodes = Nodes(4)
    nodes.run(120.0, chat=6.0, code=0.0)
    assert nodes.serving() == Counter(chat=3, code=1)
    nodes.run(120.0, chat=0.2, code=6.0)
    assert nodes.serving() == Counter(chat=1, code=3)
    nodes.run(300.0, chat=6.0, code=0.2)
    assert nodes.serving()["chat"] > 1


def test_a_surge_gets_the_machine_of_who_is_idle_within_two_looks() -> None:
    nodes = Nodes(6)
    nodes.run(300.0, chat=5.0, code=5.0)
    assert nodes.serving() == Counter(chat=3, code=3)
    nodes.run(2 * STEP_S, chat=14.0, code=0.5)
    assert nodes.serving()["chat"] >= 4
    assert any("code-" in line and "goes to sleep" in line for line in nodes.told)


def test_requests_inside_are_finished_before_one_sleeps_and_new_ones_go_elsewhere() -> None:
    nodes = Nodes(4)
    nodes.run(300.0, chat=3.0, code=3.0)
    for pod in nodes.pods.values():
        if pod.marks.serves:
            nodes.engines.put(pod.url, in_flight=3)
    before = nodes.serving()["code"]
    nodes.run(3 * STEP_S, chat=16.0, code=0.2)
    [drains] = [pod for pod in nodes.pods.values() if pod.marks.drains_s is not None and pod.service == "code"]
    assert nodes.serving()["code"] == before - 1
    assert not nodes.engines.rests[drains.url].asleep
    nodes.engines.put(drains.url, in_flight=0)
    nodes.run(STEP_S, chat=16.0, code=0.2)
    assert nodes.engines.rests[drains.url].asleep
    assert ("abort", drains.url) not in nodes.engines.calls


def test_who_is_restarted_in_the_middle_of_a_hand_over_goes_on_with_it() -> None:
    nodes = Nodes(4)
    nodes.run(300.0, chat=3.0, code=3.0)
    for pod in nodes.pods.values():
        if pod.marks.serves:
            nodes.engines.put(pod.url, in_flight=1)
    nodes.run(3 * STEP_S, chat=16.0, code=0.2)
    assert any(pod.marks.next_s is not None for pod in nodes.pods.values()), "a hand-over that waits for requests"
    total = sum(nodes.serving().values())
    for pod in nodes.pods.values():
        nodes.engines.put(pod.url, asleep=nodes.engines.rests[pod.url].asleep)
    nodes.restarted()
    nodes.turn(chat=16.0, code=0.2)
    assert nodes.serving()["chat"] == 3
    assert sum(nodes.serving().values()) == total + 1
    assert not any(pod.marks.next_s is not None for pod in nodes.pods.values())


def test_one_that_cannot_wake_is_told_once_and_another_machine_is_taken() -> None:
    nodes = Nodes(6)
    nodes.run(300.0, chat=5.0, code=5.0)
    idle = min(pod.node for pod in nodes.pods.values() if pod.service == "code" and pod.marks.serves)
    broken = next(pod for pod in nodes.pods.values() if pod.service == "chat" and pod.node == idle)
    nodes.engines.broken.add(broken.url)
    nodes.run(60.0, chat=14.0, code=0.5)
    assert nodes.serving()["chat"] >= 4
    assert [line for line in nodes.told if "cannot wake" in line and "out of memory" in line]
    assert nodes.pods[broken.name].marks.failed_s is not None


def test_an_engine_that_does_not_answer_is_not_counted_and_nobody_is_woken_beside_it() -> None:
    nodes = Nodes(6)
    nodes.run(300.0, chat=5.0, code=5.0)
    silent = next(pod for pod in nodes.pods.values() if pod.service == "chat" and pod.marks.serves)
    nodes.engines.down.add(silent.url)
    found = nodes.keeper.turn(nodes.now_s, apply=False)
    assert found is not None
    assert found.replicas["chat"][0] == 2
    nodes.engines.calls.clear()
    nodes.run(60.0, chat=5.0, code=5.0)
    assert not any(url.endswith(silent.node.removeprefix("n")) for _, url in nodes.engines.calls)
    assert sum("is not counted" in line for line in nodes.told) == 1


def test_machines_are_asked_for_by_pods_of_all_and_go_only_when_all_sleep_there() -> None:
    nodes = Nodes(4)
    nodes.run(300.0, chat=3.0, code=3.0)
    nodes.run(60.0, chat=10.0, code=3.0)
    assert nodes.replicas["chat"] == nodes.replicas["code"] > 4
    many = nodes.replicas["chat"]
    nodes.booted(many)
    nodes.run(120.0, chat=10.0, code=3.0)
    assert sum(nodes.serving().values()) == many
    nodes.run(2400.0, chat=1.0, code=1.0)
    assert nodes.replicas["chat"] == nodes.replicas["code"] < 4
    assert len(nodes.nodes()) == nodes.replicas["chat"]
    assert sum(nodes.serving().values()) >= 2


def test_a_look_changes_nothing_and_what_cannot_be_written_is_told() -> None:
    nodes = Nodes(4)
    nodes.keeper.turn(nodes.now_s, apply=False)
    nodes.asked["chat"] += 50
    nodes.now_s += STEP_S
    found = nodes.keeper.turn(nodes.now_s, apply=False)
    assert found is not None
    assert sum(after for _, after in found.replicas.values()) == 4
    assert all(pod.marks == Marks() for pod in nodes.pods.values())
    nodes.cut = "the cluster is away"
    assert nodes.keeper.tend(nodes.now_s)
    assert any("cannot choose: the cluster is away" in line for line in nodes.told)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        ("{services: [chat, code]}", "needs placeholders"),
        ("{services: [chat, code], asleep: true, placeholders: spare}", "asleep and placeholders"),
        ("{services: [chat, code], placeholders: spare, drain: 5}", "asleep: true only"),
        ("{services: [chat, code], asleep: true, drain: -1}", "0 seconds or more"),
        ("{services: [chat, code], asleep: true, boot: 2}", "start <= boot"),
    ],
)
def test_a_share_with_engines_asleep_that_cannot_be_is_refused(tmp_path: Path, share: str, words: str) -> None:
    path = tmp_path / "services.yaml"
    services = "services:\n  chat: {carries: 2}\n  code: {carries: 2}\n"
    path.write_text(services + "share: {services: [chat, code], asleep: true}\n")
    found = read_services(path).share
    assert found is not None
    assert (found.start_s, found.drain_s) == (3.0, 60.0)
    path.write_text(f"{services}share: {share}\n")
    with pytest.raises(InvalidInput, match=words):
        read_services(path)


def test_engines_asleep_are_divided_by_the_settings_that_were_measured_for_them() -> None:
    slept = settings_for(SHARE, 2.0)
    assert slept == asleep(120.0, 1.0, 2.0, 12, warm_s=SHARE.start_s)
    pods = settings_for(Share(("chat", "code"), placeholders="spare", boot=120.0), 2.0)
    assert pods == WarmSettings(120.0, 20.0, 2.0, step_s=2.0)
    assert slept.keen < pods.keen
