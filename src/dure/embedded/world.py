"""All parts of an embedded fleet, wired once and turned step by step. Who turns it decides what time is."""

from __future__ import annotations

from collections.abc import Sequence

from dure.adapters.memory.cluster import MemoryCluster
from dure.agent.loop import Agent
from dure.embedded.sources import carbon_of, prices_of
from dure.model.catalogue import Catalogue
from dure.model.errors import Conflict
from dure.model.fleet import Fleet
from dure.model.units import Instant, Seconds
from dure.model.workload import Workload
from dure.place import place
from dure.plane.desk import Desk
from dure.plane.loop import LEASE_S, Decide, Plane
from dure.plane.members import LocalPlane
from dure.plane.observe import Observer
from dure.ports import Clock, StorePort, Teller


class EmbeddedWorld:
    """One `step`: every agent that has something to do turns once, then the plane does.

    An agent without news turns every `idle_s` all the same, which is when it hears of a cancelled workload.
    """

    def __init__(
        self,
        fleet: Fleet,
        catalogue: Catalogue,
        store: StorePort,
        clock: Clock,
        *,
        seed: int,
        holder: str = "embedded",
        lease_clock: Teller | None = None,
        lease_s: Seconds = LEASE_S,
        speed: float = 1.0,
        idle_s: Seconds = 10.0,
        decide: Decide = place,
    ) -> None:
        self.fleet = fleet
        self.store = store
        self.clock = clock
        self.idle_s = idle_s
        self.clusters = {
            spec.info.name: MemoryCluster(spec, catalogue, clock, seed=seed)
            for spec in fleet.clusters
            if spec.connect.embedded
        }
        link = LocalPlane(store)
        self.agents = [
            Agent(self.clusters[spec.info.name], link, catalogue, spec.pools, clock)
            for spec in fleet.clusters
            if spec.info.name in self.clusters
        ]
        prices, carbon = prices_of(fleet, clock, seed), carbon_of(fleet, clock, seed)
        observer = Observer(store, fleet, catalogue, prices, carbon, seed)
        self.plane = Plane(observer, decide, clock, holder, lease_clock or clock)
        self.plane.lease_s = lease_s
        self.desk = Desk(observer, clock, speed)
        for tenant in fleet.tenants:
            store.write_tenant(tenant)
        _keep_policies(store, fleet)
        self._submitted = True
        self._told: set[str] = set(self.clusters)
        self._turned: dict[str, tuple[str, Instant]] = {}

    def step(self) -> bool:
        """Answers whether anything changed, so that a simulation knows when it may leap.

        An agent turns when the plane wants something new of it, when its cluster has changed, or after a while.
        """
        acted = [self._turn(agent) for agent in self.agents if self._due(agent)]
        if not acted and not self._submitted:
            return False
        self._submitted = False
        changed = self.plane.cycle() > 0
        self._told |= self.plane.touched
        return changed or any(acted)

    def _due(self, agent: Agent) -> bool:
        version, at_s = self._turned.get(agent.cluster.name, ("", 0.0))
        if agent.cluster.name in self._told or self.clock.now() - at_s >= self.idle_s:
            return True
        return self.clusters[agent.cluster.name].version != version

    def _turn(self, agent: Agent) -> bool:
        name = agent.cluster.name
        self._told.discard(name)
        acted = agent.cycle()
        self._turned[name] = (self.clusters[name].version, self.clock.now())
        return acted

    def nudge(self) -> None:
        """Something outside of this world may have changed: let everybody look once."""
        self._submitted = True

    def submit(self, arrived: Sequence[Workload]) -> None:
        """The stream's workloads; one that is there already (after a restart) is left alone."""
        self._submitted = self._submitted or bool(arrived)
        for workload in arrived:
            try:
                self.desk.submit(workload, key=f"stream/{workload.name}")
            except Conflict:
                continue

    def next_event_s(self) -> Instant | None:
        """When something happens by itself in one of the clusters."""
        times = [at for cluster in self.clusters.values() if (at := cluster.next_event_s()) is not None]
        return min(times, default=None)

    def live_on(self) -> bool:
        """Let happen in the clusters what is due; answers whether an agent has to do something about it."""
        loud = [cluster.live_on() for cluster in self.clusters.values()]
        return any(loud)


def _keep_policies(store: StorePort, fleet: Fleet) -> None:
    """The policies of the fleet file, each written once: one that was changed since by `apply` stays changed."""
    known = {policy.name for policy in store.list_policies()}
    for policy in fleet.policies:
        if policy.name not in known:
            store.write_policy(policy)
