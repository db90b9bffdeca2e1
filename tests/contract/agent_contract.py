"""What an agent brings about on every `ClusterPort`. Subclass it beside `ClusterContract`, which has the fixtures."""

from __future__ import annotations

from dure.agent.loop import Agent
from dure.model.decision import Bind, Evict
from dure.model.defrag import DefragWish
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

    def test_an_agent_frees_a_node_by_a_move_that_the_arrays_found(self, port: ClusterPort, harness: Harness) -> None:
        """As in a large cluster, where they are searched: one replica leaves its node for the other one's."""
        replicas, wide = desired(service("s", replicas=2)), desired(training("t", devices=4))
        port.apply(replicas)
        for pod, node in zip(pods_of(port, "uid-s"), nodes_of(port, "big"), strict=True):
            bind(port, pod, node, *whole(node.devices[0].id))
        harness.come_up()
        port.apply(wide)
        packing = PackSettings(arrays_from=0, moves=MoveSettings(per_pod=1.0))
        plane = Still(replicas, wide)
        agent = Agent(port, plane, CATALOGUE, CLUSTER.pools, Stopped(port), packing=packing)
        for _ in range(8):
            agent.cycle()
            if all(pod.node for pod in (*pods_of(port, "uid-s"), *pods_of(port, "uid-t"))):
                break
            harness.come_up()
        [whose] = {pod.node for pod in pods_of(port, "uid-s")}
        [there] = pods_of(port, "uid-t")
        assert {whose, there.node} == {node.name for node in nodes_of(port, "big")}
        told = [one for report in plane.reports for one in report.decisions]
        [evict] = [one for one in told if isinstance(one, Evict)]
        assert (evict.workload, evict.reason.reason) == ("s", Reason.FRAGMENTED)
        [seat] = [one for one in told if isinstance(one, Bind) and one.workload == "t"]
        # A real pod may be seen for a while after it was told to go; then the seat is taken in a later cycle.
        assert seat.evicts == (evict.pod,) or (not seat.evicts and told.index(evict) < told.index(seat))
