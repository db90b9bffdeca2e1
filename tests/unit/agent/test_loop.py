"""The agent's cycle: goes on without the plane, makes good when it is back, takes conflicts one gang at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.cluster import MemoryCluster
from dure.agent.loop import Agent
from dure.files import read_text
from dure.files.builtin import catalogue
from dure.model.accelerator import ShareMode
from dure.model.decision import Bind, ScaleNodes
from dure.model.defrag import DefragWish
from dure.model.errors import Conflict, Temporary
from dure.model.report import Desired, Report
from dure.model.tariff import Capacity
from dure.model.workload import Placement

FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: one}
spec:
  clusters:
    - name: seoul
      connect: {embedded: {}}
      pools: [{name: t4, class: t4, nodes: 2, devices: 4, price: {owned: 150/h}}]
"""
WORKLOAD = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec: {{type: training, classes: [t4], demand: {{devices: 1}}, gang: {gang}, duration: 10min}}
"""


class Plane:
    """A PlanePort that can be away."""

    def __init__(self) -> None:
        self.away = False
        self.desired: list[Desired] = []
        self.reports: list[Report] = []
        self.wish: DefragWish | None = None

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        if self.away:
            raise Temporary("the plane is away")
        return tuple(self.desired)

    def fetch_wish(self, cluster: str) -> DefragWish | None:
        if self.away:
            raise Temporary("the plane is away")
        return self.wish

    def write_report(self, report: Report) -> None:
        if self.away:
            raise Temporary("the plane is away")
        self.reports.append(report)

    def want(self, name: str, gang: int = 1, generation: int = 1) -> None:
        spec = read_text(WORKLOAD.format(name=name, gang=gang), name).workloads[0]
        home = Placement(
            name, generation, "seoul", "t4", "t4", ShareMode.EXCLUSIVE, Capacity.OWNED, replicas=gang, decided_s=0.0
        )
        self.desired.append(Desired(f"uid-{name}", spec, home))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_767_571_200.0)


@pytest.fixture
def cluster(clock: VirtualClock) -> MemoryCluster:
    return MemoryCluster(read_text(FLEET, "one").fleets[0].clusters[0], catalogue(), clock)


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def agent(cluster: MemoryCluster, plane: Plane, clock: VirtualClock) -> Agent:
    return Agent(cluster, plane, catalogue(), read_text(FLEET, "one").fleets[0].clusters[0].pools, clock)


def bound(cluster: MemoryCluster) -> int:
    return sum(1 for pod in cluster.fetch_state().pods if pod.node)


def test_what_is_wanted_is_made_bound_and_reported(agent: Agent, plane: Plane, cluster: MemoryCluster) -> None:
    plane.want("train", gang=3)
    agent.cycle()
    assert bound(cluster) == 3
    assert [type(one) for one in plane.reports[-1].decisions].count(Bind) == 3
    assert plane.reports[-1].observed[0].bound == 3


def test_nodes_that_come_and_go_are_told_once(
    agent: Agent, plane: Plane, cluster: MemoryCluster, clock: VirtualClock
) -> None:
    agent.cycle()
    told: list[ScaleNodes] = []
    for wanted in (0, 0, 1):
        cluster.scale_pool("t4", wanted)
        clock.advance(clock.now() + 600)
        agent.cycle()
        told += [one for one in plane.reports[-1].decisions if isinstance(one, ScaleNodes)]
    assert told == [
        ScaleNodes("seoul", "t4", 2, 0, Capacity.OWNED, "2 nodes went"),
        ScaleNodes("seoul", "t4", 0, 1, Capacity.OWNED, "1 node came"),
    ]


def test_what_is_no_longer_wanted_is_removed(agent: Agent, plane: Plane, cluster: MemoryCluster) -> None:
    plane.want("train")
    agent.cycle()
    plane.desired.clear()
    agent.cycle()
    assert cluster.fetch_state().pods == ()
    assert plane.reports[-1].observed == ()


def test_without_the_plane_nothing_is_removed_and_pending_pods_are_still_bound(
    agent: Agent, plane: Plane, cluster: MemoryCluster, clock: VirtualClock
) -> None:
    plane.want("first", gang=8)
    plane.want("second")
    agent.cycle()
    assert bound(cluster) == 8, "the second waits for room"
    plane.away = True
    plane.desired.clear()
    clock.advance(clock.now() + 4 * 3600)
    agent.cycle()
    assert plane.away
    second = next(pod for pod in cluster.fetch_state().pods if pod.workload == "second")
    assert second.node
    reports = len(plane.reports)
    plane.away = False
    agent.cycle()
    assert agent.plane_away == plane.away
    assert len(plane.reports) == reports + 1
    decided = plane.reports[-1].decisions
    assert any(isinstance(one, Bind) and one.workload == "second" for one in decided), "told when the plane is back"


def test_a_conflict_spoils_one_gang_and_is_tried_again(
    agent: Agent, plane: Plane, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = cluster.bind, list[str]()

    def bind(binds: Sequence[Bind]) -> None:
        if binds[0].workload == "a" and not failed:
            failed.append("a")
            raise Conflict("somebody was faster")
        real(binds)

    monkeypatch.setattr(cluster, "bind", bind)
    plane.want("a")
    plane.want("b")
    agent.cycle()
    assert [pod.workload for pod in cluster.fetch_state().pods if pod.node] == ["b"]
    agent.cycle()
    assert bound(cluster) == 2


def test_why_a_pod_waits_is_shown_on_it_once(
    agent: Agent, plane: Plane, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(cluster, "explain", lambda pod, message: told.append(f"{pod}: {message}"))
    plane.want("first", gang=8)
    plane.want("second")
    agent.cycle()
    agent.cycle()
    assert len(told) == 1
    assert "needs 1 whole devices" in told[0]
    assert "NoCapacity" in told[0]


def test_a_quiet_agent_does_not_repeat_itself(agent: Agent, plane: Plane, clock: VirtualClock) -> None:
    agent.cycle()
    agent.cycle()
    assert len(plane.reports) == 1
    clock.advance(clock.now() + 61)
    agent.cycle()
    assert len(plane.reports) == 2
