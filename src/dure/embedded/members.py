"""Real clusters of a fleet whose agents live in this process: one mirror and one runner for each kubeconfig.

Made by `LiveFleet`. A cluster that cannot be reached is tried for as long as it takes and hurts no other.
"""

from __future__ import annotations

from pathlib import Path

from dure.adapters.kube.cluster import KubeCluster
from dure.adapters.kube.lease import Election
from dure.adapters.kube.reading import EVERY_S, PodReader
from dure.adapters.kube.rest import Api
from dure.agent.loop import Agent
from dure.agent.runner import Runner
from dure.model.catalogue import Catalogue
from dure.model.errors import Temporary
from dure.model.fleet import ClusterSpec, Fleet
from dure.model.units import Seconds
from dure.plane.members import LocalPlane
from dure.ports import Clock, PlanePort, StorePort

# Binds that are under way at once; the API server, not the agent, should be the limit.
LANES = 48


class Member:
    """One real cluster with its agent."""

    def __init__(
        self,
        spec: ClusterSpec,
        catalogue: Catalogue,
        api: Api,
        plane: PlanePort,
        clock: Clock,
        identity: str = "",
        counters_s: Seconds = EVERY_S,
    ) -> None:
        """With an `identity` it acts only while it is the elected leader; without one it is alone."""
        self.election = Election(api, identity, self._gained) if identity else None
        guarded = api.guarded(self._check) if self.election is not None else api
        self.cluster = KubeCluster(spec, catalogue, guarded, clock)
        agent = Agent(self.cluster, plane, self.cluster.catalogue, spec.pools, clock, lanes=LANES)
        self.runner = Runner(agent, self.cluster, leads=self._may_act)
        self.reader = PodReader(self.cluster, every_s=counters_s)
        self._term = self._caught_up = ""

    def start(self) -> None:
        self.cluster.begin()
        if self.election is not None:
            self.cluster.token = lambda: self._term
            self.election.start()
        self.runner.start()
        self.reader.start()

    def stop(self) -> None:
        self.reader.stop()
        self.runner.stop()
        if self.election is not None:
            self.election.stop()
        self.cluster.stop()

    def _gained(self) -> None:
        self.runner.wake()

    def _check(self) -> None:
        """Before every write: still in office, and in the very term that this cycle began in."""
        assert self.election is not None
        self.election.check()
        if self.election.token != self._term:
            raise Temporary("a new term of office has begun")

    def _may_act(self) -> bool:
        """Whoever takes over looks at everything once more before the first act of a term."""
        if self.election is None:
            return True
        if not self.election.leads():
            return False
        self._term = self.election.token
        if self._term != self._caught_up:
            self.cluster.catch_up()
            self._caught_up = self._term
        return True


class Members:
    """`outside` says that the fleet has clusters that are not embedded, here or with agents of their own."""

    def __init__(
        self,
        fleet: Fleet,
        catalogue: Catalogue,
        store: StorePort,
        clock: Clock,
        identity: str = "",
        counters_s: Seconds = EVERY_S,
    ) -> None:
        self.outside = any(not spec.connect.embedded for spec in fleet.clusters)
        plane = LocalPlane(store)
        self._members = [
            Member(spec, catalogue, _api(spec), plane, clock, identity, counters_s)
            for spec in fleet.clusters
            if spec.connect.kubeconfig
        ]

    def start(self) -> None:
        for member in self._members:
            member.start()

    def stop(self) -> None:
        for member in self._members:
            member.stop()


def _api(spec: ClusterSpec) -> Api:
    return Api.from_kubeconfig(Path(spec.connect.kubeconfig).expanduser(), spec.connect.context)
