"""Lab clusters with a real node each under a plane that decides by itself: `dure up` as a process of its own.

Prices and carbon are read from files, as `priceSource` and `carbonSource` of a fleet say; `price` and `carbon` write
new ones. Counters of the pods are read every second instead of every fifteen, and the rules of the burst are as much
shorter. Workloads come in over the API; what became of them is read from the plane's own store.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import yaml

from dure.adapters.store import open_store
from dure.cli.state import find
from dure.model.decision import Decision
from dure.model.workload import WorkloadStatus
from lab.lab import Lab
from lab.rest import Json
from tests.chaos.waiting import free_port
from tests.kube.chaos import Process
from tests.kube.world import install_crds, until
from tests.lab.test_faults import ROOT

POOL = "slices"
GRIDS = {"a": "KR", "b": "NO"}
HOURS = 96
PATIENCE_S = 240.0
BURSTS = {
    "realClusters": True,
    "sampleS": 2,
    "leastRequests": 5,
    "leastSamples": 3,
    "windowS": 20,
    "horizonS": 6,
    # Longer than a test looks at both replicas: in the surge they are calm too.
    "calmS": 20,
    # The load of a test has no yesterday.
    "foresee": False,
}


class PlaneWorld:
    """`store` is the plane's; `log` is what it printed."""

    def __init__(self, lab: Lab, folder: Path, slices: int) -> None:
        self.lab = lab
        self._slices = slices
        self.log = folder / "up.log"
        self._prices, self._carbon = folder / "prices.csv", folder / "carbon.csv"
        self.price(a=3.0, b=3.3)
        self.carbon(a=50, b=50)
        file, self._state = folder / "fleet.yaml", folder / "state"
        file.write_text(yaml.safe_dump(self._document()))
        options = ["--fleet", str(file), "--state", str(self._state), "--port", str(free_port()), "--counters", "1"]
        self._process = Process(self.log, "up", *options)
        self._files = contextlib.ExitStack()

    def start(self) -> None:
        self._process.start()
        until(lambda: "/login?code=" in self.log.read_text(), "the plane", PATIENCE_S)
        self.store = self._files.enter_context(contextlib.closing(open_store(f"sqlite:///{self._state / 'dure.db'}")))
        until(lambda: len({one.cluster for one in self.store.list_reports()}) == 2, "both agents", PATIENCE_S)

    def stop(self) -> None:
        self._process.close()
        self._files.close()

    def login_url(self) -> str:
        """Works once, as the address that `dure up` prints does."""
        found = re.search(r"https?://\S+/login\?code=\S+", self.log.read_text())
        assert found is not None
        return found.group()

    def price(self, **per_hour: float) -> None:
        """What a slice costs in each cluster from now on."""
        heads = ",".join(f"{name}/{POOL}" for name in per_hour)
        row = ",".join(str(value) for value in per_hour.values())
        _write(self._prices, f"time,{heads}\n{time.time() - 60.0:.0f},{row}\n")

    def carbon(self, **g_per_kwh: float) -> None:
        """What each cluster's grid emits from this hour on."""
        heads = ",".join(GRIDS[name] for name in g_per_kwh)
        row = ",".join(str(value) for value in g_per_kwh.values())
        begin_s = int(time.time() // 3600) * 3600
        rows = "".join(f"{begin_s + hour * 3600},{row}\n" for hour in range(HOURS))
        _write(self._carbon, f"time,{heads}\n{rows}")

    def submit(self, document: Json) -> None:
        url, token = find(self._state)
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/yaml",
            "Idempotency-Key": uuid.uuid4().hex,
        }
        answer = httpx.post(
            f"{url}/v1/workloads", content=yaml.safe_dump(document), headers=headers, timeout=60.0, trust_env=False
        )
        assert answer.is_success, answer.text

    def status(self, name: str) -> WorkloadStatus:
        return self.store.fetch_workload(name).status

    def home(self, name: str) -> tuple[str, int, int]:
        """Cluster, replicas wanted, replicas ready."""
        status = self.status(name)
        return (status.placement.cluster, status.placement.replicas, status.ready) if status.placement else ("", 0, 0)

    def decisions(self, name: str) -> list[Decision]:
        return [entry.decision for entry in self.store.list_journal(workload=name, limit=1000)]

    def pods(self, cluster: str, tenant: str = "search") -> list[Json]:
        found: list[Json] = self.lab[cluster].api.get(f"/api/v1/namespaces/dure-{tenant}/pods")["items"]
        return found

    def _document(self) -> Json:
        document: Json = yaml.safe_load((ROOT / "examples" / "serving" / "fleet.yaml").read_text())
        spec = document["spec"]
        [first] = spec["clusters"]
        first["pools"][0]["devices"] = self._slices
        spec["clusters"] = [
            {
                **first,
                "name": name,
                "grid": GRIDS[name],
                "connect": {"kubeconfig": str(self.lab[name].kubeconfig_path)},
            }
            for name in self.lab
        ]
        spec["priceSource"] = {"from": str(self._prices), "fresh": "1s", "capacity": "owned"}
        spec["carbonSource"] = {"from": str(self._carbon), "fresh": "1s"}
        spec["carbonPrice"] = "200000/tCO2e"
        # A test's moves are minutes apart, not days.
        moves = {"movesAtOnce": 2, "moveCooldownH": 0.0}
        spec["policies"] = [
            {"name": "moves", "verb": "place", "settings": moves},
            {"name": "bursts", "verb": "scale", "settings": BURSTS},
        ]
        return document


def _write(path: Path, text: str) -> None:
    """Whole or not at all: the plane reads it whenever it wants."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def example(name: str) -> Json:
    """The workload of an example, as a user would submit it."""
    document: Json = yaml.safe_load((ROOT / "examples" / name / "workload.yaml").read_text())
    return document


@contextlib.contextmanager
def plane_lab(*images: Path) -> Iterator[Lab]:
    """Two clusters with a real node each, which has these images."""
    names = ["a", "b"]
    off = {name: {"kube-scheduler"} for name in names}
    with Lab(names, real_nodes=dict.fromkeys(names, 1), off=off, first=install_crds) as made:
        for name in names:
            for image in images:
                made[name].real[0].load(image)
            made[name].kubectl("label", "node", "real-0", f"dure.dev/pool={POOL}")
        yield made


@contextlib.contextmanager
def plane_world(lab: Lab, folder: Path, slices: int = 2) -> Iterator[PlaneWorld]:
    """Each node offers so many slices."""
    made = PlaneWorld(lab, folder, slices)
    try:
        made.start()
        yield made
    finally:
        made.stop()
