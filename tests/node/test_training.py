"""A training job in real containers that is moved between two clusters: its result is that of an undisturbed run."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from dure.model.decision import Move
from dure.model.workload import Phase
from examples.training.store import Folder
from lab.lab import Lab
from lab.rest import Json
from tests.chaos.waiting import free_port
from tests.fixtures.object_store import ObjectStore, object_store
from tests.kube.world import until
from tests.lab.test_faults import ROOT
from tests.node.plane_world import PATIENCE_S, PlaneWorld, example, plane_lab, plane_world
from tests.node.serving import node_processes, training_image

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
EXAMPLE = ROOT / "examples" / "training"
STEPS, EVERY = 600, 100


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with plane_lab(training_image(tmp_path)) as made:
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


def fit(kept: Kept, pause_s: float) -> Json:
    """The example with fewer steps, and its checkpoints where the test can see them."""
    document = example("training")
    [container] = document["spec"]["template"]["spec"]["containers"]
    container = {name: container[name] for name in ("name", "image", "imagePullPolicy")}
    port = free_port()
    container["args"] = ["--steps", str(STEPS), "--every", str(EVERY), "--pause", str(pause_s), "--port", str(port)]
    # Whoever is nearly done is left alone. By the clock none would be kept before the test is over.
    document["spec"] |= {"duration": "2h", "checkpoint": "30min"}
    shown = {"annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)}}
    spec = {"terminationGracePeriodSeconds": 1, **kept.spec(container)}
    document["spec"]["template"] = {"metadata": shown, "spec": spec}
    return document


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
    world.submit(fit(kept, pause_s=3.0))
    until(lambda: kept.read("checkpoint.pickle") is not None, "the first checkpoint", PATIENCE_S)
    assert world.home("fit")[0] == "a"
    begun_s = time.time()
    until(lambda: world.status("fit").done_s > 0, "safe work in the record", PATIENCE_S)
    saved_s = world.status("fit").saved_s
    assert saved_s is not None
    assert begun_s - PATIENCE_S < saved_s < time.time(), "the word of the pod, not the clock's"
    world.price(a=3.0, b=1.0)
    until(lambda: any(isinstance(one, Move) for one in world.decisions("fit")), "the decision to move", PATIENCE_S)
    assert kept.read("result.json") is None
    until(lambda: "begins at step" in said(world), "its beginning in the second home", PATIENCE_S)
    assert not world.pods("a"), "never in two homes"
    assert f"begins at step 0 of {STEPS}" not in said(world)
    until(lambda: world.status("fit").phase.ended, "its end", PATIENCE_S)
    assert (world.status("fit").phase, world.home("fit")[0]) == (Phase.DONE, "b")
    for name in world.lab:
        until(lambda name=name: not world.pods(name), "the end of its pods", PATIENCE_S)  # type: ignore[misc]
    return kept.read("result.json")


def said(world: PlaneWorld) -> str:
    """What it has printed in the second home so far."""
    begun = [pod for pod in world.pods("b") if pod["status"]["phase"] in ("Running", "Succeeded")]
    return "".join(world.lab["b"].kubectl("logs", "-n", "dure-search", pod["metadata"]["name"]) for pod in begun)
