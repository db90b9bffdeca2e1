"""A served model that the real autoscaler makes larger and smaller while it is asked: what users notice of it.

    python -m tests.node.scaling --requests 20000

`examples/serving` as `dure render serving --scaler hpa` makes it, on a real node (kubelet, containerd, device plugin
and daemon), scaled by the real kube-controller-manager from the requests that its pods say they have inside, asked
through `dure front`, which follows its pods. A round is one surge: calm, half as many again as one slice can answer
until both have answered for a while, calm again until one is gone. Rounds are kept in a file; an interrupted run goes
on behind them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from dure.cli.render import command as render
from lab.cluster import Cluster
from lab.lab import Lab
from lab.metrics_api import MetricsApi, Question
from tests.chaos.waiting import free_port
from tests.kube.world import until
from tests.lab.test_faults import ROOT
from tests.node.serving import Client, node_processes, serving_image
from tests.node.traffic import CORES, SLICES, Load, Surge, front, in_time, p95_ms

EXAMPLE = ROOT / "examples" / "serving"
NAMESPACE = "dure-search"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SYNC = ["--horizontal-pod-autoscaler-sync-period=5s"]
# What the example promises.
PROMISE_MS, KEPT = 400.0, 0.95
CALM = 2
PATIENCE_S = 300.0


def objects(hold_s: int) -> list[dict[str, Any]]:
    """What `dure render` makes of the example; only the time that the autoscaler waits before it shrinks is ours."""
    options = ["--fleet", str(EXAMPLE / "fleet.yaml"), "-f", str(EXAMPLE / "workload.yaml"), "--cluster", "a"]
    answer = CliRunner().invoke(render, ["serving", *options, "--scaler", "hpa"], catch_exceptions=False)
    made = [each for each in yaml.safe_load_all(answer.stdout) if each["kind"] != "PodMonitor"]
    [scaler] = [each for each in made if each["kind"] == "HorizontalPodAutoscaler"]
    scaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = hold_s
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [namespace, *made]


class World:
    """The service on its node, and the front before it."""

    def __init__(self, cluster: Cluster, port: int, hold_s: float) -> None:
        self._cluster = cluster
        self._hold_s = hold_s
        self.port = port

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._cluster.api.get(PODS)["items"]
        return found

    def ready(self) -> list[str]:
        """Addresses of the replicas that may be asked."""
        return [
            pod["status"]["podIP"]
            for pod in self.pods()
            if "deletionTimestamp" not in pod["metadata"]
            and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
        ]

    def round(self, least: int) -> dict[str, Any]:
        """Calm, surge, calm; at least so many requests."""
        load = Load("127.0.0.1", self.port)
        try:
            load.offer(CALM)
            until(lambda: len(load.seen) >= min(50, least), "a calm beginning", PATIENCE_S)
            surge = Surge(load, PATIENCE_S)
            surge.until(lambda: len(self.ready()) == 2, "a second replica that is ready")
            grown_s = load.now_s
            surge.settle()
            settled_s = load.now_s
            # To the autoscaler two replicas that keep up look like one too many: it may take one back when this ends.
            until(lambda: load.now_s >= settled_s + self._hold_s / 2.0, "answers of both replicas", PATIENCE_S)
            shrink_s = load.now_s
            load.offer(CALM)
            until(lambda: len(self.pods()) == 1, "one replica again", PATIENCE_S)
            gone_s = load.now_s
            beyond = len(load.seen) + 50
            until(lambda: len(load.seen) >= max(beyond, least), "requests behind the change", 4 * PATIENCE_S)
        finally:
            load.stop()
        alone, both = load.between(surge.begin_s + 1.0, grown_s), load.between(settled_s, shrink_s)
        leaving = load.between(shrink_s, gone_s)
        return {
            "requests": len(load.seen),
            "failed": len(load.failed),
            "statuses": sorted({one.status for one in load.failed}),
            "seconds": round(load.now_s, 1),
            "slice_per_s": round(surge.capacity, 1),
            "surge_per_s": round(surge.per_s, 1),
            "grow_s": round(grown_s - surge.begin_s, 1),
            "alone_p95_ms": p95_ms(alone),
            "alone_in_time": in_time(alone, PROMISE_MS),
            "both_p95_ms": p95_ms(both),
            "both_in_time": in_time(both, PROMISE_MS),
            "while_leaving": len(leaving),
            "leaving_p95_ms": p95_ms(leaving),
            "load_average": round(os.getloadavg()[0], 1),
        }


def inside(cluster: Cluster, question: Question) -> list[dict[str, Any]] | None:
    """What an adapter would answer: the requests inside of each pod, read from the pod itself."""
    if question.metric != "vllm_num_requests":
        return None
    found = []
    for pod in cluster.api.get(PODS)["items"]:
        with contextlib.suppress(OSError):
            text = Client(pod["status"]["podIP"]).get("/metrics")[1].decode() if pod["status"].get("podIP") else ""
            values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith("vllm:num_requests")]
            if values:
                found.append(_item(pod["metadata"]["name"], sum(map(float, values))))
    return found


def _item(pod: str, value: float) -> dict[str, Any]:
    return {
        "describedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": pod, "apiVersion": "v1"},
        "metric": {"name": "vllm_num_requests"},
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "value": f"{round(value)}",
    }


@contextlib.contextmanager
def world(folder: Path, hold_s: int) -> Iterator[World]:
    flags = {"a": {"kube-controller-manager": SYNC}}
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Lab(["a"], real_nodes={"a": 1}, flags=flags))
        cluster = lab["a"]
        cluster.real[0].load(serving_image(folder / "image"))
        cluster.kubectl("label", "node", "real-0", "dure.dev/class=virtual-slice")
        stack.enter_context(node_processes(cluster, folder / "node", SLICES, CORES))
        stack.enter_context(MetricsApi(cluster, lambda question: inside(cluster, question)))
        cluster.apply(*objects(hold_s)[:1])
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        cluster.api.until(account, lambda _: True, what="the namespace's account")
        cluster.apply(*objects(hold_s)[1:])
        made = World(cluster, free_port(), hold_s)
        until(lambda: len(made.ready()) == 1, "the first replica", PATIENCE_S)
        stack.enter_context(front(folder, made.port, NAMESPACE, "app.kubernetes.io/name=ranker", cluster))
        yield made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="in all rounds together")
    parser.add_argument("--round", type=int, default=5_000, help="in each round at least")
    parser.add_argument("--hold", type=int, default=60, help="seconds of calm before the autoscaler shrinks")
    parser.add_argument("--file", type=Path, default=Path("build/scaling.json"), help="rounds so far")
    given = parser.parse_args()
    rounds: list[dict[str, Any]] = json.loads(given.file.read_text()) if given.file.exists() else []
    given.file.parent.mkdir(parents=True, exist_ok=True)
    if _asked(rounds) < given.requests:
        with tempfile.TemporaryDirectory(prefix="dure-scaling-") as folder, world(Path(folder), given.hold) as made:
            while (left := given.requests - _asked(rounds)) > 0:
                rounds.append(made.round(min(given.round, left)))
                given.file.write_text(json.dumps(rounds, indent=1))
                print(f"round {len(rounds)}: {_asked(rounds)} of {given.requests}: {rounds[-1]}", file=sys.stderr)
    failed = sum(one["failed"] for one in rounds)
    kept = sum(one["both_in_time"] >= KEPT for one in rounds)
    told = {"requests": _asked(rounds), "failed": failed, "surges": len(rounds), "kept": kept, "rounds": rounds}
    print(json.dumps(told, indent=1))
    sys.exit(1 if failed else 0)


def _asked(rounds: list[dict[str, Any]]) -> int:
    return sum(one["requests"] for one in rounds)


if __name__ == "__main__":
    main()
