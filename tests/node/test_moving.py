"""A served model that is moved between two clusters while it is asked: warm there first, then gone here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dure.adapters.clock import RealClock
from dure.embedded.members import Member
from dure.files.builtin import catalogue
from dure.files.documents import read_files
from dure.model.accelerator import ShareMode
from dure.model.cluster import ClusterInfo
from dure.model.fleet import ClusterSpec, Connect, PoolSpec
from dure.model.report import Desired
from dure.model.tariff import Capacity, Tariff
from dure.model.workload import Placement
from lab.cluster import Cluster
from lab.lab import Lab
from tests.chaos.waiting import free_port
from tests.kube.world import FixedPlane, api_of, install_crds, until
from tests.lab.test_faults import ROOT
from tests.node.serving import node_processes, serving_image
from tests.node.traffic import Load, front, p95_ms

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
CLASS, POOL = "virtual-slice", "slices"
PATIENCE_S = 240.0
AT_ONCE, LEAST = 4, 300


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


def agent(cluster: Cluster, plane: FixedPlane) -> Member:
    pool = PoolSpec(
        name=POOL, class_name=CLASS, tariff=Tariff(cluster.name, POOL, CLASS), devices=2, share=(ShareMode.EXCLUSIVE,)
    )
    spec = ClusterSpec(ClusterInfo(cluster.name), Connect(kubeconfig=str(cluster.kubeconfig_path)), (pool,))
    member = Member(spec, catalogue(), api_of(cluster), plane, RealClock())
    member.cluster.start()
    member.runner.start()
    return member


def ready(plane: FixedPlane) -> int:
    return sum(one.ready for report in plane.reports[-1:] for one in report.observed)


def pods(cluster: Cluster) -> int:
    return len(cluster.api.get("/api/v1/namespaces/dure-search/pods")["items"])


def test_no_request_fails_while_a_served_model_moves_to_another_cluster(lab: Lab, tmp_path: Path) -> None:
    [spec] = read_files([ROOT / "examples" / "serving" / "workload.yaml"], catalogue=catalogue()).workloads
    home = Placement("ranker", 1, "a", POOL, CLASS, ShareMode.EXCLUSIVE, Capacity.OWNED, 1, 0.0)
    here = Desired(uid="u-ranker", spec=spec, placement=home)
    there = replace(here, placement=replace(home, cluster="b", generation=2))
    planes = {"a": FixedPlane(here), "b": FixedPlane()}
    port = free_port()
    with contextlib.ExitStack() as stack:
        for name in planes:
            stack.enter_context(node_processes(lab[name], tmp_path / name))
            member = agent(lab[name], planes[name])
            stack.callback(member.stop)
        until(lambda: ready(planes["a"]) == 1, "the service in its first home", PATIENCE_S)
        stack.enter_context(front(tmp_path, port, "dure-search", "dure.dev/workload=ranker", lab["a"], lab["b"]))
        load = Load("127.0.0.1", port)
        stack.callback(load.stop)
        load.widen(AT_ONCE)
        until(lambda: len(load.seen) >= LEAST, "answers of the first home", PATIENCE_S)
        planes["b"].desired = (there,)
        until(lambda: ready(planes["b"]) == 1, "a second home that is warm", PATIENCE_S)
        both_s = load.now_s
        planes["a"].desired = ()
        until(lambda: pods(lab["a"]) == 0, "the end of the first home", PATIENCE_S)
        gone_s = load.now_s
        beyond = len(load.seen) + LEAST
        until(lambda: len(load.seen) >= beyond, "answers of the second home", PATIENCE_S)
        load.stop()
    before, then, after = (
        load.between(begin_s, end_s) for begin_s, end_s in ((0.0, both_s), (both_s, gone_s), (gone_s, load.now_s))
    )
    print(f"{len(load.seen)} requests, {len(load.failed)} failed, {len(then)} of them while the first home went")
    print(f"p95 {p95_ms(before)} ms before, {p95_ms(then)} ms then, {p95_ms(after)} ms after")
    assert load.failed == []
    assert then
