"""What the plane does by itself with a served model in real containers: it bursts, and moves when prices change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dure.files.builtin import catalogue
from dure.files.documents import read_files
from dure.model.decision import Move, ScaleReplicas
from dure.model.workload import Phase, Workload
from lab.lab import Lab
from tests.chaos.waiting import free_port
from tests.kube.world import install_crds, until
from tests.lab.test_faults import ROOT
from tests.node.plane_world import POOL, PlaneWorld, plane_world
from tests.node.serving import node_processes, serving_image
from tests.node.traffic import Load, front, p95_ms

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
PATIENCE_S = 240.0
# One who asks now and then is answered well within the promise by one replica, so many at once are not.
PROMISE_MS = 200.0
CALM, SURGE, WIDEST = 1, 24, 160
CALM_PAUSE_S = 0.1
DOUBLE_S = 15.0
LEAST = 50


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    names = ["a", "b"]
    off = {name: {"kube-scheduler"} for name in names}
    with Lab(names, real_nodes=dict.fromkeys(names, 1), off=off, first=install_crds) as made:
        image = serving_image(tmp_path / "image")
        for name in names:
            made[name].real[0].load(image)
            made[name].kubectl("label", "node", "real-0", f"dure.dev/pool={POOL}")
        yield made


def ranker() -> Workload:
    [spec] = read_files([ROOT / "examples" / "serving" / "workload.yaml"], catalogue=catalogue()).workloads
    return replace(spec, slo=replace(spec.slo, latency_p95_ms=PROMISE_MS))


def home(world: PlaneWorld) -> tuple[str, int, int]:
    """Cluster, replicas wanted, replicas ready."""
    status = world.status("ranker")
    return (status.placement.cluster, status.placement.replicas, status.ready) if status.placement else ("", 0, 0)


def test_the_plane_bursts_a_served_model_and_moves_it_when_prices_change_and_no_request_fails(
    lab: Lab, tmp_path: Path
) -> None:
    port = free_port()
    with contextlib.ExitStack() as stack:
        for name in lab:
            stack.enter_context(node_processes(lab[name], tmp_path / name))
        world = stack.enter_context(plane_world(lab, tmp_path))
        until(lambda: len({one.cluster for one in world.fleet.store.list_reports()}) == 2, "both agents", PATIENCE_S)
        world.fleet.desk.submit(ranker())
        until(lambda: home(world) == ("a", 1, 1), "the service in the cheaper home", PATIENCE_S)
        stack.enter_context(front(tmp_path, port, "dure-search", "dure.dev/workload=ranker", lab["a"], lab["b"]))
        load = Load("127.0.0.1", port)
        stack.callback(load.stop)
        bursts(world, load)
        moves(world, load)
        load.stop()
        steps = [one for one in world.decisions("ranker") if isinstance(one, ScaleReplicas)]
        [moved] = [one for one in world.decisions("ranker") if isinstance(one, Move)]
    print(f"{len(load.seen)} requests, {len(load.failed)} failed")
    assert load.failed == []
    assert [(one.before, one.after) for one in steps] == [(1, 2), (2, 1)], steps
    assert "late" in steps[0].reason
    assert moved.placement.cluster == "b"
    assert moved.saving > 0


def bursts(world: PlaneWorld, load: Load) -> None:
    """A surge gets the second slice at once; it goes back when the surge is over, and those who ask do not notice."""
    load.widen(CALM, CALM_PAUSE_S)
    until(lambda: len(load.seen) >= LEAST, "a calm beginning", PATIENCE_S)
    surge_s = load.now_s

    def granted() -> bool:
        load.widen(min(WIDEST, SURGE * 2 ** int((load.now_s - surge_s) / DOUBLE_S)))
        return home(world)[1] == 2

    until(granted, "a second slice", PATIENCE_S)
    granted_s = load.now_s
    until(lambda: home(world) == ("a", 2, 2), "its replica", PATIENCE_S)
    ready_s = load.now_s
    beyond = len(load.seen) + 20 * LEAST
    until(lambda: len(load.seen) >= beyond, "answers of both", PATIENCE_S)
    calm_s = load.now_s
    load.widen(CALM, CALM_PAUSE_S)
    until(lambda: home(world)[1] == 1, "the slice given back", PATIENCE_S)
    returned_s = load.now_s
    until(lambda: len(world.pods("a")) == 1, "the end of its pod", PATIENCE_S)
    alone, both = load.between(surge_s + 1.0, ready_s), load.between(ready_s, calm_s)
    print(f"slice granted after {granted_s - surge_s:.1f} s, ready after {ready_s - surge_s:.1f} s")
    print(f"p95 in the surge {p95_ms(alone)} ms with one, {p95_ms(both)} ms with two")
    print(f"given back {returned_s - calm_s:.1f} s after the end of the surge")


def moves(world: PlaneWorld, load: Load) -> None:
    """The other cluster becomes cheaper: it is warm there before it goes here."""
    begin_s = load.now_s
    world.price(a=300, b=100)
    until(lambda: world.status("ranker").incoming is not None, "the decision to move", PATIENCE_S)
    decided_s = load.now_s
    assert len(world.pods("a")) == 1
    until(lambda: home(world)[0] == "b", "the switch", PATIENCE_S)
    switched_s = load.now_s
    until(lambda: not world.pods("a"), "the end of the first home", PATIENCE_S)
    gone_s = load.now_s
    beyond = len(load.seen) + LEAST
    until(lambda: len(load.seen) >= beyond, "answers of the second home", PATIENCE_S)
    assert world.status("ranker").phase is Phase.RUNNING
    then = load.between(switched_s, gone_s)
    assert then
    print(f"decided {decided_s - begin_s:.1f} s after the price, warm {switched_s - decided_s:.1f} s later")
    spans = ((begin_s, decided_s), (decided_s, gone_s), (gone_s, load.now_s))
    before, while_moving, after = (p95_ms(load.between(*span)) for span in spans)
    print(f"p95 {before} ms before, {while_moving} ms while it moved, {after} ms after")
