"""A training job in real containers that is moved between two clusters: its result is that of an undisturbed run."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from dure.model.decision import Move
from dure.model.demand import Demand
from dure.model.units import HOUR_S
from dure.model.workload import AcceptedClass, Phase, Workload, WorkloadType
from examples.training.store import Folder
from lab import images
from lab.lab import Lab
from lab.rest import Json
from tests.fixtures.object_store import ObjectStore, object_store
from tests.kube.world import install_crds, until
from tests.lab.test_faults import ROOT
from tests.node.plane_world import POOL, PlaneWorld, plane_world
from tests.node.serving import node_processes

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
EXAMPLE = ROOT / "examples" / "training"
STEPS, EVERY = 600, 100
PATIENCE_S = 240.0


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
            made[name].kubectl("label", "node", "real-0", f"dure.dev/pool={POOL}")
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
        tenant="search",
        type=WorkloadType.TRAINING,
        classes=(AcceptedClass("virtual-slice"),),
        demand=Demand(devices=1, memory_mib=64, cpu_milli=100, host_memory_mib=128),
        # Whoever is nearly done is left alone.
        duration_s=2 * HOUR_S,
        checkpoint_s=1.0,
        interruptible=True,
        template=json.dumps({"spec": spec}),
    )


def test_a_job_that_the_plane_moves_at_a_checkpoint_ends_with_the_result_of_an_undisturbed_run(
    lab: Lab, tmp_path: Path
) -> None:
    alone = Folder(tmp_path / "alone")
    command = [sys.executable, str(EXAMPLE / "train.py"), "--steps", str(STEPS), "--every", str(EVERY)]
    subprocess.run([*command, "--folder", str(tmp_path / "alone")], check=True, capture_output=True)
    wanted = alone.read("result.json")
    assert wanted is not None
    with contextlib.ExitStack() as stack:
        for name in lab:
            stack.enter_context(node_processes(lab[name], tmp_path / name))
        with plane_world(lab, fresh(tmp_path / "folder")) as world:
            assert moved(world, InFolder(tmp_path / "moved")) == wanted
        with plane_world(lab, fresh(tmp_path / "bucket")) as world, object_store() as store:
            assert moved(world, InBucket(store)) == wanted
            assert not store.refused


def fresh(folder: Path) -> Path:
    folder.mkdir()
    return folder


def moved(world: PlaneWorld, kept: Kept) -> bytes | None:
    """The result of a job that begins in one cluster and, when the other has become cheaper, ends there."""
    until(lambda: len({one.cluster for one in world.fleet.store.list_reports()}) == 2, "both agents", PATIENCE_S)
    world.fleet.desk.submit(fit(kept, pause_s=3.0))
    until(lambda: kept.read("checkpoint.pickle") is not None, "the first checkpoint", PATIENCE_S)
    assert home(world) == "a"
    until(lambda: world.status("fit").done_s > 0, "safe work in the record", PATIENCE_S)
    world.price(a=300, b=100)
    until(lambda: any(isinstance(one, Move) for one in world.decisions("fit")), "the decision to move", PATIENCE_S)
    assert kept.read("result.json") is None
    until(lambda: "begins at step" in said(world), "its beginning in the second home", PATIENCE_S)
    assert not world.pods("a"), "never in two homes"
    assert f"begins at step 0 of {STEPS}" not in said(world)
    until(lambda: world.status("fit").phase.ended, "its end", PATIENCE_S)
    assert (world.status("fit").phase, home(world)) == (Phase.DONE, "b")
    for name in world.lab:
        until(lambda name=name: not world.pods(name), "the end of its pods", PATIENCE_S)  # type: ignore[misc]
    return kept.read("result.json")


def home(world: PlaneWorld) -> str:
    placement = world.status("fit").placement
    return placement.cluster if placement else ""


def said(world: PlaneWorld) -> str:
    """What it has printed in the second home so far."""
    begun = [pod for pod in world.pods("b") if pod["status"]["phase"] in ("Running", "Succeeded")]
    return "".join(world.lab["b"].kubectl("logs", "-n", "dure-search", pod["metadata"]["name"]) for pod in begun)
