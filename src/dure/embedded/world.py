"""All parts of an embedded fleet, wired once and turned step by step. Who turns it decides what time is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dure.adapters.memory.carbon import MemoryCarbon
from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.prices import MemoryPrices
from dure.agent.loop import Agent
from dure.model.catalogue import Catalogue
from dure.model.errors import Conflict
from dure.model.fleet import Fleet
from dure.model.units import Instant
from dure.model.workload import Workload
from dure.place import place
from dure.plane.desk import Desk
from dure.plane.loop import Plane
from dure.plane.members import LocalPlane
from dure.plane.observe import Observer
from dure.ports import Clock, StorePort

Arrivals = Iterator[tuple[Instant, Workload]]


class EmbeddedWorld:
    """One `step`: what has arrived is submitted, every agent turns once, the plane turns once."""

    def __init__(
        self,
        fleet: Fleet,
        catalogue: Catalogue,
        store: StorePort,
        clock: Clock,
        *,
        seed: int,
        holder: str = "embedded",
        lease_clock: Clock | None = None,
        speed: float = 1.0,
    ) -> None:
        self.fleet = fleet
        self.store = store
        self.clock = clock
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
        grids = sorted({spec.info.grid for spec in fleet.clusters})
        observer = Observer(
            store, fleet, catalogue, MemoryPrices(fleet, seed=seed), MemoryCarbon(grids, seed=seed), seed
        )
        self.plane = Plane(observer, place, clock, holder, lease_clock or clock)
        self.desk = Desk(observer, clock, speed)
        for tenant in fleet.tenants:
            store.write_tenant(tenant)

    def step(self) -> bool:
        """Answers whether anything changed, so that a simulation knows when it may leap."""
        acted = [agent.cycle() for agent in self.agents]
        return self.plane.cycle() > 0 or any(acted)

    def submit(self, arrived: Sequence[Workload]) -> None:
        """The stream's workloads; one that is there already (after a restart) is left alone."""
        for workload in arrived:
            try:
                self.desk.submit(workload, key=f"stream/{workload.name}")
            except Conflict:
                continue

    def next_event_s(self) -> Instant | None:
        """When something happens by itself in one of the clusters."""
        times = [at for cluster in self.clusters.values() if (at := cluster.next_event_s()) is not None]
        return min(times, default=None)
