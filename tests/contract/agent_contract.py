"""What an agent brings about on every `ClusterPort`. Subclass it beside `ClusterContract`, which has the fixtures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from dure.agent.loop import Agent
from dure.model.decision import Bind, Decision, Evict
from dure.model.defrag import DefragWish
from dure.model.errors import Conflict
from dure.model.reason import Reason
from dure.model.report import Desired, Report
from dure.pack import PackSettings
from dure.pack.budget import MoveSettings
from dure.ports import ClusterPort
from tests.contract.cluster_contract import CLUSTER, Harness, bind, nodes_of, pods_of
from tests.fixtures.small_world import CATALOGUE, desired, service, training, whole


class Still:
    """A plane that wants the same all the time, and remembers what it was told."""

    def __init__(self, *wanted: Desired) -> None:
        self.wanted = wanted
        self.reports: list[Report] = []

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        return self.wanted

    def fetch_wish(self, cluster: str) -> DefragWish | None:
        return None

    def write_report(self, report: Report) -> None:
        self.reports.append(report)


class Late:
    """The port, on which those who have to leave are still there when somebody is first seated in their place."""

    def __init__(self, inner: ClusterPort) -> None:
        self._inner, self._refused = inner, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def bind(self, binds: Sequence[Bind]) -> None:
        if not self._refused and any(one.evicts for one in binds):
            self._refused = True
            raise Conflict("a pod that was told to go is still there")
        self._inner.bind(binds)


class Stopped:
    """The time of the cluster's last look, whatever clock it has."""

    def __init__(self, port: ClusterPort) -> None:
        self._port = port

    def now(self) -> float:
        return self._port.fetch_state().now_s

    def wait(self, duration_s: float) -> bool:
        return True


class AgentContract:
    """Inherit as `TestX(ClusterContract, AgentContract)`."""

    @pytest.mark.parametrize("late", [False, True], ids=["at once", "while the old pod is still there"])
    def test_an_agent_frees_a_node_by_a_move_that_the_arrays_found(
        self, port: ClusterPort, harness: Harness, late: bool
    ) -> None:
        """As in a large cluster, where they are searched: one replica leaves its node for the other one's."""
        replicas, wide = desired(service("s", replicas=2)), desired(training("t", devices=4))
        port.apply(replicas)
        for pod, node in zip(pods_of(port, "uid-s"), nodes_of(port, "big"), strict=True):
            bind(port, pod, node, *whole(node.devices[0].id))
        harness.come_up()
        port.apply(wide)
        told = self._told_until_bound(Late(port) if late else port, harness, replicas, wide)
        [whose] = {pod.node for pod in pods_of(port, "uid-s")}
        [there] = pods_of(port, "uid-t")
        assert {whose, there.node} == {node.name for node in nodes_of(port, "big")}
        [evict] = [one for one in told if isinstance(one, Evict)]
        assert (evict.workload, evict.reason.reason) == ("s", Reason.FRAGMENTED)
        [seat] = [one for one in told if isinstance(one, Bind) and one.workload == "t"]
        # A pod may be seen for a while after it was told to go; then the seat is taken in a later cycle.
        assert (not late and seat.evicts == (evict.pod,)) or (
            not seat.evicts and told.index(evict) < told.index(seat)
        )

    def _told_until_bound(
        self, port: ClusterPort, harness: Harness, replicas: Desired, wide: Desired
    ) -> list[Decision]:
        packing = PackSettings(arrays_from=0, moves=MoveSettings(per_pod=1.0))
        plane = Still(replicas, wide)
        agent = Agent(port, plane, CATALOGUE, CLUSTER.pools, Stopped(port), packing=packing)
        for _ in range(100):
            agent.cycle()
            if all(pod.node and not pod.leaving for uid in ("uid-s", "uid-t") for pod in pods_of(port, uid)):
                break
            harness.come_up()
            time.sleep(0.02)
        return [one for report in plane.reports for one in report.decisions]
