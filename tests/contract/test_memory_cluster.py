"""The cluster contract on the embedded cluster, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import CALM
from dure.model.cluster import PodPhase
from dure.model.fleet import ClusterSpec
from dure.ports import ClusterPort
from tests.contract.agent_contract import AgentContract
from tests.contract.cluster_contract import ClusterContract, Harness, pods_of
from tests.fixtures.small_world import CATALOGUE


class MemoryHarness:
    def __init__(self) -> None:
        self.clock = VirtualClock(1_000_000.0)
        self.port: MemoryCluster | None = None

    def make(self, spec: ClusterSpec) -> ClusterPort:
        self.port = MemoryCluster(spec, CATALOGUE, self.clock, hazards=CALM)
        return self.port

    def come_up(self) -> None:
        self._pass_until(lambda port: all(p.phase is not PodPhase.STARTING for p in port.fetch_state().pods))

    def finish(self, uid: str) -> None:
        self._pass_until(lambda port: all(pod.phase is PodPhase.SUCCEEDED for pod in pods_of(port, uid)))

    def _pass_until(self, reached: Callable[[ClusterPort], bool]) -> None:
        assert self.port is not None
        while not reached(self.port):
            at_s = self.port.next_event_s()
            assert at_s is not None, "nothing will ever happen"
            self.clock.advance(max(at_s, self.clock.now()))


class TestMemoryCluster(ClusterContract, AgentContract):
    @pytest.fixture
    def harness(self) -> Harness:
        return MemoryHarness()
