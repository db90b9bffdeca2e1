"""A training job in real containers that is moved between two clusters: its result is that of an undisturbed run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from msgspec.structs import replace

from dure.adapters.clock import RealClock
from dure.embedded.members import Member
from dure.model.accelerator import AcceleratorProfile, DataType, Kind, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterInfo
from dure.model.demand import Demand
from dure.model.fleet import ClusterSpec, Connect, PoolSpec
from dure.model.report import Desired, Observed
from dure.model.tariff import Capacity, Tariff
from dure.model.workload import AcceptedClass, Placement, Workload, WorkloadType
from examples.training.store import Folder
from lab import images
from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.fixtures.object_store import ObjectStore, object_store
from tests.kube.world import FixedPlane, api_of, install_crds, until
from tests.lab.test_faults import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
EXAMPLE = ROOT / "examples" / "training"
STEPS, EVERY = 600, 100
PLAIN = AcceleratorProfile(
    name="plain",
    vendor="",
    kind=Kind.NPU,
    memory_mib=1024,
    bandwidth_gbs=10.0,
    tops={DataType.FP32: 0.1},
    peak_w=20.0,
    idle_w=5.0,
    share=(ShareMode.EXCLUSIVE,),
)
CATALOGUE = Catalogue(classes={"plain": PLAIN}, models={})


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    names = ["a", "b"]
    with Lab(
        names,
        real_nodes=dict.fromkeys(names, 1),
        off={name: {"kube-scheduler"} for name in names},
        first=install_crds,
    ) as made:
        image = images.python(tmp_path, "training", ["numpy"], {"/app": EXAMPLE}, ["/app/train.py"])
        for name in names:
            made[name].real[0].load(image)
            made[name].kubectl("label", "node", "real-0", "dure.dev/pool=here")
        yield made


class Kept(Protocol):
    """Where a job keeps its checkpoints, seen from here and from its pod."""

    def read(self, name: str) -> bytes | None: ...

    def spec(self, container: Json) -> Json: ...


class InFolder(Folder):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._host = {"path": str(path), "type": "DirectoryOrCreate"}

    def spec(self, container: Json) -> Json:
        mounted = {**container, "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}]}
        mounted["args"] = [*container["args"], "--folder", "/checkpoints"]
        return {"containers": [mounted], "volumes": [{"name": "checkpoints", "hostPath": self._host}]}


class InBucket:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, name: str) -> bytes | None:
        return self._store.objects.get(f"/models/fit/{name}")

    def spec(self, container: Json) -> Json:
        env = [{"name": name, "value": value} for name, value in self._store.environment().items()]
        args = [*container["args"], "--folder", "s3://models/fit"]
        # The store listens on this machine's loopback alone.
        return {"hostNetwork": True, "containers": [{**container, "args": args, "env": env}]}


def fit(kept: Kept, pause_s: float) -> Workload:
    arguments = ["--steps", str(STEPS), "--every", str(EVERY), "--pause", str(pause_s)]
    container = {
        "name": "train",
        "image": "dure.lab/training:1",
        "imagePullPolicy": "Never",
        "args": arguments,
    }
    spec = {"terminationGracePeriodSeconds": 1, **kept.spec(container)}
    return Workload(
        name="fit",
        tenant="vision",
        type=WorkloadType.TRAINING,
        classes=(AcceptedClass("plain"),),
        demand=Demand(devices=1, memory_mib=64, cpu_milli=100, host_memory_mib=128),
        duration_s=600.0,
        checkpoint_s=1.0,
        interruptible=True,
        template=json.dumps({"spec": spec}),
    )


def agent(cluster: Cluster, plane: FixedPlane) -> Member:
    tariff = Tariff(cluster.name, "here", "plain")
    pool = PoolSpec(name="here", class_name="plain", tariff=tariff, devices=1, share=(ShareMode.EXCLUSIVE,))
    spec = ClusterSpec(ClusterInfo(cluster.name), Connect(kubeconfig=str(cluster.kubeconfig_path)), (pool,))
    member = Member(spec, CATALOGUE, api_of(cluster), plane, RealClock())
    member.cluster.start()
    member.runner.start()
    return member


def test_a_job_that_is_moved_at_a_checkpoint_ends_with_the_result_of_an_undisturbed_run(
    lab: Lab, tmp_path: Path
) -> None:
    alone = Folder(tmp_path / "alone")
    command = [sys.executable, str(EXAMPLE / "train.py"), "--steps", str(STEPS), "--every", str(EVERY)]
    subprocess.run([*command, "--folder", str(tmp_path / "alone")], check=True, capture_output=True)
    wanted = alone.read("result.json")
    assert wanted is not None
    assert moved(lab, InFolder(tmp_path / "moved")) == wanted
    with object_store() as store:
        assert moved(lab, InBucket(store)) == wanted
        assert not store.refused


def moved(lab: Lab, kept: Kept) -> bytes | None:
    """The result of a job that begins in one cluster and ends in the other."""
    home = Placement("fit", 1, "a", "here", "plain", ShareMode.EXCLUSIVE, Capacity.OWNED, 1, 0.0)
    wanted = Desired(uid=f"u-{type(kept).__name__.lower()}", spec=fit(kept, pause_s=2.0), placement=home)
    planes = {"a": FixedPlane(wanted), "b": FixedPlane()}
    members = [agent(lab[name], planes[name]) for name in planes]
    try:
        until(lambda: kept.read("checkpoint.pickle") is not None, "the first checkpoint")
        until(lambda: any(one.done_s > 0 for one in seen(planes["a"])), "safe work in a report")
        planes["a"].desired = ()
        until(lambda: not pods(lab["a"]), "the end of its pod in the first home")
        assert kept.read("result.json") is None
        planes["b"].desired = (replace(wanted, placement=replace(home, cluster="b", generation=2)),)
        until(lambda: kept.read("result.json") is not None, "the result")
        [name] = pods(lab["b"])
        said = lab["b"].kubectl("logs", "-n", "dure-vision", name)
        planes["b"].desired = ()
        until(lambda: not pods(lab["b"]), "the end of its pod in the second home")
    finally:
        for member in members:
            member.stop()
    assert f"begins at step 0 of {STEPS}" not in said
    return kept.read("result.json")


def seen(plane: FixedPlane) -> list[Observed]:
    return [one for report in plane.reports[-1:] for one in report.observed]


def pods(cluster: Cluster) -> list[str]:
    found = cluster.api.get("/api/v1/namespaces/dure-vision/pods")["items"]
    return [one["metadata"]["name"] for one in found]
