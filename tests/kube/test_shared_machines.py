"""Services that share machines, on a real cluster: its scheduler pushes placeholders aside, its nodes come and go."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.lab import Lab
from tests.kube.shared_world import LEAST, MOST, SPARE, Fronts, World
from tests.kube.world import api_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FILE = """
namespace: serving
services:
  chat: {min: 2, max: 10, carries: 2, front: "http://ADDRESS/chat"}
  code: {min: 2, max: 10, carries: 2, front: "http://ADDRESS/code"}
share: {services: [chat, code], placeholders: spare-nodes, boot: 120, start: 15, most: 12}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["test"]) as lab:
        yield lab["test"]


@pytest.fixture
def world(cluster: Cluster, tmp_path: Path) -> Iterator[World]:
    """Three replicas of each and two warm machines."""
    with api_of(cluster) as api:
        world = World(cluster, api, tmp_path)
        world.begin(chat=3, code=3, spare=2)
        assert world.nodes() == 8
        yield world


def test_a_surge_takes_warm_machines_then_idle_replicas_and_machines_follow(world: World) -> None:
    warm = set(world.seats(SPARE).values())
    world.play(lambda: world.replicas("chat") == 5, "both warm machines", boots=False, chat=8.0, code=4.0)
    assert warm < set(world.seats("chat").values())
    assert world.replicas("code") == 3, "which needs what it has"

    world.play(lambda: world.replicas("chat") == 6, "one that is idle", boots=False, chat=18.0, code=0.2)
    assert (world.replicas("code"), world.nodes()) == (LEAST, 8)
    world.play(lambda: world.replicas(SPARE) == 4, "as many as there may be", boots=False, chat=18.0, code=0.2)
    world.plan()
    assert (world.levers.fetch(SPARE).ready, world.nodes()) == (4, MOST), "booted, and nobody runs there yet"

    push_aside(world)

    world.play(lambda: world.replicas("chat") == 10, "what has booted", chat=18.0, code=0.2)
    world.play(lambda: world.nodes() <= 6, "machines that nobody needs to go", chat=2.0, code=2.0)
    world.play(lambda: world.replicas("code") >= 4, "the other's surge", chat=2.0, code=8.0)


def push_aside(world: World) -> None:
    """A replica that loses its machine gets that of a placeholder at once, which waits for another."""
    before, (lost, node) = set(world.seats(SPARE)), min(world.seats("chat").items())
    path = f"/api/v1/nodes/{node}"
    world.cluster.api.patch(path, {"spec": {"unschedulable": True}})
    world.cluster.api.delete(f"/api/v1/namespaces/serving/pods/{lost}")
    until(lambda: world.rests() and lost not in world.seats("chat"), "the replica elsewhere")
    (gone,) = before - set(world.seats(SPARE))
    assert gone in world.pushed_aside()
    assert world.levers.fetch(SPARE).ready == 3
    world.cluster.api.patch(path, {"spec": {"unschedulable": False}})
    until(world.rests, "a placeholder on the machine that is back")


def test_the_command_does_it_and_a_look_changes_nothing(world: World, tmp_path: Path) -> None:
    with Fronts({"chat": 40.0, "code": 0.5}) as fronts:
        file = tmp_path / "services.yaml"
        file.write_text(FILE.replace("ADDRESS", fronts.address))
        arguments = ["-f", str(file), "--kubeconfig", str(world.cluster.kubeconfig_path), "--every", "0.5"]
        command = [sys.executable, "-m", "dure", "scale", "replicas", *arguments]
        looked = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "Nothing was changed" in looked.stdout
        assert [line.split()[-1] for line in looked.stdout.splitlines() if line.startswith("c")] == ["shared"] * 2
        assert (world.replicas("chat"), world.replicas("code"), world.replicas(SPARE)) == (3, 3, 2)
        with subprocess.Popen([*command, "--apply"], stdout=subprocess.PIPE, text=True) as running:
            until(lambda: world.replicas("chat") == 6 and world.replicas(SPARE) == 4, "a surge that is answered")
            running.send_signal(signal.SIGINT)
            told, _ = running.communicate()
        assert running.returncode == 0
        assert "chat: " in told
        assert world.replicas("code") == LEAST
        until(world.rests, "six and two replicas, and placeholders that wait")
