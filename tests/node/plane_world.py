"""Lab clusters with a real node each under a plane that decides by itself: store, loop and agents in this process.

Prices are read from a file, as `priceSource` of a fleet says; `price` writes a new one. Counters of the pods are
read every second instead of every fifteen, and the rules of the burst are as much shorter.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from dure.cli.fleet_file import fleet_and_catalogue
from dure.embedded.live import LiveFleet
from dure.model.decision import Decision
from dure.model.workload import WorkloadStatus
from lab.lab import Lab
from lab.rest import Json
from tests.lab.test_faults import ROOT

POOL = "slices"
BURSTS = {
    "realClusters": True,
    "sampleS": 2,
    "leastRequests": 5,
    "leastSamples": 3,
    "windowS": 20,
    "horizonS": 6,
    "calmS": 4,
    # The load of a test has no yesterday.
    "foresee": False,
}


class PlaneWorld:
    """`fleet` is the plane; the rest looks at it."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self._prices = folder / "prices.csv"
        self.price(a=300, b=400)
        (folder / "fleet.yaml").write_text(yaml.safe_dump(self._document()))
        read = fleet_and_catalogue(folder / "fleet.yaml")
        self.fleet = LiveFleet(*read, folder / "state", speed=1.0, counters_s=1.0)

    def price(self, **per_hour: int) -> None:
        """What a slice costs in each cluster from now on."""
        heads = ",".join(f"{name}/{POOL}" for name in per_hour)
        row = ",".join(str(value) for value in per_hour.values())
        fresh = self._prices.with_suffix(".new")
        fresh.write_text(f"time,{heads}\n{time.time() - 60.0:.0f},{row}\n")
        fresh.rename(self._prices)

    def status(self, name: str) -> WorkloadStatus:
        return self.fleet.store.fetch_workload(name).status

    def decisions(self, name: str) -> list[Decision]:
        return [entry.decision for entry in self.fleet.store.list_journal(workload=name, limit=1000)]

    def pods(self, cluster: str, tenant: str = "search") -> list[Json]:
        found: list[Json] = self.lab[cluster].api.get(f"/api/v1/namespaces/dure-{tenant}/pods")["items"]
        return found

    def _document(self) -> Json:
        document: Json = yaml.safe_load((ROOT / "examples" / "serving" / "fleet.yaml").read_text())
        spec = document["spec"]
        [first] = spec["clusters"]
        spec["clusters"] = [
            {**first, "name": name, "connect": {"kubeconfig": str(self.lab[name].kubeconfig_path)}}
            for name in self.lab
        ]
        spec["priceSource"] = {"from": str(self._prices), "fresh": "1s", "capacity": "owned"}
        # A test's moves are minutes apart, not days.
        moves = {"movesAtOnce": 2, "moveCooldownH": 0.0}
        spec["policies"] = [
            {"name": "moves", "verb": "place", "settings": moves},
            {"name": "bursts", "verb": "scale", "settings": BURSTS},
        ]
        return document


@contextlib.contextmanager
def plane_world(lab: Lab, folder: Path) -> Iterator[PlaneWorld]:
    made = PlaneWorld(lab, folder)
    made.fleet.start()
    try:
        yield made
    finally:
        made.fleet.stop()
