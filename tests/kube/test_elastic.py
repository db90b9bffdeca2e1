"""An elastic gang on a real cluster: its pods change their number at checkpoints, and the plane is killed twice."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from dure.model.errors import NotFound
from lab.cluster import Cluster
from lab.errors import ApiError
from lab.fixtures import LabFactory
from lab.rest import Json
from tests.chaos.waiting import free_port
from tests.kube.chaos import FLEET, Process
from tests.kube.checker import overcommitted
from tests.kube.test_up import dure, said
from tests.kube.world import until as until_soon

# A size changes at a checkpoint, and pods of the lab take their time on a busy machine.
PATIENCE_S = 300.0
pytestmark = [pytest.mark.lab, pytest.mark.slow]

GANG = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: grow, tenant: vision}
spec:
  type: training
  gang: 2
  speedups: [{replicas: 2, speed: 1.0}, {replicas: 4, speed: 1.7}, {replicas: 6, speed: 2.3}]
  checkpoint: 10s
  interruptible: true
  classes: [a100-40gb-sxm]
  demand: {devices: 1, memory: 10GiB, cpu: 1, hostMemory: 1GiB}
  duration: 20h
  deferrable: false
"""
OTHER = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: need, tenant: vision}
spec:
  type: training
  gang: 4
  classes: [a100-40gb-sxm]
  demand: {devices: 1, memory: 10GiB, cpu: 1, hostMemory: 1GiB}
  duration: 20h
  deferrable: false
"""


class Watcher(threading.Thread):
    """Looks at the gang's pods all the time: members of two sizes that are seated at once are two gangs."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster, self._done = cluster, threading.Event()
        self.twice: list[set[str]] = []
        self.sizes: dict[str, int] = defaultdict(int)

    def run(self) -> None:
        while not self._done.wait(0.1):
            try:
                seated = [pod for pod in pods_of(self._cluster, "grow") if pod["spec"].get("nodeName")]
            except (ApiError, OSError):
                continue
            jobs = {pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in seated}
            if len(jobs) > 1:
                self.twice.append(jobs)
            for job in jobs:
                self.sizes[job] = max(self.sizes[job], len(seated))

    def stop(self) -> None:
        self._done.set()
        self.join()


class World:
    """`dure up` over one lab cluster with eight devices."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.state = cluster, folder, folder / "state"
        fleet = yaml.safe_load(FLEET)
        [first] = fleet["spec"]["clusters"]
        first["connect"] = {"kubeconfig": str(cluster.kubeconfig_path)}
        [pool] = first["pools"]
        pool["nodes"] = 2
        pool["devices"] = 4
        (folder / "fleet.yaml").write_text(yaml.safe_dump(fleet))
        arguments = ("--fleet", str(folder / "fleet.yaml"), "--state", str(self.state), "--port", str(free_port()))
        self.plane = Process(folder / "log", "up", *arguments)

    def submit(self, name: str, text: str) -> None:
        (self.folder / f"{name}.yaml").write_text(text)
        dure(self.state, "submit", "-f", str(self.folder / f"{name}.yaml"))

    def status(self, name: str) -> Json:
        try:
            found = said(self.state, "get", "workloads", "--all")
        except ValueError:
            return {}
        return next((one["status"] for one in found if one["spec"]["name"] == name), {})

    def runs_with(self, name: str, size: int) -> Callable[[], bool]:
        """That the plane says so, and that as many pods run."""

        def reached() -> bool:
            status = self.status(name)
            home = status.get("placement") or {}
            ready = [pod for pod in pods_of(self.cluster, name) if pod["status"].get("phase") == "Running"]
            return status.get("phase") == "running" and home.get("replicas") == size == len(ready)

        return reached

    def done_s(self) -> float:
        return float(self.status("grow").get("done_s", 0.0))


def until(reached: Callable[[], bool], what: str) -> None:
    until_soon(reached, what, PATIENCE_S)


def pods_of(cluster: Cluster, name: str) -> list[Json]:
    path = f"/api/v1/namespaces/dure-vision/pods?labelSelector=dure.dev/workload={name}"
    found: list[Json] = cluster.api.get(path)["items"]
    return found


@pytest.fixture
def world(lab_factory: LabFactory, tmp_path: Path) -> Iterator[World]:
    lab = lab_factory(["m"], off={"m": {"kube-scheduler"}}, default_run_s=100_000.0)
    lab["m"].add_nodes([{"group": "big", "count": 2, "gpu": {"count": 4}, "labels": {"dure.dev/pool": "big"}}])
    world = World(lab["m"], tmp_path)
    world.plane.start()
    yield world
    world.plane.close()


def test_a_gang_of_real_pods_grows_gives_back_and_survives_its_plane(world: World) -> None:
    until(lambda: bool(_clusters(world)), "the cluster's first report")
    watcher = Watcher(world.cluster)
    watcher.start()
    world.submit("grow", GANG)
    until(world.runs_with("grow", 6), "six members in the free devices")
    before = world.done_s()
    assert before >= 10.0

    # Two are free and four are needed; the plane dies with the wish in its queue and comes back.
    world.submit("need", OTHER)
    world.plane.kill()
    world.plane.start()
    until(world.runs_with("need", 4), "the other gang in what was given back")
    until(world.runs_with("grow", 4), "four members of the elastic gang beside it")
    after = world.done_s()
    assert after >= before
    assert overcommitted(world.cluster.api) == []
    told = [_told(pod).get("DURE_GANG_SIZE") for pod in pods_of(world.cluster, "grow")]
    assert told == ["4"] * 4

    # Killed while old members end and new ones are not there yet: one gang comes out of it, larger again.
    dure(world.state, "cancel", "need")
    until(lambda: _size(world) == 6, "the decision to grow again")
    world.plane.kill()
    world.plane.start()
    until(world.runs_with("grow", 6), "six members again")
    assert world.done_s() >= after
    watcher.stop()
    assert watcher.twice == []
    assert sorted(watcher.sizes.values()) == [2, 4, 6, 6]
    assert world.status("grow").get("restarts", 0) == 0
    assert overcommitted(world.cluster.api) == []


def _told(pod: Json) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}


def _size(world: World) -> int:
    return int((world.status("grow").get("placement") or {}).get("replicas", 0))


def _clusters(world: World) -> list[Json]:
    try:
        return [one for one in said(world.state, "get", "clusters") if one.get("observed_s")]
    except (ValueError, NotFound):
        return []
