"""Engines that sleep in turn, on a real cluster: a surge gets another's machine in seconds, and nobody notices."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dure.adapters.kube.deployments import Deployments
from dure.adapters.kube.rest import Api
from dure.agent.awake import AwakeKeeper
from dure.model.pulse import Pulse
from dure.scale.scaled import Scaled, Share
from lab.cluster import Cluster
from lab.lab import Lab
from lab.ports import Ports
from tests.contract.fake_engines import FakeEngines
from tests.kube.sleeping_world import (
    ACCOUNT,
    SERVICES,
    Modelled,
    Told,
    add_nodes,
    begin,
    endpoints,
    running,
    seats,
)
from tests.kube.world import until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FILE = """
namespace: serving
services:
  chat-7b: {min: 1, max: 10, carries: 4, front: "FRONT-chat-7b"}
  chat-13b: {min: 1, max: 10, carries: 4, front: "FRONT-chat-13b"}
share: {services: [chat-7b, chat-13b], asleep: true, boot: 120, start: 1, drain: 20, most: 4}
"""
STEP_S = 5.0
PATIENT_TURNS = 200


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Lab(["test"]) as lab:
        yield lab["test"]


class Stepped:
    """Time is told and engines are in memory; pods, their seats and who is sent to are the cluster's."""

    def __init__(self, cluster: Cluster, api: Api) -> None:
        self.cluster, self.levers, self.engines, self.now_s = cluster, Deployments(api, "serving"), FakeEngines(), 2e9
        self.asked = dict.fromkeys(SERVICES, 0)
        share = Share(SERVICES, boot=30.0, safety=1.0, most=6, asleep=True, drain=20.0)
        services = {name: Scaled(1, 6, carries=4.0) for name in SERVICES}
        self.keeper = AwakeKeeper(share, services, self.levers, self.engines, self._pulse, STEP_S)

    def play(self, **rates: float) -> None:
        """What came in one step, a look at it, and what goes on until the next. Engines start awake."""
        for name, rate in rates.items():
            self.asked[name.replace("_", "-")] += round(rate * STEP_S)
        for pod in (pod for name in SERVICES for pod in self.levers.fetch_engines(name)):
            if pod.url not in self.engines.rests:
                self.engines.put(pod.url)
        found = self.keeper.turn(self.now_s)
        assert found is None or not found.error
        for moment in range(1, 20):
            if not self.keeper.tend(self.now_s + 0.25 * moment):
                break
        self.now_s += STEP_S

    def play_until(self, reached: Callable[[], bool], what: str, **rates: float) -> None:
        for _ in range(PATIENT_TURNS):
            self.play(**rates)
            if reached():
                return
        raise AssertionError(f"{PATIENT_TURNS} looks in vain for {what}: {self.counts()}")

    def serving(self, service: str) -> set[str]:
        return {pod.name for pod in self.levers.fetch_engines(service) if pod.marks.serves}

    def counts(self) -> Counter[str]:
        return Counter({name: len(self.serving(name)) for name in SERVICES})

    def machines(self) -> int:
        [count] = {self.levers.fetch(name).replicas for name in SERVICES}
        return count

    def settled(self) -> bool:
        """The Services send to just those that serve, and pods are where they should be."""
        wanted = {name: self.levers.fetch(name).replicas for name in SERVICES}
        here = Counter(pod["metadata"]["labels"]["app"] for pod in running(self.cluster))
        return here == Counter(wanted) and all(endpoints(self.cluster, one) == self.serving(one) for one in SERVICES)

    def _pulse(self, name: str, _service: Scaled) -> Pulse | None:
        asked = self.asked[name]
        return Pulse(self.now_s, asked, asked * 1000, asked, asked * 200)


def test_services_follow_the_label_and_machines_come_and_go_with_an_engine_of_each(cluster: Cluster) -> None:
    begin(cluster, 4)
    with Api.from_kubeconfig(cluster.kubeconfig_of("serving", ACCOUNT)) as api:
        world = Stepped(cluster, api)
        for _ in range(12):
            world.play(chat_7b=4.0, chat_13b=4.0)
        assert world.counts() == Counter({"chat-7b": 2, "chat-13b": 2})
        until(world.settled, "Services that send to who is awake")

        for _ in range(3):
            world.play(chat_7b=16.0, chat_13b=0.5)
        assert world.counts() == Counter({"chat-7b": 3, "chat-13b": 1})
        until(world.settled, "Services that follow")

        world.play_until(lambda: world.machines() == 6, "pods that wait for machines", chat_7b=16.0, chat_13b=0.5)
        add_nodes(cluster, "more", 2)
        until(world.settled, "an engine of each on the machines that came")
        for _ in range(3):
            world.play(chat_7b=16.0, chat_13b=0.5)
        assert world.counts() == Counter({"chat-7b": 5, "chat-13b": 1})

        def fewer() -> bool:
            until(world.settled, "what was decided")
            assert all(services == sorted(SERVICES) for services in seats(cluster).values()), "whole machines"
            return len(seats(cluster)) == 2

        world.play_until(fewer, "machines that nobody needs to go", chat_7b=1.0, chat_13b=1.0)
        assert world.machines() == 2
        assert world.counts() == Counter({"chat-7b": 1, "chat-13b": 1})


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Ended with the block, however that ends."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_surge_gets_a_machine_in_seconds_and_a_restart_in_the_middle_loses_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    ports = Ports()
    port = ports.take()
    begin(cluster, 4, port)
    with contextlib.closing(ports), Modelled(cluster, port, answer_s=0.1, wake_s=1.5) as world:
        text = FILE
        for name, url in world.fronts.items():
            text = text.replace(f"FRONT-{name}", url)
        file = tmp_path / "services.yaml"
        file.write_text(text)
        kubeconfig = cluster.kubeconfig_of("serving", ACCOUNT)
        arguments = ["-f", str(file), "--kubeconfig", str(kubeconfig), "--every", "1", "--apply"]
        command = [sys.executable, "-u", "-m", "dure", "scale", "replicas", *arguments]

        looked = subprocess.run(command[:-1], capture_output=True, text=True, check=True)
        assert "Nothing was changed" in looked.stdout
        assert [line.split() for line in looked.stdout.splitlines()][-2] == ["machines", "4", "4", "shared"]
        assert world.serving() == Counter()

        with started(command) as agent:
            told = Told(agent.stdout)
            until(lambda: sum(world.serving().values()) == 4, "one that is awake on every machine")
            world.rates = {"chat-7b": 4.0, "chat-13b": 4.0}
            until(lambda: world.serving() == Counter({"chat-7b": 2, "chat-13b": 2}), "two each")
            world.rates = {"chat-7b": 16.0, "chat-13b": 0.5}
            surge_s = until(lambda: world.serving()["chat-7b"] == 3, "the machine of who is idle")
            until(lambda: world.serving()["chat-13b"] == 1, "its least is left to the other")
            world.rates = {"chat-7b": 0.5, "chat-13b": 16.0}
            until(lambda: any("next-since" in str(pod["metadata"]) for pod in running(cluster)), "a hand-over")
            agent.kill()
        handed = [seconds for _, seconds in told.handovers()]
        assert world.serving()["chat-13b"] < 3, "killed in the middle"

        with started(command) as agent:
            told = Told(agent.stdout)
            until(lambda: world.serving() == Counter({"chat-7b": 1, "chat-13b": 3}), "the rest of it")
            agent.send_signal(signal.SIGINT)
            assert agent.wait(30.0) == 0
        assert world.wrong == []
        assert world.answers[200] > 50
        assert set(world.awake().values()) == {1}
        print(f"surge answered in {surge_s:.1f} s, hand-overs {[round(one, 1) for one in handed]} s")
