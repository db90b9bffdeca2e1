"""One workload the whole way: submitted, placed, bound, given a slice, computing, counted, billed."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dure.cli.state import find
from lab.cluster import Cluster
from lab.lab import Lab
from lab.rest import Json
from tests.chaos.waiting import free_port
from tests.kube.chaos import Process
from tests.kube.test_up import dure
from tests.kube.world import until
from tests.lab.objects import has_condition
from tests.lab.test_faults import ROOT
from tests.node.serving import Client, node_processes, serving_image

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
EXAMPLE = ROOT / "examples" / "serving"
PODS = "/api/v1/namespaces/dure-search/pods"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Lab(["a"], real_nodes={"a": 1}, off={"a": {"kube-scheduler"}}) as lab:
        found = lab["a"]
        found.real[0].load(serving_image(tmp_path / "image"))
        found.kubectl("label", "node", "real-0", "dure.dev/pool=slices")
        yield found


def test_a_served_model_goes_from_submit_to_bill(cluster: Cluster, tmp_path: Path) -> None:
    fleet = yaml.safe_load((EXAMPLE / "fleet.yaml").read_text())
    fleet["spec"]["clusters"][0]["connect"] = {"kubeconfig": str(cluster.kubeconfig_path)}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    state, log = tmp_path / "state", tmp_path / "up.log"
    options = ["--fleet", str(tmp_path / "fleet.yaml"), "--state", str(state), "--port", str(free_port())]
    plane = Process(log, "up", *options)
    with node_processes(cluster, tmp_path / "node") as node:
        plane.start()
        try:
            until(lambda: "/login?code=" in log.read_text(), "the plane")
            until(lambda: any(one.get("free_devices") for one in asked(state, "/v1/pools")["items"]), "slices in it")
            submitted = time.time()
            dure(state, "submit", "-f", str(EXAMPLE / "workload.yaml"))
            pod = ready_pod(cluster)
            client = Client(pod["status"]["podIP"])
            assert client.infer() == 200
            print_stages(submitted, pod, time.time())
            assert [client.infer() for _ in range(49)] == [200] * 49
            assert len(node.held()) == 1
            until(lambda: workload(state)["status"].get("requests") == 50, "requests in the plane")
            assert workload(state)["status"]["phase"] == "running"
            dure(state, "cancel", "ranker")
            until(lambda: not cluster.api.get(PODS)["items"], "the end of its pod")
            until(lambda: not node.held(), "its slice is free")
            until(lambda: bool(charges(state)), "what it is charged")
            charged = sum(one["micros"] for one in charges(state))
            assert charged == workload(state)["status"]["spent_micros"] > 0
        finally:
            plane.close()


def workload(state: Path) -> Json:
    found: Json = asked(state, "/v1/workloads/ranker")
    return found


def charges(state: Path) -> list[Json]:
    found: list[Json] = asked(state, "/v1/charges?tenant=search")["items"]
    return found


def asked(state: Path, path: str) -> Any:
    """Without the command line: it takes seconds to start on a machine that is busy with containers."""
    url, token = find(state)
    answer = httpx.get(f"{url}{path}", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    answer.raise_for_status()
    return answer.json()


def ready_pod(cluster: Cluster) -> Json:
    listed = cluster.api.until(
        PODS,
        lambda found: bool(found["items"]) and has_condition("Ready")(found["items"][0]),
        what="a pod that is ready",
        timeout_s=120.0,
    )
    pod: Json = listed["items"][0]
    return pod


def print_stages(submitted: float, pod: Json, answered: float) -> None:
    """Seconds since the submission; the cluster's own times are whole seconds."""
    conditions = {one["type"]: one["lastTransitionTime"] for one in pod["status"]["conditions"]}
    started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    times = {
        "pod made": pod["metadata"]["creationTimestamp"],
        "bound": conditions["PodScheduled"],
        "container started": started,
        "ready": conditions["Ready"],
    }
    for stage, text in times.items():
        at = datetime.datetime.fromisoformat(text).timestamp()
        print(f"{stage}: {at - submitted:+.1f} s")
    print(f"first answer: {answered - submitted:+.1f} s")
