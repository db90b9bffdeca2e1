"""Real clusters of a fleet whose agents live in this process: one mirror and one runner for each kubeconfig.

Made by `LiveFleet`. A cluster that cannot be reached is tried for as long as it takes and hurts no other.
"""

from __future__ import annotations

from pathlib import Path

from dure.adapters.kube.cluster import KubeCluster
from dure.adapters.kube.rest import Api
from dure.agent.loop import Agent
from dure.agent.runner import Runner
from dure.model.catalogue import Catalogue
from dure.model.fleet import ClusterSpec, Fleet
from dure.plane.members import LocalPlane
from dure.ports import Clock, PlanePort, StorePort

# Binds that are under way at once; the API server, not the agent, should be the limit.
LANES = 48


class Member:
    """One real cluster with its agent."""

    def __init__(self, spec: ClusterSpec, catalogue: Catalogue, api: Api, plane: PlanePort, clock: Clock) -> None:
        self.cluster = KubeCluster(spec, catalogue, api, clock)
        agent = Agent(self.cluster, plane, self.cluster.catalogue, spec.pools, clock, lanes=LANES)
        self.runner = Runner(agent, self.cluster)

    def start(self) -> None:
        self.cluster.begin()
        self.runner.start()

    def stop(self) -> None:
        self.runner.stop()
        self.cluster.stop()


class Members:
    """`outside` says that the fleet has clusters that are not embedded, here or with agents of their own."""

    def __init__(self, fleet: Fleet, catalogue: Catalogue, store: StorePort, clock: Clock) -> None:
        self.outside = any(not spec.connect.embedded for spec in fleet.clusters)
        plane = LocalPlane(store)
        self._members = [
            Member(spec, catalogue, _api(spec), plane, clock) for spec in fleet.clusters if spec.connect.kubeconfig
        ]

    def start(self) -> None:
        for member in self._members:
            member.start()

    def stop(self) -> None:
        for member in self._members:
            member.stop()


def _api(spec: ClusterSpec) -> Api:
    return Api.from_kubeconfig(Path(spec.connect.kubeconfig).expanduser(), spec.connect.context)
